//! A hash of a sequence of 32-bit words, equal on every target.

/// FNV-1a over 32-bit words: one XOR and one multiplication each. It detects differences between
/// traces; it is not cryptographic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Default for Hash {
    /// The 64-bit offset basis of FNV-1a.
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Hashes one word.
    pub const fn word(&mut self, word: u32) {
        self.0 = (self.0 ^ word as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Hashes a 64-bit number as two words, the low one first.
    pub const fn double(&mut self, double: u64) {
        self.word(double as u32);
        self.word((double >> 32) as u32);
    }

    /// Returns the hash of everything added so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}
