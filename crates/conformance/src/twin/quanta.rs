//! Cost of packets in a turn.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

/// Length of a full Ethernet frame, the minimum for the longest packet: a packet's cost is scaled
/// up by at most `max_len / A_FRAME`.
const A_FRAME: u32 = 1_514;

/// Cost of packets in all rings of a queue. Clones share the length of the longest packet sent.
#[derive(Clone, Debug, Default)]
pub(super) struct NaiveQuanta {
    /// Longest permitted packet; zero if the cost of a packet is its length.
    max_len: u32,
    longest: Arc<AtomicU32>,
}

impl NaiveQuanta {
    pub(super) fn new(max_len: u32) -> Self {
        Self { max_len, ..Self::default() }
    }

    /// Resets the longest packet sent.
    pub(super) fn begin_anew(&self) {
        self.longest.store(0, Relaxed);
    }

    /// Records a sent packet of `len` bytes.
    pub(super) fn note(&self, len: u32) {
        self.longest.fetch_max(len, Relaxed);
    }

    /// Returns the cost of `len` bytes.
    pub(super) fn cost(&self, len: u32) -> i64 {
        let longest = self.longest.load(Relaxed).max(A_FRAME);
        i64::from(len) * i64::from((self.max_len / longest).max(1))
    }
}
