//! `sim`: experiments from the command line. `sim replay` runs a capture through a scheduler, `sim
//! reproduce` makes figures of the papers again.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use sim::capture::Reader;
use sim::discipline::Discipline;
use sim::experiments::{self, Options};
use sim::notation;
use sim::plot::decimal;
use sim::replay::{Report, Setup, replay};

const USAGE: &str = "\
usage: sim replay FILE.pcap --rate RATE --scheduler NAME [--limit PACKETS] [--flows COUNT] [--seed N]

Runs the packets of a capture (pcap or pcapng, Ethernet or raw IP) through hash, scheduler and
shaper at their recorded times; prints loss, share and delay of each flow.

  --rate RATE       the line: 10mbit, 512kbit, 1gbit, or bits per second
  --scheduler NAME  NAMES
  --limit PACKETS   the most that wait at once, 1 to 1000000 [256]
  --flows COUNT     flows shown on lines of their own, those that sent most [20]
  --seed N          chooses the secret key of the hash [1]

usage: sim reproduce [NAME...] [--seeds COUNT] [--out FOLDER] [--list]

Makes figures of the papers again and says whether what must hold of them does; see sim reproduce
--help.
";

/// Refused words exit with 2, as a shell's own commands do; files that cannot be read with 1.
enum Failure {
    Usage(String),
    File(String),
    Output(io::Error),
    /// A sentence that must hold does not; it has been printed.
    Sentence(String),
}

fn main() -> ExitCode {
    match run(env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough: `sim … | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => fail(&error.to_string(), 1),
        Err(Failure::File(why) | Failure::Sentence(why)) => fail(&why, 1),
        Err(Failure::Usage(why)) => fail(&why, 2),
    }
}

fn fail(why: &str, code: u8) -> ExitCode {
    eprintln!("sim: {why}");
    ExitCode::from(code)
}

fn run(mut words: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    match words.next().as_deref().map(|word| word.to_string_lossy()).as_deref() {
        Some("replay") => {
            let Some(request) = Request::parse(words).map_err(Failure::Usage)? else {
                return help();
            };
            let named = |why: String| Failure::File(format!("{}: {why}", request.file.display()));
            let file = fs::read(&request.file).map_err(|error| named(error.to_string()))?;
            let packets = Reader::new(&file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let packets = packets.map_err(|error| named(error.to_string()))?;
            let report = replay(&packets, request.setup);
            print(&request, &report).map_err(Failure::Output)
        }
        Some("reproduce") => match Options::parse(words).map_err(Failure::Usage)? {
            experiments::Request::Run(options) => reproduce(&options),
            experiments::Request::Help => write_out(&Options::help()),
            experiments::Request::List => write_out(&Options::list()),
        },
        Some("--help" | "-h") | None => help(),
        Some(word) => {
            let why = format!("{word:?} is not a command; accepted: replay, reproduce");
            Err(Failure::Usage(why))
        }
    }
}

fn write_out(text: &str) -> Result<(), Failure> {
    write!(io::stdout(), "{text}").map_err(Failure::Output)
}

/// Runs the experiments one after the other; each is printed and drawn before its verdict counts.
fn reproduce(options: &Options) -> Result<(), Failure> {
    let named =
        |path: &Path, error: &io::Error| Failure::File(format!("{}: {error}", path.display()));
    // Before anything that takes time.
    fs::create_dir_all(&options.out).map_err(|error| named(&options.out, &error))?;
    let mut failed = Vec::new();
    for (index, experiment) in options.experiments.iter().enumerate() {
        let report = (experiment.run)(options.seeds);
        let gap = if index == 0 { "" } else { "\n" };
        write_out(&format!("{gap}{report}"))?;
        for picture in &report.pictures {
            let path = options.out.join(&picture.file);
            fs::write(&path, &picture.svg).map_err(|error| named(&path, &error))?;
            eprintln!("picture: {}", path.display());
        }
        if !report.holds() {
            failed.push(experiment.name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Sentence(format!("a sentence does not hold: {}", failed.join(", "))))
}

fn help() -> Result<(), Failure> {
    let names = Discipline::NAMED.map(Discipline::name).join(", ");
    write_out(&USAGE.replace("NAMES", &names))
}

struct Request {
    file: OsString,
    setup: Setup,
    flows: usize,
}

impl Request {
    /// `None` if help was asked for.
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Option<Self>, String> {
        let (mut file, mut rate, mut discipline) = (None, None, None);
        let (mut limit, mut flows, mut seed) = (256, 20, 1);
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            let (name, joined) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (text.as_str(), None),
            };
            let mut value = || {
                let next = || words.next().map(|word| word.to_string_lossy().into_owned());
                joined.clone().or_else(next).ok_or_else(|| format!("{name} needs a value"))
            };
            match name {
                "--help" | "-h" => return Ok(None),
                "--rate" => rate = Some(notation::rate(&value()?).map_err(|e| e.to_string())?),
                "--scheduler" => {
                    discipline = Some(value()?.parse::<Discipline>().map_err(|e| e.to_string())?);
                }
                "--limit" => limit = number(name, &value()?, 1, 1_000_000)? as u32,
                "--flows" => flows = number(name, &value()?, 0, u32::MAX.into())? as usize,
                "--seed" => seed = number(name, &value()?, 0, u64::MAX)?,
                _ if name.starts_with('-') => {
                    return Err(format!(
                        "{text:?} is not an option; accepted: --rate, --scheduler, --limit, \
                         --flows, --seed, --help"
                    ));
                }
                _ if file.is_none() => file = Some(word),
                _ => return Err(format!("{text:?} is one file too many; accepted: one capture")),
            }
        }
        let missing = |what: &str| format!("{what} is missing; see sim replay --help");
        let setup = Setup {
            rate: rate.ok_or_else(|| missing("--rate"))?,
            discipline: discipline.ok_or_else(|| missing("--scheduler"))?,
            limit,
            seed,
        };
        Ok(Some(Self { file: file.ok_or_else(|| missing("the capture file"))?, setup, flows }))
    }
}

fn number(name: &str, word: &str, min: u64, max: u64) -> Result<u64, String> {
    let number = word.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("{name} {word:?} is refused; accepted: {min} to {max}"))
}

fn print(request: &Request, report: &Report) -> io::Result<()> {
    const MILLISECOND: core::num::NonZeroU64 = core::num::NonZeroU64::new(1_000_000).unwrap();
    let Setup { discipline, rate, limit, .. } = request.setup;
    let offered = report.counters.offered();
    let collisions =
        report.lookups.map_or("–".to_owned(), |lookups| lookups.collisions.to_string());
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{discipline} at {rate}, limit {limit} packets: {} packets of {} flows in {} ms; lost: {}; \
         hash collisions: {}",
        offered.packets,
        report.flows.len(),
        decimal(report.span.0, MILLISECOND, 2),
        report.losses(),
        collisions
    )?;
    writeln!(out)?;
    write!(out, "{}", report.table(request.flows))
}
