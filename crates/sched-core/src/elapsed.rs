//! A monotonic clock derived from the caller's timestamps.

use crate::Nanos;

/// A clock that never steps back: the total time by which the caller's clock has advanced.
///
/// - After a step back of up to a second, no time passes until the caller's clock has caught up.
/// - A longer step back means that the previous timestamp was wrong: time continues from the new
///   one.
/// - A single step advances at most to the caller's limit, so the clock stays far from its end
///   however wrong the timestamps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    /// The latest timestamp, except after a step back that was too long for a correct clock.
    mark: Nanos,
    /// Current time minus `mark`, wrapping. Constant while the caller's clock advances.
    more: u64,
}

impl Elapsed {
    /// Tolerated step back; the clocks of different processors differ by less.
    const A_STEP_BACK: Nanos = Nanos::from_secs(1);
    /// Almost ten hours.
    pub(crate) const A_LONG_STEP: Nanos = Nanos(1 << 45);
    /// Initial time. Longer than any bucket takes to fill and any credit lasts, so that no relevant
    /// instant is before 0.
    pub const FIRST: Nanos = Nanos(1 << 60);

    /// A clock that has not been advanced.
    pub const START: Self = Self { mark: Nanos::ZERO, more: Self::FIRST.0 };

    /// Returns the current time.
    #[must_use]
    #[inline(always)]
    pub const fn now(&self) -> Nanos {
        Nanos(self.mark.0.wrapping_add(self.more))
    }

    /// Advances to the timestamp `reading`, but not beyond `end`. Returns the current time.
    #[inline]
    pub fn advance(&mut self, reading: Nanos, end: Nanos) -> Nanos {
        let now = self.now();
        if reading >= self.mark {
            let next = now.plus(reading.since(self.mark)).min(end.max(now));
            self.set(reading, next);
        } else {
            self.set(self.mark_at(reading), now);
        }
        self.now()
    }

    /// Advances to `reading` if it is later by less than [`A_LONG_STEP`](Self::A_LONG_STEP) and
    /// returns the current time. Otherwise returns `None` and changes nothing.
    #[inline(always)]
    pub(crate) fn advance_plainly(&mut self, reading: Nanos) -> Option<Nanos> {
        if reading.0.wrapping_sub(self.mark.0) >= Self::A_LONG_STEP.0 {
            return None;
        }
        self.mark = reading;
        Some(self.now())
    }

    /// Moves time back to its initial value. Returns the difference.
    pub(crate) fn move_back(&mut self) -> Nanos {
        let span = self.now().since(Self::FIRST);
        self.more = self.more.wrapping_sub(span.0);
        span
    }

    /// Sets the time to `now` at the timestamp `mark`.
    const fn set(&mut self, mark: Nanos, now: Nanos) {
        (self.mark, self.more) = (mark, now.0.wrapping_sub(mark.0));
    }

    /// Returns the new mark after the timestamp `reading`.
    #[inline]
    fn mark_at(&self, reading: Nanos) -> Nanos {
        if self.mark.since(reading) > Self::A_STEP_BACK { reading } else { self.mark.max(reading) }
    }

    /// Converts `instant` of this clock into the caller's clock, which is at `reading` now. The
    /// result is not before `reading`; `None` if it is beyond the end of the caller's clock.
    /// `instant` is at most the time at which a bucket is full.
    #[must_use]
    pub fn clock_at(&self, instant: Nanos, reading: Nanos) -> Option<Nanos> {
        match instant.since(self.now().plus(reading.since(self.mark))).0 {
            0 => Some(reading),
            ahead => self.mark_at(reading).0.checked_add(ahead).map(Nanos),
        }
    }

    /// Simulates a clock that has been running for `span` longer.
    #[cfg(test)]
    pub(crate) const fn age_by(&mut self, span: u64) {
        self.more += span;
    }
}
