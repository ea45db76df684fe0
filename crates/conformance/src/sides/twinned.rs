//! The reference model of each recipe.

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

/// Size of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of flows.
    pub flows: u32,
    /// Number of handles.
    pub descriptors: u32,
    /// Longest packet in bytes.
    pub max_len: u32,
}

/// A recipe for a flow scheduler with drop policy that has a reference model.
pub trait TwinnedFlows: QueuesRecipe {
    /// The reference model.
    type Twin: NaiveFlowScheduler + Clone + Send + 'static;

    /// Creates the reference model in this size.
    fn twin(self, size: Size) -> Self::Twin;
}

/// A recipe for a packet scheduler that has a reference model.
pub trait TwinnedPackets: Recipe {
    /// The reference model.
    type Twin: ConfigurableScheduler + Clone + Send + 'static;

    /// Creates the reference model in this size.
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
