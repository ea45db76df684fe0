use super::*;
use crate::hosts::test_line::{L, Line, drr, near};
use crate::test_link::Link;
use crate::{
    ClassState, Classes, CoDel, CoDelParams, CoDelState, CommittedFlow, CommittedRate,
    CommittedRates, CommittedReturn, Descriptor, Fifo, FlowQueues, HeldFlow, HeldHost, HostClass,
    HostDrr, HostDrrFlow, HostRing, LengthFlow, Limits, LongestHostDrop, LowBits, Packet, Queue,
    Scheduler, ShortestQueue, Wf2q, Wf2qFlow,
};
use conformance::Xorshift;
use std::vec;
use std::vec::Vec;

type Under<O> = Ceilings<O, Vec<CeilingFlow>, Vec<CeilingReturn>>;

fn under<O: FlowScheduler>(scheduler: O) -> Under<O> {
    let flows = scheduler.flows() as usize;
    let (ceilings, returns) = (vec![CeilingFlow::EMPTY; flows], vec![CeilingReturn::EMPTY; flows]);
    Ceilings::new(scheduler, ceilings, returns).unwrap()
}

fn mbit(rate: u64, burst: u32) -> Option<Ceiling> {
    Some(Ceiling::new(rate * 1_000_000, burst).unwrap())
}

/// Goal: alone on an idle link and beside a rival a flow has its ceiling, and the rival what is left.
#[test]
fn a_flow_has_its_ceiling_alone_and_beside_a_rival() {
    for (rate, burst) in [(1, L), (5, 3_000), (10, 30_000), (40, 30_000)] {
        let mut line = Line::of(under(drr(&[L, L])), 2);
        line.link.scheduler.set_ceiling(FlowId(0), mbit(rate, burst)).unwrap();
        let random = &mut Xorshift::new(rate);
        line.run(1_000, &[0], random);
        near(line.kbit(0, 100), rate, 1);
        line.run(1_000, &[0, 1], random);
        // A burst of one packet has no credit for the time of the rival's.
        let late = if burst == L { 4 } else { 1 };
        near(line.kbit(0, 1_100), rate, late);
        near(line.kbit(1, 1_100), 100 - rate, 1);
        line.holds(0, rate, burst);
    }
}

/// Goal: no interval has more than `rate·t + burst`, exactly, whatever else happens. Method: flows that come
/// and go at random and rivals that pause.
#[test]
fn no_interval_has_more_than_rate_and_burst() {
    for seed in 1..=6 {
        let random = &mut Xorshift::new(seed);
        let ceilings = [(1_u64, 1_500_u32), (10, 6_000), (40, 20_000)];
        let mut line = Line::of(under(drr(&[L, 2 * L, L, 3 * L])), 4);
        for (flow, (rate, burst)) in (1..).zip(ceilings) {
            line.link.scheduler.set_ceiling(FlowId(flow), mbit(rate, burst)).unwrap();
        }
        for _ in 0..40 {
            let busy: Vec<u32> = (0..4).filter(|_| random.below(4) > 0).collect();
            line.run(5, &busy, random);
            if random.below(3) == 0 {
                let flow = random.below(4);
                line.link.queues[flow as usize].clear();
                line.link.scheduler.lost(FlowId(flow), 0, None);
                line.link.recount().unwrap();
            }
        }
        for (flow, (rate, burst)) in (1..).zip(ceilings) {
            line.holds(flow, rate, burst);
        }
    }
}

/// Goal: a new ceiling acts at once on a flow that stays backlogged, up and down, and gives nothing away.
#[test]
fn a_new_ceiling_acts_at_once_on_a_flow_that_stays_backlogged() {
    let mut line = Line::of(under(drr(&[L, L])), 2);
    let random = &mut Xorshift::new(4);
    line.run(100, &[0], random);
    for (millis, ceiling, expected) in [
        (100, mbit(2, 3_000), 2),
        (1_100, mbit(20, 6_000), 20),
        (2_100, None, 100),
        (3_100, mbit(5, L), 5),
    ] {
        line.link.scheduler.set_ceiling(FlowId(0), ceiling).unwrap();
        assert_eq!(line.link.scheduler.ceiling(FlowId(0)), ceiling);
        line.run(1_000, &[0], random);
        near(line.kbit(0, millis), expected, 4);
    }
    // It waits, and is let go: served at once.
    while !line.link.scheduler.is_waiting(FlowId(0)) {
        line.step(u64::MAX);
    }
    line.link.scheduler.set_ceiling(FlowId(0), None).unwrap();
    assert_eq!(line.link.scheduler.select(), Some(FlowId(0)));
    line.link.recount().unwrap();
    // To and fro: a change is no burst.
    line.link.scheduler.set_ceiling(FlowId(0), mbit(2, 6_000)).unwrap();
    let (sent, mut earned) = (line.sent.len(), 0);
    for turn in 0..500 {
        let (rate, from) = (1 + turn % 3, line.now);
        line.link.scheduler.advance(Nanos(from));
        line.link.scheduler.set_ceiling(FlowId(0), mbit(rate, 6_000)).unwrap();
        line.run(1, &[0], random);
        earned += rate * (line.now - from);
    }
    let bytes: u64 = line.sent[sent..].iter().map(|&(.., len)| u64::from(len)).sum();
    let most = earned / 8_000 + 6_000;
    assert!((most - 8_000..=most).contains(&bytes), "{bytes} of {most}");
}

/// Goal: a reading of the clock at its end leaves no trace.
#[test]
fn after_a_reading_at_the_end_of_time_a_flow_has_its_ceiling() {
    let mut line = Line::of(under(drr(&[L])), 1);
    line.link.scheduler.set_ceiling(FlowId(0), mbit(5, 15_000)).unwrap();
    let random = &mut Xorshift::new(1);
    line.run(100, &[0], random);
    line.link.scheduler.advance(Nanos::MAX);
    line.link.scheduler.open();
    assert!(line.link.dequeue().is_some());
    line.run(1_000, &[0], random);
    near(line.kbit(0, 200), 5, 1);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plus(u32);

impl WireLength for Plus {
    fn wire_len(&self, len: u32) -> u32 {
        len + self.0
    }
}

/// Goal: charges are those of the wire, and the longest packet on it is what a burst must hold.
#[test]
fn bytes_are_counted_as_they_are_on_the_wire() {
    let tables = || (vec![CeilingFlow::EMPTY; 1], vec![CeilingReturn::EMPTY; 1]);
    let (ceilings, returns) = tables();
    let mut scheduler = Ceilings::on_link(drr(&[L]), ceilings, returns, Plus(100)).unwrap();
    let what = "burst in bytes";
    let refused = ConfigError::OutOfRange { what, value: 1_599, min: 1_600, max: u32::MAX.into() };
    assert_eq!(scheduler.set_ceiling(FlowId(0), mbit(8, 1_599)), Err(refused));
    scheduler.set_ceiling(FlowId(0), mbit(8, 1_600)).unwrap();
    let mut link = Link::over(scheduler, 1);
    (0..3).for_each(|_| link.enqueue(0, 1_000));
    assert!(link.dequeue().is_some());
    assert_eq!(link.scheduler.opens_at(Nanos(0)), Some(Nanos::from_micros(1_100)));
    // Another link restamps what waits: now the bucket must be full less what no packet needs.
    link.scheduler.set_link(Plus(0));
    assert_eq!(link.scheduler.opens_at(Nanos(0)), Some(Nanos::from_micros(1_000)));
    link.scheduler
        .recount(&|_| FlowState {
            backlog: crate::Backlog { packets: 2, bytes: 2_000 },
            head_len: Some(1_000),
        })
        .unwrap();
}

/// Goal: a link on which packets are longer overdraws no bucket. Method: a bucket holds the longest packet, exactly, when the
/// link becomes another.
#[test]
fn a_longer_packet_on_the_wire_waits_for_the_bucket_to_hold_it() {
    let (ceilings, returns) = (vec![CeilingFlow::EMPTY; 1], vec![CeilingReturn::EMPTY; 1]);
    let mut scheduler = Ceilings::on_link(drr(&[L]), ceilings, returns, Plus(0)).unwrap();
    scheduler.set_ceiling(FlowId(0), mbit(8, 2 * L)).unwrap();
    let mut link = Link::over(scheduler, 1);
    (0..3).for_each(|_| link.enqueue(0, L));
    assert!(link.dequeue().is_some());
    assert_eq!(link.scheduler.select(), Some(FlowId(0)), "the bucket holds one more");
    link.scheduler.set_link(Plus(100));
    // 100 bytes take 100 µs at 8 Mbit/s.
    assert_eq!(link.scheduler.select(), None);
    assert_eq!(link.scheduler.opens_at(Nanos(0)), Some(Nanos::from_micros(100)));
    let held = crate::Backlog { packets: 2, bytes: 2 * L };
    link.scheduler.recount(&|_| FlowState { backlog: held, head_len: Some(L) }).unwrap();
}

/// Goal: a host with a rate and a ceiling has the one beside busy hosts and the other alone, with however many
/// flows.
#[test]
fn a_host_has_its_rate_beside_others_and_its_ceiling_alone() {
    let rates = (vec![CommittedFlow::EMPTY; 3], vec![CommittedReturn::EMPTY; 3]);
    let turns = CommittedRates::new(drr(&[L; 3]), drr(&[L; 3]), rates.0, rates.1).unwrap();
    let (nodes, rings) = (vec![HostDrrFlow::EMPTY; 20], vec![HostRing::EMPTY; 3]);
    let mut scheduler = HostDrr::new(under(turns), nodes, rings, L).unwrap().sparse_first();
    scheduler.add_all(L).unwrap();
    scheduler.assign(FlowId(18), 1).unwrap();
    scheduler.assign(FlowId(19), 2).unwrap();
    let host = FlowId(0);
    scheduler.scheduler_mut().set_ceiling(host, mbit(30, 30_000)).unwrap();
    let rate = CommittedRate::new(20_000_000, 30_000).unwrap();
    scheduler.scheduler_mut().scheduler_mut().set_rate(host, Some(rate)).unwrap();
    let mut line = Line::of(scheduler, 20);
    let everything: Vec<u32> = (0..20).collect();
    line.run(1_000, &everything, &mut Xorshift::new(6));
    let of_host_0 = |line: &Line<_>, from| (0..18).map(|flow| line.kbit(flow, from)).sum::<u64>();
    near(of_host_0(&line, 100), 20, 1);
    near(line.kbit(18, 100), 40, 1);
    near(line.kbit(19, 100), 40, 1);
    for flow in [18, 19] {
        line.link.queues[flow].clear();
        line.link.scheduler.lost(FlowId(flow as u32), 0, None);
    }
    line.run(1_000, &everything[..18], &mut Xorshift::new(7));
    near(of_host_0(&line, 1_100), 30, 1);
}

/// Goal: a host above its ceiling loses its own packets, and no other's, when room is short.
#[test]
fn a_host_that_waits_gives_way_itself() {
    let (nodes, rings) = (vec![HostDrrFlow::EMPTY; 2], vec![HostRing::EMPTY; 2]);
    let mut scheduler = HostDrr::new(under(drr(&[L; 2])), nodes, rings, L).unwrap();
    scheduler.add_all(L).unwrap();
    scheduler.assign(FlowId(1), 1).unwrap();
    scheduler.scheduler_mut().set_ceiling(FlowId(0), mbit(1, L)).unwrap();
    let (held, longest) = (vec![HeldFlow::EMPTY; 2], vec![HeldHost::EMPTY; 2]);
    let classes = vec![HostClass::EMPTY; HostClass::COUNT];
    let limits = Limits::bytes(20 * L);
    let policy = LongestHostDrop::new(&scheduler, limits, held, longest, classes).unwrap();
    let (queues, descriptors) = (vec![Queue::EMPTY; 2], vec![Descriptor::EMPTY; 64]);
    let queue = FlowQueues::with_own_victim(scheduler, queues, descriptors, limits);
    let mut queue = queue.with_drop_policy(policy);
    let (mut lost, mut out) = ([0; 2], [0; 2]);
    let mut free = [0, 1].map(|parity| (0..32).map(|at| 2 * at + parity).collect::<Vec<u32>>());
    for at in 0..400_u64 {
        // Host 0 sends 3 packets a millisecond, host 1 one.
        let now = Nanos(at * 250_000);
        let flow = u32::from(at % 4 == 3);
        let packet = Packet::new(free[flow as usize].pop().unwrap(), L);
        let mut back = Vec::new();
        let gone = &mut |packet: Packet, _| back.push(packet);
        let _ = queue.enqueue(now, FlowId(flow), packet, gone).map_err(|e| back.push(e.packet));
        let sent = queue.dequeue(now, &mut |packet: Packet, _| back.push(packet));
        for packet in back {
            lost[(packet.handle & 1) as usize] += 1;
            free[(packet.handle & 1) as usize].push(packet.handle);
        }
        if let Some(packet) = sent {
            out[(packet.handle & 1) as usize] += 1;
            free[(packet.handle & 1) as usize].push(packet.handle);
        }
        queue.recount().unwrap();
        let waits = queue.peek(now).is_none() && queue.backlog().packets > 0;
        assert_eq!(queue.poll_at(now).is_some_and(|at| at > now), waits);
    }
    assert_eq!((lost[1], out[1]), (0, 100));
    assert!(lost[0] > 200, "{lost:?}");
    // Limits and drain reach what waits.
    let mut drained = 0;
    queue.set_limits(Limits::packets(3), &mut |_, _| drained += 1);
    assert_eq!(queue.backlog().packets, 3);
    queue.drain(&mut |_, _| drained += 1);
    assert_eq!(queue.backlog().packets, 0);
    queue.recount().unwrap();
}

#[test]
fn without_ceilings_it_is_the_flow_scheduler_itself() {
    for room in [0, 2, 5] {
        let quanta = [L, 2 * L, L, 3 * L, L];
        let (ceilings, returns) =
            (vec![CeilingFlow::EMPTY; room], vec![CeilingReturn::EMPTY; room]);
        let scheduler = Ceilings::new(drr(&quanta), ceilings, returns).unwrap();
        let (mut plain, mut scheduler) = (Link::over(drr(&quanta), 5), Link::over(scheduler, 5));
        let random = &mut Xorshift::new(9);
        for operation in 0..4_000_u32 {
            scheduler.scheduler.advance(Nanos((operation * 100).into()));
            let (flow, filling) = (random.below(5), operation >> 7 & 1 == 0);
            match random.below(32) {
                0 => {
                    plain.lose(flow, true);
                    scheduler.lose(flow, true);
                }
                choice if (choice < 20) == filling => {
                    let len = 1 + random.below(L);
                    plain.enqueue(flow, len);
                    scheduler.enqueue(flow, len);
                }
                _ => assert_eq!(plain.dequeue(), scheduler.dequeue(), "{operation}"),
            }
            scheduler.recount().unwrap();
        }
    }
    let none = Ceilings::new(drr(&[L]), [CeilingFlow::EMPTY; 0], [CeilingReturn::EMPTY; 0]);
    let mut none = none.unwrap();
    let refused = ConfigError::UnknownFlow { flow: FlowId(0), flows: 0 };
    assert_eq!(none.set_ceiling(FlowId(0), mbit(1, L)), Err(refused));
    assert!(!none.waits());
}

/// Goal: what is done at random to flows that wait or not leaves the books whole.
#[test]
fn every_backlogged_flow_is_in_the_flow_scheduler_or_waits() {
    for seed in 1..=10 {
        let random = &mut Xorshift::new(seed);
        let mut line = Line::of(under(drr(&[L, 2 * L, L, L]).sparse_first()), 4);
        for _ in 0..3_000 {
            let flow = random.below(4);
            line.link.scheduler.advance(Nanos(line.now));
            match random.below(16) {
                0 => {
                    let ceiling = (random.below(4) > 0).then_some(());
                    let rate = 1 + u64::from(random.below(50));
                    let ceiling = ceiling.and_then(|()| mbit(rate, L + random.below(5_000)));
                    // A sibling may have longer packets than the burst.
                    let _refused = line.link.scheduler.set_ceiling(FlowId(flow), ceiling);
                }
                1 => line.link.lose(flow, true),
                2 => line.link.lose(flow, false),
                3 => line.now = line.now.saturating_sub(random.below(1_000_000).into()),
                4 => {
                    line.link.remove(flow);
                    line.link.scheduler.configure(FlowId(flow), L, None).unwrap();
                }
                5 if random.below(3) == 0 => line.link.scheduler.part(FlowId(flow)),
                // There may be no such flow.
                5 => {
                    let other = FlowId(random.below(5));
                    let _refused = line.link.scheduler.join(FlowId(flow), other);
                }
                6..10 => line.link.enqueue(flow, 1 + random.below(L)),
                _ => {
                    let end = line.now + 500_000;
                    line.step(end);
                }
            }
            line.link.recount().unwrap();
        }
    }
}

/// Goal: siblings have one ceiling together, whatever else is backlogged, and none of them is starved by the others. Method: three
/// siblings that come and go, a rival with pauses; then the three alone for a second.
#[test]
fn siblings_have_one_ceiling_together() {
    for seed in 1..=6 {
        let random = &mut Xorshift::new(seed);
        let mut line = Line::of(under(drr(&[L; 4])), 4);
        let scheduler = &mut line.link.scheduler;
        let (rate, burst) = (12, 6_000);
        scheduler.set_ceiling(FlowId(1), mbit(rate, burst)).unwrap();
        scheduler.join(FlowId(0), FlowId(1)).unwrap();
        scheduler.join(FlowId(2), FlowId(0)).unwrap();
        assert_eq!(scheduler.ceiling(FlowId(2)), mbit(rate, burst));
        for _ in 0..40 {
            let busy: Vec<u32> = (0..4).filter(|_| random.below(4) > 0).collect();
            line.run(5, &busy, random);
            line.link.recount().unwrap();
        }
        line.holds_together(&[0, 1, 2], rate, burst);
        let from = line.now / 1_000_000;
        line.run(1_000, &[0, 1, 2], random);
        for flow in 0..3 {
            // In parts as they stand in the ring, one packet after another; lengths are drawn.
            near(line.kbit(flow, from + 1), rate / 3, 12);
        }
        line.holds_together(&[0, 1, 2], rate, burst);
    }
}

/// Goal: a flow that cannot be a sibling is refused with the reason, and nothing has changed. Method: nine flows with room for all, one
/// of them without.
#[test]
fn a_sibling_that_there_cannot_be_is_refused() {
    let mut scheduler = under(drr(&[L; 10]));
    scheduler.set_ceiling(FlowId(0), mbit(8, L)).unwrap();
    for flow in 1..8 {
        assert_eq!(scheduler.join(FlowId(flow), FlowId(flow - 1)), Ok(()));
    }
    let before = scheduler.clone();
    // Siblings already, and itself.
    for (flow, other) in [(0, 7), (7, 0), (3, 3), (9, 9)] {
        assert_eq!(scheduler.join(FlowId(flow), FlowId(other)), Ok(()));
    }
    let full = ConfigError::OutOfRange { what: "siblings", value: 9, min: 1, max: 8 };
    assert_eq!(scheduler.join(FlowId(8), FlowId(4)), Err(full));
    let unknown = ConfigError::UnknownFlow { flow: FlowId(10), flows: 10 };
    assert_eq!(scheduler.join(FlowId(10), FlowId(4)), Err(unknown));
    assert_eq!(scheduler.join(FlowId(8), FlowId(10)), Err(unknown));
    assert_eq!(scheduler, before);
    scheduler.part(FlowId(4));
    assert_eq!(scheduler.join(FlowId(8), FlowId(3)), Ok(()));
    assert_eq!(scheduler.ceiling(FlowId(8)), mbit(8, L));
    // A burst that was enough for no longer packets than before.
    let tables = (vec![CeilingFlow::EMPTY; 2], vec![CeilingReturn::EMPTY; 2]);
    let mut scheduler = Ceilings::on_link(drr(&[L; 2]), tables.0, tables.1, Plus(0)).unwrap();
    scheduler.set_ceiling(FlowId(0), mbit(8, L)).unwrap();
    scheduler.set_link(Plus(100));
    let before = scheduler.clone();
    let (value, min) = (L.into(), (L + 100).into());
    let short =
        ConfigError::OutOfRange { what: "burst in bytes", value, min, max: u32::MAX.into() };
    assert_eq!(scheduler.join(FlowId(1), FlowId(0)), Err(short));
    assert_eq!(scheduler, before);
}

#[test]
fn a_flow_scheduler_that_cannot_be_left_and_entered_is_refused() {
    let tables = || (vec![CeilingFlow::EMPTY; 2], vec![CeilingReturn::EMPTY; 2]);
    let (ceilings, returns) = tables();
    let wf2q = Wf2q::new(vec![Wf2qFlow::EMPTY; 2], L).unwrap();
    assert_eq!(Ceilings::new(wf2q, ceilings, returns).unwrap_err(), ConfigError::LooksAhead);
    let (ceilings, returns) = tables();
    let shortest = ShortestQueue::new(vec![LengthFlow::EMPTY; 2]);
    assert_eq!(Ceilings::new(shortest, ceilings, returns).unwrap_err(), ConfigError::CountsBytes);
    let (ceilings, returns) = tables();
    let twice = Ceilings::new(under(drr(&[L; 2])), ceilings, returns);
    assert_eq!(twice.unwrap_err(), ConfigError::Waits);
    let rates = (vec![CommittedFlow::EMPTY; 2], vec![CommittedReturn::EMPTY; 2]);
    let inside = under(drr(&[L; 2]));
    let refused = CommittedRates::new(inside.clone(), inside, rates.0, rates.1).unwrap_err();
    assert_eq!(refused, ConfigError::Waits);
}

/// Goal: classes below ceilings send when their ceilings let them, and `poll_at` says when.
#[test]
fn classes_may_have_ceilings() {
    let mut scheduler = under(drr(&[L, L]));
    scheduler.set_ceiling(FlowId(0), mbit(8, L)).unwrap();
    let class = || Fifo::tail_drop(vec![Descriptor::EMPTY; 16], Limits::NONE);
    let classes = vec![class(), class()];
    let states = vec![ClassState::EMPTY; 2];
    let split = LowBits::new(0).unwrap();
    let mut node = Classes::new(scheduler, classes, states, split, Limits::NONE);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for handle in 0..3 {
        node.enqueue(Nanos(0), FlowId(0), Packet::new(handle, L), drops).unwrap();
    }
    let mut now = Nanos(0);
    for at in [0, 1_500_000, 3_000_000] {
        assert_eq!(node.poll_at(now), Some(Nanos(at)));
        now = Nanos(at);
        let next = node.peek(now);
        assert_eq!(node.dequeue(now, drops), next);
        assert!(next.is_some());
        assert_eq!(node.dequeue(now, drops), None);
        node.recount().unwrap();
    }
    assert_eq!(node.poll_at(now), None);
    for handle in 3..6 {
        node.enqueue(now, FlowId(0), Packet::new(handle, L), drops).unwrap();
    }
    let mut lost = 0;
    node.set_limits(Limits::packets(1), &mut |_: Packet, _| lost += 1);
    assert_eq!((lost, node.backlog().packets), (2, 1));
}

/// Goal: an AQM that is set for the link does not take the wait below a ceiling for a queue that stands, and takes
/// what is queued beyond that for one. Method: a flow that always holds two packets, and one that always holds
/// four, at 1 Mbit/s under CoDel; what a peek foresees leaves.
#[test]
fn what_a_flow_waits_below_a_ceiling_is_not_held_against_it() {
    for (holds, drops_some) in [(2, false), (4, true)] {
        let mut scheduler = under(drr(&[L]));
        scheduler.set_ceiling(FlowId(0), mbit(1, L)).unwrap();
        let codel = CoDel::new([CoDelState::EMPTY; 1], CoDelParams::INTERNET).unwrap();
        let (queues, descriptors) = ([Queue::EMPTY; 1], [Descriptor::EMPTY; 8]);
        let mut queue =
            FlowQueues::with_parts(scheduler, codel, queues, descriptors, [], Limits::NONE);
        let (mut now, mut free, mut sent) = (Nanos(0), (0..8).collect::<Vec<_>>(), 0);
        while now < Nanos::from_secs(3) {
            while queue.backlog().packets < holds {
                let packet = Packet::new(free.pop().unwrap(), L);
                let none = &mut |packet, why| panic!("{packet:?}: {why:?}");
                queue.enqueue(now, FlowId(0), packet, none).unwrap();
            }
            now = queue.poll_at(now).unwrap();
            let foreseen = queue.peek(now);
            let packet = queue.dequeue(now, &mut |packet: Packet, _| free.push(packet.handle));
            assert!(packet.is_some() && packet == foreseen, "{packet:?} {foreseen:?} at {now:?}");
            free.extend(packet.map(|packet| packet.handle));
            sent += 1;
        }
        assert!((249..=252).contains(&sent), "{sent}");
        let dropped = queue.counters().dropped_total().packets;
        assert_eq!(dropped > 0, drops_some, "{dropped} with {holds}");
    }
}
