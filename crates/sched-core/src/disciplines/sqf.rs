//! Shortest queue first: the flow that holds the fewest bytes is served.
//!
//! Smooth flows (voice, acknowledgements, requests) hold little and so come first, without being
//! identified; a flow that sends well below its share waits for at most one packet of another. On overflow
//! the flow that holds the most bytes gives way (longest-queue drop), so that those flows lose nothing
//! either.
//!
//! **What is promised.** Flows well below their share are protected; a stream above its share is preferred
//! while its queue is the shortest. That is all. A queue that stays longest may starve, and a sender that
//! splits its traffic over many flows is preferred (`docs/disciplines/sqf.md`). For a stream above its share
//! there are two stable states. Once some bulk flow holds less than the stream, the stream piles up:
//! packets are dropped from its queue and none is served. Bulk flows then slow down and the stream does not,
//! so it may lose everything for good. Two options answer that, each off unless asked for:
//!
//! - a [service floor](ShortestQueue::service_floor): a part of the bytes, by default one of eight, is that
//!   of the flow that has waited longest. No flow starves, and preferred flows have that much less.
//! - a [flush](ShortestQueue::flush_unserved): when the flow that has to give way has not been served for a
//!   time, it loses its whole queue. It then holds least, and is preferred again.
//!
//! [`ShortestQueue`] is the flow scheduler, one queue a flow; [`Sqf`] is the scheduler of the paper, with a fixed
//! number of virtual queues and a default queue.
//!
//! Cost: O(log flows) per call, whatever is queued. Memory: 20 bytes a flow, 36 with its
//! [`Queue`](crate::Queue), 16 more with an option. Source: SQF §2; SQF-VBR §III-B, Algorithm 1; the
//! options are ours.

mod floor;
mod virtual_queues;

pub use floor::{FloorShare, WaitingFlow};
pub use virtual_queues::{Sqf, SqfArrays, SqfFlow, SqfMemory, VIRTUAL_QUEUES};

use crate::disciplines::tournament::{Ranked, Tournament, ranked};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::{FlowId, Imbalance, Nanos, Packet};
use floor::Floor;

ranked! {
    /// Room for one flow of [`ShortestQueue`]: 20 bytes.
    ShortestFlow, 2
}

type Shortest = Tournament<0, false>;
type Longest = Tournament<1, true>;

/// The stamp of a flow that was not added. No service has this number: at one service a nanosecond
/// the count takes 292 years.
const ABSENT: u64 = u64::MAX;

/// Services are numbered above this; a stamp below is the number of an arrival.
const NO_SERVICE: u64 = 1 << 63;

/// The flow scheduler of SQF with longest-queue drop, over the flows in the memory `N`; `W` is the memory of the
/// [service floor](Self::service_floor) and of [flushes](Self::flush_unserved), if there is any.
///
/// The flow with the fewest bytes is served; the flow with the most gives way. Ties go to the flow
/// served least recently: equal queues alternate. A flow never served comes before one that was; of those
/// never served the one that became backlogged first comes first. So numbers decide nothing. Of three
/// flows that each send half of what the line carries, two have the line and the third starves, under any rule for
/// ties. The third queue is the longest after the first packets, and only a floor serves it.
///
/// ```
/// use sched_core::{FlowId, FlowScheduler, ShortestFlow, ShortestQueue};
///
/// let mut scheduler = ShortestQueue::new([ShortestFlow::EMPTY; 2]);
/// scheduler.configure(FlowId(0), (), None)?;
/// scheduler.configure(FlowId(1), (), None)?;
/// scheduler.backlogged(FlowId(0), 1_500);
/// scheduler.backlogged(FlowId(1), 60);
/// assert_eq!(scheduler.select(), Some(FlowId(1))); // 60 bytes before 1,500
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShortestQueue<N, W = [WaitingFlow; 0]> {
    /// A flow holds more than zero bytes if and only if it is backlogged. Its `stamp` is
    ///
    /// - [`ABSENT`] if and only if the flow is not added;
    /// - above [`NO_SERVICE`], the number of its last service;
    /// - below, while the flow is backlogged, the number of the call that made it backlogged.
    flows: N,
    /// The number of the latest service: the newest stamp.
    served: u64,
    /// Flows that became backlogged without ever having been served.
    arrived: u64,
    drop_from: DropFrom,
    /// In its line are the backlogged flows.
    floor: Floor<W>,
}

impl<N: Table<ShortestFlow>> ShortestQueue<N> {
    /// A flow scheduler of as many flows as `flows` is long, none of them added; packets give way at the head.
    /// Cost: O(flows).
    #[must_use]
    pub fn new(mut flows: N) -> Self {
        for flow in flows.as_mut() {
            *flow = ShortestFlow::EMPTY;
            flow.set_stamp(ABSENT);
        }
        Shortest::play_all(flows.as_mut());
        Longest::play_all(flows.as_mut());
        let (served, arrived) = (NO_SERVICE, 0);
        Self { flows, served, arrived, drop_from: DropFrom::Head, floor: Floor::OFF }
    }
}

impl<N: Table<ShortestFlow>, W: Table<WaitingFlow>> ShortestQueue<N, W> {
    /// This flow scheduler with a floor under the service of each flow. The next packet is that of the backlogged
    /// flow served least recently, where becoming backlogged counts as service, if
    ///
    /// - the floor has been sent less than `share` of all bytes, and
    /// - [`FloorShare::after`] bytes have been sent since the flow became backlogged or was last served as the shortest.
    ///
    /// `waiting` has room for every flow, 16 bytes each. Cost: O(flows), here; O(1) per call. Source: ours.
    ///
    /// **The bound.** Let `share` be one of `k` bytes after `D`, and `L` the longest packet. A flow that is
    /// served, or becomes backlogged, with `F` flows backlogged, itself included, sends its next packet after
    /// less than `D + (k·F + 1)·L` bytes, whatever arrives meanwhile. The flow joins a waiting line of `F` at its end,
    /// no flow gets ahead there, and one of `k` bytes is that of the front. So a backlogged flow has a least
    /// service, where plain SQF lets the longest queue starve. The floor is sent at most one of `k` bytes in any
    /// interval, to within one longest packet.
    ///
    /// **The price.** Take a packet that waits for at most `L` bytes of another flow without a floor. With a floor it
    /// waits for less than `(2 + 1/(k − 1))·L` bytes: for the packet on the wire, and for packets of the floor. The
    /// packets of the floor are together less than `L + L/(k − 1)`. The flows with the shortest queues have
    /// `(k − 1)/k` of the line. The derivation is in `docs/guarantees.md`.
    ///
    /// Flows that are backlogged now stand in line by their number.
    ///
    /// ```
    /// use sched_core::{FloorShare, FlowId, FlowScheduler, ShortestFlow, ShortestQueue, WaitingFlow};
    ///
    /// let scheduler = ShortestQueue::new([ShortestFlow::EMPTY; 2]);
    /// let share = FloorShare::EIGHTH.after(0);
    /// let mut scheduler = scheduler.service_floor(share, [WaitingFlow::EMPTY; 2])?;
    /// let (call, bulk) = (FlowId(0), FlowId(1));
    /// for (flow, bytes) in [(call, 200), (bulk, 60_000)] {
    ///     scheduler.configure(flow, (), None)?;
    ///     scheduler.backlogged(flow, bytes);
    /// }
    /// // The call's queue is always the shorter one, and never empty.
    /// let mut sent = [0; 2];
    /// for _ in 0..720 {
    ///     let flow = scheduler.select().expect("both are backlogged");
    ///     let len = [200, 1_000][flow.index()];
    ///     sent[flow.index()] += len;
    ///     scheduler.grew(flow, len);
    ///     scheduler.served(flow, len, Some(len));
    /// }
    /// assert_eq!(sent, [140_000, 20_000]);
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if there is not room for every flow.
    pub fn service_floor<V: Table<WaitingFlow>>(
        self,
        share: FloorShare,
        waiting: V,
    ) -> Result<ShortestQueue<N, V>, ConfigError> {
        let floor = Floor::new(share, waiting, self.flows())?;
        let mut floor = floor.of_patience_of(&self.floor);
        let Self { flows, served, arrived, drop_from, .. } = self;
        for (at, _) in (0..).zip(flows.as_ref()).filter(|(_, entry)| entry.is_backlogged()) {
            floor.join(FlowId(at));
        }
        Ok(ShortestQueue { flows, served, arrived, drop_from, floor })
    }

    /// This flow scheduler, in which a flow that has to give way for an arrival loses all it holds
    /// ([`FlowScheduler::gives_up`]) if it has been backlogged for `after` and was not served in that time. Service
    /// by the floor does not count. It needs the memory of a [floor](Self::service_floor), whose share may be
    /// [`FloorShare::NONE`]. Times are told by [`FlowScheduler::advance`] and counted in 2^20 ns, `after` is
    /// rounded up. Cost: O(1). Source: ours.
    ///
    /// **What for.** A stream above its share that does not slow down loses its preference when some bulk flow
    /// holds less than the stream. From then on the stream's queue is the longest: packets are dropped from it and
    /// none is served. Bulk flows slow down and stay shorter, so that may last for good. A queue that was dropped
    /// whole is the shortest again.
    ///
    /// **The price.** All that waited is lost at once, up to
    /// [`FlowQueues::MAX_VICTIMS`](crate::FlowQueues::MAX_VICTIMS) packets a call. A bulk flow that is starved for
    /// as long loses its queue in the same way, and learns of the loss by a timeout. A flow above its share takes
    /// its part of the line for longer: only a service floor bounds how much it takes from others.
    ///
    /// `docs/disciplines/sqf.md` has figures, measured with 0.5 s.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if there is not room for every flow, or unless `after` is in 1 ns to 1 h.
    pub fn flush_unserved(self, after: Nanos) -> Result<Self, ConfigError> {
        let flows = self.flows();
        let mut floor = self.floor;
        floor.set_patience(after, flows)?;
        Ok(Self { floor, ..self })
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

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.floor.advance(now);
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
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: true, common_max_len: Packet::MAX_LEN }
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        let flows = self.flows.as_mut();
        let Some(entry) = flows.get_mut(flow.index()) else { return };
        if entry.stamp() == ABSENT || entry.is_backlogged() {
            return;
        }
        if entry.stamp() < NO_SERVICE {
            self.arrived = self.arrived.wrapping_add(1);
            entry.set_stamp(self.arrived);
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
        self.floor.served(flow, len, next_head.is_some());
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

    fn gives_up(&self, flow: FlowId) -> bool {
        let entry = self.flows.as_ref().get(flow.index());
        entry.is_some_and(ShortestFlow::is_backlogged) && self.floor.is_neglected(flow)
    }

    /// Names no flow.
    #[inline]
    fn upcoming(&self, _ahead: &mut [FlowId]) -> usize {
        0
    }

    /// A backlogged flow is always selected: none waits.
    #[inline]
    fn waits(&self) -> bool {
        false
    }

    /// No flow waits.
    #[inline]
    fn waiting(&self) -> Option<FlowId> {
        None
    }

    /// No flow waits.
    #[inline]
    fn opens_at(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// No flow waits.
    #[inline]
    fn open(&mut self) {}

    /// No flow has a ceiling.
    #[inline]
    fn pace(&self, _flow: FlowId) -> Nanos {
        Nanos::ZERO
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        for (at, entry) in (0..).zip(self.flows.as_ref()) {
            let absent = entry.stamp() == ABSENT;
            let backlogged = entry.is_backlogged();
            Imbalance::check("a backlogged flow was added", at, 0, (absent && backlogged).into())?;
            let latest = if entry.stamp() < NO_SERVICE { self.arrived } else { self.served };
            let past = absent || entry.stamp() <= latest;
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
