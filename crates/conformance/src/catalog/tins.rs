//! Tins above rounds, and in the assembled queues.

use freeboard::flowhash::Labels;
use freeboard::sched_core as core_;
use freeboard::sched_core::{
    Backlog, ChosenAqmState, Counters, DropSink, FlowId, FlowScheduler, Imbalance, Limits,
    LoadDrrFlow, LoadDrrHost, Nanos, Packet, Rejected, RoundList, Scheduler, TinConfig,
};
use freeboard::shaper::Rate;
use freeboard::{
    Allocate, Descriptors, InTin, IsolatedMemory, Isolation, LabelledScheduler, SmartQueue, TinMode,
};

use super::{AqmRecipe, HostRecipe, IsolatedHosts, LoadDrr, Memory, Parts, Recipe, Room};

/// Tins with rounds in each, flow `f` of tin `f mod n` to begin with.
#[derive(Clone, Copy, Debug)]
pub struct LoadTins<W> {
    /// The rounds; all tins together have its calendar.
    pub of: LoadDrr<W>,
    /// What is set for each tin.
    pub tins: &'static [TinConfig],
}

impl<W: Memory> HostRecipe for LoadTins<W> {
    type Made<F: Memory, H: Memory> = core_::LoadDrr<
        F::Of<LoadDrrFlow>,
        H::Of<LoadDrrHost>,
        H::Of<LoadDrrHost>,
        W::Of<RoundList>,
    >;

    fn over_hosts<F: Memory, H: Memory>(self, room: Room<F, H>) -> Option<Self::Made<F, H>> {
        let mut made = self.of.over_hosts(room)?;
        made.set_tins(self.tins).ok()?;
        for (flow, tin) in (0..made.flows()).zip((0..made.tins()).cycle()) {
            made.assign_tin(FlowId(flow), tin).ok()?;
        }
        Some(made)
    }

    fn assign<F: Memory, H: Memory>(made: &mut Self::Made<F, H>, flow: FlowId, hosts: [u32; 2]) {
        <LoadDrr<W> as HostRecipe>::assign::<F, H>(made, flow, hosts);
    }
}

/// The longest table.
const MOST: usize = 64;

/// Tins, hosts and flows by labels; a number says all labels.
#[derive(Clone, Copy, Debug)]
pub struct IsolatedTins<A> {
    /// What is isolated in each tin.
    pub of: IsolatedHosts<A>,
    /// What is set for each of at most four tins.
    pub tins: &'static [TinConfig],
}

impl<A: AqmRecipe> Recipe for IsolatedTins<A> {
    type Made<F: Memory, S: Memory, H: Memory> =
        ByNumber<<IsolatedHosts<A> as Recipe>::Made<F, S, H>>;

    fn scheduler<F: Memory, S: Memory, H: Memory>(
        self,
        room: Room<F, H>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Made<F, S, H>> {
        let mut queue = self.of.scheduler(room, descriptors, limits)?;
        queue.set_tins(self.tins).ok()?;
        Some(ByNumber { queue, tins: queue_tins(self.tins.len()) })
    }
}

/// The assembled queue with tins and packets by descriptor: eight queues, eight hosts, and up to sixteen packets; a number
/// says all labels.
#[derive(Clone, Copy, Debug)]
pub struct SmartTins {
    /// The rate of the line.
    pub rate: Rate,
    /// What is isolated in each tin.
    pub by: Isolation,
    /// The tins.
    pub tins: TinMode,
    /// Whether a host has one share in all tins.
    pub across: bool,
}

impl Recipe for SmartTins {
    type Made<F: Memory, S: Memory, H: Memory> = ByNumber<SmartQueue<Parts<MOST>, Descriptors>>;

    fn scheduler<F: Memory, S: Memory, H: Memory>(
        self,
        room: Room<F, H>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Made<F, S, H>> {
        let packets = (descriptors.count() as usize).min(16);
        let memory = IsolatedMemory::<Parts<MOST>>::allocate(8, 8, 8, packets).with_triple(16);
        let aqm = Parts::<MOST>::table(ChosenAqmState::EMPTY, memory.queues());
        let builder = SmartQueue::upload(self.rate).max_len(room.max_len).limits(limits);
        let builder = builder.isolation(self.by).tins(self.tins).hosts_across_tins(self.across);
        let queue = builder.descriptors_in(memory, aqm).ok()?;
        let tins = queue.tins().count();
        Some(ByNumber { queue, tins })
    }
}

fn queue_tins(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// A queue by labels in which a number `f` says the flow, the hosts and the tin of a packet: the tin is `f mod n`, the
/// source `f / 2`, and the destination `f mod 3`.
#[derive(Clone, Debug)]
pub struct ByNumber<Q> {
    queue: Q,
    /// How many tins there are.
    tins: u8,
}

impl<Q: LabelledScheduler> Scheduler for ByNumber<Q> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let number = flow.0;
        let labels = Labels { flow: number, src_host: number >> 1, dst_host: number % 3 };
        let tin = u8::try_from(number % u32::from(self.tins.max(1))).unwrap_or(0);
        self.queue.enqueue_labelled(now, &InTin { labels, tin }, packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.queue.dequeue(now, drops)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.queue.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.queue.poll_at(now)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn counters(&self) -> Counters {
        self.queue.counters()
    }

    fn flow_counters(&self, flow: FlowId) -> Option<Counters> {
        self.queue.flow_counters(flow)
    }

    fn limits(&self) -> Limits {
        self.queue.limits()
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.queue.set_limits(limits, drops);
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.queue.evict(drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.queue.drain(drops);
    }

    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        self.queue.dequeue_burst(now, out, drops)
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.queue.recount()
    }
}
