//! The simulator's program; its options are in [`sim::command_line`].

use std::process::ExitCode;

use sim::scenario::Queues;

fn main() -> ExitCode {
    sim::command_line::main(Queues::new())
}
