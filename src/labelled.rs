//! What a queue with hosts asks about a packet.

use flowhash::{FlowHasher, FlowKey, Labels};

/// A packet's flow and hosts as 32-bit labels, told when they are asked for.
///
/// The flow is asked for with every packet, the hosts when a flow becomes backlogged, or, where queues
/// are those of hosts, with every packet instead of the flow. The answers for one packet must not change.
///
/// Labels decide by all their bits: take keyed hashes ([`Labels`], [`OnDemand`]), or numbers of the
/// caller's (a port, a subscriber) spread by [`flowhash::mix`].
pub trait Labelled {
    /// The flow.
    fn flow(&self) -> u32;

    /// The host it comes from.
    fn source(&self) -> u32;

    /// The host it goes to.
    fn destination(&self) -> u32;

    /// The ordered pair of hosts.
    #[inline]
    fn host_pair(&self) -> u32 {
        let (flow, src_host, dst_host) = (0, self.source(), self.destination());
        Labels { flow, src_host, dst_host }.host_pair()
    }

    /// The quantum of the packet's host in bytes: its weight, against the quantum of the others. Asked
    /// for when the host becomes backlogged, in the modes that have a level of hosts. `None` is the
    /// quantum of the queue; what is out of range counts as the nearest that is not.
    #[inline]
    fn host_quantum(&self) -> Option<u32> {
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
/// sender writes as he likes: give it the packet's [`flowhash::Parsed::outer_key`], or take labels from a
/// [`flowhash::Labeller`].
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
