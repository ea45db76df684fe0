//! Labels: keyed hashes of a packet's flow and hosts, as used by schedulers.

mod labeller;

pub use labeller::{Labeller, Nat, NoNat};

use crate::{FlowHasher, FlowKey, mix};

/// Keyed hashes of one packet's flow and hosts, from one parse.
///
/// A scheduler needs no more than these and never reads a packet. Three hashes cost three times as
/// much as one: if you keep a flow's hosts with its queue, compute [`FlowKey::label`] for every
/// packet, and the labels of [`FlowKey::src_host`] and [`FlowKey::dst_host`] only when the table
/// claims a queue.
///
/// Other numbers work as well: a network card's hash of the flow, or identifiers of subscribers or
/// ports for hosts. Two properties are required: equal numbers mean the same flow or host, and all
/// 32 bits vary. So pass a number that is not a keyed hash through [`mix`]. A host identifier from
/// elsewhere, such as the port a packet arrived on, cannot be forged with addresses in the packet.
///
/// # Examples
///
/// ```
/// use flowhash::{FlowKey, Labels, SipHash13, Transport};
///
/// let hasher = SipHash13::new([42; 16]);
/// let key = |src_port| FlowKey::V4 {
///     src: [10, 0, 0, 1],
///     dst: [192, 0, 2, 1],
///     transport: Transport { protocol: 6, src_port, dst_port: 443 },
/// };
/// let (one, other) = (Labels::new(&key(5000), &hasher), Labels::new(&key(5001), &hasher));
/// assert_ne!(one.flow, other.flow);
/// assert_eq!(one.host_pair(), other.host_pair());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Labels {
    /// Label of the flow: hash of the whole key.
    pub flow: u32,
    /// Label of the source host: hash of its address only.
    pub src_host: u32,
    /// Label of the destination host: hash of its address only.
    pub dst_host: u32,
}

impl Labels {
    /// Hashes the flow and both hosts of `key`.
    #[inline]
    #[must_use]
    pub fn new<H: FlowHasher>(key: &FlowKey, hasher: &H) -> Self {
        Self {
            flow: key.label(hasher),
            src_host: key.src_host().label(hasher),
            dst_host: key.dst_host().label(hasher),
        }
    }

    /// Returns the ordered pair of hosts as one label, for CAKE's mode `hosts`.
    ///
    /// One side is mixed first, so that the two directions differ and a host that talks to itself
    /// does not cancel out. With one host fixed, two pairs are equal only if their other labels
    /// are.
    #[inline]
    #[must_use]
    pub const fn host_pair(self) -> u32 {
        mix(self.src_host).wrapping_add(self.dst_host)
    }
}
