//! The cost of packets in a turn.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

/// A frame: packets cost no more than that many of theirs go into the longest.
const A_FRAME: u32 = 1_514;

/// The cost of packets in all rings of a queue. Clones share the longest packet sent.
#[derive(Clone, Debug, Default)]
pub(super) struct NaiveQuanta {
    /// The longest packet permitted; zero if packets cost their length.
    max_len: u32,
    longest: Arc<AtomicU32>,
}

impl NaiveQuanta {
    pub(super) fn new(max_len: u32) -> Self {
        Self { max_len, ..Self::default() }
    }

    /// No packet has been sent.
    pub(super) fn begin_anew(&self) {
        self.longest.store(0, Relaxed);
    }

    /// A packet of `len` bytes is sent.
    pub(super) fn note(&self, len: u32) {
        self.longest.fetch_max(len, Relaxed);
    }

    /// Returns what `len` bytes cost.
    pub(super) fn cost(&self, len: u32) -> i64 {
        let longest = self.longest.load(Relaxed).max(A_FRAME);
        i64::from(len) * i64::from((self.max_len / longest).max(1))
    }
}
