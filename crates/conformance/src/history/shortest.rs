//! Comparisons over long sequences, and reduction of a sequence to the shortest that still shows a
//! difference.

use core::fmt;

use super::lockstep::{Course, Step};
use super::operation::{Operation, Operations};
use super::{DESCRIPTORS, Pair};

/// Number of operations between two thorough comparisons in long sequences.
const THOROUGH_EVERY: usize = 64;

/// A difference between two sides, with a sequence short enough to become a test.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Description of the difference after the last operation.
    pub what: String,
    /// The sequence.
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

/// Plays `operations` on two new sides from `sides`, with a thorough comparison after each.
///
/// # Errors
/// Returns the first difference, with the sequence reduced as far as it still shows one.
pub fn check(sides: &dyn Fn() -> Pair, operations: &[Operation]) -> Result<(), Difference> {
    match play(sides, operations, 1) {
        Ok(()) => Ok(()),
        Err((what, steps)) => Err(shortest(sides, what, operations[..steps].to_vec())),
    }
}

/// Plays `operations` random operations, in sequences of at most `length`, each with its own seed.
///
/// # Errors
/// Returns the first difference, with a reduced sequence.
pub fn soak(
    sides: &dyn Fn() -> Pair,
    seed: u64,
    operations: u64,
    length: usize,
) -> Result<(), Difference> {
    soak_on(&|seed| Box::new(Operations::new(seed)), sides, seed, operations, length)
}

/// Plays `operations` operations like [`soak`], in sequences that `history` creates from a seed.
///
/// # Errors
/// Returns the first difference, with a reduced sequence.
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

/// Returns a description of the difference and the number of operations until it.
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

/// Removes ever smaller stretches of the sequence while a difference remains.
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

    /// Goal: a difference is found and reported with the shortest sequence. Method: compare a
    /// head-drop FIFO with a tail-drop FIFO. They differ once a packet arrives at a full queue,
    /// which takes a limit of one packet and two arrivals.
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
