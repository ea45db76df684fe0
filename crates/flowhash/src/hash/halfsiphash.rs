//! HalfSipHash: SipHash on 32-bit words.

use super::FlowHasher;

/// HalfSipHash-1-3, for 32-bit microcontrollers: about a third of SipHash's instructions there.
pub type HalfSipHash13 = HalfSipHash<1, 3>;

/// HalfSipHash with `C` compression and `D` finalization rounds, 64-bit secret, 32-bit output.
///
/// A 64-bit key is short for a message authenticator, but enough for a table whose outputs are
/// never published. Source: the reference implementation of `SipHash` (Aumasson, `halfsiphash.c`),
/// whose test vectors for `C = 2`, `D = 4` check this code.
///
/// Cost: `⌊n / 4⌋ + 1` times `C` rounds, then `D` rounds, for `n` bytes.
///
/// # Examples
///
/// ```
/// use flowhash::{FlowHasher, HalfSipHash13};
///
/// let hasher = HalfSipHash13::new([7; 8]);
/// assert_ne!(hasher.hash(&[0; 13]), hasher.hash(&[0; 14]), "the length counts");
/// ```
#[derive(Clone, Copy)]
pub struct HalfSipHash<const C: usize, const D: usize> {
    key: [u32; 2],
}

impl<const C: usize, const D: usize> HalfSipHash<C, D> {
    /// Creates a hasher with the key `secret`, read as two little-endian words.
    #[inline]
    #[must_use]
    pub const fn new(secret: [u8; 8]) -> Self {
        const { assert!(C > 0 && D > 0, "a hash without rounds does not mix") };
        let [a, b, c, d, e, f, g, h] = secret;
        Self { key: [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])] }
    }
}

impl<const C: usize, const D: usize> FlowHasher for HalfSipHash<C, D> {
    #[inline]
    fn hash(&self, bytes: &[u8]) -> u32 {
        let [k0, k1] = self.key;
        let mut state = State { v: [k0, k1, 0x6c79_6765 ^ k0, 0x7465_6462 ^ k1] };
        let (words, tail) = bytes.as_chunks::<4>();
        for word in words {
            state.absorb::<C>(u32::from_le_bytes(*word));
        }
        // Last word: up to three bytes of input below the input's length modulo 256.
        let [length, ..] = bytes.len().to_le_bytes();
        let [mut a, mut b, mut c] = [0; 3];
        for (byte, place) in tail.iter().zip([&mut a, &mut b, &mut c]) {
            *place = *byte;
        }
        state.absorb::<C>(u32::from_le_bytes([a, b, c, length]));
        state.v[2] ^= 0xff;
        state.rounds::<D>();
        state.v[1] ^ state.v[3]
    }
}

struct State {
    v: [u32; 4],
}

impl State {
    #[inline(always)]
    fn absorb<const ROUNDS: usize>(&mut self, word: u32) {
        self.v[3] ^= word;
        self.rounds::<ROUNDS>();
        self.v[0] ^= word;
    }

    #[inline(always)]
    fn rounds<const ROUNDS: usize>(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.v;
        for _ in 0..ROUNDS {
            v0 = v0.wrapping_add(v1);
            v1 = v1.rotate_left(5) ^ v0;
            v0 = v0.rotate_left(16);
            v2 = v2.wrapping_add(v3);
            v3 = v3.rotate_left(8) ^ v2;
            v0 = v0.wrapping_add(v3);
            v3 = v3.rotate_left(7) ^ v0;
            v2 = v2.wrapping_add(v1);
            v1 = v1.rotate_left(13) ^ v2;
            v2 = v2.rotate_left(16);
        }
        self.v = [v0, v1, v2, v3];
    }
}

/// Prints the name of the function without the key.
impl<const C: usize, const D: usize> core::fmt::Debug for HalfSipHash<C, D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "HalfSipHash<{C}, {D}> {{ .. }}")
    }
}
