//! Token buckets, counted as time: the missing tokens are the time until the bucket is full.

use crate::{ConfigError, FiniteRate, Nanos, Tick};

/// A token bucket: a rate of a host, and the burst that it may send at once after it has sent less.
/// Serves as a ceiling or as a committed rate.
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
    /// count as 2³⁰. Takes one division.
    ///
    /// For a ceiling, a burst of the longest packet paces packets exactly, but time lost by a late
    /// caller is never caught up. A caller that is up to `t` late needs an additional burst of `t`
    /// times the rate.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `bits_per_second` is in the range of
    /// [`Rate`](crate::Rate::bits_per_second) and `burst` is not 0.
    pub fn new(bits_per_second: u64, burst: u32) -> Result<Self, ConfigError> {
        let rate = FiniteRate::new(bits_per_second)?;
        ConfigError::check_range("burst in bytes", burst.into(), 1, u32::MAX.into())?;
        Ok(Self { rate, burst: 0, borrows_free: false }.with_burst_of_at_least(burst))
    }

    /// Lets packets sent in excess of the committed rate consume no tokens. Without effect on a
    /// ceiling.
    ///
    /// The host then gets its rate in addition to what it borrows. Next to rivals that pause from
    /// time to time, such as TCP under an AQM, it gets more than its rate.
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

    /// Returns true if packets sent in excess of the committed rate consume no tokens.
    #[must_use]
    pub const fn borrows_free(&self) -> bool {
        self.borrows_free
    }

    /// Returns this bucket with a burst of at least `bytes` bytes. Above 2³⁰ they count as 2³⁰.
    #[must_use]
    pub fn with_burst_of_at_least(self, bytes: u32) -> Self {
        let most = u32::try_from(FiniteRate::LONGEST).unwrap_or(u32::MAX);
        Self { burst: self.burst.max(bytes).min(most), ..self }
    }

    /// Returns the time of `bytes` bytes at this rate, rounded down.
    #[doc(hidden)]
    #[must_use]
    pub const fn time_of(&self, bytes: u32) -> Nanos {
        self.rate.whole_time_of(bytes)
    }
}

/// The state of a token bucket, or of none: the time from which it is full. The tokens missing
/// before are the time until then.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    of: Option<TokenBucket>,
    full_at: Tick,
}

impl Bucket {
    /// No bucket: it is always full.
    pub const NONE: Self = Self { of: None, full_at: Tick::without_rate(Nanos::ZERO) };

    /// Returns the bucket's burst and rate, if there is one.
    #[must_use]
    pub const fn of(&self) -> Option<TokenBucket> {
        self.of
    }

    /// Returns the time from which it is full. Rounded up: never early.
    #[must_use]
    pub const fn full_at(&self) -> Nanos {
        self.full_at.ns
    }

    /// Returns the time from which it holds at least `bytes` bytes, at most the burst.
    #[must_use]
    #[inline]
    pub fn holds_at(&self, bytes: u32) -> Nanos {
        let allowed = |of: TokenBucket| of.time_of(of.burst.saturating_sub(bytes));
        self.of.map_or(Nanos::ZERO, |of| self.full_at.ns.since(allowed(of)))
    }

    /// Takes `bytes` bytes out at `now`.
    #[inline]
    pub fn take(&mut self, now: Nanos, bytes: u32) {
        let Some(TokenBucket { rate, .. }) = self.of else { return };
        self.full_at = rate.after_packet(rate.not_before(self.full_at, now), bytes.into());
    }

    /// Limits the missing tokens to `bursts` times the burst at `now`.
    #[inline]
    pub fn clamp(&mut self, now: Nanos, bursts: u64) {
        let Some(of) = self.of else { return };
        let latest = now.plus(Nanos(of.time_of(of.burst).0.saturating_mul(bursts)));
        self.full_at = self.full_at.min(of.rate.at(latest));
    }

    /// Replaces the bucket. The missing bytes stay, but at most `bursts` times the burst; the
    /// result is full if there was or will be no bucket.
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
