//! L4S inside flow and host isolation: ECT(1) in queues of its own with a shallow threshold, a
//! Prague-like sender beside CUBIC, NQB traffic beside both, and `DualPI2` for comparison.
//!
//! The scenario is [`crate::experiments::l4s::scenario`]. No figures of other systems are compared:
//! the checks follow from the guarantees of each queue.

mod report;
pub mod scenario;

use std::thread;

use freeboard::sched_core::Nanos;

use super::{Experiment, Report};
use crate::measure::goodput::Loss;
use crate::progress::Progress;
use scenario::{Load, Outcome, Queueing, Setup, TrafficReport};

/// The experiment `sim reproduce l4s`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "l4s",
    quick: 2,
    about: "a Prague-like sender, CUBIC, a call and unresponsive ECT(1) traffic: isolated queues and DualPI2",
    runs: super::Runs::Whole(run),
};

const MEASURED: Nanos = Nanos::from_secs(20);

const fn load(name: &'static str, prague: u8, cubic: u8) -> Load {
    Load { name, prague, cubic, shares_host: false, deaf: false }
}

const ALONE: Load = load("1 Prague", 1, 0);
const SAME_HOST: Load = Load { shares_host: true, ..load("1 Prague and 1 CUBIC of a host", 1, 1) };
const MANY_CLASSIC: Load = load("1 Prague; a host of 4 CUBIC", 1, 4);
const MANY_SCALABLE: Load = load("4 Prague; a host of 1 CUBIC", 4, 1);
const DEAF: Load = Load { deaf: true, ..load("1 Prague; 1 CUBIC; 60 Mbit/s deaf", 1, 1) };
const LOADS: [Load; 5] = [ALONE, SAME_HOST, MANY_CLASSIC, MANY_SCALABLE, DEAF];

/// All runs of one queue with one load.
#[derive(Clone, Debug)]
struct Measured {
    queueing: Queueing,
    load: Load,
    /// Results of all runs.
    prague: TrafficReport,
    cubic: TrafficReport,
    call: TrafficReport,
    deaf: TrafficReport,
    /// Fraction of segments with a mark.
    marked: f64,
    /// Measured seconds of all runs.
    seconds: f64,
    balanced: bool,
}

impl Measured {
    /// Returns the goodput in Mbit/s.
    fn rate(&self, of: &TrafficReport) -> f64 {
        of.bytes as f64 * 8.0 / 1e6 / self.seconds
    }
}

impl TrafficReport {
    fn join(&mut self, other: &Self) {
        self.added.extend(other.added.samples().iter().copied());
        self.bytes += other.bytes;
        let Loss { sent, lost } = other.loss;
        self.loss = Loss { sent: self.loss.sent + sent, lost: self.loss.lost + lost };
    }

    /// Returns a quantile of the queueing delay in milliseconds.
    fn quantile(&self, per_mille: u32) -> f64 {
        self.added.quantile(per_mille).map_or(f64::NAN, |delay| delay.0 as f64 / 1e6)
    }
}

fn run(seeds: u32, progress: &Progress) -> Report {
    run_loads(&LOADS, MEASURED, seeds, progress)
}

fn run_loads(loads: &[Load], measured: Nanos, seeds: u32, progress: &Progress) -> Report {
    let cells = loads.iter().flat_map(|&load| Queueing::ALL.map(|queueing| (load, queueing)));
    let cells: Vec<_> = cells.collect();
    progress.expect(cells.len() as u64 * u64::from(seeds));
    // Runs are independent of each other.
    let rows: Vec<Measured> = thread::scope(|scope| {
        let begin = |(load, queueing)| {
            scope.spawn(move || measure(load, queueing, measured, seeds, progress))
        };
        let runs: Vec<_> = cells.into_iter().map(begin).collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    report::report(&rows, measured, seeds)
}

fn measure(
    load: Load,
    queueing: Queueing,
    measured: Nanos,
    seeds: u32,
    progress: &Progress,
) -> Measured {
    let one = |seed| {
        let outcome = scenario::run(&Setup { queueing, load, measured, seed });
        progress.done();
        outcome.expect("lengths and parameters are within their ranges")
    };
    let outcomes: Vec<Outcome> = (1..=u64::from(seeds)).map(one).collect();
    let all = |of: fn(&Outcome) -> &TrafficReport| {
        outcomes.iter().fold(TrafficReport::default(), |mut sum, run| {
            sum.join(of(run));
            sum
        })
    };
    let [segments, marks] = outcomes
        .iter()
        .fold([0; 2], |[all, marked], run| [all + run.marks[0], marked + run.marks[1]]);
    Measured {
        queueing,
        load,
        prague: all(|run| &run.prague),
        cubic: all(|run| &run.cubic),
        call: all(|run| &run.call),
        deaf: all(|run| &run.deaf),
        marked: marks as f64 / segments as f64,
        seconds: f64::from(seeds) * measured.0 as f64 / 1e9,
        balanced: outcomes.iter().all(|run| run.recount.is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::effort::effort;

    /// Goal: the results of the complete run also hold for a short one. Method: all loads, 4 s, two
    /// seeds or one.
    #[test]
    fn short_runs_show_what_long_ones_do() {
        let report = run_loads(&LOADS, Nanos::from_secs(4), effort(1, 2), &Progress::hidden());
        assert!(report.holds(), "{report}");
    }
}
