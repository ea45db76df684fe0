#![doc = include_str!("../README.md")]
#![no_std]
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::integer_division
)]

mod buffers;
mod hashed;

pub use buffers::Buffers;
pub use hashed::{Hashed, Releasing};
pub use {flowhash, sched_core, shaper};
