//! Prints the library's headline figures in one table.
//!
//! `cargo bench --bench headline [-- --tsv] [-- FLOWS ...]`
//!
//! Each workload has a table, printed when the workload is measured. Instructions per pair are net
//! of the empty harness and are counted by `cargo xtask instructions`, which needs valgrind;
//! without it only times are printed. Times include the harness. Each row alternates with the empty
//! harness, and the ratio of the two is comparable between runs: the lowest of the passes, in
//! nanoseconds per pair. In OVERLOAD a pair is one offered packet, twice as many as leave; in the
//! mixes, which have their own flows, it is one packet sent. The queueing delay of sparse flows
//! there is virtual time and is reproducible.

mod workload;

use std::collections::HashMap;
use std::process::{Command, ExitCode, Stdio};

use sim::progress::Progress;
use workload::mix::{PAIRS, Wait};
use workload::time::times_in_turns;
use workload::{NAMES, Pattern, subject};

const FLOWS: [usize; 4] = [32, 1_024, 4_096, 65_536];
const PASSES: usize = 9;
/// Maximum number of pairs in the shorter counted run; the longer has twice as many. Two per flow
/// at the largest number of flows.
const MOST_PAIRS: usize = 131_072;

const FULL: &[Pattern] = &[Pattern::Full];
const BOTH: &[Pattern] = &[Pattern::Full, Pattern::Small];
const LOOPS: &[Pattern] = &[Pattern::Full, Pattern::Small, Pattern::Overload];
const EVERY: &[Pattern] = &Pattern::ALL;
const MIXES: &[Pattern] = Pattern::ALL.split_at(LOOPS.len()).1;

/// Description, name in `workload`, and workloads.
const ROWS: [(&str, &str, &[Pattern]); 18] = [
    ("DRR, flow given", "drr", BOTH),
    ("QFQ, equal weights", "qfq", BOTH),
    ("QFQ, weights 1 to 16", "qfq_mixed", FULL),
    ("FQ-CoDel, no victim finder", "fq_codel", EVERY),
    ("FQ-CoDel, longest queue gives way", "fq_codel_lqd", EVERY),
    ("SQF, longest queue gives way", "sqf_lqd", LOOPS),
    ("isolated", "isolated_dual", MIXES),
    ("isolated, 1 host", "isolated_dual_1_host", LOOPS),
    ("isolated, 32 hosts", "isolated_dual_32_hosts", LOOPS),
    ("isolated, a host a flow", "isolated_dual", LOOPS),
    ("triple-isolate, 32 hosts", "isolated_triple_32_hosts", LOOPS),
    ("triple-isolate, a host a flow", "isolated_triple", LOOPS),
    ("whole queue, labels given", "smart_queue_shaped", EVERY),
    ("whole queue, parse and hash", "smart_queue_parsed", EVERY),
    ("whole queue, four tins, labels given", "smart_queue_tins4", EVERY),
    ("whole queue, four tins, parse and hash", "smart_queue_tins4_parsed", EVERY),
    ("lookup, flow has a queue", "lookup", FULL),
    ("lookup, set full", "lookup_collision", FULL),
];

/// Name and number of flows.
type Place = (&'static str, usize);

/// A measured row.
struct Row {
    words: &'static str,
    name: &'static str,
    of_flows: Vec<Measured>,
}

/// Measurements of a row at one number of flows.
struct Measured {
    flows: usize,
    instructions: Option<f64>,
    /// Nanoseconds per pair of the row, and of the empty harness.
    nanos: [f64; 2],
    wait: Option<Wait>,
}

fn main() -> ExitCode {
    let mut is_tsv = false;
    let mut flows = Vec::new();
    for word in std::env::args().skip(1).filter(|word| word != "--bench") {
        match word.parse() {
            Ok(number) if number > 0 => flows.push(number),
            _ if word == "--tsv" => is_tsv = true,
            _ => {
                eprintln!("{word}: accepted are --tsv and numbers of flows");
                return ExitCode::FAILURE;
            }
        }
    }
    if flows.is_empty() {
        flows.extend(FLOWS);
    }
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    if !has_valgrind {
        eprintln!("valgrind is missing, whose callgrind counts instructions: time only");
    }
    if is_tsv {
        println!("scheduler\tworkload\tflows\tinstructions\tns\tns_null\tratio\twait\twait99");
    }
    for workload in Pattern::ALL {
        let flows = match workload {
            Pattern::Mix(mix) => vec![mix.flows()],
            _ => flows.clone(),
        };
        let mut counts = HashMap::new();
        if has_valgrind && let Err(error) = count(workload, &flows, &mut counts) {
            eprintln!("instructions of {}: {error}", workload.name());
            return ExitCode::FAILURE;
        }
        let results = measured(workload, &flows, &counts);
        if is_tsv {
            print_tsv(workload, &results);
        } else {
            print_table(workload, &flows, &results);
        }
    }
    ExitCode::SUCCESS
}

/// Returns the rows of a workload.
fn rows_of(workload: Pattern) -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = ROWS.iter().filter(move |(_, _, workloads)| workloads.contains(&workload));
    rows.map(|&(words, name, _)| (words, name))
}

/// Adds the net instructions of all rows of `workload` to `counts`.
fn count(
    workload: Pattern,
    flows: &[usize],
    counts: &mut HashMap<Place, f64>,
) -> Result<(), String> {
    let list: Vec<String> = flows.iter().map(usize::to_string).collect();
    let mut xtask = Command::new("cargo");
    xtask.args(["xtask", "instructions", "--workloads", workload.name()]);
    xtask.args(["--flows", &list.join(","), "--most-pairs", &MOST_PAIRS.to_string()]);
    xtask.args(rows_of(workload).map(|(_, name)| name));
    // Errors and progress go to standard error.
    let done = xtask.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !done.status.success() {
        return Err(done.status.to_string());
    }
    let text = String::from_utf8_lossy(&done.stdout);
    for line in text.lines() {
        let [name, _, flows, _, net, ..] = line.split('\t').collect::<Vec<_>>()[..] else {
            continue;
        };
        let known = NAMES.into_iter().find(|known| *known == name);
        if let (Some(name), Ok(flows), Ok(net)) = (known, flows.parse(), net.parse()) {
            counts.insert((name, flows), net);
        }
    }
    let is_missing = |name| flows.iter().any(|&flows| !counts.contains_key(&(name, flows)));
    match rows_of(workload).find(|(_, name)| is_missing(*name)) {
        Some((_, name)) => Err(format!("none was counted for {name}")),
        None => Ok(()),
    }
}

/// Measures all rows of `workload` in order, with each number of flows.
fn measured(workload: Pattern, flows: &[usize], counts: &HashMap<Place, f64>) -> Vec<Row> {
    let progress = Progress::new("time");
    progress.expect((rows_of(workload).count() * flows.len()) as u64);
    let measure = |name, flows: usize| {
        let make = |name| subject(name, workload, flows).expect("a name from the list");
        let nanos = times_in_turns([name, "null"].map(make), flows.max(20_000), PASSES);
        let wait = match workload {
            Pattern::Mix(_) => {
                let mut subject = make(name);
                // The length of the longer run that counts instructions.
                subject.run(2 * PAIRS);
                subject.wait()
            }
            _ => None,
        };
        progress.done();
        let instructions = counts.get(&(name, flows)).copied();
        Measured { flows, instructions, nanos: nanos.map(|passes| passes[0]), wait }
    };
    let rows = rows_of(workload)
        .map(|(words, name)| Row {
            words,
            name,
            of_flows: flows.iter().map(|&flows| measure(name, flows)).collect(),
        })
        .collect();
    progress.clear();
    rows
}

fn print_tsv(workload: Pattern, rows: &[Row]) {
    for Row { name, of_flows, .. } in rows {
        for Measured { flows, instructions, nanos: [ns, null], wait } in of_flows {
            let count = instructions.map_or(String::new(), |net| format!("{net:.1}"));
            let (workload, ratio) = (workload.name(), ns / null);
            print!("{name}\t{workload}\t{flows}\t{count}\t{ns:.1}\t{null:.1}\t{ratio:.2}");
            match wait {
                Some(Wait { mean, p99 }) => println!("\t{mean:.1}\t{p99}"),
                None => println!(),
            }
        }
    }
}

fn print_table(workload: Pattern, flows: &[usize], rows: &[Row]) {
    let (unit, wide, heading) = match workload {
        Pattern::Mix(_) => ("packet that leaves", [20, 25], "  sparse packets wait µs, 99 %"),
        Pattern::Overload => ("packet offered", [8, 15], ""),
        _ => ("pair", [8, 15], ""),
    };
    println!("\n{}, a {unit}", workload.name());
    print!("{:38}", "flows");
    for wide in wide {
        flows.iter().for_each(|flows| print!("{flows:>wide$}"));
    }
    println!();
    let [of_counts, of_times] = wide.map(|wide| wide * flows.len());
    print!("{:38}{:>of_counts$}", "", "instructions, net");
    println!("{:>of_times$}{heading}", "ns, × the empty harness");
    let [wide, wide_ns] = [wide[0], wide[1] - 7];
    for Row { words, of_flows, .. } in rows {
        print!("{words:38}");
        for Measured { instructions, .. } in of_flows {
            match instructions {
                Some(net) => print!("{net:wide$.0}"),
                None => print!("{:>wide$}", "–"),
            }
        }
        for Measured { nanos: [ns, null], .. } in of_flows {
            print!("{ns:wide_ns$.1} ×{:5.1}", ns / null);
        }
        for Wait { mean, p99 } in of_flows.iter().filter_map(|measured| measured.wait) {
            print!("{mean:24.0}{p99:6}");
        }
        println!();
    }
}
