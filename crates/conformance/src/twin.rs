//! What every discipline should do, written from its definition with deques, maps and scans.
//!
//! A twin is slow, obvious, and shares no code with the discipline it judges: [`NaiveQueues`] keeps the
//! packets and the books, a [`NaiveFlowScheduler`] says which flow is next and which gives way. Where the discipline
//! keeps a count, a list or a set, its twin looks at everything there is. [`history`](crate::history)
//! does the same to both and compares what comes out.
//!
//! Beside the twins stand two ideals in exact arithmetic: [`Gps`], the fluid server that fair queueing
//! approximates, and [`ExactWf2q`], the packet order that comes nearest to it.

pub mod ack_filter;
mod age;
mod ceilings;
mod classes;
mod committed_rates;
mod drr;
mod dual_pi2;
mod fifo;
mod flow_scheduler;
mod gps;
mod host_drr;
mod host_rates;
mod isolated;
mod load_drr;
mod longest_host;
pub mod parser;
mod qfq;
mod queues;
pub mod segments;
pub mod shaper_clock;
mod siblings;
mod sqf;
mod tins;
mod token_bucket;
mod wf2q;

pub use age::NaiveAge;
pub use ceilings::NaiveCeilings;
pub use classes::NaiveClasses;
pub use committed_rates::NaiveCommittedRates;
pub use drr::NaiveDrr;
pub use dual_pi2::NaiveDualPi2;
pub use fifo::NaiveFifo;
pub use flow_scheduler::{Held, NaiveFlowScheduler, QueuesView, queued_bytes};
pub use gps::{BigRational, Gps};
pub use host_drr::NaiveHostDrr;
pub use isolated::{NaiveIsolated, Sizes};
pub use load_drr::NaiveLoadDrr;
pub use longest_host::NaiveLongestHostDrop;
pub use qfq::{Exercised, NaiveQfq, NaiveQfqPlus, Rule};
pub use queues::NaiveQueues;
pub use sqf::{NaiveLongestQueueDrop, NaiveShortestQueue};
pub use tins::NaiveTins;
pub use wf2q::{ExactWf2q, NaiveWf2q};
