//! Helpers of the tests of several modules.

pub(crate) mod link;
pub(crate) mod packets;
