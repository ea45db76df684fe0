//! What a packet costs of a turn, which does not depend on the longest packet permitted.
//!
//! A turn must be worth the longest packet, so quanta are for the longest one permitted. A packet
//! costs a multiple of its length: as many times as a frame, and the longest packet sent so far, go
//! into the longest one permitted. So a turn is worth less than two of the longest packets sent,
//! and the shares of hosts are those of their quanta. A longer packet makes shorter ones cheaper.
//! What was charged before stays: it costs a flow or a host less than a turn. The multiple is the
//! first one again when the records are begun anew.

use crate::IsolatedConfig;

/// What packets cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quanta {
    /// The longest packet sent, a frame at least.
    longest: u32,
    /// What a byte costs; `longest` bytes cost no more than the longest packet permitted.
    scale: u32,
}

impl Quanta {
    /// Nothing has been sent; packets of `max_len` bytes are permitted.
    pub(super) fn new(max_len: u32) -> Self {
        let mut quanta = Self { longest: 0, scale: 1 };
        quanta.grow(IsolatedConfig::A_FRAME, max_len);
        quanta
    }

    /// Returns what a packet of `len` bytes costs, which was [noted](Self::note).
    #[inline(always)]
    pub(super) const fn cost(&self, len: u32) -> u32 {
        len.wrapping_mul(self.scale)
    }

    /// A packet of `len` bytes is sent, where `max_len` are permitted.
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
