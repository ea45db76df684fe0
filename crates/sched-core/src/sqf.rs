//! Shortest queue first: the flow that holds the fewest bytes is served.
//!
//! Smooth flows (voice, acknowledgements, requests) hold little and so come first, without being
//! identified; a flow that sends below its share waits for at most one packet of another. On overflow
//! the flow that holds the most bytes gives way (longest-queue drop), so that those flows lose nothing
//! either. What is promised is that preference and nothing more: the longest queue may starve, and who
//! splits his traffic over many flows is preferred (`docs/papers.md`, SQF).
//!
//! Against starvation there is a [service floor](ShortestQueue::service_floor), off unless asked for: every
//! k-th packet is that of the flow that has waited longest.
//!
//! [`ShortestQueue`] is the order, one queue a flow; [`Sqf`] is the scheduler of the paper, with a fixed
//! number of virtual queues and a default queue.
//!
//! Cost: O(log flows) per call, whatever is queued. Memory: 20 bytes a flow, 36 with its
//! [`Queue`](crate::Queue), 8 more with a floor. Source: SQF §2; SQF-VBR §III-B, Algorithm 1; the floor
//! is ours.

mod floor;
mod virtual_queues;

pub use floor::WaitingFlow;
pub use virtual_queues::{Sqf, SqfArrays, SqfFlow, SqfMemory, VIRTUAL_QUEUES};

use crate::order::{ConfigError, DropFrom, FlowScheduler, FlowState, Table};
use crate::tournament::{RankedFlow, Tournament};
use crate::{FlowId, Imbalance, Nanos, Packet};
use floor::Floor;

/// Room for one flow of [`ShortestQueue`]: 20 bytes.
pub type ShortestFlow = RankedFlow<2>;

type Shortest = Tournament<0, false>;
type Longest = Tournament<1, true>;

/// The stamp of a flow that was not added. No service has this number: at one service a nanosecond
/// the count takes 584 years.
const ABSENT: u64 = u64::MAX;

/// The order of SQF with longest-queue drop, over the flows in the memory `N`; `W` is the memory of the
/// [service floor](Self::service_floor), if there is one.
///
/// Served is the flow with the fewest bytes; gives way the flow with the most. Ties go to the flow
/// served least recently (never served comes first), then to the lowest number: equal queues alternate.
#[derive(Clone, Debug)]
pub struct ShortestQueue<N, W = [WaitingFlow; 0]> {
    /// Of more than zero bytes if and only if backlogged; `stamp` is [`ABSENT`] if and only if not
    /// added.
    flows: N,
    /// Services so far; the number of the latest is the newest stamp.
    served: u64,
    drop_from: DropFrom,
    /// In its line are the backlogged flows.
    floor: Floor<W>,
}

impl<N: Table<ShortestFlow>> ShortestQueue<N> {
    /// An order of as many flows as `flows` is long, none of them added; packets give way at the head.
    /// Cost: O(flows).
    #[must_use]
    pub fn new(mut flows: N) -> Self {
        for flow in flows.as_mut() {
            *flow = RankedFlow::EMPTY;
            flow.set_stamp(ABSENT);
        }
        Shortest::play_all(flows.as_mut());
        Longest::play_all(flows.as_mut());
        Self { flows, served: 0, drop_from: DropFrom::Head, floor: Floor::OFF }
    }
}

impl<N: Table<ShortestFlow>, W: Table<WaitingFlow>> ShortestQueue<N, W> {
    /// The same order with a floor under the service of each flow: one packet of `every`, the last, is
    /// that of the backlogged flow served least recently, where becoming backlogged counts as service.
    /// `waiting` has room for every flow, 8 bytes each. Cost: O(flows), here; O(1) per call.
    ///
    /// **The bound.** Of the F flows that are backlogged when a flow is served, or when it becomes
    /// backlogged, itself included, it is served again within the next `every · F` packets, its own
    /// the last of them at the latest, whatever arrives meanwhile. For it joins a line of F at the end,
    /// nobody gets ahead of it there, and one packet of `every` takes the front away. So a backlogged
    /// flow gets one of `every · F` packets at least, where plain SQF lets the longest queue starve.
    ///
    /// **The price.** Two packets of the floor are never next to each other: what used to wait for at
    /// most one packet of another flow waits for at most two.
    ///
    /// Flows that are backlogged now stand in line by their number.
    ///
    /// ```
    /// use sched_core::{FlowId, FlowScheduler, ShortestFlow, ShortestQueue, WaitingFlow};
    ///
    /// let order = ShortestQueue::new([ShortestFlow::EMPTY; 2]);
    /// let mut order = order.service_floor(4, [WaitingFlow::EMPTY; 2])?;
    /// let (call, bulk) = (FlowId(0), FlowId(1));
    /// for (flow, bytes) in [(call, 200), (bulk, 60_000)] {
    ///     order.configure(flow, (), None)?;
    ///     order.backlogged(flow, bytes);
    /// }
    /// // The call's queue is always the shorter one, and never empty.
    /// let mut turns = [0; 2];
    /// for _ in 0..40 {
    ///     let flow = order.select().expect("both are backlogged");
    ///     turns[flow.index()] += 1;
    ///     order.served(flow, 100, Some(100));
    ///     order.grew(flow, 100);
    /// }
    /// assert_eq!(turns, [30, 10]);
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `every` is below 2, or if there is not room for every flow.
    pub fn service_floor<V: Table<WaitingFlow>>(
        self,
        every: u32,
        waiting: V,
    ) -> Result<ShortestQueue<N, V>, ConfigError> {
        let mut floor = Floor::new(every, waiting, self.flows())?;
        let Self { flows, served, drop_from, .. } = self;
        for (at, _) in (0..).zip(flows.as_ref()).filter(|(_, entry)| entry.is_backlogged()) {
            floor.join(FlowId(at));
        }
        Ok(ShortestQueue { flows, served, drop_from, floor })
    }

    /// Which packet of the longest queue gives way.
    #[must_use]
    pub fn drop_from(self, drop_from: DropFrom) -> Self {
        Self { drop_from, ..self }
    }

    fn added(&self, flow: FlowId) -> Option<&ShortestFlow> {
        self.flows.as_ref().get(flow.index()).filter(|entry| entry.stamp() != ABSENT)
    }

    /// What `flow` holds, if it is backlogged.
    fn ranked(&mut self, flow: FlowId) -> Option<&mut ShortestFlow> {
        let entry = self.flows.as_mut().get_mut(flow.index())?;
        entry.is_backlogged().then_some(entry)
    }

    /// `flow`, backlogged, holds fewer bytes, or none.
    fn shrunk(&mut self, flow: FlowId, idle: bool) {
        let flows = self.flows.as_mut();
        if idle {
            Shortest::lost(flows, flow);
        } else {
            Shortest::gained(flows, flow);
        }
        Longest::lost(flows, flow);
    }

    /// The longest queue but that of `other`.
    pub(crate) fn longest_beside(&self, other: FlowId) -> Option<FlowId> {
        Longest::first_beside(self.flows.as_ref(), other)
    }
}

impl<N: Table<ShortestFlow>, W: Table<WaitingFlow>> FlowScheduler for ShortestQueue<N, W> {
    type Config = ();

    fn flows(&self) -> u32 {
        u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX)
    }

    fn configure(
        &mut self,
        flow: FlowId,
        _config: (),
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows();
        match self.flows.as_mut().get_mut(flow.index()) {
            None => Err(ConfigError::UnknownFlow { flow, flows }),
            Some(entry) => {
                if entry.stamp() == ABSENT {
                    entry.set_stamp(0);
                }
                Ok(())
            }
        }
    }

    fn remove(&mut self, flow: FlowId) {
        let flows = self.flows.as_mut();
        if let Some(entry) = flows.get_mut(flow.index()) {
            let waits = entry.is_backlogged();
            entry.set_bytes(0);
            entry.set_stamp(ABSENT);
            Shortest::lost(flows, flow);
            Longest::lost(flows, flow);
            if waits {
                self.floor.leave(flow);
            }
        }
    }

    fn config(&self, flow: FlowId) -> Option<()> {
        self.added(flow).map(|_| ())
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.added(flow).map(|_| Packet::MAX_LEN)
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        Packet::MAX_LEN
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        let flows = self.flows.as_mut();
        let Some(entry) = flows.get_mut(flow.index()) else { return };
        if entry.stamp() == ABSENT || entry.is_backlogged() {
            return;
        }
        entry.set_bytes(head_len);
        Shortest::gained(flows, flow);
        Longest::gained(flows, flow);
        self.floor.join(flow);
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        let Some(entry) = self.ranked(flow) else { return };
        entry.set_bytes(entry.bytes().saturating_add(len));
        let flows = self.flows.as_mut();
        Shortest::lost(flows, flow);
        Longest::gained(flows, flow);
    }

    fn select(&self) -> Option<FlowId> {
        self.floor.due().or_else(|| Shortest::first(self.flows.as_ref()))
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let stamp = self.served.wrapping_add(1);
        let Some(entry) = self.ranked(flow) else { return };
        let left = if next_head.is_some() { entry.bytes().saturating_sub(len) } else { 0 };
        entry.set_bytes(left);
        entry.set_stamp(stamp);
        self.served = stamp;
        self.shrunk(flow, next_head.is_none());
        self.floor.count();
        self.floor.leave(flow);
        if next_head.is_some() {
            self.floor.join(flow);
        }
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        let Some(entry) = self.ranked(flow) else { return };
        let left = if head.is_some() { entry.bytes().saturating_sub(len) } else { 0 };
        entry.set_bytes(left);
        self.shrunk(flow, head.is_none());
        if head.is_none() {
            self.floor.leave(flow);
        }
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        Some((Longest::first(self.flows.as_ref())?, self.drop_from))
    }

    fn looks_ahead(&self) -> bool {
        false
    }

    /// It knows no time.
    #[inline]
    fn advance(&mut self, _now: Nanos) {}

    /// Names no flow.
    #[inline]
    fn upcoming(&self, _ahead: &mut [FlowId]) -> usize {
        0
    }

    fn counts_bytes(&self) -> bool {
        true
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for (at, entry) in (0..).zip(self.flows.as_ref()) {
            let absent = entry.stamp() == ABSENT;
            let backlogged = entry.is_backlogged();
            Imbalance::check("a backlogged flow was added", at, 0, (absent && backlogged).into())?;
            let past = absent || entry.stamp() <= self.served;
            Imbalance::check("stamps lie in the past", at, 1, past.into())?;
        }
        let backlogged = self.flows.as_ref().iter().filter(|entry| entry.is_backlogged()).count();
        let waits =
            |at: u32| self.flows.as_ref().get(at as usize).is_some_and(ShortestFlow::is_backlogged);
        self.floor.recount(&waits, backlogged as u64)?;
        Shortest::recount(self.flows.as_ref(), flows)?;
        Longest::recount(self.flows.as_ref(), flows)
    }
}

#[cfg(test)]
mod tests;
