//! A line that is charged what is dropped.

use proptest::collection::vec;
use proptest::prelude::*;
use sched_core::{
    CoDel, CoDelParams, CoDelState, Descriptor, DropReason, Drr, DrrFlow, FlowId, FlowQueues,
    Limits, Nanos, Packet, Queue, Scheduler,
};
use shaper::{Overhead, Rate, Shaped, Shaper};

const LINK: Overhead = Overhead::PPPOE_LLCSNAP;
const SECOND: Nanos = Nanos::from_secs(1);

/// Two flows, up to 32 packets, and CoDel with a target so low that it drops often.
fn queues() -> impl Scheduler {
    let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500).unwrap();
    drr.add_all(1_500).unwrap();
    let params = CoDelParams::new(Nanos::from_micros(1_024), Nanos::from_micros(20_480));
    let codel = CoDel::new([CoDelState::EMPTY; 2], params).unwrap();
    let (queues, packets) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; 64]);
    FlowQueues::with_parts(drr, codel, queues, packets, [], Limits::packets(32))
}

fn line(bps: u64) -> Shaper {
    Shaper::new(Rate::bits_per_second(bps).unwrap()).with_catch_up(Nanos::ZERO)
}

/// Bytes on the wire of what is dropped.
fn wire_len(packet: Packet) -> u64 {
    LINK.wire_len(packet.len).into()
}

fn charge(line: &mut Shaper, now: Nanos, bytes: u64) {
    line.charge(now, u32::try_from(bytes).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: conformance::effort::effort(250, 4_000), failure_persistence: None, ..Default::default() })]

    /// Goal: the line carries what leaves and what is dropped; two thirds of the rate may leave whatever is dropped; what
    /// leaves never exceeds the rate. Method: random arrivals, departures, evictions and rates, stopped too, beside a line
    /// that is charged by hand and a floor charged half as much again; and between any two departures, the integral of
    /// the rate, what it carries in a nanosecond, and a packet.
    #[test]
    fn the_line_carries_what_leaves_and_what_is_dropped(
        steps in vec((0_u8..14, any::<u64>()), 1..400),
        bps in 100_000_u64..40_000_000,
    ) {
        let mut shaped = Shaped::new(queues(), line(bps), LINK).ingress(true);
        let (mut all, mut floor) = (line(bps), line(bps));
        let (mut sent, mut integral, mut most_ahead) = (0_i128, 0_i128, i128::MAX);
        let (mut now, mut latest) = (SECOND, Nanos::ZERO);
        let mut lost = 0;
        for (what, argument) in steps {
            let mut sink = |packet, reason| {
                assert!(matches!(reason, DropReason::Aqm | DropReason::Overflow));
                lost += wire_len(packet);
            };
            let (mut of_call, before) = (now, now);
            let bps = i128::from(all.rate().as_bits_per_second().unwrap());
            match what {
                0..=5 => {
                    let handle = (argument % 64) as u32;
                    let packet = Packet::new(handle, 40 + (argument >> 8) as u32 % 1_461);
                    let flow = FlowId((argument >> 7) as u32 % 2);
                    if let Err(rejected) = shaped.enqueue(now, flow, packet, &mut sink) {
                        lost += wire_len(rejected.packet);
                    }
                }
                6 => {
                    now = now.plus(Nanos(argument >> (40 + argument % 20)));
                    integral += bps * i128::from(now.0 - before.0);
                }
                7 => {
                    let stop = argument % 3 == 0;
                    let bps = 100_000 << (argument % 8);
                    let rate = if stop { Rate::STOPPED } else { Rate::bits_per_second(bps).unwrap() };
                    shaped.set_rate(now, rate);
                    let is_change = rate != all.rate();
                    for line in [&mut all, &mut floor] {
                        line.set_rate(now, rate);
                    }
                    if is_change {
                        latest = now.min(all.due());
                    }
                }
                8 if argument % 4 == 0 => {
                    shaped.evict(&mut sink);
                    of_call = latest;
                }
                _ => {
                    now = now.max(shaped.poll_at(now).unwrap_or(now));
                    of_call = now;
                    integral += bps * i128::from(now.0 - before.0);
                    let is_open = all.is_open(now) || floor.is_open(now);
                    let peeked = shaped.peek(now);
                    prop_assert!(is_open || peeked.is_none());
                    prop_assert_eq!(shaped.poll_at(now) == Some(now), peeked.is_some());
                    if let Some(packet) = shaped.dequeue(now, &mut sink) {
                        prop_assert!(is_open);
                        let wire = wire_len(packet);
                        let ahead = sent * 8_000_000_000 - integral;
                        prop_assert!(ahead <= most_ahead, "{ahead} > {most_ahead}");
                        most_ahead = most_ahead.min(ahead + bps);
                        sent += i128::from(wire);
                        if all.is_open(now) {
                            latest = now;
                        }
                        charge(&mut all, now, wire);
                        charge(&mut floor, now, wire + wire.div_ceil(2));
                    }
                }
            }
            if lost > 0 && all.due() <= of_call.plus(SECOND) {
                if all.is_open(of_call) {
                    latest = of_call;
                }
                charge(&mut all, of_call, lost);
            }
            lost = 0;
            prop_assert_eq!(shaped.line().due(), all.due());
            prop_assert_eq!(shaped.recount(), Ok(()));
        }
    }

    /// Goal: a burst in bytes is the bound, at any rate. Method: as for the catch-up, a hungry caller polls at arbitrary
    /// times and changes the rate as it likes; between any two departures the line carries at most the integral of its
    /// rate, the burst, and a packet.
    #[test]
    fn no_span_carries_more_than_the_integral_the_burst_and_one_packet(
        steps in vec((0_u8..12, any::<u64>(), 0_u32..70_000), 1..300),
        burst in 0_u32..1_000_000,
    ) {
        let mut line = Shaper::new(Rate::kilobits_per_second(1_000).unwrap()).with_burst(burst);
        let (mut now, mut sent, mut integral) = (0_u64, 0_i128, 0_i128);
        let mut most_ahead = i128::MAX;
        for (what, step, len) in steps {
            let before = now;
            match what {
                0..=3 => now = now.max(line.due().0).min(u64::MAX - 1),
                4 => now = now.saturating_add(step >> (44 + len % 20)),
                5 => now = now.saturating_sub(step >> (34 + len % 30)),
                6..=8 => now = now.saturating_add(step >> (30 + len % 34)),
                _ => {}
            }
            let bps = i128::from(line.rate().as_bits_per_second().unwrap());
            integral += bps * i128::from(now.saturating_sub(before));
            if what >= 8 {
                let bps = (1_000 + (step >> 8) % 1_000) << (step % 30);
                let rate = Rate::bits_per_second(bps.min(400_000_000_000)).unwrap();
                line.set_rate(Nanos(now), if step % 7 == 0 { Rate::STOPPED } else { rate });
            }
            prop_assert_eq!(line.burst(), Some(burst));
            if line.is_open(Nanos(now)) {
                let bps = i128::from(line.rate().as_bits_per_second().unwrap());
                let ahead = sent * 8_000_000_000 - integral;
                prop_assert!(ahead <= most_ahead, "{ahead} > {most_ahead}");
                most_ahead = most_ahead.min(ahead + bps.max(i128::from(burst) * 8_000_000_000));
                line.charge(Nanos(now), len);
                sent += i128::from(len);
            }
        }
    }
}

/// Goal: senders that do not react can neither stop the line nor be paid for longer than is said. Method: ten times the
/// rate for five seconds. Two thirds of the rate leave, no more than the rate, and the line is never closed for longer than
/// a second and what one call drops. Three seconds after the flood it owes nothing.
#[test]
fn a_flood_leaves_two_thirds_of_the_rate_and_is_paid_for_in_three_seconds() {
    let mut shaped = Shaped::new(queues(), line(8_000_000), Overhead::RAW).ingress(true);
    let (mut now, mut next, mut handle, mut left) = (SECOND, SECOND, 0, 0_u64);
    let mut drops = |_: Packet, _: DropReason| ();
    let flood_ends = SECOND.plus(Nanos::from_secs(5));
    while now < flood_ends {
        let packet = Packet::new(handle % 64, 1_000);
        handle += 1;
        let _any = shaped.enqueue(now, FlowId(handle % 2), packet, &mut drops);
        next = next.plus(Nanos::from_micros(100));
        while let Some(at) = shaped.poll_at(now).filter(|&at| at < next) {
            now = at;
            left += shaped.dequeue(now, &mut drops).map_or(0, |packet| u64::from(packet.len));
        }
        now = next;
        // 32 packets and one, of a millisecond each.
        assert!(shaped.line().due() <= now.plus(SECOND).plus(Nanos::from_millis(33)));
    }
    assert!((3_330_000..3_350_000).contains(&left), "{left} bytes of 5,000,000");
    shaped.drain(&mut drops);
    // What is offered now is less than the rate, and nothing of it is dropped.
    let calm = flood_ends.plus(Nanos::from_secs(3));
    while now < calm {
        shaped.enqueue(now, FlowId(0), Packet::new(0, 1_000), &mut drops).unwrap();
        now = now.max(shaped.poll_at(now).unwrap()).plus(Nanos::from_micros(10));
        assert!(shaped.dequeue(now, &mut drops).is_some());
    }
    assert!(shaped.line().due() <= now.plus(Nanos::from_millis(1)));
}

/// Goal: what the caller itself takes out is no congestion. Method: a full queue is drained, and limits are lowered.
#[test]
fn what_no_sender_caused_is_not_charged() {
    let mut shaped = Shaped::new(queues(), line(8_000_000), LINK).ingress(true);
    let mut drops = |_: Packet, _: DropReason| ();
    for handle in 0..20 {
        shaped.enqueue(SECOND, FlowId(0), Packet::new(handle, 1_000), &mut drops).unwrap();
    }
    let due = shaped.line().due();
    shaped.set_limits(Limits::packets(3), &mut drops);
    shaped.drain(&mut drops);
    assert_eq!(shaped.line().due(), due);
    assert!(shaped.dequeue(SECOND, &mut drops).is_none());
    assert_eq!(shaped.line().due(), due);
}
