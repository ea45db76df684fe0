//! The queue of one direction: every configurable queue behind one trait.

mod size;
mod users;

use core::fmt;

use freeboard::flowhash::{self, Outcome, TagLine};
use freeboard::sched_core::{
    Aqm as _, AqmChoice, AqmSetting, ChosenAqm, ChosenAqmState, Descriptor, DropPolicy, DropSink,
    Fifo, FloorShare, FlowId, FlowQueues, FlowRecord, FlowScheduler, L4sParams, LengthFlow, Limits,
    LongestFlow, LongestQueueDrop, Nanos, OwnVictim, Packet, Qfq, QfqConfig, QfqFlow,
    Queue as Empty, Rejected, Scheduler, ShortestQueue, TokenBucket, WaitingFlow,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{
    AckFilter, Acks, Activations, FlowTotals, HashDirectory, Hashed, Heap, HostTerms,
    IsolatedMemory, Isolation, Labelled, SmartQueue, SmartQueueBuilder, TinCounters, TinPlan,
};

use crate::config::Sharing;
use crate::config::handling::Treatment;
use crate::config::keywords::{HostMode, Limit, QueueKind};
use crate::io::frame::{AROUND, Pool};
pub(crate) use size::bytes_of_tables;
use size::{host_entries, queues};
use users::Users;

/// Table size for `triple-isolate`, shared by the tins.
const ROUNDS: usize = 256;
/// Seed of randomised AQMs. It need not be secret: it only decides which packets of a flow are
/// dropped.
const SEED: u64 = 1;
/// Maximum number of frames in one direction, unless its limit is in packets.
const FRAMES: u32 = 8_192;

/// Maximum frame length for QFQ.
const QFQ_MAX_LEN: u32 = Qfq::<[QfqFlow; 0]>::MAX_LEN;

/// Direction of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// From the hosts to the link; hosts are the sources.
    Up,
    /// From the link to the hosts; hosts are the destinations.
    Down,
}

impl Heading {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// A queue's view of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketView {
    pub(crate) flow: u32,
    pub(crate) source: u32,
    pub(crate) destination: u32,
    /// Number of the tin in the current plan.
    pub(crate) tin: u8,
    /// Weight of its host on the LAN side.
    pub(crate) weight: u32,
    /// Quantum of the host, from its weight.
    pub(crate) quantum: u32,
    /// Committed rate of the host.
    pub(crate) rate: Option<TokenBucket>,
    /// Ceiling of the host.
    pub(crate) ceiling: Option<TokenBucket>,
}

impl Labelled for PacketView {
    fn flow(&self) -> u32 {
        self.flow
    }

    fn source(&self) -> u32 {
        self.source
    }

    fn destination(&self) -> u32 {
        self.destination
    }

    fn tin(&self) -> u8 {
        self.tin
    }

    fn host_terms(&self) -> HostTerms {
        let Self { quantum, rate: committed_rate, ceiling, .. } = *self;
        HostTerms { quantum: Some(quantum), committed_rate, ceiling }
    }
}

/// A shaped queue of one direction.
pub(crate) trait Queue: Scheduler + fmt::Debug {
    /// Enqueues a packet like [`Scheduler::enqueue`].
    fn offer(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;

    /// Returns the shaper.
    fn line(&self) -> &Shaper;

    /// Replaces the shaper; the new one brings its own debt.
    fn set_line(&mut self, line: Shaper);

    /// Sets the rate of `plan`, and the AQM for that rate.
    fn set_rate_and_aqm(&mut self, now: Nanos, plan: &Plan);

    /// Sets the framing, for the shaper and for the rates and ceilings of hosts.
    fn set_link(&mut self, link: Overhead);

    /// Like [`Self::offer`], with `acks` to read the packet and those queued. Without effect on a
    /// queue without an ACK filter.
    fn offer_ack(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        _acks: &dyn Acks,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.offer(now, seen, packet, drops)
    }

    /// Sets whether drops are charged, and the ACK filter if the queue has one.
    fn treat(&mut self, treatment: &Treatment);

    /// Applies the host terms of `seen` from now on; without effect on a queue without host
    /// isolation.
    fn update_host(&mut self, _now: Nanos, _seen: &PacketView) {}

    /// Sets the tins; without effect on a queue without tins. `seen` returns the view of each
    /// queued packet with its tin number in the new plan.
    fn set_tins(&mut self, _plan: TinPlan, _seen: &dyn Fn(Packet) -> PacketView) {}

    /// Returns the counters of a tin. Cost: O(queues).
    fn tin_counters(&self, _number: u8) -> Option<TinCounters> {
        None
    }

    /// Returns the number of flows, and of hosts on each side, with queued packets, if known. Cost:
    /// O(queues).
    fn totals(&self) -> Option<(FlowTotals, (u32, u32))> {
        None
    }

    /// Returns how often flows and hosts became backlogged, and the number of backlogged flows that
    /// do not react to drops, if known. Cost: O(queues).
    fn activity(&self) -> Option<(Activations, u32)> {
        None
    }

    /// Sets the isolation; without effect on a queue that is built for a single one. `seen` is as
    /// for [`Self::set_tins`].
    fn set_isolation(&mut self, _isolation: Isolation, _seen: &dyn Fn(Packet) -> PacketView) {}
}

/// A queue without a shaper of its own, which [`Shaped`] provides: every one but [`SmartQueue`].
trait Unshaped: Scheduler + fmt::Debug {
    /// Enqueues a packet like [`Scheduler::enqueue`].
    fn offer(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;

    /// Like [`Self::offer`], with `acks` to read the packet and those queued. Without effect on a
    /// queue without an ACK filter.
    fn offer_ack(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        _acks: &dyn Acks,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.offer(now, seen, packet, drops)
    }

    /// Sets the ACK filter, if the queue has one.
    fn set_ack_filter(&mut self, _filter: AckFilter) {}

    /// Sets the AQM, if the queue has one.
    fn set_aqm(&mut self, aqm: AqmTerms);
}

impl<Q: Unshaped> Queue for Shaped<Q> {
    fn offer(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.arrive(now, drops, |inside, drops| inside.offer(now, seen, packet, drops))
    }

    fn offer_ack(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        acks: &dyn Acks,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.arrive(now, drops, |inside, drops| inside.offer_ack(now, seen, packet, acks, drops))
    }

    fn line(&self) -> &Shaper {
        Shaped::line(self)
    }

    fn set_line(&mut self, line: Shaper) {
        Shaped::set_line(self, line);
    }

    fn set_rate_and_aqm(&mut self, now: Nanos, plan: &Plan) {
        Shaped::set_rate(self, now, plan.rate);
        self.inner_mut().set_aqm(plan.aqm());
    }

    fn treat(&mut self, treatment: &Treatment) {
        self.set_ingress(treatment.is_ingress);
        self.inner_mut().set_ack_filter(treatment.ack_filter);
    }

    fn set_link(&mut self, link: Overhead) {
        self.set_overhead(link);
    }
}

/// Specification of a direction's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) share: Sharing,
    pub(crate) heading: Heading,
    /// Number of frames in the pool; handles are below it.
    pub(crate) descriptors: u32,
    /// Maximum frame length in bytes.
    pub(crate) max_len: u32,
    pub(crate) rate: Rate,
    pub(crate) treatment: Treatment,
}

/// Parameters of the AQM and of the ECT(1) threshold.
type AqmTerms = (AqmChoice, Option<L4sParams>);
type Aqm = ChosenAqm<Vec<ChosenAqmState>>;
/// Isolates hosts and flows, with tables for rates and for `triple-isolate`.
type HostQueues = SmartQueue<Heap>;
type Shortest = ShortestQueue<Vec<LengthFlow>, Vec<WaitingFlow>>;
type Tables = (Vec<Empty>, Vec<Descriptor>, [FlowRecord; 0], HashDirectory<Vec<TagLine>>);
type ByHash<O, D = OwnVictim> = Hashed<FlowQueues<O, Tables, Aqm, D>>;

/// Returns the size of a queue's data per frame in bytes.
pub(crate) const fn bytes_of_descriptor(hosts: HostMode) -> usize {
    match hosts {
        HostMode::UsersSqf => users::BYTES_OF_DESCRIPTOR,
        HostMode::By(_) | HostMode::Lan => size_of::<Descriptor>(),
    }
}

/// Returns the maximum number of frames of both directions that a queue supports.
pub(crate) const fn max_descriptors(hosts: HostMode) -> u32 {
    match hosts {
        HostMode::UsersSqf => users::MAX_DESCRIPTORS,
        HostMode::By(_) | HostMode::Lan => u32::MAX,
    }
}

/// Maximum default limit in bytes: enough for many flows under an AQM. An unresponsive flow would
/// fill more and only delay itself.
const MOST_BY_RATE: u32 = 4 << 20;

/// Returns the limits of a direction with this treatment.
pub(crate) fn limits(share: &Sharing, treatment: &Treatment, mtu: usize) -> Limits {
    let mut limits = match share.limit {
        Limit::ByRate => {
            let longest = u32::try_from(AROUND + mtu).unwrap_or(u32::MAX);
            let bytes = share.rtt.limit_bytes(treatment.greatest_rate, longest);
            Limits { packets: FRAMES, bytes: bytes.min(MOST_BY_RATE) }
        }
        Limit::Bytes(bytes) => Limits { packets: FRAMES, bytes },
        Limit::Packets(packets) => Limits::packets(packets),
    };
    if let Some(bytes) = treatment.memory_limit {
        let frames = bytes as usize / Pool::bytes_of_frame(mtu);
        limits.packets = limits.packets.min(u32::try_from(frames).unwrap_or(u32::MAX));
    }
    limits
}

/// Sets the AQM; its state is kept if the kind is the same.
fn set_aqm(aqm: &mut Aqm, (choice, l4s): AqmTerms) {
    let _in_range = aqm.set_choice(choice).and_then(|()| aqm.set_l4s(l4s));
}

/// Returns the isolation of this direction.
pub(crate) const fn isolation(hosts: HostMode, heading: Heading) -> Isolation {
    match (hosts, heading) {
        (HostMode::By(isolation), _) => isolation,
        (HostMode::Lan | HostMode::UsersSqf, Heading::Up) => Isolation::DualSrcHost,
        (HostMode::Lan | HostMode::UsersSqf, Heading::Down) => Isolation::DualDstHost,
    }
}

impl Plan {
    /// Builds an empty queue.
    pub(crate) fn build(&self) -> Result<Box<dyn Queue>, String> {
        let limits = self.limits();
        let descriptors = || vec![Descriptor::EMPTY; self.descriptors as usize];
        let (queues, host_entries) = (queues(&self.share), host_entries(&self.share));
        Ok(match (self.share.kind, self.share.hosts) {
            (QueueKind::Fifo, _) => self.shaped(Fifo::tail_drop(descriptors(), limits)),
            (QueueKind::Sqf, HostMode::UsersSqf) => self.shaped(Users::new(self, limits)?),
            (QueueKind::Sqf, hosts) => {
                let scheduler = self.shortest(queues)?;
                let isolation = isolation(hosts, self.heading);
                self.shaped(HashedQueues::new(
                    scheduler,
                    OwnVictim,
                    |_| Some(()),
                    self,
                    isolation,
                    limits,
                )?)
            }
            (QueueKind::Qfq, _) if self.max_len > QFQ_MAX_LEN => {
                return Err(format!(
                    "--queue qfq: the devices' MTU is {} (expected at most {})",
                    self.max_len - AROUND as u32,
                    QFQ_MAX_LEN - AROUND as u32
                ));
            }
            (QueueKind::Qfq, hosts) => {
                let scheduler =
                    Qfq::new(vec![QfqFlow::EMPTY; queues], self.max_len).map_err(one_line)?;
                let longest = LongestQueueDrop::new(vec![LongestFlow::EMPTY; queues]);
                let max_len = self.max_len;
                let weighted = move |weight| Some(QfqConfig { weight, max_len });
                let isolation = isolation(hosts, self.heading);
                self.shaped(HashedQueues::new(
                    scheduler, longest, weighted, self, isolation, limits,
                )?)
            }
            (QueueKind::Drr, hosts) => {
                let memory = IsolatedMemory::<Heap>::allocate(
                    queues,
                    host_entries,
                    TinPlan::MAX_TINS,
                    self.descriptors as usize,
                );
                let memory = memory.with_rates().with_triple(ROUNDS);
                let builder = self.builder();
                let builder = builder.isolation(isolation(hosts, self.heading)).limits(limits);
                let builder = builder.max_len(self.max_len);
                let builder = builder.aqm(self.share.aqm).l4s(self.share.l4s).rtt(self.share.rtt);
                let builder = builder.tins(self.treatment.tins());
                let aqm = memory.aqm();
                let mut queue: HostQueues =
                    builder.descriptors_in(memory, aqm).map_err(one_line)?;
                queue.set_line(self.treatment.late.of(queue.line().clone()));
                queue.treat(&self.treatment);
                Box::new(queue)
            }
        })
    }

    /// Returns a builder with the side of the hosts, and with the header and mark that select the
    /// tin.
    pub(crate) fn builder(&self) -> SmartQueueBuilder {
        let builder = match self.heading {
            Heading::Up => SmartQueue::upload(self.rate),
            Heading::Down => SmartQueue::download(self.rate),
        };
        builder.tin_by(self.treatment.tin_by).fwmark(self.treatment.fwmark)
    }

    /// Puts `queue` behind the shaper of this plan.
    fn shaped(&self, queue: impl Unshaped + 'static) -> Box<dyn Queue> {
        let line = self.treatment.late.of(Shaper::new(self.rate));
        let mut queue = Shaped::new(queue, line, Overhead::RAW);
        queue.treat(&self.treatment);
        Box::new(queue)
    }

    /// Returns the limits of the queue.
    pub(crate) fn limits(&self) -> Limits {
        let mtu = (self.max_len as usize).saturating_sub(AROUND);
        limits(&self.share, &self.treatment, mtu)
    }

    /// Returns SQF with a service floor, so that no flow starves.
    fn shortest(&self, queues: usize) -> Result<Shortest, String> {
        let scheduler = ShortestQueue::new(vec![LengthFlow::EMPTY; queues]);
        let waiting = vec![WaitingFlow::EMPTY; queues];
        let scheduler = scheduler.service_floor(FloorShare::EIGHTH, waiting).map_err(one_line)?;
        match self.share.flush_unserved {
            Some(after) => scheduler.flush_unserved(after).map_err(one_line),
            None => Ok(scheduler),
        }
    }

    /// Returns the AQM for the rate of this plan, with the parameters of [`SmartQueue`].
    fn aqm(&self) -> AqmTerms {
        let Sharing { aqm, l4s, rtt, .. } = self.share;
        let l4s = l4s.then(|| rtt.l4s(self.rate, self.max_len));
        (rtt.aqm(aqm, self.rate, self.max_len), l4s)
    }

    fn aqm_for(&self, queues: usize) -> Result<Aqm, String> {
        let (choice, l4s) = self.aqm();
        let states = vec![ChosenAqmState::EMPTY; queues];
        let mut aqm =
            ChosenAqm::new(states, [AqmSetting::EMPTY], choice, SEED).map_err(one_line)?;
        aqm.set_l4s(l4s).map_err(one_line)?;
        Ok(aqm)
    }
}

/// Formats an error of the library, which is one line.
fn one_line(error: impl fmt::Display) -> String {
    error.to_string()
}

impl Unshaped for Fifo<Vec<Descriptor>> {
    fn offer(
        &mut self,
        now: Nanos,
        _seen: &PacketView,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue(now, FlowId(0), packet, drops)
    }

    fn set_aqm(&mut self, _aqm: AqmTerms) {}
}

impl Queue for HostQueues {
    fn offer(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        SmartQueue::enqueue(self, now, seen, packet, drops)
    }

    fn offer_ack(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        acks: &dyn Acks,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_with_acks(now, seen, packet, acks, drops)
    }

    fn treat(&mut self, treatment: &Treatment) {
        self.set_ingress(treatment.is_ingress);
        self.set_hosts_across_tins(treatment.hosts_across_tins);
        self.set_ack_filter(treatment.ack_filter);
    }

    fn line(&self) -> &Shaper {
        SmartQueue::line(self)
    }

    fn set_line(&mut self, line: Shaper) {
        SmartQueue::set_line(self, line);
    }

    /// The AQM is for the maximum packet length that the queue was built for.
    fn set_rate_and_aqm(&mut self, now: Nanos, plan: &Plan) {
        self.set_rate(now, plan.rate);
        self.set_rtt(plan.share.rtt);
        self.set_aqm(plan.share.aqm);
        self.set_l4s(plan.share.l4s);
    }

    fn set_link(&mut self, link: Overhead) {
        self.set_overhead(link);
    }

    fn update_host(&mut self, now: Nanos, seen: &PacketView) {
        let _is_backlogged = HostQueues::update_host(self, now, seen);
    }

    fn set_tins(&mut self, plan: TinPlan, seen: &dyn Fn(Packet) -> PacketView) {
        if plan != *self.tins() {
            let _has_isolation = HostQueues::set_tins(self, plan, seen);
        }
    }

    fn tin_counters(&self, number: u8) -> Option<TinCounters> {
        SmartQueue::tin_counters(self, number)
    }

    fn totals(&self) -> Option<(FlowTotals, (u32, u32))> {
        Some((self.isolated().flow_totals(), self.backlogged_hosts()))
    }

    fn activity(&self) -> Option<(Activations, u32)> {
        Some((self.isolated().activations(), self.unresponsive_flows()))
    }

    fn set_isolation(&mut self, isolation: Isolation, seen: &dyn Fn(Packet) -> PacketView) {
        let _has_tables = HostQueues::set_isolation(self, isolation, seen);
    }
}

/// Queues selected by the hash of flow or host, without a level of hosts above.
struct HashedQueues<O: FlowScheduler, D> {
    queues: ByHash<O, D>,
    isolation: Isolation,
    /// Returns the scheduler's configuration for a queue whose host has this weight.
    config: Box<dyn Fn(u32) -> Option<O::Config>>,
    ack_filter: AckFilter,
}

impl<O: FlowScheduler, D> fmt::Debug for HashedQueues<O, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashedQueues").field("isolation", &self.isolation).finish_non_exhaustive()
    }
}

impl<O: FlowScheduler, D: DropPolicy<O>> HashedQueues<O, D> {
    fn new(
        mut scheduler: O,
        policy: D,
        config: impl Fn(u32) -> Option<O::Config> + 'static,
        plan: &Plan,
        isolation: Isolation,
        limits: Limits,
    ) -> Result<Self, String> {
        let count = queues(&plan.share);
        for flow in 0..count {
            if let Some(config) = config(1) {
                scheduler.configure(FlowId(flow as u32), config, None).map_err(one_line)?;
            }
        }
        let queues = freeboard::sched_core::FlowQueues::with_parts(
            scheduler,
            plan.aqm_for(count)?,
            vec![Empty::EMPTY; count],
            vec![Descriptor::EMPTY; plan.descriptors as usize],
            [],
            limits,
        );
        let queues = Hashed::over(queues.with_drop_policy(policy), table(count)?);
        Ok(Self { queues, isolation, config: Box::new(config), ack_filter: AckFilter::Off })
    }

    fn label(&self, seen: &PacketView) -> u32 {
        match self.isolation {
            Isolation::SrcHost => seen.source,
            Isolation::DstHost => seen.destination,
            Isolation::Hosts => seen.host_pair(),
            _ => seen.flow,
        }
    }
}

/// Creates a table of `queues` queues, a power of two.
fn table(queues: usize) -> Result<flowhash::FlowTable<Vec<TagLine>>, String> {
    let lines = vec![TagLine::EMPTY; queues.div_ceil(8)];
    flowhash::FlowTable::new(lines, queues as u32, flowhash::DEFAULT_WAYS).map_err(one_line)
}

impl<O: FlowScheduler, D: DropPolicy<O>> Unshaped for HashedQueues<O, D> {
    fn offer(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let label = self.label(seen);
        let returns = self.queues.queues().directory().table().returns();
        let outcome = self.queues.enqueue_hashed(now, label, packet, drops)?;
        let table = self.queues.queues().directory().table();
        if outcome == Outcome::Claimed
            && let Some(queue) = table.find(label)
        {
            // The AQM forgets the state of the flow that had the queue before.
            if table.returns() == returns {
                self.queues.aqm_mut().forget(FlowId(queue));
            }
            // The flow that had the queue before may have had another weight.
            if let Some(config) = (self.config)(seen.weight) {
                let _in_range = self.queues.configure_queue(queue, config);
            }
        }
        Ok(())
    }

    fn offer_ack(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        acks: &dyn Acks,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.offer(now, seen, packet, drops)?;
        if let Some(ack) = acks.ack(packet) {
            let (label, filter) = (self.label(seen), (self.ack_filter, acks));
            self.queues.filter_ack(label, (packet, &ack), filter, drops);
        }
        Ok(())
    }

    fn set_ack_filter(&mut self, filter: AckFilter) {
        self.ack_filter = filter;
    }

    fn set_aqm(&mut self, aqm: AqmTerms) {
        set_aqm(self.queues.aqm_mut(), aqm);
    }
}

impl<O: FlowScheduler, D: DropPolicy<O>> Scheduler for HashedQueues<O, D> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.queues.enqueue(now, flow, packet, drops)
    }

    freeboard::sched_core::forward_to_scheduler!(self => self.queues);

    fn recount(&self) -> Result<(), freeboard::sched_core::Imbalance> {
        self.queues.recount()
    }
}

#[cfg(test)]
mod many;
#[cfg(test)]
mod tests;
