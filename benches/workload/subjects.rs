//! The schedulers that are measured, by name.

use freeboard::sched_core::{Fifo, Limits, Scheduler, Slot};

use super::null::Null;
use super::{Loop, Pattern};

/// A closed loop around a scheduler: runs at least so many pairs, returns how many.
pub(crate) type Subject = Box<dyn FnMut(usize) -> usize>;

/// What [`subject`] knows.
pub(crate) const NAMES: [&str; 2] = ["null", "fifo"];

/// The scheduler called `name` with `flows` flows in the closed loop `pattern`, warmed up.
pub(crate) fn subject(name: &str, pattern: Pattern, flows: usize) -> Option<Subject> {
    let packets = 4 * flows + flows.max(64);
    let slots = || vec![Slot::EMPTY; packets].into_boxed_slice();
    Some(match name {
        "null" => closed(Null::new(packets), pattern, flows, false),
        "fifo" => closed(Fifo::tail_drop(slots(), Limits::NONE), pattern, flows, false),
        _ => return None,
    })
}

fn closed<S: Scheduler + 'static>(
    scheduler: S,
    pattern: Pattern,
    flows: usize,
    hashed: bool,
) -> Subject {
    let mut subject = Loop::new(scheduler, pattern, flows, hashed);
    Box::new(move |pairs| {
        let done = subject.run(pairs);
        subject.verify();
        done
    })
}
