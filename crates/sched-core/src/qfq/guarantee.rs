//! What QFQ promises a flow (`docs/guarantees.md` has the derivations).

use core::num::{NonZeroU32, NonZeroU64};

use super::Qfq;
use super::group::QfqFlow;
use super::virtual_time::Width;
use crate::guarantee::ceil;
use crate::order::Table;
use crate::{FlowId, Guarantee, Share};

impl<N: Table<QfqFlow>> Qfq<N> {
    /// What is promised to `flow` as things are configured: `None` if it was not added. Cost: two
    /// divisions.
    ///
    /// With `φ` the share of the flow among all flows added, `φ'` its share if only flows counted that
    /// make `V` run fastest (at most 1), `s` the width of its slots in bytes of its own, `L_k` its
    /// longest packet and `L` that of the scheduler:
    ///
    /// - B-WFI `≤ max(3s + φ'L + (1 − φ)L_k, 2s + (φ + φ')L)`,
    /// - fairness `ω = (3s + φ'L + (1 − φ)L_k)/φ`.
    ///
    /// `s` is at least `L_k` and less than twice that, unless `L_k < L/28` or a weight is far above
    /// all the others: then slots are as wide as 28 of them have to be for `L`, or as the narrowest.
    #[must_use]
    pub fn guarantee(&self, flow: FlowId) -> Option<Guarantee> {
        let k = self.flows.as_ref().get(flow.index())?;
        let inverse = u64::from(NonZeroU32::new(k.inverse)?.get());
        // In units of virtual time. A byte of the link is at least `one` and at most `most`; φ = one /
        // inverse, and φ' = most / inverse.
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
