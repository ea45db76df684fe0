use super::*;
use crate::tests::packets::{MS, offer, standing};
use crate::{
    CoDel, CoDelParams, CoDelState, Descriptor, DropReason, Drr, DrrFlow, Ecn, FlowQueues, Limits,
    Packet, Queue, Scheduler,
};
use conformance::effort::effort;
use conformance::{Xorshift, scramble};
use std::vec::Vec;

const HOUR: u64 = 3_600_000 * MS;

type Four = Cobalt<[CobaltState; 4]>;

fn cobalt() -> Four {
    Cobalt::new([CobaltState::EMPTY; 4], CobaltParams::INTERNET, 7).unwrap()
}

/// Like [`cobalt`], but also signalling queues of two packets.
fn for_any_queue() -> Four {
    Cobalt::new([CobaltState::EMPTY; 4], CobaltParams::INTERNET.with_mtu(0), 7).unwrap()
}

fn judge(aqm: &mut Four, head: Head) -> Verdict {
    aqm.judge(FlowId(0), head, Look::Close)
}

/// Makes the flow's queue overflow at `now`.
fn overflow(aqm: &mut Four, now: u64) {
    assert_eq!(aqm.admit(FlowId(0), offer(now, 9), Look::Close), Admission::Accept);
    aqm.overflowed(FlowId(0));
}

/// Goal: signals at the instants of the published control law: the first one an interval after the
/// queue was first above the target, each next one `100 ms / √n` later. Method: judge every
/// microsecond, as in the test of CoDel.
#[test]
fn a_standing_queue_is_signalled_at_the_instants_of_the_control_law() {
    let table_us = [
        100_000, 170_711, 228_446, 278_446, 323_167, 363_992, 401_788, 437_144, 470_477, 502_100,
        532_251,
    ];
    for start in [0, 7, 1 << 40] {
        let mut aqm = cobalt();
        let mut instants = Vec::new();
        for us in 0..533_000 {
            if judge(&mut aqm, standing(start + us * 1_000, 6 * MS)) == Verdict::Signal {
                instants.push(us);
            }
        }
        assert_eq!(instants.len(), table_us.len());
        for (instant, expected) in instants.iter().zip(table_us) {
            assert!(instant.abs_diff(expected) <= 1, "{instant} for {expected} us");
        }
    }
}

/// Goal: a burst that drains within an interval is not signalled; one packet at the target restarts
/// the interval.
#[test]
fn a_queue_that_drains_within_an_interval_is_not_signalled() {
    let mut aqm = cobalt();
    for round in 0..100 {
        let start = round * 300 * MS;
        for ms in 0..100 {
            assert_eq!(judge(&mut aqm, standing(start + ms * MS, 50 * MS)), Verdict::Pass);
        }
        // The target itself is acceptable.
        assert_eq!(judge(&mut aqm, standing(start + 100 * MS, 5 * MS)), Verdict::Pass);
    }
}

/// Goal: targets and intervals on a slow link, where a queue of four packets is not a standing
/// queue.
#[test]
fn a_slow_line_raises_target_and_interval() {
    for (mtu_us, target_us, interval_us) in [
        (0, 5_000, 100_000),
        (3_333, 5_000, 100_000),
        (12_112, 18_168, 113_168),
        (121_120, 181_680, 363_360),
    ] {
        let params = CobaltParams::INTERNET.with_mtu_time(Nanos::from_micros(mtu_us));
        let found = (params.target_on_line(), params.interval_on_line());
        assert_eq!(found, (Nanos::from_micros(target_us), Nanos::from_micros(interval_us)));
        let mut aqm = Cobalt::new([CobaltState::EMPTY; 4], params, 1).unwrap();
        let acceptable = (4 * mtu_us).max(target_us) * 1_000;
        for (sojourn, told) in [(acceptable, false), (acceptable + 1, true)] {
            let verdicts =
                [0, 2 * interval_us].map(|us| judge(&mut aqm, standing(us * 1_000, sojourn)));
            assert_eq!(verdicts.contains(&Verdict::Signal), told, "{sojourn} of {acceptable}");
        }
    }
}

/// Goal: below the target the schedule runs backwards, by one position at each instant that passes.
#[test]
fn a_queue_that_no_longer_stands_forgets_on_schedule() {
    let mut aqm = cobalt();
    let mut now = 0;
    while aqm.states[0].count < 40 {
        judge(&mut aqm, standing(now, 6 * MS));
        now += MS / 10;
    }
    let mut due = aqm.states[0].next.0;
    for left in (0..40).rev() {
        assert_eq!(judge(&mut aqm, standing(due - 1, MS)), Verdict::Pass);
        assert_eq!(aqm.states[0].count, left + 1);
        judge(&mut aqm, standing(due, MS));
        assert_eq!(aqm.states[0].count, left);
        due += spacing(Nanos(100 * MS), left.into()).0;
    }
    assert_eq!(aqm.states[0].phase, Phase::Quiet, "without a history");
}

/// Goal: after a pause of any length the position is that of the exact schedule, to two positions,
/// and the next decay is in the future. Method: compare the closed form with the sum, for counts
/// and pauses of all sizes.
#[test]
fn a_pause_forgets_what_the_exact_schedule_forgets() {
    let law = CobaltParams::INTERNET.law().unwrap();
    let mut rng = Xorshift::new(3);
    for _ in 0..effort(2_000, 20_000) {
        let count = 1 + rng.magnitude(16).min(65_534) as u16;
        // Up to a tenth more than a complete decay: 2 · 100 ms · √count.
        let whole = (400 * u64::from(count)).isqrt() * 10 * MS;
        let late = whole / 1_000 * u64::from(rng.below(1_100));
        let (mut exact, mut due) = (count, 0);
        while exact > 0 && late >= due {
            exact -= 1;
            due += law.spacing(exact.max(1)).0;
        }
        let mut state =
            CobaltState { count, next: Nanos(50), phase: Phase::Below, ..CobaltState::EMPTY };
        law.decay(&mut state, Nanos(50 + late));
        assert!(state.count.abs_diff(exact) <= 2, "{count} {late}: {} for {exact}", state.count);
        assert!(state.count == 0 || state.next.0 > 50 + late);
        assert!(state.next.0 <= 50 + late + 100 * MS);
    }
}

/// Goal: after hours the state is clean, and BLUE's probability has decayed by one step per target.
#[test]
fn hours_of_silence_forget_all_and_seconds_what_is_due() {
    let overflowing = || {
        let mut aqm = cobalt();
        let mut now = 0;
        for _ in 0..100 {
            judge(&mut aqm, standing(now, 600 * MS));
            overflow(&mut aqm, now);
            now += 20 * MS;
        }
        judge(&mut aqm, Head { bytes_behind: 0, packets: 1, ..standing(now, 600 * MS) });
        (aqm, now)
    };
    let (aqm, now) = overflowing();
    assert_eq!(aqm.probability(FlowId(0)), Probability::from_raw((100 << 24) - (1 << 20)));
    assert!(aqm.states[0].count > 90);
    for silence in [HOUR, 5_000 * HOUR] {
        let mut aqm = aqm.clone();
        assert_eq!(judge(&mut aqm, standing(now + silence, 0)), Verdict::Pass);
        let state = aqm.states[0];
        assert_eq!((state.phase, state.count, state.chance), (Phase::Quiet, 0, Probability::NEVER));
    }
    // 2 s are 400 steps of 1/4,096, of which the first was taken when the queue became empty.
    let mut aqm = aqm.clone();
    judge(&mut aqm, standing(now + 2_000 * MS, 0));
    let expected = (100 << 24) - 400 * (1 << 20);
    let left = aqm.probability(FlowId(0)).raw();
    assert!(left.abs_diff(expected) <= 1 << 20, "{left} for {expected}");
    // A queue that was busy meanwhile keeps its probability.
    let (mut aqm, mut now) = overflowing();
    judge(&mut aqm, standing(now, 600 * MS));
    let before = aqm.probability(FlowId(0));
    now += 5_000 * HOUR;
    judge(&mut aqm, standing(now, 600 * MS));
    assert_eq!(aqm.probability(FlowId(0)), before);
}

/// Goal: BLUE's probability rises at most once per target, and ECN-capable packets are dropped with
/// it too.
#[test]
fn overflows_raise_a_probability_that_ignores_ecn() {
    let mut aqm = cobalt();
    judge(&mut aqm, standing(0, 6 * MS));
    for us in 0..50_000 {
        overflow(&mut aqm, us * 1_000);
    }
    assert_eq!(aqm.probability(FlowId(0)), Probability::from_raw(10 << 24));
    let mut drops = 0;
    for _ in 0..100_000 {
        let head = Head { ecn: Ecn::Ect0, ..standing(50 * MS, MS) };
        drops += u32::from(judge(&mut aqm, head) == Verdict::Drop);
    }
    assert!((3_600..4_210).contains(&drops), "{drops} for 10/256 of 100,000");
}

/// Goal: a queue that has not overflowed loses no packet to BLUE.
#[test]
fn without_overflows_blue_is_silent() {
    let mut aqm = cobalt();
    let mut rng = Xorshift::new(5);
    let mut now = 0;
    for _ in 0..effort(50_000, 500_000) {
        now += u64::from(rng.below(3_000_000));
        let (ecn, bytes_behind) = (Ecn::from_bits(rng.byte()), rng.below(3) * 1_000);
        let sojourn = Nanos(u64::from(rng.below(12_000_000)));
        let (now, packets) = (Nanos(now), 1 + bytes_behind / 500);
        let verdict = judge(&mut aqm, Head { now, sojourn, bytes_behind, packets, ecn });
        assert_ne!(verdict, Verdict::Drop);
        if rng.below(50) == 0 {
            aqm.emptied(FlowId(0));
        }
    }
    assert_eq!(aqm.probability(FlowId(0)), Probability::NEVER);
}

/// Goal: drops that were due in a pause are made up for. Marks are not: one that is due, and one
/// more.
#[test]
fn drops_that_are_due_pile_up_and_marks_do_not() {
    for (ecn, told) in [(Ecn::Ect1, 2), (Ecn::NotEct, 11)] {
        let mut aqm = cobalt();
        judge(&mut aqm, standing(0, 6 * MS));
        let late = Head { ecn, ..standing(550 * MS, 6 * MS) };
        let verdicts = [(); 20].map(|()| judge(&mut aqm, late));
        let signals = verdicts.iter().filter(|&&verdict| verdict == Verdict::Signal).count();
        assert_eq!(signals, told, "{ecn:?}");
    }
}

/// Goal: a queue of three packets, or with one `mtu` behind its head, whose packets wait for their
/// turn among 13 flows, is not signalled: a sender with so few packets in flight would detect no
/// loss by later packets and wait for its timer. BLUE still drops from it. A queue of three whose
/// head waits for longer than half an interval is signalled.
#[test]
fn a_queue_of_three_packets_is_left_alone() {
    let three = [(2 * 1_514, 3), (1_514, 24)];
    let cases = [Ecn::Ect0, Ecn::NotEct].into_iter().flat_map(|ecn| three.map(|held| (ecn, held)));
    for (ecn, (bytes_behind, packets)) in cases {
        let mut aqm = cobalt();
        let head =
            |step: u64| Head { bytes_behind, packets, ecn, ..standing(step * 16 * MS, 50 * MS) };
        for step in 0..1_000 {
            assert_eq!(judge(&mut aqm, head(step)), Verdict::Pass);
        }
        assert_eq!(aqm.states[0], CobaltState::EMPTY);
        let four = |step| Head { bytes_behind: 1_515, packets: 4, ..head(step) };
        let told = (0..1_000).filter(|&step| judge(&mut aqm, four(step)) == Verdict::Signal);
        assert!(told.count() > 900);
        if packets == 3 {
            let mut aqm = cobalt();
            let late = |step| Head { sojourn: Nanos(51 * MS), ..head(step) };
            let told = (0..1_000).filter(|&step| judge(&mut aqm, late(step)) == Verdict::Signal);
            assert!(told.count() > 900);
        }
        overflow(&mut aqm, 16_000 * MS);
        let told = (1_000..9_000).filter(|&step| judge(&mut aqm, head(step)) == Verdict::Drop);
        assert!((10..60).contains(&told.count()), "1/256 of 8,000");
    }
}

/// Goal: a signal that would be lost, on a last packet without ECN, is kept.
#[test]
fn a_last_packet_without_ecn_uses_up_no_signal() {
    for (ecn, expected) in [(Ecn::Ect0, Verdict::Signal), (Ecn::NotEct, Verdict::Pass)] {
        let mut aqm = for_any_queue();
        judge(&mut aqm, standing(0, 6 * MS));
        let last = Head { bytes_behind: 0, packets: 1, ecn, ..standing(100 * MS, 6 * MS) };
        assert_eq!(judge(&mut aqm, last), expected);
        assert_ne!(aqm.states[0].phase, Phase::Standing, "the queue is empty");
    }
    // One packet at a time is not a standing queue, however long it waits.
    let mut aqm = cobalt();
    for step in 0..10_000 {
        let head = Head {
            bytes_behind: 0,
            packets: 1,
            ecn: Ecn::Ect0,
            ..standing(step * 20 * MS, 15 * MS)
        };
        assert_eq!(judge(&mut aqm, head), Verdict::Pass);
    }
}

/// xorshift64* with the seed mixed by SplitMix64, in 128-bit arithmetic.
struct Draws(u128);

impl Draws {
    const MASK: u128 = u64::MAX as u128;

    fn new(seed: u64) -> Self {
        Self(scramble(seed).into())
    }

    fn next(&mut self) -> u128 {
        self.0 ^= self.0 >> 12;
        self.0 ^= (self.0 << 25) & Self::MASK;
        self.0 ^= self.0 >> 27;
        ((self.0 * 0x2545_f491_4f6c_dd1d) & Self::MASK) >> 32
    }
}

/// Reference model: COBALT as its sources describe it, in floating point, with the departures of
/// `docs/disciplines/cobalt.md`.
struct Twin {
    /// The queue was empty since the last packet, or its state is clean.
    idle: bool,
    dropping: bool,
    count: f64,
    drop_next: f64,
    /// True if `drop_next` is an input and not a computed instant: it has no rounding error.
    is_given: bool,
    mtu: u32,
    /// The time of the last change of the probability, and the probability in units of 2^-32.
    changed: f64,
    p: f64,
    draws: Draws,
    /// Smallest margin by which integers and floats decided alike: in ns, and in units of 2^-32.
    margin: f64,
}

#[expect(clippy::float_arithmetic, reason = "the twin is the one with floats")]
impl Twin {
    const TARGET: f64 = 5e6;
    const INTERVAL: f64 = 100e6;
    const UP: f64 = 16_777_216.0;
    const DOWN: f64 = 1_048_576.0;

    fn new(seed: u64, mtu: u32) -> Self {
        let draws = Draws::new(seed);
        let changed = f64::NEG_INFINITY;
        let (drop_next, count, p) = (0.0, 0.0, 0.0);
        let (idle, margin) = (true, f64::MAX);
        let dropping = false;
        Self { idle, dropping, count, drop_next, is_given: true, mtu, changed, p, draws, margin }
    }

    /// Returns true if `now` is before the next instant of the schedule.
    fn is_early(&mut self, now: f64) -> bool {
        if !self.is_given {
            self.margin = self.margin.min((now - self.drop_next).abs());
        }
        now < self.drop_next
    }

    fn set_next(&mut self, instant: f64, is_given: bool) {
        (self.drop_next, self.is_given) = (instant, is_given);
    }

    fn has_history(&self) -> bool {
        self.count > 0.0 || self.p > 0.0
    }

    fn step(&self) -> f64 {
        Self::INTERVAL / self.count.max(1.0).sqrt()
    }

    fn change(&mut self, now: f64, by: f64) {
        if by < 0.0 && self.p == 0.0 {
            return;
        }
        // Both are whole nanoseconds here, so the comparison has no rounding error.
        if now - self.changed >= Self::TARGET {
            self.p = (self.p + by).clamp(0.0, 4_294_967_295.0);
            self.changed = now;
        }
    }

    fn forget_on_schedule(&mut self, now: f64) {
        if self.count == 0.0 || self.is_early(now) {
            return;
        }
        self.count -= 1.0;
        self.set_next(self.drop_next + self.step(), false);
        if self.count == 0.0 || self.is_early(now) {
            return;
        }
        let root = self.count.sqrt() - (now - self.drop_next) / (2.0 * Self::INTERVAL);
        let left = root.max(0.0) * root.max(0.0);
        if (left - left.round()).abs() < 1e-3 {
            self.margin = 0.0;
        }
        self.count = (left.ceil() - 1.0).max(0.0);
        self.set_next(now + self.step(), false);
    }

    fn judge(&mut self, head: Head) -> Verdict {
        let (now, sojourn) = (head.now.0 as f64, head.sojourn.0 as f64);
        let is_late = sojourn > Self::TARGET;
        let is_patient = sojourn <= Self::INTERVAL / 2.0;
        let is_short = head.bytes_behind <= self.mtu || head.packets <= 3 && is_patient;
        let over = is_late && (self.mtu == 0 || !is_short);
        if !is_late && !self.has_history() {
            return Verdict::Pass;
        }
        if self.idle && self.p > 0.0 {
            let since = now - sojourn - self.changed - Self::TARGET;
            if since >= 0.0 {
                self.p = (self.p - Self::DOWN * (1.0 + since / Self::TARGET)).max(0.0);
                self.changed = now - sojourn;
            }
        }
        // Each change is rounded to 2^-32: one model may be at 0 and the other just above.
        if self.p > 0.0 && self.p < 1_000.0 {
            self.margin = 0.0;
        }
        let mut verdict = Verdict::Pass;
        if over && self.dropping {
            let is_due = !self.is_early(now);
            if is_due && (head.bytes_behind > 0 || head.ecn.is_capable()) {
                self.count = (self.count + 1.0).min(65_535.0);
                self.set_next(self.drop_next + self.step(), false);
                verdict = Verdict::Signal;
            }
        } else {
            self.forget_on_schedule(now);
            if over {
                self.count = self.count.max(1.0);
                self.set_next(now + self.step(), false);
            }
            self.dropping = over;
        }
        self.idle = false;
        if self.p > 0.0 {
            let drawn = self.draws.next() as f64;
            // Each change of the probability is rounded to 2^-32.
            if (drawn - self.p).abs() < 1_000.0 {
                self.margin = 0.0;
            }
            if drawn < self.p {
                verdict = Verdict::Drop;
            }
        }
        if verdict == Verdict::Signal && head.ecn.is_capable() && !self.is_early(now) {
            self.set_next(now, true);
        }
        if head.bytes_behind == 0 {
            self.empty(now);
        } else if !self.has_history() {
            self.idle = true;
            self.dropping = false;
        }
        verdict
    }

    fn empty(&mut self, now: f64) {
        self.change(now, -Self::DOWN);
        self.forget_on_schedule(now);
        self.dropping = false;
        self.idle = true;
    }

    fn overflow(&mut self, now: f64) {
        self.change(now, Self::UP);
        if !self.idle {
            self.dropping = true;
            self.count = self.count.max(1.0);
            self.set_next(now, true);
        }
    }
}

/// Statistics of the series compared with the reference model.
#[derive(Debug, Default)]
struct Tally {
    compared: u64,
    signals: u64,
    drops: u64,
    forgotten: u64,
}

/// Runs one series of heads, overflows, emptied queues and pauses: COBALT against its reference
/// model, and against itself `shift` later. The series ends where integers and floats may decide
/// differently.
fn series(seed: u64, shift: u64, seen: &mut Tally) {
    let mut rng = Xorshift::new(scramble(seed));
    let mtu = [0, 1_000][rng.below(2) as usize];
    let params = CobaltParams::INTERNET.with_mtu(mtu);
    let new = || Cobalt::new([CobaltState::EMPTY; 1], params, seed).unwrap();
    let (mut aqm, mut later, mut twin) = (new(), new(), Twin::new(seed, mtu));
    let (mut now, mut spacing, mut overflows) = (rng.next_u64() >> 30, 1, 0);
    let (mut least, mut below, mut empties) = (0, 0, 0);
    for step in 0..6_000_u64 {
        if step % 300 == 0 {
            spacing = [30_000, 300_000, 3_000_000, 30_000_000][rng.below(4) as usize];
            least = [0, 4_600_000, 5_100_000, 6_000_000][rng.below(4) as usize];
            below = [0, 10, 500][rng.below(3) as usize];
            empties = [0, 2, 40][rng.below(3) as usize];
            overflows = [0, 0, 1, 8][rng.below(4) as usize];
        }
        now += 1 + u64::from(rng.below(2 * spacing));
        if rng.below(400) == 0 {
            now += u64::from(rng.next_u32()) << rng.below(14);
        }
        let is_overflow = rng.below(32) < overflows;
        if is_overflow {
            for (aqm, now) in [(&mut aqm, now), (&mut later, now + shift)] {
                let offer = Offer {
                    now: Nanos(now),
                    packet: Packet::new(0, 1),
                    held: crate::Backlog { packets: 1, bytes: 1 },
                };
                let _accepted = aqm.admit(FlowId(0), offer, Look::Close);
                aqm.overflowed(FlowId(0));
            }
            twin.overflow(now as f64);
        }
        let sojourn = if rng.below(1_000) < below { 4_000_000 } else { least };
        let sojourn = sojourn + u64::from(rng.below(900_000));
        let bytes_behind = if rng.below(1_000) < empties { 0 } else { 1 + rng.below(4_000) };
        let head = Head {
            now: Nanos(now),
            sojourn: Nanos(sojourn),
            bytes_behind,
            // Every eighth queue has three packets or fewer.
            packets: 1 + bytes_behind.min([2, 9][usize::from(bytes_behind % 8 != 0)]),
            ecn: Ecn::from_bits(rng.byte()),
        };
        let before = aqm.states[0];
        let verdict = judge_one(&mut aqm, head);
        let expected = twin.judge(head);
        if twin.margin < 1_000.0 {
            return;
        }
        assert_eq!(verdict, expected, "seed {seed} step {step} {head:?}");
        let head = Head { now: Nanos(now + shift), ..head };
        assert_eq!(judge_one(&mut later, head), verdict, "later: seed {seed} step {step}");
        let state = aqm.states[0];
        assert_eq!(f64::from(state.count), twin.count, "seed {seed} step {step}");
        seen.compared += 1;
        seen.signals += u64::from(verdict == Verdict::Signal);
        seen.drops += u64::from(verdict == Verdict::Drop);
        seen.forgotten += u64::from(before.count > state.count.saturating_add(1));
        if rng.below(2_000) == 0 {
            for aqm in [&mut aqm, &mut later] {
                aqm.forget(FlowId(0));
            }
            let draws = core::mem::replace(&mut twin.draws, Draws(0));
            twin = Twin { draws, ..Twin::new(0, mtu) };
        }
    }
}

fn judge_one(aqm: &mut Cobalt<[CobaltState; 1]>, head: Head) -> Verdict {
    match aqm.judge(FlowId(0), head, Look::Glance) {
        Verdict::Unclear => aqm.judge(FlowId(0), head, Look::Close),
        verdict => verdict,
    }
}

/// Goal: every packet is treated as the description requires, at any time of day. Method: random
/// series against the reference model in floating point, and against the series shifted by up to
/// centuries; with glances first.
#[test]
fn agrees_with_its_description_on_random_series() {
    let mut seen = Tally::default();
    for seed in 1..=effort(60, 600) {
        series(seed, [1, HOUR, 1 << 53, 1 << 62][seed as usize % 4], &mut seen);
    }
    let enough = effort(400, 4_000);
    let rare = seen.signals.min(seen.drops).min(seen.forgotten * 10);
    assert!(rare > enough && seen.compared > 50 * enough, "{seen:?}");
}

/// Goal: no clock causes a panic, and a wrong timestamp has no lasting effect: a second later the
/// behaviour is as before.
#[test]
fn a_clock_that_jumps_or_steps_back_is_legal() {
    let mut aqm = cobalt();
    let mut rng = Xorshift::new(11);
    for _ in 0..effort(100_000, 1_000_000) {
        let now = [rng.next_u64(), u64::from(rng.next_u32()), 0, u64::MAX][rng.below(4) as usize];
        match rng.below(8) {
            0 => overflow(&mut aqm, now),
            1 => aqm.emptied(FlowId(0)),
            _ => {
                let bytes_behind = rng.below(2);
                let head = standing(now, rng.next_u64() >> 30);
                judge(&mut aqm, Head { bytes_behind, packets: 1 + bytes_behind, ..head });
            }
        }
    }
    // One timestamp far ahead, then a standing queue that overflows, at the old time.
    let mut aqm = cobalt();
    judge(&mut aqm, standing(u64::MAX - 1, 6 * MS));
    overflow(&mut aqm, u64::MAX - 1);
    let mut told = 0;
    for ms in 0..1_000 {
        overflow(&mut aqm, ms * MS);
        told += u32::from(judge(&mut aqm, standing(ms * MS, 6 * MS)) != Verdict::Pass);
    }
    assert!(told > 20 && aqm.probability(FlowId(0)).raw() > 150 << 24, "{told}");
}

/// Goal: foreseeing returns packet after packet the verdicts of judging, including random draws,
/// and changes nothing; nor does an inconclusive glance. Packets of a queue beyond the states pass.
#[test]
fn what_is_foreseen_is_what_is_judged() {
    let mut rng = Xorshift::new(17);
    let (mut aqm, mut now, mut seen) = (for_any_queue(), 0, [0_u32; 3]);
    for step in 0..effort(20_000, 200_000_u32) {
        let least = if step / 100 % 2 == 0 { 6_000_000 } else { 0 };
        now += u64::from(rng.below(12_000_000));
        if rng.below(64) == 0 && step % 4_000 < 1_600 {
            overflow(&mut aqm, now);
        }
        let heads = [(); 3].map(|()| {
            let sojourn = Nanos(least + u64::from(rng.below(10_000_000)));
            let bytes_behind = rng.below(64);
            let (now, ecn) = (Nanos(now), Ecn::from_bits(rng.byte()));
            Head { now, sojourn, bytes_behind, packets: 1 + bytes_behind, ecn }
        });
        let foreseen = {
            let mut foresee = aqm.foresee(FlowId(0));
            heads.map(&mut foresee)
        };
        for (head, foreseen) in heads.into_iter().zip(foreseen) {
            let before = aqm.states;
            let mut verdict = aqm.judge(FlowId(0), head, Look::Glance);
            if verdict == Verdict::Unclear {
                assert_eq!(aqm.states, before);
                verdict = judge(&mut aqm, head);
            }
            assert_eq!(verdict, foreseen);
            let kinds = [Verdict::Pass, Verdict::Signal, Verdict::Drop];
            let kind = kinds.iter().position(|&kind| kind == verdict).unwrap();
            seen[kind] += 1;
        }
    }
    assert!(seen.iter().all(|&times| times > 500), "{seen:?}");
    let beyond = FlowId(4);
    assert_eq!(cobalt().foresee(beyond)(standing(0, HOUR)), Verdict::Pass);
    assert_eq!(cobalt().judge(beyond, standing(0, HOUR), Look::Close), Verdict::Pass);
    assert_eq!(cobalt().probability(beyond), Probability::NEVER);
    for tell in [Cobalt::overflowed, Cobalt::emptied, Cobalt::forget] {
        tell(&mut cobalt(), beyond);
    }
}

/// Goal: a seed determines the verdicts, and another seed gives others; a removed flow leaves no
/// state.
#[test]
fn a_seed_decides_and_a_removed_flow_is_forgotten() {
    let drops = |seed| {
        let mut aqm = Cobalt::new([CobaltState::EMPTY; 4], CobaltParams::INTERNET, seed).unwrap();
        for step in 0..60 {
            overflow(&mut aqm, step * 6 * MS);
        }
        let drops = [(); 64].map(|()| judge(&mut aqm, standing(400 * MS, MS)) == Verdict::Drop);
        aqm.forget(FlowId(0));
        assert_eq!(aqm.states[0], CobaltState::EMPTY);
        drops
    };
    assert_eq!(drops(1), drops(1));
    assert_ne!(drops(1), drops(2));
}

#[test]
fn parameters_out_of_range_are_refused_by_name() {
    let good = CobaltParams::INTERNET;
    let refusal = |params| match Cobalt::new([CobaltState::EMPTY; 4], params, 0).map(|_| ()) {
        Err(ConfigError::OutOfRange { what, min, max, .. }) => Some((what, min, max)),
        _ => None,
    };
    let longest = (1 << 33) - 1;
    for ns in [0, 1_023, longest + 1, u64::MAX] {
        let params = CobaltParams { interval: Nanos(ns), ..good };
        assert_eq!(refusal(params), Some(("COBALT interval in ns", 1_024, longest)));
    }
    for ns in [0, 1_023, 100_000_001] {
        let params = CobaltParams { target: Nanos(ns), ..good };
        assert_eq!(refusal(params), Some(("COBALT target in ns", 1_024, 100_000_000)));
    }
    let slow = good.with_mtu_time(Nanos(longest + 1));
    assert_eq!(refusal(slow), Some(("COBALT MTU time in ns", 0, longest)));
    let long = good.with_mtu(Packet::MAX_LEN + 1);
    assert_eq!(refusal(long), Some(("COBALT MTU in bytes", 0, Packet::MAX_LEN.into())));
    assert_eq!(refusal(good.with_mtu(Packet::MAX_LEN)), None);
    let (step, most) = (Probability::from_raw(1), u32::MAX.into());
    let still = good.with_steps(Probability::NEVER, step);
    assert_eq!(refusal(still), Some(("BLUE increment in 2^-32", 1, most)));
    let still = good.with_steps(step, Probability::NEVER);
    assert_eq!(refusal(still), Some(("BLUE decrement in 2^-32", 1, most)));
    let mut aqm = cobalt();
    assert!(aqm.set_params(still).is_err());
    assert_eq!(aqm.params(), good);
    let edges = CobaltParams::new(Nanos(1_024), Nanos(1_024)).with_mtu_time(Nanos(longest));
    assert_eq!(edges.interval_on_line(), Nanos(longest));
    aqm.set_params(edges.with_steps(Probability::ALWAYS, Probability::ALWAYS)).unwrap();
    assert_eq!(aqm.params().target_on_line(), Nanos(longest + longest / 2));
    let shortest = CobaltParams::new(Nanos(1_024), Nanos(1_024)).with_steps(step, step);
    aqm.set_params(shortest).unwrap();
}

/// Goal: queue and AQM together fit into a cache line.
#[test]
fn a_state_is_twenty_four_bytes() {
    assert_eq!(size_of::<CobaltState>(), 24);
    assert!(size_of::<CobaltState>() + size_of::<Queue>() <= 64);
}

type Queues<A> =
    FlowQueues<Drr<[DrrFlow; 5]>, ([Queue; 5], [Descriptor; 256], [crate::FlowRecord; 0]), A>;

fn queues<A: Aqm>(aqm: A, limit: u32) -> Queues<A> {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 5], 1_514).unwrap().sparse_first();
    scheduler.add_all(1_514).unwrap();
    let limits = Limits::packets(limit);
    FlowQueues::with_parts(scheduler, aqm, [Queue::EMPTY; 5], [Descriptor::EMPTY; 256], [], limits)
}

/// Sends packets of 1,250 bytes at 15 Mbit/s for 100 s from an unresponsive sender over a link of
/// 10 Mbit/s with a buffer of 240 packets. Returns the median and 95th percentile of the sojourn
/// times of the last 20 s in ms, and the number of packets delivered.
fn deaf<A: Aqm>(aqm: A, ecn: Ecn) -> ([u64; 2], u32) {
    let mut line = queues(aqm, 240);
    let mut free: Vec<u32> = (0..256).collect();
    let (mut sent, mut sojourns, mut delivered) = ([0_u64; 256], Vec::new(), 0);
    for step in 0..150_000_u64 {
        // Three packets in, two out, every 2 ms.
        let now = step * 2 * MS / 3;
        let handle = free.pop().unwrap();
        sent[handle as usize] = now;
        let packet = Packet { handle, len: 1_250, ecn };
        let mut gone = Vec::new();
        let drops = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
        if line.enqueue(Nanos(now), FlowId(0), packet, drops).is_err() {
            gone.push(handle);
        }
        if step % 3 != 0 {
            let drops = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
            if let Some(packet) = line.dequeue(Nanos(now), drops) {
                gone.push(packet.handle);
                delivered += 1;
                if now > 80_000 * MS {
                    sojourns.push((now - sent[packet.handle as usize]) / MS);
                }
            }
        }
        free.extend(gone);
    }
    sojourns.sort_unstable();
    ([50, 95].map(|percent| sojourns[sojourns.len() * percent / 100]), delivered)
}

/// Goal: unresponsive traffic cannot fill the queue, ECN-capable or not, and the link stays busy.
/// CoDel marks the ECN-capable packets, and its buffer is always full.
#[test]
fn deaf_traffic_does_not_fill_the_queue() {
    let codel = CoDel::new([CoDelState::EMPTY; 5], CoDelParams::INTERNET).unwrap();
    let cobalt = Cobalt::new([CobaltState::EMPTY; 5], CobaltParams::INTERNET, 1).unwrap();
    let ([codel_median, _], _) = deaf(codel.clone(), Ecn::Ect0);
    let ([median, late], delivered) = deaf(cobalt.clone(), Ecn::Ect0);
    assert!(codel_median > 230 && median < 60 && late < 100, "{codel_median} {median} {late}");
    assert!(delivered > 99_900, "{delivered}");
    let ([codel_median, _], _) = deaf(codel, Ecn::NotEct);
    let ([_, late], delivered) = deaf(cobalt, Ecn::NotEct);
    assert!(codel_median > 100 && late <= 10, "{codel_median} {late}");
    assert!(delivered > 99_900, "{delivered}");
}

/// Five flows of 20 packets of 120 bytes, all at time 0, under DRR with 1,514 bytes per turn, which
/// is 13 packets; then a dequeue every 110 ms, 60 in total. The first three flows are ECN-capable.
/// Returns the marks and drops of each flow.
fn five_flows<A: Aqm>(aqm: A) -> [[u32; 2]; 5] {
    let mut line = queues(aqm, 256);
    for (flow, ecn) in (0..).zip([Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::NotEct, Ecn::NotEct]) {
        for number in 0..20 {
            let packet = Packet { handle: flow * 20 + number, len: 120, ecn };
            line.enqueue(Nanos(0), FlowId(flow), packet, &mut |_: Packet, _| {}).unwrap();
        }
    }
    let mut told = [[0; 2]; 5];
    for step in 1..=60 {
        let mut dropped = Vec::new();
        let drops = &mut |packet: Packet, _: DropReason| dropped.push(packet.handle / 20);
        let packet = line.dequeue(Nanos(step * 110 * MS), drops).unwrap();
        told[packet.handle as usize / 20][0] += u32::from(packet.ecn == Ecn::Ce);
        dropped.into_iter().for_each(|flow| told[flow as usize][1] += 1);
    }
    told
}

/// Goal: the marks of FQ-COBALT in the ECN test of ns-3, which has 19, 16 and 12. There all packets
/// of the first flow are marked but the first, and all of one turn of the third flow but the first,
/// as here. Its second flow has four packets more than one turn: above 400 ms ns-3 counts each
/// packet as an overflow, so that its flows without ECN are drained in five dequeues each. Here
/// these flows take seven each by CoDel's schedule, and nothing overflows.
#[test]
fn fq_cobalt_marks_as_ns3_does_without_its_overflows() {
    // The packets are short: most have less than one packet of 1,514 bytes behind them.
    let params = CobaltParams::INTERNET.with_mtu(0);
    let cobalt = Cobalt::new([CobaltState::EMPTY; 5], params, 1).unwrap();
    assert_eq!(five_flows(cobalt), [[19, 0], [12, 0], [12, 0], [0, 13], [0, 13]]);
}
