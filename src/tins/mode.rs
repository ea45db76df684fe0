//! The plans that have a word.

use super::{Tin, TinName, TinPlan, TinShare};
use crate::keyword::by_word;

/// The plans of CAKE, by its words (§III-C): which tins there are, and which code points each takes.
///
/// | word | tins, the lowest first: share of the rate |
/// |---|---|
/// | `besteffort` | one: all |
/// | `precedence` | eight, by the upper three bits of the code point: 7/8 of the tin below each, from all on |
/// | `diffserv3` | best effort: all; bulk: 1/16; voice: 1/4 |
/// | `diffserv4` | best effort: all; bulk: 1/16; video: 1/2; voice: 1/4 |
/// | `diffserv8` | eight, the third is the default: 7/8 of the tin below each, from all on |
///
/// Which code points go where is CAKE's choice, code point by code point (`tests/suite/tins.rs`):
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
/// NQB is no more important than the default (RFC 9956 asks for a queue of its own and for no priority), and each flow
/// has a queue of its own here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TinMode {
    /// One tin.
    #[default]
    BestEffort,
    /// Eight tins, by precedence (RFC 791).
    Precedence,
    /// Bulk, best effort and voice.
    Diffserv3,
    /// Bulk, best effort, video and voice.
    Diffserv4,
    /// Eight tins by service.
    Diffserv8,
}

/// Each code point's tin: `lists` say it of those that are not in tin `default`.
#[expect(clippy::indexing_slicing, reason = "evaluated when the program is compiled")]
const fn map(default: u8, lists: &[(u8, &[u8])]) -> [u8; 64] {
    let (mut map, mut list) = ([default; 64], 0);
    while list < lists.len() {
        let (tin, codes) = lists[list];
        let mut code = 0;
        while code < codes.len() {
            map[codes[code] as usize] = tin;
            code += 1;
        }
        list += 1;
    }
    map
}

/// By the upper three bits.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated when the program is compiled"
)]
const fn precedence() -> [u8; 64] {
    let (mut map, mut code) = ([0; 64], 0);
    while code < 64 {
        map[code] = (code >> 3) as u8;
        code += 1;
    }
    map
}

/// Eight tins, each with 7/8 of the share and the weight of the one below.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::integer_division,
    reason = "evaluated when the program is compiled"
)]
const fn eight() -> [Tin; 8] {
    const NAMES: [&str; 8] = ["tin0", "tin1", "tin2", "tin3", "tin4", "tin5", "tin6", "tin7"];
    let (mut tins, mut weight, mut tin) = ([Tin::NONE; 8], 256, 0);
    while tin < 8 {
        let (name, share) = (TinName::known(NAMES[tin]), TinShare::sevenths(tin as u8));
        tins[tin] = Tin { name, share, weight };
        (weight, tin) = (weight * 7 / 8, tin + 1);
    }
    tins
}

/// A tin that has 1 of `whole` parts.
const fn part(name: &str, whole: u32, weight: u16) -> Tin {
    let share = match TinShare::new(1, whole) {
        Ok(share) => share,
        Err(_) => TinShare::ALL,
    };
    Tin { name: TinName::known(name), share, weight }
}

const N: Tin = Tin::NONE;
const BEST_EFFORT: Tin = part("best-effort", 1, 1_024);
const BULK: Tin = part("bulk", 16, 64);
const VIDEO: Tin = part("video", 2, 512);
const VOICE: Tin = part("voice", 4, 256);
/// Numbers as they are.
const IN_ORDER: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
/// Bulk is shown before best effort.
const BULK_FIRST: [u8; 8] = [1, 0, 2, 3, 4, 5, 6, 7];

impl TinMode {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::BestEffort, Self::Precedence, Self::Diffserv3, Self::Diffserv4, Self::Diffserv8];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::BestEffort => "besteffort",
            Self::Precedence => "precedence",
            Self::Diffserv3 => "diffserv3",
            Self::Diffserv4 => "diffserv4",
            Self::Diffserv8 => "diffserv8",
        }
    }

    /// Its tins and their code points.
    #[must_use]
    pub const fn plan(self) -> TinPlan {
        const ONE: TinPlan = TinPlan::of_mode(
            TinMode::BestEffort,
            1,
            0,
            [part("best-effort", 1, u16::MAX), N, N, N, N, N, N, N],
            [0; 64],
            IN_ORDER,
        );
        const BY_PRECEDENCE: TinPlan =
            TinPlan::of_mode(TinMode::Precedence, 8, 0, eight(), precedence(), IN_ORDER);
        const THREE: TinPlan = TinPlan::of_mode(
            TinMode::Diffserv3,
            3,
            0,
            [BEST_EFFORT, BULK, VOICE, N, N, N, N, N],
            map(0, &[(1, &[1, 8]), (2, &[4, 44, 46, 48, 56])]),
            BULK_FIRST,
        );
        const FOUR: TinPlan = TinPlan::of_mode(
            TinMode::Diffserv4,
            4,
            0,
            [BEST_EFFORT, BULK, VIDEO, VOICE, N, N, N, N],
            map(
                0,
                &[
                    (1, &[1, 8]),
                    (2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]),
                    (3, &[32, 40, 44, 46, 48, 56]),
                ],
            ),
            BULK_FIRST,
        );
        const EIGHT: TinPlan = TinPlan::of_mode(
            TinMode::Diffserv8,
            8,
            2,
            eight(),
            map(
                2,
                &[
                    (0, &[1]),
                    (1, &[2, 8, 10, 12, 14]),
                    (3, &[24, 26, 28, 30, 34, 36, 38]),
                    (4, &[4, 18, 20, 22]),
                    (5, &[16]),
                    (6, &[32, 40, 44, 46]),
                    (7, &[48, 56]),
                ],
            ),
            IN_ORDER,
        );
        match self {
            Self::BestEffort => ONE,
            Self::Precedence => BY_PRECEDENCE,
            Self::Diffserv3 => THREE,
            Self::Diffserv4 => FOUR,
            Self::Diffserv8 => EIGHT,
        }
    }
}

by_word! {
    TinMode, word, Self::ALL.iter().copied(),
    "tins must be one of besteffort precedence diffserv3 diffserv4 diffserv8"
}
