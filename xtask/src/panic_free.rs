//! The link check: no panic can be reached in the `no_std` crates.
//!
//! `firmware/panic-free` exports every public operation; its panic handler calls a function that does
//! not exist. Where the compiler proves that nothing panics, the handler is gone from the library and
//! so is the undefined symbol. A build with one unchecked index shows that the check can fail.

use std::path::Path;
use std::process::Command;

use crate::progress::progress;
use crate::run::{BARE_METAL, cargo, output, root};

const FOLDER: &str = "firmware/panic-free";
const SYMBOL: &str = "__panic_reached__";

pub(crate) fn run() -> Result<(), String> {
    let progress = progress(3 * BARE_METAL.len() as u64);
    for target in BARE_METAL {
        for level in ["s", "3"] {
            let reached = references(target, level, false)?;
            if reached != 0 {
                return Err(format!(
                    "{target}, opt-level {level}: {reached} references to the panic handler; \
                     build {FOLDER} with the library's functions removed one by one to find which"
                ));
            }
            progress.suspend(|| eprintln!("xtask: panic-free on {target} at opt-level {level}"));
            progress.inc(1);
        }
        if references(target, "3", true)? == 0 {
            return Err(format!("{target}: the positive control was not found"));
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
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
