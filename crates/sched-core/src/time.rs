//! Time as the library sees it: a number that the caller passes in.
//!
//! No code below the simulator reads a clock (`docs/decisions/0001-time-is-an-argument.md`). Any
//! sequence of values is legal input: a clock that steps back counts as one that stood still.

/// Nanoseconds, as an instant since an epoch of the caller's choice or as a span between two.
///
/// A `u64` of nanoseconds reaches 584 years. All arithmetic saturates, so that no time, however
/// absurd, can wrap into a near one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

#[cfg(test)]
mod tests {
    use super::*;

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
