//! Packet schedulers, drop policies and AQMs: which packet to send next, and which to drop.
//!
//! `no_std`, with no allocation, no unsafe code, no floating point, no clock, and no panic that a
//! release build can reach. A packet is the number of one of the caller's buffers and a length; its
//! bytes are never read. Memory is the caller's ([`Table`]), and time is an argument ([`Nanos`]).
//!
//! For a complete queue (flows found by hash, hosts isolated, a rate), use the package `freeboard`.
//! Use this crate to build your own queue from its parts, or to write a scheduler of your own.
//!
//! # The path of a packet
//!
//! 1. [`Scheduler::enqueue`] puts a [`Packet`] into the queue of its [`FlowId`], or returns it in
//!    [`Rejected`]. If the [`Limits`] are exceeded, packets are dropped; the [`DropSink`] receives
//!    them.
//! 2. The [`Aqm`] sees each packet when it arrives and again when it is about to leave, and passes,
//!    marks or drops it.
//! 3. The [`FlowScheduler`] selects the flow to serve next.
//! 4. [`Scheduler::dequeue`] returns the packet, with the ECN codepoint CE if the AQM has marked
//!    it. If it returns `None`, [`Scheduler::poll_at`] returns when to try again.
//!
//! Every packet that is handed in comes out exactly once, and [`Counters`] account for each.
//! [`Scheduler::recount`] checks the counters against the queues in tests.
//!
//! # The parts
//!
//! - **Queues:** [`FlowQueues`] has one queue per flow, served by any flow scheduler; [`Fifo`] is a
//!   single queue.
//! - **Flow schedulers:** [`Drr`] (also with sparse flows first), [`ShortestQueue`], [`Qfq`],
//!   [`QfqPlus`], [`Wf2q`], [`AgeDrr`].
//! - **Hierarchies:** [`Classes`] serves schedulers of any kind by a flow scheduler; [`TinChoice`]
//!   selects among tins (traffic classes).
//! - **Drop policies:** [`LongestQueueDrop`] drops from the flow with (approximately) the longest
//!   backlog, [`LongestHostDrop`] from the host with (approximately) the longest backlog,
//!   [`OwnVictim`] from the flow that the flow scheduler selects.
//! - **AQMs:** [`CoDel`], [`Cobalt`], [`Pie`], [`Pi2`], [`Red`], [`Blue`] and [`NoAqm`].
//!   [`CeThreshold`] adds a marking threshold to any of them, and [`ChosenAqm`] selects one at run
//!   time. [`DualPi2`] is a scheduler of two coupled queues.
//! - **Rates:** [`Rate`] and [`TokenBucket`]. For shaping a link, see the package
//!   `freeboard-shaper`.
//! - **Bounds and statistics:** a [`Guarantee`] is a service bound in bytes; [`Counters`] count
//!   what happened to packets; a [`DelayHistogram`] collects sojourn times.
//!
//! # Example
//!
//! ```
//! use sched_core::{
//!     Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow, Nanos, Packet, Queue,
//!     Scheduler,
//! };
//!
//! let mut drr = Drr::new([DrrFlow::EMPTY; 4], 1_500)?;
//! drr.add_all(1_500)?;
//! let limits = Limits::packets(3);
//! let (queues, lengths) = ([Queue::EMPTY; 4], [LongestFlow::EMPTY; 4]);
//! let mut queues = FlowQueues::new(drr, queues, lengths, [Descriptor::EMPTY; 8], limits);
//!
//! // Flow 0 fills the queue. The packet of flow 1 is accepted, and one of flow 0 is dropped.
//! let mut dropped = Vec::new();
//! for (flow, handle) in [(0, 0), (0, 1), (0, 2), (1, 3)] {
//!     let drops = &mut |packet: Packet, _why| dropped.push(packet.handle);
//!     queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, 1_500), drops)?;
//! }
//! assert_eq!(dropped, [0]);
//!
//! let drops = &mut |_: Packet, _why| unreachable!("dequeue drops only with an AQM");
//! let order: Vec<u32> =
//!     std::iter::from_fn(|| Some(queues.dequeue(Nanos(0), drops)?.handle)).collect();
//! assert_eq!(order, [1, 3, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to go next
//!
//! - To serve any scheduler, shaped or not: the loop in the documentation of [`Scheduler`].
//! - To add an AQM and per-flow statistics: the example at [`FlowQueues`].
//! - To write your own part: the examples at [`FlowScheduler`], [`DropPolicy`], [`Aqm`] and
//!   [`FlowDirectory`].
//! - To share a link among users, and each user's part among flows: the example at [`Classes`].
//! - The guides, and a page per discipline with its guarantees and measurements, are in `docs/` of
//!   the repository.
//!
//! # Features
//!
//! - `aqms` (default): RED, BLUE, PIE and PI2 as choices of [`ChosenAqm`].
//! - `tins` (default): up to eight tins in [`TinChoice`]; without this feature there is one.
//! - `defmt`: `defmt::Format` for the types that firmware logs.
//! - `serde`: `serde::Serialize` for counters and delays.
//! - `steps`: counts loop iterations, for cost analysis. Requires `std`.
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
#[cfg(any(test, feature = "steps"))]
extern crate std;

mod aqm;
mod debug;
mod disciplines;
mod drops;
mod elapsed;
mod flow_scheduler;
mod guarantee;
mod hierarchy;
mod hosts;
mod notation;
mod packet;
mod queues;
mod rate;
mod scheduler;
mod steps;
#[cfg(test)]
mod tests;
mod time;

pub use aqm::{Admission, Aqm, CoDel, CoDelParams, CoDelState, Head, Look, NoAqm, Offer, Verdict};
pub use aqm::{AqmChoice, AqmSetting, ChosenAqm, ChosenAqmState, L4sParams};
pub use aqm::{Blue, BlueParams, BlueState, CeThreshold, Cobalt, CobaltParams, CobaltState};
pub use aqm::{Pi2, Pi2Params, Pi2State, Pie, PieParams, PieState};
pub use aqm::{Probability, Random};
pub use aqm::{Red, RedParams, RedState};
pub use disciplines::age::{AgeDrr, AgeFlow, AgeParams, ThresholdRange};
pub use disciplines::drr::ring::{OnRing, Quantum, Ring, RingFlow, SharedQuantum, SharedTerms};
pub use disciplines::drr::{Drr, DrrFlow};
pub use disciplines::dual_pi2::{DualPi2, DualPi2Params};
pub use disciplines::length_index::{LengthClass, LengthFlow, SUB_CLASS_BITS};
pub use disciplines::qfq::{Aggregate, PlusFlow, Qfq, QfqConfig, QfqFlow, QfqPlus};
pub use disciplines::sqf::{FloorShare, ShortestQueue, WaitingFlow};
pub use disciplines::tin_choice::{TinChoice, TinConfig, TinState};
#[doc(hidden)]
pub use disciplines::tournament::{Ranked, RankedFlow, Tournament};
pub use disciplines::wf2q::{Wf2q, Wf2qConfig, Wf2qFlow};
pub use drops::drop_policy::{DropPolicy, OwnVictim};
pub use drops::longest_host::{HeldFlow, HeldHost, HostClasses, LongestHostDrop};
pub use drops::longest_queue::{LongestFlow, LongestQueueDrop};
#[doc(hidden)]
pub use elapsed::Elapsed;
pub use flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
pub use guarantee::{Guarantee, Share};
pub use hierarchy::classes::{
    ClassState, ClassTables, Classes, Classify, LongestClass, LowBits, Member,
};
pub use hosts::hosted::Hosted;
pub use hosts::side::Side;
#[doc(hidden)]
pub use hosts::token_bucket::Bucket;
pub use hosts::token_bucket::TokenBucket;
pub use hosts::wire_length::{AsBooked, WireLength};
pub use notation::{UnknownRate, UnknownTime};
pub use packet::{Ecn, FlowId, Packet};
pub use queues::counters::{Counters, FlowRecord, FlowRecords, Volume};
pub use queues::delay_histogram::DelayHistogram;
pub use queues::fifo::Fifo;
pub use queues::flow_directory::{FlowDirectory, NoDirectory};
pub use queues::flow_queues::{FlowQueues, PACED_ROUNDS, Siblings, Tables};
pub use queues::queue::{Descriptor, Queue};
pub use rate::Rate;
#[doc(hidden)]
pub use rate::{FiniteRate, Tick, Work};
pub use scheduler::{
    Backlog, Books, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
#[doc(hidden)]
pub use steps::step;
#[cfg(feature = "steps")]
#[doc(hidden)]
pub use steps::take_steps;
pub use time::{Nanos, TickClock};

/// Runs the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
