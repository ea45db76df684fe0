//! Hosts: the flows of each, and their rates and ceilings.

pub(crate) mod hosted;
pub(crate) mod side;
pub(crate) mod token_bucket;
pub(crate) mod wire_length;
