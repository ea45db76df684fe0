//! Segmentation of frames: the receiver reassembles the sender's data.

use conformance::Xorshift;
use conformance::effort::effort;
use freeboard::sched_core::{Limits, Nanos};
use freeboard::shaper::{Overhead, Rate};
use freeboard::{CutError, FrameQueue, PushError, Segmenter, SmartQueue};
use proptest::prelude::*;

/// The parts of a frame with several segments.
#[derive(Clone, Debug)]
struct Parts {
    /// Ethernet header and tags, empty for a raw packet.
    link: Vec<u8>,
    is_v4: bool,
    is_tcp: bool,
    /// Words of options after the IPv4 header and after that of TCP.
    options: [usize; 2],
    id: u16,
    seq: u32,
    flags: u8,
    payload: Vec<u8>,
    size: u16,
}

const SYN_RST_URG: u8 = 0x26;

impl Parts {
    fn upper_header(&self) -> usize {
        if self.is_tcp { 20 + 4 * self.options[1] } else { 8 }
    }

    fn ip_header(&self) -> usize {
        if self.is_v4 { 20 + 4 * self.options[0] } else { 40 }
    }

    fn headers(&self) -> usize {
        self.link.len() + self.ip_header() + self.upper_header()
    }

    fn frame(&self) -> Vec<u8> {
        let upper = self.upper_header() + self.payload.len();
        let protocol = if self.is_tcp { 6 } else { 17 };
        let mut ip = vec![0x11; self.ip_header()];
        if self.is_v4 {
            ip[0] = 0x45 + self.options[0] as u8;
            let length = (self.ip_header() + upper) as u16;
            ip[2..4].copy_from_slice(&length.to_be_bytes());
            ip[4..6].copy_from_slice(&self.id.to_be_bytes());
            ip[6..8].copy_from_slice(&[0x40, 0]);
            ip[9] = protocol;
        } else {
            ip[0] = 0x61;
            ip[4..6].copy_from_slice(&(upper as u16).to_be_bytes());
            ip[6] = protocol;
        }
        let mut header = vec![0x22; self.upper_header()];
        if self.is_tcp {
            header[4..8].copy_from_slice(&self.seq.to_be_bytes());
            header[12] = ((5 + self.options[1]) << 4) as u8;
            header[13] = self.flags & !SYN_RST_URG;
        } else {
            header[4..6].copy_from_slice(&(upper as u16).to_be_bytes());
        }
        [&self.link[..], &ip, &header, &self.payload].concat()
    }

    fn segmenter<'a>(&self, frame: &'a [u8]) -> Result<Segmenter<'a>, CutError> {
        match self.link.is_empty() {
            true => Segmenter::ip(frame, self.size),
            false => Segmenter::ethernet(frame, self.size),
        }
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let payload = prop_oneof![0..70_usize, 0..9_000_usize, 60_000..65_000_usize];
    let numbers = (any::<u16>(), any::<u32>(), any::<u8>(), prop_oneof![1..9_u16, 500..9_000_u16]);
    (0..4_usize, any::<[bool; 2]>(), [0..11_usize, 0..11], numbers, payload).prop_map(
        |(link, [is_v4, is_tcp], options, (id, seq, flags, size), len)| {
            let kind: [u8; 2] = if is_v4 { [8, 0] } else { [0x86, 0xdd] };
            let link = match link {
                0 => Vec::new(),
                tags => [&[2; 12][..], &[0x81, 0, 0x60, 7].repeat(tags - 1), &kind].concat(),
            };
            // Many small segments of a long payload take long to check.
            let size = if size < 9 && len > 9_000 { size + 1_000 } else { size };
            let payload = (0..len).map(|at| (at * 7 + (at >> 8)) as u8).collect();
            Parts { link, is_v4, is_tcp, options, id, seq, flags, payload, size }
        },
    )
}

/// Returns the checksum of `parts` in words; each part except the last has an even length.
fn sum(parts: &[&[u8]]) -> u16 {
    let all = parts.concat();
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
    let mut sum: u32 = all.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort(150, 3_000)))]

    /// Goal: the segments carry the payload once, in order, after the headers of the frame, which
    /// differ only in lengths, identification, sequence number, flags and checksums; each of these
    /// is what the receiver expects.
    #[test]
    fn segments_are_the_frame_again(parts in parts()) {
        let frame = parts.frame();
        let mut segmenter = parts.segmenter(&frame).expect("a frame that can be cut");
        let (expected, headers, link) = (segmenter.segments(), parts.headers(), parts.link.len());
        let upper = link + parts.ip_header();
        let (mut payload, mut count) = (Vec::new(), 0_u32);
        let mut place = vec![0xaa; headers + usize::from(parts.size)];
        while let Some(len) = segmenter.write_next(&mut place) {
            let segment = &place[..len];
            let is_last = segmenter.next_len().is_none();
            prop_assert_eq!(len as u32, if is_last { expected.last() } else { expected.each() });
            // Lengths and checksums of IP.
            let ip = &segment[link..];
            if parts.is_v4 {
                prop_assert_eq!(usize::from(word(ip, 2)), ip.len());
                prop_assert_eq!(word(ip, 4), parts.id.wrapping_add(count as u16));
                prop_assert_eq!(sum(&[&ip[..parts.ip_header()]]), 0xffff);
            } else {
                prop_assert_eq!(usize::from(word(ip, 4)), ip.len() - 40);
            }
            // Those of the upper layer.
            let addresses = if parts.is_v4 { &ip[12..20] } else { &ip[8..40] };
            let protocol = if parts.is_tcp { 6 } else { 17 };
            let length = ((len - upper) as u16).to_be_bytes();
            let above = &segment[upper..];
            prop_assert_eq!(sum(&[addresses, &[0, protocol], &length, above]), 0xffff);
            let mut same: Vec<usize> = (0..headers).collect();
            let mut differs = |range: core::ops::Range<usize>| same.retain(|at| !range.contains(at));
            if parts.is_v4 {
                differs(link + 2..link + 6);
                differs(link + 10..link + 12);
            } else {
                differs(link + 4..link + 6);
            }
            if parts.is_tcp {
                differs(upper + 4..upper + 8);
                differs(upper + 13..upper + 14);
                differs(upper + 16..upper + 18);
                let seq = u32::from_be_bytes(above[4..8].try_into().expect("four"));
                prop_assert_eq!(seq, parts.seq.wrapping_add(payload.len() as u32));
                let first_only = if count == 0 { 0x80 } else { 0 };
                let last_only = if is_last { 0x09 } else { 0 };
                prop_assert_eq!(above[13], parts.flags & !SYN_RST_URG & (0x50 | first_only | last_only));
            } else {
                differs(upper + 4..upper + 8);
                prop_assert_eq!(usize::from(word(above, 4)), above.len());
                prop_assert_ne!(word(above, 6), 0);
            }
            for at in same {
                prop_assert_eq!(segment[at], frame[at], "byte {}", at);
            }
            payload.extend_from_slice(&segment[headers..]);
            count += 1;
        }
        prop_assert_eq!(count, expected.count());
        prop_assert!(payload == parts.payload);
    }

    /// Goal: for any bytes, the result is segments of at most the given size, or an error. Method:
    /// a frame with some bytes changed and its end truncated.
    #[test]
    fn any_bytes_have_an_answer(
        parts in parts(),
        changes in prop::collection::vec((0..90_usize, any::<u8>()), 0..6),
        end in any::<prop::sample::Index>(),
        size in any::<u16>(),
    ) {
        let mut frame = parts.frame();
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame.truncate(frame.len() - end.index(frame.len().min(80)));
        let size = if frame.len() > 9_000 { size | 512 } else { size };
        for segmenter in [Segmenter::ethernet(&frame, size), Segmenter::ip(&frame, size)] {
            let Ok(mut segmenter) = segmenter else { continue };
            let (mut place, mut count) = (vec![0; frame.len()], 0_u32);
            while segmenter.write_next(&mut place).is_some() {
                count += 1;
            }
            prop_assert_eq!(count, segmenter.segments().count());
        }
    }
}

fn frame(payload: usize) -> (Parts, Vec<u8>) {
    let parts = Parts {
        link: [&[2; 12][..], &[8, 0]].concat(),
        is_v4: true,
        is_tcp: true,
        options: [0, 3],
        id: 7,
        seq: 9,
        flags: 0x18,
        payload: vec![5; payload],
        size: 1_448,
    };
    let frame = parts.frame();
    (parts, frame)
}

fn queue(rate: u64) -> FrameQueue {
    let builder = SmartQueue::upload(Rate::bits_per_second(rate).expect("a rate"));
    builder.overhead(Overhead::ETHERNET.for_frames(14)).frames([42; 16]).expect("a queue")
}

/// Goal: each segment is a packet: it is counted, charged with its own overhead, and its buffer is
/// accounted for.
#[test]
fn a_frame_that_is_cut_counts_as_its_segments() {
    let (parts, frame) = frame(14_480);
    let mut queue = queue(8_000_000);
    let segmenter = parts.segmenter(&frame).expect("it can be cut");
    let each = segmenter.segments().each();
    assert_eq!(queue.push_segments(Nanos(0), segmenter), Ok(10));
    let backlog = queue.backlog();
    assert_eq!((backlog.packets, backlog.bytes), (10, 10 * each));
    queue.recount().expect("the books");
    let (mut now, mut left) = (Nanos(0), 0);
    while queue.backlog().packets > 0 {
        now = queue.poll_at(now).expect("something is queued");
        let sent = queue.pop(now).as_deref().map(<[u8]>::len);
        assert_eq!(sent, Some(each as usize));
        left += 1;
        // 1,538 bytes on the wire at a microsecond each.
        assert_eq!(queue.line().due(), Nanos(left * 1_538_000));
        queue.recount().expect("the books");
    }
    assert_eq!((left, queue.counters().delivered.packets), (10, 10));
}

/// Goal: if a limit does not allow for all segments, the drops are counted, and the counters are
/// correct.
#[test]
fn a_limit_holds_for_segments() {
    let (parts, frame) = frame(14_480);
    let segmenter = || parts.segmenter(&frame).expect("it can be cut");
    let mut few = queue(8_000_000);
    few.set_limits(Limits::packets(4));
    assert_eq!(few.push_segments(Nanos(0), segmenter()), Ok(10));
    few.recount().expect("the books");
    let counters = few.counters();
    assert_eq!((few.backlog().packets, counters.dropped_total().packets), (4, 6));
    assert_eq!(counters.rejected.packets, 0);

    // None of them fits: the first is rejected, and no other is enqueued.
    let mut none = queue(8_000_000);
    none.set_limits(Limits { packets: 100, bytes: 1_000 });
    let refused = none.push_segments(Nanos(0), segmenter());
    assert!(matches!(refused, Err(PushError::Rejected(_))), "{refused:?}");
    assert_eq!((none.backlog().packets, none.counters().rejected.packets), (0, 1));
    let mut long = segmenter();
    let builder = SmartQueue::upload(Rate::UNLIMITED).max_len(600);
    let mut short = builder.frames([42; 16]).expect("a queue");
    let (len, max) = (1_514, short.buffers().1);
    assert!(max < len, "{max}");
    assert_eq!(short.push_segments(Nanos(0), long.clone()), Err(PushError::Length { len, max }));
    short.recount().expect("the books");

    // Segments that the caller has taken are not pushed again.
    assert_eq!(long.write_next(&mut [0; 2_000]), Some(1_514));
    let mut rest = queue(8_000_000);
    assert_eq!(rest.push_segments(Nanos(0), long), Ok(9));
}

/// Goal: short packets are dropped until a long one fits, so that a frame of several segments is
/// queued as a whole. Method: 2,000 packets of 20 bytes of one host fill the limit; then a packet
/// of 9,000 bytes arrives, or two segments of that length, each replacing 450.
#[test]
fn short_packets_give_way_to_all_segments() {
    let builder = SmartQueue::upload(Rate::UNLIMITED).raw_ip().max_len(9_000).buffers(2_000);
    let builder = builder.limits(Limits { packets: 2_000, bytes: 40_000 });
    let full = || {
        let mut queue = builder.frames([42; 16]).expect("a queue");
        for to in (0..10).cycle().take(2_000) {
            let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 1, 1, 192, 0, 2, to];
            assert_eq!(queue.push(Nanos(0), &packet), Ok(()));
        }
        assert_eq!(queue.backlog().bytes, 40_000);
        queue
    };
    let parts = Parts { link: vec![], options: [0; 2], size: 8_960, ..frame(17_920).0 };
    let packet = parts.frame();
    let mut whole = full();
    let short = Parts { payload: vec![5; 8_960], ..parts.clone() }.frame();
    assert_eq!((short.len(), whole.push(Nanos(0), &short)), (9_000, Ok(())));
    let mut cut = full();
    let segmenter = parts.segmenter(&packet).expect("it can be cut");
    assert_eq!(cut.push_segments(Nanos(0), segmenter), Ok(2));
    for (queue, came) in [(whole, 1), (cut, 2)] {
        let counters = queue.counters();
        let counts = (counters.rejected.packets, counters.dropped_total().packets);
        assert_eq!(counts, (0, 450 * came));
        assert_eq!(queue.backlog().bytes, 40_000);
        queue.recount().expect("the counters");
    }
}

/// Goal: a rejected frame of several segments leaves nothing behind. Method: random frames of
/// several hosts, some of them with several segments, with little capacity; the limits in bytes and
/// in packets and the number of buffers take effect in turn.
#[test]
fn segments_are_queued_all_or_none() {
    let mut random = Xorshift::new(11);
    let (mut refused, mut taken) = (0, 0);
    for round in 0..effort(30, 1_000_u32) {
        let limits = Limits { packets: 1 + random.below(30), bytes: 1_000 + random.below(12_000) };
        let builder = SmartQueue::upload(Rate::UNLIMITED).raw_ip().buffers(1 + random.below(30));
        let mut queue = builder.limits(limits).frames([42; 16]).expect("a queue");
        for _ in 0..200 {
            let host = random.byte() % 8;
            if random.below(3) > 0 {
                let len = [20, 60, 700][random.below(3) as usize];
                let mut packet =
                    vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 1, host, 1, 1, 1, 1];
                packet.resize(len, 0);
                let _counted = queue.push(Nanos(0), &packet);
                continue;
            }
            let (len, size) = (1 + random.below(4_000) as usize, 200 + random.below(1_261) as u16);
            let parts =
                Parts { link: vec![], options: [0; 2], payload: vec![5; len], size, ..frame(0).0 };
            let mut packet = parts.frame();
            packet[15] = host;
            let Ok(segmenter) = parts.segmenter(&packet) else { continue };
            let (before, segments) = (queue.counters(), segmenter.segments().count());
            let outcome = queue.push_segments(Nanos(0), segmenter);
            let accepted = queue.counters().accepted.packets - before.accepted.packets;
            match outcome {
                Ok(count) => assert_eq!((count, accepted), (segments, segments.into())),
                Err(_) => assert_eq!(accepted, 0, "round {round}"),
            }
            taken += u32::from(outcome.is_ok());
            refused += u32::from(outcome.is_err());
        }
        queue.recount().expect("the counters");
    }
    assert!(taken > 300 && refused > 20, "{taken} taken, {refused} refused");
}
