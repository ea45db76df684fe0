//! Programs on a Cortex-M4, in QEMU.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{cargo, has, output, root};

pub(crate) const TARGET: &str = "thumbv7em-none-eabihf";

pub(crate) fn has_qemu() -> bool {
    has("qemu-system-arm")
}

/// Where [`cortex_m`] leaves the program `name`.
pub(crate) fn elf(name: &str) -> PathBuf {
    root().join("target").join(name).join(TARGET).join("release").join(name)
}

/// Builds the program `name` in `folder`, runs it, and returns what it printed; `None` if there is no QEMU. CI has one.
pub(crate) fn cortex_m(folder: &str, name: &str) -> Result<Option<String>, String> {
    let mut build = cargo(folder);
    // Sizes are those of a build from nothing.
    build
        .env("CARGO_INCREMENTAL", "0")
        .args(["build", "--quiet", "--release", "--target", TARGET])
        .arg("--target-dir")
        .arg(root().join("target").join(name));
    output(&format!("{name} for {TARGET}"), &mut build)?;
    if !has_qemu() {
        if std::env::var_os("CI").is_some() {
            return Err("qemu-system-arm is missing, and CI runs firmware".into());
        }
        return Ok(None);
    }
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(["-machine", "mps2-an386", "-cpu", "cortex-m4", "-nographic", "-monitor", "none"]);
    qemu.args(["-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]);
    qemu.arg(elf(name));
    output(&format!("{name} on a Cortex-M4"), &mut qemu).map(Some)
}
