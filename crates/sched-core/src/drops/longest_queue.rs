//! Longest-queue drop for any flow scheduler: drops from a flow with about the longest backlog in
//! bytes.
//!
//! The flow scheduler selects the flow to serve; [`LongestQueueDrop`] selects the flow to drop
//! from. A flow that keeps its queue short loses nothing, whatever others send.
//!
//! **Method.** A flow is *single* while it holds the packet with which it became backlogged and has
//! never held another one besides it. Every other backlogged flow is in a *length class* chosen by
//! the bytes that it holds, and stays there while these are between two marks. So most packets cost
//! a comparison with the backlog, and flows that send one packet at a time are never in a class.
//!
//! From 2 KiB on a class extends 2 KiB to either side of its centre, or 1/32 of a power of two if
//! that is more. Below, the centres are powers of two, and a class extends from half of its centre
//! to twice of it.
//!
//! **Promises.** The victim is the longest of nine flows: the one that entered the highest class
//! least recently, and the eight newest single ones. Let `max` be the most bytes that a flow in a
//! class holds.
//!
//! - *To a grain.* The victim holds more than `max` minus the larger of 4,096 bytes and `max/16`.
//!   Proof: `max` is below the upper mark of the highest class, and the victim holds at least its
//!   lower mark.
//! - *To a factor.* The victim holds more than `max/4`.
//! - *A fair share.* Let the limit be `B` bytes, and `F` flows be backlogged. If `B/F` is at least
//!   a longest packet, a flow loses nothing to arrivals of others while it holds at most `B/(4·F)`
//!   bytes, or at most `B/F` minus the larger of 4,096 bytes and `B/(16·F)`. Proof: more than `B`
//!   bytes are queued, so some flow holds more than `B/F`. This flow is not single, so `max` is
//!   more than `B/F`.
//! - *More flows than that.* A flow is the victim only if none of the eight newest single flows
//!   holds more.
//!
//! The flows of a class are dropped from in turn: a flow that has lost a packet becomes the newest
//! of its class.
//!
//! Cost: O(1) per call besides the scheduler, whatever the backlog. Memory: 16 bytes per flow, and
//! 2.3 kB. Source: the discipline is described in SQF §2 and SQF-VBR §III-B; classes found by
//! bitmaps, Saeed et al., Eiffel, NSDI 2019; longest-queue drop with a bounded error, Hahne et al.,
//! SPAA 2001; the marks and the single flows are ours.

mod class;
mod lists;

use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{DropFrom, FlowScheduler, FlowState, Table};
use crate::{FlowId, Imbalance};
use lists::Lists;
pub use lists::LongestFlow;

/// A drop policy that drops from a flow with about the longest backlog in bytes, with tables in the
/// memory `N`.
///
/// Ignores the flow scheduler's own victim.
///
/// ```
/// use sched_core::{
///     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow, LongestQueueDrop, Nanos,
///     Packet, Queue, Scheduler,
/// };
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let packets = [Descriptor::EMPTY; 8];
/// let queues = FlowQueues::with_own_victim(drr, [Queue::EMPTY; 2], packets, Limits::packets(2));
/// let mut queues = queues.with_drop_policy(LongestQueueDrop::new([LongestFlow::EMPTY; 2]));
///
/// let mut dropped = Vec::new();
/// for (flow, handle) in [(0, 0), (0, 1), (1, 2)] {
///     let drops = &mut |packet: Packet, _why| dropped.push(packet.handle);
///     queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 1_500), drops)?;
/// }
/// assert_eq!(dropped, [0]); // of flow 0, which held more
///
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LongestQueueDrop<N> {
    flows: N,
    /// Each backlogged flow is on exactly one list, an idle flow on none.
    lists: Lists,
    /// The length of `flows`.
    room: u32,
    drop_from: DropFrom,
}

crate::debug::short_debug!(LongestQueueDrop<N> { room, drop_from });

impl<N: Table<LongestFlow>> LongestQueueDrop<N> {
    /// Creates the policy for `flows.len()` flows. Packets are dropped at the head. Cost: O(flows).
    #[must_use]
    pub fn new(mut flows: N) -> Self {
        flows.as_mut().fill(LongestFlow::EMPTY);
        let room = u32::try_from(flows.as_ref().len()).unwrap_or(u32::MAX);
        Self { flows, lists: Lists::EMPTY, room, drop_from: DropFrom::Head }
    }

    /// Sets the end of the longest queue at which packets are dropped.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    /// Moves `flow` to another list. A function of its own, so that packets that move no flow do
    /// not pay for it.
    #[inline(never)]
    fn relist(&mut self, flow: FlowId, held: u32) {
        self.lists.relist(self.flows.as_mut(), flow, held);
    }
}

impl<O: FlowScheduler + ?Sized, N: Table<LongestFlow>> DropPolicy<O> for LongestQueueDrop<N> {
    #[inline]
    fn room(&self) -> Option<u32> {
        Some(self.room)
    }

    #[inline]
    fn backlogged(&mut self, _scheduler: &O, flow: FlowId, len: u32) {
        self.lists.list_single(self.flows.as_mut(), flow, len);
    }

    #[inline]
    fn grew(&mut self, flow: FlowId, _len: u32, held: u32) {
        let entry = self.flows.as_mut().get_mut(flow.index());
        if entry.is_some_and(|entry| entry.is_reached_by(held)) {
            self.relist(flow, held);
        }
    }

    #[inline]
    fn served(&mut self, flow: FlowId, _len: u32, left: u32) {
        let flows = self.flows.as_mut();
        let Some(entry) = flows.get(flow.index()).filter(|entry| entry.is_above(left)) else {
            return;
        };
        // Frequent: every packet of intermittent traffic takes this path.
        if left == 0 && entry.is_single() {
            return self.lists.unlist_single(flows, flow);
        }
        self.relist(flow, left);
    }

    /// A flow that loses a packet and stays backlogged becomes the newest of its class, so that the
    /// flows of a class are dropped from in turn.
    fn lost(&mut self, flow: FlowId, _len: u32, left: u32) {
        self.relist(flow, left);
    }

    fn removed(&mut self, flow: FlowId) {
        self.relist(flow, 0);
    }

    fn victim(&self, _scheduler: &O, held: &dyn Fn(FlowId) -> u32) -> Option<(FlowId, DropFrom)> {
        Some((self.lists.longest(self.flows.as_ref(), held)?, self.drop_from))
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
