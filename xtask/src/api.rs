//! Compares the public items of the library crates with a recorded baseline.
//!
//! The baseline is one file per crate in `docs/api`, in the format of `cargo public-api`. A change
//! of the public interface changes these files and so shows in the review. `cargo xtask api
//! --renew` rewrites them.

use std::path::PathBuf;

use crate::publish::{rustup, skip};
use crate::run::{output, root};

/// The library crates and the features of their baselines: all but `steps`, which is internal.
const CRATES: [(&str, &[&str]); 6] = [
    ("sched-core", &["--features", "defmt,serde"]),
    ("flowhash", &["--all-features"]),
    ("freeboard-shaper", &["--all-features"]),
    ("freeboard", &["--all-features"]),
    ("freeboard-smoltcp", &[]),
    ("freeboard-embassy", &[]),
];

const INSTALL: &str =
    "rustup toolchain install nightly --profile minimal && cargo install --locked cargo-public-api";

/// Compares the public items with the baseline, or rewrites the baseline if `renew` is set.
pub(crate) fn run(renew: bool) -> Result<(), String> {
    let step = "public items against docs/api";
    let tool = rustup("nightly", "cargo").args(["public-api", "--version"]).output();
    if !tool.is_ok_and(|run| run.status.success()) {
        return skip(step, "cargo-public-api", INSTALL);
    }
    eprintln!("xtask: {step}");
    let mut changed = Vec::new();
    for (package, features) in CRATES {
        let now = items(package, features)?;
        let file = baseline(package);
        if renew {
            std::fs::write(&file, &now).map_err(|error| format!("{}: {error}", file.display()))?;
            continue;
        }
        let before = std::fs::read_to_string(&file)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        changed.extend(differences(&before, &now).map(|line| format!("{package}: {line}")));
    }
    if changed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{step}: {} lines differ\n{}\nIf the change is intended, run `cargo xtask api --renew` and add a line to CHANGELOG.md",
        changed.len(),
        changed.join("\n")
    ))
}

fn baseline(package: &str) -> PathBuf {
    root().join("docs/api").join(format!("{package}.txt"))
}

/// Returns the public items of a crate, one per line, without blanket, auto and derived traits.
fn items(package: &str, features: &[&str]) -> Result<String, String> {
    let mut list = rustup("nightly", "cargo");
    list.args(["public-api", "-sss", "--color", "never", "--package", package]);
    list.args(features);
    output(&format!("public items of {package}"), &mut list)
}

/// Returns the lines that are in one list only: `-` was removed, `+` was added.
fn differences<'a>(before: &'a str, now: &'a str) -> impl Iterator<Item = String> + 'a {
    let gone = before.lines().filter(|line| !now.lines().any(|other| other == *line));
    let new = now.lines().filter(|line| !before.lines().any(|other| other == *line));
    gone.map(|line| format!("- {line}")).chain(new.map(|line| format!("+ {line}")))
}

#[cfg(test)]
mod tests {
    use super::differences;

    #[test]
    fn removed_and_added_items_are_found() {
        let before = "pub fn a()\npub fn b()\n";
        assert_eq!(differences(before, before).count(), 0);
        let found: Vec<String> = differences(before, "pub fn b()\npub fn c()\n").collect();
        assert_eq!(found, ["- pub fn a()", "+ pub fn c()"]);
    }
}
