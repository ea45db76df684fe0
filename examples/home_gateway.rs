//! Simulates a home with a full uplink under one queue discipline after another, to show why the
//! discipline matters.
//!
//! ```text
//! cargo run --release --example home_gateway -- --help
//! ```
//!
//! The scenario is `sim::experiments::home_gateway`; this program runs it and writes the results.

use std::fs;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use freeboard::sched_core::Nanos;
use sim::capture::{LinkType, Resolution, Writer};
use sim::discipline::Discipline;
use sim::experiments::home_gateway::{Observer, Options, Outcome, chart, heading, run, table};
use sim::progress::Progress;

fn main() -> ExitCode {
    let options = Options::parse();
    match results(&options) {
        Ok(text) => printed(&text),
        Err(why) => {
            eprintln!("home_gateway: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output. A reader that closes the pipe early (`… | head`) is not an error.
fn printed(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// Runs every discipline, writes the files, and returns the text to print.
fn results(options: &Options) -> Result<String, String> {
    // Checked before the runs: `--seconds 100000` takes minutes, and the chart is part of the
    // result.
    let asked = fs::OpenOptions::new().append(true).create(true).open(&options.svg);
    asked.map_err(named(&options.svg))?;
    let (setup, disciplines) = (options.setup(), options.disciplines());
    let progress = Progress::new("home_gateway");
    progress.expect(STEPS * disciplines.len() as u64);
    let mut outcomes = Vec::new();
    for (number, &discipline) in (0..).zip(&disciplines) {
        outcomes.push(outcome(options, discipline, &progress, number * STEPS)?);
    }
    progress.clear();
    fs::write(&options.svg, chart(&setup, &outcomes)).map_err(named(&options.svg))?;
    eprintln!("delays of the calls: {}", options.svg.display());
    Ok(format!("{}\n{}", heading(&setup), table(&outcomes)))
}

/// Runs one discipline; `before` steps belong to earlier ones.
fn outcome(
    options: &Options,
    discipline: Discipline,
    progress: &Progress,
    before: u64,
) -> Result<Outcome, String> {
    let file = options.pcap_of(discipline);
    let capture = match &file {
        Some(path) => {
            let file = BufWriter::new(File::create(path).map_err(named(path))?);
            Some(Writer::new(file, LinkType::RawIp, Resolution::Nanos).map_err(named(path))?)
        }
        None => None,
    };
    let mut spectator = Spectator { progress, before, capture, failure: None };
    let outcome = run(&options.setup(), discipline, &mut spectator);
    let written = match (spectator.failure, spectator.capture) {
        (Some(failure), _) => Err(failure),
        (None, Some(capture)) => capture.finish().map(drop),
        (None, None) => Ok(()),
    };
    if let Some(path) = &file {
        written.map_err(named(path))?;
        eprintln!("departures of the uplink: {}", path.display());
    }
    Ok(outcome)
}

/// Adds the path of a file to its error.
fn named(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Shows the progress and writes the capture of one run.
struct Spectator<'a> {
    progress: &'a Progress,
    /// Steps before this run.
    before: u64,
    capture: Option<Writer<BufWriter<File>>>,
    /// First error of the capture; nothing is written after it.
    failure: Option<io::Error>,
}

/// Steps of progress in a run.
const STEPS: u64 = 1_000;

impl Observer for Spectator<'_> {
    fn progress(&mut self, now: Nanos, end: Nanos) {
        self.progress.set(self.before + now.0 / (end.0 / STEPS).max(1));
    }

    fn departure(&mut self, now: Nanos, packet: &[u8]) {
        if let (Some(capture), None) = (&mut self.capture, &self.failure) {
            self.failure = capture.write(now, packet, 0).err();
        }
    }
}
