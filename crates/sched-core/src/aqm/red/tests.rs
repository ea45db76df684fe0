#![expect(
    clippy::float_arithmetic,
    clippy::cast_possible_wrap,
    reason = "the twin and the exact values are floats"
)]

use super::*;
use crate::{Backlog, Ecn, Packet};
use conformance::Xorshift;
use std::vec::Vec;

const FLOW: FlowId = FlowId(0);

fn red(params: RedParams) -> Red<[RedState; 2]> {
    Red::new([RedState::EMPTY; 2], params, 3).unwrap()
}

fn offer(now: u64, bytes: u32) -> Offer {
    let packets = bytes.div_ceil(1_000);
    Offer { now: Nanos(now), packet: Packet::new(0, 1_000), held: Backlog { packets, bytes } }
}

fn last_leaves(red: &mut Red<[RedState; 2]>, now: u64) {
    let (now, sojourn) = (Nanos(now), Nanos(0));
    let head = Head { now, sojourn, bytes_behind: 0, packets: 1, ecn: Ecn::NotEct };
    assert_eq!(red.judge(FLOW, head, Look::Close), Verdict::Pass);
}

#[test]
fn parameters_out_of_range_are_named() {
    let good = RedParams::new(1, 2);
    assert_eq!(good.check(), Ok(()));
    assert_eq!(RedParams::new((1 << 30) - 1, 1 << 30).check(), Ok(()));
    let bad = [
        (RedParams::new(0, 2), "RED first threshold in bytes"),
        (RedParams::new(2, 2), "RED first threshold in bytes"),
        (RedParams::new(1, 1), "RED second threshold in bytes"),
        (RedParams::new(0, 0), "RED second threshold in bytes"),
        (RedParams::new(1, (1 << 30) + 1), "RED second threshold in bytes"),
        (good.with_max_probability(Probability::NEVER), "RED probability in parts of 2^32"),
        (good.with_weight(0), "RED weight"),
        (good.with_weight(17), "RED weight"),
        (good.with_weight(u32::MAX), "RED weight"),
        (good.with_packet_time(Nanos(0)), "RED packet time in ns"),
        (good.with_packet_time(Nanos((1 << 30) + 1)), "RED packet time in ns"),
        (good.with_packet_time(Nanos::MAX), "RED packet time in ns"),
    ];
    for (params, name) in bad {
        let mut subject = red(good);
        for error in
            [Red::new([RedState::EMPTY; 2], params, 3).err(), subject.set_params(params).err()]
        {
            let named = matches!(error, Some(ConfigError::OutOfRange { what, .. }) if what == name);
            assert!(named, "{params:?}: {error:?}");
        }
        assert_eq!(subject.params(), good);
    }
}

/// Goal: the average moves by its weight, and falls while the queue is empty. Method: calculated
/// manually with a weight of 1/2. 1,000 bytes make 500, then 750 of 1,000; after three packet times
/// an eighth of that.
#[test]
fn the_average_is_the_one_computed_by_hand() {
    let mut red = red(RedParams::new(10_000, 20_000).with_weight(1).with_packet_time(Nanos(1_000)));
    let average_after = |red: &mut Red<_>, now, bytes| {
        assert_eq!(red.admit(FLOW, offer(now, bytes), Look::Close), Admission::Accept);
        red.average(FLOW)
    };
    assert_eq!(average_after(&mut red, 0, 1_000), 500);
    assert_eq!(average_after(&mut red, 10, 1_000), 750);
    last_leaves(&mut red, 5_000);
    assert_eq!(average_after(&mut red, 8_000, 0), 93);
    // The queue stayed empty: the time up to 8,000 is not counted twice.
    assert_eq!(average_after(&mut red, 8_999, 0), 93);
    assert_eq!(average_after(&mut red, 7_000, 0), 93, "a clock that steps back stands still");
    assert_eq!(average_after(&mut red, 8_000, 0), 46);
    assert_eq!(average_after(&mut red, 8_000 + 64_000, 0), 0);
    assert_eq!(red.average(FlowId(2)), 0);
}

/// Goal: hours and centuries of silence are one step, exact to 10^-4. Method: few and many packets,
/// and powers of two, against powers in floats; packet times from 1 ns to a second.
#[test]
fn silence_is_a_power_of_the_weight() {
    for weight in 1..=RedParams::MAX_WEIGHT {
        for time in [1, 1_000, 1_200_000, 999_999_937, 1 << 30] {
            let params = RedParams::new(1, 2).with_weight(weight).with_packet_time(Nanos(time));
            let law = params.law().unwrap();
            let average = 1_u64 << 50;
            let counts = (0..200).chain((0..31).map(|bit| 1 << bit)).chain([1_000, 1_001, 5_000]);
            for packets in counts {
                // In the middle of a packet time, away from the rounding of their number.
                let idle = Nanos(packets * time + time / 2);
                let left = law.decayed(average, idle) as f64 / average as f64;
                let exact = (1.0 - 0.5_f64.powi(weight as i32)).powi(packets as i32);
                // The reciprocal of the packet time is rounded up, by less than 2^-42 per
                // nanosecond.
                let more =
                    (0.5 + (packets as f64 + 0.5) * time as f64 / 4_398_046_511_104.0).floor();
                let least = exact * (1.0 - 0.5_f64.powi(weight as i32)).powf(more);
                let (low, high) = (least * (1.0 - 1e-4) - 1e-9, exact * (1.0 + 1e-4) + 1e-9);
                let is_near = (low..=high).contains(&left);
                assert!(is_near, "1/2^{weight}, {packets} of {time} ns: {left}, {exact}");
            }
            assert_eq!(law.decayed(average, Nanos::MAX), 0);
            assert_eq!(
                law.decayed(u64::from(u32::MAX) << FRACTION, Nanos(0)),
                u64::from(u32::MAX) << FRACTION
            );
        }
    }
}

/// Returns the gaps between signals at a constant average.
fn gaps(params: RedParams, bytes: u32, arrivals: u32) -> Vec<u32> {
    let mut red = red(params.with_weight(1));
    let (mut gaps, mut gap) = (Vec::new(), 0);
    for now in 0..arrivals {
        gap += 1;
        if red.admit(FLOW, offer(now.into(), bytes), Look::Close) != Admission::Accept {
            gaps.push(gap);
            gap = 0;
        }
    }
    gaps.split_off(20.min(gaps.len()))
}

/// Goal: gaps between signals are uniform in 1 to 1/p (Floyd and Jacobson, §7, method 2). Method:
/// the average just above the middle of the thresholds, a probability of 1/5 at the second, so p =
/// 1/10: each gap from 1 to 10 is equally frequent, to five standard deviations, and none is
/// longer.
#[test]
fn distances_between_signals_are_uniform() {
    let params =
        RedParams::new(10_000, 30_000).with_max_probability(Probability::ratio(1, 5).unwrap());
    let gaps = gaps(params, 20_002, 1_000_000);
    let mut counts = [0_u64; 12];
    for &gap in &gaps {
        counts[gap.min(11) as usize] += 1;
    }
    let all = gaps.len() as u64;
    assert_eq!(counts[11], 0, "{counts:?}");
    let five_deviations = 5 * (all * 9 / 100).isqrt();
    for count in &counts[1..=10] {
        assert!(count.abs_diff(all / 10) < five_deviations, "{counts:?}");
    }
}

#[test]
fn below_the_first_threshold_no_arrival_is_told_and_beyond_the_last_all_are() {
    let params = RedParams::new(10_000, 30_000).with_max_probability(Probability::ALWAYS);
    assert_eq!(gaps(params, 9_999, 10_000), []);
    assert_eq!(gaps(params.gentle(), 9_999, 10_000), []);
    assert_eq!(gaps(params, 30_001, 1_000).iter().max(), Some(&1));
    assert_eq!(gaps(params.gentle(), 60_001, 1_000).iter().max(), Some(&1));
    let often =
        RedParams::new(10_000, 30_000).with_max_probability(Probability::ratio(1, 10).unwrap());
    // Half way to twice the second threshold: 1/10 + 9/10 · 1/2.
    let gentle = gaps(often.gentle(), 45_000, 100_000);
    let mean = f64::from(gentle.iter().sum::<u32>()) / gentle.len() as f64;
    assert!(gentle.iter().all(|&gap| gap <= 2) && (1.3..1.6).contains(&mean), "{mean}");
}

/// Goal: ECN-capable packets are marked between the thresholds, and rejected above.
#[test]
fn above_the_second_threshold_arrivals_are_turned_away_and_not_marked() {
    let params = RedParams::new(10_000, 30_000).with_weight(1).gentle();
    let params = params.with_max_probability(Probability::ALWAYS);
    for (bytes, expected) in [(29_000, Admission::Signal), (31_000, Admission::Refuse)] {
        let mut red = red(params);
        let mut last = Admission::Accept;
        for now in 0..100 {
            last = red.admit(FLOW, offer(now, bytes), Look::Close);
        }
        assert_eq!(last, expected, "{bytes} bytes");
    }
}

/// Goal: the probability at the second threshold rises above 6/10 of the way and falls below 4/10,
/// once per half second, between 0.01 and 0.5, and a silence is one step. Method: calculated
/// manually from 0.02.
#[test]
fn an_adaptive_probability_follows_the_average() {
    let mut red = red(RedParams::new(10_000, 20_000).with_weight(1).adaptive());
    let mut at = |now: u64, bytes: u32| {
        for _ in 0..40 {
            red.admit(FLOW, offer(now, bytes), Look::Close);
        }
        f64::from(red.states[0].probability) / 4_294_967_296.0
    };
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-6, "{found}, not {expected}")
    };
    let half = 500_000_000;
    near(at(7, 17_000), 0.02);
    near(at(6 + half, 17_000), 0.02);
    near(at(7 + half, 17_000), 0.025);
    near(at(7 + 2 * half, 17_000), 0.031_25);
    near(at(7 + 3 * half, 15_000), 0.031_25);
    // The first arrival of a step still sees the average from before, which is 15,000.
    near(at(7 + 4 * half, 13_000), 0.031_25);
    near(at(7 + 5 * half, 13_000), 0.028_125);
    near(at(7 + 5_000 * half, 13_000), 0.025_312_5);
    for step in 1..200 {
        at(7 + (5_000 + step) * half, 13_000);
    }
    near(at(7 + 5_300 * half, 13_000), 0.01);
    for step in 1..200 {
        at(7 + (5_300 + step) * half, 19_000);
    }
    near(at(7 + 5_600 * half, 19_000), 0.5);
}

/// Goal: one timestamp far ahead does not stop the adaptation.
#[test]
fn a_wrong_clock_does_no_lasting_harm() {
    let mut red = red(RedParams::new(10_000, 20_000).with_weight(1).adaptive());
    let mut at = |now: u64| {
        red.admit(FLOW, offer(now, 19_000), Look::Close);
        red.states[0].probability
    };
    let half = 500_000_000;
    at(0);
    at(u64::MAX);
    let before = at(half);
    assert!(at(2 * half) > before);
}

/// Goal: a step back of the clock adapts nothing. Method: an arrival every half second, and one
/// with the timestamp of another processor, which is a microsecond behind.
#[test]
fn readings_of_two_processors_adapt_once() {
    let mut red = red(RedParams::new(10_000, 20_000).with_weight(1).adaptive());
    let mut at = |now: u64| {
        red.admit(FLOW, offer(now, 19_000), Look::Close);
        red.states[0].probability
    };
    let mut last = at(5_000_000_000);
    for step in 1..10 {
        let now = 5_000_000_000 + step * 600_000_000;
        let here = at(now);
        assert_eq!(at(now - 1_000), here, "step {step}");
        assert!(here > last || step < 3, "step {step}");
        last = here;
    }
}

#[test]
fn a_flow_that_was_removed_leaves_nothing_behind() {
    let mut red = red(RedParams::new(1_000, 2_000).with_weight(1).adaptive());
    for now in 0..100 {
        red.admit(FLOW, offer(now, 9_000), Look::Close);
    }
    assert_ne!(red.states[0], RedState::EMPTY);
    red.forget(FLOW);
    red.forget(FlowId(2));
    assert_eq!(red.states[0], RedState::EMPTY);
}

/// Reference model: RED as published, in floats.
struct Twin {
    params: RedParams,
    average: f64,
    probability: f64,
    adapted: Option<u64>,
    count: i64,
    empty_since: u64,
    random: Random,
}

impl Twin {
    fn admit(&mut self, now: u64, bytes: u32, packets: u32) -> (Admission, f64) {
        let weight = 0.5_f64.powi(self.params.weight as i32);
        if packets > 0 {
            self.average = (1.0 - weight) * self.average + weight * f64::from(bytes);
        } else {
            let could_have_left = now.saturating_sub(self.empty_since) / self.params.packet_time.0;
            self.average *= (1.0 - weight).powf(could_have_left as f64);
            self.empty_since = now;
        }
        let (min, max) =
            (f64::from(self.params.min_threshold), f64::from(self.params.max_threshold));
        if self.params.adaptive {
            self.adapt(now, min + 0.4 * (max - min), min + 0.6 * (max - min));
        }
        // Distance from the nearest decision boundary; 0 is on it.
        let edge = [min, max, 2.0 * max].map(|at| (self.average - at).abs() / at);
        let edge = edge.into_iter().fold(f64::MAX, f64::min);
        if self.average < min {
            self.count = 0;
            return (Admission::Accept, edge);
        }
        let p = if self.average < max {
            self.probability * (self.average - min) / (max - min)
        } else if self.params.gentle && self.average < 2.0 * max {
            self.probability + (1.0 - self.probability) * (self.average - max) / max
        } else {
            self.count = 0;
            return (Admission::Refuse, edge);
        };
        let drawn = f64::from(self.random.next_u32()) / 4_294_967_296.0;
        let left = 1.0 - self.count as f64 * p;
        let chance = if left <= 0.0 { 1.0 } else { p / left };
        let edge = edge.min((drawn - chance).abs());
        self.count += 1;
        if drawn >= chance {
            return (Admission::Accept, edge);
        }
        self.count = 0;
        (if self.average < max { Admission::Signal } else { Admission::Refuse }, edge)
    }

    fn adapt(&mut self, now: u64, low: f64, high: f64) {
        let Some(adapted) = self.adapted else {
            self.probability = self.probability.clamp(0.01, 0.5);
            self.adapted = Some(now);
            return;
        };
        if now.saturating_sub(adapted) < 500_000_000 {
            return;
        }
        self.adapted = Some(now);
        if self.average > high {
            self.probability = (self.probability + (self.probability / 4.0).min(0.01)).min(0.5);
        } else if self.average < low {
            self.probability = (self.probability * 0.9).max(0.01);
        }
    }
}

/// Goal: the integers follow the definition. Method: random sequences of operations against a
/// reference model in floats that draws the same numbers; averages agree to 10^-4 and a byte,
/// verdicts always, except where the model itself was within 10^-3 of the other one. There both
/// restart, which is rare.
#[test]
fn it_does_as_its_twin_in_floats() {
    let mut told = 0;
    for case in 0..40_u64 {
        let params = RedParams::new(3_000 + 100 * case as u32, 20_000)
            .with_weight(1 + (case % 9) as u32)
            .with_packet_time(Nanos(1_000 + 997 * case))
            .with_max_probability(Probability::ratio(1, 2 + case as u32).unwrap());
        let params = if case % 2 == 0 { params } else { params.gentle() };
        let params = if case % 3 == 0 { params } else { params.adaptive() };
        let (mut random, mut now, mut edges) = (Xorshift::new(case + 1), 1_u64 << 30, 0);
        let begin = |random| {
            let probability = f64::from(params.max_probability.raw()) / 4_294_967_296.0;
            let twin = Twin {
                params,
                average: 0.0,
                probability,
                adapted: None,
                count: 0,
                empty_since: 0,
                random,
            };
            (red(params), twin)
        };
        let (mut subject, mut twin) = begin(Random::new(case));
        subject.random = twin.random;
        let mut level = 0_u32;
        for step in 0..20_000 {
            now += u64::from(random.below(40_000));
            if step % 1_000 == 999 {
                now += 3_000_000_000_000;
            }
            level = (level + random.below(4_000)).saturating_sub(random.below(3_700)).min(50_000);
            let bytes = if random.below(200) == 0 { 0 } else { level };
            if bytes == 0 {
                level = 0;
                last_leaves(&mut subject, now);
                twin.empty_since = now;
                now += u64::from(random.below(300_000));
            }
            let found = subject.admit(FLOW, offer(now, bytes), Look::Close);
            let (expected, edge) = twin.admit(now, bytes, bytes.div_ceil(1_000));
            let average = f64::from(subject.average(FLOW));
            if edge < 1e-3 {
                edges += 1;
                (subject, twin) = begin(Random::new(step));
                subject.random = twin.random;
                continue;
            }
            assert!(
                (average - twin.average).abs() < 1.5 + 1e-4 * twin.average,
                "{average}, {}",
                twin.average
            );
            assert_eq!(found, expected, "case {case}, step {step}, edge {edge}");
            told += u32::from(found != Admission::Accept);
        }
        assert!(edges < 200, "case {case}: {edges} times on the edge");
    }
    assert!(told > 10_000, "{told}");
}

#[test]
fn sizes_are_as_documented() {
    assert_eq!(size_of::<RedState>(), 32);
    assert!(size_of::<Red<[RedState; 0]>>() <= 224, "{}", size_of::<Red<[RedState; 0]>>());
}
