//! Tries to exceed the proven bounds: `search_bounds SECONDS [SEED]`, shared by all orders and bounds.
//!
//! Prints for each the nearest that it came, with the history; fails if one is exceeded.

mod words;

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use freeboard::sched_core::{Drr, DrrFlow, Qfq, QfqFlow, Wf2q, Wf2qFlow};
use sim::guarantee::{Bound, Climb, Promising, climb};

fn main() -> ExitCode {
    let Some((seconds, seed)) = words::seconds_and_seed("search_bounds") else {
        return ExitCode::from(2);
    };
    let searches: [(&str, Search); 3] = [
        ("QFQ", search::<Qfq<Vec<QfqFlow>>>),
        ("WF2Q+", search::<Wf2q<Vec<Wf2qFlow>>>),
        ("DRR", search::<Drr<Vec<DrrFlow>>>),
    ];
    let span = Duration::from_secs(seconds) / (searches.len() * Bound::ALL.len()) as u32;
    let mut kept = true;
    for (name, search) in searches {
        for bound in Bound::ALL {
            match search(bound, seed, span) {
                Ok(found) => {
                    let worst = found.outcome.of(bound);
                    kept &= worst.ratio() <= 1.0;
                    println!(
                        "{name}, {}: {:.4}, {} of {} bytes, flows {:?}, after {} trials",
                        bound.name(),
                        worst.ratio(),
                        worst.measured,
                        worst.bound,
                        worst.flows,
                        found.trials
                    );
                    println!("{}", found.trial);
                }
                Err(why) => {
                    kept = false;
                    println!("{name}: {why}");
                }
            }
        }
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Search = fn(Bound, u64, Duration) -> Result<Climb, String>;

fn search<O: Promising>(bound: Bound, seed: u64, span: Duration) -> Result<Climb, String> {
    let start = Instant::now();
    climb::<O>(bound, seed, || start.elapsed() < span)
}
