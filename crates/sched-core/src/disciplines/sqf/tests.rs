use super::*;
use crate::{
    Descriptor, DropReason, FlowQueues, Limits, Nanos, Queue, RejectReason, Rejected, Scheduler,
};
use std::vec;
use std::vec::Vec;

const FLOWS: usize = 4;
type Queues = FlowQueues<ShortestQueue<[LengthFlow; FLOWS]>, ([Queue; FLOWS], [Descriptor; 16])>;

fn queues(drop_from: DropFrom, limits: Limits) -> Queues {
    let scheduler = ShortestQueue::new([LengthFlow::EMPTY; FLOWS]).drop_from(drop_from);
    let mut queues = FlowQueues::with_own_victim(
        scheduler,
        [Queue::EMPTY; FLOWS],
        [Descriptor::EMPTY; 16],
        limits,
    );
    for flow in 0..FLOWS as u32 {
        queues.configure(FlowId(flow), ()).unwrap();
    }
    queues
}

/// Enqueues `(flow, length)` with handles from `first`; returns the handles dropped meanwhile.
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

/// Goal: no flow captures the link. Method: three flows that are refilled as soon as they are
/// served; the one served least recently is next, initially in order of arrival.
#[test]
fn equal_queues_take_turns() {
    let mut queues = queues(DropFrom::Head, Limits::NONE);
    fill(&mut queues, 0, &[(2, 500), (1, 500), (0, 500), (2, 500), (1, 500), (0, 500)]);
    let mut flows = Vec::new();
    for _ in 0..7 {
        let flow = queues.scheduler().select().unwrap();
        let handle = next(&mut queues).unwrap();
        fill(&mut queues, handle, &[(flow.0, 500)]);
        flows.push(flow.0);
    }
    assert_eq!(flows, [2, 1, 0, 2, 1, 0, 2]);
}

/// Flow 1 holds 500 bytes, flow 0 400, and flow 2 sends 300 more into a limit of 1,000. Flow 1 is
/// the longest. Then it holds 400 too, but flow 0 has been in that class for longer.
#[test]
fn the_longest_queue_makes_room_until_the_arrival_fits() {
    let filled =
        [(0, 100), (0, 100), (0, 100), (0, 100), (1, 100), (1, 100), (1, 100), (1, 100), (1, 100)];
    for (end, dropped) in [(DropFrom::Head, [4, 0]), (DropFrom::Tail, [8, 3])] {
        let mut queues = queues(end, Limits::bytes(1_000));
        assert_eq!(fill(&mut queues, 0, &filled), []);
        assert_eq!(fill(&mut queues, 9, &[(2, 300)]), dropped, "{end:?}");
        assert_eq!(queues.backlog().bytes, 1_000);
    }
}

/// Goal: of equally long queues, the victim is the one served least recently, and service while
/// another flow was longest counts too.
#[test]
fn equal_queues_give_way_in_turn() {
    let mut queues = queues(DropFrom::Head, Limits::packets(4));
    fill(&mut queues, 0, &[(0, 100), (0, 100), (1, 100), (1, 100)]);
    assert_eq!(next(&mut queues), Some(0));
    // Both hold 200 again and flow 0 was served: flow 1 is dropped from, and then flow 0, which is
    // longer.
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
fn nothing_is_remembered_of_a_removed_flow() {
    let mut queues = queues(DropFrom::Head, Limits::NONE);
    fill(&mut queues, 0, &[(0, 100), (0, 300), (1, 100), (1, 300)]);
    assert_eq!((next(&mut queues), next(&mut queues)), (Some(0), Some(1)));
    let mut dropped = Vec::new();
    let sink = &mut |packet: Packet, reason| dropped.push((packet.handle, reason));
    queues.remove_flow(FlowId(1), sink);
    queues.remove_flow(FlowId(1), sink);
    assert_eq!(dropped, [(2, DropReason::FlowRemoved), (3, DropReason::FlowRemoved)]);
    assert_eq!(queues.config(FlowId(1)), None);
    queues.configure(FlowId(1), ()).unwrap();
    fill(&mut queues, 0, &[(0, 100), (1, 100)]);
    assert_eq!(
        next(&mut queues),
        Some(0),
        "flow 0 came first, though it was served and flow 1 never"
    );
}

#[test]
fn calls_that_contradict_the_books_change_nothing() {
    let mut scheduler = ShortestQueue::new([LengthFlow::EMPTY; 2]);
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(scheduler.configure(FlowId(2), (), None), Err(unknown));
    scheduler.backlogged(FlowId(0), 100);
    assert_eq!(scheduler.select(), None, "not added");
    scheduler.configure(FlowId(0), (), None).unwrap();
    scheduler.configure(FlowId(1), (), None).unwrap();
    scheduler.grew(FlowId(0), 100);
    scheduler.served(FlowId(0), 100, Some(100));
    scheduler.lost(FlowId(9), 100, None);
    assert_eq!((scheduler.select(), scheduler.victim()), (None, None), "not backlogged");
    scheduler.backlogged(FlowId(0), 100);
    scheduler.backlogged(FlowId(1), 99);
    scheduler.backlogged(FlowId(1), 1_000);
    scheduler.configure(FlowId(1), (), Some(99)).unwrap();
    assert_eq!(scheduler.select(), Some(FlowId(1)), "backlogged already");
    assert_eq!(scheduler.victim(), Some((FlowId(0), DropFrom::Head)));
}

#[test]
fn a_flow_is_32_bytes_with_its_queue() {
    assert_eq!(size_of::<LengthFlow>() + size_of::<Queue>(), 32);
}

/// Returns the packets sent of each of three flows that all send half of the link's rate, in this
/// order, with a limit of 30 packets: 3,000 packets of 1,000 bytes in all.
fn three_alike(scheduler: impl FlowScheduler<Config = ()>, arrivals: [u32; 3]) -> [u32; 3] {
    let (queues, descriptors) = ([Queue::EMPTY; FLOWS], [Descriptor::EMPTY; 40]);
    let mut queues =
        FlowQueues::with_own_victim(scheduler, queues, descriptors, Limits::packets(30));
    let mut free: Vec<u32> = (0..40).collect();
    let mut of = [0; 40];
    let mut sent = [0; 3];
    for flow in 0..3 {
        queues.configure(FlowId(flow), ()).unwrap();
    }
    for turn in 0..1_500_u64 {
        for flow in arrivals {
            let handle = free.pop().expect("ten more than fit");
            of[handle as usize] = flow;
            let sink = &mut |packet: Packet, _| free.push(packet.handle);
            let now = Nanos::from_millis(turn);
            if queues.enqueue(now, FlowId(flow), Packet::new(handle, 1_000), sink).is_err() {
                free.push(handle);
            }
        }
        for _ in 0..2 {
            let packet = queues.dequeue(Nanos::from_millis(turn), &mut |_, _| ()).unwrap();
            free.push(packet.handle);
            sent[of[packet.handle as usize] as usize] += 1;
        }
    }
    assert_eq!(queues.recount(), Ok(()));
    sent
}

/// Goal: flow numbers have no influence: the order of arrival decides which of three equal flows
/// starves. One starves under any tie-breaking rule; with a floor none does. Method: three flows
/// that each send half of the link's rate, in every order.
#[test]
fn of_three_equal_flows_one_starves_by_arrival_and_with_a_floor_none_does() {
    let plain = || ShortestQueue::new([LengthFlow::EMPTY; FLOWS]);
    let floored =
        || plain().service_floor(FloorShare::EIGHTH, [WaitingFlow::EMPTY; FLOWS]).unwrap();
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        let by_arrival = |sent: [u32; 3]| order.map(|flow| sent[flow as usize]);
        assert_eq!(by_arrival(three_alike(plain(), order)), STARVED, "{order:?}");
        let sent = by_arrival(three_alike(floored(), order));
        // Each sends a packet in `D + (k·F + 1)·L` bytes.
        let least = 3_000_000 / (FloorShare::AFTER + (8 * 3 + 1) * 1_000);
        assert!(sent.iter().all(|&sent| sent >= least), "{order:?}: {sent:?}");
    }
}

/// Packets of three equal flows without a floor, in order of arrival.
const STARVED: [u32; 3] = [1_500, 1_500, 0];

/// Runs two flows, of which the second has the longer queue, with a limit of `room` packets. The
/// first is kept shorter and served; the second receives its last packet after `gap`.
fn neglected(after: Nanos, gap: Nanos, room: u32) -> (Vec<(u32, DropReason)>, Option<u32>) {
    let scheduler = ShortestQueue::new([LengthFlow::EMPTY; FLOWS]);
    let scheduler = scheduler.service_floor(FloorShare::NONE, [WaitingFlow::EMPTY; FLOWS]).unwrap();
    let scheduler = scheduler.flush_unserved(after).unwrap();
    let (queues, descriptors) = ([Queue::EMPTY; FLOWS], [Descriptor::EMPTY; 400]);
    let mut queues =
        FlowQueues::with_own_victim(scheduler, queues, descriptors, Limits::packets(room));
    for flow in 0..2 {
        queues.configure(FlowId(flow), ()).unwrap();
    }
    let mut dropped = Vec::new();
    let mut sink = |packet: Packet, why| dropped.push((packet.handle, why));
    let begin = Nanos::from_secs(1_700_000_000);
    queues.enqueue(begin, FlowId(0), Packet::new(399, 100), &mut sink).unwrap();
    for handle in 0..room - 1 {
        queues.enqueue(begin, FlowId(1), Packet::new(handle, 100), &mut sink).unwrap();
    }
    let late = begin.plus(gap);
    queues.enqueue(late, FlowId(1), Packet::new(398, 100), &mut sink).unwrap();
    assert_eq!(queues.recount(), Ok(()));
    let next = queues.peek(late).map(|packet| packet.handle);
    (dropped, next)
}

/// Goal: the victim's queue is dropped whole if it was not served for the time, otherwise only as
/// far as space is needed; the arrival itself stays. Method: times below and above the limit; more
/// packets than one call may drop.
#[test]
fn a_queue_that_gives_way_and_was_not_served_is_dropped_whole() {
    let tick = 1 << 20;
    let short = neglected(Nanos(5 * tick), Nanos(4 * tick), 10);
    assert_eq!(short, (vec![(0, DropReason::Overflow)], Some(399)));
    let (dropped, next) = neglected(Nanos(5 * tick), Nanos(6 * tick), 10);
    let whole: Vec<_> = (0..9).map(|handle| (handle, DropReason::Unserved)).collect();
    assert_eq!((dropped, next), (whole, Some(399)));
    let (dropped, _) = neglected(Nanos(1), Nanos(1 << 21), 300);
    assert_eq!(dropped.len(), 256);
    assert!(dropped.iter().all(|&(_, why)| why == DropReason::Unserved));
}

/// Goal: no flow is flushed because of time that has not passed. Method: a clock that steps back by
/// an hour, and one that jumps ahead and back while the flow is served in between.
#[test]
fn a_wrong_reading_of_the_clock_costs_at_most_what_waited_then() {
    let scheduler = ShortestQueue::new([LengthFlow::EMPTY; 2]);
    let scheduler = scheduler.service_floor(FloorShare::NONE, [WaitingFlow::EMPTY; 2]).unwrap();
    let mut scheduler = scheduler.flush_unserved(Nanos::from_millis(500)).unwrap();
    let flow = FlowId(0);
    scheduler.configure(flow, (), None).unwrap();
    scheduler.advance(Nanos::from_secs(7_200));
    scheduler.backlogged(flow, 100);
    scheduler.grew(flow, 100);
    scheduler.advance(Nanos::from_secs(3_600));
    assert!(!scheduler.gives_up(flow), "back by an hour is no time");
    scheduler.advance(Nanos::from_secs(3_600).plus(Nanos::from_millis(400)));
    assert!(!scheduler.gives_up(flow));
    scheduler.advance(Nanos(u64::MAX - (1 << 40)));
    scheduler.served(flow, 100, Some(100));
    assert!(!scheduler.gives_up(flow));
    scheduler.advance(Nanos::from_secs(3_601));
    scheduler.advance(Nanos::from_secs(3_601).plus(Nanos::from_millis(400)));
    assert!(!scheduler.gives_up(flow), "400 ms after it was served");
    scheduler.advance(Nanos::from_secs(3_601).plus(Nanos::from_millis(502)));
    assert!(scheduler.gives_up(flow));
    scheduler.served(flow, 100, None);
    assert!(!scheduler.gives_up(FlowId(1)) && !scheduler.gives_up(FlowId(9)), "they hold nothing");
}

#[test]
fn a_time_without_service_is_more_than_none_and_at_most_an_hour() {
    let plain = || ShortestQueue::new([LengthFlow::EMPTY; 3]);
    let line = || plain().service_floor(FloorShare::NONE, [WaitingFlow::EMPTY; 3]).unwrap();
    let refused = |after| line().flush_unserved(after).map(|_| ()).err();
    let hour = Nanos::from_secs(3_600);
    let error = |value| {
        let what = "nanoseconds without service";
        Some(ConfigError::OutOfRange { what, value, min: 1, max: hour.0 })
    };
    assert_eq!((refused(Nanos(0)), refused(Nanos(hour.0 + 1))), (error(0), error(hour.0 + 1)));
    assert_eq!((refused(Nanos(1)), refused(hour)), (None, None));
    let (what, max) = ("line of waiting flows", u64::MAX);
    let error = ConfigError::OutOfRange { what, value: 0, min: 3, max };
    assert_eq!(plain().flush_unserved(hour).map(|_| ()), Err(error));
}

/// Goal: service by a floor does not prevent a flush. Method: the floor serves the longer of two
/// queues every other packet for longer than the time.
#[test]
fn what_the_floor_serves_is_still_given_up() {
    let scheduler = ShortestQueue::new([LengthFlow::EMPTY; 2]);
    let share = FloorShare::one_of_2_to(1).unwrap().after(0);
    let scheduler = scheduler.service_floor(share, [WaitingFlow::EMPTY; 2]).unwrap();
    let mut scheduler = scheduler.flush_unserved(Nanos::from_millis(10)).unwrap();
    for (flow, bytes) in [(FlowId(0), 200), (FlowId(1), 5_000)] {
        scheduler.configure(flow, (), None).unwrap();
        scheduler.backlogged(flow, bytes);
    }
    let mut served = [0; 2];
    for turn in 1..=30 {
        scheduler.advance(Nanos::from_millis(turn));
        let flow = scheduler.select().unwrap();
        served[flow.index()] += 1;
        scheduler.served(flow, 100, Some(100));
        scheduler.grew(flow, 100);
    }
    assert!(served[1] >= 10, "{served:?}");
    assert!(scheduler.gives_up(FlowId(1)) && !scheduler.gives_up(FlowId(0)));
}
