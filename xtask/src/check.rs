//! Everything a change must pass.

use crate::progress::{Step, one_after_another};
use crate::run::{BARE_METAL, NO_STD, cargo, root, succeed};
use crate::{
    api, commits, deny, documents, examples, panic_free, publish, search, sizes, smart_queue, trace,
};

/// Where `tests` have been run already, they need not be run again.
pub(crate) fn run(tests: bool) -> Result<(), String> {
    let mut steps: Vec<Step> = vec![
        ("format", Box::new(|| cargo_does("format", &["fmt", "--all", "--check"]))),
        ("links and budgets of the documents", Box::new(documents::run)),
        ("subjects of commits", Box::new(commits::run)),
        ("examples of the main types", Box::new(examples::run)),
        ("clippy", Box::new(clippy)),
        ("clippy and tests without parts of the queue", Box::new(without_parts)),
    ];
    if tests {
        steps.push(("tests and doc tests, all of them and in full", Box::new(tests_in_full)));
    }
    let rest: [Step; 12] = [
        ("steps of a call", Box::new(steps_of_a_call)),
        ("instructions of a call", Box::new(instructions_of_a_call)),
        ("documentation", Box::new(documentation)),
        ("builds for bare metal", Box::new(bare_metal)),
        ("the types with defmt", Box::new(publish::defmt)),
        ("the oldest compiler", Box::new(publish::oldest_compiler)),
        ("dependencies", Box::new(deny::run)),
        ("packages", Box::new(publish::packages)),
        ("public items", Box::new(|| api::run(false))),
        ("no reachable panic", Box::new(panic_free::run)),
        ("sizes by part", Box::new(|| sizes::run(false))),
        (
            "traces and queue of a Cortex-M4",
            Box::new(|| trace::run().and_then(|()| smart_queue::run())),
        ),
    ];
    steps.extend(rest);
    one_after_another(&steps)?;
    eprintln!("xtask: all checks passed");
    Ok(())
}

/// What takes seconds after an edit: for the edit loop, and before a commit.
pub(crate) fn quick() -> Result<(), String> {
    let steps: [Step; 6] = [
        ("format", Box::new(|| cargo_does("format", &["fmt", "--all", "--check"]))),
        ("links and budgets of the documents", Box::new(documents::run)),
        ("subjects of commits", Box::new(commits::run)),
        ("examples of the main types", Box::new(examples::run)),
        ("clippy", Box::new(clippy)),
        ("unit tests of the library", Box::new(unit_tests)),
    ];
    one_after_another(&steps)
}

fn unit_tests() -> Result<(), String> {
    let mut words = vec!["test", "--lib", "--features", "freeboard/alloc"];
    words.extend(NO_STD.iter().flat_map(|package| ["--package", package]));
    cargo_does("unit tests", &words)
}

fn cargo_does(step: &str, words: &[&str]) -> Result<(), String> {
    succeed(step, cargo(".").args(words))
}

fn clippy() -> Result<(), String> {
    cargo_does("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Each part alone, and none: the workspace builds with all of them.
fn without_parts() -> Result<(), String> {
    ["alloc", "alloc,ack-filter", "alloc,aqms", "alloc,tins"].iter().try_for_each(|features| {
        let parts = ["--package", "freeboard", "--no-default-features", "--features", features];
        let words = [&["clippy"], &parts[..], &["--", "-D", "warnings"]].concat();
        cargo_does(&format!("clippy with {features}"), &words)
    })?;
    let mut tests = cargo("tests/without_parts");
    tests.arg("test").arg("--target-dir").arg(root().join("target/without-parts"));
    succeed("tests without parts of the queue", &mut tests)
}

fn tests_in_full() -> Result<(), String> {
    let mut tests = cargo(".");
    tests.args(["test", "--profile", "full", "--workspace", "--", "--include-ignored"]);
    tests.env("FREEBOARD_TESTS", "full");
    succeed("tests", &mut tests)
}

/// With a feature that no other build may have: it counts. So `worst_call` is a binary of its own.
fn steps_of_a_call() -> Result<(), String> {
    let mut tests = cargo(".");
    tests.args(["test", "--profile", "full", "--package", "conformance", "--features", "steps"]);
    succeed("worst calls", tests.args(["--test", "worst_call"]))
}

fn instructions_of_a_call() -> Result<(), String> {
    search::instructions(&search::Search { seconds: 42, seed: None })
}

fn documentation() -> Result<(), String> {
    let mut doc = cargo(".");
    doc.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    succeed("cargo doc", &mut doc)
}

fn bare_metal() -> Result<(), String> {
    for target in BARE_METAL {
        let mut build = cargo(".");
        build.args(["build", "--release", "--target", target]);
        for package in NO_STD {
            build.args(["--package", package]);
        }
        succeed(&format!("build for {target}"), &mut build)?;
    }
    Ok(())
}
