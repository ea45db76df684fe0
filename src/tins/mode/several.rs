//! The plans with several tins.

use super::super::plan::in_order;
use super::super::{Tin, TinName, TinPlan, TinShare};
use super::{ONE, TinMode, part};

/// Maps code points to tins: `lists` has those that are not in tin `default`.
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

/// Maps by the upper three bits.
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

const BEST_EFFORT: Tin = part("best-effort", 1, 1_024);
const BULK: Tin = part("bulk", 16, 64);
const VIDEO: Tin = part("video", 2, 512);
const VOICE: Tin = part("voice", 4, 256);
/// The order that shows bulk before best effort.
const BULK_FIRST: [u8; 8] = [1, 0, 2, 3, 4, 5, 6, 7];

impl TinMode {
    /// All modes.
    pub const ALL: &'static [Self] =
        &[Self::BestEffort, Self::Precedence, Self::Diffserv3, Self::Diffserv4, Self::Diffserv8];

    /// Returns its keyword.
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

    /// Returns its plan of tins.
    #[must_use]
    pub const fn plan(self) -> TinPlan {
        const BY_PRECEDENCE: TinPlan =
            TinPlan::of_mode(TinMode::Precedence, 0, &eight(), precedence(), in_order());
        const THREE: TinPlan = TinPlan::of_mode(
            TinMode::Diffserv3,
            0,
            &[BEST_EFFORT, BULK, VOICE],
            map(0, &[(1, &[1, 8]), (2, &[4, 44, 46, 48, 56])]),
            BULK_FIRST,
        );
        const FOUR: TinPlan = TinPlan::of_mode(
            TinMode::Diffserv4,
            0,
            &[BEST_EFFORT, BULK, VIDEO, VOICE],
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
            2,
            &eight(),
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
            in_order(),
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
