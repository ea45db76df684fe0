//! A filter for TCP acknowledgements: drops a queued one if a later one in the queue makes it
//! redundant.
//!
//! On a slow uplink the acknowledgements of a fast download take bandwidth from uploads, and if
//! they arrive faster than the link sends them they slow the download down. Acknowledgements are
//! cumulative, so an earlier one may be dropped when a later one carries all of its information
//! (RFC 3449 §5.2.1 describes the idea and its risks; CAKE has such a filter). [`supersedes`] has
//! the rules, [`AckFilter`] the modes.
//!
//! The filter keeps no state: it reads the last [`AckFilter::REACH`] packets of a queue when an
//! acknowledgement arrives.
//!
//! `docs/disciplines/ack_filter.md` describes what is never dropped and why the rest is safe.

mod rules;

use flowhash::Ack;
use sched_core::{Aqm, DropPolicy, Ecn, FlowId, FlowQueues, FlowScheduler, Packet, Tables};

use crate::keyword::by_word;

pub use rules::supersedes;

/// The mode of the ACK filter. At most one acknowledgement is dropped for each one that arrives.
///
/// An acknowledgement may be dropped only in favour of the next one of its connection behind it in
/// its queue, and only by the rules of [`supersedes`]. It is an option of
/// [`SmartQueue`](crate::SmartQueue), and works alone: [`superseded`](Self::superseded) takes any
/// queue.
///
/// All modes but `Off` require the feature `ack-filter`, which is on by default.
///
/// ```
/// use freeboard::AckFilter;
/// use freeboard::flowhash::{Ack, FlowKey, Transport};
///
/// let transport = Transport { protocol: 6, src_port: 50_000, dst_port: 443 };
/// let connection = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport };
/// let ack = |number| Ack::new(connection, 1, number);
///
/// // Two are queued, and a third arrives.
/// let waiting = [ack(3_000), ack(1_500)].map(Some);
/// assert_eq!(AckFilter::Conservative.superseded(&ack(4_500), waiting), Some(2));
/// // One is queued, and a second arrives.
/// let waiting = [ack(3_000)].map(Some);
/// assert_eq!(AckFilter::Conservative.superseded(&ack(4_500), waiting), None);
/// assert_eq!(AckFilter::Aggressive.superseded(&ack(4_500), waiting), Some(1));
/// // A duplicate and the one it repeats are kept.
/// assert_eq!(AckFilter::Aggressive.superseded(&ack(3_000), waiting), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AckFilter {
    /// Drops nothing.
    #[default]
    Off,
    /// Keeps two: drops an acknowledgement if another one that may be dropped is behind it.
    #[cfg(feature = "ack-filter")]
    Conservative,
    /// Keeps one: also drops the only one that may be dropped, if it is directly before the
    /// arriving one.
    #[cfg(feature = "ack-filter")]
    Aggressive,
}

/// Access to the acknowledgements of queued packets: a closure, or the buffers.
pub trait Acks {
    /// Returns the acknowledgement in the packet with this handle, if it is a pure acknowledgement
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
    /// All modes, the one that drops least first.
    pub const ALL: &'static [Self] = &[
        Self::Off,
        #[cfg(feature = "ack-filter")]
        Self::Conservative,
        #[cfg(feature = "ack-filter")]
        Self::Aggressive,
    ];

    /// The maximum number of packets inspected when an acknowledgement arrives, the newest first:
    /// the bound of the filter's work. In a queue of one connection the filter itself leaves at
    /// most two that may be dropped, so eight suffice for four connections that share a queue.
    pub const REACH: usize = 8;

    /// Returns its keyword: `off`, `conservative`, `aggressive`.
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

    /// Returns the packet to drop after `newest` arrived, as its distance from `newest`: 1 for the
    /// packet directly before it. `older` are the packets before `newest`, the newest first, with
    /// `None` for one that is no acknowledgement. Reads at most [`REACH`](Self::REACH) of them.
    #[must_use]
    pub fn superseded(
        self,
        newest: &Ack,
        older: impl IntoIterator<Item = Option<Ack>>,
    ) -> Option<u32> {
        if self == Self::Off {
            return None;
        }
        // The connection's acknowledgement directly behind the one inspected.
        let mut behind = *newest;
        // The distance of `behind`, if it may be dropped unless it repeats the one before it.
        let mut pending = None;
        let mut nearest = None;
        for (place, ack) in (1..).zip(older.into_iter().take(Self::REACH)) {
            let Some(ack) = &ack else { continue };
            if ack.connection != newest.connection {
                continue;
            }
            let is_superseded = supersedes(&behind, ack);
            if let Some(pending) = pending.take()
                && (is_superseded || !rules::repeats(&behind, ack))
            {
                if nearest.is_some() {
                    return Some(pending);
                }
                nearest = Some(pending);
            }
            pending = is_superseded.then_some(place);
            behind = *ack;
        }
        match (nearest, pending) {
            (Some(_), Some(_)) => pending,
            (Some(only), None) | (None, Some(only)) => {
                (self.keeps_one() && only == 1).then_some(only)
            }
            (None, None) => None,
        }
    }

    /// Applies [`superseded`](Self::superseded) to the queue of `flow`, whose newest packet is
    /// `packet` with the acknowledgement `ack`; returns the argument for
    /// [`FlowQueues::filter_out`]. `None` also if `packet` is not the newest there.
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

/// Returns the acknowledgement in `packet`, including a mark that an AQM has set since. Not
/// inlined, so that the parsed headers do not stay on the stack.
#[inline(never)]
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
