//! Longest-queue drop beside any flow scheduler: the flow that holds the most bytes gives way.
//!
//! A flow scheduler says which flow is next; [`LongestQueueDrop`] says which one is dropped from, by byte counts of
//! its own. A flow that keeps its queue short loses nothing, whatever others send.
//!
//! Cost: O(log flows) per call beside the scheduler's, mostly one or two steps. Memory: 16 bytes a flow.
//! Source: the discipline is described in SQF §2 and SQF-VBR §III-B.

use crate::disciplines::tournament::{Ranked, Tournament, ranked};
use crate::drops::drop_policy::DropPolicy;
use crate::flow_scheduler::{DropFrom, FlowScheduler, FlowState, Table};
use crate::{FlowId, Imbalance};

ranked! {
    /// Room for one flow of [`LongestQueueDrop`]: 16 bytes.
    LongestFlow
}

type Longest = Tournament<true>;

/// The flow that holds the most bytes is the victim; books in the memory `N`.
///
/// Ties go to the flow served least recently (never served comes first), then to the lowest number.
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
    /// Of more than zero bytes if and only if backlogged.
    flows: N,
    /// Services so far; the number of the latest is the newest stamp.
    served: u64,
    drop_from: DropFrom,
}

impl<N: Table<LongestFlow>> LongestQueueDrop<N> {
    /// Longest-queue drop for as many flows as `flows` is long. Packets give way at the head. Cost: O(flows).
    #[must_use]
    pub fn new(mut flows: N) -> Self {
        flows.as_mut().fill(LongestFlow::EMPTY);
        Longest::play_all(flows.as_mut());
        Self { flows, served: 0, drop_from: DropFrom::Head }
    }

    /// Which packet of the longest queue gives way.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    /// What `flow` holds, if it is backlogged.
    fn ranked(&mut self, flow: FlowId) -> Option<&mut LongestFlow> {
        self.flows.as_mut().get_mut(flow.index()).filter(|entry| entry.is_backlogged())
    }

    /// `flow` holds `len` bytes fewer, or nothing.
    fn shrunk(&mut self, flow: FlowId, len: u32, is_idle: bool) {
        let Some(entry) = self.ranked(flow) else { return };
        let left = if is_idle { 0 } else { entry.bytes().saturating_sub(len) };
        entry.set_bytes(left);
        Longest::lost(self.flows.as_mut(), flow);
    }
}

impl<O: FlowScheduler + ?Sized, N: Table<LongestFlow>> DropPolicy<O> for LongestQueueDrop<N> {
    fn room(&self) -> Option<u32> {
        Some(u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX))
    }

    fn backlogged(&mut self, _scheduler: &O, flow: FlowId, len: u32) {
        if self.ranked(flow).is_some() {
            return;
        }
        let flows = self.flows.as_mut();
        if let Some(entry) = flows.get_mut(flow.index()) {
            entry.set_bytes(len);
        }
        Longest::gained(flows, flow);
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        let Some(entry) = self.ranked(flow) else { return };
        entry.set_bytes(entry.bytes().saturating_add(len));
        Longest::gained(self.flows.as_mut(), flow);
    }

    fn served(&mut self, flow: FlowId, len: u32, is_idle: bool) {
        let stamp = self.served.wrapping_add(1);
        let Some(entry) = self.ranked(flow) else { return };
        entry.set_stamp(stamp);
        self.served = stamp;
        self.shrunk(flow, len, is_idle);
    }

    fn lost(&mut self, flow: FlowId, len: u32, is_idle: bool) {
        self.shrunk(flow, len, is_idle);
    }

    fn removed(&mut self, flow: FlowId) {
        if let Some(entry) = self.flows.as_mut().get_mut(flow.index()) {
            entry.set_bytes(0);
            entry.set_stamp(0);
            Longest::lost(self.flows.as_mut(), flow);
        }
    }

    fn victim(&self, _scheduler: &O) -> Option<(FlowId, DropFrom)> {
        Some((Longest::first(self.flows.as_ref())?, self.drop_from))
    }

    fn gives_up(&self, scheduler: &O, flow: FlowId) -> bool {
        scheduler.gives_up(flow)
    }

    fn recount(
        &self,
        _scheduler: &O,
        flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        for (at, entry) in (0..).zip(self.flows.as_ref()) {
            let past = entry.stamp() <= self.served;
            Imbalance::check("stamps lie in the past", at, 1, past.into())?;
        }
        Longest::recount(self.flows.as_ref(), flows)
    }
}

#[cfg(test)]
mod tests;
