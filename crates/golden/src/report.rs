//! What the programs print: the same lines on every target.

use core::fmt;

use crate::ALL;

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
    let mut outcome = Outcome::AsPinned;
    for run in ALL {
        let hash = (run.hash)();
        if hash == run.pinned {
            writeln!(out, "{hash:016x} {}", run.name)?;
        } else {
            writeln!(out, "{hash:016x} {}, pinned {:016x}", run.name, run.pinned)?;
            outcome = Outcome::Different;
        }
    }
    Ok(outcome)
}
