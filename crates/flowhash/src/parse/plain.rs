//! Fast path: TCP or UDP directly after an IP header without options or extensions, not in a
//! tunnel. Most packets are like this.
//!
//! One comparison of the length and a few of fields detect such a packet. The result equals that of
//! the walk through its headers; all other packets are left to the walk.

use super::ip::{TCP, UDP};
use super::{Ending, FlowLabels, Ip, Parsed, Parser, Tunnels, count_step};
use crate::{FlowKey, Transport};

/// An IPv4 header without options, and the ports.
type V4 = [u8; 24];
/// An IPv6 header, and the ports.
type V6 = [u8; 44];

/// Returns true if the protocol has ports and cannot be a tunnel to follow.
#[inline(always)]
fn has_ports(protocol: u8, tunnels: Tunnels) -> bool {
    protocol == TCP || (protocol == UDP && !tunnels.contains(Tunnels::VXLAN))
}

/// Returns the start of an IPv4 packet if it is on the fast path.
#[inline(always)]
pub(super) fn v4(packet: &[u8], tunnels: Tunnels) -> Option<&V4> {
    packet.first_chunk().filter(|header: &&V4| {
        let &[first, _, t0, t1, _, _, f0, f1, _, protocol, ..] = *header;
        // 0, from segmentation offload, or at least header and ports.
        let has_length = u16::from_be_bytes([t0, t1]).wrapping_sub(1) >= 23;
        let is_fragment = u16::from_be_bytes([f0, f1]) & 0x3fff != 0;
        first == 0x45 && has_length && !is_fragment && has_ports(protocol, tunnels)
    })
}

/// Returns the result for a packet on the fast path that starts `offset` bytes into the frame.
#[inline(always)]
pub(super) fn parsed_v4(header: &V4, offset: usize) -> Parsed {
    // The walk counts two: the link or its replacement, and the IP header.
    count_step();
    count_step();
    let &[_, traffic_class, _, _, _, _, _, _, _, protocol, _, _, rest @ ..] = header;
    let [a, b, c, d, e, f, g, h, s0, s1, d0, d1] = rest;
    let (src, dst) = ([a, b, c, d], [e, f, g, h]);
    let transport = transport(protocol, [s0, s1, d0, d1]);
    answer(FlowKey::V4 { src, dst, transport }, traffic_class, offset, 20)
}

/// Returns the start of an IPv6 packet if it is on the fast path.
#[inline(always)]
pub(super) fn v6(packet: &[u8], parser: Parser) -> Option<&V6> {
    packet.first_chunk().filter(|header: &&V6| {
        let &[first, _, _, _, l0, l1, next, ..] = *header;
        // 0, from a jumbogram or segmentation offload, or at least the ports.
        let has_length = u16::from_be_bytes([l0, l1]).wrapping_sub(1) >= 3;
        let is_by_label = parser.flow_labels == FlowLabels::Always;
        first >> 4 == 6 && has_length && !is_by_label && has_ports(next, parser.tunnels)
    })
}

/// Returns the result for a packet on the fast path that starts `offset` bytes into the frame.
#[inline(always)]
pub(super) fn parsed_v6(header: &V6, offset: usize) -> Parsed {
    count_step();
    count_step();
    let &[v0, v1, _, _, _, _, next, _, ref addresses @ .., s0, s1, d0, d1] = header;
    let (mut src, mut dst) = ([0; 16], [0; 16]);
    let (first, second) = addresses.split_at(16);
    src.iter_mut().zip(first).for_each(|(place, byte)| *place = *byte);
    dst.iter_mut().zip(second).for_each(|(place, byte)| *place = *byte);
    let transport = transport(next, [s0, s1, d0, d1]);
    answer(FlowKey::V6 { src, dst, transport }, (v0 << 4) | (v1 >> 4), offset, 40)
}

#[inline(always)]
fn transport(protocol: u8, [s0, s1, d0, d1]: [u8; 4]) -> Transport {
    let (src_port, dst_port) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
    Transport { protocol, src_port, dst_port }
}

#[inline(always)]
fn answer(key: FlowKey, traffic_class: u8, offset: usize, upper: usize) -> Parsed {
    let ip = Ip { offset, traffic_class, upper_offset: offset + upper };
    Parsed { key, ip: Some(ip), inner: None, ending: Ending::Ports }
}
