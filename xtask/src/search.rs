//! Searches that try to exceed proven limits: the bounds of every flow scheduler
//! (`conformance::bounds`) and the cost of a call (`conformance::worst_call`).

use crate::instructions::need_valgrind;
use crate::progress::succeed_after;
use crate::run::{cargo, root, started_from, succeed};

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
    let step = "search for a sequence that exceeds a bound";
    run(step, &RELEASE, "search_bounds", search)
}

pub(crate) fn cost(search: &Search) -> Result<(), String> {
    let counting = [&RELEASE[..], &["--features", "steps"]].concat();
    run("search for the call with the most steps", &counting, "search_cost", search)
}

/// Fails if a call takes more than eight times the median of its discipline.
pub(crate) fn instructions(search: &Search) -> Result<(), String> {
    need_valgrind()?;
    run(INSTRUCTIONS, &RELEASE, "search_instructions", search)
}

/// The same in the profile of the tests, in which it is built already: the ratios differ little.
pub(crate) fn instructions_in_tests(search: &Search) -> Result<(), String> {
    need_valgrind()?;
    run(INSTRUCTIONS, &["--profile", "full", "--workspace"], "search_instructions", search)
}

const INSTRUCTIONS: &str = "search for the call with the most instructions";
const RELEASE: [&str; 4] = ["--profile", "release", "--package", "conformance"];

/// Builds `example` as `build`, a profile and packages, says; then runs it.
fn run(step: &str, build: &[&str], example: &str, search: &Search) -> Result<(), String> {
    let words = [&["build"], build, &["--example", example]].concat();
    succeed("build of the search", cargo(".").args(words))?;
    let folder = root().join("target").join(build[1]).join("examples");
    let mut run = started_from(".", &folder.join(example).to_string_lossy());
    run.arg(search.seconds.to_string()).args(search.seed.map(|seed| seed.to_string()));
    succeed_after(search.seconds, step, &mut run)
}
