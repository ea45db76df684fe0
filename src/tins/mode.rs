//! The plans of tins that have a keyword.

#[cfg(feature = "tins")]
mod several;

use super::plan::in_order;
use super::{Tin, TinName, TinPlan, TinShare};
use crate::keyword::by_word;

/// CAKE's plans of tins, by its keywords (§III-C).
///
/// | keyword | tins, the lowest first: share of the rate |
/// |---|---|
/// | `besteffort` | one: all |
/// | `precedence` | eight, by the upper three bits of the code point: all, then 7/8 of the tin below each |
/// | `diffserv3` | best effort: all; bulk: 1/16; voice: 1/4 |
/// | `diffserv4` | best effort: all; bulk: 1/16; video: 1/2; voice: 1/4 |
/// | `diffserv8` | eight, the third is the default: all, then 7/8 of the tin below each |
///
/// The tin of each code point follows CAKE (checked by `tests/suite/tins.rs`):
///
/// | | `diffserv3` | `diffserv4` | `diffserv8` |
/// |---|---|---|---|
/// | LE | bulk | bulk | first |
/// | CS1 | bulk | bulk | second |
/// | AF1x, 2 | best effort | best effort | second |
/// | AF3x, AF4x, CS3 | best effort | video | fourth |
/// | AF2x | best effort | video | fifth |
/// | 4 | voice | video | fifth |
/// | CS2 | best effort | video | sixth |
/// | CS4, CS5 | best effort | voice | seventh |
/// | VA, EF | voice | voice | seventh |
/// | CS6, CS7 | voice | voice | eighth |
/// | NQB and all others | best effort | best effort | third |
///
/// All but `besteffort` require the feature `tins`, which is on by default.
///
/// NQB has the priority of the default: RFC 9956 requires a queue of its own and no priority, and
/// each flow has a queue of its own here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TinMode {
    /// One tin.
    #[default]
    BestEffort = 1, // so that `None` of it is zero
    /// Eight tins, by precedence (RFC 791).
    #[cfg(feature = "tins")]
    Precedence,
    /// Bulk, best effort and voice.
    #[cfg(feature = "tins")]
    Diffserv3,
    /// Bulk, best effort, video and voice.
    #[cfg(feature = "tins")]
    Diffserv4,
    /// Eight tins by service.
    #[cfg(feature = "tins")]
    Diffserv8,
}

/// Creates a tin with a share of `1 / whole`.
const fn part(name: &str, whole: u32, weight: u16) -> Tin {
    let share = match TinShare::new(1, whole) {
        Ok(share) => share,
        Err(_) => TinShare::ALL,
    };
    Tin { name: TinName::known(name), share, weight }
}

/// The plan with one tin.
const ONE: TinPlan = TinPlan::of_mode(
    TinMode::BestEffort,
    0,
    &[part("best-effort", 1, u16::MAX)],
    [0; 64],
    in_order(),
);

#[cfg(not(feature = "tins"))]
impl TinMode {
    /// All modes.
    pub const ALL: &'static [Self] = &[Self::BestEffort];

    /// Returns its keyword.
    #[must_use]
    pub const fn word(self) -> &'static str {
        "besteffort"
    }

    /// Returns its plan of tins.
    #[must_use]
    pub const fn plan(self) -> TinPlan {
        ONE
    }
}

by_word! {
    TinMode, word, Self::ALL.iter().copied(),
    if cfg!(feature = "tins") {
        "tins must be one of besteffort precedence diffserv3 diffserv4 diffserv8"
    } else {
        "tins must be besteffort"
    }
}
