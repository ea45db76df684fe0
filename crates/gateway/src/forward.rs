//! Forwarding: the event loop, the two directions and their queues.

pub(crate) mod direction;
pub(crate) mod follow;
pub(crate) mod mark;
pub(crate) mod nat;
pub(crate) mod queue;
pub(crate) mod routers;
pub(crate) mod run;
mod shortfall;
