//! The project's own commands.
//!
//! ```text
//! cargo xtask check          everything a change must pass
//! cargo xtask check --without-tests   all of it but the tests, for CI, which has run them
//! cargo xtask documents      every link leads somewhere, and the words that are to be avoided are
//! cargo xtask panic-free     no panic can be reached on the bare-metal targets
//! cargo xtask trace          a Cortex-M4 and this machine produce the same traces
//! cargo xtask instructions   instructions per packet, counted by callgrind, as TSV
//! cargo xtask paper          the same in the environment of QFQ Fig. 8
//! cargo xtask api [--renew]  the public items against the baseline in docs/api; needs nightly and cargo-public-api
//! cargo xtask examples       the page of every main type has an example
//! cargo xtask publish        packages, the oldest compiler, `defmt`: what `check` does before a release
//! cargo xtask fuzz SECONDS   every fuzz target for so long; needs nightly and cargo-fuzz
//! cargo xtask search-bounds SECONDS [SEED]   tries to exceed the proven bounds
//! cargo xtask search-cost SECONDS [SEED]     looks for the call that does most
//! ```

mod api;
mod check;
mod documents;
mod examples;
mod fuzz;
mod instructions;
mod panic_free;
mod paper;
mod publish;
mod run;
mod search;
mod trace;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask check [--without-tests] | documents | publish | api [--renew] | examples | panic-free | trace | instructions | paper | \
    fuzz SECONDS (1..=86400) | search-bounds SECONDS (1..=1000000) [SEED] | search-cost SECONDS (1..=1000000) [SEED]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["check"] => check::run(true),
        ["check", "--without-tests"] => check::run(false),
        ["documents"] => documents::run(),
        ["panic-free"] => panic_free::run(),
        ["trace"] => trace::run(),
        ["instructions"] => instructions::run(),
        ["paper"] => paper::run(),
        ["publish"] => publish::run(),
        ["api"] => api::run(false),
        ["api", "--renew"] => api::run(true),
        ["examples"] => examples::run(),
        ["search-bounds", ref rest @ ..] => search::bounds(rest),
        ["search-cost", ref rest @ ..] => search::cost(rest),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds @ 1..=86_400) => fuzz::run(seconds),
            _ => Err(format!("'{seconds}' is not a number of seconds\n{USAGE}")),
        },
        _ => Err(format!("'{}' is not a command\n{USAGE}", words.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
