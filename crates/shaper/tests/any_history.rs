//! What the clock promises for any times, checked on random histories.

mod twin;

use proptest::collection::vec;
use proptest::prelude::*;
use sched_core::Nanos;
use shaper::{Rate, Shaper};

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_096, failure_persistence: None, ..Default::default() })]

    /// Goal: the clock is the one its definition describes, whatever happens to it.
    /// Method: bytes become operations (packets, times forwards and backwards by any amount, new
    /// rates, forced charges) on the shaper and on a twin in exact fractions, compared after each.
    #[test]
    fn the_clock_is_its_definition(history in vec(any::<u8>(), 0..600)) {
        twin::compare(&history);
    }

    /// Goal: only differences of times matter.
    /// Method: a history that stays far from both ends of time is run again with all times shifted;
    /// its departures shift with it.
    #[test]
    fn shifting_all_times_shifts_the_departures(
        steps in vec((0_u8..14, 0_u64..1 << 32, 0_u32..2_000), 0..200),
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
                    _ => {}
                }
            }
            left
        };
        let expected = run(0);
        for offset in [1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, (1 << 63) - 1] {
            prop_assert_eq!(&run(offset), &expected, "shifted by {}", offset);
        }
    }

    /// Goal: in any span the line carries at most the rate's bytes and one packet.
    /// Method: a hungry caller polls at arbitrary times and sends whenever it may. Between the
    /// departures i and j, sent(i..j) · 8·10⁹ ≤ bps · (t_j − t_i + 1 + catch-up) for every pair at
    /// once: compare each with the least of the earlier differences. A clock that stepped back
    /// stands at its highest reading.
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
}

/// Goal: the comparison above is not one of closed lines.
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
