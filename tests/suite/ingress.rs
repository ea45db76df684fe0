//! A queue after the bottleneck (ingress): arrivals keep to the rate, because drops are charged.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use freeboard::flowhash::mix;
use freeboard::sched_core::{DropReason, Nanos, Packet, Scheduler};
use freeboard::shaper::Rate;
use freeboard::{Labelled, SmartQueue};

const MTU: u32 = 1_500;
const RTT: u64 = 20_000_000;
/// Rate of the provider's link and configured rate of the queue, in bit/s.
const PROVIDER: u64 = 20_000_000;
const CONFIGURED: u64 = 19_600_000;

struct Flow(u32);

impl Labelled for Flow {
    fn flow(&self) -> u32 {
        mix(self.0)
    }
    fn source(&self) -> u32 {
        0
    }
    fn destination(&self) -> u32 {
        mix(self.0)
    }
}

/// A sender with a window: grows by one packet per round trip, halves on a loss, at most once per
/// round trip.
struct Sender {
    window: f64,
    in_flight: u32,
    deaf_until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    Polled,
    Acked(u32),
    Lost(u32),
}

/// Averages over the last 20 of 30 seconds: arrivals and departures in bit/s, and the mean wait at
/// the provider in microseconds.
struct Averages {
    arrived: u64,
    left: u64,
    waited: u64,
}

/// Simulates senders on the provider's link, which has a long queue, followed by the queue under
/// test.
fn run(ingress: bool, senders: u32) -> Averages {
    let rate = Rate::bits_per_second(CONFIGURED).unwrap();
    let mut queue = SmartQueue::download(rate).ingress(ingress).descriptors().unwrap();
    let window = Sender { window: 4.0, in_flight: 0, deaf_until: 0 };
    let mut all: Vec<Sender> = (0..senders).map(|_| Sender { ..window }).collect();
    let mut events = BinaryHeap::from([Reverse((0, Event::Polled))]);
    let (mut at_provider, mut provider_free) = (VecDeque::new(), 0);
    let mut free: Vec<u32> = (0..256).rev().collect();
    let mut owner = vec![0; 256];
    let (mut arrived, mut left, mut waited, mut polled) = (0_u64, 0_u64, 0_u64, u64::MAX);
    while let Some(Reverse((now, event))) = events.pop() {
        if now >= 30_000_000_000 {
            break;
        }
        let counts = u64::from(now >= 10_000_000_000);
        let mut lost = Vec::new();
        match event {
            Event::Acked(flow) => {
                let sender = &mut all[flow as usize];
                sender.in_flight -= 1;
                sender.window += 1.0 / sender.window;
            }
            Event::Lost(flow) => {
                let sender = &mut all[flow as usize];
                sender.in_flight -= 1;
                if now >= sender.deaf_until {
                    sender.window = (sender.window / 2.0).max(2.0);
                    sender.deaf_until = now + RTT;
                }
            }
            Event::Arrives => {
                let (flow, sent): (u32, u64) = at_provider.pop_front().unwrap();
                arrived += counts;
                waited += counts * (now - sent);
                let handle = free.pop().expect("a limit of packets below the handles");
                owner[handle as usize] = flow;
                let mut drops = |packet: Packet, _: DropReason| lost.push(packet.handle);
                let packet = Packet::new(handle, MTU);
                if queue.enqueue(Nanos(now), &Flow(flow), packet, &mut drops).is_err() {
                    lost.push(handle);
                }
            }
            Event::Polled => {
                polled = u64::MAX;
                let mut drops = |packet: Packet, _: DropReason| lost.push(packet.handle);
                while let Some(packet) = queue.dequeue(Nanos(now), &mut drops) {
                    left += counts;
                    free.push(packet.handle);
                    events.push(Reverse((now + RTT, Event::Acked(owner[packet.handle as usize]))));
                }
            }
        }
        for handle in lost {
            free.push(handle);
            events.push(Reverse((now + RTT, Event::Lost(owner[handle as usize]))));
        }
        for (flow, sender) in (0..).zip(&mut all) {
            while f64::from(sender.in_flight) < sender.window.floor() {
                sender.in_flight += 1;
                at_provider.push_back((flow, now));
                provider_free = now.max(provider_free) + u64::from(MTU) * 8_000_000_000 / PROVIDER;
                events.push(Reverse((provider_free, Event::Arrives)));
            }
        }
        if let Some(Nanos(at)) = queue.poll_at(Nanos(now))
            && at < polled
        {
            polled = at;
            events.push(Reverse((at, Event::Polled)));
        }
    }
    let rate = |packets: u64| packets * u64::from(MTU) * 8 / 20;
    Averages { arrived: rate(arrived), left: rate(left), waited: waited / arrived / 1_000 }
}

/// Goal: after a bottleneck, arrivals keep to the configured rate, so that no standing queue builds
/// up there. Method: 24 senders with windows, a provider's link 2 % faster than the rate, and a
/// round-trip time of 20 ms, at which about every tenth packet is dropped. With drops charged,
/// arrivals equal the rate. Without, arrivals fill the provider's link.
#[test]
fn arrivals_keep_to_the_rate_where_drops_are_charged() {
    let (without, with) = (run(false, 24), run(true, 24));
    let told =
        |seen: &Averages| format!("{} in, {} out, {} us", seen.arrived, seen.left, seen.waited);
    println!("without: {}; with: {}", told(&without), told(&with));
    assert!(without.arrived > CONFIGURED * 101 / 100, "{}", told(&without));
    assert!(with.arrived < CONFIGURED * 1_003 / 1_000, "{}", told(&with));
    assert!(with.left > CONFIGURED * 9 / 10, "{}", told(&with));
    assert!(with.waited * 2 < without.waited, "{}, {}", told(&with), told(&without));
}

/// Goal: one second after a flood, a load that fits receives its rate, also if the rate was lowered
/// and an AQM drops queued packets. Method: unresponsive senders at three times the rate for two
/// seconds, then nine tenths of the final rate; measure departures from one second later on.
#[test]
fn a_load_that_fits_has_its_rate_a_second_after_a_flood() {
    let half = 500_000_000;
    for (flows, cut) in [(1, 100), (8, 100), (8, 50), (1, 10), (8, 10)] {
        let mut queue = SmartQueue::download(Rate::megabits_per_second(100).unwrap())
            .ingress(true)
            .buffers(2_048)
            .descriptors()
            .unwrap();
        let mut free: Vec<u32> = (0..2_048).collect();
        let (mut now, mut next, mut offered, mut count) = (0, 0, 300, 0);
        for slot in 1..=10 {
            if slot == 5 {
                offered = cut * 9 / 10;
                queue.set_rate(Nanos(now), Rate::megabits_per_second(cut).unwrap());
            }
            let (end, mut left) = (slot * half, 0);
            while next < end {
                let mut dropped = Vec::new();
                let mut drops = |packet: Packet, _: DropReason| dropped.push(packet.handle);
                while let Some(Nanos(at)) = queue.poll_at(Nanos(now)).filter(|at| at.0 < next) {
                    now = at;
                    if let Some(packet) = queue.dequeue(Nanos(now), &mut drops) {
                        left += u64::from(packet.len) * 8;
                        drops(packet, DropReason::Aqm);
                    }
                }
                now = next;
                next += u64::from(MTU) * 8_000 / offered;
                count += 1;
                if free.is_empty() {
                    queue.evict(&mut drops);
                    free.append(&mut dropped);
                }
                let mut drops = |packet: Packet, _: DropReason| dropped.push(packet.handle);
                let packet = Packet::new(free.pop().unwrap(), MTU);
                let outcome = queue.enqueue(Nanos(now), &Flow(count % flows), packet, &mut drops);
                dropped.extend(outcome.err().map(|rejected| rejected.packet.handle));
                free.append(&mut dropped);
            }
            now = end;
            let wanted = offered * half / 1_000 * 99 / 100;
            assert!(
                slot < 7 || left >= wanted,
                "{flows} flows at {cut}, {slot}: {left} < {wanted}"
            );
        }
    }
}
