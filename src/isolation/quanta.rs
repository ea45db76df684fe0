//! The cost of a packet in a turn, independent of the longest packet permitted.
//!
//! A turn must be worth the longest packet, so quanta are at least the longest one permitted. A
//! packet is charged a multiple of its length: the number of times that the longest packet sent so
//! far, or a frame if that is longer, fits into the longest one permitted. So a turn is worth less
//! than two of these, and hosts have shares in proportion to their quanta. When a longer packet is
//! sent, the multiple decreases. Earlier charges stay: they cost a flow or a host less than a turn.
//! A rebuild resets the multiple.

use crate::IsolatedConfig;

/// Converts lengths of packets to costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quanta {
    /// The longest packet sent, at least a frame.
    longest: u32,
    /// The cost of a byte; `longest` bytes cost no more than the longest packet permitted.
    scale: u32,
}

impl Quanta {
    /// Creates the costs before anything was sent, for packets of up to `max_len` bytes.
    pub(super) fn new(max_len: u32) -> Self {
        let mut quanta = Self { longest: 0, scale: 1 };
        quanta.grow(IsolatedConfig::A_FRAME, max_len);
        quanta
    }

    /// Returns the cost of a packet of `len` bytes, which was [noted](Self::note).
    #[inline(always)]
    pub(super) const fn cost(&self, len: u32) -> u32 {
        len.wrapping_mul(self.scale)
    }

    /// Records that a packet of `len` bytes is sent, where `max_len` are permitted.
    #[inline(always)]
    pub(super) fn note(&mut self, len: u32, max_len: u32) {
        if len > self.longest {
            self.grow(len, max_len);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, longest: u32, max_len: u32) {
        self.longest = longest;
        self.scale = max_len.checked_div(longest).unwrap_or(1).max(1);
    }
}
