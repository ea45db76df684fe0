//! Links that charge drops (ingress).

use proptest::collection::vec;
use proptest::prelude::*;
use sched_core::{
    CoDel, CoDelParams, CoDelState, Descriptor, DropReason, Drr, DrrFlow, Fifo, FlowId, FlowQueues,
    Limits, Nanos, Packet, Queue, Scheduler,
};
use shaper::{Overhead, Rate, Shaped, Shaper};

const LINK: Overhead = Overhead::PPPOE_LLCSNAP;
const SECOND: Nanos = Nanos::from_secs(1);

/// Returns two flows for up to 32 packets, with CoDel at a target so low that it drops often.
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

/// Returns the bytes on the wire of a dropped packet.
fn wire_len(packet: Packet) -> u64 {
    LINK.wire_len(packet.len).into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: conformance::effort::effort(250, 4_000), failure_persistence: None, ..Default::default() })]

    /// Goal: departures pay for drops, at most half of their own length each; after a second
    /// everything that has arrived is forgiven; departures never exceed the rate. Method: random
    /// arrivals, departures, evictions and rates, stopped too, beside a link and a debt that are
    /// charged manually; between any two departures the bound is the integral of the rate, what it
    /// carries in a nanosecond, and a packet.
    #[test]
    fn departures_pay_for_what_is_dropped(
        steps in vec((0_u8..14, any::<u64>()), 1..400),
        bps in 100_000_u64..40_000_000,
    ) {
        let mut shaped = Shaped::new(queues(), line(bps), LINK).ingress(true);
        let (mut paid, mut debt, mut forgiven_at) = (line(bps), 0_i128, Nanos::MAX);
        let (mut sent, mut integral, mut most_ahead) = (0_i128, 0_i128, i128::MAX);
        let mut now = SECOND;
        let mut lost = 0;
        for (what, argument) in steps {
            let mut sink = |packet, reason| {
                assert!(matches!(reason, DropReason::Aqm | DropReason::Overflow));
                lost += wire_len(packet);
            };
            let before = now;
            let bps = i128::from(paid.rate().as_bits_per_second().unwrap());
            let mut left = None;
            // Idle time pays the whole debt if it can, and credit never exceeds what is queued.
            let after_idle_time = |shaped: &Shaped<_>, paid: &mut Shaper, now, debt| {
                let owed = u32::try_from(debt).unwrap_or(0);
                let is_carried = paid.due().plus(paid.rate().time_of(owed)) <= now;
                if Scheduler::backlog(shaped).packets > 0 || debt >= 0 && !is_carried {
                    return debt;
                }
                // A timestamp in the past, at which the link is closed.
                paid.charge(Nanos::ZERO, owed);
                0
            };
            match what {
                0..=5 => {
                    debt = after_idle_time(&shaped, &mut paid, now, debt);
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
                    paid.set_rate(now, rate);
                }
                8 if argument % 4 == 0 => {
                    shaped.evict(&mut sink);
                }
                8 if argument % 4 == 1 => shaped.set_line(shaped.line().clone()),
                _ => {
                    now = now.max(shaped.poll_at(now).unwrap_or(now));
                    integral += bps * i128::from(now.0 - before.0);
                    let is_open = paid.is_open(now);
                    let peeked = shaped.peek(now);
                    prop_assert!(is_open || peeked.is_none());
                    prop_assert_eq!(shaped.poll_at(now) == Some(now), peeked.is_some());
                    if is_open {
                        debt = after_idle_time(&shaped, &mut paid, now, debt);
                    }
                    left = shaped.dequeue(now, &mut sink).map(|packet| LINK.wire_len(packet.len));
                    prop_assert!(is_open || left.is_none());
                }
            }
            let queued = i128::from(shaped.backlog().bytes);
            if lost > 0 && paid.rate() != Rate::STOPPED {
                // Drops of this dequeue came before the packet that left.
                debt = debt.max(-queued - i128::from(lost)) + i128::from(lost);
            }
            if let Some(wire) = left {
                let ahead = sent * 8_000_000_000 - integral;
                prop_assert!(ahead <= most_ahead, "{ahead} > {most_ahead}");
                most_ahead = most_ahead.min(ahead + bps);
                sent += i128::from(wire);
                let part = debt.clamp(0, i128::from(wire / 2));
                paid.charge(now, wire + u32::try_from(part).unwrap());
                debt = (debt - part).max(-queued);
                if part > 0 {
                    forgiven_at = forgiven_at.min(now.plus(SECOND));
                }
                if debt > 0 && now >= forgiven_at {
                    (debt, forgiven_at) = (-queued, Nanos::MAX);
                }
            }
            if debt <= 0 {
                forgiven_at = Nanos::MAX;
            }
            lost = 0;
            prop_assert_eq!(shaped.line().due(), paid.due());
            prop_assert_eq!(shaped.recount(), Ok(()));
        }
    }

    /// Goal: a burst in bytes is the bound at any rate. Method: a greedy caller polls at arbitrary
    /// times and changes the rate arbitrarily; between any two departures the link carries at most
    /// the integral of its rate, the burst, and a packet.
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

/// A link of 100 Mbit/s at first, packets of 1,250 bytes at a constant rate, and the departures.
struct Load<S> {
    shaped: Shaped<S>,
    now: Nanos,
    next: Nanos,
    handle: u32,
    left: u64,
    /// Longest time between two departures.
    gap: Nanos,
}

impl<S: Scheduler> Load<S> {
    fn new(inner: S) -> Self {
        let shaped = Shaped::new(inner, line(100_000_000), Overhead::RAW).ingress(true);
        let (now, gap) = (SECOND, Nanos::ZERO);
        Self { shaped, now, next: now, handle: 0, left: 0, gap }
    }

    /// Runs for `span` with a load of `offered` Mbit/s; returns the departures in bit/s.
    fn run(&mut self, span: Nanos, offered: u64) -> u64 {
        self.left = 0;
        self.gap = Nanos::ZERO;
        let (end, mut latest) = (self.now.plus(span), self.now);
        while self.next < end {
            while let Some(at) = self.shaped.poll_at(self.now).filter(|&at| at < self.next) {
                self.now = at;
                let Some(packet) = self.shaped.dequeue(at, &mut |_, _| ()) else { continue };
                self.left += u64::from(packet.len);
                (self.gap, latest) = (self.gap.max(at.since(latest)), at);
            }
            self.now = self.next;
            self.next = self.next.plus(Nanos(10_000_000 / offered));
            self.handle = (self.handle + 1) % HANDLES;
            let packet = Packet::new(self.handle, 1_250);
            let _full = self.shaped.enqueue(self.now, FlowId(0), packet, &mut |_, _| ());
        }
        self.now = end;
        self.left * 8_000_000_000 / span.0
    }
}

const HANDLES: u32 = 4_096;

fn fifo() -> impl Scheduler {
    Fifo::tail_drop([Descriptor::EMPTY; HANDLES as usize], Limits::packets(400))
}

const MEGA: u64 = 1_000_000;

/// Goal: unresponsive senders cannot stop the link. Method: ten times the rate for three seconds,
/// after ten seconds at the rate. Two thirds of the rate leave, and no packet takes more than 1.5
/// times its own time.
#[test]
fn two_thirds_of_the_rate_leave_in_a_flood() {
    let mut load = Load::new(fifo());
    load.run(Nanos::from_secs(10), 100);
    let left = load.run(Nanos::from_secs(3), 1_000);
    assert!((66_600_000..67_500_000).contains(&left), "{left}");
    assert!(load.gap <= Nanos::from_micros(150), "{:?}", load.gap);
}

/// Goal: a load that fits gets its rate one second after a flood, as documented. Method: 300 Mbit/s
/// for three seconds on a link of 100, then nine tenths of the rate, with the rate unchanged,
/// halved, or cut to a tenth.
#[test]
fn a_load_that_fits_has_its_rate_a_second_after_a_flood() {
    for (rate, offered) in [(100, 90), (100, 99), (50, 45), (10, 9)] {
        let mut load = Load::new(fifo());
        load.run(Nanos::from_secs(3), 300);
        load.shaped.set_rate(load.now, Rate::megabits_per_second(rate).unwrap());
        load.run(Shaped::<()>::INGRESS_DEBT, offered);
        let left = load.run(Nanos::from_secs(1), offered);
        assert!(left >= offered * MEGA * 99 / 100, "{left} bit/s of {offered} Mbit/s");
    }
}

/// Returns one flow of up to 2,000 packets, with CoDel.
fn standing_queue() -> impl Scheduler {
    let mut drr = Drr::new([DrrFlow::EMPTY; 1], 1_500).unwrap();
    drr.add_all(1_500).unwrap();
    let codel = CoDel::new([CoDelState::EMPTY; 1], CoDelParams::INTERNET).unwrap();
    let (queues, packets) = ([Queue::EMPTY; 1], vec![Descriptor::EMPTY; HANDLES as usize]);
    FlowQueues::with_parts(drr, codel, queues, packets, [], Limits::packets(2_000))
}

/// Goal: from one second after a flood, departures and drops together use the rate, so that the
/// queue left by the flood drains with what the load leaves of the rate, although CoDel drops from
/// it; meanwhile two thirds of the rate leave, and the load gets its rate once the queue is empty.
/// Method: floods of 1.1, 1.5 and 3 times the rate, then nine tenths of the rate, with the rate
/// unchanged, halved, or cut to a tenth.
#[test]
fn a_queue_that_a_flood_has_left_drains_at_the_rate() {
    let slot = Nanos::from_millis(500);
    let mut least = u64::MAX;
    for (flood, rate) in
        [110, 150, 300].map(|flood| [100, 50, 10].map(|rate| (flood, rate))).concat()
    {
        let offered = rate * 9 / 10;
        let mut load = Load::new(standing_queue());
        load.run(Nanos::from_secs(3), flood);
        load.shaped.set_rate(load.now, Rate::megabits_per_second(rate).unwrap());
        load.run(Shaped::<()>::INGRESS_DEBT, offered);
        let mut most = u64::from(load.shaped.backlog().bytes);
        while most > 1_250 {
            let left = load.run(slot, offered) * 100 / rate / MEGA;
            assert!(left >= 66, "{left} % of {rate} Mbit/s after {flood}");
            least = least.min(left);
            let spare = (rate - offered) * MEGA / 8 / 2;
            most = most.saturating_sub(spare).max(1_250);
            let held = u64::from(load.shaped.backlog().bytes);
            assert!(held <= most + 2 * 1_250, "{held} > {most} of {rate} Mbit/s after {flood}");
        }
        let left = load.run(slot, offered);
        assert!(left >= offered * MEGA * 99 / 100, "{left} bit/s of {offered} Mbit/s");
    }
    assert!(least < 90, "no drop was charged");
}

/// Goal: no change of settings closes the link because of earlier drops. Method: in a flood,
/// replace the shaper, or turn ingress off and on; the next packet leaves within 1.5 times its own
/// time.
#[test]
fn no_change_closes_the_link_after_a_flood() {
    let changes: [fn(&mut Shaped<_>); 3] = [
        |shaped| shaped.set_line(shaped.line().clone()),
        |shaped| shaped.set_ingress(false),
        |shaped| {
            shaped.set_ingress(false);
            shaped.set_ingress(true);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut load = Load::new(fifo());
        load.run(Nanos::from_secs(3), 300);
        change(&mut load.shaped);
        load.run(Nanos::from_millis(300), 90);
        assert!(load.gap <= Nanos::from_micros(150), "change {number}: {:?}", load.gap);
    }
}

/// Goal: drops by [`Scheduler::evict`], which has no timestamp, cause no burst. Method: a link at
/// 50 Mbit/s is idle or stopped for 30 seconds; packets arrive, a third of them are evicted, and
/// one leaves at once.
#[test]
fn evictions_after_idle_time_make_no_burst() {
    for stopped in [false, true] {
        let catch_up = Nanos::from_millis(10);
        let rate = Rate::megabits_per_second(50).unwrap();
        let line = Shaper::new(rate).with_catch_up(catch_up);
        let mut shaped = Shaped::new(fifo(), line, Overhead::RAW).ingress(true);
        let mut drops = |_: Packet, _: DropReason| ();
        shaped.enqueue(SECOND, FlowId(0), Packet::new(0, 1_250), &mut drops).unwrap();
        assert!(shaped.dequeue(SECOND, &mut drops).is_some());
        let now = Nanos::from_secs(31);
        if stopped {
            shaped.set_rate(SECOND.plus(Nanos::from_millis(1)), Rate::STOPPED);
        }
        for handle in 0..150 {
            shaped.enqueue(now, FlowId(0), Packet::new(handle, 1_250), &mut drops).unwrap();
            if handle % 3 == 0 {
                shaped.evict(&mut drops);
            }
        }
        shaped.set_rate(now, rate);
        let mut out = [Packet::new(0, 0); 150];
        assert_eq!(shaped.dequeue_burst(now, &mut out, &mut drops), 1, "stopped: {stopped}");
    }
}

/// Goal: idle time pays once for the drops that the link can carry in it. Method: after 25 ms of
/// idle time, ten packets of 10 ms each are rejected. Two are paid for. The packet that leaves then
/// pays for half its length of the others, and so do the next.
#[test]
fn idle_time_pays_once() {
    let tail_drop = Fifo::tail_drop([Descriptor::EMPTY; 64], Limits::bytes(1_000));
    let mut shaped = Shaped::new(tail_drop, line(1_000_000), Overhead::RAW).ingress(true);
    let mut drops = |_: Packet, _: DropReason| ();
    let mut send = |shaped: &mut Shaped<_>, now| {
        shaped.enqueue(now, FlowId(0), Packet::new(0, 1_000), &mut drops).unwrap();
        assert!(shaped.dequeue(now, &mut drops).is_some());
        shaped.line().due().since(now)
    };
    let now = SECOND.plus(send(&mut shaped, SECOND)).plus(Nanos::from_millis(25));
    for handle in 0..10 {
        let packet = Packet::new(handle, 1_250);
        assert!(shaped.enqueue(now, FlowId(0), packet, &mut |_, _| ()).is_err());
    }
    // Eight are owed, of 10 ms; each packet takes 8 ms and pays for 4 ms.
    let mut at = now;
    for _ in 0..20 {
        let took = send(&mut shaped, at);
        assert_eq!(took, Nanos::from_millis(12));
        at = at.plus(took);
    }
    assert_eq!(send(&mut shaped, at), Nanos::from_millis(8));
}

/// Goal: packets that the caller removes are not charged. Method: drain a full queue, and lower the
/// limits.
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
