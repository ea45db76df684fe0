//! A filter of TCP acknowledgements: of two that wait in one queue, the later one is enough.
//!
//! On a slow uplink the acknowledgements of a fast download take the line from the uploads, and
//! where they come faster than the line takes them they hold the download up. Acknowledgements are
//! cumulative, so an earlier one may leave the queue when a later one behind it says all that it
//! says (RFC 3449 §5.2.1 names the idea and its risks; CAKE has such a filter). [`supersedes`] has
//! the rules, [`AckFilter`] says how much is dropped.
//!
//! Nothing is kept for the filter: it reads the last [`AckFilter::REACH`] packets of a queue when
//! an acknowledgement comes to it.
//!
//! `docs/disciplines/ack_filter.md` says what is never dropped and why the rest is safe.

mod rules;

use flowhash::Ack;
use sched_core::{Aqm, DropPolicy, Ecn, FlowId, FlowQueues, FlowScheduler, Packet, Tables};

use crate::keyword::by_word;

pub use rules::supersedes;

/// How much the filter drops: at most one acknowledgement for each one that comes.
///
/// An acknowledgement may be dropped only for the next one of its connection behind it in the same
/// queue, and only by the rules of [`supersedes`]. Beside a [`SmartQueue`](crate::SmartQueue),
/// which has it as an option, it works alone: [`superseded`](Self::superseded) reads any queue.
///
/// The modes that drop something are there with the feature `ack-filter`, which is on by default.
///
/// ```
/// use freeboard::AckFilter;
/// use freeboard::flowhash::{Ack, FlowKey, Transport};
///
/// let transport = Transport { protocol: 6, src_port: 50_000, dst_port: 443 };
/// let connection = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport };
/// let ack = |number| Ack::new(connection, 1, number);
///
/// // Two wait, and a third comes.
/// let waiting = [ack(3_000), ack(1_500)].map(Some);
/// assert_eq!(AckFilter::Conservative.superseded(&ack(4_500), waiting), Some(2));
/// // One waits, and a second comes.
/// let waiting = [ack(3_000)].map(Some);
/// assert_eq!(AckFilter::Conservative.superseded(&ack(4_500), waiting), None);
/// assert_eq!(AckFilter::Aggressive.superseded(&ack(4_500), waiting), Some(1));
/// // A duplicate is kept, and what it repeats.
/// assert_eq!(AckFilter::Aggressive.superseded(&ack(3_000), waiting), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AckFilter {
    /// Drops nothing.
    #[default]
    Off,
    /// Keeps two: drops an acknowledgement when another one that may be dropped stands behind it.
    #[cfg(feature = "ack-filter")]
    Conservative,
    /// Keeps one: drops also the only one that may be dropped, if it stands right before the one
    /// that comes.
    #[cfg(feature = "ack-filter")]
    Aggressive,
}

/// Where the acknowledgements of queued packets are read: a closure, or the buffers.
pub trait Acks {
    /// What the packet with this handle acknowledges, if it is an acknowledgement and nothing else
    /// ([`Ack::read`]).
    fn ack(&self, packet: Packet) -> Option<Ack>;
}

impl<F: Fn(Packet) -> Option<Ack>> Acks for F {
    #[inline]
    fn ack(&self, packet: Packet) -> Option<Ack> {
        self(packet)
    }
}

impl AckFilter {
    /// All modes, in the order of what they drop.
    pub const ALL: &'static [Self] = &[
        Self::Off,
        #[cfg(feature = "ack-filter")]
        Self::Conservative,
        #[cfg(feature = "ack-filter")]
        Self::Aggressive,
    ];

    /// The most packets of a queue that are looked at when an acknowledgement comes, the newest
    /// first: the bound of the filter's work. In a queue of one connection the filter itself leaves
    /// two at most that may be dropped, so that eight serve four connections that share a queue.
    pub const REACH: usize = 8;

    /// The word for it: `off`, `conservative`, `aggressive`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            #[cfg(feature = "ack-filter")]
            Self::Conservative => "conservative",
            #[cfg(feature = "ack-filter")]
            Self::Aggressive => "aggressive",
        }
    }

    const fn keeps_one(self) -> bool {
        #[cfg(feature = "ack-filter")]
        return matches!(self, Self::Aggressive);
        #[cfg(not(feature = "ack-filter"))]
        return false;
    }

    /// Which packet the one that came last to a queue, `newest`, makes superfluous: how many came
    /// after it, 1 for the packet right before `newest`. `older` are the packets before `newest`,
    /// the newest first, with `None` for one that is no acknowledgement. Reads
    /// [`REACH`](Self::REACH) of them at most.
    #[must_use]
    pub fn superseded(
        self,
        newest: &Ack,
        older: impl IntoIterator<Item = Option<Ack>>,
    ) -> Option<u32> {
        if self == Self::Off {
            return None;
        }
        // The acknowledgement of the connection that stands behind the one that is looked at.
        let mut behind = *newest;
        // The place of `behind`, if it may be dropped unless it repeats the one before it.
        let mut pending = None;
        let mut nearest = None;
        for (place, ack) in (1..).zip(older.into_iter().take(Self::REACH)) {
            let Some(ack) = ack.filter(|ack| ack.connection == newest.connection) else { continue };
            let is_superseded = supersedes(&behind, &ack);
            if let Some(pending) = pending.take()
                && (is_superseded || !rules::repeats(&behind, &ack))
            {
                if nearest.is_some() {
                    return Some(pending);
                }
                nearest = Some(pending);
            }
            pending = is_superseded.then_some(place);
            behind = ack;
        }
        match (nearest, pending) {
            (Some(_), Some(_)) => pending,
            (Some(only), None) | (None, Some(only)) => {
                (self.keeps_one() && only == 1).then_some(only)
            }
            (None, None) => None,
        }
    }

    /// [`superseded`](Self::superseded) in the queue of `flow`, whose newest packet is `packet`,
    /// which is `ack`: what to give [`FlowQueues::filter_out`]. `None` as well if `packet` is not
    /// the newest there.
    #[must_use]
    pub fn superseded_in<O, M, A, D>(
        self,
        queues: &FlowQueues<O, M, A, D>,
        flow: FlowId,
        (packet, ack): (Packet, &Ack),
        acks: &(impl Acks + ?Sized),
    ) -> Option<u32>
    where
        O: FlowScheduler,
        M: Tables<O>,
        A: Aqm,
        D: DropPolicy<O>,
    {
        let mut packets = queues.newest_first(flow);
        packets.next().filter(|newest| newest.handle == packet.handle)?;
        self.superseded(ack, packets.map(|packet| read(acks, packet)))
    }
}

/// The acknowledgement that `packet` is, with the mark that an AQM has set on it since.
fn read(acks: &(impl Acks + ?Sized), packet: Packet) -> Option<Ack> {
    if packet.len as usize > Ack::LONGEST {
        return None;
    }
    let mut ack = acks.ack(packet)?;
    ack.marked |= packet.ecn == Ecn::Ce;
    Some(ack)
}

by_word! {
    AckFilter, name, Self::ALL.iter().copied(),
    if cfg!(feature = "ack-filter") {
        "an ACK filter must be one of off conservative aggressive"
    } else {
        "an ACK filter must be off"
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
