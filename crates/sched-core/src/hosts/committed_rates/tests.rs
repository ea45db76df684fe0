use super::*;
use crate::hosts::test_line::{BYTE, L, Line, drr, near};
use crate::test_link::Link;
use crate::{
    Drr, DrrFlow, HostDrr, HostDrrFlow, HostRing, LengthFlow, Qfq, QfqConfig, QfqFlow,
    ShortestQueue, Wf2q, Wf2qFlow,
};
use conformance::Xorshift;
use std::vec;
use std::vec::Vec;

type Rates<O> = CommittedRates<O, Vec<CommittedFlow>, Vec<CommittedReturn>>;

fn committed<O: FlowScheduler + Clone>(scheduler: O) -> Rates<O> {
    let flows = scheduler.flows() as usize;
    let (rates, returns) = (vec![CommittedFlow::EMPTY; flows], vec![CommittedReturn::EMPTY; flows]);
    CommittedRates::new(scheduler.clone(), scheduler, rates, returns).unwrap()
}

fn mbit(rate: u64, burst: u32) -> Option<CommittedRate> {
    Some(CommittedRate::new(rate * 1_000_000, burst).unwrap())
}

/// Goal: beside greedy rivals a flow gets its rate, alone the whole line, and the rivals the rest.
/// Method: rates of 1 to 30 Mbit/s beside a rival without a rate, then a pause of the rival.
#[test]
fn a_flow_gets_its_committed_rate_beside_a_rival_and_alone_the_line() {
    for rate in [1, 5, 10, 30] {
        let mut line = Line::of(committed(drr(&[L, L])), 2);
        line.link.scheduler.set_rate(FlowId(0), mbit(rate, 30_000)).unwrap();
        let random = &mut Xorshift::new(rate);
        line.run(1_000, &[0, 1], random);
        near(line.kbit(0, 100), rate, 1);
        near(line.kbit(1, 100), 100 - rate, 1);
        line.stop(1);
        line.run(1_000, &[0], random);
        near(line.kbit(0, 1_000), 100, 1);
    }
}

/// Goal: a rate takes nothing from a flow without one, which always conforms: a rate above the share of a flow by weight
/// is not reached beside it. Where the rival has a rate as well, both are. Method: 80 of 100 Mbit/s, at equal weights.
#[test]
fn a_rate_above_its_share_is_reached_where_the_others_have_rates() {
    for (of_rival, expected) in [(None, [50, 50]), (mbit(20, 30_000), [80, 20])] {
        let mut line = Line::of(committed(drr(&[L, L])), 2);
        line.link.scheduler.set_rate(FlowId(0), mbit(80, 30_000)).unwrap();
        line.link.scheduler.set_rate(FlowId(1), of_rival).unwrap();
        line.run(1_000, &[0, 1], &mut Xorshift::new(1));
        near(line.kbit(0, 100), expected[0], 1);
        near(line.kbit(1, 100), expected[1], 1);
    }
}

/// Goal: while a flow without a rate is backlogged, no interval has more than `rate·t + burst + L` of one
/// with a rate, whatever else happens.
/// Method: flows with rates that come and go at random, and borrow while the rival pauses; every interval that
/// lies between two pauses.
#[test]
fn no_interval_beside_a_rival_has_more_than_rate_burst_and_a_packet() {
    for seed in 1..=6 {
        let random = &mut Xorshift::new(seed);
        let rates = [(1_u64, 1_500_u32), (10, 6_000), (40, 20_000)];
        let mut line = Line::of(committed(drr(&[L, 2 * L, L, 3 * L])), 4);
        for (flow, (rate, burst)) in (1..).zip(rates) {
            line.link.scheduler.set_rate(FlowId(flow), mbit(rate, burst)).unwrap();
        }
        for _ in 0..8 {
            let since = line.sent.len();
            for _ in 0..10 {
                let busy: Vec<u32> =
                    (0..4).filter(|&flow| flow == 0 || random.below(4) > 0).collect();
                line.run(5, &busy, random);
            }
            let stretch = &line.sent[since..];
            for (flow, (rate, burst)) in (1..).zip(rates) {
                let own: Vec<_> = stretch.iter().filter(|&&(_, of, _)| of == flow).collect();
                for (first, &&(from, ..)) in own.iter().enumerate() {
                    let mut bytes = 0;
                    for &&(until, _, len) in &own[first..] {
                        bytes += u64::from(len);
                        // 10^6 bit/s are 1/8,000 bytes a nanosecond.
                        let most = (until - from) * rate + u64::from(burst + L) * 8_000;
                        assert!(bytes * 8_000 <= most, "{bytes} of flow {flow} in {from}..{until}");
                    }
                }
            }
            line.stop(0);
            line.run(5, &[1, 2, 3], random);
        }
    }
}

/// Goal: rates bind by time, and weights share what is left, within and beyond. Method: a link of 100
/// Mbit/s, weights 1:2:3:3 and rates of 1 and 2 Mbit/s. One flow without a rate, beside the two with rates,
/// has 97 Mbit/s; two such flows share 97. Alone, the flows with rates have their rates and share 97 as 1:2,
/// but for what a flow loses of its turn when it is moved.
#[test]
fn weights_share_within_and_beyond() {
    let mut line = Line::of(committed(drr(&[L, 2 * L, 3 * L, 3 * L])), 4);
    line.link.scheduler.set_rate(FlowId(0), mbit(1, 15_000)).unwrap();
    line.link.scheduler.set_rate(FlowId(1), mbit(2, 15_000)).unwrap();
    let random = &mut Xorshift::new(9);
    line.run(1_000, &[0, 1, 2], random);
    near(line.kbit(0, 200), 1, 1);
    near(line.kbit(1, 200), 2, 1);
    near(line.kbit(2, 200), 97, 1);
    let start = line.now / 1_000_000 + 50;
    line.run(1_000, &[0, 1, 2, 3], random);
    near(2 * line.kbit(2, start), 97, 1);
    near(2 * line.kbit(3, start), 97, 1);
    line.stop(2);
    line.stop(3);
    let start = line.now / 1_000_000 + 50;
    line.run(1_000, &[0, 1], random);
    near(3 * line.kbit(0, start), 3 + 97, 2);
    near(3 * line.kbit(1, start), 3 * 2 + 2 * 97, 2);
}

/// Goal: a rate above the share of a flow changes nothing but the order of packets.
#[test]
fn a_rate_above_the_share_does_not_bind() {
    let mut line = Line::of(committed(drr(&[L, L, L])), 3);
    line.link.scheduler.set_rate(FlowId(0), mbit(50, 30_000)).unwrap();
    line.run(1_000, &[0, 1, 2], &mut Xorshift::new(3));
    for flow in 0..3 {
        near(3 * line.kbit(flow, 100), 100, 2);
    }
}

#[test]
fn a_rate_set_changed_and_taken_while_backlogged_binds_from_then_on() {
    let mut line = Line::of(committed(drr(&[L, L])), 2);
    let random = &mut Xorshift::new(4);
    line.run(100, &[0, 1], random);
    for (millis, rate, expected) in [
        (100, mbit(2, L), 2),
        (1_100, mbit(20, 6_000), 20),
        (2_100, None, 50),
        (3_100, mbit(5, L), 5),
    ] {
        line.link.scheduler.set_rate(FlowId(0), rate).unwrap();
        assert_eq!(line.link.scheduler.rate(FlowId(0)), rate);
        line.run(1_000, &[0, 1], random);
        near(line.kbit(0, millis), expected, 4);
    }
    // Beyond its rate, and let go: back at once.
    while !line.link.scheduler.is_excess(FlowId(0)) {
        line.run(1, &[0, 1], random);
    }
    line.link.scheduler.set_rate(FlowId(0), None).unwrap();
    assert!(!line.link.scheduler.is_excess(FlowId(0)));
    line.link.recount().unwrap();
}

/// Goal: a flow that empties and comes back has not more than its rate: the bucket outlives the backlog.
#[test]
fn a_flow_that_comes_and_goes_has_no_more_than_its_rate() {
    let mut line = Line::of(committed(drr(&[L, L])), 2);
    line.link.scheduler.set_rate(FlowId(0), mbit(10, 3_000)).unwrap();
    let random = &mut Xorshift::new(5);
    while line.now < 1_000_000_000 {
        if line.link.queues[0].is_empty() {
            line.put(0, L);
        }
        line.run(1, &[1], random);
    }
    near(line.kbit(0, 100), 10, 1);
}

/// Goal: `rates`, made of `plain`, serves as it. Method: random loads with losses, removals and changes on both,
/// packet by packet.
fn serves_as(plain: Drr<Vec<DrrFlow>>, rates: impl FlowScheduler<Config = u32>, seed: u64) {
    let (mut plain, mut rates) = (Link::over(plain, 5), Link::over(rates, 5));
    let random = &mut Xorshift::new(seed);
    for operation in 0..4_000_u32 {
        rates.scheduler.advance(Nanos((operation * 100).into()));
        let (flow, filling) = (random.below(5), operation >> 7 & 1 == 0);
        match random.below(32) {
            0 => {
                plain.lose(flow, true);
                rates.lose(flow, true);
            }
            1 => {
                plain.remove(flow);
                rates.remove(flow);
                plain.scheduler.configure(FlowId(flow), L, None).unwrap();
                rates.scheduler.configure(FlowId(flow), L, None).unwrap();
            }
            choice if (choice < 20) == filling => {
                let len = 1 + random.below(L);
                plain.enqueue(flow, len);
                rates.enqueue(flow, len);
            }
            _ => assert_eq!(plain.dequeue(), rates.dequeue(), "{operation} of {seed}"),
        }
        rates.recount().unwrap();
    }
}

/// Without rates, with rates that are never reached, and without room for any.
#[test]
fn without_rates_it_is_the_flow_scheduler_itself() {
    let plain = drr(&[L, 2 * L, L, 3 * L, L]);
    let mut rates = committed(plain.clone());
    for seed in 1..=10 {
        serves_as(plain.clone(), rates.clone(), seed);
        serves_as(plain.clone(), without_room(plain.clone()), seed);
    }
    let rate = CommittedRate::new(CommittedRate::MAX_BITS_PER_SECOND, u32::MAX).unwrap();
    (0..5).for_each(|flow| rates.set_rate(FlowId(flow), Some(rate)).unwrap());
    for seed in 1..=10 {
        serves_as(plain.clone(), rates.clone(), seed);
    }
}

type WithoutRoom<O> =
    CommittedRates<O, [CommittedFlow; 0], [CommittedReturn; 0], Drr<[DrrFlow; 0]>>;

fn without_room<O: FlowScheduler<Config = u32>>(scheduler: O) -> WithoutRoom<O> {
    CommittedRates::new(scheduler, Drr::new([], L).unwrap(), [], []).unwrap()
}

#[test]
fn without_room_a_rate_is_refused_and_what_is_not_selected_changes_nothing() {
    let mut scheduler = without_room(drr(&[L, L]));
    let refused = ConfigError::UnknownFlow { flow: FlowId(0), flows: 0 };
    assert_eq!(scheduler.set_rate(FlowId(0), mbit(1, L)), Err(refused));
    assert_eq!(
        (scheduler.room(), scheduler.rate(FlowId(0)), scheduler.is_excess(FlowId(0))),
        (0, None, false)
    );
    scheduler.backlogged(FlowId(0), L);
    scheduler.advance(Nanos::from_secs(1));
    let before = scheduler.clone();
    for flow in [1, 2, u32::MAX].map(FlowId) {
        scheduler.served(flow, L, None);
        scheduler.served(flow, L, Some(L));
    }
    scheduler.backlogged(FlowId(0), L);
    assert_eq!(scheduler, before);
}

/// The flow scheduler `scheduler` under rates that are set and changed at any time, recounted after every operation.
fn stays_whole<O: FlowScheduler + Clone>(scheduler: O, seed: u64) {
    let flows = scheduler.flows();
    let mut line = Line::of(committed(scheduler), flows as usize);
    let random = &mut Xorshift::new(seed);
    for _ in 0..2_000 {
        let flow = random.below(flows);
        match random.below(16) {
            0 => {
                let burst = L + random.below(5_000);
                let rate = (random.below(4) > 0).then_some(());
                let rate = rate.and_then(|()| mbit(1 + u64::from(random.below(50)), burst));
                line.link.scheduler.advance(Nanos(line.now));
                line.link.scheduler.set_rate(FlowId(flow), rate).unwrap();
            }
            1 => line.link.lose(flow, true),
            2 => line.link.lose(flow, false),
            3 => line.now = line.now.saturating_sub(random.below(1_000_000).into()),
            4 if random.below(3) == 0 => line.link.scheduler.part(FlowId(flow)),
            // There may be no such flow.
            4 => {
                let other = FlowId(random.below(flows + 1));
                let _refused = line.link.scheduler.join(FlowId(flow), other);
            }
            5..10 => line.put(flow, 1 + random.below(L)),
            _ => line.run(0, &[], random),
        }
        line.link.scheduler.advance(Nanos(line.now));
        if let Some((_, len)) = (random.below(2) == 0).then(|| line.link.dequeue()).flatten() {
            line.now += u64::from(len) * BYTE;
        }
        line.link.recount().unwrap();
        let held = line.link.queues.iter().any(|queue| !queue.is_empty());
        assert_eq!(line.link.scheduler.select().is_some(), held);
    }
}

/// Goal: beside a flow without a rate, siblings have one rate together.
#[test]
fn siblings_have_one_rate_together() {
    let mut line = Line::of(committed(drr(&[L; 4])), 4);
    let scheduler = &mut line.link.scheduler;
    scheduler.set_rate(FlowId(1), mbit(12, 30_000)).unwrap();
    scheduler.join(FlowId(0), FlowId(1)).unwrap();
    scheduler.join(FlowId(2), FlowId(0)).unwrap();
    assert_eq!(scheduler.rate(FlowId(2)), mbit(12, 30_000));
    line.run(4_000, &[0, 1, 2, 3], &mut Xorshift::new(3));
    let together = (0..3).map(|flow| line.kbit(flow, 1_000)).sum();
    near(together, 12, 1);
    near(line.kbit(3, 1_000), 88, 1);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plus(u32);

impl WireLength for Plus {
    fn wire_len(&self, len: u32) -> u32 {
        len + self.0
    }
}

/// Goal: a flow that cannot be a sibling is refused with the reason, and nothing has changed. Method: as of ceilings.
#[test]
fn a_sibling_that_there_cannot_be_is_refused() {
    let mut scheduler = committed(drr(&[L; 10]));
    scheduler.set_rate(FlowId(0), mbit(8, L)).unwrap();
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
    assert_eq!(scheduler.rate(FlowId(8)), mbit(8, L));
    // A burst that was enough for no longer packets than before.
    let (rates, returns) = (vec![CommittedFlow::EMPTY; 2], vec![CommittedReturn::EMPTY; 2]);
    let (conforming, excess) = (drr(&[L; 2]), drr(&[L; 2]));
    let scheduler = CommittedRates::on_link(conforming, excess, rates, returns, Plus(0));
    let mut scheduler = scheduler.unwrap();
    scheduler.set_rate(FlowId(0), mbit(8, L)).unwrap();
    scheduler.set_link(Plus(100));
    let before = scheduler.clone();
    let (value, min) = (L.into(), (L + 100).into());
    let short =
        ConfigError::OutOfRange { what: "burst in bytes", value, min, max: u32::MAX.into() };
    assert_eq!(scheduler.join(FlowId(1), FlowId(0)), Err(short));
    assert_eq!(scheduler, before);
}

#[test]
fn every_backlogged_flow_is_in_one_of_the_two_whatever_the_flow_scheduler() {
    for seed in 1..=conformance::effort::effort(2, 10) {
        stays_whole(drr(&[L, 2 * L, L, L]), seed);
        stays_whole(drr(&[L, 2 * L, L, L]).sparse_first(), seed);
        let mut qfq = Qfq::new(vec![QfqFlow::EMPTY; 4], L).unwrap();
        for flow in (0..4).map(FlowId) {
            let config = QfqConfig { weight: 1 + flow.0, max_len: L };
            qfq.configure(flow, config, None).unwrap();
        }
        stays_whole(qfq, seed);
        stays_whole(committed(drr(&[L; 4])), seed);
    }
}

/// Flows 0, 1, … are beyond rates of 1 Mbit/s, with a packet of theirs sent each, and hold another; the last
/// is without a rate.
fn all_beyond(flows: u32) -> Link<Rates<Drr<Vec<DrrFlow>>>> {
    let mut link = Link::over(committed(drr(&vec![L; flows as usize + 1])), flows as usize + 1);
    for flow in 0..flows {
        link.scheduler.set_rate(FlowId(flow), mbit(1, L)).unwrap();
        link.enqueue(flow, L);
        link.enqueue(flow, L);
        link.enqueue(flow, L);
    }
    for _ in 0..2 * flows {
        link.dequeue();
    }
    assert!((0..flows).all(|flow| link.scheduler.is_excess(FlowId(flow))));
    link.recount().unwrap();
    link
}

fn beyond(link: &Link<Rates<Drr<Vec<DrrFlow>>>>) -> Vec<u32> {
    let flows = 0..link.scheduler.flows();
    flows.filter(|&flow| link.scheduler.is_excess(FlowId(flow))).collect()
}

#[test]
fn two_that_are_due_come_back_in_a_call_the_first_due_first() {
    let mut link = all_beyond(5);
    (0..6).for_each(|_| link.enqueue(5, 64));
    // 12 ms a packet, at the same instant: ties go to the lowest number.
    link.scheduler.advance(Nanos::from_millis(11));
    assert_eq!((link.dequeue(), beyond(&link)), (Some((5, 64)), vec![0, 1, 2, 3, 4]));
    link.scheduler.advance(Nanos::from_secs(1));
    assert_eq!(beyond(&link), [0, 1, 2, 3, 4], "time alone moves no flow");
    assert_eq!((link.dequeue(), beyond(&link)), (Some((5, 64)), vec![2, 3, 4]));
    // An arrival to a flow that holds packets moves no flow, an arrival to an idle flow does.
    link.enqueue(5, 64);
    assert_eq!(beyond(&link), [2, 3, 4]);
    while link.queues[5].pop_back().is_some() {}
    link.scheduler.lost(FlowId(5), 0, None);
    link.enqueue(5, 64);
    assert_eq!(beyond(&link), [4]);
    link.recount().unwrap();
}

#[test]
fn a_clock_that_steps_back_brings_no_flow_back() {
    let mut link = all_beyond(1);
    (0..10).for_each(|_| link.enqueue(1, 64));
    for millis in [11, 3, 11, 5, 11, 0, 11] {
        link.scheduler.advance(Nanos::from_millis(millis));
        assert_eq!((link.dequeue(), beyond(&link)), (Some((1, 64)), vec![0]));
    }
    link.scheduler.advance(Nanos::from_millis(14));
    link.dequeue();
    assert_eq!(beyond(&link), []);
}

/// Goal: a clock that steps back and comes again fills no bucket: a flow is sent its burst and the packet that
/// overdraws it, and no more until the clock is later than ever. Method: the clock steps back before the flow has
/// sent anything, and then to and fro; beside a rival, so that nothing is borrowed.
#[test]
fn a_clock_that_comes_again_fills_no_bucket() {
    let mut link = Link::over(committed(drr(&[L, L])), 2);
    link.scheduler.advance(Nanos::from_millis(100));
    link.scheduler.set_rate(FlowId(0), mbit(1, L)).unwrap();
    for _ in 0..60 {
        link.enqueue(0, L);
        link.enqueue(1, L);
    }
    let mut sent = 0;
    for millis in [0, 100, 0, 100, 50, 99, 0, 100] {
        link.scheduler.advance(Nanos::from_millis(millis));
        let of_flow_0 = (0..4).filter(|_| link.dequeue() == Some((0, L)));
        sent += of_flow_0.count();
        assert_eq!(sent, 2, "at {millis}");
    }
    // A packet takes 12 ms, of time that has not been there before.
    for (millis, sent) in [(111, 0), (112, 1), (60, 0), (123, 0), (124, 1)] {
        link.scheduler.advance(Nanos::from_millis(millis));
        let of_flow_0 = (0..4).filter(|_| link.dequeue() == Some((0, L)));
        assert_eq!(of_flow_0.count(), sent, "at {millis}");
    }
}

/// Goal: one reading of the clock at its end costs nothing: a flow has its rate beside a rival, as before.
/// A high-water mark would leave it 0.0012 of 5 Mbit/s.
#[test]
fn after_a_reading_at_the_end_of_time_a_flow_has_its_rate() {
    for far in [Nanos::MAX, Nanos(u64::MAX - 1), Nanos(1 << 63)] {
        let mut line = Line::of(committed(drr(&[L, L])), 2);
        line.link.scheduler.set_rate(FlowId(0), mbit(5, 15_000)).unwrap();
        let random = &mut Xorshift::new(2);
        line.run(200, &[0, 1], random);
        line.link.scheduler.advance(far);
        for _ in 0..3 {
            line.link.dequeue();
        }
        line.run(1_000, &[0, 1], random);
        near(line.kbit(0, 300), 5, 1);
        near(line.kbit(1, 300), 95, 1);
    }
}

/// Goal: beside a rival that pauses, a flow gets its rate and no more where borrowing is charged, and its rate on top
/// of what it borrows where borrowing is free. Method: a rival that sends 2 ms of every 2.4, and 30 seeds. In each
/// pause the flow sends three packets. A packet is borrowed if and only if the bucket is overdrawn before it: while
/// the rival sends, a flow in excess is not served.
///
/// The bytes taken out of the bucket in a time `t` are `r·t`, but for the difference of its levels before and after.
///
/// - Highest level: a flow that is due waits for two packets and then for a turn of the rival, at most two packets
///   more. With a fifth of the line that fills 1,200 bytes.
/// - Lowest level: a packet that conforms leaves the bucket overdrawn by at most `L`. Where borrowing is charged, the
///   three packets of a pause overdraw it by `3L` more, and the next 2 ms fill 5,000 bytes.
///
/// In each pause at least one packet is borrowed: two packets take 2,000 bytes or more and fill 600 or less, so that
/// three would conform only from a level of 1,400 on.
#[test]
fn beside_a_rival_that_pauses_a_flow_has_its_rate_and_what_it_borrows_free() {
    /// In nanoseconds: the burst is spent by then.
    const FROM: u64 = 100_000_000;
    /// Of flow 0, in bytes, and how many pauses of the rival.
    struct Counted {
        sent: u64,
        borrowed: u64,
        at_rate: u64,
        pauses: u64,
    }
    let run = |rate: Option<CommittedRate>, seed| {
        let mut line = Line::of(committed(drr(&[L, L])), 2);
        line.link.scheduler.set_rate(FlowId(0), rate).unwrap();
        let random = &mut Xorshift::new(seed);
        let (mut borrowed, mut pauses) = (0, 0);
        for _ in 0..600 {
            line.run(2, &[0, 1], random);
            line.stop(1);
            for _ in 0..3 {
                line.put(0, L);
            }
            let counts = line.now >= FROM;
            pauses += u64::from(counts);
            for _ in 0..3 {
                line.link.scheduler.advance(Nanos(line.now));
                let borrows = line.link.scheduler.is_excess(FlowId(0));
                let (flow, len) = line.link.dequeue().unwrap();
                borrowed += u64::from(counts && borrows) * u64::from(len);
                line.sent.push((line.now, flow, len));
                line.now += u64::from(len) * BYTE;
            }
        }
        let sent = line.sent.iter().filter(|&&(at, flow, _)| at >= FROM && flow == 0);
        let sent = sent.map(|&(.., len)| u64::from(len)).sum();
        // 20 Mbit/s are a byte in 400 ns.
        Counted { sent, borrowed, at_rate: (line.now - FROM) / 400, pauses }
    };
    let rate = mbit(20, 60_000);
    for seed in 1..=30 {
        let charged = run(rate, seed);
        let off = charged.sent.abs_diff(charged.at_rate);
        assert!(off <= 1_200 + 4 * u64::from(L) + 1, "{seed}: {off} bytes off, charged");

        let free = run(rate.map(CommittedRate::with_free_borrowing), seed);
        let off = (free.sent - free.borrowed).abs_diff(free.at_rate);
        assert!(off <= 1_200 + u64::from(L) + 1, "{seed}: {off} bytes off, free");
        assert!(free.borrowed >= free.pauses * 1_000, "{seed}: {} bytes", free.borrowed);
    }
}

/// Goal: a flow that has borrowed for long gets its rate soon after the rival is back.
#[test]
fn what_was_borrowed_is_soon_paid() {
    let mut line = Line::of(committed(drr(&[L, L])), 2);
    line.link.scheduler.set_rate(FlowId(0), mbit(10, 30_000)).unwrap();
    let random = &mut Xorshift::new(5);
    line.run(1_000, &[0], random);
    near(line.kbit(0, 0), 100, 1);
    // A burst of 30,000 bytes takes 24 ms.
    line.run(200, &[0, 1], random);
    near(line.kbit(0, 1_026), 10, 4);
}

#[test]
fn what_is_not_selected_or_not_there_changes_nothing() {
    let mut link = all_beyond(2);
    link.enqueue(2, 500);
    let before = link.scheduler.clone();
    for flow in [0, 1, 3, u32::MAX].map(FlowId) {
        link.scheduler.served(flow, 1_000, None);
        link.scheduler.served(flow, 1_000, Some(64));
        link.scheduler.backlogged(flow, 1_000);
    }
    for flow in [3, u32::MAX].map(FlowId) {
        link.scheduler.grew(flow, 1_000);
        link.scheduler.lost(flow, 1_000, None);
        link.scheduler.remove(flow);
        assert_eq!((link.scheduler.rate(flow), link.scheduler.is_excess(flow)), (None, false));
    }
    link.scheduler.backlogged(FlowId(2), 64);
    assert_eq!(link.scheduler, before);
    link.recount().unwrap();
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut scheduler = committed(drr(&[L, L]));
    let before = scheduler.clone();
    let unknown = ConfigError::UnknownFlow { flow: FlowId(2), flows: 2 };
    assert_eq!(scheduler.set_rate(FlowId(2), None), Err(unknown));
    let what = "burst in bytes";
    let refused = ConfigError::OutOfRange { what, value: 1_499, min: 1_500, max: u32::MAX.into() };
    assert_eq!(scheduler.set_rate(FlowId(1), mbit(1, 1_499)), Err(refused));
    assert!(scheduler.configure(FlowId(0), L - 1, None).is_err());
    assert_eq!(scheduler, before);

    let wf2q = Wf2q::new(vec![Wf2qFlow::EMPTY; 2], L).unwrap();
    let none: [(Vec<CommittedFlow>, Vec<CommittedReturn>); 1] = Default::default();
    let [(rates, returns)] = none.clone();
    let refused = CommittedRates::new(wf2q.clone(), wf2q, rates, returns).unwrap_err();
    assert_eq!(refused, ConfigError::LooksAhead);
    let [(rates, returns)] = none.clone();
    let shortest = ShortestQueue::new(vec![LengthFlow::EMPTY; 2]);
    let refused = CommittedRates::new(shortest.clone(), shortest, rates, returns).unwrap_err();
    assert_eq!(refused, ConfigError::CountsBytes);
    let [(mut rates, mut returns)] = none;
    rates.push(CommittedFlow::EMPTY);
    returns.push(CommittedReturn::EMPTY);
    let longer = Drr::new(vec![DrrFlow::EMPTY], 2 * L).unwrap();
    let refused =
        CommittedRates::new(drr(&[2 * L]), longer.clone(), rates.clone(), returns.clone());
    assert!(matches!(refused, Err(ConfigError::OutOfRange { value: 3_000, max: 1_500, .. })));
    // What the second flow scheduler refuses is not set in the first either.
    let mut odd = CommittedRates::new(drr(&[2 * L]), drr(&[2 * L]), rates, returns).unwrap();
    odd.excess = longer;
    assert!(odd.configure(FlowId(0), L, None).is_err());
    assert_eq!(odd.config(FlowId(0)), Some(2 * L));
    odd.remove(FlowId(0));
    assert!(odd.configure(FlowId(0), L, None).is_err());
    assert_eq!(odd.config(FlowId(0)), None);
}

#[test]
fn room_for_fewer_rates_than_flows_is_room_for_those() {
    let scheduler = drr(&[L; 4]);
    let (rates, returns) = (vec![CommittedFlow::EMPTY; 2], vec![CommittedReturn::EMPTY; 3]);
    let scheduler = CommittedRates::new(scheduler.clone(), drr(&[L; 2]), rates, returns).unwrap();
    assert_eq!((scheduler.flows(), scheduler.room()), (4, 2));
    let mut line = Line::of(scheduler, 4);
    line.link.scheduler.set_rate(FlowId(1), mbit(5, 15_000)).unwrap();
    assert!(line.link.scheduler.set_rate(FlowId(2), mbit(5, 15_000)).is_err());
    line.link.scheduler.configure(FlowId(3), 2 * L, None).unwrap();
    line.run(1_000, &[0, 1, 2, 3], &mut Xorshift::new(8));
    near(line.kbit(1, 100), 5, 1);
    near(4 * line.kbit(2, 100), 95, 1);
    near(2 * line.kbit(3, 100), 95, 1);
    line.link.remove(3);
    line.link.remove(1);
    line.link.recount().unwrap();
    assert_eq!(line.link.scheduler.rate(FlowId(1)), None);
}

/// Goal: hosts have rates whatever flows they open, and a host without a rate keeps its share.
#[test]
fn a_host_with_a_committed_rate_gets_it_with_however_many_flows() {
    let of_hosts = committed(drr(&[L, L, L]));
    let (nodes, rings) = (vec![HostDrrFlow::EMPTY; 20], vec![HostRing::EMPTY; 3]);
    let mut scheduler = HostDrr::new(of_hosts, nodes, rings, L).unwrap().sparse_first();
    scheduler.add_all(L).unwrap();
    scheduler.assign(FlowId(18), 1).unwrap();
    scheduler.assign(FlowId(19), 2).unwrap();
    scheduler.scheduler_mut().set_rate(FlowId(0), mbit(20, 30_000)).unwrap();
    let mut line = Line::of(scheduler, 20);
    let all_flows: Vec<u32> = (0..20).collect();
    line.run(1_000, &all_flows, &mut Xorshift::new(6));
    let of_host_0: u64 = (0..18).map(|flow| line.kbit(flow, 100)).sum();
    near(of_host_0, 20, 1);
    near(line.kbit(18, 100), 40, 1);
    near(line.kbit(19, 100), 40, 1);
}

#[test]
fn upcoming_names_those_within_first() {
    let mut link = all_beyond(2);
    (0..3).for_each(|_| link.enqueue(2, 500));
    let mut ahead = [FlowId(9); 4];
    let found = link.scheduler.upcoming(&mut ahead);
    assert_eq!(ahead[..found].first(), Some(&FlowId(2)));
    assert!(ahead[1..found].iter().all(|flow| flow.0 < 2), "{ahead:?}");
}

/// A flow that is removed while it holds packets is idle when it is added again, with room for a rate or not,
/// whichever of the tables is the shorter.
#[test]
fn a_flow_that_was_removed_begins_anew() {
    for (rates, returns) in [(2, 2), (2, 1), (1, 2), (2, 0), (0, 0)] {
        let (rates, returns) =
            (vec![CommittedFlow::EMPTY; rates], vec![CommittedReturn::EMPTY; returns]);
        let mut scheduler =
            CommittedRates::new(drr(&[L; 2]), drr(&[L; 2]), rates, returns).unwrap();
        let flow = FlowId(1);
        scheduler.backlogged(flow, L);
        scheduler.remove(flow);
        assert_eq!(scheduler.select(), None);
        scheduler.configure(flow, L, None).unwrap();
        scheduler.backlogged(flow, L);
        assert_eq!(scheduler.select(), Some(flow));
    }
}
