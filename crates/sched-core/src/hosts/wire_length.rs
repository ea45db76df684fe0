//! Packet lengths on the wire.

/// Converts packet lengths into lengths on the wire.
///
/// Rates and ceilings count bytes on the wire. `shaper::Overhead` implements the framing of a link.
pub trait WireLength: Copy + core::fmt::Debug {
    /// Returns the bytes on the wire of a packet of `len` bytes. 0 counts as 1.
    fn wire_len(&self, len: u32) -> u32;
}

/// No framing: the length on the wire is the length of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsBooked;

impl WireLength for AsBooked {
    #[inline]
    fn wire_len(&self, len: u32) -> u32 {
        len
    }
}
