use super::*;
use crate::disciplines::sqf::{LengthFlow, ShortestQueue};
use crate::tests::link::Link;
use crate::{Backlog, FlowScheduler, FlowState};
use conformance::Xorshift;
use conformance::effort::effort;
use std::vec;
use std::vec::Vec;

type Floored = ShortestQueue<Vec<LengthFlow>, Vec<WaitingFlow>>;

/// Creates a flow scheduler of `flows` flows, all added.
fn plain(flows: usize) -> ShortestQueue<Vec<LengthFlow>> {
    let mut scheduler = ShortestQueue::new(vec![LengthFlow::EMPTY; flows]);
    for flow in 0..flows as u32 {
        scheduler.configure(FlowId(flow), (), None).unwrap();
    }
    scheduler
}

/// Creates a flow scheduler with a floor that every flow may use at once.
fn floored(flows: usize, exponent: u32) -> Floored {
    floored_after(flows, exponent, 0)
}

fn floored_after(flows: usize, exponent: u32, after: u32) -> Floored {
    let share = FloorShare::one_of_2_to(exponent).unwrap().after(after);
    plain(flows).service_floor(share, vec![WaitingFlow::EMPTY; flows]).unwrap()
}

/// Returns which of `packets` packets of 100 bytes are from the last flow: it starts with a hundred
/// packets, while all others always hold one.
fn of_the_longest<O: FlowScheduler>(scheduler: O, flows: u32, packets: u32) -> Vec<u32> {
    let mut link = Link::over(scheduler, flows as usize);
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

/// Goal: plain SQF starves the longest queue forever; with a floor it is served within the bound.
/// Method: of three flows the two with one packet each are refilled at once; the longest is last in
/// the waiting list at the start, and again whenever it was served.
#[test]
fn the_longest_queue_starves_without_a_floor_and_waits_for_its_bound_with_one() {
    assert_eq!(of_the_longest(plain(3), 3, 10_000), []);
    for exponent in [1, 2, 3, 7] {
        let part = 1 << exponent;
        let its = of_the_longest(floored(3, exponent), 3, 90 * part);
        // Two other flows come between two turns of the floor, and the longest would be third in
        // the list. But service as the shortest moves the others behind it, so it is first at once
        // if there are two.
        let turns = if exponent > 1 { 90 } else { 45 };
        assert!(its.len().abs_diff(turns) <= 1, "{part}: {}", its.len());
        let gaps = its.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(gaps.unwrap() <= part * 3, "{part}: {gaps:?}");
        // A flow served as the shortest a moment ago does not starve, and its turn is skipped.
        let its = of_the_longest(floored_after(3, exponent, 20_000), 3, 200 + 90 * part);
        assert_eq!(its[0], 201, "{part}");
        assert!(its.len() as u32 >= 60, "{part}: {}", its.len());
    }
}

/// Goal: the floor counts bytes, not packets. Method: a voice flow of 200 bytes that is always the
/// shortest, beside four uploads of 1,500: the uploads get an eighth of the bytes, each a fourth of
/// it, in turn.
#[test]
fn the_floor_is_an_eighth_of_the_bytes_and_goes_round_those_that_starve() {
    let flows = 5;
    let mut link = Link::over(floored(flows, 3), flows);
    link.enqueue(0, 200);
    for flow in 1..flows as u32 {
        (0..50).for_each(|_| link.enqueue(flow, 1_500));
    }
    let (mut of_floor, mut bytes) = (Vec::new(), [0_u64; 2]);
    while of_floor.len() < 60 {
        let (flow, len) = link.dequeue().unwrap();
        bytes[usize::from(flow != 0)] += u64::from(len);
        if flow != 0 {
            of_floor.push(flow);
        }
        link.enqueue(flow, len);
    }
    assert_eq!(of_floor, [1, 2, 3, 4].repeat(15));
    let [voice, uploads] = bytes;
    assert!((7 * uploads).abs_diff(voice) < 8 * 1_500, "{voice} {uploads}");
}

/// Goal, whatever arrives, is dropped, removed or added meanwhile:
///
/// - A backlogged flow that was last served, or became backlogged, with F flows backlogged is
///   served again before `k·F·L` bytes have been sent, plus `D + L` with a wait of `D` bytes; this
///   is nearly reached.
/// - The floor gets its share of the bytes of any interval, to within a packet.
/// - Consecutive packets of the floor are less than `L + L/(k − 1)`.
///
/// Method: 400,000 random operations, or half of them, for each of four sizes, with `D` of 0 and of
/// 5,000, in which few flows are kept short and get most of the service. The bound of each flow is
/// recorded when it begins to wait. The accounting of the floor is recomputed from the bytes sent.
#[test]
fn no_flow_waits_for_more_bytes_than_the_bound() {
    let sizes = [(1, 1), (2, 1), (5, 2), (16, 3)];
    for ((flows, exponent), after) in sizes.into_iter().flat_map(|size| [(size, 0), (size, 5_000)])
    {
        let mut link = Link::over(floored_after(flows, exponent, after), flows);
        let mut random = Xorshift::new(0x5eed + flows as u64);
        let (part, longest) = (1_u64 << exponent, 100 + 200 * (flows as u64 - 1));
        // Bytes sent when the flow began to wait, and number of flows backlogged then.
        let mut waits: Vec<Option<(u64, u64)>> = vec![None; flows];
        let (mut all, mut of_floor, mut in_a_row, mut nearest) = (0_u64, 0_u64, 0_u64, 0.0_f64);
        for operation in 0..effort(200_000, 400_000_u32) {
            let flow = random.below(flows as u32);
            let before: Vec<bool> = link.queues.iter().map(|queue| !queue.is_empty()).collect();
            let mut sent = None;
            match random.below(32) {
                0 => link.lose(flow, operation & 1 == 0),
                1 => {
                    link.remove(flow);
                    link.scheduler.configure(FlowId(flow), (), None).unwrap();
                }
                2..16 => {
                    // Flows with higher numbers hold more, so that they are never the shortest.
                    let most = 1 + 4 * flow as usize;
                    if link.queues[flow as usize].len() < most {
                        link.enqueue(flow, 1 + random.below(100) + 200 * flow);
                    }
                }
                _ => {
                    let is_floor = link.scheduler.floor.due().is_some();
                    if after == 0 {
                        assert_eq!(
                            is_floor,
                            part * of_floor < all && link.scheduler.select().is_some()
                        );
                    }
                    sent = link.dequeue();
                    if let Some((flow, len)) = sent {
                        let (since, of) =
                            waits[flow as usize].expect("a flow served was backlogged");
                        let late = if after > 0 { u64::from(after) + longest } else { 0 };
                        let bound = part * of * longest + late;
                        assert!(all - since < bound, "flow {flow}: {} ≥ {bound}", all - since);
                        nearest = nearest.max((all - since) as f64 / bound as f64);
                        let len = u64::from(len);
                        all += len;
                        in_a_row = if is_floor { in_a_row + len } else { 0 };
                        of_floor += if is_floor { len } else { 0 };
                        assert!((part - 1) * in_a_row < part * longest, "{in_a_row} in a row");
                        assert!(part * of_floor < all + part * longest);
                        assert!(after > 0 || all < part * of_floor + part * longest);
                    }
                }
            }
            let backlogged = link.queues.iter().filter(|queue| !queue.is_empty()).count() as u64;
            for (at, queue) in link.queues.iter().enumerate() {
                if queue.is_empty() {
                    waits[at] = None;
                } else if !before[at] || sent.is_some_and(|(flow, _)| flow as usize == at) {
                    waits[at] = Some((all, backlogged));
                }
            }
            if operation % 64 == 0 {
                assert_eq!(link.recount(), Ok(()));
            }
        }
        assert!(
            nearest > 0.5 || flows == 1 || after > 0,
            "{flows} flows: only {nearest} of the bound"
        );
    }
}

/// Goal: the bound is tight. Method: all packets have `L` bytes, and the floor has just been served
/// when the last of F flows joins the waiting list.
#[test]
fn the_bound_is_reached_but_for_a_packet() {
    let (flows, len) = (4, 1_000);
    let mut link = Link::over(floored(flows, 3), flows);
    for flow in 1..3 {
        (0..40).for_each(|_| link.enqueue(flow, len));
    }
    link.enqueue(0, 1);
    while link.scheduler.floor.arrears > 1 - 7 * len.cast_signed() {
        let (flow, len) = link.dequeue().unwrap();
        link.enqueue(flow, len);
    }
    (0..40).for_each(|_| link.enqueue(3, len));
    let mut bytes = 0;
    loop {
        let (flow, len) = link.dequeue().unwrap();
        if flow == 3 {
            break;
        }
        bytes += len;
        link.enqueue(flow, len);
    }
    // Flow 0, of one byte, is never ahead in the list, since it is always served. So F counts it
    // although it adds no wait.
    let bound = 8 * flows as u32 * len;
    assert!((bound - 9 * len..bound).contains(&bytes), "{bytes} of {bound}");
}

/// Goal: a floor can be added while flows are backlogged; they wait in order of their numbers.
#[test]
fn a_floor_can_be_put_under_flows_that_are_backlogged() {
    let mut link = Link::over(plain(4), 4);
    for (flow, len) in [(3, 300), (1, 200), (2, 100)] {
        link.enqueue(flow, len);
        link.enqueue(flow, len);
    }
    let Link { scheduler, queues } = link;
    let half = FloorShare::one_of_2_to(1).unwrap().after(0);
    let scheduler = scheduler.service_floor(half, vec![WaitingFlow::EMPTY; 4]).unwrap();
    let mut link = Link { scheduler, queues };
    assert_eq!(link.recount(), Ok(()));
    let order: Vec<u32> = core::iter::from_fn(|| link.dequeue()).map(|(flow, _)| flow).collect();
    assert_eq!(order, [2, 1, 2, 1, 3, 3]);
}

#[test]
fn a_floor_that_leaves_nothing_or_has_no_room_is_refused() {
    let what = "exponent of the floor's share";
    let error = |value| Err(ConfigError::OutOfRange { what, value, min: 1, max: 10 });
    assert_eq!(FloorShare::one_of_2_to(0), error(0));
    assert_eq!(FloorShare::one_of_2_to(11), error(11));
    assert_eq!(FloorShare::one_of_2_to(3), Ok(FloorShare::default()));
    let refused = |room| {
        let waiting = vec![WaitingFlow::EMPTY; room];
        plain(3).service_floor(FloorShare::EIGHTH, waiting).map(|_| ()).err()
    };
    let what = "line of waiting flows";
    let error = ConfigError::OutOfRange { what, value: 2, min: 3, max: u64::MAX };
    assert_eq!((refused(2), refused(3), refused(9)), (Some(error), None, None));
}

/// Goal: invalid lengths, and services of flows that were not selected, leave the accounting in
/// range.
#[test]
fn the_account_of_the_floor_cannot_run_away() {
    let mut scheduler = floored(2, 10);
    for flow in 0..2 {
        scheduler.backlogged(FlowId(flow), 1);
    }
    for turn in 0..5_000 {
        scheduler.served(FlowId(turn % 2), u32::MAX, Some(1));
        scheduler.grew(FlowId(turn % 2), 1);
        assert!(scheduler.floor.recount(&|_| true, 2).is_ok(), "{}", scheduler.floor.arrears);
    }
}

#[test]
fn a_broken_line_is_noticed() {
    let broken = |break_it: fn(&mut Floored)| {
        let mut scheduler = floored(4, 2);
        for flow in [2, 0, 3] {
            scheduler.backlogged(FlowId(flow), 10);
        }
        let state = |flow: FlowId| FlowState {
            backlog: if flow.0 == 1 {
                Backlog::default()
            } else {
                Backlog { packets: 1, bytes: 10 }
            },
            head_len: (flow.0 != 1).then_some(10),
        };
        assert_eq!(scheduler.recount(&state), Ok(()));
        break_it(&mut scheduler);
        scheduler.recount(&state).unwrap_err().what
    };
    assert_eq!(broken(|scheduler| scheduler.floor.arrears = MAX_LEN + 1), "arrears of the floor");
    assert_eq!(
        broken(|scheduler| scheduler.floor.arrears = -4 * MAX_LEN - 1),
        "arrears of the floor"
    );
    assert_eq!(broken(|scheduler| scheduler.floor.front = 1), "a flow that waits is backlogged");
    assert_eq!(
        broken(|scheduler| scheduler.floor.waiting[0].ahead = 3),
        "a flow that waits knows the one ahead"
    );
    assert_eq!(broken(|scheduler| scheduler.floor.waiting[0].behind = NONE), "flows that wait");
    assert_eq!(broken(|scheduler| scheduler.floor.back = 0), "the end of the line");
}

#[test]
fn a_flow_that_may_wait_takes_16_bytes_and_without_an_option_none() {
    assert_eq!((size_of::<WaitingFlow>(), size_of::<[WaitingFlow; 0]>()), (16, 0));
}
