//! Counts instructions per packet with callgrind; the figure is reproducible on any machine.
//!
//! The bench `instructions` runs twice with different numbers of pairs (one enqueue and one
//! dequeue). The difference in instructions divided by the difference in pairs is the cost of a
//! pair, without start-up. The net figure subtracts the empty harness: `null`, or `null_burst` for
//! rows that end in `_burst`. In OVERLOAD a pair is one offered packet; in the mixes it is one
//! packet sent. Lines with `#` give the ratio of the highest to the lowest net figure from 64 flows
//! on, a measure of how flat the cost is. The mixes have their own numbers of flows; their lines
//! end with the mean and the 99th percentile of the queueing delay of sparse flows, in microseconds
//! of virtual time.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::progress::progress;
use crate::run::{cargo, has, output, root};

const WORKLOADS: [&str; 7] = ["FULL", "SMALL", "OVERLOAD", "MIX60", "MIX90", "MIX100", "ISP"];
const FLOWS: [usize; 5] = [1, 32, 64, 1_024, 4_096];

/// The mixes and their numbers of flows, as in `benches/workload/mix.rs`.
const MIXES: [(&str, usize); 4] = [("MIX60", 220), ("MIX90", 220), ("MIX100", 220), ("ISP", 4_200)];
/// Pairs in the shorter of the two runs of a mix.
const PAIRS_OF_MIX: usize = 100_000;

/// Arguments of `cargo xtask instructions`.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// Names of rows to count; by default all recorded rows
    names: Vec<String>,
    /// Numbers of flows, separated by commas; the mixes use their own
    #[arg(long, value_delimiter = ',', default_values_t = FLOWS)]
    flows: Vec<usize>,
    /// Workloads, separated by commas
    #[arg(long, value_delimiter = ',', default_values = WORKLOADS, value_parser = WORKLOADS)]
    workloads: Vec<String>,
    /// Upper limit for the pairs in the shorter of two runs, otherwise 20 per flow and at least
    /// 20,000; a lower limit saves time with many flows
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
                let (few, _) = few.map_err(|_| "a thread that runs valgrind panicked")??;
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

/// Returns the rows to count in `workload`, the empty harnesses first: those in `asked`, or all
/// that the bench lists. OVERLOAD excludes the lookups, which have no buffer to overflow; the mixes
/// have their own list of rows.
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

/// Returns the numbers of flows to count `workload` with.
fn flows_of(workload: &str, asked: &[usize]) -> Vec<usize> {
    let of_mix = MIXES.iter().find(|&&(name, _)| name == workload);
    of_mix.map_or_else(|| asked.to_vec(), |&(_, flows)| vec![flows])
}

/// Returns the number of pairs in the shorter of the two runs.
fn pairs_of(workload: &str, flows: usize) -> usize {
    if is_mix(workload) { PAIRS_OF_MIX } else { 20 * flows.max(1_000) }
}

pub(crate) fn need_valgrind() -> Result<(), String> {
    if has("valgrind") {
        return Ok(());
    }
    Err("valgrind is not installed (needed to count instructions)".into())
}

/// Builds the bench `name` and returns the path of its executable.
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

/// Pairs run and instructions executed in one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pairs: u64,
    instructions: u64,
}

/// Returns the instructions per pair, from two runs that differ only in the number of pairs.
pub(crate) fn per_pair(few: Counted, many: Counted) -> f64 {
    (many.instructions - few.instructions) as f64 / (many.pairs - few.pairs) as f64
}

/// Runs `bench` under callgrind. Returns the pairs it reports and the instructions counted, and the
/// rest of its output with a tab before each word.
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
