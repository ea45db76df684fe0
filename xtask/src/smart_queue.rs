//! Runs the fifteen-line smart queue on a Cortex-M4 and compares its sizes with the guide.

use crate::firmware::{CORTEX_M4, build, cortex_m, sizes};
use crate::run::root;
use crate::sizes::{PAGE, compare, page};

/// Expected output of the program. A heavy host sends 3,999 frames at 8 Mbit/s and a light one 99
/// at 20 kbit/s, through a 500 kbit/s link. All frames of the light host are sent; those of the
/// heavy host fill the rest of the link.
const EXPECTED: &str = "heavy 240 of 3999, light 99 of 99, refused 0, 499800 bit/s";

/// Part of the linker's message if the tables leave too little for the stack.
const TOO_LITTLE: &str = "the static tables leave less than _stack_reserve";

/// Rows of the guide for the program without features.
const CODE: &str = "code and constants, in flash";
const TABLES: &str = "static tables, all zero";
const STACK: &str = "stack at its deepest";

/// Rows of the guide for the features of the program.
const FEATURES: [(&str, &str); 5] = [
    ("none", ""),
    ("`ack-filter`: the filter of TCP acknowledgements", "ack-filter"),
    ("`aqms`: RED, BLUE, PIE and PI2, beside COBALT and CoDel", "aqms"),
    ("`tins`: up to eight tins", "tins"),
    ("all three, the default", "ack-filter,aqms,tins"),
];

pub(crate) fn run() -> Result<(), String> {
    FEATURES.iter().try_for_each(|(row, features)| run_with(row, features))?;
    is_refused()
}

/// Fails unless the linker refuses the program with more frames than fit.
fn is_refused() -> Result<(), String> {
    let into = root().join("target/smart-queue-firmware/features");
    match build("smart-queue", CORTEX_M4, "positive-control", &into) {
        Err(error) if error.contains(TOO_LITTLE) => Ok(()),
        Err(error) => Err(format!("{error}\nexpected: {TOO_LITTLE}")),
        Ok(_) => Err(format!("too many frames were linked (expected: {TOO_LITTLE})")),
    }
}

fn run_with(row: &str, features: &str) -> Result<(), String> {
    let (elf, Some(printed)) = cortex_m("smart-queue", features)? else {
        eprintln!("xtask: smart queue not run: qemu-system-arm is missing");
        return Ok(());
    };
    let lines: Vec<&str> = printed.lines().collect();
    let [EXPECTED, stack] = lines[..] else {
        return Err(format!(
            "the smart queue on a Cortex-M4 printed\n{printed}expected\n{EXPECTED}\nstack … bytes"
        ));
    };
    let stack = stack.split(' ').nth(1).and_then(|bytes| bytes.parse().ok());
    let stack = stack.ok_or_else(|| format!("expected stack … bytes in\n{printed}"))?;
    let [flash, tables] = sizes(&elf)?;
    eprintln!("xtask: {EXPECTED}; features [{features}]: flash {flash}, stack {stack} bytes");
    let guide = page("docs/guide/firmware.md")? + &page(PAGE)?;
    if features.is_empty() {
        for (row, bytes) in [(CODE, flash), (TABLES, tables), (STACK, stack)] {
            compare(&guide, row, &[("size", bytes)])?;
        }
    }
    compare(&guide, row, &[("flash", flash), ("stack", stack)])
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use crate::firmware::{CORTEX_M4, has_qemu};

    /// Writes to standard error directly: the test harness captures `eprintln` of passing tests.
    fn say_not_run(why: &str) {
        writeln!(std::io::stderr(), "NOT RUN: fifteen-line smart queue: {why}").unwrap();
    }

    /// Goal: the fifteen-line program behaves as documented, on machines that can build it.
    #[test]
    fn the_queue_of_fifteen_lines_runs_on_a_cortex_m() {
        let mut asks = Command::new("rustc");
        let asks = asks.args(["--print", "target-libdir", "--target", CORTEX_M4]).output();
        let folder = asks.map(|printed| String::from_utf8_lossy(&printed.stdout).trim().to_owned());
        if !folder.is_ok_and(|folder| std::path::Path::new(&folder).is_dir()) {
            assert!(std::env::var_os("CI").is_none(), "CI has a standard library for {CORTEX_M4}");
            return say_not_run(&format!("no standard library for {CORTEX_M4}"));
        }
        let (row, features) = super::FEATURES[0];
        super::run_with(row, features).unwrap();
        if !has_qemu() {
            say_not_run("built, but qemu-system-arm is missing");
        }
    }
}
