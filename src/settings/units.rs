//! Times, sizes and rates as `tc` writes them.

use core::fmt;

use sched_core::Nanos;
use shaper::Rate;

use crate::smart_queue::MemoryLimit;

/// The word for [`MemoryLimit::ByRate`].
pub(super) const BY_RATE: &str = "by-rate";

/// A time: `100us`, `1.5ms`, `1s`; without a unit, microseconds.
pub(super) fn time(word: &str) -> Option<Nanos> {
    let units = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9), ("", 3)];
    scaled(word, &units.map(|(name, digits)| (name, 10, digits))).map(Nanos)
}

/// A size in bytes: `4mb`, `512k`, `1000`; a kilobyte has 1,024.
fn size(word: &str) -> Option<u32> {
    let units =
        [("gb", 30), ("g", 30), ("mb", 20), ("m", 20), ("kb", 10), ("k", 10), ("b", 0), ("", 0)];
    let bytes = scaled(word, &units.map(|(name, bits)| (name, 2, bits)))?;
    u32::try_from(bytes).ok().filter(|&bytes| bytes > 0)
}

/// A size, or `by-rate`.
pub(super) fn memory_limit(word: &str) -> Option<MemoryLimit> {
    if word == BY_RATE {
        return Some(MemoryLimit::ByRate);
    }
    size(word).map(MemoryLimit::Bytes)
}

/// A rate, `unlimited` or `stopped`.
pub(super) fn rate(word: &str) -> Option<Rate> {
    if word.eq_ignore_ascii_case("stopped") {
        return Some(Rate::STOPPED);
    }
    word.parse().ok()
}

/// A number with one of these units, each a base and its power. Decimals only where the base is 10, and as many as the
/// power.
fn scaled(word: &str, units: &[(&str, u64, u32)]) -> Option<u64> {
    let unit_at = word.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at_checked(unit_at)?;
    let (_, base, power) = units.iter().find(|(name, ..)| unit.eq_ignore_ascii_case(name))?;
    // A list of one: the search for a single character has an index that can panic where it is not inlined.
    let (whole, fraction) = number.split_once(['.']).unwrap_or((number, ""));
    let decimals = u32::try_from(fraction.len()).ok()?;
    if whole.is_empty()
        || number.ends_with('.')
        || decimals > 0 && (*base != 10 || decimals > *power)
    {
        return None;
    }
    let digits = whole.bytes().chain(fraction.bytes()).try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })?;
    digits.checked_mul(base.checked_pow(power.saturating_sub(decimals))?)
}

/// A number in the largest of these units that divides it: each with its name, the largest first.
fn in_units(f: &mut fmt::Formatter<'_>, number: u64, units: &[(u64, &str)]) -> fmt::Result {
    let found = units.iter().find(|(unit, _)| number > 0 && number.is_multiple_of(*unit));
    match found {
        Some((unit, name)) => write!(f, "{}{name}", number.checked_div(*unit).unwrap_or(0)),
        None => write!(f, "{number}{}", units.last().map_or("", |(_, name)| name)),
    }
}

pub(super) struct Time(pub(super) Nanos);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
        in_units(f, self.0.0, &units)
    }
}

pub(super) struct Size(pub(super) u32);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        in_units(f, self.0.into(), &[(1 << 20, "mb"), (1 << 10, "kb"), (1, "b")])
    }
}

pub(super) struct Bandwidth(pub(super) Rate);

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_bits_per_second() {
            None => f.write_str("unlimited"),
            Some(0) => f.write_str("stopped"),
            Some(bits) => {
                let units =
                    [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit"), (1, "bit")];
                in_units(f, bits, &units)
            }
        }
    }
}
