//! Queues for flows, isolated from each other and hosts from hosts: one option chooses how.
//!
//! [`Isolated`] finds the queue of a packet in a set-associative table of flows, and the entries of its hosts in tables
//! of hosts. It serves by the [`Isolation`] chosen, and makes room at a host that holds about the most. All of CAKE's
//! modes are here, and none has a loop over flows or hosts:
//!
//! | isolation | a queue for each | served by |
//! |---|---|---|
//! | `flows`, `srchost`, `dsthost`, `hosts` | flow, source, destination, pair of hosts | deficit round robin ([`TinRings`](sched_core::TinRings)) |
//! | `dual-srchost`, `dual-dsthost` | flow | deficit round robin over hosts and in each over flows, sparse ones first ([`HostDrr`]) |
//! | `triple-isolate` | flow | a turn in every n-th round, n the load of the flow's hosts ([`LoadDrr`]) |
//!
//! Where hosts are a level of their own, the share of a host and the wait of its packets depend neither on how many
//! flows the others open, nor on whether its own flows find a queue. [`Isolated`] says which queue a flow gets if
//! its set of the table is full. `SECURITY.md` has the bounds and where they end. `triple-isolate` gives CAKE's
//! shares and no bounds.
//!
//! In the first four modes hosts do not count, and nothing of a host is touched.
//!
//! A host is what its label says. A sender that can put any source address into a packet is many hosts, unless the
//! label is one that the sender cannot choose: the port or the subscriber that the packet came from.
//!
//! Above hosts and flows there may be *tins*, classes of the line ([`Isolated::set_tins`]), in every mode.
//!
//! **Cost.** A packet of a flow that is backlogged costs a lookup, the flow scheduler, and the books of which host
//! holds the most: O(1). A flow that becomes backlogged, and each packet of a flow that found its set
//! full, costs two more hashes and lookups, of its hosts, where hosts count.
//! Memory: see [`IsolatedMemory`].

mod acks;
mod config;
mod directory;
mod flow_scheduler;
mod holders;
mod host_table;
mod memory;
mod rekey;
mod static_tables;
mod statistics;
mod tin_records;
mod tins;

use core::fmt;

use flowhash::{FlowTable, Lookup, Outcome};
use sched_core::{
    Aqm, Backlog, Ceilings, CommittedRates, Counters, Descriptor, DropPolicy, DropReason, DropSink,
    Drr, Ecn, FlowId, FlowQueues, FlowScheduler, HeldFlow, HeldHost, HostClass, HostDrr, Imbalance,
    Limits, LoadDrr, LongestHostDrop, Nanos, NoAqm, Packet, Queue, Rejected, Scheduler, Siblings,
    TinDrr,
};

use shaper::Overhead;

pub use config::{IsolatedConfig, IsolatedError};
use directory::HostDirectory;
use flow_scheduler::IsolationScheduler;
pub(crate) use flow_scheduler::label_in;
use holders::Holders;
pub use memory::IsolatedMemory;
pub(crate) use static_tables::{ALL, HOSTS, QUEUES};
pub use static_tables::{StaticRates, StaticTables, StaticTriple};
use tin_records::TinRecords;

pub(crate) use rekey::recount_old;

use crate::isolation::Isolation;
use crate::labels::Labelled;
use crate::storage::{NoRoom, Storage};
use host_table::HostEntries;

/// The policy of an [`Isolated`] queue: a host that holds about the most gives way.
type IsolatedDrops<S> = LongestHostDrop<
    <S as Storage>::Of<HeldFlow>,
    <S as Storage>::Of<HeldHost>,
    [HostClass; HostClass::COUNT],
>;

/// The queues of an [`Isolated`] by number: flow scheduler, drop policy, AQM and flow directory. For the project's own
/// tests: its parts are internals.
#[doc(hidden)]
pub type IsolatedQueues<S, A = NoAqm, K = NoRoom, T = NoRoom> = FlowQueues<
    IsolationScheduler<S, K, T>,
    <S as Storage>::Of<Queue>,
    <S as Storage>::Of<Descriptor>,
    A,
    TinRecords,
    IsolatedDrops<S>,
    HostDirectory<S>,
>;

/// Whether `isolation` needs tables that are not there.
const fn isolation_lacks_room(isolation: Isolation, has_triple: bool) -> bool {
    matches!(isolation, Isolation::TripleIsolate) && !has_triple
}

/// A packet of which only the flow is known: its own host.
pub(crate) struct OwnHost(pub(crate) u32);

impl Labelled for OwnHost {
    fn flow(&self) -> u32 {
        self.0
    }

    fn source(&self) -> u32 {
        self.0
    }

    fn destination(&self) -> u32 {
        self.0
    }
}

/// Queues found by label, under the [`Isolation`] chosen; with an AQM.
///
/// **Take packets in by their labels**: [`Isolated::enqueue_labelled`], or
/// [`LabelledScheduler`](crate::LabelledScheduler) where the queue stands behind a line. As a [`Scheduler`], the
/// number that names a flow is its label, and a flow that comes in that way is its own host: hosts are not isolated.
///
/// **A full set.** A flow that finds all ways of its set taken shares a queue with flows of its own host. The shared
/// queue is that of the flow's own way if it belongs to the same host; else it is the *spare queue* that stands
/// behind the table for each entry of a host. The host is
///
/// - the source in `dual-srchost`, and the destination in `dual-dsthost`;
/// - the host of [`IsolatedConfig::local_side`] in `triple-isolate`, where the spare queue counts on the other side too,
///   at the host of the packet that claimed it.
///
/// In the other four modes hosts do not count, and the flow shares the queue of its own way.
///
/// A flow that has a queue keeps it while the queue holds packets of the flow. A flow that shares a queue may be
/// reordered once, when it comes to another queue:
///
/// - a way of its set is freed;
/// - its own way passes to its host;
/// - its host had found its set of entries full as well, and comes to another entry.
///
/// When hosts of one side take the place of hosts of the other, or begin to count, packets in a spare queue stay there, and are served
/// under the host that claimed the queue. Until they are sent, the flows of a host whose spare queue is taken in this
/// way share the queue of their own way, whichever flow has it.
///
/// Two hosts share an entry, its share of the line and its spare queue, where a set of hosts is full.
///
/// Hosts may have committed rates and ceilings ([`Labelled::host_committed_rate`], [`Labelled::host_ceiling`])
/// where there is room for them, in the storage `K`: nowhere, unless [`IsolatedMemory::with_rates`] makes it.
/// While all hosts that hold packets are above their ceilings, [`Scheduler::dequeue`] gives none, and
/// [`Scheduler::poll_at`] says when the first may send.
///
/// `triple-isolate` needs tables of its own, in the storage `T`: [`IsolatedMemory::with_triple`]. Without them it
/// is refused, at construction and by [`Isolated::set_isolation`].
///
/// **What a reused entry inherits.**
///
/// - A queue: its previous flow's debt, under one packet, if both flows have the same host. What the AQM has learned it
///   learned of a flow: the flow has it when it comes back to its queue, and another flow begins without it.
/// - A spare queue: its previous flows' debt, under one packet, if it is of the same host. The AQM begins anew each time
///   that it is claimed: it is of any flows, and its host entry may have become another host's.
/// - A host entry: the previous host's debt, under one packet; and what is left in the buckets of
///   its rate and its ceiling, if the previous host was the same. Until these buckets are full the
///   entry counts as taken, unless another host would have no entry of its tin to share.
///
/// **Tins.** With several ([`Isolated::set_tins`]) a flow has a queue for each tin that it sends in, and a host an entry: its
/// share of that tin. Only hosts of one tin share an entry: a host joins one of its tin also where its set has no more free
/// entries than tins without one. Without a level of hosts a flow whose set is full shares a queue with flows of its tin. A
/// committed rate and a ceiling hold over all tins together, and the host that gives way is chosen by what it holds in all of them.
///
/// A turn that is used up is inherited with the debt: the flow or host may then wait for one round, once.
///
/// Two hosts share the line, whatever they open:
///
/// ```
/// use freeboard::flowhash::mix;
/// use freeboard::sched_core::{Limits, Nanos, Packet, Scheduler};
/// use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory, Labelled, Storage};
///
/// struct Tagged { flow: u32, host: u32 }
/// impl Labelled for Tagged {
///     fn flow(&self) -> u32 { mix(self.flow) }
///     fn source(&self) -> u32 { mix(self.host) }
///     fn destination(&self) -> u32 { 0 }
/// }
///
/// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 256);
/// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::packets(256)))?;
/// let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
/// for handle in 0..200 {
///     // Every tenth packet is of host 1 and its one flow, the others of nine flows of host 0.
///     let of = Tagged { flow: handle % 10, host: u32::from(handle % 10 == 0) };
///     queue.enqueue_labelled(Nanos(0), &of, Packet::new(handle, 1_500), drops)?;
/// }
/// let sent = (0..20).filter_map(|_| queue.dequeue(Nanos(0), drops));
/// assert_eq!(sent.filter(|packet| packet.handle % 10 == 0).count(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Isolated<S: Storage, A = NoAqm, K: Storage = NoRoom, T: Storage = NoRoom> {
    queues: IsolatedQueues<S, A, K, T>,
}

/// Without the tables.
impl<S: Storage, A, K: Storage, T: Storage> fmt::Debug for Isolated<S, A, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isolated").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl<S: Storage, K: Storage, T: Storage> Isolated<S, NoAqm, K, T> {
    /// Queues without an AQM. Cost: O(memory).
    ///
    /// # Errors
    /// [`IsolatedError`], with what was given and what is accepted.
    pub fn new(
        memory: IsolatedMemory<S, K, T>,
        config: IsolatedConfig,
    ) -> Result<Self, IsolatedError> {
        Self::with_aqm(memory, NoAqm, config)
    }
}

impl<S: Storage, A: Aqm, K: Storage, T: Storage> Isolated<S, A, K, T> {
    /// Queues with an AQM, which has room for as many flows as `queues` is long: spare ones behind those of
    /// the table. Cost: O(memory).
    ///
    /// # Errors
    /// [`IsolatedError`], with what was given and what is accepted.
    pub fn with_aqm(
        memory: IsolatedMemory<S, K, T>,
        aqm: A,
        config: IsolatedConfig,
    ) -> Result<Self, IsolatedError> {
        memory.check()?;
        if isolation_lacks_room(config.isolation, memory.has_triple()) {
            return Err(IsolatedError::NoTriple);
        }
        let IsolatedConfig { isolation, local_side, max_len, quantum, host_quantum, ways, limits } =
            config;
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let IsolatedMemory { packets, flows, hosts, rates, triple } = memory;
        let entries = count(hosts.turns.as_ref().len());
        let queues = count(flows.queues.as_ref().len()).saturating_sub(entries);
        let queues = FlowTable::new(flows.lines, queues, ways)?;
        let sources = FlowTable::new(hosts.sources.lines, entries, ways)?;
        let destinations = FlowTable::new(hosts.destinations.lines, entries, ways)?;

        let raw = Overhead::RAW;
        let mut turns = TinDrr::on_link(hosts.turns, max_len, raw)?.sparse_first();
        turns.add_all(host_quantum)?;
        let excess = Drr::new(rates.excess, max_len)?.sparse_first();
        let turns = CommittedRates::on_link(turns, excess, rates.committed, rates.returns, raw)?;
        let turns = Ceilings::on_link(turns, rates.ceilings, rates.waiting, raw)?;
        let mut levels = HostDrr::new(turns, flows.turns, hosts.rings, max_len)?.sparse_first();
        levels.add_all(quantum)?;
        let mut rounds = LoadDrr::on_link(
            triple.flows,
            triple.sources,
            triple.destinations,
            triple.rounds,
            max_len,
            raw,
        )?
        .sparse_first()
        .with_hosts_of(local_side);
        rounds.add_all(quantum)?;

        let scheduler = IsolationScheduler::new(
            isolation,
            local_side,
            levels,
            flows.hosts,
            hosts.holders_of_entries,
            rounds,
            max_len,
        );
        let classes = [HostClass::EMPTY; HostClass::COUNT];
        let drops = LongestHostDrop::new(&scheduler, limits, flows.held, hosts.held, classes)?;
        let mut spares = hosts.spares;
        spares.as_mut().fill(false);
        let directory = HostDirectory {
            queues,
            spares,
            sources: HostEntries::new(sources, hosts.sources.flows, ways),
            destinations: HostEntries::new(destinations, hosts.destinations.flows, ways),
            holders: Holders::new(hosts.holders),
            host_quantum,
            rotating: false,
            unnamed: 0,
            looks_closely: false,
            had_tins: false,
        };
        let queues =
            FlowQueues::with_parts(scheduler, aqm, flows.queues, packets, TinRecords::NONE, limits);
        Ok(Self { queues: queues.with_drop_policy(drops).with_directory(directory) })
    }

    /// The queues by number, and the tables. For the project's own tests, as [`IsolatedQueues`] is.
    #[doc(hidden)]
    pub const fn queues(&self) -> &IsolatedQueues<S, A, K, T> {
        &self.queues
    }

    /// The AQM.
    pub const fn aqm(&self) -> &A {
        self.queues.aqm()
    }

    /// The AQM, to be configured; judging packets is the queue's business.
    pub const fn aqm_mut(&mut self) -> &mut A {
        self.queues.aqm_mut()
    }

    /// What shares the line.
    pub fn isolation(&self) -> Isolation {
        self.queues.scheduler().isolation()
    }

    /// How many source hosts, and how many destination hosts, have packets queued: the `H` of the
    /// guarantees. Hosts that share an entry count as one, and with several tins a host counts in each of its tins; where hosts
    /// do not count there are none.
    pub fn backlogged_hosts(&self) -> (u32, u32) {
        let directory = self.queues.directory();
        (directory.sources.occupied(), directory.destinations.occupied())
    }

    /// What packets are on the wire, for the rates and ceilings of hosts, from the next packet on that
    /// leaves: the overhead of the line that the queue stands before. Packets count as they are booked until
    /// it is said. A host whose bucket does not hold the longest packet on that line waits. Cost: O(hosts · log hosts).
    pub fn set_overhead(&mut self, link: Overhead) {
        self.queues.scheduler_mut().set_link(link);
    }

    /// Sets the quantum, committed rate and ceiling of the host of a packet with these `labels` at
    /// once, also while the host stays backlogged; returns whether it is backlogged. For a host
    /// that is not, labels are queried when it comes back. The host is the one of the side that the
    /// isolation has a level for; in other modes nothing changes. What the buckets lack they lack
    /// after the change. During a [rotation](Self::rotate) give labels under both keys
    /// ([`Rekeyed`](crate::Rekeyed)): the host is looked up by each. Cost: a lookup for each tin,
    /// two during a rotation.
    pub fn update_host(&mut self, now: Nanos, labels: &impl Labelled) -> bool {
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        scheduler.advance(now);
        directory.update_host(scheduler, labels)
    }

    /// Another isolation, at any time: all packets stay in their queues, and all that is queued is served by the new
    /// one. What is left of a turn is lost. Queues and entries of hosts keep what they owed, less than a packet; so
    /// does an entry that stands for a host of the other side from now on. Where hosts begin to count, or cease to,
    /// queues owe nothing. Quanta of hosts are the default again, and their rates and ceilings gone, until a host becomes
    /// backlogged anew or is [updated](Self::update_host). A flow whose queue is found by another label than before goes to a new queue: once, its packets may leave out
    /// of order. Cost: O(queues + hosts).
    ///
    /// Where hosts did not count before, those of what is queued are not known. Queues that hold packets are of one host without a
    /// name in each tin, until a packet of their flow comes and names its hosts, or they are empty.
    ///
    /// # Errors
    /// For `triple-isolate` [`IsolatedError::NoTriple`] without its tables, and [`IsolatedError::Memory`] without two rounds for
    /// each tin; nothing has changed then.
    pub fn set_isolation(&mut self, isolation: Isolation) -> Result<(), IsolatedError> {
        if isolation == self.isolation() {
            return Ok(());
        }
        self.check_tins(isolation, self.tins())?;
        if isolation_lacks_room(isolation, self.queues.scheduler().has_triple()) {
            return Err(IsolatedError::NoTriple);
        }
        self.take_out();
        let (had_hosts, has_hosts) = (self.isolation().counts_hosts(), isolation.counts_hosts());
        if had_hosts != has_hosts {
            self.begin_or_forget_hosts(has_hosts);
        }
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        let entries = directory.level(isolation.level());
        let tin_of_entry = |entry| entries.tin_of(entry);
        scheduler.set_isolation(isolation, directory.host_quantum, tin_of_entry);
        directory.renew_holders(scheduler);
        self.put_back();
        Ok(())
    }

    /// The hosts of all flows that hold packets count from now on, or do not count any more. To be called while no flow is in the
    /// flow scheduler.
    fn begin_or_forget_hosts(&mut self, begins: bool) {
        for queue in (0..self.queues.scheduler().flows()).map(FlowId) {
            if self.queues.flow_backlog(queue).packets > 0 {
                let Siblings { scheduler, directory, .. } = self.queues.siblings();
                if begins {
                    directory.begin_hosts(scheduler, queue);
                } else {
                    directory.forget_hosts(scheduler, queue);
                }
            }
        }
        if !begins {
            self.queues.siblings().directory.finish_rotation_of_hosts();
        }
    }

    /// A packet with these `labels` has come to `queue`, which holds others: if its hosts have no name, they have those of the
    /// packet from now on.
    #[cold]
    #[inline(never)]
    fn name_hosts(&mut self, queue: FlowId, labels: &(impl Labelled + ?Sized)) {
        let bytes = self.queues.flow_backlog(queue).bytes;
        let Siblings { scheduler, policy, directory, .. } = self.queues.siblings();
        if scheduler.hosts_of(queue).is_none_or(|hosts| hosts.has_names()) {
            return;
        }
        scheduler.lost(queue, bytes, None);
        DropPolicy::<IsolationScheduler<S, K, T>>::lost(policy, queue, bytes, 0);
        directory.name_hosts(scheduler, queue, labels);
        scheduler.backlogged(queue, bytes);
        policy.backlogged(scheduler, queue, bytes);
    }

    /// Takes all flows that hold packets out of the flow scheduler and the drop policy.
    fn take_out(&mut self) {
        self.each_backlogged(|scheduler, drops, flow, bytes| {
            scheduler.lost(flow, bytes, None);
            DropPolicy::<IsolationScheduler<S, K, T>>::lost(drops, flow, bytes, 0);
        });
    }

    /// Tells flow scheduler and drop policy of all flows that hold packets, which they do not know.
    fn put_back(&mut self) {
        self.each_backlogged(|scheduler, drops, flow, bytes| {
            if let Some(hosts) = scheduler.hosts_of(flow) {
                scheduler.assign(flow, hosts);
            }
            scheduler.backlogged(flow, bytes);
            drops.backlogged(scheduler, flow, bytes);
        });
    }

    /// Does `change` to the flow scheduler and the drop policy for each flow that holds packets, and how many bytes.
    fn each_backlogged(
        &mut self,
        change: impl Fn(&mut IsolationScheduler<S, K, T>, &mut IsolatedDrops<S>, FlowId, u32),
    ) {
        for queue in 0..self.queues.scheduler().flows() {
            let held = self.queues.flow_backlog(FlowId(queue));
            if held.packets > 0 {
                let Siblings { scheduler, policy, .. } = self.queues.siblings();
                change(scheduler, policy, FlowId(queue), held.bytes);
            }
        }
    }

    /// Counts `packet` as rejected, and claims no flow and no host for it. Always an error.
    #[cold]
    pub(crate) fn turn_away(
        &mut self,
        now: Nanos,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let no_flow = FlowId(u32::MAX);
        self.queues.enqueue(now, no_flow, packet, drops)
    }

    /// Enqueues a packet by its labels; says how its flow came by its queue.
    ///
    /// A flow that finds all ways of its set taken ([`Outcome::Collision`]) shares a queue of its host, as
    /// said [above](Isolated).
    ///
    /// # Errors
    /// As [`Scheduler::enqueue`].
    #[inline]
    pub fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let label = self.queues.scheduler().queue_label(labels);
        match self.queues.siblings().directory.find(label) {
            Some(queue) => self.queues.enqueue(now, queue, packet, drops).map(|()| Outcome::Hit),
            None => self.enqueue_missed(now, label, labels, parts_of(packet), drops),
        }
    }

    /// As [`Self::enqueue_labelled`], where the caller does not ask how the flow came by its queue: a packet of a flow that has
    /// one is handed on as it came.
    #[inline(always)]
    pub(crate) fn enqueue_by_labels(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let label = self.queues.scheduler().queue_label(labels);
        match self.queues.siblings().directory.find(label) {
            Some(queue) => self.queues.enqueue(now, queue, packet, drops),
            None => {
                self.enqueue_missed(now, label, labels, parts_of(packet), drops)?;
                Ok(())
            }
        }
    }

    /// The rest of [`Self::enqueue_labelled`], of a packet whose flow has no queue of its own so far.
    #[inline(never)]
    fn enqueue_missed(
        &mut self,
        now: Nanos,
        label: u32,
        labels: &(impl Labelled + ?Sized),
        parts: Parts,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let lookup = self.claim(label, labels);
        self.enqueue_found(now, lookup, whole(parts), drops).map(|()| lookup.outcome)
    }

    /// The rest of [`Scheduler::enqueue`], of a packet whose flow has no queue of its own so far.
    #[inline(never)]
    fn enqueue_own_host(
        &mut self,
        now: Nanos,
        flow: FlowId,
        parts: Parts,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let lookup = self.claim(self.own_label(flow), &OwnHost(flow.0));
        self.enqueue_found(now, lookup, whole(parts), drops)
    }

    /// The label by which a packet of `flow`, which is its own host, finds its queue. All labels of the packet are one, but for
    /// that of the pair of hosts.
    #[inline(always)]
    fn own_label(&self, flow: FlowId) -> u32 {
        let labels = OwnHost(flow.0);
        if self.isolation() == Isolation::Hosts { labels.host_pair() } else { labels.flow() }
    }

    /// Finds the queue of a packet that has none so far. The AQM forgets the flow that had a queue before another, and the
    /// flows that had a spare queue.
    #[inline]
    fn claim(&mut self, label: u32, labels: &(impl Labelled + ?Sized)) -> Lookup {
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        let returns = directory.queues.returns();
        let lookup = directory.claim(scheduler, label, labels);
        let queue = FlowId(lookup.queue);
        if lookup.outcome == Outcome::Hit && directory.unnamed > 0 {
            self.name_hosts(queue, labels);
        }
        let directory = self.queues.siblings().directory;
        // A spare queue is of any flows, and its entry may be another host's now.
        let is_of_others = match lookup.outcome {
            Outcome::Claimed => directory.queues.returns() == returns,
            Outcome::Collision => self.queues.flow_backlog(queue).packets == 0,
            Outcome::Hit => false,
        };
        let Siblings { scheduler, aqm, .. } = self.queues.siblings();
        if is_of_others {
            aqm.forget(queue);
        }
        if scheduler.tins() > 1 {
            aqm.assign(queue, scheduler.tin_of_flow(queue));
        }
        lookup
    }

    /// Enqueues to the queue that was claimed for the packet, or that it shares.
    #[inline]
    fn enqueue_found(
        &mut self,
        now: Nanos,
        lookup: Lookup,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let queue = FlowId(lookup.queue);
        let result = self.queues.enqueue(now, queue, packet, drops);
        // A packet that never entered cannot leave: nothing else would give the queue back.
        if result.is_err() && self.queues.flow_backlog(queue).packets == 0 {
            let Siblings { scheduler, directory, .. } = self.queues.siblings();
            directory.let_go(scheduler, queue);
        }
        result
    }
}

/// A packet in parts, for functions out of line: handle and length, and ECN. As a whole it would have a place in memory, and be
/// written there even where it goes to no such function.
pub(crate) type Parts = ((u32, u32), Ecn);

#[inline(always)]
pub(crate) const fn parts_of(Packet { handle, len, ecn }: Packet) -> Parts {
    ((handle, len), ecn)
}

const fn whole(((handle, len), ecn): Parts) -> Packet {
    Packet { handle, len, ecn }
}

impl<S: Storage, A: Aqm, K: Storage, T: Storage> Scheduler for Isolated<S, A, K, T> {
    /// `flow` is the packet's label; the flow is its own host.
    #[inline(always)] // as `dequeue`
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let label = self.own_label(flow);
        match self.queues.siblings().directory.find(label) {
            Some(queue) => self.queues.enqueue(now, queue, packet, drops),
            None => {
                self.enqueue_own_host(now, flow, parts_of(packet), drops)?;
                Ok(())
            }
        }
    }

    /// Touches the lines of the table of flows first as well, where tables are large.
    #[inline(never)] // once a burst, with registers of its own
    fn enqueue_burst(
        &mut self,
        now: Nanos,
        burst: &[(FlowId, Packet)],
        drops: &mut dyn DropSink,
    ) -> usize {
        let mut accepted = 0;
        for chunk in burst.chunks(IsolatedQueues::<S, A, K, T>::CHUNK) {
            let isolation = self.isolation();
            self.queues.touch_arrivals(chunk, |directory, flow| {
                directory.queues.find(isolation.queue_label(&OwnHost(flow.0))).map(FlowId)
            });
            for &(flow, packet) in chunk {
                match self.enqueue(now, flow, packet, drops) {
                    Ok(()) => accepted += 1,
                    Err(rejected) => drops.dropped(rejected.packet, DropReason::Rejected),
                }
            }
        }
        accepted
    }

    #[inline(always)] // as that of the queues by number
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

    /// None: statistics of single flows are not kept.
    fn flow_counters(&self, _flow: FlowId) -> Option<Counters> {
        None
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
        self.queues.recount()?;
        self.recount_tins()
    }
}
