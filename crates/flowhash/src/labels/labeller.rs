//! Labels of parsed packets, with address translation and tunnels.

use super::Labels;
use crate::{FlowHasher, FlowKey, HostKey, Parsed, mix};

/// Returns the addresses behind a network address translation (NAT).
///
/// A gateway that translates addresses queues packets on its outer side, where all hosts behind it
/// share one address. Its connection table knows the inner addresses; implement this trait with it.
///
/// Labels decide the queue, so answers decide the order of packets. A flow stays in order if and
/// only if all its packets get the same answer: it must depend on the key alone while packets with
/// the key are queued. Add a translation before the first packet of its flow is labelled, and
/// remove it after the last. If one appears in between, the flow changes its queue once, and its
/// packets may be reordered once. This is why the method takes `&self` and the key alone.
///
/// Keys of fragments have no ports. Translate them by address, all alike, or not at all.
pub trait Nat {
    /// Returns the key as seen on the inner side; `None` if it is the same there.
    ///
    /// For outgoing packets, source address and port are those of the inner host; for incoming
    /// packets, destination address and port. Protocols without ports have none to replace.
    fn inner(&self, key: &FlowKey) -> Option<FlowKey>;
}

impl<N: Nat + ?Sized> Nat for &N {
    #[inline]
    fn inner(&self, key: &FlowKey) -> Option<FlowKey> {
        (**self).inner(key)
    }
}

/// No translation: every address is that of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoNat;

impl Nat for NoNat {
    #[inline(always)]
    fn inner(&self, _key: &FlowKey) -> Option<FlowKey> {
        None
    }
}

/// Computes labels of parsed packets, with rules for tunnels and address translation.
///
/// If a tunnel was followed, the flow label combines the inner key with the two ends of the tunnel.
/// So no inner header can imitate a flow outside the tunnel: to share another sender's queue by
/// using the same addresses, a sender has to send from those addresses. All packets with equal
/// [`Parsed::key`] and [`Parsed::outer_key`] have equal labels, and therefore one queue.
///
/// The hosts are the ends of the outermost tunnel. Inner addresses are chosen by the sender: with
/// them, one sender could count as many hosts.
///
/// Cost: one hash for the flow and one per host; one call of the [`Nat`].
///
/// # Examples
///
/// ```
/// use flowhash::{FlowKey, HostKey, Labeller, Nat, SipHash13, parse};
///
/// /// One inner host behind 192.0.2.33.
/// struct OneHost;
///
/// impl Nat for OneHost {
///     fn inner(&self, key: &FlowKey) -> Option<FlowKey> {
///         match *key {
///             FlowKey::V4 { src: [192, 0, 2, 33], dst, transport } => {
///                 Some(FlowKey::V4 { src: [10, 0, 0, 7], dst, transport })
///             }
///             _ => None,
///         }
///     }
/// }
///
/// let packet = [
///     0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 33, 198, 51, 100, 7, //
///     0x13, 0x8c, 0, 53, 0, 8, 0, 0,
/// ];
/// let hasher = SipHash13::new([42; 16]);
/// let labeller = Labeller::new(hasher).with_nat(OneHost);
/// let labels = labeller.labels(&parse::ip(&packet));
/// assert_eq!(labels.src_host, HostKey::V4([10, 0, 0, 7]).label(&hasher));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Labeller<H, N = NoNat> {
    hasher: H,
    nat: N,
}

impl<H: FlowHasher> Labeller<H> {
    /// Creates a labeller with `hasher` and without translation.
    #[inline]
    #[must_use]
    pub fn new(hasher: H) -> Self {
        Self { hasher, nat: NoNat }
    }
}

impl<H: FlowHasher, N: Nat> Labeller<H, N> {
    /// Sets the translation. It is called with [`Parsed::outer_key`], because a gateway translates
    /// the outermost header.
    #[inline]
    #[must_use]
    pub fn with_nat<M: Nat>(self, nat: M) -> Labeller<H, M> {
        Labeller { hasher: self.hasher, nat }
    }

    /// Returns the labels of a packet, a function of its [`Parsed::key`] and [`Parsed::outer_key`]
    /// as long as the [`Nat`] is one.
    #[inline]
    #[must_use]
    pub fn labels(&self, parsed: &Parsed) -> Labels {
        self.outer(parsed, |outer| {
            let ends = self.ends(outer);
            let flow = match &parsed.inner {
                None => self.flow_of(outer),
                Some(_) => self.flow_between(&parsed.key, ends),
            };
            Labels { flow, ..ends }
        })
    }

    /// Returns the flow of [`labels`](Self::labels) only: one hash, or three for a packet in a
    /// tunnel.
    ///
    /// If you keep a flow's hosts with its queue, this is enough for most packets.
    #[inline]
    #[must_use]
    pub fn flow(&self, parsed: &Parsed) -> u32 {
        match &parsed.inner {
            None => self.outer(parsed, |outer| self.flow_of(outer)),
            Some(_) => self.flow_in_tunnel(parsed),
        }
    }

    /// [`Self::flow`] of a packet in a tunnel. Out of line, so that other packets do not pay for
    /// its registers.
    #[inline(never)]
    fn flow_in_tunnel(&self, parsed: &Parsed) -> u32 {
        self.outer(parsed, |outer| self.flow_between(&parsed.key, self.ends(outer)))
    }

    /// Returns the source host of [`labels`](Self::labels) only: one hash.
    #[inline]
    #[must_use]
    pub fn src_host(&self, parsed: &Parsed) -> u32 {
        self.src_key(parsed).label(&self.hasher)
    }

    /// Returns the destination host of [`labels`](Self::labels) only: one hash.
    #[inline]
    #[must_use]
    pub fn dst_host(&self, parsed: &Parsed) -> u32 {
        self.dst_key(parsed).label(&self.hasher)
    }

    /// Returns the key of the source host, after translation and before hashing.
    #[inline]
    #[must_use]
    pub fn src_key(&self, parsed: &Parsed) -> HostKey {
        self.outer(parsed, FlowKey::src_host)
    }

    /// Returns the key of the destination host, after translation and before hashing.
    #[inline]
    #[must_use]
    pub fn dst_key(&self, parsed: &Parsed) -> HostKey {
        self.outer(parsed, FlowKey::dst_host)
    }

    /// Returns the keyed hash function.
    #[inline]
    #[must_use]
    pub const fn hasher(&self) -> &H {
        &self.hasher
    }

    /// Calls `of` with the outermost key after translation. Copies the key only if it is
    /// translated.
    #[inline]
    fn outer<R>(&self, parsed: &Parsed, of: impl FnOnce(&FlowKey) -> R) -> R {
        let outer = parsed.outer_key();
        let translated = self.nat.inner(outer);
        of(translated.as_ref().unwrap_or(outer))
    }

    #[inline]
    fn ends(&self, outer: &FlowKey) -> Labels {
        Labels {
            flow: 0,
            src_host: outer.src_host().label(&self.hasher),
            dst_host: outer.dst_host().label(&self.hasher),
        }
    }

    /// Returns the flow label of `key` in a tunnel between the hosts of `ends`.
    #[inline(never)]
    fn flow_between(&self, key: &FlowKey, ends: Labels) -> u32 {
        // Sum of two keyed numbers. Mixed, so that a tunnel inside itself does not cancel its host
        // pair.
        mix(ends.host_pair()).wrapping_add(self.flow_of(key))
    }

    #[inline]
    fn flow_of(&self, key: &FlowKey) -> u32 {
        key.label(&self.hasher)
    }
}
