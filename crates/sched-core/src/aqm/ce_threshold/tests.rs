use super::*;
use crate::tests::packets::MS;
use crate::{
    Backlog, CoDel, CoDelParams, CoDelState, Cobalt, CobaltParams, CobaltState, Descriptor,
    DropReason, Drr, DrrFlow, FlowQueues, Limits, Packet, Queue, Scheduler,
};
use conformance::Xorshift;
use conformance::effort::effort;
use std::format;
use std::vec::Vec;

const CODEPOINTS: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];

fn codel() -> CoDel<[CoDelState; 5]> {
    CoDel::new([CoDelState::EMPTY; 5], CoDelParams::INTERNET).unwrap()
}

fn cobalt() -> Cobalt<[CobaltState; 5]> {
    Cobalt::new([CobaltState::EMPTY; 5], CobaltParams::INTERNET, 3).unwrap()
}

fn threshold<A>(inner: A, ms: u64) -> CeThreshold<A> {
    CeThreshold::new(inner, Nanos::from_millis(ms)).unwrap()
}

/// An AQM with a constant verdict.
#[derive(Clone, Debug)]
struct Always(Verdict);

impl Aqm for Always {
    const MAX_DROPS: u32 = 3;

    fn admit(&mut self, _flow: FlowId, _offer: Offer, _look: Look) -> Admission {
        Admission::Refuse
    }

    fn judge(&mut self, _flow: FlowId, _head: Head, _look: Look) -> Verdict {
        self.0
    }

    fn foresee(&self, _flow: FlowId) -> impl FnMut(Head) -> Verdict {
        |_| self.0
    }

    fn overflowed(&mut self, _flow: FlowId) {}

    fn emptied(&mut self, _flow: FlowId) {}

    fn forget(&mut self, _flow: FlowId) {}

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    #[inline]
    fn swap(&mut self, _flow: FlowId, _other: FlowId) {}
}

/// Goal: the result for every verdict and every codepoint, at the threshold and above it, with and
/// without the ECT(1) option.
#[test]
fn a_mark_is_added_to_a_pass_and_to_nothing_else() {
    let verdicts = [Verdict::Pass, Verdict::Signal, Verdict::Drop, Verdict::Unclear];
    for (inner, ecn) in verdicts.iter().flat_map(|&inner| CODEPOINTS.map(|ecn| (inner, ecn))) {
        for (sojourn, ect1_only) in [(0, false), (0, true), (1, false), (1, true)] {
            let aqm = threshold(Always(inner), 2);
            let mut aqm = if ect1_only { aqm.for_ect1_only() } else { aqm };
            let sojourn = Nanos(2 * MS + sojourn);
            let now = Nanos(9 * MS);
            let head = Head { now, sojourn, bytes_behind: 0, packets: 1, ecn };
            let asks = ecn == Ecn::Ect1 || ecn == Ecn::Ect0 && !ect1_only;
            let is_marked = inner == Verdict::Pass && asks && sojourn > Nanos(2 * MS);
            let expected = if is_marked { Verdict::Signal } else { inner };
            let glance = if sojourn > Nanos(2 * MS) { Verdict::Unclear } else { inner };
            assert_eq!(aqm.judge(FlowId(0), head, Look::Glance), glance, "{inner:?} {head:?}");
            assert_eq!(aqm.judge(FlowId(0), head, Look::Close), expected, "{inner:?} {head:?}");
            assert_eq!(aqm.foresee(FlowId(0))(head), expected, "{inner:?} {head:?}");
        }
    }
    let held = Backlog { packets: 0, bytes: 0 };
    let offer = Offer { now: Nanos(0), packet: Packet::new(0, 1), held };
    let mut aqm = threshold(Always(Verdict::Pass), 2);
    assert_eq!(aqm.admit(FlowId(0), offer, Look::Close), Admission::Refuse);
    assert_eq!(<CeThreshold<Always> as Aqm>::MAX_DROPS, 3);
}

/// Goal: the inner AQM behaves as without the threshold. Method: two AQMs, each alone and with a
/// threshold, over random heads, overflows and removed flows: equal states at every step.
#[test]
fn the_inner_aqm_moves_on_as_without_a_threshold() {
    fn lockstep<A: Aqm + Clone + core::fmt::Debug>(mut alone: A, seed: u64) -> u32 {
        let mut beside = threshold(alone.clone(), 2);
        let (mut rng, mut now, mut added) = (Xorshift::new(seed), 0, 0);
        for step in 0..effort(3_000, 30_000_u32) {
            now += u64::from(rng.below(8_000_000));
            let flow = FlowId(rng.below(2));
            let long = if step % 400 < 200 { 6 * MS } else { 0 };
            let head = Head {
                now: Nanos(now),
                sojourn: Nanos(long + u64::from(rng.below(4_000_000))),
                bytes_behind: rng.below(40) * 100,
                packets: 1 + rng.below(9),
                ecn: Ecn::from_bits(rng.byte()),
            };
            match rng.below(100) {
                0 => [&mut alone, beside.inner_mut()].map(|aqm| aqm.forget(flow)),
                1 => [&mut alone, beside.inner_mut()].map(|aqm| aqm.overflowed(flow)),
                2 => {
                    alone.emptied(flow);
                    beside.emptied(flow);
                    [(); 2]
                }
                _ => [(); 2],
            };
            let verdict = alone.judge(flow, head, Look::Close);
            let with = beside.judge(flow, head, Look::Close);
            assert!(with == verdict || (verdict, with) == (Verdict::Pass, Verdict::Signal));
            added += u32::from(with != verdict);
            assert_eq!(format!("{alone:?}"), format!("{:?}", beside.inner()));
        }
        added
    }
    assert!(lockstep(codel(), 1) > 200);
    assert!(lockstep(cobalt(), 2) > 200);
}

/// Five flows of 20 packets of 120 bytes, all at time 0, under DRR with 1,514 bytes per turn, which
/// is 13 packets, and a dequeue every 0.1 ms, 60 in total. Returns the marks and drops of each
/// flow.
fn five_flows<A: Aqm>(aqm: A, codepoints: [Ecn; 5]) -> [[u32; 2]; 5] {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 5], 1_514).unwrap().sparse_first();
    scheduler.add_all(1_514).unwrap();
    let (queues, descriptors) = ([Queue::EMPTY; 5], [Descriptor::EMPTY; 128]);
    let mut line = FlowQueues::with_parts(scheduler, aqm, queues, descriptors, [], Limits::NONE);
    for (flow, ecn) in (0..).zip(codepoints) {
        for number in 0..20 {
            let packet = Packet { handle: flow * 20 + number, len: 120, ecn };
            line.enqueue(Nanos(0), FlowId(flow), packet, &mut |_: Packet, _| {}).unwrap();
        }
    }
    let mut told = [[0; 2]; 5];
    for step in 1..=60 {
        let now = Nanos(step * MS / 10);
        let mut dropped = Vec::new();
        let drops = &mut |packet: Packet, _: DropReason| dropped.push(packet.handle / 20);
        let foreseen = line.peek(now);
        let packet = line.dequeue(now, drops);
        assert_eq!(packet, foreseen, "a peek keeps its word");
        let packet = packet.unwrap();
        let flow = packet.handle as usize / 20;
        told[flow][0] += u32::from(packet.ecn != codepoints[flow]);
        dropped.into_iter().for_each(|flow| told[flow as usize][1] += 1);
    }
    let marked = told.iter().map(|[marks, _]| u64::from(*marks)).sum::<u64>();
    assert_eq!(line.counters().marked, marked, "each mark is counted once");
    told
}

/// Goal: the marks of ns-3's FQ-CoDel and FQ-COBALT with a threshold of 2 ms: 0, 6 and 13 in three
/// ECN-capable flows, none in two others. ns-3's FQ-COBALT drops one packet of the last flow, at
/// its second packet above the target; here no queue is signalled before an interval is over.
#[test]
fn marks_above_a_threshold_are_those_of_ns3() {
    let ect = Ecn::Ect0;
    let flows = [ect, ect, ect, Ecn::NotEct, Ecn::NotEct];
    let expected = [[0, 0], [6, 0], [13, 0], [0, 0], [0, 0]];
    assert_eq!(five_flows(threshold(codel(), 2), flows), expected);
    assert_eq!(five_flows(threshold(cobalt(), 2), flows), expected);
}

/// Goal: with the option, ECT(1) gets the shallow threshold, and ECT(0) only the inner AQM; packets
/// that arrive with CE are not marked again.
#[test]
fn a_threshold_for_ect1_leaves_ect0_to_the_inner_aqm() {
    let flows = [Ecn::Ect1, Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::Ect1];
    let l4s = |ms| threshold(cobalt(), ms).for_ect1_only();
    let marks = |told: [[u32; 2]; 5]| told.map(|[marks, drops]| (marks, drops));
    assert_eq!(marks(five_flows(l4s(2), flows)), [(0, 0), (0, 0), (13, 0), (0, 0), (8, 0)]);
    assert_eq!(marks(five_flows(l4s(1), flows)), [(3, 0), (0, 0), (13, 0), (0, 0), (8, 0)]);
    assert_eq!(
        marks(five_flows(threshold(cobalt(), 1), flows)),
        [(3, 0), (13, 0), (13, 0), (0, 0), (8, 0)]
    );
}

/// Goal: where threshold and target are both exceeded, a packet is marked once: as many marks as
/// packets delivered.
#[test]
fn a_packet_is_marked_once_above_both() {
    let mut line = {
        let mut scheduler = Drr::new([DrrFlow::EMPTY; 5], 1_514).unwrap();
        scheduler.add_all(1_514).unwrap();
        let (queues, descriptors) = ([Queue::EMPTY; 5], [Descriptor::EMPTY; 128]);
        let aqm = threshold(cobalt(), 1);
        FlowQueues::with_parts(scheduler, aqm, queues, descriptors, [], Limits::NONE)
    };
    for number in 0..100 {
        let packet = Packet { handle: number, len: 1_000, ecn: Ecn::Ect0 };
        line.enqueue(Nanos(0), FlowId(1), packet, &mut |_: Packet, _| {}).unwrap();
    }
    for step in 1..=100 {
        let drops = &mut |_: Packet, _| panic!("all can be marked");
        let packet = line.dequeue(Nanos(step * 30 * MS), drops).unwrap();
        assert_eq!(packet.ecn, Ecn::Ce);
    }
    assert_eq!(line.counters().marked, 100);
}

#[test]
fn a_threshold_out_of_range_is_refused_by_name() {
    let longest = (1 << 33) - 1;
    for ns in [0, 1_023, longest + 1, u64::MAX] {
        let refused = CeThreshold::new(codel(), Nanos(ns)).map(|_| ());
        let what = "CE threshold in ns";
        let expected = ConfigError::OutOfRange { what, value: ns, min: 1_024, max: longest };
        assert_eq!(refused, Err(expected));
    }
    for ns in [1_024, longest] {
        assert_eq!(CeThreshold::new(codel(), Nanos(ns)).unwrap().threshold(), Nanos(ns));
    }
}
