//! Everything a change must pass.

use crate::progress::{Step, one_after_another};
use crate::run::{ADAPTERS, BARE_METAL, NO_STD, cargo, root, succeed};
use crate::{
    api, c, commits, deny, documents, dpdk, examples, firmware_router, flent, fuzz, panic_free,
    publish, search, sizes, smart_queue, sweep, trace, worst_call,
};

/// The extent of [`run`].
#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Skip the tests, for CI, where they have run already
    #[arg(long)]
    without_tests: bool,
    /// Run random and exhaustive tests at full depth, then the searches and each fuzz target for
    /// longer: about an hour and a half
    #[arg(long, conflicts_with = "without_tests")]
    long: bool,
    /// Run only this part of the checks; both parts can run at once
    #[arg(long, value_enum)]
    part: Option<Part>,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Part {
    /// All but the images for microcontrollers
    Host,
    /// Images for microcontrollers: panics, sizes, traces
    Firmware,
}

pub(crate) fn run(extent: &Extent) -> Result<(), String> {
    let has = |part| extent.part.is_none_or(|only| only == part);
    let mut steps = Vec::new();
    if has(Part::Host) {
        steps.extend(host(extent));
    }
    if has(Part::Firmware) {
        steps.extend(firmware(extent.long));
    }
    if extent.long {
        steps.extend(searches());
    }
    one_after_another(&steps)?;
    eprintln!("xtask: all checks passed");
    Ok(())
}

/// The checks that run no program of the workspace.
fn static_checks() -> Vec<Step> {
    vec![
        ("format", Box::new(|| cargo_does("format", &["fmt", "--all", "--check"]))),
        ("links and budgets of the documents", Box::new(documents::run)),
        ("subjects of commits", Box::new(commits::run)),
        ("examples of the main types", Box::new(examples::run)),
        ("clippy", Box::new(clippy)),
    ]
}

fn host(extent: &Extent) -> Vec<Step> {
    let mut steps = static_checks();
    steps.push(("clippy and tests without parts of the queue", Box::new(without_parts)));
    if extent.long {
        steps.push(("tests and doc tests, at full depth", Box::new(|| tests("full"))));
    } else if !extent.without_tests {
        steps.push(("tests and doc tests", Box::new(|| tests("usual"))));
    }
    let rest: [Step; 13] = [
        ("steps of a call", Box::new(steps_of_a_call)),
        ("instructions of a call", Box::new(instructions_of_a_call)),
        ("documentation", Box::new(documentation)),
        ("builds for bare metal", Box::new(bare_metal)),
        ("the types with defmt", Box::new(publish::defmt)),
        ("the oldest compiler", Box::new(publish::oldest_compiler)),
        ("dependencies", Box::new(deny::run)),
        ("packages", Box::new(publish::packages)),
        ("public items", Box::new(|| api::run(false))),
        ("header and examples for C", Box::new(c::check)),
        ("a sweep in parts", Box::new(sweep::run)),
        ("files for flent and tshark", Box::new(flent::run)),
        ("scheduler of a DPDK program", Box::new(dpdk::check)),
    ];
    steps.extend(rest);
    steps
}

fn firmware(long: bool) -> [Step; 5] {
    [
        ("no reachable panic", Box::new(move || panic_free::run(long))),
        ("sizes by part", Box::new(|| sizes::compare_all(false))),
        (
            "traces and queue of a Cortex-M4",
            Box::new(|| trace::run().and_then(|()| smart_queue::run())),
        ),
        ("router in QEMU", Box::new(firmware_router::check)),
        ("instructions and stack of calls", Box::new(|| worst_call::run(false))),
    ]
}

fn searches() -> [Step; 4] {
    let long = |seconds| search::Search { seconds, seed: None };
    [
        ("search for an exceeded bound", Box::new(move || search::bounds(&long(600)))),
        ("search for the longest call", Box::new(move || search::cost(&long(240)))),
        ("search for the dearest call", Box::new(move || search::instructions(&long(840)))),
        ("fuzz targets", Box::new(|| fuzz::run(60))),
    ]
}

/// Runs the checks that take seconds after an edit: for the edit loop, and before a commit.
pub(crate) fn quick() -> Result<(), String> {
    let mut steps = static_checks();
    steps.push(("unit tests of the library", Box::new(unit_tests)));
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

/// Optimised, and the long ones too. `depth` is that of `conformance::effort`.
fn tests(depth: &str) -> Result<(), String> {
    let mut tests = cargo(".");
    tests.args(["test", "--profile", "full", "--workspace", "--", "--include-ignored"]);
    succeed("tests", tests.env("FREEBOARD_TESTS", depth))
}

/// With a feature that no other build may have: it counts. So `worst_call` is a binary of its own.
fn steps_of_a_call() -> Result<(), String> {
    let mut tests = cargo(".");
    tests.args(["test", "--package", "conformance", "--features", "steps"]);
    succeed("worst calls", tests.args(["--test", "worst_call"]))
}

fn instructions_of_a_call() -> Result<(), String> {
    search::instructions_in_tests(&search::Search { seconds: 42, seed: None })
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
        for package in NO_STD.iter().chain(&ADAPTERS) {
            build.args(["--package", package]);
        }
        succeed(&format!("build for {target}"), &mut build)?;
    }
    Ok(())
}
