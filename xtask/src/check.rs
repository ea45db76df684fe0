//! Everything a change must pass.

use crate::run::{BARE_METAL, NO_STD, cargo, succeed};
use crate::{api, documents, examples, panic_free, publish, smart_queue, trace};

/// Where `tests` have been run already, they need not be run again.
pub(crate) fn run(tests: bool) -> Result<(), String> {
    succeed("format", cargo(".").args(["fmt", "--all", "--check"]))?;
    documents::run()?;
    examples::run()?;
    succeed(
        "clippy",
        cargo(".").args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    )?;
    if tests {
        succeed(
            "tests and doc tests, all of them and in full",
            cargo(".")
                .args(["test", "--workspace", "--", "--include-ignored"])
                .env("FREEBOARD_TESTS", "full"),
        )?;
    }
    // A feature that no other build may have: it counts.
    succeed(
        "steps of a call",
        cargo(".").args([
            "test",
            "--package",
            "conformance",
            "--features",
            "steps",
            "--test",
            "worst_call",
        ]),
    )?;
    // A feature that is off by default.
    for what in [["--test", "buffers"], ["--doc", "Buffers"]] {
        let mut tests = cargo(".");
        tests.args(["test", "--package", "freeboard", "--features", "heapless"]).args(what);
        succeed(&format!("freeboard with heapless: {}", what[1]), &mut tests)?;
    }
    succeed(
        "documentation",
        cargo(".").args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    for target in BARE_METAL {
        let mut build = cargo(".");
        build.args(["build", "--release", "--target", target]);
        for package in NO_STD {
            build.args(["--package", package]);
        }
        succeed(&format!("build for {target}"), &mut build)?;
    }
    publish::run()?;
    api::run(false)?;
    panic_free::run()?;
    trace::run()?;
    smart_queue::run()?;
    eprintln!("xtask: all checks passed");
    Ok(())
}
