//! Recipes for packet schedulers.

use crate::wfi::{Arrival, Metered, WfiFlow, WfiMeter};
use freeboard::flowhash::{FlowTable, TagLine};
use freeboard::sched_core as core_;
use freeboard::sched_core::{
    Aqm, ClassState, Classes, Descriptor, DropFrom, DualPi2Params, FlowId, FlowQueues, FlowRecord,
    FlowScheduler, Limits, LongestClass, LowBits, Nanos, NoAqm, Queue,
};
use freeboard::shaper::{self, Overhead, Rate, Shaper};
use freeboard::{
    AqmKind, Descriptors, HashDirectory, Hashed, Isolated, IsolatedConfig, IsolatedMemory,
    Isolation, Rtt, SmartQueue,
};

use super::{
    AqmRecipe, Arrays, Dial, FlowRecipe, Memory, Parts, QueuesRecipe, Recipe, Room, SchedulerOf,
};

/// Queues with their tables in `F`, `S` and `R`.
type Queues<O, A, F, S, R> = FlowQueues<
    O,
    (<F as Memory>::Of<Queue>, <S as Memory>::Of<Descriptor>, <R as Memory>::Of<FlowRecord>),
    A,
>;

/// Builds queues of packets for `scheduler`, with records for as many flows as `records` holds.
pub fn queues<O: FlowScheduler, A: Aqm, F: Memory, S: Memory, R: Memory>(
    scheduler: O,
    aqm: A,
    (flows, descriptors, records): (F, S, R),
    limits: Limits,
) -> Queues<O, A, F, S, R> {
    let (table, descriptors) = (flows.of(Queue::EMPTY), descriptors.of(Descriptor::EMPTY));
    FlowQueues::with_parts(
        scheduler,
        aqm,
        table,
        descriptors,
        records.of(FlowRecord::EMPTY),
        limits,
    )
}

/// A queue and a record for each flow, with a flow scheduler and an AQM.
#[derive(Clone, Copy, Debug)]
pub struct Queued<R, A> {
    /// Recipe of the flow scheduler.
    pub of: R,
    /// Recipe of the AQM.
    pub aqm: A,
}

impl<R: QueuesRecipe, A: AqmRecipe> Recipe for Queued<R, A> {
    type Output<F: Memory, S: Memory> = FlowQueues<
        SchedulerOf<R, F>,
        (F::Of<Queue>, S::Of<Descriptor>, F::Of<FlowRecord>),
        A::Output<F>,
        R::Policy<F>,
    >;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let (scheduler, aqm) = (self.of.of().flow_scheduler(room)?, self.aqm.aqm(room.flows)?);
        let policy = self.of.policy(&scheduler, room)?;
        let queues = queues(scheduler, aqm, (room.flows, descriptors, room.flows), limits);
        Some(queues.with_drop_policy(policy))
    }

    fn add_flows<F: Memory, S: Memory>(made: &mut Self::Output<F, S>, room: Room<F>) -> Option<()> {
        let config = Dial::of(room.setting);
        (0..room.flows.count()).try_for_each(|flow| made.configure(FlowId(flow), config).ok())
    }
}

/// One queue, for flow 0, with an AQM and a record. Rejects every other flow; drops the oldest
/// packet.
#[derive(Clone, Copy, Debug)]
pub struct OneQueue<A>(pub A);

impl<A: AqmRecipe> Recipe for OneQueue<A> {
    type Output<F: Memory, S: Memory> =
        Queues<core_::Drr<[core_::DrrFlow; 1]>, A::Output<Arrays<1>>, Arrays<1>, S, Arrays<1>>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let scheduler = core_::Drr::new([core_::DrrFlow::EMPTY], room.max_len).ok()?;
        let one = Arrays::<1>;
        Some(queues(scheduler, self.0.aqm(one)?, (one, descriptors, one), limits))
    }

    fn add_flows<F: Memory, S: Memory>(made: &mut Self::Output<F, S>, room: Room<F>) -> Option<()> {
        made.configure(FlowId(0), Dial::of(room.setting)).ok()
    }
}

/// First come, first served.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    /// End of the queue to drop from.
    pub end: DropFrom,
}

impl Recipe for Fifo {
    type Output<F: Memory, S: Memory> = core_::Fifo<S::Of<Descriptor>>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        _room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let descriptors = descriptors.of(Descriptor::EMPTY);
        Some(match self.end {
            DropFrom::Tail => core_::Fifo::tail_drop(descriptors, limits),
            DropFrom::Head => core_::Fifo::head_drop(descriptors, limits),
        })
    }
}

/// A queue of scalable and one of classic packets, coupled.
#[derive(Clone, Copy, Debug)]
pub struct DualPi2(pub DualPi2Params);

impl Recipe for DualPi2 {
    type Output<F: Memory, S: Memory> = core_::DualPi2<S::Of<Descriptor>>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        _room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        core_::DualPi2::new(descriptors.of(Descriptor::EMPTY), self.0, limits).ok()
    }
}

/// A scheduler behind a link of this rate, without catch-up.
#[derive(Clone, Copy, Debug)]
pub struct Shaped<R> {
    /// Recipe of the scheduler.
    pub of: R,
    /// Rate of the link.
    pub rate: Rate,
    /// Overhead of a packet on the link.
    pub overhead: Overhead,
}

impl<R: Recipe> Recipe for Shaped<R> {
    type Output<F: Memory, S: Memory> = shaper::Shaped<R::Output<F, S>>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let line = Shaper::new(self.rate).with_catch_up(Nanos::ZERO);
        Some(shaper::Shaped::new(
            self.of.scheduler(room, descriptors, limits)?,
            line,
            self.overhead,
        ))
    }

    fn add_flows<F: Memory, S: Memory>(made: &mut Self::Output<F, S>, room: Room<F>) -> Option<()> {
        R::add_flows(made.inner_mut(), room)
    }
}

/// A flow scheduler with flows selected by hash, all configured as in [`Room::setting`].
#[derive(Clone, Copy, Debug)]
pub struct ByHash<R, L> {
    /// Recipe of the flow scheduler.
    pub of: R,
    /// Lines of tags, one for eight flows.
    pub lines: L,
    /// Ways in a set of the table.
    pub ways: u32,
}

impl<R: QueuesRecipe, L: Memory> Recipe for ByHash<R, L> {
    type Output<F: Memory, S: Memory> = Hashed<
        FlowQueues<
            SchedulerOf<R, F>,
            (F::Of<Queue>, S::Of<Descriptor>, [FlowRecord; 0], HashDirectory<L::Of<TagLine>>),
            NoAqm,
            R::Policy<F>,
        >,
    >;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let mut scheduler = self.of.of().flow_scheduler(room)?;
        for flow in (0..room.flows.count()).map(FlowId) {
            scheduler.configure(flow, Dial::of(room.setting), None).ok()?;
        }
        let policy = self.of.policy(&scheduler, room)?;
        let lines = self.lines.of(TagLine::EMPTY);
        let table = FlowTable::new(lines, room.flows.count(), self.ways).ok()?;
        let (queues, descriptors) =
            (room.flows.of(Queue::EMPTY), descriptors.of(Descriptor::EMPTY));
        let queues = FlowQueues::with_own_victim(scheduler, queues, descriptors, limits)
            .with_drop_policy(policy);
        Some(Hashed::over(queues, table))
    }
}

/// Four schedulers under a flow scheduler that chooses among them; packets are dropped from the
/// scheduler with the most bytes. The two bits above the low `bits` of a flow's number select its
/// class.
#[derive(Clone, Copy, Debug)]
pub struct Tree<R, C> {
    /// Recipe of the flow scheduler that chooses the class.
    pub of: R,
    /// Recipe of the scheduler of each class.
    pub class: C,
    /// Number of low bits of a flow's number that identify the flow within its class.
    pub bits: u32,
}

impl<R: FlowRecipe, C: Recipe> Recipe for Tree<R, C> {
    type Output<F: Memory, S: Memory> = Classes<
        R::Output<super::Arrays<4>>,
        C::Output<F, S>,
        LowBits,
        ([C::Output<F, S>; 4], [ClassState; 4], [LongestClass; 4]),
    >;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let of_classes =
            Room { flows: super::Arrays::<4>, max_len: room.max_len, setting: room.setting };
        let scheduler = self.of.flow_scheduler(of_classes)?;
        let class = || self.class.scheduler(room, descriptors, limits);
        let classes = [class()?, class()?, class()?, class()?];
        let split = LowBits::new(self.bits).ok()?;
        let made = Classes::new(scheduler, classes, [ClassState::EMPTY; 4], split, limits);
        Some(made.dropping_from_longest([LongestClass::EMPTY; 4]))
    }

    fn add_flows<F: Memory, S: Memory>(made: &mut Self::Output<F, S>, room: Room<F>) -> Option<()> {
        (0..4).try_for_each(|class| made.configure(FlowId(class), Dial::of(room.setting)).ok())
    }
}

/// A scheduler with a meter of its fairness.
#[derive(Clone, Copy, Debug)]
pub struct Measured<R>(pub R);

impl<R: Recipe> Recipe for Measured<R> {
    type Output<F: Memory, S: Memory> = Metered<R::Output<F, S>, F::Of<WfiFlow>, S::Of<Arrival>>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let meter = WfiMeter::new(room.flows.of(WfiFlow::EMPTY));
        let inner = self.0.scheduler(room, descriptors, limits)?;
        Some(Metered::new(inner, meter, descriptors.of(Arrival::EMPTY)))
    }
}

/// Hosts that share the link, selected by labels: eight queues, four hosts with entries for four
/// tins, and at most sixteen packets.
#[derive(Clone, Copy, Debug)]
pub struct IsolatedHosts<A> {
    /// Isolation mode.
    pub by: Isolation,
    /// Recipe of the AQM in each queue.
    pub aqm: A,
}

/// Length of the longest table of [`IsolatedHosts`].
const MOST: usize = 16;

impl<A: AqmRecipe> IsolatedHosts<A> {
    /// Builds the queue, with or without tables for host rates.
    pub(super) fn made<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
        has_rates: bool,
    ) -> Option<Isolated<Parts<MOST>, A::Output<Parts<MOST>>>> {
        let packets = (descriptors.count() as usize).min(MOST);
        let memory = IsolatedMemory::<Parts<MOST>>::allocate(8, 4, 4, packets).with_triple(MOST);
        let memory = if has_rates { memory.with_rates() } else { memory };
        let mut config = IsolatedConfig::new(room.max_len, limits).isolated_by(self.by);
        config.ways = 4;
        let aqm = self.aqm.aqm(Parts(memory.queues()))?;
        Isolated::with_aqm(memory, aqm, config).ok()
    }
}

impl<A: AqmRecipe> Recipe for IsolatedHosts<A> {
    type Output<F: Memory, S: Memory> = Isolated<Parts<MOST>, A::Output<Parts<MOST>>>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        self.made(room, descriptors, limits, false)
    }
}

/// The assembled smart queue with packets by descriptor: eight queues, eight hosts, and at most
/// sixteen packets.
#[derive(Clone, Copy, Debug)]
pub struct Smart {
    /// Rate of the link.
    pub rate: Rate,
    /// AQM, set for a round-trip time of 100 µs so that it acts on few packets.
    pub aqm: AqmKind,
}

impl Recipe for Smart {
    type Output<F: Memory, S: Memory> = SmartQueue<Parts<MOST>, Descriptors>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let packets = (descriptors.count() as usize).min(MOST);
        let memory = IsolatedMemory::<Parts<MOST>>::allocate(8, 8, 1, packets);
        let aqm = memory.aqm();
        let builder = SmartQueue::upload(self.rate).aqm(self.aqm).rtt(Rtt::DATACENTRE);
        builder.max_len(room.max_len).limits(limits).descriptors_in(memory, aqm).ok()
    }
}
