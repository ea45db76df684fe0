//! What DRR promises a flow (`docs/guarantees.md` has the derivations).

use super::{Drr, DrrFlow};
use crate::guarantee::ceil;
use crate::order::Table;
use crate::{FlowId, Guarantee, Share};

impl<N: Table<DrrFlow>> Drr<N> {
    /// What is promised to `flow` as things are configured: `None` if it was not added, and with
    /// [sparse flows first](Drr::sparse_first), where flows that come and go overtake those that
    /// stand. Cost: O(flows), to add up the quanta.
    ///
    /// With `Q` the quantum of the flow, `F` the sum of all, `φ = Q/F`, `L` the longest packet, and
    /// `L̄ = L − 1` the most that a turn is overdrawn by:
    ///
    /// - B-WFI `≤ (1 − φ)(Q + L̄) + φ·(n − 1)·L̄ + φL` for `n` flows, the last term for the packet that is on
    ///   the wire when the flow becomes backlogged: it may be of a turn before those that count;
    /// - fairness `ω = F/2 + L̄/φ`.
    #[must_use]
    pub fn guarantee(&self, flow: FlowId) -> Option<Guarantee> {
        let quantum = u64::from(self.node(flow)?.quantum);
        if self.sparse_first {
            return None;
        }
        let added = self.nodes.as_ref().iter().filter(|node| node.quantum != 0);
        let (others, frame) = added.fold((0_u64, 0_u64), |(flows, frame), node| {
            (flows + 1, frame.wrapping_add(node.quantum.into()))
        });
        let others = others.saturating_sub(1);
        let share = Share::new(quantum, frame).ok()?;
        let own = core::num::NonZeroU64::new(quantum)?;
        let overdraft = u64::from(self.max_len).saturating_sub(1);
        // ⌈(F − Q)(Q + L̄)/Q⌉ + (n − 1)L̄ + L: products below 2^60 · 2^29.
        let turns = u128::from(frame.saturating_sub(quantum)) * u128::from(quantum + overdraft);
        let overdrafts = others.saturating_mul(overdraft).saturating_add(self.max_len.into());
        let latency = ceil(turns, own).saturating_add(overdrafts);
        let fairness = frame.div_ceil(2).saturating_add(share.link_of(overdraft));
        Some(Guarantee { share, latency, fairness })
    }
}
