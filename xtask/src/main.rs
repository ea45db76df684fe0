//! The project's development commands, listed by `cargo xtask --help`.

mod api;
mod c;
mod check;
mod commits;
mod deny;
mod documents;
mod dpdk;
mod examples;
mod firmware;
mod firmware_router;
mod flent;
mod fuzz;
mod instructions;
mod panic_free;
mod paper;
mod progress;
mod publish;
mod run;
mod search;
mod sizes;
mod smart_queue;
mod sweep;
mod tools;
mod trace;
mod worst_call;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development commands of the project
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 80)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every check that a change must pass
    Check(check::Extent),
    /// Check format, documents, lints and the library's unit tests: for the edit loop
    Quick,
    /// Check links, anchors, word budgets and programs of the documents
    Documents,
    /// Check that subjects of commits have at most 72 characters
    Commits,
    /// Check that no panic is reachable on the bare-metal targets
    PanicFree,
    /// Check the header for C, and run its examples under valgrind and sanitizers; needs cbindgen,
    /// CMake and valgrind
    C {
        /// Rewrite the header
        #[arg(long)]
        renew: bool,
    },
    /// Run the fifteen-line smart queue on a Cortex-M4 and compare its sizes with the guide
    SmartQueue,
    /// Compare the flash and RAM of each part of the library with the guide, or measure them for
    /// other numbers of flows and packets
    Sizes(sizes::Asked),
    /// Count instructions and stack of single calls in QEMU and compare them with docs/tables
    WorstCall {
        /// Write the counts to the table
        #[arg(long)]
        renew: bool,
    },
    /// Boot the router without an operating system in QEMU, or test it with --test
    FirmwareRouter(firmware_router::Boot),
    /// Check that a Cortex-M4 and this machine produce the same trace
    Trace,
    /// Count instructions per packet with callgrind and print them as TSV
    Instructions(instructions::Asked),
    /// Measure the C library as scheduler of a DPDK program, beside rte_sched; installs DPDK
    Dpdk(dpdk::Asked),
    /// Count instructions per packet in the environment of QFQ Fig. 8
    Paper,
    /// Check licences, duplicates, sources and advisories of dependencies; needs cargo-deny
    Deny,
    /// Compare the public items with the baseline in docs/api; needs nightly and cargo-public-api
    Api {
        /// Rewrite the baseline
        #[arg(long)]
        renew: bool,
    },
    /// Check that every main type has an example in its documentation
    Examples,
    /// Check packages, the oldest supported compiler and `defmt`; also part of `check`
    Publish,
    /// Run a sweep in parts with GNU parallel and Slurm, kill workers, and compare the results
    Sweep,
    /// Check that stock flent and tshark read what the simulator writes
    Flent,
    /// Run every fuzz target; needs nightly and cargo-fuzz
    Fuzz {
        /// Run time of each target in seconds, 1 to 86400
        #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
        seconds: u32,
    },
    /// Search for sequences of operations that exceed the proven bounds
    SearchBounds(search::Search),
    /// Search for the call with the most loop iterations
    SearchCost(search::Search),
    /// Search for the call that takes the most instructions; needs valgrind
    SearchInstructions(search::Search),
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Check(extent) => check::run(&extent),
        Command::Quick => check::quick(),
        Command::Commits => commits::run(),
        Command::Documents => documents::run(),
        Command::PanicFree => panic_free::run(true),
        Command::C { renew } => c::run(renew),
        Command::SmartQueue => smart_queue::run(),
        Command::Sizes(asked) => sizes::run(&asked),
        Command::WorstCall { renew } => worst_call::run(renew),
        Command::FirmwareRouter(boot) => firmware_router::run(&boot),
        Command::Trace => trace::run(),
        Command::Instructions(asked) => instructions::run(&asked),
        Command::Paper => paper::run(),
        Command::Dpdk(asked) => dpdk::run(&asked),
        Command::Deny => deny::run(),
        Command::Api { renew } => api::run(renew),
        Command::Examples => examples::run(),
        Command::Publish => publish::run(),
        Command::Sweep => sweep::run(),
        Command::Flent => flent::run(),
        Command::Fuzz { seconds } => fuzz::run(seconds),
        Command::SearchBounds(search) => search::bounds(&search),
        Command::SearchCost(search) => search::cost(&search),
        Command::SearchInstructions(search) => search::instructions(&search),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
