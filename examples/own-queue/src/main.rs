//! The simulator with an AQM of its own: `deadline MS`, where MS is a time in milliseconds.
//!
//! It has all commands of `sim`, and an experiment file can name the queue beside the others:
//!
//! ```text
//! cargo run --release -p own-queue -- run examples/own-queue/experiment.toml
//! ```

use std::process::ExitCode;

use freeboard::sched_core::{Admission, Aqm, FlowId, Head, Look, Nanos, Offer, Verdict};
use sim::discipline::one_queue;
use sim::scenario::Queues;
use sim::scenario::queues::{BuiltQueue, MTU, Place};

/// Marks or drops a packet that has waited longer than `longest_wait`, one in each [`PAUSE`].
#[derive(Clone, Copy, Debug)]
struct Deadline {
    longest_wait: Nanos,
    /// Time of the next signal.
    next: Nanos,
}

/// A round trip, so that senders have slowed down before the next signal.
const PAUSE: Nanos = Nanos::from_millis(50);

impl Deadline {
    fn decide(&mut self, head: Head) -> Verdict {
        if head.sojourn <= self.longest_wait || head.now < self.next {
            return Verdict::Pass;
        }
        self.next = head.now.plus(PAUSE);
        Verdict::Signal
    }
}

impl Aqm for Deadline {
    const MAX_DROPS: u32 = 1;

    fn admit(&mut self, _: FlowId, _: Offer, _: Look) -> Admission {
        Admission::Accept
    }
    fn judge(&mut self, _: FlowId, head: Head, _: Look) -> Verdict {
        self.decide(head)
    }
    fn foresee(&self, _: FlowId) -> impl FnMut(Head) -> Verdict {
        let mut copy = *self;
        move |head| copy.decide(head)
    }
    // There is one queue, so its state is never lost to another.
    fn overflowed(&mut self, _: FlowId) {}
    fn emptied(&mut self, _: FlowId) {}
    fn forget(&mut self, _: FlowId) {}
    fn assign(&mut self, _: FlowId, _tin: u8) {}
    fn swap(&mut self, _: FlowId, _other: FlowId) {}
}

fn build(words: &str, place: &Place) -> Result<BuiltQueue, String> {
    let wait = words.parse().map_err(|_| format!("time {words:?} (expected milliseconds)"))?;
    let aqm = Deadline { longest_wait: Nanos::from_millis(wait), next: Nanos::ZERO };
    let limits = place.limits();
    let queue = one_queue(aqm, place.line(), place.overhead, limits, MTU);
    queue.map(|queue| BuiltQueue::of_one_flow(queue, limits)).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    sim::command_line::main(Queues::new().with("deadline", build))
}
