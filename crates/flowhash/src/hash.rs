//! Keyed hash functions, and why their key must be secret.
//!
//! There are few queues and many flows, so some flows share a queue. A sender that can compute the
//! hash can choose which flows share one: with a flood of flows in a victim's set it takes over the
//! victim's queue, and no scheduler behind the table can tell. With a keyed pseudo-random function,
//! an attacker without the key does no better than chance: hitting one victim takes enough flows to
//! fill the whole table (`SipHash`, Aumasson and Bernstein 2012). Hence:
//!
//! - The key comes from the caller's random source, one per queue instance; no type here has a
//!   default key.
//! - Keys and hashes do not belong in logs, statistics or replies; `Debug` does not print keys.
//! - The key may change at any time. Flows then get new labels and other queues: see
//!   [`flow_table`](crate::flow_table).
//!
//! The result has 32 bits, like the tags. Among 2^20 active flows of one table, a flow shares set
//! and tag with another one with a probability below 2^20 / 2^32 = 1 / 4,096. The two then share a
//! queue, as in a full set.
//!
//! A network card's hash needs no type: pass the number to
//! [`FlowTable::lookup`](crate::FlowTable::lookup) or put it into [`Labels`](crate::Labels), after
//! [`mix`] if the card has used its low bits to select a receive queue.

mod halfsiphash;
mod siphash;

pub use halfsiphash::{HalfSipHash, HalfSipHash13};
pub use siphash::SipHash13;

/// A keyed pseudo-random function from bytes to labels.
///
/// Implementations are deterministic: one key and one input give one output on every target.
pub trait FlowHasher {
    /// Returns the hash of `bytes`; all 32 bits must be equally good.
    ///
    /// The table uses the low bits as an index and all bits as a tag. A weak function, such as a
    /// sum or a truncated address, fills a few sets and leaves the others empty.
    fn hash(&self, bytes: &[u8]) -> u32;

    /// Returns [`hash`](Self::hash) of an input whose length is known at compile time.
    #[inline]
    fn hash_array<const LENGTH: usize>(&self, input: &[u8; LENGTH]) -> u32
    where
        Self: Sized,
    {
        self.hash(input)
    }
}

impl<H: FlowHasher> FlowHasher for &H {
    #[inline]
    fn hash(&self, bytes: &[u8]) -> u32 {
        (**self).hash(bytes)
    }

    #[inline]
    fn hash_array<const LENGTH: usize>(&self, input: &[u8; LENGTH]) -> u32 {
        (**self).hash_array(input)
    }
}

/// Spreads a number from elsewhere over all 32 bits, one to one.
///
/// Receive-side scaling selects the core by the low bits of the card's hash, so on one core these
/// bits are nearly constant, and a table indexed by them would use a fraction of its sets. As a
/// bijection, `mix` makes no two flows equal. It has no key and adds no secrecy: the card's own key
/// must be secret. Constants: the finalizer of MurmurHash3 (32 bits).
#[inline]
#[must_use]
pub const fn mix(hash: u32) -> u32 {
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
