//! A hash of a sequence of words, the same on every target.

/// FNV-1a over 32-bit words: an exclusive or and a multiplication each. It tells traces apart; it
/// keeps no secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Default for Hash {
    /// The offset basis of FNV-1a with 64 bits.
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Takes in one word.
    pub const fn word(&mut self, word: u32) {
        self.0 = (self.0 ^ word as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Takes in two words, the low one first.
    pub const fn double(&mut self, double: u64) {
        self.word(double as u32);
        self.word((double >> 32) as u32);
    }

    /// The hash of what was taken in so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}
