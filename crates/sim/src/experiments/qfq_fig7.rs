//! QFQ Fig. 7 and Table II: delays of flows with reserved rates across three routers.
//!
//! The scenario, and its assumptions where the paper is silent, is
//! [`crate::experiments::qfq_fig7::scenario`]. The figures of the paper's Table II are not in the
//! text we have. The comparison is with its shape, as stated in the text, and with the figures of a
//! second model of the scenario.

mod report;
pub mod scenario;

use std::thread;

use freeboard::sched_core::FlowId;

use super::{Experiment, Report};
use crate::discipline::Weighted;
use crate::measure::delay::Delays;
use crate::measure::estimate::Estimate;
use crate::measure::goodput::Loss;
use crate::progress::Progress;
use scenario::{Crossing, OBSERVED, Outcome, Setup, Starts};

/// The experiment `sim reproduce qfq-fig7`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "qfq-fig7",
    quick: 3,
    about: "QFQ Fig. 7, Table II: delays of reserved flows over two busy hops",
    runs: super::Runs::Whole(run),
};

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    setup: Setup,
    /// True if it is drawn.
    drawn: bool,
}

const DRR: Weighted = Weighted::Drr { smallest_quantum: 1_500 };

/// Returns the rows of the table: first those of the paper, then those that vary an assumption.
fn rows() -> Vec<Row> {
    let with = |discipline| Setup::new(discipline, 0);
    let main = |name, discipline| Row { name, setup: with(discipline), drawn: true };
    let variant = |name, setup| Row { name, setup, drawn: false };
    let quantum = |smallest_quantum| with(Weighted::Drr { smallest_quantum });
    let one_hop = |discipline| Setup { crossing: Crossing::OneEach, ..with(discipline) };
    let (drr, qfq, wf2q) = (with(DRR), with(Weighted::Qfq), with(Weighted::Wf2q));
    vec![
        main("FIFO", Weighted::Fifo),
        main("DRR", DRR),
        main("QFQ", Weighted::Qfq),
        main("WF2Q+", Weighted::Wf2q),
        variant("DRR, quantum 512", quantum(512)),
        variant("DRR, quantum 200", quantum(200)),
        variant("DRR, queues of 1,000", Setup { best_effort_queue: 1_000, ..drr }),
        variant("QFQ, packets of 210", Setup { packet: 210, ..qfq }),
        variant("WF2Q+, packets of 210", Setup { packet: 210, ..wf2q }),
        variant("QFQ, weights in kbit/s", Setup { line_weight: 10_000, ..qfq }),
        variant("QFQ, starts at random", Setup { starts: Starts::Spread, ..qfq }),
        variant("WF2Q+, starts at random", Setup { starts: Starts::Spread, ..wf2q }),
        variant("DRR, one hop each", one_hop(DRR)),
        variant("QFQ, one hop each", one_hop(Weighted::Qfq)),
        variant("WF2Q+, one hop each", one_hop(Weighted::Wf2q)),
    ]
}

/// Results of the runs of one row.
#[derive(Clone, Debug)]
struct Measured {
    row: Row,
    flows: [ObservedFlow; OBSERVED],
    /// Largest lag relative to its bound, over all constant-rate flows and all runs.
    of_bound: Option<f64>,
}

/// Results of an observed flow, F0 or F1.
#[derive(Clone, Debug)]
struct ObservedFlow {
    /// Delays of all runs.
    delays: Delays,
    /// Estimate for the mean of each run, in milliseconds; likewise for standard deviation and
    /// maximum.
    mean: Estimate,
    deviation: Estimate,
    max: Estimate,
    /// Largest lag of any run, in milliseconds; see [`Outcome::lags`].
    lag: f64,
    /// Bound of the lag at one hop, in milliseconds.
    t_wfi: Option<f64>,
    loss: Loss,
}

fn run(seeds: u32, progress: &Progress) -> Report {
    let rows = rows();
    progress.expect(rows.len() as u64 * u64::from(seeds));
    // Runs are independent of each other.
    let measured: Vec<Measured> = thread::scope(|scope| {
        let runs: Vec<_> = rows
            .into_iter()
            .map(|row| scope.spawn(move || measure(row, seeds, progress)))
            .collect();
        runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
    });
    report::report(&measured, seeds)
}

fn measure(row: Row, seeds: u32, progress: &Progress) -> Measured {
    let one = |seed| {
        let setup = Setup { seed, ..row.setup };
        let outcome = scenario::run(&setup);
        progress.done();
        outcome.expect("weights, lengths and quanta are within their ranges")
    };
    let outcomes: Vec<Outcome> = (1..=u64::from(seeds)).map(one).collect();
    let bound = |flow: usize| {
        let bound = row.setup.t_wfi(FlowId(u32::try_from(flow).ok()?))?;
        Some(bound.0 as f64 / 1e6)
    };
    let flow = |number: usize| {
        let each = |of: &dyn Fn(&Delays) -> Option<f64>| {
            let values: Vec<f64> =
                outcomes.iter().filter_map(|outcome| of(&outcome.delays[number])).collect();
            Estimate::of(&values).expect("both flows deliver packets in every run")
        };
        let lags = outcomes.iter().filter_map(|outcome| outcome.lags.get(number)).max();
        let losses = outcomes.iter().filter_map(|outcome| outcome.losses.get(number));
        ObservedFlow {
            delays: outcomes.iter().flat_map(|o| o.delays[number].samples().to_vec()).collect(),
            mean: each(&|delays| Some(delays.summary()?.mean.0 as f64 / 1e6)),
            deviation: each(&|delays| Some(delays.deviation()? / 1e6)),
            max: each(&|delays| Some(delays.summary()?.max.0 as f64 / 1e6)),
            lag: lags.map_or(f64::NAN, |&lag| lag as f64 / 1e6),
            t_wfi: bound(number),
            loss: losses.fold(Loss::default(), |sum, loss| Loss {
                sent: sum.sent + loss.sent,
                lost: sum.lost + loss.lost,
            }),
        }
    };
    let lags = outcomes.iter().flat_map(|outcome| outcome.lags.iter().enumerate());
    let ratios = lags.filter_map(|(number, &lag)| Some(lag as f64 / 1e6 / bound(number)?));
    Measured { row, flows: core::array::from_fn(flow), of_bound: ratios.reduce(f64::max) }
}
