//! How rates are written on a command line: as tc writes them.

use core::fmt;

use freeboard::shaper::Rate;

/// A word that is not a rate, or not one that a line can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateNotationError {
    /// The word.
    pub word: String,
}

impl fmt::Display for RateNotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a rate; accepted: bits per second, or a number with bit, kbit, mbit or gbit \
             behind it, from 1kbit to 400gbit",
            self.word
        )
    }
}

impl core::error::Error for RateNotationError {}

/// Reads a rate: `10mbit`, `512kbit`, `1.5gbit`, `1000000`. Units are decimal and their case does
/// not matter. A fraction that is not a whole number of bits per second is refused.
///
/// # Errors
/// [`RateNotationError`] for anything else, and for rates that [`Rate`] does not accept.
pub fn rate(word: &str) -> Result<Rate, RateNotationError> {
    let refused = || RateNotationError { word: word.to_owned() };
    let bits = bits_per_second(&word.to_ascii_lowercase()).ok_or_else(refused)?;
    Rate::bits_per_second(bits).map_err(|_| refused())
}

fn bits_per_second(word: &str) -> Option<u64> {
    let unit_at = word.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at(unit_at);
    // The power of ten by which the number is multiplied.
    let digits: usize = match unit {
        "" | "bit" => 0,
        "kbit" => 3,
        "mbit" => 6,
        "gbit" => 9,
        _ => return None,
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, fraction.trim_end_matches('0')),
        None => (number, ""),
    };
    let padding = digits.checked_sub(fraction.len())?;
    // A plus sign would pass `parse`; digits alone do not include one.
    format!("{whole}{fraction}{}", "0".repeat(padding)).parse().ok().filter(|_| !whole.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(rate(word).map(Rate::as_bits_per_second), Ok(Some(bits)), "{word}");
        }
    }

    #[test]
    fn anything_else_is_refused_by_name() {
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
            let error = rate(word).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{word:?} is not a rate")), "{error}");
        }
    }
}
