//! Flow schedulers whose flows belong to hosts.
//!
//! A flow scheduler with hosts implements [`Hosted`]. A drop policy can then select a host to drop
//! from without a table of its own.

use crate::FlowId;

/// A flow scheduler whose flows belong to hosts.
///
/// A host is an entry, numbered below [`Hosted::hosts`]; the caller decides which addresses, ports
/// or subscribers share an entry. A backlogged flow keeps its host until it is idle. Every call
/// takes constant time, whatever the number of flows and hosts. Object-safe.
pub trait Hosted {
    /// Returns the host of `flow`, backlogged or idle; `None` if there is no such flow, or while
    /// flows have no hosts.
    fn host_of(&self, flow: FlowId) -> Option<u32>;

    /// Returns the number of hosts; valid numbers are below it.
    fn hosts(&self) -> u32;
}
