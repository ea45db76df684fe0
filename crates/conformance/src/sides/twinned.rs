//! The twin of each recipe.

use crate::catalog::{
    Age, ByHost, Ceilings, CoarseShortestQueue, CommittedRates, Drr, Fifo, FlooredShortestQueue,
    FlooredVirtualQueues, FlowRecipe, HostDrr, HostRecipe, LoadDrr, LoadTins, LongestHost,
    LongestQueue, Memory, Qfq, QfqPlus, QueuesRecipe, Recipe, Setting, ShortestQueue, Tins,
    VirtualQueues, Wf2q,
};
use crate::history::Contestant;
use crate::twin::{
    NaiveAge, NaiveCeilings, NaiveCommittedRates, NaiveDrr, NaiveFifo, NaiveFlowScheduler,
    NaiveHostDrr, NaiveLoadDrr, NaiveLongestHostDrop, NaiveLongestQueueDrop, NaiveQfq,
    NaiveQfqPlus, NaiveQueues, NaiveShortestQueue, NaiveTins, NaiveWf2q,
};
use freeboard::sched_core::{FlowId, Limits, Side};

/// How large both sides are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Flows are numbered below this.
    pub flows: u32,
    /// Handles are numbered below this.
    pub descriptors: u32,
    /// Hosts are numbered below this.
    pub hosts: u32,
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

/// A recipe of a flow scheduler that knows hosts and has a twin.
pub trait TwinnedHosts: HostRecipe {
    /// The twin.
    type Twin: NaiveFlowScheduler + Clone + Send + 'static;

    /// The twin of this size.
    fn twin(self, size: Size) -> Self::Twin;

    /// The side whose hosts it names.
    fn side(self) -> Side {
        Side::Source
    }
}

/// A recipe of a scheduler of packets that has a twin.
pub trait TwinnedPackets: Recipe {
    /// The twin.
    type Twin: Contestant + Clone + Send + 'static;

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

impl TwinnedFlows for Tins {
    type Twin = NaiveTins;

    fn twin(self, size: Size) -> NaiveTins {
        NaiveTins::new(size.flows, size.max_len, self.tins, self.floor, self.sparse_first)
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

impl<R: TwinnedFlows + FlowRecipe> TwinnedFlows for CommittedRates<R> {
    type Twin = NaiveCommittedRates<R::Twin>;

    fn twin(self, size: Size) -> Self::Twin {
        NaiveCommittedRates::new(self.0.twin(size), size.flows)
    }
}

impl<R: TwinnedFlows + FlowRecipe> TwinnedFlows for Ceilings<R> {
    type Twin = NaiveCeilings<R::Twin>;

    fn twin(self, size: Size) -> Self::Twin {
        NaiveCeilings::new(self.0.twin(size), size.flows)
    }
}

/// Every host has the weight 3.
impl<R: TwinnedFlows + FlowRecipe> TwinnedHosts for HostDrr<R> {
    type Twin = NaiveHostDrr<R::Twin>;

    fn twin(self, size: Size) -> Self::Twin {
        let mut hosts = self.of.twin(Size { flows: size.hosts, ..size });
        for host in (0..size.hosts).map(FlowId) {
            let setting = Setting { weight: 3, max_len: size.max_len };
            hosts.configure(host, setting, None).expect("a weight and a length in range");
        }
        NaiveHostDrr::new(hosts, size.hosts, size.flows, size.max_len, self.sparse_first)
    }
}

impl<W: Memory> TwinnedHosts for LoadDrr<W> {
    type Twin = NaiveLoadDrr;

    fn twin(self, size: Size) -> NaiveLoadDrr {
        let rounds = self.calendar.count();
        let hosts = [size.hosts; 2];
        NaiveLoadDrr::new(size.flows, hosts, rounds, size.max_len, self.sparse_first)
            .with_hosts_of(self.local)
    }

    fn side(self) -> Side {
        self.local
    }
}

impl<W: Memory> TwinnedHosts for LoadTins<W> {
    type Twin = NaiveLoadDrr;

    fn twin(self, size: Size) -> NaiveLoadDrr {
        let mut twin = self.of.twin(size);
        twin.set_tins(self.tins);
        for (flow, tin) in (0..size.flows).zip((0..self.tins.len()).cycle()) {
            twin.assign_tin(FlowId(flow), tin);
        }
        twin
    }

    fn side(self) -> Side {
        self.of.local
    }
}

impl<R: TwinnedHosts> TwinnedFlows for ByHost<R> {
    type Twin = R::Twin;

    fn twin(self, size: Size) -> R::Twin {
        self.0.twin(size)
    }
}

impl<R: TwinnedHosts> TwinnedFlows for LongestHost<R> {
    type Twin = NaiveLongestHostDrop<R::Twin>;

    fn twin(self, size: Size) -> Self::Twin {
        let limit = LongestHost::<R>::limits(size.hosts, size.max_len).bytes;
        let twin = NaiveLongestHostDrop::new(self.of.twin(size), limit, self.end);
        twin.with_hosts_of(self.of.side())
    }
}

impl TwinnedPackets for Fifo {
    type Twin = NaiveFifo;

    fn twin(self, size: Size, limits: Limits) -> NaiveFifo {
        NaiveFifo::new(self.end, size.descriptors, limits)
    }
}

/// `scheduler` over virtual queues.
fn virtual_queues<Q: Memory>(
    recipe: VirtualQueues<Q>,
    scheduler: NaiveShortestQueue,
    size: Size,
    limits: Limits,
) -> NaiveQueues<NaiveShortestQueue> {
    let (queues, flows) = (recipe.queues.count() - 1, size.flows);
    let twin =
        NaiveQueues::with_virtual_queues(scheduler, queues, flows, size.descriptors, flows, limits);
    if recipe.default_takes_longest { twin.default_takes_longest() } else { twin }
}

impl<Q: Memory> TwinnedPackets for VirtualQueues<Q> {
    type Twin = NaiveQueues<NaiveShortestQueue>;

    fn twin(self, size: Size, limits: Limits) -> Self::Twin {
        let scheduler = NaiveShortestQueue::new(self.queues.count(), self.end);
        virtual_queues(self, scheduler, size, limits)
    }
}

impl<Q: Memory> TwinnedPackets for FlooredVirtualQueues<Q> {
    type Twin = NaiveQueues<NaiveShortestQueue>;

    fn twin(self, size: Size, limits: Limits) -> Self::Twin {
        let scheduler = NaiveShortestQueue::new(self.of.queues.count(), self.of.end)
            .with_service_floor(1 << self.floor.exponent, self.floor.after.into())
            .flushing(self.flush);
        virtual_queues(self.of, scheduler, size, limits)
    }
}
