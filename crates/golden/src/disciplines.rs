//! The runs: each discipline with small static memory, and the hash it must give.

use freeboard::flowhash::{FlowHasher, FlowTable, SipHash13, TagLine};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{Hashed, Releasing};
use sched_core::{
    Aggregate, Aqm, Ceiling, CeilingFlow, CeilingReturn, Ceilings, ClassState, Classes, CoDel,
    CoDelParams, CoDelState, CommittedFlow, CommittedRate, CommittedRates, CommittedReturn,
    Descriptor, DropFrom, Drr, DrrFlow, Fifo, FlowId, FlowQueues, FlowScheduler, HostDrr,
    HostDrrFlow, HostRing, Limits, LongestFlow, LongestQueueDrop, LowBits, Nanos, NoAqm, Packet,
    PlusFlow, Qfq, QfqConfig, QfqFlow, QfqPlus, Queue, ShortestFlow, ShortestQueue, Sqf, SqfArrays,
    Wf2q, Wf2qConfig, Wf2qFlow,
};

use crate::{FLOWS, HANDLES, Hash, MAX_LEN, run, run_named};

/// What a run needs on the stack at most, with a margin for the calls below it.
pub const STACK_BYTES: usize = 16 << 10;

/// How many operations the pinned hashes are of.
const OPERATIONS: u32 = 50_000;

const SLOTS: usize = HANDLES as usize;
const QUEUES: usize = FLOWS as usize;
/// Virtual queues of the SQF run, and the default queue.
const SQF_QUEUES: usize = 6;

/// A run and what must come of it.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The discipline.
    pub name: &'static str,
    /// Does the run; returns the hash of its trace.
    pub hash: fn() -> u64,
    /// What [`Run::hash`] must return, on every target.
    pub pinned: u64,
}

/// Every run.
pub const ALL: &[Run] = &[
    Run { name: "fifo, tail drop", hash: fifo_tail_drop, pinned: 0xe48b_7f0a_ae1a_7562 },
    Run { name: "fifo, head drop", hash: fifo_head_drop, pinned: 0x240e_7860_e787_345a },
    Run { name: "drr", hash: drr, pinned: 0xe29a_05fb_4277_eb12 },
    Run {
        name: "drr, sparse first, longest-queue drop, codel",
        hash: fq_codel,
        pinned: 0x9c7c_9e38_1928_372d,
    },
    Run { name: "shortest queue", hash: shortest_queue, pinned: 0x8dce_17f2_518c_8162 },
    Run { name: "sqf", hash: sqf, pinned: 0xd832_6719_369c_a27d },
    Run { name: "qfq", hash: qfq, pinned: 0x61c4_0389_2c5b_7692 },
    Run { name: "qfq, longest-queue drop", hash: qfq_lqd, pinned: 0x27fc_ca6d_72d8_9b30 },
    Run { name: "qfq+, longest-queue drop", hash: qfq_plus, pinned: 0x75e8_93ff_85a2_6c45 },
    Run { name: "wf2q, longest-queue drop", hash: wf2q, pinned: 0x1f07_6439_0321_a79a },
    Run {
        name: "hosts with committed rates",
        hash: hosts_with_rates,
        pinned: 0xb3d3_136a_268a_ba00,
    },
    Run { name: "hosts below ceilings", hash: hosts_below_ceilings, pinned: 0xf4b6_2b63_9ba8_d1e9 },
    Run { name: "drr over shortest queues", hash: hierarchy, pinned: 0x9ac4_bccc_061e_36b6 },
    Run { name: "hashed drr behind a shaper", hash: hashed_drr, pinned: 0x6be5_35ae_42b9_767d },
];

fn fifo_tail_drop() -> u64 {
    let mut fifo = Fifo::tail_drop([Descriptor::EMPTY; SLOTS], Limits::NONE);
    run(&mut fifo, OPERATIONS, 1, |_, _, _, _| {})
}

fn fifo_head_drop() -> u64 {
    let mut fifo = Fifo::head_drop([Descriptor::EMPTY; SLOTS], Limits::NONE);
    run(&mut fifo, OPERATIONS, 2, |_, _, _, _| {})
}

fn drr() -> u64 {
    let Ok(order) = Drr::new([DrrFlow::EMPTY; QUEUES], MAX_LEN) else { return 0 };
    queues(order, NoAqm, 3, quantum)
}

fn fq_codel() -> u64 {
    let Ok(order) = Drr::new([DrrFlow::EMPTY; QUEUES], MAX_LEN) else { return 0 };
    let order = LongestQueueDrop::new(order.sparse_first(), [LongestFlow::EMPTY; QUEUES]);
    // A step of the clock is half a millisecond on average, so queues stand for many intervals.
    let params =
        CoDelParams { target: Nanos::from_millis(1), interval: Nanos::from_millis(5), mtu: 100 };
    let Ok(codel) = CoDel::new([CoDelState::EMPTY; QUEUES], params) else { return 0 };
    queues(order, codel, 4, quantum)
}

/// 10 in 16 quanta are large enough.
fn quantum(random: u32) -> u32 {
    (random & 15) * 250
}

fn shortest_queue() -> u64 {
    let order = ShortestQueue::new([ShortestFlow::EMPTY; QUEUES]).drop_from(DropFrom::Tail);
    queues(order, NoAqm, 5, |_| ())
}

fn sqf() -> u64 {
    let memory = SqfArrays::<QUEUES, SLOTS, SQF_QUEUES>::EMPTY;
    let Ok(mut sqf) = Sqf::new(memory, DropFrom::Head, Limits::NONE) else { return 0 };
    run(&mut sqf, OPERATIONS, 6, |sqf, flow, random, hash| {
        if removes(random) {
            let mut gone = *hash;
            sqf.remove_flow(flow, &mut |packet: Packet, reason| gone.drop(packet, reason));
            *hash = gone;
        } else {
            hash.word(sqf.add_flow(flow).is_ok().into());
        }
    })
}

fn qfq() -> u64 {
    let Ok(order) = Qfq::new([QfqFlow::EMPTY; QUEUES], MAX_LEN) else { return 0 };
    queues(order, NoAqm, 7, weight)
}

fn qfq_lqd() -> u64 {
    let Ok(order) = Qfq::new([QfqFlow::EMPTY; QUEUES], MAX_LEN) else { return 0 };
    let order = LongestQueueDrop::new(order, [LongestFlow::EMPTY; QUEUES]);
    queues(order, NoAqm, 8, weight)
}

/// A power of two up to 2^17, of which the last is too large, and a little more or less.
fn weight(random: u32) -> QfqConfig {
    let weight = (1 << (random % 18)) ^ (random >> 8 & 3);
    QfqConfig { weight, max_len: if random >> 16 & 1 == 0 { MAX_LEN } else { MAX_LEN - 914 } }
}

/// Weights of few kinds, so that aggregates fill.
fn qfq_plus() -> u64 {
    let (flows, aggregates) = ([PlusFlow::EMPTY; QUEUES], [Aggregate::EMPTY; QUEUES]);
    let order = QfqPlus::new(flows, aggregates, [QfqFlow::EMPTY; QUEUES], MAX_LEN, 4);
    let Ok(order) = order else { return 0 };
    let order = LongestQueueDrop::new(order, [LongestFlow::EMPTY; QUEUES]);
    queues(order, NoAqm, 11, |random| QfqConfig {
        weight: 1 + (random & 1) * 99,
        ..weight(random & 1 << 16)
    })
}

fn wf2q() -> u64 {
    let Ok(order) = Wf2q::new([Wf2qFlow::EMPTY; QUEUES], MAX_LEN) else { return 0 };
    let order = LongestQueueDrop::new(order, [LongestFlow::EMPTY; QUEUES]);
    queues(order, NoAqm, 10, |random| {
        let QfqConfig { weight, max_len } = weight(random);
        Wf2qConfig { weight, max_len }
    })
}

/// Four hosts of four flows, three of them with committed rates: less than its share, a rate whose bytes take no
/// whole number of nanoseconds, and more than there is.
fn hosts_with_rates() -> u64 {
    const HOSTS: usize = QUEUES / 4;
    let Ok(mut turns) = Drr::new([DrrFlow::EMPTY; HOSTS], MAX_LEN) else { return 0 };
    let Ok(()) = turns.add_all(MAX_LEN) else { return 0 };
    let (flows, returns) = ([CommittedFlow::EMPTY; HOSTS], [CommittedReturn::EMPTY; HOSTS]);
    let Ok(mut hosts) = CommittedRates::new(turns, turns, flows, returns) else { return 0 };
    for (host, rate) in (0..).zip([200_000, 999_983, 100_000_000]) {
        let Ok(rate) = CommittedRate::new(rate, 2 * MAX_LEN) else { return 0 };
        let Ok(()) = hosts.set_rate(FlowId(host), Some(rate)) else { return 0 };
    }
    with_flows_moved(hosts)
}

/// Four hosts of four flows: with a ceiling below its rate, with one above it, with one alone, and with neither.
fn hosts_below_ceilings() -> u64 {
    const HOSTS: usize = QUEUES / 4;
    let Ok(mut turns) = Drr::new([DrrFlow::EMPTY; HOSTS], MAX_LEN) else { return 0 };
    let Ok(()) = turns.add_all(MAX_LEN) else { return 0 };
    let (flows, returns) = ([CommittedFlow::EMPTY; HOSTS], [CommittedReturn::EMPTY; HOSTS]);
    let Ok(rates) = CommittedRates::new(turns, turns, flows, returns) else { return 0 };
    let (flows, returns) = ([CeilingFlow::EMPTY; HOSTS], [CeilingReturn::EMPTY; HOSTS]);
    let Ok(mut hosts) = Ceilings::new(rates, flows, returns) else { return 0 };
    for (host, rate) in (0..).zip([200_000, 999_983]) {
        let Ok(rate) = CommittedRate::new(rate, 2 * MAX_LEN) else { return 0 };
        let Ok(()) = hosts.order_mut().set_rate(FlowId(host), Some(rate)) else { return 0 };
    }
    for (host, rate) in (0..).zip([100_000, 5_000_011, 1_000_000_000]) {
        let Ok(ceiling) = Ceiling::new(rate, 2 * MAX_LEN) else { return 0 };
        let Ok(()) = hosts.set_ceiling(FlowId(host), Some(ceiling)) else { return 0 };
    }
    with_flows_moved(hosts)
}

/// A run over `hosts`, whose flows are moved, changed and removed.
fn with_flows_moved<O: FlowScheduler<Config = u32>>(hosts: O) -> u64 {
    const HOSTS: usize = QUEUES / 4;
    let (nodes, rings) = ([HostDrrFlow::EMPTY; QUEUES], [HostRing::EMPTY; HOSTS]);
    let Ok(order) = HostDrr::new(hosts, nodes, rings, MAX_LEN) else { return 0 };
    let (queues, slots) = ([Queue::EMPTY; QUEUES], [Descriptor::EMPTY; SLOTS]);
    let mut queues = FlowQueues::new(order.sparse_first(), queues, slots, Limits::NONE);
    run(&mut queues, OPERATIONS, 12, |queues, flow: FlowId, random, hash: &mut Hash| {
        if removes(random) {
            let mut gone = *hash;
            queues.remove_flow(flow, &mut |packet: Packet, reason| gone.drop(packet, reason));
            *hash = gone;
        } else {
            hash.word(queues.order_mut().assign(flow, flow.0 >> 2).is_ok().into());
            hash.word(queues.configure(flow, quantum(random)).is_ok().into());
        }
    })
}

/// Four users of four flows, the longest of which gives way; one of them behind a line of its own.
fn hierarchy() -> u64 {
    const USERS: usize = QUEUES / 4;
    let Ok(order) = Drr::new([DrrFlow::EMPTY; USERS], MAX_LEN) else { return 0 };
    // Less than a quarter of what is offered.
    let Ok(slow) = Rate::kilobits_per_second(400) else { return 0 };
    let users = core::array::from_fn::<_, USERS, _>(|user| {
        let order = ShortestQueue::new([ShortestFlow::EMPTY; QUEUES / USERS]);
        let (queues, slots) = ([Queue::EMPTY; QUEUES / USERS], [Descriptor::EMPTY; SLOTS]);
        let rate = if user == 1 { slow } else { Rate::UNLIMITED };
        let queues = FlowQueues::new(order, queues, slots, Limits::NONE);
        Shaped::new(queues, exact(rate), Overhead::RAW)
    });
    let Ok(split) = LowBits::new(2) else { return 0 };
    let node = Classes::new(order, users, [ClassState::EMPTY; USERS], split, Limits::NONE);
    let mut node = node.dropping_from_longest([LongestFlow::EMPTY; USERS]);
    run(&mut node, OPERATIONS, 11, |node, flow: FlowId, random, hash: &mut Hash| {
        let (class, number) = (FlowId(flow.0 >> 2), FlowId(flow.0 & 3));
        if removes(random) {
            let mut gone = *hash;
            node.remove_class(class, &mut |packet: Packet, reason| gone.drop(packet, reason));
            *hash = gone;
        } else {
            hash.word(node.configure(class, quantum(random)).is_ok().into());
            let drops = &mut |_: Packet, _| {};
            let added = node.with_class(Nanos(0), class, drops, |user, _| {
                user.inner_mut().configure(number, ()).is_ok()
            });
            hash.word(added.unwrap_or(false).into());
        }
    })
}

/// The whole way: a keyed hash, the set-associative table, DRR with longest-queue drop, the shaper.
/// Seventeen flows on sixteen queues, so that some share one.
fn hashed_drr() -> u64 {
    let Ok(mut order) = Drr::new([DrrFlow::EMPTY; QUEUES], MAX_LEN) else { return 0 };
    let Ok(()) = order.add_all(MAX_LEN) else { return 0 };
    let order = LongestQueueDrop::new(order.sparse_first(), [LongestFlow::EMPTY; QUEUES]);
    let Ok(table) = FlowTable::new([TagLine::EMPTY; QUEUES / 8], FLOWS, 8) else { return 0 };
    let (queues, slots) = ([Queue::EMPTY; QUEUES], [Descriptor::EMPTY; SLOTS]);
    let hashed = Hashed::new(Releasing::new(order, table), queues, slots, Limits::NONE);
    // Less than is offered, 450 bytes in a millisecond on average, so that queues stand.
    let Ok(rate) = Rate::megabits_per_second(2) else { return 0 };
    let mut shaped = Shaped::new(hashed, exact(rate), Overhead::PPPOE_LLCSNAP);
    let hasher = SipHash13::new([9; 16]);
    let name = |flow: FlowId| FlowId(hasher.hash(&flow.0.to_le_bytes()));
    run_named(&mut shaped, OPERATIONS, 9, name, |_, _, _, _| {})
}

/// A line that makes up for no lateness: departures are asked for at any time.
const fn exact(rate: Rate) -> Shaper {
    Shaper::new(rate).with_catch_up(Nanos::ZERO)
}

/// One call in eight removes the flow, the others add or change it.
const fn removes(random: u32) -> bool {
    random >> 29 == 0
}

fn queues<O: FlowScheduler, A: Aqm>(
    order: O,
    aqm: A,
    seed: u64,
    config: impl Fn(u32) -> O::Config,
) -> u64 {
    let (queues, slots) = ([Queue::EMPTY; QUEUES], [Descriptor::EMPTY; SLOTS]);
    let mut queues = FlowQueues::with_parts(order, aqm, queues, slots, [], Limits::NONE);
    run(&mut queues, OPERATIONS, seed, |queues, flow: FlowId, random, hash: &mut Hash| {
        if removes(random) {
            let mut gone = *hash;
            queues.remove_flow(flow, &mut |packet: Packet, reason| gone.drop(packet, reason));
            *hash = gone;
        } else {
            hash.word(queues.configure(flow, config(random)).is_ok().into());
        }
    })
}
