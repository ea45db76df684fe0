//! Hosts: which flows are of one, and their rates and ceilings.

pub(crate) mod ceiling;
pub(crate) mod committed_rate;
pub(crate) mod hosted;
pub(crate) mod side;
pub(crate) mod token_bucket;
