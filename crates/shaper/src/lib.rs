//! When the next packet may leave.
//!
//! [`Overhead`] says how many bytes a packet is on the wire, [`Rate`] how long they take,
//! [`Shaper`] when the line is free again, and [`Shaped`] puts any scheduler in front of it.
//! Where the line has no rate that could be configured, [`Autorate`] finds it.
//!
//! The types are plain values without memory of their own, time is an argument, and no code here
//! divides, allocates, loops or panics while packets pass.
//!
//! ```
//! use sched_core::Nanos;
//! use shaper::{Overhead, Rate, Shaper};
//!
//! // An ADSL uplink: 1 Mbit/s of cells, PPPoE.
//! let link = Overhead::from_keywords("pppoe-llcsnap", 0)?;
//! let mut line = Shaper::new(Rate::megabits_per_second(1)?);
//!
//! let mut now = Nanos::ZERO;
//! for len in [1_500, 40, 40] {
//!     // A device would sleep or do other work until then.
//!     now = now.max(line.due());
//!     assert!(line.is_open(now));
//!     line.charge(now, link.wire_len(len));
//! }
//! // 33 cells and twice two: 37 · 53 bytes of 8 µs.
//! assert_eq!(line.due(), Nanos::from_micros(37 * 53 * 8));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
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
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::integer_division,
        clippy::cast_possible_truncation
    )
)]
#[cfg(test)]
extern crate std;

mod autorate;
mod clock;
mod keywords;
mod layer;
mod overhead;
mod quoted_word;
mod segments;
mod shaped;

pub use autorate::{
    ArrivalRate, Autorate, AutorateError, AutorateParams, AutoratePath, AutorateState,
};
pub use clock::Shaper;
pub use keywords::{KeywordError, KeywordProblem};
pub use layer::Layer;
pub use overhead::{Framing, Overhead, OverheadError};
pub use quoted_word::QuotedWord;
pub use sched_core::{Rate, UnknownRate};
pub use segments::{Segmentation, Segments, SegmentsError};
pub use shaped::Shaped;

/// The examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
