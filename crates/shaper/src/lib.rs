//! Exact traffic shaping: computes when the next packet may leave a link.
//!
//! The crate answers one question of a packet scheduler: *when*. It knows rates from 1 kbit/s to
//! 400 Gbit/s exactly, and what a packet costs on ATM, PTM, GPON, Ethernet and inside tunnels. It
//! does not choose packets; any [`Scheduler`](sched_core::Scheduler) of [`sched_core`] does that.
//!
//! All types are plain values and every function takes the time as an argument. Per packet, no code
//! here allocates, loops, panics or divides, except by a constant for cells and code words.
//!
//! # Parts
//! - [`Overhead`]: bytes on the wire for a packet of a given length. Create it [from
//!   keywords](Overhead::from_keywords) that CAKE's users know, or from a [`Framing`] and
//!   [`Layer`]s.
//! - [`Rate`]: a rate in bits per second, or [`Rate::UNLIMITED`] or [`Rate::STOPPED`].
//! - [`Shaper`]: a virtual clock; [`due`](Shaper::due) returns when the next packet may leave,
//!   [`charge`](Shaper::charge) adds a packet that left.
//! - [`Shaped`]: a scheduler behind a shaper, and itself a scheduler.
//!   [`poll_at`](sched_core::Scheduler::poll_at) returns when to call
//!   [`dequeue`](sched_core::Scheduler::dequeue) next.
//! - [`Segments`]: super-packets (GSO, GRO), charged segment by segment.
//! - [`Autorate`]: finds the rate of a link that varies, from measured delay.
//!
//! # Example
//! Three packets leave a link, each as soon as the one before it is on the wire:
//!
//! ```
//! use sched_core::Nanos;
//! use shaper::{Overhead, Rate, Shaper};
//!
//! // An ADSL uplink: 1 Mbit/s of ATM cells, PPPoE.
//! let overhead = Overhead::from_keywords("pppoe-llcsnap", 0)?;
//! let mut link = Shaper::new(Rate::megabits_per_second(1)?);
//!
//! let mut now = Nanos::ZERO;
//! for len in [1_500, 40, 40] {
//!     // A device would sleep or do other work until then.
//!     now = now.max(link.due());
//!     assert!(link.is_open(now));
//!     link.charge(now, overhead.wire_len(len));
//! }
//! // 33 cells, then 2 and 2: 37 · 53 bytes of 8 µs.
//! assert_eq!(link.due(), Nanos::from_micros(37 * 53 * 8));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Where to go next
//! To shape a whole queue, read [`Shaped`]; it also handles late callers, clock steps and downloads
//! behind a provider's queue. For guarantees on rate and burst, read [`Shaper`]. The package
//! `freeboard` combines this crate with `sched_core` and `flowhash` in its `SmartQueue`.
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

/// Examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
