//! Enumeration of all short sequences of operations.

use super::shortest::Difference;
use super::{ConfigurableScheduler, Match, Operation};

/// Plays every sequence of `depth` operations from `alphabet` after `prelude`, with all checks
/// after each step; returns the number of sequences. Checks flows 0 to 3. Sequences with a common
/// beginning share its execution.
///
/// # Errors
/// Returns the first difference with its sequence.
pub fn explore<S, T>(
    subject: S,
    twin: T,
    prelude: &[Operation],
    alphabet: &[Operation],
    depth: usize,
) -> Result<u64, Difference>
where
    S: ConfigurableScheduler + Clone,
    T: ConfigurableScheduler + Clone,
{
    // As many handles as a sequence can use; flows 0 to 3 include one that the alphabet does not
    // use.
    let descriptors = u32::try_from(prelude.len() + depth).expect("short histories");
    let mut start = Match::with_descriptors(subject, twin, descriptors).watching(&[0, 1, 2, 3]);
    let mut history = Vec::new();
    for &operation in prelude {
        history.push(operation);
        step(&mut start, operation, &history)?;
    }
    branch(&start, alphabet, depth, &mut history)
}

fn branch<S, T>(
    here: &Match<S, T>,
    alphabet: &[Operation],
    depth: usize,
    history: &mut Vec<Operation>,
) -> Result<u64, Difference>
where
    S: ConfigurableScheduler + Clone,
    T: ConfigurableScheduler + Clone,
{
    if depth == 0 {
        return Ok(1);
    }
    let mut leaves = 0;
    for &operation in alphabet {
        let mut next = here.clone();
        history.push(operation);
        step(&mut next, operation, history)?;
        leaves += branch(&next, alphabet, depth - 1, history)?;
        history.pop();
    }
    Ok(leaves)
}

fn step<S: ConfigurableScheduler, T: ConfigurableScheduler>(
    here: &mut Match<S, T>,
    operation: Operation,
    history: &[Operation],
) -> Result<(), Difference> {
    here.step(operation, true).map_err(|what| Difference { what, operations: history.to_vec() })
}
