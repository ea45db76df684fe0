#![doc = include_str!("README.md")]
#![no_std]
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::todo,
    clippy::unimplemented,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::integer_division,
    clippy::modulo_arithmetic,
    clippy::float_arithmetic
)]

mod buffers;
mod hashed;
mod isolated;
mod isolation;
mod labelled;
mod labelled_scheduler;

pub use buffers::Buffers;
pub use hashed::{Hashed, Releasing};
pub use isolated::{
    Allocate, Isolated, IsolatedConfig, IsolatedError, IsolatedMemory, IsolatedQueues, NoRoom,
    Slices, Storage,
};
pub use isolation::{Isolation, UnknownIsolation};
pub use labelled::{ByLabeller, Labelled, OnDemand, Rekeyed};
pub use labelled_scheduler::LabelledScheduler;
pub use {flowhash, sched_core, shaper};

/// The examples of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
