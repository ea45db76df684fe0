//! Shortest queue first (SQF): serves the flow with the fewest queued bytes.
//!
//! Smooth flows (voice, acknowledgements, requests) keep short queues and so are served first,
//! without being classified. A flow that sends well below its share waits for at most one packet of
//! another flow. On overflow, packets are dropped from the longest queue (longest-queue drop), so
//! those flows lose nothing either.
//!
//! **Guarantees.** Flows well below their share are protected; a stream above its share is
//! preferred while its queue is the shortest. Nothing else is guaranteed: the longest queue may
//! starve, possibly forever, and a sender that splits its traffic over many flows is preferred
//! (`docs/disciplines/sqf.md`). Two options limit starvation, both off by default:
//!
//! - A [service floor](ShortestQueue::service_floor) reserves a share of the bytes, by default one
//!   eighth, for the flow that has waited longest. No flow starves, and preferred flows get that
//!   much less.
//! - A [flush](ShortestQueue::flush_unserved) drops the victim's whole queue if the victim has not
//!   been served for a configured time. Its queue is then the shortest, and it is preferred again.
//!
//! **Precision: 1/32.** Lengths are compared by length class ([`LengthClass`]). The flow served
//! holds less than 33/32 of the fewest bytes, and the victim more than 32/33 of the most. A flow
//! that holds less than 32/33 of what every other flow holds is always served first.
//!
//! Cost: O(1) per call, independent of the number of flows. Memory: 16 bytes per flow, 32 with its
//! [`Queue`](crate::Queue), 16 more with either option, and 3.7 KB of length classes. Source: SQF
//! §2; SQF-VBR §III-B, Algorithm 1. The options and the classes are ours.

mod floor;

pub use floor::{FloorShare, WaitingFlow};

use crate::disciplines::length_index::{LengthClass, LengthFlow, LengthIndex, SUB_CLASS_BITS};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::{FlowId, Imbalance, Nanos, Packet};
use floor::Floor;

/// A flow scheduler for SQF with longest-queue drop.
///
/// `N` is the memory of the flows, `W` the memory of the optional [service
/// floor](Self::service_floor) and [flushes](Self::flush_unserved), and `C` the memory of the
/// length classes, of which each power of two has `2^S`.
///
/// A flow of the lowest class in use is served, and a flow of the highest is dropped from. So the
/// flow served holds less than `1 + 2^-S` times the fewest bytes, and the victim more than the most
/// bytes divided by `1 + 2^-S`. Within a class, the flow that was served least recently comes
/// first, where entering the class counts as service. So equal queues alternate, independent of
/// flow numbers.
///
/// If three flows each send half of the link's rate, two of them get the whole link and the third
/// starves, under any tie-breaking rule: its queue is the longest after the first packets. Only a
/// service floor serves it.
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
///
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct ShortestQueue<
    N,
    W = [WaitingFlow; 0],
    C = [LengthClass; LengthClass::<SUB_CLASS_BITS>::COUNT],
    const S: u32 = SUB_CLASS_BITS,
> {
    /// Lists exactly the backlogged flows.
    index: LengthIndex<N, C, S>,
    drop_from: DropFrom,
    /// Its waiting list contains exactly the backlogged flows.
    floor: Floor<W>,
}

/// Omits the tables.
impl<N, W, C, const S: u32> core::fmt::Debug for ShortestQueue<N, W, C, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ShortestQueue").field("drop_from", &self.drop_from).finish_non_exhaustive()
    }
}

impl<N: Table<LengthFlow>> ShortestQueue<N> {
    /// Creates a flow scheduler for `flows.len()` flows, none of them added.
    ///
    /// It drops from the head, contains its own length classes (3.7 KB) and distinguishes lengths
    /// to 1/32. Cost: O(flows).
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
    /// Creates a flow scheduler with length classes in the caller's memory.
    ///
    /// Use it to store the classes elsewhere, or to use fewer classes for a coarser order. A class
    /// takes 4 bytes; 132 bytes are always part of the flow scheduler. With `S` = 3 the classes
    /// take 960 bytes, and lengths are distinguished to 1/8. Otherwise like [`ShortestQueue::new`].
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
    /// [`ConfigError::OutOfRange`] if `classes` is shorter than [`LengthClass::COUNT`].
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
    /// Adds a service floor, a guaranteed minimum service for every flow.
    ///
    /// The next packet is taken from the backlogged flow served least recently, where becoming
    /// backlogged counts as service, if
    ///
    /// - the floor has sent less than `share` of all bytes, and
    /// - [`FloorShare::after`] bytes have been sent since the flow became backlogged or was last
    ///   served as the shortest.
    ///
    /// `waiting` needs one entry per flow, 16 bytes each. Flows that are already backlogged enter
    /// the waiting list in order of their numbers. Cost: O(flows) for this call; O(1) per packet.
    /// Source: ours.
    ///
    /// **Bound.** Let `share` be one in `k` bytes after `D`, and `L` the longest packet. A flow
    /// that is served, or becomes backlogged, with `F` flows backlogged, itself included, sends its
    /// next packet after less than `D + (k·F + 1)·L` bytes, whatever arrives meanwhile. The flow
    /// joins the end of a waiting list of `F` flows, no flow overtakes it there, and one in `k`
    /// bytes goes to the front. So every backlogged flow has a minimum service, where plain SQF
    /// lets the longest queue starve. In any interval the floor sends at most one in `k` bytes, to
    /// within one longest packet.
    ///
    /// **Cost to preferred flows.** Take a packet that, without a floor, waits for at most `L`
    /// bytes of other flows. With a floor it waits for less than `(2 + 1/(k − 1))·L` bytes: for the
    /// packet in transmission, and for floor packets, which are together less than `L + L/(k − 1)`.
    /// The flows with the shortest queues get `(k − 1)/k` of the link. For the derivation see
    /// `docs/proofs/queues.md`.
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
    /// [`ConfigError::OutOfRange`] if `waiting` has fewer entries than there are flows.
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

    /// Drops a victim's whole queue if the flow has not been served for `after`.
    ///
    /// If an arrival needs buffer space, a victim that has been backlogged for `after` without
    /// service loses its whole queue ([`FlowScheduler::gives_up`]). Service by the floor does not
    /// count. This option uses the memory of a [floor](Self::service_floor), whose share may be
    /// [`FloorShare::NONE`]. Time comes from [`FlowScheduler::advance`] and is counted in units of
    /// 2^20 ns; `after` is rounded up. Cost: O(1). Source: ours.
    ///
    /// **Purpose.** A stream above its share that does not slow down loses its preference when some
    /// bulk flow has a shorter queue. From then on the stream's queue is the longest: packets are
    /// dropped from it and none is served. Bulk flows slow down and keep shorter queues, so this
    /// may last indefinitely. After its whole queue is dropped, the stream's queue is the shortest
    /// again.
    ///
    /// **Cost.** All queued packets are lost at once, up to
    /// [`FlowQueues::MAX_VICTIMS`](crate::FlowQueues::MAX_VICTIMS) packets per call, or as many as
    /// the arrival has bytes. A bulk flow that is starved for as long loses its queue in the same
    /// way, and detects the loss by a timeout. A flow above its share takes its part of the link
    /// for longer: only a service floor bounds how much it takes from others.
    ///
    /// For figures with 0.5 s see `docs/disciplines/sqf.md`.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if the waiting list has fewer entries than there are flows, or
    /// if `after` is not in 1 ns to 1 h.
    pub fn flush_unserved(self, after: Nanos) -> Result<Self, ConfigError> {
        let flows = self.flows();
        let mut floor = self.floor;
        floor.set_patience(after, flows)?;
        Ok(Self { floor, ..self })
    }

    /// Sets the end of the longest queue at which packets are dropped.
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
