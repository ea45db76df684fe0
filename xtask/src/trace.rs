//! The same operations leave the same trace on a Cortex-M4 as on this machine.

use std::process::Command;

use crate::run::{cargo, has, output, root};

const FOLDER: &str = "firmware/trace";
const TARGET: &str = "thumbv7em-none-eabihf";

pub(crate) fn run() -> Result<(), String> {
    let mut host = cargo(".");
    host.args(["run", "--quiet", "--release", "--package", "golden"]);
    let here = output("trace on this machine", &mut host)?;
    let folder = root().join("target/trace");
    let mut build = cargo(FOLDER);
    build
        .args(["build", "--quiet", "--release", "--target", TARGET])
        .arg("--target-dir")
        .arg(&folder);
    output(&format!("trace for {TARGET}"), &mut build)?;
    if !has("qemu-system-arm") {
        if std::env::var_os("CI").is_some() {
            return Err("qemu-system-arm is missing, and CI compares traces".into());
        }
        eprintln!("xtask: traces not compared: qemu-system-arm is missing");
        return Ok(());
    }
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(["-machine", "mps2-an386", "-cpu", "cortex-m4", "-nographic", "-monitor", "none"]);
    qemu.args(["-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]);
    qemu.arg(folder.join(TARGET).join("release/trace-firmware"));
    let there = output("trace on a Cortex-M4", &mut qemu)?;
    if here != there {
        return Err(format!("traces differ\nhere:\n{here}\non the Cortex-M4:\n{there}"));
    }
    eprintln!("xtask: {} traces agree with a Cortex-M4", here.lines().count());
    Ok(())
}
