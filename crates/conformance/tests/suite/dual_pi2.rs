//! `DualPI2`: comparison with its reference model, the contract of every scheduler, and the
//! guarantees on its page.

use conformance::Xorshift;
use conformance::catalog::entry::QUICK_PI2;
use conformance::effort::effort;
use conformance::history::{ConfigurableScheduler, Match, Operation, Operations, Peeked, Shifted};
use conformance::sides::DESCRIPTORS;
use conformance::twin::NaiveDualPi2;
use freeboard::sched_core::{
    Counters, Descriptor, DropReason, DualPi2, DualPi2Params, Ecn, FlowId, Limits, Nanos, Packet,
    Scheduler,
};

type Subject = DualPi2<[Descriptor; DESCRIPTORS]>;

fn params() -> [DualPi2Params; 4] {
    let quick = DualPi2Params::new(QUICK_PI2);
    let mut even = quick.with_step(Nanos::from_micros(500));
    (even.classic_percent, even.pi2.coupling) = (50, 1);
    let mut wide = quick;
    wide.pi2 = wide.pi2.with_gains(10, 10).with_period(Nanos::from_millis(50));
    wide.pi2.target = Nanos::from_millis(50);
    (wide.threshold, wide.range) = (Nanos(0), Nanos::from_millis(20));
    [quick, even, wide, DualPi2Params::default()]
}

fn subject(params: DualPi2Params) -> Subject {
    DualPi2::new([Descriptor::EMPTY; DESCRIPTORS], params, Limits::NONE).unwrap()
}

fn twin(params: DualPi2Params) -> NaiveDualPi2 {
    NaiveDualPi2::new(params, DESCRIPTORS as u32, Limits::NONE)
}

/// Plays sequences on both sides; returns the subject's total counts of marks and drops.
fn play<S: ConfigurableScheduler, T: ConfigurableScheduler>(
    sides: impl Fn() -> (S, T),
    seeds: core::ops::Range<u64>,
    operations: usize,
) -> [u64; 2] {
    let mut acted = [0; 2];
    for seed in seeds {
        let (subject, twin) = sides();
        let mut both = Match::new(subject, twin);
        for (step, operation) in Operations::new(seed).take(operations).enumerate() {
            let played = both.step(operation, step % 16 == 0);
            played.unwrap_or_else(|difference| panic!("seed {seed} step {step}: {difference}"));
        }
        let counters: Counters = both.subject.counters();
        acted[0] += counters.marked;
        acted[1] += counters.dropped_for(DropReason::Aqm).packets;
    }
    acted
}

/// Goal: every packet is sent, marked or dropped as in the reference model.
#[test]
fn agrees_with_its_twin() {
    for (params, seed) in params().into_iter().zip([1, 100, 200, 300]) {
        let sides = || (subject(params), twin(params));
        let [marked, dropped] = play(sides, seed..seed + effort(8, 80), 5_000);
        println!("{marked} marked, {dropped} dropped");
        // With the published parameters a sequence is too short for drops.
        let acts = params != DualPi2Params::default();
        assert!(marked > 200 && (dropped > 20 || !acts), "{marked} {dropped}");
    }
}

/// Goal: additional peeks and shifted times have no effect, up to the maximum time and past it.
#[test]
fn looks_and_the_epoch_change_nothing() {
    for (params, seed) in params().into_iter().zip([1, 100, 200, 300]) {
        let seeds = seed..seed + effort(2, 20);
        play(|| (subject(params), Peeked::new(subject(params))), seeds.clone(), 5_000);
        for by in [1 << 31, (1 << 32) - 1024, 1 << 53, (1 << 63) - (1 << 42)] {
            let sides = || (subject(params), Shifted::new(subject(params), by));
            play(sides, seeds.clone(), 5_000);
        }
        let late = || Shifted::new(subject(params), u64::MAX - (1 << 33));
        play(|| (late(), Peeked::new(late())), seeds.clone(), 5_000);
        let twin = || Shifted::new(twin(params), u64::MAX - (1 << 33));
        play(|| (late(), twin()), seeds, 5_000);
    }
}

/// Goal: limits of zero, one and two packets or bytes hold; operations are idempotent; `evict`
/// works for every packet and drops the one that the reference model drops.
#[test]
fn small_limits_hold_and_a_buffer_can_be_had() {
    let [params, ..] = params();
    let new = || Match::new(subject(params), twin(params));
    for packets in 0..3 {
        for bytes in [0, 1, 1_499, 1_500, 3_000] {
            let mut both = new();
            both.step(Operation::SetLimits { packets, bytes }, true).unwrap();
            let kept = |operation: &Operation| !matches!(operation, Operation::SetLimits { .. });
            for operation in Operations::new(1).filter(kept).take(300) {
                both.step(operation, true).unwrap();
            }
        }
    }
    let mut both = new();
    for operation in Operations::new(2).take(2_000) {
        let again = match operation {
            Operation::Remove { .. } | Operation::Drain | Operation::SetLimits { .. } => 2,
            _ => 1,
        };
        (0..again).for_each(|_| both.step(operation, true).unwrap());
    }
    let mut evicted = 0;
    for seed in 0..30 {
        let mut both = new();
        for operation in Operations::new(seed).take(200) {
            both.step(operation, false).unwrap();
        }
        for left in (0..=both.subject.backlog().packets).rev() {
            assert_eq!(both.subject.backlog().packets, left);
            both.step(Operation::Evict, true).unwrap();
            evicted += u32::from(left > 0);
        }
    }
    assert!(evicted > 30, "{evicted}");
}

/// A queue of many packets, and the free handles.
struct Line {
    queue: DualPi2<Vec<Descriptor>>,
    free: Vec<u32>,
}

impl Line {
    fn new(params: DualPi2Params, packets: u32) -> Self {
        let descriptors = vec![Descriptor::EMPTY; packets as usize];
        let queue = DualPi2::new(descriptors, params, Limits::NONE).unwrap();
        Self { queue, free: (0..packets).collect() }
    }

    fn put(&mut self, now: u64, len: u32, ecn: Ecn) -> bool {
        let Some(handle) = self.free.pop() else { return false };
        let packet = Packet { handle, len, ecn };
        self.queue.enqueue(Nanos(now), FlowId(0), packet, &mut |_: Packet, _| ()).unwrap();
        true
    }

    fn take(&mut self, now: u64) -> Option<Packet> {
        let Self { queue, free } = self;
        let packet =
            queue.dequeue(Nanos(now), &mut |packet: Packet, _| free.push(packet.handle))?;
        free.push(packet.handle);
        Some(packet)
    }
}

/// Longest packet in the two tests below.
const LONGEST: u32 = 1_500;

/// Goal: while it is backlogged, the classic queue is never further behind its share than the page
/// says, in bytes: `(wL·max(M, L) + wC·L) / 100`; and the worst sequence comes close to that.
/// Method: random lengths and arrivals of both kinds, all at one time so that there are no
/// congestion signals; every interval in which the classic queue stays backlogged, by the largest
/// decrease of a sum.
#[test]
fn the_classic_queue_gets_its_share() {
    for (percent, mtu) in [(10, 1_500), (1, 1_500), (50, 1_500), (90, 100), (10, 100)] {
        let mut params = DualPi2Params::default();
        (params.classic_percent, params.pi2.mtu) = (percent, mtu);
        let [classic, scalable] = [u64::from(percent), 100 - u64::from(percent)];
        let longest = u64::from(LONGEST);
        let bound = scalable * u64::from(mtu).max(longest) + classic * longest;
        let mut worst = 0;
        for seed in 1..=effort(20, 200) {
            let mut random = Xorshift::new(seed);
            let mut line = Line::new(params, 64);
            // 100 times the bytes by which the classic queue is behind, and the minimum of that
            // since it became backlogged.
            let (mut behind, mut lowest) = (0_i64, 0);
            for _ in 0..20_000 {
                let len = if random.below(3) == 0 { 1 + random.below(LONGEST) } else { LONGEST };
                match random.below(8) {
                    0..3 => drop(line.put(0, len, Ecn::Ect1)),
                    3 => drop(line.put(0, if random.below(2) == 0 { 1 } else { len }, Ecn::Ect0)),
                    _ => {
                        let was_backlogged = line.queue.backlogs()[1].packets > 0;
                        let Some(packet) = line.take(0) else { continue };
                        if !was_backlogged {
                            continue;
                        }
                        let is_classic = packet.ecn == Ecn::Ect0;
                        let own = if is_classic { 100 * i64::from(packet.len) } else { 0 };
                        behind += i64::from(packet.len) * i64::from(percent) - own;
                        worst = worst.max(u64::try_from(behind - lowest).unwrap_or(0));
                        lowest = lowest.min(behind);
                        if line.queue.backlogs()[1].packets == 0 {
                            (behind, lowest) = (0, 0);
                        }
                    }
                }
            }
        }
        println!("{percent} %: {worst} of {bound}");
        assert!(worst <= bound, "{percent} %: {worst} of {bound}");
        assert!(2 * worst > bound, "{percent} %: only {worst} of {bound}");
    }
}

/// Goal: a packet that arrives at an empty queue waits for the other queue no longer than the page
/// says. Method: the other queue is always full of the longest packets; packets of all lengths
/// arrive at any point of its turn.
#[test]
fn neither_queue_waits_longer_than_is_said() {
    for percent in [1, 10, 50, 90, 99] {
        let mut params = DualPi2Params::default();
        (params.classic_percent, params.pi2.mtu) = (percent, LONGEST);
        let (classic, scalable) = (u32::from(percent), 100 - u32::from(percent));
        let bounds = [
            (Ecn::Ect1, LONGEST * classic / scalable + LONGEST),
            (Ecn::NotEct, LONGEST * scalable / classic + LONGEST),
        ];
        for (ecn, bound) in bounds {
            let other = if ecn == Ecn::Ect1 { Ecn::NotEct } else { Ecn::Ect1 };
            let (mut random, mut worst) = (Xorshift::new(percent.into()), 0);
            let mut line = Line::new(params, 16);
            for _ in 0..effort(5_000, 50_000) {
                (0..random.below(4)).for_each(|_| {
                    line.put(0, 1 + random.below(LONGEST), ecn);
                });
                let mut waited = 0;
                loop {
                    while line.free.len() > 4 && line.put(0, LONGEST, other) {}
                    let packet = line.take(0).unwrap();
                    let own = line.queue.backlogs()[usize::from(ecn == Ecn::NotEct)].packets;
                    if packet.ecn == ecn {
                        waited = 0;
                    } else if own > 0 {
                        waited += packet.len;
                        worst = worst.max(waited);
                    }
                    if own == 0 {
                        break;
                    }
                }
            }
            println!("{percent} % {ecn:?}: {worst} of {bound}");
            assert!(worst <= bound, "{percent} % {ecn:?}: {worst} of {bound}");
        }
    }
}

/// Returns, for the last 5 of 15 seconds on a 10 Mbit/s link, the longest sojourn time of each kind
/// in ms and the packets delivered. In each 10 ms `scalable` and `classic` packets of 1,250 bytes
/// arrive, and the link sends 10.
fn flood(scalable: u32, classic: u32, of: Ecn) -> ([u64; 2], [u32; 2]) {
    let mut line = Line::new(DualPi2Params::default(), 20_000);
    let mut arrivals = vec![0; 20_000];
    let (mut longest, mut delivered) = ([0; 2], [0; 2]);
    for step in 0..15_000_u64 {
        let now = step * 1_000_000;
        for (each, ecn) in [(scalable, Ecn::Ect1), (classic, of)] {
            let due = |step: u64| step * u64::from(each) / 10;
            for _ in due(step)..due(step + 1) {
                let Some(&handle) = line.free.last() else { break };
                arrivals[handle as usize] = now;
                line.put(now, 1_250, ecn);
            }
        }
        let Some(packet) = line.take(now) else { continue };
        if step >= 10_000 {
            // Marked packets come from the scalable queue, if that is used.
            let is_marked = packet.ecn == Ecn::Ce && scalable > 0;
            let kind = usize::from(packet.ecn != Ecn::Ect1 && !is_marked);
            let waited = (now - arrivals[packet.handle as usize]) / 1_000_000;
            longest[kind] = longest[kind].max(waited);
            delivered[kind] += 1;
        }
    }
    (longest, delivered)
}

/// Goal: unresponsive traffic, ECN-capable or not, cannot fill the buffer; a queue of 20,000
/// packets would be 20 s. Method: a permanent load of twice the link's rate of each kind and of
/// both; and a light classic flow next to a flood of ECT(1).
#[test]
fn traffic_that_does_not_respond_cannot_fill_the_queue() {
    for (scalable, classic, of) in
        [(20, 0, Ecn::NotEct), (0, 20, Ecn::NotEct), (0, 20, Ecn::Ect0), (15, 15, Ecn::NotEct)]
    {
        let (longest, delivered) = flood(scalable, classic, of);
        println!("{scalable} {classic} {of:?}: {longest:?} ms, {delivered:?}");
        assert!(longest.iter().all(|&ms| ms <= 60), "{scalable} {classic} {of:?}: {longest:?}");
        assert!(delivered.iter().sum::<u32>() >= 4_990, "the line is full: {delivered:?}");
    }
    let (longest, delivered) = flood(20, 1, Ecn::NotEct);
    println!("light classic: {longest:?} ms, {delivered:?}");
    assert!(longest[1] <= 60 && delivered[1] > 200, "{longest:?} {delivered:?}");
}
