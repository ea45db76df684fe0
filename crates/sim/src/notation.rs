//! What the command lines of the simulator share: rates as tc writes them, whole numbers,
//! disciplines and seeds.

use core::fmt;
use core::ops::RangeInclusive;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use freeboard::shaper::Rate;

use crate::discipline::Discipline;

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

/// Reads a rate as [`Rate`] does, but for `unlimited` and `stopped`: a line that takes no time, or
/// for ever, is none to simulate.
///
/// # Errors
/// [`RateNotationError`] for anything else.
pub fn rate(word: &str) -> Result<Rate, RateNotationError> {
    let limited = word.parse().ok();
    let limited = limited.filter(|rate| ![Rate::UNLIMITED, Rate::STOPPED].contains(rate));
    limited.ok_or_else(|| RateNotationError { word: word.to_owned() })
}

/// Where chance comes from.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Chooses everything that is random, the key of the hash too.
    #[arg(
        long = "seed",
        value_name = "N",
        default_value = "1",
        allow_negative_numbers = true,
        value_parser = within(0..=u64::MAX)
    )]
    pub number: u64,
}

/// What reads the name of a discipline.
pub fn discipline() -> impl TypedValueParser<Value = Discipline> {
    PossibleValuesParser::new(Discipline::NAMED.map(Discipline::name))
        .try_map(|name| name.parse::<Discipline>())
}

/// What reads a whole number within `accepted` on a command line.
///
/// # Errors
/// Of any other word it says what is accepted.
pub fn within(
    accepted: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |word| {
        let number = word.parse().ok().filter(|number| accepted.contains(number));
        number.ok_or_else(|| format!("accepted: {} to {}", accepted.start(), accepted.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_rate_of_a_line_is_refused_by_name() {
        assert_eq!(rate("1.5mbit").map(Rate::as_bits_per_second), Ok(Some(1_500_000)));
        for word in ["", "10mbps", "999", "unlimited", "stopped"] {
            let error = rate(word).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{word:?} is not a rate")), "{error}");
        }
    }
}
