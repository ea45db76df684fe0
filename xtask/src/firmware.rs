//! Builds, runs and measures the bare-metal programs in `firmware/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{cargo, has, llvm_tool, output, root};

/// The target of the programs that run in QEMU.
pub(crate) const CORTEX_M4: &str = "thumbv7em-none-eabihf";

const ARM_QEMU: &str = "qemu-system-arm";
const RISC_V_QEMU: &str = "qemu-system-riscv32";

#[cfg(test)]
pub(crate) fn has_qemu() -> bool {
    has(ARM_QEMU)
}

/// Builds the program in `firmware/{part}` with these features into `into`; returns the ELF file.
pub(crate) fn build(
    part: &str,
    target: &str,
    features: &str,
    into: &Path,
) -> Result<PathBuf, String> {
    build_with(&[], part, target, features, into)
}

/// Variant of [`build`] with these variables in the environment of the compiler.
pub(crate) fn build_with(
    variables: &[(&str, String)],
    part: &str,
    target: &str,
    features: &str,
    into: &Path,
) -> Result<PathBuf, String> {
    let mut build = cargo(&format!("firmware/{part}"));
    // Incremental builds differ in size from clean ones.
    build
        .env("CARGO_INCREMENTAL", "0")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .args(["build", "--quiet", "--release", "--target", target, "--features", features])
        .arg("--target-dir")
        .arg(into);
    output(&format!("{part} {features} for {target}"), &mut build)?;
    Ok(into.join(target).join("release").join(format!("{part}-firmware")))
}

/// Builds the program in `firmware/{part}` for a Cortex-M4 and runs it in QEMU. Returns the ELF
/// file and the program's output, which is `None` if QEMU is missing.
///
/// # Errors
///
/// With `CI` set, a missing QEMU is an error.
pub(crate) fn cortex_m(part: &str, features: &str) -> Result<(PathBuf, Option<String>), String> {
    let into = root().join("target").join(format!("{part}-firmware"));
    // A test may run the program without features while `check` builds it with features.
    let into = if features.is_empty() { into } else { into.join("features") };
    let elf = build(part, CORTEX_M4, features, &into)?;
    let printed = emulated(CORTEX_M4, &[], &elf)?;
    Ok((elf, printed))
}

/// Runs a program for `target` in QEMU with additional arguments. Returns its output, or `None` if
/// QEMU is missing.
///
/// # Errors
///
/// With `CI` set, a missing QEMU is an error.
pub(crate) fn emulated(
    target: &str,
    arguments: &[&str],
    elf: &Path,
) -> Result<Option<String>, String> {
    let (program, board): (_, &[&str]) = if target.starts_with("riscv32") {
        (RISC_V_QEMU, &["-machine", "virt", "-bios", "none", "-serial", "stdio"])
    } else {
        let semihosting = ["-semihosting-config", "enable=on,target=native"];
        let board = ["-machine", "mps2-an386", "-cpu", "cortex-m4", "-serial", "none"];
        (ARM_QEMU, &[&board[..], &semihosting].concat())
    };
    if !has(program) {
        if std::env::var_os("CI").is_some() {
            return Err(format!("{program} is not installed (required in CI)"));
        }
        return Ok(None);
    }
    let mut qemu = Command::new(program);
    qemu.args(["-display", "none", "-monitor", "none"]).args(board).args(arguments);
    let run = qemu.arg("-kernel").arg(elf);
    output(&format!("{} in QEMU", elf.display()), run).map(Some)
}

/// Returns a program's size in bytes in flash (code, constants, initial values) and in RAM
/// (initialised and zeroed data).
pub(crate) fn sizes(elf: &Path) -> Result<[u64; 2], String> {
    let table = output("llvm-size", Command::new(llvm_tool("llvm-size")?).arg(elf))?;
    let numbers = table.lines().nth(1).unwrap_or_default().split_whitespace();
    let numbers: Vec<u64> = numbers.map_while(|number| number.parse().ok()).collect();
    match numbers[..] {
        [text, data, bss, ..] => Ok([text + data, data + bss]),
        _ => Err(format!("expected text, data and bss from llvm-size in\n{table}")),
    }
}
