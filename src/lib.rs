//! Packet scheduling for routers as a library: fair shares per host and per flow, low delay for
//! sparse flows, active queue management (AQM), and a shaper, so that packets queue here instead of
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
//! let mut uplink =
//!     SmartQueue::upload(Rate::megabits_per_second(1)?).framing("pppoe-llcsnap")?.frames(key)?;
//! uplink.push(Nanos(0), &[0; 60])?; // an arriving frame
//! while let Some(frame) = uplink.pop(Nanos(0)) {
//!     println!("{} bytes leave now", frame.len());
//! }
//! println!("call again at {:?}", uplink.poll_at(Nanos(0)));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This needs the feature `alloc`: tables and buffers are allocated once, at construction. Without
//! an allocator, put a [`StaticFrames`] in a `static`. To keep packets in your own buffers, use a
//! queue with descriptors ([`Descriptors`]).
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
//! | [`TinPlan`] | tins (traffic classes), and which packets belong to each; [`TinMode`] has CAKE's plans |
//! | [`QueueStatistics`] | counters and backlog; `Snapshot` also has all flows and hosts |
//! | [`Isolated`] | queues with host isolation, in all modes of CAKE ([`Isolation`]) |
//! | [`Hashed`] | any flow scheduler of [`sched_core`], with flows found by hash |
//! | [`Shaped`](shaper::Shaped) | a shaper with a rate ([`Rate`](shaper::Rate)) and a framing ([`Overhead`](shaper::Overhead)) around any of these |
//! | [`LabelledScheduler`] | the trait to enqueue a packet with its [`Labels`](flowhash::Labels) |
//! | [`Scheduler`](sched_core::Scheduler) | the trait of every queue: enqueue by flow, dequeue, time, limits and counters |
//! | [`Buffers`] | numbered buffers for frames |
//! | [`Segmenter`] | splits a GSO super-packet into the packets that the link carries |
//!
//! To assemble other combinations yourself, see [`by_hand`]. The parts are crates of their own:
//! [`flowhash`] (classifies packets), [`sched_core`] (schedules and drops them), [`shaper`]
//! (decides when they may leave).
//!
//! # Guarantees
//!
//! No operating system, no unsafe code, no clock, no reachable panic in release builds, and no
//! allocation after construction except for a `Snapshot`. The work per packet does not grow with
//! the number of queued packets. It does not grow with the number of flows either, except
//! logarithmically in [`Wf2q`](sched_core::Wf2q), in [`Classes`](sched_core::Classes), and for
//! hosts with rates or ceilings. Schedulers with a proven bound on delay or service in bytes return
//! it as a [`Guarantee`](sched_core::Guarantee).
//!
//! # Features
//!
//! On by default; each adds a part of [`SmartQueue`] that takes flash even if no setting uses it:
//!
//! - `ack-filter`: the filter for TCP acknowledgements.
//! - `aqms`: RED, BLUE, PIE and PI2, beside COBALT and CoDel.
//! - `tins`: up to eight tins, and the tin plans of CAKE. Without it every queue has one tin.
//!
//! Off by default:
//!
//! - `alloc`: `Heap`, tables on the heap.
//! - `defmt`: `defmt::Format` for the types that firmware logs.
//! - `heapless`: `Buffers::store_received`, which stores frames from a ring that an interrupt
//!   handler fills.
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
mod cookies;
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
pub use cookies::{CookieSink, CookieSlot, Cookies, RejectedCookie};
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
    SmartQueueBuilder, SmartQueueError, StaticDescriptors, StaticFrameQueue, StaticFrames,
    clear_dscp, mark_congestion,
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
