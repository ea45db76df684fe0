//! From a frame to its IP packet: EtherTypes, VLAN tags, PPPoE, SNAP.

use super::{Ending, MAX_VLAN_TAGS, Parsed, Tunnels, count_step};
use crate::FlowKey;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the value used for the outer tag before 802.1ad.
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// RFC 826.
const ARP: u16 = 0x0806;
/// RFC 2516 §4; discovery is 0x8863.
const PPPOE_SESSION: u16 = 0x8864;

/// Maximum 802.3 length: up to this value the EtherType field is the length of the payload.
const MAX_LENGTH: u16 = 1_500;

/// An Ethernet header, if there is one.
pub(super) type EthernetHeader<'a> = Option<&'a [u8; 14]>;

/// An IP packet, with the version announced by the layer below.
#[derive(Clone, Copy)]
pub(super) enum Network<'a> {
    V4(&'a [u8]),
    V6(&'a [u8]),
}

/// Payload of a link layer.
pub(super) struct Payload<'a> {
    pub(super) network: Network<'a>,
    /// Bytes before the payload.
    pub(super) offset: usize,
}

/// Returns the payload after the EtherType at `offset`, past tags, PPPoE and SNAP; otherwise where
/// parsing stopped.
pub(super) fn payload(
    mut ethertype: u16,
    mut rest: &[u8],
    mut offset: usize,
    tunnels: Tunnels,
) -> Result<Payload<'_>, Ending> {
    for _ in 0..MAX_VLAN_TAGS {
        if !VLAN_TAGS.contains(&ethertype) {
            break;
        }
        count_step();
        let Some((&[_, _, t0, t1], tagged)) = rest.split_first_chunk::<4>() else {
            return Err(Ending::Truncated);
        };
        (ethertype, rest, offset) = (u16::from_be_bytes([t0, t1]), tagged, offset + 4);
    }
    let network = match ethertype {
        IPV4 => Network::V4(rest),
        IPV6 => Network::V6(rest),
        PPPOE_SESSION if tunnels.contains(Tunnels::PPPOE) => {
            count_step();
            return pppoe(rest, offset);
        }
        0..=MAX_LENGTH => {
            count_step();
            return snap(ethertype, rest, offset);
        }
        ARP => return Err(Ending::Arp),
        tag if VLAN_TAGS.contains(&tag) => return Err(Ending::TooManyHeaders),
        _ => return Err(Ending::NotIp),
    };
    Ok(Payload { network, offset })
}

/// Returns the IP packet in a frame of a PPPoE session (RFC 2516 §4, RFC 1332 §2, RFC 5072 §2).
/// Accepts a protocol number compressed to one byte (RFC 1661 §6.5): RFC 2516 §7 advises against
/// it, but some senders do it.
fn pppoe(rest: &[u8], offset: usize) -> Result<Payload<'_>, Ending> {
    let Some((&[version_type, code, _, _, l0, l1, p0], rest)) = rest.split_first_chunk::<7>()
    else {
        return Err(Ending::Truncated);
    };
    if version_type != 0x11 || code != 0 {
        return Err(Ending::NotIp);
    }
    // Only the last byte of a protocol number is odd.
    let (protocol, bytes, rest) = match (p0 & 1, rest) {
        (1, rest) => (u16::from(p0), 1, rest),
        (_, [p1, rest @ ..]) => (u16::from_be_bytes([p0, *p1]), 2, rest),
        (_, []) => return Err(Ending::Truncated),
    };
    // The length includes the protocol number. Padding may follow.
    let length = usize::from(u16::from_be_bytes([l0, l1]));
    let Some(length) = length.checked_sub(bytes) else { return Err(Ending::Malformed) };
    let packet = rest.get(..length).unwrap_or(rest);
    let network = match protocol {
        0x0021 => Network::V4(packet),
        0x0057 => Network::V6(packet),
        _ => return Err(Ending::NotIp),
    };
    Ok(Payload { network, offset: offset + 6 + bytes })
}

/// Returns the IP packet after LLC and SNAP (RFC 1042), in a frame with `length` in place of the
/// EtherType (802.3).
fn snap(length: u16, rest: &[u8], offset: usize) -> Result<Payload<'_>, Ending> {
    let Some((&[header @ .., e0, e1], packet)) = rest.split_first_chunk::<8>() else {
        return Err(Ending::Truncated);
    };
    if header != [0xaa, 0xaa, 3, 0, 0, 0] {
        return Err(Ending::NotIp);
    }
    let Some(length) = usize::from(length).checked_sub(8) else { return Err(Ending::Malformed) };
    let packet = packet.get(..length).unwrap_or(packet);
    let network = match u16::from_be_bytes([e0, e1]) {
        IPV4 => Network::V4(packet),
        IPV6 => Network::V6(packet),
        ARP => return Err(Ending::Arp),
        _ => return Err(Ending::NotIp),
    };
    Ok(Payload { network, offset: offset + 8 })
}

/// MAC addresses and VLANs of an Ethernet frame, for host identities other than addresses
/// ([`HostIdentity`](crate::HostIdentity)).
///
/// Separate from [`Parsed`], because most callers do not need it.
///
/// ```
/// use flowhash::LinkHeader;
///
/// let mut frame = [0; 60];
/// frame[..18].copy_from_slice(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x81, 0, 0x60, 7, 8, 0]);
/// let header = LinkHeader::of(&frame).expect("a header");
/// assert_eq!((header.source().mac, header.source().vlans), (Some([2; 6]), [7, 0]));
/// assert_eq!(LinkHeader::of(&frame[..13]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct LinkHeader {
    /// Source MAC address.
    pub src: [u8; 6],
    /// Destination MAC address.
    pub dst: [u8; 6],
    /// VLANs of the outer and the inner tag (802.1Q, 802.1ad), 0 to 4095; 0 if there is none.
    pub vlans: [u16; 2],
}

impl LinkHeader {
    /// Reads an Ethernet II frame from its destination address on; `None` if it is truncated. A
    /// truncated tag counts as none. Cost: a few loads.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (dst, rest) = frame.split_first_chunk::<6>()?;
        let (src, rest) = rest.split_first_chunk::<6>()?;
        if rest.len() < 2 {
            return None;
        }
        let (outer, rest) = vlan(rest);
        let (inner, _) = vlan(rest);
        Some(Self { src: *src, dst: *dst, vlans: [outer, inner] })
    }

    /// Returns the end of the link that the frame comes from.
    #[inline]
    #[must_use]
    pub const fn source(self) -> LinkEnd {
        LinkEnd { mac: Some(self.src), vlans: self.vlans }
    }

    /// Returns the end of the link that the frame is sent to.
    #[inline]
    #[must_use]
    pub const fn destination(self) -> LinkEnd {
        LinkEnd { mac: Some(self.dst), vlans: self.vlans }
    }
}

/// Returns the priority bits (802.1Q) of the outermost VLAN tag of an Ethernet II frame, 0 to 7;
/// `None` for frames without a tag and truncated ones.
///
/// Cost: a few loads.
///
/// ```
/// use flowhash::parse;
///
/// let mut frame = [0; 60];
/// assert_eq!(parse::vlan_priority(&frame), None);
/// // Priority 3, droppable, VLAN 7.
/// frame[12..16].copy_from_slice(&[0x81, 0, 3 << 5 | 0x10, 7]);
/// assert_eq!(parse::vlan_priority(&frame), Some(3));
/// assert_eq!(parse::vlan_priority(&frame[..15]), None);
/// ```
#[must_use]
pub fn vlan_priority(frame: &[u8]) -> Option<u8> {
    let (_, rest) = frame.split_first_chunk::<12>()?;
    let &[t0, t1, priority, _] = rest.first_chunk::<4>()?;
    VLAN_TAGS.contains(&u16::from_be_bytes([t0, t1])).then_some(priority >> 5)
}

/// Returns the VLAN of the tag at the start of `bytes`, 0 if there is none, and the bytes after it.
fn vlan(bytes: &[u8]) -> (u16, &[u8]) {
    match bytes.split_first_chunk::<4>() {
        Some((&[t0, t1, v0, v1], rest)) if VLAN_TAGS.contains(&u16::from_be_bytes([t0, t1])) => {
            (u16::from_be_bytes([v0, v1]) & 0x0fff, rest)
        }
        _ => (0, &[]),
    }
}

/// One end of a link, as identified by an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinkEnd {
    /// MAC address; `None` for a packet without an Ethernet header.
    pub mac: Option<[u8; 6]>,
    /// VLANs of the outer and the inner tag, like [`LinkHeader::vlans`].
    pub vlans: [u16; 2],
}

impl LinkEnd {
    /// End of the link for packets without an Ethernet header.
    pub const NONE: Self = Self { mac: None, vlans: [0, 0] };
}

/// Returns the result for bytes without a readable IP header.
#[cold]
pub(super) fn without_ip(link: EthernetHeader<'_>, ending: Ending) -> Parsed {
    let key = match link {
        None => FlowKey::Unknown,
        Some(&[_, _, _, _, _, _, s0, s1, s2, s3, s4, s5, ..]) => {
            FlowKey::Ethernet { src: [s0, s1, s2, s3, s4, s5] }
        }
    };
    Parsed { key, ip: None, inner: None, ending }
}
