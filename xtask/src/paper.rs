//! Counts instructions per packet in the environment of QFQ Fig. 8 with callgrind.
//!
//! Runs the bench `paper` with 512 flows for each load, with equal and mixed weights and lengths.
//! The last columns are the net cost of QFQ in dummynet, measured in the paper's own harness, and
//! the ratio of ours to it.

use crate::instructions::{build, count, need_valgrind, per_pair};
use crate::progress::progress;

const FLOWS: &str = "512";

/// Loads and the numbers of cycles that make about 50,000 pairs with 512 flows.
const LOADS: [(&str, u32); 3] = [("SMALL", 20), ("LARGE", 4), ("FULL", 7)];

const SCHEDULERS: [&str; 4] = ["FIFO", "DRR", "QFQ", "WF2Q+"];

/// Net instructions (over NONE) of dummynet's QFQ, gcc 12.2 `-O3`, for SMALL, LARGE and FULL: the
/// better of the shipped version and one that finds the last bit set with an instruction.
const PEER: [(&str, &str, [f64; 3]); 4] = [
    ("equal", "1500", [170.5, 163.7, 161.1]),
    ("equal", "imix", [146.1, 135.7, 133.7]),
    ("mixed", "1500", [177.1, 178.9, 185.8]),
    ("mixed", "imix", [160.4, 148.2, 149.2]),
];

pub(crate) fn run() -> Result<(), String> {
    need_valgrind()?;
    let bench = build("paper")?;
    let progress = progress((PEER.len() * LOADS.len() * 2 * SCHEDULERS.len()) as u64);
    print!("weights\tsizes\tload\tcalls\tNONE");
    for name in SCHEDULERS {
        print!("\t{name}\tnet {name}");
    }
    println!("\tdummynet net QFQ\tours over it");
    for (weights, sizes, peer) in PEER {
        for ((load, cycles), theirs) in LOADS.into_iter().zip(peer) {
            let gross = |name, calls| {
                let run = |cycles: u32| {
                    let cycles = cycles.to_string();
                    count(&bench, &["count", name, calls, load, FLOWS, sizes, weights, &cycles])
                };
                Ok::<f64, String>(per_pair(run(cycles)?.0, run(2 * cycles)?.0))
            };
            let floor = gross("NONE", "free")?;
            for calls in ["opaque", "free"] {
                let mut row = format!("{weights}\t{sizes}\t{load}\t{calls}\t{floor:.1}");
                let mut net = 0.0;
                for name in SCHEDULERS {
                    let gross = gross(name, calls)?;
                    net = if name == "QFQ" { gross - floor } else { net };
                    row += &format!("\t{gross:.1}\t{:.1}", gross - floor);
                    progress.inc(1);
                }
                progress.suspend(|| println!("{row}\t{theirs:.1}\t{:.2}", net / theirs));
            }
        }
    }
    progress.finish_and_clear();
    Ok(())
}
