#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::modulo_arithmetic,
    reason = "a test that panics fails"
)]

extern crate std;

use std::string::ToString as _;
use std::vec;
use std::vec::Vec;

use super::*;

/// Sums the 16-bit words of `bytes` one by one, with end-around carry.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    sum as u16
}

/// An Ethernet frame with IPv4 and DF from 10.0.0.1 to 10.0.0.2, TCP with timestamps: FIN, PSH, ACK
/// and CWR.
fn tcp4(payload: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let len = (52 + payload) as u16;
    frame.extend([0x45, 0xba, (len >> 8) as u8, len as u8, 0xff, 0xfe, 0x40, 0, 64, 6, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 80, 0x1f, 0x90, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 9, 0x80, 0x99, 1, 0, 7, 7]);
    frame.extend([0, 0, 1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 4]);
    frame.extend((0..payload).map(|at| at as u8));
    frame
}

/// A raw IPv6 packet with UDP.
fn udp6(payload: usize) -> Vec<u8> {
    let len = (8 + payload) as u16;
    let mut packet = vec![0x6b, 0xa0, 1, 2, (len >> 8) as u8, len as u8, 17, 64];
    packet.extend([0xfd; 31]);
    packet.push(1);
    packet.extend([0x13, 0x8c, 0x13, 0x8e, (len >> 8) as u8, len as u8, 0, 0]);
    packet.extend((0..payload).map(|at| at as u8));
    packet
}

fn cut(mut segmenter: Segmenter<'_>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut place = [0xaa; 2_000];
    while let Some(len) = segmenter.next_len() {
        assert_eq!(segmenter.write_next(&mut place[..len - 1]), None, "no room");
        assert_eq!(segmenter.write_next(&mut place), Some(len));
        assert!(place[len..].iter().all(|&byte| byte == 0xaa), "nothing behind it is written");
        all.push(place[..len].to_vec());
        place = [0xaa; 2_000];
    }
    assert_eq!(segmenter.write_next(&mut place), None);
    all
}

#[test]
fn sequence_numbers_identification_and_flags_are_those_of_the_segment() {
    let frame = tcp4(25);
    let segmenter = Segmenter::ethernet(&frame, 10).unwrap();
    let segments = segmenter.segments();
    assert_eq!((segments.count(), segments.each(), segments.last()), (3, 76, 71));
    let all = cut(segmenter);
    assert_eq!(all.len(), 3);
    for (at, segment) in all.iter().enumerate() {
        assert_eq!(segment[..16], frame[..16], "addresses and class");
        assert_eq!(segment[16..18], [0, [62, 62, 57][at]], "length");
        assert_eq!(segment[18..20], [[0xff, 0xfe], [0xff, 0xff], [0, 0]][at], "identification");
        let seq = u32::from_be_bytes(segment[38..42].try_into().unwrap());
        assert_eq!(seq, 0xffff_fffe_u32.wrapping_add(10 * at as u32), "it wraps");
        assert_eq!(segment[47], [0x90, 0x10, 0x19][at], "CWR first, FIN and PSH last");
        assert_eq!(segment[54..66], frame[54..66], "options");
        assert_eq!(segment[66..], frame[66 + 10 * at..frame.len().min(76 + 10 * at)]);
        assert_eq!(naive(&segment[14..34]), 0xffff);
        let len = (segment.len() - 34) as u8;
        let pseudo = [&segment[26..34], &[0, 6, 0, len], &segment[34..]].concat();
        assert_eq!(naive(&pseudo), 0xffff);
    }
    let counter = cut(Segmenter::ethernet(&frame, 10).unwrap().with_accurate_ecn());
    assert_eq!([0, 1, 2].map(|at: usize| counter[at][47]), [0x90, 0x90, 0x99]);
}

#[test]
fn datagrams_have_their_own_lengths() {
    let packet = udp6(20);
    let all = cut(Segmenter::ip(&packet, 9).unwrap());
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [57, 57, 50]);
    for (at, segment) in all.iter().enumerate() {
        let len = [17, 17, 10][at];
        assert_eq!((&segment[..4], &segment[4..6]), (&packet[..4], &[0, len][..]));
        assert_eq!((&segment[6..44], &segment[44..46]), (&packet[6..44], &[0, len][..]));
        assert_eq!(segment[48..], packet[48 + 9 * at..packet.len().min(57 + 9 * at)]);
        let pseudo = [&segment[8..40], &[0, 17, 0, len], &segment[40..]].concat();
        assert_eq!(naive(&pseudo), 0xffff);
    }
}

/// Goal: a UDP checksum that computes to 0 is written as all ones, since 0 means no checksum.
#[test]
fn no_datagram_is_without_a_checksum() {
    let mut packet = udp6(4);
    packet[48..52].fill(0);
    let checksum = cut(Segmenter::ip(&packet, 4).unwrap())[0][46..48].to_vec();
    // The payload supplies what the sum lacks to be all ones.
    packet[48..50].copy_from_slice(&checksum);
    assert_eq!(cut(Segmenter::ip(&packet, 4).unwrap())[0][46..48], [0xff, 0xff]);
}

#[test]
fn a_frame_without_more_payload_is_one_segment() {
    for (payload, size) in [(0, 1), (1, 1), (9, 10), (10, 10), (10, u16::MAX)] {
        let frame = tcp4(payload);
        let all = cut(Segmenter::ethernet(&frame, size).unwrap());
        assert_eq!((all.len(), all[0].len()), (1, frame.len()));
        assert_eq!(all[0][47], 0x99, "all its flags");
        assert_eq!(all[0][18..20], frame[18..20]);
    }
}

#[test]
fn tags_stay_and_padding_goes() {
    let frame = tcp4(25);
    let tags = [0x88, 0xa8, 0, 9, 0x81, 0, 0xe0, 7];
    let mut tagged = [&frame[..12], &tags, &frame[12..]].concat();
    tagged.extend([0xee; 6]);
    let (plain, all) = (
        cut(Segmenter::ethernet(&frame, 10).unwrap()),
        cut(Segmenter::ethernet(&tagged, 10).unwrap()),
    );
    assert_eq!(all.len(), 3);
    for (segment, plain) in all.iter().zip(plain) {
        assert_eq!(*segment, [&plain[..12], &tags, &plain[12..]].concat());
    }
}

/// Goal: each frame that cannot be segmented has its own error. Method: a valid frame with one
/// change each.
#[test]
fn what_cannot_be_cut_is_refused_by_name() {
    use CutError::{
        ExtensionHeader, Flags, Fragment, Malformed, NotIp, Protocol, Segments, Truncated,
    };
    let (frame, packet) = (tcp4(25), udp6(20));
    let at = |changes: &[(usize, u8)]| {
        let mut frame = frame.clone();
        changes.iter().for_each(|&(at, byte)| frame[at] = byte);
        Segmenter::ethernet(&frame, 10).map(|segmenter| segmenter.segments().count())
    };
    let of6 = |changes: &[(usize, u8)]| {
        let mut packet = packet.clone();
        changes.iter().for_each(|&(at, byte)| packet[at] = byte);
        Segmenter::ip(&packet, 10).map(|segmenter| segmenter.segments().count())
    };
    assert_eq!((at(&[]), of6(&[])), (Ok(3), Ok(2)));
    let size = Segmenter::ethernet(&frame, 0).unwrap_err();
    assert_eq!(size, Segments(SegmentsError::Size));
    let refused = [
        (at(&[(13, 6)]), NotIp),
        (at(&[(12, 0x88), (13, 0x64)]), NotIp),
        (at(&[(14, 0x44)]), Malformed),
        (at(&[(14, 0x4f), (17, 50)]), Malformed),
        (at(&[(17, 200)]), Truncated),
        (at(&[(20, 0x20)]), Fragment),
        (at(&[(21, 1)]), Fragment),
        (at(&[(23, 1)]), Protocol(1)),
        (at(&[(23, 47)]), Protocol(47)),
        (at(&[(46, 0x40)]), Malformed),
        (at(&[(47, 0x12)]), Flags(2)),
        (at(&[(47, 0x14)]), Flags(4)),
        (at(&[(47, 0x30)]), Flags(0x20)),
        (at(&[(16, 0), (17, 40), (46, 0x60)]), Truncated),
        (of6(&[(0, 0x5b)]), NotIp),
        (of6(&[(5, 29)]), Truncated),
        (of6(&[(4, 0), (5, 0)]), Truncated),
        (of6(&[(6, 0)]), ExtensionHeader(0)),
        (of6(&[(6, 44)]), Fragment),
        (of6(&[(6, 58)]), Protocol(58)),
        (of6(&[(45, 27)]), Malformed),
    ];
    for (at, (found, error)) in refused.into_iter().enumerate() {
        assert_eq!(found, Err(error), "{at}");
        assert!(!error.to_string().is_empty());
    }
    // PPPoE: the length in its header would be wrong.
    let session = [0x88, 0x64, 0x11, 0, 0, 1, 0, 79, 0, 0x21];
    let pppoe = [&frame[..12], &session, &frame[14..]].concat();
    assert_eq!(Segmenter::ethernet(&pppoe, 10).unwrap_err(), NotIp);
    // Every shorter frame is refused, and none is read beyond its end.
    for len in 0..frame.len() {
        assert!(Segmenter::ethernet(&frame[..len], 10).is_err(), "{len}");
    }
    for len in 0..packet.len() {
        assert!(Segmenter::ip(&packet[..len], 10).is_err(), "{len}");
    }
}

#[test]
fn sums_are_those_of_words() {
    let bytes: Vec<u8> = (0..4_099_u32).map(|at| (at * 7 + (at >> 3)) as u8 | 0xf0).collect();
    for from in 0..5 {
        for to in (from..from + 40).chain([4_090, 4_099]) {
            let (found, naive) = (folded(sum(&bytes[from..to])), naive(&bytes[from..to]));
            // Both are zero in ones' complement.
            assert_eq!(found % 0xffff, naive % 0xffff, "{from} to {to}");
        }
    }
    assert_eq!(folded(u64::MAX >> 16), 0xffff);
}

/// Returns the payload after all headers, and checks that each header describes what follows it.
fn checked(protocol: &str, bytes: &[u8], pseudo: u32) -> Vec<u8> {
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let is_right = |bytes: &[u8]| {
        let sum = u32::from(naive(bytes)) + pseudo;
        (sum & 0xffff) + (sum >> 16) == 0xffff
    };
    let of_ip = |protocol: u8| match protocol {
        4 => "0800",
        6 => "tcp",
        17 => "udp",
        41 => "86dd",
        47 => "gre",
        other => panic!("protocol {other}"),
    };
    let pseudo_of = |addresses: &[u8], protocol: u8, len: usize| {
        let sum = u32::from(naive(addresses)) + u32::from(protocol) + len as u32;
        (sum & 0xffff) + (sum >> 16)
    };
    match protocol {
        "ethernet" => checked(&std::format!("{:04x}", word(12)), &bytes[14..], 0),
        "8100" => checked(&std::format!("{:04x}", word(2)), &bytes[4..], 0),
        "8864" => {
            assert_eq!(usize::from(word(4)), bytes.len() - 6, "PPPoE");
            checked(if word(6) == 0x21 { "0800" } else { "86dd" }, &bytes[8..], 0)
        }
        "0800" => {
            assert_eq!((usize::from(word(2)), naive(&bytes[..20])), (bytes.len(), 0xffff));
            let pseudo = pseudo_of(&bytes[12..20], bytes[9], bytes.len() - 20);
            checked(of_ip(bytes[9]), &bytes[20..], pseudo)
        }
        "86dd" => {
            assert_eq!(usize::from(word(4)), bytes.len() - 40);
            let pseudo = pseudo_of(&bytes[8..40], bytes[6], bytes.len() - 40);
            checked(of_ip(bytes[6]), &bytes[40..], pseudo)
        }
        "gre" => {
            let has_checksum = bytes[0] & 0x80 != 0;
            assert!(!has_checksum || naive(bytes) == 0xffff, "GRE");
            let header = 4 * (1 + usize::from(has_checksum) + usize::from(bytes[0] & 0x20 != 0));
            let inside =
                if word(2) == 0x6558 { "ethernet".into() } else { std::format!("{:04x}", word(2)) };
            checked(&inside, &bytes[header..], 0)
        }
        "udp" => {
            assert_eq!(usize::from(word(4)), bytes.len());
            let is_vxlan = word(2) == 4_789;
            assert!((is_vxlan && word(6) == 0) || is_right(bytes), "UDP");
            if is_vxlan { checked("ethernet", &bytes[16..], 0) } else { bytes[8..].to_vec() }
        }
        "tcp" => {
            assert!(is_right(bytes), "TCP");
            bytes[usize::from(bytes[12] >> 4) * 4..].to_vec()
        }
        other => panic!("{other}"),
    }
}

/// An IPv4 packet of this protocol around `inside`; its identification is not unique yet.
fn around4(protocol: u8, inside: &[u8]) -> Vec<u8> {
    let [l0, l1] = (20 + inside.len() as u16).to_be_bytes();
    let header =
        [0x45, 0, l0, l1, 0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    [&header, inside].concat()
}

/// Goal: for tunnels and PPPoE the inner packets are segmented, and every header around them is
/// consistent: lengths, checksums, identifications. Reassembled, the inner packet is unchanged, and
/// everything before the payload that is no length, number or checksum is in each segment.
#[test]
fn packets_inside_tunnels_are_cut_and_the_headers_around_fit_them() {
    let ethernet = |protocol: [u8; 2], inside: &[u8]| [&[2; 12], &protocol[..], inside].concat();
    let around6 = |protocol: u8, inside: &[u8]| {
        let [l0, l1] = (inside.len() as u16).to_be_bytes();
        [&[0x60, 0, 0, 0, l0, l1, protocol, 64], &[0xfd; 32][..], inside].concat()
    };
    let vxlan = |checksum: u8, inside: &[u8]| {
        let [l0, l1] = (16 + inside.len() as u16).to_be_bytes();
        let header = [0xa3, 0x78, 0x12, 0xb5, l0, l1, 0, checksum, 8, 0, 0, 0, 0, 0, 7, 0];
        [&header, inside].concat()
    };
    let gre = |flags: u8, protocol: [u8; 2], inside: &[u8]| {
        let fields = vec![9; 4 * (flags.count_ones() as usize)];
        [&[flags, 0, protocol[0], protocol[1]], &fields[..], inside].concat()
    };
    let pppoe = |number: u8, inside: &[u8]| {
        let [l0, l1] = (2 + inside.len() as u16).to_be_bytes();
        [&[0x11, 0, 0, 5, l0, l1, 0, number], inside].concat()
    };
    const V4: [u8; 2] = [8, 0];
    const V6: [u8; 2] = [0x86, 0xdd];
    const TEB: [u8; 2] = [0x65, 0x58];
    let (tcp, udp) = (&tcp4(1_000)[14..], &udp6(1_000)[..]);
    let inner4 = ethernet(V4, tcp);
    let tagged = ethernet([0x81, 0], &[&[0, 7], &V6[..], udp].concat());
    for (name, frame) in [
        ("plain", ethernet(V4, tcp)),
        ("ip in ip", ethernet(V4, &around4(4, tcp))),
        ("6in4", ethernet(V4, &around4(41, udp))),
        ("4in6", ethernet(V6, &around6(4, tcp))),
        ("gre", ethernet(V4, &around4(47, &gre(0, V4, tcp)))),
        ("gre with a checksum and a key", ethernet(V4, &around4(47, &gre(0xa0, V6, udp)))),
        ("gretap over IPv6", ethernet(V6, &around6(47, &gre(0x20, TEB, &inner4)))),
        ("vxlan", ethernet(V4, &around4(17, &vxlan(0, &inner4)))),
        ("vxlan with a checksum", ethernet(V4, &around4(17, &vxlan(9, &inner4)))),
        ("vxlan over IPv6, tagged inside", ethernet(V6, &around6(17, &vxlan(9, &tagged)))),
        ("pppoe", ethernet([0x88, 0x64], &pppoe(0x21, tcp))),
        (
            "pppoe, tagged",
            ethernet([0x81, 0], &[&[0, 7, 0x88, 0x64], &pppoe(0x57, udp)[..]].concat()),
        ),
    ] {
        let start = frame.len() - 1_000 - if frame.ends_with(tcp) { 32 } else { 8 };
        let segmenter = Segmenter::offloaded(&frame, 300, start).expect(name);
        assert_eq!(segmenter.open_checksum().0, start, "{name}");
        let all = cut(segmenter);
        assert_eq!(all.len(), 4, "{name}");
        let payload: Vec<u8> =
            all.iter().flat_map(|segment| checked("ethernet", segment, 0)).collect();
        assert_eq!(payload, frame[frame.len() - 1_000..], "{name}");
        for (number, segment) in all.iter().enumerate().filter(|_| frame[12..14] == V4) {
            let id = u16::from_be_bytes([segment[18], segment[19]]);
            assert_eq!(id, 0xfffe_u16.wrapping_add(number as u16), "{name}");
        }
        // The device means another header, or the frame is truncated.
        for wrong in [start - 1, start + 1, 14, 0, usize::MAX] {
            assert!(Segmenter::offloaded(&frame, 300, wrong).is_err(), "{name}");
        }
        for len in 0..frame.len() {
            assert!(Segmenter::offloaded(&frame[..len], 300, start).is_err(), "{name} of {len}");
        }
        // Arbitrary bytes before the payload are refused or segmented without a panic.
        for at in 0..start {
            for value in [0, 0xff, 0x45, 0x60, frame[at] ^ 0x80] {
                let mut other = frame.clone();
                other[at] = value;
                if let Ok(segmenter) = Segmenter::offloaded(&other, 300, start) {
                    assert_eq!(cut(segmenter).len(), 4, "{name}: byte {at} is {value}");
                }
            }
        }
    }
    // GRE sequence numbers differ per packet.
    let sequenced = ethernet(V4, &around4(47, &gre(0x10, V4, tcp)));
    let start = sequenced.len() - 1_032;
    assert_eq!(Segmenter::offloaded(&sequenced, 300, start).err(), Some(CutError::Tunnel));
}
