//! The harness of experiments: cells, seeds, threads and results that outlive the process.
//!
//! A [`Study`] states what its runs differ in ([`Study::cells`]), what one run is ([`Study::run`])
//! and what follows from all of them ([`Study::report`]). Everything else is here and the same for
//! all: the runs are spread over the processor's cores, and results can be kept in a [`RunFile`],
//! so that a sweep can be resumed, or split over machines and merged. A report is a function of the
//! results, and results are compared after a round trip through JSON: a merged sweep prints the
//! same bytes as an undivided one.

use core::fmt;
use core::num::NonZeroU32;
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Report;
use super::run_file::{RunFile, RunFileError};
use crate::measure::delay::Delays;
use crate::measure::estimate::{Estimate, mean};
use crate::measure::goodput::Loss;
use crate::progress::Progress;

/// An experiment: cells that differ in their parameters, runs of a cell with a seed each, and a
/// report over all runs.
pub trait Study: Sync {
    /// Parameters of the runs of a row of the table or a point of the chart.
    type Cell: Send + Sync;
    /// Result of a run: numbers that are finite, and no more of them than the report needs.
    type Run: Serialize + DeserializeOwned;

    /// Returns all cells, in a fixed order.
    fn cells(&self) -> Vec<Self::Cell>;

    /// Returns the number of seeds of this cell if `seeds` were requested.
    fn seeds(&self, _cell: &Self::Cell, seeds: u32) -> u32 {
        seeds
    }

    /// Runs a cell once. Equal cells and seeds give equal results.
    fn run(&self, cell: &Self::Cell, seed: u64) -> Self::Run;

    /// Evaluates all runs.
    fn report(&self, rows: &[Row<Self::Cell, Self::Run>], seeds: u32) -> Report;
}

/// A [`Study`] of three functions, which are its methods.
pub struct Functions<C, R> {
    /// [`Study::cells`].
    pub cells: fn() -> Vec<C>,
    /// [`Study::run`].
    pub run: fn(&C, u64) -> R,
    /// [`Study::report`].
    pub report: fn(&[Row<C, R>], u32) -> Report,
}

impl<C, R> fmt::Debug for Functions<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}

impl<C: Send + Sync, R: Serialize + DeserializeOwned> Study for Functions<C, R> {
    type Cell = C;
    type Run = R;

    fn cells(&self) -> Vec<C> {
        (self.cells)()
    }

    fn run(&self, cell: &C, seed: u64) -> R {
        (self.run)(cell, seed)
    }

    fn report(&self, rows: &[Row<C, R>], seeds: u32) -> Report {
        (self.report)(rows, seeds)
    }
}

/// A cell with its results. Dereferences to the cell.
#[derive(Clone, Debug)]
pub struct Row<C, R> {
    /// The cell.
    pub cell: C,
    /// A result for each of the seeds 1, 2, …
    pub runs: Vec<R>,
}

impl<C, R> Row<C, R> {
    /// Returns the mean of a quantity over the runs.
    ///
    /// # Panics
    /// If there are no runs.
    #[must_use]
    pub fn mean_of(&self, of: impl Fn(&R) -> f64) -> f64 {
        self.estimate_of(of).mean
    }

    /// Returns the mean of a quantity over the runs, with its confidence interval.
    ///
    /// # Panics
    /// If there are no runs.
    #[must_use]
    pub fn estimate_of(&self, of: impl Fn(&R) -> f64) -> Estimate {
        let values: Vec<f64> = self.runs.iter().map(of).collect();
        Estimate::of(&values).expect("a row has runs")
    }
}

impl<C, R> Deref for Row<C, R> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.cell
    }
}

/// Returns the row of `cell`.
///
/// # Panics
/// If there is none.
pub fn find<'a, C: PartialEq, R>(rows: &'a [Row<C, R>], cell: &C) -> &'a Row<C, R> {
    rows.iter().find(|row| row.cell == *cell).expect("a row of the cell")
}

impl<C, R> Row<C, R> {
    /// Returns the mean of a value over all runs.
    ///
    /// # Panics
    /// If there are no runs.
    pub fn mean(&self, value: impl Fn(&R) -> f64) -> f64 {
        mean(&self.runs.iter().map(value).collect::<Vec<_>>()).expect("there are runs")
    }

    /// Returns the maximum of a value over all runs; zero without runs.
    pub fn most(&self, value: impl Fn(&R) -> f64) -> f64 {
        self.runs.iter().map(value).fold(0.0, f64::max)
    }

    /// Returns the minimum of a value over all runs; infinity without runs.
    pub fn least(&self, value: impl Fn(&R) -> f64) -> f64 {
        self.runs.iter().map(value).fold(f64::INFINITY, f64::min)
    }

    /// Returns the delays of all runs together.
    pub fn delays(&self, of: impl Fn(&R) -> &Delays) -> Delays {
        self.runs.iter().flat_map(|run| of(run).samples()).copied().collect()
    }

    /// Returns the loss of all runs together.
    pub fn total_loss(&self, of: impl Fn(&R) -> Loss) -> Loss {
        self.runs.iter().map(of).sum()
    }
}

/// A run of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Index of the cell.
    pub cell: usize,
    /// Seed of the run, from 1.
    pub seed: u64,
}

/// A part of a sweep: every `of`-th run, beginning with the `number`-th.
///
/// Written `K/N`, with K from 1 to N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: NonZeroU32,
    of: NonZeroU32,
}

impl Shard {
    /// The whole sweep.
    pub const WHOLE: Self = Self { number: NonZeroU32::MIN, of: NonZeroU32::MIN };

    /// Returns true if this is not the whole sweep.
    #[must_use]
    pub fn is_part(self) -> bool {
        self != Self::WHOLE
    }

    fn contains(self, index: usize) -> bool {
        index % self.of.get() as usize == self.number.get() as usize - 1
    }

    /// Returns the name of the run file of this part of `sweep`: `sweep.3-of-8`, or `sweep` for the
    /// whole.
    #[must_use]
    pub fn file_name(self, sweep: &str) -> String {
        if self.is_part() {
            format!("{sweep}.{}-of-{}", self.number, self.of)
        } else {
            sweep.to_owned()
        }
    }
}

impl core::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected K/N with K from 1 to N, for example 3/8".to_owned();
        let (number, of) = text.split_once('/').ok_or_else(expected)?;
        let number: NonZeroU32 = number.parse().map_err(|_| expected())?;
        let of: NonZeroU32 = of.parse().map_err(|_| expected())?;
        if number > of {
            return Err(expected());
        }
        Ok(Self { number, of })
    }
}

/// A [`Study`] whose cells and results are hidden: its runs by number, and results as JSON.
pub trait Sweep: Sync {
    /// Returns the number of cells.
    fn cell_count(&self) -> usize;

    /// Returns all runs with `seeds` seeds, in a fixed order.
    fn tasks(&self, seeds: u32) -> Vec<Task>;

    /// Runs `task` and returns its result as JSON.
    ///
    /// # Panics
    /// If there is no such cell.
    fn run(&self, task: Task) -> String;

    /// Evaluates the results of all tasks of `seeds` seeds.
    ///
    /// # Errors
    /// The first result that is missing or cannot be read.
    fn report(&self, seeds: u32, results: &BTreeMap<Task, String>) -> Result<Report, SweepError>;
}

/// Reasons why a sweep has no report.
#[derive(Debug)]
pub enum SweepError {
    /// Runs without a result: the first of them, and how many.
    Missing(Task, usize),
    /// A result that cannot be read, for example of another version.
    Unreadable(Task, serde_json::Error),
    /// The run file.
    File(RunFileError),
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(task, count) => write!(
                f,
                "{count} runs are missing (expected none), the first is cell {} with seed {}",
                task.cell, task.seed
            ),
            Self::Unreadable(task, error) => write!(
                f,
                "result of cell {} with seed {} cannot be read: {error}",
                task.cell, task.seed
            ),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SweepError {}

impl From<RunFileError> for SweepError {
    fn from(error: RunFileError) -> Self {
        Self::File(error)
    }
}

impl<S: Study> Sweep for S {
    fn cell_count(&self) -> usize {
        self.cells().len()
    }

    fn tasks(&self, seeds: u32) -> Vec<Task> {
        let of = |(cell, parameters): (usize, &S::Cell)| {
            (1..=u64::from(self.seeds(parameters, seeds))).map(move |seed| Task { cell, seed })
        };
        self.cells().iter().enumerate().flat_map(of).collect()
    }

    fn run(&self, task: Task) -> String {
        let cells = self.cells();
        let run = Study::run(self, &cells[task.cell], task.seed);
        serde_json::to_string(&run).expect("a result has no keys that JSON lacks")
    }

    fn report(&self, seeds: u32, results: &BTreeMap<Task, String>) -> Result<Report, SweepError> {
        let tasks = self.tasks(seeds);
        let mut missing = tasks.iter().filter(|task| !results.contains_key(task));
        if let Some(&first) = missing.next() {
            return Err(SweepError::Missing(first, 1 + missing.count()));
        }
        let mut rows: Vec<Row<S::Cell, S::Run>> =
            self.cells().into_iter().map(|cell| Row { cell, runs: Vec::new() }).collect();
        for task in tasks {
            let run = serde_json::from_str(&results[&task])
                .map_err(|error| SweepError::Unreadable(task, error))?;
            rows[task.cell].runs.push(run);
        }
        Ok(Study::report(self, &rows, seeds))
    }
}

/// Sweeps with one report: texts one after another, separated by an empty line.
pub(super) struct Joined(pub(super) &'static [&'static dyn Sweep]);

impl Joined {
    /// Returns each sweep with the number of its first cell, and the next one's.
    fn parts(&self) -> impl Iterator<Item = (&'static dyn Sweep, Range<usize>)> {
        let mut next = 0;
        self.0.iter().map(move |&sweep| {
            let first = next;
            next += sweep.cell_count();
            (sweep, first..next)
        })
    }
}

impl Sweep for Joined {
    fn cell_count(&self) -> usize {
        self.0.iter().map(|sweep| sweep.cell_count()).sum()
    }

    fn tasks(&self, seeds: u32) -> Vec<Task> {
        let of = |(sweep, cells): (&dyn Sweep, Range<usize>)| {
            let tasks = sweep.tasks(seeds).into_iter();
            tasks.map(move |task| Task { cell: task.cell + cells.start, ..task })
        };
        self.parts().flat_map(of).collect()
    }

    fn run(&self, task: Task) -> String {
        let part = self.parts().find(|(_, cells)| cells.contains(&task.cell));
        let (sweep, cells) = part.expect("the task is of this sweep");
        sweep.run(Task { cell: task.cell - cells.start, ..task })
    }

    fn report(&self, seeds: u32, results: &BTreeMap<Task, String>) -> Result<Report, SweepError> {
        let mut joined: Option<Report> = None;
        for (sweep, cells) in self.parts() {
            let of_part = results.iter().filter(|(task, _)| cells.contains(&task.cell));
            let of_part = of_part
                .map(|(&task, run)| (Task { cell: task.cell - cells.start, ..task }, run.clone()));
            let report = sweep.report(seeds, &of_part.collect())?;
            joined = Some(match joined {
                Some(joined) => joined.then(report),
                None => report,
            });
        }
        Ok(joined.unwrap_or_default())
    }
}

/// Runs the tasks of `shard` that `kept` lacks, on all cores, and returns all results known. Each
/// result is in `kept` as soon as its run is over.
///
/// # Errors
/// If `kept` cannot be written.
pub fn results(
    sweep: &dyn Sweep,
    seeds: u32,
    shard: Shard,
    kept: Option<&mut RunFile>,
    progress: &Progress,
) -> Result<BTreeMap<Task, String>, RunFileError> {
    let known = kept.as_ref().map_or_else(BTreeMap::new, |file| file.results().clone());
    let due: Vec<Task> = sweep
        .tasks(seeds)
        .into_iter()
        .enumerate()
        .filter(|&(index, task)| shard.contains(index) && !known.contains_key(&task))
        .map(|(_, task)| task)
        .collect();
    progress.expect(due.len() as u64);
    let next = AtomicUsize::new(0);
    let kept = Mutex::new((kept, known, Ok(())));
    let work = || {
        while let Some(&task) = due.get(next.fetch_add(1, Ordering::Relaxed)) {
            let run = sweep.run(task);
            let mut kept = kept.lock().expect("no run panicked");
            let (file, known, outcome) = &mut *kept;
            if let (Some(file), true) = (file, outcome.is_ok()) {
                *outcome = file.append(task, &run);
            }
            if outcome.is_err() {
                return;
            }
            known.insert(task, run);
            progress.done();
        }
    };
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(due.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (_, known, outcome) = kept.into_inner().expect("no run panicked");
    outcome.map(|()| known)
}

/// Runs a sweep as a whole.
///
/// # Panics
/// If a result does not survive JSON: a number that is not finite.
#[must_use]
pub fn report(sweep: &dyn Sweep, seeds: u32, progress: &Progress) -> Report {
    let results = results(sweep, seeds, Shard::WHOLE, None, progress);
    let results = results.expect("no file is written");
    sweep.report(seeds, &results).expect("all runs have a result that can be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Check;

    /// Cells of a different number of seeds each; a result that is not a short decimal.
    struct Thirds;

    impl Study for Thirds {
        type Cell = u32;
        type Run = f64;

        fn cells(&self) -> Vec<u32> {
            vec![1, 3, 7]
        }

        fn seeds(&self, cell: &u32, seeds: u32) -> u32 {
            seeds * cell
        }

        fn run(&self, cell: &u32, seed: u64) -> f64 {
            f64::from(*cell) + seed as f64 / 3.0
        }

        fn report(&self, rows: &[Row<u32, f64>], seeds: u32) -> Report {
            let row = |row: &Row<u32, f64>| format!("{} {:?}\n", row.cell, row.runs);
            let text: String = rows.iter().map(row).collect();
            let holds = rows.iter().all(|row| row.runs.len() as u32 == seeds * row.cell);
            let check = Check::new("", String::new(), holds);
            Report::new(text).checks(vec![check])
        }
    }

    #[test]
    fn all_cells_are_run_with_all_their_seeds_in_order() {
        let report = report(&Thirds, 2, &Progress::hidden());
        assert!(report.holds(), "{report}");
        assert!(report.text().starts_with("1 [1.3333333333333333, 1.6666666666666665]\n3 [3.3"));
    }

    #[test]
    fn shards_are_disjoint_and_together_are_the_whole() {
        let part = |text: &str| {
            let shard: Shard = text.parse().unwrap();
            results(&Thirds, 3, shard, None, &Progress::hidden()).unwrap()
        };
        let whole = part("1/1");
        let parts = ["1/4", "2/4", "3/4", "4/4"].map(part);
        assert_eq!(parts.iter().map(BTreeMap::len).sum::<usize>(), whole.len());
        assert_eq!(parts.into_iter().flatten().collect::<BTreeMap<_, _>>(), whole);
        let missing = Sweep::report(&Thirds, 3, &part("2/4")).unwrap_err().to_string();
        assert_eq!(missing, "25 runs are missing (expected none), the first is cell 0 with seed 1");
    }

    #[test]
    fn joined_sweeps_are_run_and_reported_one_after_another() {
        let joined = Joined(&[&Thirds, &Thirds]);
        let both = super::report(&joined, 2, &Progress::hidden());
        let one = super::report(&Thirds, 2, &Progress::hidden());
        assert_eq!(both.text(), format!("{0}\n{0}", one.text()));
        assert_eq!((both.results().len(), both.holds()), (2, true));
        let whole = results(&joined, 1, Shard::WHOLE, None, &Progress::hidden()).unwrap();
        let all_but_last = whole.into_iter().rev().skip(1).collect();
        let missing = Sweep::report(&joined, 1, &all_but_last).unwrap_err().to_string();
        assert!(missing.contains("cell 2 with seed 7"), "{missing}");
    }

    #[test]
    fn a_shard_is_two_numbers() {
        for text in ["", "1", "0/3", "4/3", "1/0", "-1/3", "a/b", "1/2/3"] {
            let error = text.parse::<Shard>().unwrap_err();
            assert_eq!(error, "expected K/N with K from 1 to N, for example 3/8", "{text}");
        }
        let shard: Shard = "3/8".parse().unwrap();
        assert_eq!((shard.file_name("a").as_str(), shard.is_part()), ("a.3-of-8", true));
        assert!(!"1/1".parse::<Shard>().unwrap().is_part());
    }
}
