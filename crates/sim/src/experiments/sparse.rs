//! Queueing delay of a call beside uploads of its own host and of others, behind FIFO, DRR, the
//! isolated queue and shortest queue first.
//!
//! The scenario is [`crate::experiments::sparse::scenario`]. The results are compared with those of
//! Linux's CAKE and FQ-CoDel with kernel TCP; the checks allow at most a tenth above CAKE.

mod report;
pub mod scenario;

use freeboard::Isolation::{DualSrcHost, Flows, TripleIsolate};
use freeboard::sched_core::{FloorShare, Nanos};

use super::Experiment;
use super::harness::Functions;
use crate::discipline::GatewayQueue::{self, Fifo, Isolated, PlainDrr, Sqf, UsersSqf};
use report::report;
use scenario::{Cell, Load, MEASURED, MTU, Quantiles, run};

/// The experiment `sim reproduce sparse`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sparse",
    quick: 4,
    about: "a call beside uploads: latency of sparse flows and hosts behind each queue",
    runs: &Functions { cells, run: |cell, seed| run(cell, MTU, MEASURED, seed), report },
};

const CAKE_12_HOSTS: Quantiles = [0.76, 2.02, 2.32];

/// Loads of the first table.
const LOADS: [Load; 9] = [
    Load::new("4 uploads of its host", 10, 4, 0)
        .quoting(&[("CAKE", [0.68, 1.83, 2.27]), ("fq_codel", [0.56, 1.74, 2.29])]),
    Load::new("24 uploads of its host", 10, 24, 0)
        .quoting(&[("CAKE", [1.07, 2.39, 5.42]), ("fq_codel", [1.82, 8.65, 9.28])]),
    Load::new("4 uploads of its host", 1, 4, 0)
        .quoting(&[("CAKE", [6.2, 11.7, 13.9]), ("fq_codel", [9.4, 28.6, 29.9])]),
    Load::new("8 uploads of its host", 1, 8, 0),
    Load::new("4 other hosts", 10, 0, 4).quoting(&[("CAKE", [0.69, 1.87, 2.34])]),
    Load::new("12 other hosts", 10, 0, 12).quoting(&[("CAKE", CAKE_12_HOSTS)]),
    // CAKE was not measured with 30 hosts: the delay of a sparse host must not grow with the
    // number of others.
    Load { cake: Some(CAKE_12_HOSTS), ..Load::new("30 other hosts", 10, 0, 30) },
    Load::new("8 uploads of its host, 3 other hosts", 10, 8, 3),
    Load::new("8 uploads of its host, 12 other hosts", 10, 8, 12),
];

/// Queues that should protect the call by isolation.
const ISOLATED: [GatewayQueue; 3] =
    [Isolated(Flows), Isolated(DualSrcHost), Isolated(TripleIsolate)];

/// Queues of the first table.
const QUEUES: [GatewayQueue; 5] = [Fifo, PlainDrr, ISOLATED[0], ISOLATED[1], ISOLATED[2]];

/// Propagation delay of a short path, with a round trip of 1 ms.
const SHORT: Nanos = Nanos::from_micros(500);

/// Loads of the second table.
const SHORTEST_LOADS: [Load; 3] = [
    Load { delay: SHORT, ..Load::new("4 uploads of its host, 1 ms", 10, 4, 0) },
    Load::new("4 uploads of its host", 10, 4, 0),
    Load { delay: SHORT, ..Load::new("4 of its host, 3 other hosts, 1 ms", 10, 4, 3) },
];

/// Queues of the second table.
///
/// They serve the longest queue last: with a short round trip one upload gets the whole link and
/// the others nothing. The floor gives an eighth of the bytes to the queue that has waited longest,
/// so each upload gets a share of that.
const SHORTEST: [GatewayQueue; 4] =
    [Sqf(NO_FLOOR), Sqf(FLOOR), UsersSqf(NO_FLOOR), UsersSqf(FLOOR)];

const NO_FLOOR: FloorShare = FloorShare::NONE;
const FLOOR: FloorShare = FloorShare::EIGHTH;

fn cells() -> Vec<Cell> {
    let first = LOADS.iter().flat_map(|&load| QUEUES.map(|queue| Cell { load, queue }));
    let second = SHORTEST_LOADS.iter().flat_map(|&load| SHORTEST.map(|queue| Cell { load, queue }));
    first.chain(second).collect()
}
