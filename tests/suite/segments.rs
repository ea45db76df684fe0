//! Super-packets: the charge to the link for several packets in one.

use conformance::Xorshift;
use freeboard::flowhash::Labels;
use freeboard::sched_core::{DropReason, Limits, Nanos, Packet};
use freeboard::shaper::{Overhead, Rate, Segments, Shaper};
use freeboard::{DescriptorQueue, SmartQueue, SmartQueueBuilder};

const HANDLES: u32 = 64;

/// Draws random segments, or none for an ordinary packet.
fn draw(random: &mut Xorshift) -> Option<Segments> {
    if random.below(3) == 0 {
        return None;
    }
    let headers = random.below(100);
    let size = 1 + random.below(1_400);
    let len = headers + 1 + random.below(40 * size);
    Some(Segments::of_offload(len, headers, size).expect("in range"))
}

/// Goal: a super-packet is charged like its segments one by one, and other packets are charged as
/// before. Method: random sequences on several links; a separate shaper is charged segment by
/// segment and compared after each departure, to the nanosecond and over all remainders.
#[test]
fn the_line_is_charged_segment_by_segment() {
    for (turn, words) in
        ["raw", "pppoe-llcsnap", "pppoe-ptm ether-vlan", "ethernet", "gpon mpu 256"]
            .into_iter()
            .enumerate()
    {
        let mut random = Xorshift::new(turn as u64);
        let rate = Rate::bits_per_second(1_000 + u64::from(random.below(999_999_937))).unwrap();
        let builder = SmartQueue::upload(rate).framing(words).unwrap().catch_up(Nanos::ZERO);
        let mut queue = builder.max_len(1 << 17).buffers(HANDLES).descriptors().unwrap();
        let link: Overhead = queue.overhead();
        let mut twin = Shaper::new(rate).with_catch_up(Nanos::ZERO);
        let mut segments = [None; HANDLES as usize];
        let drops = &mut |packet: Packet, why: DropReason| panic!("{packet:?} {why:?}");
        let mut supers = 0;
        let mut now = Nanos(1);
        for turn in 0..2_000 {
            let handle = turn % HANDLES;
            segments[handle as usize] = draw(&mut random);
            let of = |packet: Packet| segments[packet.handle as usize];
            let len = match of(Packet::new(handle, 1)) {
                Some(segments) => u32::try_from(segments.bytes()).unwrap(),
                None => 1 + random.below(1_514),
            };
            let labels = Labels { flow: random.below(9), src_host: 1, dst_host: 2 };
            let packet = Packet::new(handle, len);
            queue.enqueue_segmented(now, &labels, packet, &of, drops).expect("there is room");
            twin.wake(now);
            assert_eq!(queue.dequeue_segmented(now, &of, drops), Some(packet));
            match of(packet) {
                None => twin.charge(now, link.wire_len(len)),
                Some(cut) => {
                    supers += u32::from(cut.count() > 1);
                    for at in 1..=cut.count() {
                        let len = if at < cut.count() { cut.each() } else { cut.last() };
                        twin.charge(now, link.wire_len(len));
                    }
                }
            }
            assert_eq!(queue.line().due(), twin.due(), "{words}: {:?}", of(packet));
            assert_eq!(queue.dequeue_segmented(now, &of, drops), None, "the line is busy");
            now = queue.line().due();
        }
        assert!(supers > 1_000, "{supers}");
    }
}

fn behind_the_bottleneck(buffers: u32) -> SmartQueueBuilder {
    let rate = Rate::megabits_per_second(8).unwrap();
    let builder = SmartQueue::download(rate).framing("ethernet").unwrap().ingress(true);
    builder.catch_up(Nanos::ZERO).max_len(1 << 17).buffers(buffers)
}

/// Goal: after the bottleneck a super-packet that is rejected or dropped is charged by its
/// segments.
#[test]
fn what_is_lost_behind_the_bottleneck_is_charged_by_segments() {
    let cut = Segments::of_offload(3_066, 66, 1_448).unwrap();
    let on_wire = 1_538 + 1_538 + 194;
    let of = |packet: Packet| (packet.len == 3_066).then_some(cut);
    let labels = |flow| Labels { flow, src_host: flow, dst_host: flow };
    let drops = &mut |_: Packet, _: DropReason| {};

    // Rejected: no packet has this handle.
    let mut queue = behind_the_bottleneck(4).descriptors().unwrap();
    let now = Nanos::from_secs(1);
    // A packet must be queued, because idle time would pay.
    queue.enqueue_segmented(now, &labels(2), Packet::new(0, 1_000), &of, drops).unwrap();
    let packet = Packet::new(9, 3_066);
    assert!(queue.enqueue_segmented(now, &labels(1), packet, &of, drops).is_err());
    assert_eq!(paid_beside_departures(&mut queue, now), on_wire);

    // Dropped: the longest queue is dropped from for an arrival of another host.
    let limits = Limits { packets: 4, bytes: 4_000 };
    let mut queue = behind_the_bottleneck(4).limits(limits).descriptors().unwrap();
    queue.enqueue_segmented(now, &labels(1), Packet::new(0, 3_066), &of, drops).unwrap();
    let mut gone = Vec::new();
    let drops = &mut |packet: Packet, why| gone.push((packet.handle, why));
    queue.enqueue_segmented(now, &labels(2), Packet::new(1, 1_000), &of, drops).unwrap();
    assert_eq!(gone, [(0, DropReason::Overflow)]);
    assert_eq!(paid_beside_departures(&mut queue, now), on_wire);
}

/// Dequeues ten packets of 1,000 bytes one after another, from `now` on; returns the charge to the
/// link beyond them, in microseconds, which are bytes at 8 Mbit/s.
fn paid_beside_departures(queue: &mut DescriptorQueue, mut now: Nanos) -> u64 {
    let drops = &mut |_: Packet, _: DropReason| {};
    let mut paid = 0;
    for _ in 0..10 {
        if queue.backlog().packets == 0 {
            let labels = Labels { flow: 3, src_host: 3, dst_host: 3 };
            queue.enqueue(now, &labels, Packet::new(2, 1_000), drops).unwrap();
        }
        assert!(queue.dequeue(now, drops).is_some());
        let due = queue.line().due();
        paid += due.since(now).0 / 1_000 - 1_024;
        now = due;
    }
    paid
}
