//! Parsing and printing of rates and times as a number with a unit, the notation of `tc`.

use core::fmt;
use core::str::FromStr;

use crate::{Nanos, Rate};

/// An error for a word that is not a rate, or not a rate in the valid range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct UnknownRate;

impl fmt::Display for UnknownRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a rate (expected bits per second or a number with the unit bit, kbit, mbit or \
             gbit, from 1kbit to 400gbit, or unlimited, or stopped)",
        )
    }
}

impl core::error::Error for UnknownRate {}

/// An error for a word that is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct UnknownTime;

impl fmt::Display for UnknownTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a time (expected whole nanoseconds, with the unit s, ms, us or ns, as 1.5ms)",
        )
    }
}

impl core::error::Error for UnknownTime {}

/// The units of a quantity, the largest first, each with its power of ten.
type Units = [(&'static str, u32); 4];

const OF_RATES: Units = [("gbit", 9), ("mbit", 6), ("kbit", 3), ("bit", 0)];
const OF_TIMES: Units = [("s", 9), ("ms", 6), ("us", 3), ("ns", 0)];

/// Writes `value` as a whole number of the largest unit that divides it; 0 in the smallest unit.
fn write(f: &mut fmt::Formatter<'_>, value: u64, units: Units) -> fmt::Result {
    let number = |power| {
        let unit = 10_u64.checked_pow(power)?;
        value.checked_div(unit).filter(|_| power == 0 || value > 0 && value.is_multiple_of(unit))
    };
    let found = units.into_iter().find_map(|(unit, power)| Some((number(power)?, unit)));
    let (number, unit) = found.unwrap_or((value, ""));
    write!(f, "{number}{unit}")
}

/// Reads a number with one of these units. `bare` is the power of ten of a number without a unit,
/// if that is allowed. Returns `None` unless the value is a whole number of the smallest unit.
fn read(word: &str, units: Units, bare: Option<u32>) -> Option<u64> {
    let unit_at = word.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at_checked(unit_at)?;
    let named = units.into_iter().find(|(name, _)| unit.eq_ignore_ascii_case(name));
    let power = named.map(|(_, power)| power).or(bare.filter(|_| unit.is_empty()))?;
    // A one-element pattern array: the search for a single `char` contains an index that can panic
    // where it is not inlined.
    let (whole, fraction) = number.split_once(['.']).unwrap_or((number, ""));
    let decimals = u32::try_from(fraction.len()).ok()?;
    if whole.is_empty() || number.ends_with('.') || decimals > power {
        return None;
    }
    let digits = whole.bytes().chain(fraction.bytes()).try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })?;
    digits.checked_mul(10_u64.checked_pow(power.saturating_sub(decimals))?)
}

/// Prints a whole number of the largest unit that divides the rate, such as `20mbit` or `1500kbit`,
/// or `unlimited` or `stopped`. Parsing the result returns the same rate.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = match self.as_bits_per_second() {
            None => return f.pad("unlimited"),
            Some(0) => return f.pad("stopped"),
            Some(bits) => bits,
        };
        write(f, bits, OF_RATES)
    }
}

/// Parses a rate: `10mbit`, `512kbit`, `1.5gbit`, `1000000`, `unlimited`, `stopped`. Units are
/// decimal, and case does not matter. A fraction that is not a whole number of bits per second is
/// an error.
///
/// ```
/// use sched_core::Rate;
///
/// let rate: Rate = "1.5mbit".parse()?;
/// assert_eq!(rate.as_bits_per_second(), Some(1_500_000));
/// assert_eq!(rate.to_string(), "1500kbit");
/// assert!("10mbps".parse::<Rate>().is_err());
/// # Ok::<(), sched_core::UnknownRate>(())
/// ```
impl FromStr for Rate {
    type Err = UnknownRate;

    fn from_str(word: &str) -> Result<Self, UnknownRate> {
        if word.eq_ignore_ascii_case("unlimited") {
            return Ok(Self::UNLIMITED);
        }
        if word.eq_ignore_ascii_case("stopped") {
            return Ok(Self::STOPPED);
        }
        let bits = read(word, OF_RATES, Some(0)).ok_or(UnknownRate)?;
        Self::bits_per_second(bits).map_err(|_| UnknownRate)
    }
}

/// Prints a whole number of the largest unit that divides the time: `30ms`, `1500us`. Parsing the
/// result returns the same time.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, OF_TIMES)
    }
}

/// Parses a time with its unit: `2s`, `1.5ms`, `100us`, `20480ns`. Case does not matter. A fraction
/// of a nanosecond is an error. So is a number without a unit, which `tc` reads as microseconds.
///
/// ```
/// use sched_core::Nanos;
///
/// let time: Nanos = "1.5ms".parse()?;
/// assert_eq!(time, Nanos::from_micros(1_500));
/// assert_eq!(time.to_string(), "1500us");
/// assert!("15".parse::<Nanos>().is_err());
/// # Ok::<(), sched_core::UnknownTime>(())
/// ```
impl FromStr for Nanos {
    type Err = UnknownTime;

    fn from_str(word: &str) -> Result<Self, UnknownTime> {
        read(word, OF_TIMES, None).map(Self).ok_or(UnknownTime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn rates_are_written_as_tc_writes_them() {
        for (word, bits) in [
            ("10mbit", 10_000_000),
            ("512kbit", 512_000),
            ("1gbit", 1_000_000_000),
            ("400Gbit", 400_000_000_000),
            ("1000", 1_000),
            ("64000bit", 64_000),
            ("1.5mbit", 1_500_000),
            ("0.001mbit", 1_000),
            ("2.50mbit", 2_500_000),
        ] {
            assert_eq!(word.parse().map(Rate::as_bits_per_second), Ok(Some(bits)), "{word}");
        }
        for word in ["unlimited", "Unlimited"] {
            assert_eq!(word.parse(), Ok(Rate::UNLIMITED));
        }
        for word in ["stopped", "Stopped"] {
            assert_eq!(word.parse(), Ok(Rate::STOPPED));
        }
    }

    #[test]
    fn a_rate_is_printed_in_the_largest_unit_that_divides_it() {
        let kilobits = |rate| Rate::kilobits_per_second(rate).unwrap();
        let rates = [
            Rate::STOPPED,
            kilobits(1_500),
            kilobits(20_000),
            Rate::bits_per_second(1_001).unwrap(),
        ];
        let printed = rates.map(|rate| rate.to_string());
        assert_eq!(printed, ["stopped", "1500kbit", "20mbit", "1001bit"]);
        assert_eq!(Rate::UNLIMITED.to_string(), "unlimited");
        assert_eq!(kilobits(400_000_000).to_string(), "400gbit");
    }

    #[test]
    fn anything_else_is_refused() {
        for word in [
            "",
            "mbit",
            ".5mbit",
            "10 mbit",
            "10mbits",
            "-1mbit",
            "+1mbit",
            "1e6",
            "1.2.3mbit",
            "0",
            "999",
            "401gbit",
            "0.0005kbit",
            "1.5",
            "99999999999999999999",
            "10mbps",
            "1٣mbit",
        ] {
            let error = word.parse::<Rate>().unwrap_err();
            assert!(error.to_string().contains("400gbit"), "{word}");
        }
    }

    /// Goal: printing and parsing a time returns the same time. Method: every power of two and of
    /// ten with its neighbours, and their products with small numbers, up to the largest time.
    #[test]
    fn a_time_reads_back_as_it_is_printed() {
        let powers = (0..64).map(|bit| 1_u64 << bit);
        let tens = (0..20).map(|power| 10_u64.pow(power));
        for base in powers.chain(tens).chain([0, u64::MAX]) {
            for nanos in [base.wrapping_sub(1), base, base.wrapping_add(1), base.wrapping_mul(15)] {
                let printed = Nanos(nanos).to_string();
                assert_eq!(printed.parse(), Ok(Nanos(nanos)), "{printed}");
            }
        }
        for (nanos, printed) in
            [(0, "0ns"), (1_500_000, "1500us"), (30_000_000, "30ms"), (8_000_000_000, "8s")]
        {
            assert_eq!(Nanos(nanos).to_string(), printed);
        }
    }

    #[test]
    fn a_word_that_is_no_time_is_refused() {
        for word in [
            "",
            "ms",
            "15",
            ".5ms",
            "1.ms",
            "1.5ns",
            "1.0001us",
            "-1ms",
            "+1ms",
            "1 ms",
            "1h",
            "1.2.3s",
            "18446744073709551616ns",
            "18446744074s",
            "1\u{663}ms",
        ] {
            assert_eq!(word.parse::<Nanos>(), Err(UnknownTime), "{word}");
        }
        assert_eq!("18446744073709551615ns".parse(), Ok(Nanos::MAX));
        assert_eq!("0.000000001S".parse(), Ok(Nanos(1)));
    }
}
