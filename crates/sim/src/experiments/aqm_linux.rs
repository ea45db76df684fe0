//! Model TCP behind queues with AQMs, compared with measurements of Linux in equal scenarios.
//!
//! The scenario is [`crate::experiments::mixed_load`]; the figures of Linux are quoted. A row
//! matches if its goodput is within 3 % and its median delay within 30 % or 1 ms. A row that does
//! not match states the reason, and a check fails once the row no longer needs it.

mod defaults;

use super::dumbbell::{ETHERNET, ROUND_TRIP};
use super::mixed_load::{DELAY, DELAY_MILLIS, Figures, GOODPUT, Load, Outcome, Quantiles, WARM_UP};
use super::{Check, Experiment, Report, Row, Study};
use crate::discipline::Managed;
use crate::plot::{Column, TextTable, fixed, percent};
use crate::tcp::Data;

/// The experiment `sim reproduce aqm-linux`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "aqm-linux",
    quick: 2,
    about: "model TCP behind queues with AQMs, compared with the kernel's TCP and queues",
    runs: &AqmLinux,
};

const UP: Load = Load::new("4 up", 10, [4, 0]);
const BOTH: Load = Load::new("4 up, 4 down", 10, [4, 4]);
/// `BOTH` without bursts.
const PACED: Load = Load { paced: true, ..Load::new("4 up, 4 down, paced", 10, [4, 4]) };
const MANY: Load = Load::new("24 up", 10, [24, 0]);
const SLOW: Load = Load::new("4 up", 1, [4, 0]);
const VIDEO: Load = Load { video: true, ..Load::new("5 down, video", 10, [0, 5]) };

/// One queue under one load, and the measurement of Linux.
#[derive(Clone, Copy, Debug)]
struct Cell {
    load: Load,
    queueing: Managed,
    /// Linux up and down. The video is in the second.
    linux: [Figures; 2],
    /// Reason for a larger difference from Linux than is allowed.
    differs: Option<&'static str>,
}

const fn cell(load: Load, queueing: Managed, linux: [Figures; 2]) -> Cell {
    Cell { load, queueing, linux, differs: None }
}

/// Goodput, delays and loss of four uploads.
const fn up(queueing: Managed, goodput: f64, added: Quantiles, lost: f64) -> Cell {
    cell(UP, queueing, [Figures::of(goodput, added).lost(lost), Figures::NONE])
}

/// Goodput and delays up and down.
const fn both(queueing: Managed, up: (f64, Quantiles), down: (f64, Quantiles)) -> Cell {
    cell(BOTH, queueing, [Figures::of(up.0, up.1), Figures::of(down.0, down.1)])
}

/// Delays of a probe beside uploads.
const fn added(load: Load, queueing: Managed, added: Quantiles) -> Cell {
    cell(load, queueing, [Figures::added(added), Figures::NONE])
}

/// Median delay and loss of the video.
const fn video(queueing: Managed, median: f64, lost: f64) -> Cell {
    let median = Figures::added([median, f64::NAN, f64::NAN]);
    cell(VIDEO, queueing, [Figures::NONE, median.lost(lost)])
}

impl Cell {
    const fn because(self, why: &'static str) -> Self {
        Self { differs: Some(why), ..self }
    }
}

/// Of queues with sparse flows first (`docs/decisions/0018-one-turn-a-round-in-pieces.md`).
const ONE_TURN: &str =
    "an upload that returns has the rest of its turn here, and in Linux a new one before the probe";
const BURSTS: &str = "bursts: acknowledgements that waited behind data return together, and data follows in one piece";
const ALIKE: &str = "Linux's two directions, which are alike, differ by as much from each other";
const UNPACED: &str = "no bursts at all, where Linux's senders are not paced";
const SPARED: &str = "COBALT here spares a queue of three packets, each of which waits for the turns of five downloads";

/// Rows grouped by load. A queue with another AQM needs an entry in [`Managed`] and one here for
/// each load. Linux's CAKE is also beside queues with COBALT that do not isolate hosts, and its
/// CoDel also beside paced senders.
const CELLS: [Cell; 22] = [
    up(Managed::Fifo(50), 9.493, [50.98, 57.18, 58.10], 0.56),
    up(Managed::Fifo(1_000), 9.475, [1057.22, 1156.59, 1176.10], 3.76),
    up(Managed::CoDel, 9.469, [7.97, 13.17, 15.13], 1.52),
    up(Managed::Pie, 9.492, [17.11, 25.35, 28.38], 0.6),
    up(Managed::FqCoDel, 9.266, [0.57, 1.68, 2.21], 0.0),
    up(Managed::FqPie, 9.49, [0.64, 1.25, 2.17], 0.0),
    up(Managed::FqCobalt, 9.385, [0.69, 1.94, 2.34], 0.0),
    up(Managed::Isolated, 9.385, [0.69, 1.94, 2.34], 0.0),
    both(Managed::Fifo(1_000), (9.145, [504.37, 755.72, 822.09]), (9.18, [456.20, 729.64, 807.17])),
    CODEL.because(BURSTS),
    both(Managed::Pie, (7.986, [15.71, 119.33, 186.13]), (8.671, [28.82, 122.96, 157.41]))
        .because(ALIKE),
    both(Managed::FqCoDel, (9.103, [0.53, 1.41, 2.13]), (9.053, [0.52, 1.39, 2.12])),
    both(Managed::FqPie, (9.237, [0.63, 1.19, 1.67]), (9.229, [0.61, 1.18, 1.56])),
    both(Managed::FqCobalt, (9.09, [0.70, 1.81, 2.29]), (9.069, [0.70, 1.73, 2.31])),
    both(Managed::Isolated, (9.09, [0.70, 1.81, 2.29]), (9.069, [0.70, 1.73, 2.31])),
    Cell { load: PACED, ..CODEL.because(UNPACED) },
    added(MANY, Managed::FqCoDel, [1.8, 8.6, 9.3]).because(ONE_TURN),
    added(MANY, Managed::Isolated, [1.1, 2.4, 5.4]),
    added(SLOW, Managed::FqCoDel, [9.4, 29.0, 30.0]).because(ONE_TURN),
    added(SLOW, Managed::Isolated, [6.2, 12.0, 14.0]),
    video(Managed::FqCoDel, 809.0, 65.0),
    video(Managed::Isolated, 5.0, 65.0).because(SPARED),
];
const CODEL: Cell =
    both(Managed::CoDel, (8.915, [17.20, 42.14, 66.05]), (8.877, [17.47, 43.21, 64.96]));

struct AqmLinux;

type Measured = Row<Cell, Outcome>;

impl Study for AqmLinux {
    type Cell = Cell;
    type Run = Outcome;

    fn cells(&self) -> Vec<Cell> {
        [&CELLS[..], &defaults::cells()].concat()
    }

    fn run(&self, cell: &Cell, seed: u64) -> Outcome {
        cell.load.run(cell.queueing, seed)
    }

    fn report(&self, rows: &[Measured], seeds: u32) -> Report {
        let (rows, of_defaults) = rows.split_at(CELLS.len());
        let report = Report::new(heading(seeds) + "\n").table("queues", &table(rows));
        defaults::add(report.checks(checks(rows)), of_defaults)
    }
}

impl Measured {
    fn found(&self) -> [Figures; 2] {
        self.load.figures(&self.runs)
    }

    fn timeouts(&self) -> u64 {
        self.runs.iter().map(|run| run.timeouts).sum()
    }

    fn is_balanced(&self) -> bool {
        self.runs.iter().all(|run| run.balanced)
    }
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CUBIC of the model TCP behind each queue, beside a kernel's TCP and Linux's queues, quoted
{} ms there and back, packets of {} bytes and {ETHERNET} more on the line; {} s after a warm-up of {} s, {seeds} seeds
goodput: all connections of that direction, Mbit/s; added: what a packet of the probe waits (of the video, where there
is one), p50/p95/p99 in ms; lost: of its packets, in %; RTO: timeouts of all senders in all runs
",
        ROUND_TRIP.0 / 1_000_000,
        Data::LEN,
        UP.measured.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    )
}

/// Returns name and rate of a load in the first of its rows, and nothing in the others.
fn names(row: &Measured, before: Option<&Measured>) -> [String; 2] {
    if before.is_some_and(|before| before.load == row.load) {
        return [String::new(), String::new()];
    }
    [row.load.name.to_owned(), row.load.megabits.to_string()]
}

fn table(rows: &[Measured]) -> TextTable<11> {
    let mut table = TextTable::new([
        Column::Left("load"),
        Column::Right("Mbit/s"),
        Column::Left("queue"),
        Column::Left("way"),
        Column::Left(""),
        Column::Right("goodput"),
        Column::Right("p50"),
        Column::Right("p95"),
        Column::Right("p99"),
        Column::Right("lost"),
        Column::Right("RTO"),
    ]);
    let before = core::iter::once(None).chain(rows.iter().map(Some));
    for (row, before) in rows.iter().zip(before) {
        let [mut load, mut rate] = names(row, before);
        let [mut queue, mut timeouts] = [row.queueing.to_string(), row.timeouts().to_string()];
        for ((found, linux), way) in row.found().iter().zip(&row.linux).zip(["up", "down"]) {
            if *found == Figures::NONE {
                continue;
            }
            for (way, side, figures) in [(way, "here", found), ("", "Linux", linux)] {
                let [goodput, p50, p95, p99, lost] = figures.cells();
                table.row([
                    &load, &rate, &queue, &way, &side, &goodput, &p50, &p95, &p99, &lost, &timeouts,
                ]);
                for text in [&mut load, &mut rate, &mut queue, &mut timeouts] {
                    text.clear();
                }
            }
        }
    }
    table
}

fn checks(rows: &[Measured]) -> Vec<Check> {
    let mut checks: Vec<Check> = rows.iter().map(check).collect();
    checks.extend(bursts(rows));
    checks.push(Check::accounted_for("rows", rows.iter().map(Measured::is_balanced)));
    checks
}

fn check(row: &Measured) -> Check {
    let name = format!("{} at {} Mbit/s, {}", row.load.name, row.load.megabits, row.queueing);
    let found = row.found();
    let pairs = || found.iter().zip(&row.linux);
    let is_near = pairs().all(|(found, linux)| found.is_near(linux));
    let known = pairs().filter(|(_, linux)| **linux != Figures::NONE);
    let measured: Vec<String> = known.map(|(found, linux)| found.differences(linux)).collect();
    let measured = measured.join("; ");
    if let Some(why) = row.differs {
        return Check::differs(&name, why, measured, is_near);
    }
    let claim = format!(
        "{name}: goodput within {} %, median within {} % or {} ms of Linux's",
        percent(GOODPUT, 0),
        percent(DELAY, 0),
        fixed(DELAY_MILLIS, 0)
    );
    Check::new(claim, measured, is_near)
}

/// Compares the two rows of CoDel with traffic in both directions, which differ only in their
/// bursts.
fn bursts(rows: &[Measured]) -> Option<Check> {
    let of = |load| {
        let mut rows = rows.iter();
        rows.find(|row| row.load == load && row.queueing == Managed::CoDel)
    };
    let (whole, paced) = (of(BOTH)?, of(PACED)?);
    let figures = [paced.found(), whole.linux, whole.found()];
    let median = |figures: &Figures| figures.added.map_or(f64::NAN, |added| added[0]);
    let medians = [0, 1].map(|way| figures.each_ref().map(|figures| median(&figures[way])));
    let words = medians.map(|ms| ms.map(|ms| fixed(ms, 1)).join(", "));
    Some(Check::new(
        "CoDel in one queue, traffic both ways: Linux's median is between those of senders with and without bursts",
        format!("without, Linux, with: {} ms up, {} ms down", words[0], words[1]),
        medians.iter().all(|ms| ms.is_sorted()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use freeboard::sched_core::Nanos;

    const SHORT: Nanos = Nanos::from_secs(20);

    fn short_runs(cell: &Cell, seeds: u64) -> Measured {
        let cell = Cell { load: Load { measured: SHORT, ..cell.load }, ..*cell };
        Row { cell, runs: (1..=seeds).map(|seed| AqmLinux.run(&cell, seed)).collect() }
    }

    /// Goal: a sender with few packets in flight need not wait for its timer, with 24 uploads and
    /// on a slow link. Method: 20 s; a COBALT that also signals to queues of two packets causes 87
    /// and 14 timeouts.
    #[test]
    fn few_packets_in_flight_need_no_timer() {
        for cell in CELLS.iter().filter(|cell| [MANY, SLOW].contains(&cell.load)) {
            let timeouts = short_runs(cell, 1).timeouts();
            assert!(timeouts < 4, "{cell:?}: {timeouts}");
        }
    }

    /// Goal: the results of the complete run also hold for a short one. Method: the rows of four
    /// uploads, two seeds, 20 s.
    #[test]
    fn four_uploads_are_near_those_of_linux() {
        let rows: Vec<Measured> =
            CELLS.iter().filter(|cell| cell.load == UP).map(|cell| short_runs(cell, 2)).collect();
        let checks = checks(&rows);
        assert!(
            checks.iter().all(|check| check.verdict() != crate::experiments::Verdict::Fails),
            "{checks:?}"
        );
        assert!(checks.len() > rows.len(), "{checks:?}");
    }
}
