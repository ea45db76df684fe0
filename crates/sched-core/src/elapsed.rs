//! The time for which a clock has gone on.

use crate::Nanos;

/// A clock that never steps back: the time for which the clock of the caller has advanced.
///
/// - A step back of up to a second is no time, nor is the way forward to where that clock was
///   before.
/// - A longer step back says that the reading before it was wrong: time goes on with the next.
/// - It goes no further at once than its caller says. So it is far from its end however wrong the
///   readings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    /// The latest reading, since a step back that was too long for a clock that is right.
    mark: Nanos,
    /// What the time is more than that reading; wraps. It stays while the clock goes on.
    more: u64,
}

impl Elapsed {
    /// Clocks of different processors are apart by less.
    const A_STEP_BACK: Nanos = Nanos::from_secs(1);
    /// Ten hours, nearly.
    pub(crate) const A_LONG_STEP: Nanos = Nanos(1 << 45);
    /// The time at first. It is longer than any bucket takes to fill, and any credit: no instant
    /// that counts is before 0.
    pub const FIRST: Nanos = Nanos(1 << 60);

    /// A clock that has not been advanced.
    pub const START: Self = Self { mark: Nanos::ZERO, more: Self::FIRST.0 };

    /// The instant that was reached.
    #[must_use]
    #[inline(always)]
    pub const fn now(&self) -> Nanos {
        Nanos(self.mark.0.wrapping_add(self.more))
    }

    /// Advances to `reading`, but no further than to `end`. Returns the instant.
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

    /// Advances to `reading`, which is later by less than [`A_LONG_STEP`](Self::A_LONG_STEP).
    /// Returns the instant; `None`, and nothing has changed, for any other reading.
    #[inline(always)]
    pub(crate) fn advance_plainly(&mut self, reading: Nanos) -> Option<Nanos> {
        if reading.0.wrapping_sub(self.mark.0) >= Self::A_LONG_STEP.0 {
            return None;
        }
        self.mark = reading;
        Some(self.now())
    }

    /// Moves time back to where it began. Returns how far.
    pub(crate) fn move_back(&mut self) -> Nanos {
        let span = self.now().since(Self::FIRST);
        self.more = self.more.wrapping_sub(span.0);
        span
    }

    /// The time is `now` when the clock reads `mark`.
    const fn set(&mut self, mark: Nanos, now: Nanos) {
        (self.mark, self.more) = (mark, now.0.wrapping_sub(mark.0));
    }

    /// Returns the mark for `reading`.
    #[inline]
    fn mark_at(&self, reading: Nanos) -> Nanos {
        if self.mark.since(reading) > Self::A_STEP_BACK { reading } else { self.mark.max(reading) }
    }

    /// Returns the reading of the caller's clock, which reads `reading` now, at `instant`, at which
    /// a bucket is full at the latest. It is not before `reading`, and `None` if that clock ends
    /// before.
    #[must_use]
    pub fn clock_at(&self, instant: Nanos, reading: Nanos) -> Option<Nanos> {
        match instant.since(self.now().plus(reading.since(self.mark))).0 {
            0 => Some(reading),
            ahead => self.mark_at(reading).0.checked_add(ahead).map(Nanos),
        }
    }

    /// Makes the clock as old as one that has gone on for `span`.
    #[cfg(test)]
    pub(crate) const fn age_by(&mut self, span: u64) {
        self.more += span;
    }
}
