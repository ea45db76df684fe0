//! Parsing keywords, and the error for unknown ones.

use core::fmt;

/// Error of parsing a keyword: the word is unknown; the message says what was expected.
///
/// ```
/// use freeboard::Isolation;
///
/// let error = "per-host".parse::<Isolation>().expect_err("no isolation");
/// assert!(error.to_string().starts_with("an isolation must be one of flows srchost"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownKeyword {
    expected: &'static str,
}

impl UnknownKeyword {
    /// Creates the error of a type; `expected` lists its keywords.
    pub(crate) const fn expecting(expected: &'static str) -> Self {
        Self { expected }
    }
}

impl fmt::Display for UnknownKeyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }
}

impl core::error::Error for UnknownKeyword {}

/// Implements `Display` and `FromStr` by keyword for a type with the values `$all`.
macro_rules! by_word {
    ($type:ident, $word:ident, $all:expr, $expected:expr) => {
        /// Prints the keyword, which parses to an equal value.
        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.$word())
            }
        }

        /// Parses the keyword.
        impl core::str::FromStr for $type {
            type Err = crate::UnknownKeyword;

            fn from_str(word: &str) -> Result<Self, crate::UnknownKeyword> {
                let unknown = crate::UnknownKeyword::expecting($expected);
                $all.find(|value: &Self| value.$word() == word).ok_or(unknown)
            }
        }
    };
}
pub(crate) use by_word;

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::{AckFilter, AqmKind, Isolation, Rtt, TinBy, TinMode};
    use alloc::string::{String, ToString};
    use core::str::FromStr;

    fn refused<T: FromStr<Err = UnknownKeyword>>() -> String {
        "another".parse::<T>().err().map_or_else(String::new, |error| error.to_string())
    }

    /// Goal: the error of each parser lists every keyword that it accepts.
    #[test]
    fn what_is_expected_is_said_in_full() {
        let all = |text: &str, words: &mut dyn Iterator<Item = &str>| {
            words.for_each(|word| assert!(text.contains(&[" ", word].concat()), "{text}: {word}"));
        };
        all(&refused::<AckFilter>(), &mut AckFilter::ALL.iter().map(|filter| filter.name()));
        all(&refused::<AqmKind>(), &mut AqmKind::WORDS.iter().map(|(word, _)| *word));
        all(&refused::<Isolation>(), &mut Isolation::ALL.iter().map(|mode| mode.name()));
        all(&refused::<Rtt>(), &mut Rtt::PRESETS.iter().map(|(word, _)| *word));
        all(&refused::<TinBy>(), &mut TinBy::ALL.iter().map(|by| by.word()));
        all(&refused::<TinMode>(), &mut TinMode::ALL.iter().map(|mode| mode.word()));
        for span in [Rtt::SHORTEST, Rtt::LONGEST] {
            assert!(refused::<Rtt>().contains(&[&span.to_string(), "ns"].concat()));
        }
    }
}
