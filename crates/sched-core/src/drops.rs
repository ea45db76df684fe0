//! Drop policies: the victim of a full queue.

pub(crate) mod drop_policy;
pub(crate) mod longest_host;
pub(crate) mod longest_queue;
