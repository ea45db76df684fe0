//! Flow keys and host keys: the identity of a packet's flow and of its hosts.
//!
//! Every input of the parser has a key, so every packet has a queue. Fairness is computed per key:
//! packets with equal keys are never reordered, and packets with different keys usually do not wait
//! for each other.
//!
//! | packet | addresses | protocol | ports |
//! |---|---|---|---|
//! | TCP, UDP, UDP-Lite, DCCP, SCTP | IP | number | both ports |
//! | ESP | IP | 50 | the SPI, high half then low half |
//! | ICMP, ICMPv6 echo | IP | 1, 58 | identifier; type · 256 + code |
//! | other ICMP, ICMPv6 | IP | 1, 58 | 0; type · 256 + code |
//! | any other protocol, IPv6 "no next header" | IP | number | 0, 0 |
//! | fragment of an IPv4 packet, including the first | IP | number | 0, 0 |
//! | fragment of an IPv6 packet, including the first | IP | 44 | 0, 0 |
//! | upper header truncated or malformed, too many extension headers | IP | where parsing stopped | 0, 0 |
//! | IPv6 without ports (the rows above with 0, 0), with a flow label | IP | as above | the flow label |
//! | tunnel that is followed | inner IP | inner | inner |
//! | no readable IP header in an Ethernet frame (ARP, LLDP, LLC without SNAP) | source MAC | – | – |
//! | nothing readable | – | – | – |
//!
//! Ethernet frames without a readable IP header are one flow per sending device, for all EtherTypes
//! and destinations, and all of them belong to one host. A host per MAC address would be unsafe: a
//! device that writes another source address into each frame would count as many hosts.
//!
//! VLAN tags, the traffic class and the IPv4 identification are not part of a key, because they
//! change within a flow. Unless a [`Parser`](crate::Parser) follows it, a tunnel is one flow. The
//! use of the IPv6 flow label is the default; [`FlowLabels`](crate::FlowLabels) has others.

use crate::FlowHasher;

/// Protocol and ports: the transport layer's part of a flow key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Transport {
    /// The IP protocol number of the upper-layer header.
    pub protocol: u8,
    /// Source port, or its replacement ([table](self)).
    pub src_port: u16,
    /// Destination port, or its replacement ([table](self)).
    pub dst_port: u16,
}

/// Identity of a flow. Directed: a reply has a different key than the packet it answers.
///
/// ```
/// use flowhash::{FlowKey, SipHash13, Transport};
///
/// let transport = Transport { protocol: 17, src_port: 5004, dst_port: 5006 };
/// let key = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport };
/// let hasher = SipHash13::new([42; 16]); // in production: bytes of a secure random source
/// assert_eq!(key.transport(), Some(transport));
/// assert_ne!(key.label(&hasher), FlowKey::Unknown.label(&hasher));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FlowKey {
    /// IPv4 packet.
    V4 {
        /// Source address.
        src: [u8; 4],
        /// Destination address.
        dst: [u8; 4],
        /// Protocol and ports.
        transport: Transport,
    },
    /// IPv6 packet.
    V6 {
        /// Source address.
        src: [u8; 16],
        /// Destination address.
        dst: [u8; 16],
        /// Protocol and ports.
        transport: Transport,
    },
    /// Ethernet frame without a readable IP header. All such frames of a device are one flow, so a
    /// device with many EtherTypes and destinations has no more flows than another.
    Ethernet {
        /// Source MAC address.
        src: [u8; 6],
    },
    /// Bytes without an address. All of them are one flow.
    Unknown,
}

impl FlowKey {
    /// Returns the bytes that are hashed, in network order: source, destination, protocol, source
    /// port, destination port.
    ///
    /// 13 bytes for IPv4, 37 for IPv6, 6 for Ethernet, none for `Unknown`. Every kind of key, host
    /// keys included, has its own length (except the empty ones), and SipHash includes the length,
    /// so no kind can imitate another, without a type byte.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> KeyBytes {
        KeyBytes(match *self {
            Self::V4 { src, dst, transport } => {
                let mut bytes = [0; 13];
                let rest = put(put(&mut bytes, src), dst);
                put(rest, transport.to_bytes());
                Repr::V4(bytes)
            }
            Self::V6 { src, dst, transport } => {
                let mut bytes = [0; 37];
                let rest = put(put(&mut bytes, src), dst);
                put(rest, transport.to_bytes());
                Repr::V6(bytes)
            }
            Self::Ethernet { src } => Repr::Ethernet(src),
            Self::Unknown => Repr::Unknown,
        })
    }

    /// Returns the flow's label: the keyed hash of [`to_bytes`](Self::to_bytes).
    #[inline]
    #[must_use]
    pub fn label<H: FlowHasher>(&self, hasher: &H) -> u32 {
        match self.to_bytes().0 {
            Repr::V4(bytes) => hasher.hash_array(&bytes),
            _ => self.label_of_other(hasher),
        }
    }

    /// [`Self::label`] for keys other than IPv4. Out of line, so that the code for IPv4 is small
    /// enough to be inlined.
    #[inline(never)]
    fn label_of_other<H: FlowHasher>(&self, hasher: &H) -> u32 {
        // One call per kind, so that each length is known at compile time.
        match self.to_bytes().0 {
            Repr::V4(bytes) => hasher.hash(&bytes),
            Repr::V6(bytes) => hasher.hash_array(&bytes),
            Repr::Ethernet(bytes) => hasher.hash(&bytes),
            Repr::Unknown => hasher.hash(&[]),
        }
    }

    /// Returns the host that sent the packet, independent of ports and protocol.
    #[inline]
    #[must_use]
    pub fn src_host(&self) -> HostKey {
        match *self {
            Self::V4 { src, .. } => HostKey::V4(src),
            Self::V6 { src, .. } => HostKey::V6(src),
            Self::Ethernet { .. } | Self::Unknown => HostKey::NotIp,
        }
    }

    /// Returns the host that the packet is sent to, independent of ports and protocol.
    #[inline]
    #[must_use]
    pub fn dst_host(&self) -> HostKey {
        match *self {
            Self::V4 { dst, .. } => HostKey::V4(dst),
            Self::V6 { dst, .. } => HostKey::V6(dst),
            Self::Ethernet { .. } | Self::Unknown => HostKey::NotIp,
        }
    }

    /// Returns protocol and ports; `None` without an IP header.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> Option<Transport> {
        match *self {
            Self::V4 { transport, .. } | Self::V6 { transport, .. } => Some(transport),
            Self::Ethernet { .. } | Self::Unknown => None,
        }
    }
}

impl Transport {
    #[inline]
    fn to_bytes(self) -> [u8; 5] {
        // Both ports as one word, which compilers load, byte-swap and store at once.
        let ports = u32::from(self.src_port) << 16 | u32::from(self.dst_port);
        let [s0, s1, d0, d1] = ports.to_be_bytes();
        [self.protocol, s0, s1, d0, d1]
    }

    /// Returns true if the protocol has source and destination ports: TCP, UDP, DCCP, SCTP and
    /// UDP-Lite.
    #[inline]
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(self.protocol, 6 | 17 | 33 | 132 | 136)
    }
}

/// Writes `field` to the front of `bytes` and returns the rest. For the constant sizes used here it
/// always fits, and compiles to plain stores.
#[inline]
fn put<const N: usize>(bytes: &mut [u8], field: [u8; N]) -> &mut [u8] {
    match bytes.split_first_chunk_mut::<N>() {
        Some((place, rest)) => {
            *place = field;
            rest
        }
        None => &mut [],
    }
}

/// Serialized [`FlowKey`]; read it through `AsRef<[u8]>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBytes(Repr);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repr {
    V4([u8; 13]),
    V6([u8; 37]),
    Ethernet([u8; 6]),
    Unknown,
}

impl AsRef<[u8]> for KeyBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Repr::V4(bytes) => bytes,
            Repr::V6(bytes) => bytes,
            Repr::Ethernet(bytes) => bytes,
            Repr::Unknown => &[],
        }
    }
}

/// Identity of a host, the same for source and destination: one address, unless a
/// [`HostMap`](crate::HostMap) combines several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HostKey {
    /// IPv4 address, or the first of a prefix.
    V4([u8; 4]),
    /// IPv6 address, all 128 bits, or the first of a prefix.
    V6([u8; 16]),
    /// No readable IP address. All such packets belong to one host; if several ports feed one
    /// queue, use the port number as a better label ([`Labels`](crate::Labels)).
    NotIp,
    /// MAC address: [`HostBy::Mac`](crate::HostBy::Mac).
    Mac([u8; 6]),
    /// Outer and inner VLAN, 0 if there is none: [`HostBy::Vlan`](crate::HostBy::Vlan).
    Vlan([u16; 2]),
    /// Number of a host list: [`HostMember`](crate::HostMember).
    Named(u16),
}

impl HostKey {
    /// Returns the bytes that are hashed: the address in network order, 4, 16 or 0 bytes; 7 for a
    /// MAC, 5 for VLANs, 3 for a list. Every kind has its own length.
    #[must_use]
    pub fn to_bytes(&self) -> HostBytes {
        HostBytes(
            *self,
            match *self {
                Self::Mac([a, b, c, d, e, f]) => [a, b, c, d, e, f, 0],
                Self::Vlan([outer, inner]) => {
                    let ([a, b], [c, d]) = (outer.to_be_bytes(), inner.to_be_bytes());
                    [a, b, c, d, 0, 0, 0]
                }
                Self::Named(number) => {
                    let [a, b] = number.to_be_bytes();
                    [a, b, 0, 0, 0, 0, 0]
                }
                Self::V4(_) | Self::V6(_) | Self::NotIp => [0; 7],
            },
        )
    }

    /// Returns the host's label: the keyed hash of [`to_bytes`](Self::to_bytes).
    #[inline]
    #[must_use]
    pub fn label<H: FlowHasher>(&self, hasher: &H) -> u32 {
        match self {
            Self::V4(address) => hasher.hash_array(address),
            Self::V6(address) => hasher.hash_array(address),
            Self::NotIp => hasher.hash(&[]),
            Self::Mac(_) | Self::Vlan(_) | Self::Named(_) => self.label_of_no_address(hasher),
        }
    }

    #[inline(never)]
    fn label_of_no_address<H: FlowHasher>(&self, hasher: &H) -> u32 {
        hasher.hash(self.to_bytes().as_ref())
    }
}

/// Serialized [`HostKey`]; read it through `AsRef<[u8]>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBytes(HostKey, [u8; 7]);

impl AsRef<[u8]> for HostBytes {
    fn as_ref(&self) -> &[u8] {
        let first = |len: usize| self.1.get(..len).unwrap_or(&[]);
        match &self.0 {
            HostKey::V4(address) => address,
            HostKey::V6(address) => address,
            HostKey::NotIp => &[],
            HostKey::Mac(_) => &self.1,
            HostKey::Vlan(_) => first(5),
            HostKey::Named(_) => first(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSPORT: Transport = Transport { protocol: 17, src_port: 0x1234, dst_port: 53 };

    #[test]
    fn an_ipv4_key_is_its_thirteen_bytes_in_network_order() {
        let key = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 7], transport: TRANSPORT };
        assert_eq!(
            key.to_bytes().as_ref(),
            [10, 0, 0, 1, 192, 0, 2, 7, 17, 0x12, 0x34, 0, 53].as_slice()
        );
    }

    #[test]
    fn an_ipv6_key_is_its_thirty_seven_bytes_in_network_order() {
        let src = core::array::from_fn(|i| i as u8 + 1);
        let dst = core::array::from_fn(|i| i as u8 + 101);
        let bytes = FlowKey::V6 { src, dst, transport: TRANSPORT }.to_bytes();
        let (addresses, rest) = bytes.as_ref().split_at(32);
        assert_eq!(addresses, [src, dst].as_flattened());
        assert_eq!(rest, [17, 0x12, 0x34, 0, 53].as_slice());
    }

    #[test]
    fn an_ethernet_key_is_its_six_bytes_and_an_unknown_key_none() {
        let bytes = FlowKey::Ethernet { src: [2, 0, 0, 0, 0, 7] }.to_bytes();
        assert_eq!(bytes.as_ref(), [2, 0, 0, 0, 0, 7].as_slice());
        assert_eq!(FlowKey::Unknown.to_bytes().as_ref(), [].as_slice());
    }

    /// Goal: every kind of key, hosts included, has the label of its bytes. Method: compare with
    /// the hash of the serialized form, which the tests above check.
    #[test]
    fn a_label_is_the_hash_of_the_bytes() {
        let hasher = crate::SipHash13::new([5; 16]);
        let transport = TRANSPORT;
        for key in [
            FlowKey::V4 { src: [1; 4], dst: [2; 4], transport },
            FlowKey::V6 { src: [1; 16], dst: [2; 16], transport },
            FlowKey::Ethernet { src: [1; 6] },
            FlowKey::Unknown,
        ] {
            assert_eq!(key.label(&hasher), hasher.hash(key.to_bytes().as_ref()));
            let others = [HostKey::Mac([7; 6]), HostKey::Vlan([7, 8]), HostKey::Named(7)];
            for host in [key.src_host(), key.dst_host()].into_iter().chain(others) {
                assert_eq!(host.label(&hasher), hasher.hash(host.to_bytes().as_ref()));
            }
        }
    }

    #[test]
    fn no_two_kinds_of_key_share_a_length() {
        let flows = [
            FlowKey::V4 { src: [0; 4], dst: [0; 4], transport: TRANSPORT },
            FlowKey::V6 { src: [0; 16], dst: [0; 16], transport: TRANSPORT },
        ];
        let mut lengths = std::vec::Vec::new();
        for flow in flows {
            lengths.push(flow.to_bytes().as_ref().len());
            lengths.push(flow.src_host().to_bytes().as_ref().len());
            assert_eq!(flow.src_host(), flow.dst_host());
        }
        lengths.push(FlowKey::Ethernet { src: [0; 6] }.to_bytes().as_ref().len());
        for host in [HostKey::Mac([0; 6]), HostKey::Vlan([0; 2]), HostKey::Named(0)] {
            lengths.push(host.to_bytes().as_ref().len());
        }
        lengths.sort_unstable();
        assert_eq!(lengths, [3, 4, 5, 6, 7, 13, 16, 37]);
        assert!(FlowKey::Unknown.to_bytes().as_ref().is_empty());
        assert!(FlowKey::Unknown.dst_host().to_bytes().as_ref().is_empty());
    }
}
