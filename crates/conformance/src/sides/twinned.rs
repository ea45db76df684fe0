//! The twin of each recipe.

use crate::catalog::{
    Age, CoarseShortestQueue, Drr, Fifo, FlooredShortestQueue, FlowRecipe, LongestQueue, Qfq,
    QfqPlus, QueuesRecipe, Recipe, ShortestQueue, Wf2q,
};
use crate::history::ConfigurableScheduler;
use crate::twin::{
    NaiveAge, NaiveDrr, NaiveFifo, NaiveFlowScheduler, NaiveLongestQueueDrop, NaiveQfq,
    NaiveQfqPlus, NaiveShortestQueue, NaiveWf2q,
};
use freeboard::sched_core::Limits;

/// How large both sides are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Flows are numbered below this.
    pub flows: u32,
    /// Handles are numbered below this.
    pub descriptors: u32,
    /// The longest packet, in bytes.
    pub max_len: u32,
}

/// A recipe of a flow scheduler, with the drop policy beside it, that has a twin.
pub trait TwinnedFlows: QueuesRecipe {
    /// The twin.
    type Twin: NaiveFlowScheduler + Clone + Send + 'static;

    /// The twin of this size.
    fn twin(self, size: Size) -> Self::Twin;
}

/// A recipe of a scheduler of packets that has a twin.
pub trait TwinnedPackets: Recipe {
    /// The twin.
    type Twin: ConfigurableScheduler + Clone + Send + 'static;

    /// The twin of this size.
    fn twin(self, size: Size, limits: Limits) -> Self::Twin;
}

impl TwinnedFlows for Drr {
    type Twin = NaiveDrr;

    fn twin(self, size: Size) -> NaiveDrr {
        NaiveDrr::new(size.flows, size.max_len, self.sparse_first)
    }
}

impl TwinnedFlows for Age {
    type Twin = NaiveAge;

    fn twin(self, size: Size) -> NaiveAge {
        NaiveAge::new(size.flows, size.max_len, self.0)
    }
}

impl TwinnedFlows for ShortestQueue {
    type Twin = NaiveShortestQueue;

    fn twin(self, size: Size) -> NaiveShortestQueue {
        NaiveShortestQueue::new(size.flows, self.end)
    }
}

impl TwinnedFlows for CoarseShortestQueue {
    type Twin = NaiveShortestQueue;

    fn twin(self, size: Size) -> NaiveShortestQueue {
        NaiveShortestQueue::new(size.flows, self.end).with_classes(8)
    }
}

impl TwinnedFlows for FlooredShortestQueue {
    type Twin = NaiveShortestQueue;

    fn twin(self, size: Size) -> NaiveShortestQueue {
        let mut twin = NaiveShortestQueue::new(size.flows, self.end);
        if let Some(floor) = self.floor {
            twin = twin.with_service_floor(1 << floor.exponent, floor.after.into());
        }
        match self.flush {
            Some(after) => twin.flushing(after),
            None => twin,
        }
    }
}

impl TwinnedFlows for Qfq {
    type Twin = NaiveQfq;

    fn twin(self, size: Size) -> NaiveQfq {
        NaiveQfq::new(size.flows, size.max_len)
    }
}

impl TwinnedFlows for QfqPlus {
    type Twin = NaiveQfqPlus;

    fn twin(self, size: Size) -> NaiveQfqPlus {
        NaiveQfqPlus::new(size.flows, size.max_len, self.members)
    }
}

impl TwinnedFlows for Wf2q {
    type Twin = NaiveWf2q;

    fn twin(self, size: Size) -> NaiveWf2q {
        NaiveWf2q::new(size.flows, size.max_len)
    }
}

impl<R: TwinnedFlows + FlowRecipe> TwinnedFlows for LongestQueue<R> {
    type Twin = NaiveLongestQueueDrop<R::Twin>;

    fn twin(self, size: Size) -> Self::Twin {
        NaiveLongestQueueDrop::new(self.of.twin(size), self.end)
    }
}

impl TwinnedPackets for Fifo {
    type Twin = NaiveFifo;

    fn twin(self, size: Size, limits: Limits) -> NaiveFifo {
        NaiveFifo::new(self.end, size.descriptors, limits)
    }
}
