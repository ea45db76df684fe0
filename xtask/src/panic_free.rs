//! Checks at link time that no panic is reachable in the `no_std` crates.
//!
//! `firmware/panic-free` exports every public operation, and its panic handler calls a function
//! that does not exist. Where the compiler proves that nothing panics, it removes the handler and
//! with it the undefined symbol. A build with one unchecked index proves that the check can fail. A
//! library without the disciplines would have no panics either, so one function from each list of
//! the catalogue has to be present.
//!
//! The library for C is checked as it is shipped: without an operating system, its panic handler
//! calls a function that does not exist. Without optimisation, the call must be found.
//!
//! The library also has one static table of each kind. They have to be all zero, because other
//! tables take flash in addition to RAM.

use std::process::Command;
use std::thread;

use indicatif::ProgressBar;

use crate::c;
use crate::progress::progress;
use crate::run::{BARE_METAL, cargo, llvm_tool, output, root};

const FOLDER: &str = "firmware/panic-free";
const SYMBOL: &str = "__panic_reached__";

/// One function from each list of the catalogue: flow schedulers, schedulers, compositions.
const LINKED: [&str; 3] = [
    "panic_free::operations::catalog::drr::",
    "panic_free::operations::catalog::fifo::",
    "panic_free::operations::catalog::hashed_drr::",
];

/// Prefix of the static tables, which have to be all zero.
const TABLES: &str = "panic_free::tables::";

/// The function that the panic handler of the library for C calls.
const SYMBOL_OF_C: &str = "fb_panic_reached";

/// With `all`, every target at both levels; else the first one at both and the others at `s`.
pub(crate) fn run(all: bool) -> Result<(), String> {
    let at_level_3 = if all { &BARE_METAL[..] } else { &BARE_METAL[..1] };
    let kinds = [("s", false, &BARE_METAL[..]), ("3", false, at_level_3), ("3", true, &BARE_METAL)];
    let progress = progress(kinds.iter().map(|(.., targets)| targets.len() as u64).sum());
    // Builds of one kind share a folder and run one after another; the kinds run in parallel.
    let outcome = thread::scope(|scope| {
        let progress = &progress;
        let kinds = kinds.map(|(level, control, targets)| {
            scope.spawn(move || check(level, control, targets, progress))
        });
        kinds.map(|kind| {
            kind.join().unwrap_or_else(|_| Err("panic-free: the check itself panicked".into()))
        })
    });
    progress.finish_and_clear();
    outcome.into_iter().collect::<Result<(), String>>()?;
    check_c(all)
}

/// Checks the library for C.
fn check_c(all: bool) -> Result<(), String> {
    let levels: &[&str] = if all { &["s", "3"] } else { &["s"] };
    let reaches = |target, level| {
        let symbols = symbols_of_c(target, level)?;
        match symbols.contains(" T fb_enqueue") {
            true => Ok(symbols.contains(SYMBOL_OF_C)),
            false => {
                Err(format!("{target}, opt-level {level}: no fb_enqueue in the library for C"))
            }
        }
    };
    if !reaches(BARE_METAL[0], "0")? {
        return Err("library for C: no panic found without optimisation".into());
    }
    for target in BARE_METAL {
        for level in levels {
            if reaches(target, level)? {
                return Err(format!(
                    "{target}, opt-level {level}: the library for C refers to the panic handler"
                ));
            }
            eprintln!("xtask: library for C is panic-free on {target} at opt-level {level}");
        }
    }
    Ok(())
}

/// Returns the symbols of the library for C, one per line.
fn symbols_of_c(target: &str, level: &str) -> Result<String, String> {
    let folder = root().join("target/panic-free").join(format!("c-{level}"));
    let mut build = c::library("staticlib");
    build.args(["--target", target, "--target-dir"]).arg(&folder);
    build.env("CARGO_PROFILE_C_OPT_LEVEL", level);
    output(&format!("library for C for {target}"), &mut build)?;
    let library = folder.join(target).join("c/libfreeboard_c.a");
    output("llvm-nm", Command::new(llvm_tool("llvm-nm")?).arg(library))
}

/// Builds for `targets` at one optimisation level. With `control` the panic handler must be
/// reachable, otherwise it must not.
fn check(
    level: &str,
    control: bool,
    targets: &[&str],
    progress: &ProgressBar,
) -> Result<(), String> {
    for target in targets {
        let symbols = symbols(target, level, control)?;
        let reached = symbols.lines().filter(|line| line.contains(SYMBOL)).count();
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
        check_zeros(&symbols).map_err(|found| format!("{target}, opt-level {level}: {found}"))?;
        if let Some(missing) = LINKED.iter().find(|name| !control && !symbols.contains(**name)) {
            return Err(format!(
                "{target}, opt-level {level}: no {missing} in the library: its list is empty or not linked"
            ));
        }
        let found = if control { "a panic is found" } else { "panic-free" };
        progress.suspend(|| eprintln!("xtask: {found} on {target} at opt-level {level}"));
    }
    Ok(())
}

/// Fails unless each static table of the library is in a zero-initialised section.
fn check_zeros(symbols: &str) -> Result<(), String> {
    let mut tables = 0;
    for line in symbols.lines().filter(|line| line.contains(TABLES)) {
        tables += 1;
        if !line.to_lowercase().contains(" b ") {
            return Err(format!("static table is not zero-initialised: {line}"));
        }
    }
    if tables == 0 { Err("no static tables found in the library".into()) } else { Ok(()) }
}

/// Returns the symbols of the library, one per line.
fn symbols(target: &str, level: &str, control: bool) -> Result<String, String> {
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
    output("llvm-nm", Command::new(llvm_tool("llvm-nm")?).arg("--demangle").arg(library))
}
