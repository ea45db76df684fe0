//! SipHash-1-3, the default hash.

use core::hash::Hasher;

use super::FlowHasher;
use siphasher::sip::SipHasher13;

/// SipHash-1-3 with a 128-bit secret: the default on 64-bit machines.
///
/// One compression round and three finalization rounds, as commonly used for hash tables; the
/// result is the low half of the 64-bit output. Source: `SipHash`, Aumasson and Bernstein 2012, §2.
///
/// # Examples
///
/// ```
/// use flowhash::{FlowHasher, SipHash13};
///
/// let secret = [7; 16]; // in production: bytes of a secure random source
/// let hasher = SipHash13::new(secret);
/// assert_eq!(hasher.hash(b"flow"), SipHash13::new(secret).hash(b"flow"));
/// assert_ne!(hasher.hash(b"flow"), SipHash13::new([8; 16]).hash(b"flow"));
/// ```
#[derive(Clone, Copy)]
pub struct SipHash13 {
    key: [u64; 2],
    /// State before the first word, the same for every hash.
    start: State,
}

impl SipHash13 {
    /// Creates a hasher with the key `secret`, read as two little-endian words.
    #[inline]
    #[must_use]
    pub const fn new(secret: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = secret;
        let key = [
            u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            u64::from_le_bytes([i, j, k, l, m, n, o, p]),
        ];
        Self { key, start: State::new(key) }
    }

    /// Returns a hasher with a new key derived from this one.
    ///
    /// A sender who knows neither key learns nothing about labels under one from labels under the
    /// other. Cost: two hashes.
    ///
    /// ```
    /// use flowhash::{FlowHasher, SipHash13};
    ///
    /// let hasher = SipHash13::new([7; 16]);
    /// assert_ne!(hasher.derived().hash(b"flow"), hasher.hash(b"flow"));
    /// assert_eq!(hasher.derived().hash(b"flow"), hasher.derived().hash(b"flow"));
    /// ```
    #[must_use]
    pub fn derived(&self) -> Self {
        // No key of a flow or a host has ten bytes.
        let key = [self.hash_u64(b"derived, 0"), self.hash_u64(b"derived, 1")];
        Self { key, start: State::new(key) }
    }

    /// Returns the whole 64-bit output, for callers that need more than a label.
    #[inline(never)] // inlined it is 1.5 kB of code on a 32-bit machine, at each of five places
    #[must_use]
    pub fn hash_u64(&self, bytes: &[u8]) -> u64 {
        // Whole words first, then the tail in falling powers of two.
        let [k0, k1] = self.key;
        let mut state = SipHasher13::new_with_keys(k0, k1);
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            state.write_u64(u64::from_le_bytes(*word));
        }
        let (word, tail) = tail.as_chunks::<4>();
        for word in word {
            state.write_u32(u32::from_le_bytes(*word));
        }
        let (word, tail) = tail.as_chunks::<2>();
        for word in word {
            state.write_u16(u16::from_le_bytes(*word));
        }
        for byte in tail {
            state.write_u8(*byte);
        }
        state.finish()
    }
}

impl FlowHasher for SipHash13 {
    #[inline(always)]
    fn hash(&self, bytes: &[u8]) -> u32 {
        low(self.hash_u64(bytes))
    }

    #[inline(always)] // on machines with 64-bit words
    fn hash_array<const LENGTH: usize>(&self, input: &[u8; LENGTH]) -> u32 {
        if cfg!(not(target_pointer_width = "64")) {
            return self.hash(input);
        }
        let mut state = self.start;
        let (words, tail) = input.as_chunks::<8>();
        for word in words {
            state.absorb(u64::from_le_bytes(*word));
        }
        // Last word: up to seven bytes of input below the input's length modulo 256.
        let [length, ..] = LENGTH.to_le_bytes();
        let tail = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        state.absorb(u64::from(length) << 56 | tail);
        state.v[2] ^= 0xff;
        let State { v: [v0, v1, v2, v3] } = state.ended().begun().ended().begun().ended();
        low(v0 ^ v1 ^ v2 ^ v3)
    }
}

/// Returns the low half of `output`.
const fn low(output: u64) -> u32 {
    let [a, b, c, d, ..] = output.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// State of a hash. The part of the next round that does not depend on the next word is already
/// done, so that for the first round it is done once per key.
#[derive(Clone, Copy)]
struct State {
    v: [u64; 4],
}

impl State {
    const fn new([k0, k1]: [u64; 2]) -> Self {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self { v }.begun()
    }

    /// Does the half of a round that mixes the first two words.
    #[inline(always)]
    const fn begun(self) -> Self {
        let [mut v0, mut v1, v2, v3] = self.v;
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v0;
        v0 = v0.rotate_left(32);
        Self { v: [v0, v1, v2, v3] }
    }

    /// Does the other half of a round.
    #[inline(always)]
    const fn ended(self) -> Self {
        let [mut v0, mut v1, mut v2, mut v3] = self.v;
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(16) ^ v2;
        v2 = v2.wrapping_add(v1);
        v0 = v0.wrapping_add(v3);
        v1 = v1.rotate_left(17) ^ v2;
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.rotate_left(32);
        Self { v: [v0, v1, v2, v3] }
    }

    #[inline(always)]
    fn absorb(&mut self, word: u64) {
        self.v[3] ^= word;
        *self = self.ended();
        self.v[0] ^= word;
        *self = self.begun();
    }
}

/// Prints the name of the function without the key.
impl core::fmt::Debug for SipHash13 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SipHash13").finish_non_exhaustive()
    }
}
