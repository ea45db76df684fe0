//! Is it right? What judges the disciplines, without a network: no hosts, no TCP.
//!
//! Without an operating system and without an allocator:
//! - [`catalog`]: every discipline, how it is assembled, and the lists that name them
//! - [`wfi`]: meters that compare what was sent with what is promised
//! - [`Xorshift`]: random numbers for tests and benches
//!
//! With the feature `std`, which is on unless it is turned off:
//! - [`acks`]: acknowledgements as bytes, and what a sender learns from them
//! - [`twin`]: each discipline's naive twin, written from its definition
//! - [`history`]: one language of operations, and a match of two sides that must agree
//! - [`sides`]: every discipline beside its twin, at any size
//! - [`targets`]: what the fuzzer runs
//! - [`bounds`]: histories made to exceed the proven bounds
//! - [`paper`]: the harness of QFQ Fig. 8, for the bench `paper` and the paths of QFQ
//! - `worst_call`: the most that a call costs, in instructions and, with the feature `steps`, in
//!   turns of loops
//! - [`effort`]: how much a test tries
//! - [`measurement`]: how a test judges what it measured in time
//! - [`rng`]: one seed, one named stream for each source of randomness
#![cfg_attr(not(feature = "std"), no_std)]

pub mod catalog;
#[doc(hidden)]
pub mod forward;
mod random;
pub mod wfi;

#[cfg(feature = "std")]
pub mod acks;
#[cfg(feature = "std")]
pub mod bounds;
#[cfg(feature = "std")]
pub mod effort;
#[cfg(feature = "std")]
pub mod history;
#[cfg(feature = "std")]
pub mod measurement;
#[cfg(feature = "std")]
pub mod paper;
#[cfg(feature = "std")]
pub mod rng;
#[cfg(feature = "std")]
pub mod sides;
#[cfg(feature = "std")]
pub mod targets;
#[cfg(feature = "std")]
pub mod twin;
#[cfg(feature = "std")]
pub mod worst_call;

pub use random::{Xorshift, scramble};
