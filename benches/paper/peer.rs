//! Figures of dummynet's C schedulers in the paper's own harness.
//!
//! AMD EPYC (Zen 5), gcc 12.2 `-O3 -march=native`, calls through pointers, the time of one pinned
//! thread, the lowest of 5 to 7 runs on a quiet machine. QFQ is the better of the shipped version
//! and one that finds the last bit set with an instruction. WF2Q+ clamps weights at 100.

use crate::subjects::Name;
use conformance::paper::{Load, Sizes, Traffic, Weights};

/// A workload with load FULL, and gross nanoseconds per pair: NONE, FIFO, DRR, QFQ, WF2Q+.
type Measured = (u32, Sizes, Weights, [f64; 5]);

const MEASURED: [Measured; 11] = [
    (1, Sizes::Equal, Weights::Equal, [9.9, 10.5, 11.8, 22.4, 15.6]),
    (8, Sizes::Equal, Weights::Equal, [9.4, 10.8, 10.9, 15.6, 26.9]),
    (64, Sizes::Equal, Weights::Equal, [9.4, 10.8, 11.2, 15.0, 42.1]),
    (512, Sizes::Equal, Weights::Equal, [9.6, 10.8, 11.7, 16.1, 57.7]),
    (4_096, Sizes::Equal, Weights::Equal, [9.7, 11.0, 12.5, 17.2, 92.4]),
    (32_768, Sizes::Equal, Weights::Equal, [9.7, 11.1, 13.4, 19.0, 292.0]),
    (131_072, Sizes::Equal, Weights::Equal, [11.0, 12.5, 16.3, 23.9, 615.0]),
    (512, Sizes::Imix, Weights::Equal, [10.9, 11.4, 14.7, 17.1, 100.0]),
    (512, Sizes::Equal, Weights::Mixed, [9.4, 10.8, 13.0, 18.8, 58.4]),
    (512, Sizes::Imix, Weights::Mixed, [10.8, 11.5, 13.8, 21.1, 103.0]),
    (32_768, Sizes::Imix, Weights::Mixed, [10.9, 11.6, 208.0, 191.0, 408.0]),
];

/// Returns the peer's gross nanoseconds, if measured.
pub(crate) fn gross(traffic: &Traffic, name: Name) -> Option<f64> {
    let same = |row: &&Measured| {
        traffic.load == Load::Full
            && (row.0, row.1, row.2) == (traffic.flows, traffic.sizes, traffic.weights)
    };
    let place = match name {
        Name::None => 0,
        Name::Fifo => 1,
        Name::Drr => 2,
        Name::Qfq => 3,
        Name::Wf2q => 4,
    };
    MEASURED.iter().find(same).map(|row| row.3[place])
}
