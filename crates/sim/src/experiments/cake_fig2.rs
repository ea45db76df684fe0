//! CAKE Fig. 2: CAKE and FQ-CoDel with simultaneous uploads and downloads, compared with queues
//! without flow isolation.
//!
//! The scenario is [`crate::experiments::mixed_load`] with four uploads, four downloads and a probe
//! in each direction.

use serde::{Deserialize, Serialize};

use freeboard::AqmKind;
use freeboard::sched_core::Nanos;

use super::dumbbell::{MEGABITS, ROUND_TRIP};
use super::mixed_load::{Load, Outcome, WARM_UP};
use super::{Check, Experiment, Report, Row, Study};
use crate::discipline::Managed;
use crate::measure::delay::Delays;
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};

/// The experiment `sim reproduce cake-fig2`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig2",
    quick: 2,
    about: "CAKE Fig. 2: goodput and latency of CAKE and FQ-CoDel, four uploads and four downloads",
    runs: &Fig2,
};

const MEASURED: Nanos = Nanos::from_secs(60);
/// Number of uploads, and of downloads.
const EACH: u8 = 4;
/// Maximum difference of the goodputs of CAKE and FQ-CoDel, relative to FQ-CoDel.
const GOODPUT: f64 = 0.03;
/// Maximum difference of their median delays, and maximum of each, in ms.
const APART: f64 = 5.0;
const LONGEST: f64 = 20.0;
/// Quantiles of the probes' round trips, in thousandths.
const QUANTILES: [u32; 3] = [500, 950, 990];
/// Queues; the two of the figure are the last.
const QUEUES: [(&str, Managed); 6] = [
    ("FIFO, 1000 packets", Managed::Fifo(1_000)),
    ("CoDel", Managed::CoDel),
    ("PIE", Managed::Pie),
    ("FQ-PIE", Managed::FqPie),
    ("FQ-CoDel", Managed::FqCoDel),
    ("CAKE", Managed::Smart(AqmKind::Cobalt)),
];

struct Fig2;

/// A queue with its name in the table.
type Cell = (&'static str, Managed);

/// One run.
#[derive(Serialize, Deserialize)]
struct Run {
    /// Goodput of all uploads and of all downloads in Mbit/s.
    goodput: [f64; 2],
    /// Managed delay of a probe's round trip.
    added: Delays,
    balanced: bool,
}

impl Run {
    fn of(outcome: &Outcome) -> Self {
        let bits = |bytes: &Vec<u64>| bytes.iter().sum::<u64>() as f64 * 8.0;
        let [up, down] = &outcome.probes;
        // A probe in each direction every 20 ms: the n-th up and the n-th down form a round trip.
        let pairs = up.added.samples().iter().zip(down.added.samples());
        Self {
            goodput: outcome.bytes.each_ref().map(|of| bits(of) / (MEASURED.0 as f64 / 1e3)),
            added: pairs.map(|(up, down)| up.plus(*down)).collect(),
            balanced: outcome.balanced,
        }
    }

    fn median(&self) -> f64 {
        self.added.millis(500)
    }
}

impl Row<Cell, Run> {
    fn goodput(&self) -> [f64; 2] {
        [0, 1].map(|way| self.mean(|run| run.goodput[way]))
    }

    /// Returns the quantiles of all runs in ms, in the order of [`QUANTILES`].
    fn added(&self) -> [f64; 3] {
        let all = self.delays(|run| &run.added);
        QUANTILES.map(|of| all.millis(of))
    }
}

impl Study for Fig2 {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        QUEUES.to_vec()
    }

    fn run(&self, &(_, queueing): &Cell, seed: u64) -> Run {
        let load = Load { measured: MEASURED, ..Load::new("", MEGABITS, [EACH; 2]) };
        Run::of(&load.run(queueing, seed))
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        Report::new(heading(seeds) + "\n")
            .table("queues", &table(rows))
            .picture("cake-fig2", charts(rows))
            .checks(checks(rows))
    }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 2: {EACH} uploads and {EACH} downloads of CUBIC on {MEGABITS} Mbit/s both ways, {} ms there and back, the same queue both ways
CAKE is SmartQueue with COBALT and triple isolation; 14 bytes a packet on the line, as for an Ethernet header
goodput in Mbit/s of payload; p50, p95, p99: ms that a probe of 160 bytes every 20 ms waits in both queues together
{} s after a warm-up of {} s, {seeds} seeds
",
        ROUND_TRIP.0 / 1_000_000,
        MEASURED.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    )
}

fn table(rows: &[Row<Cell, Run>]) -> TextTable<6> {
    let goodput = |row: &Row<Cell, Run>, way: usize| fixed(row.goodput()[way], 3);
    let added = |row: &Row<Cell, Run>, quantile: usize| fixed(row.added()[quantile], 2);
    TextTable::of(
        rows,
        [
            (Column::Left("queue"), &|row| row.0.to_owned()),
            (Column::Right("up"), &|row| goodput(row, 0)),
            (Column::Right("down"), &|row| goodput(row, 1)),
            (Column::Right("p50"), &|row| added(row, 0)),
            (Column::Right("p95"), &|row| added(row, 1)),
            (Column::Right("p99"), &|row| added(row, 2)),
        ],
    )
}

fn checks(measured: &[Row<Cell, Run>]) -> Vec<Check> {
    let [.., fq_codel, cake] = measured else { unreachable!("there are six queues") };
    let off = [0, 1].map(|way| cake.goodput()[way] / fq_codel.goodput()[way] - 1.0);
    let medians = [cake, fq_codel].map(|of| of.added()[0]);
    let runs = measured.iter().flat_map(|of| &of.runs);
    vec![
        Check::new(
            format!("CAKE's goodput is within {} % of FQ-CoDel's each way", percent(GOODPUT, 0)),
            format!("{} % up, {} % down", percent(off[0], 1), percent(off[1], 1)),
            off.into_iter().all(|off| off.abs() <= GOODPUT),
        ),
        Check::new(
            format!(
                "the medians of what a probe waits are {} ms at most, and {} ms apart at most",
                fixed(LONGEST, 0),
                fixed(APART, 0)
            ),
            format!("CAKE {} ms, FQ-CoDel {} ms", fixed(medians[0], 2), fixed(medians[1], 2)),
            medians.into_iter().all(|median| median <= LONGEST)
                && (medians[0] - medians[1]).abs() <= APART,
        ),
        Check::accounted_for("runs", runs.map(|run| run.balanced)),
    ]
}

fn charts(rows: &[Row<Cell, Run>]) -> Vec<Chart> {
    let panel = |title: &str, y: &str, values: fn(&Run) -> Vec<f64>| {
        let chart = Chart::new(title).y(y).height(250);
        rows.iter().zip(1..).fold(chart, |chart, (of, place)| {
            let place = f64::from(place);
            let points = of.runs.iter().flat_map(values).map(|value| (place, value));
            chart.series(of.0, Mark::Dots, points)
        })
    };
    let both = |run: &Run| run.goodput.to_vec();
    let names: Vec<String> =
        rows.iter().zip(1..).map(|(of, place)| format!("{place} {}", of.0)).collect();
    let names = format!("{}; dots: runs", names.join(", "));
    Vec::from([
        panel("Goodput, up and down", "Mbit/s", both).x(&names),
        panel("What a probe waits there and back, median", "ms", |run| vec![run.median()])
            .log_y()
            .x(&names),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    /// Goal: the checks of the complete run also pass for two seeds. Method: the experiment itself.
    #[test]
    #[ignore = "seconds: `cargo xtask check` runs it"]
    fn every_check_holds_of_two_seeds() {
        let report = EXPERIMENT.run(2, &Progress::hidden());
        assert!(report.holds(), "{report}");
    }
}
