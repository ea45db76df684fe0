use freeboard::sched_core::Counters;
use smoltcp::time::Duration;

use super::*;
use crate::scenario::CALL_FRAME;
use crate::wire::MAX_FRAME;

/// Checks that the uploads are complete and that every frame pushed into the queue is accounted
/// for.
fn counters(outcome: &Outcome) -> Counters {
    assert_eq!(outcome.received, [1_000_000; 2]);
    let counters = outcome.counters.expect("a queue whose books are right");
    assert_eq!(counters.rejected.packets, 0);
    assert_eq!(counters.accepted, counters.delivered.plus(counters.dropped_total()));
    assert_eq!(counters.delivered.packets, outcome.carried);
    counters
}

/// Returns the maximum wait of a call's frame with `ahead` frames in the ring. The frame waits for
/// these frames, for one quantum of the other host, which may have become sparse at the same time,
/// and for itself.
fn bound(ahead: u32) -> Duration {
    let wire = Wire::new(1, UPLINK);
    wire.time_of(MAX_FRAME) * (ahead + 1) + wire.time_of(CALL_FRAME)
}

fn check(outcome: &Outcome, ahead: u32) {
    let counters = counters(outcome);
    assert!(counters.dropped_total().packets > 0, "two uploads fill the line: {counters:?}");
    assert_eq!((outcome.refused, outcome.waits.len() as u64), (0, outcome.calls));
    assert!(outcome.calls > 300);
    let (longest, bound) = (outcome.waits.last().copied().unwrap_or(Duration::MAX), bound(ahead));
    assert!(longest <= bound, "{longest} instead of {bound} at most");
    let shares = outcome.shares();
    assert!(shares.iter().all(|share| (33.0..67.0).contains(share)), "{shares:?}");
}

#[test]
fn by_rate_one_frame_is_ahead() {
    check(&by_rate().unwrap(), 1);
}

#[test]
fn by_back_pressure_the_ring_is_ahead() {
    check(&by_back_pressure().unwrap(), 2);
}

/// The problem that the queue solves: without it the ring is full, the call waits, and most of it
/// is refused.
#[test]
fn without_a_queue_the_device_refuses() {
    let outcome = without_queue();
    assert!(outcome.refused > 0);
    assert!(outcome.wait(50) > 150.0, "{} ms", outcome.wait(50));
    // Most of the call is refused.
    assert!(2 * outcome.refused > outcome.calls, "{} of {}", outcome.refused, outcome.calls);
}

#[test]
fn a_run_can_be_repeated() {
    assert_eq!(by_rate().unwrap().waits, by_rate().unwrap().waits);
}
