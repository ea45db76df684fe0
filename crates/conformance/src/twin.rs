//! Reference models of the disciplines, written from their definitions with deques, maps and scans.
//!
//! A reference model is slow, obvious, and shares no code with the discipline it checks:
//! [`NaiveQueues`] keeps the packets and the counters, and a [`NaiveFlowScheduler`] selects the
//! next flow and the drop victim. Where the discipline keeps a count, a list or a set, its
//! reference model scans all state. [`history`](crate::history) applies the same operations to both
//! and compares the results.
//!
//! There are also two ideal servers in exact arithmetic: [`Gps`], the fluid server that fair
//! queueing approximates, and [`ExactWf2q`], the closest order of packets to it.

pub mod ack_filter;
mod age;
mod classes;
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
mod quanta;
mod queues;
pub mod segments;
pub mod shaper_clock;
mod sqf;
mod tins;
mod token_bucket;
mod wf2q;

pub use age::NaiveAge;
pub use classes::NaiveClasses;
pub use drr::NaiveDrr;
pub use dual_pi2::NaiveDualPi2;
pub use fifo::NaiveFifo;
pub use flow_scheduler::{NaiveFlowScheduler, QueuedPacket, QueuesView, queued_bytes};
pub use gps::{BigRational, Gps};
pub use isolated::{NaiveIsolated, Sizes};
pub use qfq::{Exercised, NaiveQfq, NaiveQfqPlus, Rule};
pub use queues::NaiveQueues;
pub use sqf::{NaiveLongestQueueDrop, NaiveShortestQueue};
pub use wf2q::{ExactWf2q, NaiveWf2q};
