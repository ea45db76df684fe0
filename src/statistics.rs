//! What a queue holds and what has become of packets: plain structs, for `serde` too.
//!
//! Reading them changes nothing. What is counted is counted anyway; what is read of flows and hosts
//! is the queues themselves, walked when they are asked for. `docs/guide/metrics.md` has the
//! shape in JSON.

#[cfg(feature = "alloc")]
use sched_core::DelayHistogram;
use sched_core::{Backlog, Counters, Limits, Nanos};

use crate::tins::TinName;

/// A queue of a flow that holds packets. Flows that share a queue are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FlowStatistics {
    /// The number of the queue. Another flow may have it when this one is empty.
    pub queue: u32,
    /// The tin that it is in.
    pub tin: u8,
    /// The entry of its source host; `None` where sources do not count.
    pub source: Option<u32>,
    /// The entry of its destination host; `None` where destinations do not count.
    pub destination: Option<u32>,
    /// What it holds.
    pub queued: Backlog,
    /// The handle of its oldest packet, whose header says which flow it is. With frames:
    /// [`SmartQueue::flow_key`](crate::SmartQueue::flow_key).
    pub oldest: u32,
    /// How long its oldest packet has waited, to 1.024 µs.
    #[cfg_attr(feature = "serde", serde(rename = "waited_ns"))]
    pub waited: Nanos,
}

/// How many flows hold packets. Flows that share a queue are one, and a flow with packets in two
/// tins is two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FlowTotals {
    /// Those that came lately, and are served before flows that stand. A flow that uses less than
    /// its share stays among them.
    pub sparse: u32,
    /// Those that stand: they have had a turn since they became backlogged, or their host has used
    /// up what it may have early.
    pub bulk: u32,
}

impl FlowTotals {
    /// All flows that hold packets.
    #[must_use]
    pub const fn all(&self) -> u32 {
        self.sparse.saturating_add(self.bulk)
    }
}

/// How often flows and hosts have become backlogged since construction.
///
/// A flow or host counts when it is given a queue or an entry that was free: it held nothing until
/// then, a flow in this tin, a host in any. So one that sends now and then counts each time. Of
/// these times, those are of a *new* flow or host in which the queue or entry was another's before,
/// or no one's: a count of the flows and hosts that there have been, where one that comes back
/// after others had its place counts anew.
///
/// - A flow that shares a queue, because its set is full, and a host that shares an entry do not
///   count.
/// - A flow whose first packet is refused counts.
/// - A label that is the number of a free queue which no flow has had yet is not new there: of 2^32
///   labels as many as there are queues.
/// - Hosts count on a side that counts
///   ([`Isolated::backlogged_hosts`](crate::Isolated::backlogged_hosts)).
/// - What is queued while isolation, tins or key change does not count anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Activations {
    /// Of flows.
    pub flows: u64,
    /// Of new flows.
    pub new_flows: u64,
    /// Of source hosts.
    pub source_hosts: u64,
    /// Of new source hosts.
    pub new_source_hosts: u64,
    /// Of destination hosts.
    pub destination_hosts: u64,
    /// Of new destination hosts.
    pub new_destination_hosts: u64,
}

/// A host of one side that holds packets. Hosts that share an entry are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HostStatistics {
    /// The number of its entry: [`Isolated::entries_of`](crate::Isolated::entries_of) says which
    /// hosts have which. Another host may have it when this one holds nothing.
    pub entry: u32,
    /// The tins in which it holds packets, a bit each.
    pub tins: u8,
    /// How many of its flows hold packets.
    pub flows: u32,
    /// What it holds.
    pub queued: Backlog,
    /// How long its oldest packet has waited, to 1.024 µs.
    #[cfg_attr(feature = "serde", serde(rename = "waited_ns"))]
    pub waited: Nanos,
}

impl HostStatistics {
    /// A host that holds nothing: room for one.
    pub const EMPTY: Self = Self {
        entry: 0,
        tins: 0,
        flows: 0,
        queued: Backlog { packets: 0, bytes: 0 },
        waited: Nanos::ZERO,
    };
}

/// Frames in which no IP header was found, by what they are; since construction, queued or not.
/// Each counts once. By descriptor the headers are the caller's, and all counts stay 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NonIpFrames {
    /// IP packets pushed into a queue of Ethernet frames, or Ethernet frames pushed into a queue
    /// of IP packets. If it is not 0, [`raw_ip`](crate::SmartQueueBuilder::raw_ip) is missing, or
    /// is one too many: all these frames are one flow or few.
    pub wrong_layer: u64,
    /// ARP.
    pub arp: u64,
    /// Frames of another protocol: an EtherType, or a version of raw IP, that is neither IP nor
    /// ARP.
    pub other: u64,
    /// Frames that end inside a header.
    pub truncated: u64,
    /// Frames with a header that contradicts itself.
    pub malformed: u64,
    /// Frames with more VLAN tags than are read.
    pub too_many_headers: u64,
}

/// A tin: what is counted in it, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TinStatistics {
    /// Its name in the [plan](crate::TinPlan).
    pub name: TinName,
    /// Its share of the rate; `None` if the line is unlimited, 0 if it is stopped.
    pub rate_bits_per_second: Option<u64>,
    /// What has happened in it, with drops by reason: [`TinCounters`](crate::TinCounters).
    pub counters: Counters,
    /// What is queued in it.
    pub queued: Backlog,
}

/// A whole [`SmartQueue`](crate::SmartQueue): what is counted, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QueueStatistics {
    /// The rate of the line; `None` if it is unlimited, 0 if it is stopped.
    pub rate_bits_per_second: Option<u64>,
    /// What has happened since construction, with drops by reason.
    pub counters: Counters,
    /// What is queued.
    pub queued: Backlog,
    /// What may be queued.
    pub limits: Limits,
    /// The bytes of buffers that queued packets take.
    pub memory_held: u64,
    /// The most that they may take, if that is limited.
    pub memory_limit: Option<u32>,
    /// How many source hosts have packets queued; 0 where sources do not count.
    pub source_hosts: u32,
    /// How many destination hosts have packets queued; 0 where destinations do not count.
    pub destination_hosts: u32,
    /// How often flows and hosts have become backlogged since construction.
    pub activations: Activations,
    /// Frames in which no IP header was found, by what they are.
    pub non_ip: NonIpFrames,
}

/// The queue of a frame's flow and the entries of its hosts:
/// [`SmartQueue::find`](crate::SmartQueue::find).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct FoundEntries {
    /// The queue of its flow: [`FlowStatistics::queue`].
    pub queue: Option<u32>,
    /// The entry of its source host, where sources count: [`HostStatistics::entry`].
    pub source: Option<u32>,
    /// The entry of its destination host, where destinations count.
    pub destination: Option<u32>,
}

/// All that a queue says of itself, in one value that owns it: [`QueueStatistics`], each tin, each
/// flow and each host that holds packets, and the waits that the caller has counted.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// The settings in force, in the words of [`QueueSettings`](crate::QueueSettings).
    pub settings: alloc::string::String,
    /// The whole queue.
    pub queue: QueueStatistics,
    /// How many flows hold packets.
    pub totals: FlowTotals,
    /// How many of them have not reacted to drops:
    /// [`SmartQueue::unresponsive_flows`](crate::SmartQueue::unresponsive_flows).
    pub unresponsive_flows: u32,
    /// The tins, the lowest first.
    pub tins: alloc::vec::Vec<TinStatistics>,
    /// The source hosts that hold packets, in the order of their entries.
    pub sources: alloc::vec::Vec<HostStatistics>,
    /// The destination hosts that hold packets, in the order of their entries.
    pub destinations: alloc::vec::Vec<HostStatistics>,
    /// The flows that hold packets, in the order of their queues.
    pub flows: alloc::vec::Vec<FlowStatistics>,
    /// How long packets waited that have left, if the caller counts that.
    pub delays: Option<DelayHistogram>,
}
