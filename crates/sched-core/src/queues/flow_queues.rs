//! Queues under a flow scheduler: where scheduling and dropping meet.
//!
//! [`FlowQueues`] keeps the books and one queue per flow, and holds four parts side by side. Only
//! the drop policy may ask another part:
//!
//! | part | asked |
//! |---|---|
//! | [`FlowScheduler`] | which flow is next |
//! | [`DropPolicy`] | which flow gives way when there is no room; it may ask the flow scheduler |
//! | [`Aqm`] | what is to become of a packet that arrives, or is about to leave |
//! | [`FlowDirectory`] | nothing: it is told when a queue becomes empty |
//!
//! With any four parts it is a [`Scheduler`](crate::Scheduler). Cost: O(1) beside the parts.
//! Memory: 16 bytes a packet and 16 a flow beside the parts.

mod bursts;
mod dequeue;
mod enqueue;
mod give_way;
mod regroup;
mod scheduler;
mod touch;
mod waits;

use crate::FlowId;
use crate::aqm::{Aqm, NoAqm};
use crate::drops::drop_policy::{DropPolicy, OwnVictim};
use crate::drops::longest_queue::{LongestFlow, LongestQueueDrop};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, Table};
use crate::queues::counters::{FlowRecord, FlowRecords, Ledger};
use crate::queues::flow_directory::{FlowDirectory, NoDirectory};
use crate::queues::queue::{Descriptor, Queue};
use crate::scheduler::{Backlog, DropReason, DropSink, Limits};

/// What an AQM does not hold against a packet that waited for a [ceiling](crate::TokenBucket): the
/// time of this many rounds of the flows that share the ceiling, a packet each.
///
/// A flow below a ceiling sees a slower line. An AQM that is set for the real line would take the
/// wait for a standing queue. With two rounds taken off, four TCP flows fill a ceiling of 1 Mbit/s;
/// without, they reach 0.82 of the ceiling (`crates/sim/tests/suite/host_rates.rs`).
pub const PACED_ROUNDS: u64 = 2;

/// Queues in the [`Tables`] `M`, under the flow scheduler `O`, with the AQM `A` and the drop policy
/// `D`.
///
/// ```
/// use sched_core::{
///     CoDel, CoDelParams, CoDelState, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, FlowRecord, Limits, Nanos,
///     Packet, Queue, Scheduler,
/// };
///
/// // Two flows, eight packets, CoDel in each queue, and statistics of both flows.
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let codel = CoDel::new([CoDelState::EMPTY; 2], CoDelParams::INTERNET)?;
/// let (queues, packets) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; 8]);
/// let records = [FlowRecord::EMPTY; 2];
/// let mut queues = FlowQueues::with_parts(drr, codel, queues, packets, records, Limits::packets(8));
///
/// let drops = &mut |_: Packet, _why| ();
/// queues.enqueue(Nanos(0), FlowId(1), Packet::new(5, 1_500), drops)?;
/// assert_eq!(queues.dequeue(Nanos(0), drops).map(|packet| packet.handle), Some(5));
/// let of_flow = queues.flow_counters(FlowId(1)).expect("there is a record of it");
/// assert_eq!((of_flow.delivered.packets, queues.counters().delivered.bytes), (1, 1_500));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FlowQueues<O: FlowScheduler, M: Tables<O>, A = NoAqm, D = OwnVictim> {
    /// Which flow is next.
    scheduler: O,
    /// Which flow gives way. Told of packets as `scheduler` is, after it; of a service that leaves
    /// packets behind, before it.
    policy: D,
    /// What is to become of a packet.
    aqm: A,
    /// Which flow has which queue. Told of queues that become empty, after `scheduler`.
    directory: M::Directory,
    /// `queues[flow]`: backlogged in `scheduler` and `policy` if and only if not empty.
    queues: M::Queues,
    /// `descriptors[handle]`.
    descriptors: M::Descriptors,
    records: M::Records,
    ledger: Ledger<M::Totals>,
}

crate::debug::short_debug!(FlowQueues < O: FlowScheduler, M: Tables<O>, A, D > { ledger });

/// The tables of [`FlowQueues`] under the flow scheduler `O`, as a type: `(queues, descriptors)`,
/// these and `records`, or these and a flow directory.
pub trait Tables<O: FlowScheduler> {
    /// One for each flow.
    type Queues: Table<Queue>;
    /// One for each handle.
    type Descriptors: Table<Descriptor>;
    /// Statistics of single flows, for as many as there is room for.
    type Records: FlowRecords<O, Totals = Self::Totals>;
    /// The record of all flows together.
    type Totals: Table<FlowRecord> + core::fmt::Debug;
    /// Which flow has which queue.
    type Directory: FlowDirectory<O>;
}

/// The tables `M` with the flow directory `U`.
type WithDirectory<O, M, U> =
    (<M as Tables<O>>::Queues, <M as Tables<O>>::Descriptors, <M as Tables<O>>::Records, U);

impl<O: FlowScheduler, Q: Table<Queue>, S: Table<Descriptor>> Tables<O> for (Q, S) {
    type Queues = Q;
    type Descriptors = S;
    type Records = [FlowRecord; 0];
    type Totals = [FlowRecord; 1];
    type Directory = NoDirectory;
}

impl<O, Q, S, R> Tables<O> for (Q, S, R)
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    R: FlowRecords<O>,
{
    type Queues = Q;
    type Descriptors = S;
    type Records = R;
    type Totals = R::Totals;
    type Directory = NoDirectory;
}

impl<O, Q, S, R, T> Tables<O> for (Q, S, R, T)
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    R: FlowRecords<O>,
    T: FlowDirectory<O>,
{
    type Queues = Q;
    type Descriptors = S;
    type Records = R;
    type Totals = R::Totals;
    type Directory = T;
}

/// The four parts of [`FlowQueues`], for what is their own: a table, the rate of a class,
/// parameters.
///
/// Telling them of packets is the engine's business: parts that are told twice no longer agree with
/// the queues, and [`Scheduler::recount`](crate::Scheduler::recount) says so.
#[derive(Debug)]
pub struct Siblings<'a, O, D, A, T> {
    /// The flow scheduler.
    pub scheduler: &'a mut O,
    /// The drop policy.
    pub policy: &'a mut D,
    /// The AQM.
    pub aqm: &'a mut A,
    /// The flow directory.
    pub directory: &'a mut T,
}

impl<O, Q, S, N> FlowQueues<O, (Q, S), NoAqm, LongestQueueDrop<N>>
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    N: Table<LongestFlow>,
{
    /// Creates queues without an AQM and without statistics of single flows. When there is no room,
    /// a packet is dropped from a flow that holds about the most bytes ([`LongestQueueDrop`]), so
    /// that a flow loses nothing while it keeps its queue short.
    ///
    /// There are as many flows as `scheduler`, `queues` and `lengths` all have room for, and as
    /// many handles as `descriptors` is long; in `scheduler` no flow is backlogged. Cost: O(flows +
    /// descriptors).
    ///
    /// ```
    /// use sched_core::{
    ///     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow, Nanos, Packet, Queue,
    ///     Scheduler,
    /// };
    ///
    /// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
    /// drr.add_all(1_500)?;
    /// let (queues, lengths) = ([Queue::EMPTY; 2], [LongestFlow::EMPTY; 2]);
    /// let packets = [Descriptor::EMPTY; 8];
    /// let mut queues = FlowQueues::new(drr, queues, lengths, packets, Limits::packets(2));
    ///
    /// let mut dropped = Vec::new();
    /// for (flow, handle) in [(0, 0), (0, 1), (1, 2)] {
    ///     let drops = &mut |packet: Packet, _why| dropped.push(packet.handle);
    ///     queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 1_500), drops)?;
    /// }
    /// assert_eq!(dropped, [0]); // of flow 0, which held more
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(scheduler: O, queues: Q, lengths: N, descriptors: S, limits: Limits) -> Self {
        let queues = FlowQueues::with_own_victim(scheduler, queues, descriptors, limits);
        queues.with_drop_policy(LongestQueueDrop::new(lengths))
    }
}

impl<O: FlowScheduler, Q: Table<Queue>, S: Table<Descriptor>> FlowQueues<O, (Q, S)> {
    /// Creates queues without an AQM and without statistics of single flows. When there is no room,
    /// a packet is dropped from the flow that `scheduler` names ([`OwnVictim`]).
    /// [`ShortestQueue`](crate::ShortestQueue) names the longest; most others name none, and then
    /// the arrival is dropped, whosever it is: a flow that sends more than its share keeps the room
    /// that it has taken, and takes a part of the link in proportion to what it sends.
    ///
    /// There are as many flows as `scheduler` and `queues` both have room for, and as many handles
    /// as `descriptors` is long; in `scheduler` no flow is backlogged. Cost: O(flows +
    /// descriptors).
    #[must_use]
    pub fn with_own_victim(scheduler: O, queues: Q, descriptors: S, limits: Limits) -> Self {
        let (tables, records) = ((queues, descriptors), ([], [FlowRecord::EMPTY]));
        Self::assemble(scheduler, OwnVictim, NoAqm, NoDirectory, tables, records, limits)
    }
}

impl<O, Q, S, A, R> FlowQueues<O, (Q, S, R), A>
where
    O: FlowScheduler,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    A: Aqm,
    R: FlowRecords<O, Totals = [FlowRecord; 1]>,
{
    /// Queues with an AQM, and with statistics for the first `records.len()` flows. The flow that
    /// `scheduler` names gives way ([`OwnVictim`]), or else the arrival:
    /// [`with_drop_policy`](Self::with_drop_policy) has [`LongestQueueDrop`] in its place.
    ///
    /// There are as many flows as `scheduler` and `queues` both have room for, and as many handles
    /// as `descriptors` is long; in `scheduler` no flow is backlogged. An AQM acts on standing
    /// queues: with room for only a packet or two for each active flow, overflow comes first and it
    /// never acts. Cost: O(flows + descriptors).
    #[must_use]
    pub fn with_parts(
        scheduler: O,
        aqm: A,
        queues: Q,
        descriptors: S,
        records: R,
        limits: Limits,
    ) -> Self {
        let (tables, records) = ((queues, descriptors), (records, [FlowRecord::EMPTY]));
        Self::assemble(scheduler, OwnVictim, aqm, NoDirectory, tables, records, limits)
    }
}

impl<O: FlowScheduler, M: Tables<O>, A: Aqm, D: DropPolicy<O>> FlowQueues<O, M, A, D> {
    /// Queues of these parts: as [`with_parts`](Self::with_parts), with a drop policy, a flow
    /// directory, and a table whose one element is the record of all flows together. Nothing is
    /// moved a second time.
    #[inline(always)]
    #[must_use]
    pub fn assemble(
        scheduler: O,
        mut policy: D,
        aqm: A,
        directory: M::Directory,
        (mut queues, mut descriptors): (M::Queues, M::Descriptors),
        (mut records, mut totals): (M::Records, M::Totals),
        limits: Limits,
    ) -> Self {
        queues.as_mut().fill(Queue::IDLE);
        descriptors.as_mut().fill(Descriptor::EMPTY);
        records.clear();
        totals.as_mut().fill(FlowRecord::EMPTY);
        let ledger = Ledger::over(totals, limits);
        policy.limits_changed(reachable(ledger.limits(), descriptors.as_ref()));
        Self { scheduler, policy, aqm, directory, queues, descriptors, records, ledger }
    }

    /// The most packets that a flow which is [given up](FlowScheduler::gives_up) loses to one
    /// arrival, unless the arrival has more bytes. For room alone an arrival costs at most as many
    /// packets as it has bytes, since each of them has one at least: 24 packets of 64 bytes for an
    /// Ethernet frame of 1,514 bytes.
    pub const MAX_VICTIMS: u32 = 256;

    /// The same queues with another drop policy, in whose books no flow is backlogged. What is
    /// queued stays; a flow that `policy` has no room for takes no packets from now on. Cost:
    /// O(flows).
    #[must_use]
    pub fn with_drop_policy<P: DropPolicy<O>>(self, mut policy: P) -> FlowQueues<O, M, A, P> {
        let Self { scheduler, aqm, directory, queues, descriptors, records, ledger, .. } = self;
        policy.limits_changed(reachable(ledger.limits(), descriptors.as_ref()));
        for (flow, queue) in (0..).map(FlowId).zip(queues.as_ref()) {
            let Some(first) = queue.head_len(descriptors.as_ref()) else { continue };
            policy.backlogged(&scheduler, flow, first);
            let held = queue.backlog().bytes;
            let rest = held.wrapping_sub(first);
            if rest > 0 {
                policy.grew(flow, rest, held);
            }
        }
        FlowQueues { scheduler, policy, aqm, directory, queues, descriptors, records, ledger }
    }

    /// The same queues, in which nothing is queued yet, with a flow directory that is told when one
    /// becomes empty.
    #[must_use]
    pub fn with_directory<U: FlowDirectory<O>>(
        self,
        directory: U,
    ) -> FlowQueues<O, WithDirectory<O, M, U>, A, D> {
        let Self { scheduler, policy, aqm, queues, descriptors, records, ledger, .. } = self;
        FlowQueues { scheduler, policy, aqm, directory, queues, descriptors, records, ledger }
    }

    /// The flow scheduler.
    #[must_use]
    pub const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    /// The flow scheduler, for what is its own: the rate of a class. As with [`Siblings`], telling
    /// it of packets is the engine's business.
    pub const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    /// The drop policy.
    #[must_use]
    pub const fn policy(&self) -> &D {
        &self.policy
    }

    /// The flow directory.
    #[must_use]
    pub const fn directory(&self) -> &M::Directory {
        &self.directory
    }

    /// All four parts, to be changed.
    pub const fn siblings(&mut self) -> Siblings<'_, O, D, A, M::Directory> {
        let Self { scheduler, policy, aqm, directory, .. } = self;
        Siblings { scheduler, policy, aqm, directory }
    }

    /// The statistics of flows.
    #[must_use]
    pub const fn records(&self) -> &M::Records {
        &self.records
    }

    /// The statistics of flows, to be put right where flows change hands. Counting is the engine's
    /// business.
    pub const fn records_mut(&mut self) -> &mut M::Records {
        &mut self.records
    }

    /// The AQM.
    #[must_use]
    pub const fn aqm(&self) -> &A {
        &self.aqm
    }

    /// The AQM, to be configured; judging packets is the engine's business.
    pub const fn aqm_mut(&mut self) -> &mut A {
        &mut self.aqm
    }

    /// What `flow` holds; nothing if there is no such flow.
    #[must_use]
    pub fn flow_backlog(&self, flow: FlowId) -> Backlog {
        self.queues.as_ref().get(flow.index()).map(Queue::backlog).unwrap_or_default()
    }

    /// The flow that the drop policy lets give way, and at which end.
    #[must_use]
    pub fn victim(&self) -> Option<(FlowId, DropFrom)> {
        self.policy.victim(&self.scheduler, &|flow| self.flow_backlog(flow).bytes)
    }

    /// Adds `flow`, or changes it, idle or backlogged; its packets stay.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing has changed then.
    pub fn configure(&mut self, flow: FlowId, config: O::Config) -> Result<(), ConfigError> {
        let Some(queue) =
            self.queues.as_ref().get(flow.index()).filter(|_| self.has_room_for(flow))
        else {
            return Err(ConfigError::UnknownFlow { flow, flows: self.flows() });
        };
        let head_len = queue.head_len(self.descriptors.as_ref());
        self.scheduler.configure(flow, config, head_len)
    }

    /// Removes `flow`; its packets go to `drops`. Idempotent. Cost: O(packets of the flow).
    pub fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        self.drop_all(flow, DropReason::FlowRemoved, drops);
        self.scheduler.remove(flow);
        self.policy.removed(flow);
        self.aqm.forget(flow);
    }

    /// What is set for `flow`; `None` if it was not added.
    #[must_use]
    pub fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.scheduler.config(flow).filter(|_| self.has_room_for(flow))
    }

    /// Whether the drop policy has room for `flow`.
    #[inline]
    fn has_room_for(&self, flow: FlowId) -> bool {
        has_room(&self.policy, flow)
    }

    /// The longest packet that `flow` accepts, if it was added.
    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        longest(&self.scheduler, &self.policy, flow)
    }

    fn flows(&self) -> u32 {
        let queues = u32::try_from(self.queues.as_ref().len()).unwrap_or(u32::MAX);
        let most = |room: Option<u32>| room.unwrap_or(u32::MAX);
        let (policy, directory) = (most(self.policy.room()), most(self.directory.room()));
        self.scheduler.flows().min(queues).min(policy).min(directory)
    }
}

/// Whether the drop policy has room for `flow`.
#[inline]
fn has_room<O: FlowScheduler>(policy: &impl DropPolicy<O>, flow: FlowId) -> bool {
    policy.room().is_none_or(|room| flow.0 < room)
}

/// The longest packet that `flow` accepts, if it was added and the drop policy has room for it.
#[inline]
fn longest<O: FlowScheduler>(
    scheduler: &O,
    policy: &impl DropPolicy<O>,
    flow: FlowId,
) -> Option<u32> {
    scheduler.max_len(flow).filter(|_| has_room(policy, flow))
}
/// The limits, and no more packets than there are descriptors: as much as a drop policy can meet.
fn reachable(limits: Limits, descriptors: &[Descriptor]) -> Limits {
    let most = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
    Limits { packets: limits.packets.min(most), ..limits }
}
