//! Output of the programs, equal on every target.

use core::fmt;

use crate::{ALL, CATALOG, pinned};

/// Result of comparing all runs with their pinned hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All hashes are as expected.
    AsPinned,
    /// At least one hash differs.
    Different,
}

/// Performs every run and writes one line for each: the hash and the name of the run.
///
/// # Errors
/// Errors of `out`.
pub fn report(out: &mut dyn fmt::Write) -> Result<Outcome, fmt::Error> {
    let entries = CATALOG.into_iter().flatten();
    let runs = ALL.iter().map(|run| (run.name, run.hash, Some(run.pinned)));
    let mut outcome = Outcome::AsPinned;
    for (name, run, pinned) in runs.chain(entries.map(|run| (run.name, run.hash, pinned(run.name))))
    {
        let hash = run();
        match pinned {
            Some(pinned) if pinned == hash => writeln!(out, "{hash:016x} {name}")?,
            Some(pinned) => writeln!(out, "{hash:016x} {name}, pinned {pinned:016x}")?,
            None => writeln!(out, "{hash:016x} {name}, not pinned")?,
        }
        if pinned != Some(hash) {
            outcome = Outcome::Different;
        }
    }
    Ok(outcome)
}
