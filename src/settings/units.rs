//! Times and sizes as `tc` writes them.

use core::fmt;

use sched_core::Nanos;

use crate::smart_queue::MemoryLimit;

/// The keyword for [`MemoryLimit::ByRate`].
pub(super) const BY_RATE: &str = "by-rate";

/// Parses a time: `100us`, `1.5ms`, `1s`; without a unit, microseconds.
pub(super) fn time(word: &str) -> Option<Nanos> {
    word.parse().ok().or_else(|| micros(word))
}

/// Parses a number of microseconds with up to three decimals.
fn micros(word: &str) -> Option<Nanos> {
    let digits = |word: &str| {
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| word.parse::<u64>().ok()).flatten()
    };
    // A slice of one `char` as pattern: the search for a single `char` indexes in a way that can
    // panic where it is not inlined.
    let (whole, fraction) = word.split_once(['.']).unwrap_or((word, "0"));
    let zeros = 3_u32.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let fraction = digits(fraction)?.checked_mul(10_u64.checked_pow(zeros)?)?;
    digits(whole)?.checked_mul(1_000)?.checked_add(fraction).map(Nanos)
}

/// The units of sizes, the largest first, each with its power of two.
const SIZES: [(&str, u32); 4] = [("gb", 30), ("mb", 20), ("kb", 10), ("b", 0)];

/// Parses a size in bytes: `4mb`, `512k`, `1000`; a kilobyte has 1,024.
fn size(word: &str) -> Option<u32> {
    let unit_at = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at_checked(unit_at)?;
    let mut names = SIZES
        .into_iter()
        .flat_map(|(name, bits)| [(name, bits), (name.strip_suffix(['b']).unwrap_or(name), bits)]);
    let (_, bits) = names.find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
    let number: u32 = number.parse().ok()?;
    number.checked_mul(1_u32.checked_shl(bits)?).filter(|&bytes| bytes > 0)
}

/// Parses a size, or `by-rate`.
pub(super) fn memory_limit(word: &str) -> Option<MemoryLimit> {
    if word == BY_RATE {
        return Some(MemoryLimit::ByRate);
    }
    size(word).map(MemoryLimit::Bytes)
}

/// Prints a whole number of the largest unit that divides the size.
pub(super) struct Size(pub(super) u32);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zeros = if self.0 == 0 { 0 } else { self.0.trailing_zeros() };
        let found = SIZES.into_iter().find(|(_, bits)| *bits <= zeros);
        let (unit, bits) = found.unwrap_or(("b", 0));
        write!(f, "{}{unit}", self.0.checked_shr(bits).unwrap_or(0))
    }
}
