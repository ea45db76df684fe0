//! Long histories, and the shortest one that still shows a difference.

use core::fmt;

use super::lockstep::{Course, Step};
use super::operation::{Operation, Operations};
use super::{DESCRIPTORS, Pair};

/// In long histories the state is looked at thoroughly once in this number of operations.
const THOROUGH_EVERY: usize = 64;

/// A history on which two sides differ, short enough to become a test.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What differs after the last operation.
    pub what: String,
    /// The history.
    pub operations: Vec<Operation>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after", self.what)?;
        writeln!(f, "[")?;
        for operation in &self.operations {
            writeln!(f, "    Operation::{operation:?},")?;
        }
        write!(f, "]")
    }
}

impl core::error::Error for Difference {}

/// Plays `operations` on two sides fresh from `sides`, thoroughly after each.
///
/// # Errors
/// The difference that shows first, with the history cut down as far as it still shows one.
pub fn check(sides: &dyn Fn() -> Pair, operations: &[Operation]) -> Result<(), Difference> {
    match play(sides, operations, 1) {
        Ok(()) => Ok(()),
        Err((what, steps)) => Err(shortest(sides, what, operations[..steps].to_vec())),
    }
}

/// Plays `operations` random operations, in histories of at most `length`, each from a seed of its
/// own.
///
/// # Errors
/// As [`check`].
pub fn soak(
    sides: &dyn Fn() -> Pair,
    seed: u64,
    operations: u64,
    length: usize,
) -> Result<(), Difference> {
    soak_on(&|seed| Box::new(Operations::new(seed)), sides, seed, operations, length)
}

/// As [`soak`], of histories of another kind: `history` has one for every seed.
///
/// # Errors
/// As [`check`].
pub fn soak_on(
    history: &dyn Fn(u64) -> Box<dyn Iterator<Item = Operation>>,
    sides: &dyn Fn() -> Pair,
    seed: u64,
    operations: u64,
    length: usize,
) -> Result<(), Difference> {
    let mut left = usize::try_from(operations).expect("a count of this machine");
    for seed in (0..).map(|run: u64| seed.wrapping_add(run.wrapping_mul(0x9e37_79b9))) {
        if left == 0 {
            break;
        }
        let length = length.min(left);
        left -= length;
        let history: Vec<Operation> = history(seed).take(length).collect();
        if let Err((what, steps)) = play(sides, &history, THOROUGH_EVERY) {
            return Err(shortest(sides, what, history[..steps].to_vec()));
        }
    }
    Ok(())
}

/// What differs, and after how many operations.
fn play(
    sides: &dyn Fn() -> Pair,
    operations: &[Operation],
    thorough_every: usize,
) -> Result<(), (String, usize)> {
    let (mut subject, mut twin) = sides();
    let course = &mut Course::new(DESCRIPTORS, subject.order());
    for (done, &operation) in (1..).zip(operations) {
        let thorough = done % thorough_every == 0 || done == operations.len();
        let step = Step { subject: &mut *subject, twin: &mut *twin, course };
        step.step(operation, thorough).map_err(|what| (what, done))?;
    }
    Ok(())
}

/// Leaves out ever smaller stretches while a difference still shows.
fn shortest(
    sides: &dyn Fn() -> Pair,
    mut what: String,
    mut operations: Vec<Operation>,
) -> Difference {
    let mut stretch = operations.len() / 2;
    while stretch > 0 {
        let mut at = 0;
        let before = operations.len();
        while at < operations.len() {
            let end = (at + stretch).min(operations.len());
            let mut fewer = operations.clone();
            fewer.drain(at..end);
            match play(sides, &fewer, 1) {
                Ok(()) => at = end,
                Err((other, steps)) => {
                    fewer.truncate(steps);
                    (what, operations) = (other, fewer);
                }
            }
        }
        if stretch > 1 || operations.len() == before {
            stretch /= 2;
        }
    }
    Difference { what, operations }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::pair;
    use crate::twin::NaiveFifo;
    use freeboard::sched_core::{DropFrom, Limits};

    /// Goal: a difference is found and told by the shortest history.
    /// Method: a head-drop FIFO judged by a tail-drop FIFO. They differ once a packet is offered
    /// for which there is no room but could be made, which takes a limit and two packets.
    #[test]
    fn a_difference_is_cut_down_to_the_operations_that_show_it() {
        let fifo = |end| NaiveFifo::new(end, DESCRIPTORS, Limits::packets(1));
        let sides = &|| pair((fifo(DropFrom::Head), fifo(DropFrom::Tail)));
        let difference = soak(sides, 1, 10_000, 10_000).unwrap_err();
        assert_eq!(difference.operations.len(), 2, "{difference}");
        let sides = &|| pair((fifo(DropFrom::Head), fifo(DropFrom::Head)));
        assert!(soak(sides, 1, 10_000, 1_000).is_ok());
    }
}
