//! Labels: flow, hosts and tin of a packet, as a queue with hosts needs them.

mod identified;
mod in_tin;

use flowhash::{FlowHasher, FlowKey, Labels};

use crate::HostTerms;

pub use identified::Identified;
pub use in_tin::InTin;

/// A packet's flow and hosts as 32-bit labels, computed on demand.
///
/// The flow is queried for every packet, the hosts only when a flow becomes backlogged; in the
/// modes with one queue per host, the hosts are queried for every packet instead of the flow. The
/// answers for one packet must not change.
///
/// All bits of a label matter: use keyed hashes ([`Labels`], [`OnDemand`]), or your own numbers (a
/// port, a subscriber) spread with [`flowhash::mix`].
///
/// An example with subscribers known by number, each with a weight:
///
/// ```
/// use freeboard::flowhash::mix;
/// use freeboard::sched_core::{Nanos, Packet};
/// use freeboard::shaper::Rate;
/// use freeboard::{HostTerms, Labelled, SmartQueue};
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
///     fn host_terms(&self) -> HostTerms {
///         let quantum = Some(self.weight * 1_522); // of the longest frame
///         HostTerms { quantum, ..HostTerms::default() }
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
    /// Returns the label of the flow.
    fn flow(&self) -> u32;

    /// Returns the label of the source host.
    fn source(&self) -> u32;

    /// Returns the label of the destination host.
    fn destination(&self) -> u32;

    /// Returns the label of the ordered pair of hosts.
    #[inline]
    fn host_pair(&self) -> u32 {
        let (flow, src_host, dst_host) = (0, self.source(), self.destination());
        Labels { flow, src_host, dst_host }.host_pair()
    }

    /// Returns the tin of the packet. Queried for every packet if there are several tins
    /// ([`Isolated::set_tins`](crate::Isolated::set_tins)). A tin number out of range counts as tin
    /// 0. [`InTin`] adds a tin to any labels.
    #[inline]
    fn tin(&self) -> u8 {
        0
    }

    /// Returns the weight, rate and ceiling of the packet's host. Queried when the host becomes
    /// backlogged, in the modes with a level of hosts; rate and ceiling are used only if the tables
    /// have [rates](crate::IsolatedMemory::with_rates).
    #[inline]
    fn host_terms(&self) -> HostTerms {
        HostTerms::default()
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

/// A flow key whose labels are hashed on demand: one hash for most packets.
///
/// Hosts are those of the key. With a parser that looks into tunnels these are inner addresses,
/// which the sender can choose freely; [`Identified`] handles that.
#[derive(Clone, Copy, Debug)]
pub struct OnDemand<'a, H> {
    /// The flow key of the packet.
    pub key: &'a FlowKey,
    /// The keyed hash, equal for all packets of a queue.
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
    use sched_core::TokenBucket;

    /// Labels with distinct answers to all queries, derived from `own`.
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

        fn host_terms(&self) -> HostTerms {
            let bucket = |rate: u32| TokenBucket::new(u64::from(self.own * rate), 3_000).ok();
            let (committed_rate, ceiling) = (bucket(1_000), bucket(2_000));
            HostTerms { quantum: Some(self.own + 4), committed_rate, ceiling }
        }
    }

    /// Goal: labels in a tin answer what the labels inside answer, except for the tin.
    #[test]
    fn labels_in_a_tin_answer_everything() {
        let inside = Particular { own: 20 };
        let within = InTin { labels: Particular { own: 20 }, tin: 3 };
        assert_eq!((inside.tin(), within.tin()), (5, 3));
        assert_eq!(within.flow(), inside.flow());
        assert_eq!(within.source(), inside.source());
        assert_eq!(within.destination(), inside.destination());
        assert_eq!(within.host_pair(), inside.host_pair());
        let terms = inside.host_terms();
        assert!(terms.committed_rate.is_some() && terms.ceiling.is_some());
        assert_eq!(within.host_terms(), terms);
    }
}
