//! Length classes, and the marks between which a flow stays in its class.
//!
//! **Classes.** Each class has a *centre*. From one *unit* on, 2 KiB, the centres are one unit
//! apart, or `2^-5` of a power of two if that is more. Below one unit they are the powers of two.
//! The *width* of a class is the distance to the next higher centre.
//!
//! **Marks.** A flow enters a class whose centre is near the bytes it holds. It stays there while
//! it holds at least the lower mark and less than the upper mark. The upper mark is one width above
//! the centre. The lower mark is one width below it, or at half of the centre if that is higher. So
//! a flow that enters a class is not near a mark, and a few packets more or less do not move it.

/// From some length on, a power of two is divided into `2^5` classes.
const SUB_CLASS_BITS: u32 = 5;

/// A unit is `2^11` bytes.
const UNIT_BITS: u32 = 11;
const UNIT: u32 = 1 << UNIT_BITS;

/// From here on, 1.5 times the length is at least a unit.
const MIDDLE: u32 = 1_366;
const _: () = assert!(MIDDLE + (MIDDLE >> 1) > UNIT && MIDDLE - 1 + ((MIDDLE - 1) >> 1) < UNIT);

/// From here on, 1/32 of a power of two is at least a unit.
const LONG: u32 = UNIT << SUB_CLASS_BITS;

/// The number of classes for all lengths.
pub(super) const CLASSES: u32 = number_of_long(u32::MAX) + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// Below [`CLASSES`]; longer flows are in classes of higher numbers.
    pub(super) number: u32,
    /// The marks: a flow stays while it holds `low..high` bytes. `low` is not 0.
    pub(super) low: u32,
    pub(super) high: u32,
}

impl Class {
    /// Returns the class that a flow with `bytes` bytes, more than 0, enters.
    #[inline(always)]
    pub(super) const fn of(bytes: u32) -> Self {
        if bytes < MIDDLE {
            return Self::of_short(bytes);
        }
        if bytes >= LONG {
            return Self::of_long(bytes);
        }
        let units = (bytes + (UNIT >> 1)) >> UNIT_BITS;
        let below = (units - 1) << UNIT_BITS;
        let low = if below == 0 { UNIT >> 1 } else { below };
        Self { number: UNIT_BITS - 1 + units, low, high: (units + 1) << UNIT_BITS }
    }

    /// [`Self::of`] for lengths where the centres are powers of two.
    #[inline(always)]
    const fn of_short(bytes: u32) -> Self {
        // The centre is the largest power of two up to 1.5 times the length.
        let number = ((bytes + (bytes >> 1)) | 1).ilog2() % UNIT_BITS;
        let centre = 1 << number;
        Self { number, low: if centre == 1 { 1 } else { centre >> 1 }, high: centre << 1 }
    }

    /// [`Self::of`] for lengths where the width grows with the length.
    #[cold]
    #[inline(never)]
    const fn of_long(bytes: u32) -> Self {
        let near = width_bits_of_long(bytes);
        let centre = bytes.saturating_add(1 << near >> 1) >> near << near;
        let width = 1 << width_bits_of_long(centre);
        let (low, high) = (centre.wrapping_sub(width), centre.saturating_add(width));
        Self { number: number_of_long(centre), low, high }
    }

    /// Returns the number of the class with the upper mark `high`.
    #[inline(always)]
    pub(super) const fn number_below(high: u32) -> u32 {
        if high < 2 * UNIT {
            return (high >> 1 | 1).ilog2();
        }
        // No other centre is above the centre of the class and below its upper mark.
        let last = high.wrapping_sub(1);
        if last < LONG { UNIT_BITS - 1 + (last >> UNIT_BITS) } else { number_of_long(last) }
    }
}

/// Returns the number of the class with the centre `bytes`, or with the next lower centre.
const fn number_of_long(bytes: u32) -> u32 {
    let bits = width_bits_of_long(bytes);
    let wider = bits.wrapping_sub(UNIT_BITS) << SUB_CLASS_BITS;
    wider.wrapping_add(UNIT_BITS - 1).wrapping_add(bytes >> bits)
}

/// Returns the base-2 logarithm of the width of the class with the centre `bytes`, at least
/// [`LONG`], or with the next lower centre.
#[inline(always)]
const fn width_bits_of_long(bytes: u32) -> u32 {
    (bytes | LONG).ilog2().wrapping_sub(SUB_CLASS_BITS) % u32::BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Lengths up to `2^18`, and beyond that those around the centres and the midpoints between
    /// them.
    fn lengths() -> Vec<u32> {
        let mut lengths: Vec<u32> = (1..1 << 18).collect();
        for bits in 18..32 {
            for part in 64_u64..128 {
                let from = (part << bits >> 6) as u32;
                lengths.extend([from - 1, from, from + 1]);
            }
        }
        lengths.push(u32::MAX - 1);
        lengths
    }

    /// Goal: the marks of every class satisfy the documented bounds. Method: check the definition
    /// for all short lengths and the corners of the long ones.
    #[test]
    fn the_marks_of_every_class_are_what_the_promise_needs() {
        let mut before = Class::of(1);
        for bytes in lengths() {
            let class = Class::of(bytes);
            let (low, high) = (u64::from(class.low), u64::from(class.high));
            assert!(low > 0 && (low..high).contains(&bytes.into()), "{bytes}: {class:?}");
            // The longest flow of the class holds `high - 1` bytes.
            let most = high - 1;
            assert!(low > most.saturating_sub(4_096.max(most / 16)), "{bytes}: {class:?}");
            assert!(4 * low >= high, "{bytes}: {class:?}");
            assert_eq!(class.number, Class::number_below(class.high), "{bytes}");
            assert!(class.number < CLASSES);
            assert_eq!(class.number == before.number, class == before, "{bytes}: {class:?}");
            assert!(class.number >= before.number && class.high >= before.high, "{bytes}");
            before = class;
        }
        assert_eq!(before.number, CLASSES - 1);
    }
}
