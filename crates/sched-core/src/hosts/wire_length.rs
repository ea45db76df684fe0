//! Lengths on the wire.

/// What a packet of a length that is booked takes on the wire.
///
/// Rates and ceilings count bytes on the wire. `shaper::Overhead` is the one of a link.
pub trait WireLength: Copy + core::fmt::Debug {
    /// Bytes on the wire of a packet of `len` bytes. 0 counts as 1.
    fn wire_len(&self, len: u32) -> u32;
}

/// Packets are as long on the wire as they are booked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsBooked;

impl WireLength for AsBooked {
    #[inline]
    fn wire_len(&self, len: u32) -> u32 {
        len
    }
}
