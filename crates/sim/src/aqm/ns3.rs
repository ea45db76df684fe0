//! ns-3's tests of CoDel, COBALT, BLUE, fair queues over them, and PIE, with the library's queues.
//!
//! A result is text that names the counts in the order in which ns-3 examines them; those of PIE
//! are numbers, to be summed over seeds.

use freeboard::sched_core::{
    Aqm, Blue, BlueParams, BlueState, CeThreshold, CoDel, CoDelParams, CoDelState, Cobalt,
    CobaltParams, CobaltState, ConfigError, Descriptor, DropReason, Drr, DrrFlow, Ecn, FlowId,
    Limits, LongestFlow, LongestQueueDrop, Nanos, NoAqm, OwnVictim, Packet, PieParams, Probability,
    RejectReason, Scheduler,
};

use super::pie::{Outcome, traffic};
use crate::discipline::{ByNumber, QUEUES, by_hash, by_number, drr};

/// Nanoseconds per millisecond.
const MS: u64 = 1_000_000;

/// A test's name and the result of the library.
pub type TestResult = (&'static str, String);

/// Queues with DRR and a quantum of 1,514 bytes.
type Queues<A> = ByNumber<Drr<Vec<DrrFlow>>, A, OwnVictim>;

fn queues<A: Aqm>(flows: usize, aqm: A, limits: Limits) -> Queues<A> {
    let scheduler = drr(flows as u32, 1_514).expect("in range").sparse_first();
    by_number(scheduler, OwnVictim, aqm, vec![Descriptor::EMPTY; 1_024], limits)
}

fn codel(flows: usize) -> CoDel<Vec<CoDelState>> {
    CoDel::new(vec![CoDelState::EMPTY; flows], CoDelParams::INTERNET).expect("in range")
}

fn cobalt(flows: usize) -> Cobalt<Vec<CobaltState>> {
    let states = vec![CobaltState::EMPTY; flows];
    // The packets of these tests are short, and ns-3 also signals to a queue of two of them.
    Cobalt::new(states, CobaltParams::INTERNET.with_mtu(0), 1).expect("in range")
}

fn threshold<A>(aqm: A, ms: u64) -> CeThreshold<A> {
    CeThreshold::new(aqm, Nanos(ms * MS)).expect("in range")
}

/// Offers `count` packets of `len` bytes at time 0; returns how many were rejected because the
/// queue was full.
fn fill<A: Aqm>(line: &mut Queues<A>, flow: u32, count: u32, len: u32, ecn: Ecn) -> u32 {
    let offer = |number: &u32| {
        let packet = Packet { handle: flow * 20 + number, len, ecn };
        let refused = line.enqueue(Nanos(0), FlowId(flow), packet, &mut |_: Packet, _| {});
        refused.is_err_and(|refused| matches!(refused.reason, RejectReason::Full { .. }))
    };
    (0..count).filter(offer).count() as u32
}

/// Dequeues once; returns whether the packet is marked, and how many were dropped.
fn take<A: Aqm>(line: &mut Queues<A>, at: u64) -> (bool, u32) {
    let mut dropped = 0;
    let packet = line.dequeue(Nanos(at), &mut |_: Packet, _: DropReason| dropped += 1);
    (packet.is_some_and(|packet| packet.ecn == Ecn::Ce), dropped)
}

/// Runs the tests of CoDel in one queue.
fn one_queue() -> Vec<TestResult> {
    let mut calm = queues(1, codel(1), Limits::NONE);
    fill(&mut calm, 0, 6, 1_000, Ecn::NotEct);
    let dropped: u32 = (0..6).map(|_| take(&mut calm, 0).1).sum();

    let refused = fill(&mut queues(1, codel(1), Limits::packets(500)), 0, 503, 1_000, Ecn::NotEct);

    let mut line = queues(1, codel(1), Limits::NONE);
    fill(&mut line, 0, 20, 1_000, Ecn::NotEct);
    let step = |at| {
        let before = line.backlog().packets;
        let (_, dropped) = take(&mut line, at);
        format!("{dropped} −{}", before - line.backlog().packets)
    };
    let steps: Vec<String> = [10 * MS, 210 * MS, 210 * MS].into_iter().map(step).collect();

    let mut marking = queues(1, codel(1), Limits::NONE);
    fill(&mut marking, 0, 20, 1_000, Ecn::Ect0);
    // Above the target; after two intervals; twice before the next time of the schedule; at that
    // time.
    let instants = [10, 210, 250, 309, 310].map(|ms| ms * MS);
    let marks = instants.map(|at| u32::from(take(&mut marking, at).0).to_string()).join(" ");

    let mut shallow = queues(1, threshold(codel(1), 2), Limits::NONE);
    fill(&mut shallow, 0, 3, 1_000, Ecn::Ect0);
    let above = [1, 3, 3].map(|ms| u32::from(take(&mut shallow, ms * MS).0).to_string()).join(" ");
    let counted = shallow.counters().marked;

    vec![
        ("CoDel: drops of 6 packets in and out", dropped.to_string()),
        ("CoDel: 3 above a limit of 500", refused.to_string()),
        ("CoDel: at 2 targets, 2 intervals later, again: drops, size", steps.join(", ")),
        ("CoDel: marks at 10, 210, 250, 309, 310 ms", marks),
        ("CoDel: marks above 2 ms at 1, 3, 3 ms; counted", format!("{above}; {counted}")),
    ]
}

/// Runs five flows of 20 packets of 120 bytes, and 60 dequeues `each` ns apart. Returns marks and
/// drops of each flow.
fn five_flows<A: Aqm>(aqm: A, each: u64, codepoints: [Ecn; 5]) -> [[u32; 2]; 5] {
    let mut line = queues(5, aqm, Limits::NONE);
    for (flow, ecn) in (0..).zip(codepoints) {
        fill(&mut line, flow, 20, 120, ecn);
    }
    let mut told = [[0; 2]; 5];
    for step in 1..=60 {
        let mut dropped = Vec::new();
        let drops = &mut |packet: Packet, _: DropReason| dropped.push(packet.handle / 20);
        if let Some(packet) = line.dequeue(Nanos(step * each), drops) {
            let marked =
                packet.ecn == Ecn::Ce && codepoints[packet.handle as usize / 20] != Ecn::Ce;
            told[packet.handle as usize / 20][0] += u32::from(marked);
        }
        dropped.into_iter().for_each(|flow| told[flow as usize][1] += 1);
    }
    told
}

const SLOW: u64 = 110 * MS;
const FAST: u64 = MS / 10;
const THREE_CAPABLE: [Ecn; 5] = [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::NotEct, Ecn::NotEct];

fn marks(told: [[u32; 2]; 5]) -> String {
    format!("{} {} {}", told[0][0], told[1][0], told[2][0])
}

fn of_the_others(told: [[u32; 2]; 5]) -> String {
    format!("{} {} drops, {} marks", told[3][1], told[4][1], told[3][0] + told[4][0])
}

/// Runs the tests of fair queues over CoDel and COBALT.
fn fair_queues() -> Vec<TestResult> {
    let (by_codel, by_cobalt) =
        (five_flows(codel(5), SLOW, THREE_CAPABLE), five_flows(cobalt(5), SLOW, THREE_CAPABLE));
    let shallow = [
        five_flows(threshold(codel(5), 2), FAST, THREE_CAPABLE),
        five_flows(threshold(cobalt(5), 2), FAST, THREE_CAPABLE),
    ];
    let both = five_flows(threshold(codel(5), 2), SLOW, [Ecn::Ect0; 5]);
    let once: u32 = both.iter().map(|flow| flow[0]).sum();
    vec![
        ("FQ-CoDel: marks of 3 flows, a dequeue each 110 ms", marks(by_codel)),
        ("FQ-CoDel: of the 2 flows without ECN", of_the_others(by_codel)),
        ("FQ-CoDel: marks above 2 ms, a dequeue each 0.1 ms", marks(shallow[0])),
        ("FQ-CoDel: marks of 60 packets by threshold and target", once.to_string()),
        ("FQ-COBALT: marks of 3 flows, a dequeue each 110 ms", marks(by_cobalt)),
        ("FQ-COBALT: marks above 2 ms, a dequeue each 0.1 ms", marks(shallow[1])),
        ("FQ-COBALT: of the 2 flows without ECN", of_the_others(shallow[1])),
        ("FQ-CoDel: deficits, quantum 90, packets of 120", small_quantum()),
        ("FQ-CoDel: limit 4, A holds 3, B 1; one more of B", fattest()),
        ("FQ: queues of a full set and the next, 10 flows", full_set()),
    ]
}

/// Configures a quantum below the longest packet.
fn small_quantum() -> String {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 2], 120).expect("in range");
    match scheduler.add_all(90) {
        Err(ConfigError::OutOfRange { min, .. }) => format!("refused: below {min}"),
        other => format!("{other:?}"),
    }
}

/// With a limit of four packets, flow A holds three and flow B one when a fifth packet arrives.
fn fattest() -> String {
    let policy = LongestQueueDrop::new([LongestFlow::EMPTY; 2]);
    let mut line = queues(2, NoAqm, Limits::packets(4)).with_drop_policy(policy);
    for (handle, flow) in [0, 0, 0, 1, 1].into_iter().enumerate() {
        let packet = Packet::new(handle as u32, 1_500);
        let _queued = line.enqueue(Nanos(0), FlowId(flow), packet, &mut |_: Packet, _| {});
    }
    let held = [0, 1].map(|flow| line.flow_backlog(FlowId(flow)).packets);
    format!("A {}, B {}", held[0], held[1])
}

/// Flows in one set of eight ways.
fn full_set() -> String {
    let (drr, room) = (drr(QUEUES, 1_514).expect("in range"), vec![Descriptor::EMPTY; 16]);
    let mut line = by_hash(drr, OwnVictim, NoAqm, room, Limits::NONE);
    let mut handle = 0;
    let mut offer = |hash: u32| {
        let packet = Packet::new(handle, 100);
        line.enqueue(Nanos(0), FlowId(hash), packet, &mut |_: Packet, _| {})
            .expect("there is room");
        handle += 1;
    };
    // Eight flows in the set of queue 0, all with that queue as their preferred way; then a ninth,
    // and one in the next set.
    for flow in [0, 0, 1, 1, 2, 3, 4, 4, 5, 6, 7] {
        offer(1_024 * flow);
    }
    offer(1_024 * 8);
    offer(8);
    let held: Vec<String> =
        (0..9).map(|queue| line.queues().flow_backlog(FlowId(queue)).packets.to_string()).collect();
    held.join(" ")
}

/// Runs the tests of COBALT and BLUE in one queue.
fn blue() -> Vec<TestResult> {
    let params = BlueParams::DEFAULT
        .with_freeze(Nanos::from_millis(5))
        .with_longest_wait(Nanos::from_millis(400));
    let blue = Blue::new(vec![BlueState::EMPTY; 1], params, 1).expect("in range");
    let mut line = queues(1, blue, Limits::NONE);
    fill(&mut line, 0, 200, 1_000, Ecn::NotEct);
    let dropped: u32 = (1..=100).map(|step| take(&mut line, step * 10 * MS).1).sum();
    let parts = f64::from(line.aqm().probability(FlowId(0)).raw()) / f64::from(1 << 24);
    let mut off = queues(1, cobalt(1), Limits::NONE);
    fill(&mut off, 0, 200, 1_000, Ecn::Ect0);
    let none: u32 = (1..=100).map(|step| take(&mut off, step * 10 * MS).1).sum();
    let silent = off.aqm().probability(FlowId(0)).raw();
    vec![
        ("BLUE: p after 100 of 200 packets, each 10 ms", format!("{parts}/256")),
        ("BLUE: its drops", dropped.to_string()),
        ("COBALT: p and drops without overflows, ECT", format!("{silent}, {none}")),
    ]
}

/// Runs all tests and returns their results.
///
/// # Panics
/// Never: all parameters are in range.
#[must_use]
pub fn results() -> Vec<TestResult> {
    [one_queue(), fair_queues(), blue()].concat()
}

/// Number of tests of PIE.
pub const PIE_TESTS: usize = 7;

/// Runs the tests of PIE. ns-3's numbers of the first four are 2 to 5; the next marks up to a
/// probability of 0.3, and the last two are the same for packets without ECN, and without marking.
///
/// # Panics
/// Never: all parameters are in range.
#[must_use]
pub fn pie(seed: u64) -> [Outcome; PIE_TESTS] {
    let params = |target, period| {
        PieParams::new(Nanos::from_millis(target)).with_period(Nanos::from_millis(period))
    };
    let (mut marking, mut without) = (params(20, 30), params(20, 30));
    marking.mark_up_to = Probability::ratio(3, 10).expect("a probability");
    without.mark_up_to = Probability::NEVER;
    let tests = [
        (params(20, 30), 12, Ecn::NotEct),
        (params(80, 30), 12, Ecn::NotEct),
        (params(20, 30), 15, Ecn::NotEct),
        (params(20, 90), 15, Ecn::NotEct),
        (marking, 14, Ecn::Ect0),
        (marking, 14, Ecn::NotEct),
        (without, 14, Ecn::Ect0),
    ];
    tests.map(|(params, out, ecn)| traffic(params, out, ecn, seed))
}
