//! Random numbers for tests and benches: small, seeded, and identical on every target.

/// Marsaglia's xorshift with 64 bits of state, triple (13, 7, 17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xorshift(u64);

impl Xorshift {
    /// Creates a generator; its state is never 0, for any seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self((seed ^ 0x9e37_79b9_7f4a_7c15) | 1 << 63)
    }

    /// Returns the next state.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns the high half of the next state, whose bits are of better quality.
    pub const fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Returns a number below `bound`, by widening multiplication; 0 if `bound` is 0.
    pub const fn below(&mut self, bound: u32) -> u32 {
        ((self.next_u32() as u64 * bound as u64) >> 32) as u32
    }

    /// Returns a number below `2^bits` whose magnitude is uniform; `bits` is at most 31.
    pub const fn magnitude(&mut self, bits: u32) -> u32 {
        let bits = self.below(bits + 1);
        self.below(1 << bits)
    }

    /// Returns eight random bits.
    pub const fn byte(&mut self) -> u8 {
        let [.., high] = self.next_u32().to_le_bytes();
        high
    }
}

/// Mixes all bits of `number` with the finalizer of SplitMix64 (Steele, Lea and Flood 2014). Used
/// for hashes, and to derive distant seeds from nearby numbers.
#[must_use]
pub const fn scramble(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_stays_below_its_bound_and_never_sticks() {
        for seed in [0, 1, 0x9e37_79b9_7f4a_7c15, u64::MAX] {
            let mut random = Xorshift::new(seed);
            let mut seen = [0_u32; 10];
            for _ in 0..10_000 {
                seen[random.below(10) as usize] += 1;
            }
            assert!(seen.iter().all(|&count| (900..1_100).contains(&count)), "{seed}: {seen:?}");
            assert_eq!(random.below(0), 0);
        }
    }

    /// Compares with the first published outputs of SplitMix64, and with the shifts of xorshift
    /// written out.
    #[test]
    fn the_numbers_are_the_published_ones() {
        // SplitMix64 from state 0 and from the state after it.
        assert_eq!(scramble(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(scramble(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
        // Seed 0 is the state 0x9e37_79b9_7f4a_7c15; its three shifts are written out.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            state ^= if left { state << by } else { state >> by };
        }
        assert_eq!(Xorshift::new(0).next_u64(), state);
    }
}
