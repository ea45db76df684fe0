//! Guarantees of the clock for any timestamps, checked on random sequences of operations.

use conformance::twin::shaper_clock as twin;

use proptest::collection::vec;
use proptest::prelude::*;
use sched_core::Nanos;
use shaper::{Rate, Shaper};

/// More than the longest catch-up of a sequence.
const BEGIN: u64 = 1 << 20;

proptest! {
    #![proptest_config(ProptestConfig { cases: conformance::effort::effort(512, 4_096), failure_persistence: None, ..Default::default() })]

    /// Goal: the clock equals its definition under any operations. Method: bytes become operations
    /// (packets, time steps forwards and backwards by any amount, rate changes, forced charges) on
    /// the shaper and on a reference model in exact fractions, compared after each.
    #[test]
    fn the_clock_is_its_definition(history in vec(any::<u8>(), 0..600)) {
        twin::compare(&history);
    }

    /// Goal: only differences of timestamps matter. Method: run a sequence that stays far from both
    /// ends of time again with all timestamps shifted; its departures shift by the same amount. It
    /// starts later than catch-up can reach back.
    #[test]
    fn shifting_all_times_shifts_the_departures(
        steps in vec((0_u8..16, 0_u64..1 << 32, 0_u32..2_000), 0..200),
        bps in 1_000_000_u64..400_000_000_000,
        catch_up in prop_oneof![Just(0_u64), 0_u64..1_000_000],
    ) {
        let run = |offset: u64| {
            let rate = Rate::bits_per_second(bps).unwrap();
            let mut line = Shaper::new(rate).with_catch_up(Nanos(catch_up));
            let (mut now, mut left) = (offset, Vec::new());
            for &(what, step, len) in &steps {
                match what {
                    0..=5 if line.is_open(Nanos(now)) => {
                        line.charge(Nanos(now), len);
                        left.push((now - offset, len));
                    }
                    6..=9 => now = now.max(line.due().0),
                    10 => now += step >> (len % 32),
                    11 => line.wake(Nanos(now)),
                    12 => now = now.saturating_sub(step >> 20).max(offset),
                    13 => line.charge(Nanos(now), len),
                    14 => {
                        let bps = 1_000_000 << (step % 18);
                        line.set_rate(Nanos(now), Rate::bits_per_second(bps).unwrap());
                    }
                    _ => {}
                }
            }
            left
        };
        let expected = run(BEGIN);
        for offset in [1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, (1 << 63) - 1] {
            prop_assert_eq!(&run(BEGIN + offset), &expected, "shifted by {}", offset);
        }
    }

    /// Goal: in any interval the link carries at most the bytes of the rate and one packet. Method:
    /// a greedy caller polls at arbitrary times and sends whenever allowed. Between the departures
    /// i and j, sent(i..j) · 8·10⁹ ≤ bps · (t_j − t_i + 1 + catch-up). This is checked for all
    /// pairs at once, by comparing each departure with the minimum of the earlier differences. A
    /// clock that steps back counts at its highest timestamp.
    #[test]
    fn no_span_carries_more_than_the_rate_and_one_packet(
        steps in vec((0_u8..8, any::<u64>(), 0_u32..70_000), 1..300),
        bps in prop_oneof![1_000_u64..1_000_000, 1_000_000_u64..=400_000_000_000],
        catch_up in prop_oneof![Just(0_u64), 0_u64..1_000_000],
        woken in any::<bool>(),
    ) {
        let rate = Rate::bits_per_second(bps).unwrap();
        let mut line = Shaper::new(rate).with_catch_up(Nanos(catch_up));
        let (mut now, mut highest, mut sent) = (0_u64, 0_u64, 0_i128);
        let mut least = i128::MAX;
        let allowed = i128::from(bps) * (1 + i128::from(catch_up));
        for (what, step, len) in steps {
            match what {
                0..=3 => now = now.max(line.due().0),
                4 => now = now.saturating_add(step >> (44 + len % 20)),
                5 => now = now.saturating_sub(step >> (34 + len % 30)),
                6 if woken => line.wake(Nanos(now)),
                _ => now = now.saturating_add(step >> (30 + len % 34)),
            }
            highest = highest.max(now);
            if line.is_open(Nanos(now)) {
                let ahead = sent * 8_000_000_000 - i128::from(bps) * i128::from(highest);
                least = least.min(ahead);
                prop_assert!(ahead - least <= allowed, "{} > {allowed}", ahead - least);
                line.charge(Nanos(now), len);
                sent += i128::from(len);
            }
        }
    }

    /// Goal: in any interval the link carries at most the integral of its rate and one packet.
    /// Method: a greedy caller polls at arbitrary times, sends whenever allowed, and changes the
    /// rate arbitrarily, to stopped and unlimited too. Between the departures i and j, with R the
    /// integral of the rate, sent(i..j) · 8·10⁹ ≤ R(t_j) − R(t_i) + rate(t_i) · (1 + catch-up).
    /// This is checked for all pairs at once, by comparing each departure with the minimum of what
    /// the earlier ones allow. A step back of the clock counts as no time passing; departures
    /// without a rate limit have no bound.
    #[test]
    fn no_span_carries_more_than_the_integral_of_the_rate_and_one_packet(
        steps in vec((0_u8..13, any::<u64>(), 0_u32..70_000), 1..300),
        first in 1_000_u64..=400_000_000_000,
        catch_up in prop_oneof![Just(0_u64), 0_u64..1_000_000],
        woken in any::<bool>(),
    ) {
        let rate = Rate::bits_per_second(first).unwrap();
        let mut line = Shaper::new(rate).with_catch_up(Nanos(catch_up));
        let (mut now, mut sent, mut integral) = (0_u64, 0_i128, 0_i128);
        let mut most_ahead = i128::MAX;
        for (what, step, len) in steps {
            let before = now;
            match what {
                0..=3 => now = now.max(line.due().0).min(u64::MAX - 1),
                4 | 9 => now = now.saturating_add(step >> (44 + len % 20)),
                5 => now = now.saturating_sub(step >> (34 + len % 30)),
                6 if woken => line.wake(Nanos(now)),
                6..=8 => now = now.saturating_add(step >> (30 + len % 34)),
                _ => {}
            }
            let bps = i128::from(line.rate().as_bits_per_second().unwrap_or(0));
            integral += bps * i128::from(now.saturating_sub(before));
            if what >= 8 {
                line.set_rate(Nanos(now), any_rate(step));
            }
            if line.rate() == Rate::UNLIMITED {
                most_ahead = i128::MAX;
            } else if line.is_open(Nanos(now)) {
                let bps = i128::from(line.rate().as_bits_per_second().unwrap_or(0));
                let ahead = sent * 8_000_000_000 - integral;
                prop_assert!(ahead <= most_ahead, "{ahead} > {most_ahead}");
                most_ahead = most_ahead.min(ahead + bps * (1 + i128::from(catch_up)));
                line.charge(Nanos(now), len);
                sent += i128::from(len);
            }
        }
    }

    /// Goal: with a caller that polls at `due`, and for any sequence of rates, the link is never
    /// ahead of the integral of its rate by more than one packet, nor behind it by more than a
    /// nanosecond, and errors do not accumulate. Method: a packet leaves whenever one is due; the
    /// rate changes at any time while one is on the link, to stopped too. At each departure all
    /// earlier packets are paid, in whole bits, and a nanosecond earlier they are not.
    #[test]
    fn any_history_of_rates_ends_on_the_exact_nanosecond(
        steps in vec((0_u32..70_000, vec((any::<u64>(), any::<u64>()), 0..4)), 1..300),
    ) {
        let mut line = Shaper::new(Rate::bits_per_second(1_000_000_007).unwrap());
        let (mut now, mut sent, mut integral) = (0_u64, 0_i128, 0_i128);
        line.charge(Nanos(now), 1_500);
        sent += 1_500;
        for (len, changes) in steps {
            for (when, to) in changes {
                if line.is_open(Nanos(now)) {
                    continue;
                }
                // Within the remaining time of the packet on the link, or a second of a stop.
                let left = if line.due() == Nanos::MAX { 1_000_000_000 } else { line.due().0 - now };
                let step = when % left;
                integral += i128::from(line.rate().as_bits_per_second().unwrap()) * i128::from(step);
                now += step;
                line.set_rate(Nanos(now), if to % 5 == 0 { Rate::STOPPED } else { some_rate(to) });
            }
            if line.rate() == Rate::STOPPED {
                line.set_rate(Nanos(now), some_rate(len.into()));
            }
            let bps = i128::from(line.rate().as_bits_per_second().unwrap());
            let due = line.due().0;
            prop_assert!(due >= now && due < u64::MAX);
            integral += bps * i128::from(due - now);
            now = due;
            let owed = sent * 8_000_000_000;
            prop_assert!(integral >= owed, "early by {} of 10⁻⁹ bit", owed - integral);
            prop_assert!(integral - owed < bps, "late by {} of 10⁻⁹ bit", integral - owed);
            line.charge(Nanos(now), len);
            sent += i128::from(len);
        }
    }
}

/// Returns a finite rate, log-uniform over the range.
fn some_rate(seed: u64) -> Rate {
    let bps = (1_000 + (seed >> 8) % 1_000) << (seed % 30);
    Rate::bits_per_second(bps.min(400_000_000_000)).unwrap()
}

/// Returns a finite rate, stopped or unlimited.
fn any_rate(seed: u64) -> Rate {
    match seed % 8 {
        0 => Rate::STOPPED,
        1 if seed % 32 == 1 => Rate::UNLIMITED,
        _ => some_rate(seed >> 3),
    }
}

/// Goal: frequent rate changes forgive nothing. Method: the rate alternates between 1 kbit/s and
/// 1.5 Mbit/s every millisecond for two seconds; a packet of 1,500 bytes leaves whenever allowed.
/// The integral of the rate is 187,625 bytes.
#[test]
fn a_rate_that_is_raised_again_and_again_carries_its_integral() {
    let [low, high] = [1, 1_500].map(|kbps| Rate::kilobits_per_second(kbps).unwrap());
    let (mut line, mut sent) = (Shaper::new(low), 0);
    for step in 0..2_000_000 {
        let now = Nanos(step * 1_000);
        if step % 1_000 == 0 {
            line.set_rate(now, if step % 2_000 == 0 { low } else { high });
        }
        if line.is_open(now) {
            line.charge(now, 1_500);
            sent += 1_500;
        }
    }
    let integral = 187_625;
    assert!(sent > integral - 1_500 && sent <= integral + 1_500, "{sent} bytes of {integral}");
}

/// Goal: a clock that steps back across a stop gains nothing at the rate after the stop. Method: a
/// link with catch-up is stopped at 12 µs. The clock steps back by 2 µs, the link gets a fast rate,
/// and a packet leaves. Time before 12 µs does not count at that rate.
#[test]
fn a_clock_that_steps_back_across_a_stop_earns_nothing() {
    let rate = |mbps| Rate::megabits_per_second(mbps).unwrap();
    let mut line = Shaper::new(rate(8_000)).with_catch_up(Nanos(100_000));
    line.charge(Nanos(8_000), 0);
    line.set_rate(Nanos(12_000), Rate::STOPPED);
    line.set_rate(Nanos(10_000), rate(8_000));
    assert!(line.is_open(Nanos(10_000)));
    // 1 byte per nanosecond, counted from the stop.
    line.charge(Nanos(10_000), 1_000);
    assert_eq!(line.due(), Nanos(13_000));
}

/// Goal: one wrong timestamp at a rate change does no lasting harm. Method: a link at 1 Mbit/s gets
/// a rate change with a timestamp far ahead; the next packet and all later ones leave within one
/// packet's time of when they would have.
#[test]
fn one_wrong_reading_at_a_change_is_soon_forgotten() {
    let rate = |mbps| Rate::megabits_per_second(mbps).unwrap();
    for catch_up in [0, 10_000_000] {
        for wrong in [Nanos::ZERO, Nanos::from_secs(100), Nanos::MAX] {
            let mut line = Shaper::new(rate(1)).with_catch_up(Nanos(catch_up));
            let start = Nanos::from_secs(5);
            line.charge(start, 1_500);
            line.set_rate(wrong, rate(2));
            line.set_rate(start.plus(Nanos::from_millis(1)), rate(3));
            assert!(
                line.due() <= start.plus(Nanos::from_millis(12)),
                "{wrong:?}: {:?}",
                line.due()
            );
            let next = start.plus(Nanos::from_millis(12));
            line.charge(next, 1_500);
            line.set_rate(next, rate(1));
            let due = next.plus(Nanos::from_millis(12));
            assert!(line.due() <= due, "{wrong:?}: {:?}", line.due());
            line.charge(due, 1_500);
            line.set_rate(due, rate(12));
            assert!(line.due() <= due.plus(Nanos::from_millis(1)), "{wrong:?}: {:?}", line.due());
        }
    }
}

/// Goal: the comparison above is not vacuous because links are closed.
#[test]
fn many_packets_leave_in_a_random_history() {
    let mut state = 1_u64;
    let mut left = 0;
    for _ in 0..1_000 {
        let history: Vec<u8> = (0..600)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        left += twin::compare(&history);
    }
    assert!(left > 10_000, "{left} packets left");
}

#[test]
fn a_clock_at_its_extremes_neither_wraps_nor_panics() {
    let times = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, 0, u64::MAX, 5];
    for bps in [1_000, 4_294_967_296, 400_000_000_000] {
        for catch_up in [0, 1, u64::MAX] {
            let rate = Rate::bits_per_second(bps).unwrap();
            let mut line = Shaper::new(rate).with_catch_up(Nanos(catch_up));
            let mut previous = Nanos::ZERO;
            for (time, len) in times.into_iter().zip([u32::MAX, 0, 1, 1 << 31].into_iter().cycle())
            {
                line.wake(Nanos(time));
                line.charge(Nanos(time), len);
                assert!(line.due() >= previous, "the clock only moves forward");
                previous = line.due();
            }
            assert_eq!(line.due(), Nanos::MAX);
            assert!(!line.is_open(Nanos::MAX), "what comes after the end of time never leaves");
        }
    }
}
