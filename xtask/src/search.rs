//! Searches that try to exceed what is proven: the bounds of every flow scheduler (`conformance::bounds`), and what a call may
//! cost (`conformance::worst_call`).

use crate::run::{cargo, succeed};

pub(crate) fn bounds(words: &[String]) -> Result<(), String> {
    let mut search = cargo(".");
    search.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "conformance",
        "--example",
        "search_bounds",
    ]);
    succeed("search for a history that exceeds a bound", search.arg("--").args(words))
}

pub(crate) fn cost(words: &[String]) -> Result<(), String> {
    let mut search = cargo(".");
    search.args(["run", "--quiet", "--release", "--package", "conformance", "--features", "steps"]);
    search.args(["--example", "search_cost", "--"]);
    succeed("search for the call that does most", search.args(words))
}
