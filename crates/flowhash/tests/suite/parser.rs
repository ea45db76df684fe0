//! The parser on packets written byte by byte, and the mapping from fields to keys and labels.

use flowhash::parse::{self, MAX_EXTENSION_HEADERS, MAX_VLAN_TAGS};
use flowhash::{Ending, FlowKey, HostKey, Ip, Labels, Parsed, Parser, SipHash13, Transport};

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 7];

/// A TCP SYN from 192.0.2.33 port 51000 to 198.51.100.7 port 443, DSCP 46, ECT(0).
#[rustfmt::skip]
const TCP4: [u8; 40] = [
    0x45, 0xba, 0, 40, 0x1c, 0x46, 0x40, 0, 64, 6, 0xb1, 0xe6, 192, 0, 2, 33, 198, 51, 100, 7,
    0xc7, 0x38, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0,
];

/// A DNS query from 2001:db8::1 port 5353 to 2001:db8::2 port 53, DSCP 10, CE, flow label 0xabcde.
#[rustfmt::skip]
const UDP6: [u8; 52] = [
    0x62, 0xba, 0xbc, 0xde, 0, 12, 17, 64,
    0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
    0x14, 0xe9, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4,
];

fn framed(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&MACS[..], &ethertype.to_be_bytes(), packet].concat()
}

fn with(packet: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for (at, value) in changes {
        packet[*at] = *value;
    }
    packet
}

fn tcp4(protocol: u8, src_port: u16, dst_port: u16) -> FlowKey {
    let transport = Transport { protocol, src_port, dst_port };
    FlowKey::V4 { src: [192, 0, 2, 33], dst: [198, 51, 100, 7], transport }
}

#[test]
fn a_tcp_segment_over_ipv4_is_read() {
    let parsed = parse::ip(&TCP4);
    let ip = Ip::new(0, 0xba, 20);
    let key = tcp4(6, 51000, 443);
    assert_eq!(parsed, Parsed::new(key, Some(ip), None, Ending::Ports));
    assert_eq!((ip.dscp(), ip.ecn()), (46, 2));
    let ip = Ip::new(14, 0xba, 34);
    let parsed = parse::ethernet(&framed(0x0800, &TCP4));
    assert_eq!(parsed, Parsed::new(key, Some(ip), None, Ending::Ports));
}

#[test]
fn a_datagram_over_ipv6_in_two_vlan_tags_is_read() {
    let mut src = [0; 16];
    src[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    let mut dst = src;
    (src[15], dst[15]) = (1, 2);
    let transport = Transport { protocol: 17, src_port: 5353, dst_port: 53 };
    let frame = framed(0x88a8, &[&[0, 5, 0x81, 0, 0, 7, 0x86, 0xdd][..], &UDP6].concat());
    let ip = Ip::new(22, 0x2b, 62);
    let key = FlowKey::V6 { src, dst, transport };
    let parsed = parse::ethernet(&frame);
    assert_eq!(parsed, Parsed::new(key, Some(ip), None, Ending::Ports));
    assert_eq!((ip.dscp(), ip.ecn()), (10, 3));
}

#[test]
fn frames_that_are_not_ip_are_one_host_with_a_flow_for_each_device() {
    let key = FlowKey::Ethernet { src: [2, 0, 0, 0, 0, 7] };
    // EtherTypes, and lengths of 802.3.
    for field in [0x0806, 0x88cc, 0x0600, 0xffff, 0x05ff, 0x05dc, 46, 0] {
        let parsed = parse::ethernet(&framed(field, &[0; 46]));
        let ending = if field == 0x0806 { Ending::Arp } else { Ending::NotIp };
        assert_eq!(parsed, Parsed::new(key, None, None, ending), "{field:#06x}");
    }
    // Another destination is the same flow; another source is another flow of the same host.
    for at in 0..12 {
        let mut frame = framed(0x0806, &[0; 46]);
        frame[at] ^= 0x10;
        let other = parse::ethernet(&frame).key;
        assert_eq!(other == key, at < 6, "{other:?}");
        assert_eq!((other.src_host(), other.dst_host()), (HostKey::NotIp, HostKey::NotIp));
    }
    let zeros = FlowKey::Ethernet { src: [0; 6] };
    let parsed = parse::ethernet(&[0; 60]);
    assert_eq!(parsed, Parsed::new(zeros, None, None, Ending::NotIp));
}

/// Goal: each packet has the code point used to classify it: that of its outermost header; network
/// control for ARP, after tags too; the default for everything else. Method: every class in both
/// versions, each EtherType.
#[test]
fn every_packet_has_a_code_point() {
    for class in 0..=255_u8 {
        let (mut v4, mut v6) = (TCP4, UDP6);
        v4[1] = class;
        [v6[0], v6[1]] = [0x60 | class >> 4, class << 4];
        assert_eq!(parse::ip(&v4).dscp(), class / 4);
        assert_eq!(parse::ip(&v6).dscp(), class / 4);
        assert_eq!(parse::ethernet(&framed(0x0800, &v4)).dscp(), class / 4);
        // In a tunnel with another class.
        let outer = [0x45, 0xb8, 0, 80, 0, 0, 0, 0, 64, 41, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        assert_eq!(Parser::new().ip(&[&outer[..], &v6].concat()).dscp(), 46);
    }
    for ethertype in (0..=u16::MAX).filter(|ethertype| ![0x0800, 0x86dd].contains(ethertype)) {
        let expected = if ethertype == 0x0806 { 56 } else { 0 };
        assert_eq!(parse::ethernet(&framed(ethertype, &[0; 46])).dscp(), expected);
    }
    assert_eq!(
        parse::ethernet(&framed(0x8100, &[&[0, 5, 8, 6][..], &[0; 46]].concat())).dscp(),
        56
    );
}

#[test]
fn raw_packets_of_other_versions_are_one_flow() {
    for first in 0..=255_u8 {
        let parsed = parse::ip(&[&[first][..], &[0; 59]].concat());
        match first >> 4 {
            4 | 6 => assert!(parsed.ip.is_some()),
            _ => {
                let expected = Parsed::new(FlowKey::Unknown, None, None, Ending::NotIp);
                assert_eq!(parsed, expected);
            }
        }
    }
}

#[test]
fn a_version_that_contradicts_the_ethertype_is_malformed() {
    for (ethertype, packet) in [(0x0800, &UDP6[..]), (0x86dd, &TCP4[..])] {
        let parsed = parse::ethernet(&framed(ethertype, packet));
        let key = FlowKey::Ethernet { src: [2, 0, 0, 0, 0, 7] };
        assert_eq!(parsed, Parsed::new(key, None, None, Ending::Malformed));
    }
}

/// Goal: every IPv4 header length with every total length, in 60 bytes of packet. Method: RFC 791
/// §3.1, case by case. Bytes after the total length are padding and never ports; a total length of
/// 0 is segmentation offload.
#[test]
fn ipv4_lengths_are_believed_as_far_as_they_agree() {
    let packet = [&TCP4[..], &[0x11; 24]].concat();
    for words in 0..16_u8 {
        for total in 0..=70_u8 {
            let parsed = parse::ip(&with(&packet, &[(0, 0x40 | words), (3, total)]));
            let header = usize::from(words) * 4;
            let end = if total == 0 { 64 } else { usize::from(total).min(64) };
            let (ending, upper_offset) = if words < 5 || (total != 0 && usize::from(total) < header)
            {
                (Ending::Malformed, 0)
            } else if end < header + 4 {
                (Ending::Truncated, header)
            } else {
                (Ending::Ports, header)
            };
            let read = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
            let key = match ending {
                Ending::Ports => tcp4(6, read(header), read(header + 2)),
                _ => tcp4(6, 0, 0),
            };
            let ip = Some(Ip::new(0, 0xba, upper_offset));
            assert_eq!(parsed, Parsed::new(key, ip, None, ending), "{words} words, {total} bytes");
        }
    }
}

#[test]
fn ipv6_padding_after_the_payload_is_no_port() {
    for length in 0..=20_u8 {
        let parsed = parse::ip(&with(&UDP6, &[(5, length)]));
        let ending = if (1..4).contains(&length) { Ending::Truncated } else { Ending::Ports };
        assert_eq!(parsed.ending, ending, "payload of {length}");
    }
}

/// Goal: every value of the length field of every extension header, in 2,200 bytes. Method: the
/// upper layer must be found where RFC 8200 §4 and RFC 4302 §2.2 place it.
#[test]
fn extension_headers_of_every_length_are_passed() {
    for number in [0_u8, 43, 51, 60] {
        for length in 0..=255_u8 {
            let size = match number {
                51 => (usize::from(length) + 2) * 4,
                _ => (usize::from(length) + 1) * 8,
            };
            let mut packet = with(&UDP6[..40], &[(4, 0), (5, 0), (6, number)]);
            packet.extend([17, length]);
            packet.resize(40 + size, 0);
            packet.extend([0x12, 0x34, 0x56, 0x78]);
            let parsed = parse::ip(&packet);
            let transport = Transport { protocol: 17, src_port: 0x1234, dst_port: 0x5678 };
            assert_eq!(parsed.key.transport(), Some(transport), "{number}, length {length}");
            assert_eq!(parsed.ip.unwrap().upper_offset, 40 + size);
            packet.truncate(40 + size - 1);
            let parsed = parse::ip(&packet);
            assert_eq!(parsed.ending, Ending::Truncated);
            assert_eq!(parsed.key.transport().unwrap().protocol, number);
        }
    }
}

/// Goal: the walk stops at its limit, for chains of any length. Method: chains of 8-byte headers up
/// to 65,535 bytes; the offset shows where the walk stopped.
#[test]
fn chains_of_headers_are_walked_up_to_the_bound() {
    for count in 0..=MAX_EXTENSION_HEADERS + 3 {
        let mut packet = with(&UDP6[..40], &[(4, 0), (5, 0)]);
        packet[6] = if count == 0 { 17 } else { 60 };
        for i in 1..=count {
            packet.extend([if i == count { 17 } else { 60 }, 0, 0, 0, 0, 0, 0, 0]);
        }
        packet.extend([0, 1, 0, 2]);
        let parsed = parse::ip(&packet);
        let upper = parsed.ip.unwrap().upper_offset;
        if count <= MAX_EXTENSION_HEADERS {
            assert_eq!((parsed.ending, upper), (Ending::Ports, 40 + 8 * count));
        } else {
            let stop = 40 + 8 * MAX_EXTENSION_HEADERS;
            assert_eq!((parsed.ending, upper), (Ending::TooManyHeaders, stop));
            let transport = Transport { protocol: 60, src_port: 0xa, dst_port: 0xbcde };
            assert_eq!(parsed.key.transport(), Some(transport));
        }
    }
    for kind in [0_u8, 43, 44, 51, 60] {
        let mut packet = with(&UDP6[..40], &[(4, 0xff), (5, 0xff), (6, kind)]);
        packet.extend([kind, 0, 0, 0, 0, 0, 0, 0].repeat(8191));
        let parsed = parse::ip(&packet);
        let stop = 40 + 8 * MAX_EXTENSION_HEADERS;
        assert_eq!(
            (parsed.ending, parsed.ip.unwrap().upper_offset),
            (Ending::TooManyHeaders, stop)
        );
    }
    let tags = [0x81, 0, 0, 1].repeat(400);
    for count in 0..=MAX_VLAN_TAGS + 1 {
        let frame = [&MACS[..], &tags[..4 * count], &[8, 0], &TCP4].concat();
        let parsed = parse::ethernet(&frame);
        if count <= MAX_VLAN_TAGS {
            assert_eq!(parsed.key, tcp4(6, 51000, 443), "{count} tags");
        } else {
            assert_eq!((parsed.ending, parsed.ip), (Ending::TooManyHeaders, None));
        }
    }
    assert_eq!(parse::ethernet(&[&MACS[..], &tags].concat()).ending, Ending::TooManyHeaders);
}

#[test]
fn headers_of_ipv6_mean_nothing_in_ipv4() {
    for protocol in [0, 43, 44, 60] {
        let parsed = parse::ip(&with(&TCP4, &[(9, protocol)]));
        assert_eq!((parsed.key, parsed.ending), (tcp4(protocol, 0, 0), Ending::NoPorts));
    }
}

#[test]
fn every_protocol_number_has_the_ports_the_table_says() {
    for protocol in 0..=255_u8 {
        let parsed = parse::ip(&with(&TCP4, &[(9, protocol)]));
        let (key, ending) = match protocol {
            6 | 17 | 33 | 50 | 132 | 136 => (tcp4(protocol, 51000, 443), Ending::Ports),
            // Type 0xc7, code 0x38: not an echo.
            1 | 58 => (tcp4(protocol, 0, 0xc738), Ending::Ports),
            // Next header 0xc7 = 199, length (0x38 + 2) · 4: beyond the packet.
            51 => (tcp4(51, 0, 0), Ending::Truncated),
            _ => (tcp4(protocol, 0, 0), Ending::NoPorts),
        };
        assert_eq!((parsed.key, parsed.ending), (key, ending), "protocol {protocol}");
    }
}

/// Goal: each field changes the labels it belongs to, and no other, unlike in two past kernel bugs
/// (a port assigned to the wrong side; ports in host labels). Method: flip every bit of the
/// packets, one at a time.
#[test]
fn each_byte_changes_exactly_the_labels_its_field_belongs_to() {
    let hasher = SipHash13::new([3; 16]);
    let v4 = framed(0x0800, &TCP4);
    let v6 = framed(0x86dd, &UDP6);
    for (frame, src, dst, protocol, ports) in
        [(&v4, 26..30, 30..34, 23, 34..38), (&v6, 22..38, 38..54, 20, 54..58)]
    {
        let before = parse::ethernet(frame);
        let labels = Labels::new(&before.key, &hasher);
        for at in 0..frame.len() {
            for bit in 0..8 {
                let after = parse::ethernet(&with(frame, &[(at, frame[at] ^ 1 << bit)]));
                let (is_src, is_dst) = (src.contains(&at), dst.contains(&at));
                // EtherType, version, lengths and fragmentation change what is readable.
                if after.ending != Ending::Ports && at != protocol {
                    assert!([12, 13, 14, 16, 17, 18, 19, 20, 21].contains(&at), "byte {at}");
                    continue;
                }
                // A longer IPv4 header moves the ports.
                if at == 14 && before.ip.unwrap().upper_offset != after.ip.unwrap().upper_offset {
                    continue;
                }
                let new = Labels::new(&after.key, &hasher);
                assert_eq!(new.src_host != labels.src_host, is_src, "byte {at}");
                assert_eq!(new.dst_host != labels.dst_host, is_dst, "byte {at}");
                assert_eq!(new.host_pair() != labels.host_pair(), is_src || is_dst, "byte {at}");
                let in_flow = is_src || is_dst || at == protocol || ports.contains(&at);
                assert_eq!(new.flow != labels.flow, in_flow, "byte {at}");
            }
        }
        let key = before.key.transport().unwrap();
        let copied = with(frame, &[(ports.start, frame[ports.start + 2])]);
        let copied = with(&copied, &[(ports.start + 1, frame[ports.start + 3])]);
        let after = parse::ethernet(&copied).key.transport().unwrap();
        assert_eq!((after.src_port, after.dst_port), (key.dst_port, key.dst_port));
    }
}
