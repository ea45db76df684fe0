//! Command line of the simulator. `sim replay` runs a capture through a queue, `sim reproduce`
//! reproduces results of the papers.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use freeboard::QueueSettings;
use freeboard::shaper::Rate;
use sim::capture::{CaptureError, Reader};
use sim::discipline::Discipline;
use sim::experiments::harness::{self, Shard, SweepError};
use sim::experiments::run_file::{self, Description, RunFile, RunFileError};
use sim::experiments::{self, Options, Report, Runs, output};
use sim::notation::{self, Seed, within};
use sim::plot::decimal;
use sim::progress::Progress;
use sim::replay::{self, Choice, Setup};

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
    Merge(MergeRequest),
    /// Prints a shell completion script.
    Completions {
        /// Shell to complete for.
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
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

fn main() -> ExitCode {
    match run(CommandLine::parse()) {
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

fn run(line: CommandLine) -> Result<(), Failure> {
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
    for experiment in options.experiments() {
        let name = experiment.name;
        let progress = Progress::new(name);
        let seeds = options.seeds(experiment);
        let Runs::Sweep(sweep) = experiment.runs else {
            printer.print(name, &experiment.run(seeds, &progress))?;
            continue;
        };
        let shard = options.shard.unwrap_or(Shard::WHOLE);
        let sweep_of = Description::new(name, seeds, None);
        let mut file = match &options.runs {
            Some(folder) => Some(RunFile::open(folder, &shard.file_name(name), &sweep_of)?),
            None => None,
        };
        let results = harness::results(sweep, seeds, shard, file.as_mut(), &progress)?;
        progress.clear();
        if !shard.is_part() {
            printer.print(name, &sweep.report(seeds, &results)?)?;
        }
    }
    printer.finish()
}

/// Prints the reports of all run files in a folder.
fn merge(request: &MergeRequest) -> Result<(), Failure> {
    let mut printer = Printer::new(&request.out)?;
    for merged in run_file::merge(&request.folder)? {
        let Description { experiment: name, seeds, .. } = &merged.sweep;
        let Some(Runs::Sweep(sweep)) = experiments::find(name).map(|known| known.runs) else {
            return Err(Failure::File(format!("{name}: unknown experiment")));
        };
        printer.print(name, &sweep.report(*seeds, &merged.results)?)?;
    }
    printer.finish()
}

/// Prints reports one after another and writes their files.
struct Printer<'a> {
    out: &'a Path,
    printed: usize,
    failed: Vec<String>,
}

impl<'a> Printer<'a> {
    /// Creates the folder `out`, so that a command fails before anything that takes time.
    fn new(out: &'a Path) -> Result<Self, Failure> {
        fs::create_dir_all(out).map_err(|error| at(out, &error))?;
        Ok(Self { out, printed: 0, failed: Vec::new() })
    }

    fn print(&mut self, name: &str, report: &Report) -> Result<(), Failure> {
        let gap = if self.printed == 0 { "" } else { "\n" };
        self.printed += 1;
        write_out(&format!("{gap}{report}"))?;
        for (file, contents) in output::files(name, report) {
            let path = self.out.join(file);
            fs::write(&path, contents).map_err(|error| at(&path, &error))?;
            eprintln!("written: {}", path.display());
        }
        if !report.holds() {
            self.failed.push(name.to_owned());
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Failure> {
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
