//! Flows without hosts: deficit round robin over the flows of each tin, in the tables of a [`HostDrr`](crate::HostDrr).
//!
//! A queue that can isolate hosts has its flows in a [`HostDrr`](crate::HostDrr) over a [`TinDrr`](crate::TinDrr) of hosts.
//! While hosts do not count, [`TinRings`] take their place: a ring of flows for each tin. They use the same table of flows
//! and the same choice among tins, and no entry of a host.
//!
//! **Promises.** A flow is on the ring of its tin, and on no other, if and only if it is backlogged. Which tin is next: as
//! under [`TinDrr`](crate::TinDrr). Which flow of a tin: as under [`Drr`](crate::Drr), rule for rule.
//!
//! **Cost.** O(1) beside the choice among tins, which costs a comparison where there is one. Memory: 108 bytes.

use super::host_drr::HostDrrFlow;
use crate::disciplines::drr::ring::Ring;
use crate::disciplines::tins::{TinChoice, TinConfig, mask};
use crate::flow_scheduler::FlowState;
use crate::hosts::token_bucket::WireLength;
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// Rings of flows, one for each tin.
///
/// Each call is given the flows, of a [`HostDrr`](crate::HostDrr) in which none is backlogged, and the choice among tins, which
/// is [lent](crate::TinDrr::lend). A flow is of no tin until it is [assigned](TinRings::assign) to one. A caller that gives
/// others gets no panic, and no promise.
///
/// ```
/// use sched_core::{FlowId, HostDrr, HostDrrFlow, HostRing, TinDrr, TinFlow, TinRings};
///
/// let mut hosts = TinDrr::new([TinFlow::EMPTY; 2], 1_500)?;
/// hosts.add_all(1_500)?;
/// hosts.lend(true);
/// let mut levels = HostDrr::new(hosts, [HostDrrFlow::EMPTY; 4], [HostRing::EMPTY; 2], 1_500)?;
/// levels.add_all(1_500)?;
///
/// let mut rings = TinRings::new(1_500);
/// let mut served = Vec::new();
/// let (hosts, flows) = levels.parts_mut();
/// let choice = hosts.choice_mut();
/// for flow in (0..3).map(FlowId) {
///     rings.assign(flows, flow, 0);
///     rings.backlogged(flows, choice, flow);
/// }
/// for _ in 0..4 {
///     let flow = rings.select(flows, choice).expect("all are backlogged");
///     rings.served(flows, choice, flow, 1_500, Some(1_500));
///     served.push(flow.0);
/// }
/// assert_eq!(served, [0, 1, 2, 0]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinRings {
    rings: [Ring; TinConfig::MAX_TINS as usize],
    max_len: u32,
    sparse_first: bool,
}

impl TinRings {
    /// Rings without flows, for packets of at most `max_len` bytes: as many as the flows accept.
    #[must_use]
    pub const fn new(max_len: u32) -> Self {
        Self { rings: [Ring::IDLE; TinConfig::MAX_TINS as usize], max_len, sparse_first: false }
    }

    /// With sparse flows first in each tin, as [`Drr::sparse_first`](crate::Drr::sparse_first).
    #[must_use]
    pub const fn sparse_first(mut self) -> Self {
        self.sparse_first = true;
        self
    }

    /// The ring of `tin`; the first if there is no such tin.
    #[inline(always)]
    fn ring(&self, tin: u32) -> &Ring {
        let [first, ..] = &self.rings;
        self.rings.get(tin as usize).unwrap_or(first)
    }

    /// Makes `flow`, which is idle, one of `tin`. A flow that was of another tin, or of a host, is as if it had just been
    /// added. A flow that there is not, or that is backlogged, changes nothing.
    pub fn assign(&self, flows: &mut [HostDrrFlow], flow: FlowId, tin: u32) {
        if let Some(node) = flows.get_mut(flow.index()).filter(|node| !node.flow.is_listed()) {
            node.set_tin(tin);
        }
    }

    /// `flow`, which was idle, holds a packet. A flow that was not added, or is backlogged, changes nothing.
    pub fn backlogged<L: WireLength>(
        &mut self,
        flows: &mut [HostDrrFlow],
        choice: &mut TinChoice<L>,
        flow: FlowId,
    ) {
        let Some(node) = flows.get(flow.index()) else { return };
        let Some(tin) = node.tin() else { return };
        let Some(ring) = self.rings.get_mut(tin as usize) else { return };
        if !node.flow.is_added() || node.flow.is_listed() {
            return;
        }
        let was_idle = ring.front() == NONE;
        ring.enter(flows, flow.0, self.sparse_first, |_| ());
        if was_idle {
            choice.backlogged(tin);
        }
    }

    /// The flow served next.
    #[must_use]
    #[inline]
    pub fn select<L: WireLength>(
        &self,
        flows: &[HostDrrFlow],
        choice: &TinChoice<L>,
    ) -> Option<FlowId> {
        let front = FlowId(self.ring(choice.front()).front());
        (front.index() < flows.len()).then_some(front)
    }

    /// `flow` has sent `len` bytes, and has nothing left if `next_head` is `None`. A call for a flow that was not selected
    /// changes nothing.
    #[inline]
    pub fn served<L: WireLength>(
        &mut self,
        flows: &mut [HostDrrFlow],
        choice: &mut TinChoice<L>,
        flow: FlowId,
        len: u32,
        next_head: Option<u32>,
    ) {
        let max_len = self.max_len;
        let Some(ring) = self.rings.get_mut(choice.front() as usize) else { return };
        if flow.0 != ring.front() {
            return;
        }
        if next_head.is_none() {
            return leave(ring, flows, choice, len, max_len);
        }
        ring.charge(flows, len, max_len, |_| ());
        if !choice.is_one() {
            charge(choice, len);
        }
    }

    /// `flow` has lost packets without service, and has nothing left if `head` is `None`.
    pub fn lost<L: WireLength>(
        &mut self,
        flows: &mut [HostDrrFlow],
        choice: &mut TinChoice<L>,
        flow: FlowId,
        head: Option<u32>,
    ) {
        let Some(node) = flows.get(flow.index()) else { return };
        if head.is_some() || !node.flow.is_listed() {
            return;
        }
        let Some(tin) = node.tin() else { return };
        let Some(ring) = self.rings.get_mut(tin as usize) else { return };
        ring.lose(flows, flow.0, self.max_len);
        if ring.front() == NONE {
            choice.emptied(tin);
        }
    }

    /// Checks that each backlogged flow is on the ring of its tin, and that the tins know which are backlogged.
    ///
    /// # Errors
    /// [`Imbalance`], with the flow or the tin.
    pub fn recount<L: WireLength>(
        &self,
        flows: &[HostDrrFlow],
        choice: &TinChoice<L>,
        states: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        for (at, node) in (0..).zip(flows) {
            let is_backlogged = states(FlowId(at)).backlog.packets > 0;
            node.flow.recount(at, is_backlogged, self.max_len)?;
            let has_tin = !is_backlogged || node.tin().is_some_and(|tin| tin < choice.tins());
            Imbalance::check("a tin that there is", at, 1, has_tin.into())?;
        }
        for (tin, ring) in (0..).zip(&self.rings) {
            let is_here = |node: &&HostDrrFlow| node.flow.is_listed() && node.tin() == Some(tin);
            let listed = flows.iter().filter(is_here).count();
            ring.recount(flows, listed)?;
            if !self.sparse_first {
                Imbalance::check("no new list", tin, 0, ring.has_new().into())?;
            }
            for (flow, node) in ring.walk(flows, listed) {
                let is_here = node.tin() == Some(tin);
                Imbalance::check("the tin of a flow", flow, is_here.into(), 1)?;
            }
        }
        choice.recount(mask(self.rings.iter().map(|ring| ring.front() != NONE)))
    }
}

/// A service of `len` bytes has left something of the tin at the front. Apart, so that one tin does not pay for the choice.
#[inline(never)]
fn charge<L: WireLength>(choice: &mut TinChoice<L>, len: u32) {
    choice.served(len, false);
}

/// A service of `len` bytes has left nothing of the front of `ring`, which is that of the tin at the front.
#[inline(never)]
fn leave<L: WireLength>(
    ring: &mut Ring,
    flows: &mut [HostDrrFlow],
    choice: &mut TinChoice<L>,
    len: u32,
    max_len: u32,
) {
    ring.leave_front(flows, len, max_len);
    choice.served(len, ring.front() == NONE);
}
