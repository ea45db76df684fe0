//! From a parsed packet to labels: whose addresses count.

use super::Labels;
use crate::{FlowHasher, FlowKey, HostKey, Parsed, mix};

/// Knows the addresses behind a translation.
///
/// A gateway that translates addresses queues packets on its outer side, where all hosts behind it
/// have one address. It knows the others: its table of connections answers here.
///
/// Labels decide the queue, so an answer decides order. A flow stays in order if and only if its
/// packets get one answer: it must be a function of the key alone for as long as packets of the key
/// are queued. A translation is entered before the first packet of its flow is labelled, and
/// removed after the last. If one appears in the middle the flow changes its queue once, and its
/// packets may leave out of order once. The trait takes `&self` and the key alone for that reason:
/// two packets of one key cannot be told apart.
///
/// Keys of fragments have no ports. Answer them by the addresses, alike for all, or not at all.
pub trait Nat {
    /// The key as it would be on the side of the inner hosts; `None` if it is the same there.
    ///
    /// For a packet on its way out, source address and port are the inner host's; on its way in,
    /// destination address and port. Protocols without ports have none to replace.
    fn inner(&self, key: &FlowKey) -> Option<FlowKey>;
}

impl<N: Nat + ?Sized> Nat for &N {
    #[inline]
    fn inner(&self, key: &FlowKey) -> Option<FlowKey> {
        (**self).inner(key)
    }
}

/// No translation: every address is the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoNat;

impl Nat for NoNat {
    #[inline(always)]
    fn inner(&self, _key: &FlowKey) -> Option<FlowKey> {
        None
    }
}

/// Makes labels of parsed packets: the hash and the rules that go with it, in one place.
///
/// Where a tunnel was followed, the flow of the packet is its inner key and the tunnel's ends. So
/// no inner header imitates a flow outside: to share another sender's queue by equal addresses, a
/// sender has to send from these addresses. All packets with equal [`Parsed::key`] and
/// [`Parsed::outer_key`] have equal labels, and so one queue.
///
/// Its hosts are the ends of the outermost tunnel. An inner address is the sender's word: with it
/// the sender would be as many hosts as it likes.
///
/// Cost: a hash for the flow and one for each host; one question to the [`Nat`].
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
    /// Labels by `hasher`, without translation.
    #[inline]
    #[must_use]
    pub fn new(hasher: H) -> Self {
        Self { hasher, nat: NoNat }
    }
}

impl<H: FlowHasher, N: Nat> Labeller<H, N> {
    /// The same with a translation. It is asked about [`Parsed::outer_key`]: what a gateway
    /// translates is the outermost header.
    #[inline]
    #[must_use]
    pub fn with_nat<M: Nat>(self, nat: M) -> Labeller<H, M> {
        Labeller { hasher: self.hasher, nat }
    }

    /// The labels of a packet: a function of its [`Parsed::key`] and [`Parsed::outer_key`], as long
    /// as the [`Nat`] is one.
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

    /// The flow of [`labels`](Self::labels) alone: one hash, and the two of the ends for a packet
    /// in a tunnel. A caller that keeps a flow's hosts beside its queue needs no more for most
    /// packets.
    #[inline]
    #[must_use]
    pub fn flow(&self, parsed: &Parsed) -> u32 {
        match &parsed.inner {
            None => self.outer(parsed, |outer| self.flow_of(outer)),
            Some(_) => self.flow_in_tunnel(parsed),
        }
    }

    /// [`Self::flow`] of a packet in a tunnel. Apart, so that the others do not pay for its
    /// registers.
    #[inline(never)]
    fn flow_in_tunnel(&self, parsed: &Parsed) -> u32 {
        self.outer(parsed, |outer| self.flow_between(&parsed.key, self.ends(outer)))
    }

    /// The source host of [`labels`](Self::labels) alone: one hash.
    #[inline]
    #[must_use]
    pub fn src_host(&self, parsed: &Parsed) -> u32 {
        self.src_key(parsed).label(&self.hasher)
    }

    /// The destination host of [`labels`](Self::labels) alone: one hash.
    #[inline]
    #[must_use]
    pub fn dst_host(&self, parsed: &Parsed) -> u32 {
        self.dst_key(parsed).label(&self.hasher)
    }

    /// The source host that counts, before it is hashed: translated.
    #[inline]
    #[must_use]
    pub fn src_key(&self, parsed: &Parsed) -> HostKey {
        self.outer(parsed, FlowKey::src_host)
    }

    /// The destination host that counts, before it is hashed.
    #[inline]
    #[must_use]
    pub fn dst_key(&self, parsed: &Parsed) -> HostKey {
        self.outer(parsed, FlowKey::dst_host)
    }

    /// The keyed hash.
    #[inline]
    #[must_use]
    pub const fn hasher(&self) -> &H {
        &self.hasher
    }

    /// What `of` says of the outermost key, translated. The key is copied only where it is
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

    /// The flow of `key` between the hosts of `ends`.
    #[inline(never)]
    fn flow_between(&self, key: &FlowKey, ends: Labels) -> u32 {
        // The sum of two keyed numbers; mixed, or the host pair of a tunnel in itself would cancel.
        mix(ends.host_pair()).wrapping_add(self.flow_of(key))
    }

    #[inline]
    fn flow_of(&self, key: &FlowKey) -> u32 {
        key.label(&self.hasher)
    }
}
