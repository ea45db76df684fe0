//! The run-time tables of QFQ (Fig. 8, Fig. 9, Table III): `cargo bench --bench paper`.
//!
//! One controller drives nothing (NONE), a FIFO, DRR, QFQ and WF2Q+ through the same bursts; the
//! time of a pair of enqueue and dequeue is printed gross and net of NONE in the same run. Without
//! arguments it prints the rows with figures from the paper's own harness, in less than two
//! minutes, and then the acceptance checks.
//!
//! ```text
//! [flows=N,...] [loads=SMALL,LARGE,FULL] [sizes=1500,imix] [weights=equal,mixed]
//! [pools=sequential,shuffled] [calls=opaque,free] [passes=N] [svg=FILE]
//! count SCHEDULER CALLS LOAD FLOWS SIZES WEIGHTS CYCLES
//! ```
//!
//! Each list may be `all`. Any of the first five selects a table of all combinations, with the
//! defaults FULL, all numbers of flows, 1500, equal and sequential. `count` only runs, for
//! callgrind: two runs differ by the instructions of the additional cycles (`cargo xtask paper`).

mod checks;
mod peer;
mod subjects;
mod table;

use core::fmt::Display;
use std::process::ExitCode;

use conformance::paper::{Load, Pool, Sizes, Traffic, Weights};
use sim::plot::{Chart, Mark};
use subjects::{Calls, Name};
use table::{FLOWS, Row, measure, quick, started};

const LOADS: [Load; 3] = [Load::Small, Load::Large, Load::Full];
const SIZES: [Sizes; 2] = [Sizes::Equal, Sizes::Imix];
const WEIGHTS: [Weights; 2] = [Weights::Equal, Weights::Mixed];
const POOLS: [Pool; 2] = [Pool::Sequential, Pool::Shuffled];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["count", ref what @ ..] => count(what),
        _ => Options::parse(&words).and_then(|options| run(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("paper: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    println!("{}", Row::heading());
    let mut rows = Vec::new();
    for &traffic in &options.rows {
        for row in measure(traffic, &options.calls, options.passes) {
            println!("{}", row.line());
            rows.push(row);
        }
    }
    for check in checks::check(&rows) {
        println!("# {check}");
    }
    match &options.svg {
        Some(path) => {
            std::fs::write(path, chart(&rows)).map_err(|error| format!("{path}: {error}"))
        }
        None => Ok(()),
    }
}

/// Draws time against the number of flows, as in Fig. 9, for the first load and call type measured,
/// with equal weights and lengths.
fn chart(rows: &[Row]) -> String {
    let first = rows.first();
    let line: Vec<&Row> = rows
        .iter()
        .filter(|row| row.traffic.sizes == Sizes::Equal && row.traffic.weights == Weights::Equal)
        .filter(|row| first.is_some_and(|first| first.calls == row.calls))
        .filter(|row| first.is_some_and(|first| first.traffic.load == row.traffic.load))
        .filter(|row| row.traffic.pool == Pool::Sequential)
        .collect();
    let about = first.map_or(String::new(), |row| {
        format!("{}, 1,500 bytes, equal weights, {} calls", row.traffic.load, row.calls)
    });
    let mut chart = Chart::new("Time of an enqueue and a dequeue, controller included")
        .subtitle(&format!("{about}; dummynet: its own harness, the same kind of machine"))
        .x("flows")
        .y("ns")
        .log_x()
        .log_y();
    for name in [Name::None].into_iter().chain(Name::SCHEDULERS) {
        let points = line.iter().map(|row| (f64::from(row.traffic.flows), row.gross(name)));
        chart = chart.series(&name.to_string(), Mark::Line, points);
    }
    for name in [Name::Qfq, Name::Wf2q] {
        let theirs = line.iter().filter_map(|row| {
            Some((f64::from(row.traffic.flows), peer::gross(&row.traffic, name)?))
        });
        chart = chart.series(&format!("{name}, dummynet"), Mark::Dots, theirs);
    }
    chart.to_svg()
}

/// Command-line options.
struct Options {
    rows: Vec<Traffic>,
    calls: Vec<Calls>,
    passes: u32,
    svg: Option<String>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let (mut calls, mut passes, mut svg) = (Calls::ALL.to_vec(), 3, None);
        let (mut flows, mut pools) = (FLOWS.to_vec(), vec![Pool::Sequential]);
        let (mut loads, mut sizes, mut weights) =
            (vec![Load::Full], vec![Sizes::Equal], vec![Weights::Equal]);
        let mut chosen = false;
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}': {USAGE}"))?;
            match key {
                "flows" => flows = list(value, &FLOWS).or_else(|_| numbers(value))?,
                "loads" => loads = list(value, &LOADS)?,
                "sizes" => sizes = list(value, &SIZES)?,
                "weights" => weights = list(value, &WEIGHTS)?,
                "pools" => pools = list(value, &POOLS)?,
                "calls" => calls = list(value, Calls::ALL)?,
                "passes" => passes = number(value, 100)?,
                "svg" => svg = Some(value.to_owned()),
                _ => return Err(format!("'{word}': {USAGE}")),
            }
            chosen |= ["flows", "loads", "sizes", "weights", "pools"].contains(&key);
        }
        let mut rows = if chosen { Vec::new() } else { quick() };
        for &load in loads.iter().filter(|_| chosen) {
            for &pool in &pools {
                for (&sizes, &weights) in
                    sizes.iter().flat_map(|s| weights.iter().map(move |w| (s, w)))
                {
                    rows.extend(flows.iter().map(|&flows| Traffic {
                        flows,
                        load,
                        sizes,
                        weights,
                        pool,
                    }));
                }
            }
        }
        Ok(Self { rows, calls, passes, svg })
    }
}

const USAGE: &str =
    "flows, loads, sizes, weights, pools, calls or passes = a list or 'all'; svg = FILE";

/// Returns the items of `all` that are named, or all of them.
fn list<T: Copy + Display>(names: &str, all: &[T]) -> Result<Vec<T>, String> {
    if names == "all" {
        return Ok(all.to_vec());
    }
    names.split(',').map(|name| one(name, all)).collect()
}

fn one<T: Copy + Display>(name: &str, all: &[T]) -> Result<T, String> {
    let known = || all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let found = all.iter().find(|item| item.to_string() == name);
    found.copied().ok_or_else(|| format!("'{name}' is none of {}", known()))
}

/// Maximum number of flows, limited by memory: 20 bytes per flow and 48 for each of 30 packets.
const MAX_FLOWS: u32 = 1 << 20;

fn numbers(words: &str) -> Result<Vec<u32>, String> {
    words.split(',').map(|word| number(word, MAX_FLOWS)).collect()
}

fn number(word: &str, max: u32) -> Result<u32, String> {
    match word.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(format!("'{word}' is not a number in 1..={max}")),
    }
}

/// Runs `cycles` cycles after two for warm-up, and prints the number of pairs since the beginning.
fn count(what: &[&str]) -> Result<(), String> {
    let [name, calls, load, flows, sizes, weights, cycles] = what else {
        return Err("count SCHEDULER CALLS LOAD FLOWS SIZES WEIGHTS CYCLES".into());
    };
    let traffic = Traffic {
        flows: number(flows, MAX_FLOWS)?,
        load: one(load, &LOADS)?,
        sizes: one(sizes, &SIZES)?,
        weights: one(weights, &WEIGHTS)?,
        pool: Pool::Sequential,
    };
    let name = one(name, Name::ALL)?;
    let mut run = started(name, one(calls, Calls::ALL)?, &traffic);
    let passed = run((2 + u64::from(number(cycles, 1 << 20)?)) * traffic.cycle());
    println!("{}", passed.dequeued);
    Ok(())
}
