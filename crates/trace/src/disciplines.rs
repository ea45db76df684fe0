//! The runs: each discipline with small static memory, and the hash it must give.

use sched_core::{Fifo, Limits, Slot};

use crate::{HANDLES, run};

/// What a run needs on the stack at most, with a margin for the calls below it.
pub const STACK_BYTES: usize = 16 << 10;

/// How many operations the pinned hashes are of.
const OPERATIONS: u32 = 50_000;

const SLOTS: usize = HANDLES as usize;

/// A run and what must come of it.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The discipline.
    pub name: &'static str,
    /// Does the run; returns the hash of its trace.
    pub hash: fn() -> u64,
    /// What [`Run::hash`] must return, on every target.
    pub pinned: u64,
}

/// Every run.
pub const ALL: &[Run] = &[
    Run { name: "fifo, tail drop", hash: fifo_tail_drop, pinned: 0xe48b_7f0a_ae1a_7562 },
    Run { name: "fifo, head drop", hash: fifo_head_drop, pinned: 0x240e_7860_e787_345a },
];

fn fifo_tail_drop() -> u64 {
    let mut fifo = Fifo::tail_drop([Slot::EMPTY; SLOTS], Limits::NONE);
    run(&mut fifo, OPERATIONS, 1, |_, _, _, _| {})
}

fn fifo_head_drop() -> u64 {
    let mut fifo = Fifo::head_drop([Slot::EMPTY; SLOTS], Limits::NONE);
    run(&mut fifo, OPERATIONS, 2, |_, _, _, _| {})
}
