//! Model TCP behind queues with AQMs, compared with measurements of Linux in equal scenarios.
//!
//! The scenario is [`crate::experiments::aqm_linux::scenario`]; the figures of Linux are quoted. A
//! row matches if its goodput is within 3 % and its median delay within 30 % or 1 ms. A row that
//! does not match states the reason, and a check fails once the row no longer needs it.

mod defaults;
mod report;
pub mod scenario;

use core::num::NonZeroU32;
use std::thread;

use freeboard::sched_core::{Ecn, Nanos};

use super::{Experiment, Report};
use crate::measure::delay::Delays;
use crate::measure::goodput::Loss;
use crate::progress::Progress;
use scenario::{FlowReport, Outcome, Queueing, Setup};

/// The experiment `sim reproduce aqm-linux`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "aqm-linux",
    quick: 2,
    about: "model TCP behind queues with AQMs, compared with the kernel's TCP and queues",
    runs: super::Runs::Whole(run),
};

const MEASURED: Nanos = Nanos::from_secs(50);

/// Maximum relative difference of goodput from Linux.
const GOODPUT: f64 = 0.03;
/// Maximum difference of a median delay from Linux: relative, or else in milliseconds.
const DELAY: f64 = 0.3;
const DELAY_MILLIS: f64 = 1.0;

/// Median, 95th and 99th percentile in milliseconds.
type Quantiles = [f64; 3];

/// Quantiles in thousandths.
const QUANTILES: [u32; 3] = [500, 950, 990];

/// A traffic mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    name: &'static str,
    megabits: NonZeroU32,
    up: u8,
    down: u8,
    video: bool,
    paced: bool,
    deaf: Option<Ecn>,
}

const fn load(name: &'static str, megabits: u32, up: u8, down: u8) -> Load {
    let megabits = NonZeroU32::new(megabits).expect("a line has a rate");
    Load { name, megabits, up, down, video: false, paced: false, deaf: None }
}

const UP: Load = load("4 up", 10, 4, 0);
const BOTH: Load = load("4 up, 4 down", 10, 4, 4);
/// `BOTH` without bursts.
const PACED: Load = Load { paced: true, ..load("4 up, 4 down, paced", 10, 4, 4) };
const MANY: Load = load("24 up", 10, 24, 0);
const SLOW: Load = load("4 up", 1, 4, 0);
const VIDEO: Load = Load { video: true, ..load("5 down, video", 10, 0, 5) };

/// Figures of one direction, of the simulator or, where known, of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    /// Goodput of all connections, in Mbit/s.
    goodput: Option<f64>,
    added: Option<Quantiles>,
    /// Loss of the probe or the video, in percent.
    loss: Option<f64>,
}

const fn probe(goodput: f64, added: Quantiles) -> Figures {
    Figures { goodput: Some(goodput), added: Some(added), loss: None }
}

const fn lossy(goodput: f64, added: Quantiles, loss: f64) -> Figures {
    Figures { loss: Some(loss), ..probe(goodput, added) }
}

const fn added(added: Quantiles) -> Figures {
    Figures { goodput: None, added: Some(added), loss: None }
}

/// Figures of the video: only its median is known.
const fn median(p50: f64, loss: f64) -> Figures {
    Figures { goodput: None, added: Some([p50, f64::NAN, f64::NAN]), loss: Some(loss) }
}

/// One queue under one load, and the measurement of Linux.
#[derive(Clone, Copy, Debug)]
struct Row {
    load: Load,
    queueing: Queueing,
    /// Linux up and down. The video is in the second.
    linux: [Figures; 2],
    /// Reason for a larger difference from Linux than is allowed.
    differs: Option<&'static str>,
}

const fn row(load: Load, queueing: Queueing, linux: [Figures; 2]) -> Row {
    Row { load, queueing, linux, differs: None }
}

const NONE: Figures = Figures { goodput: None, added: None, loss: None };

impl Row {
    const fn because(self, why: &'static str) -> Self {
        Self { differs: Some(why), ..self }
    }
}

/// Of queues with sparse flows first (`docs/decisions/0018-one-turn-a-round-in-pieces.md`).
const ONE_TURN: &str =
    "an upload that returns has the rest of its turn here, and in Linux a new one before the probe";

/// Rows grouped by load. A queue with another AQM needs an entry in [`Queueing`] and one here for
/// each load.
const ROWS: &[Row] = &[
    row(UP, Queueing::Fifo(50), [lossy(9.493, [50.98, 57.18, 58.10], 0.56), NONE]),
    row(UP, Queueing::Fifo(1_000), [lossy(9.475, [1057.22, 1156.59, 1176.10], 3.76), NONE]),
    row(UP, Queueing::CoDel, [lossy(9.469, [7.97, 13.17, 15.13], 1.52), NONE]),
    row(UP, Queueing::Pie, [lossy(9.492, [17.11, 25.35, 28.38], 0.6), NONE]),
    row(UP, Queueing::FqCoDel, [lossy(9.266, [0.57, 1.68, 2.21], 0.0), NONE]),
    row(UP, Queueing::FqPie, [lossy(9.49, [0.64, 1.25, 2.17], 0.0), NONE]),
    row(UP, Queueing::FqCobalt, [lossy(9.385, [0.69, 1.94, 2.34], 0.0), NONE]),
    row(UP, Queueing::Isolated, [lossy(9.385, [0.69, 1.94, 2.34], 0.0), NONE]),
    row(
        BOTH,
        Queueing::Fifo(1_000),
        [probe(9.145, [504.37, 755.72, 822.09]), probe(9.18, [456.20, 729.64, 807.17])],
    ),
    row(
        BOTH,
        Queueing::CoDel,
        [probe(8.915, [17.20, 42.14, 66.05]), probe(8.877, [17.47, 43.21, 64.96])],
    )
    .because("bursts: acknowledgements that waited behind data return together, and data follows in one piece"),
    row(
        BOTH,
        Queueing::Pie,
        [probe(7.986, [15.71, 119.33, 186.13]), probe(8.671, [28.82, 122.96, 157.41])],
    )
    .because("Linux's two directions, which are alike, differ by as much from each other"),
    row(
        BOTH,
        Queueing::FqCoDel,
        [probe(9.103, [0.53, 1.41, 2.13]), probe(9.053, [0.52, 1.39, 2.12])],
    ),
    row(
        BOTH,
        Queueing::FqPie,
        [probe(9.237, [0.63, 1.19, 1.67]), probe(9.229, [0.61, 1.18, 1.56])],
    ),
    row(
        BOTH,
        Queueing::FqCobalt,
        [probe(9.09, [0.70, 1.81, 2.29]), probe(9.069, [0.70, 1.73, 2.31])],
    ),
    row(
        BOTH,
        Queueing::Isolated,
        [probe(9.09, [0.70, 1.81, 2.29]), probe(9.069, [0.70, 1.73, 2.31])],
    ),
    row(
        PACED,
        Queueing::CoDel,
        [probe(8.915, [17.20, 42.14, 66.05]), probe(8.877, [17.47, 43.21, 64.96])],
    )
    .because("no bursts at all, where Linux's senders are not paced"),
    row(MANY, Queueing::FqCoDel, [added([1.8, 8.6, 9.3]), NONE]).because(ONE_TURN),
    row(MANY, Queueing::Isolated, [added([1.1, 2.4, 5.4]), NONE]),
    row(SLOW, Queueing::FqCoDel, [added([9.4, 29.0, 30.0]), NONE]).because(ONE_TURN),
    row(SLOW, Queueing::Isolated, [added([6.2, 12.0, 14.0]), NONE]),
    row(VIDEO, Queueing::FqCoDel, [NONE, median(809.0, 65.0)]),
    row(VIDEO, Queueing::Isolated, [NONE, median(5.0, 65.0)]).because(
        "COBALT here spares a queue of three packets, each of which waits for the turns of five downloads",
    ),
];

/// All runs of one row.
#[derive(Clone, Debug)]
struct Measured {
    row: Row,
    /// Figures up and down.
    found: [Figures; 2],
    /// Median wait of the unresponsive flow, in ms.
    deaf: f64,
    timeouts: u64,
    balanced: bool,
}

fn run(seeds: u32, progress: &Progress) -> Report {
    let defaults = defaults::rows();
    progress.expect((ROWS.len() + defaults.len()) as u64 * u64::from(seeds));
    let report = run_rows(ROWS, MEASURED, seeds, progress);
    defaults::add(report, &measure_all(&defaults, MEASURED, seeds, progress))
}

fn run_rows(rows: &[Row], measured: Nanos, seeds: u32, progress: &Progress) -> Report {
    report::report(&measure_all(rows, measured, seeds, progress), seeds)
}

fn measure_all(rows: &[Row], measured: Nanos, seeds: u32, progress: &Progress) -> Vec<Measured> {
    // Runs are independent of each other.
    thread::scope(|scope| {
        let begin = |&row| scope.spawn(move || measure(row, measured, seeds, progress));
        let runs: Vec<_> = rows.iter().map(begin).collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    })
}

fn measure(row: Row, measured: Nanos, seeds: u32, progress: &Progress) -> Measured {
    let Load { megabits, up, down, video, paced, deaf, .. } = row.load;
    let one = |seed| {
        let queueing = row.queueing;
        let setup = Setup { queueing, megabits, up, down, video, paced, deaf, measured, seed };
        let outcome = scenario::run(&setup);
        progress.done();
        outcome.expect("lengths and parameters are within their ranges")
    };
    let outcomes: Vec<Outcome> = (1..=u64::from(seeds)).map(one).collect();
    let found = [0, 1].map(|way| {
        let count = [up, down][way];
        let seen: Vec<&FlowReport> = outcomes
            .iter()
            .map(|run| if video && way == 1 { &run.video } else { &run.probes[way] })
            .collect();
        let delays: Delays = seen.iter().flat_map(|s| s.added.samples().iter().copied()).collect();
        let of = |of| delays.quantile(of).map_or(f64::INFINITY, |delay| delay.0 as f64 / 1e6);
        let loss = seen.iter().fold(Loss::default(), |sum, s| Loss {
            sent: sum.sent + s.loss.sent,
            lost: sum.lost + s.loss.lost,
        });
        let bits = outcomes.iter().flat_map(|run| &run.bytes[way]).map(|bytes| bytes * 8);
        let goodput = bits.sum::<u64>() as f64 / f64::from(seeds) / (measured.0 as f64 / 1e3);
        let is_there = count > 0;
        Figures {
            goodput: is_there.then_some(goodput),
            added: is_there.then(|| QUANTILES.map(of)),
            loss: is_there.then(|| loss.ratio() * 100.0),
        }
    });
    let deaf = outcomes.iter().flat_map(|run| run.deaf.added.samples().iter().copied());
    let deaf = deaf.collect::<Delays>().quantile(500);
    Measured {
        row,
        found,
        deaf: deaf.map_or(f64::NAN, |delay| delay.0 as f64 / 1e6),
        timeouts: outcomes.iter().map(|run| run.timeouts).sum(),
        balanced: outcomes.iter().all(|run| run.recount.is_ok()),
    }
}

impl Figures {
    /// Returns true if the goodput is close to that of Linux, or Linux's is unknown.
    fn has_goodput_of(&self, linux: &Self) -> bool {
        let (Some(found), Some(linux)) = (self.goodput, linux.goodput) else { return true };
        (found - linux).abs() <= GOODPUT * linux
    }

    /// Returns true if the median delay is close to that of Linux, or Linux's is unknown.
    fn has_delay_of(&self, linux: &Self) -> bool {
        let (Some([found, ..]), Some([linux, ..])) = (self.added, linux.added) else { return true };
        (found - linux).abs() <= (DELAY * linux).max(DELAY_MILLIS)
    }
}

impl Measured {
    /// Returns true if goodput and median delay are close to those of Linux.
    fn is_near(&self) -> bool {
        let pairs = || self.found.iter().zip(&self.row.linux);
        pairs().all(|(found, linux)| found.has_goodput_of(linux) && found.has_delay_of(linux))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(linux: Figures, found: Figures) -> bool {
        let row = row(UP, Queueing::CoDel, [linux, NONE]);
        Measured { row, found: [found, NONE], deaf: 0.0, timeouts: 0, balanced: true }.is_near()
    }

    #[test]
    fn a_row_is_near_by_goodput_and_by_median() {
        let linux = probe(10.0, [10.0, 20.0, 30.0]);
        assert!(is_near(linux, probe(10.29, [12.9, 99.0, 99.0])));
        assert!(is_near(linux, probe(9.71, [7.1, 0.0, 0.0])));
        assert!(!is_near(linux, probe(10.31, [10.0, 20.0, 30.0])));
        assert!(!is_near(linux, probe(9.69, [10.0, 20.0, 30.0])));
        assert!(!is_near(linux, probe(10.0, [13.1, 20.0, 30.0])));
        assert!(!is_near(linux, probe(10.0, [6.9, 20.0, 30.0])));
        let short = added([1.0, 2.0, 3.0]);
        assert!(is_near(short, probe(5.0, [1.9, 2.0, 3.0])), "within a millisecond");
        assert!(!is_near(short, probe(5.0, [2.1, 2.0, 3.0])));
    }

    /// Goal: a sender with few packets in flight need not wait for its timer, with 24 uploads and
    /// on a slow link. Method: 20 s; a COBALT that also signals to queues of two packets causes 87
    /// and 14 timeouts.
    #[test]
    fn few_packets_in_flight_need_no_timer() {
        for load in [MANY, SLOW] {
            let rows: Vec<Row> = ROWS.iter().filter(|row| row.load == load).copied().collect();
            for row in rows {
                let found = measure(row, Nanos::from_secs(20), 1, &Progress::hidden());
                assert!(found.timeouts < 4, "{load:?} {row:?}: {}", found.timeouts);
            }
        }
    }

    /// Goal: the results of the complete run also hold for a short one. Method: the rows of four
    /// uploads, two seeds, 20 s.
    #[test]
    fn four_uploads_are_near_those_of_linux() {
        let rows: Vec<Row> = ROWS.iter().filter(|row| row.load == UP).copied().collect();
        let report = run_rows(&rows, Nanos::from_secs(20), 2, &Progress::hidden());
        assert!(report.holds(), "{report}");
        assert!(report.checks.len() > rows.len(), "{report}");
    }
}
