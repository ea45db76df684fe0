//! Randomness for AQMs: a seeded generator, and probabilities as 32-bit fractions.
//!
//! A randomized AQM is still a function of its inputs: the caller provides the seed, and the same
//! seed gives the same verdicts on every target. The generator is small and fast but not secret: a
//! sender that observes enough drops could predict the next draws. So an AQM lets a draw decide
//! which packet of a flow is dropped, but never which flow.
//!
//! **Cost.** A draw takes three shifts and a multiplication; no division, no loop. Memory: 8 bytes
//! per generator.
//!
//! **Source.** xorshift64\*: G. Marsaglia, *Xorshift RNGs*, Journal of Statistical Software 8 (14),
//! 2003; S. Vigna, *An experimental exploration of Marsaglia's xorshift generators, scrambled*, ACM
//! Transactions on Mathematical Software 42 (4), 2016: shifts 12, 25, 27. The seed is mixed by the
//! finalizer of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014).

use crate::flow_scheduler::ConfigError;

/// A seeded random number generator, xorshift64\*: period 2^64 − 1, 8 bytes.
///
/// ```
/// use sched_core::Random;
///
/// let (mut one, mut same, mut other) = (Random::new(7), Random::new(7), Random::new(8));
/// let drawn = [one.next_u32(), one.next_u32()];
/// assert_eq!(drawn, [same.next_u32(), same.next_u32()]);
/// assert_ne!(drawn, [other.next_u32(), other.next_u32()]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// Never 0, the fixed point of the shifts.
    state: u64,
}

impl Random {
    /// Creates a generator from any seed. Seeds that differ in one bit start far apart.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ (z >> 31);
        // One of the 2^64 seeds is mixed to 0.
        Self { state: if z == 0 { 1 } else { z } }
    }

    /// Returns the next number: the upper 32 of the generator's 64 bits, which are the better half.
    #[inline]
    pub const fn next_u32(&mut self) -> u32 {
        let mut x = self.state;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.state = x;
        let [.., a, b, c, d] = x.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// A probability as a 32-bit fraction.
///
/// The raw number `r` represents `r / 2^32`, from 0, which never happens, to `1 − 2^-31`. The
/// largest number, 2^32 − 1, represents 1, which always happens.
///
/// ```
/// use sched_core::{Probability, Random};
///
/// let rare = Probability::ratio(1, 256)?;
/// assert_eq!(rare, Probability::from_raw(1 << 24));
/// assert_eq!(rare.minus(Probability::ALWAYS), Probability::NEVER);
/// assert_eq!(Probability::ALWAYS.plus(rare), Probability::ALWAYS);
/// assert!(Probability::ratio(257, 256).is_err(), "more than 1");
///
/// let mut random = Random::new(1);
/// let drops = (0..256_000).filter(|_| rare.draw(&mut random)).count();
/// assert!((900..1_100).contains(&drops));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Probability {
    raw: u32,
}

impl Probability {
    /// Probability 0: never happens.
    pub const NEVER: Self = Self { raw: 0 };
    /// Probability 1: always happens.
    pub const ALWAYS: Self = Self { raw: u32::MAX };
    /// One tenth, rounded down: up to this probability BLUE and PIE mark.
    pub(super) const TENTH: Self = Self { raw: 429_496_729 };

    /// Creates the probability `raw / 2^32`; [`Self::ALWAYS`] for the largest number.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        Self { raw }
    }

    /// Returns the raw number; the inverse of [`Self::from_raw`].
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.raw
    }

    /// Creates the probability `parts / whole`, rounded down to a raw number. Takes a division: for
    /// parameters, not for packets.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `whole` is 0 or `parts` exceeds it.
    pub fn ratio(parts: u32, whole: u32) -> Result<Self, ConfigError> {
        ConfigError::check_range("whole of a probability", whole.into(), 1, u32::MAX.into())?;
        ConfigError::check_range("parts of a probability", parts.into(), 0, whole.into())?;
        let raw = (u64::from(parts) << 32).checked_div(whole.into()).unwrap_or(u64::MAX);
        // 2^32, for probability 1, is the only quotient that does not fit.
        Ok(Self { raw: u32::try_from(raw).unwrap_or(u32::MAX) })
    }

    /// Returns the sum, at most 1.
    #[must_use]
    #[inline]
    pub const fn plus(self, step: Self) -> Self {
        Self { raw: self.raw.saturating_add(step.raw) }
    }

    /// Returns the difference, at least 0.
    #[must_use]
    #[inline]
    pub const fn minus(self, step: Self) -> Self {
        Self { raw: self.raw.saturating_sub(step.raw) }
    }

    /// Returns true with this probability. Always draws a number.
    ///
    /// Of the 2^32 numbers that may be drawn, exactly `raw` return true; for [`Self::ALWAYS`] all
    /// of them.
    #[must_use]
    #[inline]
    pub const fn draw(self, random: &mut Random) -> bool {
        self.happens_at(random.next_u32())
    }

    /// Returns true if the drawn number `drawn` makes the event happen.
    #[inline]
    const fn happens_at(self, drawn: u32) -> bool {
        // The two largest numbers count as one: both are below ALWAYS, and neither is below any
        // other probability.
        let below_always = if drawn == u32::MAX { u32::MAX.wrapping_sub(1) } else { drawn };
        below_always < self.raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// xorshift64\* in 128-bit arithmetic, from its definition: three shifts, then the upper half
    /// of the 64-bit product.
    fn step(state: &mut u128) -> u128 {
        let mask = u128::from(u64::MAX);
        *state ^= *state >> 12;
        *state ^= (*state << 25) & mask;
        *state ^= *state >> 27;
        ((*state * 2_685_821_657_736_338_717) & mask) >> 32
    }

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let mut random = Random { state: 1 };
        let mut state = 1;
        for _ in 0..1_000 {
            assert_eq!(u128::from(random.next_u32()), step(&mut state));
        }
        // The first output of state 1, calculated manually: the upper half of 1 + 2^25 times the
        // constant.
        let first = 0x2545_f491_4f6c_dd1d_u64.wrapping_mul((1 << 25) + 1);
        assert_eq!(u64::from(Random { state: 1 }.next_u32()), first >> 32);
        // The first outputs of SplitMix64 from the states 0 and 0x9e37… are the states of our
        // seeds.
        assert_eq!(Random::new(0).state, 0xe220_a839_7b1d_cdaf);
        assert_eq!(Random::new(0x9e37_79b9_7f4a_7c15).state, 0x6e78_9e6a_a1b9_65f4);
    }

    /// The one seed that the finalizer mixes to 0 is `−0x9e37…`: the generator still advances.
    #[test]
    fn no_seed_stands_still() {
        for seed in [0, 1, u64::MAX, 0_u64.wrapping_sub(0x9e37_79b9_7f4a_7c15)] {
            let mut random = Random::new(seed);
            assert_ne!(random.state, 0, "seed {seed}");
            let drawn = [0; 8].map(|_| random.next_u32());
            assert!(drawn.iter().any(|&number| number != drawn[0]), "seed {seed}");
        }
    }

    /// Goal: a draw happens for exactly `raw` of the 2^32 numbers, and a number on the boundary is
    /// on one side.
    #[test]
    fn the_edges_of_a_draw_are_where_they_are_said_to_be() {
        let top = u32::MAX;
        for raw in [0, 1, 2, 1 << 24, 1 << 31, top - 2, top - 1] {
            let probability = Probability::from_raw(raw);
            for drawn in [0, 1, raw.saturating_sub(1), raw, raw.saturating_add(1), top - 1, top] {
                assert_eq!(probability.happens_at(drawn), drawn < raw, "{raw} at {drawn}");
            }
        }
        for drawn in [0, 1, 1 << 31, top - 1, top] {
            assert!(Probability::ALWAYS.happens_at(drawn));
            assert!(!Probability::NEVER.happens_at(drawn));
        }
    }

    /// Goal: an event happens as often as its probability says. Method: a million draws, within
    /// five standard deviations.
    #[test]
    fn a_million_draws_are_as_many_as_the_probability_says() {
        for (seed, parts) in [(1, 1), (2, 10), (3, 234), (4, 500), (5, 999)] {
            let probability = Probability::ratio(parts, 1_000).unwrap();
            let mut random = Random::new(seed);
            let happened = (0..1_000_000).filter(|_| probability.draw(&mut random)).count();
            let (mean, part) = (u64::from(parts) * 1_000, u64::from(parts));
            let five_deviations = 5 * (part * (1_000 - part)).isqrt();
            let off = mean.abs_diff(happened as u64);
            assert!(off <= five_deviations, "{parts} in 1,000: {happened} of a million");
        }
    }

    #[test]
    fn a_ratio_is_rounded_down_and_never_above_one() {
        for (parts, whole, raw) in [
            (0, 1, 0),
            (1, 1, u32::MAX),
            (u32::MAX, u32::MAX, u32::MAX),
            (1, 2, 1 << 31),
            (1, 3, 0x5555_5555),
            (60, 256, 60 << 24),
            (u32::MAX - 1, u32::MAX, u32::MAX - 1),
        ] {
            assert_eq!(Probability::ratio(parts, whole), Ok(Probability::from_raw(raw)));
        }
        for (parts, whole) in [(0, 0), (1, 0), (2, 1), (u32::MAX, u32::MAX - 1)] {
            let refused = Probability::ratio(parts, whole);
            assert!(matches!(refused, Err(ConfigError::OutOfRange { .. })), "{parts} / {whole}");
        }
    }
}
