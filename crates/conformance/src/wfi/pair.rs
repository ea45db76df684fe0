//! Exact relative fairness of two flows.

use freeboard::sched_core::{FlowId, Share};

use super::ceil;

/// A meter for `|W_a/φ_a − W_b/φ_b|` over all intervals in which two flows both stay backlogged,
/// with service charged at the dequeue: the relative fairness bound (Golestani 1994; QFQ eq. 28).
///
/// Report the events of the two flows that the flow scheduler receives; events of other flows are
/// ignored. O(1) per event, no division. Exact as long as `denominator_a · numerator_b · bytes`
/// stays below 2^127 in one joint backlog, and saturating above: with shares of 2^30 parts, 2^67
/// bytes.
///
/// ```
/// use conformance::wfi::PairMeter;
/// use sched_core::{FlowId, Share};
/// let mut pair = PairMeter::new((FlowId(0), Share::new(1, 4)?), (FlowId(1), Share::new(3, 4)?));
/// pair.backlogged(FlowId(0));
/// pair.backlogged(FlowId(1));
/// pair.dequeued(FlowId(0), 100); // 400 bytes of the link
/// pair.dequeued(FlowId(1), 100); // 133 1/3
/// assert_eq!(pair.measured(), 400);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PairMeter {
    flows: [FlowId; 2],
    shares: [Share; 2],
    backlogged: [bool; 2],
    /// `W_a/φ_a − W_b/φ_b` since both are backlogged, times both numerators: lowest, current and
    /// highest.
    low: i128,
    now: i128,
    high: i128,
    /// Largest `high − low` so far.
    pub(super) widest: u128,
}

impl PairMeter {
    /// Creates a meter for two idle flows with their shares.
    #[must_use]
    pub const fn new(a: (FlowId, Share), b: (FlowId, Share)) -> Self {
        Self {
            flows: [a.0, b.0],
            shares: [a.1, b.1],
            backlogged: [false; 2],
            low: 0,
            now: 0,
            high: 0,
            widest: 0,
        }
    }

    /// Records that `flow` has become backlogged.
    pub fn backlogged(&mut self, flow: FlowId) {
        self.set(flow, true);
    }

    /// Records the dequeue of a packet of `len` bytes of `flow`. If none is left,
    /// [`PairMeter::emptied`] has to follow.
    pub fn dequeued(&mut self, flow: FlowId, len: u32) {
        if self.backlogged != [true; 2] {
            return;
        }
        let ([first, second], [a, b]) = (self.flows, self.shares);
        let scaled = |own: Share, other: Share| {
            let factor = u128::from(own.denominator()).saturating_mul(other.numerator().into());
            i128::try_from(factor.saturating_mul(len.into())).unwrap_or(i128::MAX)
        };
        if flow == first {
            self.now = self.now.saturating_add(scaled(a, b));
        } else if flow == second {
            self.now = self.now.saturating_sub(scaled(b, a));
        }
        self.low = self.low.min(self.now);
        self.high = self.high.max(self.now);
        self.widest = self.widest.max(self.high.abs_diff(self.low));
    }

    /// Records that `flow` has become empty.
    pub fn emptied(&mut self, flow: FlowId) {
        self.set(flow, false);
    }

    /// Returns the largest `|W_a/φ_a − W_b/φ_b|` so far, in bytes of the link, rounded up. Cost:
    /// two divisions.
    #[must_use]
    pub fn measured(&self) -> u64 {
        let [a, b] = self.shares;
        // Rounding up twice equals rounding up once: ⌈⌈x/m⌉/n⌉ = ⌈x/mn⌉.
        ceil(self.widest.div_ceil(a.numerator().into()), b.numerator())
    }

    fn set(&mut self, flow: FlowId, backlogged: bool) {
        for (at, state) in self.flows.iter().zip(&mut self.backlogged) {
            if *at == flow && *state != backlogged {
                *state = backlogged;
                (self.low, self.now, self.high) = (0, 0, 0);
            }
        }
    }
}
