use super::*;
use crate::tests::packets::{MS, offer};
use crate::{Descriptor, Drr, DrrFlow, Ecn, FlowQueues, Limits, Packet, Queue, Scheduler};
use conformance::effort::effort;
use conformance::{Xorshift, scramble};

const HOUR: u64 = 3_600_000 * MS;
const UP: u32 = 1 << 24;
const DOWN: u32 = 1 << 20;

type Four = Blue<[BlueState; 4]>;

fn blue(params: BlueParams) -> Four {
    Blue::new([BlueState::EMPTY; 4], params, 7).unwrap()
}

fn admit(aqm: &mut Four, now: u64, packets: u32) -> Admission {
    aqm.admit(FlowId(0), offer(now, packets), Look::Close)
}

fn overflow(aqm: &mut Four, now: u64) {
    let _told = admit(aqm, now, 9);
    aqm.overflowed(FlowId(0));
}

fn leave(aqm: &mut Four, now: u64, sojourn: u64, bytes_behind: u32) {
    let (now, sojourn, packets) = (Nanos(now), Nanos(sojourn), 1 + bytes_behind);
    let head = Head { now, sojourn, bytes_behind, packets, ecn: Ecn::NotEct };
    for look in [Look::Glance, Look::Close] {
        let before = aqm.states;
        match aqm.judge(FlowId(0), head, look) {
            Verdict::Unclear => assert_eq!(aqm.states, before, "a glance that is not enough"),
            verdict => {
                assert_eq!(verdict, Verdict::Pass);
                assert_eq!(aqm.foresee(FlowId(0))(head), Verdict::Pass);
                return;
            }
        }
    }
    panic!("unclear at a close look");
}

fn chance(aqm: &Four) -> u32 {
    aqm.probability(FlowId(0)).raw()
}

/// Goal: the probability of ns-3's test: 200 packets at once, then 100 dequeues, one every 10 ms,
/// where a sojourn time above 400 ms counts as an overflow: 60/256.
#[test]
fn waiting_counts_as_an_overflow_as_in_ns3() {
    let params = BlueParams::DEFAULT
        .with_freeze(Nanos::from_millis(5))
        .with_longest_wait(Nanos::from_millis(400));
    let blue = Blue::new([BlueState::EMPTY], params, 1).unwrap();
    let mut drr = Drr::new([DrrFlow::EMPTY], 1_514).unwrap();
    drr.add_all(1_514).unwrap();
    let descriptors = [Descriptor::EMPTY; 256];
    let mut line = FlowQueues::with_parts(drr, blue, [Queue::EMPTY], descriptors, [], Limits::NONE);
    for handle in 0..200 {
        let packet = Packet::new(handle, 1_000);
        line.enqueue(Nanos(0), FlowId(0), packet, &mut |_: Packet, _| {}).unwrap();
    }
    for step in 1..=100 {
        let drops = &mut |_: Packet, _| panic!("BLUE drops at arrival");
        assert!(line.dequeue(Nanos(step * 10 * MS), drops).is_some());
    }
    assert_eq!(line.aqm().probability(FlowId(0)), Probability::ratio(60, 256).unwrap());
}

#[test]
fn an_overflow_raises_and_an_empty_queue_lowers_once_a_freeze_time() {
    let mut aqm = blue(BlueParams::DEFAULT);
    // Overflows for 50 ms: at 0, 10, 20, 30 and 40.
    for us in 0..50_000 {
        overflow(&mut aqm, us * 1_000);
    }
    assert_eq!(chance(&aqm), 5 * UP);
    leave(&mut aqm, 50 * MS - 1, 0, 0);
    assert_eq!(chance(&aqm), 5 * UP, "frozen");
    leave(&mut aqm, 50 * MS, 0, 1);
    assert_eq!(chance(&aqm), 5 * UP, "not the last packet");
    leave(&mut aqm, 50 * MS, 0, 0);
    assert_eq!(chance(&aqm), 5 * UP - DOWN);
    // At 60, 70, … 350 ms: the queue stays empty.
    let _told = admit(&mut aqm, 350 * MS, 0);
    assert!(chance(&aqm).abs_diff(5 * UP - 31 * DOWN) <= 64, "{}", chance(&aqm));
    let before = chance(&aqm);
    let _told = admit(&mut aqm, 360 * MS, 3);
    aqm.emptied(FlowId(0));
    assert_eq!(chance(&aqm), before.saturating_sub(DOWN));
}

/// Goal: a pause takes one step per freeze time, for steps and freeze times of all sizes; hours
/// reduce the probability to 0.
#[test]
fn an_idle_queue_forgets_by_elapsed_time() {
    let mut rng = Xorshift::new(9);
    for _ in 0..effort(5_000, 50_000) {
        let down = 1 + (rng.next_u32() >> rng.below(32));
        let freeze =
            SHORTEST + (rng.next_u64() >> 31 >> rng.below(24)) % (MAX_INTERVAL.0 - SHORTEST);
        let steps = Probability::from_raw(down);
        let law = BlueLaw::new(steps, steps, Nanos(freeze)).unwrap();
        let (thaw, chance) = (rng.next_u64() >> 20, Probability::from_raw(rng.next_u32()));
        let pause = u64::from(rng.below(3_000)) * (freeze / 16).max(1);
        let mut state = BlueState { thaw: Nanos(thaw), chance };
        law.catch_up(state.parts(), Nanos(thaw + pause));
        let least = u64::from(down) * (1 + pause / freeze);
        let exact = u64::from(chance.raw()).saturating_sub(least);
        // The closed form also takes fractions of a step; its rate is rounded down to 2^-20 of a
        // raw unit per nanosecond.
        let early = u64::from(down) + 2;
        let late = 2 + (pause >> 20);
        let left = u64::from(state.chance.raw());
        assert!(left + early >= exact && left <= exact + late, "{down} {freeze} {pause}");
        for hours in [HOUR, 1_000_000 * HOUR] {
            let mut state = BlueState { thaw: Nanos(thaw), chance };
            let law =
                BlueLaw::new(steps, Probability::from_raw(DOWN), Nanos(freeze.min(MS))).unwrap();
            law.catch_up(state.parts(), Nanos(thaw + hours));
            assert_eq!(state.chance, Probability::NEVER);
        }
    }
}

/// Goal: up to the given probability an ECN-capable packet is marked, above it rejected; neither at
/// probability 0.
#[test]
fn above_the_stated_probability_a_mark_becomes_a_drop() {
    let limit = Probability::from_raw(3 * UP);
    let mut aqm = blue(BlueParams::DEFAULT.with_mark_up_to(limit));
    for steps in 0..=256_u32 {
        let (mut marked, mut refused) = (0, 0);
        for _ in 0..4_096 {
            match admit(&mut aqm, u64::from(steps) * 10 * MS, 9) {
                Admission::Accept => {}
                Admission::Signal => marked += 1,
                _ => refused += 1,
            }
        }
        assert!(refused == 0 || steps > 3, "{steps}");
        assert!(marked == 0 || (1..=3).contains(&steps), "{steps}");
        let expected = i64::from(16 * steps.min(256));
        assert!(
            (i64::from(marked + refused) - expected).abs() <= 180,
            "{steps} {marked} {refused}"
        );
        overflow(&mut aqm, u64::from(steps) * 10 * MS);
    }
    assert_eq!(aqm.probability(FlowId(0)), Probability::ALWAYS);
    assert_eq!(admit(&mut aqm, 0, 1), Admission::Refuse);
}

/// Reference model: BLUE in floating point, with the probability in units of 2^-32 and the time of
/// its last change.
struct Twin {
    p: f64,
    changed: f64,
    draws: u128,
}

#[expect(clippy::float_arithmetic, reason = "the twin is the one with floats")]
impl Twin {
    const FREEZE: f64 = 10e6;

    fn change(&mut self, now: f64, by: i32) {
        if (by > 0 || self.p > 0.0) && now - self.changed >= Self::FREEZE {
            self.p = (self.p + f64::from(by)).clamp(0.0, 4_294_967_295.0);
            self.changed = now;
        }
    }

    /// Applies an idle time until `now`.
    fn idle(&mut self, now: f64) {
        let since = now - self.changed - Self::FREEZE;
        if self.p > 0.0 && since >= 0.0 {
            self.p = (self.p - f64::from(DOWN) * (1.0 + since / Self::FREEZE)).max(0.0);
            self.changed = now;
        }
    }

    /// Returns the drawn number, if a draw is due.
    fn draw(&mut self) -> Option<f64> {
        if self.p == 0.0 {
            return None;
        }
        let mask = u128::from(u64::MAX);
        self.draws ^= self.draws >> 12;
        self.draws ^= (self.draws << 25) & mask;
        self.draws ^= self.draws >> 27;
        Some((((self.draws * 0x2545_f491_4f6c_dd1d) & mask) >> 32) as f64)
    }
}

/// Goal: every arrival is treated as the description requires, at any time of day. Method: random
/// series of arrivals, departures, overflows and pauses against the reference model, and against
/// the series shifted in time. A series ends where a draw falls within 10^-6 of the probability.
#[test]
fn agrees_with_its_description_on_random_series() {
    let (mut told, mut marks) = (0_u64, 0_u64);
    for seed in 1..=effort(40, 400_u64) {
        let mut rng = Xorshift::new(scramble(seed));
        let new = || Blue::new([BlueState::EMPTY; 4], BlueParams::DEFAULT, seed).unwrap();
        let (mut aqm, mut later) = (new(), new());
        let shift = [1, HOUR, 1 << 53, 1 << 62][seed as usize % 4];
        let changed = f64::NEG_INFINITY;
        let mut twin = Twin { p: 0.0, changed, draws: scramble(seed).into() };
        let (mut now, mut held) = (rng.next_u64() >> 30, 0_u32);
        let (mut arrivals, mut limit) = (50, 20);
        for step in 0..20_000 {
            if step % 500 == 0 {
                arrivals = [30, 50, 60, 80][rng.below(4) as usize];
                limit = [5, 20, 200][rng.below(3) as usize];
            }
            now += 1 + u64::from(rng.below(1_000_000));
            if rng.below(1_000) == 0 {
                now += u64::from(rng.next_u32()) << rng.below(8);
            }
            if rng.below(100) >= arrivals {
                if held > 0 {
                    held -= 1;
                    leave(&mut aqm, now, 0, held * 1_000);
                    leave(&mut later, now + shift, 0, held * 1_000);
                    if held == 0 {
                        twin.change(now as f64, -DOWN.cast_signed());
                    }
                }
                continue;
            }
            let verdict = admit(&mut aqm, now, held);
            assert_eq!(admit(&mut later, now + shift, held), verdict, "seed {seed} step {step}");
            if held == 0 {
                twin.idle(now as f64);
            }
            // Each change is rounded to 2^-32: one model may be at 0 and the other just above.
            if twin.p > 0.0 && twin.p < 4_295.0 {
                break;
            }
            let drawn = twin.draw();
            if drawn.is_some_and(|drawn| (drawn - twin.p).abs() < 4_295.0) {
                break;
            }
            let expected = match drawn {
                Some(drawn) if drawn < twin.p && twin.p <= 429_496_729.0 => Admission::Signal,
                Some(drawn) if drawn < twin.p => Admission::Refuse,
                _ => Admission::Accept,
            };
            assert_eq!(verdict, expected, "seed {seed} step {step}");
            told += u64::from(verdict != Admission::Accept);
            marks += u64::from(verdict == Admission::Signal);
            if verdict == Admission::Refuse {
                continue;
            }
            held += 1;
            if held > limit {
                held -= 1;
                aqm.overflowed(FlowId(0));
                later.overflowed(FlowId(0));
                twin.change(now as f64, UP.cast_signed());
            }
        }
    }
    assert!(told > effort(2_000, 20_000) && marks > effort(1_000, 10_000), "{told} {marks}");
}

/// Goal: no clock causes a panic, and a wrong timestamp has no lasting effect.
#[test]
fn a_clock_that_jumps_or_steps_back_is_legal() {
    let mut aqm = blue(BlueParams::DEFAULT.with_longest_wait(Nanos(MS)));
    let mut rng = Xorshift::new(11);
    for _ in 0..effort(100_000, 1_000_000) {
        let now = [rng.next_u64(), u64::from(rng.next_u32()), 0, u64::MAX][rng.below(4) as usize];
        match rng.below(4) {
            0 => overflow(&mut aqm, now),
            1 => aqm.emptied(FlowId(0)),
            2 => leave(&mut aqm, now, rng.next_u64() >> rng.below(60), rng.below(2)),
            _ => drop(admit(&mut aqm, now, rng.below(2))),
        }
    }
    let mut aqm = blue(BlueParams::DEFAULT);
    overflow(&mut aqm, u64::MAX - 1);
    for ms in 0..1_000 {
        overflow(&mut aqm, ms * MS);
    }
    assert_eq!(chance(&aqm), 101 * UP);
}

#[test]
fn parameters_out_of_range_are_refused_by_name_and_change_under_load_or_not_at_all() {
    let good = BlueParams::DEFAULT;
    let refusal = |params| match Blue::new([BlueState::EMPTY; 4], params, 0).map(|_| ()) {
        Err(ConfigError::OutOfRange { what, min, max, .. }) => Some((what, min, max)),
        _ => None,
    };
    let longest = (1 << 33) - 1;
    for ns in [0, 1_023, longest + 1, u64::MAX] {
        let params = good.with_freeze(Nanos(ns));
        assert_eq!(refusal(params), Some(("BLUE freeze time in ns", 1_024, longest)));
    }
    for ns in [0, 1_023] {
        let params = good.with_longest_wait(Nanos(ns));
        assert_eq!(refusal(params), Some(("BLUE longest wait in ns", 1_024, u64::MAX)));
    }
    let (step, most) = (Probability::from_raw(1), u32::MAX.into());
    let still = good.with_steps(Probability::NEVER, step);
    assert_eq!(refusal(still), Some(("BLUE increment in 2^-32", 1, most)));
    let still = good.with_steps(step, Probability::NEVER);
    assert_eq!(refusal(still), Some(("BLUE decrement in 2^-32", 1, most)));
    let mut aqm = blue(good);
    overflow(&mut aqm, 0);
    assert!(aqm.set_params(still).is_err());
    assert_eq!((aqm.params(), chance(&aqm)), (good, UP));
    let steep = good.with_steps(Probability::ALWAYS, Probability::ALWAYS);
    aqm.set_params(steep.with_freeze(Nanos(longest))).unwrap();
    assert_eq!(chance(&aqm), UP, "what was learned stays");
    assert_eq!(aqm.params().freeze, Nanos(longest));
}

#[test]
fn a_state_is_sixteen_bytes_and_a_removed_flow_leaves_nothing() {
    assert_eq!(size_of::<BlueState>(), 16);
    let mut aqm = blue(BlueParams::DEFAULT);
    overflow(&mut aqm, 5);
    aqm.forget(FlowId(0));
    assert_eq!(aqm.states, [BlueState::EMPTY; 4]);
    let beyond = FlowId(4);
    assert_eq!(aqm.admit(beyond, offer(0, 9), Look::Close), Admission::Accept);
    for tell in [Blue::overflowed, Blue::emptied, Blue::forget] {
        tell(&mut aqm, beyond);
    }
    assert_eq!(aqm.probability(beyond), Probability::NEVER);
}
