//! Token buckets, counted as time: what a bucket lacks is the time until it is full.

use core::num::NonZeroU64;

use crate::guarantee::ceil;
use crate::{ConfigError, Nanos};

/// Bits in a byte × nanoseconds in a second.
const BIT_NANOS_PER_BYTE_SECOND: u128 = 8_000_000_000;

/// The slowest rate that can be set, in bits per second.
pub(crate) const MIN_BITS_PER_SECOND: u64 = 1_000;
/// The fastest rate that can be set, in bits per second.
pub(crate) const MAX_BITS_PER_SECOND: u64 = 400_000_000_000;

/// How fast a bucket fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TokenRate {
    bits_per_second: u64,
    /// The time of a byte in units of 2⁻³² ns, rounded up. So the rate that is kept is the rate set or
    /// lower, by less than 12 in 10⁹: a byte takes at least 0.02 ns, which are 85,899,345 units.
    per_byte: NonZeroU64,
}

impl TokenRate {
    /// The one division is here. `what` names the rate in the error.
    pub fn new(what: &'static str, bits_per_second: u64) -> Result<Self, ConfigError> {
        ConfigError::check_range(what, bits_per_second, MIN_BITS_PER_SECOND, MAX_BITS_PER_SECOND)?;
        let rate = NonZeroU64::new(bits_per_second).unwrap_or(NonZeroU64::MAX);
        let per_byte = ceil(BIT_NANOS_PER_BYTE_SECOND << 32, rate);
        Ok(Self { bits_per_second, per_byte: NonZeroU64::new(per_byte).unwrap_or(NonZeroU64::MIN) })
    }

    /// Returns the rate that was set.
    #[must_use]
    pub const fn bits_per_second(&self) -> u64 {
        self.bits_per_second
    }

    /// The time of `bytes` bytes at the rate, after `fraction` units of 2⁻³² ns: nanoseconds, and 2⁻³² ns
    /// beyond them. A byte takes at most 8·10⁶ ns, so that 2³² bytes take less than 2⁵⁵ ns.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    pub const fn time_of(&self, bytes: u32, fraction: u32) -> (u64, u32) {
        let (bytes, per_byte) = (bytes as u64, self.per_byte.get());
        let low = bytes.wrapping_mul(per_byte & u32::MAX as u64).wrapping_add(fraction as u64);
        (bytes.wrapping_mul(per_byte >> 32).wrapping_add(low >> 32), low as u32)
    }

    /// The bytes whose time this is, rounded up.
    fn bytes_in(&self, (nanos, fraction): (u64, u32)) -> u32 {
        let units = u128::from(nanos) << 32 | u128::from(fraction);
        u32::try_from(ceil(units, self.per_byte)).unwrap_or(u32::MAX)
    }
}

/// What a bucket lacks: it is full from an instant on, and what it lacks before is the time until then.
///
/// Instants are those of an [`Elapsed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Whole nanoseconds here, 2⁻³² ns in `fraction`.
    full_at: u64,
    fraction: u32,
}

impl Bucket {
    /// A bucket that is full.
    #[must_use]
    pub const fn full(now: u64) -> Self {
        Self { full_at: now, fraction: 0 }
    }

    /// What it lacks at `now`: nanoseconds, and 2⁻³² ns beyond them.
    #[inline]
    pub const fn lacks(&self, now: u64) -> (u64, u32) {
        match self.full_at.checked_sub(now) {
            Some(ahead) => (ahead, self.fraction),
            None => (0, 0),
        }
    }

    /// Takes the time of `bytes` bytes out, now.
    #[inline]
    pub const fn take(&mut self, clock: &mut Elapsed, rate: &TokenRate, bytes: u32) {
        let (lacks, fraction) = self.lacks(clock.now);
        let (span, fraction) = rate.time_of(bytes, fraction);
        self.full_at = clock.now.saturating_add(lacks).saturating_add(span);
        self.fraction = fraction;
        clock.look_ahead(self.full_at.saturating_add(1));
    }

    /// The instant from which the bucket lacks at most `allowed` ns. Rounded up: never early.
    #[inline]
    pub const fn due(&self, allowed: u64) -> u64 {
        self.full_at.saturating_add((self.fraction != 0) as u64).saturating_sub(allowed)
    }

    /// Whether the bucket lacks at most `allowed` ns at `now`.
    #[inline]
    pub const fn lacks_at_most(&self, now: u64, allowed: u64) -> bool {
        let (lacks, fraction) = self.lacks(now);
        lacks.saturating_add((fraction != 0) as u64) <= allowed
    }

    /// Lacks at most `most` ns at `now`.
    #[inline]
    pub const fn clamp(&mut self, now: u64, most: u64) {
        if !self.lacks_at_most(now, most) {
            *self = Self::full(now.saturating_add(most));
        }
    }

    /// The bucket of another rate, which lacks as many bytes now, rounded up, but no more than the time `most`.
    pub fn at_rate(
        &self,
        clock: &mut Elapsed,
        before: &TokenRate,
        after: &TokenRate,
        most: u64,
    ) -> Self {
        let now = clock.now;
        let mut bucket = Self::full(now);
        bucket.take(clock, after, before.bytes_in(self.lacks(now)));
        bucket.clamp(now, most);
        bucket
    }
}

/// A clock that only goes on: the time for which the clock that it is told has gone on.
///
/// - A step back of up to a second is no time, nor is the way forward to where that
///   clock was before.
/// - A longer step back says that the reading before it was wrong: time goes on with the next.
/// - The clock stops where every bucket is full. So it goes no further than the time of all bytes that were
///   taken out, which is far from its end however wrong the readings are. Flows that are due may return in another
///   order than that in which they became due while it stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    /// The latest reading, since a step back that was too long for a clock that is right.
    mark: Nanos,
    now: u64,
    /// From here on all buckets are full. No bucket that takes from this clock is full later.
    all_full_at: u64,
}

impl Elapsed {
    /// Clocks of different processors are apart by less.
    const A_STEP_BACK: u64 = 1_000_000_000;
    /// More than any bucket takes to fill: no instant that counts is before 0.
    const FIRST: u64 = 1 << 60;

    /// A clock that has not been told the time.
    pub const START: Self = Self { mark: Nanos::ZERO, now: Self::FIRST, all_full_at: Self::FIRST };

    /// A clock that has reached `now`.
    #[cfg(test)]
    pub(crate) const fn reading(now: u64) -> Self {
        Self { mark: Nanos(now), now, all_full_at: now }
    }

    /// Advances to the reading `now`.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        if now >= self.mark {
            (self.mark, self.now) = (now, self.at(now));
        } else {
            self.mark = self.mark_at(now);
        }
    }

    /// The instant that was reached.
    #[inline]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// A bucket is not full before `instant`.
    #[inline]
    const fn look_ahead(&mut self, instant: u64) {
        if self.all_full_at < instant {
            self.all_full_at = instant;
        }
    }

    /// The instant that `now` would be.
    #[inline]
    fn at(&self, now: Nanos) -> u64 {
        self.now.saturating_add(now.since(self.mark).0).min(self.all_full_at)
    }

    /// What the mark would be at `now`.
    #[inline]
    fn mark_at(&self, now: Nanos) -> Nanos {
        if self.mark.since(now).0 > Self::A_STEP_BACK { now } else { self.mark.max(now) }
    }

    /// When it is `instant`, at which a bucket is full at the latest, by the clock that is told, which reads
    /// `now`; not before `now`, and `None` if that clock ends before.
    pub fn clock_at(&self, instant: u64, now: Nanos) -> Option<Nanos> {
        match instant.saturating_sub(self.at(now)) {
            0 => Some(now),
            ahead => self.mark_at(now).0.checked_add(ahead).map(Nanos),
        }
    }
}

/// What a packet of a length that is booked takes on the wire.
///
/// Rates and ceilings count bytes on the wire. `shaper::Overhead` is the one of a link.
pub trait WireLength: Copy + core::fmt::Debug {
    /// Bytes on the wire of a packet of `len` bytes. 0 counts as 1.
    fn wire_len(&self, len: u32) -> u32;
}

/// Packets are as long on the wire as they are booked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsBooked;

impl WireLength for AsBooked {
    #[inline]
    fn wire_len(&self, len: u32) -> u32 {
        len
    }
}

#[cfg(test)]
mod tests;
