//! CAKE Fig. 4: shares of four flows with different code points, with and without tins.
//!
//! The scenario is [`crate::experiments::cake_fig4::scenario`].

pub mod scenario;

use std::thread;

use freeboard::sched_core::Nanos;
use freeboard::{Rtt, TinMode};

use super::{Check, Experiment, Report};
use crate::measure::estimate::mean;
use crate::plot::{Chart, Column, Mark, TextTable, fixed};
use crate::progress::Progress;
use scenario::{FLOWS, MARKS, MEGABITS, Outcome, ROUND_TRIP, Setup, WARM_UP};

/// The experiment `sim reproduce cake-fig4`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig4",
    quick: 2,
    about: "CAKE Fig. 4: shares of TCP flows with different code points, with and without tins",
    runs: super::Runs::Whole(run),
};

const MEASURED: Nanos = Nanos::from_secs(60);
/// Maximum difference of a mean share from the rule, in percentage points.
const POINTS: f64 = 3.0;
/// Maximum bytes of the priority tin beyond its rate in any span, in longest packets
/// (`docs/disciplines/tins.md`).
const BEYOND: f64 = 4.0;
/// Shares by the rule: best effort gets the rest beside a sixteenth and a quarter; two flows share
/// the quarter.
const RULE: [f64; FLOWS] = [68.75, 6.25, 12.5, 12.5];
/// The last has a target of 50 ms, the round-trip time: a halved window still fills the link.
const MODES: [(TinMode, Rtt, [f64; FLOWS]); 3] = [
    (TinMode::BestEffort, Rtt::INTERNET, [25.0; FLOWS]),
    (TinMode::Diffserv4, Rtt::INTERNET, RULE),
    (TinMode::Diffserv4, Rtt::SATELLITE, RULE),
];
/// Reason why best effort gets less.
const NOT_FULL: &str =
    "one CUBIC sender alone leaves its queue empty after each drop, and the other tins borrow";
const WAYS: [&str; 2] = ["up", "down"];

/// All runs with one tin plan.
struct Measured {
    mode: TinMode,
    rtt: Rtt,
    expected: [f64; FLOWS],
    outcomes: Vec<Outcome>,
}

impl Measured {
    fn name(&self) -> String {
        let name = self.mode.word();
        if self.rtt == Rtt::INTERNET {
            return name.to_owned();
        }
        format!("{name}, rtt {} s", self.rtt.span().0 / 1_000_000_000)
    }

    fn mean(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        mean(&self.outcomes.iter().map(value).collect::<Vec<_>>()).expect("there are runs")
    }

    /// Returns the mean shares in a direction, in percent.
    fn shares(&self, way: usize) -> [f64; FLOWS] {
        core::array::from_fn(|flow| self.mean(|outcome| shares(outcome, way)[flow]))
    }

    /// Returns the goodput of all flows of a direction, in Mbit/s.
    fn goodput(&self, way: usize) -> f64 {
        let bits = |outcome: &Outcome| outcome.bytes[way].iter().sum::<u64>() as f64 * 8.0;
        self.mean(|outcome| bits(outcome) / (MEASURED.0 as f64 / 1e3))
    }

    /// Returns the maximum difference of a mean share from the rule.
    fn off(&self) -> f64 {
        let shares = [0, 1].map(|way| self.shares(way)).into_iter().flatten();
        let off = shares.zip(self.expected.into_iter().cycle()).map(|(a, b)| (a - b).abs());
        off.fold(0.0, f64::max)
    }

    /// Returns the maximum of all runs.
    fn beyond(&self, way: usize) -> f64 {
        self.outcomes.iter().map(|outcome| outcome.beyond[way]).fold(0.0, f64::max)
    }
}

fn shares(outcome: &Outcome, way: usize) -> [f64; FLOWS] {
    let all = outcome.bytes[way].iter().sum::<u64>() as f64;
    outcome.bytes[way].map(|bytes| bytes as f64 / all * 100.0)
}

fn run(seeds: u32, progress: &Progress) -> Report {
    progress.expect(MODES.len() as u64 * u64::from(seeds));
    // Runs are independent of each other.
    let measured: Vec<Measured> = thread::scope(|scope| {
        let begin = |(mode, rtt, expected)| {
            scope.spawn(move || {
                let one = |seed| {
                    let outcome = scenario::run(&Setup { mode, rtt, measured: MEASURED, seed });
                    progress.done();
                    outcome
                };
                let outcomes = (1..=u64::from(seeds)).map(one).collect();
                Measured { mode, rtt, expected, outcomes }
            })
        };
        let runs: Vec<_> = MODES.into_iter().map(begin).collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    let text = format!("{}\n{}", heading(seeds), table(&measured));
    let charts = picture(&measured);
    Report::new(text).picture("cake-fig4", charts).checks(checks(&measured))
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 4: four uploads and four downloads of CUBIC with the code points BE, BK (CS1), CS5 and EF
{MEGABITS} Mbit/s both ways, {} ms there and back, packets as Ethernet frames; SmartQueue with COBALT both ways, set for
a round trip of 100 ms, or of 1 s, which is a target of 50 ms;
acknowledgements have the code point of their data
shares of the goodput of a direction, in %; beyond: the most that EF and CS5 together were sent above a quarter of the
line in any span in which best effort was backlogged, in longest packets; backlogged: that part of the time, in %, of
the tin of best effort with its acknowledgements
{} s after a warm-up of {} s, {seeds} seeds
",
        ROUND_TRIP.0 / 1_000_000,
        MEASURED.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    )
}

fn table(measured: &[Measured]) -> String {
    let [be, bk, cs5, ef] = MARKS.map(|(name, _)| Column::Right(name));
    let mut table = TextTable::new([
        Column::Left("tins"),
        Column::Left("way"),
        be,
        bk,
        cs5,
        ef,
        Column::Right("Mbit/s"),
        Column::Right("beyond"),
        Column::Right("backlogged"),
    ]);
    for of in measured {
        let [be, bk, cs5, ef] = of.expected.map(|share| fixed(share, 2));
        table.row([&of.name(), &"by the rule", &be, &bk, &cs5, &ef, &"", &"", &""]);
        for (way, name) in WAYS.into_iter().enumerate() {
            let [be, bk, cs5, ef] = of.shares(way).map(|share| fixed(share, 2));
            let goodput = fixed(of.goodput(way), 3);
            let has_tins = of.mode != TinMode::BestEffort;
            let beyond = if has_tins { fixed(of.beyond(way), 2) } else { String::new() };
            let backlogged = fixed(of.mean(|outcome| outcome.backlogged[way] * 100.0), 1);
            table.row([&"", &name, &be, &bk, &cs5, &ef, &goodput, &beyond, &backlogged]);
        }
    }
    table.to_string()
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let mut checks: Vec<Check> = measured
        .iter()
        .map(|of| {
            let claim = format!(
                "{}: BE, BK, CS5 and EF with {} % each way, to {} points",
                of.name(),
                of.expected.map(|share| fixed(share, 2)).join(", "),
                fixed(POINTS, 0)
            );
            let measured = format!("at most {} points off", fixed(of.off(), 2));
            let holds = of.off() <= POINTS;
            if of.mode == TinMode::Diffserv4 && of.rtt == Rtt::INTERNET {
                return Check::differs(&claim, NOT_FULL, measured, holds);
            }
            Check { claim, measured, holds }
        })
        .collect();
    let tins = measured.iter().filter(|of| of.mode != TinMode::BestEffort);
    let beyond = tins.flat_map(|of| [0, 1].map(|way| of.beyond(way))).fold(0.0, f64::max);
    checks.push(Check {
        claim: format!(
            "while best effort is backlogged, EF and CS5 together are sent no more than a quarter of the line and {} of \
             the longest packets, in any span",
            fixed(BEYOND, 0)
        ),
        measured: format!("at most {} packets beyond a quarter", fixed(beyond, 2)),
        holds: beyond <= BEYOND,
    });
    let outcomes = measured.iter().flat_map(|measured| &measured.outcomes);
    checks.push(Check::accounted_for("runs", outcomes.map(|outcome| outcome.recount.is_ok())));
    checks
}

fn picture(measured: &[Measured]) -> Vec<Chart> {
    let panel = |of: &Measured| {
        let title = format!("Shares with SmartQueue, {}", of.name());
        let rule = (1..).map(f64::from).zip(of.expected);
        let chart = Chart::new(&title).y("% of the goodput").height(250);
        let chart = chart.series("by the rule", Mark::Line, rule);
        let chart = WAYS.into_iter().enumerate().fold(chart, |chart, (way, name)| {
            let runs = of.outcomes.iter();
            let points = runs.flat_map(|run| (1..).map(f64::from).zip(shares(run, way)));
            chart.series(name, Mark::Dots, points)
        });
        chart.x("flow: 1 BE, 2 BK, 3 CS5, 4 EF; a dot a run")
    };
    measured.iter().map(panel).collect()
}
