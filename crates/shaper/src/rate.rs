//! How fast the line is: a validated number of bits per second, and the exact time a packet takes.
//!
//! A packet of `n` bytes takes `n · 8·10⁹ / rate` nanoseconds. A rate that kept whole nanoseconds
//! per byte would run 750 Mbit/s as 800; one that kept a rounded fixed-point figure would drift.
//! Time is therefore counted in units of 1/rate of a nanosecond, where every packet is an integer,
//! and the part of the last nanosecond that is not used is carried from packet to packet.
//!
//! Cost: two multiplications and one correction step a packet; the one division is at construction.

use core::fmt;
use core::num::{NonZeroU64, NonZeroU128};

use sched_core::Nanos;

/// Bits in a byte × nanoseconds in a second.
const BIT_NANOS_PER_BYTE_SECOND: u64 = 8_000_000_000;

/// The longest packet whose time is exact: 2³¹ bytes, far above the longest packet of any link. A longer packet
/// is charged as one of this length.
///
/// The product with 8·10⁹ and what is carried (< 4·10¹¹) is below 1.72·10¹⁹ < 2⁶⁴.
pub(crate) const LONGEST: u64 = 1 << 31;

/// The speed at which packets leave: 1 kbit/s to 400 Gbit/s, stopped, or unlimited.
///
/// The number 0 is refused, because some tools read it as "stopped" and others as "unlimited";
/// here both have a name, [`Rate::STOPPED`] and [`Rate::UNLIMITED`].
///
/// ```
/// use shaper::{Rate, RateError};
/// use sched_core::Nanos;
///
/// let line = Rate::bits_per_second(1_000_000)?;
/// assert_eq!(line.time_of(1_500), Nanos::from_millis(12));
/// assert!(Rate::bits_per_second(0).is_err());
/// # Ok::<(), RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Stopped,
    Limited(Limited),
    Unlimited,
}

impl Rate {
    /// Nothing leaves. The queue behind keeps accepting within its limits.
    pub const STOPPED: Self = Self(Kind::Stopped);
    /// Every packet leaves at once: no shaping.
    pub const UNLIMITED: Self = Self(Kind::Unlimited);
    /// The slowest rate that can be set, in bits per second.
    pub const MIN_BITS_PER_SECOND: u64 = 1_000;
    /// The fastest rate that can be set, in bits per second.
    pub const MAX_BITS_PER_SECOND: u64 = 400_000_000_000;

    /// A rate of `bps` bits per second.
    ///
    /// # Errors
    /// [`RateError`] unless [`MIN_BITS_PER_SECOND`](Self::MIN_BITS_PER_SECOND) `≤ bps ≤`
    /// [`MAX_BITS_PER_SECOND`](Self::MAX_BITS_PER_SECOND).
    pub const fn bits_per_second(bps: u64) -> Result<Self, RateError> {
        if bps < Self::MIN_BITS_PER_SECOND || bps > Self::MAX_BITS_PER_SECOND {
            return Err(RateError { bits_per_second: bps });
        }
        match NonZeroU64::new(bps) {
            Some(bps) => Ok(Self(Kind::Limited(Limited::new(bps)))),
            None => Err(RateError { bits_per_second: bps }),
        }
    }

    /// A rate of `kbps` thousand bits per second.
    ///
    /// # Errors
    /// As [`bits_per_second`](Self::bits_per_second).
    pub const fn kilobits_per_second(kbps: u64) -> Result<Self, RateError> {
        Self::bits_per_second(kbps.saturating_mul(1_000))
    }

    /// A rate of `mbps` million bits per second.
    ///
    /// # Errors
    /// As [`bits_per_second`](Self::bits_per_second).
    pub const fn megabits_per_second(mbps: u64) -> Result<Self, RateError> {
        Self::bits_per_second(mbps.saturating_mul(1_000_000))
    }

    /// The rate in bits per second: 0 when stopped, `None` when unlimited.
    #[must_use]
    pub const fn as_bits_per_second(self) -> Option<u64> {
        match self.0 {
            Kind::Stopped => Some(0),
            Kind::Limited(limited) => Some(limited.bps.get()),
            Kind::Unlimited => None,
        }
    }

    /// How long `wire_len` bytes take, rounded up to a whole nanosecond: zero when unlimited,
    /// [`Nanos::MAX`] when stopped.
    #[must_use]
    pub const fn time_of(self, wire_len: u32) -> Nanos {
        match self.0 {
            Kind::Stopped => Nanos::MAX,
            Kind::Limited(limited) => {
                let len = if (wire_len as u64) < LONGEST { wire_len as u64 } else { LONGEST };
                limited.after_packet(limited.at(Nanos::ZERO), len).ns
            }
            Kind::Unlimited => Nanos::ZERO,
        }
    }

    /// The arithmetic of a rate between the two extremes.
    pub(crate) const fn limited(self) -> Option<Limited> {
        match self.0 {
            Kind::Limited(limited) => Some(limited),
            Kind::Stopped | Kind::Unlimited => None,
        }
    }

    pub(crate) const fn is_unlimited(self) -> bool {
        matches!(self.0, Kind::Unlimited)
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Rate {
    fn format(&self, f: defmt::Formatter<'_>) {
        match self.0 {
            Kind::Stopped => defmt::write!(f, "stopped"),
            Kind::Limited(limited) => defmt::write!(f, "{=u64} bit/s", limited.bps.get()),
            Kind::Unlimited => defmt::write!(f, "unlimited"),
        }
    }
}

/// A rate that no line here can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct RateError {
    /// What was asked for, in bits per second; `u64::MAX` if it did not fit.
    pub bits_per_second: u64,
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rate {} bit/s is outside {}..={} (for no traffic or no limit say STOPPED or UNLIMITED)",
            self.bits_per_second,
            Rate::MIN_BITS_PER_SECOND,
            Rate::MAX_BITS_PER_SECOND
        )
    }
}

impl core::error::Error for RateError {}

/// A finite rate and what is precomputed of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Limited {
    bps: NonZeroU64,
    /// ⌊(2⁶⁴ − 1) / bps⌋.
    reciprocal: u64,
}

/// An exact instant, held as the first whole nanosecond that is not before it, which is what a line is asked for:
/// `ns − (rate − 1 − rest) / rate` nanoseconds, `rest < rate`.
///
/// With `rest` as what is left over, the division that finds the next instant rounds up by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) ns: Nanos,
    rest: u64,
}

impl Tick {
    /// For a line that has no finite rate, and so no part of a nanosecond.
    pub(crate) const fn without_rate(ns: Nanos) -> Self {
        Self { ns, rest: 0 }
    }
}

/// Bits to be sent, in units of 10⁻⁹ bit: what a line at 1 bit/s carries in a nanosecond. Less than
/// nothing where a line is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work(i128);

impl Work {
    pub(crate) const NONE: Self = Self(0);

    /// This work and that of one packet more; a packet longer than [`LONGEST`] counts as one of
    /// [`LONGEST`].
    pub(crate) fn plus(self, wire_len: u64) -> Self {
        let packet = wire_len.min(LONGEST).wrapping_mul(BIT_NANOS_PER_BYTE_SECOND);
        Self(self.0.saturating_add(packet.into()))
    }

    /// This work if some is left, else none: the lateness of a line is no work.
    pub(crate) fn or_none(self) -> Self {
        Self(self.0.max(0))
    }
}

impl Limited {
    #[allow(clippy::integer_division, reason = "at construction only; the divisor is non-zero")]
    const fn new(bps: NonZeroU64) -> Self {
        Self { bps, reciprocal: u64::MAX / bps.get() }
    }

    /// The instant that is the whole nanosecond `ns`.
    #[inline]
    pub(crate) const fn at(self, ns: Nanos) -> Tick {
        Tick { ns, rest: self.last() }
    }

    /// The largest rest.
    #[inline]
    const fn last(self) -> u64 {
        self.bps.get().wrapping_sub(1)
    }

    /// The instant `wire_len` bytes after `start`, exactly, of no more bytes than [`LONGEST`]; saturates at the end of time.
    #[inline]
    pub(crate) const fn after_packet(self, start: Tick, wire_len: u64) -> Tick {
        // With d = bps, `start` lies (d − 1 − rest)/d before its nanosecond, and the packet takes p/d nanoseconds. The
        // first nanosecond not before its end is ⌈(p − d + 1 + rest)/d⌉ = ⌊(p + rest)/d⌋ later, and lies
        // (d − 1 − remainder)/d behind that end.
        let units = wire_len.wrapping_mul(BIT_NANOS_PER_BYTE_SECOND).wrapping_add(start.rest);
        // With m = ⌊(2⁶⁴−1)/d⌋: 2⁶⁴ − d·m ≤ d, so units/d − units·m/2⁶⁴ ≤ units/2⁶⁴ < 1, and the floor of the
        // product is the quotient or one less. One step corrects it.
        let mut whole = high_half(units, self.reciprocal);
        let mut rest = units - whole * self.bps.get();
        if rest >= self.bps.get() {
            whole += 1;
            rest -= self.bps.get();
        }
        match start.ns.0.checked_add(whole) {
            Some(ns) => Tick { ns: Nanos(ns), rest },
            None => self.at(Nanos::MAX),
        }
    }
}

/// Work, exactly: a change of the rate loses no part of it.
impl Limited {
    /// What this rate sends between `now` and `end`: less than nothing if `end` is before.
    pub(crate) fn work_between(self, now: Nanos, end: Tick) -> Work {
        // Below 2⁶⁴ · 4·10¹¹ < 2¹⁰³, either way.
        let whole = i128::from(end.ns.0).wrapping_sub(now.0.into());
        let too_much = i128::from(self.last().wrapping_sub(end.rest));
        Work(whole.wrapping_mul(self.bps.get().into()).wrapping_sub(too_much))
    }

    /// The instant at which `work` is done that begins at `now`, or before it for lateness; saturates at
    /// both ends of time.
    #[allow(clippy::integer_division, reason = "at a change of the rate only, by what is not zero")]
    pub(crate) fn after(self, now: Nanos, work: Work) -> Tick {
        let bps = NonZeroU128::from(self.bps);
        let size = work.0.unsigned_abs();
        let is_late = work.0 < 0;
        // Rounded up to a whole nanosecond: the quotient below it of lateness, the one above it of work.
        let units = if is_late { size } else { size.saturating_add(self.last().into()) };
        let whole = units / bps;
        let rest = units.wrapping_sub(whole.wrapping_mul(bps.get()));
        let now = u128::from(now.0);
        // No instant is before time began, by a part of a nanosecond either.
        if is_late && now < whole.saturating_add((rest > 0).into()) {
            return self.at(Nanos::ZERO);
        }
        let (ns, rest) = if is_late {
            (now.wrapping_sub(whole), u128::from(self.last()).wrapping_sub(rest))
        } else {
            (now.saturating_add(whole), rest)
        };
        match (u64::try_from(ns), u64::try_from(rest)) {
            (Ok(ns), Ok(rest)) => Tick { ns: Nanos(ns), rest },
            _ => self.at(Nanos::MAX),
        }
    }
}

/// The upper 64 of the 128 bits of `a · b`.
#[allow(clippy::cast_possible_truncation, reason = "128 − 64 bits are left")]
const fn high_half(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn only_the_ends_of_the_range_and_what_lies_between_are_rates() {
        for bps in [1_000, 1_001, 750_000_000, 399_999_999_999, 400_000_000_000] {
            assert_eq!(Rate::bits_per_second(bps).unwrap().as_bits_per_second(), Some(bps));
        }
        for bps in [0, 1, 999, 400_000_000_001, u64::MAX] {
            assert_eq!(Rate::bits_per_second(bps), Err(RateError { bits_per_second: bps }));
        }
        assert_eq!(
            Rate::megabits_per_second(u64::MAX),
            Err(RateError { bits_per_second: u64::MAX })
        );
        assert_eq!(Rate::kilobits_per_second(12), Rate::bits_per_second(12_000));
        assert_eq!(Rate::megabits_per_second(12), Rate::bits_per_second(12_000_000));
    }

    #[test]
    fn an_error_names_the_value_and_the_range() {
        assert_eq!(
            Rate::bits_per_second(7).unwrap_err().to_string(),
            "rate 7 bit/s is outside 1000..=400000000000 \
             (for no traffic or no limit say STOPPED or UNLIMITED)"
        );
    }

    #[test]
    fn stopped_never_ends_and_unlimited_takes_no_time() {
        assert_eq!(Rate::STOPPED.time_of(0), Nanos::MAX);
        assert_eq!(Rate::UNLIMITED.time_of(u32::MAX), Nanos::ZERO);
        assert_eq!(Rate::STOPPED.as_bits_per_second(), Some(0));
        assert_eq!(Rate::UNLIMITED.as_bits_per_second(), None);
    }

    /// Goal: quotient and remainder are those of the division they replace, at the edges too.
    /// Method: 128-bit division for lengths and remainders at both ends of their ranges, at
    /// powers of two, ten and primes, where a reciprocal is most and least exact.
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
            let limited = Rate::bits_per_second(bps).unwrap().limited().unwrap();
            for len in [0, 1, 63, 64, 1_500, 65_535, 1 << 20, LONGEST - 1, LONGEST] {
                for rest in [0, 1, bps / 2, bps - 1] {
                    let units = u128::from(len) * 8_000_000_000 + u128::from(rest);
                    let tick = limited.after_packet(Tick { ns: Nanos(5), rest }, len);
                    assert_eq!(u128::from(tick.ns.0), 5 + units / u128::from(bps), "{bps} {len}");
                    assert_eq!(u128::from(tick.rest), units % u128::from(bps), "{bps} {len}");
                }
            }
        }
    }

    #[test]
    fn a_packet_longer_than_any_counts_as_the_longest() {
        let rate = Rate::bits_per_second(1_000).unwrap();
        let longest = u32::try_from(LONGEST).unwrap();
        assert_eq!(rate.time_of(u32::MAX), rate.time_of(longest));
        assert!(rate.time_of(longest - 1) < rate.time_of(longest));
    }

    #[test]
    fn time_ends_and_does_not_wrap() {
        let limited = Rate::bits_per_second(1_000).unwrap().limited().unwrap();
        let end = limited.after_packet(limited.at(Nanos(u64::MAX - 3)), 1);
        assert_eq!(end, limited.at(Nanos::MAX));
    }
}
