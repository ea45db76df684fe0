//! SQF in an ADSL gateway: page load times (Table 1) and the quality of calls (Fig. 1) beside P2P
//! uploads.
//!
//! Sources: `docs/disciplines/sqf.md` names the paper. The scenario is
//! [`crate::experiments::sqf_adsl::scenario`].

mod report;
pub mod scenario;

use super::Experiment;
use super::harness::Functions;
use crate::discipline::UplinkQueue::{self, Drr, Fifo, Smart, Sqf};
use report::report;
use scenario::{CONSTANT, Cell, FULL, GROWING, ONE_PACKET, run};

/// The experiment `sim reproduce sqf-adsl`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sqf-adsl",
    quick: 2,
    about: "SQF Table 1 and Fig. 1: pages and calls beside P2P uploads behind FIFO, DRR and SQF",
    runs: &Functions { cells, run, report },
};

/// Virtual queues in the paper.
const VIRTUAL_QUEUES: u32 = 128;
const DRR: UplinkQueue = Drr(VIRTUAL_QUEUES);
const SQF: UplinkQueue = Sqf(VIRTUAL_QUEUES);
/// More virtual queues than flows.
const SQF_MANY: UplinkQueue = Sqf(512);
/// Largest number of uploads.
const MOST: u16 = 200;
/// Numbers of uploads that fill the buffer.
const LOADS: [u16; 5] = [8, 20, 40, 60, MOST];
/// Numbers of uploads with one packet each.
const ONE_PACKET_LOADS: [u16; 4] = [5, 10, 20, 40];

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |part, uploads: &[u16], queues: &[UplinkQueue]| {
        let row = |&uploads| queues.iter().map(move |&queue| Cell { part, uploads, queue });
        cells.extend(uploads.iter().flat_map(row));
    };
    add(FULL, &LOADS, &[Fifo, DRR, SQF, Smart]);
    add(ONE_PACKET, &ONE_PACKET_LOADS, &[Fifo, DRR, SQF]);
    add(CONSTANT, &[60, 120, 140, MOST], &[SQF]);
    add(CONSTANT, &[MOST], &[SQF_MANY]);
    add(GROWING, &[MOST], &[DRR, SQF, SQF_MANY]);
    cells
}
