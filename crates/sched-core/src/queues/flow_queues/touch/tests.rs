use super::*;
use crate::{
    CoDel, CoDelParams, CoDelState, DropReason, Drr, DrrFlow, LengthFlow, Limits, LongestFlow,
    LongestQueueDrop, Nanos, OwnVictim, Qfq, QfqConfig, QfqFlow, Rejected, Scheduler,
    ShortestQueue,
};
use conformance::Xorshift;
use std::vec;
use std::vec::Vec;

const FLOWS: usize = 100;
const DESCRIPTORS: usize = FROM_DESCRIPTORS;

/// Goal: a burst is equivalent to its packets one by one, with prefetching too: same packets, drops
/// and rejections, in the same order. Method: two copies of a scheduler with enough descriptors for
/// prefetching get the same random bursts of up to 100 valid and invalid packets, one copy in
/// bursts and the other in single calls.
fn agree(burst: &mut impl Scheduler, single: &mut impl Scheduler, steps: usize) {
    let random = &mut Xorshift::new(0);
    for step in 0..steps {
        let now = Nanos(step as u64 * 100_000);
        let mut packets = Vec::new();
        for _ in 0..random.next_u64() % 100 {
            // Sometimes a flow, a handle or a length that does not exist.
            let flow = FlowId((random.next_u64() % (FLOWS as u64 + 1)) as u32);
            let handle = (random.next_u64() % (DESCRIPTORS as u64 + 16)) as u32;
            packets.push((flow, Packet::new(handle, (random.next_u64() % 1_502) as u32)));
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut filled = vec![Packet::new(0, 0); (random.next_u64() % 100) as usize];
        let sink = &mut |packet, reason| ours.push((packet, reason));
        let accepted = burst.enqueue_burst(now, &packets, sink);
        let sent = burst.dequeue_burst(now, &mut filled, sink);

        let mut expected = 0;
        for &(flow, packet) in &packets {
            let sink = &mut |packet, reason| theirs.push((packet, reason));
            match single.enqueue(now, flow, packet, sink) {
                Ok(()) => expected += 1,
                Err(Rejected { packet, .. }) => theirs.push((packet, DropReason::Rejected)),
            }
        }
        assert_eq!(accepted, expected, "accepted at step {step}");
        for (at, packet) in filled.iter().enumerate() {
            let sink = &mut |packet, reason| theirs.push((packet, reason));
            let next = single.dequeue(now, sink);
            assert_eq!(next, (at < sent).then_some(*packet), "packet {at} at step {step}");
            if next.is_none() {
                break;
            }
        }
        assert_eq!(ours, theirs, "drops at step {step}");
        assert_eq!(burst.counters(), single.counters());
        if step % 100 == 0 {
            assert_eq!(burst.recount(), Ok(()), "at step {step}");
        }
    }
    assert!(burst.counters().delivered.packets > 0 && burst.counters().rejected.packets > 0);
}

fn under<O: FlowScheduler>(scheduler: O, limit: u32) -> impl Scheduler {
    beside(scheduler, OwnVictim, limit)
}

fn beside<O: FlowScheduler>(
    scheduler: O,
    policy: impl DropPolicy<O>,
    limit: u32,
) -> impl Scheduler {
    let params = CoDelParams { target: Nanos(2_000_000), ..CoDelParams::INTERNET };
    let codel = CoDel::new(vec![CoDelState::EMPTY; FLOWS], params).unwrap();
    let (queues, descriptors) = (vec![Queue::EMPTY; FLOWS], vec![Descriptor::EMPTY; DESCRIPTORS]);
    FlowQueues::with_parts(scheduler, codel, queues, descriptors, [], Limits::packets(limit))
        .with_drop_policy(policy)
}

fn drr() -> Drr<Vec<DrrFlow>> {
    let mut drr = Drr::new(vec![DrrFlow::EMPTY; FLOWS], 1_500).unwrap();
    drr.add_all(1_500).unwrap();
    drr
}

#[test]
fn bursts_of_drr_are_its_packets_one_by_one() {
    let longest = || LongestQueueDrop::new(vec![LongestFlow::EMPTY; FLOWS]);
    let queues = || beside(drr(), longest(), 900);
    agree(&mut queues(), &mut queues(), 1_000);
    let scheduler = || drr().sparse_first();
    agree(&mut under(scheduler(), u32::MAX), &mut under(scheduler(), u32::MAX), 1_000);
}

#[test]
fn bursts_of_sqf_are_its_packets_one_by_one() {
    let scheduler = || {
        let mut scheduler = ShortestQueue::new(vec![LengthFlow::EMPTY; FLOWS]);
        for flow in 0..FLOWS as u32 {
            scheduler.configure(FlowId(flow), (), None).unwrap();
        }
        scheduler
    };
    agree(&mut under(scheduler(), 900), &mut under(scheduler(), 900), 500);
}

#[test]
fn bursts_of_qfq_are_its_packets_one_by_one() {
    let scheduler = || {
        let mut scheduler = Qfq::new(vec![QfqFlow::EMPTY; FLOWS], 1_500).unwrap();
        for flow in 0..FLOWS as u32 {
            let config = QfqConfig { weight: 1 + flow % 9, max_len: 1_500 };
            scheduler.configure(FlowId(flow), config, None).unwrap();
        }
        scheduler
    };
    agree(&mut under(scheduler(), 900), &mut under(scheduler(), 900), 500);
}

/// Goal: the flows that DRR predicts are the next ones, while no flow becomes idle or backlogged.
/// Method: 50 of 100 flows are backlogged with packets of a whole quantum; a third leave.
#[test]
fn drr_knows_which_flows_are_next() {
    let mut scheduler = drr();
    let flows: Vec<FlowId> = (0..50).map(|flow| FlowId(flow * 37 % 100)).collect();
    for &flow in &flows {
        scheduler.backlogged(flow, 1_500);
    }
    for round in 0..7 {
        let mut ahead = [FlowId(u32::MAX); AHEAD];
        let found = scheduler.upcoming(&mut ahead);
        assert!(found >= if round == 0 { AHEAD } else { AHEAD / 2 }, "{found} in round {round}");
        for &flow in &ahead[..found] {
            assert_eq!(scheduler.select(), Some(flow));
            let leaves = round == 1 && flow.0 % 3 == 0;
            scheduler.served(flow, 1_500, (!leaves).then_some(1_500));
        }
    }
}

/// Goal: the flows that QFQ predicts, those of the slot in service, are the next ones, while no
/// flow becomes idle or backlogged and all are in one group. Method: 50 of 100 flows are backlogged
/// with packets of any length. The flows as they are served, each turn once, are those predicted;
/// together they are all.
#[test]
fn qfq_knows_which_flows_are_next() {
    let mut scheduler = Qfq::new(vec![QfqFlow::EMPTY; FLOWS], 1_500).unwrap();
    assert_eq!(scheduler.upcoming(&mut [FlowId(0); AHEAD]), 0, "no flow is backlogged");
    for flow in 0..FLOWS as u32 {
        scheduler.configure(FlowId(flow), QfqConfig { weight: 3, max_len: 1_500 }, None).unwrap();
    }
    for flow in 0..50 {
        scheduler.backlogged(FlowId(flow * 37 % 100), 1_500);
    }
    let random = &mut Xorshift::new(0);
    let (mut foretold, mut full) = (0, 0);
    for _ in 0..100 {
        let mut ahead = [FlowId(u32::MAX); AHEAD];
        let found = scheduler.upcoming(&mut ahead);
        full += u32::from(found == AHEAD);
        for &flow in &ahead[..found] {
            assert_eq!(scheduler.select(), Some(flow));
            while scheduler.select() == Some(flow) {
                scheduler.served(flow, 64 + (random.next_u64() % 1_437) as u32, Some(1_500));
            }
        }
        foretold += found;
    }
    assert!(foretold > 1_000 && full > 50, "{foretold} flows, {full} times as many as asked for");
}
