//! The tables of the queue.

use core::fmt;

use flowhash::TagLine;
use sched_core::{Descriptor, HeldFlow, HeldHost, Queue};

use super::records::{Flow, Host, Turn};
use crate::IsolatedError;
use crate::storage::{Allocate, Storage};

/// The tables of an [`IsolatedQueue`](super::IsolatedQueue); what they contain does not matter.
///
/// There are queues, and behind them a spare queue for each host. Queues, hosts and tins are powers of two. Memory: 16
/// bytes a packet; 64 a queue; and for each host 62, its spare queue, and 36 for each tin that there is room for.
pub struct IsolationMemory<S: Storage> {
    /// One for each handle.
    pub(super) packets: S::Of<Descriptor>,
    /// One for eight queues; none for spare ones.
    pub(super) lines: S::Of<TagLine>,
    /// One for each queue, spare ones included.
    pub(super) queues: S::Of<Queue>,
    /// As many.
    pub(super) flows: S::Of<Flow>,
    /// As many: for the flow that gives way.
    pub(super) held_flows: S::Of<HeldFlow>,
    /// One for eight hosts.
    pub(super) host_lines: S::Of<TagLine>,
    /// One for each host.
    pub(super) hosts: S::Of<Host>,
    /// As many: for the host that gives way.
    pub(super) held_hosts: S::Of<HeldHost>,
    /// One for each host in each tin.
    pub(super) turns: S::Of<Turn>,
}

/// Without the tables.
impl<S: Storage> fmt::Debug for IsolationMemory<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsolationMemory")
            .field("queues", &self.queues.as_ref().len())
            .field("packets", &self.packets.as_ref().len())
            .finish_non_exhaustive()
    }
}

impl<S: Allocate> IsolationMemory<S> {
    /// Allocates tables for so many queues, hosts, tins of each and packets.
    #[must_use]
    pub fn allocate(queues: usize, hosts: usize, tins: usize, packets: usize) -> Self {
        let all = queues.saturating_add(hosts);
        let turns = hosts.saturating_mul(tins.next_power_of_two());
        Self {
            packets: S::table(Descriptor::EMPTY, packets),
            lines: S::table(TagLine::EMPTY, queues.div_ceil(8)),
            queues: S::table(Queue::EMPTY, all),
            flows: S::table(Flow::EMPTY, all),
            held_flows: S::table(HeldFlow::EMPTY, all),
            host_lines: S::table(TagLine::EMPTY, hosts.div_ceil(8)),
            hosts: S::table(Host::EMPTY, hosts),
            held_hosts: S::table(HeldHost::EMPTY, hosts),
            turns: S::table(Turn::EMPTY, turns),
        }
    }
}

impl<S: Storage> IsolationMemory<S> {
    /// How many queues there are, spare ones included: as many states an AQM needs.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues.as_ref().len()
    }

    /// Whether every table is as long as the queues or hosts ask for; lines are measured by their tables.
    pub(super) fn check(&self) -> Result<(), IsolatedError> {
        let (queues, hosts) = (self.queues.as_ref().len(), self.hosts.as_ref().len());
        let tables = [
            ("flows", self.flows.as_ref().len(), queues),
            ("bytes of flows", self.held_flows.as_ref().len(), queues),
            ("bytes of hosts", self.held_hosts.as_ref().len(), hosts),
            ("turns", self.turns.as_ref().len(), hosts),
        ];
        tables.into_iter().try_for_each(|(what, given, needed)| {
            if given < needed {
                return Err(IsolatedError::Memory { what, given, needed });
            }
            Ok(())
        })
    }
}
