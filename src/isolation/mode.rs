//! The isolation modes of CAKE.

use sched_core::Side;

use crate::keyword::by_word;
use crate::labels::Labelled;

/// The way the link is shared: among flows, among hosts, or among hosts and then among their flows.
///
/// Modes and names are those of CAKE (§III-A, §III-B).
///
/// ```
/// use freeboard::Isolation;
///
/// let isolation: Isolation = "dual-srchost".parse()?;
/// assert_eq!(isolation, Isolation::default());
/// assert_eq!(isolation.name(), "dual-srchost");
/// # Ok::<(), freeboard::UnknownKeyword>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Isolation {
    // Modes with a queue for each flow come first, so that one comparison decides whether a
    // packet is looked up by its flow.
    /// A queue for each flow, without hosts. A host that opens many flows gets many shares.
    Flows,
    /// Source hosts share the link, and the flows of a host share what it gets.
    #[default]
    DualSrcHost,
    /// Destination hosts share the link, and the flows of a host share what it gets.
    DualDstHost,
    /// A flow's share is divided by the number of flows of its source host or of its destination
    /// host, whichever is larger. The hosts of one side determine which flow is dropped from and
    /// how many turns begin early:
    /// [`IsolatedConfig::local_side`](crate::IsolatedConfig::local_side).
    TripleIsolate,
    /// A queue for each source host.
    SrcHost,
    /// A queue for each destination host.
    DstHost,
    /// A queue for each pair of hosts.
    Hosts,
}

/// The side whose hosts form a level above the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// All flows belong to one host.
    None,
    Source,
    Destination,
}

impl Isolation {
    /// All modes.
    pub const ALL: &'static [Self] = &[
        Self::Flows,
        Self::SrcHost,
        Self::DstHost,
        Self::Hosts,
        Self::DualSrcHost,
        Self::DualDstHost,
        Self::TripleIsolate,
    ];

    /// Returns its name, as in CAKE.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::SrcHost => "srchost",
            Self::DstHost => "dsthost",
            Self::Hosts => "hosts",
            Self::DualSrcHost => "dual-srchost",
            Self::DualDstHost => "dual-dsthost",
            Self::TripleIsolate => "triple-isolate",
        }
    }

    /// Returns the label by which a packet's queue is found.
    #[inline]
    pub(super) fn queue_label(self, labels: &(impl Labelled + ?Sized)) -> u32 {
        match self {
            Self::Flows | Self::DualSrcHost | Self::DualDstHost | Self::TripleIsolate => {
                labels.flow()
            }
            by_host => by_host.host_label(labels),
        }
    }

    /// Returns [`Self::queue_label`] in modes with one queue per host. Separate, so that the query
    /// for the flow is a known call or inlined.
    #[inline(never)]
    fn host_label(self, labels: &(impl Labelled + ?Sized)) -> u32 {
        match self {
            Self::SrcHost => labels.source(),
            Self::DstHost => labels.destination(),
            _ => labels.host_pair(),
        }
    }

    pub(super) const fn level(self) -> Level {
        match self {
            Self::DualSrcHost => Level::Source,
            Self::DualDstHost => Level::Destination,
            _ => Level::None,
        }
    }

    /// Returns the sides whose hosts are isolated.
    pub(super) const fn sides_that_count(self) -> &'static [Side] {
        match self {
            Self::DualSrcHost => &[Side::Source],
            Self::DualDstHost => &[Side::Destination],
            Self::TripleIsolate => &[Side::Source, Side::Destination],
            _ => &[],
        }
    }

    /// Returns true if hosts are isolated: in the other modes the table of hosts is not used.
    #[inline]
    pub(super) const fn counts_hosts(self) -> bool {
        !self.sides_that_count().is_empty()
    }

    /// Returns the side whose host provides the spare queue of a flow whose set is full; `local`
    /// decides if the isolation names no side. In modes without hosts the flow shares the queue
    /// found by the table, or the spare queue of its tin.
    pub(super) const fn spares_of(self, local: Side) -> Level {
        match (self, local) {
            (Self::TripleIsolate, Side::Source) => Level::Source,
            (Self::TripleIsolate, Side::Destination) => Level::Destination,
            _ => self.level(),
        }
    }
}

by_word! {
    Isolation, name, Self::ALL.iter().copied(),
    "an isolation must be one of flows srchost dsthost hosts dual-srchost dual-dsthost triple-isolate"
}
