//! Queues found by hash: claimed while backlogged, released however they empty.

use std::collections::{BTreeMap, VecDeque};

use conformance::Xorshift;
use conformance::effort::effort;
use freeboard::flowhash::{FlowTable, Outcome, TagLine};
use freeboard::sched_core::{
    Descriptor, Drr, DrrFlow, FlowId, FlowQueues, FlowRecord, Limits, LongestFlow,
    LongestQueueDrop, Nanos, NoAqm, Packet, Queue, RejectReason, Scheduler,
};
use freeboard::{HashDirectory, Hashed};

const QUEUES: usize = 32;
const DESCRIPTORS: usize = 64;
const NOW: Nanos = Nanos::ZERO;

type Tables =
    ([Queue; QUEUES], [Descriptor; DESCRIPTORS], [FlowRecord; QUEUES], HashDirectory<[TagLine; 4]>);
type Subject = Hashed<
    FlowQueues<Drr<[DrrFlow; QUEUES]>, Tables, NoAqm, LongestQueueDrop<[LongestFlow; QUEUES]>>,
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

/// Returns the percentage of bytes that flows of 90 and 40 packets receive while 50 leave.
fn shares_of_90_and_40_in_50(queues: &mut dyn Scheduler) -> [u64; 2] {
    let (offered, mut free) = ([90, 40], (0..64).collect::<Vec<u32>>());
    let (mut owed, mut owner, mut sent) = ([0; 2], [0; 64], [0_u64; 2]);
    for _ in 0..5_000 {
        for (flow, rate) in offered.into_iter().enumerate() {
            owed[flow] += rate;
            while owed[flow] >= 50 {
                owed[flow] -= 50;
                let handle = free.pop().expect("more handles than packets");
                owner[handle as usize] = flow;
                let (id, packet) = (FlowId(flow as u32), Packet::new(handle, 1_500));
                let drops = &mut |packet: Packet, _| free.push(packet.handle);
                if let Err(rejected) = queues.enqueue(NOW, id, packet, drops) {
                    free.push(rejected.packet.handle);
                }
            }
        }
        let packet = queues.dequeue(NOW, &mut |_, _| ()).expect("more arrives than leaves");
        sent[owner[packet.handle as usize]] += u64::from(packet.len);
        free.push(packet.handle);
    }
    sent.map(|bytes| bytes * 100 / sent.iter().sum::<u64>())
}

/// Goal: the shortest construction is fair, by flow and by hash; the explicit variant that drops
/// the arrival is not. Method: two flows of 90 and 40 on a link of 50, with capacity for 50
/// packets.
#[test]
fn the_shortest_construction_is_fair() {
    let drr = || {
        let mut drr = Drr::new([DrrFlow::EMPTY; QUEUES], 1_500).expect("an MTU");
        drr.add_all(1_500).expect("a quantum");
        drr
    };
    let table = || FlowTable::new([TagLine::EMPTY; 4], QUEUES as u32, 8).expect("four lines");
    let (queues, lengths) = ([Queue::EMPTY; QUEUES], [LongestFlow::EMPTY; QUEUES]);
    let (packets, limits) = ([Descriptor::EMPTY; DESCRIPTORS], Limits::packets(50));
    let by_number = &mut FlowQueues::new(drr(), queues, lengths, packets, limits);
    let by_hash = &mut Hashed::new(drr(), table(), queues, lengths, packets, limits);
    for subject in [by_number as &mut dyn Scheduler, by_hash] {
        let shares = shares_of_90_and_40_in_50(subject);
        assert!(shares.iter().all(|share| (49..=51).contains(share)), "{shares:?}");
    }
    let mut unfair = FlowQueues::with_own_victim(drr(), queues, packets, limits);
    let [more, _] = shares_of_90_and_40_in_50(&mut unfair);
    assert!(more >= 65, "{more}");
}

/// Goal: in all cases a queue of the table is claimed if and only if it holds packets, every handle
/// is returned once, and a flow that never had to share a queue is never reordered. Method: random
/// arrivals of 48 hashes, departures, lowered limits and drains; the table is full for much of the
/// time. `recount` compares the table with the queues after every operation.
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
