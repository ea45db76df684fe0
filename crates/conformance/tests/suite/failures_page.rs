//! The page of known failures names only existing tests.

use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../../docs/failures.md");
const FOLDERS: [&str; 3] = ["tests", "src", "crates"];

/// Returns the text between backticks in table rows, if it has the form of a test's name.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let words = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let names = words.filter(|word| word.contains("::") || word.matches('_').count() > 1);
    names.filter_map(|word| word.rsplit("::").next())
}

/// Returns the names known to `cargo test`: functions with the attribute, and modules that run one
/// test on every discipline.
fn run(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
            found.extend(name.split('(').next());
        }
        is_test = line == "#[test]" || is_test && line.starts_with("#[");
        if let Some(entry) = line.strip_prefix("every_discipline!(") {
            found.extend(entry.split(',').next());
        }
    }
    found
}

fn each_source(folder: &Path, each: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_source(&path, each);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            each(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Goal: each test named on the page exists and runs, and each row of a failure that can happen
/// names one.
#[test]
fn every_test_on_the_page_of_failures_runs() {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests = std::collections::BTreeSet::new();
    for folder in FOLDERS {
        each_source(&root.join(folder), &mut |text| {
            tests.extend(run(text).into_iter().map(str::to_owned));
        });
    }
    let missing: Vec<&str> = named(PAGE).filter(|&name| !tests.contains(name)).collect();
    assert!(missing.is_empty(), "on the page, and no test: {missing:?}");

    let (possible, _) = PAGE.split_once("\n## Impossible here\n").expect("it is there");
    let rows =
        possible.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| fail"));
    let without: Vec<&str> = rows.filter(|row| named(row).next().is_none()).collect();
    assert!(without.is_empty(), "rows without a test: {without:?}");
}

#[test]
fn tests_are_found_in_any_form() {
    let text = "#[test]\nfn plain() {}\n#[test]\n#[ignore]\nfn slow_one() {}\nfn helper() {}\n\
        every_discipline!(on_all, super::inside);\n";
    assert_eq!(run(text), ["plain", "slow_one", "on_all"]);
    let page = "| a | `one_two_three`, `a::file`, `poll_at` |\n`not_in_table_rows`\n";
    assert!(named(page).eq(["one_two_three", "file"]));
}
