//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The bare-metal targets for which the library is checked.
pub(crate) const BARE_METAL: [&str; 3] =
    ["thumbv7em-none-eabihf", "thumbv6m-none-eabi", "riscv32imac-unknown-none-elf"];

/// The crates that run without an operating system.
pub(crate) const NO_STD: [&str; 4] = ["sched-core", "flowhash", "freeboard-shaper", "freeboard"];

/// The crates that put a queue into a network stack, for the toolchain of the workspace only.
pub(crate) const ADAPTERS: [&str; 2] = ["freeboard-smoltcp", "freeboard-embassy"];

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Returns a command for `cargo` of the pinned toolchain, in `folder` below the root.
pub(crate) fn cargo(folder: &str) -> Command {
    started_from(folder, "cargo")
}

/// Returns a command for `program`, in `folder` below the root.
///
/// Removes the variables that cargo sets for its children: they would affect a build in another
/// workspace.
pub(crate) fn started_from(folder: &str, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root().join(folder));
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG") || name == "CARGO" || name == "CARGO_MANIFEST_DIR" {
            command.env_remove(name);
        }
    }
    command
}

/// Runs `command` to completion and shows its output.
pub(crate) fn succeed(step: &str, command: &mut Command) -> Result<(), String> {
    eprintln!("xtask: {step}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{step}: {status}")),
        Err(error) => Err(format!("{step}: {:?} did not start: {error}", command.get_program())),
    }
}

/// Runs `command` to completion and returns its standard output.
pub(crate) fn output(step: &str, command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{step}: {:?} did not start: {error}", command.get_program()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{step}: {}\n{text}{errors}", output.status))
}

/// Returns true if `program --version` runs successfully.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns the path of a program from the `llvm-tools` component, which `rust-toolchain.toml`
/// installs.
pub(crate) fn llvm_tool(name: &str) -> Result<PathBuf, String> {
    let sysroot =
        output("rustc", Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()))?;
    let host = output("rustc", Command::new("rustc").arg("-vV").current_dir(root()))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin").join(name))
}
