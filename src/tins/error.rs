//! Errors of plans of tins.

use core::fmt;

use super::{Dscp, Tin, TinMode, TinName, TinPlan, TinShare};

/// Error of a plan of tins, with the given and the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TinPlanError {
    /// No tins, or too many.
    Tins {
        /// Their number.
        given: usize,
    },
    /// A share that is 0, above 1, or has a denominator above [`TinShare::MAX_WHOLE`].
    Share {
        /// Its numerator.
        parts: u32,
        /// Its denominator.
        whole: u32,
    },
    /// A word that is no share.
    NoShare,
    /// The shares of the tins above the first leave it nothing.
    Crowded {
        /// The sum of the shares above the first, in thousandths of the link, rounded up.
        thousandths: u32,
    },
    /// A weight of 0.
    Weight,
    /// A word that is no name.
    Name,
    /// Two tins have this name.
    SameName(TinName),
    /// No tin has this name.
    UnknownTin {
        /// The name.
        name: TinName,
        /// The mode that defines the tins; `None` for tins of your own.
        mode: Option<TinMode>,
    },
    /// The tin of a code point was set twice.
    Twice(Dscp),
    /// The default tin was set twice.
    TwoDefaults,
}

impl fmt::Display for TinPlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tins { given } => {
                write!(f, "{given} tins (expected 1 to {})", TinPlan::MAX_TINS)
            }
            Self::Share { parts, whole } => write!(
                f,
                "share {parts}/{whole} (expected more than 0 and up to 1, of {} parts at most)",
                TinShare::MAX_WHOLE
            ),
            Self::NoShare => {
                f.write_str("not a share (expected a form such as 1/4, 25%, 12.5% or 1)")
            }
            Self::Crowded { thousandths } => write!(
                f,
                "the tins above the first have {thousandths}/1000 of the link together (expected less \
                 than 1, to leave the first a share)"
            ),
            Self::Weight => f.write_str("weight 0 (expected 1 to 65535)"),
            Self::Name => write!(
                f,
                "not the name of a tin (expected 1 to {} letters, digits, - and _, beginning with a letter)",
                TinName::MAX_LEN
            ),
            Self::SameName(name) => {
                write!(f, "two tins are named `{name}` (expected different names)")
            }
            Self::UnknownTin { name, mode: None } => {
                write!(f, "no tin is named `{name}` (expected the name of a given tin)")
            }
            Self::UnknownTin { name, mode: Some(mode) } => {
                write!(f, "no tin of {mode} is named `{name}` (expected one of")?;
                let plan = mode.plan();
                let shown = plan.shown().iter().filter_map(|&number| plan.tin(number));
                shown.map(Tin::name).try_for_each(|name| write!(f, " {name}"))?;
                f.write_str(")")
            }
            Self::Twice(dscp) => {
                write!(f, "the tin of code point {dscp} is set twice (expected once)")
            }
            Self::TwoDefaults => f.write_str("the default tin is set twice (expected once)"),
        }
    }
}

impl core::error::Error for TinPlanError {}
