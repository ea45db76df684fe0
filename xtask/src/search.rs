//! Searches that try to exceed what is proven: the bounds of every flow scheduler (`conformance::bounds`), and what a call may
//! cost (`conformance::worst_call`).

use crate::instructions::need_valgrind;
use crate::progress::succeed_after;
use crate::run::{cargo, succeed};

pub(crate) fn bounds(seconds: u32, words: &[String]) -> Result<(), String> {
    let step = "search for a history that exceeds a bound";
    search(step, &["--example", "search_bounds"], seconds, words)
}

pub(crate) fn cost(seconds: u32, words: &[String]) -> Result<(), String> {
    let example = ["--features", "steps", "--example", "search_cost"];
    search("search for the call that does most", &example, seconds, words)
}

/// Fails where a call takes more than eight times what the median of its discipline takes.
pub(crate) fn instructions(seconds: u32, words: &[String]) -> Result<(), String> {
    need_valgrind()?;
    let step = "search for the call that takes most instructions";
    search(step, &["--example", "search_instructions"], seconds, words)
}

/// Builds first, so that the seconds are those of the search.
fn search(step: &str, example: &[&str], seconds: u32, words: &[String]) -> Result<(), String> {
    let package = ["--release", "--package", "conformance"];
    succeed("build of the search", cargo(".").arg("build").args(package).args(example))?;
    let mut run = cargo(".");
    run.args(["run", "--quiet"]).args(package).args(example).arg("--").args(words);
    succeed_after(seconds, step, &mut run)
}
