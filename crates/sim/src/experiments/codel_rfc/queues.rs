//! Expectations of ns-3's tests for CoDel, COBALT, BLUE and fair queues over them.

use freeboard::sched_core::{
    Aqm, Blue, BlueParams, BlueState, CeThreshold, CoDel, CoDelParams, CoDelState, Cobalt,
    CobaltParams, CobaltState, ConfigError, Descriptor, DropReason, Drr, DrrFlow, Ecn, FlowId,
    Limits, LongestFlow, LongestQueueDrop, Nanos, NoAqm, OwnVictim, Packet, RejectReason,
    Scheduler,
};

use super::{Line, MS, Source};
use crate::discipline::{ByNumber, QUEUES, by_hash, by_number, drr};

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

/// Returns the lines for CoDel in one queue.
fn one_queue() -> Vec<Line> {
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

    let same = |what: &str, expected: &str, ours| Line::same(Source::Ns3, what, expected, ours);
    vec![
        same("CoDel: drops of 6 packets in and out", "0", dropped.to_string()),
        same("CoDel: 3 above a limit of 500", "3", refused.to_string()),
        same(
            "CoDel: at 2 targets, 2 intervals later, again: drops, size",
            "0 −1, 1 −2, 0 −1",
            steps.join(", "),
        ),
        same("CoDel: marks at 10, 210, 250, 309, 310 ms", "0 1 0 0 1", marks),
        same(
            "CoDel: marks above 2 ms at 1, 3, 3 ms; counted",
            "0 1 1; 2",
            format!("{above}; {counted}"),
        ),
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

/// Returns the lines for fair queues over CoDel and COBALT.
fn fair_queues() -> Vec<Line> {
    let same = |what: &str, expected: &str, ours| Line::same(Source::Ns3, what, expected, ours);
    let (by_codel, by_cobalt) =
        (five_flows(codel(5), SLOW, THREE_CAPABLE), five_flows(cobalt(5), SLOW, THREE_CAPABLE));
    let shallow = [
        five_flows(threshold(codel(5), 2), FAST, THREE_CAPABLE),
        five_flows(threshold(cobalt(5), 2), FAST, THREE_CAPABLE),
    ];
    let both = five_flows(threshold(codel(5), 2), SLOW, [Ecn::Ect0; 5]);
    let once: u32 = both.iter().map(|flow| flow[0]).sum();
    vec![
        same("FQ-CoDel: marks of 3 flows, a dequeue each 110 ms", "6 6 6", marks(by_codel)),
        Line::departs(
            Source::Ns3,
            "FQ-CoDel: of the 2 flows without ECN",
            "4 4 drops, 0 marks",
            of_the_others(by_codel),
            "3 3 drops, 0 marks",
            "no packet with 1,514 bytes or fewer behind it is dropped: of 20 the first passes, those with 18, 16 and 14 \
             behind them are dropped, the next has 1,440 bytes behind it",
        ),
        same("FQ-CoDel: marks above 2 ms, a dequeue each 0.1 ms", "0 6 13", marks(shallow[0])),
        same("FQ-CoDel: marks of 60 packets by threshold and target", "60", once.to_string()),
        Line::departs(
            Source::Ns3,
            "FQ-COBALT: marks of 3 flows, a dequeue each 110 ms",
            "19 16 12",
            marks(by_cobalt),
            "19 12 12",
            "ns-3 counts a wait of 400 ms as an overflow: its flows without ECN are drained sooner, and flow 1 sends four \
             packets more; here nothing overflows",
        ),
        same("FQ-COBALT: marks above 2 ms, a dequeue each 0.1 ms", "0 6 13", marks(shallow[1])),
        Line::departs(
            Source::Ns3,
            "FQ-COBALT: of the 2 flows without ECN",
            "0 1 drops, 0 marks",
            of_the_others(shallow[1]),
            "0 0 drops, 0 marks",
            "ns-3 signals a flow at its second packet above the target; here no queue is signalled before it has stood \
             for an interval",
        ),
        Line::not_compared(
            Source::Ns3,
            "FQ-CoDel and FQ-COBALT: marks in L4S mode",
            "66 and 68",
            "the result is known and the traffic is not",
        ),
        deficits(),
        fattest(),
        probing(),
    ]
}

/// A quantum below the longest packet is rejected.
fn deficits() -> Line {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 2], 120).expect("in range");
    let ours = match scheduler.add_all(90) {
        Err(ConfigError::OutOfRange { min, .. }) => format!("refused: below {min}"),
        other => format!("{other:?}"),
    };
    Line::departs(
        Source::Ns3,
        "FQ-CoDel: deficits, quantum 90, packets of 120",
        "90, −30, 60/old, …",
        ours,
        "refused: below 120",
        "a turn is worth the longest packet at least, so that no dequeue visits a flow in vain",
    )
}

/// With a limit of four packets, flow A holds three and flow B one when a fifth packet arrives.
fn fattest() -> Line {
    let policy = LongestQueueDrop::new([LongestFlow::EMPTY; 2]);
    let mut line = queues(2, NoAqm, Limits::packets(4)).with_drop_policy(policy);
    for (handle, flow) in [0, 0, 0, 1, 1].into_iter().enumerate() {
        let packet = Packet::new(handle as u32, 1_500);
        let _queued = line.enqueue(Nanos(0), FlowId(flow), packet, &mut |_: Packet, _| {});
    }
    let held = [0, 1].map(|flow| line.flow_backlog(FlowId(flow)).packets);
    Line::departs(
        Source::Ns3,
        "FQ-CoDel: limit 4, A holds 3, B 1; one more of B",
        "A 1, B 2",
        format!("A {}, B {}", held[0], held[1]),
        "A 2, B 2",
        "ns-3 drops half of the fattest flow; here it loses what there is no room for",
    )
}

/// Flows in one set of eight ways.
fn probing() -> Line {
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
    Line::same(
        Source::Ns3,
        "FQ: queues of a full set and the next, 10 flows",
        "3 2 1 1 2 1 1 1 1",
        held.join(" "),
    )
}

/// Returns the lines for COBALT and BLUE in one queue.
fn blue() -> Vec<Line> {
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
        Line::same(
            Source::Ns3,
            "BLUE: p after 100 of 200 packets, each 10 ms",
            "60/256",
            format!("{parts}/256"),
        ),
        Line::departs(
            Source::Ns3,
            "BLUE: its drops",
            "49",
            dropped.to_string(),
            "0",
            "the number depends on the draws and on CoDel beside BLUE; BLUE alone tells arrivals, and all came before",
        ),
        Line::same(
            Source::Ns3,
            "COBALT: p and drops without overflows, ECT",
            "0, 0",
            format!("{silent}, {none}"),
        ),
        Line::not_compared(
            Source::Ns3,
            "COBALT: above 1 ms, in each 1.0, out each 1.1 ms",
            "1 mark to 28 ms, 3 after 31 ms",
            "by these words each packet after the tenth has waited longer than 1 ms",
        ),
    ]
}

pub(super) fn lines() -> Vec<Line> {
    let mut lines = one_queue();
    lines.extend(fair_queues());
    lines.extend(blue());
    lines
}
