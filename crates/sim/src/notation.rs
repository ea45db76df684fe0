//! Parsers shared by the simulator's command lines: rates as in tc, whole numbers, disciplines and
//! seeds.

use core::fmt;
use core::ops::RangeInclusive;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use freeboard::shaper::Rate;

use crate::discipline::Discipline;

/// Error for a rate that is invalid or that a link cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateNotationError {
    /// The invalid text.
    pub word: String,
}

impl fmt::Display for RateNotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a rate (expected 1kbit to 400gbit: a number with bit, kbit, mbit or gbit, or \
             bits per second)",
            self.word
        )
    }
}

impl core::error::Error for RateNotationError {}

/// Parses a rate like [`Rate`], except `unlimited` and `stopped`, which cannot be simulated.
///
/// # Errors
/// [`RateNotationError`] for any other text.
pub fn rate(word: &str) -> Result<Rate, RateNotationError> {
    let limited = word.parse().ok();
    let limited = limited.filter(|rate| ![Rate::UNLIMITED, Rate::STOPPED].contains(rate));
    limited.ok_or_else(|| RateNotationError { word: word.to_owned() })
}

/// Option for the random seed.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Seed of all random numbers, including the key of the flow hash.
    #[arg(
        long = "seed",
        value_name = "N",
        default_value = "1",
        allow_negative_numbers = true,
        value_parser = within(0..=u64::MAX)
    )]
    pub number: u64,
}

/// Returns a parser for the name of a discipline.
pub fn discipline() -> impl TypedValueParser<Value = Discipline> {
    PossibleValuesParser::new(Discipline::NAMED.map(Discipline::name))
        .try_map(|name| name.parse::<Discipline>())
}

/// Returns a parser for whole numbers within `accepted`.
///
/// # Errors
/// The parser's error states the accepted range.
pub fn within(
    accepted: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |word| {
        let number = word.parse().ok().filter(|number| accepted.contains(number));
        number.ok_or_else(|| format!("expected {} to {}", accepted.start(), accepted.end()))
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
