use super::*;
use crate::tests::packets::{MS, standing};
use crate::{
    Descriptor, DropReason, Drr, DrrFlow, Ecn, FlowQueues, FlowScheduler, Limits, Queue, Scheduler,
};
use conformance::effort::effort;
use conformance::{Xorshift, scramble};
use std::vec::Vec;

fn codel(mtu: u32) -> CoDel<[CoDelState; 4]> {
    CoDel::new([CoDelState::EMPTY; 4], CoDelParams { mtu, ..CoDelParams::INTERNET }).unwrap()
}

/// Returns the instants of the first signals to a queue that is standing from `start` on, judged
/// every microsecond.
fn signals(aqm: &CoDel<[CoDelState; 4]>, start: u64, count: usize) -> Vec<u64> {
    let mut state = CoDelState::EMPTY;
    let mut instants = Vec::new();
    let mut now = start;
    while instants.len() < count {
        if aqm.params.verdict(&mut state, standing(now, 6 * MS)) == Verdict::Signal {
            instants.push(now - start);
        }
        now += 1_000;
    }
    instants
}

/// Goal: signals at the instants of the published control law, each the sum of `100 ms / √n` so
/// far. Method: judge every microsecond; a signal comes at the first microsecond at or after it is
/// due. The table is rounded to a microsecond, half of it to either side. Eleven roundings of a
/// nanosecond and 10^-7 of 532 ms (53 ns) can at most shift a signal to the microsecond before.
#[test]
fn a_standing_queue_is_signalled_at_the_instants_of_the_control_law() {
    let table_us = [
        0, 100_000, 170_711, 228_446, 278_446, 323_167, 363_992, 401_788, 437_144, 470_477,
        502_100, 532_251,
    ];
    for start in [0, 7, 1 << 40] {
        let instants = signals(&codel(1_514), start, table_us.len());
        assert_eq!(instants[0], 100 * MS, "one interval after it was first above the target");
        for (instant, expected) in instants.iter().zip(table_us) {
            let late = (instant - instants[0]).cast_signed() - expected * 1_000;
            assert!((-1_000..=1_000).contains(&late), "{expected} us: {late} ns late");
        }
    }
}

#[test]
fn one_packet_below_the_target_starts_the_interval_anew() {
    let aqm = codel(1_514);
    let mut state = CoDelState::EMPTY;
    for now in 0..99 {
        assert_eq!(aqm.params.verdict(&mut state, standing(now * MS, 5 * MS)), Verdict::Pass);
    }
    assert_eq!(aqm.params.verdict(&mut state, standing(99 * MS, 5 * MS - 1)), Verdict::Pass);
    for now in 100..200 {
        assert_eq!(aqm.params.verdict(&mut state, standing(now * MS, 5 * MS)), Verdict::Pass);
    }
    assert_eq!(aqm.params.verdict(&mut state, standing(200 * MS, 5 * MS)), Verdict::Signal);
}

#[test]
fn a_signal_is_due_at_its_instant_and_not_before() {
    let aqm = codel(1_514);
    let mut state = CoDelState::EMPTY;
    let _above = aqm.params.verdict(&mut state, standing(0, 6 * MS));
    assert_eq!(aqm.params.verdict(&mut state, standing(100 * MS - 1, 6 * MS)), Verdict::Pass);
    assert_eq!(aqm.params.verdict(&mut state, standing(100 * MS, 6 * MS)), Verdict::Signal);
    let due = state.next.0;
    assert_eq!(aqm.params.verdict(&mut state, standing(due - 1, 6 * MS)), Verdict::Pass);
    assert_eq!(aqm.params.verdict(&mut state, standing(due, 6 * MS)), Verdict::Signal);
    assert_eq!(aqm.params.verdict(&mut state, standing(due, 6 * MS)), Verdict::Pass);
}

/// Arrival time and length.
type Sent = (u64, u32);

/// Reference model: CoDel in the pseudo-code of RFC 8289 §5, in floating point, over its own queue
/// of `(arrival, length)`.
#[derive(Default)]
struct Rfc {
    queue: std::collections::VecDeque<Sent>,
    first_above: Option<f64>,
    drop_next: f64,
    count: u32,
    lastcount: u32,
    dropping: bool,
    /// Smallest margin by which integers and floats decided alike.
    margin: f64,
}

#[expect(clippy::float_arithmetic, reason = "the twin is the one with floats")]
impl Rfc {
    const INTERVAL: f64 = 100e6;

    fn do_dequeue(&mut self, now: f64, mtu: u32) -> (Option<Sent>, bool) {
        let Some(packet) = self.queue.pop_front() else {
            self.first_above = None;
            return (None, false);
        };
        let bytes: u32 = self.queue.iter().map(|packet| packet.1).sum();
        if now - (packet.0 as f64) < 5e6 || bytes <= mtu {
            self.first_above = None;
            return (Some(packet), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + Self::INTERVAL);
                (Some(packet), false)
            }
            Some(instant) => (Some(packet), now >= instant),
        }
    }

    fn law(from: f64, count: u32) -> f64 {
        from + Self::INTERVAL / f64::from(count).sqrt()
    }

    fn is_due(&mut self, now: f64) -> bool {
        self.margin = self.margin.min((now - self.drop_next).abs());
        now >= self.drop_next
    }

    /// Returns the packet delivered, and those dropped before it.
    fn dequeue(&mut self, now: u64, mtu: u32) -> (Option<Sent>, Vec<Sent>) {
        let now = now as f64;
        let mut dropped = Vec::new();
        let (mut packet, mut ok) = self.do_dequeue(now, mtu);
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while self.dropping && self.is_due(now) {
                dropped.extend(packet);
                self.count += 1;
                (packet, ok) = self.do_dequeue(now, mtu);
                if ok {
                    self.drop_next = Self::law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            dropped.extend(packet);
            (packet, _) = self.do_dequeue(now, mtu);
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && now - self.drop_next < 16.0 * Self::INTERVAL {
                self.count = delta;
            }
            // A phase that ends with a drop has advanced our next instant once more than the RFC's.
            let at_edge = (now - self.drop_next - 16.0 * Self::INTERVAL).abs() < Self::INTERVAL;
            if delta > 1 && at_edge {
                self.margin = 0.0;
            }
            self.drop_next = Self::law(now, self.count);
            self.lastcount = self.count;
        }
        (packet, dropped)
    }
}

/// Goal: every packet is treated as the RFC's text requires. Method: random series, each with loads
/// from calm to overload, against the reference model. Integers and floats may differ where an
/// instant is met to the microsecond: such a series ends there, and the count of compared decisions
/// shows that few do.
#[test]
fn agrees_with_the_text_of_the_rfc_on_random_series() {
    let (mut compared, mut drops) = (0_u32, 0_usize);
    for seed in 1..=effort(40, 400_u64) {
        let mut rng = Xorshift::new(scramble(seed));
        let mtu = [1_514, 4_000][seed as usize % 2];
        let aqm = codel(mtu);
        let (mut state, mut queue) = (CoDelState::EMPTY, std::collections::VecDeque::new());
        let mut twin = Rfc { margin: f64::MAX, ..Rfc::default() };
        let (mut now, mut spacing, mut load) = (rng.next_u64() >> 24, 1, 1);
        for step in 0..6_000 {
            if step % 500 == 0 {
                spacing = [30_000, 300_000, 3_000_000, 20_000_000][rng.below(4) as usize];
                load = [20, 90, 110, 150][rng.below(4) as usize];
            }
            now += 1 + u64::from(rng.below(2 * spacing));
            while queue.len() < 200 && rng.below(200) < load {
                let packet = (now, 64 + rng.below(1_437));
                queue.push_back(packet);
                twin.queue.push_back(packet);
            }
            let mut dropped = Vec::new();
            let delivered = loop {
                let Some(&(arrival, _)) = queue.front() else { break None };
                let head = Head {
                    now: Nanos(now),
                    sojourn: Nanos(now - arrival),
                    bytes_behind: queue.iter().skip(1).map(|packet| packet.1).sum(),
                    packets: queue.len() as u32,
                    ecn: Ecn::NotEct,
                };
                let verdict = aqm.params.verdict(&mut state, head);
                let packet = queue.pop_front();
                if verdict == Verdict::Pass {
                    break packet;
                }
                dropped.extend(packet);
            };
            let expected = twin.dequeue(now, mtu);
            if twin.margin < 1_000.0 {
                break;
            }
            assert_eq!((delivered, dropped.clone()), expected, "seed {seed} step {step}");
            compared += 1;
            drops += dropped.len();
        }
    }
    assert!(
        compared > effort(50_000, 500_000) && drops > effort(2_000, 20_000),
        "{compared} {drops}"
    );
}

type CodelQueues = FlowQueues<
    Drr<[DrrFlow; 4]>,
    ([Queue; 4], Vec<Descriptor>, [crate::FlowRecord; 0]),
    CoDel<[CoDelState; 4]>,
>;

fn line(descriptors: usize, mtu: u32) -> CodelQueues {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 4], 10_000).unwrap().sparse_first();
    scheduler.add_all(10_000).unwrap();
    let descriptors = std::vec![Descriptor::EMPTY; descriptors];
    FlowQueues::with_parts(scheduler, codel(mtu), [Queue::EMPTY; 4], descriptors, [], Limits::NONE)
}

fn put(line: &mut CodelQueues, now: u64, flow: u32, packet: Packet) {
    let drops = &mut |_: Packet, _| panic!("nothing has to give way");
    line.enqueue(Nanos(now), FlowId(flow), packet, drops).unwrap();
    line.recount().unwrap();
}

/// Peeks, then dequeues; returns the packet delivered and the handles dropped.
fn get(line: &mut CodelQueues, now: u64) -> (Option<Packet>, Vec<u32>) {
    let mut dropped = Vec::new();
    let foreseen = line.peek(Nanos(now));
    assert_eq!(line.peek(Nanos(now)), foreseen, "a look changes nothing");
    let drops = &mut |packet: Packet, reason| {
        assert_eq!(reason, DropReason::Aqm);
        assert!(!packet.ecn.is_capable(), "what can be marked is not dropped");
        dropped.push(packet.handle);
    };
    let packet = line.dequeue(Nanos(now), drops);
    assert_eq!(packet, foreseen, "at {now}");
    line.recount().unwrap();
    (packet, dropped)
}

fn handle(got: (Option<Packet>, Vec<u32>)) -> (Option<u32>, Vec<u32>) {
    (got.0.map(|packet| packet.handle), got.1)
}

/// Goal: a sparse flow whose packets wait is not a standing queue (regression: a deadline outlived
/// the queue). Method: one packet every 150 ms, delivered 20 ms later, shorter or longer than the
/// MTU, ECN-capable or not.
#[test]
fn one_packet_at_a_time_is_never_signalled() {
    for (len, ecn) in [(100, Ecn::NotEct), (9_000, Ecn::NotEct), (9_000, Ecn::Ect0)] {
        let mut line = line(4, 1_514);
        for step in 0..effort(10_000, 100_000_u64) {
            let now = step * 150 * MS;
            put(&mut line, now, 0, Packet { handle: 0, len, ecn });
            let (packet, dropped) = get(&mut line, now + 20 * MS);
            assert_eq!((packet.map(|packet| packet.ecn), dropped.len()), (Some(ecn), 0));
        }
        assert_eq!(line.counters().dropped_total().packets, 0);
    }
}

/// Goal: a queue that is emptied by drops, with none of its packets judged, leaves no deadline
/// behind. Method: standing for 50 ms, emptied, idle, and standing again: no signal for another
/// interval.
#[test]
fn an_emptied_queue_does_not_inherit_the_deadline_of_the_old_one() {
    let emptied: [fn(&mut CodelQueues); 3] = [
        |line| line.drain(&mut |_: Packet, _| {}),
        |line| {
            line.set_limits(Limits::packets(0), &mut |_: Packet, _| {});
            line.set_limits(Limits::NONE, &mut |_: Packet, _| {});
        },
        |line| {
            line.remove_flow(FlowId(0), &mut |_: Packet, _| {});
            line.configure(FlowId(0), 10_000).unwrap();
        },
    ];
    for (at, empty) in emptied.iter().enumerate() {
        let mut line = line(64, 1_514);
        for number in 0..20 {
            put(&mut line, 0, 0, Packet::new(number, 1_500));
        }
        assert_eq!(handle(get(&mut line, 50 * MS)), (Some(0), std::vec![]));
        empty(&mut line);
        assert_eq!(line.backlog().packets, 0);
        for number in 0..20 {
            put(&mut line, 1_000 * MS, 0, Packet::new(number, 1_500));
        }
        let start = 1_010 * MS;
        assert_eq!(handle(get(&mut line, start)), (Some(0), std::vec![]), "way {at}");
        assert_eq!(handle(get(&mut line, start + 99 * MS)), (Some(1), std::vec![]), "way {at}");
        assert_eq!(handle(get(&mut line, start + 100 * MS)), (Some(3), std::vec![2]), "way {at}");
    }
}

#[test]
fn a_removed_flow_leaves_no_rate_behind() {
    let mut line = line(64, 1_514);
    for number in 0..60 {
        put(&mut line, 0, 0, Packet::new(number, 1_500));
    }
    let _dropped = [10, 200, 1_000].map(|ms| get(&mut line, ms * MS));
    let before = line.aqm().states[0];
    assert!(before.count > 10);
    line.remove_flow(FlowId(0), &mut |_: Packet, _| {});
    assert_eq!(line.aqm().states[0], CoDelState::EMPTY);
}

/// Goal: drops by the AQM inside a dequeue keep flow and flow scheduler consistent: the flow is
/// listed while it holds packets, is idle after the last one, and becomes backlogged once when the
/// next arrives.
#[test]
fn drops_inside_a_dequeue_keep_the_flow_listed_until_its_last_packet_is_delivered() {
    for mtu in [1, 999] {
        let mut line = line(8, mtu);
        for number in 0..5 {
            put(&mut line, 0, 1, Packet::new(number, 1_000));
        }
        assert_eq!(handle(get(&mut line, 10 * MS)), (Some(0), std::vec![]));
        assert_eq!(handle(get(&mut line, 110 * MS)), (Some(2), std::vec![1]));
        // A second later every packet is overdue, but the last one stays.
        assert_eq!(handle(get(&mut line, 1_110 * MS)), (Some(4), std::vec![3]));
        assert_eq!(line.backlog().packets, 0);
        put(&mut line, 1_200 * MS, 1, Packet::new(7, 1_000));
        assert_eq!(handle(get(&mut line, 1_200 * MS)), (Some(7), std::vec![]));
        assert_eq!(handle(get(&mut line, 1_200 * MS)), (None, std::vec![]));
    }
}

#[test]
fn a_look_at_a_packet_that_is_due_to_be_dropped_drops_nothing() {
    let mut line = line(8, 1);
    for number in 0..3 {
        put(&mut line, 0, 2, Packet::new(number, 1_000));
    }
    assert_eq!(handle(get(&mut line, 10 * MS)), (Some(0), std::vec![]));
    assert_eq!(line.peek(Nanos(110 * MS)).map(|packet| packet.handle), Some(2));
    assert_eq!(line.flow_backlog(FlowId(2)).packets, 2);
    assert_eq!(line.scheduler().select(), Some(FlowId(2)));
    assert_eq!(handle(get(&mut line, 110 * MS)), (Some(2), std::vec![1]));
    assert_eq!(handle(get(&mut line, 110 * MS)), (None, std::vec![]));
}

/// Goal: after a long pause one call drops at most `MAX_DROPS`, and the next calls drop the rest.
#[test]
fn a_clock_that_jumps_costs_at_most_max_drops_a_call() {
    const MAX: usize = <CoDel<[CoDelState; 4]> as Aqm>::MAX_DROPS as usize;
    let mut line = line(5_000, 1_514);
    for number in 0..5_000 {
        put(&mut line, 0, 0, Packet::new(number, 1_000));
    }
    assert_eq!(get(&mut line, 10 * MS).1.len(), 0);
    assert_eq!(get(&mut line, 110 * MS).1.len(), 1, "signalling");
    let late = 10_110 * MS;
    let first = get(&mut line, late).1.len();
    assert_eq!(first, MAX);
    let mut total = first;
    let mut calls = 1;
    loop {
        let dropped = get(&mut line, late).1.len();
        assert!(dropped <= MAX);
        total += dropped;
        calls += 1;
        if dropped == 0 {
            break;
        }
    }
    // Ten seconds at `100 ms / √n`: 2·√n = 100 + ζ, so the control law has some 2,570 signals due.
    // One in 33 finds the call's drops used up and passes its packet.
    assert!((2_450..2_550).contains(&total), "{total} in {calls} calls");
}

/// Goal: with marks and drops mixed, over several flows: a peek foresees the dequeue at every step,
/// ECN-capable packets are marked and never dropped, and a backlog always returns a packet.
#[test]
fn marks_and_drops_are_foreseen_at_every_step_of_random_traffic() {
    let (mut marked, mut dropped, mut all_marked) = (0, 0, 0);
    for seed in 1..=effort(12, 60_u64) {
        let mut line = line(256, [1, 1_514][seed as usize % 2]);
        let mut rng = Xorshift::new(scramble(seed));
        let (mut now, mut free) = (0, (0..256).collect::<Vec<u32>>());
        let mut ecn = std::collections::HashMap::new();
        let mut came_marked = 0;
        for _ in 0..4_000 {
            now += u64::from(rng.below(4 * MS as u32));
            for _ in 0..rng.below(4) {
                let Some(handle) = free.pop() else { break };
                let flow = rng.below(4);
                let len = 64 + rng.below(1_437);
                // Flow 0 is not ECN-capable, 1 is, 2 arrives marked, 3 is mixed.
                let bits = [0, 2, 3, rng.byte()][flow as usize];
                let packet = Packet { handle, len, ecn: Ecn::from_bits(bits) };
                ecn.insert(handle, packet.ecn);
                came_marked += u64::from(packet.ecn == Ecn::Ce);
                put(&mut line, now, flow, packet);
            }
            let backlog = line.backlog().packets;
            let (packet, gone) = get(&mut line, now);
            assert_eq!(packet.is_some(), backlog > 0);
            if let Some(packet) = packet {
                let before = ecn[&packet.handle];
                assert!(packet.ecn == before || (packet.ecn == Ecn::Ce && before.is_capable()));
                marked += u64::from(packet.ecn != before);
                free.push(packet.handle);
            }
            dropped += gone.len();
            free.extend(gone);
        }
        let counters = line.counters();
        assert_eq!((counters.marked, counters.came_marked), (marked, came_marked));
        (all_marked, marked) = (all_marked + marked, 0);
    }
    let marked = all_marked;
    assert!(
        marked > effort(2_000, 10_000) && dropped > effort(2_000, 10_000),
        "{marked} {dropped}"
    );
}

/// Goal: no clock causes a panic or a spurious signal; after a wrong timestamp the next signal of a
/// standing queue is at most an interval away.
#[test]
fn a_clock_that_steps_back_or_ends_is_legal() {
    let aqm = codel(1_514);
    let mut state = CoDelState::EMPTY;
    let far = u64::MAX / MS;
    for (ms, expected) in [
        (1_000, Verdict::Pass),
        (1_100, Verdict::Signal),
        (900, Verdict::Pass),
        (999, Verdict::Pass),
        (1_000, Verdict::Signal),
        (far, Verdict::Signal),
        (1_010, Verdict::Pass),
        (1_109, Verdict::Pass),
        (1_110, Verdict::Signal),
    ] {
        assert_eq!(aqm.params.verdict(&mut state, standing(ms * MS, 6 * MS)), expected, "at {ms}");
    }
    // A phase of signalling that begins with the wrong timestamp, and an interval that does.
    for first in [1_100, far - 1] {
        let mut state = CoDelState::EMPTY;
        for (ms, expected) in [
            (first - 100, Verdict::Pass),
            (first, Verdict::Signal),
            (0, Verdict::Pass),
            (99, Verdict::Pass),
            (100, Verdict::Signal),
        ] {
            let judged = aqm.params.verdict(&mut state, standing(ms * MS, 6 * MS));
            assert_eq!(judged, expected, "at {ms}");
        }
    }
    let mut state = CoDelState::EMPTY;
    assert_eq!(aqm.params.verdict(&mut state, standing(u64::MAX, 6 * MS)), Verdict::Pass);
    assert_ne!(state.phase, SIGNALLING, "one packet is not a standing queue");
    for (ms, expected) in [(0, Verdict::Pass), (99, Verdict::Pass), (100, Verdict::Signal)] {
        assert_eq!(aqm.params.verdict(&mut state, standing(ms * MS, 6 * MS)), expected, "at {ms}");
    }
}

#[test]
fn parameters_out_of_range_are_refused_by_name() {
    let good = CoDelParams::INTERNET;
    let refusal = |params| match CoDel::new([CoDelState::EMPTY; 4], params).map(|_| ()) {
        Err(ConfigError::OutOfRange { what, min, max, .. }) => Some((what, min, max)),
        _ => None,
    };
    let (interval, target, mtu) =
        ("CoDel interval in ns", "CoDel target in ns", "CoDel MTU in bytes");
    let longest = (1 << 33) - 1;
    for ns in [0, 1_023, longest + 1] {
        let params = CoDelParams { interval: Nanos(ns), ..good };
        assert_eq!(refusal(params), Some((interval, 1_024, longest)));
    }
    for ns in [0, 1_023, 100_000_001] {
        let params = CoDelParams { target: Nanos(ns), ..good };
        assert_eq!(refusal(params), Some((target, 1_024, 100_000_000)));
    }
    for bytes in [0, Packet::MAX_LEN + 1] {
        let params = CoDelParams { mtu: bytes, ..good };
        assert_eq!(refusal(params), Some((mtu, 1, 1 << 20)));
    }
    let edges = CoDelParams { target: Nanos(1_024), interval: Nanos(1_024), mtu: 1 };
    assert_eq!(CoDel::new([CoDelState::EMPTY; 4], edges).unwrap().params(), edges);
    assert_eq!(refusal(CoDelParams { interval: Nanos(longest), ..good }), None);
}

#[test]
fn a_state_is_twenty_four_bytes() {
    assert_eq!(size_of::<CoDelState>(), 24);
}

#[test]
fn parameters_change_under_load_or_not_at_all() {
    let mut aqm = CoDel::new([CoDelState::EMPTY; 1], CoDelParams::INTERNET).unwrap();
    let standing_since = |aqm: &mut CoDel<[CoDelState; 1]>, ms: u64| {
        aqm.judge(FlowId(0), standing(ms * MS, 6 * MS), Look::Close)
    };
    assert_eq!(standing_since(&mut aqm, 0), Verdict::Pass);
    let bad = CoDelParams { interval: Nanos::ZERO, ..CoDelParams::INTERNET };
    assert!(aqm.set_params(bad).is_err());
    assert_eq!(aqm.params(), CoDelParams::INTERNET);
    assert_eq!(standing_since(&mut aqm, 100), Verdict::Signal);
    // A target above the sojourn time ends the phase with the next packet.
    let lax = CoDelParams { target: Nanos(7 * MS), ..CoDelParams::INTERNET };
    aqm.set_params(lax).unwrap();
    assert_eq!(standing_since(&mut aqm, 900), Verdict::Pass);
    assert_eq!(aqm.params(), lax);
}

/// Goal: foreseeing returns packet after packet the verdicts of judging, and changes nothing; nor
/// does a glance. Method: queues in every phase, with three heads on either side of both limits; a
/// queue beyond the states.
#[test]
fn what_is_foreseen_is_what_is_judged() {
    let (mut seen, mut glanced) = ([0; 2], [0; 2]);
    for steps in 0..300 {
        let mut aqm = codel(1_514);
        for step in 0..steps {
            aqm.judge(FlowId(0), standing(step * MS, 6 * MS), Look::Close);
        }
        for kinds in 0..64_u32 {
            let heads = [0_u32, 2, 4].map(|shift| Head {
                now: Nanos((steps + 50 * u64::from(shift)) * MS),
                sojourn: Nanos(5 * MS - u64::from(kinds >> shift & 1)),
                bytes_behind: 1_515 - (kinds >> shift >> 1 & 1),
                packets: 2,
                ecn: Ecn::NotEct,
            });
            let mut judge = aqm.clone();
            let foreseen = {
                let mut foresee = aqm.foresee(FlowId(0));
                heads.map(&mut foresee)
            };
            let mut glances = 0;
            let judged = heads.map(|head| {
                let before = judge.clone();
                let glance = judge.judge(FlowId(0), head, Look::Glance);
                assert_eq!(judge.states, before.states);
                if glance == Verdict::Pass {
                    glances += 1;
                    return glance;
                }
                assert_eq!(glance, Verdict::Unclear);
                judge.judge(FlowId(0), head, Look::Close)
            });
            glanced[usize::from(glances > 0)] += 1;
            assert_eq!(foreseen, judged);
            seen[usize::from(judged.contains(&Verdict::Signal))] += 1;
        }
    }
    assert!(seen.iter().chain(&glanced).all(|&times| times >= 300), "{seen:?} {glanced:?}");
    let beyond = FlowId(4);
    assert_eq!(codel(1_514).foresee(beyond)(standing(0, 6 * MS)), Verdict::Pass);
    let looks = [Look::Glance, Look::Close];
    let judged = looks.map(|look| codel(1_514).judge(beyond, standing(0, 6 * MS), look));
    assert_eq!(judged, [Verdict::Unclear, Verdict::Pass]);
}
