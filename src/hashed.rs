//! Flows by hash: any flow scheduler over the queues of a set-associative table.
//!
//! [`Hashed`] looks up a packet's hash in a [`flowhash::FlowTable`], enqueues the packet into the
//! queue found, and releases the queue as soon as it is empty. With `Drr` inside, this is the
//! set-associative-hashed DRR of CAKE (§III-B) without its host level. Cost: that of the inner
//! scheduler and one lookup per packet.

use crate::ack_filter::{AckFilter, Acks};
use flowhash::{Ack, FlowTable, Outcome, TagLine};
use sched_core::{
    Aqm, ConfigError, Counters, Descriptor, DropPolicy, DropReason, DropSink, FlowDirectory,
    FlowId, FlowQueues, FlowRecord, FlowRecords, FlowScheduler, FlowState, Imbalance, Limits,
    LongestFlow, LongestQueueDrop, Nanos, NoAqm, Packet, Queue, Rejected, Scheduler, Table, Tables,
};

/// A hash table as a flow directory: the scheduler's flow `q` is the table's queue `q`, which is
/// released as soon as it is empty.
#[derive(Debug)]
pub struct HashDirectory<L> {
    /// A queue is claimed here if and only if it holds packets.
    table: FlowTable<L>,
}

impl<L: Table<TagLine>> HashDirectory<L> {
    /// Returns the table.
    pub const fn table(&self) -> &FlowTable<L> {
        &self.table
    }
}

impl<O: FlowScheduler + ?Sized, L: Table<TagLine>> FlowDirectory<O> for HashDirectory<L> {
    fn room(&self) -> Option<u32> {
        Some(self.table.queues())
    }

    #[inline]
    fn emptied(&mut self, _scheduler: &O, flow: FlowId) {
        self.table.release(flow.0);
    }

    fn recount(
        &self,
        _scheduler: &O,
        flows: &dyn Fn(FlowId) -> FlowState,
    ) -> Result<(), Imbalance> {
        let mut occupied = 0_u64;
        for queue in 0..self.table.queues() {
            let backlogged = flows(FlowId(queue)).backlog.packets > 0;
            let claimed = self.table.is_used(queue);
            Imbalance::check("claimed while backlogged", queue, claimed.into(), backlogged.into())?;
            occupied += u64::from(claimed);
        }
        Imbalance::check("claimed queues", 0, self.table.occupied().into(), occupied)
    }
}

/// Tables without statistics of single queues.
type Plain<Q, S, L> = (Q, S, [FlowRecord; 0], HashDirectory<L>);

/// Queues under a flow scheduler, found by hash: the [`FlowQueues`] `E` with a [`HashDirectory`].
///
/// As a [`Scheduler`], it takes a 32-bit hash as the flow: [`Labels::flow`](flowhash::Labels), or a
/// hash computed by a network card. Flows that collide in a full set share a queue; such a flow may
/// be reordered once, when a way of its set is released (see [`flowhash::FlowTable`]). Changing the
/// key of the hashes needs no call; a flow with packets queued under the old key may be reordered
/// once too. A flow that claims a queue inherits the state of its previous flow in flow scheduler
/// and AQM: a debt below one packet with DRR, the last signalling rate with CoDel.
///
/// ```
/// use freeboard::Hashed;
/// use freeboard::flowhash::{FlowTable, TagLine};
/// use freeboard::sched_core::{
///     Descriptor, Drr, DrrFlow, FlowId, Limits, LongestFlow, Nanos, Packet, Queue, Scheduler,
/// };
///
/// let mut scheduler = Drr::new([DrrFlow::EMPTY; 64], 1_514)?;
/// scheduler.add_all(1_514)?;
/// let table = FlowTable::new([TagLine::EMPTY; 8], 64, 8)?;
/// let (queues, lengths) = ([Queue::EMPTY; 64], [LongestFlow::EMPTY; 64]);
/// let packets = [Descriptor::EMPTY; 256];
/// let mut queues = Hashed::new(scheduler, table, queues, lengths, packets, Limits::packets(256));
///
/// let drops = &mut |packet: Packet, _why| println!("buffer {} is free again", packet.handle);
/// queues.enqueue(Nanos(0), FlowId(0xfeed_f00d), Packet::new(7, 1_000), drops)?;
/// assert_eq!(queues.dequeue(Nanos(0), drops), Some(Packet::new(7, 1_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Hashed<E> {
    queues: E,
}

impl<O, Q, S, L, N> Hashed<FlowQueues<O, Plain<Q, S, L>, NoAqm, LongestQueueDrop<N>>>
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    L: Table<TagLine>,
    N: Table<LongestFlow>,
{
    /// Creates hashed queues without an AQM and without statistics of single queues. If the queue
    /// is full, a packet is dropped from a queue with about the most bytes; see [`FlowQueues::new`]
    /// and [`Hashed::over`].
    pub fn new(
        scheduler: O,
        table: FlowTable<L>,
        queues: Q,
        lengths: N,
        descriptors: S,
        limits: Limits,
    ) -> Self {
        Self::over(FlowQueues::new(scheduler, queues, lengths, descriptors, limits), table)
    }
}

impl<O, Q, S, L> Hashed<FlowQueues<O, Plain<Q, S, L>>>
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    L: Table<TagLine>,
{
    /// Creates hashed queues without an AQM and without statistics of single queues. If the queue
    /// is full, a packet is dropped from the queue that the flow scheduler selects, or else the
    /// arriving packet; see [`FlowQueues::with_own_victim`] and [`Hashed::over`].
    pub fn with_own_victim(
        scheduler: O,
        table: FlowTable<L>,
        queues: Q,
        descriptors: S,
        limits: Limits,
    ) -> Self {
        Self::over(FlowQueues::with_own_victim(scheduler, queues, descriptors, limits), table)
    }
}

impl<O, Q, S, R, L, A, D> Hashed<FlowQueues<O, (Q, S, R, HashDirectory<L>), A, D>>
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    R: FlowRecords<O>,
    L: Table<TagLine>,
    A: Aqm,
    D: DropPolicy<O>,
{
    /// Creates hashed queues over `queues`, which must be empty, found by `table`, in which no
    /// queue is claimed. A queue without a flow in the flow scheduler rejects its packets: add all
    /// [`queues`](flowhash::FlowTable::queues) of the table.
    pub fn over<M>(queues: FlowQueues<O, M, A, D>, table: FlowTable<L>) -> Self
    where
        M: Tables<O, Queues = Q, Descriptors = S, Records = R>,
    {
        Self { queues: queues.with_directory(HashDirectory { table }) }
    }
}

impl<O, M, A, D, L> Hashed<FlowQueues<O, M, A, D>>
where
    O: FlowScheduler,
    M: Tables<O, Directory = HashDirectory<L>>,
    A: Aqm,
    D: DropPolicy<O>,
    L: Table<TagLine>,
{
    /// Returns the queues by number.
    pub const fn queues(&self) -> &FlowQueues<O, M, A, D> {
        &self.queues
    }

    const fn table_mut(&mut self) -> &mut FlowTable<L> {
        &mut self.queues.siblings().directory.table
    }

    /// Returns a mutable reference to the AQM, to configure it; only the queue should pass it
    /// packets.
    pub const fn aqm_mut(&mut self) -> &mut A {
        self.queues.aqm_mut()
    }

    /// Sets the flow scheduler's configuration for one queue of the table.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing has changed then.
    pub fn configure_queue(&mut self, queue: u32, config: O::Config) -> Result<(), ConfigError> {
        self.queues.configure(FlowId(queue), config)
    }

    /// Enqueues a packet by `hash`; returns how its queue was found.
    ///
    /// # Errors
    /// See [`Scheduler::enqueue`].
    #[inline(always)]
    pub fn enqueue_hashed(
        &mut self,
        now: Nanos,
        hash: u32,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let lookup = self.table_mut().lookup_in_line(hash);
        let queue = FlowId(lookup.queue);
        match self.queues.enqueue(now, queue, packet, drops) {
            Ok(()) => Ok(lookup.outcome),
            Err(rejected) => {
                // A packet that was never queued cannot leave, so nothing else would release the
                // claim.
                if self.queues.flow_backlog(queue).packets == 0 {
                    self.table_mut().release(lookup.queue);
                }
                Err(rejected)
            }
        }
    }

    /// Applies `filter` to the queue of `hash` after `packet` with the acknowledgement `ack`
    /// arrived there: a queued acknowledgement may be dropped. `acks` reads queued packets. Returns
    /// true if one was dropped; never if `packet` is not the newest of that queue.
    ///
    /// Cost: a lookup, and reading up to [`AckFilter::REACH`] packets.
    ///
    /// ```
    /// use freeboard::flowhash::{Ack, FlowKey, FlowTable, TagLine, Transport};
    /// use freeboard::sched_core::{
    ///     Descriptor, Drr, DrrFlow, FlowId, Limits, Nanos, Packet, Queue, Scheduler,
    /// };
    /// use freeboard::{AckFilter, Hashed};
    ///
    /// let transport = Transport { protocol: 6, src_port: 50_000, dst_port: 443 };
    /// let connection = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport };
    /// // Buffer `n` acknowledges `1500·n` bytes.
    /// let acks = |packet: Packet| Some(Ack::new(connection, 1, 1_500 * packet.handle));
    ///
    /// let mut scheduler = Drr::new([DrrFlow::EMPTY; 64], 1_514)?;
    /// scheduler.add_all(1_514)?;
    /// let table = FlowTable::new([TagLine::EMPTY; 8], 64, 8)?;
    /// let (queues, descriptors) = ([Queue::EMPTY; 64], [Descriptor::EMPTY; 256]);
    /// let limits = Limits::packets(256);
    /// let mut queues = Hashed::with_own_victim(scheduler, table, queues, descriptors, limits);
    /// let (hash, mut gone) = (0xfeed_f00d, Vec::new());
    /// for handle in 0..3 {
    ///     let (packet, drops) =
    ///         (Packet::new(handle, 66), &mut |packet: Packet, _| gone.push(packet.handle));
    ///     queues.enqueue(Nanos(0), FlowId(hash), packet, drops)?;
    ///     let ack = acks(packet).expect("an acknowledgement");
    ///     queues.filter_ack(hash, (packet, &ack), (AckFilter::Aggressive, &acks), drops);
    /// }
    /// assert_eq!(gone, [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn filter_ack(
        &mut self,
        hash: u32,
        (packet, ack): (Packet, &Ack),
        (filter, acks): (AckFilter, &(impl Acks + ?Sized)),
        drops: &mut dyn DropSink,
    ) -> bool {
        let Some(queue) = self.queues.directory().table.find(hash).map(FlowId) else {
            return false;
        };
        let younger = filter.superseded_in(&self.queues, queue, (packet, ack), acks);
        younger.is_some_and(|younger| self.queues.filter_out(queue, younger, drops))
    }
}

impl<O, M, A, D, L> Scheduler for Hashed<FlowQueues<O, M, A, D>>
where
    O: FlowScheduler,
    M: Tables<O, Directory = HashDirectory<L>>,
    A: Aqm,
    D: DropPolicy<O>,
    L: Table<TagLine>,
{
    /// Enqueues a packet with the hash `flow`.
    #[inline(always)]
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_hashed(now, flow.0, packet, drops).map(|_| ())
    }

    /// Prefetches the table's cache lines first, for large tables.
    #[inline(never)] // once per burst, with registers of its own
    fn enqueue_burst(
        &mut self,
        now: Nanos,
        burst: &[(FlowId, Packet)],
        drops: &mut dyn DropSink,
    ) -> usize {
        let mut accepted = 0;
        for chunk in burst.chunks(FlowQueues::<O, M, A, D>::CHUNK) {
            self.queues
                .touch_arrivals(chunk, |directory, hash| directory.table.find(hash.0).map(FlowId));
            for &(hash, packet) in chunk {
                match self.enqueue(now, hash, packet, drops) {
                    Ok(()) => accepted += 1,
                    Err(rejected) => drops.dropped(rejected.packet, DropReason::Rejected),
                }
            }
        }
        accepted
    }

    sched_core::forward_to_scheduler!(self => self.queues);

    /// Returns the counters of the queue that the flow with this hash has claimed; `None` while it
    /// has none.
    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        let queue = self.queues.directory().table().find(flow.0)?;
        self.queues.flow_counters(FlowId(queue))
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.queues.recount()
    }
}
