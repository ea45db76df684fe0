//! Rates in bits per second, with exact transmission times. Links, token buckets and tins use them.
//!
//! A packet of `n` bytes takes `n · 8·10⁹ / rate` nanoseconds. A rate kept as whole nanoseconds per
//! byte would turn 750 Mbit/s into 800; one kept as a rounded fixed-point number would drift. So
//! time is counted in units of 1/rate of a nanosecond, in which every packet takes an integer, and
//! the unused part of the last nanosecond is carried from packet to packet.
//!
//! Cost: three multiplications and a shift per packet, and one division at construction.

use core::hint::select_unpredictable;
use core::num::{NonZeroU64, NonZeroU128};

use crate::{ConfigError, Nanos};

/// Bits in a byte × nanoseconds in a second.
const BIT_NANOS_PER_BYTE_SECOND: u64 = 8_000_000_000;

/// A rate at which packets leave: 1 kbit/s to 400 Gbit/s, stopped, or unlimited.
///
/// The number 0 is rejected because some tools read it as "stopped" and others as "unlimited". Use
/// [`Rate::STOPPED`] or [`Rate::UNLIMITED`].
///
/// ```
/// use sched_core::{ConfigError, Nanos, Rate};
///
/// let line = Rate::bits_per_second(1_000_000)?;
/// assert_eq!(line.time_of(1_500), Nanos::from_millis(12));
/// assert!(Rate::bits_per_second(0).is_err());
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Stopped,
    Finite(FiniteRate),
    Unlimited,
}

impl Rate {
    /// Nothing leaves. The queue keeps accepting packets within its limits.
    pub const STOPPED: Self = Self(Kind::Stopped);
    /// Every packet leaves at once: no shaping.
    pub const UNLIMITED: Self = Self(Kind::Unlimited);
    /// The slowest rate that can be set, in bits per second.
    pub const MIN_BITS_PER_SECOND: u64 = 1_000;
    /// The fastest rate that can be set, in bits per second.
    pub const MAX_BITS_PER_SECOND: u64 = 400_000_000_000;

    /// Creates a rate of `bps` bits per second.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless [`MIN_BITS_PER_SECOND`](Self::MIN_BITS_PER_SECOND)
    /// `≤ bps ≤` [`MAX_BITS_PER_SECOND`](Self::MAX_BITS_PER_SECOND).
    pub const fn bits_per_second(bps: u64) -> Result<Self, ConfigError> {
        match FiniteRate::new(bps) {
            Ok(rate) => Ok(Self(Kind::Finite(rate))),
            Err(error) => Err(error),
        }
    }

    /// Creates a rate of `kbps` thousand bits per second.
    ///
    /// # Errors
    /// See [`bits_per_second`](Self::bits_per_second).
    pub const fn kilobits_per_second(kbps: u64) -> Result<Self, ConfigError> {
        Self::bits_per_second(kbps.saturating_mul(1_000))
    }

    /// Creates a rate of `mbps` million bits per second.
    ///
    /// # Errors
    /// See [`bits_per_second`](Self::bits_per_second).
    pub const fn megabits_per_second(mbps: u64) -> Result<Self, ConfigError> {
        Self::bits_per_second(mbps.saturating_mul(1_000_000))
    }

    /// Returns the rate in bits per second: 0 when stopped, `None` when unlimited.
    #[must_use]
    pub const fn as_bits_per_second(self) -> Option<u64> {
        match self.0 {
            Kind::Stopped => Some(0),
            Kind::Finite(rate) => Some(rate.bits_per_second()),
            Kind::Unlimited => None,
        }
    }

    /// Returns the transmission time of `wire_len` bytes, rounded up to a whole nanosecond: zero
    /// when unlimited, [`Nanos::MAX`] when stopped.
    #[must_use]
    pub const fn time_of(self, wire_len: u32) -> Nanos {
        match self.0 {
            Kind::Stopped => Nanos::MAX,
            Kind::Finite(rate) => {
                let len = wire_len as u64;
                let len = if len < FiniteRate::LONGEST { len } else { FiniteRate::LONGEST };
                rate.after_packet(rate.at(Nanos::ZERO), len).ns
            }
            Kind::Unlimited => Nanos::ZERO,
        }
    }

    /// Returns the arithmetic of a rate that is neither stopped nor unlimited.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub const fn finite(self) -> Option<FiniteRate> {
        match self.0 {
            Kind::Finite(rate) => Some(rate),
            Kind::Stopped | Kind::Unlimited => None,
        }
    }

    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub const fn is_unlimited(self) -> bool {
        matches!(self.0, Kind::Unlimited)
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Rate {
    fn format(&self, f: defmt::Formatter<'_>) {
        match self.0 {
            Kind::Stopped => defmt::write!(f, "stopped"),
            Kind::Finite(rate) => defmt::write!(f, "{=u64} bit/s", rate.bits_per_second()),
            Kind::Unlimited => defmt::write!(f, "unlimited"),
        }
    }
}

/// A rate that is neither stopped nor unlimited, with its precomputed reciprocal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FiniteRate {
    bps: NonZeroU64,
    /// ⌊(2⁶⁴⁺ˢ − 1) / bps⌋, where bps is at least 2ˢ and below 2ˢ⁺¹.
    reciprocal: u64,
}

/// An exact instant: `ns − (rate − rest) / rate` nanoseconds, `1 ≤ rest ≤ rate`. It is stored as
/// the first whole nanosecond that is not earlier, because that is the time at which the link may
/// send. The rate belongs to the owner; instants of one rate compare in time order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick {
    /// The instant in nanoseconds, rounded up.
    pub ns: Nanos,
    rest: u64,
}

impl Tick {
    /// Creates an instant for a stopped or unlimited rate, without a fraction. For a finite rate it
    /// is one nanosecond before `ns`.
    #[must_use]
    pub const fn without_rate(ns: Nanos) -> Self {
        Self { ns, rest: 0 }
    }
}

/// An amount of data in units of 10⁻⁹ bit, which is what 1 bit/s carries in a nanosecond. Negative
/// if a link is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work(i128);

impl Work {
    /// No work.
    pub const NONE: Self = Self(0);

    /// Adds `wire_len` bytes, below 2⁶³.
    #[must_use]
    pub fn plus(self, wire_len: u64) -> Self {
        let bytes = i128::from(wire_len).wrapping_mul(BIT_NANOS_PER_BYTE_SECOND.into());
        Self(self.0.saturating_add(bytes))
    }

    /// Returns this work, or none if it is negative.
    #[must_use]
    pub fn or_none(self) -> Self {
        Self(self.0.max(0))
    }
}

impl FiniteRate {
    /// The longest packet whose time is exact: 2³⁰ bytes, far above the longest packet of any link.
    ///
    /// The product with 8·10⁹ plus the carry (≤ 4·10¹¹) is below 8.6·10¹⁸ < 2⁶³.
    pub const LONGEST: u64 = 1 << 30;

    /// Creates a rate of `bps` bits per second, in the range of [`Rate`].
    #[allow(clippy::integer_division, reason = "at construction only; the divisor is non-zero")]
    #[allow(clippy::cast_possible_truncation, reason = "2⁶⁴⁺ˢ − 1 by 2ˢ or more")]
    pub const fn new(bps: u64) -> Result<Self, ConfigError> {
        let (min, max) = (Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND);
        match NonZeroU64::new(bps) {
            Some(rate) if min <= bps && bps <= max => {
                let units = u128::MAX >> (rate.leading_zeros() + 1);
                Ok(Self { bps: rate, reciprocal: (units / bps as u128) as u64 })
            }
            _ => Err(ConfigError::OutOfRange {
                what: "rate in bits per second",
                value: bps,
                min,
                max,
            }),
        }
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.bps.get()
    }

    /// Returns the instant at exactly `ns`.
    #[must_use]
    #[inline]
    pub const fn at(self, ns: Nanos) -> Tick {
        Tick { ns, rest: self.bps.get() }
    }

    /// Returns the later of `instant` and the whole nanosecond `ns`.
    #[must_use]
    #[inline]
    pub fn not_before(self, instant: Tick, ns: Nanos) -> Tick {
        // Without a branch: for a tin that borrows, the comparison is unpredictable.
        let rest = select_unpredictable(instant.ns > ns, instant.rest, self.bps.get());
        Tick { ns: instant.ns.max(ns), rest }
    }

    /// Returns the exact instant at which `wire_len` bytes (at most [`LONGEST`](Self::LONGEST))
    /// that start at `start` end; saturates at the end of time.
    #[must_use]
    #[inline]
    pub const fn after_packet(self, start: Tick, wire_len: u64) -> Tick {
        // With d = bps, `start` lies (d − rest)/d before its nanosecond, and the packet takes p/d
        // nanoseconds. Its end rounds up to the nanosecond that is ⌈(p + rest)/d⌉ − 1 later.
        let units = wire_len.wrapping_mul(BIT_NANOS_PER_BYTE_SECOND).wrapping_add(start.rest);
        let whole = self.whole_below(units);
        let rest = units.wrapping_sub(whole.wrapping_mul(self.bps.get()));
        match start.ns.0.checked_add(whole) {
            Some(ns) => Tick { ns: Nanos(ns), rest },
            None => self.at(Nanos::MAX),
        }
    }

    /// Returns the transmission time of `wire_len` bytes (at most [`LONGEST`](Self::LONGEST)),
    /// rounded down.
    #[must_use]
    #[inline]
    pub const fn whole_time_of(self, wire_len: u32) -> Nanos {
        let units = (wire_len as u64).wrapping_mul(BIT_NANOS_PER_BYTE_SECOND);
        Nanos(self.whole_below(units.wrapping_add(1)))
    }

    /// Returns the largest whole number below `units / bps`, for units from 1 to 2⁶³.
    #[inline]
    const fn whole_below(self, units: u64) -> u64 {
        // With d = bps, 2⁶⁴⁺ˢ = d·m + e and 1 ≤ e ≤ d < 2ˢ⁺¹: units·m / 2⁶⁴⁺ˢ is less than units/d
        // by units·e / (d·2⁶⁴⁺ˢ), which is above 0 and below 1/d.
        high_half(units, self.reciprocal) >> (63 - self.bps.leading_zeros())
    }
}

/// Exact amounts of work, so that a change of the rate loses nothing.
impl FiniteRate {
    /// Returns the work that this rate does between `now` and `end`; negative if `end` is earlier.
    #[must_use]
    pub fn work_between(self, now: Nanos, end: Tick) -> Work {
        // The magnitude is below 2⁶⁴ · 4·10¹¹ < 2¹⁰³.
        let whole = i128::from(end.ns.0).wrapping_sub(now.0.into());
        let too_much = i128::from(self.bps.get().wrapping_sub(end.rest));
        Work(whole.wrapping_mul(self.bps.get().into()).wrapping_sub(too_much))
    }

    /// Returns the instant at which `work` that begins at `now` is done. For negative work it is
    /// before `now`. Saturates at both ends of time.
    #[must_use]
    #[allow(clippy::integer_division, reason = "at a change of the rate only, by what is not zero")]
    pub fn after(self, now: Nanos, work: Work) -> Tick {
        let bps = NonZeroU128::from(self.bps);
        let size = work.0.unsigned_abs();
        let is_late = work.0 < 0;
        // Rounded up to a whole nanosecond: for negative work that is the quotient rounded down,
        // for positive work rounded up.
        let units = if is_late { size } else { size.saturating_add(bps.get().wrapping_sub(1)) };
        let whole = units / bps;
        let rest = units.wrapping_sub(whole.wrapping_mul(bps.get()));
        let now = u128::from(now.0);
        // No instant is before time 0, not even by a fraction of a nanosecond.
        if is_late && now < whole.saturating_add((rest > 0).into()) {
            return self.at(Nanos::ZERO);
        }
        let (ns, rest) = if is_late {
            (now.wrapping_sub(whole), bps.get().wrapping_sub(rest))
        } else {
            (now.saturating_add(whole), rest.wrapping_add(1))
        };
        match (u64::try_from(ns), u64::try_from(rest)) {
            (Ok(ns), Ok(rest)) => Tick { ns: Nanos(ns), rest },
            _ => self.at(Nanos::MAX),
        }
    }
}

/// Returns the upper 64 of the 128 bits of `a · b`.
#[allow(clippy::cast_possible_truncation, reason = "128 − 64 bits are left")]
const fn high_half(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(value: u64) -> ConfigError {
        let (min, max) = (1_000, 400_000_000_000);
        ConfigError::OutOfRange { what: "rate in bits per second", value, min, max }
    }

    #[test]
    fn only_the_ends_of_the_range_and_what_lies_between_are_rates() {
        for bps in [1_000, 1_001, 750_000_000, 399_999_999_999, 400_000_000_000] {
            assert_eq!(Rate::bits_per_second(bps).unwrap().as_bits_per_second(), Some(bps));
        }
        for bps in [0, 1, 999, 400_000_000_001, u64::MAX] {
            assert_eq!(Rate::bits_per_second(bps), Err(refused(bps)));
        }
        assert_eq!(Rate::megabits_per_second(u64::MAX), Err(refused(u64::MAX)));
        assert_eq!(Rate::kilobits_per_second(12), Rate::bits_per_second(12_000));
        assert_eq!(Rate::megabits_per_second(12), Rate::bits_per_second(12_000_000));
    }

    #[test]
    fn stopped_never_ends_and_unlimited_takes_no_time() {
        assert_eq!(Rate::STOPPED.time_of(0), Nanos::MAX);
        assert_eq!(Rate::UNLIMITED.time_of(u32::MAX), Nanos::ZERO);
        assert_eq!(Rate::STOPPED.as_bits_per_second(), Some(0));
        assert_eq!(Rate::UNLIMITED.as_bits_per_second(), None);
    }

    /// Goal: quotient and remainder equal those of the division that they replace, including the
    /// edges. Method: compare with 128-bit division for lengths and remainders at both ends of
    /// their ranges, and for rates at powers of two and ten and at primes, where a reciprocal is
    /// most and least exact.
    #[test]
    fn the_reciprocal_divides_exactly() {
        let mut rates = std::vec![1_009, 3_999_999_979, 4_294_967_291, 399_999_999_959];
        for power in 10..39 {
            rates.extend([(1_u64 << power) - 1, 1 << power, (1 << power) + 1]);
        }
        rates.extend((3..12).map(|power| 10_u64.pow(power)));
        rates.push(400_000_000_000);
        rates.retain(|&bps| (1_000..=400_000_000_000).contains(&bps));
        for bps in rates {
            let rate = Rate::bits_per_second(bps).unwrap().finite().unwrap();
            for len in
                [0, 1, 63, 64, 1_500, 65_535, 1 << 20, FiniteRate::LONGEST - 1, FiniteRate::LONGEST]
            {
                for rest in [1, 2, bps / 2, bps - 1, bps] {
                    let units = u128::from(len) * 8_000_000_000 + u128::from(rest) - 1;
                    let tick = rate.after_packet(Tick { ns: Nanos(5), rest }, len);
                    assert_eq!(u128::from(tick.ns.0), 5 + units / u128::from(bps), "{bps} {len}");
                    assert_eq!(u128::from(tick.rest), units % u128::from(bps) + 1, "{bps} {len}");
                }
                let time = u128::from(len) * 8_000_000_000 / u128::from(bps);
                let whole = rate.whole_time_of(u32::try_from(len).unwrap());
                assert_eq!(u128::from(whole.0), time, "{bps} {len}");
            }
        }
    }

    #[test]
    fn a_packet_longer_than_any_counts_as_the_longest() {
        let rate = Rate::bits_per_second(1_000).unwrap();
        let longest = u32::try_from(FiniteRate::LONGEST).unwrap();
        assert_eq!(rate.time_of(u32::MAX), rate.time_of(longest));
        assert!(rate.time_of(longest - 1) < rate.time_of(longest));
    }

    #[test]
    fn time_ends_and_does_not_wrap() {
        let rate = Rate::bits_per_second(1_000).unwrap().finite().unwrap();
        let end = rate.after_packet(rate.at(Nanos(u64::MAX - 3)), 1);
        assert_eq!(end, rate.at(Nanos::MAX));
    }
}
