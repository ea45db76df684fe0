//! [`FlowQueues`]: one queue per flow under a flow scheduler.
//!
//! [`FlowQueues`] holds the queues, the accounting, and four parts. Only the drop policy may query
//! another part:
//!
//! | part | decides |
//! |---|---|
//! | [`FlowScheduler`] | the next flow |
//! | [`DropPolicy`] | the flow to drop from when full; may query the flow scheduler |
//! | [`Aqm`] | to pass, mark or drop a packet that arrives or is about to leave |
//! | [`FlowDirectory`] | nothing; it is notified when a queue becomes empty |
//!
//! With any four parts it is a [`Scheduler`](crate::Scheduler). Cost: O(1) besides the parts.
//! Memory: 16 bytes per packet and 16 per flow besides the parts.

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

/// Rounds of the flows that share a [ceiling](crate::TokenBucket), one packet each, whose duration
/// is subtracted from a sojourn time before the AQM sees it.
///
/// For a flow below a ceiling the link is slower. An AQM with the parameters of the real link would
/// take its waiting time for a standing queue. With two rounds subtracted, four TCP flows fill a
/// ceiling of 1 Mbit/s; without, they reach 0.82 of it (`crates/sim/tests/suite/host_rates.rs`).
pub const PACED_ROUNDS: u64 = 2;

/// One queue per flow in the [`Tables`] `M`, under the flow scheduler `O`, with the AQM `A` and the
/// drop policy `D`.
///
/// ```
/// use sched_core::{
///     CoDel, CoDelParams, CoDelState, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, FlowRecord,
///     Limits, Nanos, Packet, Queue, Scheduler,
/// };
///
/// // Two flows, eight packets, CoDel in each queue, and statistics of both flows.
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let codel = CoDel::new([CoDelState::EMPTY; 2], CoDelParams::INTERNET)?;
/// let (queues, packets) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; 8]);
/// let records = [FlowRecord::EMPTY; 2];
/// let mut queues =
///     FlowQueues::with_parts(drr, codel, queues, packets, records, Limits::packets(8));
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
    /// Selects the next flow.
    scheduler: O,
    /// Selects the flow to drop from. Receives the notifications of `scheduler`, after it; but
    /// before it for a service after which packets remain.
    policy: D,
    /// Passes, marks or drops packets.
    aqm: A,
    /// Maps flows to queues. Notified of queues that become empty, after `scheduler`.
    directory: M::Directory,
    /// Indexed by flow: backlogged in `scheduler` and `policy` if and only if not empty.
    queues: M::Queues,
    /// Indexed by handle.
    descriptors: M::Descriptors,
    records: M::Records,
    ledger: Ledger<M::Totals>,
}

crate::debug::short_debug!(FlowQueues < O: FlowScheduler, M: Tables<O>, A, D > { ledger });

/// The tables of [`FlowQueues`] under the flow scheduler `O`, as a type: `(queues, descriptors)`,
/// optionally followed by `records` and by a flow directory.
pub trait Tables<O: FlowScheduler> {
    /// One queue per flow.
    type Queues: Table<Queue>;
    /// One descriptor per handle.
    type Descriptors: Table<Descriptor>;
    /// Per-flow statistics, for as many flows as the table has entries.
    type Records: FlowRecords<O, Totals = Self::Totals>;
    /// The record of all flows together.
    type Totals: Table<FlowRecord> + core::fmt::Debug;
    /// Maps flows to queues.
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

/// Mutable access to the four parts of [`FlowQueues`], to change a part's own settings, such as a
/// table, the rate of a class or parameters.
///
/// Do not notify the parts of packets; [`FlowQueues`] does. A part that is notified twice no longer
/// agrees with the queues, which [`Scheduler::recount`](crate::Scheduler::recount) reports.
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
    /// Creates queues without an AQM and without per-flow statistics. When full, a packet is
    /// dropped from a flow with about the longest backlog in bytes ([`LongestQueueDrop`]), so a
    /// flow loses nothing while it keeps its queue short.
    ///
    /// The number of flows is the smallest capacity of `scheduler`, `queues` and `lengths`; the
    /// number of handles is the length of `descriptors`. No flow may be backlogged in `scheduler`.
    /// Cost: O(flows + descriptors).
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
    ///
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(scheduler: O, queues: Q, lengths: N, descriptors: S, limits: Limits) -> Self {
        let queues = FlowQueues::with_own_victim(scheduler, queues, descriptors, limits);
        queues.with_drop_policy(LongestQueueDrop::new(lengths))
    }
}

impl<O: FlowScheduler, Q: Table<Queue>, S: Table<Descriptor>> FlowQueues<O, (Q, S)> {
    /// Creates queues without an AQM and without per-flow statistics. When full, a packet is
    /// dropped from the victim of `scheduler` ([`OwnVictim`]).
    /// [`ShortestQueue`](crate::ShortestQueue) selects the longest flow. Most others have no
    /// victim, and then the arriving packet is dropped, whatever its flow: a flow that sends more
    /// than its share keeps the buffer space that it has taken, and gets a part of the link in
    /// proportion to what it sends.
    ///
    /// The number of flows is the smaller capacity of `scheduler` and `queues`; the number of
    /// handles is the length of `descriptors`. No flow may be backlogged in `scheduler`. Cost:
    /// O(flows + descriptors).
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
    /// Creates queues with an AQM, and with statistics of the first `records.len()` flows. When
    /// full, a packet is dropped from the victim of `scheduler` ([`OwnVictim`]), or else the
    /// arriving packet. Use [`with_drop_policy`](Self::with_drop_policy) for [`LongestQueueDrop`].
    ///
    /// The number of flows is the smaller capacity of `scheduler` and `queues`; the number of
    /// handles is the length of `descriptors`. No flow may be backlogged in `scheduler`. An AQM
    /// acts on standing queues: with capacity for only a packet or two per active flow, overflow
    /// comes first and it never acts. Cost: O(flows + descriptors).
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
    /// Creates queues from all parts: [`with_parts`](Self::with_parts) plus a drop policy, a flow
    /// directory, and a table whose one element is the record of all flows together. Every part is
    /// moved only once.
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

    /// Maximum number of packets that a [given-up](FlowScheduler::gives_up) flow loses to one
    /// arrival, unless the arriving packet has more bytes. An ordinary overflow drops at most as
    /// many packets as the arriving packet has bytes, because each has at least one: 24 packets of
    /// 64 bytes for an Ethernet frame of 1,514 bytes.
    pub const MAX_VICTIMS: u32 = 256;

    /// Replaces the drop policy. No flow may be backlogged in `policy`. Packets stay queued; a flow
    /// beyond the capacity of `policy` accepts no packets from now on. Cost: O(flows).
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

    /// Replaces the flow directory, while nothing is queued. It is notified when a queue becomes
    /// empty.
    #[must_use]
    pub fn with_directory<U: FlowDirectory<O>>(
        self,
        directory: U,
    ) -> FlowQueues<O, WithDirectory<O, M, U>, A, D> {
        let Self { scheduler, policy, aqm, queues, descriptors, records, ledger, .. } = self;
        FlowQueues { scheduler, policy, aqm, directory, queues, descriptors, records, ledger }
    }

    /// Returns the number of handles. Valid handles are below it.
    #[must_use]
    pub fn handles(&self) -> u32 {
        u32::try_from(self.descriptors.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// Returns the flow scheduler.
    #[must_use]
    pub const fn scheduler(&self) -> &O {
        &self.scheduler
    }

    /// Returns the flow scheduler, to change its own settings, such as the rate of a class. Do not
    /// notify it of packets; see [`Siblings`].
    pub const fn scheduler_mut(&mut self) -> &mut O {
        &mut self.scheduler
    }

    /// Returns the drop policy.
    #[must_use]
    pub const fn policy(&self) -> &D {
        &self.policy
    }

    /// Returns the flow directory.
    #[must_use]
    pub const fn directory(&self) -> &M::Directory {
        &self.directory
    }

    /// Returns mutable access to all four parts.
    pub const fn siblings(&mut self) -> Siblings<'_, O, D, A, M::Directory> {
        let Self { scheduler, policy, aqm, directory, .. } = self;
        Siblings { scheduler, policy, aqm, directory }
    }

    /// Returns the per-flow statistics.
    #[must_use]
    pub const fn records(&self) -> &M::Records {
        &self.records
    }

    /// Returns the per-flow statistics, to correct them when a queue passes to another flow. Do not
    /// count packets; [`FlowQueues`] does.
    pub const fn records_mut(&mut self) -> &mut M::Records {
        &mut self.records
    }

    /// Returns the AQM.
    #[must_use]
    pub const fn aqm(&self) -> &A {
        &self.aqm
    }

    /// Returns the AQM, to configure it. Do not pass packets to it; [`FlowQueues`] does.
    pub const fn aqm_mut(&mut self) -> &mut A {
        &mut self.aqm
    }

    /// Returns the backlog of `flow`; zero if there is no such flow.
    #[must_use]
    pub fn flow_backlog(&self, flow: FlowId) -> Backlog {
        self.queues.as_ref().get(flow.index()).map(Queue::backlog).unwrap_or_default()
    }

    /// Returns the flow to drop from next, and the end to drop at.
    #[must_use]
    pub fn victim(&self) -> Option<(FlowId, DropFrom)> {
        self.policy.victim(&self.scheduler, &|flow| self.flow_backlog(flow).bytes)
    }

    /// Adds `flow`, or changes its configuration while it is idle or backlogged; its packets stay.
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

    /// Returns the configuration of `flow`; `None` if it was not added.
    #[must_use]
    pub fn config(&self, flow: FlowId) -> Option<O::Config> {
        self.scheduler.config(flow).filter(|_| self.has_room_for(flow))
    }

    /// Returns true if the drop policy has capacity for `flow`.
    #[inline]
    fn has_room_for(&self, flow: FlowId) -> bool {
        has_room(&self.policy, flow)
    }

    /// Returns the longest packet that `flow` accepts, if it was added.
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

/// Returns true if the drop policy has capacity for `flow`.
#[inline]
fn has_room<O: FlowScheduler>(policy: &impl DropPolicy<O>, flow: FlowId) -> bool {
    policy.room().is_none_or(|room| flow.0 < room)
}

/// Returns the longest packet that `flow` accepts, if it was added and the drop policy has capacity
/// for it.
#[inline]
fn longest<O: FlowScheduler>(
    scheduler: &O,
    policy: &impl DropPolicy<O>,
    flow: FlowId,
) -> Option<u32> {
    scheduler.max_len(flow).filter(|_| has_room(policy, flow))
}
/// Returns the limits, with at most as many packets as there are descriptors: the most that a drop
/// policy can meet.
fn reachable(limits: Limits, descriptors: &[Descriptor]) -> Limits {
    let most = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
    Limits { packets: limits.packets.min(most), ..limits }
}
