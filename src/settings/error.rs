//! Errors of parsing settings.

use core::fmt;

use shaper::{KeywordProblem, QuotedWord};

use super::vocabulary::{OF_THE_LINK, OURS};
use crate::tins::TinPlanError;

/// Error of parsing settings: the wrong word, its position, and what was expected.
///
/// It owns what it quotes, so `?` converts it to a `Box<dyn Error>` independently of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct SettingsError {
    /// Offset of the word in the text, in bytes.
    pub offset: usize,
    /// The word.
    pub word: QuotedWord,
    /// The fault.
    pub problem: SettingsProblem,
}

/// The fault of a word in settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SettingsProblem {
    /// The keyword is unknown.
    Unknown {
        /// The most similar known keyword, if one is similar.
        nearest: Option<&'static str>,
    },
    /// A keyword of `tc` for CAKE that is not supported here, or one whose feature is off.
    NotOffered {
        /// The alternative.
        instead: &'static str,
    },
    /// The value after the keyword is missing.
    Missing {
        /// The expected value.
        expected: &'static str,
    },
    /// The word is no valid value.
    Value {
        /// The expected value.
        expected: &'static str,
    },
    /// The framing of the link is wrong.
    Link(KeywordProblem),
    /// The tins are wrong.
    Tins(TinPlanError),
    /// A share or a weight without a tin before it.
    NoTin,
    /// A keyword for a plan of tins together with own tins.
    TwoPlans,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}, `{}`: ", self.offset, self.word)?;
        match self.problem {
            SettingsProblem::Unknown { nearest } => {
                f.write_str("no such word; ")?;
                if let Some(nearest) = nearest {
                    write!(f, "did you mean `{nearest}`? ")?;
                }
                f.write_str("expected one of")?;
                let ours = OURS.iter().map(|(word, _)| *word);
                ours.chain(OF_THE_LINK).try_for_each(|word| write!(f, " {word}"))
            }
            SettingsProblem::NotOffered { instead } => write!(f, "not supported; {instead}"),
            SettingsProblem::Missing { expected } => write!(f, "needs {expected} after it"),
            SettingsProblem::Value { expected } => write!(f, "expected {expected}"),
            SettingsProblem::Link(problem) => problem.fmt(f),
            SettingsProblem::Tins(error) => error.fmt(f),
            SettingsProblem::NoTin => f.write_str("expected after `tin NAME`"),
            SettingsProblem::TwoPlans => f.write_str(
                "two plans of tins (expected a mode such as `diffserv4`, or tins named by `tin`)",
            ),
        }
    }
}

impl core::error::Error for SettingsError {}
