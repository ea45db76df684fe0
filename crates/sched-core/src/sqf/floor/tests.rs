use super::*;
use crate::link::{Link, Random};
use crate::sqf::{ShortestFlow, ShortestQueue};
use crate::{Backlog, FlowScheduler, FlowState};
use std::vec;
use std::vec::Vec;

type Order = ShortestQueue<Vec<ShortestFlow>, Vec<WaitingFlow>>;

/// An order of `flows` flows, all added.
fn plain(flows: usize) -> ShortestQueue<Vec<ShortestFlow>> {
    let mut order = ShortestQueue::new(vec![ShortestFlow::EMPTY; flows]);
    for flow in 0..flows as u32 {
        order.configure(FlowId(flow), (), None).unwrap();
    }
    order
}

fn floored(flows: usize, every: u32) -> Order {
    plain(flows).service_floor(every, vec![WaitingFlow::EMPTY; flows]).unwrap()
}

/// Of `packets` packets, which were those of the last flow: all others hold one packet at any time, it
/// holds a hundred to begin with.
fn of_the_longest<O: FlowScheduler>(order: O, flows: u32, packets: u32) -> Vec<u32> {
    let mut link = Link::over(order, flows as usize);
    let longest = flows - 1;
    (0..longest).for_each(|flow| link.enqueue(flow, 100));
    (0..100).for_each(|_| link.enqueue(longest, 100));
    let mut its = Vec::new();
    for packet in 1..=packets {
        let (flow, len) = link.dequeue().unwrap();
        if flow == longest {
            its.push(packet);
        } else {
            link.enqueue(flow, len);
        }
    }
    assert_eq!(link.recount(), Ok(()));
    its
}

/// Goal: plain SQF starves the longest queue for ever; with a floor it is served as the bound says, at the
/// latest moment that the bound allows. Method: of three flows the two with one packet each are refilled at
/// once; the longest is last in line at the start, and again whenever it was served.
#[test]
fn the_longest_queue_starves_without_a_floor_and_waits_for_its_bound_with_one() {
    assert_eq!(of_the_longest(plain(3), 3, 10_000), []);
    for every in [2, 3, 4, 100] {
        let its = of_the_longest(floored(3, every), 3, 90 * every);
        // Two others between two turns of the floor, and it would be the third in line; but services as
        // the shortest send the others behind it, so it is first in line at once if there are two.
        assert_eq!(its.len() as u32, if every > 2 { 90 } else { 45 }, "{every}");
        let gaps = its.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(gaps.unwrap() <= every * 3, "{every}: {gaps:?}");
    }
}

/// Goal: the bound is reached, not only kept. Method: F flows of which nobody is served as the shortest
/// but one, 0: the others get the floor's packets only, in turn. Each waits (F − 1) turns; flow 0 is in
/// the line too, but behind, and served with it.
#[test]
fn one_of_every_packets_goes_round_those_that_starve() {
    let (flows, every) = (5, 4);
    let mut link = Link::over(floored(flows, every), flows);
    link.enqueue(0, 1);
    for flow in 1..flows as u32 {
        (0..50).for_each(|_| link.enqueue(flow, 1_000));
    }
    let mut of_floor = Vec::new();
    for packet in 1..=64 {
        let (flow, len) = link.dequeue().unwrap();
        if packet % every == 0 {
            of_floor.push(flow);
        } else {
            assert_eq!(flow, 0, "the shortest");
        }
        link.enqueue(flow, len);
    }
    let round = [1, 2, 3, 4];
    assert_eq!(of_floor, round.repeat(4));
}

/// Goal: a backlogged flow that was last served, or became backlogged, with F flows backlogged is served
/// within `every · F` packets, its own included, whatever arrives, is dropped, removed or added
/// meanwhile, and the bound is nearly reached. Method: 400,000 random operations for each of four sizes,
/// in which few flows are kept short and get most of the service; the due packet of each flow is booked
/// when it begins to wait.
#[test]
fn no_flow_waits_for_more_packets_than_the_bound() {
    for (flows, every) in [(1, 2), (2, 2), (5, 3), (16, 7)] {
        let mut link = Link::over(floored(flows, every), flows);
        let mut random = Random(0x5eed + flows as u64);
        // When the flow began to wait, and how many were backlogged then.
        let mut waits: Vec<Option<(u64, u64)>> = vec![None; flows];
        let (mut served, mut nearest) = (0_u64, 0.0_f64);
        for operation in 0..400_000_u32 {
            let flow = random.below(flows as u32);
            let before: Vec<bool> = link.queues.iter().map(|queue| !queue.is_empty()).collect();
            let mut sent = None;
            match random.below(32) {
                0 => link.lose(flow, operation & 1 == 0),
                1 => {
                    link.remove(flow);
                    link.order.configure(FlowId(flow), (), None).unwrap();
                }
                2..16 => {
                    // Flows with higher numbers hold more, so that they are never the shortest.
                    let most = 1 + 4 * flow as usize;
                    if link.queues[flow as usize].len() < most {
                        link.enqueue(flow, 1 + random.below(100) + 200 * flow);
                    }
                }
                _ => sent = link.dequeue().map(|(flow, _)| flow),
            }
            if let Some(flow) = sent {
                served += 1;
                let (since, of) = waits[flow as usize].expect("who is served was backlogged");
                let bound = u64::from(every) * of;
                assert!(served - since <= bound, "flow {flow}: {} > {bound}", served - since);
                nearest = nearest.max((served - since) as f64 / bound as f64);
            }
            let backlogged = link.queues.iter().filter(|queue| !queue.is_empty()).count() as u64;
            for (at, queue) in link.queues.iter().enumerate() {
                if queue.is_empty() {
                    waits[at] = None;
                } else if !before[at] || sent == Some(at as u32) {
                    waits[at] = Some((served, backlogged));
                }
            }
            if operation % 64 == 0 {
                assert_eq!(link.recount(), Ok(()));
            }
        }
        assert!(nearest > 0.8 || flows == 1, "{flows} flows: only {nearest} of the bound");
    }
}

/// A floor put under flows that are backlogged: they wait by their number.
#[test]
fn a_floor_can_be_put_under_flows_that_are_backlogged() {
    let mut link = Link::over(plain(4), 4);
    for (flow, len) in [(3, 300), (1, 200), (2, 100)] {
        link.enqueue(flow, len);
        link.enqueue(flow, len);
    }
    let Link { order, queues } = link;
    let order = order.service_floor(2, vec![WaitingFlow::EMPTY; 4]).unwrap();
    let mut link = Link { order, queues };
    assert_eq!(link.recount(), Ok(()));
    let order: Vec<u32> = core::iter::from_fn(|| link.dequeue()).map(|(flow, _)| flow).collect();
    assert_eq!(order, [2, 1, 2, 3, 1, 3]);
}

#[test]
fn a_floor_that_leaves_nothing_or_has_no_room_is_refused() {
    let refused = |every, room| {
        plain(3).service_floor(every, vec![WaitingFlow::EMPTY; room]).map(|_| ()).err()
    };
    let error = |what, value, min, max| Some(ConfigError::OutOfRange { what, value, min, max });
    let every = "packets for one of the service floor";
    assert_eq!(refused(0, 3), error(every, 0, 2, u32::MAX.into()));
    assert_eq!(refused(1, 3), error(every, 1, 2, u32::MAX.into()));
    assert_eq!(refused(2, 2), error("line of waiting flows", 2, 3, u64::MAX));
    assert_eq!((refused(2, 3), refused(u32::MAX, 9)), (None, None));
}

#[test]
fn a_broken_line_is_noticed() {
    let broken = |break_it: fn(&mut Order)| {
        let mut order = floored(4, 3);
        for flow in [2, 0, 3] {
            order.backlogged(FlowId(flow), 10);
        }
        let state = |flow: FlowId| FlowState {
            backlog: if flow.0 == 1 {
                Backlog::default()
            } else {
                Backlog { packets: 1, bytes: 10 }
            },
            head_len: (flow.0 != 1).then_some(10),
        };
        assert_eq!(order.recount(&state), Ok(()));
        break_it(&mut order);
        order.recount(&state).unwrap_err().what
    };
    assert_eq!(broken(|order| order.floor.left = 0), "packets to the next of the floor");
    assert_eq!(broken(|order| order.floor.left = 4), "packets to the next of the floor");
    assert_eq!(broken(|order| order.floor.front = 1), "who waits is backlogged");
    assert_eq!(broken(|order| order.floor.waiting[0].ahead = 3), "who waits knows who is ahead");
    assert_eq!(broken(|order| order.floor.waiting[0].behind = NONE), "flows that wait");
    assert_eq!(broken(|order| order.floor.back = 0), "the end of the line");
}

#[test]
fn a_flow_that_may_wait_takes_8_bytes_and_without_a_floor_none() {
    assert_eq!((size_of::<WaitingFlow>(), size_of::<[WaitingFlow; 0]>()), (8, 0));
}
