//! A smart queue with the ACK filter: by frame, by descriptor, and with changes under load.

use conformance::acks::{Segment, Wrap};
use conformance::effort::effort;
use freeboard::flowhash::{Ack, Labels, Parser};
use freeboard::sched_core::{DropReason, Limits, Nanos, Packet, Scheduler};
use freeboard::shaper::Rate;
use freeboard::{AckFilter, FrameQueue, Isolation, Labelled, SmartQueue, StaticFrames, sched_core};

const KEY: [u8; 16] = *b"sixteen of these";
const STEP: u32 = 1_448;

/// Creates a queue that sends nothing before the rate is set.
fn stopped(filter: AckFilter) -> FrameQueue {
    SmartQueue::upload(Rate::STOPPED).ack_filter(filter).frames(KEY).expect("in range")
}

fn filtered(counters: sched_core::Counters) -> u64 {
    counters.dropped_for(DropReason::Filtered).packets
}

/// Returns all queued frames at once.
fn drained(queue: &mut FrameQueue) -> Vec<Vec<u8>> {
    queue.set_rate(Nanos(0), Rate::UNLIMITED);
    let mut frames = Vec::new();
    while let Some(frame) = queue.pop(Nanos(0)) {
        frames.push(frame.to_vec());
    }
    queue.set_rate(Nanos(0), Rate::STOPPED);
    assert_eq!(queue.recount(), Ok(()));
    frames
}

/// Goal: only the last one or two of a series of acknowledgements stay, with any headers; other
/// queued packets stay too. Method: twenty acknowledgements with each kind of header, over both
/// versions of IP, with data between two halves.
#[test]
fn the_last_acknowledgements_stay() {
    for (filter, left) in
        [(AckFilter::Off, 21), (AckFilter::Conservative, 4), (AckFilter::Aggressive, 3)]
    {
        for wrap in Wrap::ALL {
            for is_v6 in [false, true] {
                let mut queue = stopped(filter);
                let mut frames = Vec::new();
                for turn in 0..21 {
                    let segment = Segment::ack(turn * STEP).stamped(turn, turn);
                    let segment = match turn {
                        10 => Segment { payload: 100, ..segment },
                        11.. => Segment { seq: segment.seq + 100, ..segment },
                        _ => segment,
                    };
                    let frame = wrap.frame(&if is_v6 { segment.v6() } else { segment.v4() });
                    queue.push(Nanos(0), &frame).expect("there is room");
                    frames.push(frame);
                    if turn % effort(7, 1) == 0 {
                        assert_eq!(queue.recount(), Ok(()));
                    }
                }
                let counters = queue.counters();
                let kept = drained(&mut queue);
                assert_eq!(kept.len(), left, "{filter} {wrap:?}");
                assert_eq!(filtered(counters), 21 - left as u64);
                assert_eq!(counters.dropped_total(), counters.dropped_for(DropReason::Filtered));
                assert!(kept.contains(&frames[10]), "data stays");
                assert_eq!(kept.last(), frames.last());
                let mut rest = frames.iter();
                assert!(kept.iter().all(|kept| rest.any(|frame| frame == kept)), "in order");
            }
        }
    }
}

/// Goal: the mode can change while packets are queued, and only packets filtered by the current
/// mode are lost.
#[test]
fn the_mode_changes_under_load() {
    let mut queue = stopped(AckFilter::Off);
    let mut number = 0;
    let mut push = |queue: &mut FrameQueue, count: u32| {
        for _ in 0..count {
            number += STEP;
            let frame = Wrap::Ethernet.frame(&Segment::ack(number).v4());
            queue.push(Nanos(0), &frame).expect("there is room");
        }
        queue.backlog().packets
    };
    assert_eq!(push(&mut queue, 10), 10);
    queue.set_ack_filter(AckFilter::Aggressive);
    assert_eq!(queue.ack_filter(), AckFilter::Aggressive);
    // Each arrival replaces a queued one; the oldest are beyond the filter's reach.
    assert_eq!(push(&mut queue, 4), 10);
    queue.set_ack_filter(AckFilter::Conservative);
    assert_eq!(push(&mut queue, 4), 10);
    queue.set_isolation(Isolation::SrcHost).expect("no tables are needed");
    assert_eq!(push(&mut queue, 1), 10, "another queue, with what waits");
    queue.set_ack_filter(AckFilter::Off);
    assert_eq!(push(&mut queue, 1), 11);
    assert_eq!(filtered(queue.counters()), 9);
    assert_eq!(drained(&mut queue).len(), 11);
}

/// Goal: a new key, a full queue and a lack of buffers leave the counters correct.
#[test]
fn a_key_limits_and_buffers_change_under_the_filter() {
    let memory = &mut StaticFrames::<8, 128, 1>::new();
    let builder = SmartQueue::upload(Rate::STOPPED).ack_filter(AckFilter::Conservative);
    let mut queue = builder.frames_in(memory, KEY).expect("in range");
    for turn in 0..200_u32 {
        let mut segment = Segment::ack(turn * STEP);
        segment.port = (turn % 5) as u8;
        queue
            .push(Nanos(0), &Wrap::Ethernet.frame(&segment.v4()))
            .expect("others are dropped from");
        if turn == 50 {
            queue.rotate([9; 16]);
        }
        if turn == 100 {
            queue.set_limits(Limits::packets(6));
        }
        assert_eq!(queue.recount(), Ok(()), "{turn}");
    }
    let counters = queue.counters();
    assert!(counters.dropped_for(DropReason::Overflow).packets > 0);
    assert_eq!(counters.accepted.packets, 200);
}

/// Goal: an acknowledgement with a congestion mark is not dropped in favour of the next one,
/// whichever of its headers carries the mark: the end of a tunnel keeps a mark of either (RFC 6040
/// §4.2). With two tunnels none is dropped, because the middle header is not read.
#[test]
fn a_marked_acknowledgement_stays() {
    /// Inserts an additional IPv4 header with this ECN field after the Ethernet header.
    fn within(frame: &[u8], ecn: u8) -> Vec<u8> {
        let (ethernet, packet) = frame.split_at(14);
        let [l0, l1] = (packet.len() as u16 + 20).to_be_bytes();
        let header = [0x45, ecn, l0, l1, 0, 0, 0, 0, 64, 4, 0, 0, 10, 0, 0, 3, 10, 0, 0, 4];
        [ethernet, &header, packet].concat()
    }
    for tunnels in 0..3 {
        // The header with the ECN field, counted from the segment's own outwards.
        for marked in 0..=tunnels {
            for ecn in 0..4 {
                let mut queue = stopped(AckFilter::Aggressive);
                for (number, ecn) in [(1, ecn), (2, 0)] {
                    let of = |header| if header == marked { ecn } else { 0 };
                    let segment = Segment { ecn: of(0), ..Segment::ack(number * STEP) };
                    let frame = Wrap::Ethernet.frame(&segment.v4());
                    let frame = (1..=tunnels).fold(frame, |frame, at| within(&frame, of(at)));
                    queue.push(Nanos(0), &frame).expect("room");
                }
                let left = if ecn == 3 || tunnels > 1 { 2 } else { 1 };
                assert_eq!(queue.backlog().packets, left, "{tunnels} {marked} {ecn}");
            }
        }
    }
}

/// Goal: the filter behaves the same by descriptor: it reads the caller's buffers, and dropped
/// packets are returned. Method: the same acknowledgements by frame and by descriptor, also of
/// flows that share a queue.
#[test]
fn by_descriptor_it_drops_what_it_drops_by_frame() {
    let frames: Vec<Vec<u8>> = (0..60_u32)
        .map(|turn| {
            let mut segment = Segment::ack(turn / 3 * STEP);
            segment.port = (turn % 3) as u8;
            Wrap::Ethernet.frame(&segment.v4())
        })
        .collect();
    let acks = |packet: Packet| {
        let frame = &frames[packet.handle as usize];
        Ack::read(frame, &Parser::default().ethernet(frame))
    };
    for &filter in AckFilter::ALL {
        let mut by_frame = stopped(filter);
        let builder = SmartQueue::upload(Rate::STOPPED).ack_filter(filter);
        let mut queue = builder.descriptors().expect("in range");
        let mut gone = Vec::new();
        for (handle, frame) in (0..).zip(&frames) {
            by_frame.push(Nanos(0), frame).expect("room");
            let labels = Labels { flow: 1 + handle % 3, src_host: 1, dst_host: 2 };
            let packet = Packet::new(handle, frame.len() as u32);
            let drops = &mut |packet: Packet, why: DropReason| gone.push((packet.handle, why));
            let taken = queue.enqueue_with_acks(Nanos(0), &labels, packet, &acks, drops);
            assert_eq!(taken, Ok(()));
        }
        assert_eq!(queue.counters(), by_frame.counters(), "{filter}");
        assert_eq!(gone.len() as u64, filtered(queue.counters()));
        assert!(gone.iter().all(|&(_, why)| why == DropReason::Filtered));
        assert_eq!(queue.recount(), Ok(()));
    }
    // Puts all flows in one queue: the ends of three connections.
    struct Alike;
    impl Labelled for Alike {
        fn flow(&self) -> u32 {
            1
        }
        fn source(&self) -> u32 {
            1
        }
        fn destination(&self) -> u32 {
            1
        }
    }
    let builder = SmartQueue::upload(Rate::STOPPED).ack_filter(AckFilter::Conservative);
    let mut queue = builder.descriptors().expect("in range");
    for handle in 0..60 {
        let packet = Packet::new(handle, frames[handle as usize].len() as u32);
        let taken = queue.enqueue_with_acks(Nanos(0), &Alike, packet, &acks, &mut |_, _| ());
        assert_eq!(taken, Ok(()));
    }
    assert_eq!(queue.backlog().packets, 6);
    // A packet that cannot be queued is returned, and nothing is filtered for it.
    let taken =
        queue.enqueue_with_acks(Nanos(0), &Alike, Packet::new(59, 66), &acks, &mut |_, _| ());
    assert!(taken.is_err());
    assert_eq!(queue.backlog().packets, 6);
}
