//! Instructions per packet, counted by callgrind: the figure that repeats on any machine.
//!
//! The bench `instructions` is run twice with different numbers of pairs; the difference of the
//! instructions over the difference of the pairs is the cost of a pair, start-up excluded. `null` is
//! the empty harness, subtracted for the net figure; of the rows that end in `_burst`, `null_burst` is. In OVERLOAD a
//! pair is a packet that is offered. Lines with `#` give the most over the least net figure from 64 flows on: how flat it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::progress::progress;
use crate::run::{cargo, has, output, root};

const FLOWS: [usize; 5] = [1, 32, 64, 1_024, 4_096];

/// What is counted.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// Names of rows; all that are recorded, if none is given.
    names: Vec<String>,
    /// Numbers of flows, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = FLOWS)]
    flows: Vec<usize>,
    /// FULL, SMALL or OVERLOAD, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ["FULL", "SMALL", "OVERLOAD"], value_parser = ["FULL", "SMALL", "OVERLOAD"])]
    workloads: Vec<String>,
    /// The most pairs of the shorter of two runs, which has 20 a flow, and 20,000 at least. With many flows fewer are faster.
    #[arg(long, default_value_t = usize::MAX)]
    most_pairs: usize,
}

pub(crate) fn run(asked: &Asked) -> Result<(), String> {
    need_valgrind()?;
    let bench = build("instructions")?;
    let known = output("names of the schedulers", &mut Command::new(&bench))?;
    let all = known.split("schedulers: ").nth(1).unwrap_or_default();
    let rows = |workload: &String| rows(all, &asked.names, workload);
    let count_of_rows: usize = asked.workloads.iter().map(|workload| rows(workload).len()).sum();
    let progress = progress((asked.flows.len() * count_of_rows) as u64);
    println!("scheduler\tworkload\tflows\tgross\tnet");
    for workload in &asked.workloads {
        let names = rows(workload);
        let mut nets = vec![Vec::new(); names.len()];
        for &flows in &asked.flows {
            let (mut floor, mut floor_burst) = (0.0, 0.0);
            for (name, nets) in names.iter().zip(&mut nets) {
                let pairs = (20 * flows.max(1_000)).min(asked.most_pairs);
                let run = |pairs: usize| {
                    count(&bench, &[name, workload, &flows.to_string(), &pairs.to_string()])
                };
                let (few, many) = std::thread::scope(|scope| {
                    let few = scope.spawn(|| run(pairs));
                    let many = run(2 * pairs);
                    (few.join(), many)
                });
                let few = few.map_err(|_| "a run of valgrind was not awaited")??;
                let gross = per_pair(few, many?);
                match *name {
                    "null" => floor = gross,
                    "null_burst" => floor_burst = gross,
                    _ => {}
                }
                let net = gross - if name.ends_with("_burst") { floor_burst } else { floor };
                progress.inc(1);
                progress.suspend(|| {
                    println!("{name}\t{workload}\t{flows}\t{gross:.1}\t{net:.1}");
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

/// The rows that are counted in `workload`, the floors first: those in `asked`, or all that `known` names. OVERLOAD has none
/// of a lookup alone, which has no buffer that could be full.
fn rows<'a>(known: &'a str, asked: &'a [String], workload: &str) -> Vec<&'a str> {
    let floors = ["null", "null_burst"];
    let mut rows: Vec<&str> = asked.iter().map(String::as_str).collect();
    if rows.is_empty() {
        rows = known.split_whitespace().collect();
    }
    let has_buffer = |name: &&str| workload != "OVERLOAD" || !name.starts_with("lookup");
    let rows = rows.into_iter().filter(|name| !floors.contains(name)).filter(has_buffer);
    floors.into_iter().chain(rows).collect()
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

/// Runs `bench`, which says how many pairs it has run, under callgrind.
pub(crate) fn count(bench: &Path, arguments: &[&str]) -> Result<Counted, String> {
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
    match (done.trim().parse(), total.map(|total| total.trim().parse())) {
        (Ok(pairs), Some(Ok(instructions))) => Ok(Counted { pairs, instructions }),
        _ => Err(format!("{}: no totals", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_once_and_where_they_run() {
        let known = "null lookup lookup_claim drr null_burst drr_burst";
        let all = ["null", "null_burst", "lookup", "lookup_claim", "drr", "drr_burst"];
        assert_eq!(rows(known, &[], "FULL"), all);
        assert_eq!(rows(known, &[], "OVERLOAD"), ["null", "null_burst", "drr", "drr_burst"]);
        let asked = ["drr", "null", "lookup"].map(String::from);
        assert_eq!(rows(known, &asked, "SMALL"), ["null", "null_burst", "drr", "lookup"]);
        assert_eq!(rows(known, &asked, "OVERLOAD"), ["null", "null_burst", "drr"]);
    }
}
