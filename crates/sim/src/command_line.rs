//! The command line. `sim replay` runs a capture through a queue, `sim reproduce` reproduces
//! results of the papers, `sim run` runs an experiment of the user's own.
//!
//! A program with queues of its own calls [`main`] with them, and has all commands.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::capture::{CaptureError, Reader};
use crate::discipline::Discipline;
use crate::experiments::harness::{self, SweepError};
use crate::experiments::options::Kept;
use crate::experiments::page::{self, Section};
use crate::experiments::run_file::{self, Description, RunFile, RunFileError};
use crate::experiments::{self, Options, Report, Sweep, output};
use crate::notation::{self, Seed, within};
use crate::plot::decimal;
use crate::progress::Progress;
use crate::replay::{self, Choice, Setup};
use crate::scenario::{self, Queues, ScenarioError, recording};
use freeboard::QueueSettings;
use freeboard::shaper::Rate;

/// Simulates packet queues.
#[derive(Parser)]
#[command(name = "sim", version, max_term_width = 80, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Replay(Box<Request>),
    Reproduce(Options),
    Run(RunRequest),
    Merge(MergeRequest),
    /// Prints a shell completion script.
    Completions {
        /// Shell to complete for.
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

/// Runs an experiment of your own: a TOML file with a link, queues, traffic and a sweep.
///
/// Prints a table with 95 % confidence intervals over the seeds, and writes data and charts.
#[derive(Args)]
struct RunRequest {
    /// Experiment file.
    #[arg(value_name = "FILE", required_unless_present = "template")]
    file: Option<PathBuf>,
    /// Print an annotated file with every key, and exit.
    #[arg(long)]
    template: bool,
    /// Number of seeds, 1 to 10000, instead of that in the file.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = within(1..=10_000))]
    seeds: Option<u64>,
    /// Folder for charts and data, created if missing.
    #[arg(long, value_name = "FOLDER", default_value = "target/figures")]
    out: PathBuf,
    #[command(flatten)]
    kept: Kept,
    /// Also write a run of each cell, with seed 1, for flent: NAME-CELL.flent.gz. flent draws runs
    /// of 20 s and more.
    #[arg(long, conflicts_with = "shard")]
    flent: bool,
    /// Also write the packets of a run of each cell, with seed 1, with comments on what happened
    /// to each: NAME-CELL.pcapng.
    #[arg(long, conflicts_with = "shard")]
    pcapng: bool,
}

/// Prints the reports of sweeps whose runs are in a folder.
///
/// The folder was written by `--runs`, as a whole or in parts (`--shard`). Output and exit code are
/// those of the undivided command.
#[derive(Args)]
struct MergeRequest {
    /// Folder of the run files.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Folder for the charts and tables, created if missing.
    #[arg(long, value_name = "FOLDER", default_value = "target/figures")]
    out: PathBuf,
    /// Also write one page, as `sim reproduce --report` does.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Replays a capture through flow hash, scheduler and shaper.
///
/// Packets arrive at their recorded times. Prints loss, share and delay of each flow.
#[derive(Args)]
struct Request {
    /// Capture file: pcap or pcapng with Ethernet, raw IP, Linux cooked (SLL, SLL2), PPP, BSD
    /// loopback or 802.11 with radiotap.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Rate of the link, for example 10mbit, 512kbit or 1gbit; a plain number is bits per second.
    #[arg(long, value_name = "RATE", value_parser = notation::rate)]
    rate: Rate,
    /// Queueing discipline, with its default settings.
    #[arg(long, value_name = "NAME", value_parser = notation::discipline())]
    #[arg(required_unless_present = "queue", conflicts_with = "queue")]
    scheduler: Option<Discipline>,
    /// SmartQueue with these settings, in the keywords of tc for CAKE, for example "diffserv4
    /// dual-srchost ack-filter"; "" selects the defaults.
    #[arg(long, value_name = "KEYWORDS", value_parser = settings)]
    queue: Option<QueueSettings>,
    /// Maximum number of queued packets, 1 to 1000000 [default: 256, or the SmartQueue's own].
    #[arg(
        long,
        value_name = "PACKETS",
        allow_negative_numbers = true,
        value_parser = within(1..=1_000_000)
    )]
    limit: Option<u64>,
    /// Number of flows listed individually, those with the most bytes first.
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "20",
        allow_negative_numbers = true,
        value_parser = within(0..=u32::MAX.into())
    )]
    flows: u64,
    #[command(flatten)]
    seed: Seed,
}

impl Request {
    fn setup(&self) -> Setup {
        let limit = self.limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let queue = match (self.queue, self.scheduler) {
            (Some(settings), _) => Choice::Smart(settings),
            (None, scheduler) => Choice::Discipline(scheduler.expect("clap requires one of them")),
        };
        Setup { rate: self.rate, queue, limit, seed: self.seed.number }
    }
}

/// Parses the settings of a replayed SmartQueue.
fn settings(words: &str) -> Result<QueueSettings, String> {
    let settings = QueueSettings::from_words(words).map_err(|error| error.to_string())?;
    let elsewhere = [
        (settings.rate.is_some(), "a rate (use --rate)"),
        (settings.nat == Some(true), "nat (a capture has no connection table)"),
        (settings.autorate == Some(true), "autorate-ingress (--rate is fixed)"),
        (settings.split_gso == Some(true), "split-gso (packets are replayed as captured)"),
        (settings.fwmark.is_some_and(|mask| mask != 0), "fwmark (a capture has no marks)"),
    ];
    match elsewhere.into_iter().find(|&(is_set, _)| is_set) {
        Some((_, what)) => Err(format!("not available in a replay: {what}")),
        None => Ok(settings),
    }
}

/// Reasons to exit with code 1. Invalid arguments exit with code 2, as in shell commands.
enum Failure {
    File(String),
    Output(io::Error),
    /// A check of an experiment failed; it has been printed.
    Check(String),
}

/// Runs the command line of the process. Experiment files can name `queues`.
#[must_use]
pub fn main(queues: Queues) -> ExitCode {
    match run(CommandLine::parse(), queues) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe early: `sim … | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => fail(&error.to_string()),
        Err(Failure::File(why) | Failure::Check(why)) => fail(&why),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("sim: {why}");
    ExitCode::FAILURE
}

fn run(line: CommandLine, queues: Queues) -> Result<(), Failure> {
    match line.command {
        Some(Command::Replay(request)) => {
            let named = |why: String| Failure::File(format!("{}: {why}", request.file.display()));
            let file = fs::read(&request.file).map_err(|error| named(error.to_string()))?;
            let reader = Reader::new(&file).map_err(|error| named(error.to_string()))?;
            let (mut packets, mut end) = (Vec::new(), None);
            for packet in reader {
                match packet {
                    Ok(packet) => packets.push(packet),
                    Err(error) if packets.is_empty() => return Err(named(error.to_string())),
                    Err(error) => end = Some(error),
                }
            }
            let report = replay::replay(&packets, request.setup())
                .map_err(|error| Failure::File(format!("--queue: {error}")))?;
            print(&request, &report, end).map_err(Failure::Output)
        }
        Some(Command::Reproduce(options)) if options.list => write_out(&Options::list()),
        Some(Command::Reproduce(options)) => reproduce(&options),
        Some(Command::Run(request)) if request.template => write_out(scenario::TEMPLATE),
        Some(Command::Run(request)) => run_file(&request, queues),
        Some(Command::Merge(request)) => merge(&request),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "sim", &mut script);
            write_out(&String::from_utf8_lossy(&script))
        }
        None => write_out(&CommandLine::command().render_help().to_string()),
    }
}

fn write_out(text: &str) -> Result<(), Failure> {
    write!(io::stdout(), "{text}").map_err(Failure::Output)
}

/// Runs the experiments in order. Each is printed and drawn before its result counts.
fn reproduce(options: &Options) -> Result<(), Failure> {
    let mut printer = Printer::new(&options.out)?;
    printer.write_page(options.report.as_deref())?;
    for experiment in options.experiments() {
        let (name, seeds) = (experiment.name, options.seeds(experiment));
        let sweep_of = Description::new(name, seeds, None);
        if let Some(report) = run_sweep(experiment.runs, &sweep_of, &options.kept)? {
            printer.print(name, &report)?;
        }
    }
    printer.finish()
}

/// Runs what is missing of a sweep. Returns no report if it is a part.
fn run_sweep(
    sweep: &dyn Sweep,
    description: &Description,
    kept: &Kept,
) -> Result<Option<Report>, Failure> {
    let (name, seeds, shard) = (&description.experiment, description.seeds, kept.shard());
    let progress = Progress::new(name);
    let mut file = match &kept.runs {
        Some(folder) => Some(RunFile::open(folder, &shard.file_name(name), description)?),
        None => None,
    };
    let results = harness::results(sweep, seeds, shard, file.as_mut(), &progress)?;
    progress.clear();
    if shard.is_part() {
        return Ok(None);
    }
    Ok(Some(sweep.report(seeds, &results)?))
}

/// Runs an experiment file.
fn run_file(request: &RunRequest, queues: Queues) -> Result<(), Failure> {
    let path = request.file.as_deref().expect("clap requires it");
    let text = fs::read_to_string(path).map_err(|error| at(path, &error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let named = |error: ScenarioError| Failure::File(format!("{}: {error}", path.display()));
    let sweep = scenario::Sweep::read(&text, folder, queues).map_err(named)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let sweep = sweep.named(&stem);
    let mut printer = Printer::new(&request.out)?;
    let seeds = request.seeds.and_then(|seeds| u32::try_from(seeds).ok());
    let seeds = seeds.unwrap_or_else(|| sweep.default_seeds());
    let name = sweep.name();
    let description = Description::new(&name, seeds, Some(&text));
    if let Some(report) = run_sweep(&sweep, &description, &request.kept)? {
        printer.print(&name, &report)?;
        for cell in 0..sweep.all().len() {
            let file = |ending: &str| format!("{name}-{}{ending}", cell + 1);
            if request.flent {
                printer.write(&file(".flent.gz"), &recording::flent(&sweep, cell)?)?;
            }
            if request.pcapng {
                printer.write(&file(".pcapng"), &recording::pcapng(&sweep, cell)?)?;
            }
        }
    }
    printer.finish()
}

/// Prints the reports of all run files in a folder.
fn merge(request: &MergeRequest) -> Result<(), Failure> {
    let mut printer = Printer::new(&request.out)?;
    printer.write_page(request.report.as_deref())?;
    let mut merged = run_file::merge(&request.folder)?;
    // In the order in which `sim reproduce` prints them; files of users follow.
    let place = |name: &str| experiments::ALL.iter().position(|known| known.name == name);
    merged.sort_by_key(|sweep| place(&sweep.sweep.experiment).unwrap_or(usize::MAX));
    for merged in merged {
        let Description { experiment: name, seeds, scenario, .. } = &merged.sweep;
        let report = match scenario {
            Some(text) => {
                let named = |error: ScenarioError| Failure::File(format!("{name}: {error}"));
                let sweep = scenario::Sweep::of_results(text).map_err(named)?.named(name);
                sweep.report(*seeds, &merged.results)?
            }
            None => match experiments::find(name) {
                Some(known) => known.runs.report(*seeds, &merged.results)?,
                None => return Err(Failure::File(format!("{name}: unknown experiment"))),
            },
        };
        printer.print(name, &report)?;
    }
    printer.finish()
}

/// Prints reports one after another and writes their files.
struct Printer<'a> {
    out: &'a Path,
    page: Option<&'a Path>,
    sections: Vec<Section>,
    printed: usize,
    failed: Vec<String>,
}

impl<'a> Printer<'a> {
    /// Creates the folder `out`, so that a command fails before anything that takes time.
    fn new(out: &'a Path) -> Result<Self, Failure> {
        fs::create_dir_all(out).map_err(|error| at(out, &error))?;
        Ok(Self { out, page: None, sections: Vec::new(), printed: 0, failed: Vec::new() })
    }

    /// Has a page written at the end. Fails now if that is impossible.
    fn write_page(&mut self, page: Option<&'a Path>) -> Result<(), Failure> {
        if let Some(path) = page {
            let file = fs::OpenOptions::new().append(true).create(true).open(path);
            file.map_err(|error| at(path, &error))?;
        }
        self.page = page;
        Ok(())
    }

    fn print(&mut self, name: &str, report: &Report) -> Result<(), Failure> {
        let gap = if self.printed == 0 { "" } else { "\n" };
        self.printed += 1;
        write_out(&format!("{gap}{report}"))?;
        for (file, contents) in output::files(name, report) {
            self.write(&file, contents.as_bytes())?;
        }
        if !report.holds() {
            self.failed.push(name.to_owned());
        }
        let about = experiments::find(name).map_or("", |experiment| experiment.about);
        let (name, about) = (name.to_owned(), about.to_owned());
        self.sections.push(Section { name, about, report: report.clone() });
        Ok(())
    }

    fn write(&self, file: &str, contents: &[u8]) -> Result<(), Failure> {
        let path = self.out.join(file);
        fs::write(&path, contents).map_err(|error| at(&path, &error))?;
        eprintln!("written: {}", path.display());
        Ok(())
    }

    fn finish(self) -> Result<(), Failure> {
        if let Some(path) = self.page {
            let is_table = path.extension().is_some_and(|ending| ending == "md");
            let write = if is_table { page::markdown } else { page::html };
            fs::write(path, write(&self.sections)).map_err(|error| at(path, &error))?;
            eprintln!("written: {}", path.display());
        }
        if self.failed.is_empty() {
            return Ok(());
        }
        Err(Failure::Check(format!("checks failed: {}", self.failed.join(", "))))
    }
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::File(format!("{}: {error}", path.display()))
}

impl From<RunFileError> for Failure {
    fn from(error: RunFileError) -> Self {
        Self::File(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        Self::File(error.to_string())
    }
}

fn print(request: &Request, report: &replay::Report, end: Option<CaptureError>) -> io::Result<()> {
    const MILLISECOND: core::num::NonZeroU64 = core::num::NonZeroU64::new(1_000_000).unwrap();
    let (queue, rate, limit) = (&report.queue, request.rate, report.limit);
    let offered = report.counters.offered();
    let collisions =
        report.lookups.map_or("–".to_owned(), |lookups| lookups.collisions.to_string());
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{queue} at {rate}, limit {limit} packets: {} packets of {} flows in {} ms; lost: {}; \
         hash collisions: {}",
        offered.packets,
        report.flows.len(),
        decimal(report.span.0, MILLISECOND, 2),
        report.losses(),
        collisions
    )?;
    write!(out, "{}", report.corrections)?;
    if let Some(error) = end {
        let read = offered.packets + report.corrections.skipped.values().sum::<u64>();
        writeln!(
            out,
            "the rest of the file cannot be read: {error}; replayed the {read} packets before it"
        )?;
    }
    writeln!(out)?;
    write!(out, "{}", report.table(usize::try_from(request.flows).unwrap_or(usize::MAX)))
}
