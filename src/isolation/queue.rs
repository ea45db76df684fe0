//! The isolated queue: tables of flows and hosts, records, AQM, and drop policy.

use core::fmt;

use flowhash::{FlowTable, Lookup, Outcome};
use sched_core::{
    Aqm, Backlog, ConfigError, Descriptor, DropReason, DropSink, FlowId, FlowQueues, FlowScheduler,
    HeldFlow, HeldHost, HostClasses, Imbalance, LongestHostDrop, Nanos, NoAqm, Packet, Queue,
    Rejected, RingFlow, Scheduler, Siblings, TinChoice, TinConfig,
};
use shaper::Overhead;

use super::calendar::Rounds;
use super::directory::{Directory, host_label};
use super::memory::IsolatedMemory;
use super::mode::{Isolation, Level};
use super::parts::{OwnHost, Parts, parts_of};
use super::quanta::Quanta;
use super::rates::Rates;
use super::rebuild::check_layout;
use super::records::{Flow, Tin};
use super::serve::{Charged, Choice, Serving, TINS};
use super::tin_counters::TinRecords;
use crate::labels::Labelled;
use crate::storage::Storage;
use crate::{IsolatedConfig, IsolatedError};

/// The queue proper: flow scheduler, drop policy, AQM and flow directory.
type Engine<S, A> = FlowQueues<
    Serving<S>,
    (<S as Storage>::Of<Queue>, <S as Storage>::Of<Descriptor>, TinRecords<S>, Directory<S>),
    A,
    LongestHostDrop<
        <S as Storage>::Of<HeldFlow>,
        <S as Storage>::Of<HeldHost>,
        <S as Storage>::One<HostClasses>,
    >,
>;

/// Queues with host and flow isolation, found by label, under any [`Isolation`], in the storage
/// `S`, with the AQM `A`.
///
/// **Enqueue packets by their labels**: [`Isolated::enqueue_labelled`], or
/// [`LabelledScheduler`](crate::LabelledScheduler) behind a shaper. The methods of [`Scheduler`]
/// take a flow label only and treat the flow as a host of its own, so they do not isolate hosts.
///
/// **The isolated host** is the source in `dual-srchost`, the destination in `dual-dsthost`, and
/// the host of [`IsolatedConfig::local_side`] in `triple-isolate`, where the hosts of the other
/// side count for shares as well. The other four modes have no hosts. `triple-isolate` needs
/// [additional tables](IsolatedMemory::with_triple).
///
/// **A full set.** A flow that finds all ways of its set taken shares a queue of its own host: the
/// queue of its own way if that has the same host and tin, or else the *spare queue* that each
/// entry of a host has beside the table. Flows of a host that spill in several tins at once share
/// it, and are then served in the tin that had it first. In modes without hosts there is a spare
/// queue for each tin. A flow keeps its queue while the queue holds packets of it; a flow that
/// shares a queue may be reordered once, when it moves to another. Hosts whose set is full share an
/// entry, with its share of the link and its spare queue.
///
/// **Rates.** Hosts may have committed rates and ceilings ([`Labelled::host_terms`]) if there are
/// [tables for them](IsolatedMemory::with_rates). While all backlogged hosts are above their
/// ceilings, [`Scheduler::dequeue`] returns `None`, and [`Scheduler::poll_at`] returns when the
/// first may send.
///
/// **Tins.** With several tins ([`Isolated::set_tins`]) a flow has a queue in each tin that it
/// sends in. A host has one entry, and a turn in each of its tins, which is its share of that tin.
/// A committed rate and a ceiling hold over all tins together, and the host to drop from is
/// selected by its backlog in all of them. Without the feature `tins` there is one tin.
///
/// **State inherited with a reused entry.**
///
/// - A queue: the debt of its previous flow, under one packet. The AQM's state belongs to the flow:
///   a flow that returns to its queue finds it, another flow starts without any.
/// - A spare queue: the debt of its previous flows, under one packet. The AQM's state is reset each
///   time the queue is claimed.
/// - An entry of a host: the debt of the previous host in each tin, under a quantum and a packet.
///   The token buckets of rate and ceiling are kept only for a host that returns. Until they are
///   full, other hosts claim the entry last.
///
/// A used-up turn is inherited with the debt: the flow or host may then wait for one round, once.
///
/// **Cost.** A packet of a backlogged flow: a lookup, the flow scheduler, and the accounting of the
/// longest host, O(1). A flow that becomes backlogged, and each packet of a flow that found its set
/// full, also takes the hash and the lookup of its host, in modes with hosts.
///
/// Two hosts share the link equally, however many flows they open:
///
/// ```
/// use freeboard::flowhash::{Labels, mix};
/// use freeboard::{Isolated, IsolatedMemory};
/// use freeboard::sched_core::{Limits, Nanos, Packet, Scheduler};
/// use freeboard::{Heap, IsolatedConfig};
///
/// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 1, 256);
/// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::packets(256)))?;
/// let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
/// for handle in 0..200 {
///     // Every tenth packet belongs to the only flow of host 1, the others to nine flows of host 0.
///     let host = u32::from(handle % 10 == 0);
///     let labels = Labels { flow: mix(handle % 10), src_host: mix(host), dst_host: 0 };
///     queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, 1_500), drops)?;
/// }
/// assert_eq!(queue.backlogged_hosts(), (2, 0));
/// let sent = (0..20).filter_map(|_| queue.dequeue(Nanos(0), drops));
/// assert_eq!(sent.filter(|packet| packet.handle % 10 == 0).count(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Isolated<S: Storage, A = NoAqm> {
    pub(super) queues: Engine<S, A>,
}

/// Leaves out the tables.
impl<S: Storage, A> fmt::Debug for Isolated<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isolated").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl<S: Storage> Isolated<S> {
    /// Creates queues without an AQM. Cost: O(memory).
    ///
    /// # Errors
    /// [`IsolatedError`], with the given and the expected value.
    pub fn new(memory: IsolatedMemory<S>, config: IsolatedConfig) -> Result<Self, IsolatedError> {
        Self::with_aqm(memory, NoAqm, config)
    }
}

impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// Creates queues with an AQM, which must hold as many flows as there are queues, spare ones
    /// included. Cost: O(memory).
    ///
    /// # Errors
    /// [`IsolatedError`], with the given and the expected value.
    pub fn with_aqm(
        memory: IsolatedMemory<S>,
        aqm: A,
        config: IsolatedConfig,
    ) -> Result<Self, IsolatedError> {
        Self::with_tins(memory, aqm, config, (None, false), Overhead::RAW)
    }

    /// Creates queues like [`with_aqm`](Self::with_aqm), with these tins or one, for this link;
    /// `is_across` gives hosts one share in all tins.
    ///
    /// Inlined, and calls no function with the whole value, so that it is built in place. Each move
    /// would take its size in stack once more.
    #[inline(always)]
    pub(crate) fn with_tins(
        mut memory: IsolatedMemory<S>,
        aqm: A,
        config: IsolatedConfig,
        (tins, is_across): (Option<&[TinConfig]>, bool),
        link: Overhead,
    ) -> Result<Self, IsolatedError> {
        memory.check()?;
        let IsolatedConfig { isolation, local_side, max_len, quantum, host_quantum, ways, limits } =
            config;
        let has_triple = memory.has_triple();
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let hosts = count(memory.hosts.as_ref().len());
        let queues = count(memory.queues.as_ref().len()).saturating_sub(hosts);
        let (far_lines, rounds) = Rounds::new(memory.rounds);
        let sizes = [memory.turns.as_ref().len(), memory.hosts.as_ref().len(), rounds.count()];
        check_layout(isolation, tins.map_or(Ok(1), Choice::<S>::check)?, sizes)?;
        let far_hosts = has_triple.then(|| FlowTable::new(far_lines, hosts, ways)).transpose()?;
        let directory = Directory {
            queues: FlowTable::new(memory.lines, queues, ways)?,
            hosts: FlowTable::new(memory.host_lines, hosts, ways)?,
            far_hosts,
            host_quantum,
            activated: Default::default(),
        };
        let held = (memory.held_flows, memory.held_hosts, memory.classes);
        let drops = LongestHostDrop::new(hosts, limits, held.0, held.1, held.2)?;
        let mut choice = TinChoice::new(memory.tins, max_len, link)?;
        if let Some(tins) = tins {
            choice.set_tins(tins, 0)?;
        }
        for quantum in [quantum, host_quantum] {
            let (min, max) = (max_len.into(), RingFlow::MAX_QUANTUM.into());
            let (what, value) = ("quantum in bytes", quantum.into());
            if !(min..=max).contains(&value) {
                return Err(ConfigError::OutOfRange { what, value, min, max }.into());
            }
        }
        let mut flow = Flow::EMPTY;
        flow.place.add();
        memory.flows.as_mut().fill(flow);
        let mut serving = Serving::<S> {
            isolation,
            local_side,
            level: Level::None,
            flows: memory.flows,
            turns: memory.turns,
            hosts: memory.hosts,
            tins: const { [Tin::EMPTY; TINS] },
            rounds,
            choice,
            selected: FlowId::NONE.0,
            tin_bits: 0,
            charged: Charged::Turn,
            max_len,
            quantum,
            quanta: Quanta::new(max_len),
            is_across,
            was_across: false,
            serves_early: false,
            rates: Rates::new(memory.rates, memory.excess),
        };
        serving.begin(isolation, host_quantum);
        let records = (TinRecords { above: memory.records }, memory.totals);
        let tables = (memory.queues, memory.packets);
        let queues = FlowQueues::assemble(serving, drops, aqm, directory, tables, records, limits);
        Ok(Self { queues })
    }

    /// Returns the AQM.
    pub const fn aqm(&self) -> &A {
        self.queues.aqm()
    }

    /// Returns a mutable reference to the AQM, to configure it.
    pub const fn aqm_mut(&mut self) -> &mut A {
        self.queues.aqm_mut()
    }

    /// Returns the isolation in force.
    pub const fn isolation(&self) -> Isolation {
        self.queues.scheduler().isolation
    }

    /// Returns the backlog of the queue of this number; spare queues come after those of the table.
    pub fn queue_backlog(&self, queue: u32) -> Backlog {
        self.queues.flow_backlog(FlowId(queue))
    }

    /// Sets the framing of the link, from the next packet that leaves on: the rates of tins, and
    /// the rates and ceilings of hosts, count bytes on the wire. Without it they count the packets'
    /// own lengths. A host whose bucket cannot hold the longest packet on that link waits. Cost:
    /// O(hosts · log hosts) with tables for rates.
    pub fn set_overhead(&mut self, link: Overhead) {
        self.queues.scheduler_mut().set_link(link);
    }

    /// Returns the number of tins: 1 unless [set](Self::set_tins).
    pub fn tins(&self) -> u8 {
        u8::try_from(self.queues.scheduler().choice.tins()).unwrap_or(1)
    }

    /// Sets the tins, up to eight, or one without the feature `tins`: `tins[t]` is tin `t`, and the
    /// highest is served first within its share. Rates and weights may change at any time, the
    /// number of tins only while nothing is queued; [`Self::rebuild`] changes it under load. Cost:
    /// O(1), for another number O(tables).
    ///
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Limits, Nanos, Packet, Scheduler, TinConfig};
    /// use freeboard::{Heap, InTin, Isolated, IsolatedConfig, IsolatedMemory};
    ///
    /// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 2, 256);
    /// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::packets(256)))?;
    /// // On a link of 10 Mbit/s, tin 1 is served first up to 1 Mbit/s.
    /// let share = |rate| TinConfig::by_weight(1).with_rate(rate);
    /// queue.set_tins(&[share(10_000_000), share(1_000_000)])?;
    ///
    /// let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    /// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
    /// for handle in 0..8 {
    ///     let labels = InTin { labels, tin: u8::from(handle == 7) };
    ///     queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, 1_000), drops)?;
    /// }
    /// assert_eq!(queue.dequeue(Nanos(0), drops).map(|packet| packet.handle), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`IsolatedError::Config`] for no tins, more than [`TinConfig::MAX_TINS`], settings refused
    ///   by [`TinConfig::check`], and another number while packets are queued;
    /// - [`IsolatedError::Memory`] if the turns of every host do not fit, and in modes without
    ///   hosts also for more tins than there are spare queues.
    pub fn set_tins(&mut self, tins: &[TinConfig]) -> Result<(), IsolatedError> {
        if tins.len() == usize::from(self.tins()) {
            return Ok(self.queues.scheduler_mut().set_shares(tins)?);
        }
        self.queues.scheduler().check_layout(self.isolation(), Some(tins))?;
        let mut flows = (0..self.queues.scheduler().flows()).map(FlowId);
        if let Some(flow) = flows.find(|flow| self.queues.flow_backlog(*flow).packets > 0) {
            return Err(ConfigError::Backlogged { flow }.into());
        }
        self.begin_tins(tins);
        Ok(())
    }

    /// Gives a host one share in all tins together (`true`) or one in each (`false`, the default).
    /// No effect in modes without hosts.
    ///
    /// Under `dual-srchost` and `dual-dsthost`, bytes sent for a host in one tin are charged to its
    /// turns in the others:
    ///
    /// - A turn of a host has as many quanta as there are tins, and bytes sent in other tins are
    ///   subtracted from it; at least one packet remains of every turn. So a host that floods `n`
    ///   tins of equal rate, beside hosts that flood one each, gets as much as each of them. If
    ///   tins differ, it still gets at least a packet in each tin where another host gets a whole
    ///   turn.
    /// - Turns of backlogged hosts are longer, so the waiting time of a host that floods grows by
    ///   the number of tins. Sparse flows still go first.
    /// - Bytes sent in excess of a committed rate are not counted.
    ///
    /// Under `triple-isolate`, the load of a flow counts the flows of its hosts in all tins, so a
    /// host divides one share among all its flows. A host that floods `n` tins with one flow in
    /// each gets, in each of them, `1/n` of what another host gets there with a single flow in this
    /// tin alone.
    ///
    /// Drops always compare hosts by their backlog in all tins, with or without this setting. Cost:
    /// O(hosts · tins).
    pub fn set_hosts_across_tins(&mut self, on: bool) {
        self.queues.scheduler_mut().set_across(on);
    }

    /// Returns true if a host has [one share in all tins](Self::set_hosts_across_tins).
    pub const fn hosts_across_tins(&self) -> bool {
        self.queues.scheduler().is_across
    }

    /// Applies the quantum, committed rate and ceiling of `labels` to their host at once, even
    /// while it stays backlogged; returns true if the host is backlogged. For an idle host the
    /// labels are queried when it becomes backlogged. The host is the one of the isolated side; in
    /// modes without hosts nothing changes. What is missing in its token buckets stays missing.
    /// Cost: O(tins + log hosts).
    pub fn update_host(&mut self, now: Nanos, labels: &impl Labelled) -> bool {
        let Siblings { scheduler, directory, .. } = self.queues.siblings();
        scheduler.advance(now);
        let level = scheduler.isolation.level();
        if level == Level::None {
            return false;
        }
        let Some(host) = directory.hosts.find(host_label(level, labels)) else { return false };
        let quantum = labels.host_terms().quantum.unwrap_or(directory.host_quantum);
        for tin in 0..u8::try_from(scheduler.choice.tins()).unwrap_or(1) {
            scheduler.set_quantum(scheduler.turn_of(host, tin), quantum);
        }
        scheduler.set_rates(host, false, labels);
        // Another quantum may have removed the selected turn from the early list.
        scheduler.note_selected();
        true
    }

    /// Counts `packet` as rejected without claiming a flow or host. Always an error.
    #[cold]
    pub(crate) fn turn_away(
        &mut self,
        now: Nanos,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.queues.enqueue(now, FlowId::NONE, packet, drops)
    }

    /// Enqueues a packet by its labels; returns how its queue was found.
    ///
    /// # Errors
    /// See [`Scheduler::enqueue`].
    #[inline(always)] // a hit costs little more than `FlowQueues::enqueue`
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

    /// Enqueues a packet by its labels, without returning how its queue was found.
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

    /// The slow path of [`Self::enqueue_labelled`], for a packet whose flow has no queue yet.
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

    /// Enqueues a packet whose flow has no queue yet; returns the queue.
    #[inline(always)]
    pub(super) fn enqueue_claimed(
        &mut self,
        now: Nanos,
        label: u32,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<Lookup, Rejected> {
        // The scheduler's time must be current when a host's buckets are read.
        self.queues.scheduler_mut().advance(now);
        let lookup = self.claim(label, labels);
        let queue = FlowId(lookup.queue);
        let result = self.queues.enqueue(now, queue, packet, drops);
        // A packet that was never queued cannot leave, so nothing else would release the queue.
        if result.is_err() && self.queues.flow_backlog(queue).packets == 0 {
            let Siblings { scheduler, directory, .. } = self.queues.siblings();
            directory.let_go(scheduler, queue);
        }
        result.map(|()| lookup)
    }

    /// Finds the queue of a packet that has none yet. The AQM forgets the previous flow of the
    /// queue, or the previous flows of a spare queue.
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

impl<S: Storage, A: Aqm> Scheduler for Isolated<S, A> {
    /// Enqueues a packet with the label `flow`; the flow is its own host.
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

    /// Prefetches the cache lines of the table of flows first, for large tables.
    #[inline(never)] // once per burst, with registers of its own
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

    sched_core::forward_to_scheduler!(self => self.queues);

    fn recount(&self) -> Result<(), Imbalance> {
        self.queues.recount()?;
        self.recount_tins()
    }
}
