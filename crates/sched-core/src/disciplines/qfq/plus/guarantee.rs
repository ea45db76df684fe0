//! Bounds that QFQ+ guarantees to a flow (`docs/proofs/fair-queueing.md` has
//! the derivation).

use core::num::NonZeroU64;

use super::super::virtual_time::Width;
use super::{Aggregate, PlusFlow, QfqFlow, QfqPlus};
use crate::flow_scheduler::Table;
use crate::guarantee::ceil;
use crate::{FlowId, Guarantee, Share};

impl<N: Table<PlusFlow>, A: Table<Aggregate>, Q: Table<QfqFlow>> QfqPlus<N, A, Q> {
    /// Returns the bounds guaranteed to `flow` in the current configuration, or `None` if it was
    /// not added. Cost: two divisions.
    ///
    /// Like that of [`Qfq`](crate::Qfq::guarantee), the guarantee holds while no flow is configured
    /// or removed, and after a change from the next instant at which no flow is backlogged.
    ///
    /// Let `φ` be the share of the flow among all flows added, and `φ'` as in
    /// [`Qfq`](crate::Qfq::guarantee). `s` is the width of the flow's slots in bytes of the flow,
    /// `L_k` the flow's longest packet, `n` the number of members of its aggregate, and `B` the
    /// longest budget: `M` longest packets of the scheduler.
    ///
    /// - B-WFI `≤ max(3s + φ'B + (1 − nφ)L_k, 2s + (φ + φ')B) + ((n − 1)(3L_k − 2) + L_k)/n`. The
    ///   first term is that of QFQ with `B` for the longest packet, and the rest is for the turns
    ///   of the other members;
    /// - fairness: none, [`Guarantee::fairness`] is `u64::MAX`. A flow whose fellow members are
    ///   idle gets their share besides its own, up to `n` times as much as a flow of another
    ///   aggregate.
    #[must_use]
    pub fn guarantee(&self, flow: FlowId) -> Option<Guarantee> {
        let k = self.flows.as_ref().get(flow.index())?;
        let members = u64::from(self.aggregates.as_ref().get(k.aggregate as usize)?.members);
        let node = self.nodes.as_ref().get(k.aggregate as usize)?;
        // In units of virtual time. A byte of the aggregate adds `inverse`; a byte of the link at
        // least `one` and at most `most`.
        let inverse = u64::from(node.inverse);
        let one = NonZeroU64::new(self.core.weights.least_per_byte().into())?;
        let most = u64::from(self.core.weights.most_per_byte());
        let share = Share::new(one.get().min(inverse), inverse.checked_mul(members)?).ok()?;
        let slot = Width::of_group(node.group.into()).span();
        let budget = u64::from(self.core.max_len);
        let longest = u64::from(k.max_len);
        // At most 3 · 2^46 + 2^49 + 2^49, and less than 2^21 · 2^30 for the turns.
        let own = inverse.saturating_sub(one.get()) * members * longest;
        let aggregate =
            (3 * slot + budget * most + own).max(2 * slot + budget * (one.get() + most));
        let turns = members.saturating_sub(1) * (3 * longest - 2) + longest;
        let latency = ceil((aggregate + turns * inverse).into(), one);
        Some(Guarantee { share, latency, fairness: u64::MAX })
    }
}
