//! CAKE Fig. 5: queueing delay over time of a flow of 2 Mbit/s with the code point EF beside 32
//! uploads.
//!
//! ```text
//! 32 uploads, 2 Mbit/s EF ─▶ queue ─▶ 10 Mbit/s, 25 ms ─▶ server
//! client                  ◀─ queue ◀─ 10 Mbit/s, 25 ms ◀─ acknowledgements
//! ```
//!
//! The constant-rate flow has 1,400 bytes in each packet and receives no feedback. Uploads begin
//! within a tenth of a second.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{AqmChoice, ConfigError, Ecn, Nanos, Probability};
use freeboard::shaper::{Overhead, Rate, Shaper};
use freeboard::{AqmKind, Dscp, Isolation, Rtt, TinMode};

use super::dumbbell::{
    self, DELAY, Dumbbell, ETHERNET, LIMITS, LONGEST_FRAME, MEGABITS, ROUND_TRIP,
};
use super::{Check, Experiment, Report, Row, Study};
use crate::discipline::{Bottleneck, fq_codel, isolated_smart};
use crate::measure::delay::Delays;
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use crate::source::Cbr;
use crate::tcp::network::{Naming, Way};

/// The experiment `sim reproduce cake-fig5`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig5",
    quick: 2,
    about: "CAKE Fig. 5: latency of a flow of 2 Mbit/s with the code point EF beside 32 uploads",
    runs: &Fig5,
};

/// Number of uploads.
const UPLOADS: u16 = 32;
/// Start of the uploads.
const BEGIN: Nanos = Nanos::from_secs(5);
/// Start of the steady state.
const STEADY: Nanos = Nanos::from_secs(35);
/// Duration of a run.
const LASTS: Nanos = Nanos::from_secs(65);
/// Interval over which arrivals are grouped.
const STEP: Nanos = Nanos::from_millis(100);
/// UDP payload of a packet of the flow, and its rate in bits per second.
const PAYLOAD: u32 = 1_400;
const FIXED_RATE: NonZeroU64 = NonZeroU64::new(2_000_000).unwrap();
/// Maximum relative difference of two standard deviations that count as similar.
const LIKE: f64 = 0.3;

/// Queue in front of the link, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queueing {
    /// A queue for each flow, sparse flows first, with `CoDel` in each.
    FqCoDel,
    /// [`freeboard::SmartQueue`] with this tin mode and COBALT.
    Smart(TinMode),
    /// [`freeboard::SmartQueue`] with COBALT in each queue, whose BLUE never drops.
    SmartWithoutBlue,
    /// [`freeboard::SmartQueue`] with `CoDel` in each queue instead of COBALT.
    SmartCoDel,
}

impl Queueing {
    /// All queues, in the order of the table.
    const ALL: [Self; 5] = [
        Self::FqCoDel,
        Self::Smart(TinMode::BestEffort),
        Self::SmartWithoutBlue,
        Self::SmartCoDel,
        Self::Smart(TinMode::Diffserv4),
    ];

    fn before(self, rate: Rate) -> Result<Box<dyn Bottleneck>, ConfigError> {
        let (line, raw, longest) = (Shaper::new(rate), Overhead::RAW, LONGEST_FRAME);
        let smart = |mode| {
            let builder = dumbbell::smart_queue(rate, LIMITS).tins(mode);
            builder.descriptors().expect("settings in range")
        };
        Ok(match self {
            Self::FqCoDel => fq_codel(line, raw, LIMITS, longest)?,
            Self::Smart(mode) => Box::new(smart(mode)),
            Self::SmartWithoutBlue => {
                let mut queue = smart(TinMode::BestEffort);
                let least = Probability::from_raw(1);
                let params = Rtt::INTERNET.cobalt(rate, longest).with_steps(least, least);
                queue.set_aqm_params(AqmChoice::Cobalt(params))?;
                Box::new(queue)
            }
            Self::SmartCoDel => {
                let (isolation, aqm) = (Isolation::TripleIsolate, AqmKind::CoDel);
                isolated_smart(isolation, aqm, false, line, raw, LIMITS, longest)
            }
        })
    }
}

impl fmt::Display for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FqCoDel => f.pad("FQ-CoDel"),
            Self::Smart(mode) => f.pad(&format!("CAKE, {}", mode.word())),
            Self::SmartWithoutBlue => f.pad("CAKE, besteffort, no BLUE"),
            Self::SmartCoDel => f.pad("CAKE, CoDel for COBALT"),
        }
    }
}

struct Fig5;

/// One run.
#[derive(Serialize, Deserialize)]
struct Run {
    /// Queueing delay of each packet of the flow, by the [`STEP`] in which it arrived.
    added: Vec<Delays>,
    /// Fraction of its packets that were lost.
    lost: f64,
    /// Bytes of the uploads that arrived in order.
    bytes: u64,
    balanced: bool,
}

impl Study for Fig5 {
    type Cell = Queueing;
    type Run = Run;

    fn cells(&self) -> Vec<Queueing> {
        Queueing::ALL.to_vec()
    }

    fn run(&self, &queueing: &Queueing, seed: u64) -> Run {
        let rate = dumbbell::megabits_per_second(MEGABITS);
        let mut site = Dumbbell::new(seed, Naming::Key, (Nanos::ZERO, LASTS), |_, keys| {
            let queue = queueing.before(rate).expect("lengths and parameters are in range");
            dumbbell::link(queue, LIMITS, keys, DELAY).with_header(ETHERNET)
        });
        let span = BEGIN..BEGIN.plus(STEP);
        let mut upload = |_| site.connect_within(span.clone(), Way::Up, [1, 1], dumbbell::cubic());
        let uploads: Vec<_> = (0..UPLOADS).map(&mut upload).collect();
        let phase = Nanos(site.stream("phase").below(5_000_000));
        let source = Cbr::at_rate(phase, FIXED_RATE, PAYLOAD);
        let fixed = site.send(Way::Up, [1, 1], Ecn::NotEct, source);
        site.mark_probe(fixed, Dscp::EF);
        let (mut added, mut seen) = (Vec::new(), 0);
        for step in 1..=LASTS.0 / STEP.0 {
            site.run_until(Nanos(step * STEP.0));
            let all = site.report(fixed).added;
            added.push(all.samples()[seen..].iter().copied().collect());
            seen = all.len();
        }
        Run {
            added,
            lost: site.report(fixed).loss.ratio(),
            bytes: site.bytes(&uploads).iter().sum(),
            balanced: site.is_balanced(),
        }
    }

    fn report(&self, rows: &[Row<Queueing, Run>], seeds: u32) -> Report {
        Report::new(heading(seeds) + "\n")
            .table("queues", &table(rows))
            .picture("cake-fig5", picture(rows))
            .checks(checks(rows))
    }
}

impl Run {
    /// Returns the delays of packets that arrived within this span.
    fn within(&self, span: Range<Nanos>) -> Delays {
        let [from, to] = [span.start, span.end].map(|at| (at.0 / STEP.0) as usize);
        self.added[from..to].iter().flat_map(Delays::samples).copied().collect()
    }
}

impl Row<Queueing, Run> {
    /// Returns a quantile in ms of the delays of packets that arrived from `from` on, in all runs.
    fn quantile(&self, from: Nanos, per_mille: u32) -> f64 {
        let all = self.runs.iter().flat_map(|run| run.within(from..LASTS).samples().to_vec());
        all.collect::<Delays>().millis(per_mille)
    }

    /// Returns the maximum delay of a run within the first ten seconds of the uploads, in ms, as
    /// the mean of all runs.
    fn peak(&self) -> f64 {
        self.mean(|run| run.within(BEGIN..BEGIN.plus(Nanos::from_secs(10))).millis(1_000))
    }

    /// Returns the standard deviation of the delay in the steady state, in ms, as the mean of all
    /// runs.
    fn deviation(&self) -> f64 {
        self.mean(|run| run.within(STEADY..LASTS).deviation().unwrap_or(f64::NAN) / 1e6)
    }
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

fn table(rows: &[Row<Queueing, Run>]) -> TextTable<10> {
    let steady = |row: &Row<Queueing, Run>, per_mille| fixed(row.quantile(STEADY, per_mille), 1);
    let span = LASTS.since(BEGIN).0 as f64 / 1e3;
    TextTable::of(
        rows,
        [
            (Column::Left("queue"), &|row| row.cell.to_string()),
            (Column::Right("longest"), &|row| fixed(row.peak(), 1)),
            (Column::Right("p5"), &|row| steady(row, 50)),
            (Column::Right("p50"), &|row| steady(row, 500)),
            (Column::Right("p95"), &|row| steady(row, 950)),
            (Column::Right("p99"), &|row| steady(row, 990)),
            (Column::Right("deviation"), &|row| fixed(row.deviation(), 1)),
            (Column::Right("p99 of all"), &|row| fixed(row.quantile(Nanos::ZERO, 990), 1)),
            (Column::Right("lost"), &|row| fixed(row.mean(|run| run.lost * 100.0), 1)),
            (Column::Right("uploads"), &|row| {
                fixed(row.mean(|run| run.bytes as f64 * 8.0 / span), 3)
            }),
        ],
    )
}

fn checks(rows: &[Row<Queueing, Run>]) -> Vec<Check> {
    let [fq_codel, best_effort, no_blue, codel, diffserv] = rows else {
        unreachable!("there are five queues")
    };
    let with_tins = diffserv.quantile(Nanos::ZERO, 990);
    let without = [fq_codel, best_effort].map(Row::peak);
    let steady = best_effort.quantile(STEADY, 500);
    let settles = |from: f64, to: f64| (from..=to).contains(&steady);
    let median = || fixed(steady, 1) + " ms";
    let swing = [50, 950].map(|per_mille| fq_codel.quantile(STEADY, per_mille));
    let [fq_codel, cake, no_blue, codel] =
        [fq_codel, best_effort, no_blue, codel].map(Row::deviation);
    let is_like = |deviation: f64| (deviation - fq_codel).abs() <= LIKE * fq_codel;
    let beside = |name: &str, deviation: f64| {
        format!("{name} {} ms, FQ-CoDel {} ms", fixed(deviation, 1), fixed(fq_codel, 1))
    };
    let runs = rows.iter().flat_map(|row| &row.runs);
    vec![
        Check::new(
            "with diffserv4 the flow waits 10 ms at most at the 99th percentile, from the start on",
            fixed(with_tins, 2) + " ms",
            with_tins <= 10.0,
        ),
        Check::new(
            "without tins the flow waits 200 ms or more when the uploads begin",
            format!("FQ-CoDel {} ms, CAKE {} ms", fixed(without[0], 1), fixed(without[1], 1)),
            without.into_iter().all(|peak| peak >= 200.0),
        ),
        Check::differs(
            "CAKE without tins, 100 to 300 ms in the median when it is steady,",
            "COBALT keeps its rate of drops, and Linux 6.1's CAKE, too, has such a flow wait for 5 ms (5 down, video)",
            median(),
            settles(100.0, 300.0),
        ),
        Check::new(
            "CAKE without tins settles at 5 to 25 ms in the median",
            median(),
            settles(5.0, 25.0),
        ),
        Check::differs(
            "FQ-CoDel, between 50 and 500 ms for nine of ten packets when it is steady,",
            "a queue that has drained waits for one round of 33 flows, about 40 ms",
            format!("{} to {} ms", fixed(swing[0], 1), fixed(swing[1], 1)),
            swing[0] >= 50.0 && swing[1] <= 500.0,
        ),
        Check::new(
            "what the flow waits varies more with FQ-CoDel than with CAKE without tins",
            beside("CAKE", cake),
            fq_codel > cake,
        ),
        Check::differs(
            "CAKE without BLUE, like FQ-CoDel, to 30 % of its deviation,",
            "no queue overflows, so BLUE never acts",
            beside("without BLUE", no_blue),
            is_like(no_blue),
        ),
        Check::new(
            "with CoDel for COBALT, CAKE is as FQ-CoDel, its deviation to 30 %",
            beside("with CoDel", codel),
            is_like(codel),
        ),
        Check::accounted_for("runs", runs.map(|run| run.balanced)),
    ]
}

/// Draws the first run of each queue: the mean of each step.
fn picture(rows: &[Row<Queueing, Run>]) -> Vec<Chart> {
    let chart = Chart::new("What a flow of 2 Mbit/s with EF waits beside 32 uploads")
        .subtitle(
            "10 Mbit/s, 50 ms; uploads from 5 s on; means of 100 ms in the first run; CAKE Fig. 5",
        )
        .x("time (s)")
        .y("added (ms)");
    let drawn = rows.iter().filter(|row| row.cell != Queueing::SmartWithoutBlue);
    drawn
        .fold(chart, |chart, row| {
            let steps = row.runs[0].added.iter().enumerate();
            let points = steps.map(|(step, delays)| {
                let sum: u64 = delays.samples().iter().map(|delay| delay.0).sum();
                (step as f64 / 10.0, sum as f64 / delays.len() as f64 / 1e6)
            });
            chart.series(&row.cell.to_string(), Mark::Line, points)
        })
        .into()
}
