//! Virtual time in fixed point: wrap-safe comparison, rounding, weights and the slot widths of the
//! groups.
//!
//! A byte of a flow of weight 1 is 2^30 units. Virtual times are `u64` modulo 2^64, compared by
//! their signed difference. That is exact as long as the times compared are less than 2^63 apart.
//! All times in use lie within a few slots and one packet of `V` (Theorems 1 and 2), and the widest
//! slot and the longest packet are both at most 2^46. A single flow of weight 1 with 1,500-byte
//! packets wraps `V` in 11.45 million packets.

use core::num::{NonZeroU32, NonZeroU64};

/// Fraction bits of the inverse weights.
const FRAC_BITS: u32 = 30;
/// `σ_0 = 2^15`. With 32 groups the widest slot is 2^46, and the largest `L/φ` is 65,535 · 2^30 <
/// 2^46.
const MIN_SHIFT: u32 = 15;
/// Number of groups: a set of them is one `u32`.
pub(super) const GROUPS: usize = 32;
/// Number of slots of a group: a set of them is one `u32`.
pub(super) const SLOTS: usize = 32;

/// A virtual time, modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Virtual(pub(super) u64);

impl Virtual {
    /// Returns `self` plus `span`.
    pub(super) const fn plus(self, span: u64) -> Self {
        Self(self.0.wrapping_add(span))
    }

    /// Returns `self` minus `span`.
    pub(super) const fn minus(self, span: u64) -> Self {
        Self(self.0.wrapping_sub(span))
    }

    /// Returns the span from `earlier` to `self`, modulo 2^64.
    pub(super) const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns true if `self > other`.
    pub(super) const fn is_after(self, other: Self) -> bool {
        other.since(self).cast_signed() < 0
    }

    /// Returns `⌊self⌋_σ` for slots of `width` (QFQ §IV-2, eq. 5).
    pub(super) const fn floor(self, width: Width) -> Self {
        Self(self.0 & (u64::MAX << width.shift()))
    }
}

/// The slot width of a group: `σ_i = 2^(15 + i)` (QFQ §IV-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width(u32);

impl Width {
    /// Returns the slot width of group `i`, using its low five bits.
    pub(super) const fn of_group(i: u32) -> Self {
        Self(MIN_SHIFT + i % 32)
    }

    const fn shift(self) -> u32 {
        self.0
    }

    /// Returns `σ_i`.
    pub(super) const fn span(self) -> u64 {
        1 << self.0
    }

    /// Returns `F_i - S_i = 2σ_i` (eq. 6): a rounded interval contains the exact one, as `F < S + σ
    /// + σ`.
    pub(super) const fn interval(self) -> u64 {
        2 << self.0
    }

    /// Returns the span of `slots` slots.
    pub(super) const fn slots(self, slots: u32) -> u64 {
        (slots as u64) << self.0
    }

    /// Returns the slot of the circle that contains `time`. 32 slots are at most 2^51, which
    /// divides 2^64, so the circle is continuous where virtual time wraps.
    #[expect(clippy::cast_possible_truncation, reason = "five bits are left")]
    pub(super) const fn slot_of(self, time: Virtual) -> u32 {
        (time.0 >> self.0) as u32 % 32
    }
}

/// Returns the groups in which an advance of virtual time has entered a slot: those up to the
/// highest bit that differs, in slots of group 0 (QFQ §IV-A.3, Fig. 6).
///
/// A slot of group `i` starts at a multiple of `σ_i`, so one is entered if and only if bit `15 + i`
/// or a higher one differs. A difference above the last group's bit means all groups.
#[expect(clippy::cast_possible_truncation, reason = "there are 32 groups")]
pub(super) fn entered(from: Virtual, to: Virtual) -> u32 {
    let changed = (from.0 ^ to.0) >> MIN_SHIFT;
    u64::MAX.checked_shr(changed.leading_zeros()).unwrap_or(0) as u32
}

/// Returns `⌊2^30 / weight⌋`: the advance of a flow's virtual time per byte.
#[expect(clippy::integer_division, reason = "by type never by zero; rounds as said")]
pub(super) fn inverse(weight: NonZeroU32) -> NonZeroU32 {
    // Not zero: a weight is at most 2^16.
    NonZeroU32::new((1 << FRAC_BITS) / weight).unwrap_or(NonZeroU32::MIN)
}

/// Returns the weight of an inverse, `⌊2^30 / inverse⌋`.
///
/// Up to 2^15 it is the configured weight, above within 2^-14 of it. Its own inverse is `inverse`
/// again.
#[expect(clippy::integer_division, reason = "by type never by zero; rounds as said")]
pub(super) fn weight_of(inverse: NonZeroU32) -> u32 {
    (1 << FRAC_BITS) / inverse
}

/// Returns the share of an inverse, `⌈2^60 / inverse⌉`: the weight with 30 fraction bits, rounded
/// up while [`reciprocal`] is rounded down.
///
/// So the shares as they are counted, `φ^k = inverse_sum / inverse^k`, never add up to more than 1.
/// If they did, as with the sum of the rounded weights, `V` would outrun the flows by the excess
/// for as long as they stay backlogged, and nothing would bound `V - F`.
#[expect(clippy::integer_division, reason = "by type never by zero; rounds as said")]
pub(super) fn share(inverse: NonZeroU32) -> u64 {
    let inverse = NonZeroU64::from(inverse);
    ((1 << (2 * FRAC_BITS)) + (inverse.get() - 1)) / inverse
}

/// Returns `⌊2^60 / sum⌋` for a sum of shares, exact; 0 for the empty sum.
///
/// No share is below 2^30, so this is at most 2^30; the sum has to be below 2^55. That of QFQ is at
/// most 2^54 + 2^40; QFQ+, whose inverses are rounded once more, exceeds 2^54 by less than 2^43.
///
/// It uses Newton's iteration instead of a division, since sums change with packets: `y` converges
/// to `1/d`, with 30 fraction bits, for the top 32 bits of the sum read as `d` in `[1/2, 1)`. The
/// linear start is within 1/17, each step squares the error, and after three the quotient is off by
/// at most one.
#[expect(clippy::cast_possible_truncation, reason = "at most 2^30")]
pub(super) fn reciprocal(sum: u64) -> u32 {
    const ONE: u64 = 1 << FRAC_BITS;
    /// 48/17 and 32/17 with 30 fraction bits.
    const START: (u64, u64) = (3_031_741_621, 2_021_161_081);
    if sum < ONE {
        return 0;
    }
    // For 2^30..2^55: 9 to 33 zeros.
    let zeros = sum.leading_zeros();
    let d = (sum << zeros) >> 32;
    let step = |y: u64| (y * (2 * ONE - ((d * y) >> 32))) >> FRAC_BITS;
    let y = step(step(step(START.0 - ((START.1 * d) >> 32))));
    let mut quotient = (y >> (34 - zeros)) + 1;
    quotient -= (quotient * sum > ONE * ONE) as u64;
    quotient -= (quotient * sum > ONE * ONE) as u64;
    quotient as u32
}

/// Returns the group of a flow (eq. 4): the smallest `i` with `len · inverse ≤ σ_i`, at most 31,
/// which suffices for every `len` up to 65,535.
pub(super) fn group_of(len: u32, inverse: u32) -> u8 {
    let normalised = u64::from(len) * u64::from(inverse);
    let log2_ceil = u64::BITS - normalised.saturating_sub(1).leading_zeros();
    log2_ceil.saturating_sub(MIN_SHIFT).min(31) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_signed_difference_also_across_both_seams() {
        for seam in [0, 1 << 63, u64::MAX] {
            let early = Virtual(seam).minus(5);
            let late = Virtual(seam).plus(1 << 50);
            assert!(late.is_after(early) && !early.is_after(late) && !late.is_after(late));
            assert_eq!(late.since(early), (1 << 50) + 5);
        }
    }

    const WEIGHTS: [u32; 12] =
        [1, 2, 3, 5, 750, 32_767, 32_768, 32_769, 40_000, 60_000, 65_535, 65_536];

    fn inverse_of(weight: u32) -> NonZeroU32 {
        inverse(NonZeroU32::new(weight).unwrap())
    }

    /// Checks the definition of the group for every power of two, one less and one more.
    #[test]
    fn a_group_is_the_narrowest_whose_slot_holds_the_longest_packet() {
        for bits in 0..17 {
            for len in [(1 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                for weight in WEIGHTS {
                    let (len, inverse) = (u32::clamp(len, 1, 65_535), inverse_of(weight).get());
                    let group = group_of(len, inverse).into();
                    let normalised = u64::from(len) * u64::from(inverse);
                    assert!(normalised <= Width::of_group(group).span());
                    assert!(group == 0 || normalised > Width::of_group(group - 1).span());
                }
            }
        }
        assert_eq!((group_of(65_535, 1 << 30), group_of(2, 1 << 14)), (31, 0));
    }

    #[test]
    fn a_weight_read_back_and_set_again_is_the_same() {
        for weight in (1..=1 << 15).chain(WEIGHTS) {
            let rounded = weight_of(inverse_of(weight));
            assert_eq!(inverse_of(rounded), inverse_of(weight));
            assert!(rounded >= weight && rounded - weight <= weight >> 14, "{weight}: {rounded}");
            assert!(weight > 1 << 15 || rounded == weight);
        }
        assert_eq!(weight_of(inverse_of(65_535)), 65_536);
    }

    /// Checks the sum of `inverse_sum / inverse^k` over a common denominator, for all sets of up to
    /// three.
    #[test]
    fn shares_never_add_up_to_more_than_the_link() {
        for a in WEIGHTS {
            for b in WEIGHTS {
                for c in WEIGHTS {
                    let all = [a, b, c].map(inverse_of);
                    let sum = all.map(share).iter().sum();
                    let product: u128 = all.iter().map(|i| u128::from(i.get())).product();
                    let per_byte = u128::from(reciprocal(sum));
                    let shares = all.map(|i| product / u128::from(i.get()) * per_byte);
                    assert!(shares.iter().sum::<u128>() <= product, "{a} {b} {c}");
                }
            }
        }
        assert_eq!(reciprocal(share(inverse_of(1))), 1 << 30);
        assert_eq!(reciprocal(256 * share(inverse_of(65_536))), 64);
    }

    /// Goal: Newton's quotient equals that of a division. Method: the ends of the range, everything
    /// near its powers of two, and 4 million numbers of all magnitudes.
    #[test]
    fn the_reciprocal_is_that_of_a_division() {
        const LARGEST: u64 = (1 << 55) - 1;
        let check = |sum: u64| assert_eq!(u64::from(reciprocal(sum)), (1 << 60) / sum, "{sum}");
        for offset in 0..100_000 {
            check((1 << 30) + offset);
            check(LARGEST - offset);
            for bits in 31..=54 {
                check((1 << bits) + offset);
                check((1 << bits) - offset);
            }
        }
        let mut random = conformance::Xorshift::new(0);
        for at in 0..4_000_000_u32 {
            check((random.next_u64() >> (at % 34)).clamp(1 << 30, LARGEST));
        }
        assert_eq!([0, 1, (1 << 30) - 1].map(reciprocal), [0; 3]);
    }

    #[test]
    fn entering_a_slot_is_told_by_the_highest_bit_that_differs_and_clamped() {
        let at = |from, to| entered(Virtual(from), Virtual(to));
        assert_eq!(at(0, (1 << 15) - 1), 0);
        assert_eq!(at((1 << 15) - 1, 1 << 15), 0b1);
        assert_eq!(at(3 << 15, 4 << 15), 0b111);
        assert_eq!(at(0, 1 << 45), u32::MAX >> 1);
        assert_eq!(at(0, 1 << 46), u32::MAX);
        assert_eq!(at(0, 1 << 47), u32::MAX);
        assert_eq!(at(u64::MAX, 0), u32::MAX);
    }
}
