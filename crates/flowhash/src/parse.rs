//! Parser: reads a flow key from the bytes of a packet. The only part that reads packets, and
//! total.
//!
//! Every sequence of bytes has exactly one result, and parsing stops after at most [`MAX_HEADERS`]
//! headers, whatever the packet contains. A malformed packet is not an error here: it gets a key
//! like every other packet, so that it has a queue and its sender a share, and [`Ending`] reports
//! where parsing stopped. Whether to drop such packets is up to the program that forwards them.
//!
//! [`ethernet`] and [`ip`] read the outermost IP header, also after VLAN tags, PPPoE, and LLC with
//! SNAP. A [`Parser`] also reads the contents of the tunnels in its [`Tunnels`]:
//!
//! | packet | key by default of a [`Parser`] | key otherwise |
//! |---|---|---|
//! | PPPoE session (RFC 2516), with a protocol number of one or two bytes | the IP packet's: PPPoE is a link, like a VLAN | MACs, EtherType 0x8864 |
//! | LLC and SNAP (RFC 1042) in place of an EtherType | the IP packet's | – |
//! | IPv4 or IPv6 in IPv4 or IPv6: protocols 4 and 41 (RFC 2003, 4213, 2473) | inner | outer |
//! | GRE with or without checksum and key (RFC 2784, 2890) | inner | outer |
//! | GRE with sequence numbers | outer: its receiver drops reordered packets (RFC 2890 §2.2) | inner with [`Tunnels::SEQUENCED_GRE`] |
//! | GRE version 1 (PPTP, RFC 2637), with routing (RFC 1701), or with other payloads | outer | – |
//! | VXLAN: UDP port 4789 (RFC 7348) | outer: its source port is a hash of the inner flow (§5) | inner with [`Tunnels::VXLAN`] |
//! | ESP (RFC 4303) | outer with the SPI: opaque | – |
//! | WireGuard, IPsec or QUIC over UDP | outer with its ports: opaque, a tunnel is one flow | – |
//! | MPLS, PPPoE discovery, Geneve, GTP-U, L2TP, Teredo | outer: not recognized | – |
//!
//! If a tunnel is followed, [`Parsed::ip`] is the outermost IP header. Its DSCP and ECN count, and
//! only it may be marked: routers see no other, and the end of the tunnel copies a mark inward (RFC
//! 6040 §4.2). [`Parsed::inner`] is the header that the key was read from.
//!
//! Only what the key needs is validated, so no checksums and no options. Address translation is
//! done elsewhere ([`Nat`](crate::Nat)).

mod ip;
mod link;
mod options;
mod plain;
mod tunnel;

use crate::FlowKey;
pub use link::{LinkEnd, LinkHeader, vlan_priority};
pub use options::{FlowLabels, Parser, Tunnels};

use ip::Layer;
use link::{EthernetHeader, Network, Payload};

/// Maximum number of VLAN tags; with more, the EtherType counts as unknown. 802.1ad uses two,
/// provider backbones with one more on either side four.
pub const MAX_VLAN_TAGS: usize = 4;

/// Maximum number of extension headers; after more, the upper-layer header counts as unreachable.
/// The longest chain recommended by RFC 8200 §4.1 has seven; RFC 8883 expects nodes with such a
/// limit.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// Maximum number of nested tunnels that are followed: the default of the limit by which an IPv6
/// packet can bound its own nesting (RFC 2473 §6.6).
pub const MAX_TUNNELS: usize = 4;

/// An Ethernet header, its tags, and PPPoE or SNAP.
const LINK: usize = 1 + MAX_VLAN_TAGS + 1;
/// An IP header and its extensions.
const NETWORK: usize = 1 + MAX_EXTENSION_HEADERS;

/// Maximum number of headers that a [`Parser`] reads in one packet.
///
/// Link, network and upper layer come first; [`ethernet`] and [`ip`] read no more. Each tunnel that
/// is followed adds its own header and all three layers.
pub const MAX_HEADERS: usize = LINK + NETWORK + 1 + MAX_TUNNELS * (1 + LINK + NETWORK + 1);

/// Result of parsing one packet.
///
/// ```
/// use flowhash::{Ending, FlowKey, parse};
///
/// // UDP from 10.0.0.1 port 5004 to 192.0.2.1 port 5006, without payload.
/// let parsed = parse::ip(&[
///     0x45, 0xb8, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1, //
///     0x13, 0x8c, 0x13, 0x8e, 0, 8, 0, 0,
/// ]);
/// assert!(matches!(parsed.key, FlowKey::V4 { src: [10, 0, 0, 1], .. }));
/// assert_eq!((parsed.ending, parsed.inner), (Ending::Ports, None));
///
/// // Bytes that are not a packet have a key too.
/// assert_eq!(parse::ip(b"?").key, FlowKey::Unknown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Parsed {
    /// Flow key of the innermost header that was read; always defined ([table](crate::key)).
    pub key: FlowKey,
    /// Outermost IP header, if one was read: the one that routers process and may mark.
    pub ip: Option<Ip>,
    /// Innermost IP header, if a tunnel was followed.
    pub inner: Option<Inner>,
    /// Where parsing stopped.
    pub ending: Ending,
}

/// Innermost header of a packet whose tunnels were followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Inner {
    /// IP header that [`Parsed::key`] and [`Parsed::ending`] refer to.
    pub ip: Ip,
    /// Key of the outermost header: between the ends of the outermost tunnel.
    pub outer: FlowKey,
    /// Number of tunnels followed, from 1 to [`MAX_TUNNELS`].
    pub depth: u8,
}

impl Inner {
    /// Creates an inner header after `depth` tunnels, for a parser of other protocols or a test.
    #[must_use]
    pub const fn new(ip: Ip, outer: FlowKey, depth: u8) -> Self {
        Self { ip, outer, depth }
    }
}

impl Parsed {
    /// Creates a result from its parts, for a parser of other protocols or a test.
    #[must_use]
    pub const fn new(key: FlowKey, ip: Option<Ip>, inner: Option<Inner>, ending: Ending) -> Self {
        Self { key, ip, inner, ending }
    }

    /// Returns the key of the outermost header: [`key`](Self::key) unless a tunnel was followed.
    ///
    /// Routers on the path have seen its addresses and may have checked them. Everything further in
    /// was chosen by the sender.
    #[inline]
    #[must_use]
    pub const fn outer_key(&self) -> &FlowKey {
        match &self.inner {
            Some(inner) => &inner.outer,
            None => &self.key,
        }
    }

    /// Returns the differentiated services code point (DSCP) for classifying the packet, 0 to 63.
    ///
    /// It is that of the outermost IP header. ARP counts as CS7, network control (RFC 4594 §3.1),
    /// and everything else as 0, the default.
    ///
    /// ```
    /// use flowhash::parse;
    ///
    /// let mut frame = [0; 60];
    /// assert_eq!(parse::ethernet(&frame).dscp(), 0);
    /// frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 46 << 2]);
    /// assert_eq!(parse::ethernet(&frame).dscp(), 46);
    /// frame[12..14].copy_from_slice(&[0x08, 0x06]);
    /// assert_eq!(parse::ethernet(&frame).dscp(), 56);
    /// ```
    #[inline]
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        match (&self.ip, self.ending) {
            (Some(ip), _) => ip.dscp(),
            (None, Ending::Arp) => 56,
            (None, _) => 0,
        }
    }
}

/// An IP header: position and traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Ip {
    /// Bytes before the IP header.
    pub offset: usize,
    /// Byte with DSCP and ECN (RFC 2474 §3, RFC 3168 §5).
    pub traffic_class: u8,
    /// Bytes before the upper-layer header; for an outer header, before that of the tunnel.
    /// Meaningful for [`Ending::Ports`] and [`Ending::NoPorts`], and in an outer header; otherwise
    /// where parsing stopped.
    pub upper_offset: usize,
}

impl Ip {
    /// Creates an IP header `offset` bytes into the packet, for a parser of other protocols or a
    /// test.
    #[must_use]
    pub const fn new(offset: usize, traffic_class: u8, upper_offset: usize) -> Self {
        Self { offset, traffic_class, upper_offset }
    }

    /// Returns the differentiated services code point, 0 to 63.
    #[inline]
    #[must_use]
    pub const fn dscp(self) -> u8 {
        self.traffic_class >> 2
    }

    /// Returns the ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    #[inline]
    #[must_use]
    pub const fn ecn(self) -> u8 {
        self.traffic_class & 3
    }
}

/// Where parsing stopped, and so how complete the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Ending {
    /// At ports or their replacement: the key is complete.
    Ports,
    /// At an upper-layer protocol without ports: the key is complete.
    NoPorts,
    /// At a fragment. Only the first fragment has ports, so the ports of fragments are not read:
    /// all fragments of a packet have one key, which they share with other fragments between the
    /// two hosts.
    Fragment,
    /// At the end of the bytes, inside a header.
    Truncated,
    /// At a header that contradicts itself: an IP version other than that of the EtherType, or an
    /// IPv4 header shorter than 20 bytes or longer than its packet. A tunnel directly followed by
    /// such a header is not followed, and the result is that of its outer header.
    Malformed,
    /// At the limit on VLAN tags, extension headers or tunnels.
    TooManyHeaders,
    /// At an EtherType, or an IP version, that is neither IP nor ARP.
    NotIp,
    /// At ARP (RFC 826): not IP, but the network does not work without it.
    Arp,
}

/// Parses an Ethernet II frame, from its destination address on, with or without the frame check
/// sequence. Tunnels are not followed: [`Parser::OUTER`].
///
/// # Examples
///
/// ```
/// use flowhash::{Ending, FlowKey, parse};
///
/// let arp = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
/// let arp = [&arp[..], &[0x08, 0x06, 0, 1]].concat();
/// let parsed = parse::ethernet(&arp);
/// assert_eq!(parsed.ending, Ending::Arp);
/// let key = FlowKey::Ethernet { src: [2, 0, 0, 0, 0, 1] };
/// assert_eq!(parsed.key, key);
/// ```
#[inline]
#[must_use]
pub fn ethernet(frame: &[u8]) -> Parsed {
    Parser::OUTER.ethernet(frame)
}

/// Parses a raw IPv4 or IPv6 packet, distinguished by its version field, as from a TUN device.
/// Tunnels are not followed: [`Parser::OUTER`].
///
/// # Examples
///
/// ```
/// use flowhash::{Ending, parse};
///
/// assert_eq!(parse::ip(&[]).ending, Ending::Truncated);
/// assert_eq!(parse::ip(&[0x45]).ending, Ending::Truncated);
/// assert_eq!(parse::ip(&[0x00; 64]).ending, Ending::NotIp);
/// ```
#[inline]
#[must_use]
pub fn ip(packet: &[u8]) -> Parsed {
    Parser::OUTER.ip(packet)
}

impl Parser {
    /// Parses an Ethernet II frame like [`ethernet`], with these options.
    #[inline]
    #[must_use]
    pub fn ethernet(&self, frame: &[u8]) -> Parsed {
        if let Some((&[.., e0, e1], packet)) = frame.split_first_chunk::<14>() {
            let ether_type = u16::from_be_bytes([e0, e1]);
            if ether_type == link::IPV4 {
                if let Some(header) = plain::v4(packet, self.tunnels) {
                    return plain::parsed_v4(header, 14);
                }
            } else if ether_type == link::IPV6
                && let Some(header) = plain::v6(packet, *self)
            {
                return plain::parsed_v6(header, 14);
            }
        }
        self.ethernet_slow(frame)
    }

    /// Slow path of [`Self::ethernet`], for any frame.
    #[inline(never)]
    fn ethernet_slow(&self, frame: &[u8]) -> Parsed {
        count_step();
        let Some((header, rest)) = frame.split_first_chunk::<14>() else {
            return link::without_ip(None, Ending::Truncated);
        };
        let ethertype = u16::from_be_bytes([header[12], header[13]]);
        match link::payload(ethertype, rest, 14, self.tunnels) {
            Ok(Payload { network, offset }) => self.network(network, offset, Some(header)),
            Err(ending) => link::without_ip(Some(header), ending),
        }
    }

    /// Parses a raw IP packet like [`ip`], with these options.
    #[inline]
    #[must_use]
    pub fn ip(&self, packet: &[u8]) -> Parsed {
        if let Some(header) = plain::v4(packet, self.tunnels) {
            return plain::parsed_v4(header, 0);
        }
        if let Some(header) = plain::v6(packet, *self) {
            return plain::parsed_v6(header, 0);
        }
        self.ip_slow(packet)
    }

    /// Slow path of [`Self::ip`], for any packet.
    #[inline(never)]
    fn ip_slow(&self, packet: &[u8]) -> Parsed {
        match packet.first().map(|first| first >> 4) {
            Some(4) => self.network(Network::V4(packet), 0, None),
            Some(6) => self.network(Network::V6(packet), 0, None),
            Some(_) => link::without_ip(None, Ending::NotIp),
            None => link::without_ip(None, Ending::Truncated),
        }
    }

    /// Returns the result for the outermost IP header and its contents.
    #[inline(never)]
    fn network(&self, network: Network<'_>, offset: usize, link: EthernetHeader<'_>) -> Parsed {
        let mut layer = Layer::EMPTY;
        if let Err(ending) = ip::either(network, offset, self.flow_labels, &mut layer) {
            return link::without_ip(link, ending);
        }
        let Layer { key: outer, ip, ending, .. } = layer;
        if !tunnel::may_follow(&layer, self.tunnels) {
            return Parsed { key: outer, ip: Some(ip), inner: None, ending };
        }
        match tunnel::follow(&mut layer, *self) {
            (0, ending) => Parsed { key: outer, ip: Some(ip), inner: None, ending },
            (depth, ending) => {
                let inner = Some(Inner { ip: layer.ip, outer, depth });
                Parsed { key: layer.key, ip: Some(ip), inner, ending }
            }
        }
    }
}

/// Counts the headers read, for the test of [`MAX_HEADERS`]; does nothing outside tests.
#[inline(always)]
fn count_step() {
    #[cfg(test)]
    tests::STEPS.with(|steps| steps.set(steps.get() + 1));
}

#[cfg(test)]
mod tests;
