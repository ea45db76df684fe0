//! The tables of flows and hosts around the order: who has which queue and which slot.

use flowhash::{Line, Lookup, Outcome, Table as HashTable};
use sched_core::{ConfigError, DropFrom, FlowId, FlowScheduler, FlowState, Imbalance};

use super::shares::Shares;
use super::slots::HostSlots;
use super::{Storage, Victims};
use crate::isolation::{Isolation, Level};
use crate::labelled::Labelled;

/// The order of an [`Isolated`](super::Isolated) queue, with its tables: gives queues and slots of hosts
/// back in the moment they are idle.
#[derive(Debug)]
pub struct Claims<S: Storage> {
    pub(super) order: Victims<S>,
    /// A queue is claimed if and only if it holds packets.
    pub(super) queues: HashTable<S::Of<Line>>,
    pub(super) sources: HostSlots<S::Of<Line>, S::Of<u32>>,
    pub(super) destinations: HostSlots<S::Of<Line>, S::Of<u32>>,
    /// What a host has that is given no other quantum.
    pub(super) host_quantum: u32,
}

impl<S: Storage> Claims<S> {
    pub(super) fn shares(&self) -> &Shares<S> {
        self.order.order()
    }

    pub(super) fn isolation(&self) -> Isolation {
        self.shares().isolation()
    }

    /// Finds the queue of a packet; if it is free, for this flow from now on, with its hosts.
    #[inline]
    pub(super) fn claim(&mut self, labels: &impl Labelled) -> Lookup {
        let lookup = self.queues.lookup(self.isolation().queue_label(labels));
        if lookup.outcome == Outcome::Claimed {
            self.claim_hosts(FlowId(lookup.queue), labels);
        }
        lookup
    }

    #[inline(never)]
    fn claim_hosts(&mut self, flow: FlowId, labels: &impl Labelled) {
        let source = self.sources.claim(labels.source());
        let destination = self.destinations.claim(labels.destination());
        let quantum = labels.host_quantum().unwrap_or(self.host_quantum);
        let shares = self.order.order_mut();
        shares.assign(flow, source.slot, destination.slot);
        match shares.isolation().level() {
            Level::Source if source.is_new => shares.set_host_quantum(source.slot, quantum),
            Level::Destination if destination.is_new => {
                shares.set_host_quantum(destination.slot, quantum);
            }
            _ => {}
        }
    }

    /// `queue` holds nothing: who had it has it no more, nor its part of the slots of its hosts. Twice is
    /// once.
    pub(super) fn let_go(&mut self, queue: FlowId) {
        if !self.queues.release(queue.0) {
            return;
        }
        let Some((source, destination)) = self.shares().assigned(queue) else { return };
        self.sources.release(source);
        self.destinations.release(destination);
    }

    /// Takes `flow`, which holds so many bytes, out of the order; it keeps its queue and its hosts.
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

    /// The flows that count in a slot, as the order has them, one by one.
    fn recount_hosts(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let of = |host: &dyn Fn((u32, u32)) -> u32, slot: u32| {
            let backlogged = |flow: &u32| flows(FlowId(*flow)).backlog.packets > 0;
            let here =
                |flow: &u32| self.shares().assigned(FlowId(*flow)).is_some_and(|h| host(h) == slot);
            (0..self.queues.queues()).filter(backlogged).filter(here).count() as u64
        };
        self.sources.recount(&|slot| of(&|(source, _)| source, slot))?;
        self.destinations.recount(&|slot| of(&|(_, destination)| destination, slot))
    }
}

impl<S: Storage> FlowScheduler for Claims<S> {
    /// The quantum of a queue inside its host in bytes.
    type Config = u32;

    fn flows(&self) -> u32 {
        self.order.flows().min(self.queues.queues())
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

    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.order.served(flow, len, next_head);
        if next_head.is_none() {
            self.let_go(flow);
        }
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

    fn looks_ahead(&self) -> bool {
        false
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
        self.recount_hosts(flows)?;
        self.order.recount(flows)
    }
}
