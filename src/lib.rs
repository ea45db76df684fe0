//! Packet scheduling for routers as a library: fair shares per host and per flow, low delay for
//! sparse flows, active queue management (AQM), and a shaper that keeps the queue here instead of
//! in the modem.
//!
//! ```text
//!    what is this packet?        which one is next?             when may it leave?
//!  ┌─ flowhash ──────────────┐ ┌─ sched_core ────────────────┐ ┌─ shaper ─────────┐
//!  │ bytes ─▶ key ─▶ labels ─┼─┼▶ queue ─▶ scheduler ─▶ AQM ─┼─┼▶ framing ─▶ rate ┼─▶ link
//!  └─────────────────────────┘ └───┬──────────────────────┬──┘ └──────────────────┘
//!                                  ▼ full                 ▼ congestion
//!                         drop from a long queue,    drop, or mark
//!                         of the host with about     (ECN)
//!                         the longest backlog
//! ```
//!
//! # Start here
//!
//! Most callers want a [`SmartQueue`], built with [`SmartQueueBuilder`]; only the rate is required.
//! You pass in the time, and [`poll_at`](SmartQueue::poll_at) returns when to call
//! [`pop`](SmartQueue::pop) next:
//!
//! ```
//! # #[cfg(feature = "alloc")] {
//! use freeboard::SmartQueue;
//! use freeboard::sched_core::Nanos;
//! use freeboard::shaper::Rate;
//!
//! let key = [42; 16]; // 16 random bytes
//! let mut uplink = SmartQueue::upload(Rate::megabits_per_second(1)?).framing("pppoe-llcsnap")?.frames(key)?;
//! uplink.push(Nanos(0), &[0; 60])?; // an arriving frame
//! while let Some(frame) = uplink.pop(Nanos(0)) {
//!     println!("{} bytes leave now", frame.len());
//! }
//! println!("call again at {:?}", uplink.poll_at(Nanos(0)));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This needs the feature `alloc` (`cargo add freeboard --features alloc`): tables and buffers are
//! allocated once, at construction. Without an allocator, put a [`StaticFrames`] in a `static`. To
//! keep packets in your own buffers, use a queue with [`Descriptors`].
//!
//! Next steps:
//!
//! - [`SmartQueueBuilder`] lists all settings. [`QueueSettings`] parses them from a configuration
//!   string with the keywords of `tc` for CAKE.
//! - [`FrameQueue`] and [`DescriptorQueue`] list the methods by topic, each with a larger example.
//! - [`SmartQueue`] describes time, back-pressure, memory and threads.
//! - `docs/guide/library.md` in the repository is a guide for all crates.
//!
//! # Main types
//!
//! | type | purpose |
//! |---|---|
//! | [`SmartQueue`] | the complete queue: host isolation, AQM, tins, shaper and buffers |
//! | [`QueueSettings`] | the settings of a queue, as text or as a struct |
//! | [`TinPlan`] | tins (traffic classes) and the packets that go there; [`TinMode`] has those of CAKE |
//! | [`QueueStatistics`] | counters and backlog; `Snapshot` also has all flows and hosts |
//! | [`Isolated`] | queues with host isolation, in all modes of CAKE ([`Isolation`]) |
//! | [`Hashed`] | any flow scheduler of [`sched_core`], with flows found by hash |
//! | [`Shaped`](shaper::Shaped) | a rate ([`Rate`](shaper::Rate)) and a framing ([`Overhead`](shaper::Overhead)) in front of any of these |
//! | [`LabelledScheduler`] | the trait to enqueue a packet with its [`Labels`](flowhash::Labels) |
//! | [`Scheduler`](sched_core::Scheduler) | the trait to dequeue packets, and the contract of every queue here |
//! | [`Buffers`] | numbered buffers for frames |
//! | [`Segmenter`] | splits a GSO super-packet into the packets that the link carries |
//!
//! To assemble other combinations yourself, see [`by_hand`]. The parts are crates of their own:
//! [`flowhash`] (reads packets), [`sched_core`] (orders and drops them), [`shaper`] (times them).
//!
//! # Guarantees
//!
//! No operating system, no unsafe code, no clock, no reachable panic in release builds, and no
//! allocation after construction. The work per call does not grow with the number of flows or of
//! queued packets. Where a scheduler bounds delay or service in bytes, its type returns the bound
//! as a [`Guarantee`](sched_core::Guarantee).
//!
//! # Features
//!
//! On by default; each adds a part of [`SmartQueue`] that takes flash even where no setting uses
//! it:
//!
//! - `ack-filter`: the filter for TCP acknowledgements.
//! - `aqms`: RED, BLUE, PIE and PI2, beside COBALT and CoDel.
//! - `tins`: up to eight tins, and the tin plans of CAKE. Without it every queue has one tin.
//!
//! Off by default:
//!
//! - `alloc`: `Heap`, tables on the heap.
//! - `defmt`: `defmt::Format` for the types that firmware logs.
//! - `heapless`: `Buffers::store_received`, which stores frames from a ring between an interrupt
//!   and the main loop.
//! - `serde`: `serde::Serialize` for statistics; `serde::Serialize` and `serde::Deserialize` for
//!   settings, as text.
#![no_std]
// Some links need the feature `alloc`; the published pages have all features.
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

/// Doc tests of both READMEs and of the guides.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/disciplines/autorate.md")]
#[doc = include_str!("../docs/guide/firmware.md")]
#[doc = include_str!("../docs/guide/framing.md")]
#[doc = include_str!("../docs/guide/library.md")]
#[doc = include_str!("README.md")]
struct Readme;
