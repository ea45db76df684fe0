//! The queue of fifteen lines runs on a Cortex-M4.

use crate::cortex_m::cortex_m;

/// What the program prints. A heavy host sends 3,999 frames at 8 Mbit/s and a light one 99 at 20 kbit/s, through a line
/// of 500 kbit/s. All frames of the light host leave, and as many of the heavy one as fill the line.
const EXPECTED: &str = "heavy 240 of 3999, light 99 of 99, refused 0, 499800 bit/s";

pub(crate) fn run() -> Result<(), String> {
    let Some(printed) = cortex_m("firmware/smart-queue", "smart-queue-firmware")? else {
        eprintln!("xtask: the smart queue not run: qemu-system-arm is missing");
        return Ok(());
    };
    if printed.trim() != EXPECTED {
        return Err(format!(
            "the smart queue on a Cortex-M4 printed\n{printed}expected\n{EXPECTED}"
        ));
    }
    eprintln!("xtask: {EXPECTED}, on a Cortex-M4");
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
