//! Bounds that DRR guarantees to a flow (for the derivations see `docs/proofs/drr.md`).

use super::{Drr, DrrFlow};
use crate::flow_scheduler::Table;
use crate::guarantee::ceil;
use crate::{FlowId, Guarantee, Share};

impl<N: Table<DrrFlow>> Drr<N> {
    /// Returns the bounds guaranteed to `flow` in the current configuration, or `None` if it was
    /// not added. Cost: O(flows), to sum the quanta.
    ///
    /// Let `Q` be the quantum of the flow, `F` the sum of all quanta, `φ = Q/F`, `L` the longest
    /// packet, and `L̄ = L − 1` the most by which a turn is overdrawn:
    ///
    /// - B-WFI `≤ (1 − φ)(Q + L̄) + φ·(n − 1)·L̄ + φL` for `n` flows. The last term is for the packet
    ///   in transmission when the flow becomes backlogged, which may belong to a turn before those
    ///   that count;
    /// - fairness `ω = F/2 + L̄/φ`.
    ///
    /// With [sparse flows first](Drr::sparse_first), flows that come and go may be a turn ahead of
    /// flows that stay backlogged: the first term is `(1 − φ)(2Q + L̄)`, and `ω = F + L̄/φ`. If drops
    /// empty another flow, or one is removed, the first term is `(1 − φ)(3Q − 1)`, which is larger
    /// if `Q > L`; the returned bounds do not include this.
    #[must_use]
    pub fn guarantee(&self, flow: FlowId) -> Option<Guarantee> {
        let quantum = self.node(flow)?.quantum();
        let added = self.nodes.as_ref().iter().filter(|node| node.flow.is_added());
        of_ring(quantum, added.map(|node| node.flow.quantum()), self.max_len, self.sparse_first)
    }
}

/// Returns the bounds for a flow with `quantum` among flows with `quanta`, itself included.
pub(crate) fn of_ring(
    quantum: u32,
    quanta: impl Iterator<Item = u32>,
    max_len: u32,
    sparse_first: bool,
) -> Option<Guarantee> {
    let quantum = u64::from(quantum);
    let (flows, frame) = quanta.fold((0_u64, 0_u64), |(flows, frame), quantum| {
        (flows + 1, frame.wrapping_add(quantum.into()))
    });
    let others = flows.saturating_sub(1);
    let share = Share::new(quantum, frame).ok()?;
    let own = core::num::NonZeroU64::new(quantum)?;
    let overdraft = u64::from(max_len).saturating_sub(1);
    let ahead = if sparse_first { 2 } else { 1 };
    // ⌈(F − Q)(Q + L̄)/Q⌉ + (n − 1)L̄ + L, or with 2Q: products below 2^60 · 2^30.
    let turns = u128::from(frame.saturating_sub(quantum)) * u128::from(ahead * quantum + overdraft);
    let overdrafts = others.saturating_mul(overdraft).saturating_add(max_len.into());
    let latency = ceil(turns, own).saturating_add(overdrafts);
    let fairness = (ahead * frame).div_ceil(2).saturating_add(share.link_of(overdraft));
    Some(Guarantee { share, latency, fairness })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowScheduler;

    /// Goal: each term of the bounds is as documented, neither tighter nor looser. Method: quanta
    /// of 1,000, 1,000 and 2,001, `L` = 1,000; expected values computed manually.
    #[test]
    fn the_bounds_of_three_flows_are_those_computed_by_hand() {
        let mut drr = Drr::new([DrrFlow::EMPTY; 4], 1_000).unwrap();
        for (flow, quantum) in [(0, 1_000), (1, 1_000), (2, 2_001)] {
            drr.configure(FlowId(flow), quantum, None).unwrap();
        }
        let promised = |flow| {
            let promise = drr.guarantee(FlowId(flow)).unwrap();
            (promise.share.denominator(), promise.latency, promise.fairness)
        };
        // (F − Q)(Q + L̄)/Q = 3,001 · 1.999 = 5,998.999, and two overdrafts and a packet: 2,998.
        // F/2 = 2,000.5, rounded up before L̄/φ = 3,996.999 is.
        assert_eq!(promised(0), (4_001, 5_999 + 2_998, 2_001 + 3_997));
        // 2,000 · 3,000/2,001 = 2,998.5; L̄/φ = 999 · 4,001/2,001 = 1,997.5.
        assert_eq!(promised(2), (4_001, 2_999 + 2_998, 2_001 + 1_998));
        assert_eq!((drr.guarantee(FlowId(3)), drr.guarantee(FlowId(4))), (None, None));
        let drr = drr.sparse_first();
        let promised = |flow| {
            let promise = drr.guarantee(FlowId(flow)).unwrap();
            (promise.share.denominator(), promise.latency, promise.fairness)
        };
        // 3,001 · 2.999 = 8,999.999; ω = 4,001 + 3,996.999.
        assert_eq!(promised(0), (4_001, 9_000 + 2_998, 4_001 + 3_997));
        // 2,000 · 5,001/2,001 = 4,998.5.
        assert_eq!(promised(2), (4_001, 4_999 + 2_998, 4_001 + 1_998));
        assert_eq!((drr.guarantee(FlowId(3)), drr.guarantee(FlowId(4))), (None, None));
    }
}
