//! Queues of packets: one, several by number, and what is counted of them.

pub(crate) mod counters;
pub(crate) mod delay_histogram;
pub(crate) mod fifo;
pub(crate) mod flow_directory;
pub(crate) mod flow_queues;
pub(crate) mod queue;
#[cfg(feature = "serde")]
mod serialized;
