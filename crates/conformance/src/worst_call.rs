//! What one call costs at most, in turns of loops, and a search for the call that costs most.
//!
//! Every loop that a packet can cause counts its turns; what stands outside loops is a constant. A call is
//! charged for each packet that it moves: the one that it is about (twice, if it is rejected), and those it
//! drops. So the bound of a discipline is one number for a given number of flows: steps for one packet moved.
//! [`climb`] changes random histories step by step, keeping what costs more.

use freeboard::sched_core::{
    Aggregate, Ceiling, CeilingFlow, CeilingReturn, Ceilings, ClassState, Classes, CoDel,
    CoDelParams, CoDelState, CommittedFlow, CommittedRate, CommittedRates, CommittedReturn,
    Descriptor, Drr, DrrFlow, Fifo, FloorShare, FlowId, FlowQueues, FlowScheduler, HeldFlow,
    HostClasses, HostDrr, HostDrrFlow, HostRing, Limits, LoadDrr, LoadDrrFlow, LoadDrrHost,
    LongestFlow, LongestHost, LongestHostDrop, LongestQueueDrop, LowBits, Nanos, Packet, PlusFlow,
    Qfq, QfqConfig, QfqFlow, QfqPlus, Queue, RoundList, Scheduler, ShortestFlow, ShortestQueue,
    Sides, WaitingFlow, Wf2q, Wf2qConfig, Wf2qFlow,
};
use sched_core::take_steps;

use crate::rng::{Stream, Streams};

/// The longest packet of a history, in bytes.
const MAX_LEN: u32 = 1_514;
/// Handles of a history.
const PACKETS: u32 = 256;
/// Calls of a history.
const CALLS: usize = 600;
/// Changes in vain after which the search starts anew.
const PATIENCE: u32 = 300;
/// Flows of a host.
const FLOWS_PER_HOST: u32 = 4;

/// A discipline with a bound.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// An empty one for a number of flows, a power of two from 16 on.
    build: fn(u32) -> Box<dyn Scheduler>,
    /// Steps for a packet moved: a constant, and a number for each doubling of the flows.
    constant: u64,
    per_doubling: u64,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::new("FIFO, head drop", 3, 0, fifo),
        Self::new("DRR", 2, 0, |n| plain(drr(n), n)),
        Self::new("DRR, CoDel", 2, 0, codel),
        Self::new("DRR, longest-queue drop", 2, 1, longest_queue_drop),
        Self::new("SQF", 2, 2, |n| added(shortest(n), (), n)),
        Self::new("SQF with a floor", 3, 3, floored),
        Self::new("QFQ", 2, 0, qfq),
        Self::new("QFQ+", 2, 0, qfq_plus),
        // An AVL tree is at most 1.45 as high as a perfect one; insertion, removal and search walk it twice each.
        Self::new("WF2Q+", 12, 9, wf2q),
        Self::new("hosts, the longest gives way", 4, 2, hosts),
        Self::new("rounds of triple isolation", 2, 0, rounds),
        Self::new("DRR with committed rates", 6, 6, committed),
        Self::new("DRR with ceilings", 4, 4, ceilings),
        Self::new("classes, the longest gives way", 5, 2, classes),
    ];

    const fn new(
        name: &'static str,
        constant: u64,
        per_doubling: u64,
        build: fn(u32) -> Box<dyn Scheduler>,
    ) -> Self {
        Self { name, build, constant, per_doubling }
    }

    /// Steps for each packet that a call moves, with `flows` flows.
    #[must_use]
    pub const fn bound(&self, flows: u32) -> u64 {
        self.constant + self.per_doubling * flows.ilog2() as u64
    }
}

/// A call of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Of a packet with a free handle, if there is one.
    Enqueue {
        /// To this flow, modulo the flows.
        flow: u32,
        /// In bytes.
        len: u32,
    },
    /// Of the next packet.
    Dequeue,
    /// None: time goes on by this number of nanoseconds.
    Wait(u64),
}

/// The call of a history that cost most for each packet it moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// Steps for each packet moved, rounded up.
    pub per_packet: u64,
    /// Steps of that call.
    pub steps: u64,
    /// Packets that it moved: one, two if it was rejected, and those it dropped.
    pub moved: u64,
    /// Where it stands in the history.
    pub at: usize,
}

/// The worst that a search has found.
#[derive(Clone, Debug)]
pub struct Climb {
    /// What the worst call of the worst history cost.
    pub worst: Worst,
    /// That history.
    pub history: Vec<Call>,
    /// Histories played.
    pub played: u64,
}

/// Plays `history` on an empty `subject` for `flows` flows.
#[must_use]
pub fn play(subject: &Subject, flows: u32, history: &[Call]) -> Worst {
    let mut queue = (subject.build)(flows);
    let mut free: Vec<u32> = (0..PACKETS).collect();
    let (mut now, mut worst) = (Nanos::ZERO, Worst::default());
    for (at, &call) in history.iter().enumerate() {
        let mut moved = 1;
        let mut home = Vec::new();
        let mut drops = |packet: Packet, _| home.push(packet.handle);
        let _before = take_steps();
        match call {
            Call::Wait(nanos) => now = now.plus(Nanos(nanos)),
            Call::Dequeue => {
                let packet = queue.dequeue(now, &mut drops);
                moved += home.len() as u64;
                home.extend(packet.map(|packet| packet.handle));
            }
            Call::Enqueue { flow, len } => {
                let Some(handle) = free.pop() else { continue };
                let packet = Packet::new(handle, len);
                let outcome = queue.enqueue(now, FlowId(flow % flows), packet, &mut drops);
                // One that is its own victim has been in the queue, and out again.
                moved += home.len() as u64 + u64::from(outcome.is_err());
                home.extend(outcome.err().map(|rejected| rejected.packet.handle));
            }
        }
        let steps = take_steps();
        free.append(&mut home);
        let per_packet = steps.div_ceil(moved);
        if per_packet > worst.per_packet {
            worst = Worst { per_packet, steps, moved, at };
        }
    }
    worst
}

/// Changes random histories step by step to make a call of `subject` cost more, for as long as `go_on` says.
pub fn climb(subject: &Subject, flows: u32, seed: u64, mut go_on: impl FnMut() -> bool) -> Climb {
    let mut random = Streams::new(seed).stream(subject.name);
    let mut best = Climb { worst: Worst::default(), history: Vec::new(), played: 0 };
    let mut played = 0;
    while go_on() {
        let mut history: Vec<Call> = (0..CALLS).map(|_| draw(&mut random)).collect();
        let mut worst = play(subject, flows, &history);
        played += 1;
        let mut in_vain = 0;
        while in_vain < PATIENCE && go_on() {
            let mut next = history.clone();
            for _ in 0..=random.below(8) {
                let at = random.below(CALLS as u64) as usize;
                next[at] = draw(&mut random);
                // What comes later may come earlier.
                next.swap(at, random.below(CALLS as u64) as usize);
            }
            let found = play(subject, flows, &next);
            played += 1;
            in_vain = if found.per_packet > worst.per_packet { 0 } else { in_vain + 1 };
            if found.per_packet >= worst.per_packet {
                (history, worst) = (next, found);
            }
        }
        if worst.per_packet > best.worst.per_packet {
            best = Climb { worst, history, played };
        }
    }
    Climb { played, ..best }
}

/// A random call: more arrivals than departures, flows that are near and far, lengths of all sizes.
fn draw(random: &mut Stream) -> Call {
    match random.below(16) {
        0 => Call::Wait([1, 1_000, 100_000, 10_000_000, 1_000_000_000][random.below(5) as usize]),
        1..=6 => Call::Dequeue,
        _ => {
            let far = random.below(13);
            let flow = random.below(1 << far) as u32;
            let len = [1, 40, 64, 576, 1_500, MAX_LEN][random.below(6) as usize];
            Call::Enqueue { flow, len }
        }
    }
}

fn queues(flows: u32) -> Vec<Queue> {
    vec![Queue::EMPTY; flows as usize]
}

fn slots() -> Vec<Descriptor> {
    vec![Descriptor::EMPTY; PACKETS as usize]
}

/// Full soon: an arrival may cost many packets then.
const LIMITS: Limits = Limits { packets: 64, bytes: 24 * MAX_LEN };

fn plain<O: FlowScheduler + 'static>(order: O, flows: u32) -> Box<dyn Scheduler> {
    Box::new(FlowQueues::new(order, queues(flows), slots(), LIMITS))
}

fn added<O: FlowScheduler + 'static>(
    mut order: O,
    config: O::Config,
    flows: u32,
) -> Box<dyn Scheduler> {
    for flow in (0..flows).map(FlowId) {
        order.configure(flow, config, None).expect("it is in range");
    }
    plain(order, flows)
}

fn drr(flows: u32) -> Drr<Vec<DrrFlow>> {
    let order = Drr::new(vec![DrrFlow::EMPTY; flows as usize], MAX_LEN).expect("a length");
    let mut order = order.sparse_first();
    order.add_all(MAX_LEN).expect("a quantum");
    order
}

fn fifo(_flows: u32) -> Box<dyn Scheduler> {
    Box::new(Fifo::head_drop(slots(), LIMITS))
}

fn codel(flows: u32) -> Box<dyn Scheduler> {
    let aqm = CoDel::new(vec![CoDelState::EMPTY; flows as usize], CoDelParams::INTERNET);
    let aqm = aqm.expect("in range");
    Box::new(FlowQueues::with_parts(drr(flows), aqm, queues(flows), slots(), [], LIMITS))
}

fn longest_queue_drop(flows: u32) -> Box<dyn Scheduler> {
    plain(LongestQueueDrop::new(drr(flows), vec![LongestFlow::EMPTY; flows as usize]), flows)
}

fn shortest(flows: u32) -> ShortestQueue<Vec<ShortestFlow>> {
    ShortestQueue::new(vec![ShortestFlow::EMPTY; flows as usize])
}

fn floored(flows: u32) -> Box<dyn Scheduler> {
    let waiting = vec![WaitingFlow::EMPTY; flows as usize];
    let order = shortest(flows).service_floor(FloorShare::EIGHTH, waiting).expect("a floor");
    added(order.flush_unserved(Nanos::from_millis(1)).expect("a time"), (), flows)
}

/// Weights of all sizes, by flow.
fn weight(flow: u32) -> u32 {
    1 << (flow % 13)
}

fn qfq(flows: u32) -> Box<dyn Scheduler> {
    let mut order = Qfq::new(vec![QfqFlow::EMPTY; flows as usize], MAX_LEN).expect("a length");
    for flow in 0..flows {
        let config = QfqConfig { weight: weight(flow), max_len: MAX_LEN };
        order.configure(FlowId(flow), config, None).expect("in range");
    }
    plain(order, flows)
}

fn qfq_plus(flows: u32) -> Box<dyn Scheduler> {
    let room = flows as usize;
    let (members, aggregates) = (vec![PlusFlow::EMPTY; room], vec![Aggregate::EMPTY; room]);
    let order = QfqPlus::new(members, aggregates, vec![QfqFlow::EMPTY; room], MAX_LEN, 8);
    let mut order = order.expect("a length");
    for flow in 0..flows {
        let config = QfqConfig { weight: weight(flow), max_len: MAX_LEN };
        order.configure(FlowId(flow), config, None).expect("in range");
    }
    plain(order, flows)
}

fn wf2q(flows: u32) -> Box<dyn Scheduler> {
    let mut order = Wf2q::new(vec![Wf2qFlow::EMPTY; flows as usize], MAX_LEN).expect("a length");
    for flow in 0..flows {
        let config = Wf2qConfig { weight: weight(flow), max_len: MAX_LEN };
        order.configure(FlowId(flow), config, None).expect("in range");
    }
    plain(order, flows)
}

fn hosts(flows: u32) -> Box<dyn Scheduler> {
    let hosts = flows / FLOWS_PER_HOST;
    let room = hosts as usize;
    let nodes = vec![HostDrrFlow::EMPTY; flows as usize];
    let order = HostDrr::new(drr(hosts), nodes, vec![HostRing::EMPTY; room], MAX_LEN);
    let mut order = order.expect("a length").sparse_first();
    order.add_all(MAX_LEN).expect("a quantum");
    for flow in 0..flows {
        order.assign(FlowId(flow), flow % hosts).expect("a host");
    }
    let held = vec![HeldFlow::EMPTY; flows as usize];
    let (longest, classes) = (vec![LongestHost::EMPTY; room], vec![HostClasses::EMPTY; room]);
    plain(LongestHostDrop::new(order, held, longest, classes).expect("as many hosts"), flows)
}

fn rounds(flows: u32) -> Box<dyn Scheduler> {
    let hosts = flows / FLOWS_PER_HOST;
    let sides = || vec![LoadDrrHost::EMPTY; hosts as usize];
    let nodes = vec![LoadDrrFlow::EMPTY; flows as usize];
    let order = LoadDrr::new(nodes, sides(), sides(), vec![RoundList::EMPTY; 64], MAX_LEN);
    let mut order = order.expect("a length").sparse_first();
    order.add_all(MAX_LEN).expect("a quantum");
    order.set_mode(Sides::Both);
    for flow in 0..flows {
        order.assign(FlowId(flow), flow % hosts, flow / FLOWS_PER_HOST).expect("hosts");
    }
    plain(order, flows)
}

fn ceilings(flows: u32) -> Box<dyn Scheduler> {
    let room = flows as usize;
    let (ceilings, returns) = (vec![CeilingFlow::EMPTY; room], vec![CeilingReturn::EMPTY; room]);
    let mut order =
        Ceilings::new(drr(flows), ceilings, returns).expect("it neither looks nor counts");
    for flow in 0..flows {
        let ceiling = Ceiling::new(100_000 << (flow % 8), MAX_LEN).expect("in range");
        order.set_ceiling(FlowId(flow), Some(ceiling)).expect("room for all");
    }
    plain(order, flows)
}

fn committed(flows: u32) -> Box<dyn Scheduler> {
    let room = flows as usize;
    let (rates, returns) = (vec![CommittedFlow::EMPTY; room], vec![CommittedReturn::EMPTY; room]);
    let mut order =
        CommittedRates::new(drr(flows), drr(flows), rates, returns).expect("both are alike");
    for flow in 0..flows {
        let rate = CommittedRate::new(100_000 << (flow % 8), MAX_LEN).expect("in range");
        order.set_rate(FlowId(flow), Some(rate)).expect("room for all");
    }
    plain(order, flows)
}

fn classes(flows: u32) -> Box<dyn Scheduler> {
    let classes = flows / FLOWS_PER_HOST;
    let class =
        || FlowQueues::new(drr(FLOWS_PER_HOST), queues(FLOWS_PER_HOST), slots(), Limits::NONE);
    let all: Vec<_> = (0..classes).map(|_| class()).collect();
    let bits = LowBits::new(FLOWS_PER_HOST.ilog2()).expect("two bits");
    let states = vec![ClassState::EMPTY; classes as usize];
    let node = Classes::new(drr(classes), all, states, bits, LIMITS);
    Box::new(node.dropping_from_longest(vec![LongestFlow::EMPTY; classes as usize]))
}
