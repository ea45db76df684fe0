//! Instructions per packet, counted by callgrind: the figure that repeats on any machine.
//!
//! The bench `instructions` is run twice with different numbers of pairs; the difference of the
//! instructions over the difference of the pairs is the cost of a pair, start-up excluded. `null` is
//! the empty harness, subtracted for the net figure.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{cargo, has, output, root};

const FLOWS: [usize; 4] = [1, 32, 1_024, 4_096];

pub(crate) fn run() -> Result<(), String> {
    if !has("valgrind") {
        return Err("valgrind is missing: its callgrind counts the instructions".into());
    }
    let bench = build()?;
    let names = output("names of the schedulers", &mut Command::new(&bench))?;
    let names: Vec<&str> =
        names.split("schedulers: ").nth(1).unwrap_or_default().split_whitespace().collect();
    println!("scheduler\tworkload\tflows\tgross\tnet");
    for pattern in ["FULL", "SMALL"] {
        for flows in FLOWS {
            let mut floor = 0.0;
            for name in &names {
                let gross = per_pair(&bench, name, pattern, flows)?;
                if *name == "null" {
                    floor = gross;
                }
                println!("{name}\t{pattern}\t{flows}\t{gross:.1}\t{:.1}", gross - floor);
            }
        }
    }
    Ok(())
}

fn build() -> Result<PathBuf, String> {
    let mut build = cargo(".");
    build.args(["bench", "--no-run", "--bench", "instructions", "--message-format=json"]);
    let messages = output("bench instructions", &mut build)?;
    let path = messages
        .lines()
        .filter(|line| line.contains("\"name\":\"instructions\""))
        .find_map(|line| line.split("\"executable\":\"").nth(1)?.split('"').next());
    path.map(PathBuf::from).ok_or_else(|| "cargo did not name the bench it built".into())
}

fn per_pair(bench: &PathBuf, name: &str, pattern: &str, flows: usize) -> Result<f64, String> {
    let pairs = 20 * flows.max(1_000);
    let (few, many) = (
        count(bench, name, pattern, flows, pairs)?,
        count(bench, name, pattern, flows, 2 * pairs)?,
    );
    Ok((many.1 - few.1) as f64 / (many.0 - few.0) as f64)
}

/// The pairs run and the instructions executed.
fn count(
    bench: &PathBuf,
    name: &str,
    pattern: &str,
    flows: usize,
    pairs: usize,
) -> Result<(u64, u64), String> {
    let file = root().join("target").join(format!("callgrind.{name}.{pattern}.{flows}"));
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(bench).args([name, pattern, &flows.to_string(), &pairs.to_string()]);
    let done = output("valgrind", &mut command)?;
    let profile =
        std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    match (done.trim().parse(), total.map(|total| total.trim().parse())) {
        (Ok(done), Some(Ok(total))) => Ok((done, total)),
        _ => Err(format!("{}: no totals", file.display())),
    }
}
