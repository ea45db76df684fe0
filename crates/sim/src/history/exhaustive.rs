//! All short histories.

use super::shortest::Difference;
use super::{Contestant, Match, Operation};

/// Plays every history of `depth` operations out of `alphabet` after `prelude`, thoroughly at each
/// step; returns how many there are. Histories that begin alike share their beginning.
///
/// # Errors
/// The first difference, with its history.
pub fn explore<S, T>(
    subject: S,
    twin: T,
    prelude: &[Operation],
    alphabet: &[Operation],
    depth: usize,
) -> Result<u64, Difference>
where
    S: Contestant + Clone,
    T: Contestant + Clone,
{
    let mut start = Match::new(subject, twin);
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
    S: Contestant + Clone,
    T: Contestant + Clone,
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

fn step<S: Contestant, T: Contestant>(
    here: &mut Match<S, T>,
    operation: Operation,
    history: &[Operation],
) -> Result<(), Difference> {
    here.step(operation, true).map_err(|what| Difference { what, operations: history.to_vec() })
}
