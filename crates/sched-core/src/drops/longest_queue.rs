//! Longest-queue drop for any order of flows: who holds the most bytes gives way.
//!
//! An order says who is next; [`LongestQueueDrop`] adds who is dropped, from byte counts of its own, and
//! leaves the order as it is. A flow that keeps its queue short loses nothing, whatever others send.
//!
//! Cost: O(log flows) per call beside the order's, mostly one or two steps. Memory: 16 bytes a flow.
//! Source: the discipline is described in SQF §2 and SQF-VBR §III-B.

use crate::disciplines::tournament::{RankedFlow, Tournament};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Table};
use crate::{FlowId, Imbalance, Nanos};

/// Room for one flow of [`LongestQueueDrop`]: 16 bytes.
pub type LongestFlow = RankedFlow<1>;

type Longest = Tournament<0, true>;

/// The order `O`, with the flow that holds the most bytes as the victim; books in the memory `N`.
///
/// Ties go to the flow served least recently (never served comes first), then to the lowest number.
/// A victim that `O` would name is not asked for.
///
/// ```
/// use sched_core::{
///     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow, LongestQueueDrop, Nanos, Packet, Queue,
///     Scheduler,
/// };
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let order = LongestQueueDrop::new(drr, [LongestFlow::EMPTY; 2]);
/// let packets = [Descriptor::EMPTY; 8];
/// let mut queues = FlowQueues::new(order, [Queue::EMPTY; 2], packets, Limits::packets(2));
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
pub struct LongestQueueDrop<O, N> {
    order: O,
    /// Of more than zero bytes if and only if backlogged in `order`; whether a flow was added only
    /// `order` knows.
    flows: N,
    /// Services so far; the number of the latest is the newest stamp.
    served: u64,
    drop_from: DropFrom,
}

impl<O: FlowScheduler, N: Table<LongestFlow>> LongestQueueDrop<O, N> {
    /// Longest-queue drop over `order`, in which no flow is backlogged; for as many flows as both have
    /// room for. Packets give way at the head. Cost: O(flows).
    #[must_use]
    pub fn new(order: O, mut flows: N) -> Self {
        flows.as_mut().fill(RankedFlow::EMPTY);
        Longest::play_all(flows.as_mut());
        Self { order, flows, served: 0, drop_from: DropFrom::Head }
    }

    /// Which packet of the longest queue gives way.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    /// The order of flows.
    #[must_use]
    pub const fn order(&self) -> &O {
        &self.order
    }

    fn has_room_for(&self, flow: FlowId) -> bool {
        flow.index() < self.flows.as_ref().len()
    }

    /// What `flow` holds, if it is backlogged.
    fn ranked(&mut self, flow: FlowId) -> Option<&mut LongestFlow> {
        self.flows.as_mut().get_mut(flow.index()).filter(|entry| entry.is_backlogged())
    }

    /// `flow` holds `len` bytes fewer, or nothing.
    fn shrunk(&mut self, flow: FlowId, len: u32, idle: bool) {
        let Some(entry) = self.ranked(flow) else { return };
        let left = if idle { 0 } else { entry.bytes().saturating_sub(len) };
        entry.set_bytes(left);
        Longest::lost(self.flows.as_mut(), flow);
    }
}

impl<O: FlowScheduler, N: Table<LongestFlow>> FlowScheduler for LongestQueueDrop<O, N> {
    type Config = O::Config;

    fn flows(&self) -> u32 {
        let flows = u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX);
        self.order.flows().min(flows)
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.order.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        config: O::Config,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        if !self.has_room_for(flow) {
            return Err(ConfigError::UnknownFlow { flow, flows: self.flows() });
        }
        self.order.configure(flow, config, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.order.remove(flow);
        if let Some(entry) = self.flows.as_mut().get_mut(flow.index()) {
            entry.set_bytes(0);
            entry.set_stamp(0);
            Longest::lost(self.flows.as_mut(), flow);
        }
    }

    fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.order.config(flow).filter(|_| self.has_room_for(flow))
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.order.max_len(flow).filter(|_| self.has_room_for(flow))
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        self.order.common_max_len()
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        if self.max_len(flow).is_none() || self.ranked(flow).is_some() {
            return;
        }
        self.order.backlogged(flow, head_len);
        let flows = self.flows.as_mut();
        if let Some(entry) = flows.get_mut(flow.index()) {
            entry.set_bytes(head_len);
        }
        Longest::gained(flows, flow);
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        let Some(entry) = self.ranked(flow) else { return };
        entry.set_bytes(entry.bytes().saturating_add(len));
        self.order.grew(flow, len);
        Longest::gained(self.flows.as_mut(), flow);
    }

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

    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        self.order.upcoming(ahead)
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let stamp = self.served.wrapping_add(1);
        let Some(entry) = self.ranked(flow) else { return };
        entry.set_stamp(stamp);
        self.served = stamp;
        self.shrunk(flow, len, next_head.is_none());
        self.order.served(flow, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        if self.ranked(flow).is_none() {
            return;
        }
        self.shrunk(flow, len, head.is_none());
        self.order.lost(flow, len, head);
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        Some((Longest::first(self.flows.as_ref())?, self.drop_from))
    }

    fn gives_up(&self, flow: FlowId) -> bool {
        self.order.gives_up(flow)
    }

    fn looks_ahead(&self) -> bool {
        self.order.looks_ahead()
    }

    /// They tell it which flow or host is longest.
    fn counts_bytes(&self) -> bool {
        true
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for (at, entry) in (0..).zip(self.flows.as_ref()) {
            let past = entry.stamp() <= self.served;
            Imbalance::check("stamps lie in the past", at, 1, past.into())?;
        }
        Longest::recount(self.flows.as_ref(), flows)?;
        self.order.recount(flows)
    }
}

#[cfg(test)]
mod tests;
