//! CAKE Fig. 5: queueing delay over time of a flow of 2 Mbit/s with the code point EF beside 32
//! uploads.
//!
//! The scenario is [`crate::experiments::cake_fig5::scenario`].

pub mod scenario;

use std::thread;

use freeboard::TinMode;
use freeboard::sched_core::Nanos;

use super::{Check, Experiment, Report};
use crate::measure::delay::Delays;
use crate::measure::estimate::mean;
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use crate::progress::Progress;
use scenario::{BEGIN, MEGABITS, Outcome, Queueing, ROUND_TRIP, STEP, Setup, UPLOADS};

/// The experiment `sim reproduce cake-fig5`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig5",
    quick: 2,
    about: "CAKE Fig. 5: latency of a flow of 2 Mbit/s with the code point EF beside 32 uploads",
    runs: super::Runs::Whole(run),
};

const LASTS: Nanos = Nanos::from_secs(65);
/// Start of the steady state.
const STEADY: Nanos = Nanos::from_secs(35);
/// Maximum relative difference of two standard deviations that count as similar.
const LIKE: f64 = 0.3;
const FQ_CODEL: usize = 0;
const BEST_EFFORT: usize = 1;
const NO_BLUE: usize = 2;
const CODEL: usize = 3;
const DIFFSERV: usize = 4;
const QUEUES: [Queueing; 5] = [
    Queueing::FqCoDel,
    Queueing::Smart(TinMode::BestEffort),
    Queueing::SmartWithoutBlue,
    Queueing::SmartCoDel,
    Queueing::Smart(TinMode::Diffserv4),
];

/// All runs with one queue.
struct Measured {
    queueing: Queueing,
    outcomes: Vec<Outcome>,
}

impl Measured {
    /// Returns the delays of packets that arrived from `from` on, in all runs.
    fn since(&self, from: Nanos) -> Delays {
        let steps = (from.0 / STEP.0) as usize;
        let all = self.outcomes.iter().flat_map(|run| run.added.iter().skip(steps).flatten());
        all.copied().collect()
    }

    /// Returns a quantile of these in ms.
    fn quantile(&self, from: Nanos, per_mille: u32) -> f64 {
        millis(self.since(from).quantile(per_mille))
    }

    /// Returns the maximum delay of a run within the first ten seconds of the uploads, in ms, as
    /// the mean of all runs.
    fn peak(&self) -> f64 {
        let [from, to] =
            [BEGIN, BEGIN.plus(Nanos::from_secs(10))].map(|at| (at.0 / STEP.0) as usize);
        let peaks = self
            .outcomes
            .iter()
            .map(|run| millis(run.added[from..to].iter().flatten().copied().max()));
        mean(&peaks.collect::<Vec<_>>()).expect("there are runs")
    }

    /// Returns the standard deviation of the delay in the steady state, in ms, as the mean of all
    /// runs.
    fn deviation(&self) -> f64 {
        let steps = (STEADY.0 / STEP.0) as usize;
        let deviations = self.outcomes.iter().map(|run| {
            let delays: Delays = run.added.iter().skip(steps).flatten().copied().collect();
            delays.deviation().unwrap_or(f64::NAN) / 1e6
        });
        mean(&deviations.collect::<Vec<_>>()).expect("there are runs")
    }

    fn mean(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        mean(&self.outcomes.iter().map(value).collect::<Vec<_>>()).expect("there are runs")
    }
}

fn millis(delay: Option<Nanos>) -> f64 {
    delay.map_or(f64::NAN, |delay| delay.0 as f64 / 1e6)
}

fn run(seeds: u32, progress: &Progress) -> Report {
    progress.expect(QUEUES.len() as u64 * u64::from(seeds));
    // Runs are independent of each other.
    let measured: Vec<Measured> = thread::scope(|scope| {
        let begin = |queueing| scope.spawn(move || measure(queueing, seeds, progress));
        let runs: Vec<_> = QUEUES.into_iter().map(begin).collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    let text = format!("{}\n{}", heading(seeds), table(&measured));
    let charts = picture(&measured);
    Report::new(text).picture("cake-fig5", charts).checks(checks(&measured))
}

fn measure(queueing: Queueing, seeds: u32, progress: &Progress) -> Measured {
    let one = |seed| {
        let outcome = scenario::run(&Setup { queueing, lasts: LASTS, seed });
        progress.done();
        outcome.expect("lengths and parameters are within their ranges")
    };
    Measured { queueing, outcomes: (1..=u64::from(seeds)).map(one).collect() }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 5: 2 Mbit/s of UDP with EF from the start, and {UPLOADS} uploads of CUBIC from {} s on, best effort
{MEGABITS} Mbit/s both ways, {} ms there and back, packets as Ethernet frames; {} s, {seeds} seeds
ms that a packet of the flow waits: the longest within ten seconds of the start of the uploads, mean of the runs; p5, p50, p95
and p99 of all runs from {} s on; deviation: the standard deviation from there on, mean of the runs; p99 from 0 s on
lost: of its packets, in %; uploads: goodput in Mbit/s of payload
",
        BEGIN.0 / 1_000_000_000,
        ROUND_TRIP.0 / 1_000_000,
        LASTS.0 / 1_000_000_000,
        STEADY.0 / 1_000_000_000,
    )
}

fn table(measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("queue"),
        Column::Right("longest"),
        Column::Right("p5"),
        Column::Right("p50"),
        Column::Right("p95"),
        Column::Right("p99"),
        Column::Right("deviation"),
        Column::Right("p99 of all"),
        Column::Right("lost"),
        Column::Right("uploads"),
    ]);
    for of in measured {
        let [p5, p50, p95, p99] = [50, 500, 950, 990].map(|q| fixed(of.quantile(STEADY, q), 1));
        let span = LASTS.since(BEGIN).0 as f64 / 1e3;
        table.row([
            &of.queueing,
            &fixed(of.peak(), 1),
            &p5,
            &p50,
            &p95,
            &p99,
            &fixed(of.deviation(), 1),
            &fixed(of.quantile(Nanos::ZERO, 990), 1),
            &fixed(of.mean(|run| run.lost * 100.0), 1),
            &fixed(of.mean(|run| run.bytes as f64 * 8.0 / span), 3),
        ]);
    }
    table.to_string()
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let of = |queue: usize| &measured[queue];
    let with_tins = of(DIFFSERV).quantile(Nanos::ZERO, 990);
    let without = [FQ_CODEL, BEST_EFFORT].map(|queue| of(queue).peak());
    let steady = of(BEST_EFFORT).quantile(STEADY, 500);
    let settles = |from: f64, to: f64| (from..=to).contains(&steady);
    let median = || fixed(steady, 1) + " ms";
    let swing = [50, 950].map(|per_mille| of(FQ_CODEL).quantile(STEADY, per_mille));
    let [fq_codel, cake, no_blue, codel] =
        [FQ_CODEL, BEST_EFFORT, NO_BLUE, CODEL].map(|queue| of(queue).deviation());
    let is_like = |deviation: f64| (deviation - fq_codel).abs() <= LIKE * fq_codel;
    let beside = |name: &str, deviation: f64| {
        format!("{name} {} ms, FQ-CoDel {} ms", fixed(deviation, 1), fixed(fq_codel, 1))
    };
    let outcomes = measured.iter().flat_map(|measured| &measured.outcomes);
    vec![
        Check {
            claim: "with diffserv4 the flow waits 10 ms at most at the 99th percentile, from the start on"
                .to_owned(),
            measured: fixed(with_tins, 2) + " ms",
            holds: with_tins <= 10.0,
        },
        Check {
            claim: "without tins the flow waits 200 ms or more when the uploads begin".to_owned(),
            measured: format!(
                "FQ-CoDel {} ms, CAKE {} ms",
                fixed(without[0], 1),
                fixed(without[1], 1)
            ),
            holds: without.into_iter().all(|peak| peak >= 200.0),
        },
        Check::differs(
            "CAKE without tins, 100 to 300 ms in the median when it is steady,",
            "COBALT keeps its rate of drops, and Linux 6.1's CAKE, too, has such a flow wait for 5 ms (5 down, video)",
            median(),
            settles(100.0, 300.0),
        ),
        Check {
            claim: "CAKE without tins settles at 5 to 25 ms in the median".to_owned(),
            measured: median(),
            holds: settles(5.0, 25.0),
        },
        Check::differs(
            "FQ-CoDel, between 50 and 500 ms for nine of ten packets when it is steady,",
            "a queue that has drained waits for one round of 33 flows, about 40 ms",
            format!("{} to {} ms", fixed(swing[0], 1), fixed(swing[1], 1)),
            swing[0] >= 50.0 && swing[1] <= 500.0,
        ),
        Check {
            claim: "what the flow waits varies more with FQ-CoDel than with CAKE without tins".to_owned(),
            measured: beside("CAKE", cake),
            holds: fq_codel > cake,
        },
        Check::differs(
            "CAKE without BLUE, like FQ-CoDel, to 30 % of its deviation,",
            "no queue overflows, so BLUE never acts",
            beside("without BLUE", no_blue),
            is_like(no_blue),
        ),
        Check {
            claim: "with CoDel for COBALT, CAKE is as FQ-CoDel, its deviation to 30 %".to_owned(),
            measured: beside("with CoDel", codel),
            holds: is_like(codel),
        },
        Check::accounted_for("runs", outcomes.map(|outcome| outcome.recount.is_ok())),
    ]
}

/// Draws the first run of each queue: the mean of each step.
fn picture(measured: &[Measured]) -> Vec<Chart> {
    let chart = Chart::new("What a flow of 2 Mbit/s with EF waits beside 32 uploads")
        .subtitle(
            "10 Mbit/s, 50 ms; uploads from 5 s on; means of 100 ms in the first run; CAKE Fig. 5",
        )
        .x("time (s)")
        .y("added (ms)");
    let drawn = measured.iter().filter(|of| of.queueing != Queueing::SmartWithoutBlue);
    drawn
        .fold(chart, |chart, of| {
            let steps = of.outcomes[0].added.iter().enumerate();
            let points = steps.map(|(step, delays)| {
                let sum: u64 = delays.iter().map(|delay| delay.0).sum();
                (step as f64 / 10.0, sum as f64 / delays.len() as f64 / 1e6)
            });
            chart.series(&of.queueing.to_string(), Mark::Line, points)
        })
        .into()
}
