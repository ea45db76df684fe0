//! Flows by hash: any flow scheduler over the queues of a set-associative table.
//!
//! [`Hashed`] looks a packet's hash up in a [`flowhash::FlowTable`], queues the packet where the table
//! says, and gives the queue back to the table in the moment it empties, however it empties. With
//! `Drr` inside this is the set-associative-hashed DRR of CAKE (§III-B) without its host level.
//! Cost: that of the inner scheduler and one lookup a packet.

use crate::isolated::recount_old;
use flowhash::{FlowTable, Lookup, Outcome, Rotating, TagLine};
use sched_core::{
    Aqm, Backlog, ConfigError, Counters, Descriptor, DropFrom, DropSink, FlowId, FlowQueues,
    FlowRecord, FlowScheduler, FlowState, Imbalance, Limits, Nanos, NoAqm, Packet, Queue, Rejected,
    Scheduler, Table,
};

/// A flow scheduler that tells a hash table when a flow goes idle.
///
/// The flow scheduler's flow `q` is the table's queue `q`.
#[derive(Debug)]
pub struct Releasing<O, L> {
    order: O,
    /// A queue is claimed here if and only if its flow is backlogged in `order`.
    table: FlowTable<L>,
}

impl<O: FlowScheduler, L: Table<TagLine>> Releasing<O, L> {
    /// `order`, in which no flow is backlogged, over the queues of `table`, none of them claimed. Queues that
    /// `order` has no flow for reject their packets: add all [`Table::queues`](flowhash::FlowTable::queues) of
    /// them.
    pub fn new(order: O, table: FlowTable<L>) -> Self {
        Self { order, table }
    }

    /// The table.
    pub const fn table(&self) -> &FlowTable<L> {
        &self.table
    }

    /// The flow scheduler inside.
    pub const fn order(&self) -> &O {
        &self.order
    }
}

impl<O: FlowScheduler, L: Table<TagLine>> FlowScheduler for Releasing<O, L> {
    type Config = O::Config;

    fn flows(&self) -> u32 {
        self.order.flows().min(self.table.queues())
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
        self.order.configure(flow, config, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.order.remove(flow);
        self.table.release(flow.0);
    }

    fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.order.config(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.order.max_len(flow)
    }

    #[inline]
    fn common_max_len(&self) -> u32 {
        self.order.common_max_len()
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.order.backlogged(flow, head_len);
    }

    fn grew(&mut self, flow: FlowId, len: u32) {
        self.order.grew(flow, len);
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
        self.order.served(flow, len, next_head);
        if next_head.is_none() {
            self.table.release(flow.0);
        }
    }

    fn lost(&mut self, flow: FlowId, len: u32, head: Option<u32>) {
        self.order.lost(flow, len, head);
        if head.is_none() {
            self.table.release(flow.0);
        }
    }

    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        self.order.victim()
    }

    #[inline]
    fn gives_up(&self, flow: FlowId) -> bool {
        self.order.gives_up(flow)
    }

    fn looks_ahead(&self) -> bool {
        self.order.looks_ahead()
    }

    fn counts_bytes(&self) -> bool {
        self.order.counts_bytes()
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let mut occupied = 0_u64;
        for queue in 0..self.table.queues() {
            let backlogged = flows(FlowId(queue)).backlog.packets > 0;
            let claimed = self.table.is_used(queue);
            Imbalance::check("claimed while backlogged", queue, claimed.into(), backlogged.into())?;
            occupied += u64::from(claimed);
        }
        Imbalance::check("claimed queues", 0, self.table.occupied().into(), occupied)?;
        recount_old(&self.table)?;
        self.order.recount(flows)
    }
}

/// Queues under a flow scheduler, reached by hash.
///
/// As a [`Scheduler`], the number that names a flow is its 32-bit hash:
/// [`Labels::flow`](flowhash::Labels) or what a network card computed. Flows that meet in a full set
/// share a queue; a flow that came to share one may be reordered once, when a way of its set is freed
/// (see [`flowhash::FlowTable`]). A flow that claims a queue takes over what its flow scheduler and AQM remember of
/// the last flow there: a debt below one packet with DRR, the last signalling rate with CoDel.
///
/// ```
/// use freeboard::flowhash::{TagLine, FlowTable};
/// use freeboard::sched_core::{Drr, DrrFlow, FlowId, Limits, Nanos, Packet, Queue, Scheduler, Descriptor};
/// use freeboard::{Hashed, Releasing};
///
/// let mut order = Drr::new([DrrFlow::EMPTY; 64], 1_514)?;
/// order.add_all(1_514)?;
/// let table = FlowTable::new([TagLine::EMPTY; 8], 64, 8)?;
/// let order = Releasing::new(order, table);
/// let mut queues =
///     Hashed::new(order, [Queue::EMPTY; 64], [Descriptor::EMPTY; 256], Limits::packets(256));
///
/// let drops = &mut |packet: Packet, _why| println!("buffer {} is free again", packet.handle);
/// queues.enqueue(Nanos(0), FlowId(0xfeed_f00d), Packet::new(7, 1_000), drops)?;
/// assert_eq!(queues.dequeue(Nanos(0), drops), Some(Packet::new(7, 1_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Hashed<O, L, Q, S, A = NoAqm, R = [FlowRecord; 0]> {
    queues: FlowQueues<Releasing<O, L>, Q, S, A, R>,
}

impl<O, L, Q, S> Hashed<O, L, Q, S>
where
    O: FlowScheduler,
    L: Table<TagLine>,
    Q: Table<Queue>,
    S: Table<Descriptor>,
{
    /// Hashed queues without an AQM and without statistics of single queues; see
    /// [`FlowQueues::new`].
    pub fn new(order: Releasing<O, L>, queues: Q, slots: S, limits: Limits) -> Self {
        Self::over(FlowQueues::new(order, queues, slots, limits))
    }
}

impl<O, L, Q, S, A, R> Hashed<O, L, Q, S, A, R>
where
    O: FlowScheduler,
    L: Table<TagLine>,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    A: Aqm,
    R: Table<FlowRecord>,
{
    /// Hashed queues over `queues`, which holds nothing yet.
    pub const fn over(queues: FlowQueues<Releasing<O, L>, Q, S, A, R>) -> Self {
        Self { queues }
    }

    /// The queues by number, read-only.
    pub const fn queues(&self) -> &FlowQueues<Releasing<O, L>, Q, S, A, R> {
        &self.queues
    }

    /// The AQM, to be configured; judging packets is the queue's business.
    pub const fn aqm_mut(&mut self) -> &mut A {
        self.queues.aqm_mut()
    }

    /// Sets what the flow scheduler calls a flow's configuration for one queue of the table.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing has changed then.
    pub fn configure_queue(&mut self, queue: u32, config: O::Config) -> Result<(), ConfigError> {
        self.queues.configure(FlowId(queue), config)
    }

    /// Enqueues by `hash`; says how the flow came by its queue.
    ///
    /// # Errors
    /// As [`Scheduler::enqueue`].
    pub fn enqueue_hashed(
        &mut self,
        now: Nanos,
        hash: u32,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let lookup = self.queues.order_mut().table.lookup(hash);
        self.enqueue_found(now, lookup, packet, drops)
    }

    /// Begins the transition to hashes under another key.
    ///
    /// Until [`is_rotating`](Self::is_rotating) is false, enqueue by both hashes
    /// ([`enqueue_rehashed`](Self::enqueue_rehashed)); then drop the old key. Flows whose packets are queued
    /// stay where they are, so that none is reordered; see [`rotate`](flowhash::FlowTable::rotate). Cost: the table.
    ///
    /// # Errors
    /// [`Rotating`], and nothing has changed, if claims are left of an earlier rotation.
    pub fn rotate(&mut self) -> Result<(), Rotating> {
        self.queues.order_mut().table.rotate()
    }

    /// Whether flows may have claims under the key before; see [`is_rotating`](flowhash::FlowTable::is_rotating).
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.queues.order().table.is_rotating()
    }

    /// Ends the transition at once; returns how many flows had claims under the key before. Those go where the
    /// new key sends them, and may be reordered, once. Cost: the table.
    pub fn finish_rotation(&mut self) -> u32 {
        self.queues.order_mut().table.finish_rotation()
    }

    /// Enqueues by `hash` a packet that has the hash `before` under the key before; while no transition is
    /// under way that is not looked at.
    ///
    /// # Errors
    /// As [`Scheduler::enqueue`].
    pub fn enqueue_rehashed(
        &mut self,
        now: Nanos,
        before: u32,
        hash: u32,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let lookup = self.queues.order_mut().table.lookup_rotating(before, hash);
        self.enqueue_found(now, lookup, packet, drops)
    }

    #[inline]
    fn enqueue_found(
        &mut self,
        now: Nanos,
        lookup: Lookup,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let queue = FlowId(lookup.queue);
        match self.queues.enqueue(now, queue, packet, drops) {
            Ok(()) => Ok(lookup.outcome),
            Err(rejected) => {
                // A packet that never entered cannot leave: nothing else would release the claim.
                if self.queues.flow_backlog(queue).packets == 0 {
                    self.queues.order_mut().table.release(lookup.queue);
                }
                Err(rejected)
            }
        }
    }
}

impl<O, L, Q, S, A, R> Scheduler for Hashed<O, L, Q, S, A, R>
where
    O: FlowScheduler,
    L: Table<TagLine>,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    A: Aqm,
    R: Table<FlowRecord>,
{
    /// `flow` is the packet's hash.
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_hashed(now, flow.0, packet, drops).map(|_| ())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.queues.dequeue(now, drops)
    }

    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        self.queues.dequeue_burst(now, out, drops)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.queues.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.queues.poll_at(now)
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }

    fn counters(&self) -> Counters {
        self.queues.counters()
    }

    /// What happened in the queue that the flow with this hash has claimed; `None` while it has none.
    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        let queue = self.queues.order().table().find(flow.0)?;
        self.queues.flow_counters(FlowId(queue))
    }

    fn limits(&self) -> Limits {
        self.queues.limits()
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.queues.set_limits(limits, drops);
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.queues.evict(drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.queues.drain(drops);
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.queues.recount()
    }
}
