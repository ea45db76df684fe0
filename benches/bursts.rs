//! Bursts compared with single calls: `cargo bench --bench bursts -- [SCHEDULER ...] [FLOWS ...]`.
//!
//! Workload FULL, including the harness. The two alternate in one run: lowest and median of the
//! passes in nanoseconds per pair, and the ratio of the lowest values.

mod workload;

use workload::time::times_in_turns;
use workload::{Pattern, subject};

const FLOWS: [usize; 7] = [32, 64, 1_024, 4_096, 16_384, 65_536, 131_072];
const NAMES: [&str; 8] =
    ["null", "fifo", "drr", "qfq", "qfq_mixed", "hashed_drr", "fq_codel", "isolated_dual"];
const PASSES: usize = 21;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let (flows, names): (Vec<String>, Vec<String>) =
        asked.into_iter().partition(|word| word.parse::<usize>().is_ok());
    let names = if names.is_empty() { NAMES.map(String::from).to_vec() } else { names };
    let flows: Vec<usize> = flows.iter().filter_map(|word| word.parse().ok()).collect();
    let flows = if flows.is_empty() { FLOWS.to_vec() } else { flows };
    println!("scheduler\tflows\tsingle\t\tburst\t\tburst/single");
    for name in &names {
        for &flows in &flows {
            let [single, burst] = times(name, flows);
            let ratio = burst[0] / single[0];
            println!(
                "{name}\t{flows}\t{:.1}\t{:.1}\t{:.1}\t{:.1}\t{ratio:.2}",
                single[0],
                single[PASSES / 2],
                burst[0],
                burst[PASSES / 2],
            );
        }
    }
}

/// Returns nanoseconds per pair in ascending order: with single calls, with bursts.
fn times(name: &str, flows: usize) -> [Vec<f64>; 2] {
    let subjects = [name.to_string(), format!("{name}_burst")]
        .map(|name| subject(&name, Pattern::Full, flows).expect("a scheduler's name"));
    times_in_turns(subjects, flows.max(20_000), PASSES)
}
