//! Queueing delay of a call beside uploads of its own host and of others, behind FIFO, DRR, the
//! isolated queue and shortest queue first.
//!
//! The scenario is [`crate::experiments::sparse::scenario`]. The results are compared with those of
//! Linux's CAKE and FQ-CoDel with kernel TCP; the checks allow at most a tenth above CAKE.

mod report;
pub mod scenario;
mod shortest;

use freeboard::Isolation;
use freeboard::sched_core::Nanos;

use super::{Experiment, Report, Row, Study};
use crate::discipline::GatewayQueue;
use crate::measure::delay::Delays;
use crate::measure::goodput::Loss;
use scenario::{Run, Setup};

/// The experiment `sim reproduce sparse`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sparse",
    quick: 4,
    about: "a call beside uploads: latency of sparse flows and hosts behind each queue",
    runs: &Sparse,
};

struct Sparse;

/// Traffic and queue.
type Cell = (Load, Queue);

const MEASURED: Nanos = Nanos::from_secs(30);

/// Median, 95th and 99th percentile in milliseconds.
type Quantiles = [f64; 3];

/// Quantiles in thousandths.
const QUANTILES: [u32; 3] = [500, 950, 990];

/// Traffic beside the call.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    megabits: u32,
    own: u8,
    others: u8,
    round_trip: Nanos,
    cake: Option<Quantiles>,
    fq_codel: Option<Quantiles>,
    /// Maximum delay of the call behind a queue that should protect it.
    wanted: Wanted,
}

/// A limit for the three quantiles.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    /// A tenth above these, which are CAKE's.
    NearCake(Quantiles),
    /// Limit of the 99th percentile, in longest packets.
    Packets(u32),
}

const CAKE_12_HOSTS: Quantiles = [0.76, 2.02, 2.32];

const fn load(name: &'static str, megabits: u32, own: u8, others: u8, wanted: Wanted) -> Load {
    let cake = match wanted {
        Wanted::NearCake(quantiles) => Some(quantiles),
        Wanted::Packets(_) => None,
    };
    let round_trip = scenario::ROUND_TRIP;
    Load { name, megabits, own, others, round_trip, cake, fq_codel: None, wanted }
}

impl Load {
    const fn beside_fq_codel(self, quantiles: Quantiles) -> Self {
        Self { fq_codel: Some(quantiles), ..self }
    }

    const fn over(self, round_trip: Nanos) -> Self {
        Self { round_trip, ..self }
    }

    const fn without_cake(self) -> Self {
        Self { cake: None, ..self }
    }
}

const LOADS: [Load; 9] = [
    load("4 uploads of its host", 10, 4, 0, Wanted::NearCake([0.68, 1.83, 2.27]))
        .beside_fq_codel([0.56, 1.74, 2.29]),
    load("24 uploads of its host", 10, 24, 0, Wanted::NearCake([1.07, 2.39, 5.42]))
        .beside_fq_codel([1.82, 8.65, 9.28]),
    load("4 uploads of its host", 1, 4, 0, Wanted::NearCake([6.2, 11.7, 13.9]))
        .beside_fq_codel([9.4, 28.6, 29.9]),
    load("8 uploads of its host", 1, 8, 0, Wanted::Packets(2)),
    load("4 other hosts", 10, 0, 4, Wanted::NearCake([0.69, 1.87, 2.34])),
    load("12 other hosts", 10, 0, 12, Wanted::NearCake(CAKE_12_HOSTS)),
    // CAKE was not measured with 30 hosts: the delay of a sparse host must not grow with the
    // number of others.
    load("30 other hosts", 10, 0, 30, Wanted::NearCake(CAKE_12_HOSTS)).without_cake(),
    load("8 uploads of its host, 3 other hosts", 10, 8, 3, Wanted::Packets(2)),
    load("8 uploads of its host, 12 other hosts", 10, 8, 12, Wanted::Packets(2)),
];

/// A queue of the tables.
#[derive(Clone, Copy, Debug)]
struct Queue {
    name: &'static str,
    queueing: GatewayQueue,
    /// True if hosts are its flows or are scheduled above them.
    has_hosts: bool,
    /// True if it should protect the call.
    protects: bool,
}

const QUEUES: [Queue; 5] = [
    Queue { name: "FIFO", queueing: GatewayQueue::Fifo, has_hosts: false, protects: false },
    Queue {
        name: "DRR over flows",
        queueing: GatewayQueue::PlainDrr,
        has_hosts: false,
        protects: false,
    },
    Queue {
        name: "flows, sparse first",
        queueing: GatewayQueue::Isolated(Isolation::Flows),
        has_hosts: false,
        protects: true,
    },
    Queue {
        name: "dual-srchost (default)",
        queueing: GatewayQueue::Isolated(Isolation::DualSrcHost),
        has_hosts: true,
        protects: true,
    },
    Queue {
        name: "triple-isolate",
        queueing: GatewayQueue::Isolated(Isolation::TripleIsolate),
        has_hosts: true,
        protects: true,
    },
];

impl Row<Cell, Run> {
    /// Returns the quantiles of the call's delay over the packets of all runs.
    fn added(&self) -> Quantiles {
        let added: Delays = self.runs.iter().flat_map(|run| run.added.samples()).copied().collect();
        let quantile = |of| added.quantile(of).map_or(f64::INFINITY, |delay| delay.0 as f64 / 1e6);
        QUANTILES.map(quantile)
    }

    fn loss(&self) -> Loss {
        self.runs.iter().map(|run| run.loss).sum()
    }

    /// Returns the Mbit/s of all uploads, as the mean of the runs.
    fn goodput(&self) -> f64 {
        let bits: u64 = self.runs.iter().flat_map(|run| &run.uploads).map(|bytes| bytes * 8).sum();
        bits as f64 / self.runs.len() as f64 / (MEASURED.0 as f64 / 1e3)
    }

    /// Returns the minimum and maximum of an upload in any run relative to its share: of the link
    /// if flows share it, of its host if hosts do. Hosts with a call have shares equal to others.
    fn evenness(&self) -> [f64; 2] {
        let (load, queue) = self.cell;
        let hosts = f64::from(load.others) + if load.own > 0 { 1.0 } else { 0.0 };
        let parts = self.runs.iter().flat_map(|run| {
            let all: u64 = run.uploads.iter().sum();
            let count = run.uploads.len() as f64;
            run.uploads.iter().enumerate().map(move |(number, &bytes)| {
                let own = number < usize::from(load.own);
                let siblings = if own { f64::from(load.own) } else { 1.0 };
                let part = if queue.has_hosts { hosts * siblings } else { count };
                bytes as f64 * part / all as f64
            })
        });
        parts.fold([f64::INFINITY, 0.0], |[least, most], part| [least.min(part), most.max(part)])
    }

    /// Returns true if the call's delay is within its limit.
    fn is_near(&self) -> bool {
        self.worst() <= 1.0
    }

    /// Returns the maximum ratio of a quantile to its limit.
    fn worst(&self) -> f64 {
        match self.0.wanted {
            Wanted::NearCake(cake) => {
                let parts =
                    self.added().into_iter().zip(cake).map(|(added, cake)| added / (1.1 * cake));
                parts.fold(0.0, f64::max)
            }
            Wanted::Packets(packets) => {
                self.added()[2] / (f64::from(packets) * packet_millis(self.0.megabits))
            }
        }
    }
}

/// Returns the transmission time of the longest packet.
fn packet_millis(megabits: u32) -> f64 {
    f64::from((scenario::MTU + scenario::HEADER) * 8) / f64::from(megabits) / 1_000.0
}

impl Study for Sparse {
    type Cell = Cell;
    type Run = Run;

    fn cells(&self) -> Vec<Cell> {
        let cells = |load| QUEUES.map(|queue| (load, queue));
        let shortest = |load| shortest::QUEUES.map(|queue| (load, queue));
        let first = LOADS.into_iter().flat_map(cells);
        first.chain(shortest::LOADS.into_iter().flat_map(shortest)).collect()
    }

    fn run(&self, &(load, queue): &Cell, seed: u64) -> Run {
        let Load { megabits, own, others, round_trip, .. } = load;
        let (queueing, permitted, measured) = (queue.queueing, scenario::MTU, MEASURED);
        let setup = Setup { queueing, megabits, own, others, permitted, round_trip, measured };
        scenario::run(&setup, seed)
    }

    fn report(&self, rows: &[Row<Cell, Run>], seeds: u32) -> Report {
        report::report(rows, seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(load: Load, queue: Queue, added: &[Nanos], uploads: Vec<u64>) -> Row<Cell, Run> {
        let (added, loss) = (added.iter().copied().collect(), Loss::default());
        Row { cell: (load, queue), runs: vec![Run { added, loss, uploads, balanced: true }] }
    }

    /// Goal: each quantile is compared with its limit. Method: of 100 packets, 50, 45 and 5 have
    /// these delays in µs: median, 95th and 99th percentile.
    #[test]
    fn one_quantile_above_a_tenth_more_than_cake_is_too_long() {
        let near = |load, [p50, p95, p99]: [u64; 3]| {
            let added = [vec![p50; 50], vec![p95; 45], vec![p99; 5]].concat();
            row(
                load,
                QUEUES[3],
                &added.into_iter().map(Nanos::from_micros).collect::<Vec<_>>(),
                vec![],
            )
            .is_near()
        };
        assert!(near(LOADS[0], [748, 2_000, 2_400]));
        assert!(!near(LOADS[0], [749, 750, 750]));
        assert!(!near(LOADS[0], [0, 2_020, 2_020]));
        assert!(!near(LOADS[0], [0, 0, 2_500]));
        // Two packets of 1,514 bytes at 1 Mbit/s are 24.2 ms.
        assert!(near(LOADS[3], [24_000, 24_100, 24_200]));
        assert!(!near(LOADS[3], [0, 0, 24_300]));
    }

    /// Calculated manually: two hosts, one with two uploads, share equally.
    #[test]
    fn parts_are_those_of_hosts_where_there_are_any() {
        let load = Load { own: 2, others: 1, ..LOADS[0] };
        assert_eq!(row(load, QUEUES[3], &[], vec![25, 25, 50]).evenness(), [1.0, 1.0]);
        assert_eq!(row(load, QUEUES[2], &[], vec![25, 25, 50]).evenness(), [0.75, 1.5]);
    }
}
