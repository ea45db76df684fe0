use super::*;
use crate::tests::packets::{MS, as_float, offer, standing};
use crate::{ConfigError, Descriptor, Drr, DrrFlow, Ecn, FlowQueues, Limits, Queue, Scheduler};
use conformance::effort::effort;
use conformance::{Xorshift, scramble};
use std::collections::VecDeque;
use std::vec::Vec;

fn pie(params: PieParams) -> Pie<[PieState; 4]> {
    Pie::new([PieState::EMPTY; 4], params, 1).unwrap()
}

/// Returns the probability after each of `updates` updates of a queue whose delay is `delay` from
/// the first on.
fn series(delay: u64, updates: usize) -> Vec<f64> {
    let mut aqm = pie(PieParams::default());
    let mut all = Vec::new();
    assert_eq!(aqm.admit(FlowId(0), offer(0, 0), Look::Close), Admission::Accept);
    assert_eq!(aqm.judge(FlowId(0), standing(1, delay), Look::Glance), Verdict::Pass);
    for update in 1..=updates as u64 {
        let now = update * 15 * MS;
        let early = standing(now - 1, delay);
        assert_eq!(aqm.judge(FlowId(0), early, Look::Glance), Verdict::Pass, "not due");
        let glance = aqm.judge(FlowId(0), standing(now, delay), Look::Glance);
        assert_eq!(glance, Verdict::Unclear, "due at {now}");
        assert_eq!(aqm.judge(FlowId(0), standing(now, delay), Look::Close), Verdict::Pass);
        all.push(as_float(aqm.states[0].p));
    }
    all
}

/// Goal: the controller of RFC 8033 with its tuning, its cap and its rule for long delays, to nine
/// digits. Method: a constant delay of 50 ms from an empty queue, twelve updates, calculated
/// manually from the text.
#[test]
fn a_constant_delay_raises_the_probability_as_printed() {
    let printed = [
        0.000032654,
        0.000066833,
        0.000101013,
        0.000237732,
        0.000374451,
        0.000511169,
        0.000647888,
        0.000784607,
        0.000921326,
        0.001058044,
        0.001604919,
        0.002151794,
    ];
    for (at, (p, printed)) in series(50 * MS, 12).into_iter().zip(printed).enumerate() {
        assert_eq!((p * 1e9).round(), f64::round(printed * 1e9), "update {at}: {p}");
    }
}

/// Goal: the probabilities at a delay of 300 ms, where 2 % are added per update, and from 10 % on a
/// step is 2 % plus these.
#[test]
fn a_long_delay_raises_the_probability_as_printed() {
    let p = series(300 * MS, 10);
    for (p, printed) in p.iter().zip([0.020201, 0.058013, 0.095826, 0.133638]) {
        // 0.0202005005 and its successors: six digits.
        assert_eq!((p * 1e6).round(), f64::round(printed * 1e6), "{p}");
    }
    for pair in p[3..].windows(2) {
        assert!((pair[1] - pair[0] - 0.04).abs() < 1e-12, "{pair:?}");
    }
}

type Line = FlowQueues<
    Drr<[DrrFlow; 1]>,
    ([Queue; 1], Vec<Descriptor>, [crate::FlowRecord; 0]),
    Pie<[PieState; 1]>,
>;

fn line(params: PieParams, seed: u64) -> Line {
    let mut scheduler = Drr::new([DrrFlow::EMPTY; 1], 10_000).unwrap();
    scheduler.add_all(10_000).unwrap();
    let descriptors = std::vec![Descriptor::EMPTY; 512];
    let pie = Pie::new([PieState::EMPTY; 1], params, seed).unwrap();
    FlowQueues::with_parts(scheduler, pie, [Queue::EMPTY; 1], descriptors, [], Limits::NONE)
}

/// Outcome of a series: marked and rejected packets, the largest rise of the probability from above
/// 10 %, and the probabilities at which packets were rejected.
#[derive(Debug, Default)]
struct Outcome {
    marked: u64,
    refused: u64,
    largest_step: u64,
    refused_at: Vec<u64>,
}

/// Runs 400 arrivals of 1,000 bytes, one every 10 ms, with a departure every `out` ms.
fn run(params: PieParams, out: u64, ecn: Ecn, seed: u64) -> Outcome {
    let mut line = line(params, seed);
    let mut outcome = Outcome::default();
    let (mut free, mut before): (VecDeque<u32>, u64) = ((0..512).collect(), 0);
    for now in 0..400 * 10 + 4_000 {
        if now % 10 == 0 && now < 4_000 {
            let handle = free.pop_front().unwrap();
            let packet = Packet { ecn, ..Packet::new(handle, 1_000) };
            let drops = &mut |_: Packet, _| panic!("drops at arrival only");
            if line.enqueue(Nanos(now * MS), FlowId(0), packet, drops).is_err() {
                outcome.refused += 1;
                outcome.refused_at.push(line.aqm().states[0].p);
                free.push_back(handle);
            }
        }
        if now % out == 0 {
            let drops = &mut |_: Packet, _| panic!("drops at arrival only");
            let packet = line.dequeue(Nanos(now * MS), drops);
            packet.into_iter().for_each(|packet| free.push_back(packet.handle));
        }
        let p = line.aqm().states[0].p;
        if before > TENTH {
            outcome.largest_step = outcome.largest_step.max(p.saturating_sub(before));
        }
        before = p;
    }
    outcome.marked = line.counters().marked;
    assert_eq!(line.counters().dropped_total().packets, 0, "none forced");
    outcome
}

fn published(target: u64, period: u64) -> PieParams {
    let period = Nanos::from_millis(period);
    PieParams { period, ..PieParams::new(Nanos::from_millis(target)) }
}

/// Goal: the expectations of ns-3's tests 2 to 5 for its PIE: a longer target, a faster link and
/// rarer updates drop less; nothing is forced. Method: sums over seeds, because with some 62 drops
/// per seed two runs may be equal.
#[test]
fn drops_come_as_the_expectations_of_another_simulator_say() {
    let [mut of_20_ms, mut of_80_ms, mut of_slower, mut of_rare] = [0; 4];
    for seed in 1..=effort(5, 50) {
        let refused = |params, out| run(params, out, Ecn::NotEct, seed).refused;
        of_20_ms += refused(published(20, 30), 12);
        of_80_ms += refused(published(80, 30), 12);
        of_slower += refused(published(20, 30), 15);
        of_rare += refused(published(20, 90), 15);
    }
    assert!(of_20_ms > 0 && of_80_ms < of_20_ms, "{of_80_ms} {of_20_ms}");
    assert!(of_slower > of_20_ms && of_rare < of_slower, "{of_slower} {of_rare}");
}

/// Goal: marks up to 30 %, then drops; no mark without ECN; steps of at most 2 % above 10 %, plus
/// the 2 % for delays above 250 ms.
#[test]
fn marks_end_at_their_threshold_and_steps_at_their_cap() {
    let mark_up_to = Probability::ratio(3, 10).unwrap();
    for seed in 1..=effort(5, 50) {
        let params = PieParams { mark_up_to, ..published(20, 30) };
        let capable = run(params, 14, Ecn::Ect0, seed);
        assert!(capable.marked > 0 && capable.refused > 0, "{capable:?}");
        let threshold = u64::from(mark_up_to.raw()) << 32;
        assert!(capable.refused_at.iter().all(|&p| p > threshold), "{capable:?}");
        assert!(capable.largest_step > FIFTIETH / 2 && capable.largest_step <= 2 * FIFTIETH);
        let other = run(params, 14, Ecn::NotEct, seed);
        assert!(other.marked == 0 && other.refused > 0, "{other:?}");
        let never = PieParams { mark_up_to: Probability::NEVER, ..params };
        assert_eq!(run(never, 14, Ecn::Ect0, seed).marked, 0);
        let always = PieParams { mark_up_to: Probability::ALWAYS, ..params };
        assert_eq!(run(always, 20, Ecn::Ect1, seed).refused, 0);
    }
}

/// Creates a queue that has been standing for long and has the probability `p`.
fn at_probability(p: u64, sum: u32) -> Pie<[PieState; 4]> {
    let mut aqm = pie(PieParams::default());
    aqm.states[0] =
        PieState { p, sum, delay: 50_000_000, before: 50_000_000, spent: 10, ..PieState::EMPTY };
    aqm
}

/// Goal: with a sum below 0.85 no arrival is signalled, and with one of 8.5 each is (ns-3's two
/// tests of de-randomisation, with sums of 8.6 and 0).
#[test]
fn the_sum_of_probabilities_bounds_the_distance_of_drops() {
    for seed in 0..effort(100, 1_000) {
        let mut aqm = at_probability(fraction(1, 100), 0);
        aqm.random = Random::new(seed);
        for arrival in 1..=84 {
            let told = aqm.admit(FlowId(0), offer(1, 40), Look::Close);
            assert_eq!(told, Admission::Accept, "arrival {arrival}");
        }
        let first = (85..=851)
            .find(|_| aqm.admit(FlowId(0), offer(1, 40), Look::Close) != Admission::Accept);
        assert!(first.is_some_and(|first| first >= 85), "{first:?}");
        assert_eq!(aqm.states[0].sum, 0, "begins anew");
        let mut aqm = at_probability(fraction(1, 1_000_000), SUM_MOST + SUM_MOST / 85);
        assert_eq!(aqm.admit(FlowId(0), offer(1, 40), Look::Close), Admission::Signal);
    }
    let edges =
        (as_float(u64::from(SUM_LEAST) << 36), as_float(u64::from(SUM_MOST - SUM_LEAST) << 36));
    assert!(edges.0 > 0.849_999_99 && edges.0 < 0.850_000_01, "{edges:?}");
    assert_eq!(SUM_MOST, 17 << 27, "8.5");
}

/// Goal: a million arrivals are signalled as often as the probability says. With 1 %, the next
/// signal comes after 0.85/p arrivals plus 1/p: one in 184 ± 1.
#[test]
fn a_probability_of_one_percent_is_one() {
    let mut aqm = at_probability(fraction(1, 100), 0);
    let told = (0..1_000_000)
        .filter(|_| aqm.admit(FlowId(0), offer(1, 40), Look::Close) != Admission::Accept)
        .count();
    // A wait of 84 arrivals and a geometric one of 100 (99.5 up to the 850th): a standard deviation
    // of 100 each.
    assert!((5_200..5_650).contains(&told), "{told}");
}

/// Goal: no drop in the first 150 ms of a queue, nor from two packets, nor below half of the target
/// while p < 20 %.
#[test]
fn bursts_and_short_queues_are_spared() {
    let most = |aqm: &mut Pie<[PieState; 4]>, packets| {
        (0..2_000)
            .any(|_| aqm.admit(FlowId(0), offer(1, packets), Look::Close) != Admission::Accept)
    };
    let mut aqm = at_probability(fraction(1, 2), 0);
    assert!(!most(&mut aqm, 2) && most(&mut aqm, 3));
    aqm.states[0].spent = 9;
    assert!(!most(&mut aqm, 40));
    for (p, before, spared) in [
        (fraction(199, 1_000), 7_499_999, true),
        (fraction(199, 1_000), 7_500_000, false),
        (fraction(201, 1_000), 0, false),
    ] {
        let mut aqm = at_probability(p, 0);
        aqm.states[0].before = before;
        assert_eq!(!most(&mut aqm, 40), spared, "{p} {before}");
    }
}

/// Reference model: PIE in the text of RFC 8033, with a timer and in floating point.
struct Rfc {
    params: PieParams,
    random: Random,
    queue: VecDeque<(u64, u32)>,
    next: u64,
    p: f64,
    sum: f64,
    /// Additions to `sum`.
    added: u32,
    delay: f64,
    before: f64,
    burst: f64,
    /// Smallest margin by which integers and floats decided alike, relative to their tolerance.
    margin: f64,
}

#[expect(clippy::float_arithmetic, reason = "the twin is the one with floats")]
impl Rfc {
    fn new(params: PieParams, seed: u64) -> Self {
        Self {
            params,
            random: Random::new(seed),
            queue: VecDeque::new(),
            next: u64::MAX,
            p: 0.0,
            sum: 0.0,
            added: 0,
            delay: 0.0,
            before: 0.0,
            burst: 0.0,
            margin: f64::MAX,
        }
    }

    fn near(&mut self, difference: f64, tolerance: f64) {
        self.margin = self.margin.min(difference.abs() / tolerance);
    }

    fn until(&mut self, now: u64) {
        while self.next <= now {
            self.next += self.params.period.0;
            self.update();
        }
    }

    fn update(&mut self) {
        if self.queue.is_empty() {
            self.delay = 0.0;
        }
        let target = self.params.target.0 as f64 / 1e9;
        let (alpha, beta) = (
            f64::from(self.params.alpha_millihertz) / 1e3,
            f64::from(self.params.beta_millihertz) / 1e3,
        );
        let mut step = alpha * (self.delay - target) + beta * (self.delay - self.before);
        for (below, divisor) in
            [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)]
        {
            self.near(self.p - below, below * 1e-7);
            if self.p < below {
                step /= divisor;
                break;
            }
        }
        if self.p >= 0.1 && step > 0.02 {
            step = 0.02;
        }
        if self.delay > 0.25 {
            step += 0.02;
        }
        let sum = self.p + step;
        if sum != 0.0 {
            self.near(sum, 1e-13);
        }
        self.p = sum.clamp(0.0, 1.0);
        if self.delay == 0.0 && self.before == 0.0 {
            self.p *= 0.98;
        }
        self.burst = (self.burst - self.params.period.0 as f64).max(0.0);
        if self.p == 0.0 && self.delay < target / 2.0 && self.before < target / 2.0 {
            self.burst = self.params.max_burst.0 as f64;
        }
        self.before = self.delay;
    }

    fn drop_early(&mut self) -> bool {
        let target = self.params.target.0 as f64 / 1e9;
        let bytes: u32 = self.queue.iter().map(|packet| packet.1).sum();
        self.near(self.p - 0.2, 1e-9);
        if self.burst > 0.0
            || (self.before < target / 2.0 && self.p < 0.2)
            || bytes <= 2 * self.params.mtu
        {
            return false;
        }
        if self.p == 0.0 {
            (self.sum, self.added) = (0.0, 0);
            return false;
        }
        self.sum += self.p;
        self.added += 1;
        let tolerance = f64::from(self.added) * 4e-9 + 1e-12;
        self.near(self.sum - 0.85, tolerance);
        self.near(self.sum - 8.5, tolerance);
        if self.sum < 0.85 {
            return false;
        }
        if self.sum < 8.5 {
            let (high, low) = (self.random.next_u32(), self.random.next_u32());
            let drawn = (f64::from(high) + f64::from(low) / 2_f64.powi(32)) / 2_f64.powi(32);
            self.near(drawn - self.p, 1e-9);
            if drawn >= self.p {
                return false;
            }
        }
        (self.sum, self.added) = (0.0, 0);
        true
    }

    fn enqueue(&mut self, now: u64, len: u32) -> Admission {
        self.until(now);
        if self.queue.is_empty() && self.p == 0.0 {
            // Inactive until now.
            (self.next, self.burst) = (now + self.params.period.0, self.params.max_burst.0 as f64);
            (self.delay, self.before, self.sum, self.added) = (0.0, 0.0, 0.0, 0);
        }
        let told = self.drop_early();
        let threshold = f64::from(self.params.mark_up_to.raw()) / 2_f64.powi(32);
        self.near(self.p - threshold, 1e-9);
        let admission = match told {
            false => Admission::Accept,
            true if self.p <= threshold => Admission::Signal,
            true => Admission::Refuse,
        };
        if admission == Admission::Accept {
            self.queue.push_back((now, len));
        }
        admission
    }

    /// Returns true if no packet was queued for more updates than are made up for one by one.
    fn has_been_silent(&self, now: u64) -> bool {
        let missed = now.saturating_sub(self.next) / self.params.period.0;
        self.queue.is_empty() && self.p > 0.0 && missed >= u64::from(MAX_UPDATES)
    }

    /// Handles a packet after such a silence, which has a test of its own: takes over the
    /// probability of `state`.
    fn begin_as(&mut self, state: &PieState, packet: (u64, u32)) -> Admission {
        (self.p, self.next) = (as_float(state.p), state.updated.0 + self.params.period.0);
        (self.delay, self.before) = (0.0, 0.0);
        let spent = u64::from(state.spent) * self.params.period.0;
        self.burst = self.params.max_burst.0.saturating_sub(spent) as f64;
        (self.sum, self.added) = (f64::from(state.sum) / 2_f64.powi(28), self.added);
        self.queue.push_back(packet);
        Admission::Accept
    }

    fn dequeue(&mut self, now: u64) {
        if !self.queue.is_empty() {
            self.until(now);
        }
        if let Some((arrival, _)) = self.queue.pop_front() {
            self.delay = (now - arrival) as f64 / 1e9;
        }
    }
}

/// Goal: every arrival is treated as the text requires, and the probability is that of the text to
/// 10^-9. Method: random series of changing loads, with short silences while packets are queued and
/// longer ones while none is, against a reference model in floating point that has a timer and
/// draws the same numbers. Where integers and floats may decide differently the series ends; the
/// count of compared decisions shows that few do.
#[test]
fn agrees_with_the_text_of_the_rfc_on_random_series() {
    let (mut compared, mut told, mut most, mut ended, mut silences) = (0_u32, 0_u32, 0, 0, 0);
    for seed in 1..=effort(30, 600_u64) {
        let mut rng = Xorshift::new(scramble(seed));
        let params = PieParams {
            alpha_millihertz: [125, 60, 1_000][seed as usize % 3],
            mtu: [1_514, 300][seed as usize % 2],
            ..published([15, 5, 40][rng.below(3) as usize], [15, 10, 30][rng.below(3) as usize])
        };
        let mut aqm = Pie::new([PieState::EMPTY; 1], params, seed).unwrap();
        let mut twin = Rfc::new(params, seed);
        let (mut now, mut load, mut spacing) = (rng.next_u64() >> 24, 1, 1);
        for step in 0..20_000 {
            if step % 1_000 == 0 {
                spacing = [300_000, 1_000_000, 3_000_000][rng.below(3) as usize];
                load = [20, 95, 105, 150][rng.below(4) as usize];
            }
            // A silence of up to 8 updates, or of up to 7 while no packet is queued.
            now += 1 + u64::from(rng.below(2 * spacing));
            if rng.below(2_000) == 0 {
                now += u64::from(rng.below(6)) * params.period.0;
            }
            while twin.queue.len() < 300 && rng.below(200) < load {
                let len = 64 + rng.below(1_437);
                let held = crate::Backlog {
                    packets: twin.queue.len() as u32,
                    bytes: twin.queue.iter().map(|packet| packet.1).sum(),
                };
                let offer = Offer { now: Nanos(now), packet: Packet::new(0, len), held };
                let ours = aqm.admit(FlowId(0), offer, Look::Close);
                let theirs = if twin.has_been_silent(now) {
                    silences += 1;
                    twin.begin_as(&aqm.states[0], (now, len))
                } else {
                    twin.enqueue(now, len)
                };
                if twin.margin < 1.0 {
                    break;
                }
                assert_eq!(ours, theirs, "seed {seed} step {step}");
                compared += 1;
                told += u32::from(ours != Admission::Accept);
            }
            if twin.margin < 1.0 {
                ended += 1;
                break;
            }
            if let Some(&(arrival, _)) = twin.queue.front() {
                aqm.judge(FlowId(0), standing(now, now - arrival), Look::Close);
            }
            twin.dequeue(now);
            if twin.queue.is_empty() {
                continue; // the integers update when the next packet arrives
            }
            let (p, exact) = (as_float(aqm.states[0].p), twin.p);
            assert!(off(p, exact) < 1e-9, "seed {seed} step {step}: {p} and not {exact}");
            most = most.max(aqm.states[0].p);
        }
    }
    std::println!("{compared} compared, {told} told, {ended} series ended, {silences} silences");
    assert!(
        compared > effort(500_000, 10_000_000) && told > effort(100_000, 2_000_000),
        "{compared} {told}"
    );
    assert!(most > FIFTH, "{most}");
}

#[expect(clippy::float_arithmetic, reason = "to compare with the twin")]
fn off(a: f64, b: f64) -> f64 {
    (a - b).abs()
}

/// Goal: hours of silence reduce a probability to 0 and cost at most eight updates, and a longer
/// silence never leaves a higher probability.
#[test]
fn a_silence_of_any_length_is_made_up_for_in_bounded_work() {
    for p in [fraction(1, 1_000_000), TENTH, ONE] {
        let mut last = ONE;
        for updates in [1, 8, 9, 40, 100, 1_000, 10_000, 1 << 40] {
            let mut aqm = at_probability(p, 0);
            aqm.admit(FlowId(0), offer(updates * 15 * MS, 0), Look::Close);
            let state = aqm.states[0];
            assert!(state.p <= last, "{p} after {updates}");
            last = state.p;
            if state.p > 0 {
                assert_eq!(state.updated, Nanos(updates * 15 * MS));
                assert_eq!(state.before, 0);
            }
        }
        assert_eq!(last, 0);
        // The link was stalled: eight updates and no more.
        let mut stuck = at_probability(p, 0);
        let mut eight = at_probability(p, 0);
        stuck.admit(FlowId(0), offer(u64::MAX - 1, 9), Look::Close);
        eight.admit(FlowId(0), offer(8 * 15 * MS, 9), Look::Close);
        assert_eq!(stuck.states[0].p, eight.states[0].p);
        assert_eq!(stuck.states[0].updated, Nanos(u64::MAX - 1));
    }
}

/// Goal: with the default parameters a silence leaves at least the probability that its updates
/// would, and with any parameters no probability outlives 2,056 updates, half a minute.
#[test]
fn a_long_silence_decays_like_its_updates() {
    for updates in [8, 20, 40, 70, 100, 130] {
        let mut aqm = at_probability(ONE, 0);
        aqm.admit(FlowId(0), offer(updates * 15 * MS, 0), Look::Close);
        let mut twin = Rfc::new(PieParams::default(), 1);
        (twin.p, twin.before) = (1.0, 0.05);
        (0..updates).for_each(|_| twin.update());
        let (ours, exact) = (as_float(aqm.states[0].p), twin.p);
        let above = if updates <= 8 { 1e-9 } else { 0.3 };
        assert!(ours > exact - 1e-9 && ours < exact + above, "{updates}: {ours} and not {exact}");
    }
    for (updates, is_over) in [(8 + 42 * 32 - 1, false), (8 + 42 * 32, true)] {
        let mut aqm = at_probability(ONE, 0);
        aqm.law.gains = Gains::new(
            Settings {
                target: Nanos(1_024),
                period: Nanos(15_000_000),
                alpha_millihertz: 1,
                beta_millihertz: 1,
            },
            [""; 4],
        )
        .unwrap();
        aqm.admit(FlowId(0), offer(updates * 15 * MS, 0), Look::Close);
        assert_eq!(aqm.states[0].p == 0, is_over, "{updates}");
    }
}

/// Goal: a step back of the clock counts as no time, and one timestamp far ahead has no lasting
/// effect.
#[test]
fn a_wrong_clock_does_no_lasting_harm() {
    let mut aqm = at_probability(TENTH, 0);
    aqm.states[0].updated = Nanos(100 * MS);
    aqm.judge(FlowId(0), standing(50 * MS, 50 * MS), Look::Close);
    assert_eq!((aqm.states[0].p, aqm.states[0].updated), (TENTH, Nanos(50 * MS)));
    aqm.judge(FlowId(0), standing(65 * MS, 50 * MS), Look::Close);
    assert!(aqm.states[0].p > TENTH, "updates go on one period later");
    aqm.judge(FlowId(0), standing(u64::MAX, 50 * MS), Look::Close);
    aqm.judge(FlowId(0), standing(70 * MS, 50 * MS), Look::Close);
    let before = aqm.states[0].p;
    aqm.judge(FlowId(0), standing(85 * MS, 50 * MS), Look::Close);
    assert!(aqm.states[0].p > before);
}

/// Goal: a flow that inherits a queue inherits no probability; other parameters keep the state.
#[test]
fn what_was_learned_stays_with_its_flow() {
    let mut aqm = at_probability(FIFTH, 99);
    let params =
        PieParams { max_burst: Nanos::from_millis(100), ..PieParams::new(Nanos(5_000_000)) };
    aqm.set_params(params).unwrap();
    assert_eq!((aqm.params(), aqm.states[0].p, aqm.states[0].sum), (params, FIFTH, 99));
    assert_eq!(aqm.probability(FlowId(0)), Probability::ratio(1, 5).unwrap());
    aqm.overflowed(FlowId(0));
    assert_eq!((aqm.states[0].p, aqm.states[0].sum), (FIFTH, 0));
    aqm.emptied(FlowId(0));
    assert_eq!(aqm.states[0].p, FIFTH);
    aqm.forget(FlowId(0));
    assert_eq!(aqm.states[0], PieState::EMPTY);
    // Queues beyond its states are never signalled.
    for flow in [FlowId(4), FlowId(u32::MAX)] {
        aqm.forget(flow);
        aqm.overflowed(flow);
        aqm.emptied(flow);
        assert_eq!(aqm.admit(flow, offer(0, 99), Look::Close), Admission::Accept);
        assert_eq!(aqm.judge(flow, standing(0, 99 * MS), Look::Glance), Verdict::Pass);
        assert_eq!(aqm.probability(flow), Probability::NEVER);
    }
}

#[test]
fn parameters_outside_their_ranges_are_refused() {
    let of = |change: fn(&mut PieParams)| {
        let mut params = PieParams::default();
        change(&mut params);
        let mut aqm = pie(PieParams::default());
        let outcome = aqm.set_params(params);
        assert_eq!(aqm.params() == params, outcome.is_ok());
        assert_eq!(Pie::new([PieState::EMPTY; 1], params, 0).err(), outcome.err());
        match outcome {
            Ok(()) => None,
            Err(ConfigError::OutOfRange { what, .. }) => Some(what),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(of(|params| params.target = Nanos(0)), Some("PIE target in ns"));
    assert_eq!(of(|params| params.target = Nanos(1_023)), Some("PIE target in ns"));
    assert_eq!(of(|params| params.target = Nanos(1_000_000_001)), Some("PIE target in ns"));
    assert_eq!(of(|params| params.target = Nanos(1_000_000_000)), None);
    for period in [0, 1, 1_023, 1_000_000_001, u64::MAX] {
        let params = PieParams { period: Nanos(period), ..PieParams::default() };
        let error = Pie::new([PieState::EMPTY; 1], params, 0).unwrap_err();
        let expected = ConfigError::OutOfRange {
            what: "PIE period in ns",
            value: period,
            min: 1_024,
            max: 1_000_000_000,
        };
        assert_eq!(error, expected);
    }
    assert_eq!(of(|params| params.period = Nanos(1_024)), None);
    assert_eq!(of(|params| params.max_burst = Nanos(4_000_000_001)), Some("PIE burst in ns"));
    assert_eq!(of(|params| params.max_burst = Nanos(0)), None);
    assert_eq!(of(|params| params.alpha_millihertz = 0), Some("PIE alpha in mHz"));
    assert_eq!(of(|params| params.alpha_millihertz = 1_000_001), Some("PIE alpha in mHz"));
    assert_eq!(of(|params| params.beta_millihertz = 0), Some("PIE beta in mHz"));
    assert_eq!(of(|params| params.beta_millihertz = 1_000_001), Some("PIE beta in mHz"));
    assert_eq!(of(|params| params.mtu = 0), Some("PIE MTU in bytes"));
    assert_eq!(of(|params| params.mtu = (1 << 20) + 1), Some("PIE MTU in bytes"));
}

/// Goal: the largest parameters and delays do not overflow.
#[test]
fn extremes_saturate() {
    let params = PieParams {
        alpha_millihertz: 1_000_000,
        beta_millihertz: 1_000_000,
        ..PieParams::new(Nanos(1_024))
    };
    for (delay, p) in [(u64::MAX, ONE), (0, 0)] {
        let mut aqm = pie(params);
        aqm.states[0] = PieState { p: FIFTH, before: u32::MAX, ..PieState::EMPTY };
        aqm.judge(FlowId(0), standing(0, delay), Look::Close);
        for update in 1..100 {
            aqm.judge(FlowId(0), standing(update * 15 * MS, delay), Look::Close);
        }
        assert_eq!(aqm.states[0].p, p);
    }
}
