//! Which packet gives way where there is no room.

pub(crate) mod drop_policy;
pub(crate) mod longest_host;
pub(crate) mod longest_queue;
