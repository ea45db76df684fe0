//! What a scheduler knows of a packet: a handle, a length, two bits of ECN. Never its bytes.
//!
//! The bytes stay in a buffer of the caller's, and the *handle* is the number of that buffer. It is
//! also the index of the 16-byte [`Descriptor`](crate::Descriptor) that describes the packet while
//! it is queued. So there is no free list, and the scheduler whose descriptor it is notices a
//! handle that is given in while it is queued (`docs/decisions/
//! 0004-the-handle-is-the-buffer-number.md`). Under [`Classes`](crate::Classes) each
//! class has descriptors of its own. A handle that is queued in one class is accepted by another
//! and leaves once from each, so the caller keeps the handles of classes apart.

/// A flow, by number: the index of its queue, below the number of flows of the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FlowId(pub u32);

impl FlowId {
    /// A number that no flow has.
    pub const NONE: Self = Self(u32::MAX);

    /// The flow's place in a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The two ECN bits of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Ecn {
    /// `00`: the sender does not understand marks; congestion is told by a drop.
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
    /// The codepoint as it stands in the header, `0..=3`.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// The codepoint in the low two bits of `byte`; the higher bits are ignored.
    #[must_use]
    pub const fn from_bits(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Whether congestion may be told by a mark.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A packet as it passes in and out of a scheduler.
///
/// ```
/// use sched_core::{Ecn, Packet};
///
/// // What is in buffer 7: 1,500 bytes whose sender understands marks.
/// let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(7, 1_500) };
/// assert!(packet.ecn.is_capable());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Packet {
    /// The caller's buffer number; unique among the packets queued, in all classes of a hierarchy,
    /// below the number of descriptors.
    pub handle: u32,
    /// Bytes, `1..=`[`Packet::MAX_LEN`]: what fairness and the byte limit count. The framing of
    /// the link is the shaper's business.
    pub len: u32,
    /// What the header says on the way in. [`Ecn::Ce`] on the way out where an AQM has marked the
    /// packet: the caller then rewrites the header.
    pub ecn: Ecn,
}

impl Packet {
    /// No packet is longer: 1 MiB, above the largest IPv6 jumbo super-packet that hosts build
    /// today.
    pub const MAX_LEN: u32 = 1 << 20;

    /// A packet that is not ECN-capable.
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
