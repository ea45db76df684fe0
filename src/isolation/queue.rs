//! The queue: tables of flows and hosts, the records, AQM, and drop policy.

use core::fmt;

use flowhash::{FlowTable, Lookup, Outcome};
use sched_core::{
    Aqm, Backlog, ConfigError, Counters, Descriptor, DropReason, DropSink, FlowId, FlowQueues,
    FlowScheduler, HeldFlow, HeldHost, HostClass, Imbalance, Limits, LongestHostDrop, Nanos, NoAqm,
    Packet, Queue, Rejected, RingFlow, Scheduler, Siblings, TinChoice, TinConfig,
};
use shaper::Overhead;

use super::calendar::Rounds;
use super::directory::{Directory, host_label};
use super::memory::IsolationMemory;
use super::mode::{Isolation, Level};
use super::rates::Rates;
use super::records::{Flow, Tin};
use super::serve::{Charged, Serving, TINS};
use super::tin_counters::TinRecords;
use crate::isolated::{OwnHost, Parts, parts_of};
use crate::labels::Labelled;
use crate::storage::Storage;
use crate::{IsolatedConfig, IsolatedError};

/// The engine: flow scheduler, drop policy, AQM and flow directory.
type Engine<S, A> = FlowQueues<
    Serving<S>,
    <S as Storage>::Of<Queue>,
    <S as Storage>::Of<Descriptor>,
    A,
    TinRecords<S>,
    LongestHostDrop<
        <S as Storage>::Of<HeldFlow>,
        <S as Storage>::Of<HeldHost>,
        [HostClass; HostClass::COUNT],
    >,
    Directory<S>,
>;

/// Queues found by label: hosts and the flows of each, in the storage `S`, with the AQM `A`.
///
/// [`Isolation::TripleIsolate`] needs [tables of its own](IsolationMemory::with_triple). As a
/// [`Scheduler`], the number that names a flow is its label, and a flow that comes in that way is
/// its own host. Hosts may have committed rates and ceilings where there is
/// [room for them](IsolationMemory::with_rates); while all that hold packets wait at their
/// ceilings, [`Scheduler::dequeue`] gives none and [`Scheduler::poll_at`] says when the first may
/// send.
///
/// Two hosts share the line, whatever they open:
///
/// ```
/// use freeboard::flowhash::{Labels, mix};
/// use freeboard::{IsolatedQueue, IsolationMemory};
/// use freeboard::sched_core::{Limits, Nanos, Packet, Scheduler};
/// use freeboard::{Heap, IsolatedConfig};
///
/// let memory = IsolationMemory::<Heap>::allocate(64, 16, 1, 256);
/// let mut queue = IsolatedQueue::new(memory, IsolatedConfig::new(1_500, Limits::packets(256)))?;
/// let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
/// for handle in 0..200 {
///     // Every tenth packet is of host 1 and its one flow, the others of nine flows of host 0.
///     let host = u32::from(handle % 10 == 0);
///     let labels = Labels { flow: mix(handle % 10), src_host: mix(host), dst_host: 0 };
///     queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, 1_500), drops)?;
/// }
/// assert_eq!(queue.backlogged_hosts(), (2, 0));
/// let sent = (0..20).filter_map(|_| queue.dequeue(Nanos(0), drops));
/// assert_eq!(sent.filter(|packet| packet.handle % 10 == 0).count(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IsolatedQueue<S: Storage, A = NoAqm> {
    pub(super) queues: Engine<S, A>,
}

/// Without the tables.
impl<S: Storage, A> fmt::Debug for IsolatedQueue<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsolatedQueue").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl<S: Storage> IsolatedQueue<S> {
    /// Creates queues without an AQM. Cost: O(memory).
    ///
    /// # Errors
    /// [`IsolatedError`], with what was given and what is accepted.
    pub fn new(memory: IsolationMemory<S>, config: IsolatedConfig) -> Result<Self, IsolatedError> {
        Self::with_aqm(memory, NoAqm, config)
    }
}

impl<S: Storage, A: Aqm> IsolatedQueue<S, A> {
    /// Creates queues with an AQM, which has room for as many flows as there are queues, spare ones
    /// included. Cost: O(memory).
    ///
    /// # Errors
    /// [`IsolatedError`], with what was given and what is accepted.
    pub fn with_aqm(
        memory: IsolationMemory<S>,
        aqm: A,
        config: IsolatedConfig,
    ) -> Result<Self, IsolatedError> {
        memory.check()?;
        let IsolatedConfig { isolation, local_side, max_len, quantum, host_quantum, ways, limits } =
            config;
        let has_triple = memory.has_triple();
        if isolation == Isolation::TripleIsolate && !has_triple {
            return Err(IsolatedError::NoTriple);
        }
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let hosts = count(memory.hosts.as_ref().len());
        let queues = count(memory.queues.as_ref().len()).saturating_sub(hosts);
        let (far_lines, rounds) = Rounds::new(memory.rounds);
        let far_hosts = has_triple.then(|| FlowTable::new(far_lines, hosts, ways)).transpose()?;
        let directory = Directory {
            queues: FlowTable::new(memory.lines, queues, ways)?,
            hosts: FlowTable::new(memory.host_lines, hosts, ways)?,
            far_hosts,
            host_quantum,
            activated: Default::default(),
        };
        let choice = TinChoice::new(max_len, Overhead::RAW)?;
        for quantum in [quantum, host_quantum] {
            let (min, max) = (max_len.into(), RingFlow::MAX_QUANTUM.into());
            let (what, value) = ("quantum in bytes", quantum.into());
            if !(min..=max).contains(&value) {
                return Err(ConfigError::OutOfRange { what, value, min, max }.into());
            }
        }
        let mut serving = Serving::<S> {
            isolation,
            local_side,
            level: Level::None,
            flows: memory.flows,
            turns: memory.turns,
            hosts: memory.hosts,
            tins: [Tin::EMPTY; TINS],
            rounds,
            choice,
            selected: FlowId::NONE.0,
            tin_bits: 0,
            charged: Charged::Turn,
            max_len,
            is_across: false,
            was_across: false,
            rates: Rates::new(memory.rates, memory.excess),
        };
        let mut flow = Flow::EMPTY;
        flow.place.set_quantum(quantum, max_len);
        serving.flows.as_mut().fill(flow);
        serving.begin_anew(isolation, None, host_quantum);
        let classes = [HostClass::EMPTY; HostClass::COUNT];
        let (held_flows, held_hosts) = (memory.held_flows, memory.held_hosts);
        let drops = LongestHostDrop::new(&serving, limits, held_flows, held_hosts, classes)?;
        let records = TinRecords { above: memory.records };
        let queues =
            FlowQueues::with_parts(serving, aqm, memory.queues, memory.packets, records, limits);
        Ok(Self { queues: queues.with_drop_policy(drops).with_directory(directory) })
    }

    /// Returns the AQM.
    pub const fn aqm(&self) -> &A {
        self.queues.aqm()
    }

    /// Returns the AQM, to be configured.
    pub const fn aqm_mut(&mut self) -> &mut A {
        self.queues.aqm_mut()
    }

    /// Returns what shares the line.
    pub const fn isolation(&self) -> Isolation {
        self.queues.scheduler().isolation
    }

    /// Returns what the queue of this number holds; spare ones stand behind those of the table.
    pub fn queue_backlog(&self, queue: u32) -> Backlog {
        self.queues.flow_backlog(FlowId(queue))
    }

    /// Sets what packets are on the wire, from the next one on that leaves: the rates of tins and
    /// of hosts count that.
    pub fn set_overhead(&mut self, link: Overhead) {
        self.queues.scheduler_mut().set_link(link);
    }

    /// Returns how many tins there are: 1 unless [set](Self::set_tins).
    pub fn tins(&self) -> u8 {
        u8::try_from(self.queues.scheduler().choice.tins()).unwrap_or(1)
    }

    /// Sets the tins: `tins[t]` is tin `t`, and the highest goes first within its share. Rates and
    /// weights may change at any time, the number of tins only while nothing is queued; where
    /// packets are, [`Self::rebuild`] changes it. Cost: O(1), with another number O(tables).
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`IsolatedError::Config`] for no tins, more than eight, what [`TinConfig::check`] refuses,
    ///   and another number while packets are queued;
    /// - [`IsolatedError::Memory`] without room for the turns of every host, and where hosts do not
    ///   count also for more tins than there are spare queues.
    pub fn set_tins(&mut self, tins: &[TinConfig]) -> Result<(), IsolatedError> {
        if tins.len() == usize::from(self.tins()) {
            return Ok(self.queues.scheduler_mut().set_shares(tins)?);
        }
        self.check_layout(self.isolation(), Some(tins))?;
        let mut flows = (0..self.queues.scheduler().flows()).map(FlowId);
        if let Some(flow) = flows.find(|flow| self.queues.flow_backlog(*flow).packets > 0) {
            return Err(ConfigError::Backlogged { flow }.into());
        }
        self.begin_tins(tins);
        Ok(())
    }

    /// Sets whether a host has one share in all tins together: then what it is sent in one tin
    /// counts for its turns in the others. Cost: O(hosts · tins).
    pub fn set_hosts_across_tins(&mut self, on: bool) {
        self.queues.scheduler_mut().set_across(on);
    }

    /// Returns whether a host has [one share in all tins](Self::set_hosts_across_tins).
    pub const fn hosts_across_tins(&self) -> bool {
        self.queues.scheduler().is_across
    }

    /// Sets the quantum, committed rate and ceiling of the host of a packet with these `labels` at
    /// once; returns whether the host is backlogged. What its buckets lack they lack after the
    /// change. Cost: O(tins + log hosts).
    pub fn update_host(&mut self, now: Nanos, labels: &impl Labelled) -> bool {
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        scheduler.advance(now);
        let level = scheduler.isolation.level();
        if level == Level::None {
            return false;
        }
        let Some(host) = directory.hosts.find(host_label(level, labels)) else { return false };
        let quantum = labels.host_quantum().unwrap_or(directory.host_quantum);
        for tin in 0..u8::try_from(scheduler.choice.tins()).unwrap_or(1) {
            scheduler.set_quantum(scheduler.turn_of(host, tin), quantum);
        }
        scheduler.set_rates(host, false, labels);
        true
    }

    /// Enqueues a packet by its labels; says how its flow came by its queue.
    ///
    /// # Errors
    /// As [`Scheduler::enqueue`].
    #[inline(always)] // a hit is little more than the enqueue of the queues by number
    pub fn enqueue_labelled(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let label = self.queues.scheduler().queue_label(labels);
        match self.queues.siblings().directory.queues.hit(label) {
            Some(queue) => {
                self.queues.enqueue(now, FlowId(queue), packet, drops).map(|()| Outcome::Hit)
            }
            None => self.enqueue_missed(now, label, labels, parts_of(packet), drops),
        }
    }

    /// As [`Self::enqueue_labelled`], where the caller does not ask how the flow came by its queue.
    #[inline(always)]
    pub(crate) fn enqueue_by_labels(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let label = self.queues.scheduler().queue_label(labels);
        match self.queues.siblings().directory.queues.hit(label) {
            Some(queue) => self.queues.enqueue(now, FlowId(queue), packet, drops),
            None => {
                self.enqueue_missed(now, label, labels, parts_of(packet), drops)?;
                Ok(())
            }
        }
    }

    /// The rest of [`Self::enqueue_labelled`], of a packet whose flow has no queue of its own so
    /// far.
    #[inline(never)]
    fn enqueue_missed(
        &mut self,
        now: Nanos,
        label: u32,
        labels: &(impl Labelled + ?Sized),
        parts: Parts,
        drops: &mut dyn DropSink,
    ) -> Result<Outcome, Rejected> {
        let ((handle, len), ecn) = parts;
        let packet = Packet { handle, len, ecn };
        self.enqueue_claimed(now, label, labels, packet, drops).map(|lookup| lookup.outcome)
    }

    /// Enqueues a packet whose flow has no queue of its own so far; says which it is in.
    #[inline(always)]
    pub(super) fn enqueue_claimed(
        &mut self,
        now: Nanos,
        label: u32,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Lookup, Rejected> {
        // What a host may send is known when its packet is.
        self.queues.scheduler_mut().advance(now);
        let lookup = self.claim(label, labels);
        let queue = FlowId(lookup.queue);
        let result = self.queues.enqueue(now, queue, packet, drops);
        // A packet that never entered cannot leave: nothing else would give the queue back.
        if result.is_err() && self.queues.flow_backlog(queue).packets == 0 {
            let Siblings { scheduler, directory, .. } = self.queues.siblings();
            directory.let_go(scheduler, queue);
        }
        result.map(|()| lookup)
    }

    /// Finds the queue of a packet that has none so far. The AQM forgets the flow that had it
    /// before, and the flows that had a spare queue.
    #[inline(always)]
    fn claim(&mut self, label: u32, labels: &(impl Labelled + ?Sized)) -> Lookup {
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        let returns = directory.queues.returns();
        let lookup = directory.claim(scheduler, label, labels);
        let queue = FlowId(lookup.queue);
        let is_of_others = match lookup.outcome {
            Outcome::Claimed => directory.queues.returns() == returns,
            Outcome::Collision => !scheduler.is_backlogged(queue),
            Outcome::Hit => false,
        };
        let Siblings { scheduler, aqm, .. } = self.queues.siblings();
        if is_of_others {
            aqm.forget(queue);
        }
        if !scheduler.choice.is_one() {
            aqm.assign(queue, scheduler.tin_of_flow(queue));
        }
        lookup
    }
}

impl<S: Storage, A: Aqm> Scheduler for IsolatedQueue<S, A> {
    /// `flow` is the packet's label; the flow is its own host.
    #[inline(always)] // as `dequeue`
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_by_labels(now, &OwnHost(flow.0), packet, drops)
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
        for chunk in burst.chunks(Engine::<S, A>::CHUNK) {
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
