//! A search that tries to exceed the proven bounds of every order (`sim::guarantee`).

use crate::run::{cargo, succeed};

pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let mut search = cargo(".");
    search.args(["run", "--quiet", "--release", "--package", "sim", "--example", "search_bounds"]);
    succeed("search for a history that exceeds a bound", search.arg("--").args(words))
}
