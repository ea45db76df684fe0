//! Tunnels: IP in IP, GRE and VXLAN, to the innermost IP header.
//!
//! A tunnel is followed only if there is a complete IP header at the expected place. Otherwise the
//! result is that of the outer header, so a sender gains nothing from malformed contents.

use super::ip::{self, GRE, IPV4_IN_IP, IPV6_IN_IP, Layer, UDP};
use super::link::{self, IPV4, IPV6, Network};
use super::{Ending, MAX_TUNNELS, Parser, Tunnels, count_step};

/// RFC 7348 §5.
const VXLAN_PORT: [u8; 2] = 4789_u16.to_be_bytes();
/// EtherType of an Ethernet frame in GRE (RFC 7637 §3.2, RFC 1701).
const TRANSPARENT_ETHERNET: u16 = 0x6558;

/// Returns true if the packet may contain a tunnel to follow. Nearly all do not, and for TCP this
/// is decided at compile time if VXLAN is not followed.
#[inline(always)]
pub(super) fn may_follow(layer: &Layer<'_>, tunnels: Tunnels) -> bool {
    let without_ports = tunnels.contains(Tunnels::IP_IN_IP) || tunnels.contains(Tunnels::GRE);
    (without_ports && layer.ending == Ending::NoPorts)
        || (tunnels.contains(Tunnels::VXLAN) && is_vxlan(layer))
}

#[inline(always)]
fn is_vxlan(layer: &Layer<'_>) -> bool {
    layer.ending == Ending::Ports
        && layer.protocol == UDP
        && layer.upper.first_chunk::<4>().is_some_and(|&[_, _, d0, d1]| [d0, d1] == VXLAN_PORT)
}

/// Follows nested tunnels to the innermost packet, at most [`MAX_TUNNELS`], and makes it `layer`.
/// Returns the number of tunnels, and where parsing stopped.
#[inline(never)]
pub(super) fn follow(layer: &mut Layer<'_>, parser: Parser) -> (u8, Ending) {
    let mut depth = 0;
    for _ in 0..MAX_TUNNELS {
        let read = carried(layer, parser.tunnels)
            .and_then(|(network, offset)| ip::either(network, offset, parser.flow_labels, layer));
        match read {
            Ok(()) => depth += 1,
            // A truncated header, of the tunnel or of its contents.
            Err(Ending::Truncated) => return (depth, Ending::Truncated),
            // Nothing to follow.
            Err(_) => return (depth, layer.ending),
        }
    }
    let is_tunnel = kind(layer, parser.tunnels).is_some();
    (depth, if is_tunnel { Ending::TooManyHeaders } else { layer.ending })
}

enum Kind {
    V4,
    V6,
    Gre,
    Vxlan,
}

/// Returns the kind of tunnel in the upper layer, if it is one to follow.
fn kind(layer: &Layer<'_>, tunnels: Tunnels) -> Option<Kind> {
    let (kind, one_of) = match (layer.ending, layer.protocol) {
        (Ending::NoPorts, IPV4_IN_IP) => (Kind::V4, Tunnels::IP_IN_IP),
        (Ending::NoPorts, IPV6_IN_IP) => (Kind::V6, Tunnels::IP_IN_IP),
        (Ending::NoPorts, GRE) => (Kind::Gre, Tunnels::GRE),
        (Ending::Ports, UDP) if is_vxlan(layer) => (Kind::Vxlan, Tunnels::VXLAN),
        _ => return None,
    };
    tunnels.contains(one_of).then_some(kind)
}

/// Returns the packet in the upper layer of `layer`.
fn carried<'a>(layer: &Layer<'a>, tunnels: Tunnels) -> Found<'a> {
    let (packet, offset) = (layer.upper, layer.ip.upper_offset);
    match kind(layer, tunnels) {
        None => Err(Ending::NoPorts),
        Some(Kind::V4) => Ok((Network::V4(packet), offset)),
        Some(Kind::V6) => Ok((Network::V6(packet), offset)),
        Some(Kind::Gre) => gre(packet, offset, tunnels),
        Some(Kind::Vxlan) => vxlan(packet, offset, tunnels),
    }
}

type Found<'a> = Result<(Network<'a>, usize), Ending>;

/// Skips a GRE header (RFC 2784 §2, RFC 2890 §2).
fn gre(rest: &[u8], offset: usize, tunnels: Tunnels) -> Found<'_> {
    const CHECKSUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    // Routing (RFC 1701), bits for which a receiver must discard the packet (RFC 2784 §2.3), and
    // all versions except 0; PPTP is version 1.
    const UNKNOWN: u16 = 0x4c07;
    count_step();
    let Some(&[f0, f1, t0, t1]) = rest.first_chunk::<4>() else { return Err(Ending::Truncated) };
    let flags = u16::from_be_bytes([f0, f1]);
    let is_sequenced = flags & SEQUENCE != 0;
    if flags & UNKNOWN != 0 || (is_sequenced && !tunnels.contains(Tunnels::SEQUENCED_GRE)) {
        return Err(Ending::NoPorts);
    }
    let fields = [CHECKSUM, KEY, SEQUENCE].map(|flag| usize::from(flags & flag != 0));
    let length = 4 + 4 * fields.iter().sum::<usize>();
    let Some(rest) = rest.get(length..) else { return Err(Ending::Truncated) };
    let offset = offset + length;
    match u16::from_be_bytes([t0, t1]) {
        IPV4 => Ok((Network::V4(rest), offset)),
        IPV6 => Ok((Network::V6(rest), offset)),
        TRANSPARENT_ETHERNET => ethernet(rest, offset, tunnels),
        _ => Err(Ending::NoPorts),
    }
}

/// Skips the headers of UDP and VXLAN (RFC 7348 §5).
fn vxlan(rest: &[u8], offset: usize, tunnels: Tunnels) -> Found<'_> {
    const VALID_IDENTIFIER: u8 = 0x08;
    count_step();
    let Some((header, rest)) = rest.split_first_chunk::<16>() else {
        return Err(Ending::Truncated);
    };
    if header[8] & VALID_IDENTIFIER == 0 {
        return Err(Ending::NoPorts);
    }
    ethernet(rest, offset + 16, tunnels)
}

/// Skips an inner Ethernet header. A frame without IP is not followed: the outer header identifies
/// the flow better than two MAC addresses.
fn ethernet(rest: &[u8], offset: usize, tunnels: Tunnels) -> Found<'_> {
    count_step();
    let Some((header, rest)) = rest.split_first_chunk::<14>() else {
        return Err(Ending::Truncated);
    };
    let ethertype = u16::from_be_bytes([header[12], header[13]]);
    match link::payload(ethertype, rest, offset + 14, tunnels) {
        Ok(payload) => Ok((payload.network, payload.offset)),
        Err(ending) => Err(ending),
    }
}
