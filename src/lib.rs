//! Router-grade packet scheduling as a library: hosts share the line, flows share what a host has,
//! sparse flows pass the bulk transfers, and the queue stands here instead of in the modem.
//!
//! ```text
//!    what is this packet?        which one is next?             when may it leave?
//!  ┌─ flowhash ──────────────┐ ┌─ sched_core ────────────────┐ ┌─ shaper ─────────┐
//!  │ bytes ─▶ key ─▶ labels ─┼─┼▶ queue ─▶ scheduler ─▶ AQM ─┼─┼▶ framing ─▶ rate ┼─▶ link
//!  └─────────────────────────┘ └───┬──────────────────────┬──┘ └──────────────────┘
//!                                  ▼ no room              ▼ congestion
//!                         a long queue gives way,     a drop, or a mark
//!                         of a host that holds        (ECN)
//!                         about the most
//! ```
//!
//! # Where to begin
//!
//! | type | what it is |
//! |---|---|
//! | [`SmartQueue`] | the assembled queue that most callers want, built by [`SmartQueueBuilder`] |
//! | [`Isolated`] | queues that keep hosts apart from each other, in all modes of CAKE ([`Isolation`]) |
//! | [`Hashed`] | any flow scheduler of [`sched_core`], with its flows found by hash |
//! | [`Shaped`](shaper::Shaped) | a rate ([`Rate`](shaper::Rate)) and a framing ([`Overhead`](shaper::Overhead)) in front of any of them |
//! | [`LabelledScheduler`] | how a packet is offered with its [`Labels`](flowhash::Labels) |
//! | [`Scheduler`](sched_core::Scheduler) | how packets are taken out, and what every queue here keeps to |
//! | [`Buffers`] | numbered buffers for frames |
//! | [`Segmenter`] | cuts a frame of several segments into the packets that the line sees |
//!
//! The crates by themselves: [`flowhash`] (what is this packet?), [`sched_core`] (which packet is
//! next, which one gives way?), [`shaper`] (when may it leave?).
//!
//! # Example
//!
//! Hosts isolated, sparse flows first, COBALT and a rate. Time is an argument, and
//! [`poll_at`](SmartQueue::poll_at) says when to come again:
//!
//! ```
//! # #[cfg(feature = "alloc")] {
//! use freeboard::SmartQueue;
//! use freeboard::sched_core::Nanos;
//! use freeboard::shaper::Rate;
//!
//! let key = [42; 16]; // 16 random bytes
//! let mut uplink = SmartQueue::upload(Rate::megabits_per_second(1)?).framing("pppoe-llcsnap")?.frames(key)?;
//! uplink.push(Nanos(0), &[0; 60])?; // a frame that came in
//! while let Some(frame) = uplink.pop(Nanos(0)) {
//!     println!("{} bytes leave now", frame.len());
//! }
//! println!("call again at {:?}", uplink.poll_at(Nanos(0)));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without an allocator it is [`StaticFrames`], and with buffers of the caller's [`Descriptors`].
//! The parts can be put together by hand as well: [`by_hand`].
//!
//! # What it promises
//!
//! No operating system, no unsafe code, no clock, no panic that could be reached in a release
//! build, and no allocation after construction. Work in a call does not grow with the number of
//! flows or of queued packets. Where a queue of flows makes a promise in bytes, its type returns it
//! as a [`Guarantee`](sched_core::Guarantee).
//!
//! # Features
//!
//! On by default, each a part of a [`SmartQueue`] that takes flash where no setting asks for it:
//!
//! - `ack-filter`: the filter of TCP acknowledgements.
//! - `aqms`: RED, BLUE, PIE and PI2, beside COBALT and CoDel.
//! - `tins`: up to eight tins, and the plans of CAKE.
//!
//! Off by default:
//!
//! - `alloc`: `Heap`, tables on the heap.
//! - `defmt`: `defmt::Format` for the types that a firmware logs.
//! - `heapless`: `Buffers::store_received`: frames from a ring between an interrupt and the main
//!   loop.
//! - `serde`: `serde::Serialize` for statistics; for settings, as their text, `serde::Deserialize`
//!   too.
#![no_std]
// Pages link to what is there with the feature `alloc`; the published pages have all features.
#![cfg_attr(not(feature = "alloc"), allow(rustdoc::broken_intra_doc_links))]
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

#[cfg(feature = "alloc")]
extern crate alloc;

mod ack_filter;
mod buffers;
mod hashed;
mod isolation;
mod keyword;
mod labelled_scheduler;
mod labels;
mod segmenter;
mod settings;
mod smart_queue;
mod statistics;
mod storage;
mod tins;

pub mod by_hand;

pub use ack_filter::{AckFilter, Acks, supersedes};
pub use buffers::Buffers;
pub use hashed::{HashDirectory, Hashed};
pub use isolation::{
    AqmMemory, Isolated, IsolatedConfig, IsolatedError, IsolatedMemory, Isolation, StaticTables,
    TinCounters,
};
pub use keyword::UnknownKeyword;
pub use labelled_scheduler::LabelledScheduler;
pub use labels::{Identified, InTin, Labelled, OnDemand};
pub use segmenter::{CutError, Segmenter};
pub use settings::{QueueSettings, SettingsError, SettingsProblem};
#[cfg(not(feature = "alloc"))]
#[doc(hidden)]
pub use smart_queue::FeatureAlloc;
pub use smart_queue::{
    AllAlike, AqmKind, BufferState, Descriptors, DeviceRoom, FrameRead, FrameReader, Frames,
    HostRules, HostTerms, LinkLayer, MemoryLimit, MemoryLimitError, PushError, Rtt, SmartQueue,
    SmartQueueBuilder, SmartQueueError, StaticFrameQueue, StaticFrames, clear_dscp,
    mark_congestion,
};
#[cfg(feature = "alloc")]
pub use smart_queue::{DescriptorQueue, FrameQueue};
#[cfg(feature = "alloc")]
pub use statistics::Snapshot;
pub use statistics::{
    Activations, FlowStatistics, FlowTotals, FoundEntries, HostStatistics, NonIpFrames,
    QueueStatistics, TinStatistics,
};
#[cfg(feature = "alloc")]
pub use storage::Heap;
pub use storage::{Allocate, NoTable, Slices, Storage};
pub use tins::{Dscp, Fwmark, Tin, TinBy, TinMode, TinName, TinPlan, TinPlanError, TinShare};
pub use {flowhash, sched_core, shaper};

/// The examples of both READMEs and of the guides.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/disciplines/autorate.md")]
#[doc = include_str!("../docs/guide/firmware.md")]
#[doc = include_str!("../docs/guide/framing.md")]
#[doc = include_str!("../docs/guide/library.md")]
#[doc = include_str!("README.md")]
struct Readme;
