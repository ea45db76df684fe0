//! What a command needs of the system.

use std::path::Path;
use std::process::Command;

use crate::run::{output, root, succeed};

/// A program, and the Debian packages that may have it: the first that exists has it.
pub(crate) type Tool = (&'static str, &'static [&'static str]);

/// Makes sure that these programs exist; installs the missing ones if this is root on Debian.
///
/// # Errors
/// Names what is missing and cannot be installed.
pub(crate) fn need(tools: &[Tool]) -> Result<(), String> {
    let missing: Vec<&Tool> = tools.iter().filter(|(program, _)| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, packages)| packages[0]).collect();
    update(&names.join(", "), &packages)?;
    missing.iter().try_for_each(|(program, packages)| {
        let has_it = |package: &&&str| install(&[**package]).is_ok() && is_there(program);
        let found = packages.iter().find(has_it).map(|_| ());
        found.ok_or(format!("{program}: could not be installed (expected in {packages:?})"))
    })
}

/// Installs these Debian packages, which contain `what`, if this is root on Debian.
///
/// # Errors
/// Names what is missing if it cannot be installed.
pub(crate) fn need_packages(what: &str, packages: &[&str]) -> Result<(), String> {
    update(what, packages)?;
    install(packages)
}

/// Updates the list of packages, if this is root on Debian.
fn update(what: &str, packages: &[&str]) -> Result<(), String> {
    if !is_root() || !is_there("apt-get") {
        let packages = packages.join(" ");
        return Err(format!("missing: {what} (as root run: apt-get install {packages})"));
    }
    succeed("apt-get update", Command::new("apt-get").args(["update", "-qq"]))
}

fn install(packages: &[&str]) -> Result<(), String> {
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    let step = format!("apt-get install {}", packages.join(" "));
    succeed(&step, install.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Makes sure that the pinned toolchain has the standard library for `target`.
///
/// # Errors
/// If it is missing and rustup cannot install it.
pub(crate) fn need_target(target: &str) -> Result<(), String> {
    let mut asks = Command::new("rustc");
    asks.args(["--print", "target-libdir", "--target", target]).current_dir(root());
    if Path::new(output("rustc", &mut asks)?.trim()).is_dir() {
        return Ok(());
    }
    let mut add = Command::new("rustup");
    succeed(
        &format!("rustup target add {target}"),
        add.args(["target", "add", target]).current_dir(root()),
    )
}

/// Returns true if `program` is in a folder of `PATH`.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns true if this process is root's.
pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}
