//! The schedulers that are measured, by name.

use core::fmt::Debug;

use freeboard::flowhash::{FlowTable, TagLine};
use freeboard::sched_core::{
    Aggregate, ClassState, Classes, CoDel, CoDelParams, CoDelState, CommittedFlow, CommittedRate,
    CommittedRates, CommittedReturn, Descriptor, Drr, DrrFlow, Fifo, FlowId, FlowQueues,
    FlowScheduler, HeldFlow, HostClasses, HostDrr, HostDrrFlow, HostRing, Limits, LoadDrr,
    LoadDrrFlow, LoadDrrHost, LongestFlow, LongestHost, LongestHostDrop, LongestQueueDrop, LowBits,
    Nanos, PlusFlow, Qfq, QfqConfig, QfqFlow, QfqPlus, Queue, RoundList, Scheduler, ShortestFlow,
    ShortestQueue, Sides, Wf2q, Wf2qConfig, Wf2qFlow,
};
use freeboard::shaper::Rate;
use freeboard::{
    Allocate, Hashed, IsolatedConfig, IsolatedMemory, Isolation, Releasing, SmartQueue, Storage,
};

use super::null::{LOOKUP, NOTHING, Null, STRANGER, STRANGER_RELEASED};
use super::{Loop, Pattern};

/// A closed loop around a scheduler: runs at least as many pairs as asked, returns how many.
pub(crate) type Subject = Box<dyn FnMut(usize) -> usize>;

/// What [`subject`] knows. `hashed_` names flows by hash, the others by number; `_burst` hands the bursts
/// of FULL over whole, and is what the name before it is with SMALL; `_16_ways` has sets of sixteen, all
/// others of eight.
pub(crate) const NAMES: [&str; 40] = [
    "null",
    "lookup",
    "lookup_claim",
    "lookup_collision",
    "lookup_16_ways",
    "lookup_claim_16_ways",
    "lookup_collision_16_ways",
    "fifo",
    "drr",
    "drr_sparse",
    "drr_lqd",
    "sqf_lqd",
    "qfq",
    "qfq_mixed",
    "qfq_distinct",
    "qfq_plus",
    "qfq_plus_mixed",
    "qfq_plus_distinct",
    "qfq_over_drr",
    "rounds",
    "rounds_triple",
    "rounds_one_host",
    "hosts_1",
    "hosts_32",
    "hosts_each",
    "hosts_uncapped",
    "hosts_capped",
    "rounds_lqd",
    "hosts_lqd",
    "isolated_dual",
    "isolated_triple",
    "isolated_uncapped",
    "smart_queue",
    "wf2q",
    "hashed_drr",
    "fq_codel",
    "null_burst",
    "drr_burst",
    "qfq_burst",
    "qfq_mixed_burst",
];

/// The longest packet of the workloads.
const MTU: u32 = 1_500;

/// The scheduler called `name` with `flows` flows in the closed loop `pattern`, warmed up.
pub(crate) fn subject(name: &str, pattern: Pattern, flows: usize) -> Option<Subject> {
    let (name, whole) = name.strip_suffix("_burst").map_or((name, false), |single| (single, true));
    let (name, ways) = name.strip_suffix("_16_ways").map_or((name, 8), |of_eight| (of_eight, 16));
    let lookup_table = || hash_table(queues_for(flows).max(ways as usize), ways);
    let call = (pattern, flows, whole);
    let slots = table(4 * flows + flows.max(64), Descriptor::EMPTY);
    let queues = table(flows, Queue::EMPTY);
    Some(match name {
        "null" => closed(Null::<NOTHING>::new(slots.len(), hash_table(8, 8)), call, false),
        // Every flow has claimed its queue: hits alone.
        "lookup" => {
            let table = lookup_table();
            closed(Null::<LOOKUP>::new(slots.len(), table), call, true)
        }
        // Half of the queues are claimed; each packet is of a flow never seen before, which claims one of
        // the others (of 100,000 a few collide) and releases it.
        "lookup_claim" => {
            let mut table = lookup_table();
            for queue in (0..table.queues()).step_by(2) {
                table.lookup(queue);
            }
            closed(Null::<STRANGER_RELEASED>::new(slots.len(), table), call, true)
        }
        // All queues are claimed; each packet is of a flow never seen before: collisions alone.
        "lookup_collision" => {
            let mut table = lookup_table();
            for queue in 0..table.queues() {
                table.lookup(queue);
            }
            closed(Null::<STRANGER>::new(slots.len(), table), call, true)
        }
        "fifo" => closed(Fifo::tail_drop(slots, Limits::NONE), call, false),
        "drr" => closed(FlowQueues::new(drr(flows), queues, slots, Limits::NONE), call, false),
        "drr_sparse" => {
            let order = drr(flows).sparse_first();
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        "drr_lqd" => {
            let order = LongestQueueDrop::new(drr(flows), table(flows, LongestFlow::EMPTY));
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        "sqf_lqd" => {
            let mut order = ShortestQueue::new(table(flows, ShortestFlow::EMPTY));
            add_all(&mut order, flows, ());
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        "qfq" => {
            let queues = table(flows, Queue::EMPTY);
            let order = qfq(flows, |_| 1);
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        // Weights 1, 2, 4, 8, 16 in turn.
        "qfq_mixed" => {
            let queues = table(flows, Queue::EMPTY);
            let order = qfq(flows, |flow| 1 << (flow % 5));
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        "qfq_distinct" => {
            let order = qfq(flows, |flow| distinct(flow, flows));
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        // Aggregates of up to eight flows.
        "qfq_plus" => {
            let order = qfq_plus(flows, |_| 1);
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        "qfq_plus_mixed" => {
            let order = qfq_plus(flows, |flow| 1 << (flow % 5));
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        "qfq_plus_distinct" => {
            let order = qfq_plus(flows, |flow| distinct(flow, flows));
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        // Triple isolation of up to 32 hosts a side; of one host a side; and the same with no host that counts.
        "rounds_triple" | "rounds_one_host" | "rounds" => {
            let hosts = if name == "rounds_triple" { flows.min(32) } else { 1 };
            let mut order = rounds(flows, hosts);
            if name == "rounds" {
                order.set_mode(Sides::Neither);
            }
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        // With the longest of up to 32 hosts to give way.
        "rounds_lqd" => {
            let hosts = flows.min(32);
            let (ranks, lists) =
                (table(hosts, LongestHost::EMPTY), table(hosts, HostClasses::EMPTY));
            let held = table(flows, HeldFlow::EMPTY);
            let order = LongestHostDrop::new(rounds(flows, hosts), held, ranks, lists);
            let order = order.expect("room for all hosts");
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        "hosts_lqd" => {
            let hosts = flows.min(32);
            let (ranks, lists) =
                (table(hosts, LongestHost::EMPTY), table(hosts, HostClasses::EMPTY));
            let held = table(flows, HeldFlow::EMPTY);
            let order = LongestHostDrop::new(isolated(hosts, flows), held, ranks, lists);
            let order = order.expect("room for all hosts");
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        // The whole isolated queue by hash, each flow the only one of its hosts.
        "isolated_dual" => {
            let config = IsolatedConfig::new(MTU, Limits::NONE);
            let count = queues_for(flows);
            let memory = IsolatedMemory::<Boxes>::allocate(count, count, slots.len());
            closed(freeboard::Isolated::new(memory, config).expect("powers of two"), call, true)
        }
        "isolated_triple" => {
            let isolation = Isolation::TripleIsolate;
            let config = IsolatedConfig::new(MTU, Limits::NONE).isolated_by(isolation);
            let count = queues_for(flows);
            let memory = IsolatedMemory::<Boxes>::allocate(count, count, slots.len());
            let queue = freeboard::Isolated::new(memory.with_triple(64), config);
            closed(queue.expect("powers of two"), call, true)
        }
        // `isolated_dual` with room for committed rates, none set.
        "isolated_uncapped" => {
            let config = IsolatedConfig::new(MTU, Limits::NONE);
            let count = queues_for(flows);
            let memory = IsolatedMemory::<Boxes>::allocate(count, count, slots.len());
            let queue = freeboard::Isolated::new(memory.with_rates(), config);
            closed(queue.expect("powers of two"), call, true)
        }
        // `isolated_dual` with CoDel, behind an unlimited line and a device that is ready.
        "smart_queue" => {
            let count = queues_for(flows);
            let memory = IsolatedMemory::<Boxes>::allocate(count, count, slots.len());
            let codel = table(memory.queues(), CoDelState::EMPTY);
            let builder = SmartQueue::upload(Rate::UNLIMITED).max_len(MTU);
            closed(builder.descriptors_in(memory, codel).expect("powers of two"), call, true)
        }
        "wf2q" => {
            let order = Wf2q::new(table(flows, Wf2qFlow::EMPTY), MTU);
            let mut order = order.expect("an MTU");
            add_all(&mut order, flows, Wf2qConfig { weight: 1, max_len: MTU });
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        // Up to 32 classes of at least 32 flows.
        "qfq_over_drr" => {
            let classes = (flows / 32).clamp(1, 32);
            let each = flows.div_ceil(classes).next_power_of_two();
            let class = |_| {
                let (queues, slots) = (table(each, Queue::EMPTY), slots.clone());
                FlowQueues::new(drr(each), queues, slots, Limits::NONE)
            };
            let leaves: Box<[_]> = (0..classes).map(class).collect();
            let split = LowBits::new(each.ilog2()).expect("fewer than 2^31 flows");
            let (order, states) = (qfq(classes, |_| 1), table(classes, ClassState::EMPTY));
            let node = Classes::new(order, leaves, states, split, Limits::NONE);
            closed(node, call, false)
        }
        // Up to 32 hosts with room for committed rates: none set, or all to half of their share of the loop, in which a
        // byte takes about 0.1 ns, so that half of what each sends is borrowed and each is moved at all times.
        "hosts_uncapped" | "hosts_capped" => {
            let hosts = flows.min(32);
            let (rates, returns) =
                (table(hosts, CommittedFlow::EMPTY), table(hosts, CommittedReturn::EMPTY));
            let mut of_hosts =
                CommittedRates::new(drr(hosts), drr(hosts), rates, returns).expect("alike");
            if name == "hosts_capped" {
                let rate =
                    CommittedRate::new(39_000_000_000 / hosts as u64, 10 * MTU).expect("a rate");
                // Charged, the hosts would stay in excess for longer, and fewer would be moved.
                let rate = rate.with_free_borrowing();
                for host in (0..hosts as u32).map(FlowId) {
                    of_hosts.set_rate(host, Some(rate)).expect("room for all hosts");
                }
            }
            let order = above(of_hosts, hosts, flows);
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        // DRR of hosts over DRR of flows: one host, up to 32, and as many as flows.
        "hosts_1" | "hosts_32" | "hosts_each" => {
            let hosts = match name {
                "hosts_1" => 1,
                "hosts_32" => flows.min(32),
                _ => flows,
            };
            let order = isolated(hosts, flows);
            closed(FlowQueues::new(order, queues, slots, Limits::NONE), call, false)
        }
        "hashed_drr" => {
            let order = hashed(drr(queues_for(flows)));
            let queues = table(queues_for(flows), Queue::EMPTY);
            closed(Hashed::new(order, queues, slots, Limits::NONE), call, true)
        }
        // Hash, sparse flows first, CoDel: what FQ-CoDel is made of.
        "fq_codel" => {
            let count = queues_for(flows);
            let order = hashed(drr(count).sparse_first());
            // Every packet is judged and none is dropped: with 65,536 flows the backlog of FULL stands
            // for 21 ms of the loop's time.
            let params = CoDelParams { target: Nanos::from_secs(1), ..CoDelParams::INTERNET };
            let params = CoDelParams { interval: Nanos::from_secs(4), ..params };
            let codel = CoDel::new(table(count, CoDelState::EMPTY), params);
            let codel = codel.expect("a target below the interval");
            let queues = table(count, Queue::EMPTY);
            let queues = FlowQueues::with_parts(order, codel, queues, slots, [], Limits::NONE);
            closed(Hashed::over(queues), call, true)
        }
        _ => return None,
    })
}

fn table<T: Clone>(len: usize, empty: T) -> Box<[T]> {
    vec![empty; len].into_boxed_slice()
}

fn drr(flows: usize) -> Drr<Box<[DrrFlow]>> {
    let mut drr = Drr::new(table(flows, DrrFlow::EMPTY), MTU).expect("an MTU");
    drr.add_all(MTU).expect("a quantum of one MTU");
    drr
}

type ByHost = LoadDrr<Box<[LoadDrrFlow]>, Box<[LoadDrrHost]>, Box<[LoadDrrHost]>, Box<[RoundList]>>;

/// Flows that go from host to host, of as many on each side, in a calendar that is long enough if it may be.
fn rounds(flows: usize, hosts: usize) -> ByHost {
    let nodes = table(flows, LoadDrrFlow::EMPTY);
    let side = || table(hosts, LoadDrrHost::EMPTY);
    let calendar = (flows + 1).next_power_of_two().min(ByHost::MAX_ROUNDS as usize);
    let calendar = table(calendar, RoundList::EMPTY);
    let mut rounds = LoadDrr::new(nodes, side(), side(), calendar, MTU).expect("an MTU");
    rounds.add_all(MTU).expect("a quantum of one MTU");
    for flow in 0..flows {
        let (source, destination) = (flow % hosts, flow / hosts % hosts);
        let assigned = rounds.assign(FlowId(flow as u32), source as u32, destination as u32);
        assigned.expect("hosts in range");
    }
    rounds
}

type Above<O> = HostDrr<O, Box<[HostDrrFlow]>, Box<[HostRing]>>;

/// Tables in boxes.
#[derive(Debug)]
enum Boxes {}

impl Storage for Boxes {
    type Of<T: Debug + 'static> = Box<[T]>;
}

impl Allocate for Boxes {
    fn table<T: Clone + Debug + 'static>(empty: T, len: usize) -> Box<[T]> {
        table(len, empty)
    }
}

fn isolated(hosts: usize, flows: usize) -> Above<Drr<Box<[DrrFlow]>>> {
    above(drr(hosts), hosts, flows)
}

/// Flow by flow one host after the other.
fn above<O: FlowScheduler>(of_hosts: O, hosts: usize, flows: usize) -> Above<O> {
    let (nodes, rings) = (table(flows, HostDrrFlow::EMPTY), table(hosts, HostRing::EMPTY));
    let mut order = HostDrr::new(of_hosts, nodes, rings, MTU).expect("an MTU");
    order.add_all(MTU).expect("a quantum of one MTU");
    for flow in 0..flows {
        order.assign(FlowId(flow as u32), (flow % hosts) as u32).expect("an idle flow");
    }
    order
}

/// Twice as many queues as flows, so that nearly all flows have one of their own.
fn queues_for(flows: usize) -> usize {
    (2 * flows).next_power_of_two().max(8)
}

fn hashed<O: FlowScheduler>(order: O) -> Releasing<O, Box<[TagLine]>> {
    let table = hash_table(order.flows() as usize, 8);
    Releasing::new(order, table)
}

fn hash_table(queues: usize, ways: u32) -> FlowTable<Box<[TagLine]>> {
    let lines = table(queues.div_ceil(8), TagLine::EMPTY);
    FlowTable::new(lines, queues as u32, ways).expect("powers of two")
}

fn qfq(flows: usize, weight: impl Fn(u32) -> u32) -> Qfq<Box<[QfqFlow]>> {
    let mut qfq = Qfq::new(table(flows, QfqFlow::EMPTY), MTU).expect("an MTU");
    for flow in 0..flows as u32 {
        let config = QfqConfig { weight: weight(flow), max_len: MTU };
        qfq.configure(FlowId(flow), config, None).expect("a valid weight");
    }
    qfq
}

/// Up to 4,096 flows no two weights are alike: nothing to share an aggregate with.
fn distinct(flow: u32, flows: usize) -> u32 {
    1 + flow % if flows > 4_096 { 256 } else { 4_096 }
}

type Plus = QfqPlus<Box<[PlusFlow]>, Box<[Aggregate]>, Box<[QfqFlow]>>;

fn qfq_plus(flows: usize, weight: impl Fn(u32) -> u32) -> Plus {
    let (aggregates, nodes) = (table(flows, Aggregate::EMPTY), table(flows, QfqFlow::EMPTY));
    let mut plus = QfqPlus::new(table(flows, PlusFlow::EMPTY), aggregates, nodes, MTU, 8)
        .expect("an MTU and eight members");
    for flow in 0..flows as u32 {
        let config = QfqConfig { weight: weight(flow), max_len: MTU };
        plus.configure(FlowId(flow), config, None).expect("a valid weight");
    }
    plus
}

fn add_all<O: FlowScheduler>(order: &mut O, flows: usize, config: O::Config) {
    for flow in 0..flows as u32 {
        order.configure(FlowId(flow), config, None).expect("a valid configuration");
    }
}

fn closed<S: Scheduler + 'static>(
    scheduler: S,
    (pattern, flows, whole): (Pattern, usize, bool),
    hashed: bool,
) -> Subject {
    let mut subject = Loop::new(scheduler, pattern, flows, hashed, whole);
    Box::new(move |pairs| {
        let done = subject.run(pairs);
        subject.verify();
        done
    })
}
