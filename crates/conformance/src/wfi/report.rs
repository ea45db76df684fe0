//! What was measured, beside what is promised.

use freeboard::sched_core::{Guarantee, Share};

use super::ceil;

/// The measurements that a [`WfiMeter`](super::WfiMeter) took of a flow; fractions of bytes are
/// rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WfiReport {
    /// The share it was measured against.
    pub share: Share,
    /// Packets dequeued.
    pub packets: u64,
    /// The shortest of them, in bytes; `u32::MAX` if there was none.
    pub shortest: u32,
    /// B-WFI over intervals that end at any instant, in bytes.
    pub b_wfi: u64,
    /// B-WFI over intervals that end with a packet of the flow, in bytes.
    pub b_wfi_at_completion: u64,
    /// T-WFI of the packets dequeued, in bytes of link time.
    pub t_wfi: u64,
    /// The most by which the flow fell behind the link, `W − W_k/φ`, in bytes of the link.
    pub lag: u64,
    /// The most by which it ran ahead of the link, `W_k/φ − W`, in bytes of the link, service
    /// charged at the dequeue. Without a bound while others are idle: then a flow has more than
    /// its share.
    pub lead: u64,
}

/// A measurement and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// What it is.
    pub what: &'static str,
    /// In bytes, rounded up.
    pub measured: u64,
    /// In bytes, rounded up.
    pub bound: u64,
}

impl Compared {
    /// Whether the promise was kept.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.measured <= self.bound
    }

    /// `measured / bound` in thousandths, rounded up and saturating; 0 if nothing was measured.
    #[must_use]
    pub fn per_mille(&self) -> u32 {
        let ratio = ceil(u128::from(self.measured) * 1_000, self.bound.max(1));
        u32::try_from(ratio).unwrap_or(u32::MAX)
    }
}

impl WfiReport {
    /// Measured against promised: B-WFI, B-WFI at completion, T-WFI.
    ///
    /// The last two bounds are those of the shortest packet, the loosest: right for flows of one
    /// packet length, for others right too but not as sharp.
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

    /// An upper estimate of the relative fairness of this flow and another, in bytes of the link:
    /// what one ran ahead of the link and the other fell behind it. Close while all shares are in
    /// use; a [`PairMeter`](super::PairMeter) measures it. Where packets of the two are dropped, it
    /// may be too low.
    #[must_use]
    pub fn fairness_at_most(&self, other: &Self) -> u64 {
        let ahead = self.lead.saturating_add(other.lag);
        ahead.max(other.lead.saturating_add(self.lag))
    }
}
