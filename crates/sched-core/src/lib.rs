//! Which packet is next, and which is dropped.
//!
//! A packet is the number of the caller's buffer and a length; its bytes are never read. What it
//! meets, in this order:
//!
//! 1. [`Scheduler::enqueue`] takes a [`Packet`] into the queue of its flow, or hands it back in
//!    [`Rejected`]. Packets that are dropped for it go to the [`DropSink`].
//! 2. [`FlowQueues`] is the scheduler for every flow scheduler: [`Drr`], [`Qfq`], [`QfqPlus`],
//!    [`Wf2q`], [`ShortestQueue`], each a [`FlowScheduler`]; with [`LongestQueueDrop`] beside it,
//!    an overflow drops from a flow that holds about the most, with [`LongestHostDrop`] from a
//!    host. [`Fifo`] is the baseline. [`Classes`] puts schedulers of any kind under a flow
//!    scheduler.
//! 3. An [`Aqm`] such as [`CoDel`] or [`Cobalt`] is asked about each packet that arrives, and about
//!    each that is about to leave; [`CeThreshold`] stands beside any, and [`ChosenAqm`] is what the
//!    caller chooses.
//! 4. [`Scheduler::dequeue`] gives the packet back, marked if the AQM said so.
//!
//! A [`Guarantee`] says in bytes what a flow scheduler promises a flow.
//!
//! [`Counters`] say what has become of packets, a [`DelayHistogram`] how long they waited.
//!
//! Memory is the caller's ([`Table`]), time is an argument ([`Nanos`]), and [`Scheduler::recount`]
//! checks the books against the queues. No allocation, no unsafe code, no float, no clock, and no
//! panic that could be reached in a release build.
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
//! // Flow 0 fills the buffer; flow 1 gets in all the same, at the expense of flow 0.
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

/// The examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
