//! IPv4 and IPv6 up to the ports: options, extension headers, fragments.

use super::link::Network;
use super::{Ending, FlowLabels, Ip, MAX_EXTENSION_HEADERS, count_step};
use crate::{FlowKey, Transport};

// Protocol numbers (IANA). The first five are extension headers.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

const ICMP: u8 = 1;
pub(super) const IPV4_IN_IP: u8 = 4;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const IPV6_IN_IP: u8 = 41;
pub(super) const GRE: u8 = 47;
const DCCP: u8 = 33;
const ESP: u8 = 50;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Protocol of keys identified by the flow label alone: no upper layer has number 0.
const LABEL_ALONE: u8 = HOP_BY_HOP;

/// One IP header and what follows it, up to the ports.
pub(super) struct Layer<'a> {
    pub(super) key: FlowKey,
    pub(super) ip: Ip,
    pub(super) ending: Ending,
    /// Protocol of the upper layer, whatever the key contains.
    pub(super) protocol: u8,
    /// The upper layer, to the packet's end; empty if parsing stopped before it.
    pub(super) upper: &'a [u8],
}

impl Layer<'_> {
    /// Before anything is read.
    pub(super) const EMPTY: Self = Self {
        key: FlowKey::Unknown,
        ip: Ip { offset: 0, traffic_class: 0, upper_offset: 0 },
        ending: Ending::NotIp,
        protocol: 0,
        upper: &[],
    };
}

/// Reads an IP packet outside the fast path into `layer`, which is kept on failure. It is not
/// returned, so that the stack holds it once.
#[inline(never)]
pub(super) fn either<'a>(
    network: Network<'a>,
    offset: usize,
    flow_labels: FlowLabels,
    layer: &mut Layer<'a>,
) -> Result<(), Ending> {
    *layer = match network {
        Network::V4(packet) => v4(packet, offset)?,
        Network::V6(packet) => v6(packet, offset, flow_labels)?,
    };
    Ok(())
}

/// Reads the IPv4 packet at the start of `packet`, `offset` bytes into the frame (RFC 791 §3.1).
/// Fails without the 20 bytes that hold the addresses.
#[inline(always)]
pub(super) fn v4(packet: &[u8], offset: usize) -> Result<Layer<'_>, Ending> {
    count_step();
    let Some(header) = packet.first_chunk::<20>() else {
        return Err(Ending::Truncated);
    };
    if header[0] >> 4 != 4 {
        return Err(Ending::Malformed);
    }
    let header_length = usize::from(header[0] & 0x0f) * 4;
    let total_length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // Segmentation offload hands over packets above 65,535 bytes with a length of 0.
    let end = if total_length == 0 { packet.len() } else { total_length.min(packet.len()) };
    let upper = if header_length < 20 || (total_length != 0 && total_length < header_length) {
        Upper::stopped(header[9], Ending::Malformed, 0)
    } else if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        // More fragments follow, or this is not the first one.
        Upper::stopped(header[9], Ending::Fragment, header_length)
    } else {
        match packet.get(header_length..end) {
            None => Upper::stopped(header[9], Ending::Truncated, 0),
            Some(payload) => upper_or_walk(header[9], payload, header_length, false),
        }
    };
    Ok(Layer {
        key: FlowKey::V4 {
            src: [header[12], header[13], header[14], header[15]],
            dst: [header[16], header[17], header[18], header[19]],
            transport: upper.transport,
        },
        ip: Ip { offset, traffic_class: header[1], upper_offset: offset + upper.offset },
        ending: upper.ending,
        protocol: upper.transport.protocol,
        upper: upper.rest,
    })
}

/// Reads the IPv6 packet at the start of `packet`, `offset` bytes into the frame (RFC 8200 §3).
/// Fails without the 40 bytes that hold the addresses.
#[inline(always)]
pub(super) fn v6(
    packet: &[u8],
    offset: usize,
    flow_labels: FlowLabels,
) -> Result<Layer<'_>, Ending> {
    count_step();
    let Some((header, src, dst, payload)) = v6_header(packet) else {
        return Err(Ending::Truncated);
    };
    if header[0] >> 4 != 6 {
        return Err(Ending::Malformed);
    }
    // 0 for a jumbogram (RFC 2675) or segmentation offload: use all bytes.
    let payload = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => payload,
        length => payload.get(..length).unwrap_or(payload),
    };
    let upper = upper_or_walk(header[6], payload, 40, true);
    let transport = match flow_labels {
        FlowLabels::WithoutPorts if upper.ending != Ending::Ports => {
            labelled(header, upper.transport.protocol).unwrap_or(upper.transport)
        }
        FlowLabels::Always => labelled(header, LABEL_ALONE).unwrap_or(upper.transport),
        FlowLabels::Ignored | FlowLabels::WithoutPorts => upper.transport,
    };
    Ok(Layer {
        key: FlowKey::V6 { src: *src, dst: *dst, transport },
        ip: Ip {
            offset,
            traffic_class: (header[0] << 4) | (header[1] >> 4),
            upper_offset: offset + upper.offset,
        },
        ending: upper.ending,
        protocol: upper.transport.protocol,
        upper: upper.rest,
    })
}

/// Returns the flow label in place of the ports, if there is one.
fn labelled(header: &[u8; 8], protocol: u8) -> Option<Transport> {
    let src_port = u16::from_be_bytes([0, header[1] & 0x0f]);
    let dst_port = u16::from_be_bytes([header[2], header[3]]);
    (src_port | dst_port != 0).then_some(Transport { protocol, src_port, dst_port })
}

type V6Header<'a> = (&'a [u8; 8], &'a [u8; 16], &'a [u8; 16], &'a [u8]);

/// Returns the fixed part of the header, the two addresses and the rest.
#[inline]
fn v6_header(packet: &[u8]) -> Option<V6Header<'_>> {
    let (fixed, rest) = packet.split_first_chunk::<8>()?;
    let (src, rest) = rest.split_first_chunk::<16>()?;
    let (dst, rest) = rest.split_first_chunk::<16>()?;
    Some((fixed, src, dst, rest))
}

/// Result of the walk to the upper layer.
struct Upper<'a> {
    transport: Transport,
    ending: Ending,
    /// Offset from the start of the IP header.
    offset: usize,
    /// Bytes of the upper layer.
    rest: &'a [u8],
}

impl<'a> Upper<'a> {
    /// A walk that stopped before the ports. Ports are 0, so that fragments of one packet cannot
    /// differ.
    fn stopped(protocol: u8, ending: Ending, offset: usize) -> Self {
        Self {
            transport: Transport { protocol, ..Transport::default() },
            ending,
            offset,
            rest: &[],
        }
    }

    /// A walk that found ports, or their replacement, in the header at `offset`.
    fn at_ports(protocol: u8, ports: &[u8; 4], offset: usize, rest: &'a [u8]) -> Self {
        let &[s0, s1, d0, d1] = ports;
        let src_port = u16::from_be_bytes([s0, s1]);
        let dst_port = u16::from_be_bytes([d0, d1]);
        let transport = Transport { protocol, src_port, dst_port };
        Self { transport, ending: Ending::Ports, offset, rest }
    }
}

/// Fast path: nearly all packets are TCP or UDP directly after the IP header.
#[inline(always)]
fn upper_or_walk(protocol: u8, rest: &[u8], offset: usize, v6: bool) -> Upper<'_> {
    match (protocol, rest.first_chunk::<4>()) {
        (TCP | UDP, Some(ports)) => {
            count_step();
            Upper::at_ports(protocol, ports, offset, rest)
        }
        _ => walk(protocol, rest, offset, v6),
    }
}

/// Walks from `protocol`, whose header starts `rest` at `offset`, to the upper layer.
///
/// IPv6 chains five kinds of header (RFC 8200 §4, RFC 4302 §2); IPv4 has only the authentication
/// header of these. At most [`MAX_EXTENSION_HEADERS`] steps.
#[inline(never)]
fn walk(mut protocol: u8, mut rest: &[u8], mut offset: usize, v6: bool) -> Upper<'_> {
    for _ in 0..MAX_EXTENSION_HEADERS {
        if !is_extension(protocol, v6) {
            return upper(protocol, rest, offset);
        }
        count_step();
        let Some(&[next, length, field0, field1]) = rest.first_chunk::<4>() else {
            return Upper::stopped(protocol, Ending::Truncated, offset);
        };
        let length = match protocol {
            // In units of 4 bytes, minus 2 (RFC 4302 §2.2).
            AUTHENTICATION => (usize::from(length) + 2) * 4,
            // Offset and M flag. If both are 0, this is a whole packet (RFC 6946). Otherwise stop
            // with the number of this header: the fragments of one packet may name different next
            // headers (RFC 8200 §4.5) and must not become two flows.
            FRAGMENT if u16::from_be_bytes([field0, field1]) & 0xfff9 != 0 => {
                return Upper::stopped(FRAGMENT, Ending::Fragment, offset);
            }
            FRAGMENT => 8,
            // In units of 8 bytes, not counting the first.
            _ => (usize::from(length) + 1) * 8,
        };
        let Some(inner) = rest.get(length..) else {
            return Upper::stopped(protocol, Ending::Truncated, offset);
        };
        (protocol, rest, offset) = (next, inner, offset + length);
    }
    if is_extension(protocol, v6) {
        return Upper::stopped(protocol, Ending::TooManyHeaders, offset);
    }
    upper(protocol, rest, offset)
}

fn is_extension(protocol: u8, v6: bool) -> bool {
    match protocol {
        AUTHENTICATION => true,
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS => v6,
        _ => false,
    }
}

/// Reads the part of the upper-layer header that identifies a flow.
fn upper(protocol: u8, rest: &[u8], offset: usize) -> Upper<'_> {
    count_step();
    let ports = match protocol {
        // DCCP, SCTP and UDP-Lite start like UDP (RFC 4340 §5.1, RFC 9260 §3.1, RFC 3828 §3). ESP
        // starts with its SPI (RFC 4303 §2), which separates tunnels between two gateways.
        TCP | UDP | DCCP | ESP | SCTP | UDP_LITE => rest.first_chunk::<4>().copied(),
        ICMP | ICMPV6 => icmp(protocol, rest),
        _ => return Upper { rest, ..Upper::stopped(protocol, Ending::NoPorts, offset) },
    };
    match ports {
        None => Upper::stopped(protocol, Ending::Truncated, offset),
        Some(ports) => Upper::at_ports(protocol, &ports, offset, rest),
    }
}

/// Returns the identifier of an echo, otherwise 0, and type and code (RFC 792, RFC 4443 §4).
fn icmp(protocol: u8, rest: &[u8]) -> Option<[u8; 4]> {
    let &[kind, code] = rest.first_chunk::<2>()?;
    let is_echo = matches!((protocol, kind), (ICMP, 0 | 8) | (ICMPV6, 128 | 129));
    let [i0, i1] = if is_echo {
        let &[.., i0, i1] = rest.first_chunk::<6>()?;
        [i0, i1]
    } else {
        [0, 0]
    };
    Some([i0, i1, kind, code])
}
