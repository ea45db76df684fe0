//! Scheduling flows by age: the gain of short flows and the loss of long ones if the least served
//! go first.
//!
//! The first part is one link without round-trip times, flows of bounded Pareto sizes, and the flow
//! schedulers of the library with packets that are small compared with a flow. It is compared with
//! queueing theory for processor sharing, two levels, and least attained service. The second part
//! is transfers of model TCP over a link of 1 or 10 Gbit/s.
//!
//! The scenarios are `flow_level` and `transfers`; what the flow schedulers
//! promise is in `docs/disciplines/age.md`.

mod flow_level;
mod report;
mod transfer_report;
mod transfers;

use std::thread;

use super::{Experiment, Report};
use crate::measure::estimate::Estimate;
use crate::progress::Progress;
use flow_level::{Outcome, Sharing};

/// The experiment `sim reproduce age-based`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "age-based",
    about: "flows by age: mean times under processor sharing, two levels and least attained service; TCP transfers",
    runs: super::Runs::Whole(run),
};

/// Number of flows in a run.
const FLOWS: u32 = 400_000;

const SHARINGS: [Sharing; 8] = [
    Sharing::Equal,
    Sharing::TwoLevels(3),
    Sharing::TwoLevels(5),
    Sharing::TwoLevels(10),
    Sharing::TwoLevels(20),
    Sharing::TwoLevels(50),
    Sharing::Least,
    Sharing::Learned,
];

/// Loads of the reference table, and the relative excess of its sample's mean size over the
/// distribution's. Under processor sharing the table has 6.08, 15.8 and 33.8 where `E[S]/(1 − ρ)`
/// is 5.94, 14.85 and 29.70. With sizes 1.2 % longer, and a load higher by as much, the formula
/// gives 6.08, 15.8 and 33.7.
const LOADS: [f64; 3] = [0.5, 0.8, 0.9];
const EXCESS: f64 = 0.012;

/// A cell of the table: all runs with one scheduler at one load.
#[derive(Clone, Copy, Debug)]
struct Cell {
    sharing: Sharing,
    /// Index in [`LOADS`].
    load: usize,
    /// True if the load is that of the reference table's sample.
    carried: bool,
    mean: Estimate,
    slowdown: Estimate,
    of_long: Estimate,
    threshold: Estimate,
}

fn run(seeds: u32, progress: &Progress) -> Report {
    let all = || SHARINGS.into_iter().flat_map(|sharing| [false, true].map(|at| (sharing, at)));
    let cells: Vec<_> = all().flat_map(|cell| [0, 1, 2].map(|load| (cell, load))).collect();
    progress.expect((cells.len() as u64 + transfer_report::runs()) * u64::from(seeds));
    // Runs are independent of each other.
    let measured: Vec<Cell> = thread::scope(|scope| {
        let of = |((sharing, carried), load)| {
            scope.spawn(move || measure(sharing, carried, load, seeds, progress))
        };
        let runs: Vec<_> = cells.into_iter().map(of).collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    let report = report::report(&measured, seeds);
    let transfers = transfer_report::measure(seeds, progress);
    let report = report.with_text(&format!("\n{}", transfer_report::text(&transfers, seeds)));
    report.checks(transfer_report::checks(&transfers))
}

fn measure(sharing: Sharing, carried: bool, load: usize, seeds: u32, progress: &Progress) -> Cell {
    let rho = LOADS[load] * if carried { 1.0 + EXCESS } else { 1.0 };
    let one = |seed| {
        let outcome = flow_level::run(sharing, rho, FLOWS, seed);
        progress.done();
        outcome
    };
    let outcomes: Vec<Outcome> = (1..=u64::from(seeds)).map(one).collect();
    let each = |of: fn(&Outcome) -> f64| {
        let values: Vec<f64> = outcomes.iter().map(of).collect();
        Estimate::of(&values).expect("there are runs")
    };
    Cell {
        sharing,
        load,
        carried,
        mean: each(|outcome| outcome.mean),
        slowdown: each(|outcome| outcome.slowdown),
        of_long: each(|outcome| outcome.of_long),
        threshold: each(|outcome| outcome.threshold),
    }
}
