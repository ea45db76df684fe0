//! From bytes to a flow key: the only place that reads packets, and total.
//!
//! Every sequence of bytes of any length has exactly one answer, and reading stops after at most
//! [`MAX_HEADERS`] headers, whatever the packet claims. A packet that lies about itself is not an
//! error here: it gets a key like every other, so that it has a queue and its sender a share, and
//! [`Ending`] says where the walk stopped. Refusing it is the business of whoever forwards it.
//!
//! Nothing is validated that the key does not need: no checksum, no option.
//!
//! Not read: MPLS, PPPoE, tunnels (the outer header is the flow), address translation (a gateway
//! that translates parses on the side where the inner hosts are visible).

mod ip;

use crate::FlowKey;

/// VLAN tags passed before the EtherType counts as unknown: 802.1ad uses two, provider backbones
/// with one more on either side four.
pub const MAX_VLAN_TAGS: usize = 4;

/// Extension headers passed before the upper-layer header counts as unreachable. The longest chain
/// that RFC 8200 §4.1 recommends has seven; RFC 8883 foresees nodes with such a limit.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// The most headers one packet can make the parser read: Ethernet, VLAN tags, IP, its extension
/// headers, the upper layer.
pub const MAX_HEADERS: usize = 1 + MAX_VLAN_TAGS + 1 + MAX_EXTENSION_HEADERS + 1;

/// 802.1Q, 802.1ad, and the value used for the outer tag before 802.1ad.
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Smaller values of the EtherType field are lengths (802.3 §3.2.6).
const FIRST_ETHERTYPE: u16 = 0x0600;

/// What the bytes of one packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The identity of the packet's flow; always defined ([`key`](crate::key) has the table).
    pub key: FlowKey,
    /// The IP header, if one was read.
    pub ip: Option<Ip>,
    /// Where the walk through the headers stopped.
    pub ending: Ending,
}

/// What the network layer says beside the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Bytes before the IP header.
    pub offset: usize,
    /// The byte that carries DSCP and ECN (RFC 2474 §3, RFC 3168 §5).
    pub traffic_class: u8,
    /// Bytes before the upper-layer header. Meaningful with [`Ending::Ports`] and
    /// [`Ending::NoPorts`]; with the others, where the walk stopped.
    pub upper_offset: usize,
}

impl Ip {
    /// The differentiated services code point, 0 to 63.
    #[inline]
    #[must_use]
    pub const fn dscp(self) -> u8 {
        self.traffic_class >> 2
    }

    /// The ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    #[inline]
    #[must_use]
    pub const fn ecn(self) -> u8 {
        self.traffic_class & 3
    }
}

/// Where the walk through the headers stopped, and so how much the key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// At ports or at what stands in for them: the key is complete.
    Ports,
    /// At an upper-layer protocol that has no ports: the key is complete.
    NoPorts,
    /// At a fragment. Only the first fragment has ports, so no fragment's are read: all fragments
    /// of a packet have one key (and share it with all fragments between the two hosts).
    Fragment,
    /// At the end of the bytes, inside a header.
    Truncated,
    /// At a header that contradicts itself: a version other than the EtherType says, an IPv4
    /// header shorter than 20 bytes or longer than its packet.
    Malformed,
    /// At the bound on VLAN tags or on extension headers.
    TooManyHeaders,
    /// At an EtherType, or a version of raw IP, that is not IP.
    NotIp,
}

/// Reads an Ethernet II frame, from its destination address on and without preamble; the check
/// sequence may be there or not.
///
/// # Examples
///
/// ```
/// use flowhash::{Ending, FlowKey, parse};
///
/// let arp = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
/// let arp = [&arp[..], &[0x08, 0x06, 0, 1]].concat();
/// let parsed = parse::ethernet(&arp);
/// assert_eq!(parsed.ending, Ending::NotIp);
/// let key = FlowKey::Ethernet { src: [2, 0, 0, 0, 0, 1], dst: [0xff; 6], ethertype: 0x0806 };
/// assert_eq!(parsed.key, key);
/// ```
#[inline]
#[must_use]
pub fn ethernet(frame: &[u8]) -> Parsed {
    let Some(header) = frame.first_chunk::<14>() else {
        return without_ip(None, Ending::Truncated);
    };
    match u16::from_be_bytes([header[12], header[13]]) {
        IPV4 => ip::v4(frame, 14, Some((header, IPV4))),
        IPV6 => ip::v6(frame, 14, Some((header, IPV6))),
        other => tagged(frame, header, other),
    }
}

/// An Ethernet frame whose first EtherType is not IP: past its tags, if those it has.
#[inline(never)]
fn tagged(frame: &[u8], header: &[u8; 14], mut ethertype: u16) -> Parsed {
    let mut offset = 14;
    for _ in 0..MAX_VLAN_TAGS {
        if !VLAN_TAGS.contains(&ethertype) {
            break;
        }
        let tag = frame.get(offset..).and_then(|rest| rest.first_chunk::<4>());
        let Some(&[_, _, t0, t1]) = tag else {
            return without_ip(Some((header, ethertype)), Ending::Truncated);
        };
        ethertype = u16::from_be_bytes([t0, t1]);
        offset += 4;
    }
    let link = Some((header, ethertype));
    match ethertype {
        IPV4 => ip::v4(frame, offset, link),
        IPV6 => ip::v6(frame, offset, link),
        tag if VLAN_TAGS.contains(&tag) => without_ip(link, Ending::TooManyHeaders),
        _ => without_ip(link, Ending::NotIp),
    }
}

/// Reads a raw IPv4 or IPv6 packet, told apart by its version field, as a TUN device gives them.
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
    match packet.first().map(|first| first >> 4) {
        Some(4) => ip::v4(packet, 0, None),
        Some(6) => ip::v6(packet, 0, None),
        Some(_) => without_ip(None, Ending::NotIp),
        None => without_ip(None, Ending::Truncated),
    }
}

/// An Ethernet header and the last EtherType read, which tags may have put elsewhere.
type Link<'a> = Option<(&'a [u8; 14], u16)>;

/// The answer for bytes without a readable IP header.
#[cold]
fn without_ip(link: Link<'_>, ending: Ending) -> Parsed {
    let key = match link {
        None => FlowKey::Unknown,
        Some((&[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..], ethertype)) => {
            FlowKey::Ethernet {
                src: [s0, s1, s2, s3, s4, s5],
                dst: [d0, d1, d2, d3, d4, d5],
                // A length differs from frame to frame of one flow.
                ethertype: if ethertype < FIRST_ETHERTYPE { 0 } else { ethertype },
            }
        }
    };
    Parsed { key, ip: None, ending }
}
