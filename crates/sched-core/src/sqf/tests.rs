use super::*;
use crate::{
    DropReason, FlowQueues, Limits, Nanos, Queue, RejectReason, Rejected, Scheduler, Slot,
};
use std::vec::Vec;

const FLOWS: usize = 4;
type Queues = FlowQueues<ShortestQueue<[ShortestFlow; FLOWS]>, [Queue; FLOWS], [Slot; 16]>;

fn queues(drop_from: DropFrom, limits: Limits) -> Queues {
    let order = ShortestQueue::new([ShortestFlow::EMPTY; FLOWS]).drop_from(drop_from);
    let mut queues = FlowQueues::new(order, [Queue::EMPTY; FLOWS], [Slot::EMPTY; 16], limits);
    for flow in 0..FLOWS as u32 {
        queues.configure(FlowId(flow), ()).unwrap();
    }
    queues
}

/// Enqueues `(flow, length)` with handles from `first` on; returns the handles dropped meanwhile.
fn fill(queues: &mut Queues, first: u32, packets: &[(u32, u32)]) -> Vec<u32> {
    let mut dropped = Vec::new();
    for (handle, &(flow, len)) in (first..).zip(packets) {
        let sink = &mut |packet: Packet, reason| {
            assert_eq!(reason, DropReason::Overflow);
            dropped.push(packet.handle);
        };
        queues.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, len), sink).unwrap();
        assert_eq!(queues.recount(), Ok(()));
    }
    dropped
}

fn next(queues: &mut Queues) -> Option<u32> {
    let packet = queues.dequeue(Nanos(0), &mut |_, _| panic!("nothing is dropped here"));
    assert_eq!(queues.recount(), Ok(()));
    packet.map(|packet| packet.handle)
}

#[test]
fn bytes_decide_and_not_packets() {
    let mut queues = queues(DropFrom::Head, Limits::NONE);
    // Flow 0 holds 1,000 in one packet, flow 1 900 in three, flow 2 901 in two.
    let arrivals = [(0, 1_000), (1, 300), (1, 300), (1, 300), (2, 900), (2, 1)];
    assert_eq!(fill(&mut queues, 0, &arrivals), []);
    let order: Vec<_> = core::iter::from_fn(|| next(&mut queues)).collect();
    assert_eq!(order, [1, 2, 3, 4, 5, 0]);
}

/// Three flows that are refilled as soon as they are served: whoever was served least recently is
/// next, so that none captures the link.
#[test]
fn equal_queues_take_turns() {
    let mut queues = queues(DropFrom::Head, Limits::NONE);
    fill(&mut queues, 0, &[(2, 500), (1, 500), (0, 500), (2, 500), (1, 500), (0, 500)]);
    let mut flows = Vec::new();
    for _ in 0..7 {
        let flow = queues.order().select().unwrap();
        let handle = next(&mut queues).unwrap();
        fill(&mut queues, handle, &[(flow.0, 500)]);
        flows.push(flow.0);
    }
    assert_eq!(flows, [0, 1, 2, 0, 1, 2, 0]);
}

/// Flow 1 holds 500 bytes, flow 0 400, and flow 2 sends 400 more into room for 1,000. Flow 1 is
/// the longest; then all three hold 400, nobody was served, so the lowest number gives way; then
/// flow 1 before flow 2.
#[test]
fn the_longest_queue_makes_room_until_the_arrival_fits() {
    let filled =
        [(0, 100), (0, 100), (0, 100), (0, 100), (1, 100), (1, 100), (1, 100), (1, 100), (1, 100)];
    for (end, dropped) in [(DropFrom::Head, [4, 0, 5]), (DropFrom::Tail, [8, 3, 7])] {
        let mut queues = queues(end, Limits::bytes(1_000));
        assert_eq!(fill(&mut queues, 0, &filled), []);
        assert_eq!(fill(&mut queues, 9, &[(2, 400)]), dropped, "{end:?}");
        assert_eq!(queues.backlog().bytes, 1_000);
    }
}

/// Among equally long queues the one served least recently gives way, and service while another
/// flow was longest counts too.
#[test]
fn equal_queues_give_way_in_turn() {
    let mut queues = queues(DropFrom::Head, Limits::packets(4));
    fill(&mut queues, 0, &[(0, 100), (0, 100), (1, 100), (1, 100)]);
    assert_eq!(next(&mut queues), Some(0));
    // Both hold 200 again, flow 0 was served: flow 1 gives way, and flow 0 when it is longer.
    fill(&mut queues, 4, &[(0, 100)]);
    assert_eq!(fill(&mut queues, 5, &[(2, 100)]), [2]);
    assert_eq!(fill(&mut queues, 6, &[(3, 100)]), [1]);
}

#[test]
fn an_arrival_that_would_be_the_victim_is_rejected() {
    let limits = Limits::bytes(1_000);
    let reason = RejectReason::Full { limits };
    let mut queues = queues(DropFrom::Head, limits);
    fill(&mut queues, 0, &[(0, 100)]);
    let packet = Packet::new(1, 950);
    let rejected = queues.enqueue(Nanos(0), FlowId(1), packet, &mut |_, _| panic!("no victim"));
    assert_eq!(rejected, Err(Rejected { packet, reason }));
    // At the tail of the longest queue the arrival is always the victim.
    let mut queues = self::queues(DropFrom::Tail, limits);
    fill(&mut queues, 0, &[(0, 500), (0, 500)]);
    let packet = Packet::new(2, 10);
    let rejected = queues.enqueue(Nanos(0), FlowId(0), packet, &mut |_, _| panic!("no victim"));
    assert_eq!(rejected, Err(Rejected { packet, reason }));
    assert_eq!(queues.recount(), Ok(()));
}

#[test]
fn a_removed_flow_is_unknown_and_comes_back_as_never_served() {
    let mut queues = queues(DropFrom::Head, Limits::NONE);
    fill(&mut queues, 0, &[(0, 100), (1, 100), (1, 300), (0, 300)]);
    assert_eq!((next(&mut queues), next(&mut queues)), (Some(0), Some(3)));
    let mut dropped = Vec::new();
    let sink = &mut |packet: Packet, reason| dropped.push((packet.handle, reason));
    queues.remove_flow(FlowId(1), sink);
    queues.remove_flow(FlowId(1), sink);
    assert_eq!(dropped, [(1, DropReason::FlowRemoved), (2, DropReason::FlowRemoved)]);
    assert_eq!(queues.config(FlowId(1)), None);
    queues.configure(FlowId(1), ()).unwrap();
    fill(&mut queues, 0, &[(0, 100), (1, 100)]);
    assert_eq!(next(&mut queues), Some(1), "flow 0 was served, flow 1 is new");
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut order = ShortestQueue::new([ShortestFlow::EMPTY; 2]);
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(order.configure(FlowId(2), (), None), Err(unknown));
    order.backlogged(FlowId(0), 100);
    assert_eq!(order.select(), None, "not added");
    order.configure(FlowId(0), (), None).unwrap();
    order.configure(FlowId(1), (), None).unwrap();
    order.grew(FlowId(0), 100);
    order.served(FlowId(0), 100, Some(100));
    order.lost(FlowId(9), 100, None);
    assert_eq!((order.select(), order.victim()), (None, None), "not backlogged");
    order.backlogged(FlowId(0), 100);
    order.backlogged(FlowId(1), 99);
    order.backlogged(FlowId(1), 1_000);
    order.configure(FlowId(1), (), Some(99)).unwrap();
    assert_eq!(order.select(), Some(FlowId(1)), "backlogged already");
    assert_eq!(order.victim(), Some((FlowId(0), DropFrom::Head)));
}

#[test]
fn a_flow_is_36_bytes_with_its_queue() {
    assert_eq!(size_of::<ShortestFlow>() + size_of::<Queue>(), 36);
}
