//! The figures that the library is judged by, in one table: `cargo bench --bench headline [-- --tsv] [-- FLOWS ...]`.
//!
//! Instructions of a pair are net of the empty harness, counted by `cargo xtask instructions`, which needs valgrind;
//! without it there are times only. Times include the harness. Each row takes turns with the empty harness, and the ratio
//! of the two is what can be compared between runs: the lowest of the passes, in nanoseconds a pair. In OVERLOAD a pair is a
//! packet that is offered, twice as many as leave.

mod workload;

use std::collections::HashMap;
use std::process::{Command, ExitCode, Stdio};

use sim::progress::Progress;
use workload::time::times_in_turns;
use workload::{NAMES, Pattern, subject};

const FLOWS: [usize; 4] = [32, 1_024, 4_096, 65_536];
const PASSES: usize = 9;
/// So many pairs are counted at most, and twice as many: two of each flow where there are most flows.
const MOST_PAIRS: usize = 131_072;

const FULL: &[Pattern] = &[Pattern::Full];
const BOTH: &[Pattern] = &[Pattern::Full, Pattern::Small];
const ALL: &[Pattern] = &[Pattern::Full, Pattern::Small, Pattern::Overload];

/// In words, by its name in `workload`, and in which workloads.
const ROWS: [(&str, &str, &[Pattern]); 17] = [
    ("DRR, flow given", "drr", BOTH),
    ("QFQ, equal weights", "qfq", BOTH),
    ("QFQ, weights 1 to 16", "qfq_mixed", FULL),
    ("FQ-CoDel, no victim finder", "fq_codel", ALL),
    ("FQ-CoDel, longest queue gives way", "fq_codel_lqd", ALL),
    ("SQF, longest queue gives way", "sqf_lqd", ALL),
    ("isolated, 1 host", "isolated_dual_1_host", ALL),
    ("isolated, 32 hosts", "isolated_dual_32_hosts", ALL),
    ("isolated, a host a flow", "isolated_dual", ALL),
    ("triple-isolate, 32 hosts", "isolated_triple_32_hosts", ALL),
    ("triple-isolate, a host a flow", "isolated_triple", ALL),
    ("whole queue, labels given", "smart_queue_shaped", ALL),
    ("whole queue, parse and hash", "smart_queue_parsed", ALL),
    ("whole queue, four tins, labels given", "smart_queue_tins4", ALL),
    ("whole queue, four tins, parse and hash", "smart_queue_tins4_parsed", ALL),
    ("lookup, flow has a queue", "lookup", FULL),
    ("lookup, set full", "lookup_collision", FULL),
];

/// Workload, name and number of flows.
type Place = (Pattern, &'static str, usize);

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
    let mut counts = HashMap::new();
    for &workload in ALL.iter().filter(|_| has_valgrind) {
        if let Err(error) = count(workload, &flows, &mut counts) {
            eprintln!("instructions of {}: {error}", workload.name());
            return ExitCode::FAILURE;
        }
    }
    let times = times(&flows);
    if is_tsv {
        print_tsv(&counts, &times, &flows)
    } else {
        print_table(&counts, &times, &flows)
    }
    ExitCode::SUCCESS
}

/// The rows of a workload.
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
    // Its errors, and how far it is, are seen.
    let done = xtask.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !done.status.success() {
        return Err(done.status.to_string());
    }
    let text = String::from_utf8_lossy(&done.stdout);
    for line in text.lines() {
        let [name, _, flows, _, net] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
        let known = NAMES.into_iter().find(|known| *known == name);
        if let (Some(name), Ok(flows), Ok(net)) = (known, flows.parse(), net.parse()) {
            counts.insert((workload, name, flows), net);
        }
    }
    let is_missing =
        |name| flows.iter().any(|&flows| !counts.contains_key(&(workload, name, flows)));
    match rows_of(workload).find(|(_, name)| is_missing(*name)) {
        Some((_, name)) => Err(format!("none was counted for {name}")),
        None => Ok(()),
    }
}

/// Nanoseconds a pair of each row, and of the empty harness beside it.
fn times(flows: &[usize]) -> HashMap<Place, [f64; 2]> {
    let progress = Progress::new("time");
    let places: Vec<Place> = ALL
        .iter()
        .flat_map(|&workload| rows_of(workload).map(move |(_, name)| (workload, name)))
        .flat_map(|(workload, name)| flows.iter().map(move |&flows| (workload, name, flows)))
        .collect();
    progress.expect(places.len() as u64);
    let measured = places.into_iter().map(|(workload, name, flows)| {
        let subjects = [name, "null"]
            .map(|name| subject(name, workload, flows).expect("a name from the list"));
        let times = times_in_turns(subjects, flows.max(20_000), PASSES);
        progress.done();
        ((workload, name, flows), times.map(|passes| passes[0]))
    });
    let times = measured.collect();
    progress.clear();
    times
}

fn print_tsv(counts: &HashMap<Place, f64>, times: &HashMap<Place, [f64; 2]>, flows: &[usize]) {
    println!("scheduler\tworkload\tflows\tinstructions\tns\tns_null\tratio");
    for &workload in ALL {
        for (_, name) in rows_of(workload) {
            for &flows in flows {
                let place = (workload, name, flows);
                let count = counts.get(&place).map_or(String::new(), |net| format!("{net:.1}"));
                let [ns, null] = times[&place];
                let (workload, ratio) = (workload.name(), ns / null);
                println!("{name}\t{workload}\t{flows}\t{count}\t{ns:.1}\t{null:.1}\t{ratio:.2}");
            }
        }
    }
}

fn print_table(counts: &HashMap<Place, f64>, times: &HashMap<Place, [f64; 2]>, flows: &[usize]) {
    for &workload in ALL {
        let unit = if workload == Pattern::Overload { "packet offered" } else { "pair" };
        println!("\n{}, a {unit}", workload.name());
        print!("{:34}", "flows");
        for flows in flows {
            print!("{flows:>8}");
        }
        for flows in flows {
            print!("{flows:>15}");
        }
        println!();
        let (of_counts, of_times) = (8 * flows.len(), 15 * flows.len());
        print!("{:34}{:>of_counts$}", "", "instructions, net");
        println!("{:>of_times$}", "ns, × the empty harness");
        for (words, name) in rows_of(workload) {
            print!("{words:34}");
            for &flows in flows {
                match counts.get(&(workload, name, flows)) {
                    Some(net) => print!("{net:8.0}"),
                    None => print!("{:>8}", "–"),
                }
            }
            for &flows in flows {
                let [ns, null] = times[&(workload, name, flows)];
                print!("{ns:8.1} ×{:5.1}", ns / null);
            }
            println!();
        }
    }
}
