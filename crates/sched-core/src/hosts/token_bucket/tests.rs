use super::*;
use crate::Elapsed;
use std::string::ToString;
use std::vec::Vec;

const RATES: [u64; 9] = [
    1_000,
    1_001,
    65_537,
    999_983,
    20_000_000,
    750_000_000,
    3_999_999_979,
    399_999_999_959,
    400_000_000_000,
];

/// Creates a full bucket.
fn full(bits_per_second: u64, burst: u32) -> Bucket {
    let mut bucket = Bucket::NONE;
    bucket.set(Nanos::ZERO, Some(TokenBucket::new(bits_per_second, burst).unwrap()), 1);
    bucket
}

#[test]
fn only_what_is_in_range_is_a_token_bucket() {
    for bits_per_second in RATES {
        let bucket = TokenBucket::new(bits_per_second, 1).unwrap();
        assert_eq!((bucket.bits_per_second(), bucket.burst()), (bits_per_second, 1));
        assert_eq!(bucket.with_burst_of_at_least(1_500).burst(), 1_500);
        assert_eq!(bucket.with_burst_of_at_least(0), bucket);
        // The longest burst whose time is exact; more bytes would wrap.
        assert_eq!(bucket.with_burst_of_at_least(u32::MAX).burst(), 1 << 30);
    }
    for value in [0, 999, 400_000_000_001, u64::MAX] {
        let refused = crate::Rate::bits_per_second(value).unwrap_err();
        assert_eq!(TokenBucket::new(value, 1_500), Err(refused));
    }
    let refused = TokenBucket::new(1_000, 0).unwrap_err().to_string();
    assert_eq!(refused, "burst in bytes 0 is out of range (expected 1 to 4294967295)");
    assert_eq!(TokenBucket::new(1_000, u32::MAX).unwrap().burst(), 1 << 30);
}

/// Goal: in any interval, at most `rate·t + burst + L` is charged while there is credit. Method: a
/// sender that takes whatever it gets, at random instants, and every interval between them.
#[test]
fn no_interval_sends_more_than_rate_burst_and_a_packet() {
    let mut seed = 7_u64;
    let mut random = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    for bits_per_second in RATES {
        let mut kept = full(bits_per_second, 3_000);
        // Steps of up to the time of two packets.
        let step = 2 * 1_500 * 8_000_000_000 / bits_per_second + 2;
        let (mut now, mut sent) = (0, Vec::new());
        for _ in 0..400 {
            now += random(step);
            while kept.holds_at(0) <= Nanos(now) {
                let len = 1 + random(1_500) as u32;
                kept.take(Nanos(now), len);
                sent.push((now, u128::from(len)));
            }
        }
        for (first, &(from, _)) in sent.iter().enumerate() {
            let mut bytes = 0;
            for &(until, len) in &sent[first..] {
                bytes += len;
                let span = u128::from(until - from) * u128::from(bits_per_second);
                let most = span + (3_000 + 1_500) * 8_000_000_000;
                assert!(bytes * 8_000_000_000 <= most, "{from} to {until}");
            }
        }
        // And no less, except the burst at the end.
        let all: u128 = sent.iter().map(|&(_, len)| len).sum();
        let least = u128::from(now) * u128::from(bits_per_second) / 8_000_000_000;
        assert!(all + 3_000 >= least, "{all} of {least} at {bits_per_second}");
    }
}

/// Returns the bytes sent at this rate in `nanos` nanoseconds in packets of 64 bytes, at most
/// `each` packets per nanosecond, which is less than a packet takes.
fn sent_in_small_steps(bits_per_second: u64, nanos: u64, each: u32) -> u128 {
    let (mut kept, mut sent) = (full(bits_per_second, 1_500), 0);
    for now in (0..nanos).map(Nanos) {
        for _ in 0..each {
            if kept.holds_at(0) <= now {
                kept.take(now, 64);
                sent += 64;
            }
        }
    }
    sent
}

/// Goal: fractions of a nanosecond are neither lost nor gained, however often a bucket is charged,
/// whether it is empty or lacks less than a nanosecond. Method: packets that take 1.28 ns to 128
/// ns; as many as there is credit for, and one per nanosecond.
#[test]
fn many_small_steps_add_up_to_the_rate() {
    const NANOS: u64 = 40_000;
    for bits_per_second in
        [4_000_000_000, 123_456_789_012, 350_000_000_000, 399_999_999_959, 400_000_000_000]
    {
        let earned = u128::from(NANOS - 1) * u128::from(bits_per_second) / 8_000_000_000;
        for each in [1, 64] {
            let sent = sent_in_small_steps(bits_per_second, NANOS, each);
            // The burst is sent too, and overdrawn; the time resolution is a nanosecond, in which
            // 50 bytes arrive.
            let expected = earned + 1_500 - 50..=earned + 1_500 + 64;
            assert!(expected.contains(&sent), "{sent} of {expected:?} at {bits_per_second}");
        }
    }
}

/// A bucket of 750 ns that is full again after a packet that left it lacking half of one: it holds
/// its burst, and a packet of that size does not overdraw it.
#[test]
fn a_bucket_that_is_full_lacks_no_part_of_a_nanosecond() {
    let mut kept = full(16_000_000_000, 1_500);
    kept.take(Nanos(0), 1);
    kept.take(Nanos(10), 1_500);
    assert_eq!(kept.holds_at(0), Nanos(10));
    kept.take(Nanos(10), 1);
    assert_eq!(kept.holds_at(0), Nanos(11));
}

/// Goal: a change of the bucket gives nothing away: the bytes that it lacks stay missing, up to
/// what the new one can lack.
#[test]
fn another_rate_finds_the_bucket_as_it_was() {
    let bucket = |mbit: u64, burst| TokenBucket::new(mbit * 1_000_000, burst).ok();
    let mut kept = full(8_000_000, 3_000);
    kept.take(Nanos(0), 4_000);
    // The bucket is overdrawn by 1,000 bytes, at each rate.
    assert_eq!(kept.holds_at(0), Nanos(1_000_000));
    kept.set(Nanos(0), bucket(16, 3_000), 2);
    assert_eq!(kept.holds_at(0), Nanos(500_000));
    kept.set(Nanos(0), bucket(8, 3_000), 2);
    assert_eq!(kept.holds_at(0), Nanos(1_000_000));
    // No bucket is overdrawn by more than a burst.
    kept.take(Nanos(0), 1_000);
    kept.set(Nanos(0), bucket(8, 1_500), 2);
    assert_eq!(kept.holds_at(0), Nanos(1_500_000));
    kept.set(Nanos(7), None, 2);
    assert_eq!((kept.holds_at(0), kept.full_at()), (Nanos(0), Nanos(7)));
}

/// Returns a clock at the timestamp `now`, and a bucket that lacks the time of `bytes` bytes then,
/// with a microsecond per byte.
fn overdrawn(now: Nanos, bytes: u32) -> (Elapsed, Bucket) {
    let mut clock = Elapsed::START;
    clock.advance(now, Nanos::ZERO);
    let mut bucket = full(8_000_000, 1);
    bucket.take(clock.now(), bytes);
    (clock, bucket)
}

/// Returns the tokens that the bucket lacks, as time.
fn lacks(clock: &Elapsed, bucket: &Bucket) -> Nanos {
    bucket.full_at().since(clock.now())
}

/// Goal: one timestamp at the end of time fills every bucket, and the clock continues with the
/// next.
#[test]
fn a_reading_at_the_end_of_time_fills_the_buckets_once() {
    let secs = Nanos::from_secs;
    let (mut clock, mut bucket) = overdrawn(secs(1), 5_000_000);
    assert_eq!(lacks(&clock, &bucket), secs(5));
    clock.advance(Nanos::MAX, bucket.full_at());
    assert_eq!(lacks(&clock, &bucket), Nanos::ZERO);
    clock.advance(secs(2), bucket.full_at());
    bucket.take(clock.now(), 3_000_000);
    clock.advance(secs(3), bucket.full_at());
    assert_eq!(lacks(&clock, &bucket), secs(2));
    let due = bucket.full_at().since(Nanos::from_millis(500));
    assert_eq!(clock.clock_at(due, secs(3)), Some(Nanos(4_500_000_000)));
    assert_eq!(clock.clock_at(due, secs(4)), Some(Nanos(4_500_000_000)));
    assert_eq!(clock.clock_at(due, secs(5)), Some(secs(5)));
    assert_eq!(clock.clock_at(due, Nanos::MAX), Some(Nanos::MAX));
    let (late, bucket) = overdrawn(Nanos(u64::MAX - 1), 1);
    assert_eq!(late.clock_at(bucket.full_at(), Nanos(u64::MAX - 1)), None);
}

/// Goal: a repeated timestamp counts as no time, up to a second back; and a future instant is
/// converted to the caller's clock, which has to catch up first.
#[test]
fn a_clock_that_comes_again_does_not_go_on() {
    let (mut clock, bucket) = overdrawn(Nanos::ZERO, 5_002_000);
    let (due, millis) = (bucket.full_at(), Nanos::from_millis);
    for (told, left) in [(5_000, 2), (4_000, 2), (4_900, 2), (5_001, 1), (4_001, 1)] {
        clock.advance(millis(told), due);
        assert_eq!(lacks(&clock, &bucket), millis(left), "at {told}");
    }
    assert_eq!(clock.clock_at(due, millis(4_001)), Some(millis(5_002)));
    // A nanosecond more than a second: the clock was wrong before.
    clock.advance(Nanos(4_000_999_999), due);
    assert_eq!(lacks(&clock, &bucket), millis(1));
    assert_eq!(clock.clock_at(due, Nanos(4_000_999_999)), Some(Nanos(4_001_999_999)));
    clock.advance(Nanos(4_001_999_999), due);
    assert_eq!(lacks(&clock, &bucket), Nanos::ZERO);
}

/// Goal: however often the clock jumps to its end and back, a full bucket stays full, and any other
/// lacks what was taken out since.
#[test]
fn leaps_of_the_clock_never_bring_it_to_its_end() {
    let (mut clock, once) = overdrawn(Nanos::ZERO, 1);
    let mut bucket = once;
    for _ in 0..10_000 {
        clock.advance(Nanos::MAX, bucket.full_at());
        assert_eq!((lacks(&clock, &once), lacks(&clock, &bucket)), (Nanos::ZERO, Nanos::ZERO));
        clock.advance(Nanos::ZERO, bucket.full_at());
        bucket.take(clock.now(), 1_500);
        assert_eq!(lacks(&clock, &bucket), Nanos(1_500_000));
    }
}

/// Goal: a fraction of a nanosecond is never gained: nothing is due a nanosecond early.
#[test]
fn a_bucket_that_lacks_a_part_of_a_nanosecond_is_not_full() {
    let mut bucket = full(16_000_000_000, 1);
    bucket.take(Nanos::ZERO, 1_501);
    assert_eq!(bucket.full_at(), Nanos(751));
    bucket.take(Nanos(750), 1);
    assert_eq!(bucket.full_at(), Nanos(751));
}
