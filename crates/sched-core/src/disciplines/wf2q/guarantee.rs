//! Bounds that WF²Q+ guarantees to a flow.

use core::num::NonZeroU64;

use super::{Wf2q, Wf2qFlow};
use crate::flow_scheduler::Table;
use crate::guarantee::ceil;
use crate::{FlowId, Guarantee, Share};

impl<N: Table<Wf2qFlow>> Wf2q<N> {
    /// Returns the bounds guaranteed to `flow` in the current configuration, or `None` if it was
    /// not added. Cost: three divisions.
    ///
    /// The guarantee holds while nothing is configured or removed and no first packet of any flow
    /// is dropped. Over intervals that begin after such a change, fairness is not guaranteed, and
    /// `latency` is longer by at most
    ///
    /// - the longest packet of any flow, and
    /// - for each change since no flow was backlogged, two longest packets `L_c` of the changed
    ///   flow, or `L_c + L_c/φ` if the flow was removed.
    ///
    /// All bounds hold again once no flow is backlogged, or after the bytes of the link given in
    /// `docs/guarantees.md`, *When flows and weights change*. A lowered `max_len` counts once no
    /// longer packet is queued.
    ///
    /// With `φ` the share of the flow, `L_k` its longest packet and `L` that of the scheduler
    /// (`docs/guarantees.md`):
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowScheduler, Wf2qConfig};

    /// Goal: each term of the bounds is as documented, neither tighter nor looser. Method: weights
    /// 1 and 3, so `φ` is 1/4 and 3/4; expected values computed manually.
    #[test]
    fn the_bounds_of_two_flows_are_those_computed_by_hand() {
        let promised = |longest, max_len| {
            let mut wf2q = Wf2q::new([Wf2qFlow::EMPTY; 2], longest).unwrap();
            for (flow, weight) in [(FlowId(0), 1), (FlowId(1), 3)] {
                wf2q.configure(flow, Wf2qConfig { weight, max_len }, None).unwrap();
            }
            assert_eq!(wf2q.guarantee(FlowId(2)), None);
            [0, 1].map(|flow| {
                let promise = wf2q.guarantee(FlowId(flow)).unwrap();
                (promise.latency, promise.fairness)
            })
        };
        // 175 + 250 = 425 and 100 + 500 = 600, of a quarter; 125 + 750 = 875 and 100 + 1,500 =
        // 1,600, of three: 1,166.7 and 2,133.3.
        assert_eq!(promised(1_000, 100), [(2_400, 1_700), (2_134, 1_167)]);
        // 175 + 25 = 200, more than 150; 125 + 75 = 200, less than 250: 266.7 and 333.3.
        assert_eq!(promised(100, 100), [(800, 800), (334, 267)]);
    }
}
