//! Queues of packets, and their counters.

pub(crate) mod counters;
pub(crate) mod delay_histogram;
pub(crate) mod fifo;
pub(crate) mod flow_directory;
pub(crate) mod flow_queues;
pub(crate) mod queue;
#[cfg(feature = "serde")]
mod serialized;
