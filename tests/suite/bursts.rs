//! Bursts into queues found by hash equal their packets one by one, with and without prefetching.

use conformance::Xorshift;
use conformance::effort::effort;
use freeboard::flowhash::{FlowTable, TagLine, mix};
use freeboard::sched_core::{
    CoDel, CoDelParams, CoDelState, Descriptor, DropReason, Drr, DrrFlow, FlowId, FlowQueues,
    Limits, LongestFlow, LongestQueueDrop, Nanos, Packet, Queue, Rejected, Scheduler,
};
use freeboard::{Hashed, Heap, Isolated, IsolatedConfig, IsolatedMemory, Isolation};

const LONGEST: u32 = 1_500;
/// Numbers of descriptors: bursts prefetch with the first, but not with the second.
const DESCRIPTORS: [usize; 2] = [1 << 15, (1 << 15) - 1];

/// Packets dropped, rejected and sent by a scheduler.
type Course = Vec<(Packet, Option<DropReason>)>;

/// Enqueues `packets` one by one; returns the number accepted.
fn one_by_one(
    queue: &mut impl Scheduler,
    now: Nanos,
    packets: &[(FlowId, Packet)],
    course: &mut Course,
) -> usize {
    let mut accepted = 0;
    for &(flow, packet) in packets {
        let drops = &mut |packet, why| course.push((packet, Some(why)));
        match queue.enqueue(now, flow, packet, drops) {
            Ok(()) => accepted += 1,
            Err(Rejected { packet, .. }) => course.push((packet, Some(DropReason::Rejected))),
        }
    }
    accepted
}

/// Goal: a burst equals its packets one by one: same packets out, same drops and rejections in the
/// same order, same counters. Method: two copies receive the same random bursts of up to 100
/// packets, one in bursts and one in single calls. There are twice as many flows as queues, so that
/// sets are full. Bursts contain handles that are in use or do not exist, and lengths of zero and
/// above the maximum.
fn agree(burst: &mut impl Scheduler, single: &mut impl Scheduler, descriptors: usize) {
    let random = &mut Xorshift::new(0);
    for step in 0..effort(300, 600_u64) {
        let now = Nanos(step * 100_000);
        // Occasional pauses: queues empty, and flows return.
        let (most_in, most_out) = if step / 50 % 3 == 2 { (20, 100) } else { (100, 60) };
        let packets: Vec<_> = (0..random.next_u64() % most_in)
            .map(|_| {
                let flow = FlowId(mix((random.next_u64() % 128) as u32));
                let handle = (random.next_u64() % (descriptors as u64 + 16)) as u32;
                (flow, Packet::new(handle, (random.next_u64() % 1_502) as u32))
            })
            .collect();
        let (mut ours, mut theirs) = (Course::new(), Course::new());
        let mut out = vec![Packet::new(0, 0); (random.next_u64() % most_out) as usize];
        let accepted =
            burst.enqueue_burst(now, &packets, &mut |packet, why| ours.push((packet, Some(why))));
        let sent =
            burst.dequeue_burst(now, &mut out, &mut |packet, why| ours.push((packet, Some(why))));

        assert_eq!(one_by_one(single, now, &packets, &mut theirs), accepted, "at step {step}");
        for (at, &packet) in out.iter().enumerate() {
            let next = single.dequeue(now, &mut |packet, why| theirs.push((packet, Some(why))));
            assert_eq!(next, (at < sent).then_some(packet), "packet {at} at step {step}");
            if next.is_none() {
                break;
            }
        }
        assert_eq!(ours, theirs, "drops at step {step}");
        assert_eq!(burst.counters(), single.counters(), "at step {step}");
        assert_eq!(burst.recount(), Ok(()), "at step {step}");
    }
    let counters = burst.counters();
    let least = effort(50, 100);
    assert!(counters.delivered.packets > 10 * least && counters.rejected.packets > least);
    assert!(counters.dropped_for(DropReason::Overflow).packets > least, "there was no room");
}

fn hashed(descriptors: usize) -> impl Scheduler {
    let mut drr = Drr::new(vec![DrrFlow::EMPTY; 64], LONGEST).expect("a valid length");
    drr.add_all(LONGEST).expect("a quantum in range");
    let params = CoDelParams::new(Nanos(2_000_000), Nanos(100_000_000));
    let codel = CoDel::new(vec![CoDelState::EMPTY; 64], params).expect("valid parameters");
    let (queues, packets) = (vec![Queue::EMPTY; 64], vec![Descriptor::EMPTY; descriptors]);
    let limits = Limits::packets(300);
    let queues = FlowQueues::with_parts(drr.sparse_first(), codel, queues, packets, [], limits)
        .with_drop_policy(LongestQueueDrop::new(vec![LongestFlow::EMPTY; 64]));
    let table = FlowTable::new(vec![TagLine::EMPTY; 8], 64, 8).expect("powers of two");
    Hashed::over(queues, table)
}

#[test]
fn bursts_of_hashed_queues_are_their_packets_one_by_one() {
    for descriptors in DESCRIPTORS {
        agree(&mut hashed(descriptors), &mut hashed(descriptors), descriptors);
    }
}

#[test]
fn bursts_of_isolated_queues_are_their_packets_one_by_one() {
    for isolation in [Isolation::Flows, Isolation::DualSrcHost, Isolation::TripleIsolate] {
        for descriptors in DESCRIPTORS {
            let queue = || {
                let memory =
                    IsolatedMemory::<Heap>::allocate(64, 64, 1, descriptors).with_triple(64);
                let config = IsolatedConfig::new(LONGEST, Limits::packets(300));
                Isolated::new(memory, config.isolated_by(isolation)).expect("powers of two")
            };
            agree(&mut queue(), &mut queue(), descriptors);
        }
    }
}

/// Goal: a packet rejected in the middle of a burst claims no queue, and those around it are queued
/// in order.
#[test]
fn a_refused_packet_of_a_burst_leaves_no_claim() {
    for descriptors in DESCRIPTORS {
        let mut queue = hashed(descriptors);
        let too_long = Packet::new(1, LONGEST + 1);
        let burst = [
            (FlowId(7), Packet::new(0, 1_000)),
            (FlowId(8), too_long),
            (FlowId(7), Packet::new(0, 500)),
            (FlowId(7), Packet::new(2, 1_000)),
        ];
        let mut refused = Vec::new();
        let drops = &mut |packet: Packet, why| refused.push((packet, why));
        assert_eq!(queue.enqueue_burst(Nanos(0), &burst, drops), 2);
        let expected = [(too_long, DropReason::Rejected), (burst[2].1, DropReason::Rejected)];
        assert_eq!(refused, expected);
        assert_eq!(queue.flow_counters(FlowId(8)), None, "no record of a flow without a queue");
        assert_eq!(queue.recount(), Ok(()));
        let mut out = [Packet::new(9, 9); 4];
        let none = &mut |packet: Packet, why| panic!("{packet:?} dropped: {why:?}");
        assert_eq!(queue.dequeue_burst(Nanos(0), &mut out, none), 2);
        assert_eq!(out, [burst[0].1, burst[3].1, Packet::new(9, 9), Packet::new(9, 9)]);
        assert_eq!(queue.recount(), Ok(()));
    }
}
