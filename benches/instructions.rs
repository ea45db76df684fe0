//! Runs one workload of a given length, for `cargo xtask instructions` to count under callgrind.
//!
//! Arguments: scheduler, workload, flows, pairs. Two runs that differ only in the pairs differ only
//! in the instructions of those pairs. A mix has its own flows and ignores the argument.

mod workload;

use workload::mix::Wait;
use workload::{MIXED, NAMES, Pattern, subject};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [name, pattern, flows, pairs] = words[..] else {
        // `cargo bench` runs every bench without arguments; print the usage then.
        println!("arguments: SCHEDULER WORKLOAD FLOWS PAIRS");
        println!("workloads: {}", Pattern::ALL.map(Pattern::name).join(" "));
        println!("schedulers: {}", NAMES.join(" "));
        println!("in mixes: {}", MIXED.join(" "));
        return;
    };
    let workload = Pattern::named(pattern).unwrap_or_else(|| panic!("no workload {pattern}"));
    let flows: usize = flows.parse().expect("the number of flows");
    let pairs: usize = pairs.parse().expect("the number of pairs");
    let mut subject = subject(name, workload, flows)
        .unwrap_or_else(|| panic!("no scheduler {name} in {pattern}"));
    let done = subject.run(pairs);
    match subject.wait() {
        Some(Wait { mean, p99 }) => println!("{done} {mean:.1} {p99}"),
        None => println!("{done}"),
    }
}
