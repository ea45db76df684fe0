//! Tunnels: packets written from the RFCs, truncated at every byte, against a naive reference
//! parser.

use conformance::twin::parser as twin;
use flowhash::parse::{self, MAX_TUNNELS};
use flowhash::{Ending, FlowKey, FlowLabels, Inner, Ip, Parsed, Parser, Transport, Tunnels};
use proptest::prelude::*;

const ALL: Parser = Parser { tunnels: Tunnels::ALL, flow_labels: FlowLabels::WithoutPorts };
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 7];

/// TCP from 10.0.0.1 port 50000 to 10.0.0.2 port 443, DSCP 46, ECT(0).
#[rustfmt::skip]
const INNER4: [u8; 40] = [
    0x45, 0xba, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    0xc3, 0x50, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0,
];

const INNER_KEY: FlowKey = FlowKey::V4 {
    src: [10, 0, 0, 1],
    dst: [10, 0, 0, 2],
    transport: Transport { protocol: 6, src_port: 50_000, dst_port: 443 },
};

/// Returns an IPv4 packet from 192.0.2.1 to 198.51.100.1, DSCP 0, CE, with `payload`.
fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [l0, l1] = (20 + payload.len() as u16).to_be_bytes();
    let header = [0x45, 3, l0, l1, 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
    [&header, payload].concat()
}

/// Returns an IPv6 packet with the flow label `label`, between hosts that end in 1 and 2.
fn v6(label: u32, next: u8, payload: &[u8]) -> Vec<u8> {
    let (mut src, mut dst) = ([0; 16], [0; 16]);
    (src[0], src[15], dst[0], dst[15]) = (0x20, 1, 0x20, 2);
    let [l0, l1] = (payload.len() as u16).to_be_bytes();
    [&(0x6120_0000 | label).to_be_bytes()[..], &[l0, l1, next, 64], &src, &dst, payload].concat()
}

fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&MACS[..], &ethertype.to_be_bytes(), payload].concat()
}

/// Returns a GRE packet with the fields that `flags` indicate.
fn gre(flags: u16, protocol: u16, payload: &[u8]) -> Vec<u8> {
    let fields = [0x8000, 0x2000, 0x1000].iter().filter(|flag| flags & **flag != 0).count();
    let header = [flags.to_be_bytes(), protocol.to_be_bytes()];
    [header.as_flattened(), &[0xaa; 4].repeat(fields), payload].concat()
}

fn vxlan(flags: u8, inner: &[u8]) -> Vec<u8> {
    let [p0, p1] = 4789_u16.to_be_bytes();
    let [l0, l1] = (16 + inner.len() as u16).to_be_bytes();
    let header = [0xd0, 1, p0, p1, l0, l1, 0, 0, flags, 0, 0, 0, 0, 0, 42, 0];
    [&header, inner].concat()
}

fn pppoe(protocol: u16, payload: &[u8]) -> Vec<u8> {
    let [l0, l1] = (2 + payload.len() as u16).to_be_bytes();
    let [p0, p1] = protocol.to_be_bytes();
    frame(0x8864, &[&[0x11, 0, 0x12, 0x34, l0, l1, p0, p1], payload].concat())
}

/// Compares the parser with the reference parser on every prefix of `bytes`, with all options.
fn agree(bytes: &[u8]) {
    let sets = [
        Tunnels::NONE,
        Tunnels::PPPOE,
        Tunnels::IP_IN_IP,
        Tunnels::GRE,
        Tunnels::SEQUENCED_GRE,
        Tunnels::VXLAN,
        Tunnels::VISIBLE,
        Tunnels::ALL,
    ];
    for tunnels in sets {
        for flow_labels in [FlowLabels::Ignored, FlowLabels::WithoutPorts, FlowLabels::Always] {
            let parser = Parser { tunnels, flow_labels };
            for length in 0..=bytes.len() {
                let part = &bytes[..length];
                let found = [parser.ethernet(part), parser.ip(part)];
                let owed = [true, false].map(|framed| twin::read(parser, part, framed));
                assert_eq!(found, owed, "{parser:?}, {length} of {bytes:02x?}");
            }
        }
    }
}

/// Goal: every kind of tunnel leads to its inner packet, with the positions of both headers.
/// Method: the inner packet is always the same; offsets are added up manually.
#[test]
fn each_tunnel_leads_to_the_packet_in_it() {
    let inner6 = v6(0, 6, &INNER4[20..]);
    let key6 = parse::ip(&inner6).key;
    let inner_frame = frame(0x0800, &INNER4);
    for (name, packet, key, offset) in [
        ("IPv4 in IPv4", v4(4, &INNER4), INNER_KEY, 20),
        ("6in4", v4(41, &inner6), key6, 20),
        ("IPv4 in IPv6", v6(7, 4, &INNER4), INNER_KEY, 40),
        ("IPv6 in IPv6", v6(7, 41, &inner6), key6, 40),
        // RFC 2473 §4.1.1: the encapsulation limit comes in a destination options header.
        (
            "with a limit",
            v6(7, 60, &[&[4, 0, 4, 1, 4, 1, 0, 0], &INNER4[..]].concat()),
            INNER_KEY,
            48,
        ),
        (
            "behind AH",
            v4(51, &[&[4, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], &INNER4[..]].concat()),
            INNER_KEY,
            32,
        ),
        ("GRE", v4(47, &gre(0, 0x0800, &INNER4)), INNER_KEY, 24),
        ("GRE with checksum", v4(47, &gre(0x8000, 0x0800, &INNER4)), INNER_KEY, 28),
        ("GRE with key", v4(47, &gre(0x2000, 0x86dd, &inner6)), key6, 28),
        ("GRE with both", v6(7, 47, &gre(0xa000, 0x0800, &INNER4)), INNER_KEY, 52),
        ("GRE with all", v4(47, &gre(0xb000, 0x0800, &INNER4)), INNER_KEY, 36),
        ("NVGRE", v4(47, &gre(0x2000, 0x6558, &inner_frame)), INNER_KEY, 42),
        ("VXLAN", v4(17, &vxlan(8, &inner_frame)), INNER_KEY, 50),
        (
            "VXLAN, IPv6",
            v6(7, 17, &vxlan(0xff, &frame(0x8100, &[&[0, 1, 0x86, 0xdd], &inner6[..]].concat()))),
            key6,
            74,
        ),
    ] {
        let outer = parse::ip(&packet);
        assert_eq!(outer.inner, None, "{name}");
        let parsed = ALL.ip(&packet);
        assert_eq!(parsed.ip, outer.ip, "{name}: marks belong to the outer header");
        assert_eq!((parsed.key, parsed.ending), (key, Ending::Ports), "{name}");
        assert_eq!(parsed.outer_key(), &outer.key, "{name}");
        let inner = parsed.inner.unwrap();
        assert_eq!((inner.ip.offset, inner.depth), (offset, 1), "{name}");
        let same = parse::ip(&packet[offset..]).ip.unwrap();
        assert_eq!((inner.ip.dscp(), inner.ip.ecn()), (same.dscp(), same.ecn()), "{name}");
        assert_eq!(inner.ip.upper_offset, offset + same.upper_offset, "{name}");
        agree(&packet);
        agree(&frame(if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, &packet));
    }
}

#[test]
fn by_default_sequenced_gre_and_vxlan_are_one_flow() {
    let default = Parser::default();
    assert_eq!(default, Parser { tunnels: Tunnels::default(), ..Parser::OUTER });
    for packet in [
        v4(47, &gre(0x1000, 0x0800, &INNER4)),
        v4(47, &gre(0xb000, 0x0800, &INNER4)),
        v4(17, &vxlan(8, &frame(0x0800, &INNER4))),
    ] {
        assert_eq!(default.ip(&packet), parse::ip(&packet));
        assert_ne!(ALL.ip(&packet), parse::ip(&packet));
    }
    let packet = v4(47, &gre(0x2000, 0x0800, &INNER4));
    assert_eq!(default.ip(&packet), ALL.ip(&packet));
}

/// Goal: a tunnel that cannot be followed has the result of its outer header. Method: complete
/// packets, each a tunnel with one fault.
#[test]
fn what_is_not_a_readable_tunnel_is_its_outer_header() {
    let opaque = [0x99; 64];
    let arp = frame(0x0806, &opaque);
    let inner6 = v6(0, 6, &INNER4[20..]);
    for packet in [
        v4(4, &inner6),
        v4(41, &[&INNER4[..], &[0; 20]].concat()),
        v4(4, &opaque),
        // PPTP: version 1, with key, sequence and acknowledgement (RFC 2637 §4.1).
        v4(47, &[&[0x30, 0x81, 0x88, 0x0b], &opaque[..]].concat()),
        v4(47, &gre(0x4000, 0x0800, &INNER4)),
        v4(47, &gre(0x0800, 0x0800, &INNER4)),
        v4(47, &gre(0x0400, 0x0800, &INNER4)),
        v4(47, &gre(0x0001, 0x0800, &INNER4)),
        v4(47, &gre(0, 0x8847, &opaque)),
        v4(47, &gre(0, 0x6558, &arp)),
        v4(17, &vxlan(0xf7, &frame(0x0800, &INNER4))),
        v4(17, &vxlan(8, &arp)),
        // ESP, and WireGuard's data message on its usual port.
        v4(50, &opaque),
        v4(17, &[&[0xca, 0x6c, 0xca, 0x6c, 0, 72, 0, 0, 4, 0, 0, 0], &opaque[..]].concat()),
    ] {
        assert_eq!(ALL.ip(&packet), parse::ip(&packet), "{packet:02x?}");
        agree(&packet);
    }
    // Bits that a receiver ignores (RFC 2784 §2.3).
    assert_eq!(ALL.ip(&v4(47, &gre(0x03f8, 0x0800, &INNER4))).key, INNER_KEY);
}

/// Goal: a complete inner header counts, even if its packet is truncated. Method: the outer length
/// says where the inner packet ends; the bytes after it are padding.
#[test]
fn the_outer_packet_ends_the_inner_one() {
    for kept in 0..=40_u8 {
        let mut packet = v4(4, &INNER4);
        packet[3] = 20 + kept;
        let parsed = ALL.ip(&packet);
        let ending = if kept < 24 { Ending::Truncated } else { Ending::Ports };
        assert_eq!(parsed.ending, ending, "{kept} bytes inside");
        assert_eq!(parsed.inner.is_some(), kept >= 20, "{kept} bytes inside");
        agree(&packet);
    }
}

#[test]
fn a_fragment_in_a_tunnel_and_a_tunnel_in_fragments() {
    let mut fragment = INNER4;
    fragment[6] = 0x20;
    let parsed = ALL.ip(&v4(4, &fragment));
    assert_eq!(parsed.ending, Ending::Fragment);
    assert_eq!(parsed.key.src_host(), INNER_KEY.src_host());
    // Later fragments of the outer packet hold no inner header, so none of its fragments is
    // followed.
    let mut outer = v4(4, &INNER4);
    for (first, second) in [(0x20, 0), (0x20, 1), (0, 1)] {
        (outer[6], outer[7]) = (first, second);
        let parsed = ALL.ip(&outer);
        assert_eq!((parsed.ending, parsed.inner), (Ending::Fragment, None));
    }
    agree(&outer);
}

/// Goal: at most `MAX_TUNNELS` tunnels are followed, and the result reports it. Method: nested
/// tunnels of alternating kinds, up to twice the limit.
#[test]
fn tunnels_in_tunnels_are_followed_up_to_the_bound() {
    let mut packet = INNER4.to_vec();
    for depth in 1..=2 * MAX_TUNNELS {
        packet = match depth % 4 {
            1 => v4(4, &packet),
            2 => v6(0, 4, &packet),
            3 => v4(47, &gre(0xa000, 0x86dd, &packet)),
            _ => v4(17, &vxlan(8, &frame(0x0800, &packet))),
        };
        let parsed = ALL.ip(&packet);
        let inner = parsed.inner.unwrap();
        assert_eq!(usize::from(inner.depth), depth.min(MAX_TUNNELS));
        if depth <= MAX_TUNNELS {
            assert_eq!((parsed.key, parsed.ending), (INNER_KEY, Ending::Ports));
        } else {
            assert_eq!(parsed.ending, Ending::TooManyHeaders, "{depth}");
            assert_ne!(parsed.key, INNER_KEY);
        }
        agree(&packet);
    }
}

#[test]
fn pppoe_is_a_link() {
    let inner6 = v6(0, 6, &INNER4[20..]);
    for (bytes, key) in
        [(pppoe(0x21, &INNER4), INNER_KEY), (pppoe(0x57, &inner6), parse::ip(&inner6).key)]
    {
        let parsed = parse::ethernet(&bytes);
        assert_eq!((parsed.key, parsed.inner, parsed.ending), (key, None, Ending::Ports));
        assert_eq!(parsed.ip.unwrap().offset, 22);
        agree(&bytes);
        let tagged = [&bytes[..12], &[0x81, 0, 0, 7], &bytes[12..]].concat();
        assert_eq!(parse::ethernet(&tagged).ip.unwrap().offset, 26);
        agree(&tagged);
    }
    let tunnel = pppoe(0x21, &v4(41, &inner6));
    assert_eq!(Parser::new().ethernet(&tunnel).inner.unwrap().ip.offset, 42);
    agree(&tunnel);
    let key = FlowKey::Ethernet { src: [2, 0, 0, 0, 0, 7] };
    let with = |changes: &[(usize, u8)]| {
        let mut bytes = pppoe(0x21, &INNER4);
        for (at, value) in changes {
            bytes[*at] = *value;
        }
        bytes
    };
    for (bytes, ending) in [
        (pppoe(0xc021, &[1, 1, 0, 4]), Ending::NotIp),
        (pppoe(0x57, &INNER4), Ending::Malformed),
        (with(&[(22, 0x65)]), Ending::Malformed),
        (with(&[(14, 0x21)]), Ending::NotIp),
        (with(&[(15, 0xa7)]), Ending::NotIp),
        (with(&[(19, 1)]), Ending::Malformed),
        (with(&[(19, 21)]), Ending::Truncated),
    ] {
        assert_eq!(parse::ethernet(&bytes), Parsed::new(key, None, None, ending));
        agree(&bytes);
    }
    let off = Parser { tunnels: Tunnels::NONE, ..Parser::OUTER };
    let unread = Parsed::new(key, None, None, Ending::NotIp);
    assert_eq!(off.ethernet(&pppoe(0x21, &INNER4)), unread);
}

/// Goal: a PPPoE session with a protocol number compressed to one byte (RFC 1661 §6.5) carries the
/// same packet. Method: both versions, after a tag too; other protocol numbers, and lengths that
/// are too short.
#[test]
fn a_compressed_protocol_number_is_read() {
    let inner6 = v6(0, 6, &INNER4[20..]);
    let compressed = |protocol: u8, payload: &[u8]| {
        let [l0, l1] = (1 + payload.len() as u16).to_be_bytes();
        frame(0x8864, &[&[0x11, 0, 0x12, 0x34, l0, l1, protocol], payload].concat())
    };
    for (protocol, packet) in [(0x21, &INNER4[..]), (0x57, &inner6)] {
        let bytes = [&compressed(protocol, packet)[..], &[0; 6]].concat();
        let parsed = parse::ethernet(&bytes);
        let expected = parse::ip(packet);
        assert_eq!((parsed.key, parsed.ending), (expected.key, Ending::Ports));
        assert_eq!(parsed.ip.unwrap().offset, 21);
        agree(&bytes);
        let tagged = [&bytes[..12], &[0x81, 0, 0, 7], &bytes[12..]].concat();
        assert_eq!(parse::ethernet(&tagged).ip.unwrap().offset, 25);
        agree(&tagged);
    }
    let mut short = compressed(0x21, &INNER4);
    short[19] = 0;
    for (bytes, ending) in [
        (compressed(0x23, &INNER4), Ending::NotIp),
        (compressed(0x57, &INNER4), Ending::Malformed),
        (short, Ending::Malformed),
    ] {
        assert_eq!(parse::ethernet(&bytes).ending, ending);
        agree(&bytes);
    }
}

/// Goal: an IP packet after LLC and SNAP (RFC 1042) has its own key, and its header is found.
/// Method: both versions, padded and after a tag; ARP; other LLC headers and organizations.
#[test]
fn a_packet_behind_snap_is_read() {
    let inner6 = v6(0, 6, &INNER4[20..]);
    let snap = |header: [u8; 6], ethertype: u16, payload: &[u8]| {
        let rest = [&header[..], &ethertype.to_be_bytes(), payload].concat();
        frame(rest.len() as u16, &rest)
    };
    const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];
    for (ethertype, packet) in [(0x0800, &INNER4[..]), (0x86dd, &inner6)] {
        let bytes = [&snap(SNAP, ethertype, packet)[..], &[0; 6]].concat();
        let parsed = parse::ethernet(&bytes);
        let expected = parse::ip(packet);
        assert_eq!((parsed.key, parsed.ending), (expected.key, Ending::Ports));
        assert_eq!(parsed.ip.unwrap().offset, 22);
        agree(&bytes);
        let tagged = [&bytes[..12], &[0x81, 0, 0, 7], &bytes[12..]].concat();
        assert_eq!(parse::ethernet(&tagged).ip.unwrap().offset, 26);
        agree(&tagged);
    }
    let mut short = snap(SNAP, 0x0800, &INNER4);
    short[13] = 7;
    for (bytes, ending) in [
        (snap(SNAP, 0x0806, &[0, 1]), Ending::Arp),
        (snap(SNAP, 0x8137, &INNER4), Ending::NotIp),
        (snap([0xaa, 0xaa, 3, 0, 0, 0xc], 0x0800, &INNER4), Ending::NotIp),
        // A spanning tree frame.
        (snap([0x42, 0x42, 3, 0, 0, 0], 0, &[0; 30]), Ending::NotIp),
        (snap(SNAP, 0x86dd, &INNER4), Ending::Malformed),
        (short, Ending::Malformed),
    ] {
        assert_eq!(parse::ethernet(&bytes).ending, ending);
        agree(&bytes);
    }
}

/// Goal: each policy on flow labels, for packets with and without ports, and fragments.
#[test]
fn flow_labels_stand_where_the_policy_says() {
    let udp = [0x13, 0x8c, 0, 53, 0, 8, 0, 0];
    let fragment = |more_and_place: u16| {
        let [o0, o1] = more_and_place.to_be_bytes();
        [&[17, 0, o0, o1, 1, 2, 3, 4][..], &udp].concat()
    };
    let transport = |flow_labels, packet: &[u8]| {
        let parsed = Parser { flow_labels, ..Parser::OUTER }.ip(packet);
        let Transport { protocol, src_port, dst_port } = parsed.key.transport().unwrap();
        (protocol, src_port, dst_port)
    };
    for (label, high, low) in [(0xf_ffff, 0xf, 0xffff), (0x1_0000, 1, 0), (1, 0, 1), (0, 0, 0)] {
        let whole = v6(label, 17, &udp);
        let ospf = v6(label, 89, &udp);
        let fragments = [1, 8, 9, 0xfff8].map(|place| v6(label, 44, &fragment(place)));
        assert_eq!(transport(FlowLabels::Ignored, &whole), (17, 5004, 53));
        assert_eq!(transport(FlowLabels::WithoutPorts, &whole), (17, 5004, 53));
        assert_eq!(transport(FlowLabels::Ignored, &ospf), (89, 0, 0));
        assert_eq!(transport(FlowLabels::WithoutPorts, &ospf), (89, high, low));
        for fragment in &fragments {
            assert_eq!(transport(FlowLabels::Ignored, fragment), (44, 0, 0));
            assert_eq!(transport(FlowLabels::WithoutPorts, fragment), (44, high, low));
        }
        for packet in fragments.iter().chain([&whole, &ospf]) {
            if label == 0 {
                let ignored = transport(FlowLabels::Ignored, packet);
                assert_eq!(transport(FlowLabels::Always, packet), ignored);
            } else {
                assert_eq!(transport(FlowLabels::Always, packet), (0, high, low));
            }
            agree(packet);
        }
    }
}

/// Goal: every possible fragment of a packet has one key, without ports. Method: all 2^16 values of
/// flags and offset in IPv4, and of the fragment header in IPv6.
#[test]
fn all_fragments_there_can_be_have_one_key() {
    let hosts = |protocol| Transport { protocol, src_port: 0, dst_port: 0 };
    let mut packet = v4(17, &[0x99; 16]);
    let mut packet6 = v6(0x12345, 44, &[17, 0, 0, 0, 9, 9, 9, 9, 0x99, 0x99, 0x99, 0x99]);
    for field in 0..=u16::MAX {
        (packet[6], packet[7]) = ((field >> 8) as u8, field as u8);
        let parsed = parse::ip(&packet);
        // Neither the reserved bit nor "don't fragment" makes a fragment.
        let is_fragment = field & 0x3fff != 0;
        assert_eq!(parsed.ending == Ending::Fragment, is_fragment, "{field:#06x}");
        assert_eq!(parsed.key.transport() == Some(hosts(17)), is_fragment);

        (packet6[42], packet6[43]) = ((field >> 8) as u8, field as u8);
        // Later fragments may name another next header.
        packet6[40] = if field > 7 { 60 } else { 17 };
        let parsed = parse::ip(&packet6);
        let label = Transport { protocol: 44, src_port: 1, dst_port: 0x2345 };
        let is_fragment = field & 0xfff9 != 0;
        assert_eq!(parsed.ending == Ending::Fragment, is_fragment, "{field:#06x}");
        assert_eq!(parsed.key.transport() == Some(label), is_fragment);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None,
        rng_seed: prop::test_runner::RngSeed::Fixed(4), ..ProptestConfig::default() })]

    /// Goal: nested tunnels, damaged, have the result of the reference parser at every length.
    /// Method: up to six layers around a packet, with up to four bytes overwritten.
    #[test]
    fn damaged_tunnels_are_read_as_the_twin_reads_them(
        layers in prop::collection::vec((0..7_u8, any::<u16>(), any::<bool>()), 0..=6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..=4),
    ) {
        let mut packet = INNER4.to_vec();
        for (kind, field, outer6) in layers {
            let inner6 = packet[0] >> 4 == 6;
            let ethertype = if inner6 { 0x86dd } else { 0x0800 };
            let (protocol, body) = match kind {
                0..=2 => (if inner6 { 41 } else { 4 }, packet),
                3 => (47, gre(field & 0xb000, ethertype, &packet)),
                4 => (47, gre(field & 0xb3f8, 0x6558, &frame(ethertype, &packet))),
                5 => (17, vxlan(8, &frame(ethertype, &packet))),
                _ => (17, vxlan(8, &pppoe(if inner6 { 0x57 } else { 0x21 }, &packet))),
            };
            packet = if outer6 { v6(field.into(), protocol, &body) } else { v4(protocol, &body) };
        }
        for (place, value) in damage {
            let place = place.index(packet.len());
            packet[place] = value;
        }
        for length in 0..=packet.len() {
            let part = &packet[..length];
            prop_assert_eq!(ALL.ip(part), twin::read(ALL, part, false), "{} bytes", length);
        }
        agree(&packet[..packet.len().min(30)]);
        let Parsed { inner, .. } = ALL.ip(&packet);
        if let Some(Inner { ip: Ip { offset, .. }, depth, .. }) = inner {
            prop_assert!(usize::from(depth) <= MAX_TUNNELS && offset + 20 <= packet.len());
        }
    }
}
