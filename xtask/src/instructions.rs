//! Instructions per packet, counted by callgrind: the figure that repeats on any machine.
//!
//! The bench `instructions` is run twice with different numbers of pairs; the difference of the
//! instructions over the difference of the pairs is the cost of a pair, start-up excluded. `null`
//! is the empty harness, subtracted for the net figure; of the rows that end in `_burst`,
//! `null_burst` is. In OVERLOAD a pair is a packet that is offered, in the mixes one that leaves.
//! Lines with `#` give the most over the least net figure from 64 flows on: how flat it is. The
//! mixes have flows of their own; their lines end with mean and 99th percentile of what packets
//! of sparse flows waited, in microseconds of virtual time.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::progress::progress;
use crate::run::{cargo, has, output, root};

const WORKLOADS: [&str; 7] = ["FULL", "SMALL", "OVERLOAD", "MIX60", "MIX90", "MIX100", "ISP"];
const FLOWS: [usize; 5] = [1, 32, 64, 1_024, 4_096];

/// The mixes and how many flows they have: `benches/workload/mix.rs`.
const MIXES: [(&str, usize); 4] = [("MIX60", 220), ("MIX90", 220), ("MIX100", 220), ("ISP", 4_200)];
/// Pairs of the shorter of two runs of a mix.
const PAIRS_OF_MIX: usize = 100_000;

/// What is counted.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// Names of rows; all that are recorded, if none is given.
    names: Vec<String>,
    /// Numbers of flows, separated by commas; the mixes have their own.
    #[arg(long, value_delimiter = ',', default_values_t = FLOWS)]
    flows: Vec<usize>,
    /// FULL, SMALL, OVERLOAD, MIX60, MIX90, MIX100 or ISP, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = WORKLOADS, value_parser = WORKLOADS)]
    workloads: Vec<String>,
    /// The most pairs of the shorter of two runs, which has 20 a flow, and 20,000 at least. With
    /// many flows fewer are faster.
    #[arg(long, default_value_t = usize::MAX)]
    most_pairs: usize,
}

pub(crate) fn run(asked: &Asked) -> Result<(), String> {
    need_valgrind()?;
    let bench = build("instructions")?;
    let known = output("names of the schedulers", &mut Command::new(&bench))?;
    let rows = |workload: &String| rows(&known, &asked.names, workload);
    let flows = |workload: &String| flows_of(workload, &asked.flows);
    let counts =
        asked.workloads.iter().map(|workload| flows(workload).len() * rows(workload).len());
    let progress = progress(counts.sum::<usize>() as u64);
    println!("scheduler\tworkload\tflows\tgross\tnet\twait\twait99");
    for workload in &asked.workloads {
        let names = rows(workload);
        let mut nets = vec![Vec::new(); names.len()];
        for flows in flows(workload) {
            let (mut floor, mut floor_burst) = (0.0, 0.0);
            for (name, nets) in names.iter().zip(&mut nets) {
                let pairs = pairs_of(workload, flows).min(asked.most_pairs);
                let run = |pairs: usize| {
                    count(&bench, &[name, workload, &flows.to_string(), &pairs.to_string()])
                };
                let (few, many) = std::thread::scope(|scope| {
                    let few = scope.spawn(|| run(pairs));
                    let many = run(2 * pairs);
                    (few.join(), many)
                });
                let (few, _) = few.map_err(|_| "a run of valgrind was not awaited")??;
                let (many, waits) = many?;
                let gross = per_pair(few, many);
                match *name {
                    "null" => floor = gross,
                    "null_burst" => floor_burst = gross,
                    _ => {}
                }
                let net = gross - if name.ends_with("_burst") { floor_burst } else { floor };
                progress.inc(1);
                progress.suspend(|| {
                    println!("{name}\t{workload}\t{flows}\t{gross:.1}\t{net:.1}{waits}");
                });
                if flows >= 64 {
                    nets.push(net);
                }
            }
        }
        for (name, nets) in names.iter().zip(nets).filter(|(name, _)| !name.starts_with("null")) {
            let (least, most) = nets
                .iter()
                .fold((f64::MAX, 0.0_f64), |(least, most), &net| (least.min(net), most.max(net)));
            if nets.len() > 1 {
                println!("# {name}\t{workload}\t{:.3}", most / least);
            }
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// The rows that are counted in `workload`, the floors first: those in `asked`, or all that the
/// bench says it knows. OVERLOAD has none of a lookup alone, which has no buffer that could be
/// full, and the mixes have rows of their own.
fn rows<'a>(known: &'a str, asked: &'a [String], workload: &str) -> Vec<&'a str> {
    let is_mix = is_mix(workload);
    let floors: &[&str] = if is_mix { &["null"] } else { &["null", "null_burst"] };
    let heading = if is_mix { "in mixes: " } else { "schedulers: " };
    let known = known.lines().find_map(|line| line.strip_prefix(heading)).unwrap_or_default();
    let known: Vec<&str> = known.split_whitespace().collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let runs = |name: &&str| match workload {
        "OVERLOAD" => !name.starts_with("lookup"),
        _ => !is_mix || known.contains(name),
    };
    let rows = if asked.is_empty() { known.clone() } else { asked };
    let rows = rows.into_iter().filter(|name| !floors.contains(name)).filter(runs);
    floors.iter().copied().chain(rows).collect()
}

fn is_mix(workload: &str) -> bool {
    MIXES.iter().any(|&(name, _)| name == workload)
}

/// The numbers of flows for which `workload` is counted.
fn flows_of(workload: &str, asked: &[usize]) -> Vec<usize> {
    let of_mix = MIXES.iter().find(|&&(name, _)| name == workload);
    of_mix.map_or_else(|| asked.to_vec(), |&(_, flows)| vec![flows])
}

/// The pairs of the shorter of two runs.
fn pairs_of(workload: &str, flows: usize) -> usize {
    if is_mix(workload) { PAIRS_OF_MIX } else { 20 * flows.max(1_000) }
}

pub(crate) fn need_valgrind() -> Result<(), String> {
    if has("valgrind") {
        return Ok(());
    }
    Err("valgrind is missing: its callgrind counts the instructions".into())
}

/// Builds the bench `name`; returns where it is.
pub(crate) fn build(name: &str) -> Result<PathBuf, String> {
    let mut build = cargo(".");
    build.args(["bench", "--no-run", "--bench", name, "--message-format=json"]);
    let messages = output(&format!("bench {name}"), &mut build)?;
    let path = messages
        .lines()
        .filter(|line| line.contains(&format!("\"name\":\"{name}\"")))
        .find_map(|line| line.split("\"executable\":\"").nth(1)?.split('"').next());
    path.map(PathBuf::from).ok_or_else(|| "cargo did not name the bench it built".into())
}

/// The pairs run and the instructions executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pairs: u64,
    instructions: u64,
}

/// The instructions of a pair, from two runs that differ in nothing but the pairs.
pub(crate) fn per_pair(few: Counted, many: Counted) -> f64 {
    (many.instructions - few.instructions) as f64 / (many.pairs - few.pairs) as f64
}

/// Runs `bench` under callgrind. It says how many pairs it has run; what else it says is returned,
/// with a tab before each word.
pub(crate) fn count(bench: &Path, arguments: &[&str]) -> Result<(Counted, String), String> {
    let folder = root().join("target");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = folder.join(format!("callgrind.{}", arguments.join(".")));
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(bench).args(arguments);
    let done = output("valgrind", &mut command)?;
    let profile =
        std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    let (pairs, rest) = done.trim().split_once(' ').unwrap_or((done.trim(), ""));
    match (pairs.parse(), total.map(|total| total.trim().parse())) {
        (Ok(pairs), Some(Ok(instructions))) => {
            let rest = rest.split_whitespace().map(|word| format!("\t{word}")).collect();
            Ok((Counted { pairs, instructions }, rest))
        }
        _ => Err(format!("{}: no totals", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_once_and_where_they_run() {
        let known =
            "schedulers: null lookup lookup_claim drr null_burst drr_burst\nin mixes: null fq";
        let all = ["null", "null_burst", "lookup", "lookup_claim", "drr", "drr_burst"];
        assert_eq!(rows(known, &[], "FULL"), all);
        assert_eq!(rows(known, &[], "OVERLOAD"), ["null", "null_burst", "drr", "drr_burst"]);
        let asked = ["drr", "null", "lookup"].map(String::from);
        assert_eq!(rows(known, &asked, "SMALL"), ["null", "null_burst", "drr", "lookup"]);
        assert_eq!(rows(known, &asked, "OVERLOAD"), ["null", "null_burst", "drr"]);
        assert_eq!(rows(known, &[], "MIX60"), ["null", "fq"]);
        assert_eq!(rows(known, &["drr", "fq"].map(String::from), "ISP"), ["null", "fq"]);
        assert_eq!((flows_of("ISP", &[32]), flows_of("FULL", &[32])), (vec![4_200], vec![32]));
    }
}
