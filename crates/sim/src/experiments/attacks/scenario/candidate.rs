//! What stands side by side under attack.

use freeboard::flowhash::{self, TagLine};
use freeboard::sched_core::{
    Aqm, CoDel, CoDelParams, CoDelState, Descriptor, DropPolicy, DropSink, Drr, DrrFlow, FlowId,
    FlowQueues, FlowRecord, FlowScheduler, Imbalance, LengthFlow, Limits, LongestFlow,
    LongestQueueDrop, Nanos, NoAqm, OwnVictim, Packet, Queue, Rejected, Scheduler, ShortestQueue,
};
use freeboard::{HashDirectory, Hashed, Heap, Isolated, IsolatedConfig, IsolatedMemory, Labelled};

use super::{Arrival, Attack, MEMORY};
use crate::discipline::QUEUES;

/// The queue that serves the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Candidate {
    /// One queue, tail drop.
    Fifo,
    /// Deficit round robin over hashed flows, the longest gives way.
    Drr,
    /// The same with sparse flows first, as FQ-CoDel serves.
    SparseFirst,
    /// The shortest queue first.
    Sqf,
    /// [`Isolated`] by source and flow: hosts above flows with sparse flows first, the longest host gives
    /// way. A part of a [`SmartQueue`](freeboard::SmartQueue), and not the whole: all candidates have the AQM of the attack,
    /// mostly none, and no line.
    Isolated,
    /// The same with the port that a packet comes in by for its host.
    Ports,
}

impl Candidate {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Fifo, Self::Drr, Self::SparseFirst, Self::Sqf, Self::Isolated, Self::Ports];

    /// The name in tables.
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

    /// Empty, for the packets of `attack`.
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
        // The shortest packets of an attack are bytes; between two long ones a few at a time.
        let descriptors = 1 << 16;
        let flows = QUEUES as usize;
        let drr = |flows| {
            let mut drr = Drr::new(vec![DrrFlow::EMPTY; flows], max_len).expect(within);
            drr.add_all(max_len).expect(within);
            drr
        };
        let longest = || LongestQueueDrop::new(vec![LongestFlow::EMPTY; flows]);
        let isolated = |aqm| {
            let memory = IsolatedMemory::<Heap>::allocate(flows, HOSTS as usize, 1, descriptors);
            Isolated::with_aqm(memory, aqm, IsolatedConfig::new(max_len, limits)).expect(within)
        };
        match self {
            Self::Fifo => {
                let (queue, descriptors) =
                    (vec![Queue::EMPTY; 1], vec![Descriptor::EMPTY; descriptors]);
                Box::new(One(FlowQueues::with_parts(drr(1), aqm, queue, descriptors, [], limits)))
            }
            Self::Drr => Box::new(hashed(drr(flows), longest(), aqm, descriptors, limits)),
            Self::SparseFirst => {
                Box::new(hashed(drr(flows).sparse_first(), longest(), aqm, descriptors, limits))
            }
            Self::Sqf => {
                let mut sqf = ShortestQueue::new(vec![LengthFlow::EMPTY; flows]);
                for flow in 0..QUEUES {
                    sqf.configure(FlowId(flow), (), None).expect(within);
                }
                Box::new(hashed(sqf, OwnVictim, aqm, descriptors, limits))
            }
            Self::Isolated => Box::new(isolated(aqm)),
            Self::Ports => Box::new(ByPort(isolated(aqm))),
        }
    }
}

type Tables = (Vec<Queue>, Vec<Descriptor>, [FlowRecord; 0], HashDirectory<Vec<TagLine>>);
type ByHash<O, A, D> = Hashed<FlowQueues<O, Tables, A, D>>;

fn hashed<O: FlowScheduler, A: Aqm, D: DropPolicy<O>>(
    scheduler: O,
    policy: D,
    aqm: A,
    descriptors: usize,
    limits: Limits,
) -> ByHash<O, A, D> {
    let lines = vec![TagLine::EMPTY; QUEUES.div_ceil(8) as usize];
    let table = flowhash::FlowTable::new(lines, QUEUES, flowhash::DEFAULT_WAYS)
        .expect("a power of two, and eight queues a line");
    let (queues, descriptors) =
        (vec![Queue::EMPTY; QUEUES as usize], vec![Descriptor::EMPTY; descriptors]);
    let queues = FlowQueues::with_parts(scheduler, aqm, queues, descriptors, [], limits);
    Hashed::over(queues.with_drop_policy(policy), table)
}

/// A queue that is told the labels of a packet and takes those it knows.
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

/// Everything in one queue.
type OneTables = (Vec<Queue>, Vec<Descriptor>, [FlowRecord; 0]);
struct One<A>(FlowQueues<Drr<Vec<DrrFlow>>, OneTables, A>);

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

/// Hosts that can be told apart.
const HOSTS: u32 = 256;

/// Tables in vectors.
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

/// A packet whose host is the port that it comes in by.
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
