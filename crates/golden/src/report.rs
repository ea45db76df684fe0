//! What the programs print: the same lines on every target.

use core::fmt;

use crate::{ALL, CATALOG, pinned};

/// Whether the runs gave the hashes that they must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All did.
    AsPinned,
    /// At least one did not.
    Different,
}

/// Does every run and writes a line for each: the hash, and the run's name.
///
/// # Errors
/// Those of `out`.
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
