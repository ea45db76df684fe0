//! Time as the library sees it: a number that the caller passes in.
//!
//! No code below the simulator reads a clock (`docs/decisions/0001-time-is-an-argument.md`). Any
//! sequence of values is legal input: a clock that steps back counts as one that stood still.

use core::time::Duration;

/// Nanoseconds, as an instant since an epoch of the caller's choice or as a span between two.
///
/// A `u64` of nanoseconds reaches 584 years. All arithmetic saturates, so that no time, however
/// absurd, can wrap into a near one.
///
/// Spans come from and go to [`core::time::Duration`]. From a `Duration` the conversion saturates: 2^64 nanoseconds
/// and more are [`Nanos::MAX`]. Into a `Duration` it is exact.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct Nanos(pub u64);

impl Nanos {
    /// The epoch, and the empty span.
    pub const ZERO: Self = Self(0);
    /// The end of time: nothing scheduled for this instant ever happens.
    pub const MAX: Self = Self(u64::MAX);

    /// `us` microseconds, saturating.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds, saturating.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// `s` seconds, saturating.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// The span from `earlier` to `self`; zero if the clock went backwards in between.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The instant `span` after `self`, saturating at [`Nanos::MAX`].
    #[must_use]
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// Saturating: a span of 2^64 nanoseconds (584 years) and more is [`Nanos::MAX`].
impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        let seconds = Self::from_secs(span.as_secs());
        seconds.plus(Self(span.subsec_nanos().into()))
    }
}

/// Exact: every number of nanoseconds has its [`Duration`].
impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
