//! Is it right? What judges the disciplines, without a network: no hosts, no TCP.
//!
//! - [`twin`]: each discipline's naive twin, written from its definition
//! - [`history`]: one language of operations, and a match of two sides that must agree
//! - [`sides`]: every discipline beside its twin, at any size
//! - [`targets`]: what the fuzzer runs
//! - [`bounds`]: histories made to exceed the proven bounds, and meters that tell
//! - `worst_call`: the most that a call does, in turns of loops, with the feature `steps`
//! - [`effort`]: how much a test tries
//! - [`measurement`]: how a test judges what it measured in time
//! - [`rng`]: one seed, one named stream for each source of randomness

pub mod bounds;
pub mod effort;
pub mod history;
pub mod measurement;
pub mod rng;
pub mod sides;
pub mod targets;
pub mod twin;
#[cfg(feature = "steps")]
pub mod worst_call;
