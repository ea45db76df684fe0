//! Measurements, and their comparison with guarantees.

use freeboard::sched_core::{Guarantee, Share};

use super::ceil;

/// Measurements of a flow by a [`WfiMeter`](super::WfiMeter); fractions of bytes are rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WfiReport {
    /// Share that the flow was measured against.
    pub share: Share,
    /// Packets dequeued.
    pub packets: u64,
    /// Shortest of these packets in bytes; `u32::MAX` if there was none.
    pub shortest: u32,
    /// B-WFI over intervals that end at any time, in bytes.
    pub b_wfi: u64,
    /// B-WFI over intervals that end with a packet of the flow, in bytes.
    pub b_wfi_at_completion: u64,
    /// T-WFI of the packets dequeued, in bytes of link time.
    pub t_wfi: u64,
    /// Maximum by which the flow fell behind the link, `W − W_k/φ`, in bytes of the link.
    pub lag: u64,
    /// Maximum by which the flow ran ahead of the link, `W_k/φ − W`, in bytes of the link, with
    /// service charged at the dequeue. Unbounded while other flows are idle, since the flow then
    /// receives more than its share.
    pub lead: u64,
}

/// A measurement and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Name of the measure.
    pub what: &'static str,
    /// Measured value in bytes, rounded up.
    pub measured: u64,
    /// Bound in bytes, rounded up.
    pub bound: u64,
}

impl Compared {
    /// Returns true if the measured value is within the bound.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.measured <= self.bound
    }

    /// Returns `measured / bound` in thousandths, rounded up and saturating; 0 if nothing was
    /// measured.
    #[must_use]
    pub fn per_mille(&self) -> u32 {
        let ratio = ceil(u128::from(self.measured) * 1_000, self.bound.max(1));
        u32::try_from(ratio).unwrap_or(u32::MAX)
    }
}

impl WfiReport {
    /// Compares the measurements with a guarantee: B-WFI, B-WFI at completion, T-WFI.
    ///
    /// The last two bounds are computed for the shortest packet, which makes them the loosest. They
    /// are tight for flows with one packet length, and valid but less tight for others.
    #[must_use]
    pub fn against(&self, guarantee: &Guarantee) -> [Compared; 3] {
        let shortest = if self.packets == 0 { 0 } else { self.shortest };
        let compared = |what, measured, bound| Compared { what, measured, bound };
        [
            compared("B-WFI", self.b_wfi, guarantee.b_wfi()),
            compared(
                "B-WFI at completion",
                self.b_wfi_at_completion,
                guarantee.b_wfi_at_completion(shortest),
            ),
            compared("T-WFI", self.t_wfi, guarantee.t_wfi(shortest)),
        ]
    }

    /// Returns an upper estimate of the relative fairness of this flow and another, in bytes of the
    /// link: the lead of one over the link plus the lag of the other. Close while all shares are in
    /// use; a [`PairMeter`](super::PairMeter) measures the value itself. May be too low if packets
    /// of the two flows are dropped.
    #[must_use]
    pub fn fairness_at_most(&self, other: &Self) -> u64 {
        let ahead = self.lead.saturating_add(other.lag);
        ahead.max(other.lead.saturating_add(self.lag))
    }
}
