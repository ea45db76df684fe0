//! A line before a queue that holds packets of which none may leave.

use sched_core::{
    Ceiling, CeilingFlow, CeilingReturn, Ceilings, Descriptor, DropReason, Drr, DrrFlow, FlowId,
    FlowQueues, Limits, Nanos, Packet, Queue, Scheduler,
};
use shaper::{Overhead, Rate, Shaped, Shaper};

fn no_drops(packet: Packet, reason: DropReason) {
    panic!("{packet:?} dropped: {}", reason.name());
}

/// Goal: time in which all flows wait above their ceilings is idle: no burst follows it for a caller that comes
/// when told. Method: a flow that waits until 12 ms and one without a ceiling that comes before that, then, or
/// with a caller that is 0.1 ms late, on a line that catches up 10 ms.
#[test]
fn time_in_which_flows_wait_above_their_ceilings_earns_no_burst() {
    for (arrival, late) in [(11_900_000, 0), (12_000_000, 0), (12_100_000, 100_000)] {
        let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500).unwrap();
        drr.add_all(1_500).unwrap();
        let tables = ([CeilingFlow::EMPTY; 2], [CeilingReturn::EMPTY; 2]);
        let mut scheduler = Ceilings::new(drr, tables.0, tables.1).unwrap();
        let ceiling = Ceiling::new(1_000_000, 1_500).unwrap();
        scheduler.set_ceiling(FlowId(0), Some(ceiling)).unwrap();
        let queues = [Queue::EMPTY; 2];
        let queue =
            FlowQueues::with_own_victim(scheduler, queues, [Descriptor::EMPTY; 16], Limits::NONE);
        let line = Shaper::new(Rate::megabits_per_second(10).unwrap());
        let mut shaped = Shaped::new(queue, line, Overhead::RAW);
        let take = |shaped: &mut dyn Scheduler, handle, flow, now| {
            let packet = Packet::new(handle, 1_500);
            shaped.enqueue(Nanos(now), FlowId(flow), packet, &mut no_drops).unwrap();
        };
        take(&mut shaped, 0, 0, 0);
        take(&mut shaped, 1, 0, 0);
        assert!(shaped.dequeue(Nanos(0), &mut no_drops).is_some());
        assert_eq!(shaped.poll_at(Nanos(0)), Some(Nanos(12_000_000)));
        (2..9).for_each(|handle| take(&mut shaped, handle, 1, arrival));
        // A packet each 1.2 ms, and what the caller was late.
        for at in 0..8 {
            let due = Nanos(arrival - late + 1_200_000 * at);
            let now = due.max(Nanos(arrival));
            assert_eq!(shaped.poll_at(now), Some(now));
            assert!(shaped.dequeue(now, &mut no_drops).is_some());
            assert_eq!(shaped.line().due(), due.plus(Nanos(1_200_000)));
        }
        assert_eq!(shaped.backlog().packets, 0);
    }
}

/// Goal: a change of what waits earns no burst. Method: a ceiling is lifted while its flow waits.
#[test]
fn a_ceiling_that_is_lifted_earns_no_burst() {
    let mut drr = Drr::new([DrrFlow::EMPTY; 1], 1_500).unwrap();
    drr.add_all(1_500).unwrap();
    let tables = ([CeilingFlow::EMPTY; 1], [CeilingReturn::EMPTY; 1]);
    let mut scheduler = Ceilings::new(drr, tables.0, tables.1).unwrap();
    scheduler.set_ceiling(FlowId(0), Some(Ceiling::new(1_000_000, 1_500).unwrap())).unwrap();
    let queue = FlowQueues::with_own_victim(
        scheduler,
        [Queue::EMPTY; 1],
        [Descriptor::EMPTY; 16],
        Limits::NONE,
    );
    let line = Shaper::new(Rate::megabits_per_second(10).unwrap());
    let mut shaped = Shaped::new(queue, line, Overhead::RAW);
    for handle in 0..4 {
        let packet = Packet::new(handle, 1_500);
        shaped.enqueue(Nanos(0), FlowId(0), packet, &mut no_drops).unwrap();
    }
    assert!(shaped.dequeue(Nanos(0), &mut no_drops).is_some());
    shaped.inner_mut().scheduler_mut().set_ceiling(FlowId(0), None).unwrap();
    let now = Nanos(8_000_000);
    assert!(shaped.dequeue(now, &mut no_drops).is_some());
    assert_eq!(shaped.line().due(), now.plus(Nanos(1_200_000)));
}
