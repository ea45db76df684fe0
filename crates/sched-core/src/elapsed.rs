//! The time for which a clock has gone on.

use crate::Nanos;

/// A clock that only goes on: the time for which the clock that it is told has gone on.
///
/// - A step back of up to a second is no time, nor is the way forward to where that clock was before.
/// - A longer step back says that the reading before it was wrong: time goes on with the next.
/// - It goes no further than its caller says, and that is where nothing changes any more: where every
///   bucket is full. So it is far from its end however wrong the readings are. Flows that are due may
///   return in another order than that in which they became due while it stood.
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
    /// The time at first. It is longer than any bucket takes to fill: no instant that counts is before
    /// 0.
    pub const FIRST: Nanos = Nanos(1 << 60);

    /// A clock that has not been told the time.
    pub const START: Self = Self { mark: Nanos::ZERO, more: Self::FIRST.0 };

    /// The instant that was reached.
    #[must_use]
    #[inline(always)]
    pub const fn now(&self) -> Nanos {
        Nanos(self.mark.0.wrapping_add(self.more))
    }

    /// Advances to the reading `told`, but no further than to `end`.
    #[inline]
    pub fn advance(&mut self, told: Nanos, end: Nanos) {
        let now = self.now();
        if told >= self.mark {
            let next = now.plus(told.since(self.mark)).min(end.max(now));
            self.set(told, next);
        } else {
            self.set(self.mark_at(told), now);
        }
    }

    /// The time is `now` when the clock reads `mark`.
    const fn set(&mut self, mark: Nanos, now: Nanos) {
        (self.mark, self.more) = (mark, now.0.wrapping_sub(mark.0));
    }

    /// What the mark would be at `told`.
    #[inline]
    fn mark_at(&self, told: Nanos) -> Nanos {
        if self.mark.since(told) > Self::A_STEP_BACK { told } else { self.mark.max(told) }
    }

    /// When it is `instant`, at which a bucket is full at the latest, by the clock that is told, which
    /// reads `told`; not before `told`, and `None` if that clock ends before.
    #[must_use]
    pub fn clock_at(&self, instant: Nanos, told: Nanos) -> Option<Nanos> {
        match instant.since(self.now().plus(told.since(self.mark))).0 {
            0 => Some(told),
            ahead => self.mark_at(told).0.checked_add(ahead).map(Nanos),
        }
    }
}
