//! The link check: no panic can be reached in the `no_std` crates.
//!
//! `firmware/panic-free` exports every public operation; its panic handler calls a function that does
//! not exist. Where the compiler proves that nothing panics, the handler is gone from the library and
//! so is the undefined symbol. A build with one unchecked index shows that the check can fail.

use std::path::Path;
use std::process::Command;
use std::thread;

use indicatif::ProgressBar;

use crate::progress::progress;
use crate::run::{BARE_METAL, cargo, output, root};

const FOLDER: &str = "firmware/panic-free";
const SYMBOL: &str = "__panic_reached__";

pub(crate) fn run() -> Result<(), String> {
    let progress = progress(3 * BARE_METAL.len() as u64);
    // The builds of one kind share a folder and wait for each other; those of several kinds share the processors.
    let kinds = [("s", false), ("3", false), ("3", true)];
    let outcome = thread::scope(|scope| {
        let progress = &progress;
        let kinds =
            kinds.map(|(level, control)| scope.spawn(move || check(level, control, progress)));
        kinds.map(|kind| {
            kind.join().unwrap_or_else(|_| Err("panic-free: the check itself panicked".into()))
        })
    });
    progress.finish_and_clear();
    outcome.into_iter().collect()
}

/// Builds for every target at an optimisation level; with `control` a panic must be found, else none.
fn check(level: &str, control: bool, progress: &ProgressBar) -> Result<(), String> {
    for target in BARE_METAL {
        let reached = references(target, level, control)?;
        progress.inc(1);
        if control && reached == 0 {
            return Err(format!("{target}: the positive control was not found"));
        }
        if !control && reached != 0 {
            return Err(format!(
                "{target}, opt-level {level}: {reached} references to the panic handler; \
                 build {FOLDER} with the library's functions removed one by one to find which"
            ));
        }
        let found = if control { "a panic is found" } else { "panic-free" };
        progress.suspend(|| eprintln!("xtask: {found} on {target} at opt-level {level}"));
    }
    Ok(())
}

/// How often the undefined symbol of the panic handler is named in the library.
fn references(target: &str, level: &str, control: bool) -> Result<usize, String> {
    let kind = if control { "control" } else { "clean" };
    let folder = root().join("target/panic-free").join(format!("{kind}-{level}"));
    let mut build = cargo(FOLDER);
    build
        .args(["build", "--quiet", "--release", "--target", target])
        .arg("--target-dir")
        .arg(&folder);
    build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", level);
    if control {
        build.args(["--features", "positive-control"]);
    }
    output(&format!("panic-free library for {target}"), &mut build)?;
    let library = folder.join(target).join("release/libpanic_free.a");
    let symbols = output("llvm-nm", Command::new(llvm_nm()?).arg(library))?;
    Ok(symbols.lines().filter(|line| line.contains(SYMBOL)).count())
}

/// `llvm-nm` of the component `llvm-tools`, which `rust-toolchain.toml` brings.
fn llvm_nm() -> Result<std::path::PathBuf, String> {
    let sysroot =
        output("rustc", Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()))?;
    let host = output("rustc", Command::new("rustc").arg("-vV").current_dir(root()))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/llvm-nm"))
}
