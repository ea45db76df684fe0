//! Packets as a scheduler sees them: a handle, a length and two ECN bits, but never the bytes.
//!
//! The bytes stay in one of the caller's buffers, and the *handle* is the number of that buffer. It
//! is also the index of the 16-byte [`Descriptor`](crate::Descriptor) that describes the packet
//! while it is queued. So no free list is needed, and a scheduler detects a handle that it already
//! has in its queue (`docs/decisions/0004-the-handle-is-the-buffer-number.md`). Under
//! [`Classes`](crate::Classes) each class has its own descriptors: a handle queued in one class is
//! accepted by another and leaves once from each, so the caller must use different handles for
//! different classes.

/// A flow number: the index of the flow's queue, below the number of flows of the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FlowId(pub u32);

impl FlowId {
    /// A number that no flow has.
    pub const NONE: Self = Self(u32::MAX);

    /// Returns the flow's index in a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The ECN codepoint in the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Ecn {
    /// `00`: not ECN-capable; congestion is signalled by a drop.
    #[default]
    NotEct,
    /// `01`: ECN-capable, scalable congestion control (RFC 9331).
    Ect1,
    /// `10`: ECN-capable, classic congestion control.
    Ect0,
    /// `11`: congestion experienced.
    Ce,
}

impl Ecn {
    /// Returns the codepoint as in the header, `0..=3`.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Reads the codepoint from the low two bits of `byte`; the higher bits are ignored.
    #[must_use]
    pub const fn from_bits(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns true if congestion may be signalled by a mark.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A packet as it passes into and out of a scheduler.
///
/// ```
/// use sched_core::{Ecn, Packet};
///
/// // The packet in buffer 7: 1,500 bytes from a sender that supports ECN.
/// let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(7, 1_500) };
/// assert!(packet.ecn.is_capable());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Packet {
    /// The caller's buffer number, below the number of descriptors. Unique among the queued
    /// packets, in all classes of a hierarchy.
    pub handle: u32,
    /// Length in bytes, `1..=`[`Packet::MAX_LEN`], which fairness and the byte limit count. Link
    /// framing is added by the shaper.
    pub len: u32,
    /// The codepoint of the header. [`Ecn::Ce`] on the way out if an AQM marked the packet: the
    /// caller must then rewrite the header.
    pub ecn: Ecn,
}

impl Packet {
    /// The longest packet: 1 MiB, above the largest IPv6 jumbo super-packet that hosts build today.
    pub const MAX_LEN: u32 = 1 << 20;

    /// Creates a packet that is not ECN-capable.
    #[must_use]
    pub const fn new(handle: u32, len: u32) -> Self {
        Self { handle, len, ecn: Ecn::NotEct }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_survive_the_round_trip() {
        for bits in 0..=255_u8 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits & 3);
        }
        assert!(!Ecn::NotEct.is_capable());
        assert!(Ecn::Ect0.is_capable() && Ecn::Ect1.is_capable() && Ecn::Ce.is_capable());
    }
}
