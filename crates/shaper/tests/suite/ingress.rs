//! A line that is charged what is dropped.

use proptest::collection::vec;
use proptest::prelude::*;
use sched_core::{
    CoDel, CoDelParams, CoDelState, Descriptor, DropReason, Drr, DrrFlow, Fifo, FlowId, FlowQueues,
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

proptest! {
    #![proptest_config(ProptestConfig { cases: conformance::effort::effort(250, 4_000), failure_persistence: None, ..Default::default() })]

    /// Goal: departures pay for what is dropped, at most half of their own length each; after a
    /// second all that has arrived is forgiven; what leaves never exceeds the rate. Method: random
    /// arrivals, departures, evictions and rates, stopped too, beside a line and a debt that are
    /// charged manually; and between any two departures, the integral of the rate, what it carries
    /// in a nanosecond, and a packet.
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
            // Idle time pays what it can carry as a whole, and nothing is forgiven beforehand that
            // is not queued.
            let after_idle_time = |shaped: &Shaped<_>, paid: &mut Shaper, now, debt| {
                let owed = u32::try_from(debt).unwrap_or(0);
                let is_carried = paid.due().plus(paid.rate().time_of(owed)) <= now;
                if Scheduler::backlog(shaped).packets > 0 || debt >= 0 && !is_carried {
                    return debt;
                }
                // Before now: at an instant at which the line is closed.
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
                // The packet that left was told of drops before it.
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

/// A link of 100 Mbit/s at first, packets of 1,250 bytes at a constant rate, and what has left.
struct Load<S> {
    shaped: Shaped<S>,
    now: Nanos,
    next: Nanos,
    handle: u32,
    left: u64,
    /// The longest time between two departures.
    gap: Nanos,
}

impl<S: Scheduler> Load<S> {
    fn new(inner: S) -> Self {
        let shaped = Shaped::new(inner, line(100_000_000), Overhead::RAW).ingress(true);
        let (now, gap) = (SECOND, Nanos::ZERO);
        Self { shaped, now, next: now, handle: 0, left: 0, gap }
    }

    /// Bits a second that leave in `span`, with `offered` megabits a second on the way.
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

/// Goal: senders that do not react cannot stop the link. Method: ten times the rate for three
/// seconds, after ten seconds at the rate. Two thirds of it leave, and never is a packet later than
/// one and a half times the time it takes.
#[test]
fn two_thirds_of_the_rate_leave_in_a_flood() {
    let mut load = Load::new(fifo());
    load.run(Nanos::from_secs(10), 100);
    let left = load.run(Nanos::from_secs(3), 1_000);
    assert!((66_600_000..67_500_000).contains(&left), "{left}");
    assert!(load.gap <= Nanos::from_micros(150), "{:?}", load.gap);
}

/// Goal: a load that fits has its rate a second after a flood, as documented. Method: 300 Mbit/s
/// for three seconds on a link of 100, then nine tenths of the rate, with the rate as it was,
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

/// One flow with room for 2,000 packets, and CoDel.
fn standing_queue() -> impl Scheduler {
    let mut drr = Drr::new([DrrFlow::EMPTY; 1], 1_500).unwrap();
    drr.add_all(1_500).unwrap();
    let codel = CoDel::new([CoDelState::EMPTY; 1], CoDelParams::INTERNET).unwrap();
    let (queues, packets) = ([Queue::EMPTY; 1], vec![Descriptor::EMPTY; HANDLES as usize]);
    FlowQueues::with_parts(drr, codel, queues, packets, [], Limits::packets(2_000))
}

/// Goal: from a second after a flood on, departures and drops together take the rate, so that the
/// queue which the flood has left shrinks by what a load leaves of the rate, although CoDel drops
/// from it; two thirds of the rate leave meanwhile, and the load has its rate once it is empty.
/// Method: floods of a tenth above the rate, one and a half and three times the rate, then nine
/// tenths of the rate: as it was, halved, or cut to a tenth.
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

/// Goal: what was dropped closes the link at no change. Method: in a flood, the line is set again,
/// or ingress is turned off and on; a packet leaves no later than one and a half times its time
/// after it.
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

/// Goal: drops by [`Scheduler::evict`], which has no timestamp, make no burst. Method: a link at 50
/// Mbit/s is idle or stopped for 30 seconds; of packets that come then, and of which a third is
/// evicted, one leaves at once.
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

/// Goal: idle time pays for what the link can carry in it, and not for the same drops again and
/// again. Method: packets that no queue has room for come at once, ten times 10 ms on the link,
/// after it was idle for 25 ms. Two are paid for, and the packet that leaves then pays for half its
/// length of the others, as do the next.
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

/// Goal: what the caller itself takes out is no congestion. Method: a full queue is drained, and
/// limits are lowered.
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
