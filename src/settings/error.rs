//! What is wrong with which word.

use core::fmt;

use shaper::{KeywordProblem, QuotedWord};

use super::vocabulary::{OF_THE_LINK, OURS};
use crate::tins::TinPlanError;

/// A word that is not accepted, and where it stands.
///
/// It owns what it quotes, so that `?` makes a `Box<dyn Error>` of it whatever becomes of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct SettingsError {
    /// Where the word begins in the text, in bytes.
    pub offset: usize,
    /// The word.
    pub word: QuotedWord,
    /// What is wrong with it.
    pub problem: SettingsProblem,
}

/// What is wrong with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SettingsProblem {
    /// There is no such word.
    Unknown {
        /// The known word that is nearest to it, if one is near.
        nearest: Option<&'static str>,
    },
    /// A word of `tc` for CAKE that says what no queue here does, or one whose feature is off.
    NotOffered {
        /// What there is in its place.
        instead: &'static str,
    },
    /// A value is missing behind the word.
    Missing {
        /// What is accepted there.
        accepted: &'static str,
    },
    /// The word stands where a value must, and is none.
    Value {
        /// What is accepted there.
        accepted: &'static str,
    },
    /// What is said of the link.
    Link(KeywordProblem),
    /// What is said of the tins.
    Tins(TinPlanError),
    /// A share or a weight that no tin stands before.
    NoTin,
    /// A word that names a plan of tins beside tins of the caller's.
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
            SettingsProblem::NotOffered { instead } => write!(f, "not offered; {instead}"),
            SettingsProblem::Missing { accepted } => write!(f, "needs {accepted} behind it"),
            SettingsProblem::Value { accepted } => write!(f, "expected {accepted}"),
            SettingsProblem::Link(problem) => problem.fmt(f),
            SettingsProblem::Tins(error) => error.fmt(f),
            SettingsProblem::NoTin => f.write_str("belongs behind `tin NAME`"),
            SettingsProblem::TwoPlans => f.write_str(
                "tins are either those of a mode, `diffserv4` for one, or named by `tin`",
            ),
        }
    }
}

impl core::error::Error for SettingsError {}
