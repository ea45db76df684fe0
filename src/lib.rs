//! Router-grade packet scheduling as a library: hosts share the line, flows share what a host has, sparse flows
//! pass the bulk transfers, and the queue stands here instead of in the modem.
//!
//! ```text
//!    what is this packet?        which one is next?             when may it leave?
//!  ┌─ flowhash ──────────────┐ ┌─ sched_core ────────────────┐ ┌─ shaper ─────────┐
//!  │ bytes ─▶ key ─▶ labels ─┼─┼▶ queue ─▶ scheduler ─▶ AQM ─┼─┼▶ framing ─▶ rate ┼─▶ link
//!  └─────────────────────────┘ └───┬──────────────────────┬──┘ └──────────────────┘
//!                                  ▼ no room              ▼ congestion
//!                         the longest queue gives     a drop, or a mark
//!                         way, of the host that       (ECN)
//!                         holds most
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
//!
//! The crates by themselves: [`flowhash`] (what is this packet?), [`sched_core`] (which packet is next, which one gives
//! way?), [`shaper`] (when may it leave?).
//!
//! # Example
//!
//! Time is an argument, a packet is the number of the caller's buffer and a length, and a packet that has to be dropped goes
//! back to its owner:
//!
//! ```
//! use freeboard::Hashed;
//! use freeboard::sched_core::{
//!     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow, LongestQueueDrop, Nanos, Packet, Queue,
//!     Scheduler,
//! };
//! use freeboard::flowhash::{FlowTable, TagLine};
//! use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
//!
//! let mut drr = Drr::new([DrrFlow::EMPTY; 64], 1_514)?.sparse_first();
//! drr.add_all(1_514)?;
//! let table = FlowTable::new([TagLine::EMPTY; 8], 64, 8)?;
//! let limits = Limits::bytes(150_000).within_pool(256);
//! let queues = FlowQueues::new(drr, [Queue::EMPTY; 64], [Descriptor::EMPTY; 256], limits)
//!     .with_drop_policy(LongestQueueDrop::new([LongestFlow::EMPTY; 64]));
//! let queues = Hashed::over(queues, table);
//! let line = Shaper::new(Rate::megabits_per_second(1)?);
//! let mut uplink = Shaped::new(queues, line, Overhead::PPPOE_LLCSNAP);
//!
//! let free = &mut |packet: Packet, why| println!("buffer {} is free again: {why:?}", packet.handle);
//! uplink.enqueue(Nanos(0), FlowId(42), Packet::new(3, 60), free)?; // 42: the label of its flow
//! while let Some(packet) = uplink.dequeue(Nanos(0), free) {
//!     println!("send buffer {}", packet.handle);
//! }
//! println!("call again at {:?}", uplink.poll_at(Nanos(0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! No operating system, no unsafe code, no clock, no panic that could be reached in a release build, and no allocation after
//! construction. Work in a call does not grow with the number of flows or of queued packets. Where a queue of flows
//! makes a promise in bytes, its type returns it as a [`Guarantee`](sched_core::Guarantee).
//!
//! # Features
//!
//! All of them are off by default.
//!
//! - `alloc`: `Heap`, tables on the heap.
//! - `defmt`: `defmt::Format` for the types that a firmware logs.
//! - `heapless`: `Buffers::store_received`: frames from a ring between an interrupt and the main loop.
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

#[cfg(feature = "alloc")]
extern crate alloc;

mod buffers;
mod hashed;
mod isolated;
mod isolation;
mod labelled;
mod labelled_scheduler;
mod smart_queue;
mod storage;

pub use buffers::Buffers;
pub use hashed::{HashDirectory, Hashed};
pub use isolated::{
    Isolated, IsolatedConfig, IsolatedError, IsolatedMemory, IsolatedQueues, StaticRates,
    StaticTables, StaticTriple,
};
pub use isolation::{Isolation, UnknownIsolation};
pub use labelled::{ByLabeller, Labelled, OnDemand, Rekeyed};
pub use labelled_scheduler::LabelledScheduler;
pub use smart_queue::{
    AllAlike, BufferState, Descriptors, Device, Frames, HostRules, HostTerms, LinkLayer, PushError,
    Rtt, SmartQueue, SmartQueueBuilder, SmartQueueError, StaticFrameQueue, StaticFrames,
    UnknownRtt, mark_congestion,
};
#[cfg(feature = "alloc")]
pub use smart_queue::{DescriptorQueue, FrameQueue};
#[cfg(feature = "alloc")]
pub use storage::Heap;
pub use storage::{Allocate, NoRoom, Slices, Storage};
pub use {flowhash, sched_core, shaper};

/// The examples of the READMEs, of the repository and of the package, and of the guide.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/guide/library.md")]
#[doc = include_str!("README.md")]
struct Readme;
