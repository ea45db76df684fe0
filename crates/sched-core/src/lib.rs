//! Which packet is next, and which is dropped.
//!
//! A packet is the number of the caller's buffer and a length; its bytes are never read. In the order
//! a packet meets them:
//!
//! 1. [`Scheduler::enqueue`] takes a [`Packet`] into the queue of its flow, or hands it back in
//!    [`Rejected`]. Whatever has to give way for it goes to the [`DropSink`].
//! 2. [`FlowQueues`] is the scheduler for every order of flows: [`Drr`], [`Qfq`], [`QfqPlus`], [`Wf2q`],
//!    [`ShortestQueue`], each a [`FlowScheduler`]; with [`LongestQueueDrop`] around it, the flow that
//!    holds most gives way. [`Rounds`] knows the hosts of its flows, [`Hosts`] puts hosts above flows, and with
//!    [`LongestHostDrop`] the host that holds most gives way. [`CommittedRates`] gives flows or hosts committed rates
//!    beyond which they borrow. [`Sqf`] puts labels over virtual queues and a
//!    default queue. [`Fifo`] is the baseline. [`Classes`] puts schedulers of any kind under an order.
//! 3. An [`Aqm`] such as [`CoDel`] judges each packet that is about to leave.
//! 4. [`Scheduler::dequeue`] gives it back, marked if the AQM said so.
//!
//! A [`Guarantee`] says in bytes what an order promises a flow; a [`WfiMeter`], or [`Metered`] around a
//! whole scheduler, measures whether it is kept.
//!
//! Memory is the caller's ([`Table`]), time is an argument ([`Nanos`]), and [`Scheduler::recount`] checks
//! the books against the queues. No allocation, no unsafe code, no float, no clock, and no panic that
//! could be reached in a release build.
//!
//! ```
//! use sched_core::{
//!     Drr, DrrFlow, FlowId, FlowQueues, Limits, LongestFlow, LongestQueueDrop, Nanos, Packet, Queue,
//!     Scheduler, Slot,
//! };
//!
//! let mut drr = Drr::new([DrrFlow::EMPTY; 4], 1_500)?;
//! drr.add_all(1_500)?;
//! let order = LongestQueueDrop::new(drr, [LongestFlow::EMPTY; 4]);
//! let limits = Limits::packets(3);
//! let mut queues = FlowQueues::new(order, [Queue::EMPTY; 4], [Slot::EMPTY; 8], limits);
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
mod ceilings;
mod classes;
mod committed_rates;
mod counters;
mod drr;
mod fifo;
mod flow_queues;
mod guarantee;
mod hosted;
mod hosts;
#[cfg(test)]
mod link;
mod longest_host;
mod lqd;
mod order;
mod packet;
mod qfq;
mod queue;
mod rounds;
mod scheduler;
mod sqf;
mod steps;
mod time;
mod token_bucket;
mod tournament;
mod wf2q;
mod wfi;

pub use aqm::{Aqm, CoDel, CoDelParams, CoDelState, Head, NoAqm, Verdict};
pub use ceilings::{Ceiling, CeilingFlow, CeilingReturn, Ceilings};
pub use classes::{ClassState, Classes, Classify, LowBits, Member, OPENED_A_CALL};
pub use committed_rates::{
    CommittedFlow, CommittedRate, CommittedRates, CommittedReturn, RETURNS_A_CALL,
};
pub use counters::{Counters, FlowRecord, Volume};
pub use drr::{Drr, DrrFlow};
pub use fifo::Fifo;
pub use flow_queues::{FlowQueues, PACED_ROUNDS};
pub use guarantee::{Guarantee, Share};
pub use hosted::Hosted;
pub use hosts::{HostRing, HostedFlow, Hosts};
pub use longest_host::{HeldFlow, HostClasses, LongestHost, LongestHostDrop};
pub use lqd::{LongestFlow, LongestQueueDrop};
pub use order::{ConfigError, DropFrom, FlowScheduler, FlowState, Table};
pub use packet::{Ecn, FlowId, Packet};
pub use qfq::{Aggregate, PlusFlow, Qfq, QfqConfig, QfqFlow, QfqPlus};
pub use queue::{Queue, Slot};
pub use rounds::{RoundList, Rounds, RoundsFlow, RoundsHost, Side, Sides};
pub use scheduler::{
    Backlog, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
pub use sqf::{
    FloorShare, ShortestFlow, ShortestQueue, Sqf, SqfArrays, SqfFlow, SqfMemory, VIRTUAL_QUEUES,
    WaitingFlow,
};
#[cfg(feature = "steps")]
pub use steps::take_steps;
pub use time::Nanos;
pub use token_bucket::{AsBooked, WireLength};
pub use tournament::RankedFlow;
pub use wf2q::{Wf2q, Wf2qConfig, Wf2qFlow};
pub use wfi::{Arrival, Compared, Metered, PairMeter, WfiFlow, WfiMeter, WfiReport};
