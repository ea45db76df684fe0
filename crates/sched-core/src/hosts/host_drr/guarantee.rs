//! What a host promises its flows.

use super::{HostDrr, HostDrrFlow, HostRing};
use crate::disciplines::drr::guarantee::of_ring;
use crate::flow_scheduler::{FlowScheduler, Table};
use crate::{FlowId, Guarantee};

impl<O, N, G> HostDrr<O, N, G>
where
    O: FlowScheduler,
    N: Table<HostDrrFlow>,
    G: Table<HostRing>,
{
    /// What is promised to `flow` by its host, of what the host gets, as things are configured and
    /// assigned: that of a [`Drr`](crate::Drr) over the flows of the host, idle ones included, with
    /// [sparse flows first](HostDrr::sparse_first) or without. `None` if it was not added. Cost: O(flows).
    ///
    /// What the host is promised the flow scheduler of hosts says; [`Guarantee::in_class`] composes the two.
    #[must_use]
    pub fn guarantee_in_host(&self, flow: FlowId) -> Option<Guarantee> {
        let node = self.node(flow)?;
        let of_host = |other: &&HostDrrFlow| other.flow.is_added() && other.host == node.host;
        let quanta = self.nodes.as_ref().iter().filter(of_host).map(|other| other.flow.quantum());
        of_ring(node.flow.quantum(), quanta, self.max_len, self.sparse_first)
    }
}
