//! The project's own commands.
//!
//! `cargo xtask --help` names them.

mod api;
mod check;
mod commits;
mod deny;
mod documents;
mod examples;
mod firmware;
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
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 80)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs everything a change must pass.
    Check(check::Extent),
    /// Format, documents, lints and the library's unit tests: the edit loop, in a minute or so.
    Quick,
    /// Checks links, the budgets of words, and programs of the documents.
    Documents,
    /// Checks that subjects of commits have at most 72 characters.
    Commits,
    /// No panic can be reached on the bare-metal targets.
    PanicFree,
    /// The queue of fifteen lines runs on a Cortex-M4.
    SmartQueue,
    /// Each part of the library takes the flash and the RAM that the guide says.
    Sizes {
        /// Writes the sizes to the guide.
        #[arg(long)]
        renew: bool,
    },
    /// A Cortex-M4 and this machine produce the same traces.
    Trace,
    /// Instructions per packet, counted by callgrind, as TSV.
    Instructions(instructions::Asked),
    /// Instructions per packet in the environment of QFQ Fig. 8.
    Paper,
    /// Licences, duplicates, sources and known weaknesses of the dependencies; needs cargo-deny.
    Deny,
    /// The public items against the baseline in docs/api; needs nightly and cargo-public-api.
    Api {
        /// Writes the baseline anew.
        #[arg(long)]
        renew: bool,
    },
    /// The page of every main type has an example.
    Examples,
    /// Packages, the oldest compiler, `defmt`: what `check` does before a release.
    Publish,
    /// Every fuzz target for a while; needs nightly and cargo-fuzz.
    Fuzz {
        /// How long each target runs, in seconds, 1 to 86400.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
        seconds: u32,
    },
    /// Tries to exceed the proven bounds.
    SearchBounds(search::Search),
    /// Looks for the call that does most, in turns of loops.
    SearchCost(search::Search),
    /// Looks for the call that takes most instructions; needs valgrind.
    SearchInstructions(search::Search),
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Check(extent) => check::run(&extent),
        Command::Quick => check::quick(),
        Command::Commits => commits::run(),
        Command::Documents => documents::run(),
        Command::PanicFree => panic_free::run(),
        Command::SmartQueue => smart_queue::run(),
        Command::Sizes { renew } => sizes::run(renew),
        Command::Trace => trace::run(),
        Command::Instructions(asked) => instructions::run(&asked),
        Command::Paper => paper::run(),
        Command::Deny => deny::run(),
        Command::Api { renew } => api::run(renew),
        Command::Examples => examples::run(),
        Command::Publish => publish::run(),
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
