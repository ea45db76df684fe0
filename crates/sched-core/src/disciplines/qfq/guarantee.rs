//! Bounds that QFQ guarantees to a flow (for the derivations see `docs/proofs/fair-queueing.md`).

use core::num::{NonZeroU32, NonZeroU64};

use super::Qfq;
use super::group::QfqFlow;
use super::virtual_time::Width;
use crate::flow_scheduler::Table;
use crate::guarantee::ceil;
use crate::{FlowId, Guarantee, Share};

impl<N: Table<QfqFlow>> Qfq<N> {
    /// Returns the bounds guaranteed to `flow` in the current configuration, or `None` if it was
    /// not added. Cost: two divisions.
    ///
    /// The guarantee holds while no flow is configured or removed. After such a change nothing is
    /// guaranteed to any flow until no flow is backlogged; from that instant on the guarantee holds
    /// again (`docs/guarantees.md`, *When flows and weights change*). If links stay busy and
    /// weights change, use [`Wf2q`](crate::Wf2q).
    ///
    /// Let `φ` be the share of the flow among all flows added, and `φ'` (at most 1) its share if
    /// only those flows counted with which `V` runs fastest. `s` is the width of the flow's slots
    /// in bytes of the flow, `L_k` the flow's longest packet, and `L` the longest packet of the
    /// scheduler.
    ///
    /// - B-WFI `≤ max(3s + φ'L + (1 − φ)L_k, 2s + (φ + φ')L)`,
    /// - fairness `ω = (3s + φ'L + (1 − φ)L_k)/φ`.
    ///
    /// `s` is at least `L_k` and less than `2·L_k`, with two exceptions. If `L_k < L/28`, `⌈L/28⌉`
    /// replaces `L_k`. If the weight of the flow is far above all others, its slots are the
    /// narrowest possible, those of group 0.
    #[must_use]
    pub fn guarantee(&self, flow: FlowId) -> Option<Guarantee> {
        let k = self.flows.as_ref().get(flow.index())?;
        let inverse = u64::from(NonZeroU32::new(k.inverse)?.get());
        // In units of virtual time. A byte of the link adds at least `one` and at most `most` to V;
        // φ = one / inverse, and φ' = most / inverse.
        let one = NonZeroU64::new(self.core.weights.least_per_byte().into())?;
        let most = u64::from(self.core.weights.most_per_byte());
        let share = Share::new(one.get().min(inverse), inverse).ok()?;
        let slot = Width::of_group(k.group.into()).span();
        let longest = u64::from(self.core.max_len);
        let own = inverse.saturating_sub(one.get()) * u64::from(k.max_len);
        // At most 3 · 2^46 + 2^46 + 2^46.
        let tail = 3 * slot + longest * most + own;
        let latency = tail.max(2 * slot + longest * (one.get() + most));
        let bytes = |span: u64| ceil(span.into(), one);
        Some(Guarantee { share, latency: bytes(latency), fairness: bytes(tail) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowScheduler, QfqConfig};

    /// Latency and `ω` of flows of weights 1, 1 and 2: `φ` is 1/4, 1/4 and 1/2. `V` runs at most
    /// twice as fast, as if only the heaviest counted: `φ'` is 1/2, 1/2 and 1.
    fn promised(longest: u32, max_lens: [u32; 3]) -> [(u64, u64); 3] {
        let mut qfq = Qfq::new([QfqFlow::EMPTY; 3], longest).unwrap();
        for (flow, (weight, max_len)) in (0..).map(FlowId).zip([1, 1, 2].into_iter().zip(max_lens))
        {
            qfq.configure(flow, QfqConfig { weight, max_len }, None).unwrap();
        }
        assert_eq!(qfq.guarantee(FlowId(3)), None);
        [0, 1, 2].map(|flow| {
            let promise = qfq.guarantee(FlowId(flow)).unwrap();
            (promise.latency, promise.fairness)
        })
    }

    /// Goal: each term of the bounds is as documented, neither tighter nor looser.
    #[test]
    fn the_bounds_of_three_flows_are_those_computed_by_hand() {
        // L = 1,000. s = 128: 384 + 500 + 75 = 959 and 256 + 750 = 1,006, of a quarter.
        // s = 64, as L/28 is 36: 192 + 500 + 0.75 = 692.75 and 128 + 750 = 878, of a quarter.
        // s = 128: 384 + 1,000 + 50 = 1,434 and 256 + 1,500 = 1,756, of a half.
        assert_eq!(
            promised(1_000, [100, 1, 100]),
            [(4_024, 3_836), (3_512, 2_771), (3_512, 2_868)]
        );
        // L = 500, s = 128: 384 + 250 + 75 = 709, which is more than 256 + 375; s = 512 of the
        // last: 1,536 + 500 + 250 = 2,286.
        assert_eq!(
            promised(500, [100, 100, 500]),
            [(2_836, 2_836), (2_836, 2_836), (4_572, 4_572)]
        );
    }
}
