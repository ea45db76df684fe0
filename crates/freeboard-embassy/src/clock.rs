//! The clock of `embassy-time` in nanoseconds.

use embassy_time_driver::TICK_HZ;
use freeboard::sched_core::Nanos;

const SECOND: u64 = 1_000_000_000;

/// Returns the current time of `embassy-time`, for calls of the queue.
#[must_use]
pub fn now() -> Nanos {
    nanos(embassy_time_driver::now())
}

/// Converts a time in ticks, rounding down.
const fn nanos(ticks: u64) -> Nanos {
    // A rest below `TICK_HZ`, which is below 2^33, times `SECOND` is below 2^63.
    let (seconds, rest) = (ticks / TICK_HZ, ticks % TICK_HZ);
    Nanos(seconds.saturating_mul(SECOND).saturating_add(rest * SECOND / TICK_HZ))
}

/// Converts to the first tick at or after `at`.
pub(crate) const fn ticks(at: Nanos) -> u64 {
    let (seconds, rest) = (at.0 / SECOND, at.0 % SECOND);
    seconds.saturating_mul(TICK_HZ).saturating_add((rest * TICK_HZ).div_ceil(SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a timer never fires before a packet may leave, and at most one tick after. Method:
    /// times around whole ticks and seconds, and the last ones.
    #[test]
    fn a_timer_is_set_to_the_first_tick_that_is_not_early() {
        let tick = SECOND / TICK_HZ;
        for at in [0, 1, tick - 1, tick, tick + 1, SECOND - 1, SECOND, 7 * SECOND + 3, u64::MAX / 2]
        {
            let fires = nanos(ticks(Nanos(at))).0;
            assert!(fires >= at && fires - at < tick.max(2), "{at}: {fires}");
        }
        assert_eq!(nanos(u64::MAX), Nanos(u64::MAX));
    }
}
