//! The hash network cards compute for receive-side scaling.

use crate::FlowKey;

/// The Toeplitz hash of receive-side scaling, under a key of `N` bytes, 40 by default.
///
/// With it a program computes what the card has computed, or would: to steer packets to the core
/// that has their flow's state, and to test that a card's number is the flow's. Source: Microsoft's
/// definition of RSS hashing, whose published vectors check this code.
///
/// The Toeplitz hash is no [`FlowHasher`](crate::FlowHasher) on purpose. It is linear over xor, and cards often
/// come with a key that is published: then an attacker chooses which flows collide. A card's number is
/// safe to use as a flow's label ([`Labels::from_parts`](crate::Labels::from_parts), through
/// [`mix`](crate::mix)) as far as its key is secret and its values are not seen.
///
/// Cost: eight masked xors for a byte, whatever its value; no table.
///
/// # Examples
///
/// ```
/// use flowhash::{FlowKey, Toeplitz, Transport};
///
/// let card = Toeplitz::new(Toeplitz::MICROSOFT);
/// let key = FlowKey::V4 {
///     src: [66, 9, 149, 187],
///     dst: [161, 142, 100, 80],
///     transport: Transport { protocol: 6, src_port: 2794, dst_port: 1766 },
/// };
/// assert_eq!(card.addresses_and_ports(&key), Some(0x51cc_c178));
/// assert_eq!(card.addresses(&key), Some(0x323e_8fc2));
/// ```
#[derive(Clone, Copy)]
pub struct Toeplitz<const N: usize = 40> {
    key: [u8; N],
}

impl Toeplitz {
    /// The key of the published vectors, which many drivers set by default. It is public.
    pub const MICROSOFT: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
}

impl<const N: usize> Toeplitz<N> {
    /// The hash under `key`, which must be longer than four bytes, and 40 for IPv6 with ports.
    #[inline]
    #[must_use]
    pub const fn new(key: [u8; N]) -> Self {
        const { assert!(N > 4, "a key of four bytes hashes nothing") };
        Self { key }
    }

    /// The hash of the first `N − 4` bytes of `input`; what is beyond does not count.
    #[inline]
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.over(input.iter().copied())
    }

    #[inline(always)]
    fn over(&self, input: impl Iterator<Item = u8>) -> u32 {
        // Bit i of the input, if set, adds the 32 bits of the key that begin at its bit i.
        let add = |hash, (byte, &[a, b, c, d, e]): (u8, &[u8; 5])| {
            let window = u64::from_be_bytes([a, b, c, d, e, 0, 0, 0]);
            (0..8).fold(hash, |hash, bit| {
                let [w0, w1, w2, w3, ..] = (window << bit).to_be_bytes();
                let is_set = u32::from(byte >> (7 - bit) & 1);
                hash ^ (u32::from_be_bytes([w0, w1, w2, w3]) & 0_u32.wrapping_sub(is_set))
            })
        };
        let windows = self.key.windows(5).filter_map(<[u8]>::first_chunk::<5>);
        input.zip(windows).fold(0, add)
    }

    /// The hash of source and destination address: what a card computes for a fragment, and for
    /// protocols whose ports it does not hash. `None` for keys without IP addresses.
    #[inline]
    #[must_use]
    pub fn addresses(&self, key: &FlowKey) -> Option<u32> {
        match key {
            FlowKey::V4 { src, dst, .. } => Some(self.hash([*src, *dst].as_flattened())),
            FlowKey::V6 { src, dst, .. } => Some(self.hash([*src, *dst].as_flattened())),
            FlowKey::Ethernet { .. } | FlowKey::Unknown => None,
        }
    }

    /// The hash of source and destination address, source and destination port: what a card computes
    /// for the protocols whose ports it hashes. `None` for keys whose protocol has none
    /// ([`Transport::has_ports`](crate::Transport::has_ports)). The protocol itself is not hashed.
    #[inline]
    #[must_use]
    pub fn addresses_and_ports(&self, key: &FlowKey) -> Option<u32> {
        let transport = key.transport().filter(|transport| transport.has_ports())?;
        let ports = [transport.src_port.to_be_bytes(), transport.dst_port.to_be_bytes()];
        let ports = ports.as_flattened().iter();
        match key {
            FlowKey::V4 { src, dst, .. } => {
                Some(self.over(src.iter().chain(dst).chain(ports).copied()))
            }
            FlowKey::V6 { src, dst, .. } => {
                Some(self.over(src.iter().chain(dst).chain(ports).copied()))
            }
            FlowKey::Ethernet { .. } | FlowKey::Unknown => None,
        }
    }
}

/// Names the function and hides the key.
impl<const N: usize> core::fmt::Debug for Toeplitz<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Toeplitz<{N}> {{ .. }}")
    }
}
