//! Which flows are kept apart, and which hosts: the modes of CAKE.

use sched_core::Side;

use crate::keyword::by_word;
use crate::labels::Labelled;

/// What shares the line: flows, hosts, or hosts and then their flows.
///
/// The modes and their names are those of CAKE (§III-A, §III-B).
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
    // Those with a queue for each flow stand first, so that one comparison tells whether a packet
    // goes by its flow.
    /// A queue for each flow; hosts do not count. A host that opens many flows has many shares.
    Flows,
    /// The line is shared by source hosts, the share of a host by its flows.
    #[default]
    DualSrcHost,
    /// The line is shared by destination hosts, the share of a host by its flows.
    DualDstHost,
    /// A flow's share is divided by the flows of its source host or of its destination host,
    /// whichever has more. The hosts of one side decide which flow loses a packet and how many
    /// turns begin early: [`IsolatedConfig::local_side`](crate::IsolatedConfig::local_side).
    TripleIsolate,
    /// A queue for each source host.
    SrcHost,
    /// A queue for each destination host.
    DstHost,
    /// A queue for each pair of hosts.
    Hosts,
}

/// Which hosts have a level above the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// All flows belong to one.
    None,
    Source,
    Destination,
}

impl Isolation {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Flows,
        Self::SrcHost,
        Self::DstHost,
        Self::Hosts,
        Self::DualSrcHost,
        Self::DualDstHost,
        Self::TripleIsolate,
    ];

    /// The name, as CAKE has it.
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

    /// The label by which a packet finds its queue.
    #[inline]
    pub(super) fn queue_label(self, labels: &(impl Labelled + ?Sized)) -> u32 {
        match self {
            Self::Flows | Self::DualSrcHost | Self::DualDstHost | Self::TripleIsolate => {
                labels.flow()
            }
            by_host => by_host.host_label(labels),
        }
    }

    /// [`Self::queue_label`], where queues are those of hosts. Apart, so that asking for the flow
    /// is a call that is known, or none.
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

    /// The sides whose hosts count.
    pub(super) const fn sides_that_count(self) -> &'static [Side] {
        match self {
            Self::DualSrcHost => &[Side::Source],
            Self::DualDstHost => &[Side::Destination],
            Self::TripleIsolate => &[Side::Source, Side::Destination],
            _ => &[],
        }
    }

    /// Whether hosts count: in the other modes no table of hosts is looked at.
    #[inline]
    pub(super) const fn counts_hosts(self) -> bool {
        !self.sides_that_count().is_empty()
    }

    /// Whose spare queue a flow goes to that finds its set full: that of its host on this side, or
    /// on the side `local` if the isolation says none. Where hosts do not count, the flow shares
    /// the queue that the table names, or that of its tin.
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
