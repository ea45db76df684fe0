//! The queue of fifteen lines runs on a Cortex-M4, and takes what the guide says.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cortex_m::{cortex_m, elf};
use crate::run::{llvm_tool, output, root};

const FOLDER: &str = "firmware/smart-queue";
const NAME: &str = "smart-queue-firmware";

/// What the program prints. A heavy host sends 3,999 frames at 8 Mbit/s and a light one 99 at 20 kbit/s, through a line
/// of 500 kbit/s. All frames of the light host leave, and as many of the heavy one as fill the line.
const EXPECTED: &str = "heavy 240 of 3999, light 99 of 99, refused 0, 499800 bit/s";

/// Where the figures of the program stand for users.
const GUIDE: &str = "docs/guide/firmware.md";
/// Rows of the table in [`GUIDE`].
const CODE: &str = "code and constants, in flash";
const TABLES: &str = "static tables, all zero";
const STACK: &str = "stack at its deepest, while the queue is built";

pub(crate) fn run() -> Result<(), String> {
    let Some(printed) = cortex_m(FOLDER, NAME)? else {
        eprintln!("xtask: the smart queue not run: qemu-system-arm is missing");
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
    eprintln!("xtask: {EXPECTED}, on a Cortex-M4");
    let [flash, tables] = sizes(&elf(NAME))?;
    let guide =
        fs::read_to_string(root().join(GUIDE)).map_err(|error| format!("{GUIDE}: {error}"))?;
    for (row, bytes) in [(CODE, flash), (TABLES, tables), (STACK, stack)] {
        compare(&guide, row, bytes)?;
    }
    Ok(())
}

/// Bytes in flash (code, constants, start values) and bytes of zeros in RAM.
fn sizes(elf: &Path) -> Result<[u64; 2], String> {
    let table = output("llvm-size", Command::new(llvm_tool("llvm-size")?).arg(elf))?;
    let numbers = table.lines().nth(1).unwrap_or_default().split_whitespace();
    let numbers: Vec<u64> = numbers.map_while(|number| number.parse().ok()).collect();
    match numbers[..] {
        [text, data, bss, ..] => Ok([text + data, bss]),
        _ => Err(format!("expected text, data and bss from llvm-size in\n{table}")),
    }
}

/// Fails unless the figure in `row` of the guide is within 2 % of `measured`: the guide rounds to
/// 0.1 kB.
fn compare(guide: &str, row: &str, measured: u64) -> Result<(), String> {
    let cells = guide.lines().find_map(|line| line.strip_prefix(&format!("| {row} | ")));
    let figure = cells.and_then(|cells| cells.strip_suffix(" kB |"));
    let figure: f64 = figure
        .and_then(|kilobytes| kilobytes.parse().ok())
        .ok_or_else(|| format!("{GUIDE}: expected a row \"| {row} | … kB |\""))?;
    let measured = measured as f64 / 1_000.0;
    if (figure - measured).abs() > measured / 50.0 {
        return Err(format!("{GUIDE}: {row}: {figure} kB (expected {measured:.1})"));
    }
    eprintln!("xtask: {row}: {measured:.1} kB");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use crate::cortex_m::{TARGET, has_qemu};

    /// Not by `eprintln`, which the harness keeps to itself if the test passes.
    fn say_not_run(why: &str) {
        writeln!(std::io::stderr(), "NOT RUN: the queue of fifteen lines: {why}").unwrap();
    }

    /// Goal: a figure of the guide that is 2 % off, or that is not there, is an error.
    #[test]
    fn a_figure_of_the_guide_that_is_off_is_found() {
        let guide = "| stack | 10.0 kB |\n| code | ten kB |\n";
        super::compare(guide, "stack", 10_190).unwrap();
        for (row, bytes) in [("stack", 10_210), ("stack", 9_790), ("code", 10_000), ("heap", 1)] {
            super::compare(guide, row, bytes).unwrap_err();
        }
    }

    /// Goal: the program of fifteen lines does what its documents say, where this machine can build it.
    #[test]
    fn the_queue_of_fifteen_lines_runs_on_a_cortex_m() {
        let mut asks = Command::new("rustc");
        let asks = asks.args(["--print", "target-libdir", "--target", TARGET]).output();
        let folder = asks.map(|printed| String::from_utf8_lossy(&printed.stdout).trim().to_owned());
        if !folder.is_ok_and(|folder| std::path::Path::new(&folder).is_dir()) {
            assert!(std::env::var_os("CI").is_none(), "CI has a standard library for {TARGET}");
            return say_not_run(&format!("no standard library for {TARGET}"));
        }
        super::run().unwrap();
        if !has_qemu() {
            say_not_run("built, but qemu-system-arm is missing");
        }
    }
}
