//! Builds, runs and measures the bare-metal programs in `firmware/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{cargo, has, llvm_tool, output, root};

/// The target of the programs that run in QEMU.
pub(crate) const CORTEX_M4: &str = "thumbv7em-none-eabihf";

pub(crate) fn has_qemu() -> bool {
    has("qemu-system-arm")
}

/// Builds the program in `firmware/{part}` with these features into `into`; returns the ELF file.
pub(crate) fn build(
    part: &str,
    target: &str,
    features: &str,
    into: &Path,
) -> Result<PathBuf, String> {
    let mut build = cargo(&format!("firmware/{part}"));
    // Incremental builds differ in size from clean ones.
    build
        .env("CARGO_INCREMENTAL", "0")
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
    if !has_qemu() {
        if std::env::var_os("CI").is_some() {
            return Err("qemu-system-arm is not installed (required in CI)".into());
        }
        return Ok((elf, None));
    }
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(["-machine", "mps2-an386", "-cpu", "cortex-m4", "-nographic", "-monitor", "none"]);
    qemu.args(["-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]);
    qemu.arg(&elf);
    let printed = output(&format!("{part} {features} on a Cortex-M4"), &mut qemu)?;
    Ok((elf, Some(printed)))
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
