//! How rates are written on a command line: as tc writes them.

use core::fmt;
use core::str::FromStr;

use crate::Rate;

/// A word that is not a rate, or not one that a line can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct UnknownRate;

impl fmt::Display for UnknownRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a rate must be bits per second, or a number with bit, kbit, mbit or gbit behind it, \
             from 1kbit to 400gbit, or unlimited, or stopped",
        )
    }
}

impl core::error::Error for UnknownRate {}

/// The units, the largest first, each with its power of ten.
const UNITS: [(&str, u32); 4] = [("gbit", 9), ("mbit", 6), ("kbit", 3), ("bit", 0)];

/// Prints a whole number of the largest unit that divides the rate, `20mbit`, `1500kbit`, or
/// `unlimited` or `stopped`. It reads back to the same rate.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = match self.as_bits_per_second() {
            None => return f.pad("unlimited"),
            Some(0) => return f.pad("stopped"),
            Some(bits) => bits,
        };
        let number = |power| {
            let unit = 10_u64.checked_pow(power)?;
            bits.checked_div(unit).filter(|_| bits.is_multiple_of(unit))
        };
        let found = UNITS.into_iter().find_map(|(unit, power)| Some((number(power)?, unit)));
        let (number, unit) = found.unwrap_or((bits, "bit"));
        write!(f, "{number}{unit}")
    }
}

/// Reads a rate: `10mbit`, `512kbit`, `1.5gbit`, `1000000`, `unlimited`, `stopped`. Units are
/// decimal and the case of words does not matter. A fraction that is not a whole number of bits per
/// second is refused.
///
/// ```
/// use shaper::Rate;
///
/// let rate: Rate = "1.5mbit".parse()?;
/// assert_eq!(rate.as_bits_per_second(), Some(1_500_000));
/// assert_eq!(rate.to_string(), "1500kbit");
/// assert!("10mbps".parse::<Rate>().is_err());
/// # Ok::<(), shaper::UnknownRate>(())
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
        let bits = bits_per_second(word).ok_or(UnknownRate)?;
        Self::bits_per_second(bits).map_err(|_| UnknownRate)
    }
}

fn bits_per_second(word: &str) -> Option<u64> {
    let unit_at = word.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at_checked(unit_at)?;
    // The power of ten by which the number is multiplied.
    let digits = UNITS
        .into_iter()
        .chain([("", 0)])
        .find_map(|(name, digits)| unit.eq_ignore_ascii_case(name).then_some(digits))?;
    let digits = usize::try_from(digits).ok()?;
    // A list of one: the search for a single character has an index that can panic where it is not inlined.
    let (whole, fraction) = number.split_once(['.']).unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || fraction.len() > digits {
        return None;
    }
    // Behind the fraction, zeros up to the unit.
    let zeros = core::iter::repeat_n(b'0', digits.saturating_sub(fraction.len()));
    whole.bytes().chain(fraction.bytes()).chain(zeros).try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })
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
}
