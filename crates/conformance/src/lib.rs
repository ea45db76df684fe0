//! Correctness tests for the disciplines without a network: no hosts, no TCP.
//!
//! Without an operating system and without an allocator:
//! - [`catalog`]: recipes for every discipline, and the lists that name them
//! - [`sequence`]: sequences of calls, and a search for those that make a call expensive
//! - [`wfi`]: meters that compare the service received with the guarantees
//! - [`Xorshift`]: random numbers for tests and benches
//!
//! With the feature `std` (default):
//! - [`acks`]: TCP acknowledgements as bytes, and a model of the sender that receives them
//! - [`twin`]: naive reference models of the disciplines, written from their definitions
//! - [`history`]: sequences of operations, and a comparison of two sides that must agree
//! - [`sides`]: every discipline with its reference model, at any size
//! - [`targets`]: the fuzz targets
//! - [`bounds`]: searches for sequences that exceed the proven bounds
//! - [`paper`]: the harness of QFQ Fig. 8, for the bench `paper` and the code paths of QFQ
//! - `worst_call`: the maximum cost of a call, in instructions and, with the feature `steps`, in
//!   loop iterations
//! - [`effort`]: amount of work in a test
//! - [`measurement`]: evaluation of timing measurements on shared machines
//! - [`rng`]: one seed, and a named stream for each source of randomness
#![cfg_attr(not(feature = "std"), no_std)]

pub mod catalog;
#[doc(hidden)]
pub mod forward;
mod random;
pub mod sequence;
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
