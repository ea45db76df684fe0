//! What the tests of several modules share.

pub(crate) mod link;
pub(crate) mod packets;
