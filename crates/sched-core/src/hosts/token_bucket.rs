//! Token buckets, counted as time: what a bucket lacks is the time until it is full.

use crate::{ConfigError, FiniteRate, Nanos, Tick};

/// A rate of a host and the burst that the host may be sent at once after it was sent less: the
/// most that it is sent, or what it is sent without borrowing.
///
/// ```
/// use sched_core::{ConfigError, TokenBucket};
///
/// let bucket = TokenBucket::new(20_000_000, 30_000)?;
/// assert_eq!((bucket.bits_per_second(), bucket.burst()), (20_000_000, 30_000));
/// assert!(TokenBucket::new(0, 30_000).is_err());
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TokenBucket {
    rate: FiniteRate,
    burst: u32,
    borrows_free: bool,
}

impl TokenBucket {
    /// Creates a bucket of `bits_per_second` on the wire and `burst` bytes at once; above 2³⁰ they
    /// count as 2³⁰. The one division is here.
    ///
    /// Under a ceiling a burst of the longest packet paces packets exactly, and every delay of the
    /// caller is lost. A caller that comes up to `t` late needs `t` times the rate more.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `bits_per_second` is in the range of
    /// [`Rate`](crate::Rate::bits_per_second) and `burst` is not 0.
    pub fn new(bits_per_second: u64, burst: u32) -> Result<Self, ConfigError> {
        let rate = FiniteRate::new(bits_per_second)?;
        ConfigError::check_range("burst in bytes", burst.into(), 1, u32::MAX.into())?;
        Ok(Self { rate, burst: 0, borrows_free: false }.with_burst_of_at_least(burst))
    }

    /// The same committed rate, of which nothing is taken for what a host is sent in excess.
    /// Without effect on a ceiling.
    ///
    /// The host then has its rate on top of what it borrowed. Beside rivals that pause now and
    /// then, such as TCP under an AQM, it gets more than its rate.
    #[must_use]
    pub const fn with_free_borrowing(self) -> Self {
        Self { borrows_free: true, ..self }
    }

    /// Returns the rate.
    #[must_use]
    pub const fn bits_per_second(&self) -> u64 {
        self.rate.bits_per_second()
    }

    /// Returns the burst in bytes.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// Returns true if nothing is taken for what a host is sent in excess.
    #[must_use]
    pub const fn borrows_free(&self) -> bool {
        self.borrows_free
    }

    /// Returns the same bucket with a burst of at least `bytes` bytes. Above 2³⁰ they count as 2³⁰.
    #[must_use]
    pub fn with_burst_of_at_least(self, bytes: u32) -> Self {
        let most = u32::try_from(FiniteRate::LONGEST).unwrap_or(u32::MAX);
        Self { burst: self.burst.max(bytes).min(most), ..self }
    }

    /// How long `bytes` bytes take at the rate, rounded down.
    #[doc(hidden)]
    #[must_use]
    pub const fn time_of(&self, bytes: u32) -> Nanos {
        self.rate.whole_time_of(bytes)
    }
}

/// A token bucket in use, or none: it is full from an instant on, and what it lacks before is the
/// time until then.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    of: Option<TokenBucket>,
    full_at: Tick,
}

impl Bucket {
    /// No bucket: it lacks nothing.
    pub const NONE: Self = Self { of: None, full_at: Tick::without_rate(Nanos::ZERO) };

    /// What it holds, and how fast it fills.
    #[must_use]
    pub const fn of(&self) -> Option<TokenBucket> {
        self.of
    }

    /// The instant from which it is full. Rounded up: never early.
    #[must_use]
    pub const fn full_at(&self) -> Nanos {
        self.full_at.ns
    }

    /// The instant from which it holds at least `bytes` bytes; at most the burst.
    #[must_use]
    #[inline]
    pub fn holds_at(&self, bytes: u32) -> Nanos {
        let allowed = |of: TokenBucket| of.time_of(of.burst.saturating_sub(bytes));
        self.of.map_or(Nanos::ZERO, |of| self.full_at.ns.since(allowed(of)))
    }

    /// Takes `bytes` bytes out, now.
    #[inline]
    pub fn take(&mut self, now: Nanos, bytes: u32) {
        let Some(TokenBucket { rate, .. }) = self.of else { return };
        self.full_at = rate.after_packet(rate.not_before(self.full_at, now), bytes.into());
    }

    /// Lacks at most as many `bursts` at `now`.
    #[inline]
    pub fn clamp(&mut self, now: Nanos, bursts: u64) {
        let Some(of) = self.of else { return };
        let latest = now.plus(Nanos(of.time_of(of.burst).0.saturating_mul(bursts)));
        self.full_at = self.full_at.min(of.rate.at(latest));
    }

    /// Is of another kind, which lacks as many bytes now, but at most as many `bursts`; full if it
    /// was or will be none.
    pub fn set(&mut self, now: Nanos, to: Option<TokenBucket>, bursts: u64) {
        self.full_at = match (self.of, to) {
            (Some(before), Some(to)) => {
                to.rate.after(now, before.rate.work_between(now, self.full_at).or_none())
            }
            _ => Tick::without_rate(now),
        };
        self.of = to;
        self.clamp(now, bursts);
    }
}

#[cfg(test)]
mod tests;
