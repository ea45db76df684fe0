//! Autorate: uploads over links like LTE, Starlink and DOCSIS, with a fixed rate and with
//! [`Autorate`](freeboard::shaper::Autorate).
//!
//! The scenario is [`crate::experiments::autorate::scenario`]. Only the simulator knows the link's
//! capacity; the controller sees the delay of answered probes and the bytes sent.

pub mod downloads;
pub mod scenario;
pub mod traces;

use std::thread;

use freeboard::sched_core::Nanos;

use super::{Check, Experiment, Report};
use crate::measure::estimate::mean;
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};
use crate::progress::Progress;
use scenario::{Outcome, Setup, Shaping};
use traces::Trace;

/// The experiment `sim reproduce autorate`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "autorate",
    about: "uploads over links whose rate changes, with a fixed rate and with autorate",
    runs: super::Runs::Whole(run),
};

const LASTS: Nanos = Nanos::from_secs(120);

/// All runs of one trace with one kind of shaping.
struct Measured {
    trace: Trace,
    shaping: Shaping,
    outcomes: Vec<Outcome>,
}

impl Measured {
    fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        let all: Vec<f64> = self.outcomes.iter().map(of).collect();
        mean(&all).expect("there are runs")
    }

    /// Returns a quantile of the added delay in milliseconds, as the mean of all runs.
    fn delay(&self, per_mille: u32) -> f64 {
        self.mean(|outcome| {
            let delays: crate::measure::delay::Delays =
                outcome.delays.iter().map(|&(_, added)| added).collect();
            delays.quantile(per_mille).map_or(f64::INFINITY, |delay| delay.0 as f64 / 1e6)
        })
    }

    /// Returns the used fraction of the link's capacity.
    fn used(&self) -> f64 {
        self.mean(|outcome| outcome.carried as f64 / outcome.capacity as f64)
    }

    fn megabits(&self) -> f64 {
        self.mean(|outcome| outcome.carried as f64 * 8e3 / LASTS.0 as f64)
    }
}

fn run(seeds: u32, progress: &Progress) -> Report {
    run_for(LASTS, seeds, progress)
}

fn run_for(lasts: Nanos, seeds: u32, progress: &Progress) -> Report {
    let variants: Vec<_> = Trace::ALL
        .into_iter()
        .flat_map(|trace| Shaping::ALL.map(|shaping| (trace, shaping)))
        .collect();
    progress.expect(variants.len() as u64 * u64::from(seeds));
    // Runs are independent of each other.
    let measured: Vec<Measured> = thread::scope(|scope| {
        let runs: Vec<_> = variants
            .into_iter()
            .map(|(trace, shaping)| {
                scope.spawn(move || {
                    let one = |seed| {
                        let outcome = scenario::run(&Setup { trace, shaping, lasts, seed });
                        progress.done();
                        outcome
                    };
                    let outcomes = (1..=u64::from(seeds)).map(one).collect();
                    Measured { trace, shaping, outcomes }
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    let text = format!("{}\n{}", heading(lasts, seeds), table(&measured));
    let charts = picture(&measured);
    Report::new(text).picture("autorate", charts).checks(checks(&measured))
}

fn heading(lasts: Nanos, seeds: u32) -> String {
    let rates: String = Trace::ALL
        .iter()
        .map(|trace| {
            let [floor, base, ceiling] = trace.megabits();
            let name = trace.name();
            format!(
                "{name}: floor {floor}, base {base}, ceiling {ceiling} Mbit/s, threshold {} ms: {}\n",
                trace.threshold().0 / 1_000_000,
                trace.about()
            )
        })
        .collect();
    format!(
        "\
Four uploads of CUBIC, FQ-CoDel before a modem with a FIFO of {} packets, a line whose rate changes
{rates}one probe each 50 ms, answered 20 ms after it has come; {} s, {seeds} seeds
added: what a probe waits beyond the delay of the path, in ms, mean of the seeds; carried: of uploads, with headers;
used: of what the line had
",
        scenario::MODEM,
        lasts.0 / 1_000_000_000,
    )
}

fn table(measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("line"),
        Column::Left("rate"),
        Column::Right("p50"),
        Column::Right("p95"),
        Column::Right("p99"),
        Column::Right("Mbit/s"),
        Column::Right("used %"),
    ]);
    for of in measured {
        let name = if of.shaping == Shaping::Best { of.trace.name() } else { "" };
        let [p50, p95, p99] = [500, 950, 990].map(|part| fixed(of.delay(part), 1));
        let (rate, used) = (fixed(of.megabits(), 2), percent(of.used(), 1));
        table.row([&name, &of.shaping.name(), &p50, &p95, &p99, &rate, &used]);
    }
    table.to_string()
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let find = |trace, shaping| {
        let is = |of: &&Measured| of.trace == trace && of.shaping == shaping;
        measured.iter().find(is).expect("every line has every rate")
    };
    let mut checks = Vec::new();
    for trace in Trace::ALL {
        let [best, auto, floor] =
            [Shaping::Best, Shaping::Auto, Shaping::Floor].map(|s| find(trace, s));
        let name = trace.name();
        let (part, used) = trace.demands();
        let delays = [best, auto].map(|of| of.delay(950));
        checks.push(Check {
            claim: format!(
                "{name}: 95 % of the probes wait at most {} % of what they wait with the best rate fixed",
                percent(part, 0)
            ),
            measured: format!("{} of {} ms", fixed(delays[1], 1), fixed(delays[0], 1)),
            holds: delays[1] <= delays[0] * part,
        });
        checks.push(Check {
            claim: format!(
                "{name}: at least {} % of what the line had is used, and more than with the floor fixed",
                percent(used, 0)
            ),
            measured: format!(
                "{} %, with the floor {} %",
                percent(auto.used(), 1),
                percent(floor.used(), 1)
            ),
            holds: auto.used() >= used && auto.used() > floor.used(),
        });
        let [least, _, most] = trace.megabits().map(|megabits| megabits * 1_000_000);
        let rates =
            || auto.outcomes.iter().flat_map(|outcome| outcome.rates.iter().map(|rate| rate.1));
        let (low, high) = (rates().min().unwrap_or(0), rates().max().unwrap_or(u64::MAX));
        checks.push(Check {
            claim: format!("{name}: the rate is never below the floor and never above the ceiling"),
            measured: format!("{} to {} kbit/s", low / 1_000, high / 1_000),
            holds: low >= least && high <= most,
        });
    }
    let outcomes = measured.iter().flat_map(|of| &of.outcomes);
    let balanced = outcomes.map(|outcome| outcome.recount.is_ok());
    checks.push(Check::accounted_for("runs", balanced));
    checks
}

fn picture(measured: &[Measured]) -> Vec<Chart> {
    let seconds = |at: Nanos| at.0 as f64 / 1e9;
    let megabits = |points: &[(Nanos, u64)]| -> Vec<(f64, f64)> {
        points.iter().map(|&(at, bps)| (seconds(at), bps as f64 / 1e6)).collect()
    };
    let added = |of: &Measured| -> Vec<(f64, f64)> {
        let first =
            of.outcomes.first().map(|outcome| outcome.delays.as_slice()).unwrap_or_default();
        first.iter().map(|&(at, added)| (seconds(at), (added.0 as f64 / 1e6).max(0.1))).collect()
    };
    let mut charts = Vec::new();
    for trace in Trace::ALL {
        let find = |shaping| {
            measured.iter().find(|of| of.trace == trace && of.shaping == shaping).expect("is there")
        };
        let (best, auto) = (find(Shaping::Best), find(Shaping::Auto));
        if let Some(first) = auto.outcomes.first() {
            let chart =
                Chart::new(&format!("{}: rate of the line and of the shaper", trace.name()));
            let chart = chart.height(280).y("Mbit/s").x("time (s), seed 1");
            let chart = chart.series("line", Mark::Step, megabits(&first.line));
            charts.push(chart.series("autorate", Mark::Step, megabits(&first.rates)));
        }
        let chart = Chart::new(&format!("{}: what a probe waits", trace.name())).height(280);
        let chart = chart.y("added delay (ms)").x("time (s), seed 1").log_y();
        let chart = chart.series("best rate fixed", Mark::Line, added(best));
        charts.push(chart.series("autorate", Mark::Line, added(auto)));
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the checks of the complete run also pass for a short one. Method: 120 s and two seeds.
    /// In a shorter run the first second, at the floor, counts for too much.
    #[test]
    fn every_check_holds_of_two_minutes() {
        let report = run_for(Nanos::from_secs(120), 2, &Progress::hidden());
        assert!(report.holds(), "{report}");
    }
}
