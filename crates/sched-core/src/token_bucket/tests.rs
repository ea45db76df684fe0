use super::*;

/// Goal: one reading at the end of time is one step forward, and the clock goes on with the next.
#[test]
fn a_reading_at_the_end_of_time_is_one_step() {
    let mut clock = Elapsed::START;
    clock.advance(Nanos::from_secs(1));
    assert_eq!(clock.now(), 1_000_000_000);
    clock.advance(Nanos::MAX);
    let far = clock.now();
    assert_eq!(far, 1_000_000_000 + (1 << 56));
    clock.advance(Nanos::from_secs(2));
    assert_eq!(clock.now(), far);
    clock.advance(Nanos::from_secs(3));
    assert_eq!(clock.now(), far + 1_000_000_000);
    assert_eq!(
        clock.clock_at(far + 1_500_000_000, Nanos::from_secs(3)),
        Some(Nanos(3_500_000_000))
    );
    assert_eq!(clock.clock_at(far, Nanos::from_secs(3)), Some(Nanos::from_secs(3)));
    assert_eq!(clock.clock_at(far + 3_000_000_000, Nanos::MAX), Some(Nanos::MAX));
    let short = Elapsed { mark: Nanos(u64::MAX - 1), now: 0 };
    assert_eq!(short.clock_at(5, Nanos(u64::MAX - 1)), None);
}

/// Goal: a reading that was there before is no time, up to a second back; and an instant to come is told by the clock
/// that has to come again.
#[test]
fn a_clock_that_comes_again_does_not_go_on() {
    let mut clock = Elapsed::START;
    for (told, now) in
        [(5_000, 5_000), (4_000, 5_000), (4_900, 5_000), (5_001, 5_001), (4_001, 5_001)]
    {
        clock.advance(Nanos::from_millis(told));
        assert_eq!(clock.now(), now * 1_000_000, "at {told}");
    }
    let (then, millis) = (5_002_000_000, Nanos::from_millis);
    assert_eq!(clock.clock_at(then, millis(4_001)), Some(millis(5_002)));
    // A nanosecond more than a second: the clock was wrong before.
    clock.advance(Nanos(4_000_999_999));
    assert_eq!(clock.now(), 5_001_000_000);
    assert_eq!(clock.clock_at(then, Nanos(4_000_999_999)), Some(Nanos(4_001_999_999)));
    clock.advance(Nanos(4_001_999_999));
    assert_eq!(clock.now(), then);
}

/// Goal: instants go round, and a bucket keeps what it lacks.
#[test]
fn a_bucket_does_not_notice_that_instants_go_round() {
    // A byte takes a microsecond.
    let rate = TokenRate::new("rate", 8_000_000).unwrap();
    for start in [0, u64::MAX - 10, u64::MAX - 999_999, 1 << 63] {
        let mut bucket = Bucket::full(start);
        bucket.take(start, &rate, 1_500);
        assert_eq!(bucket.lacks(start), (1_500_000, 0));
        assert_eq!(bucket.lacks(start.wrapping_add(1_000_000)), (500_000, 0));
        assert!(!bucket.lacks_at_most(start.wrapping_add(1_499_999), 0));
        assert!(bucket.lacks_at_most(start.wrapping_add(1_500_000), 0));
        assert_eq!(bucket.due(500_000), start.wrapping_add(1_000_000));
        assert_eq!(bucket.lacks(start.wrapping_add(1 << 62)), (0, 0));
    }
}
