//! Recipes for flow schedulers and drop policies.

use freeboard::sched_core as core_;
use freeboard::sched_core::{
    AgeFlow, AgeParams, Aggregate, DropFrom, DrrFlow, FloorShare, LengthClass, LengthFlow,
    LongestFlow, LongestQueueDrop, Nanos, PlusFlow, QfqFlow, WaitingFlow, Wf2qFlow,
};

use super::{FlowRecipe, Memory, QueuesRecipe, Room};

/// Deficit round robin.
#[derive(Clone, Copy, Debug)]
pub struct Drr {
    /// Serves flows that have just become backlogged first.
    pub sparse_first: bool,
}

impl FlowRecipe for Drr {
    type Output<F: Memory> = core_::Drr<F::Of<DrrFlow>>;

    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>> {
        let made = core_::Drr::new(room.flows.of(DrrFlow::EMPTY), room.max_len).ok()?;
        Some(if self.sparse_first { made.sparse_first() } else { made })
    }
}

/// Priority levels by attained service.
#[derive(Clone, Copy, Debug)]
pub struct Age(pub AgeParams);

impl FlowRecipe for Age {
    type Output<F: Memory> = core_::AgeDrr<F::Of<AgeFlow>>;

    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>> {
        core_::AgeDrr::new(room.flows.of(AgeFlow::EMPTY), room.max_len, self.0).ok()
    }
}

/// Shortest queue first; drops from the longest queue.
#[derive(Clone, Copy, Debug)]
pub struct ShortestQueue {
    /// End of the longest queue to drop from.
    pub end: DropFrom,
}

impl FlowRecipe for ShortestQueue {
    type Output<F: Memory> = core_::ShortestQueue<F::Of<LengthFlow>>;

    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>> {
        Some(core_::ShortestQueue::new(room.flows.of(LengthFlow::EMPTY)).drop_from(self.end))
    }
}

/// [`ShortestQueue`] with eight length classes per power of two.
#[derive(Clone, Copy, Debug)]
pub struct CoarseShortestQueue {
    /// End of the longest queue to drop from.
    pub end: DropFrom,
}

/// Classes that distinguish lengths to 1/8.
type Eighths = [LengthClass<3>; LengthClass::<3>::COUNT];

impl FlowRecipe for CoarseShortestQueue {
    type Output<F: Memory> = core_::ShortestQueue<F::Of<LengthFlow>, [WaitingFlow; 0], Eighths, 3>;

    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>> {
        let classes: Eighths = [LengthClass::EMPTY; LengthClass::<3>::COUNT];
        let flows = room.flows.of(LengthFlow::EMPTY);
        Some(core_::ShortestQueue::with_classes(flows, classes).ok()?.drop_from(self.end))
    }
}

/// A service floor: one of `2^exponent` bytes goes to the flow that has waited longest.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// Exponent of the share, at least 1.
    pub exponent: u32,
    /// Bytes sent before the floor serves a flow.
    pub after: u32,
}

impl Floor {
    /// Returns the share of a floor, or of none; `None` if the exponent is out of range.
    pub(super) fn share(floor: Option<Self>) -> Option<FloorShare> {
        match floor {
            Some(floor) => Some(FloorShare::one_of_2_to(floor.exponent).ok()?.after(floor.after)),
            None => Some(FloorShare::NONE),
        }
    }
}

/// [`ShortestQueue`] with a service floor, flushes, or both.
#[derive(Clone, Copy, Debug)]
pub struct FlooredShortestQueue {
    /// End of the longest queue to drop from.
    pub end: DropFrom,
    /// Service floor.
    pub floor: Option<Floor>,
    /// Time without service after which a drop victim loses its whole queue.
    pub flush: Option<Nanos>,
}

impl FlowRecipe for FlooredShortestQueue {
    type Output<F: Memory> = core_::ShortestQueue<F::Of<LengthFlow>, F::Of<WaitingFlow>>;

    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>> {
        let plain = ShortestQueue { end: self.end }.flow_scheduler(room)?;
        let share = Floor::share(self.floor)?;
        let made = plain.service_floor(share, room.flows.of(WaitingFlow::EMPTY)).ok()?;
        match self.flush {
            Some(after) => made.flush_unserved(after).ok(),
            None => Some(made),
        }
    }
}

/// Quick fair queueing.
#[derive(Clone, Copy, Debug)]
pub struct Qfq;

impl FlowRecipe for Qfq {
    type Output<F: Memory> = core_::Qfq<F::Of<QfqFlow>>;

    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>> {
        core_::Qfq::new(room.flows.of(QfqFlow::EMPTY), room.max_len).ok()
    }
}

/// QFQ+ with up to `members` flows per aggregate.
#[derive(Clone, Copy, Debug)]
pub struct QfqPlus {
    /// Maximum number of flows in an aggregate.
    pub members: u32,
}

impl FlowRecipe for QfqPlus {
    type Output<F: Memory> = core_::QfqPlus<F::Of<PlusFlow>, F::Of<Aggregate>, F::Of<QfqFlow>>;

    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>> {
        let (flows, aggregates) = (room.flows.of(PlusFlow::EMPTY), room.flows.of(Aggregate::EMPTY));
        let nodes = room.flows.of(QfqFlow::EMPTY);
        core_::QfqPlus::new(flows, aggregates, nodes, room.max_len, self.members).ok()
    }
}

/// WF²Q+.
#[derive(Clone, Copy, Debug)]
pub struct Wf2q;

impl FlowRecipe for Wf2q {
    type Output<F: Memory> = core_::Wf2q<F::Of<Wf2qFlow>>;

    fn flow_scheduler<F: Memory>(self, room: Room<F>) -> Option<Self::Output<F>> {
        core_::Wf2q::new(room.flows.of(Wf2qFlow::EMPTY), room.max_len).ok()
    }
}

/// A flow scheduler with drops from the longest queue.
#[derive(Clone, Copy, Debug)]
pub struct LongestQueue<R> {
    /// Recipe of the flow scheduler.
    pub of: R,
    /// End of the longest queue to drop from.
    pub end: DropFrom,
}

impl<R: FlowRecipe> QueuesRecipe for LongestQueue<R> {
    type Of = R;
    type Policy<F: Memory> = LongestQueueDrop<F::Of<LongestFlow>>;

    fn of(self) -> R {
        self.of
    }

    fn policy<F: Memory>(self, _made: &R::Output<F>, room: Room<F>) -> Option<Self::Policy<F>> {
        Some(LongestQueueDrop::new(room.flows.of(LongestFlow::EMPTY)).drop_from(self.end))
    }
}
