//! The default: hard to collide on purpose.

use super::FlowHasher;
use siphasher::sip::SipHasher13;

/// SipHash-1-3 with a 128-bit secret: the default on 64-bit machines.
///
/// One compression and three finalisation rounds, as hash tables use it; the result is the low
/// half of the 64-bit output. Source: `SipHash`, Aumasson and Bernstein 2012, §2.
///
/// # Examples
///
/// ```
/// use flowhash::{FlowHasher, SipHash13};
///
/// let secret = [7; 16]; // in earnest: 16 bytes of the machine's random source
/// let hasher = SipHash13::new(secret);
/// assert_eq!(hasher.hash(b"flow"), SipHash13::new(secret).hash(b"flow"));
/// assert_ne!(hasher.hash(b"flow"), SipHash13::new([8; 16]).hash(b"flow"));
/// ```
#[derive(Clone, Copy)]
pub struct SipHash13 {
    state: SipHasher13,
}

impl SipHash13 {
    /// A hasher keyed by `secret`, read as the two little-endian words of the definition.
    #[inline]
    #[must_use]
    pub fn new(secret: [u8; 16]) -> Self {
        Self { state: SipHasher13::new_with_key(&secret) }
    }

    /// The whole 64-bit output, for those who need more than a label.
    #[inline]
    #[must_use]
    pub fn hash_u64(&self, bytes: &[u8]) -> u64 {
        self.state.hash(bytes)
    }
}

impl FlowHasher for SipHash13 {
    #[inline]
    fn hash(&self, bytes: &[u8]) -> u32 {
        let [a, b, c, d, ..] = self.hash_u64(bytes).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// Names the function and hides the key.
impl core::fmt::Debug for SipHash13 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SipHash13").finish_non_exhaustive()
    }
}
