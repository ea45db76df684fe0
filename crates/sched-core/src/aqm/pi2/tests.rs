use super::*;
use crate::tests::packets::{self, MS, as_float, standing};
use conformance::effort::effort;
use conformance::{Xorshift, scramble};
use std::collections::VecDeque;
use std::vec::Vec;

fn pi2(params: Pi2Params) -> Pi2<[Pi2State; 4]> {
    Pi2::new([Pi2State::EMPTY; 4], params, 1).unwrap()
}

fn offer(now: u64, packets: u32, ecn: Ecn) -> Offer {
    let offer = packets::offer(now, packets);
    Offer { packet: Packet { ecn, ..offer.packet }, ..offer }
}

/// Goal: the controller of RFC 9332, appendix A, at its defaults, calculated manually: a delay of
/// 50 ms from nothing gives 0.16·0.035 + 3.2·0.05 = 0.1656, and 0.0056 with each further update.
#[test]
fn a_constant_delay_raises_the_probability_linearly() {
    let mut aqm = pi2(Pi2Params::default());
    aqm.admit(FlowId(0), offer(0, 0, Ecn::NotEct), Look::Close);
    aqm.judge(FlowId(0), standing(1, 50 * MS), Look::Glance);
    for update in 1..=100_u32 {
        let now = u64::from(update) * 16 * MS;
        assert_eq!(aqm.judge(FlowId(0), standing(now - 1, 50 * MS), Look::Glance), Verdict::Pass);
        assert_eq!(aqm.judge(FlowId(0), standing(now, 50 * MS), Look::Glance), Verdict::Unclear);
        aqm.judge(FlowId(0), standing(now, 50 * MS), Look::Close);
        let by_hand = (0.16 + 0.0056 * f64::from(update)).min(1.0);
        let p = as_float(aqm.states[0].pi.p);
        assert!((p - by_hand).abs() < 1e-9, "{update}: {p}, by hand {by_hand}");
    }
}

/// Creates a queue whose `p'` is `parts` of 1,000.
fn at_probability(parts: u32) -> Pi2<[Pi2State; 4]> {
    let mut aqm = pi2(Pi2Params::default());
    let p = u64::from(Probability::ratio(parts, 1_000).unwrap().raw()) << 32;
    aqm.states[0] = Pi2State { pi: Pi { p, before: 50_000_000, ..Pi::EMPTY }, delay: 50_000_000 };
    aqm
}

/// Returns marks and rejections among `arrivals` packets of this codepoint.
fn told(aqm: &mut Pi2<[Pi2State; 4]>, ecn: Ecn, arrivals: u32) -> [u64; 2] {
    let mut told = [0; 2];
    for _ in 0..arrivals {
        match aqm.admit(FlowId(0), offer(1, 40, ecn), Look::Close) {
            Admission::Accept => {}
            Admission::Signal => told[0] += 1,
            _ => told[1] += 1,
        }
    }
    told
}

/// Goal: classic packets are signalled with p'², scalable ones with k·p'; from k·p' = 1 on both are
/// rejected with p'². Method: 200,000 arrivals at each probability; five standard deviations.
#[test]
fn classic_packets_meet_the_square_and_scalable_ones_the_multiple() {
    let arrivals = 200_000;
    let near = |count: u64, parts_of_a_million: u64| {
        let parts = parts_of_a_million / 5;
        let five = 5 * (parts * (200_000 - parts) / 200_000).isqrt() + 5;
        assert!(count.abs_diff(parts) <= five, "{count} and not {parts}");
    };
    for parts in [1, 30, 100, 300, 499, 500, 700, 999] {
        let mut aqm = at_probability(parts);
        let square = u64::from(parts * parts);
        let is_overloaded = parts >= 500;
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let [signals, refusals] = told(&mut aqm, ecn, arrivals);
            near(if is_overloaded { refusals } else { signals }, square);
            assert_eq!(if is_overloaded { signals } else { refusals }, 0);
        }
        for ecn in [Ecn::Ect1, Ecn::Ce] {
            let [signals, refusals] = told(&mut aqm, ecn, arrivals);
            if is_overloaded {
                near(refusals, square);
                assert_eq!(signals + refusals, u64::from(arrivals));
            } else {
                near(signals, u64::from(2_000 * parts));
                assert_eq!(refusals, 0);
            }
        }
    }
    assert_eq!(told(&mut at_probability(0), Ecn::Ect1, 1_000), [0, 0]);
    let mut certain = at_probability(1_000);
    certain.states[0].pi.p = ONE;
    assert_eq!(told(&mut certain, Ecn::Ect1, 1_000), [0, 1_000]);
    assert_eq!(told(&mut certain, Ecn::NotEct, 1_000), [0, 1_000]);
}

/// Goal: a queue of at most two packets is not signalled.
#[test]
fn two_packets_are_spared() {
    let mut aqm = at_probability(999);
    let any = |aqm: &mut Pi2<[Pi2State; 4]>, packets| {
        (0..99).any(|_| {
            aqm.admit(FlowId(0), offer(1, packets, Ecn::Ect1), Look::Close) != Admission::Accept
        })
    };
    assert!(!any(&mut aqm, 2) && any(&mut aqm, 3));
}

/// Goal: the probability is that of a controller with a timer, to 10^-9, in queues and silences of
/// any length. Method: random series against floating point; a silence while packets are queued is
/// of at most eight updates.
#[test]
fn agrees_with_a_controller_that_has_a_timer() {
    let mut compared = 0;
    for seed in 1..=effort(30, 600_u64) {
        let mut rng = Xorshift::new(scramble(seed));
        let target = [15, 5, 40][rng.below(3) as usize];
        let params = Pi2Params {
            alpha_millihertz: [160, 20, 1_000][rng.below(3) as usize],
            ..Pi2Params::new(Nanos::from_millis(target))
        };
        let mut aqm = Pi2::new([Pi2State::EMPTY; 1], params, seed).unwrap();
        let mut queue: VecDeque<u64> = VecDeque::new();
        let (mut now, mut load, mut spacing) = (rng.next_u64() >> 24, 1, 1);
        let (mut p, mut delay, mut before, mut next) = (0.0_f64, 0.0, 0.0, u64::MAX);
        for step in 0..10_000 {
            if step % 500 == 0 {
                spacing = [300_000, 1_000_000, 3_000_000][rng.below(3) as usize];
                load = [2, 95, 105, 150][rng.below(4) as usize];
            }
            now += 1 + u64::from(rng.below(2 * spacing));
            if rng.below(1_000) == 0 {
                now += u64::from(rng.below(7)) * params.period.0;
            }
            while next <= now {
                next += params.period.0;
                if queue.is_empty() {
                    delay = 0.0;
                }
                let off = (delay - target as f64 / 1e3, delay - before);
                let alpha = f64::from(params.alpha_millihertz) / 1e3;
                p = (p + alpha * off.0 + 3.2 * off.1).clamp(0.0, 1.0);
                before = delay;
            }
            while queue.len() < 300 && rng.below(200) < load {
                let first = queue.is_empty();
                aqm.admit(FlowId(0), offer(now, queue.len() as u32, Ecn::Ect0), Look::Close);
                if first && p == 0.0 {
                    (delay, before, next) = (0.0, 0.0, now + params.period.0);
                }
                queue.push_back(now);
                let ours = as_float(aqm.states[0].pi.p);
                assert!((ours - p).abs() < 1e-9, "seed {seed} step {step}: {ours} and not {p}");
                compared += 1;
            }
            if let Some(arrival) = queue.pop_front() {
                aqm.judge(FlowId(0), standing(now, now - arrival), Look::Close);
                delay = (now - arrival) as f64 / 1e9;
            }
        }
    }
    assert!(compared > effort(100_000, 2_000_000), "{compared}");
}

/// Goal: a silence costs a bounded number of updates, in closed form if the queue was empty.
#[test]
fn a_silence_of_any_length_is_made_up_for_in_bounded_work() {
    let idle = |updates: u64| {
        let mut aqm = at_probability(900);
        aqm.admit(FlowId(0), offer(updates * 16 * MS, 0, Ecn::NotEct), Look::Close);
        aqm.states[0]
    };
    let one_by_one = |updates| {
        let mut state = at_probability(900).states[0];
        let gains = Pi2Params::default().check().unwrap();
        (1..=updates).for_each(|update: u64| state.pi.begin(Nanos(update * 16 * MS), &gains));
        state.pi.p
    };
    for updates in [1, 2, 9, 100, 200, 307, 308, 1_000] {
        assert_eq!(idle(updates).pi.p, one_by_one(updates), "{updates}");
    }
    assert_eq!(idle(1 << 39).pi.p, 0);
    let stuck = |now| {
        let mut aqm = at_probability(100);
        aqm.states[0].delay = 20_000_000;
        aqm.judge(FlowId(0), standing(now, 0), Look::Close);
        aqm.states[0].pi
    };
    assert_eq!(stuck(u64::MAX - 1).p, stuck(8 * 16 * MS).p);
    assert_eq!(stuck(u64::MAX - 1).updated, Nanos(u64::MAX - 1));
}

/// Goal: a step back of the clock counts as no time, and one timestamp far ahead has no lasting
/// effect.
#[test]
fn a_wrong_clock_does_no_lasting_harm() {
    let mut aqm = at_probability(100);
    aqm.states[0].pi.updated = Nanos(100 * MS);
    let p = aqm.states[0].pi.p;
    aqm.judge(FlowId(0), standing(50 * MS, 50 * MS), Look::Close);
    assert_eq!((aqm.states[0].pi.p, aqm.states[0].pi.updated), (p, Nanos(50 * MS)));
    for now in [66 * MS, u64::MAX, 70 * MS, 86 * MS] {
        aqm.judge(FlowId(0), standing(now, 50 * MS), Look::Close);
    }
    assert_eq!(aqm.states[0].pi.updated, Nanos(86 * MS));
    assert!(aqm.states[0].pi.p > p);
    aqm.admit(FlowId(0), offer(10 * MS, 0, Ecn::NotEct), Look::Close);
    assert_eq!(aqm.states[0].pi.updated, Nanos(10 * MS));
}

/// Goal: a flow that inherits a queue inherits no probability; other parameters keep the state.
#[test]
fn what_was_learned_stays_with_its_flow() {
    let mut aqm = at_probability(200);
    let learned = aqm.states[0];
    let params = Pi2Params { coupling: 3, ..Pi2Params::new(Nanos(5_000_000)) };
    aqm.set_params(params).unwrap();
    aqm.overflowed(FlowId(0));
    aqm.emptied(FlowId(0));
    assert_eq!((aqm.params(), aqm.states[0]), (params, learned));
    assert_eq!(aqm.probability(FlowId(0)), Probability::ratio(1, 5).unwrap());
    aqm.forget(FlowId(0));
    assert_eq!(aqm.states[0], Pi2State::EMPTY);
    for flow in [FlowId(4), FlowId(u32::MAX)] {
        aqm.forget(flow);
        assert_eq!(aqm.admit(flow, offer(0, 99, Ecn::Ect1), Look::Close), Admission::Accept);
        assert_eq!(aqm.judge(flow, standing(0, 99 * MS), Look::Glance), Verdict::Pass);
        assert_eq!(aqm.probability(flow), Probability::NEVER);
    }
}

#[test]
fn parameters_outside_their_ranges_are_refused() {
    type Change = fn(&mut Pi2Params);
    let changes: [(Change, Option<&str>); 13] = [
        (|params| params.target = Nanos(0), Some("PI2 target in ns")),
        (|params| params.target = Nanos(1_000_000_001), Some("PI2 target in ns")),
        (|params| params.target = Nanos(1_024), None),
        (|params| params.period = Nanos(0), Some("PI2 period in ns")),
        (|params| params.period = Nanos(1), Some("PI2 period in ns")),
        (|params| params.period = Nanos(1_000_000_000), None),
        (|params| params.alpha_millihertz = 0, Some("PI2 alpha in mHz")),
        (|params| params.beta_millihertz = 0, Some("PI2 beta in mHz")),
        (|params| params.beta_millihertz = 1_000_001, Some("PI2 beta in mHz")),
        (|params| params.coupling = 0, Some("PI2 coupling")),
        (|params| params.coupling = 17, Some("PI2 coupling")),
        (|params| params.mtu = 0, Some("PI2 MTU in bytes")),
        (|params| params.mtu = (1 << 20) + 1, Some("PI2 MTU in bytes")),
    ];
    for (change, refused) in changes {
        let mut params = Pi2Params::default();
        change(&mut params);
        let mut aqm = pi2(Pi2Params::default());
        let outcome = aqm.set_params(params);
        assert_eq!(aqm.params() == params, outcome.is_ok());
        assert_eq!(Pi2::new([Pi2State::EMPTY; 1], params, 0).err(), outcome.err());
        let what = match outcome {
            Ok(()) => None,
            Err(ConfigError::OutOfRange { what, .. }) => Some(what),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(what, refused);
    }
}

/// Goal: a seed determines the verdicts, and another one gives others.
#[test]
fn verdicts_are_those_of_the_seed() {
    let verdicts = |seed| -> Vec<Admission> {
        let mut aqm = at_probability(300);
        aqm.random = Random::new(seed);
        (0..200).map(|_| aqm.admit(FlowId(0), offer(1, 40, Ecn::Ect1), Look::Close)).collect()
    };
    assert_eq!(verdicts(1), verdicts(1));
    assert_ne!(verdicts(1), verdicts(2));
}

/// Goal: the delay from before a pause does not count for the packets after it. Method: an update
/// in the pause, and one before the first packet has left: each sees a delay of zero.
#[test]
fn a_pause_ends_the_delay_of_the_packets_before_it() {
    let mut aqm = at_probability(900);
    aqm.admit(FlowId(0), offer(16 * MS, 0, Ecn::NotEct), Look::Close);
    let after_pause = aqm.states[0].pi;
    aqm.admit(FlowId(0), offer(32 * MS, 1, Ecn::NotEct), Look::Close);
    let gains = Pi2Params::default().check().unwrap();
    let expected = super::super::pi::moved(after_pause.p, gains.step(0, 0, 0));
    assert_eq!((aqm.states[0].pi.p, aqm.states[0].pi.before), (expected, 0));
}
