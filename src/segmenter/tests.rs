#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::modulo_arithmetic,
    reason = "a test that panics fails"
)]

extern crate std;

use std::string::ToString as _;
use std::vec;
use std::vec::Vec;

use super::*;

/// The words of `bytes` added one by one, carries brought round.
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

/// Ethernet, IPv4 with DF from 10.0.0.1 to 10.0.0.2, TCP with timestamps: FIN, PSH, ACK and CWR.
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

/// IPv6, UDP: as a raw packet.
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

/// Goal: a checksum of UDP that comes to 0 is written as all ones, since 0 says that there is none.
#[test]
fn no_datagram_is_without_a_checksum() {
    let mut packet = udp6(4);
    packet[48..52].fill(0);
    let checksum = cut(Segmenter::ip(&packet, 4).unwrap())[0][46..48].to_vec();
    // What is missing for the sum of all ones, in the payload.
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

/// Goal: what cannot be cut is named. Method: a frame that can be, changed in one place each.
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
    // PPPoE: the length in its header would be another.
    let session = [0x88, 0x64, 0x11, 0, 0, 1, 0, 79, 0, 0x21];
    let pppoe = [&frame[..12], &session, &frame[14..]].concat();
    assert_eq!(Segmenter::ethernet(&pppoe, 10).unwrap_err(), NotIp);
    // Every shorter frame is refused, and none is read behind its end.
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
