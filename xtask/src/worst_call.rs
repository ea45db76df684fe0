//! Counts the instructions and the stack of single calls on each bare-metal target, in QEMU.

use std::fs;

use crate::firmware::{CORTEX_M4, build, emulated};
use crate::run::{BARE_METAL, root};
use crate::sizes::{not_above, page, with_comma};

const PAGE: &str = "docs/tables/worst-call.md";
/// First line of the table in [`PAGE`]; the table ends with the page.
const HEAD: &str = "| call | Cortex-M4 | Cortex-M0 | RISC-V | stack | without features | stack |\n";
const ALL: &str = "ack-filter,aqms,tins";
/// The calls that packets and timers cause.
const CALLS: [&str; 8] =
    ["push", "pop", "enqueue", "dequeue", "poll_at", "set_device", "set_rate", "set_limits"];
/// The most bytes of stack that one of [`CALLS`] takes on a Cortex-M4: with all features, and
/// without.
const MAX_STACK: [u64; 2] = [1_400, 1_024];

/// The most that a call costs.
struct Cost {
    call: String,
    instructions: u64,
    /// Stack in bytes.
    stack: u64,
}

/// Runs the program on every target and prints the table. With `renew`, writes it to the page;
/// otherwise searches for a shorter time, and fails if a call costs more than on the page.
pub(crate) fn run(renew: bool) -> Result<(), String> {
    let builds = BARE_METAL.map(|target| (target, ALL)).into_iter().chain([(CORTEX_M4, "")]);
    let elves = builds.map(|(target, features)| {
        let features = &if renew { format!("{features},long") } else { features.to_owned() };
        let into = root().join("target/worst-call-firmware").join(features);
        Ok((target, build("worst-call", target, features, &into)?))
    });
    let elves: Vec<_> = elves.collect::<Result<_, String>>()?;
    let mut columns = Vec::new();
    for (target, elf) in &elves {
        // Each instruction takes the same time: on a Cortex-M, 1,024 ns.
        let shift = if target.starts_with("riscv32") { "shift=0" } else { "shift=10" };
        let Some(printed) = emulated(target, &["-icount", shift], elf)? else {
            eprintln!("xtask: calls not counted: QEMU for {target} is missing");
            return Ok(());
        };
        columns.push(costs(&printed)?);
    }
    let [m4, m0, risc_v, without] = &columns[..] else { return Err("expected four runs".into()) };
    let guide = page(PAGE)?;
    let (mut table, mut wrong) = (HEAD.to_owned() + "|---|--:|--:|--:|--:|--:|--:|\n", Vec::new());
    for cost in m4 {
        let of = |column: &[Cost]| {
            let cost = column.iter().find(|other| other.call == cost.call);
            cost.map_or([0; 2], |cost| [cost.instructions, cost.stack])
        };
        let [[m0, _], [risc_v, _], [few, few_stack]] = [of(m0), of(risc_v), of(without)];
        let figures = [
            ("Cortex-M4", cost.instructions),
            ("Cortex-M0", m0),
            ("RISC-V", risc_v),
            ("stack", cost.stack),
            ("without features", few),
            ("stack without features", few_stack),
        ];
        let call = format!("`{}`", cost.call);
        wrong.extend(not_above(&guide, &call, &figures).err());
        if CALLS.contains(&&*cost.call) {
            for (stack, most) in [cost.stack, few_stack].into_iter().zip(MAX_STACK) {
                if stack > most {
                    wrong.push(format!("{call}: {stack} bytes of stack (expected at most {most})"));
                }
            }
        }
        let cells = figures.map(|(_, figure)| with_comma(figure));
        table += &format!("| {call} | {} |\n", cells.join(" | "));
    }
    print!("{table}");
    if renew {
        let (before, _) = guide.split_once(HEAD).ok_or(format!("{PAGE}: expected {HEAD}"))?;
        let guide = format!("{before}{table}");
        return fs::write(root().join(PAGE), guide).map_err(|error| format!("{PAGE}: {error}"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n`cargo xtask worst-call --renew` records the counts", wrong.join("\n")))
}

/// Parses the lines `call instructions stack` of the program.
fn costs(printed: &str) -> Result<Vec<Cost>, String> {
    let read = |line: &str| {
        let mut words = line.split(' ');
        let call = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        Some(Cost { call, instructions: number()?, stack: number()? })
    };
    let costs = printed.lines().map(read).collect::<Option<Vec<_>>>();
    costs.filter(|costs| !costs.is_empty()).ok_or_else(|| {
        format!("the program printed\n{printed}\nexpected lines of a call and two numbers")
    })
}
