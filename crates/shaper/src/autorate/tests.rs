use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const MS: u64 = 1_000_000;
const INTERVAL: Nanos = Nanos::from_millis(200);

fn params(floor: u64, base: u64, ceiling: u64) -> AutorateParams {
    let [floor, base, ceiling] =
        [floor, base, ceiling].map(|bps| Rate::bits_per_second(bps).unwrap());
    AutorateParams::new(floor, base, ceiling).unwrap()
}

/// A link of a given rate, behind a modem that queues without limit what exceeds the rate.
struct Line {
    bps: u64,
    /// Nanoseconds that the link needs for what is queued.
    queued: u64,
    path: Nanos,
}

impl Line {
    /// Offers `share` percent of `rate` for `span`; returns the bytes sent.
    fn carry(&mut self, rate: u64, share: u64, span: Nanos) -> u64 {
        let offered = rate * share / 100 * span.0;
        self.queued = (self.queued + offered / self.bps).saturating_sub(span.0);
        offered / 8_000_000_000
    }

    fn delay(&self) -> Nanos {
        Nanos(self.path.0 + self.queued)
    }
}

/// Runs a controller over a link for `steps` of 10 ms, with a sample every 50 ms that arrives
/// `late` steps after it was measured. Returns the rate of each step.
fn run(
    autorate: &mut Autorate,
    line: &mut Line,
    from: Nanos,
    steps: usize,
    late: usize,
    share: u64,
) -> Vec<u64> {
    const STEP: Nanos = Nanos::from_millis(10);
    let mut delays = Vec::new();
    let mut now = from;
    (0..steps)
        .map(|step| {
            now = now.plus(STEP);
            let sent = line.carry(autorate.bps, share, STEP);
            delays.push(line.delay());
            if step % 5 == 0 && step >= late {
                autorate.delay_sample(delays[step - late]);
            }
            autorate.update(now, sent);
            autorate.bps
        })
        .collect()
}

proptest! {
    /// Goal: floor and ceiling hold for any input and any clock. Method: arbitrary times, samples,
    /// loads and changes of the parameters.
    #[test]
    fn no_history_leaves_floor_and_ceiling(
        calls in prop::collection::vec(
            (any::<u64>(), prop::option::of(any::<u64>()), any::<u64>(), any::<bool>(), 0_u32..60),
            1..200,
        ),
        rates in prop::array::uniform3(Rate::MIN_BITS_PER_SECOND..=Rate::MAX_BITS_PER_SECOND),
    ) {
        let mut rates = rates;
        rates.sort_unstable();
        let [floor, base, ceiling] = rates;
        let mut autorate = Autorate::new(params(floor, base, ceiling));
        let mut now = 0_u64;
        for (time, sample, bytes, leaps, shift) in calls {
            now = if leaps { time } else { now.saturating_add(time >> 34) };
            if let Some(sample) = sample {
                autorate.delay_sample(Nanos(sample >> shift));
            }
            let rate = autorate.update(Nanos(now), bytes >> shift);
            let bps = rate.as_bits_per_second().unwrap();
            prop_assert!((floor..=ceiling).contains(&bps), "{bps}");
            prop_assert_eq!((autorate.rate(), autorate.bps), (rate, bps));
        }
        let (low, high) = (floor, floor.max(base >> 1));
        autorate.set_params(params(low, low, high));
        prop_assert!((low..=high).contains(&autorate.rate().as_bits_per_second().unwrap()));
    }

    /// Goal: order and repetition of the samples in an interval have no effect.
    #[test]
    fn samples_of_an_interval_may_come_in_any_order(
        samples in prop::collection::vec(0_u64..200 * MS, 1..8), turn in 0_usize..8,
    ) {
        let mut one = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
        one.delay_sample(Nanos(30 * MS));
        one.update(INTERVAL, 0);
        let mut other = one.clone();
        samples.iter().for_each(|&sample| one.delay_sample(Nanos(sample)));
        let mut turned = samples.clone();
        turned.rotate_left(turn % samples.len());
        turned.extend(&samples);
        turned.iter().rev().for_each(|&sample| other.delay_sample(Nanos(sample)));
        prop_assert_eq!(one.update(Nanos(400 * MS), 250_000), other.update(Nanos(400 * MS), 250_000));
        prop_assert_eq!(one, other);
    }

    /// Goal: on a steady link that stays full, the rate settles between 3/4 and 9/8 of the link's.
    /// Method: links of 2 Mbit/s to 1 Gbit/s between floor and ceiling, any path, samples 0 to 100
    /// ms late. After 60 s, check the next 60 s.
    #[test]
    fn on_a_steady_line_the_rate_stays_near_it(
        line in 2_000_000_u64..1_000_000_000, base in 1_u64..=16, path in 1_u64..300, late in 0_usize..=10,
    ) {
        let mut autorate = Autorate::new(params(line >> 4, (line >> 3) * base, line << 2));
        let mut modem = Line { bps: line, queued: 0, path: Nanos(path * MS) };
        let rates = run(&mut autorate, &mut modem, Nanos::ZERO, 12_000, late, 100);
        let judged = &rates[6_000..];
        let (least, most) = (judged.iter().min().unwrap(), judged.iter().max().unwrap());
        prop_assert!(*least >= line * 3 / 4 && *most <= line * 9 / 8, "{least} to {most} of {line}");
        let mean = judged.iter().sum::<u64>() / judged.len() as u64;
        prop_assert!(mean >= line * 7 / 8, "{mean} of {line}");
        prop_assert!(modem.queued < 150 * MS, "{} ns in the modem", modem.queued);
    }

    /// Goal: when capacity recovers, the rate reaches the link's within 12 intervals per doubling
    /// and 13 more. Method: a link falls to a fraction of its rate for 20 s and recovers.
    #[test]
    fn a_line_that_comes_back_is_filled_within_the_stated_time(
        line in 4_000_000_u64..1_000_000_000, doublings in 1_u32..=4, late in 0_usize..=10,
    ) {
        let mut autorate = Autorate::new(params(line >> 5, line >> 1, line));
        let mut modem = Line { bps: line, queued: 0, path: Nanos(40 * MS) };
        run(&mut autorate, &mut modem, Nanos::ZERO, 3_000, late, 100);
        modem.bps = line >> doublings;
        run(&mut autorate, &mut modem, Nanos::from_secs(30), 2_000, late, 100);
        prop_assert!(autorate.bps <= modem.bps * 9 / 8, "{} of {}", autorate.bps, modem.bps);
        modem.bps = line;
        let doublings = (0..8).find(|&n| autorate.bps << n >= line).unwrap();
        // The queue drains first, within an interval, because the link is faster now.
        let intervals = 12 * doublings + 13 + 1;
        let rates = run(&mut autorate, &mut modem, Nanos::from_secs(50), 4_000, late, 100);
        let filled = rates.iter().position(|&bps| bps >= line / 100 * 99);
        prop_assert!(filled.is_some_and(|at| at <= intervals * 20), "{filled:?} of {intervals}");
    }

    #[test]
    fn any_arrivals_give_no_rate_or_a_valid_one(
        packets in prop::collection::vec((any::<u64>(), any::<u32>(), any::<bool>()), 1..200),
    ) {
        let mut arrivals = ArrivalRate::new();
        let mut now = 0_u64;
        for (time, len, leaps) in packets {
            now = if leaps { time } else { now.saturating_add(time >> 36) };
            arrivals.arrived(Nanos(now), len);
            prop_assert_eq!(arrivals.rate().is_some(), arrivals.estimate().is_some());
        }
    }
}

/// Makes one decision with a sample in ms and a load, after a baseline of 40 ms at 10 Mbit/s (of 1
/// to 100).
fn decide(sample: u64, load: u64) -> (AutorateState, u64) {
    let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
    autorate.delay_sample(Nanos(40 * MS));
    autorate.update(INTERVAL, 0);
    assert_eq!((autorate.state(), autorate.bps), (AutorateState::Returning, 10_000_000));
    autorate.delay_sample(Nanos(sample * MS));
    autorate.update(Nanos(400 * MS), load / 40);
    (autorate.state(), autorate.bps)
}

/// Goal: decisions follow the table of [`Autorate`]. Method: expected values computed manually from
/// the table. In the rows with an excess, the baseline has risen by 1/300 of the difference.
#[test]
fn each_decision_is_that_of_the_table() {
    use AutorateState::{BackingOff, Growing, Returning, Steady};
    assert_eq!(decide(40, 10_000_000), (Growing, 10_625_000));
    assert_eq!(decide(47, 7_500_000), (Growing, 10_625_000));
    assert_eq!(decide(40, 7_400_000), (Steady, 10_000_000));
    assert_eq!(decide(48, 10_000_000), (Steady, 10_000_000));
    assert_eq!(decide(55, 10_000_000), (Steady, 10_000_000));
    assert_eq!(decide(40, 2_400_000), (Returning, 10_000_000));
    assert_eq!(decide(56, 10_000_000), (BackingOff, 8_671_875));
    assert_eq!(decide(56, 8_000_000), (BackingOff, 6_937_500));
    assert_eq!(decide(140, 10_000_000), (BackingOff, 5_000_000));
    // A load below half the rate counts as half the rate; one below a quarter is not the cause.
    assert_eq!(decide(140, 2_500_000), (BackingOff, 2_500_000));
    assert_eq!(decide(140, 2_400_000), (Steady, 10_000_000));
}

#[test]
fn a_cut_is_judged_after_the_queue_has_had_time_to_drain() {
    let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
    let mut rates = Vec::new();
    for (interval, sample) in
        [40, 540, 560, 580, 600, 620, 500, 400, 80, 41].into_iter().enumerate()
    {
        autorate.delay_sample(Nanos(sample * MS));
        let bytes = if interval == 0 { 0 } else { 250_000 };
        autorate.update(Nanos((interval as u64 + 1) * 200 * MS), bytes);
        rates.push((autorate.state().name(), autorate.bps / 1_000));
    }
    let cut = ("backing-off", 5_000);
    assert_eq!(
        rates[1..6],
        [
            cut,
            ("draining", 5_000),
            ("draining", 5_000),
            ("draining", 5_000),
            ("backing-off", 2_500)
        ]
    );
    assert!(rates[6..9].iter().all(|&row| row == ("draining", 2_500)), "{rates:?}");
    assert_eq!(rates[9], ("growing", 2_656));
}

#[test]
fn without_samples_the_rate_stays_and_then_goes_to_the_floor_under_load() {
    let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
    let mut now = Nanos::ZERO;
    let mut step = |autorate: &mut Autorate, sample: Option<u64>, share: u64| {
        now = now.plus(INTERVAL);
        sample.into_iter().for_each(|sample| autorate.delay_sample(Nanos(sample * MS)));
        autorate.update(now, autorate.bps * share / 4_000);
    };
    step(&mut autorate, Some(40), 0);
    (0..20).for_each(|_| step(&mut autorate, Some(40), 100));
    let high = autorate.bps;
    assert!(high > 20_000_000);
    (0..9).for_each(|_| step(&mut autorate, None, 100));
    assert_eq!((autorate.bps, autorate.state()), (high, AutorateState::Steady));
    step(&mut autorate, None, 100);
    assert_eq!((autorate.bps, autorate.state()), (10_000_000, AutorateState::Silent));
    (0..1_000).for_each(|_| step(&mut autorate, None, 5));
    assert_eq!(autorate.bps, 10_000_000, "without load it stays");
    step(&mut autorate, None, 100);
    assert_eq!(autorate.bps, 7_750_000);
    (0..40).for_each(|_| step(&mut autorate, None, 100));
    assert_eq!((autorate.bps, autorate.state()), (1_000_000, AutorateState::Silent));
    (0..1_000).for_each(|_| step(&mut autorate, None, 5));
    assert_eq!(autorate.bps, 10_000_000, "without load it comes back");
}

/// Goal: a caller that tries another path every second without an answer becomes silent too, and
/// bytes sent before a change of path count.
#[test]
fn a_silence_goes_on_over_paths_that_are_tried() {
    let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
    let decisions = |count| (1..=count).map(|at: u64| Nanos(INTERVAL.0 * at));
    let mut now = Nanos::ZERO;
    for at in decisions(21) {
        now = now.plus(INTERVAL);
        autorate.delay_sample(Nanos(40 * MS));
        autorate.update(now, if at == INTERVAL { 0 } else { autorate.bps / 40 });
    }
    let high = autorate.bps;
    assert!(high > 20_000_000);
    for after in decisions(10) {
        autorate.update(now.plus(after), autorate.bps / 40);
        if after.0 % 1_000_000_000 == 0 {
            autorate.forget_path();
        }
    }
    now = now.plus(Nanos::from_secs(2));
    assert_eq!((autorate.bps, autorate.state()), (10_000_000, AutorateState::Silent));
    // At low load, with samples; then a new path.
    for _ in 0..1_000 {
        now = now.plus(INTERVAL);
        autorate.delay_sample(Nanos(40 * MS));
        autorate.update(now, 0);
    }
    assert_eq!(autorate.bps, 10_000_000);
    // Half of an interval's bytes, a new path, then the other half: the link is full.
    autorate.update(now.plus(Nanos(INTERVAL.0 / 2)), 125_000);
    autorate.forget_path();
    autorate.delay_sample(Nanos(40 * MS));
    autorate.update(now.plus(INTERVAL), 125_000);
    assert_eq!((autorate.bps, autorate.state()), (10_625_000, AutorateState::Growing));
}

/// A link behind a modem with a FIFO of 3.8 s. It is offered what senders send or, with TCP, what
/// the link carries.
struct Modem {
    line: Line,
    is_tcp: bool,
    /// Samples on their way: time of arrival, and delay.
    coming: Vec<(Nanos, Nanos)>,
    now: Nanos,
}

impl Modem {
    const FIFO: u64 = 3_800 * MS;
    const STEP: Nanos = Nanos::from_millis(10);

    fn new(bps: u64, queued: u64, is_tcp: bool) -> Self {
        let line = Line { bps, queued, path: Nanos(40 * MS) };
        Self { line, is_tcp, coming: Vec::new(), now: Nanos::ZERO }
    }

    /// Advances by a step in which `load` percent of the rate are offered. A probe every 50 ms is
    /// answered after it has been queued.
    fn step(&mut self, autorate: &mut Autorate, load: u64) {
        let share = match self.is_tcp && self.line.queued > 0 {
            true => load.min(self.line.bps * 100 / autorate.bps + 1),
            false => load,
        };
        self.now = self.now.plus(Self::STEP);
        let sent = self.line.carry(autorate.bps, share, Self::STEP);
        self.line.queued = self.line.queued.min(Self::FIFO);
        if self.now.0.is_multiple_of(50 * MS) {
            self.coming.push((self.now.plus(self.line.delay()), self.line.delay()));
        }
        let now = self.now;
        self.coming.retain(|(at, delay)| {
            if *at <= now {
                autorate.delay_sample(*delay);
            }
            *at > now
        });
        autorate.update(now, sent);
    }
}

/// Goal: a start under load with a full modem finds the link's rate, drains the modem and learns
/// the path's baseline. Method: a link of 3 Mbit/s, a full FIFO of 3.8 s, a base of 12 Mbit/s;
/// unresponsive senders, and TCP.
#[test]
fn a_modem_that_is_full_at_the_start_is_drained() {
    for is_tcp in [false, true] {
        let mut autorate = Autorate::new(params(1_000_000, 12_000_000, 24_000_000));
        let mut modem = Modem::new(3_000_000, Modem::FIFO, is_tcp);
        (0..3_000).for_each(|_| modem.step(&mut autorate, 100));
        assert!(autorate.baseline() < Some(Nanos(80 * MS)), "{is_tcp}: {autorate:?}");
        let mut sum = 0;
        for _ in 0..3_000 {
            modem.step(&mut autorate, 100);
            sum += autorate.bps;
            let (bps, queued) = (autorate.bps, modem.line.queued);
            assert!(bps <= 4_500_000 && queued < 200 * MS, "{is_tcp}: {bps} bit/s, {queued} ns");
        }
        assert!(sum / 3_000 >= 2_600_000, "{is_tcp}: {}", sum / 3_000);
    }
}

/// Goal: an idle link keeps its rate when delays have other causes. Method: a path of 40 ms, with
/// 25 to 100 ms more in the second half of every 15 s, and 120 ms more for a moment; a load of 2 %
/// of the rate.
#[test]
fn an_idle_line_is_not_cut() {
    for more in [25, 50, 100] {
        let mut autorate = Autorate::new(params(1_000_000, 12_000_000, 24_000_000));
        let mut modem = Modem::new(50_000_000, 0, false);
        let mut low = 0;
        for step in 0..12_000_u64 {
            modem.line.path = match step % 1_500 {
                0..30 => Nanos(160 * MS),
                30..750 => Nanos(40 * MS),
                _ => Nanos((40 + more) * MS),
            };
            modem.step(&mut autorate, 2);
            low += u64::from(autorate.bps < 9_600_000);
        }
        assert_eq!(low, 0, "{more} ms: steps below four fifths of the rate, of 12,000");
    }
}

/// Goal: a link that has become slower than a quarter of the rate is found although its load is
/// low. Method: TCP at 12 Mbit/s over a link that falls to 2.
#[test]
fn a_delay_that_lasts_beside_a_low_load_is_a_slow_line() {
    let mut autorate = Autorate::new(params(1_000_000, 12_000_000, 12_000_000));
    let mut modem = Modem::new(14_000_000, 0, true);
    (0..2_000).for_each(|_| modem.step(&mut autorate, 100));
    assert_eq!(autorate.bps, 12_000_000);
    modem.line.bps = 2_000_000;
    (0..3_000).for_each(|_| modem.step(&mut autorate, 100));
    assert!(autorate.bps <= 3_000_000 && modem.line.queued < 300 * MS, "{autorate:?}");
}

/// Goal: a link that falls below a sixteenth of the rate is found within seconds. Method: TCP at 22
/// Mbit/s or less over a link that falls from 16 to 1; the floor is 2.
#[test]
fn a_line_that_falls_far_leads_to_the_floor() {
    let mut autorate = Autorate::new(params(2_000_000, 12_000_000, 24_000_000));
    let mut modem = Modem::new(16_000_000, 0, true);
    (0..3_000).for_each(|_| modem.step(&mut autorate, 100));
    assert!(autorate.bps > 12_000_000);
    (modem.line.bps, modem.line.queued) = (1_000_000, Modem::FIFO);
    let found = (0..1_000).position(|_| {
        modem.step(&mut autorate, 100);
        modem.line.queued = Modem::FIFO;
        autorate.bps == 2_000_000
    });
    assert!(found.is_some_and(|steps| steps < 800), "{found:?}: {autorate:?}");
}

/// Goal: under load, a new path is trusted if there was no excess on the last one; otherwise the
/// rate goes to the floor.
#[test]
fn a_new_path_under_load_is_trusted_after_calm() {
    for (last, state) in [(40, AutorateState::Growing), (140, AutorateState::BackingOff)] {
        let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
        for (at, sample, bytes) in [(1, 40, 0), (2, 40, 250_000), (3, last, 250_000)] {
            autorate.delay_sample(Nanos(sample * MS));
            autorate.update(Nanos(INTERVAL.0 * at), bytes);
        }
        autorate.forget_path();
        autorate.delay_sample(Nanos(90 * MS));
        autorate.update(Nanos(INTERVAL.0 * 4), autorate.bps / 40);
        assert_eq!(autorate.state(), state, "{last} ms");
    }
}

/// Goal: the rate recovers when the delay of the path rises permanently by three thresholds, on a
/// link that is full.
#[test]
fn a_path_that_has_become_longer_is_learned() {
    let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 20_000_000));
    let mut modem = Line { bps: 20_500_000, queued: 0, path: Nanos(40 * MS) };
    run(&mut autorate, &mut modem, Nanos::ZERO, 3_000, 0, 100);
    assert_eq!(autorate.bps, 20_000_000);
    modem.path = Nanos(85 * MS);
    let rates = run(&mut autorate, &mut modem, Nanos::from_secs(30), 3_000, 0, 100);
    assert!(rates.contains(&1_000_000), "it is taken for a queue at first");
    assert_eq!(autorate.bps, 20_000_000);
    // At low load the new delay is learned without a cut below the base.
    modem.path = Nanos(40 * MS);
    run(&mut autorate, &mut modem, Nanos::from_secs(60), 1_000, 0, 10);
    let base = autorate.bps;
    assert!((9_900_000..=14_000_000).contains(&base), "{base}");
}

#[test]
fn little_load_leads_back_to_the_base_from_both_sides() {
    for begin in [1_000_000, 100_000_000] {
        let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
        autorate.set(begin);
        let mut modem = Line { bps: 200_000_000, queued: 0, path: Nanos(40 * MS) };
        let rates = run(&mut autorate, &mut modem, Nanos::ZERO, 6_000, 0, 5);
        assert!(rates.is_sorted() || rates.iter().rev().is_sorted());
        assert!(autorate.bps.abs_diff(10_000_000) < 10_000, "{}", autorate.bps);
    }
}

#[test]
fn a_clock_that_steps_back_begins_an_interval_anew() {
    let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
    autorate.delay_sample(Nanos(40 * MS));
    autorate.update(Nanos::MAX, 0);
    autorate.delay_sample(Nanos(400 * MS));
    let before = autorate.clone();
    assert_eq!(autorate.update(Nanos(5), u64::MAX), before.rate());
    assert_eq!(autorate, Autorate { since: Nanos(5), least: None, ..before });
    // Time continues from here.
    autorate.delay_sample(Nanos(40 * MS));
    autorate.update(Nanos(5 + 200 * MS), 250_000);
    assert_eq!(autorate.state(), AutorateState::Growing);
}

/// Goal: a clock that jumps ahead moves the baseline no more than one interval of low load. Method:
/// a full link with a standing queue; one call is late by the clock, by increasing amounts.
#[test]
fn a_clock_that_leaps_teaches_the_baseline_no_more_than_an_interval() {
    let after = |late: u64, bytes: u64| {
        let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
        autorate.delay_sample(Nanos(40 * MS));
        autorate.update(INTERVAL, 0);
        assert_eq!(autorate.baseline(), Some(Nanos(40 * MS)));
        autorate.delay_sample(Nanos(240 * MS));
        autorate.update(INTERVAL.plus(INTERVAL).plus(Nanos(late)), bytes);
        (autorate.baseline().unwrap().0, autorate.bps)
    };
    let (idle, _) = after(0, 0);
    // A tenth of the difference: half of it per second.
    assert_eq!(idle, 60 * MS);
    for late in [1, 199 * MS, 2_000 * MS, 86_400_000 * MS, u64::MAX] {
        for bytes in [0, 250_000] {
            let (baseline, bps) = after(late, bytes);
            assert!(baseline <= idle, "{late} ns late: {baseline}");
            assert!(bps >= 2_500_000, "{late} ns late: {bps}");
        }
    }
}

#[test]
fn a_new_path_is_begun_anew_at_the_same_rate() {
    let mut autorate = Autorate::new(params(1_000_000, 10_000_000, 100_000_000));
    let mut modem = Line { bps: 5_000_000, queued: 0, path: Nanos(40 * MS) };
    run(&mut autorate, &mut modem, Nanos::ZERO, 1_000, 0, 100);
    let bps = autorate.bps;
    assert!(autorate.baseline().is_some() && bps < 6_000_000);
    autorate.forget_path();
    assert_eq!((autorate.bps, autorate.baseline()), (bps, None));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let mbit = |mbps| Rate::megabits_per_second(mbps).unwrap();
    let said = |result: Result<_, AutorateError>| std::format!("{}", result.unwrap_err());
    let [stopped, unlimited] = [Rate::STOPPED, Rate::UNLIMITED];
    for (floor, base, ceiling, what) in [
        (stopped, mbit(2), mbit(3), "floor: stopped"),
        (mbit(1), unlimited, mbit(3), "base: unlimited"),
        (mbit(1), mbit(2), unlimited, "ceiling: unlimited"),
    ] {
        let range = "is not a finite rate (expected 1000 to 400000000000 bit/s)";
        assert_eq!(said(AutorateParams::new(floor, base, ceiling)), std::format!("{what} {range}"));
    }
    for (floor, base) in [(mbit(3), mbit(2)), (mbit(1), mbit(4))] {
        let order = "ceiling 3mbit: out of order (expected floor ≤ base ≤ ceiling)";
        let message = std::format!("floor {floor}, base {base}, {order}");
        assert_eq!(said(AutorateParams::new(floor, base, mbit(3))), message);
    }
    let params = AutorateParams::new(mbit(1), mbit(1), mbit(1)).unwrap();
    for span in [Nanos::ZERO, Nanos(999_999), Nanos(60_000_000_001), Nanos::MAX] {
        let range = "is out of range (expected 1000000 to 60000000000 ns)";
        let message = std::format!("threshold {} ns {range}", span.0);
        assert_eq!(said(params.with_threshold(span)), message);
        assert_eq!(params.with_threshold(span), Err(AutorateError::Threshold(span)));
    }
    for span in [AutorateParams::SHORTEST, AutorateParams::LONGEST] {
        assert_eq!(params.with_threshold(span).unwrap().threshold(), span);
    }
}

/// Goal: the estimate is the rate of the link, for arrivals that are even, in bursts and with
/// pauses. Method: packets of a link of 50 Mbit/s, 240 µs each; in the bursts every 8th gap is as
/// long as eight packets and the others are short.
#[test]
fn arrivals_tell_the_rate_of_the_line() {
    for (name, gaps, expected) in [
        ("even", [240_000_u64; 8], 50_000_000_u64),
        (
            "jitter",
            [200_000, 280_000, 210_000, 270_000, 240_000, 240_000, 180_000, 300_000],
            50_000_000,
        ),
        ("bursts", [10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 1_850_000], 50_000_000),
    ] {
        let mut arrivals = ArrivalRate::new();
        let mut now = 0;
        for packet in 0..20_000 {
            // A pause of a second at intervals.
            now += gaps[packet % 8] + if packet % 5_000 == 4_999 { 1_000_000_000 } else { 0 };
            arrivals.arrived(Nanos(now), 1_500);
        }
        let estimate = arrivals.estimate().unwrap();
        assert!(estimate.abs_diff(expected) <= expected / 10, "{name}: {estimate}");
        let rate = arrivals.rate().and_then(Rate::as_bits_per_second).unwrap();
        assert!((estimate / 16 * 15..=estimate / 64 * 66 + 66).contains(&rate), "{name}: {rate}");
    }
}

/// Goal: the estimate follows a link that becomes faster at once, and one that becomes slower
/// within seconds.
#[test]
fn arrivals_follow_a_line() {
    let mut arrivals = ArrivalRate::new();
    let mut now = Nanos::ZERO;
    let mut run = |arrivals: &mut ArrivalRate, bps: u64, ms: u64| {
        let end = now.plus(Nanos::from_millis(ms));
        let mut jitter = 0;
        while now < end {
            jitter = (jitter + 7) % 13;
            now = now.plus(Nanos(12_000_000_000_000 / bps * (94 + jitter) / 100));
            arrivals.arrived(now, 1_500);
        }
        arrivals.estimate().unwrap_or(0)
    };
    run(&mut arrivals, 10_000_000, 1_000);
    assert!(run(&mut arrivals, 40_000_000, 500) > 36_000_000);
    assert!(run(&mut arrivals, 10_000_000, 1_000) > 20_000_000, "a short lull is no slower line");
    assert!(run(&mut arrivals, 10_000_000, 15_000) < 11_000_000);
}

/// Goal: a caller that wakes up late and reads all arrivals at once gets the link's rate. Method: 8
/// Mbit/s of evenly spaced packets, read every 1 to 20 ms.
#[test]
fn packets_that_are_read_at_once_are_no_faster_line() {
    let (spacing, packets) = (1_514 * 1_000, 20_000_u64);
    for turn in [1_000_000, 3_000_000, 10_000_000, 20_000_000] {
        let mut arrivals = ArrivalRate::new();
        let (mut read_at, mut random) = (0, 1_u64);
        for packet in 0..packets {
            while read_at < packet * spacing {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // 0.5 to 1.5 times `turn`.
                read_at += turn / 2 + (random >> 33) % turn;
            }
            arrivals.arrived(Nanos(read_at), 1_514);
        }
        let estimate = arrivals.estimate().unwrap();
        assert!((7_990_000..8_700_000).contains(&estimate), "{turn}: {estimate}");
    }
}

/// Goal: a link whose sender is late at times and catches up at once is not taken for a faster
/// link, however late the reader wakes up. Method: links of 8 and 40 Mbit/s that pause for 2 to 10
/// ms, every 20 to 220 ms, and then send the packets due, one every 20 µs.
#[test]
fn a_line_that_makes_up_for_lateness_is_no_faster_line() {
    for (bps, turn) in [(8_000_000, 100_000), (40_000_000, 100_000), (40_000_000, 2_000_000)] {
        let spacing = 1_500 * 8 * 1_000_000_000 / bps;
        let mut arrivals = ArrivalRate::new();
        let (mut stop, mut go, mut left, mut read_at, mut random) = (0, 0, 0, 0, 1_u64);
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut most = 0;
        for packet in 0..30_000_000_000 / spacing {
            let due = packet * spacing;
            while go <= due {
                stop = go + 20_000_000 + draw(200_000_000);
                go = stop + 2_000_000 + draw(8_000_000);
            }
            left = (left + 20_000).max(if due < stop { due } else { go });
            while read_at < left {
                read_at += turn / 2 + draw(turn);
            }
            arrivals.arrived(Nanos(read_at), 1_500);
            if due > 5_000_000_000 {
                most = most.max(arrivals.estimate().unwrap());
            }
        }
        let accepted = bps - bps / 100..=bps + bps / 20;
        assert!(accepted.contains(&most), "{bps} bit/s, turns of {turn} ns: {most}");
    }
}

/// Goal: the length of a window of a multiple of 2^32 ns does not wrap to 0 (CAKE, 8a8946b).
/// Method: packets with such gaps, and 1 ns more and less; the estimate is their rate.
#[test]
fn windows_of_multiples_of_2_to_the_32_nanoseconds_have_their_length() {
    for times in 1..=3_u64 {
        for gap in [(times << 32) - 1, times << 32, (times << 32) + 1] {
            let mut arrivals = ArrivalRate::new();
            let wire_len = 1 << 30;
            (0..20).for_each(|packet| arrivals.arrived(Nanos(packet * gap), wire_len));
            let rate = u64::from(wire_len) * 8_000_000_000 / gap;
            let estimate = arrivals.estimate().expect("windows have ended");
            assert!(estimate.abs_diff(rate) <= 1, "{estimate}, gap {gap} ns: {rate}");
        }
    }
}
