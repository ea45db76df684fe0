//! `Labels`: the numbers the schedulers see. `Labeller`: how they are made of a parsed packet.

mod labeller;

pub use labeller::{Labeller, Nat, NoNat};

use crate::{FlowHasher, FlowKey, mix};

/// One packet's flow and hosts as keyed hashes, from one parse.
///
/// A scheduler needs no more than these and never reads a packet. Three hashes cost three times
/// one: a caller that keeps a flow's hosts beside its queue takes [`FlowKey::label`] for every
/// packet, and the labels of [`FlowKey::src_host`] and [`FlowKey::dst_host`] only when the table
/// claims.
///
/// Numbers from elsewhere do as well: a network card's hash of the flow, identifiers of subscribers
/// or ports for hosts. What stands behind this crate needs two things of them: equal numbers mean
/// the same flow or host, and all 32 bits vary. So pass a number that is not a keyed hash through
/// [`mix`]. A host identifier that the caller knows by other means (the line a packet came in on)
/// cannot be forged by any address in the packet.
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
    /// The flow: all of the key.
    pub flow: u32,
    /// The source host: its address only.
    pub src_host: u32,
    /// The destination host: its address only.
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

    /// The ordered pair of hosts as one label, for CAKE's mode `hosts`.
    ///
    /// Mixing one side tells the two directions apart and keeps hosts that talk to themselves from
    /// sharing bits. With one host fixed, two pairs are equal only if their other labels are.
    #[inline]
    #[must_use]
    pub const fn host_pair(self) -> u32 {
        mix(self.src_host).wrapping_add(self.dst_host)
    }
}
