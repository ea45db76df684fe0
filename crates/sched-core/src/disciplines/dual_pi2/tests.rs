use super::*;
use std::vec::Vec;

const MS: u64 = 1_000_000;

fn law(params: DualPi2Params) -> Law {
    params.law().unwrap()
}

fn judging(parts: u64) -> Judging {
    let p = if parts == 1_000 { ONE } else { ONE / 1_000 * parts };
    Judging { pi: Pi { p, ..Pi::EMPTY }, ..Judging::NEW }
}

fn candidate(sojourn: u64, ecn: Ecn) -> Candidate {
    Candidate { sojourn: Nanos(sojourn), ecn, is_last: false }
}

/// Counts the signals and drops of 10,000 packets.
fn told(law: &Law, mut judging: Judging, kind: Kind, candidate: Candidate) -> [u32; 2] {
    let mut told = [0; 2];
    for _ in 0..10_000 {
        match judging.judge(law, kind, candidate) {
            Verdict::Signal => told[0] += 1,
            Verdict::Drop => told[1] += 1,
            _ => {}
        }
    }
    told
}

/// Goal: the ramp of RFC 9332, appendix A: no marks up to 0.8 ms, all from 1.2 ms, linear in
/// between; and a step.
#[test]
fn scalable_packets_are_marked_along_the_ramp() {
    let ramp = law(DualPi2Params::default());
    let marks =
        |law: &Law, sojourn| told(law, judging(0), Kind::Scalable, candidate(sojourn, Ecn::Ect1));
    for (sojourn, expected) in [
        (0, 0),
        (800_000, 0),
        (900_000, 2_499),
        (1_000_000, 4_999),
        (1_199_999, 9_999),
        (1_200_000, 10_000),
        (u64::MAX, 10_000),
    ] {
        let [marked, dropped] = marks(&ramp, sojourn);
        assert!(u32::abs_diff(marked, expected) <= 1 && dropped == 0, "{sojourn}: {marked}");
    }
    let step = law(DualPi2Params::default().with_step(Nanos(MS)));
    assert_eq!(marks(&step, MS - 1), [0, 0]);
    assert_eq!(marks(&step, MS), [10_000, 0]);
    let last = Candidate { is_last: true, ..candidate(5 * MS, Ecn::Ect1) };
    assert_eq!(told(&step, judging(0), Kind::Scalable, last), [0, 0], "the last has no queue");
}

/// Goal: the scalable queue is marked with the larger of the ramp and k·p', the classic one marked
/// or dropped with p'²; from k·p' = 1 on both are dropped with p'², whatever the codepoint.
#[test]
fn the_queues_are_coupled_until_marks_can_say_no_more() {
    let law = law(DualPi2Params::default());
    for parts in [1, 100, 300, 499, 501, 800, 1_000] {
        let square = u32::try_from(parts * parts / 100).unwrap();
        let linear = u32::try_from(20 * parts).unwrap().min(10_000);
        let is_overload = parts > 500;
        let near = |count: u32, expected: u32| {
            assert!(count.abs_diff(expected) <= 2, "{parts}: {count} and not {expected}");
        };
        let of = |kind, sojourn, ecn| told(&law, judging(parts), kind, candidate(sojourn, ecn));
        let [marked, dropped] = of(Kind::Scalable, 0, Ecn::Ect1);
        near(dropped, if is_overload { square } else { 0 });
        near(marked, if is_overload { 10_000 - dropped } else { linear });
        let [marked, dropped] = of(Kind::Scalable, MS, Ecn::Ect1);
        near(marked, if is_overload { 10_000 - dropped } else { linear.max(5_000) });
        near(of(Kind::Classic, 99 * MS, Ecn::NotEct)[1], square);
        assert_eq!(of(Kind::Classic, 99 * MS, Ecn::NotEct)[0], 0, "never marked");
        let [marked, dropped] = of(Kind::Classic, 99 * MS, Ecn::Ect0);
        near(marked + dropped, square);
        assert_eq!(if is_overload { marked } else { dropped }, 0);
    }
}

type Line = DualPi2<Vec<Descriptor>>;

fn line(params: DualPi2Params) -> Line {
    DualPi2::new(std::vec![Descriptor::EMPTY; 64], params, Limits::NONE).unwrap()
}

fn put(line: &mut Line, now: u64, handle: u32, ecn: Ecn) {
    let packet = Packet { ecn, ..Packet::new(handle, 1_500) };
    line.enqueue(Nanos(now), FlowId(0), packet, &mut |_: Packet, _| ()).unwrap();
}

/// Goal: the codepoint selects the queue, CE that of scalable packets; a packet that arrived with a
/// mark is not counted as marked here.
#[test]
fn the_codepoint_says_the_queue() {
    let mut line = line(DualPi2Params::default());
    for (handle, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect0), (2, Ecn::Ect1), (3, Ecn::Ce)] {
        put(&mut line, 0, handle, ecn);
    }
    assert_eq!(line.backlogs().map(|held| held.packets), [2, 2]);
    line.judging.pi.p = ONE / 5 * 2;
    let mut left = Vec::new();
    loop {
        line.judging.marks = ONE;
        let Some(packet) = line.dequeue(Nanos(10), &mut |_: Packet, _| ()) else { break };
        left.push((packet.handle, packet.ecn));
        line.recount().unwrap();
    }
    let expected = [(2, Ecn::Ce), (3, Ecn::Ce), (0, Ecn::NotEct), (1, Ecn::Ect0)];
    assert_eq!(left, expected);
    assert_eq!((line.counters().marked, line.counters().came_marked), (1, 1));
}

/// Goal: a call drops at most 32 packets, and never the last of a queue; a peek predicts it.
#[test]
fn a_call_drops_a_bounded_number_of_packets() {
    for (packets, dropped) in [(1, 0), (2, 1), (33, 32), (40, 32)] {
        for ecn in [Ecn::NotEct, Ecn::Ect1] {
            let mut line = line(DualPi2Params::default());
            (0..packets).for_each(|handle| put(&mut line, 0, handle, ecn));
            line.judging.pi.p = ONE;
            let mut gone = 0;
            let foreseen = line.peek(Nanos(0));
            let packet = line.dequeue(Nanos(0), &mut |_: Packet, reason| {
                assert_eq!(reason, DropReason::Aqm);
                gone += 1;
            });
            assert_eq!((packet, gone), (foreseen, dropped));
            assert_eq!(packet.map(|packet| packet.handle), Some(dropped));
            line.recount().unwrap();
        }
    }
}

/// Goal: the delay of an update is that of the longer head at the instant of the update, even if
/// the update is performed later.
#[test]
fn a_late_update_sees_the_delay_of_its_instant() {
    for ecn in [Ecn::NotEct, Ecn::Ect1] {
        let mut punctual = line(DualPi2Params::default());
        put(&mut punctual, 0, 0, ecn);
        let mut late = punctual.clone();
        for update in 1..=8 {
            punctual.judging = punctual.judging_at(Nanos(update * 16 * MS));
        }
        late.judging = late.judging_at(Nanos(8 * 16 * MS));
        // A sojourn time is known to a tick.
        let apart = late.judging.pi.p.abs_diff(punctual.judging.pi.p);
        assert!(apart < ONE / 100_000 && late.judging.pi.p > ONE / 10, "{apart}");
        // After that many updates the rest is skipped.
        late.judging = late.judging_at(Nanos(1 << 40));
        assert_eq!(late.judging.pi.updated, Nanos(1 << 40));
    }
}

/// Goal: queues and `p'` survive a change of parameters, and the recount detects a credit that is
/// owed to an empty queue.
#[test]
fn parameters_change_under_load() {
    let mut line = line(DualPi2Params::default());
    (0..4).for_each(|handle| put(&mut line, 0, handle, Ecn::Ect1));
    put(&mut line, 0, 4, Ecn::NotEct);
    line.judging.pi.p = ONE / 4;
    line.dequeue(Nanos(0), &mut |_: Packet, _| ()).unwrap();
    assert!(line.credit < line.law.full);
    let mut params = DualPi2Params::default().with_step(Nanos(MS));
    params.classic_percent = 50;
    line.set_params(params).unwrap();
    assert_eq!((line.params(), line.backlogs()[0].packets), (params, 3));
    assert_eq!(line.probability(), crate::Probability::from_raw((1 << 30) - 1));
    line.recount().unwrap();
    line.drain(&mut |_: Packet, _| ());
    line.recount().unwrap();
    line.credit -= 1;
    assert_eq!(line.recount().unwrap_err().what, "nothing is owed to an empty queue");
}

#[test]
fn parameters_outside_their_ranges_are_refused() {
    type Change = fn(&mut DualPi2Params);
    let changes: [(Change, Option<&str>); 10] = [
        (|params| params.pi2.target = Nanos(0), Some("PI2 target in ns")),
        (|params| params.pi2.period = Nanos(0), Some("PI2 period in ns")),
        (|params| params.pi2.coupling = 0, Some("PI2 coupling")),
        (|params| params.threshold = Nanos(1_000_000_001), Some("DualPI2 threshold in ns")),
        (|params| params.threshold = Nanos(0), None),
        (|params| params.range = Nanos(1_000_000_001), Some("DualPI2 range in ns")),
        (|params| params.range = Nanos(1), None),
        (|params| params.classic_percent = 0, Some("DualPI2 classic share in percent")),
        (|params| params.classic_percent = 100, Some("DualPI2 classic share in percent")),
        (|params| params.classic_percent = 99, None),
    ];
    for (change, refused) in changes {
        let mut params = DualPi2Params::default();
        change(&mut params);
        let mut line = line(DualPi2Params::default());
        let outcome = line.set_params(params);
        assert_eq!(line.params() == params, outcome.is_ok());
        let what = match outcome {
            Ok(()) => None,
            Err(ConfigError::OutOfRange { what, .. }) => Some(what),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(what, refused);
    }
}
