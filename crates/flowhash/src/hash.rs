//! The keyed hash, and why its key is secret.
//!
//! Queues are few and flows are many, so some flows share a queue. A sender that can compute the
//! hash chooses the flows that share. With a flood of flows in the set of one victim the sender
//! takes the victim's queue, and no scheduler behind the table can tell. Under a keyed
//! pseudo-random function an attacker without the key does no better than by chance: to meet one
//! victim takes flows for the whole table (`SipHash`, Aumasson and Bernstein 2012). Hence:
//!
//! - the key comes from the caller's random source, one per queueing instance, and no type here has
//!   a default key;
//! - neither keys nor hashes belong in logs, statistics or replies: `Debug` shows no key;
//! - a new key may be taken at any time. Flows then get new labels and other queues: see
//!   [`flow_table`](crate::flow_table).
//!
//! The result has 32 bits, as tags have. Among 2^20 active flows of one table a flow shares set and
//! tag with another flow with a probability below 2^20 / 2^32 = 1 / 4,096. The two flows then share
//! a queue, as in a full set.
//!
//! A network card's hash needs no type: hand the number to
//! [`FlowTable::lookup`](crate::FlowTable::lookup) or into [`Labels`](crate::Labels), through
//! [`mix`] where the card has spent its low bits on choosing a receive queue.

mod halfsiphash;
mod siphash;

pub use halfsiphash::{HalfSipHash, HalfSipHash13};
pub use siphash::SipHash13;

/// A keyed pseudo-random function from bytes to labels.
///
/// Implementations are deterministic: one key and one input give one output on every target.
pub trait FlowHasher {
    /// Hashes `bytes`, all 32 bits of the result equally good.
    ///
    /// The table takes its index from the low bits and its tag from the whole, so a weak function
    /// (a sum, a truncated address) fills a few sets and leaves the others idle.
    fn hash(&self, bytes: &[u8]) -> u32;

    /// Hashes an input of a length that the compiler knows: what [`hash`](Self::hash) gives for it.
    #[inline]
    fn hash_array<const LENGTH: usize>(&self, input: &[u8; LENGTH]) -> u32
    where
        Self: Sized,
    {
        self.hash(input)
    }
}

impl<H: FlowHasher + ?Sized> FlowHasher for &H {
    #[inline]
    fn hash(&self, bytes: &[u8]) -> u32 {
        (**self).hash(bytes)
    }
}

/// Spreads a number from elsewhere over all 32 bits, one to one.
///
/// Receive-side scaling picks the core from the low bits of the card's hash, so that on one core
/// those bits are (nearly) constant and a table indexed by them would use a fraction of its sets.
/// Being a bijection it makes no two flows equal; being unkeyed it adds no secrecy: the card's own
/// key must be secret. Constants: the finaliser of MurmurHash3 (32 bits).
#[inline]
#[must_use]
pub const fn mix(hash: u32) -> u32 {
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
