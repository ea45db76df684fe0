//! What WF²Q+ promises a flow.

use core::num::NonZeroU64;

use super::{Wf2q, Wf2qFlow};
use crate::guarantee::ceil;
use crate::order::Table;
use crate::{FlowId, Guarantee, Share};

impl<N: Table<Wf2qFlow>> Wf2q<N> {
    /// What is promised to `flow` as things are configured: `None` if it was not added. Cost: three
    /// divisions.
    ///
    /// With `φ` the share of the flow, `L_k` its longest packet and `L` that of the scheduler
    /// (`docs/papers.md`, WF2Q+):
    ///
    /// - B-WFI `≤ max((2 − φ)L_k + φL, L_k + 2φL)`,
    /// - fairness `ω = (2 − φ)L_k/φ + L`.
    #[must_use]
    pub fn guarantee(&self, flow: FlowId) -> Option<Guarantee> {
        let k = self.flows.as_ref().get(flow.index()).filter(|k| k.weight != 0)?;
        // In units of virtual time. A byte of the link is `one`, and φ = one / inverse.
        let one = NonZeroU64::new(self.core.inverse_sum)?;
        let share = Share::new(one.get().min(k.inverse), k.inverse).ok()?;
        let own = u128::from(k.inverse) * u128::from(k.max_len);
        let others = u128::from(k.inverse.saturating_sub(one.get())) * u128::from(k.max_len);
        let longest = u128::from(one.get()) * u128::from(self.core.max_len);
        let tail = own + others + longest;
        let latency = tail.max(own + 2 * longest);
        Some(Guarantee { share, latency: ceil(latency, one), fairness: ceil(tail, one) })
    }
}
