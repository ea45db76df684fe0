//! Time as a number that the caller passes in.
//!
//! No code below the simulator reads a clock (`docs/decisions/0001-time-is-an-argument.md`). Any
//! sequence of values is legal input: a timestamp earlier than the last one counts as no time
//! passing.

use core::num::NonZeroU32;
use core::time::Duration;

/// A time in nanoseconds: an instant since an epoch of the caller's choice, or a span between two.
///
/// A `u64` of nanoseconds covers 584 years. All arithmetic saturates, so no value, however absurd,
/// wraps into a near time.
///
/// Spans convert from and to [`core::time::Duration`]. The conversion from a `Duration` saturates:
/// 2^64 nanoseconds and more become [`Nanos::MAX`]. The conversion into a `Duration` is exact.
///
/// ```
/// use core::time::Duration;
/// use sched_core::Nanos;
///
/// assert_eq!(Nanos::from(Duration::from_millis(5)), Nanos(5_000_000));
/// assert_eq!(Duration::from(Nanos::from_secs(2)), Duration::from_secs(2));
/// assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Nanos(pub u64);

impl Nanos {
    /// The epoch, or an empty span.
    pub const ZERO: Self = Self(0);
    /// The end of time: an event scheduled for this instant never happens.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a time of `us` microseconds, saturating.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Creates a time of `ms` milliseconds, saturating.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Creates a time of `s` seconds, saturating.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// Returns the span from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `span` after `self`, saturating at [`Nanos::MAX`].
    #[must_use]
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// Saturates: a span of 2^64 nanoseconds (584 years) or more becomes [`Nanos::MAX`].
impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        let seconds = Self::from_secs(span.as_secs());
        seconds.plus(Self(span.subsec_nanos().into()))
    }
}

/// Exact: a [`Duration`] can represent every number of nanoseconds.
impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

/// Converts a 32-bit tick counter that may wrap around into [`Nanos`].
///
/// The first reading counts as zero. The clock adds the ticks between two readings and carries
/// fractions of a nanosecond, so that none is lost; the length of a tick is rounded down by less
/// than 2^-32 ns. Read it at least once in 2^31 ticks: every 24 days at 1 kHz, every 12 seconds at
/// 168 MHz. A longer gap counts as a step back.
///
/// If the counter steps back by up to a second, no time passes until it has caught up. After a
/// longer step, such as a reset of the counter, time continues with the next tick. Cost per
/// reading: two multiplications.
///
/// ```
/// use core::num::NonZeroU32;
/// use sched_core::{Nanos, TickClock};
///
/// // A millisecond counter shortly before it wraps around after 49 days.
/// let mut clock = TickClock::new(NonZeroU32::new(1_000).ok_or("no ticks")?);
/// let start = clock.now(u32::MAX - 9);
/// assert_eq!(clock.now(0), start.plus(Nanos::from_millis(10)));
/// assert_eq!(clock.now(90), start.plus(Nanos::from_millis(100)));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TickClock {
    /// Ticks per second.
    hz: u32,
    /// The length of a tick: whole nanoseconds, and units of 2^-32 ns.
    tick: [u32; 2],
    /// The last reading; `None` before the first.
    latest: Option<u32>,
    now: Nanos,
    /// The elapsed fraction of the next nanosecond, in units of 2^-32 ns.
    fraction: u32,
}

impl TickClock {
    /// Creates a clock for a counter of `hz` ticks per second. It is at [`Nanos::ZERO`] until the
    /// second reading.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 10^9 in the upper half")]
    pub const fn new(hz: NonZeroU32) -> Self {
        let tick = match (1_000_000_000_u64 << u32::BITS).checked_div(hz.get() as u64) {
            Some(tick) => [(tick >> u32::BITS) as u32, tick as u32],
            None => [0, 0],
        };
        Self { hz: hz.get(), tick, latest: None, now: Nanos::ZERO, fraction: 0 }
    }

    /// Returns the time for the counter value `ticks`.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is left")]
    pub const fn now(&mut self, ticks: u32) -> Nanos {
        let passed = match self.latest {
            Some(latest) => ticks.wrapping_sub(latest),
            None => 0,
        };
        if passed <= u32::MAX >> 1 {
            let [whole, parts] = self.tick;
            // Below 2^31 · 2^30, and below 2^31 · 2^32 + 2^32.
            let whole = (passed as u64).wrapping_mul(whole as u64);
            let parts = (passed as u64).wrapping_mul(parts as u64);
            let parts = parts.wrapping_add(self.fraction as u64);
            self.now = self.now.plus(Nanos(whole)).plus(Nanos(parts >> u32::BITS));
            (self.fraction, self.latest) = (parts as u32, Some(ticks));
        } else if passed.wrapping_neg() > self.hz {
            self.latest = Some(ticks);
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no time is lost or gained, however often a counter is read and wraps around. Method:
    /// read counters of several rates after random spans up to the longest, and compare with
    /// 128-bit ticks.
    #[test]
    fn ticks_add_up_to_their_time() {
        for hz in [1, 1_000, 32_768, 1_000_000, 168_000_000, 999_999_999, u32::MAX] {
            let mut clock = TickClock::new(NonZeroU32::new(hz).unwrap());
            assert_eq!(clock.now(0), Nanos::ZERO);
            let (mut ticks, mut random) = (0_u128, u64::from(hz) | 1);
            for _ in 0..2_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ticks += u128::from(random >> 33 >> (random & 31));
                let now = clock.now((ticks % (1 << 32)) as u32).0;
                let exact = (ticks * 1_000_000_000 / u128::from(hz)).min(u64::MAX.into());
                let lag = exact - u128::from(now);
                assert!(lag <= 1 + (ticks >> 32), "{hz} Hz: {now} at {exact}");
            }
        }
    }

    #[test]
    fn a_counter_that_steps_back_stands_still_or_begins_anew() {
        let ms = Nanos::from_millis;
        let mut clock = TickClock::new(NonZeroU32::new(1_000).unwrap());
        assert_eq!(clock.now(0), Nanos::ZERO);
        assert_eq!(clock.now(5_000), ms(5_000));
        assert_eq!(clock.now(4_000), ms(5_000), "a second back");
        assert_eq!(clock.now(5_001), ms(5_001));
        assert_eq!(clock.now(2_000), ms(5_001), "three seconds back");
        assert_eq!(clock.now(2_010), ms(5_011));
    }

    /// Goal: the first reading never counts as a step back. Method: start at arbitrary counter
    /// values and read again after spans up to the longest.
    #[test]
    fn the_first_reading_is_the_zero_of_the_clock() {
        for first in [0, 1, 5_000, 1 << 31, (1 << 31) + 1, u32::MAX - 1_001, u32::MAX - 9, u32::MAX]
        {
            for span in [0, 1, 10, 1_000, u32::MAX >> 1] {
                let mut clock = TickClock::new(NonZeroU32::new(1_000).unwrap());
                assert_eq!(clock.now(first), Nanos::ZERO, "{first}");
                let now = clock.now(first.wrapping_add(span));
                assert_eq!(now, Nanos::from_millis(span.into()), "{first} and {span}");
            }
        }
    }

    #[test]
    fn a_duration_becomes_the_nearest_span() {
        let longest = Duration::from_nanos(u64::MAX);
        let just_too_long = longest + Duration::from_nanos(1);
        for (span, nanos) in [
            (Duration::ZERO, Nanos::ZERO),
            (Duration::from_nanos(1), Nanos(1)),
            (Duration::new(3, 999_999_999), Nanos(3_999_999_999)),
            (longest - Duration::from_nanos(1), Nanos(u64::MAX - 1)),
            (longest, Nanos::MAX),
            (just_too_long, Nanos::MAX),
            (Duration::MAX, Nanos::MAX),
        ] {
            assert_eq!(Nanos::from(span), nanos, "{span:?}");
        }
    }

    #[test]
    fn a_span_survives_the_way_through_a_duration() {
        for nanos in [0, 1, 999_999_999, 1_000_000_000, u64::MAX - 1, u64::MAX] {
            assert_eq!(Duration::from(Nanos(nanos)).as_nanos(), nanos.into());
            assert_eq!(Nanos::from(Duration::from(Nanos(nanos))), Nanos(nanos));
        }
    }

    #[test]
    fn a_clock_that_steps_back_stands_still() {
        assert_eq!(Nanos(5).since(Nanos(9)), Nanos::ZERO);
        assert_eq!(Nanos(9).since(Nanos(5)), Nanos(4));
    }

    #[test]
    fn no_time_wraps_into_a_near_one() {
        assert_eq!(Nanos::MAX.plus(Nanos(1)), Nanos::MAX);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
        assert_eq!(Nanos::from_millis(3).plus(Nanos::from_micros(2)), Nanos(3_002_000));
    }
}
