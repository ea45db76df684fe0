//! Checks that the library crates can be published: their packages and the oldest supported
//! compiler.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::run::{ADAPTERS, BARE_METAL, NO_STD, cargo, output, root, started_from, succeed};

/// The `rust-version` of the library crates.
const OLDEST: &str = "1.88";

/// Runs the checks for `defmt`, the oldest compiler and the packages.
pub(crate) fn run() -> Result<(), String> {
    defmt()?;
    oldest_compiler()?;
    packages()
}

/// Builds every library crate from its package, as a user gets it.
///
/// Uncommitted changes are packaged too. A file missing from a package fails the build.
///
/// The build folder has a new name each time, because cargo caches the unpacked packages of a local
/// registry by the registry's path and the package's version, and would reuse an outdated one.
pub(crate) fn packages() -> Result<(), String> {
    let all = root().join("target/publish");
    if all.exists() {
        fs::remove_dir_all(&all).map_err(|error| format!("{}: {error}", all.display()))?;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let folder = all.join(since.as_nanos().to_string());
    let mut package = cargo(".");
    package.arg("package").arg("--target-dir").arg(&folder);
    for name in NO_STD.iter().chain(&ADAPTERS) {
        package.args(["--package", name]);
    }
    let mut publish = cargo(".");
    publish.args(["publish", "--workspace", "--dry-run", "--target-dir"]).arg(&folder);
    let changes = output("git", started_from(".", "git").args(["status", "--porcelain"]))?;
    if !changes.is_empty() {
        eprintln!("xtask: uncommitted changes: packaging with --allow-dirty");
        package.arg("--allow-dirty");
        publish.arg("--allow-dirty");
    }
    succeed("packages of the library crates", &mut package)?;
    succeed("publication, dry run", &mut publish)
}

/// Compiles the library crates with all features and the oldest supported compiler.
pub(crate) fn oldest_compiler() -> Result<(), String> {
    let step = format!("library crates with Rust {OLDEST}");
    if !rustup(OLDEST, "rustc").arg("--version").output().is_ok_and(|run| run.status.success()) {
        return skip(
            &step,
            OLDEST,
            &format!("rustup toolchain install {OLDEST} --profile minimal"),
        );
    }
    let mut check = rustup(OLDEST, "cargo");
    check.args(["check", "--locked", "--lib", "--all-features", "--target-dir", "target/oldest"]);
    for name in NO_STD {
        check.args(["--package", name]);
    }
    succeed(&step, &mut check)
}

/// Compiles `freeboard` with the feature `defmt` on a bare-metal target.
pub(crate) fn defmt() -> Result<(), String> {
    let mut check = cargo(".");
    check.args(["check", "--lib", "--package", "freeboard", "--features", "defmt"]);
    succeed("defmt", check.args(["--target", BARE_METAL[0]]))
}

/// Returns a command that runs `program` of another toolchain.
pub(crate) fn rustup(toolchain: &str, program: &str) -> Command {
    let mut command = started_from(".", "rustup");
    command.args(["run", toolchain, program]);
    command
}

/// Reports a check as skipped because its tool is missing. With `CI` set this is an error, unless
/// `FREEBOARD_SKIP`, a list of names separated by spaces, contains the tool.
pub(crate) fn skip(step: &str, tool: &str, install: &str) -> Result<(), String> {
    let allowed = std::env::var("FREEBOARD_SKIP").unwrap_or_default();
    if std::env::var_os("CI").is_some() && !allowed.split_whitespace().any(|word| word == tool) {
        return Err(format!("{step}: needs `{install}`"));
    }
    eprintln!("xtask: {step}: SKIPPED, needs `{install}`");
    Ok(())
}
