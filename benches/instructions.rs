//! One closed loop of a given length, for `cargo xtask instructions` to count under callgrind.
//!
//! Arguments: scheduler, `FULL`, `SMALL` or `OVERLOAD`, flows, pairs. Two runs that differ only in the pairs
//! differ only in the instructions of those pairs.

mod workload;

use workload::{NAMES, Pattern, subject};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [name, pattern, flows, pairs] = words[..] else {
        // `cargo bench` runs every bench without arguments; this one has nothing to say then.
        println!(
            "arguments: SCHEDULER FULL|SMALL|OVERLOAD FLOWS PAIRS; schedulers: {}",
            NAMES.join(" ")
        );
        return;
    };
    let pattern = Pattern::named(pattern).expect("FULL, SMALL or OVERLOAD");
    let flows: usize = flows.parse().expect("the number of flows");
    let pairs: usize = pairs.parse().expect("the number of pairs");
    let mut run = subject(name, pattern, flows).unwrap_or_else(|| panic!("no scheduler {name}"));
    println!("{}", run(pairs));
}
