//! Every discipline with its reference model, at any size.

pub mod hierarchy;
mod twinned;

use crate::catalog::{
    Arrays, Drr, Fifo, Floor, FlooredShortestQueue, FlowRecipe, LongestQueue, Qfq, QfqPlus,
    QueuesRecipe, Recipe, Room, SchedulerOf, ShortestQueue, Wf2q, queues,
};
use crate::history::ConfigurableScheduler;
use crate::twin::{Exercised, NaiveFifo, NaiveQfq, NaiveQueues};
use freeboard::sched_core::{
    self, Descriptor, DropFrom, DrrFlow, FlowQueues, FlowRecord, FlowScheduler, Limits,
    LongestFlow, LongestQueueDrop, Nanos, NoAqm, OwnVictim, Queue,
};

pub use twinned::{Size, TwinnedFlows, TwinnedPackets};

/// Number of flows.
pub const FLOWS: usize = crate::history::FLOWS as usize;
/// Number of handles.
pub const DESCRIPTORS: usize = crate::history::DESCRIPTORS as usize;

/// Longest packet, for disciplines that have a maximum.
pub const MAX_LEN: u32 = 1_500;
/// Bytes sent before the floor serves a flow: few, so that short sequences reach it.
const AFTER: u32 = 200;
/// Time without service after which a flow may be flushed.
pub const MILLISECOND: Nanos = Nanos::from_millis(1);

/// Queues in arrays, with a record for each flow.
pub type Engine<O, const F: usize, const S: usize, D = OwnVictim> =
    FlowQueues<O, ([Queue; F], [Descriptor; S], [FlowRecord; F]), NoAqm, D>;

/// Creates `F` queues and `S` descriptors for `scheduler`, with a record for each flow.
pub fn engine<O: FlowScheduler, const F: usize, const S: usize>(
    scheduler: O,
    limits: Limits,
) -> Engine<O, F, S> {
    queues(scheduler, NoAqm, (Arrays::<F>, Arrays::<S>, Arrays::<F>), limits)
}

/// Creates a longest-queue drop policy for `F` flows that drops at `end`.
#[must_use]
pub fn longest<const F: usize>(end: DropFrom) -> LongestQueueDrop<[LongestFlow; F]> {
    LongestQueueDrop::new([LongestFlow::EMPTY; F]).drop_from(end)
}

/// Returns a room in arrays.
const fn room<const F: usize>(max_len: u32) -> Room<Arrays<F>> {
    Room::of_flows(Arrays, max_len)
}

/// The flow scheduler of a recipe, in arrays.
pub type Output<R, const F: usize> = SchedulerOf<R, Arrays<F>>;
/// The drop policy of a recipe, in arrays.
pub type Policy<R, const F: usize> = <R as QueuesRecipe>::Policy<Arrays<F>>;

/// The queues of packets of a recipe, in arrays.
pub type EngineOf<R, const F: usize, const S: usize> = Engine<Output<R, F>, F, S, Policy<R, F>>;

/// Builds `recipe` with `F` queues of packets, and its reference model.
///
/// # Panics
/// If the recipe does not support these sizes.
pub fn flows<const F: usize, const S: usize, R: TwinnedFlows>(
    recipe: R,
    max_len: u32,
    limits: Limits,
) -> (EngineOf<R, F, S>, NaiveQueues<R::Twin>) {
    let room = room::<F>(max_len);
    let scheduler = recipe.of().flow_scheduler(room).expect("sizes in range");
    let policy = recipe.policy(&scheduler, room).expect("sizes in range");
    let size = Size { flows: F as u32, descriptors: S as u32, max_len };
    let naive = NaiveQueues::new(recipe.twin(size), F as u32, S as u32, F as u32, limits);
    (engine(scheduler, limits).with_drop_policy(policy), naive)
}

/// The scheduler of a recipe, in arrays.
pub type OutputOf<R, const F: usize, const S: usize> = <R as Recipe>::Output<Arrays<F>, Arrays<S>>;

/// Builds `recipe` and its reference model.
///
/// # Panics
/// If the recipe does not support these sizes.
pub fn packets<const F: usize, const S: usize, R: TwinnedPackets>(
    recipe: R,
    max_len: u32,
    limits: Limits,
) -> (OutputOf<R, F, S>, R::Twin) {
    let size = Size { flows: F as u32, descriptors: S as u32, max_len };
    (composition(recipe, max_len, limits), recipe.twin(size, limits))
}

/// Builds `recipe` without a reference model.
///
/// # Panics
/// If the recipe does not support these sizes.
pub fn composition<const F: usize, const S: usize, R: Recipe>(
    recipe: R,
    max_len: u32,
    limits: Limits,
) -> OutputOf<R, F, S> {
    let made = recipe.scheduler(room::<F>(max_len), Arrays::<S>, limits);
    made.expect("sizes in range")
}

/// Builds a FIFO and its reference model.
pub fn fifo<const S: usize>(
    end: DropFrom,
    limits: Limits,
) -> (sched_core::Fifo<[Descriptor; S]>, NaiveFifo) {
    packets::<1, S, _>(Fifo { end }, MAX_LEN, limits)
}

/// A scheduler that can be compared and restored to an earlier state.
pub trait Side: ConfigurableScheduler + Clone + Send + 'static {}

impl<S: ConfigurableScheduler + Clone + Send + 'static> Side for S {}

/// Creates a DRR flow scheduler without flows.
///
/// # Panics
/// If `max_len` is out of range.
pub fn drr_scheduler<const F: usize>(
    max_len: u32,
    sparse_first: bool,
) -> sched_core::Drr<[DrrFlow; F]> {
    Drr { sparse_first }.flow_scheduler(room::<F>(max_len)).expect("a length in range")
}

/// Builds DRR and its reference model.
pub fn drr<const F: usize, const S: usize>(
    max_len: u32,
    sparse_first: bool,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, _>(Drr { sparse_first }, max_len, limits)
}

/// Builds DRR with longest-queue drop at `end`, and its reference model.
pub fn drr_lqd<const F: usize, const S: usize>(
    max_len: u32,
    sparse_first: bool,
    end: DropFrom,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, _>(LongestQueue { of: Drr { sparse_first }, end }, max_len, limits)
}

/// Builds SQF, which drops from the longest queue at `end`, and its reference model.
pub fn sqf<const F: usize, const S: usize>(
    end: DropFrom,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, _>(ShortestQueue { end }, MAX_LEN, limits)
}

/// Builds SQF with a service floor of one in `2^exponent` bytes, and its reference model.
pub fn sqf_with_floor<const F: usize, const S: usize>(
    end: DropFrom,
    exponent: u32,
    limits: Limits,
) -> (impl Side, impl Side) {
    let floor = Some(Floor { exponent, after: AFTER });
    flows::<F, S, _>(FlooredShortestQueue { end, floor, flush: None }, MAX_LEN, limits)
}

/// Builds SQF that flushes a drop victim not served for `after`, and its reference model.
pub fn sqf_flushing<const F: usize, const S: usize>(
    end: DropFrom,
    after: Nanos,
    limits: Limits,
) -> (impl Side, impl Side) {
    let recipe = FlooredShortestQueue { end, floor: None, flush: Some(after) };
    flows::<F, S, _>(recipe, MAX_LEN, limits)
}

/// Builds SQF with a service floor of one in `2^exponent` bytes and with flushes, and its reference
/// model.
pub fn sqf_repaired<const F: usize, const S: usize>(
    end: DropFrom,
    exponent: u32,
    flush: Nanos,
    limits: Limits,
) -> (impl Side, impl Side) {
    let floor = Some(Floor { exponent, after: AFTER });
    flows::<F, S, _>(FlooredShortestQueue { end, floor, flush: Some(flush) }, MAX_LEN, limits)
}

/// Builds QFQ and its reference model.
pub fn qfq<const F: usize, const S: usize>(max_len: u32, limits: Limits) -> (impl Side, impl Side) {
    flows::<F, S, _>(Qfq, max_len, limits)
}

/// Builds QFQ with longest-queue drop at `end`, and its reference model.
pub fn qfq_lqd<const F: usize, const S: usize>(
    max_len: u32,
    end: DropFrom,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, _>(LongestQueue { of: Qfq, end }, max_len, limits)
}

/// Builds WF²Q+ and its reference model.
pub fn wf2q<const F: usize, const S: usize>(
    max_len: u32,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, _>(Wf2q, max_len, limits)
}

/// Builds WF²Q+ with longest-queue drop at `end`, and its reference model.
pub fn wf2q_lqd<const F: usize, const S: usize>(
    max_len: u32,
    end: DropFrom,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, _>(LongestQueue { of: Wf2q, end }, max_len, limits)
}

/// Builds QFQ and a reference model that counts the cases it went through.
pub fn qfq_counting<const F: usize, const S: usize>(
    max_len: u32,
    limits: Limits,
    exercised: &Exercised,
) -> (impl Side + use<F, S>, NaiveQueues<NaiveQfq>) {
    let naive = NaiveQfq::new(F as u32, max_len).counting(exercised);
    let naive = NaiveQueues::new(naive, F as u32, S as u32, F as u32, limits);
    (flows::<F, S, _>(Qfq, max_len, limits).0, naive)
}

/// Builds QFQ+ with up to `members` flows per aggregate, and its reference model.
pub fn qfq_plus<const F: usize, const S: usize>(
    max_len: u32,
    members: u32,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, _>(QfqPlus { members }, max_len, limits)
}

/// Builds QFQ+ with longest-queue drop at `end`, and its reference model.
pub fn qfq_plus_lqd<const F: usize, const S: usize>(
    max_len: u32,
    members: u32,
    end: DropFrom,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, _>(LongestQueue { of: QfqPlus { members }, end }, max_len, limits)
}
