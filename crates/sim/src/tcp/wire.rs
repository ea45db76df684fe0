//! Headers of model packets, for captures.

use core::net::Ipv4Addr;

use freeboard::Dscp;
use freeboard::flowhash::FlowKey;
use freeboard::sched_core::{Ecn, Nanos};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpRepr, TcpSeqNumber,
    TcpTimestampRepr,
};

use super::{Ack, Data, PAYLOAD};

/// Contents of a packet of which headers are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Segment {
    Data(Data),
    Ack(Ack),
    Datagram,
}

/// Returns the headers of a packet of `len` bytes; empty for a key without IPv4 ports.
///
/// Sequence numbers count payload bytes from 0, so that Wireshark finds losses and retransmissions.
pub(super) fn headers(key: &FlowKey, mark: Dscp, ecn: Ecn, len: u32, segment: &Segment) -> Vec<u8> {
    let FlowKey::V4 { src, dst, transport } = *key else { return Vec::new() };
    let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
    let (src_port, dst_port) = (transport.src_port, transport.dst_port);
    let tcp = match segment {
        Segment::Data(data) => Some(TcpRepr {
            seq_number: sequence(data.number),
            ..tcp(src_port, dst_port, data.at, Nanos::ZERO)
        }),
        Segment::Ack(ack) => {
            let mut blocks = ack.blocks();
            let mut block = || blocks.next().map(|of| (number(of.start), number(of.end)));
            Some(TcpRepr {
                ack_number: Some(sequence(ack.next)),
                sack_ranges: [block(), block(), block()],
                ..tcp(src_port, dst_port, Nanos::ZERO, ack.at)
            })
        }
        Segment::Datagram => None,
    };
    let header = tcp.as_ref().map_or(8, |tcp| tcp.header_len());
    let total = usize::try_from(len).unwrap_or(usize::MAX).max(20 + header);
    let mut bytes = vec![0; 20 + header];
    let repr = Ipv4Repr {
        src_addr: src,
        dst_addr: dst,
        next_header: if tcp.is_some() { IpProtocol::Tcp } else { IpProtocol::Udp },
        payload_len: total - 20,
        hop_limit: 64,
    };
    let mut ip = Ipv4Packet::new_unchecked(&mut bytes[..]);
    let checksums = ChecksumCapabilities::ignored();
    repr.emit(&mut ip, &checksums);
    ip.set_dscp(mark.get());
    ip.set_ecn(ecn as u8);
    ip.fill_checksum();
    let (src, dst) = (IpAddress::Ipv4(src), IpAddress::Ipv4(dst));
    match tcp {
        Some(tcp) => {
            let mut packet = smoltcp::wire::TcpPacket::new_unchecked(&mut bytes[20..]);
            tcp.emit(&mut packet, &src, &dst, &checksums);
        }
        None => {
            let mut packet = smoltcp::wire::UdpPacket::new_unchecked(&mut bytes[20..]);
            packet.set_src_port(src_port);
            packet.set_dst_port(dst_port);
            packet.set_len(u16::try_from(total - 20).unwrap_or(u16::MAX));
        }
    }
    bytes
}

fn tcp(src_port: u16, dst_port: u16, value: Nanos, echo: Nanos) -> TcpRepr<'static> {
    let millis = |time: Nanos| (time.0 / 1_000_000) as u32;
    TcpRepr {
        src_port,
        dst_port,
        control: TcpControl::None,
        seq_number: TcpSeqNumber(0),
        ack_number: Some(TcpSeqNumber(0)),
        window_len: u16::MAX,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: Some(TcpTimestampRepr { tsval: millis(value), tsecr: millis(echo) }),
        payload: &[],
    }
}

fn number(segment: u32) -> u32 {
    segment.wrapping_mul(PAYLOAD)
}

fn sequence(segment: u32) -> TcpSeqNumber {
    TcpSeqNumber(number(segment).cast_signed())
}
