//! Queues reached by hash: claimed while backlogged, released however they empty.

use std::collections::{BTreeMap, VecDeque};

use conformance::Xorshift;
use conformance::effort::effort;
use freeboard::Hashed;
use freeboard::flowhash::{FlowTable, Outcome, TagLine};
use freeboard::sched_core::{
    Descriptor, Drr, DrrFlow, FlowId, FlowQueues, FlowRecord, Limits, LongestFlow,
    LongestQueueDrop, Nanos, NoAqm, Packet, Queue, RejectReason, Scheduler,
};

const QUEUES: usize = 32;
const DESCRIPTORS: usize = 64;
const NOW: Nanos = Nanos::ZERO;

type Subject = Hashed<
    Drr<[DrrFlow; QUEUES]>,
    [TagLine; 4],
    [Queue; QUEUES],
    [Descriptor; DESCRIPTORS],
    NoAqm,
    [FlowRecord; QUEUES],
    LongestQueueDrop<[LongestFlow; QUEUES]>,
>;

fn hashed(limits: Limits) -> Subject {
    let mut drr = Drr::new([DrrFlow::EMPTY; QUEUES], 1_500).expect("an MTU");
    drr.add_all(1_500).expect("a quantum");
    let longest = LongestQueueDrop::new([LongestFlow::EMPTY; QUEUES]);
    let table = FlowTable::new([TagLine::EMPTY; 4], QUEUES as u32, 8).expect("four lines");
    let (queues, descriptors, records) =
        ([Queue::EMPTY; QUEUES], [Descriptor::EMPTY; DESCRIPTORS], [FlowRecord::EMPTY; QUEUES]);
    let queues = FlowQueues::with_parts(drr, NoAqm, queues, descriptors, records, limits);
    Hashed::over(queues.with_drop_policy(longest), table)
}

/// Goal: whatever happens, a queue of the table is claimed if and only if it holds packets, every
/// handle comes home once, and a flow that never had to share is never reordered.
/// Method: random arrivals of 48 hashes, departures, lowered limits and drains; the table is full for
/// much of the time. `recount` compares the table with the queues after every operation.
#[test]
fn queues_are_claimed_exactly_while_backlogged() {
    let mut subject = hashed(Limits::packets(40));
    let mut random = Xorshift::new(0x5EED);
    let mut free: Vec<u32> = (0..DESCRIPTORS as u32).collect();
    let mut sent: BTreeMap<u32, VecDeque<u32>> = BTreeMap::new();
    let mut flow_of = [0_u32; DESCRIPTORS];
    let mut shared = [false; 48];
    let (mut collisions, mut dropped_in_all) = (0, 0);
    for _ in 0..effort(20_000, 200_000) {
        let mut gone = Vec::new();
        let mut delivered = None;
        let drops = &mut |packet: Packet, _| gone.push(packet.handle);
        match random.below(100) {
            0..55 => {
                let flow = random.below(48);
                let hash = flow.wrapping_mul(0x9E37_79B9);
                let Some(handle) = free.pop() else { continue };
                let packet = Packet::new(handle, 1 + random.below(1_500));
                match subject.enqueue_hashed(NOW, hash, packet, drops) {
                    Ok(outcome) => {
                        flow_of[handle as usize] = flow;
                        sent.entry(flow).or_default().push_back(handle);
                        if outcome == Outcome::Collision {
                            collisions += 1;
                            shared[flow as usize] = true;
                        }
                    }
                    Err(rejected) => {
                        assert_eq!(rejected.packet, packet);
                        free.push(handle);
                    }
                }
            }
            55..98 => delivered = subject.dequeue(NOW, drops),
            98 => {
                let packets = 20 + random.below(30);
                subject.set_limits(Limits::packets(packets), drops);
            }
            _ => {
                if random.below(50) == 0 {
                    subject.drain(drops);
                }
            }
        }
        dropped_in_all += gone.len();
        for handle in gone.into_iter().chain(delivered.map(|packet| packet.handle)) {
            let flow = flow_of[handle as usize];
            let queue = sent.get_mut(&flow).expect("the flow sent packets");
            if shared[flow as usize] {
                let place = queue.iter().position(|&other| other == handle);
                queue.remove(place.expect("a handle comes home once"));
            } else {
                assert_eq!(queue.pop_front(), Some(handle), "flow {flow} was reordered");
            }
            free.push(handle);
        }
        subject.recount().expect("the books agree");
        let queued: usize = sent.values().map(VecDeque::len).sum();
        assert_eq!(subject.backlog().packets as usize, queued);
    }
    let least = effort(200, 1_000);
    assert!(collisions > least && dropped_in_all > least, "{collisions} {dropped_in_all}");
}

#[test]
fn a_rejected_packet_leaves_no_claim_behind() {
    let mut subject = hashed(Limits::packets(8));
    let drops = &mut |_: Packet, _| panic!("nothing is queued");
    for hash in 0..100 {
        let rejected = subject.enqueue(NOW, FlowId(hash), Packet::new(0, 1_501), drops);
        let reason = rejected.expect_err("longer than the longest packet").reason;
        assert_eq!(reason, RejectReason::Length { len: 1_501, max: 1_500 });
        assert_eq!(subject.queues().directory().table().occupied(), 0);
    }
}

#[test]
fn statistics_are_those_of_the_queue_a_hash_has_claimed() {
    let mut subject = hashed(Limits::packets(8));
    let drops = &mut |_: Packet, _| panic!("there is room");
    assert_eq!(subject.flow_counters(FlowId(77)), None);
    subject.enqueue(NOW, FlowId(77), Packet::new(3, 400), drops).expect("room");
    subject.enqueue(NOW, FlowId(77), Packet::new(4, 500), drops).expect("room");
    let counters = subject.flow_counters(FlowId(77)).expect("claimed");
    assert_eq!((counters.accepted.packets, counters.accepted.bytes), (2, 900));
    assert_eq!(counters.peak.bytes, 900);
}
