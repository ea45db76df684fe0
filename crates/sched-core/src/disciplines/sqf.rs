//! Shortest queue first: the flow that holds the fewest bytes is served.
//!
//! Smooth flows (voice, acknowledgements, requests) hold little and so come first, without being
//! identified; a flow that sends well below its share waits for at most one packet of another. On
//! overflow the flow that holds the most bytes gives way (longest-queue drop), so that those flows
//! lose nothing either.
//!
//! **What is promised.** Flows well below their share are protected; a stream above its share is
//! preferred while its queue is the shortest. That is all. A queue that stays longest may starve,
//! and a sender that splits its traffic over many flows is preferred (`docs/disciplines/sqf.md`).
//! For a stream above its share there are two stable states. Once some bulk flow holds less than
//! the stream, the stream piles up: packets are dropped from its queue and none is served. Bulk
//! flows then slow down and the stream does not, so it may lose everything for good. Two options
//! answer that, each off unless asked for:
//!
//! - a [service floor](ShortestQueue::service_floor): a part of the bytes, by default one of eight,
//!   is that of the flow that has waited longest. No flow starves, and preferred flows have that
//!   much less.
//! - a [flush](ShortestQueue::flush_unserved): when the flow that has to give way has not been
//!   served for a time, it loses its whole queue. It then holds least, and is preferred again.
//!
//! **To within 1/32.** Lengths are told apart by classes ([`LengthClass`]). The flow that is served
//! holds less than 33/32 of the fewest bytes, the flow that gives way more than 32/33 of the most.
//! A flow that holds less than 32/33 of what every other flow holds is always served first.
//!
//! Cost: O(1) per call, whatever is queued. Memory: 16 bytes a flow, 32 with its
//! [`Queue`](crate::Queue), 16 more with an option, and 3.7 KB of classes. Source: SQF §2; SQF-VBR
//! §III-B, Algorithm 1; the options and the classes are ours.

mod floor;

pub use floor::{FloorShare, WaitingFlow};

use crate::disciplines::length_index::{LengthClass, LengthFlow, LengthIndex, SUB_CLASS_BITS};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::{FlowId, Imbalance, Nanos, Packet};
use floor::Floor;

/// The flow scheduler of SQF with longest-queue drop, over the flows in the memory `N`; `W` is the
/// memory of the [service floor](Self::service_floor) and of [flushes](Self::flush_unserved), if
/// there is any. `C` is the memory of the classes of length, of which a power of two has `2^S`.
///
/// A flow of the lowest class in use is served, and a flow of the highest gives way. So the flow
/// that is served holds less than `1 + 2^-S` times the fewest bytes, and `1 + 2^-S` times the bytes
/// of the flow that gives way are more than the most. Among flows of one class the flow comes first
/// that was served least recently, where entering the class counts as service. So equal queues
/// alternate, and numbers decide nothing.
///
/// Of three flows that each send half of what the line carries, two have the line and the third
/// starves, under any rule for ties. The third queue is the longest after the first packets, and
/// only a floor serves it.
///
/// ```
/// use sched_core::{FlowId, FlowScheduler, LengthFlow, ShortestQueue};
///
/// let mut scheduler = ShortestQueue::new([LengthFlow::EMPTY; 2]);
/// scheduler.configure(FlowId(0), (), None)?;
/// scheduler.configure(FlowId(1), (), None)?;
/// scheduler.backlogged(FlowId(0), 1_500);
/// scheduler.backlogged(FlowId(1), 60);
/// assert_eq!(scheduler.select(), Some(FlowId(1))); // 60 bytes before 1,500
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct ShortestQueue<
    N,
    W = [WaitingFlow; 0],
    C = [LengthClass; LengthClass::<SUB_CLASS_BITS>::COUNT],
    const S: u32 = SUB_CLASS_BITS,
> {
    /// Listed are the backlogged flows.
    index: LengthIndex<N, C, S>,
    drop_from: DropFrom,
    /// In its line are the backlogged flows.
    floor: Floor<W>,
}

/// Without the tables.
impl<N, W, C, const S: u32> core::fmt::Debug for ShortestQueue<N, W, C, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ShortestQueue").field("drop_from", &self.drop_from).finish_non_exhaustive()
    }
}

impl<N: Table<LengthFlow>> ShortestQueue<N> {
    /// A flow scheduler of as many flows as `flows` is long, none of them added; packets give way
    /// at the head. It contains its classes of length, 3.7 KB, and tells lengths apart to 1/32.
    /// Cost: O(flows).
    #[must_use]
    pub fn new(flows: N) -> Self {
        let classes = [LengthClass::EMPTY; LengthClass::<SUB_CLASS_BITS>::COUNT];
        let index = LengthIndex::with_all_classes(flows, classes);
        Self { index, drop_from: DropFrom::Head, floor: Floor::OFF }
    }
}

impl<N: Table<LengthFlow>, C: Table<LengthClass<S>>, const S: u32>
    ShortestQueue<N, [WaitingFlow; 0], C, S>
{
    /// As [`ShortestQueue::new`], with the classes of length in `classes`, which may be elsewhere,
    /// or fewer for a coarser order. A class takes 4 bytes; 132 bytes are always part of the flow
    /// scheduler. With `S` = 3 the classes take 960 bytes, and lengths are told apart to 1/8.
    ///
    /// ```
    /// use sched_core::{LengthClass, LengthFlow, ShortestQueue};
    ///
    /// let classes = [LengthClass::<3>::EMPTY; LengthClass::<3>::COUNT];
    /// let scheduler = ShortestQueue::with_classes([LengthFlow::EMPTY; 16], classes)?;
    /// assert!(size_of_val(&scheduler) < 1_500);
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if there are fewer than [`LengthClass::COUNT`] classes.
    pub fn with_classes(flows: N, classes: C) -> Result<Self, ConfigError> {
        let index = LengthIndex::new(flows, classes)?;
        Ok(Self { index, drop_from: DropFrom::Head, floor: Floor::OFF })
    }
}

impl<N, W, C, const S: u32> ShortestQueue<N, W, C, S>
where
    N: Table<LengthFlow>,
    W: Table<WaitingFlow>,
    C: Table<LengthClass<S>>,
{
    /// This flow scheduler with a floor under the service of each flow. The next packet is that of
    /// the backlogged flow served least recently, where becoming backlogged counts as service, if
    ///
    /// - the floor has been sent less than `share` of all bytes, and
    /// - [`FloorShare::after`] bytes have been sent since the flow became backlogged or was last
    ///   served as the shortest.
    ///
    /// `waiting` has room for every flow, 16 bytes each. Cost: O(flows), here; O(1) per call.
    /// Source: ours.
    ///
    /// **The bound.** Let `share` be one of `k` bytes after `D`, and `L` the longest packet. A flow
    /// that is served, or becomes backlogged, with `F` flows backlogged, itself included, sends its
    /// next packet after less than `D + (k·F + 1)·L` bytes, whatever arrives meanwhile. The flow
    /// joins a waiting line of `F` at its end, no flow gets ahead there, and one of `k` bytes is
    /// that of the front. So a backlogged flow has a least service, where plain SQF lets the
    /// longest queue starve. The floor is sent at most one of `k` bytes in any interval, to within
    /// one longest packet.
    ///
    /// **The price.** Take a packet that waits for at most `L` bytes of another flow without a
    /// floor. With a floor it waits for less than `(2 + 1/(k − 1))·L` bytes: for the packet on the
    /// wire, and for packets of the floor. The packets of the floor are together less than `L +
    /// L/(k − 1)`. The flows with the shortest queues have `(k − 1)/k` of the line. The derivation
    /// is in `docs/proofs/queues.md`.
    ///
    /// Flows that are backlogged now stand in line by their number.
    ///
    /// ```
    /// use sched_core::{FloorShare, FlowId, FlowScheduler, LengthFlow, ShortestQueue, WaitingFlow};
    ///
    /// let scheduler = ShortestQueue::new([LengthFlow::EMPTY; 2]);
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
    ) -> Result<ShortestQueue<N, V, C, S>, ConfigError> {
        let floor = Floor::new(share, waiting, self.flows())?;
        let mut floor = floor.of_patience_of(&self.floor);
        let Self { index, drop_from, .. } = self;
        for (flow, _) in index.flows().filter(|(_, entry)| entry.is_backlogged()) {
            floor.join(flow);
        }
        Ok(ShortestQueue { index, drop_from, floor })
    }

    /// This flow scheduler, in which a flow that has to give way for an arrival loses all it holds
    /// ([`FlowScheduler::gives_up`]) if it has been backlogged for `after` and was not served in
    /// that time. Service by the floor does not count. It needs the memory of a
    /// [floor](Self::service_floor), whose share may be [`FloorShare::NONE`]. Times are told by
    /// [`FlowScheduler::advance`] and counted in 2^20 ns, `after` is rounded up. Cost: O(1).
    /// Source: ours.
    ///
    /// **What for.** A stream above its share that does not slow down loses its preference when
    /// some bulk flow holds less than the stream. From then on the stream's queue is the longest:
    /// packets are dropped from it and none is served. Bulk flows slow down and stay shorter, so
    /// that may last for good. A queue that was dropped whole is the shortest again.
    ///
    /// **The price.** All that waited is lost at once, up to
    /// [`FlowQueues::MAX_VICTIMS`](crate::FlowQueues::MAX_VICTIMS) packets a call, or as many as
    /// the arrival has bytes. A bulk flow that is starved for as long loses its queue in the same
    /// way, and learns of the loss by a timeout. A flow above its share takes its part of the line
    /// for longer: only a service floor bounds how much it takes from others.
    ///
    /// `docs/disciplines/sqf.md` has figures, measured with 0.5 s.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if there is not room for every flow, or unless `after` is in 1
    /// ns to 1 h.
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

    fn added(&self, flow: FlowId) -> Option<&LengthFlow> {
        self.index.flow(flow).filter(|entry| entry.is_added())
    }
}

impl<N, W, C, const S: u32> FlowScheduler for ShortestQueue<N, W, C, S>
where
    N: Table<LengthFlow>,
    W: Table<WaitingFlow>,
    C: Table<LengthClass<S>>,
{
    type Config = ();

    fn flows(&self) -> u32 {
        self.index.room()
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
        if self.index.add(flow) {
            return Ok(());
        }
        Err(ConfigError::UnknownFlow { flow, flows: self.flows() })
    }

    fn remove(&mut self, flow: FlowId) {
        if self.index.remove(flow) {
            self.floor.leave(flow);
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
        if self.added(flow).is_some() && self.index.list(flow, head_len) {
            self.floor.join(flow);
        }
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        self.index.grew(flow, len);
    }

    fn select(&self) -> Option<FlowId> {
        self.floor.due().or_else(|| self.index.shortest())
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.index.served(flow, len, next_head.is_none()) {
            self.floor.served(flow, len, next_head.is_some());
        }
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        if self.index.lost(flow, len, head.is_none()) && head.is_none() {
            self.floor.leave(flow);
        }
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        Some((self.index.longest()?, self.drop_from))
    }

    fn gives_up(&self, flow: FlowId) -> bool {
        let entry = self.index.flow(flow);
        entry.is_some_and(LengthFlow::is_backlogged) && self.floor.is_neglected(flow)
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let mut backlogged = 0_u64;
        for (flow, entry) in self.index.flows().filter(|(_, entry)| entry.is_backlogged()) {
            let known = entry.is_added();
            Imbalance::check("a backlogged flow was added", flow.0, 1, known.into())?;
            backlogged = backlogged.wrapping_add(1);
        }
        let waits = |at: u32| self.index.flow(FlowId(at)).is_some_and(LengthFlow::is_backlogged);
        self.floor.recount(&waits, backlogged)?;
        self.index.recount(flows)
    }
}

#[cfg(test)]
mod tests;
