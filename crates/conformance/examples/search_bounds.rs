//! Tries to exceed the proven bounds: `search_bounds SECONDS [SEED]`. All flow schedulers and
//! bounds share the time.
//!
//! The first part keeps flows unchanged. The second part configures, adds and removes flows; it
//! measures from the last change, where a flow scheduler has a bound for that, or from the time
//! when all bounds hold again. Prints the largest ratio for each bound with its sequence; fails if
//! a bound is exceeded.

mod arguments;

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use conformance::bounds::{
    Bound, Changeable, Outcome, Promising, SparseFirst, When, climb, climb_changing,
};
use freeboard::sched_core::{
    Aggregate, Drr, DrrFlow, PlusFlow, Qfq, QfqFlow, QfqPlus, Wf2q, Wf2qFlow,
};

fn main() -> ExitCode {
    let Some((seconds, seed)) = arguments::seconds_and_seed("search_bounds") else {
        return ExitCode::from(2);
    };
    type Plus = QfqPlus<Vec<PlusFlow>, Vec<Aggregate>, Vec<QfqFlow>>;
    use When::{AtOnce, Settled};
    let searches: [(&str, Search); 10] = [
        ("QFQ", search::<Qfq<Vec<QfqFlow>>>),
        ("QFQ+", search::<Plus>),
        ("WF2Q+", search::<Wf2q<Vec<Wf2qFlow>>>),
        ("DRR", search::<Drr<Vec<DrrFlow>>>),
        ("DRR, sparse flows first", search::<SparseFirst>),
        ("QFQ, settled", |bound, seed, span| {
            search_changing::<Qfq<Vec<QfqFlow>>>(Settled, bound, seed, span)
        }),
        ("QFQ+, settled", |bound, seed, span| search_changing::<Plus>(Settled, bound, seed, span)),
        ("WF2Q+, at once", |bound, seed, span| {
            search_changing::<Wf2q<Vec<Wf2qFlow>>>(AtOnce, bound, seed, span)
        }),
        ("WF2Q+, settled", |bound, seed, span| {
            search_changing::<Wf2q<Vec<Wf2qFlow>>>(Settled, bound, seed, span)
        }),
        ("DRR, at once", |bound, seed, span| {
            search_changing::<Drr<Vec<DrrFlow>>>(Settled, bound, seed, span)
        }),
    ];
    let span = Duration::from_secs(seconds) / (searches.len() * Bound::ALL.len()) as u32;
    let mut kept = true;
    for (name, search) in searches {
        for bound in Bound::ALL {
            match search(bound, seed, span) {
                Ok((outcome, history, trials)) => {
                    let worst = outcome.of(bound);
                    kept &= worst.ratio() <= 1.0;
                    println!(
                        "{name}, {}: {:.4}, {} of {} bytes, flows {:?}, after {trials} trials",
                        bound.name(),
                        worst.ratio(),
                        worst.measured,
                        worst.bound,
                        worst.flows,
                    );
                    println!("{history}");
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

/// The worst outcome, its sequence, and the number of sequences played.
type Found = Result<(Outcome, String, u64), String>;
type Search = fn(Bound, u64, Duration) -> Found;

fn search<O: Promising>(bound: Bound, seed: u64, span: Duration) -> Found {
    let start = Instant::now();
    let found = climb::<O>(bound, seed, || start.elapsed() < span)?;
    Ok((found.outcome, found.trial.to_string(), found.trials))
}

fn search_changing<O: Changeable>(when: When, bound: Bound, seed: u64, span: Duration) -> Found {
    let start = Instant::now();
    let (outcome, history, played) =
        climb_changing::<O>(when, bound, seed, || start.elapsed() < span)?;
    Ok((outcome, history.to_string(), played))
}
