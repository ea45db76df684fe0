//! Long random histories of every discipline against its twin: the exact sequence of packets, the exact
//! victims, the exact books.
//!
//! Every discipline is given 10^7 operations, shared by its variants. `FREEBOARD_OPERATIONS` sets
//! another number; a variant then takes all of them.

mod sides;

use freeboard::sched_core::{DropFrom, Limits};
use sides::MAX_LEN;
use sim::history::{Contestant, soak};

const FLOWS: usize = sim::history::FLOWS as usize;
const SLOTS: usize = sim::history::SLOTS as usize;

/// Operations of a discipline where nothing else is asked for.
const OPERATIONS: u64 = 10_000_000;
/// Long enough for clocks, stamps and virtual times to go far, short enough to replay.
const LENGTH: usize = 100_000;

/// Plays a discipline that has so many variants.
fn play<S: Contestant, T: Contestant>(variants: u64, seed: u64, sides: impl Fn() -> (S, T)) {
    let operations = std::env::var("FREEBOARD_OPERATIONS").map_or(OPERATIONS / variants, |count| {
        count.parse().expect("FREEBOARD_OPERATIONS is a number")
    });
    if let Err(difference) = soak(sides, seed, operations, LENGTH) {
        panic!("{difference}");
    }
}

#[test]
fn fifo_with_tail_drop_agrees_with_its_twin() {
    play(2, 1, || sides::fifo::<SLOTS>(DropFrom::Tail, Limits::NONE));
}

#[test]
fn fifo_with_head_drop_agrees_with_its_twin() {
    play(2, 2, || sides::fifo::<SLOTS>(DropFrom::Head, Limits::NONE));
}

#[test]
fn drr_agrees_with_its_twin() {
    play(4, 3, || sides::drr::<FLOWS, SLOTS>(MAX_LEN, false, Limits::NONE));
}

#[test]
fn drr_with_sparse_flows_first_agrees_with_its_twin() {
    play(4, 4, || sides::drr::<FLOWS, SLOTS>(MAX_LEN, true, Limits::NONE));
}

#[test]
fn drr_with_head_drop_from_the_longest_agrees_with_its_twin() {
    play(4, 5, || sides::drr_lqd::<FLOWS, SLOTS>(MAX_LEN, false, DropFrom::Head, Limits::NONE));
}

#[test]
fn drr_with_sparse_flows_first_and_tail_drop_from_the_longest_agrees_with_its_twin() {
    play(4, 6, || sides::drr_lqd::<FLOWS, SLOTS>(MAX_LEN, true, DropFrom::Tail, Limits::NONE));
}

#[test]
fn sqf_with_head_drop_agrees_with_its_twin() {
    play(6, 7, || sides::sqf::<FLOWS, SLOTS>(DropFrom::Head, Limits::NONE));
}

#[test]
fn sqf_with_tail_drop_agrees_with_its_twin() {
    play(6, 8, || sides::sqf::<FLOWS, SLOTS>(DropFrom::Tail, Limits::NONE));
}

/// More labels than queues: they meet in the default queue most of the time.
#[test]
fn sqf_with_one_virtual_queue_agrees_with_its_twin() {
    play(6, 9, || sides::virtual_queues::<FLOWS, SLOTS, 2>(DropFrom::Head, Limits::NONE));
}

#[test]
fn sqf_with_three_virtual_queues_and_head_drop_agrees_with_its_twin() {
    play(6, 10, || sides::virtual_queues::<FLOWS, SLOTS, 4>(DropFrom::Head, Limits::NONE));
}

#[test]
fn sqf_with_three_virtual_queues_and_tail_drop_agrees_with_its_twin() {
    play(6, 11, || sides::virtual_queues::<FLOWS, SLOTS, 4>(DropFrom::Tail, Limits::NONE));
}

#[test]
fn sqf_with_a_virtual_queue_for_every_label_agrees_with_its_twin() {
    play(6, 12, || sides::virtual_queues::<FLOWS, SLOTS, 9>(DropFrom::Head, Limits::NONE));
}
