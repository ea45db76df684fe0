//! The queue: tables of flows and hosts, the records, AQM, and drop policy.

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

/// The engine: flow scheduler, drop policy, AQM and flow directory.
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

/// Queues found by label, under the [`Isolation`] chosen, in the storage `S`; with the AQM `A`.
///
/// **Take packets in by their labels**: [`Isolated::enqueue_labelled`], or
/// [`LabelledScheduler`](crate::LabelledScheduler) where the queue stands behind a line. As a
/// [`Scheduler`], the number that names a flow is its label, and a flow that comes in that way is
/// its own host: hosts are not isolated.
///
/// **The host that counts** is the source in `dual-srchost`, the destination in `dual-dsthost`, and
/// the host of [`IsolatedConfig::local_side`] in `triple-isolate`, where those of the other side
/// count for shares as well. In the other four modes hosts do not count. `triple-isolate` needs
/// [tables of its own](IsolatedMemory::with_triple).
///
/// **A full set.** A flow that finds all ways of its set taken shares a queue of its own host: that
/// of its own way, if this is of the same host and tin, or else the *spare queue* that stands
/// behind the table for each entry of a host. Flows of a host that are crowded out in several tins
/// at once share it, and are then served in the tin that had it first. Where hosts do not count
/// there is a spare queue for each tin. A flow that has a queue keeps it while the queue holds
/// packets of the flow; one that shares a queue may be reordered once, when it comes to another.
/// Hosts whose set is full share an entry: its share of the line, and its spare queue.
///
/// **Rates.** Hosts may have committed rates and ceilings
/// ([`Labelled::host_terms`]) where there is
/// [room for them](IsolatedMemory::with_rates). While all hosts that hold packets are above their
/// ceilings, [`Scheduler::dequeue`] gives none, and [`Scheduler::poll_at`] says when the first may
/// send.
///
/// **Tins.** With several ([`Isolated::set_tins`]) a flow has a queue for each tin that it sends
/// in. A host has one entry, and a turn in each of its tins: its share of that tin. A committed
/// rate and a ceiling hold over all tins together, and the host that gives way is chosen by what it
/// holds in all of them.
///
/// **What a reused entry inherits.**
///
/// - A queue: its previous flow's debt, under one packet. What the AQM has learned it learned of a
///   flow: the flow has it when it comes back to its queue, and another flow begins without it.
/// - A spare queue: its previous flows' debt, under one packet. The AQM begins anew each time that
///   it is claimed.
/// - An entry of a host: the previous host's debt in each tin, under a quantum and a packet; and
///   what is left in the buckets of its rate and its ceiling, if the previous host was the same.
///   Until these buckets are full other hosts claim the entry last.
///
/// A turn that is used up is inherited with the debt: the flow or host may then wait for one round,
/// once.
///
/// **Cost.** A packet of a flow that is backlogged: a lookup, the flow scheduler, and the books of
/// which host holds the most, O(1). A flow that becomes backlogged, and each packet of a flow that
/// found its set full, costs the hash and the lookup of its host, where hosts count.
///
/// Two hosts share the line, whatever they open:
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
pub struct Isolated<S: Storage, A = NoAqm> {
    pub(super) queues: Engine<S, A>,
}

/// Without the tables.
impl<S: Storage, A> fmt::Debug for Isolated<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isolated").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl<S: Storage> Isolated<S> {
    /// Creates queues without an AQM. Cost: O(memory).
    ///
    /// # Errors
    /// [`IsolatedError`], with what was given and what is accepted.
    pub fn new(memory: IsolatedMemory<S>, config: IsolatedConfig) -> Result<Self, IsolatedError> {
        Self::with_aqm(memory, NoAqm, config)
    }
}

impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// Creates queues with an AQM, which has room for as many flows as there are queues, spare ones
    /// included. Cost: O(memory).
    ///
    /// # Errors
    /// [`IsolatedError`], with what was given and what is accepted.
    pub fn with_aqm(
        memory: IsolatedMemory<S>,
        aqm: A,
        config: IsolatedConfig,
    ) -> Result<Self, IsolatedError> {
        Self::with_tins(memory, aqm, config, (None, false), Overhead::RAW)
    }

    /// As [`with_aqm`](Self::with_aqm), with these tins or one, in which hosts have one share
    /// together if it `is_across`, on this link.
    ///
    /// In line, and no function is called with the whole: so it is built where it stays. Each move
    /// of it would take as much of the stack again.
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

    /// Sets what packets are on the wire, from the next one on that leaves: the rates of tins, and
    /// the rates and ceilings of hosts, count that. Packets count as they are booked until it is
    /// said. A host whose bucket does not hold the longest packet on that line waits. Cost: O(hosts
    /// · log hosts) where there is room for rates.
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
    /// ```
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Limits, Nanos, Packet, Scheduler, TinConfig};
    /// use freeboard::{Heap, InTin, Isolated, IsolatedConfig, IsolatedMemory};
    ///
    /// let memory = IsolatedMemory::<Heap>::allocate(64, 16, 2, 256);
    /// let mut queue = Isolated::new(memory, IsolatedConfig::new(1_500, Limits::packets(256)))?;
    /// // Of 10 Mbit/s, tin 1 goes first up to 1 Mbit/s.
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
    /// - [`IsolatedError::Config`] for no tins, more than eight, what [`TinConfig::check`] refuses,
    ///   and another number while packets are queued;
    /// - [`IsolatedError::Memory`] without room for the turns of every host, and where hosts do not
    ///   count also for more tins than there are spare queues.
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

    /// Sets whether a host has one share in all tins together, and not one in each: off unless set.
    /// Where hosts do not count it changes nothing.
    ///
    /// Under `dual-srchost` and `dual-dsthost` what a host is sent in one tin counts for its turns
    /// in the others:
    ///
    /// - A turn of a host is of as many quanta as there are tins, and what the host is sent
    ///   elsewhere is taken from it; of every turn one packet is left. So a host that floods `n`
    ///   tins of the same rate, beside others that flood one each, is sent as much as each of them.
    ///   Where tins differ, it has in each tin a packet at least where another is sent a whole
    ///   turn.
    /// - Hosts stand for longer turns: the wait of one that floods grows by the number of tins.
    ///   Sparse ones go first, as without.
    /// - What a host is sent in excess of a committed rate is not counted.
    ///
    /// Under `triple-isolate` the load of a flow counts the flows of its hosts in all tins: a host
    /// divides one share among all its flows. A host that floods `n` tins with a flow in each has
    /// in each of them the `n`-th part of what another host has there with one flow in this tin
    /// alone.
    ///
    /// When room is made, a host counts with what it holds in all tins, with this and without.
    /// Cost: O(hosts · tins).
    pub fn set_hosts_across_tins(&mut self, on: bool) {
        self.queues.scheduler_mut().set_across(on);
    }

    /// Returns whether a host has [one share in all tins](Self::set_hosts_across_tins).
    pub const fn hosts_across_tins(&self) -> bool {
        self.queues.scheduler().is_across
    }

    /// Sets the quantum, committed rate and ceiling of the host of a packet with these `labels` at
    /// once, also while the host stays backlogged; returns whether it is backlogged. For a host
    /// that is not, labels are queried when it comes back. The host is the one of the side that the
    /// isolation has a level for; in other modes nothing changes. What its buckets lack they lack
    /// after the change. Cost: O(tins + log hosts).
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
        // Another quantum may have taken the turn served next off the early list.
        scheduler.note_selected();
        true
    }

    /// Counts `packet` as rejected, and claims no flow and no host for it. Always an error.
    #[cold]
    pub(crate) fn turn_away(
        &mut self,
        now: Nanos,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.queues.enqueue(now, FlowId::NONE, packet, drops)
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

impl<S: Storage, A: Aqm> Scheduler for Isolated<S, A> {
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

    sched_core::forward_to_scheduler!(self => self.queues);

    fn recount(&self) -> Result<(), Imbalance> {
        self.queues.recount()?;
        self.recount_tins()
    }
}
