//! Autorate: uploads over links like LTE, Starlink and DOCSIS, with a fixed rate and with
//! [`Autorate`](freeboard::shaper::Autorate).
//!
//! The scenario is [`crate::experiments::autorate::scenario`]. Only the simulator knows the link's
//! capacity; the controller sees the delay of answered probes and the bytes sent.

pub mod scenario;

use freeboard::sched_core::Nanos;

use super::{Check, Experiment, Report, Row, Study};
use crate::link::trace::Trace;
use crate::measure::delay::Delays;
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};
use scenario::{Run, Shaping, threshold};

/// The experiment `sim reproduce autorate`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "autorate",
    quick: 2,
    about: "uploads over links whose rate changes, with a fixed rate and with autorate",
    runs: &Uploads,
};

/// Duration of a run. In a shorter one the first second, at the floor, counts for too much.
const LASTS: Nanos = Nanos::from_secs(120);
/// Maximum p95 of the added delay, relative to that with the maximum rate fixed.
const PART: f64 = 0.05;

struct Uploads;

type Cell = (Trace, Shaping);

impl Row<Cell, Run> {
    /// Returns a quantile of the added delay in milliseconds, as the mean of all runs.
    fn added(&self, per_mille: u32) -> f64 {
        self.mean_of(|run| {
            let added: Delays = run.delays.iter().map(|&(_, added)| added).collect();
            added.quantile(per_mille).map_or(f64::INFINITY, |added| added.0 as f64 / 1e6)
        })
    }

    /// Returns the used fraction of the link's capacity.
    fn used(&self) -> f64 {
        self.mean_of(|run| run.carried as f64 / run.capacity as f64)
    }
}

impl Study for Uploads {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        let of = |trace| Shaping::ALL.map(|shaping| (trace, shaping));
        Trace::ALL.into_iter().flat_map(of).collect()
    }

    fn run(&self, &(trace, shaping): &Cell, seed: u64) -> Run {
        scenario::run(trace, shaping, LASTS, seed)
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        Report::new(heading(seeds) + "\n")
            .table("rates", &table(rows))
            .picture("autorate", charts(rows))
            .checks(checks(rows))
    }
}

fn heading(seeds: u32) -> String {
    let of = |trace: Trace| {
        let [floor, base, ceiling] = trace.megabits();
        format!(
            "{}: floor {floor}, base {base}, ceiling {ceiling} Mbit/s, threshold {} ms: {}\n",
            trace.name(),
            threshold(trace).0 / 1_000_000,
            trace.about()
        )
    };
    let rates: String = Trace::ALL.map(of).concat();
    format!(
        "\
Four uploads of CUBIC, FQ-CoDel before a modem with a FIFO of {} packets, a line whose rate changes
{rates}one probe each 50 ms, answered 20 ms after it has come; {} s, {seeds} seeds
added: what a probe waits beyond the delay of the path, in ms, mean of the seeds; carried: of uploads, with headers;
used: of what the line had
",
        scenario::MODEM,
        LASTS.0 / 1_000_000_000,
    )
}

fn table(rows: &[Row<Cell, Run>]) -> TextTable<7> {
    let megabits = |run: &Run| run.carried as f64 * 8e3 / LASTS.0 as f64;
    let line = |row: &Row<Cell, Run>| if row.1 == Shaping::Best { row.0.name() } else { "" };
    TextTable::of(
        rows,
        [
            (Column::Left("line"), &|row| line(row).to_owned()),
            (Column::Left("rate"), &|row| row.1.name().to_owned()),
            (Column::Right("p50"), &|row| fixed(row.added(500), 1)),
            (Column::Right("p95"), &|row| fixed(row.added(950), 1)),
            (Column::Right("p99"), &|row| fixed(row.added(990), 1)),
            (Column::Right("Mbit/s"), &|row| fixed(row.mean_of(megabits), 2)),
            (Column::Right("used %"), &|row| percent(row.used(), 1)),
        ],
    )
}

/// Returns the rows of each trace, in the order of [`Shaping::ALL`].
fn by_trace(rows: &[Row<Cell, Run>]) -> impl Iterator<Item = &[Row<Cell, Run>; 3]> {
    rows.as_chunks().0.iter()
}

/// Returns the minimum utilization that is required.
const fn utilization(trace: Trace) -> f64 {
    match trace {
        Trace::Lte => 0.80,
        Trace::Starlink => 0.85,
        Trace::Docsis => 0.90,
    }
}

fn checks(rows: &[Row<Cell, Run>]) -> Vec<Check> {
    let balanced = rows.iter().flat_map(|row| &row.runs).map(|run| run.balanced);
    let balanced = Check::accounted_for("runs", balanced);
    by_trace(rows).flat_map(of_trace).chain([balanced]).collect()
}

fn of_trace([best, auto, floor]: &[Row<Cell, Run>; 3]) -> [Check; 3] {
    let trace = auto.0;
    let name = trace.name();
    let used = utilization(trace);
    let delays = [best, auto].map(|of| of.added(950));
    let [least, _, most] = trace.megabits().map(|megabits| megabits * 1_000_000);
    let rates = || auto.runs.iter().flat_map(|run| &run.rates).map(|rate| rate.1);
    let (low, high) = (rates().min().unwrap_or(0), rates().max().unwrap_or(u64::MAX));
    [
        Check::new(
            format!(
                "{name}: 95 % of the probes wait at most {} % of what they wait with the best rate fixed",
                percent(PART, 0)
            ),
            format!("{} of {} ms", fixed(delays[1], 1), fixed(delays[0], 1)),
            delays[1] <= delays[0] * PART,
        ),
        Check::new(
            format!(
                "{name}: at least {} % of what the line had is used, and more than with the floor fixed",
                percent(used, 0)
            ),
            format!("{} %, with the floor {} %", percent(auto.used(), 1), percent(floor.used(), 1)),
            auto.used() >= used && auto.used() > floor.used(),
        ),
        Check::new(
            format!("{name}: the rate is never below the floor and never above the ceiling"),
            format!("{} to {} kbit/s", low / 1_000, high / 1_000),
            low >= least && high <= most,
        ),
    ]
}

fn charts(rows: &[Row<Cell, Run>]) -> Vec<Chart> {
    let seconds = |at: Nanos| at.0 as f64 / 1e9;
    let megabits = |points: &[(Nanos, u64)]| -> Vec<(f64, f64)> {
        points.iter().map(|&(at, bps)| (seconds(at), bps as f64 / 1e6)).collect()
    };
    let added = |row: &Row<Cell, Run>| -> Vec<(f64, f64)> {
        let delays = row.runs[0].delays.iter();
        delays.map(|&(at, by)| (seconds(at), (by.0 as f64 / 1e6).max(0.1))).collect()
    };
    let panel = |title: String, y| Chart::new(&title).height(280).y(y).x("time (s), seed 1");
    let of_trace = |[best, auto, _]: &[Row<Cell, Run>; 3]| {
        let name = auto.0.name();
        let line = auto.0.capacities(LASTS, 1);
        let line: Vec<_> = line.iter().map(|link| (link.at, link.bps)).collect();
        [
            panel(format!("{name}: rate of the line and of the shaper"), "Mbit/s")
                .series("line", Mark::Step, megabits(&line))
                .series("autorate", Mark::Step, megabits(&auto.runs[0].rates)),
            panel(format!("{name}: what a probe waits"), "added delay (ms)")
                .log_y()
                .series("best rate fixed", Mark::Line, added(best))
                .series("autorate", Mark::Line, added(auto)),
        ]
    };
    by_trace(rows).flat_map(of_trace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    /// Goal: the checks of the complete run also pass for two seeds. Method: the experiment itself.
    #[test]
    fn every_check_holds_of_two_seeds() {
        let report = EXPERIMENT.run(2, &Progress::hidden());
        assert!(report.holds(), "{report}");
    }
}
