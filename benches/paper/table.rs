//! The measured table: the cost of a pair, gross and net of NONE in the same run.

use core::time::Duration;

use crate::subjects::{Calls, Name, Run, run};
use conformance::paper::{Load, Pool, Sizes, Traffic, Weights};

/// One row: a workload, and the time of a pair of enqueue and dequeue.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) traffic: Traffic,
    pub(crate) calls: Calls,
    /// NONE with the pool of the row.
    pub(crate) none: f64,
    /// NONE with a shuffled pool.
    pub(crate) none_shuffled: f64,
    /// The schedulers in the order of [`Name::SCHEDULERS`].
    pub(crate) gross: [f64; Name::SCHEDULERS.len()],
}

/// Number of flows from which on packets of mixed lengths are scattered over memory.
const SCATTERED: u32 = 32_768;

impl Row {
    /// Returns the baseline for the net figures. With many flows and mixed lengths the schedulers
    /// scatter packets over memory, a cost that NONE, which keeps them in order, would not include.
    pub(crate) fn floor(&self) -> f64 {
        let scattered = self.traffic.flows >= SCATTERED && self.traffic.sizes == Sizes::Imix;
        if scattered { self.none_shuffled } else { self.none }
    }

    /// Returns gross nanoseconds per pair.
    pub(crate) fn gross(&self, name: Name) -> f64 {
        let place = Name::SCHEDULERS.iter().position(|&other| other == name);
        place.map_or(self.none, |place| self.gross[place])
    }

    /// Returns net nanoseconds per pair.
    pub(crate) fn net(&self, name: Name) -> f64 {
        self.gross(name) - self.floor()
    }

    pub(crate) fn heading() -> String {
        let mut line = "flows\tload\tsizes\tweights\tpool\tcalls\tNONE\tNONE-shuf".to_owned();
        for name in Name::SCHEDULERS {
            line += &format!("\t{name}");
        }
        for name in Name::SCHEDULERS {
            line += &format!("\tnet {name}");
        }
        line + "\tQFQ/DRR"
    }

    /// Formats the row as TSV.
    pub(crate) fn line(&self) -> String {
        let Traffic { flows, load, sizes, weights, pool } = self.traffic;
        let mut line = format!("{flows}\t{load}\t{sizes}\t{weights}\t{pool}\t{}", self.calls);
        line += &format!("\t{:.1}\t{:.1}", self.none, self.none_shuffled);
        for gross in self.gross {
            line += &format!("\t{gross:.1}");
        }
        for gross in self.gross {
            line += &format!("\t{:.1}", gross - self.floor());
        }
        line + &format!("\t{:.2}", self.gross(Name::Qfq) / self.gross(Name::Drr))
    }
}

/// Measures one workload with each call type: the lowest of `passes`, in which all schedulers
/// alternate so that a disturbance does not affect only one of them.
pub(crate) fn measure(traffic: Traffic, calls: &[Calls], passes: u32) -> Vec<Row> {
    let empty = Row {
        traffic,
        calls: Calls::Opaque,
        none: f64::INFINITY,
        none_shuffled: f64::INFINITY,
        gross: [f64::INFINITY; Name::SCHEDULERS.len()],
    };
    let mut rows: Vec<Row> = calls.iter().map(|&calls| Row { calls, ..empty.clone() }).collect();
    let shuffled = Traffic { pool: Pool::Shuffled, ..traffic };
    let (mut none, mut none_shuffled) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..passes {
        none = none.min(pair(Name::None, Calls::Free, &traffic));
        none_shuffled = none_shuffled.min(pair(Name::None, Calls::Free, &shuffled));
        for row in &mut rows {
            for (name, gross) in Name::SCHEDULERS.into_iter().zip(&mut row.gross) {
                *gross = gross.min(pair(name, row.calls, &traffic));
            }
        }
    }
    for row in &mut rows {
        (row.none, row.none_shuffled) = (none, none_shuffled);
    }
    rows
}

/// Returns nanoseconds of thread time per enqueue and dequeue: half of the packets passed in whole
/// cycles, after whole cycles for warm-up.
fn pair(name: Name, calls: Calls, traffic: &Traffic) -> f64 {
    let (warm_up, timed) = cycles(traffic);
    let mut run = started(name, calls, traffic);
    let cycle = traffic.cycle();
    let before = run(warm_up * cycle);
    let start = thread_time();
    let after = run(timed * cycle);
    let time = thread_time() - start;
    let (enqueued, dequeued) = (after.enqueued - before.enqueued, after.dequeued - before.dequeued);
    assert!(
        enqueued == dequeued && 2 * enqueued == timed * cycle,
        "{name}: {enqueued}, {dequeued}"
    );
    time.as_nanos() as f64 / enqueued as f64
}

/// Creates `name` at the low end of its first cycle.
pub(crate) fn started(name: Name, calls: Calls, traffic: &Traffic) -> Run {
    let mut run = run(name, calls, traffic);
    let (low, _) = traffic.bounds();
    run(low);
    run
}

/// Returns the numbers of cycles for warm-up and for timing: at least two each, and a million
/// pairs. With 131,072 flows a cycle of the larger loads has two million pairs or more, and one is
/// enough.
fn cycles(traffic: &Traffic) -> (u64, u64) {
    if traffic.flows >= 131_072 && traffic.load != Load::Small {
        return (1, 1);
    }
    let cycle = traffic.cycle();
    (200_000_u64.div_ceil(cycle).max(2), 2_000_000_u64.div_ceil(cycle).max(2))
}

#[cfg(unix)]
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Wall-clock time on other systems: use a quiet machine.
#[cfg(not(unix))]
fn thread_time() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Returns the rows of a quick run: FULL with all numbers of flows, and the four other workloads
/// with figures from the paper's own harness.
pub(crate) fn quick() -> Vec<Traffic> {
    let row = |flows, sizes, weights| Traffic {
        flows,
        load: Load::Full,
        sizes,
        weights,
        pool: Pool::Sequential,
    };
    let mut rows: Vec<Traffic> =
        FLOWS.iter().map(|&flows| row(flows, Sizes::Equal, Weights::Equal)).collect();
    rows.push(row(512, Sizes::Imix, Weights::Equal));
    rows.push(row(512, Sizes::Equal, Weights::Mixed));
    rows.push(row(512, Sizes::Imix, Weights::Mixed));
    rows.push(row(32_768, Sizes::Imix, Weights::Mixed));
    rows
}

/// Numbers of flows in the table.
pub(crate) const FLOWS: [u32; 7] = [1, 8, 64, 512, 4_096, 32_768, 131_072];
