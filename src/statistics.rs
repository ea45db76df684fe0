//! Statistics of a queue as plain structs, serializable with `serde`.
//!
//! Reading them changes nothing and needs no counters of its own: flows and hosts are read from the
//! queues themselves when called. `docs/guide/metrics.md` has the JSON form.

#[cfg(feature = "alloc")]
use sched_core::DelayHistogram;
use sched_core::{Backlog, Counters, Limits, Nanos};

use crate::tins::TinName;

/// A backlogged queue of a flow. Flows that share a queue are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FlowStatistics {
    /// The number of the queue. Another flow may get it once it is empty.
    pub queue: u32,
    /// Its tin.
    pub tin: u8,
    /// The entry of its source host; `None` if sources are not isolated.
    pub source: Option<u32>,
    /// The entry of its destination host; `None` if destinations are not isolated.
    pub destination: Option<u32>,
    /// Its packets and bytes.
    pub queued: Backlog,
    /// The handle of its oldest packet, whose header identifies the flow. With frames see
    /// [`SmartQueue::flow_key`](crate::SmartQueue::flow_key).
    pub oldest: u32,
    /// The waiting time of its oldest packet, with a resolution of 1.024 µs.
    #[cfg_attr(feature = "serde", serde(rename = "waited_ns"))]
    pub waited: Nanos,
}

/// The number of backlogged flows. Flows that share a queue are one, and a flow with packets in two
/// tins is two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FlowTotals {
    /// Sparse flows, which became backlogged recently and are served before bulk flows. A flow
    /// that uses less than its share stays sparse.
    pub sparse: u32,
    /// Bulk flows: they have had a turn since they became backlogged, or their host has used up
    /// what it may send early.
    pub bulk: u32,
}

impl FlowTotals {
    /// Returns the number of all backlogged flows.
    #[must_use]
    pub const fn all(&self) -> u32 {
        self.sparse.saturating_add(self.bulk)
    }
}

/// Numbers of activations of flows and hosts since construction.
///
/// An activation is counted when a flow or host is assigned a free queue or entry: a flow that held
/// nothing in this tin, a host that held nothing in any. A flow or host that sends from time to
/// time is counted each time. `new_*` counts activations that took over a queue or entry last used
/// by another flow or host, or never used: approximately the number of distinct flows and hosts,
/// where one that returns after its queue or entry was reassigned counts again.
///
/// - Not counted: a flow that shares a queue because its set is full, and a host that shares an
///   entry.
/// - A flow whose first packet is rejected is counted.
/// - A flow whose label equals the number of a free queue that no flow has used yet does not count
///   as new: of 2^32 labels, as many as there are queues.
/// - Hosts are counted on a side that is isolated
///   ([`Isolated::backlogged_hosts`](crate::Isolated::backlogged_hosts)).
/// - Packets queued during a change of isolation, tins or key are not counted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Activations {
    /// Activations of flows.
    pub flows: u64,
    /// Activations of new flows.
    pub new_flows: u64,
    /// Activations of source hosts.
    pub source_hosts: u64,
    /// Activations of new source hosts.
    pub new_source_hosts: u64,
    /// Activations of destination hosts.
    pub destination_hosts: u64,
    /// Activations of new destination hosts.
    pub new_destination_hosts: u64,
}

/// A backlogged host of one side. Hosts that share an entry are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HostStatistics {
    /// The number of its entry, see [`Isolated::entries_of`](crate::Isolated::entries_of). Another
    /// host may get it when this one holds nothing.
    pub entry: u32,
    /// The tins in which it is backlogged, one bit each.
    pub tins: u8,
    /// The number of its backlogged flows.
    pub flows: u32,
    /// Its packets and bytes.
    pub queued: Backlog,
    /// The waiting time of its oldest packet, with a resolution of 1.024 µs.
    #[cfg_attr(feature = "serde", serde(rename = "waited_ns"))]
    pub waited: Nanos,
}

impl HostStatistics {
    /// A host without packets, to initialize an array.
    pub const EMPTY: Self = Self {
        entry: 0,
        tins: 0,
        flows: 0,
        queued: Backlog { packets: 0, bytes: 0 },
        waited: Nanos::ZERO,
    };
}

/// Frames in which no IP header was found since construction, queued or not, by kind; each counts
/// once. By descriptor the caller reads the headers, and all counts stay 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NonIpFrames {
    /// IP packets pushed into a queue of Ethernet frames, or Ethernet frames pushed into a queue
    /// of IP packets. If not 0, [`raw_ip`](crate::SmartQueueBuilder::raw_ip) is missing or set by
    /// mistake, and all these frames share one flow or a few.
    pub wrong_layer: u64,
    /// ARP frames.
    pub arp: u64,
    /// Frames of another protocol: an EtherType, or a version of raw IP, that is neither IP nor
    /// ARP.
    pub other: u64,
    /// Frames that end inside a header.
    pub truncated: u64,
    /// Frames with a header that contradicts itself.
    pub malformed: u64,
    /// Frames with more VLAN tags than the parser reads.
    pub too_many_headers: u64,
}

/// Counters and backlog of one tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TinStatistics {
    /// Its name in the [plan](crate::TinPlan).
    pub name: TinName,
    /// Its share of the rate; `None` if the link is unlimited, 0 if it is stopped.
    pub rate_bits_per_second: Option<u64>,
    /// Its counters since construction, with drops by reason: [`TinCounters`](crate::TinCounters).
    pub counters: Counters,
    /// Packets and bytes queued in it.
    pub queued: Backlog,
}

/// Counters and backlog of a whole [`SmartQueue`](crate::SmartQueue).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QueueStatistics {
    /// The rate of the link; `None` if it is unlimited, 0 if it is stopped.
    pub rate_bits_per_second: Option<u64>,
    /// The counters since construction, with drops by reason.
    pub counters: Counters,
    /// Packets and bytes currently queued.
    pub queued: Backlog,
    /// The limits in force.
    pub limits: Limits,
    /// The bytes of buffers that queued packets occupy.
    pub memory_held: u64,
    /// The limit on these bytes, if there is one.
    pub memory_limit: Option<u32>,
    /// The number of backlogged source hosts; 0 if sources are not isolated.
    pub source_hosts: u32,
    /// The number of backlogged destination hosts; 0 if destinations are not isolated.
    pub destination_hosts: u32,
    /// Activations of flows and hosts since construction.
    pub activations: Activations,
    /// Frames in which no IP header was found, by kind.
    pub non_ip: NonIpFrames,
}

/// The queue of a frame's flow and the entries of its hosts, found by
/// [`SmartQueue::find`](crate::SmartQueue::find).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct FoundEntries {
    /// The queue of its flow: [`FlowStatistics::queue`].
    pub queue: Option<u32>,
    /// The entry of its source host, if sources are isolated: [`HostStatistics::entry`].
    pub source: Option<u32>,
    /// The entry of its destination host, if destinations are isolated.
    pub destination: Option<u32>,
}

/// All statistics of a queue as one owned value: [`QueueStatistics`], all tins, all backlogged
/// flows and hosts, and the waiting times that the caller has counted.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// The settings in force, as keywords of [`QueueSettings`](crate::QueueSettings).
    pub settings: alloc::string::String,
    /// The whole queue.
    pub queue: QueueStatistics,
    /// The number of backlogged flows.
    pub totals: FlowTotals,
    /// The number of these that have not reacted to drops:
    /// [`SmartQueue::unresponsive_flows`](crate::SmartQueue::unresponsive_flows).
    pub unresponsive_flows: u32,
    /// The tins, the lowest first.
    pub tins: alloc::vec::Vec<TinStatistics>,
    /// The backlogged source hosts, in the order of their entries.
    pub sources: alloc::vec::Vec<HostStatistics>,
    /// The backlogged destination hosts, in the order of their entries.
    pub destinations: alloc::vec::Vec<HostStatistics>,
    /// The backlogged flows, in the order of their queues.
    pub flows: alloc::vec::Vec<FlowStatistics>,
    /// Waiting times of packets that have left, if the caller counts them.
    pub delays: Option<DelayHistogram>,
}
