//! Texts of errors, without the formatting of `core::fmt`, which can panic as far as the compiler
//! knows.

use core::ffi::c_char;

use freeboard::flowhash::TableError;
use freeboard::sched_core::ConfigError;
use freeboard::shaper::KeywordProblem;
use freeboard::{
    IsolatedError, MemoryLimitError, SettingsError, SettingsProblem, SmartQueueError, TinPlanError,
};

use crate::interface::{FB_E_KEYWORD, FB_E_MEMORY, FB_E_RANGE, FB_OK, FB_TEXT, fb_error};

impl fb_error {
    /// No error.
    pub(crate) const NONE: Self = Self { code: FB_OK, offset: 0, text: [0; FB_TEXT] };

    /// Creates an error without values.
    pub(crate) fn new(code: i32, text: &str) -> Self {
        Self { code, ..Self::NONE }.with(text)
    }

    /// Adds text, as much of it as there is space for; a zero always remains at the end.
    pub(crate) fn with(mut self, text: &str) -> Self {
        let used = self.text.iter().take_while(|&&byte| byte != 0).count();
        let places = self.text.iter_mut().take(FB_TEXT.saturating_sub(1)).skip(used);
        for (place, byte) in places.zip(text.bytes()) {
            *place = byte as c_char;
        }
        self
    }

    /// Adds a number.
    pub(crate) fn with_number(self, mut number: u64) -> Self {
        // Digits from the last one on; 2^64 has 20.
        let mut digits = [0_u8; 20];
        let mut used = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            used += 1;
            if number == 0 {
                break;
            }
        }
        let digits = digits.get(digits.len().saturating_sub(used)..).unwrap_or_default();
        self.with(core::str::from_utf8(digits).unwrap_or_default())
    }

    /// Adds the expected numbers.
    fn expected(self, min: u64, max: u64) -> Self {
        let to = self.with(" (expected ").with_number(min).with(" to ").with_number(max);
        to.with(")")
    }

    /// Adds the least expected number.
    fn at_least(self, min: u64) -> Self {
        self.with(" (expected ").with_number(min).with(" or more)")
    }

    /// Creates the error of a number out of range.
    pub(crate) fn range(what: &str, value: u64, min: u64, max: u64) -> Self {
        let named = Self::new(FB_E_RANGE, what).with(" ").with_number(value);
        named.with(" is out of range").expected(min, max)
    }

    /// Creates the error of a number that is too small.
    pub(crate) fn too_few(code: i32, what: &str, given: u64, needed: u64) -> Self {
        Self::new(code, what).with(": ").with_number(given).at_least(needed)
    }
}

impl From<SmartQueueError> for fb_error {
    fn from(error: SmartQueueError) -> Self {
        match error {
            SmartQueueError::Isolated(error) => of_tables(error),
            SmartQueueError::MemoryLimit(MemoryLimitError { given, needed }) => {
                Self::too_few(FB_E_RANGE, "memory limit in bytes", given.into(), needed.into())
            }
            _ => Self::new(FB_E_RANGE, "packets: 0 (expected 1 or more)"),
        }
    }
}

fn of_tables(error: IsolatedError) -> fb_error {
    match error {
        IsolatedError::Config(ConfigError::OutOfRange { what, value, min, max }) => {
            fb_error::range(what, value, min, max)
        }
        IsolatedError::Table(TableError::Queues { queues, ways }) => {
            let named = fb_error::new(FB_E_RANGE, "queues or hosts: ").with_number(queues.into());
            let expected = named.with(" (expected a power of two, ").with_number(ways.into());
            expected.with(" or more)")
        }
        IsolatedError::NoTriple => fb_error::new(
            FB_E_RANGE,
            "triple-isolate: `rounds` is 0 (expected 2 or more for each tin, or another isolation)",
        ),
        IsolatedError::Memory { what, given, needed } => {
            fb_error::too_few(FB_E_RANGE, what, given as u64, needed as u64)
        }
        _ => fb_error::new(FB_E_RANGE, "a number is out of range"),
    }
}

impl From<SettingsError> for fb_error {
    fn from(error: SettingsError) -> Self {
        let offset = u32::try_from(error.offset).unwrap_or(u32::MAX);
        let at = Self { offset, ..Self::new(FB_E_KEYWORD, "at byte ") };
        let at = at.with_number(error.offset as u64).with(", `").with(error.word.as_str());
        let at = at.with("`: ");
        match error.problem {
            SettingsProblem::Unknown { nearest: Some(nearest) } => {
                at.with("no such word; did you mean `").with(nearest).with("`?")
            }
            SettingsProblem::Unknown { nearest: None } => {
                at.with("no such word (expected a keyword of tc for CAKE)")
            }
            SettingsProblem::NotOffered { instead } => at.with("not supported; ").with(instead),
            SettingsProblem::Missing { expected } => {
                at.with("needs ").with(expected).with(" after it")
            }
            SettingsProblem::Value { expected } => at.with("expected ").with(expected),
            SettingsProblem::Link(KeywordProblem::Number { expected, .. }) => {
                at.with("expected ").with(expected)
            }
            SettingsProblem::Link(_) => at.with("framing is out of range"),
            SettingsProblem::Tins(error) => at.with(of_tins(error)),
            SettingsProblem::NoTin => at.with("expected after `tin NAME`"),
            _ => at.with("two plans of tins (expected a mode, or tins named by `tin`)"),
        }
    }
}

const fn of_tins(error: TinPlanError) -> &'static str {
    match error {
        TinPlanError::Tins { .. } => "number of tins (expected 1 to 8)",
        TinPlanError::Share { .. } => "share (expected more than 0 and up to 1)",
        TinPlanError::NoShare => "not a share (expected a form such as 1/4, 25%, 12.5% or 1)",
        TinPlanError::Crowded { .. } => {
            "sum of shares above the first tin (expected less than 1, to leave the first a share)"
        }
        TinPlanError::Weight => "weight (expected 1 to 65535)",
        TinPlanError::Name => "not the name of a tin (expected letters, digits, - and _)",
        TinPlanError::SameName(_) => "two tins have this name (expected different names)",
        TinPlanError::UnknownTin { .. } => "no tin has this name (expected that of a tin)",
        TinPlanError::Twice(_) => "the tin of a code point is set twice (expected once)",
        TinPlanError::TwoDefaults => "the default tin is set twice (expected once)",
        _ => "wrong plan of tins",
    }
}

/// Creates the error of a block that is too short.
pub(crate) fn of_block(given: usize, needed: usize) -> fb_error {
    fb_error::too_few(FB_E_MEMORY, "bytes of the block", given as u64, needed as u64)
}
