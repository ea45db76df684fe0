use super::*;

/// A byte takes a microsecond.
const RATE: fn() -> TokenRate = || TokenRate::new("rate", 8_000_000).unwrap();

/// A clock that has been told `now`, and a bucket that lacks the time of `bytes` bytes then.
fn overdrawn(now: Nanos, bytes: u32) -> (Elapsed, Bucket) {
    let mut clock = Elapsed::START;
    clock.advance(now);
    let mut bucket = Bucket::full(clock.now());
    bucket.take(&mut clock, &RATE(), bytes);
    (clock, bucket)
}

/// Goal: one reading at the end of time fills every bucket, and the clock goes on with the next.
#[test]
fn a_reading_at_the_end_of_time_fills_the_buckets_once() {
    let (mut clock, mut bucket) = overdrawn(Nanos::from_secs(1), 5_000_000);
    assert_eq!(bucket.lacks(clock.now()), (5_000_000_000, 0));
    clock.advance(Nanos::MAX);
    assert_eq!(bucket.lacks(clock.now()), (0, 0));
    clock.advance(Nanos::from_secs(2));
    bucket.take(&mut clock, &RATE(), 3_000_000);
    clock.advance(Nanos::from_secs(3));
    assert_eq!(bucket.lacks(clock.now()), (2_000_000_000, 0));
    let (due, now) = (bucket.due(500_000_000), Nanos::from_secs(3));
    assert_eq!(clock.clock_at(due, now), Some(Nanos(4_500_000_000)));
    assert_eq!(clock.clock_at(due, Nanos::from_secs(4)), Some(Nanos(4_500_000_000)));
    assert_eq!(clock.clock_at(due, Nanos::from_secs(5)), Some(Nanos::from_secs(5)));
    assert_eq!(clock.clock_at(due, Nanos::MAX), Some(Nanos::MAX));
    let (late, bucket) = overdrawn(Nanos(u64::MAX - 1), 1);
    assert_eq!(late.clock_at(bucket.due(0), Nanos(u64::MAX - 1)), None);
}

/// Goal: a reading that was there before is no time, up to a second back; and an instant to come is told by the clock
/// that has to come again.
#[test]
fn a_clock_that_comes_again_does_not_go_on() {
    let (mut clock, bucket) = overdrawn(Nanos::ZERO, 5_002_000);
    for (told, lacks) in [(5_000, 2), (4_000, 2), (4_900, 2), (5_001, 1), (4_001, 1)] {
        clock.advance(Nanos::from_millis(told));
        assert_eq!(bucket.lacks(clock.now()), (lacks * 1_000_000, 0), "at {told}");
    }
    let (due, millis) = (bucket.due(0), Nanos::from_millis);
    assert_eq!(clock.clock_at(due, millis(4_001)), Some(millis(5_002)));
    // A nanosecond more than a second: the clock was wrong before.
    clock.advance(Nanos(4_000_999_999));
    assert_eq!(bucket.lacks(clock.now()), (1_000_000, 0));
    assert_eq!(clock.clock_at(due, Nanos(4_000_999_999)), Some(Nanos(4_001_999_999)));
    clock.advance(Nanos(4_001_999_999));
    assert_eq!(bucket.lacks(clock.now()), (0, 0));
}

/// Goal: however often the clock leaps to its end and back, a bucket that was full stays full, and one that is not
/// lacks what was taken out since.
#[test]
fn leaps_of_the_clock_never_bring_it_to_its_end() {
    let (mut clock, full) = overdrawn(Nanos::ZERO, 1);
    let mut bucket = full;
    for _ in 0..10_000 {
        clock.advance(Nanos::MAX);
        assert_eq!((full.lacks(clock.now()), bucket.lacks(clock.now())), ((0, 0), (0, 0)));
        clock.advance(Nanos::ZERO);
        bucket.take(&mut clock, &RATE(), 1_500);
        assert_eq!(bucket.lacks(clock.now()), (1_500_000, 0));
    }
}

/// Goal: a part of a nanosecond is never won: what is due is not due a nanosecond before.
#[test]
fn a_bucket_that_lacks_a_part_of_a_nanosecond_is_not_full() {
    let rate = TokenRate::new("rate", 16_000_000_000).unwrap();
    let mut clock = Elapsed::START;
    let mut bucket = Bucket::full(clock.now());
    bucket.take(&mut clock, &rate, 1_501);
    let (lacks, fraction) = bucket.lacks(clock.now());
    assert!(lacks == 750 && fraction > 0);
    clock.advance(Nanos(750));
    assert!(!bucket.lacks_at_most(clock.now(), 0));
    clock.advance(Nanos(751));
    assert!(bucket.lacks_at_most(clock.now(), 0) && clock.now() == bucket.due(0));
}
