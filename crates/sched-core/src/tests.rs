//! Test helpers shared by several modules.

pub(crate) mod link;
pub(crate) mod packets;
