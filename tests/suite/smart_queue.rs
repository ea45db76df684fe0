//! The smart queue: frames leave as they were accepted, each is accounted for once, marks are
//! correct, and rate, device and buffers limit it.

mod history;
mod line;

use freeboard::flowhash::{Labels, mix, parse};
use freeboard::sched_core::{DropReason, Limits, Nanos, Packet, RejectReason, Scheduler};
use freeboard::shaper::Rate;
use freeboard::{
    AqmKind, AqmMemory, DescriptorQueue, DeviceRoom, FrameQueue, Heap, IsolatedError,
    IsolatedMemory, Isolation, LabelledScheduler, LinkLayer, PushError, Rtt, SmartQueue,
    SmartQueueError, StaticFrames, clear_dscp, mark_congestion,
};

const KEY: [u8; 16] = *b"sixteen of these";

fn mbit(rate: u64) -> Rate {
    Rate::megabits_per_second(rate).expect("in range")
}

/// Properties of a frame.
#[derive(Clone, Copy, Debug)]
struct Shape {
    host: u8,
    port: u8,
    /// ECN bits of the IP header.
    ecn: u8,
    v6: bool,
    tags: u8,
    /// Bytes after the UDP header.
    payload: u16,
}

/// Builds a frame of UDP over IP over Ethernet; `number` is in the first four bytes of its payload.
fn frame(shape: Shape, number: u32) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for _ in 0..shape.tags {
        frame.extend([0x81, 0, 0, 7]);
    }
    let udp = shape.payload.max(4) + 8;
    if shape.v6 {
        frame.extend([0x86, 0xdd, 0x60, shape.ecn << 4 | 0x05, 1, 2]);
        frame.extend(udp.to_be_bytes());
        frame.extend([17, 64]);
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, shape.host]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    } else {
        frame.extend([8, 0]);
        let at = frame.len();
        frame.extend([0x45, 0xb8 | shape.ecn]);
        frame.extend((udp + 20).to_be_bytes());
        frame.extend(number.to_be_bytes()[2..].iter());
        frame.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, shape.host, 192, 0, 2, 1]);
        let sum = checksum(&frame[at..at + 20]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
    frame.extend([0x13, shape.port, 1, 0xbb]);
    frame.extend(udp.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(frame.len() + usize::from(udp) - 12, 0x5a);
    frame
}

/// Returns the internet checksum (RFC 1071) of a header, including its checksum field.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u64 = words.sum();
    // No header is all zeros: a sum of zero is written as all ones.
    !((((sum - 1) % 0xffff) + 1) as u16)
}

/// Returns the offset of the IP header of a frame.
fn ip_at(shape: Shape) -> usize {
    14 + 4 * usize::from(shape.tags)
}

/// Returns the frame with CE set and the checksum computed over the whole header.
fn marked(shape: Shape, number: u32) -> Vec<u8> {
    frame(Shape { ecn: 3, ..shape }, number)
}

/// Goal: a mark is written into every header that can carry it, with a correct checksum, and
/// nothing else changes. Method: a standing queue of both IP versions after zero, one and two tags;
/// marked frames are compared with a frame built with the mark, whose checksum is computed from
/// scratch.
#[test]
fn a_mark_is_in_the_header_and_the_checksum_is_right() {
    for (v6, tags, ecn) in [false, true]
        .into_iter()
        .flat_map(|v6| (0..3).flat_map(move |tags| [1, 2].map(|ecn| (v6, tags, ecn))))
    {
        let shape = Shape { host: 1, port: 1, ecn, v6, tags, payload: 1_000 };
        let mut queue = SmartQueue::upload(Rate::UNLIMITED).frames(KEY).expect("a queue");
        for number in 0..60 {
            queue.push(Nanos(0), &frame(shape, number)).expect("there is room");
        }
        let mut marks = 0;
        for number in 0..60 {
            let now = Nanos::from_millis(50 + 20 * u64::from(number));
            let bytes = queue.pop(now).expect("no packet that is capable of marks is dropped");
            if bytes != frame(shape, number) {
                assert_eq!(bytes, marked(shape, number), "{v6} {tags} {ecn}");
                if !v6 {
                    let at = ip_at(shape);
                    assert_eq!(checksum(&bytes[at..at + 20]), 0, "the sum over a right header");
                }
                marks += 1;
            }
        }
        assert!(marks > 3, "{marks} marks");
        assert_eq!(queue.counters().marked, marks);
    }
}

/// Goal: a packet that is not ECN-capable is dropped instead, and one that arrived with a mark
/// leaves unchanged.
#[test]
fn what_cannot_be_marked_is_dropped_and_what_is_marked_stays() {
    for (ecn, drops) in [(0, true), (3, false)] {
        let shape = Shape { host: 1, port: 1, ecn, v6: false, tags: 0, payload: 1_000 };
        let mut queue = SmartQueue::upload(Rate::UNLIMITED).frames(KEY).expect("a queue");
        for number in 0..60 {
            queue.push(Nanos(0), &frame(shape, number)).expect("there is room");
        }
        let mut last = None;
        for turn in 0..60_u64 {
            let Some(bytes) = queue.pop(Nanos::from_millis(50 + 20 * turn)) else { break };
            let at = bytes.len() - 1_000;
            let number = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
            assert!(last < Some(number), "in order");
            assert_eq!(bytes, frame(shape, number));
            last = Some(number);
        }
        assert_eq!(queue.counters().dropped_for(DropReason::Aqm).packets > 3, drops);
        assert_eq!(queue.counters().marked, 0);
        queue.recount().expect("the counters are right");
    }
}

fn udp(host: u8, port: u8, payload: u16) -> Shape {
    Shape { host, port, ecn: 0, v6: false, tags: 0, payload }
}

/// Returns the last byte of the source address of an untagged IPv4 frame.
fn host_of(frame: &[u8]) -> u8 {
    frame[14 + 15]
}

/// Goal: when all buffers are in use, a packet is dropped from the host with the longest backlog,
/// however many flows it opens, and no arrival is rejected. Method: one host fills all buffers from
/// many ports; another then sends one frame per turn.
#[test]
fn when_no_buffer_is_free_the_host_that_holds_the_most_gives_way() {
    let mut memory = StaticFrames::<16, 1_514, 2>::new();
    let rate = Rate::kilobits_per_second(500).expect("in range");
    let mut queue = SmartQueue::upload(rate).frames_in(&mut memory, KEY).expect("a queue");
    let now = Nanos::from_secs(1);
    for port in 0..200 {
        queue.push(now, &frame(udp(1, port, 1_400), 0)).expect("the oldest of its own give way");
    }
    assert_eq!((queue.backlog().packets, queue.counters().rejected.packets), (16, 0));
    for number in 0..3 {
        queue.push(now, &frame(udp(2, 9, 100), number)).expect("the other host gives way");
    }
    let dropped = queue.counters().dropped_for(DropReason::Overflow).packets;
    assert_eq!(dropped, 200 - 16 + 3);
    queue.set_rate(now, Rate::UNLIMITED);
    let mut sent = [0; 3];
    while let Some(frame) = queue.pop(now) {
        sent[usize::from(host_of(frame))] += 1;
    }
    assert_eq!(sent, [0, 13, 3], "all of the light host");
    queue.recount().expect("the counters are right");
}

/// Goal: the statement in SECURITY.md about short frames: packets are dropped from a host with
/// about the most bytes, so a flood of short frames takes most of the buffers, and another host
/// keeps as many bytes as the flood, less the grain and a frame. Method: the flood sends 20 frames
/// for each long frame. 16 hosts share 256 buffers of 1,518 bytes, so the grain is 4,096 bytes.
#[test]
fn a_flood_of_short_frames_leaves_another_host_about_as_many_bytes() {
    const GRAIN: u32 = 4_096;
    let mut memory = StaticFrames::<256, 1_518, 2>::new();
    let mut queue = SmartQueue::upload(mbit(10)).frames_in(&mut memory, KEY).expect("a queue");
    for number in 0..60 {
        queue.push(Nanos(0), &frame(udp(2, 1, 1_472), number)).expect("the longest gives way");
        for port in 0..20 {
            queue.push(Nanos(0), &frame(udp(1, port, 18), number)).expect("the longest gives way");
        }
    }
    queue.set_rate(Nanos(0), Rate::UNLIMITED);
    let (mut held, mut bytes) = ([0; 3], [0; 3]);
    while let Some(frame) = queue.pop(Nanos(0)) {
        held[usize::from(host_of(frame))] += 1;
        bytes[usize::from(host_of(frame))] += frame.len() as u32;
    }
    assert_eq!(held, [0, 249, 7]);
    assert!(bytes[2] + GRAIN + 1_514 > bytes[1], "{bytes:?}");
}

/// Goal: a single buffer is sufficient: a popped frame's buffer is free at the caller's next call.
#[test]
fn one_buffer_is_enough() {
    let mut memory = StaticFrames::<1, 64, 1>::new();
    let mut queue =
        SmartQueue::upload(Rate::UNLIMITED).frames_in(&mut memory, KEY).expect("a queue");
    for byte in 0..100 {
        let now = Nanos(byte.into());
        queue.push(now, &[byte; 60]).expect("the last one was given back");
        queue.recount().expect("the counters are right");
        assert_eq!(queue.pop(now).as_deref(), Some(&[byte; 60][..]));
        queue.recount().expect("the counters are right");
    }
    queue.push(Nanos(0), &[1; 60]).expect("a free buffer");
    queue.push(Nanos(0), &[2; 60]).expect("the first gives way");
    assert_eq!(queue.pop(Nanos(0)).as_deref(), Some(&[2; 60][..]));
    assert_eq!(queue.pop(Nanos(0)), None);
}

/// Goal: a frame that cannot be queued is rejected with the reason and counted, whatever it
/// contains; frames without IP are queued. Method: lengths around that of the buffer, headers
/// truncated at every byte, and arbitrary bytes.
#[test]
fn malformed_frames_are_queued_or_refused_by_name() {
    let mut memory = StaticFrames::<8, 256, 1>::new();
    let mut queue =
        SmartQueue::upload(Rate::UNLIMITED).frames_in(&mut memory, KEY).expect("a queue");
    for len in [0, 257, 1 << 20] {
        let refused = queue.push(Nanos(0), &vec![0x45; len]);
        assert_eq!(refused, Err(PushError::Length { len, max: 256 }));
    }
    assert_eq!(queue.counters().rejected.packets, 3);
    assert_eq!(queue.counters().rejected.bytes, 257 + (1 << 20));
    let text = PushError::Length { len: 257, max: 256 }.to_string();
    assert_eq!(text, "frame of 257 bytes (expected 1 to 256)");
    for v6 in [false, true] {
        let whole = frame(Shape { v6, tags: 2, ..udp(1, 1, 60) }, 7);
        for len in 1..whole.len() {
            queue.push(Nanos(0), &whole[..len]).expect("every length up to the buffer's");
            assert_eq!(queue.pop(Nanos(0)).as_deref(), Some(&whole[..len]));
        }
    }
    for byte in 0..=255 {
        queue.push(Nanos(0), &[byte; 256]).expect("every content");
        assert_eq!(queue.pop(Nanos(0)).as_deref(), Some(&[byte; 256][..]));
    }
    queue.recount().expect("the counters are right");
}

/// Goal: packets of a TUN device are read without an Ethernet header. Method: packets of two hosts;
/// they are distinguished, and marks are written at the right offset.
#[test]
fn packets_that_begin_with_ip_are_read_as_such() {
    let builder = SmartQueue::upload(Rate::UNLIMITED).raw_ip();
    let mut queue = builder.frames(KEY).expect("a queue");
    let packet = |host, number| frame(Shape { ecn: 2, ..udp(host, 1, 900) }, number)[14..].to_vec();
    for number in 0..60 {
        queue.push(Nanos(0), &packet(1, number)).expect("there is room");
    }
    queue.push(Nanos(0), &packet(2, 0)).expect("there is room");
    assert_eq!(queue.backlogged_hosts(), (2, 0));
    let mut marks = 0;
    for turn in 0..61_u64 {
        let bytes = queue.pop(Nanos::from_millis(50 + 20 * turn)).expect("a packet").to_vec();
        assert_eq!(checksum(&bytes[..20]), 0);
        marks += u64::from(bytes[1] & 3 == 3);
    }
    assert!(marks > 3 && queue.counters().marked == marks);
    assert_eq!(queue.buffers().1, 1_500);
}

/// Goal: hosts are sources in upload direction and destinations in download direction. Method: one
/// host opens nine flows, another one flow; of 20 frames each host receives ten.
#[test]
fn hosts_of_the_local_side_share_the_line() {
    let swap = |mut frame: Vec<u8>| {
        let (source, destination) = (frame[26..30].to_vec(), frame[30..34].to_vec());
        frame[26..30].copy_from_slice(&destination);
        frame[30..34].copy_from_slice(&source);
        frame
    };
    for up in [true, false] {
        let builder = match up {
            true => SmartQueue::upload(Rate::UNLIMITED),
            false => SmartQueue::download(Rate::UNLIMITED),
        };
        let mut queue = builder.frames(KEY).expect("a queue");
        for number in 0..200 {
            let host = if number % 10 == 0 { 2 } else { 1 };
            let bytes = frame(udp(host, (number % 10) as u8, 1_400), number);
            let bytes = if up { bytes } else { swap(bytes) };
            queue.push(Nanos(0), &bytes).expect("there is room");
        }
        let at = if up { 29 } else { 33 };
        let of_2 = (0..20).filter(|_| queue.pop(Nanos(0)).expect("a frame")[at] == 2).count();
        assert_eq!(of_2, 10, "up: {up}");
    }
}

/// Goal: only ECN-capable headers are marked (RFC 3168 §5).
#[test]
fn a_header_without_the_capability_is_not_marked() {
    for (v6, ecn) in [false, true].into_iter().flat_map(|v6| (0..4).map(move |ecn| (v6, ecn))) {
        let shape = Shape { ecn, v6, ..udp(1, 1, 100) };
        let mut bytes = frame(shape, 7);
        let ip = parse::ethernet(&bytes).ip.expect("an IP header");
        assert_eq!(mark_congestion(&mut bytes, &ip), ecn != 0, "{shape:?}");
        let expected = if ecn == 0 { frame(shape, 7) } else { marked(shape, 7) };
        assert_eq!(bytes, expected, "{shape:?}");
    }
}

/// Goal: washing clears the code point and changes nothing else but the checksum, which stays
/// correct if it was correct, and wrong by the same difference if it was wrong. Method: every
/// traffic class of both IP versions after zero, one and two tags, in 64 headers each; the checksum
/// is computed from scratch.
#[test]
fn a_cleared_code_point_leaves_the_rest_as_it_was() {
    for (class, number) in (0..=255_u8).flat_map(|class| (0..64).map(move |n| (class, n))) {
        let shape =
            Shape { v6: number % 4 == 3, tags: number as u8 % 3, ..udp(number as u8, 1, 4) };
        let (mut bytes, at) = (frame(shape, number * 0x3f1), ip_at(shape));
        let wrong_by = if number % 5 == 0 { 0x1234_u16 } else { 0 };
        let with_class = |bytes: &mut [u8], class: u8| {
            if shape.v6 {
                [bytes[at], bytes[at + 1]] = [0x60 | class >> 4, class << 4 | bytes[at + 1] & 15];
                return;
            }
            bytes[at + 1] = class;
            bytes[at + 10..at + 12].fill(0);
            let sum = checksum(&bytes[at..at + 20]);
            // Ones' complement addition, so that a wrong sum stays wrong by the same difference.
            let (sum, carry) = sum.overflowing_add(wrong_by);
            let sum = sum + u16::from(carry);
            bytes[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        };
        with_class(&mut bytes, class);
        let mut expected = bytes.clone();
        with_class(&mut expected, class & 3);
        let ip = parse::ethernet(&bytes).ip.expect("an IP header");
        assert_eq!(ip.traffic_class, class);
        assert!(clear_dscp(&mut bytes, &ip));
        // The two zeros of ones' complement are equal.
        let zeros = |bytes: &mut [u8]| {
            if !shape.v6 && bytes[at + 10..at + 12] == [0xff; 2] {
                bytes[at + 10..at + 12].fill(0);
            }
        };
        zeros(&mut bytes);
        zeros(&mut expected);
        assert_eq!(bytes, expected, "{class:#x} {shape:?}");
    }
    let ip = parse::ethernet(&frame(udp(1, 1, 4), 0)).ip.expect("an IP header");
    for len in 0..27 {
        let mut short = vec![0x45; len];
        assert_eq!(clear_dscp(&mut short, &ip), len > 25, "{len}");
    }
}

/// Goal: with wash every IP packet leaves without its code point and with its own ECN bits or the
/// AQM's mark, and other frames leave unchanged; the setting applies to queued packets from one
/// frame to the next. Method: a standing queue of IPv4, IPv6 and ARP, marked by the AQM; wash is
/// toggled at each third frame.
#[test]
fn washed_frames_keep_ecn_and_nothing_else_of_their_class() {
    let builder = SmartQueue::upload(Rate::UNLIMITED).l4s(false);
    let mut queue = builder.isolation(Isolation::SrcHost).frames(KEY).expect("a queue");
    let shape = |number: u32| Shape { ecn: 2, v6: number % 3 == 1, ..udp(1, 1, 1_000) };
    // Sets a code point in IPv6 too.
    let classed = |mut bytes: Vec<u8>| {
        bytes[14] |= if bytes[14] >> 4 == 6 { 0xb } else { 0 };
        bytes
    };
    let sent = |number: u32| match number % 3 {
        2 => [&[2; 12][..], &[8, 6], &[0xff; 46]].concat(),
        _ => classed(frame(shape(number), number)),
    };
    for number in 0..240 {
        queue.push(Nanos(0), &sent(number)).expect("there is room");
    }
    let (mut washed, mut marks) = (0, 0);
    for turn in 0..240_u32 {
        let is_on = turn / 3 % 2 == 0;
        queue.set_wash(is_on);
        assert_eq!(queue.settings().wash, Some(is_on));
        let now = Nanos::from_millis(50 + 20 * u64::from(turn));
        // The AQM drops some of the ARP frames.
        let Some(bytes) = queue.pop(now) else { break };
        let mut bytes = bytes.to_vec();
        let parsed = parse::ethernet(&bytes);
        let Some(ip) = parsed.ip else { continue };
        let number = match bytes[14] >> 4 {
            4 => u32::from(u16::from_be_bytes([bytes[18], bytes[19]])),
            _ => u32::from_be_bytes(bytes[62..66].try_into().expect("four bytes")),
        };
        assert!([2, 3].contains(&ip.ecn()));
        marks += u32::from(ip.ecn() == 3);
        let mut expected = match ip.ecn() {
            3 => classed(marked(shape(number), number)),
            _ => sent(number),
        };
        if is_on {
            assert_eq!(ip.dscp(), 0);
            washed += 1;
            clear_dscp(&mut expected, &ip);
        } else {
            assert_ne!(ip.dscp(), 0);
        }
        if bytes[14] >> 4 == 4 {
            assert_eq!(checksum(&bytes[14..34]), 0);
            // The two zeros of ones' complement.
            bytes[24..26].copy_from_slice(&expected[24..26]);
        }
        assert_eq!(bytes, expected);
    }
    assert!((60..=110).contains(&washed) && marks > 10, "{washed} {marks}");
    queue.recount().expect("the counters are right");
}

/// Goal: a frame that exceeds the limits is rejected before another is dropped for its buffer.
/// Method: all buffers are in use, and the limit in bytes is below the length of the arrival.
#[test]
fn a_frame_that_never_fits_costs_no_other_its_buffer() {
    let mut memory = StaticFrames::<4, 1_514, 1>::new();
    let limits = Limits::bytes(1_000);
    let builder = SmartQueue::upload(mbit(1)).limits(limits);
    let mut queue = builder.frames_in(&mut memory, KEY).expect("a queue");
    for number in 0..4 {
        queue.push(Nanos(0), &frame(udp(1, 1, 20), number)).expect("a free buffer");
    }
    let refused = queue.push(Nanos(0), &frame(udp(2, 1, 1_400), 4));
    assert_eq!(refused, Err(PushError::Rejected(RejectReason::Full { limits })));
    assert_eq!((queue.backlog().packets, queue.counters().dropped_total().packets), (4, 0));
    assert_eq!(queue.counters().rejected.packets, 1);
    queue.recount().expect("the counters are right");
}

fn labels(flow: u32, host: u32) -> Labels {
    Labels { flow: mix(flow + 1), src_host: mix(host + 1), dst_host: mix(0) }
}

/// Goal: by descriptor, hosts are isolated by both enqueue methods, the counters are correct, and
/// limits increase with the rate but never decrease. Method: two hosts, one with nine flows; each
/// receives half of the link.
#[test]
fn by_descriptor_hosts_share_the_line_and_limits_follow_the_rate() {
    let mut queue: DescriptorQueue =
        SmartQueue::upload(mbit(10)).buffers(400).descriptors().expect("a queue");
    // 10 Mbit/s carries 500,000 bytes in four times 100 ms.
    assert_eq!(queue.limits(), Limits { packets: 400, bytes: 500_000 });
    queue.set_rate(Nanos(0), mbit(20));
    assert_eq!(queue.limits().bytes, 1_000_000);
    queue.set_rate(Nanos(0), mbit(1));
    assert_eq!(queue.limits().bytes, 1_000_000, "nothing is dropped for a rate");
    queue.set_rtt(Rtt::OCEANIC);
    assert_eq!(queue.limits().bytes, 1_000_000, "1 Mbit/s carries less in four times 300 ms");
    queue.set_rtt(Rtt::SATELLITE);
    queue.set_rate(Nanos(0), mbit(10));
    queue.set_rtt(Rtt::LAN);
    assert_eq!(queue.limits(), Limits { packets: 400, bytes: 5_000_000 });
    let mut near = SmartQueue::upload(mbit(10)).rtt(Rtt::LAN).descriptors().expect("a queue");
    near.set_rtt(Rtt::INTERNET);
    assert_eq!(near.limits().bytes, 500_000, "a round-trip time raises limits as well");
    queue.set_rate(Nanos(0), Rate::UNLIMITED);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for handle in 0..200 {
        let of = labels(handle % 10, u32::from(handle % 10 == 0));
        let packet = Packet::new(handle, 1_500);
        if handle % 2 == 0 {
            queue.enqueue(Nanos(0), &of, packet, drops).expect("there is room");
        } else {
            queue.enqueue_labelled(Nanos(0), &of, packet, drops).expect("there is room");
        }
    }
    assert_eq!(queue.backlogged_hosts(), (2, 0));
    let mut out = [Packet::new(0, 0); 20];
    assert_eq!(queue.dequeue_burst(Nanos(0), &mut out, drops), 20);
    assert_eq!(out.iter().filter(|packet| packet.handle % 10 == 0).count(), 10);
    assert_eq!(queue.peek(Nanos(0)), queue.dequeue(Nanos(0), drops));
    queue.set_device(DeviceRoom::Takes(1_499));
    assert_eq!((queue.peek(Nanos(0)), queue.dequeue(Nanos(0), drops)), (None, None));
    assert_eq!(queue.dequeue_burst(Nanos(0), &mut out, drops), 0);
    queue.recount().expect("the counters are right");
}

#[test]
fn what_is_out_of_range_is_refused_with_the_range() {
    let builder = SmartQueue::upload(mbit(10));
    let text = |error: SmartQueueError| error.to_string();
    let none = builder.buffers(0).frames(KEY).expect_err("no buffers");
    assert_eq!(none, SmartQueueError::NoBuffers);
    assert_eq!(text(none), "0 buffers (expected 1 or more)");
    let none = builder.buffers(0).descriptors().expect_err("no descriptors");
    assert_eq!(none, SmartQueueError::NoBuffers);
    for (queues, hosts) in [(usize::MAX, 8), (8, usize::MAX), (1 << 21, 8), (8, 4), (0, 8)] {
        let error = text(builder.tables(queues, hosts).frames(KEY).expect_err("no such table"));
        assert!(error.ends_with("(expected a power of two from 8 to 1048576)"), "{error}");
    }
    let error = text(builder.tables(1 << 16, 8).descriptors().expect_err("too many queues"));
    assert_eq!(error, "queues and hosts 65544 is out of range (expected 16 to 65535)");
    for len in [0, (1 << 20) + 1] {
        let error = text(builder.max_len(len).frames(KEY).expect_err("no such length"));
        assert!(error.starts_with("longest packet in bytes"), "{error}");
    }
    let odd = text(builder.tables(48, 8).descriptors().expect_err("no power of two"));
    assert!(odd.contains("48"), "{odd}");
    assert!(builder.framing("pppoe-ptn").is_err());

    let short = |cut: fn(&mut AqmMemory<Heap>)| {
        let memory = IsolatedMemory::<Heap>::allocate(64, 16, 4, 64);
        let mut aqm = memory.aqm();
        cut(&mut aqm);
        builder.descriptors_in(memory, aqm).map(|_| ())
    };
    let expected = |what, given, needed| {
        Err(SmartQueueError::Isolated(IsolatedError::Memory { what, given, needed }))
    };
    assert_eq!(short(|aqm| aqm.states = aqm.states[..79].into()), expected("AQM states", 79, 80));
    assert_eq!(
        short(|aqm| aqm.settings = aqm.settings[..3].into()),
        expected("AQM settings", 3, 4)
    );

    let triple = builder.isolation(Isolation::TripleIsolate);
    let mut memory = StaticFrames::<4, 64, 1>::new();
    let refused = triple.frames_in(&mut memory, KEY).map(|_| ());
    assert_eq!(refused, Err(SmartQueueError::Isolated(IsolatedError::NoTriple)));
    let mut queue = triple.frames(KEY).expect("the heap makes its tables");
    assert_eq!(queue.isolation(), Isolation::TripleIsolate);
    queue.set_isolation(Isolation::Flows).expect("needs no tables");
    queue.set_isolation(Isolation::TripleIsolate).expect("they are there");
    assert_eq!(LinkLayer::default(), LinkLayer::Ethernet);
}

/// Counts lines as rustfmt formats them, without imports, comments and blank lines.
fn lines(program: &str) -> usize {
    let counts = |line: &&str| {
        let line = line.trim();
        !(line.is_empty() || line.starts_with("//") || line.starts_with("use "))
    };
    program.lines().filter(counts).count()
}

/// Goal: a newcomer gets a queue in eight lines on a PC, and in fifteen with static memory on a
/// Cortex-M. Method: count the lines of the programs, which run elsewhere.
#[test]
fn eight_lines_on_a_pc_and_fifteen_on_a_cortex_m() {
    let program = include_str!("../../examples/smart_queue.rs");
    assert_eq!(lines(program), 8);
    let (_, program) = program.split_once("\n\n").expect("its document first");
    let documents = include_str!("../../src/smart_queue.rs");
    let documents: String = documents
        .lines()
        .filter_map(|line| line.strip_prefix("///"))
        .flat_map(|line| [line.strip_prefix(' ').unwrap_or(line), "\n"])
        .collect();
    assert!(documents.contains(program), "the example on the page of SmartQueue is this program");
    assert_eq!(lines(include_str!("../../firmware/smart-queue/src/main.rs")), 15);
}
