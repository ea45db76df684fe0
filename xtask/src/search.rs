//! Searches that try to exceed proven limits: the bounds of every flow scheduler
//! (`conformance::bounds`) and the cost of a call (`conformance::worst_call`).

use crate::instructions::need_valgrind;
use crate::progress::succeed_after;
use crate::run::{cargo, succeed};

/// Arguments of a search.
#[derive(clap::Args)]
pub(crate) struct Search {
    /// Total run time in seconds, 1 to 1000000
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) seconds: u32,
    /// Seed of the random number generator
    pub(crate) seed: Option<u64>,
}

pub(crate) fn bounds(search: &Search) -> Result<(), String> {
    run("search for a sequence that exceeds a bound", &["--example", "search_bounds"], search)
}

pub(crate) fn cost(search: &Search) -> Result<(), String> {
    let example = ["--features", "steps", "--example", "search_cost"];
    run("search for the call with the most steps", &example, search)
}

/// Fails if a call takes more than eight times the median of its discipline.
pub(crate) fn instructions(search: &Search) -> Result<(), String> {
    need_valgrind()?;
    let step = "search for the call with the most instructions";
    run(step, &["--example", "search_instructions"], search)
}

/// Builds first, so that `seconds` is the time of the search alone.
fn run(step: &str, example: &[&str], search: &Search) -> Result<(), String> {
    let package = ["--release", "--package", "conformance"];
    succeed("build of the search", cargo(".").arg("build").args(package).args(example))?;
    let mut run = cargo(".");
    run.args(["run", "--quiet"]).args(package).args(example).arg("--");
    run.arg(search.seconds.to_string()).args(search.seed.map(|seed| seed.to_string()));
    succeed_after(search.seconds, step, &mut run)
}
