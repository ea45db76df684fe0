//! Searches for the call with the most steps: `search_cost SECONDS [SEED]`. All disciplines share
//! the time.
//!
//! Prints the maximum number of steps per packet moved next to the bound; fails if a bound is
//! exceeded.

mod arguments;

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use conformance::worst_call::{Subject, climb, steps};

fn main() -> ExitCode {
    let Some((seconds, seed)) = arguments::seconds_and_seed("search_cost") else {
        return ExitCode::from(2);
    };
    let sizes = [16, 256, 4_096];
    let span = Duration::from_secs(seconds) / (Subject::ALL.len() * sizes.len()) as u32;
    let mut is_kept = true;
    println!(
        "{:<32} {:>6} {:>6} {:>6} {:>10} {:>8}",
        "steps for a packet moved", "flows", "found", "bound", "in a call", "played"
    );
    for subject in &Subject::ALL {
        for flows in sizes {
            let start = Instant::now();
            let found = climb(
                subject.name,
                seed,
                |history| steps(subject, flows, history),
                || start.elapsed() < span,
            );
            let (worst, bound) = (found.worst, subject.bound(flows));
            println!(
                "{:<32} {flows:>6} {:>6} {bound:>6} {:>10} {:>8}",
                subject.name, worst.per_packet, worst.cost, found.played
            );
            if worst.per_packet > bound {
                is_kept = false;
                println!("{:?}", &found.history[..=worst.at]);
            }
        }
    }
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
