//! Which flows belong to one host.
//!
//! A flow scheduler that knows hosts says so through [`Hosted`]. A drop policy beside it then needs
//! no table of its own to decide which host gives way.

use crate::FlowId;

/// A flow scheduler whose flows belong to hosts.
///
/// A host is an entry, numbered below [`Hosted::hosts`]; which addresses, ports or subscribers
/// stand behind an entry is the caller's business. A flow that is backlogged keeps its host until
/// it is idle. Every call takes time that depends neither on the flows nor on the hosts.
/// Object-safe.
pub trait Hosted {
    /// The host of `flow`, whether backlogged or idle; `None` if there is no such flow, or while
    /// flows have no hosts.
    fn host_of(&self, flow: FlowId) -> Option<u32>;

    /// Hosts are numbered below this.
    fn hosts(&self) -> u32;
}
