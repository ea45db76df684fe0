//! Longest-queue drop beside any flow scheduler: a flow that holds about the most bytes gives way.
//!
//! A flow scheduler says which flow is next; [`LongestQueueDrop`] says which one is dropped from, by byte counts of
//! its own. A flow that keeps its queue short loses nothing, whatever others send.
//!
//! **How it is found.** A flow is *single* while it holds the packet with which it became backlogged and never held another
//! beside it. Every other backlogged flow is in a *class of length*. Class `k` begins at `2^k` bytes. A flow moves, to the
//! class of its bytes, when these reach `2^(k + 1)` or fall below `2^(k - 1)`. So most packets cost an addition and a
//! comparison, and flows that send one packet at a time never have a class.
//!
//! **What is promised.** The victim is the longest of nine flows: the one that came to the highest class least recently, and
//! the eight newest single ones.
//!
//! - *To a factor.* Each flow in a class holds less than 4 times what the victim holds: the flows of class `k` hold
//!   `2^(k - 1)` bytes or more, and all flows in classes less than `2^(k + 1)`, where `k` is the highest class in use. It is
//!   said of queues below `2^31` bytes.
//! - *A fair part.* Let the limit be `B` bytes, and `F` flows backlogged. If `B/F` is a longest packet or more, a flow with
//!   `B/(4·F)` bytes or less loses nothing to arrivals of others. The reason: more than `B` bytes are queued, so a flow
//!   holds more than `B/F`. This flow is not single, so the victim holds more than a quarter of `B/F`.
//! - *More flows than that.* A flow is the victim only if none of the eight newest single flows holds more.
//!
//! The flows of a class give way in turn: a flow that has lost a packet is the newest of its class.
//!
//! Cost: O(1) per call beside the scheduler's, whatever is queued. Memory: 16 bytes a flow, and 136 bytes. Source: the
//! discipline is described in SQF §2 and SQF-VBR §III-B; classes found by bitmaps, Saeed et al., Eiffel, NSDI 2019; the
//! hysteresis and the single flows are ours.

mod lists;

use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{DropFrom, FlowScheduler, FlowState, Table};
use crate::{FlowId, Imbalance, Limits};
use lists::Lists;
pub use lists::LongestFlow;

/// The flow that holds about the most bytes is the victim; books in the memory `N`.
///
/// The flow scheduler is not asked for a victim.
///
/// ```
/// use sched_core::{
///     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow, LongestQueueDrop, Nanos, Packet, Queue,
///     Scheduler,
/// };
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let packets = [Descriptor::EMPTY; 8];
/// let queues = FlowQueues::new(drr, [Queue::EMPTY; 2], packets, Limits::packets(2));
/// let mut queues = queues.with_drop_policy(LongestQueueDrop::new([LongestFlow::EMPTY; 2]));
///
/// let mut dropped = Vec::new();
/// for (flow, handle) in [(0, 0), (0, 1), (1, 2)] {
///     let drops = &mut |packet: Packet, _why| dropped.push(packet.handle);
///     queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 1_500), drops)?;
/// }
/// assert_eq!(dropped, [0]); // of flow 0, which held more
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LongestQueueDrop<N> {
    flows: N,
    /// Each backlogged flow is on one list, no other flow is on any.
    lists: Lists,
    drop_from: DropFrom,
}

impl<N: Table<LongestFlow>> LongestQueueDrop<N> {
    /// Longest-queue drop for as many flows as `flows` is long. Packets give way at the head. Cost: O(flows).
    #[must_use]
    pub fn new(mut flows: N) -> Self {
        flows.as_mut().fill(LongestFlow::EMPTY);
        Self { flows, lists: Lists::EMPTY, drop_from: DropFrom::Head }
    }

    /// Which packet of the longest queue gives way.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    /// Moves `flow`, which has grown by `len` bytes, to another list. Like [`Self::relist`] and [`Self::unlist`] it is a
    /// function of its own, so that packets that move no flow do not pay for it.
    #[inline(never)]
    fn relist_grown(&mut self, flow: FlowId, len: u32) {
        self.lists.relist_grown(self.flows.as_mut(), flow, len);
    }

    #[inline(never)]
    fn relist(&mut self, flow: FlowId) {
        self.lists.relist(self.flows.as_mut(), flow);
    }

    #[inline(never)]
    fn unlist(&mut self, flow: FlowId) {
        self.lists.unlist(self.flows.as_mut(), flow);
    }
}

impl<O: FlowScheduler + ?Sized, N: Table<LongestFlow>> DropPolicy<O> for LongestQueueDrop<N> {
    fn room(&self) -> Option<u32> {
        Some(u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX))
    }

    /// Changes nothing: the classes are the same for all limits.
    #[inline]
    fn limits_changed(&mut self, _limits: Limits) {}

    #[inline]
    fn backlogged(&mut self, _scheduler: &O, flow: FlowId, len: u32) {
        self.lists.list_single(self.flows.as_mut(), flow, len);
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, len: u32, _held: u32) {
        let entry = self.flows.as_mut().get_mut(flow.index());
        if entry.is_some_and(|entry| entry.grows(len)) {
            self.relist_grown(flow, len);
        }
    }

    #[inline(never)]
    fn served(&mut self, flow: FlowId, len: u32, left: u32) {
        if left == 0 {
            return self.unlist(flow);
        }
        let entry = self.flows.as_mut().get_mut(flow.index());
        if entry.is_some_and(|entry| entry.shrinks(len)) {
            self.relist(flow);
        }
    }

    /// A flow that gives way and stays backlogged is the newest of its class: the flows of a class give way in turn.
    fn lost(&mut self, flow: FlowId, len: u32, left: u32) {
        if left == 0 {
            return self.unlist(flow);
        }
        let entry = self.flows.as_mut().get_mut(flow.index());
        if let Some(entry) = entry.filter(|entry| entry.holds_more_than(len)) {
            entry.shrinks(len);
            self.relist(flow);
        }
    }

    fn removed(&mut self, flow: FlowId) {
        self.unlist(flow);
    }

    fn victim(&self, _scheduler: &O) -> Option<(FlowId, DropFrom)> {
        Some((self.lists.longest(self.flows.as_ref())?, self.drop_from))
    }

    fn gives_up(&self, scheduler: &O, flow: FlowId) -> bool {
        scheduler.gives_up(flow)
    }

    fn recount(
        &self,
        _scheduler: &O,
        flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        self.lists.recount(self.flows.as_ref(), flows)
    }
}

#[cfg(test)]
mod tests;
