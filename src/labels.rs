//! What a queue with hosts asks about a packet.

mod identified;
mod in_tin;

use flowhash::{FlowHasher, FlowKey, Labels};
use sched_core::TokenBucket;

pub use identified::Identified;
pub use in_tin::InTin;

/// A packet's flow and hosts as 32-bit labels, told when they are asked for.
///
/// The flow is asked for with every packet, the hosts when a flow becomes backlogged, or, where queues
/// are those of hosts, with every packet instead of the flow. The answers for one packet must not change.
///
/// Labels decide by all their bits: take keyed hashes ([`Labels`], [`OnDemand`]), or numbers of the
/// caller's (a port, a subscriber) spread by [`flowhash::mix`].
///
/// Labels of subscribers that the caller knows by number, each with a weight:
///
/// ```
/// use freeboard::flowhash::mix;
/// use freeboard::sched_core::{Nanos, Packet};
/// use freeboard::shaper::Rate;
/// use freeboard::{Labelled, SmartQueue};
///
/// struct OfSubscriber {
///     subscriber: u32,
///     connection: u32,
///     weight: u32,
/// }
///
/// impl Labelled for OfSubscriber {
///     fn flow(&self) -> u32 {
///         mix(self.connection)
///     }
///     fn source(&self) -> u32 {
///         mix(self.subscriber)
///     }
///     fn destination(&self) -> u32 {
///         0
///     }
///     fn host_quantum(&self) -> Option<u32> {
///         Some(self.weight * 1_522) // of the longest frame
///     }
/// }
///
/// let mut queue = SmartQueue::upload(Rate::UNLIMITED).buffers(64).descriptors()?;
/// let drops = &mut |packet: Packet, _why| println!("buffer {} is free again", packet.handle);
/// for handle in 0..40 {
///     let (subscriber, weight) = if handle < 20 { (1, 1) } else { (2, 3) };
///     let labels = OfSubscriber { subscriber, connection: subscriber, weight };
///     queue.enqueue(Nanos(0), &labels, Packet::new(handle, 1_514), drops)?;
/// }
/// let sent = (0..16).filter_map(|_| queue.dequeue(Nanos(0), drops));
/// let sent: Vec<u32> = sent.map(|packet| packet.handle).collect();
/// let of_first = sent.iter().filter(|&&handle| handle < 20).count();
/// assert!((4..=5).contains(&of_first), "a quarter, and a packet at first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Labelled {
    /// The flow.
    fn flow(&self) -> u32;

    /// The host that the packet comes from.
    fn source(&self) -> u32;

    /// The host that the packet goes to.
    fn destination(&self) -> u32;

    /// The ordered pair of hosts.
    #[inline]
    fn host_pair(&self) -> u32 {
        let (flow, src_host, dst_host) = (0, self.source(), self.destination());
        Labels { flow, src_host, dst_host }.host_pair()
    }

    /// The tin that the packet is in, asked for with every packet where there are several
    /// ([`Isolated::set_tins`](crate::Isolated::set_tins)). A tin that there is not is tin 0. [`InTin`] gives a tin to any labels.
    #[inline]
    fn tin(&self) -> u8 {
        0
    }

    /// The quantum of the packet's host in bytes: its weight, against the quantum of the others.
    /// Asked for when the host becomes backlogged, in the modes that have a level of hosts. `None`
    /// is the quantum of the queue. A quantum out of range counts as the nearest one in range: the
    /// longest packet at least. [`Isolated::host_quantum`](crate::Isolated::host_quantum) returns
    /// the value in force.
    #[inline]
    fn host_quantum(&self) -> Option<u32> {
        None
    }

    /// The committed rate of the packet's host: above it the host is served while no other conforms
    /// to its own or has none ([`TokenBucket`]). Asked for as the
    /// quantum is; in the other modes, and without [room](crate::IsolatedMemory::with_rates), it
    /// has no effect. A burst below the longest packet counts as one of the longest packet. A host
    /// that comes back to its entry has the bucket that it left. Until the bucket is full, other
    /// hosts claim the entry last: only if every other way of the set is taken and no host of their
    /// tin has an entry there. Any other host begins with a full bucket, and so does a host whose
    /// label has another key since. Hosts that share an entry share the rate of the first. Where
    /// there are several tins, the rate holds over all of them together, and what is in excess of
    /// it is served after all tins.
    #[inline]
    fn host_committed_rate(&self) -> Option<TokenBucket> {
        None
    }

    /// The ceiling of the packet's host: above it the host is not served, even if the line is idle
    /// ([`TokenBucket`]). It holds over all tins together. Everything else as for
    /// [`Labelled::host_committed_rate`].
    #[inline]
    fn host_ceiling(&self) -> Option<TokenBucket> {
        None
    }
}

impl Labelled for Labels {
    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn source(&self) -> u32 {
        self.src_host
    }

    #[inline]
    fn destination(&self) -> u32 {
        self.dst_host
    }
}

/// A key whose labels are hashed when they are asked for: one hash for most packets.
///
/// Hosts are those of the key. Behind a parser that follows tunnels they are inner addresses, which the
/// sender writes as it likes: [`Identified`] knows whose hosts count.
#[derive(Clone, Copy, Debug)]
pub struct OnDemand<'a, H> {
    /// What the packet is.
    pub key: &'a FlowKey,
    /// The keyed hash, the same for all packets of a queue.
    pub hasher: &'a H,
}

impl<H: FlowHasher> Labelled for OnDemand<'_, H> {
    #[inline]
    fn flow(&self) -> u32 {
        self.key.label(self.hasher)
    }

    #[inline]
    fn source(&self) -> u32 {
        self.key.src_host().label(self.hasher)
    }

    #[inline]
    fn destination(&self) -> u32 {
        self.key.dst_host().label(self.hasher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers everything in a way of its own, told by `own`.
    struct Particular {
        own: u32,
    }

    impl Labelled for Particular {
        fn flow(&self) -> u32 {
            self.own
        }

        fn source(&self) -> u32 {
            self.own + 1
        }

        fn destination(&self) -> u32 {
            self.own + 2
        }

        fn host_pair(&self) -> u32 {
            self.own + 3
        }

        fn tin(&self) -> u8 {
            5
        }

        fn host_quantum(&self) -> Option<u32> {
            Some(self.own + 4)
        }

        fn host_committed_rate(&self) -> Option<TokenBucket> {
            TokenBucket::new(u64::from(self.own) * 1_000, 3_000).ok()
        }

        fn host_ceiling(&self) -> Option<TokenBucket> {
            TokenBucket::new(u64::from(self.own) * 2_000, 3_000).ok()
        }
    }

    /// Goal: labels in a tin answer what the labels inside answer, but for the tin.
    #[test]
    fn labels_in_a_tin_answer_everything() {
        let inside = Particular { own: 20 };
        let within = InTin { labels: Particular { own: 20 }, tin: 3 };
        assert_eq!((inside.tin(), within.tin()), (5, 3));
        assert_eq!(within.flow(), inside.flow());
        assert_eq!(within.source(), inside.source());
        assert_eq!(within.destination(), inside.destination());
        assert_eq!(within.host_pair(), inside.host_pair());
        assert_eq!(within.host_quantum(), inside.host_quantum());
        assert!(inside.host_committed_rate().is_some() && inside.host_ceiling().is_some());
        assert_eq!(within.host_committed_rate(), inside.host_committed_rate());
        assert_eq!(within.host_ceiling(), inside.host_ceiling());
    }
}
