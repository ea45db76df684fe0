//! Hosts above flows: a flow scheduler of hosts, and inside each host deficit round robin over its flows.
//!
//! Two levels that are real: [`HostDrr`] asks a flow scheduler of hosts `O` whose turn it is, and a ring of that
//! host which of its flows. What a host gets does not depend on how many flows it opens, nor on how many
//! other hosts open. Hosts take turns as the flows of `O` do, flows inside a host as those of
//! [`Drr`](crate::Drr) do, rule for rule.
//!
//! **Promises.** A flow is on the ring of its host, and on no other, if and only if it is backlogged; a
//! host is backlogged in `O` if and only if its ring holds a flow. Behind a plain `Drr` of hosts with
//! quantum `Q` each, longest packet `L`, `L̄ = L − 1`, and `H` hosts that are backlogged at some time of
//! the interval meant, on a link of rate `C`:
//!
//! - *Wait of a sparse flow.* A packet that finds its host idle starts after at most
//!   `(H − 1)(Q + L̄) + L` bytes of others, `((H − 1)(Q + L) + L)/C`, whatever flows the others open. The
//!   host goes to the tail. A turn sends at most `Q + L̄` bytes: it begins with at most `Q`, and is over with the packet
//!   that uses it up. Each other host has at most one turn before: a host that empties and comes back stands behind.
//!   And a packet may be on the wire. A packet that finds its host backlogged has the same bound, if its flow is
//!   served [first in the host](HostDrr::sparse_first): the flow's turn is not used up, and no other flow of the host
//!   is new.
//! - *Share.* While a host is backlogged it is sent at least `W/H − (1 − 1/H)(Q + L̄) − ((H − 1)·L̄ + L)/H`
//!   of `W` bytes, the bound of [`Drr`](crate::Drr). That is at least `0.98·W/H` as soon as
//!   `W ≥ 50·((H − 1)(Q + 2·L̄) + L)`; over any interval as short as a round, no flow scheduler that sends whole
//!   quanta can promise as much.
//! - *A flow's share of that*: what [`HostDrr::guarantee_in_host`] says, composed with the promise to the
//!   host by [`Guarantee::in_class`](crate::Guarantee::in_class).
//!
//! Behind a `Drr` of hosts with [sparse hosts first](crate::Drr::sparse_first), hosts that come and go may be a
//! turn ahead of those that stand, and no more:
//!
//! - *Wait.* Take a packet that finds its host idle, where the host has something left of its turn, or the round
//!   of that turn is over. It starts after at most `Q + L̄` bytes of each host that is new then, and a packet on
//!   the wire; hosts that stand cost nothing. At worst that is the bound above. If the turn of the host is used
//!   up, or the host stands and the flow is first in it, the packet starts after at most
//!   `(H − 1)(Q + L̄) + (H − 2)Q + L` bytes.
//! - *Share.* With `2Q` in place of `Q`: at least `W/H − (1 − 1/H)(2Q + L̄) − ((H − 1)·L̄ + L)/H` of `W` bytes,
//!   and `0.98·W/H` as soon as `W ≥ 50·((H − 1)(2Q + 2·L̄) + L)`.
//!
//! The share is promised whatever other hosts lose, their last packets too: as in [`Drr`](crate::Drr), only
//! service changes what a host or a flow owes.
//!
//! **Cost.** O(1) beside the flow scheduler of hosts, without a loop over flows or hosts. Memory: 24 bytes a flow,
//! 16 a host beside what `O` needs.
//!
//! **Source.** Two levels of a hierarchy (`docs/disciplines/hosts.md`, section *Hierarchy*), of [`Drr`](crate::Drr); host isolation is
//! what CAKE §III-B asks for, by other means.

mod guarantee;

use crate::disciplines::drr::ring::{self, OnRing, Ring, RingFlow};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::queues::queue::NONE;
use crate::{Backlog, FlowId, Hosted, Imbalance, Nanos, Packet};

/// What [`HostDrr`] knows of one flow: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostDrrFlow {
    pub(super) flow: RingFlow,
    /// Below the number of hosts. Under [`TinRings`](crate::TinRings) the tin, and [`Self::HAS_TIN`]: no number of a host.
    host: u32,
}

impl HostDrrFlow {
    /// A flow that was not added, of host 0.
    pub const EMPTY: Self = Self { flow: RingFlow::EMPTY, host: 0 };

    const HAS_TIN: u32 = 1 << 31;

    /// The tin, of a flow that has no host.
    #[inline]
    pub(super) const fn tin(&self) -> Option<u32> {
        if self.host < Self::HAS_TIN { None } else { Some(self.host & !Self::HAS_TIN) }
    }

    /// The flow, on no ring, has no host from now on, and is of `tin`.
    pub(super) fn set_tin(&mut self, tin: u32) {
        let host = tin | Self::HAS_TIN;
        if self.host != host {
            *self = Self { flow: self.flow.renewed(), host };
        }
    }
}

impl Default for HostDrrFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl OnRing for HostDrrFlow {
    #[inline]
    fn on_ring(&self) -> &RingFlow {
        &self.flow
    }

    #[inline]
    fn on_ring_mut(&mut self) -> &mut RingFlow {
        &mut self.flow
    }
}

/// The ring of one host in [`HostDrr`]: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRing {
    ring: Ring,
    /// How many flows are on it.
    flows: u32,
}

impl HostRing {
    /// A host without backlogged flows.
    pub const EMPTY: Self = Self { ring: Ring::EMPTY, flows: 0 };

    /// A host without backlogged flows.
    const IDLE: Self = Self { ring: Ring::IDLE, flows: 0 };

    /// Something to tell a flow scheduler of hosts of the length of a packet to come, if there is one: any
    /// length will do, because the flow scheduler does not look ahead.
    #[inline]
    fn next(&self) -> Option<u32> {
        (self.ring.front() != NONE).then_some(1)
    }
}

impl Default for HostRing {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Deficit round robin over the flows of each host, flows in the memory `N` and hosts in the memory `G`,
/// under a flow scheduler `O` of the hosts.
///
/// [`FlowScheduler::Config`] is the quantum of a flow inside its host in bytes; what is set for hosts is
/// the business of `O`. A flow is of host 0 until it is [assigned](HostDrr::assign) to another.
///
/// ```
/// use sched_core::{Drr, DrrFlow, FlowId, FlowScheduler, HostRing, HostDrrFlow, HostDrr};
///
/// let mut of_hosts = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// of_hosts.add_all(1_500)?;
/// let mut scheduler = HostDrr::new(of_hosts, [HostDrrFlow::EMPTY; 4], [HostRing::EMPTY; 2], 1_500)?;
/// scheduler.add_all(1_500)?;
/// scheduler.assign(FlowId(3), 1)?;
///
/// // Three flows of host 0 and one of host 1: every other packet is that of host 1.
/// (0..4).for_each(|flow| scheduler.backlogged(FlowId(flow), 1_500));
/// let mut served = Vec::new();
/// for _ in 0..6 {
///     let flow = scheduler.select().expect("all are backlogged");
///     scheduler.served(flow, 1_500, Some(1_500));
///     served.push(flow.0);
/// }
/// assert_eq!(served, [0, 3, 1, 3, 2, 3]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HostDrr<O, N, G> {
    scheduler: O,
    nodes: N,
    /// `hosts[host]`: holds a flow if and only if `host` is backlogged in `scheduler`.
    hosts: G,
    max_len: u32,
    sparse_first: bool,
}

crate::debug::short_debug!(HostDrr<O, N, G> { max_len, sparse_first });

impl<O, N, G> HostDrr<O, N, G>
where
    O: FlowScheduler,
    N: Table<HostDrrFlow>,
    G: Table<HostRing>,
{
    /// The largest quantum of a flow, in bytes.
    pub const MAX_QUANTUM: u32 = RingFlow::MAX_QUANTUM;

    /// A flow scheduler of `nodes.len()` flows, none added and all of host 0, for packets of at most `max_len`
    /// bytes; of as many hosts as `scheduler`, in which none is backlogged, and `hosts` have room for. A host
    /// that was not added to `scheduler` takes no packets. Cost: O(flows + hosts).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`];
    /// [`ConfigError::LooksAhead`] if `scheduler` does.
    pub fn new(
        scheduler: O,
        mut nodes: N,
        mut hosts: G,
        max_len: u32,
    ) -> Result<Self, ConfigError> {
        let most = Packet::MAX_LEN.into();
        ConfigError::check_range("longest packet in bytes", max_len.into(), 1, most)?;
        if scheduler.needs().looks_ahead {
            return Err(ConfigError::LooksAhead);
        }
        nodes.as_mut().fill(HostDrrFlow::EMPTY);
        hosts.as_mut().fill(HostRing::IDLE);
        Ok(Self { scheduler, nodes, hosts, max_len, sparse_first: false })
    }

    /// With sparse flows first inside each host, as [`Drr::sparse_first`](crate::Drr::sparse_first). They
    /// overtake flows of their own host only.
    #[must_use]
    pub fn sparse_first(mut self) -> Self {
        self.sparse_first = true;
        self
    }

    /// Adds every flow there is room for, or changes it, with the same quantum in bytes.
    /// Cost: O(flows).
    ///
    /// # Errors
    /// As [`FlowScheduler::configure`]; nothing has changed then.
    pub fn add_all(&mut self, quantum: u32) -> Result<(), ConfigError> {
        ring::add_all(self.nodes.as_mut(), quantum, self.max_len)
    }

    /// Whether `flow` holds packets and is sparse: it came lately, and its turn comes before those of flows that stand. False
    /// unless [sparse flows come first](Self::sparse_first). Cost: O(1).
    #[must_use]
    pub fn is_sparse(&self, flow: FlowId) -> bool {
        self.nodes.as_ref().get(flow.index()).is_some_and(|node| node.flow.is_new())
    }

    /// Makes `flow`, added or not, one of `host`. A flow that changes its host is as if it had just been
    /// added: debt is forgotten, and that it has used up a turn as a sparse flow. The same host again
    /// changes nothing; [`FlowScheduler::remove`] makes it one of host 0.
    ///
    /// # Errors
    /// [`ConfigError::UnknownFlow`] and [`ConfigError::UnknownHost`] if there is no room for them,
    /// [`ConfigError::Backlogged`] if the flow holds packets; nothing has changed then.
    pub fn assign(&mut self, flow: FlowId, host: u32) -> Result<(), ConfigError> {
        let (flows, hosts) = (self.flows(), self.hosts());
        let node = self.nodes.as_mut().get_mut(flow.index());
        let Some(node) = node.filter(|_| flow.0 < flows) else {
            return Err(ConfigError::UnknownFlow { flow, flows });
        };
        if host >= hosts {
            return Err(ConfigError::UnknownHost { host, hosts });
        }
        if node.flow.is_listed() {
            return Err(ConfigError::Backlogged { flow });
        }
        if node.host != host {
            *node = HostDrrFlow { flow: node.flow.renewed(), host };
        }
        Ok(())
    }

    /// Adds `host` to the flow scheduler of hosts, or changes it, idle or backlogged.
    ///
    /// # Errors
    /// [`ConfigError::UnknownHost`] if there is no room for it, and what the flow scheduler of hosts refuses;
    /// nothing has changed then.
    pub fn configure_host(&mut self, host: u32, config: O::Config) -> Result<(), ConfigError> {
        let hosts = self.hosts();
        match self.hosts.as_ref().get(host as usize) {
            Some(ring) if host < hosts => {
                self.scheduler.configure(FlowId(host), config, ring.next())
            }
            _ => Err(ConfigError::UnknownHost { host, hosts }),
        }
    }

    /// What is set for `host`; `None` if it was not added.
    #[must_use]
    pub fn host_config(&self, host: u32) -> Option<O::Config> {
        self.scheduler.config(FlowId(host)).filter(|_| host < self.hosts())
    }

    /// The flow scheduler of hosts, in which a host is the flow of the same number.
    #[must_use]
    pub const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    /// The flow scheduler of hosts, for what is its own. Telling it of packets or hosts is the business of
    /// [`HostDrr`]: a flow scheduler that is told twice no longer agrees with the rings, and
    /// [`FlowScheduler::recount`] says so.
    pub const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    /// The flow scheduler of hosts and the flows, for [`TinRings`](crate::TinRings).
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut O, &mut [HostDrrFlow]) {
        (&mut self.scheduler, self.nodes.as_mut())
    }

    /// The flows, for [`TinRings`](crate::TinRings).
    #[must_use]
    #[inline]
    pub fn nodes(&self) -> &[HostDrrFlow] {
        self.nodes.as_ref()
    }

    /// [`FlowScheduler::recount`] while [`TinRings`](crate::TinRings) serve the flows: no host is backlogged.
    ///
    /// # Errors
    /// [`Imbalance`] otherwise.
    pub fn recount_hosts_idle(&self) -> Result<(), Imbalance> {
        for (host, HostRing { ring, flows }) in (0..).zip(self.hosts.as_ref()) {
            let is_backlogged = ring.front() != NONE || *flows > 0;
            Imbalance::check("a host is backlogged", host, is_backlogged.into(), 0)?;
        }
        self.scheduler.recount(&|_| FlowState::default())
    }

    fn node(&self, flow: FlowId) -> Option<&HostDrrFlow> {
        self.nodes.as_ref().get(flow.index()).filter(|node| node.flow.is_added())
    }

    /// Takes the front of the ring of `host`, which has nothing left since it sent `len` bytes, off it; returns what to
    /// tell the flow scheduler of what the host has left.
    #[inline(always)]
    fn become_idle(&mut self, host: u32, len: u32) -> Option<u32> {
        let host = self.hosts.as_mut().get_mut(host as usize)?;
        host.ring.leave_front(self.nodes.as_mut(), len, self.max_len);
        host.flows = host.flows.wrapping_sub(1);
        host.next()
    }

    /// A service of `len` bytes that leaves nothing of the front of the ring of `host`.
    #[inline(never)]
    fn serve_last(&mut self, host: FlowId, len: u32) {
        let left = self.become_idle(host.0, len);
        self.scheduler.served(host, len, left);
    }

    /// As [`HostDrr::become_idle`], of `flow`, which lost what it had.
    #[inline(never)]
    fn lose_last(&mut self, host: u32, flow: FlowId) -> Option<u32> {
        let host = self.hosts.as_mut().get_mut(host as usize)?;
        host.ring.lose(self.nodes.as_mut(), flow.0, self.max_len);
        host.flows = host.flows.wrapping_sub(1);
        host.next()
    }
}

impl<O, N, G> Hosted for HostDrr<O, N, G>
where
    O: FlowScheduler,
    N: Table<HostDrrFlow>,
    G: Table<HostRing>,
{
    fn host_of(&self, flow: FlowId) -> Option<u32> {
        self.nodes.as_ref().get(flow.index()).map(|node| node.host)
    }

    fn hosts(&self) -> u32 {
        let hosts = u32::try_from(self.hosts.as_ref().len()).unwrap_or(u32::MAX);
        self.scheduler.flows().min(hosts)
    }

    fn flows_of(&self, host: u32) -> u32 {
        self.hosts.as_ref().get(host as usize).map_or(0, |host| host.flows)
    }
}

impl<O, N, G> FlowScheduler for HostDrr<O, N, G>
where
    O: FlowScheduler,
    N: Table<HostDrrFlow>,
    G: Table<HostRing>,
{
    /// The quantum of a flow inside its host in bytes, from the longest packet to
    /// [`HostDrr::MAX_QUANTUM`].
    type Config = u32;

    fn flows(&self) -> u32 {
        u32::try_from(self.nodes.as_ref().len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.scheduler.advance(now);
    }

    /// Of a backlogged flow the new quantum counts at once, for a turn under way as well.
    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        ring::configure(self.nodes.as_mut(), flow, quantum, self.max_len)
    }

    /// A backlogged flow is to the flow scheduler of hosts a loss of 0 bytes: their number is not known.
    fn remove(&mut self, flow: FlowId) {
        let Some(&HostDrrFlow { flow: node, host }) = self.nodes.as_ref().get(flow.index()) else {
            return;
        };
        if node.is_listed() {
            let left = self.lose_last(host, flow);
            self.scheduler.lost(FlowId(host), 0, left);
        }
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            *node = HostDrrFlow::EMPTY;
        }
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|node| node.flow.quantum())
    }

    /// What both the flow and its host accept; `None` if either was not added.
    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        let of_host = self.scheduler.max_len(FlowId(self.node(flow)?.host))?;
        Some(of_host.min(self.max_len))
    }

    #[inline]
    fn needs(&self) -> Needs {
        let inner = self.scheduler.needs();
        Needs {
            looks_ahead: false,
            counts_bytes: inner.counts_bytes,
            common_max_len: inner.common_max_len.min(self.max_len),
        }
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        let Some(&HostDrrFlow { flow: node, host }) = self.node(flow) else { return };
        let ring = self.hosts.as_mut().get_mut(host as usize);
        let Some(ring) = ring.filter(|_| self.scheduler.max_len(FlowId(host)).is_some()) else {
            return;
        };
        if node.is_listed() {
            return;
        }
        let was_idle = ring.ring.front() == NONE;
        ring.ring.enter(self.nodes.as_mut(), flow.0, self.sparse_first, |_| ());
        ring.flows = ring.flows.wrapping_add(1);
        if was_idle {
            self.scheduler.backlogged(FlowId(host), head_len);
        } else {
            self.scheduler.grew(FlowId(host), head_len);
        }
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32) {
        if let Some(node) = self.nodes.as_ref().get(flow.index())
            && node.flow.is_listed()
        {
            self.scheduler.grew(FlowId(node.host), len);
        }
    }

    #[inline]
    fn select(&self) -> Option<FlowId> {
        let host = self.scheduler.selected();
        let front = self.hosts.as_ref().get(host.index())?.ring.front();
        (front != NONE).then_some(FlowId(front))
    }

    fn waits(&self) -> bool {
        self.scheduler.waits()
    }

    /// Of the host that may be served first.
    fn waiting(&self) -> Option<FlowId> {
        let host = self.scheduler.waiting()?;
        let front = self.hosts.as_ref().get(host.index())?.ring.front();
        (front != NONE).then_some(FlowId(front))
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.scheduler.opens_at(now)
    }

    fn open(&mut self) {
        self.scheduler.open();
    }

    /// A round of the flows of its host.
    #[inline]
    fn pace(&self, flow: FlowId) -> Nanos {
        if !self.scheduler.waits() {
            return Nanos::ZERO;
        }
        let Some(host) = self.host_of(flow) else { return Nanos::ZERO };
        let flows = self.hosts.as_ref().get(host as usize).map_or(0, |host| host.flows);
        Nanos(self.scheduler.pace(FlowId(host)).0.saturating_mul(flows.into()))
    }

    /// The first flow of each host that is likely to be next.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        let hosts = self.scheduler.upcoming(ahead);
        let mut found = 0;
        for at in 0..hosts.min(ahead.len()) {
            let Some(&host) = ahead.get(at) else { break };
            let front =
                self.hosts.as_ref().get(host.index()).map_or(NONE, |host| host.ring.front());
            if front != NONE
                && let Some(place) = ahead.get_mut(found)
            {
                *place = FlowId(front);
                found = found.wrapping_add(1);
            }
        }
        found
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let host = self.scheduler.selected();
        let Some(HostRing { ring, .. }) = self.hosts.as_mut().get_mut(host.index()) else { return };
        if flow.0 != ring.front() {
            return;
        }
        if next_head.is_none() {
            return self.serve_last(host, len);
        }
        ring.charge(self.nodes.as_mut(), len, self.max_len, |_| ());
        self.scheduler.served(host, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        let Some(&HostDrrFlow { flow: node, host }) = self.node(flow) else { return };
        if !node.is_listed() {
            return;
        }
        let left = if head.is_none() { self.lose_last(host, flow) } else { head };
        self.scheduler.lost(FlowId(host), len, left);
    }

    /// The arrival gives way.
    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// No queue is given up whole.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let (nodes, mut listed) = (self.nodes.as_ref(), 0_u64);
        for (at, node) in (0..).zip(nodes) {
            let is_backlogged = flows(FlowId(at)).backlog.packets > 0;
            node.flow.recount(at, is_backlogged, self.max_len)?;
            listed = listed.wrapping_add(node.flow.is_listed().into());
            let had_no_host = !is_backlogged && node.tin().is_some();
            let has_host = node.host == 0 || node.host < self.hosts() || had_no_host;
            Imbalance::check("a host below their number", at, 1, has_host.into())?;
        }
        let mut found = 0_u64;
        for (host, HostRing { ring, flows }) in (0..).zip(self.hosts.as_ref()) {
            if !self.sparse_first {
                Imbalance::check("no new list", host, 0, ring.has_new().into())?;
            }
            ring.recount(nodes, *flows as usize)?;
            for (_, node) in ring.walk(nodes, *flows as usize) {
                Imbalance::check("the host of a flow", host, node.host.into(), host.into())?;
            }
            found = found.wrapping_add((*flows).into());
        }
        Imbalance::check("flows on rings", 0, listed, found)?;
        self.scheduler.recount(&|host| self.host_state(host, flows))
    }
}

impl<O, N, G> HostDrr<O, N, G>
where
    O: FlowScheduler,
    N: Table<HostDrrFlow>,
    G: Table<HostRing>,
{
    /// What the flows of `host` hold together.
    fn host_state(&self, host: FlowId, flows: &dyn Fn(FlowId) -> FlowState) -> FlowState {
        let mut held = Backlog::default();
        let Some(host) = self.hosts.as_ref().get(host.index()) else { return FlowState::default() };
        for (flow, _) in host.ring.walk(self.nodes.as_ref(), host.flows as usize) {
            let Backlog { packets, bytes } = flows(FlowId(flow)).backlog;
            held.packets = held.packets.wrapping_add(packets);
            held.bytes = held.bytes.wrapping_add(bytes);
        }
        let head_len = self.nodes.as_ref().get(host.ring.front() as usize);
        let head_len = head_len.and_then(|_| flows(FlowId(host.ring.front())).head_len);
        FlowState { backlog: held, head_len }
    }
}

#[cfg(test)]
mod tests;
