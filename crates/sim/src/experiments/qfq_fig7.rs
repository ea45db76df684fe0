//! QFQ Fig. 7 and Table II: delays of flows with reserved rates across three routers.
//!
//! The scenario, and its assumptions where the paper is silent, is [`crate::reserved`]. The figures
//! of the paper's Table II are not in the text we have. The comparison is with its shape, as stated
//! in the text, and with the figures of a second model of the scenario.

mod report;

use serde::{Deserialize, Serialize};

use freeboard::sched_core::FlowId;

use super::{Experiment, Report, Row, Study};
use crate::discipline::Weighted;
use crate::measure::delay::Delays;
use crate::measure::estimate::Estimate;
use crate::measure::goodput::Loss;
use crate::reserved::{self, Crossing, OBSERVED, Outcome, Setup, Starts};

/// The experiment `sim reproduce qfq-fig7`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "qfq-fig7",
    quick: 3,
    about: "QFQ Fig. 7, Table II: delays of reserved flows over two busy hops",
    runs: &Fig7,
};

struct Fig7;

/// A scheduler with its name in the tables.
type Cell = (&'static str, Setup);

const DRR: Weighted = Weighted::Drr { smallest_quantum: 1_500 };

/// Number of rows, the first ones, that are the paper's and are drawn. The others vary an
/// assumption.
const OF_PAPER: usize = 4;

/// Results of a run for the observed flows, F0 and F1.
#[derive(Serialize, Deserialize)]
struct Run {
    delays: [Delays; OBSERVED],
    losses: [Loss; OBSERVED],
    /// Largest lag of each in nanoseconds; see [`Outcome::lags`].
    lags: [i64; OBSERVED],
    /// Largest lag relative to its bound, over all constant-rate flows.
    of_bound: Option<f64>,
}

/// Returns the bound of the lag at one hop, in milliseconds.
fn t_wfi(setup: &Setup, flow: usize) -> Option<f64> {
    let bound = setup.t_wfi(FlowId(u32::try_from(flow).ok()?))?;
    Some(bound.0 as f64 / 1e6)
}

impl Row<Cell, Run> {
    fn name(&self) -> &'static str {
        self.0
    }

    /// Returns the delays of a flow in all runs.
    fn flow_delays(&self, flow: usize) -> Delays {
        self.delays(|run| &run.delays[flow])
    }

    fn loss(&self, flow: usize) -> Loss {
        self.runs.iter().map(|run| run.losses[flow]).sum()
    }

    /// Returns the largest lag of a flow in milliseconds.
    fn lag(&self, flow: usize) -> f64 {
        let most = self.runs.iter().map(|run| run.lags[flow]).max();
        most.map_or(f64::NAN, |lag| lag as f64 / 1e6)
    }

    fn t_wfi(&self, flow: usize) -> Option<f64> {
        t_wfi(&self.1, flow)
    }

    fn of_bound(&self) -> Option<f64> {
        self.runs.iter().filter_map(|run| run.of_bound).reduce(f64::max)
    }

    /// Returns estimates for mean, standard deviation and maximum of the delays of a run, in
    /// milliseconds.
    fn figures(&self, flow: usize) -> [Estimate; 3] {
        let mean = |delays: &Delays| Some(delays.summary()?.mean.0 as f64 / 1e6);
        let max = |delays: &Delays| Some(delays.summary()?.max.0 as f64 / 1e6);
        let deviation = |delays: &Delays| Some(delays.deviation()? / 1e6);
        let estimate = |of: &dyn Fn(&Delays) -> Option<f64>| {
            let values: Vec<f64> =
                self.runs.iter().filter_map(|run| of(&run.delays[flow])).collect();
            Estimate::of(&values).expect("both flows deliver packets in every run")
        };
        [estimate(&mean), estimate(&deviation), estimate(&max)]
    }
}

impl Study for Fig7 {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        let quantum = |smallest_quantum| Setup::new(Weighted::Drr { smallest_quantum });
        let one_hop = |discipline| Setup { crossing: Crossing::OneEach, ..Setup::new(discipline) };
        let [drr, qfq, wf2q] = [DRR, Weighted::Qfq, Weighted::Wf2q].map(Setup::new);
        vec![
            ("FIFO", Setup::new(Weighted::Fifo)),
            ("DRR", drr),
            ("QFQ", qfq),
            ("WF2Q+", wf2q),
            ("DRR, quantum 512", quantum(512)),
            ("DRR, quantum 200", quantum(200)),
            ("DRR, queues of 1,000", Setup { best_effort_queue: 1_000, ..drr }),
            ("QFQ, packets of 210", Setup { packet: 210, ..qfq }),
            ("WF2Q+, packets of 210", Setup { packet: 210, ..wf2q }),
            ("QFQ, weights in kbit/s", Setup { line_weight: 10_000, ..qfq }),
            ("QFQ, starts at random", Setup { starts: Starts::Spread, ..qfq }),
            ("WF2Q+, starts at random", Setup { starts: Starts::Spread, ..wf2q }),
            ("DRR, one hop each", one_hop(DRR)),
            ("QFQ, one hop each", one_hop(Weighted::Qfq)),
            ("WF2Q+, one hop each", one_hop(Weighted::Wf2q)),
        ]
    }

    fn run(&self, (_, setup): &Cell, seed: u64) -> Run {
        let Outcome { delays, lags, losses, recount } = reserved::run(setup, seed)
            .expect("weights, lengths and quanta are within their ranges");
        recount.expect("every packet is accounted for");
        let ratio = |(flow, &lag): (usize, &i64)| Some(lag as f64 / 1e6 / t_wfi(setup, flow)?);
        Run {
            delays,
            losses: [losses[0], losses[1]],
            lags: [lags[0], lags[1]],
            of_bound: lags.iter().enumerate().filter_map(ratio).reduce(f64::max),
        }
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        report::report(rows, seeds)
    }
}
