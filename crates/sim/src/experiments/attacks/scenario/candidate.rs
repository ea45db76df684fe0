//! Queues compared under attack.

use freeboard::flowhash;
use freeboard::sched_core::{
    Aqm, CoDel, CoDelParams, CoDelState, Descriptor, DropPolicy, DropSink, Drr, DrrFlow,
    FloorShare, FlowId, FlowScheduler, Imbalance, Limits, Nanos, NoAqm, OwnVictim, Packet,
    Rejected, Scheduler,
};
use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory, Labelled};

use super::{Arrival, Attack, MEMORY};
use crate::discipline::{ByHash, ByNumber, QUEUES, by_hash, by_number, drr, longest, sqf};

/// Queue that serves the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Candidate {
    /// One queue, tail drop.
    Fifo,
    /// Deficit round robin over hashed flows; drops come from the longest queue.
    Drr,
    /// Deficit round robin with sparse flows first, as in FQ-CoDel.
    SparseFirst,
    /// Shortest queue first.
    Sqf,
    /// [`Isolated`] by source and flow: hosts above flows with sparse flows first; drops come from
    /// the host with the longest backlog. It is only a part of a
    /// [`SmartQueue`](freeboard::SmartQueue): all candidates have the AQM of the attack, mostly
    /// none, and no shaper.
    Isolated,
    /// `Isolated` with the ingress port of a packet as its host.
    Ports,
}

impl Candidate {
    /// All candidates, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Fifo, Self::Drr, Self::SparseFirst, Self::Sqf, Self::Isolated, Self::Ports];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "FIFO",
            Self::Drr => "DRR",
            Self::SparseFirst => "DRR++",
            Self::Sqf => "SQF",
            Self::Isolated => "Isolated",
            Self::Ports => "by port",
        }
    }

    /// Builds an empty queue for the packets of `attack`.
    pub(super) fn build(self, attack: Attack) -> Box<dyn Attacked> {
        if attack.has_codel() {
            let states = vec![CoDelState::EMPTY; (QUEUES + HOSTS) as usize];
            let params = CoDelParams::INTERNET.with_mtu(attack.max_len());
            let codel = CoDel::new(states, params).expect("the parameters of the RFC");
            self.with(codel, attack.max_len())
        } else {
            self.with(NoAqm, attack.max_len())
        }
    }

    fn with<A: Aqm + 'static>(self, aqm: A, max_len: u32) -> Box<dyn Attacked> {
        let within = "the sizes are constants and the length is one of a packet";
        let limits = Limits::bytes(MEMORY);
        // The shortest packets of an attack are one byte long, but only a few of them are between
        // two long ones.
        let packets = 1 << 16;
        let room = vec![Descriptor::EMPTY; packets];
        let drr = |flows| drr(flows, max_len).expect(within);
        let isolated = |aqm| {
            let memory =
                IsolatedMemory::<Heap>::allocate(QUEUES as usize, HOSTS as usize, 1, packets);
            Isolated::with_aqm(memory, aqm, IsolatedConfig::new(max_len, limits)).expect(within)
        };
        match self {
            Self::Fifo => Box::new(One(by_number(drr(1), OwnVictim, aqm, room, limits))),
            Self::Drr => Box::new(by_hash(drr(QUEUES), longest(QUEUES), aqm, room, limits)),
            Self::SparseFirst => {
                let drr = drr(QUEUES).sparse_first();
                Box::new(by_hash(drr, longest(QUEUES), aqm, room, limits))
            }
            Self::Sqf => {
                let sqf = sqf(QUEUES, FloorShare::NONE).expect(within);
                Box::new(by_hash(sqf, OwnVictim, aqm, room, limits))
            }
            Self::Isolated => Box::new(isolated(aqm)),
            Self::Ports => Box::new(ByPort(isolated(aqm))),
        }
    }
}

/// A queue that receives all labels of a packet and uses those it supports.
pub(super) trait Attacked {
    fn enqueue(
        &mut self,
        now: Nanos,
        of: &Arrival,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet>;

    fn is_empty(&self) -> bool;

    fn recount(&self) -> Result<(), Imbalance>;
}

/// A single queue for all packets.
struct One<A>(ByNumber<Drr<Vec<DrrFlow>>, A, OwnVictim>);

impl<A: Aqm> Attacked for One<A> {
    fn enqueue(
        &mut self,
        now: Nanos,
        _of: &Arrival,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.0.enqueue(now, FlowId(0), packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.0.dequeue(now, drops)
    }

    fn is_empty(&self) -> bool {
        self.0.backlog().packets == 0
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.0.recount()
    }
}

impl<O: FlowScheduler, A: Aqm, D: DropPolicy<O>> Attacked for ByHash<O, A, D> {
    fn enqueue(
        &mut self,
        now: Nanos,
        of: &Arrival,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_hashed(now, of.labels.flow, packet, drops).map(|_| ())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        Scheduler::dequeue(self, now, drops)
    }

    fn is_empty(&self) -> bool {
        self.backlog().packets == 0
    }

    fn recount(&self) -> Result<(), Imbalance> {
        Scheduler::recount(self)
    }
}

/// Capacity of the host table.
const HOSTS: u32 = 256;

/// Isolation with tables in vectors.
impl<A: Aqm> Attacked for Isolated<Heap, A> {
    fn enqueue(
        &mut self,
        now: Nanos,
        of: &Arrival,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_labelled(now, &of.labels, packet, drops).map(|_| ())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        Scheduler::dequeue(self, now, drops)
    }

    fn is_empty(&self) -> bool {
        self.backlog().packets == 0
    }

    fn recount(&self) -> Result<(), Imbalance> {
        Scheduler::recount(self)
    }
}

/// A packet whose host is its ingress port.
struct Port<'a>(&'a Arrival);

impl Labelled for Port<'_> {
    fn flow(&self) -> u32 {
        self.0.labels.flow
    }

    fn source(&self) -> u32 {
        flowhash::mix(self.0.port)
    }

    fn destination(&self) -> u32 {
        self.0.labels.dst_host
    }
}

/// The isolated queue by port.
struct ByPort<A>(Isolated<Heap, A>);

impl<A: Aqm> Attacked for ByPort<A> {
    fn enqueue(
        &mut self,
        now: Nanos,
        of: &Arrival,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.0.enqueue_labelled(now, &Port(of), packet, drops).map(|_| ())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        Scheduler::dequeue(&mut self.0, now, drops)
    }

    fn is_empty(&self) -> bool {
        self.0.backlog().packets == 0
    }

    fn recount(&self) -> Result<(), Imbalance> {
        Scheduler::recount(&self.0)
    }
}
