//! *Shortest queue first* for audio and video: Figs. 3, 4 and 6 to 8, rule (3) and Table I.
//!
//! - [`theory`]: Figs. 3 and 4 by formula and by simulation of the queue, and rule (3)
//! - [`testbed`]: Fig. 6, Fig. 7 and Table I
//! - [`peak`]: the peak rate from which on SQF fails the video
//! - [`jitter`]: Fig. 8

pub mod formulas;
pub mod jitter;
mod overtaking;
pub mod peak;
pub mod saturated;
pub mod scenario;
pub mod testbed;
pub mod theory;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use crate::measure::estimate::mean;
use crate::progress::Progress;

/// A cell of an experiment with its runs, in order of seed.
#[derive(Clone, Debug)]
pub(super) struct Row<C, R> {
    pub(super) cell: C,
    pub(super) runs: Vec<R>,
}

impl<C, R> Row<C, R> {
    /// Returns the mean of a quantity over all runs.
    fn mean(&self, value: impl Fn(&R) -> f64) -> f64 {
        mean(&self.runs.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    }

    /// Returns the maximum of a quantity over all runs.
    fn most(&self, value: impl Fn(&R) -> f64) -> f64 {
        self.runs.iter().map(value).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns the minimum of a quantity over all runs.
    fn least(&self, value: impl Fn(&R) -> f64) -> f64 {
        self.runs.iter().map(value).fold(f64::INFINITY, f64::min)
    }
}

/// Runs each cell with the seeds 1 to `seeds` on all processors.
fn measure<C: Sync, R: Send>(
    cells: Vec<C>,
    seeds: u32,
    progress: &Progress,
    run: impl Fn(&C, u64) -> R + Sync,
) -> Vec<Row<C, R>> {
    let each = seeds as usize;
    let jobs = cells.len() * each;
    progress.expect(jobs as u64);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs)));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(job / each.max(1)).filter(|_| job < jobs) else {
                        break;
                    };
                    let outcome = run(cell, (job % each) as u64 + 1);
                    done.lock().expect("no run panics").push((job, outcome));
                    progress.done();
                }
            });
        }
    });
    let mut outcomes = done.into_inner().expect("no run panics");
    outcomes.sort_unstable_by_key(|&(job, _)| job);
    let mut outcomes = outcomes.into_iter().map(|(_, outcome)| outcome);
    let row = |cell| Row { cell, runs: outcomes.by_ref().take(each).collect() };
    cells.into_iter().map(row).collect()
}
