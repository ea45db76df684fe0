//! SQF in an ADSL gateway: page load times (Table 1) and the quality of calls (Fig. 1) beside P2P
//! uploads.
//!
//! Sources: `docs/disciplines/sqf.md` names the paper. The scenario is
//! [`crate::experiments::sqf_adsl::scenario`].

mod report;
pub mod scenario;

use core::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Experiment, Report};
use crate::progress::Progress;
use scenario::{Cell, Part, Queueing, Run};

/// The experiment `sim reproduce sqf-adsl`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sqf-adsl",
    about: "SQF Table 1 and Fig. 1: pages and calls beside P2P uploads behind FIFO, DRR and SQF",
    run: reproduce,
};

/// Virtual queues in the paper.
const VIRTUAL_QUEUES: u32 = 128;
/// More virtual queues than flows.
const MANY: u32 = 512;
const PAPER: [Queueing; 3] =
    [Queueing::Fifo, Queueing::Drr(VIRTUAL_QUEUES), Queueing::Sqf(VIRTUAL_QUEUES)];
/// Uploads in the growing part.
const GROWING: u16 = 200;

/// A cell with its runs in order of seed.
type Row = (Cell, Vec<Run>);

/// Returns the rows of the tables.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |part, uploads: &[u16], queues: &[Queueing]| {
        for &uploads in uploads {
            cells.extend(queues.iter().map(|&queueing| Cell { part, uploads, queueing }));
        }
    };
    let with_smart = [PAPER[0], PAPER[1], PAPER[2], Queueing::Smart];
    add(Part::Full, &[8, 20, 40, 60, 200], &with_smart);
    add(Part::OnePacket, &[5, 10, 20, 40], &PAPER);
    add(Part::Constant, &[8, 20, 40, 60, 120, 140, 200], &PAPER[1..]);
    add(Part::Constant, &[200], &[Queueing::Sqf(MANY)]);
    add(Part::Growing, &[GROWING], &[PAPER[1], PAPER[2], Queueing::Sqf(MANY)]);
    cells
}

fn reproduce(seeds: u32, progress: &Progress) -> Report {
    let cells = cells();
    progress.expect(cells.len() as u64 * u64::from(seeds));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(&cell) = cells.get(index)
        {
            let one = |seed| {
                let run = scenario::run(&cell, seed);
                progress.done();
                run
            };
            done.push((index, (cell, (1..=u64::from(seeds)).map(one).collect())));
        }
        done
    };
    let mut rows: Vec<(usize, Row)> = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a run ends")).collect()
    });
    rows.sort_unstable_by_key(|&(index, _)| index);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    report::report(&rows, seeds)
}
