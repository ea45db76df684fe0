//! Prints the hash of every run and fails if one differs from the pinned hash.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut lines = String::new();
    let outcome = golden::report(&mut lines);
    print!("{lines}");
    match outcome {
        Ok(golden::Outcome::AsPinned) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
