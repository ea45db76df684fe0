//! Who is next, and who is dropped.
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

mod aqm;
mod counters;
mod drr;
mod fifo;
mod flow_queues;
mod lqd;
mod order;
mod packet;
mod qfq;
mod queue;
mod scheduler;
mod sqf;
mod time;
mod tournament;

pub use aqm::{Aqm, CoDel, CoDelParams, CoDelState, Head, NoAqm, Verdict};
pub use counters::{Counters, FlowRecord, Volume};
pub use drr::{Drr, DrrFlow};
pub use fifo::Fifo;
pub use flow_queues::FlowQueues;
pub use lqd::{LongestFlow, LongestQueueDrop};
pub use order::{ConfigError, DropFrom, FlowScheduler, FlowState, Table};
pub use packet::{Ecn, FlowId, Packet};
pub use qfq::{Qfq, QfqConfig, QfqFlow};
pub use queue::{Queue, Slot};
pub use scheduler::{
    Backlog, DropReason, DropSink, Imbalance, Limits, RejectReason, Rejected, Scheduler,
};
pub use sqf::{ShortestFlow, ShortestQueue, Sqf, SqfArrays, SqfFlow, SqfMemory, VIRTUAL_QUEUES};
pub use time::Nanos;
pub use tournament::RankedFlow;
