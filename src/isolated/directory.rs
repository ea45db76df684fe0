//! The tables of flows and hosts around the flow scheduler: which flow has which queue, and which host which slot.

use flowhash::{FlowTable, Lookup, Outcome, TagLine};
use sched_core::{ConfigError, DropFrom, FlowId, FlowScheduler, FlowState, Imbalance, Nanos};

use super::Victims;
use super::host_table::{Claimed, HostSlots};
use super::order::IsolationOrder;
use crate::isolation::{Isolation, Level};
use crate::labelled::{Before, Labelled};
use crate::storage::{NoRoom, Storage};

/// The flow scheduler of an [`Isolated`](super::Isolated) queue, with its tables: gives queues and slots of hosts
/// back in the moment they are idle.
#[derive(Debug)]
pub struct Claims<S: Storage, K: Storage = NoRoom, T: Storage = NoRoom> {
    pub(super) order: Victims<S, K, T>,
    /// A queue is claimed if and only if it holds packets.
    pub(super) queues: FlowTable<S::Of<TagLine>>,
    /// Whether the spare queue of a host's slot is claimed, as those of the table are: that of slot `s` has
    /// the number `queues.queues() + s`. While it is, `s` is the slot of its source or of its destination.
    pub(super) spares: S::Of<bool>,
    pub(super) sources: HostSlots<S::Of<TagLine>, S::Of<u32>>,
    pub(super) destinations: HostSlots<S::Of<TagLine>, S::Of<u32>>,
    /// What a host has that is given no other quantum.
    pub(super) host_quantum: u32,
    /// Set while a table is [in transition](flowhash::FlowTable::is_rotating) to a new key.
    pub(super) rotating: bool,
}

impl<S: Storage, K: Storage, T: Storage> Claims<S, K, T> {
    pub(super) fn shares(&self) -> &IsolationOrder<S, K, T> {
        self.order.order()
    }

    pub(super) fn isolation(&self) -> Isolation {
        self.shares().isolation()
    }

    /// The queue of a packet with this label, if its flow has one. It holds packets.
    #[inline(always)]
    pub(super) fn find(&mut self, label: u32) -> Option<FlowId> {
        if self.rotating {
            return None;
        }
        self.queues.hit(label).map(FlowId)
    }

    /// Finds the queue of a packet; if it is free, for this flow from now on, with its hosts. `label` is that
    /// by which it finds its queue.
    #[inline]
    pub(super) fn claim(&mut self, label: u32, labels: &(impl Labelled + ?Sized)) -> Lookup {
        let lookup = if self.rotating {
            self.lookup_rotating(label, labels)
        } else {
            self.queues.lookup(label)
        };
        match lookup.outcome {
            Outcome::Hit => lookup,
            outcome => Lookup { queue: self.claim_slow(lookup, labels), outcome },
        }
    }

    /// The queue for a packet whose flow has none yet: the one just claimed for it, or one of its host.
    #[inline(never)]
    fn claim_slow(&mut self, lookup: Lookup, labels: &(impl Labelled + ?Sized)) -> u32 {
        let isolation = self.isolation();
        let is_spare = lookup.outcome == Outcome::Collision;
        if is_spare && self.shares().spares_of() == Level::None {
            return lookup.queue;
        }
        let before = self.rotating.then_some(Before(labels));
        let before = before.as_ref();
        let check_return = self.shares().has_room_for_rates();
        let source =
            self.sources.claim(labels.source(), before.map(Labelled::source), check_return);
        let destination = self.destinations.claim(
            labels.destination(),
            before.map(Labelled::destination),
            check_return,
        );
        let hosts = (source.slot, destination.slot);
        let queue = if is_spare { self.among_its_own(lookup.queue, hosts) } else { lookup.queue };
        if is_spare && !self.claim_spare(queue) {
            self.leave(source, destination);
            return queue;
        }
        let shares = self.order.order_mut();
        shares.assign(FlowId(queue), source.slot, destination.slot);
        let host = match isolation.level() {
            Level::None => return queue,
            Level::Source => source,
            Level::Destination => destination,
        };
        if host.is_new {
            let quantum = labels.host_quantum().unwrap_or(self.host_quantum);
            shares.set_host_quantum(host.slot, quantum);
            let (rate, ceiling) = (labels.host_committed_rate(), labels.host_ceiling());
            shares.set_host_rates(host.slot, host.is_back, rate, ceiling);
        }
        queue
    }

    /// The queue for a flow of these hosts that has none of its own: `shared`, which the table names, if that
    /// is of the same host, or else the spare queue of its host.
    ///
    /// What was claimed under an isolation of the other side can be another host's. `shared` it is then, until
    /// the spare queue has sent what it holds: only its host joins it meanwhile.
    fn among_its_own(&self, shared: u32, hosts: (u32, u32)) -> u32 {
        let side = |(source, destination)| match self.shares().spares_of() {
            Level::Destination => destination,
            _ => source,
        };
        let slot = side(hosts);
        let is_own = |queue| self.shares().assigned(FlowId(queue)).map(side) == Some(slot);
        let spare = self.queues.queues().wrapping_add(slot);
        let is_free = self.spares.as_ref().get(slot as usize) == Some(&false);
        if !is_own(shared) && (is_free || is_own(spare)) { spare } else { shared }
    }

    /// What `labels` say of their host from now on, if it is backlogged; returns whether it is.
    pub(super) fn update_host(&mut self, labels: &impl Labelled) -> bool {
        let (slots, label) = match self.isolation().level() {
            Level::None => return false,
            Level::Source => (&self.sources, labels.source()),
            Level::Destination => (&self.destinations, labels.destination()),
        };
        let Some(slot) = slots.table.find(label) else { return false };
        let quantum = labels.host_quantum().unwrap_or(self.host_quantum);
        let shares = self.order.order_mut();
        shares.set_host_quantum(slot, quantum);
        shares.set_host_rates(slot, true, labels.host_committed_rate(), labels.host_ceiling());
        true
    }

    /// The slots claimed for a packet that joins a queue which holds packets: its flow counts already.
    #[inline(never)]
    fn leave(&mut self, source: Claimed, destination: Claimed) {
        self.sources.release(source.slot);
        self.destinations.release(destination.slot);
        let host = match self.isolation().level() {
            Level::None => return,
            Level::Source => source,
            Level::Destination => destination,
        };
        if host.is_new && !host.is_back {
            // The table knows the slot as this host's, and it has the buckets of the host before, which this
            // host would come back to.
            self.order.order_mut().set_host_rates(host.slot, false, None, None);
        }
    }

    /// Claims `queue` if it is a spare one, and free.
    fn claim_spare(&mut self, queue: u32) -> bool {
        let claimed = self.spare_mut(queue).filter(|claimed| !**claimed);
        claimed.map(|claimed| *claimed = true).is_some()
    }

    fn spare_mut(&mut self, queue: u32) -> Option<&mut bool> {
        let slot = queue.checked_sub(self.queues.queues())?;
        self.spares.as_mut().get_mut(slot as usize)
    }

    /// `queue` holds nothing: the flow that had it has it no more, nor its part of the slots of its hosts. Twice is
    /// once.
    pub(super) fn let_go(&mut self, queue: FlowId) {
        if !self.queues.release(queue.0) && !self.spare_mut(queue.0).is_some_and(core::mem::take) {
            return;
        }
        let Some((source, destination)) = self.shares().assigned(queue) else { return };
        self.sources.release(source);
        self.destinations.release(destination);
    }

    /// A service in rounds. Apart, so that the other modes do not pay for its registers.
    #[inline(never)]
    fn serve_in_rounds(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.order.served(flow, len, next_head);
    }

    /// A service that leaves nothing of `flow`.
    #[inline(never)]
    fn serve_last(&mut self, flow: FlowId, len: u32) {
        self.order.served(flow, len, None);
        self.let_go(flow);
    }

    /// Takes `flow`, which holds `bytes`, out of the flow scheduler; the flow keeps its queue and its hosts.
    pub(super) fn take_out(&mut self, flow: FlowId, bytes: u32) {
        self.order.lost(flow, bytes, None);
    }

    /// Puts `flow`, taken out, back.
    pub(super) fn put_back(&mut self, flow: FlowId, bytes: u32) {
        if let Some((source, destination)) = self.shares().assigned(flow) {
            self.order.order_mut().assign(flow, source, destination);
        }
        self.order.backlogged(flow, bytes);
    }

    /// A spare queue is claimed while it holds packets, and by its slot on one of the sides.
    fn recount_spares(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for (slot, &claimed) in (0_u32..).zip(self.spares.as_ref()) {
            let queue = self.queues.queues().wrapping_add(slot);
            let backlogged = flows(FlowId(queue)).backlog.packets > 0;
            Imbalance::check("claimed while backlogged", queue, claimed.into(), backlogged.into())?;
            let (source, destination) = self.shares().assigned(FlowId(queue)).unwrap_or_default();
            let by_slot = !claimed || source == slot || destination == slot;
            Imbalance::check("a spare queue of its slot", queue, 1, by_slot.into())?;
        }
        Ok(())
    }

    /// The flows that count in a slot, as the flow scheduler has them, one by one.
    fn recount_hosts(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let of = |host: &dyn Fn((u32, u32)) -> u32, slot: u32| {
            let backlogged = |flow: &u32| flows(FlowId(*flow)).backlog.packets > 0;
            let here =
                |flow: &u32| self.shares().assigned(FlowId(*flow)).is_some_and(|h| host(h) == slot);
            (0..self.flows()).filter(backlogged).filter(here).count() as u64
        };
        self.sources.recount(&|slot| of(&|(source, _)| source, slot))?;
        self.destinations.recount(&|slot| of(&|(_, destination)| destination, slot))
    }
}

impl<S: Storage, K: Storage, T: Storage> FlowScheduler for Claims<S, K, T> {
    /// The quantum of a queue inside its host in bytes.
    type Config = u32;

    fn flows(&self) -> u32 {
        let spares = u32::try_from(self.spares.as_ref().len()).unwrap_or(u32::MAX);
        self.order.flows().min(self.queues.queues().saturating_add(spares))
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.order.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.order.configure(flow, quantum, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.let_go(flow);
        self.order.remove(flow);
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.order.config(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.order.max_len(flow)
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        self.order.common_max_len()
    }

    #[inline]
    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.order.backlogged(flow, head_len);
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32) {
        self.order.grew(flow, len);
    }

    #[inline]
    fn select(&self) -> Option<FlowId> {
        self.order.select()
    }

    fn waits(&self) -> bool {
        self.order.waits()
    }

    fn waiting(&self) -> Option<FlowId> {
        self.order.waiting()
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.order.opens_at(now)
    }

    fn open(&mut self) {
        self.order.open();
    }

    #[inline]
    fn pace(&self, flow: FlowId) -> Nanos {
        self.order.pace(flow)
    }

    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if next_head.is_none() {
            return self.serve_last(flow, len);
        }
        if self.shares().in_rounds() {
            return self.serve_in_rounds(flow, len, next_head);
        }
        self.order.served(flow, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        self.order.lost(flow, len, head);
        if head.is_none() {
            self.let_go(flow);
        }
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        self.order.victim()
    }

    #[inline]
    fn gives_up(&self, flow: FlowId) -> bool {
        self.order.gives_up(flow)
    }

    fn looks_ahead(&self) -> bool {
        false
    }

    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        self.order.upcoming(ahead)
    }

    fn counts_bytes(&self) -> bool {
        self.order.counts_bytes()
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let mut occupied = 0_u64;
        for queue in 0..self.queues.queues() {
            let backlogged = flows(FlowId(queue)).backlog.packets > 0;
            let claimed = self.queues.is_used(queue);
            Imbalance::check("claimed while backlogged", queue, claimed.into(), backlogged.into())?;
            occupied += u64::from(claimed);
        }
        Imbalance::check("claimed queues", 0, self.queues.occupied().into(), occupied)?;
        self.recount_spares(flows)?;
        self.recount_hosts(flows)?;
        self.recount_rotation()?;
        self.order.recount(flows)
    }
}
