//! SQF in an ADSL gateway: page load times (Table 1) and the quality of calls (Fig. 1) beside P2P
//! uploads.
//!
//! Sources: `docs/disciplines/sqf.md` names the paper. The scenario is
//! [`crate::experiments::sqf_adsl::scenario`].

mod report;
pub mod scenario;

use super::{Experiment, Report, Row, Study};
use scenario::{Cell, Part, Queueing, Run};

/// The experiment `sim reproduce sqf-adsl`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sqf-adsl",
    quick: 2,
    about: "SQF Table 1 and Fig. 1: pages and calls beside P2P uploads behind FIFO, DRR and SQF",
    runs: &SqfAdsl,
};

/// Virtual queues in the paper.
const VIRTUAL_QUEUES: u32 = 128;
/// More virtual queues than flows.
const MANY: u32 = 512;
const PAPER: [Queueing; 3] =
    [Queueing::Fifo, Queueing::Drr(VIRTUAL_QUEUES), Queueing::Sqf(VIRTUAL_QUEUES)];
/// Uploads in the growing part.
const GROWING: u16 = 200;

struct SqfAdsl;

impl Study for SqfAdsl {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mut add = |part, uploads: &[u16], queues: &[Queueing]| {
            for &uploads in uploads {
                cells.extend(queues.iter().map(|&queueing| Cell { part, uploads, queueing }));
            }
        };
        let [fifo, drr, sqf] = PAPER;
        add(Part::Full, &[8, 20, 40, 60, 200], &[fifo, drr, sqf, Queueing::Smart]);
        add(Part::OnePacket, &[5, 10, 20, 40], &PAPER);
        add(Part::Constant, &[60, 120, 140, 200], &[sqf]);
        add(Part::Constant, &[200], &[Queueing::Sqf(MANY)]);
        add(Part::Growing, &[GROWING], &[drr, sqf, Queueing::Sqf(MANY)]);
        cells
    }

    fn run(&self, cell: &Cell, seed: u64) -> Run {
        scenario::run(cell, seed)
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        report::report(rows, seeds)
    }
}
