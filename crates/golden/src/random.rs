//! Random numbers for tests: small, seeded, the same on every target.

/// Marsaglia's xorshift with 64 bits of state, triple (13, 7, 17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xorshift(u64);

impl Xorshift {
    /// A generator; its state is never 0, whatever the seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self((seed ^ 0x9e37_79b9_7f4a_7c15) | 1 << 63)
    }

    /// The high half of the next state, which has the better bits.
    pub const fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    /// A number below `bound`, by widening multiplication; 0 if `bound` is 0.
    pub const fn below(&mut self, bound: u32) -> u32 {
        ((self.next_u32() as u64 * bound as u64) >> 32) as u32
    }

    /// Eight random bits.
    pub const fn byte(&mut self) -> u8 {
        let [.., high] = self.next_u32().to_le_bytes();
        high
    }
}
