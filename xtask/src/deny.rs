//! Licences, duplicates, sources and known weaknesses of the dependencies, by `cargo deny`.

use crate::publish::skip;
use crate::run::{cargo, has, succeed};

pub(crate) fn run() -> Result<(), String> {
    let step = "licences, duplicates and sources of dependencies";
    if !has("cargo-deny") {
        return skip(step, "cargo-deny", "cargo install --locked cargo-deny");
    }
    let deny = |words: &[&str]| {
        let mut deny = cargo(".");
        deny.args(["deny", "--log-level", "error"]).args(words);
        deny
    };
    succeed(step, &mut deny(&["check", "licenses", "bans", "sources"]))?;
    let step = "known weaknesses of dependencies";
    // The database of advisories is a repository, which not every machine reaches.
    if !deny(&["fetch", "db"]).output().is_ok_and(|run| run.status.success()) {
        return skip(step, "advisories", "cargo deny fetch db");
    }
    succeed(step, &mut deny(&["check", "advisories"]))
}
