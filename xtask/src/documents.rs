//! The documents: every link leads somewhere, each page keeps its budget of words, and a program
//! that a page shows is the one that runs.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::run::{output, root};

/// The most words of a page, by the beginning of its path; the first row that fits counts.
const BUDGETS: [(&str, usize); 8] = [
    ("README.md", 800),
    ("ARCHITECTURE.md", 900),
    ("SECURITY.md", 900),
    ("CHANGELOG.md", 300),
    ("docs/guide/gateway.md", 2_500),
    ("docs/guide/", 1_500),
    ("docs/disciplines/", 700),
    ("docs/decisions/0", 250),
];

/// The most words of all pages together, but for [`DATA`].
const TOTAL: usize = 45_000;

/// Tables that a command prints or a test holds complete, and test data: they have no budget.
const DATA: [&str; 6] = [
    "docs/tables/",
    "docs/guide/gateway-options.md",
    "docs/guide/metrics.md",
    "docs/guide/sizes.md",
    "crates/conformance/tests/golden/",
    "crates/sim/tests/data/",
];

/// Pages that show a program which the tests of a page cannot run, and its source. The blocks have
/// the language `text`.
const PROGRAMS: [(&str, &str); 1] =
    [("docs/guide/firmware.md", "firmware/smart-queue/src/main.rs")];

pub(crate) fn run() -> Result<(), String> {
    eprintln!("xtask: links, budgets and programs of the documents");
    let files = tracked()?;
    let mut faults = Vec::new();
    let mut pages = Vec::new();
    for file in &files {
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        mentions(file, &text, &mut faults);
        if Path::new(file).extension().is_some_and(|extension| extension == "md") {
            links(file, &text, &mut faults);
            pages.push((file.as_str(), words(&text)));
        }
    }
    print!("{}", budgets(&pages, &mut faults));
    for (page, source) in PROGRAMS {
        programs(page, &read(page)?, source, &read(source)?, &mut faults);
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("documents: {} faults\n{}", faults.len(), faults.join("\n")))
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))
}

/// Every program on the page stands in the source, and there is one.
fn programs(page: &str, text: &str, source: &str, code: &str, faults: &mut Vec<String>) {
    let blocks = text.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut programs = blocks.filter(|block| block.contains("fn main()")).peekable();
    if programs.peek().is_none() {
        faults.push(format!("{page}: no program of {source}"));
    }
    if programs.any(|program| !code.contains(program)) {
        faults.push(format!("{page}: a program is not that of {source}"));
    }
}

/// The files of the repository, new ones that are not ignored included.
fn tracked() -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    Ok(output("git ls-files", &mut git)?.lines().map(str::to_owned).collect())
}

/// The words of a page: what has a letter or a digit, so not the bars of a table.
fn words(text: &str) -> usize {
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    text.split_whitespace().filter(is_word).count()
}

/// Holds `pages` and their words against their budgets; returns a table of the words.
fn budgets(pages: &[(&str, usize)], faults: &mut Vec<String>) -> String {
    let is_data = |page: &str| DATA.iter().any(|data| page.starts_with(data));
    let prose = pages.iter().filter(|(page, _)| !is_data(page));
    let mut rows: Vec<(&str, usize, usize)> = Vec::new();
    let mut total = 0;
    for &(page, words) in prose {
        total += words;
        let Some(&(beginning, most)) =
            BUDGETS.iter().find(|(beginning, _)| page.starts_with(beginning))
        else {
            continue;
        };
        if words > most {
            faults.push(format!("{page}: {words} words (expected at most {most})"));
        }
        match rows.iter_mut().find(|(row, ..)| *row == beginning) {
            Some((_, longest, _)) => *longest = words.max(*longest),
            None => rows.push((beginning, words, most)),
        }
    }
    if total > TOTAL {
        faults.push(format!("all pages: {total} words (expected at most {TOTAL})"));
    }
    rows.push(("all pages", total, TOTAL));
    let row = |(page, words, most): &(&str, usize, usize)| format!("{page}\t{words}\t{most}\n");
    let table: String = rows.iter().map(row).collect();
    format!("page\tmost words\tbudget\n{table}")
}

/// Every page and picture below `docs` that any file speaks of exists.
fn mentions(file: &str, text: &str, faults: &mut Vec<String>) {
    for (at, line) in (1..).zip(text.lines()) {
        for part in line.split(|c: char| !c.is_alphanumeric() && !"/._-".contains(c)) {
            let Some(from) = part.find("docs/") else { continue };
            let path = part[from..].trim_end_matches('.');
            if (path.ends_with(".md") || path.ends_with(".svg")) && !root().join(path).exists() {
                faults.push(format!("{file}:{at}: {path} does not exist"));
            }
        }
    }
}

/// Every relative link and anchor of a page leads somewhere.
fn links(file: &str, text: &str, faults: &mut Vec<String>) {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    for (at, line) in prose(text) {
        for target in
            line.match_indices("](").filter_map(|(from, _)| line[from + 2..].split(')').next())
        {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path =
                if path.is_empty() { PathBuf::from(file) } else { plain(&folder.join(path)) };
            let Ok(_) = std::fs::metadata(root().join(&path)) else {
                faults.push(format!("{file}:{at}: {target}: there is no {}", path.display()));
                continue;
            };
            if !anchor.is_empty() {
                let page = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
                if !anchors(&page).iter().any(|found| found == anchor) {
                    faults.push(format!(
                        "{file}:{at}: {target}: {} has no such heading",
                        path.display()
                    ));
                }
            }
        }
    }
}

/// The lines of a page that are neither code nor output, with their numbers, code spans taken out.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (at, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((at, line.split('`').step_by(2).collect::<Vec<_>>().join("`")));
        }
    }
    lines
}

/// The anchors that a page's headings get: lower case, spaces as hyphens, punctuation left out.
fn anchors(page: &str) -> Vec<String> {
    let mut fenced = false;
    let mut anchors: Vec<String> = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug: String = heading
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
            .collect();
        anchors.push(slug);
    }
    anchors
}

/// `a/b/../c` as `a/c`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a page, or all of them, beyond the budget is a fault. Method: pages at the budget,
    /// with a word more, without a budget, and of data.
    #[test]
    fn pages_beyond_their_budget_are_found() {
        let faults = |pages: &[(&str, usize)]| {
            let mut faults = Vec::new();
            let table = budgets(pages, &mut faults);
            assert!(table.lines().count() >= 2, "{table}");
            faults.len()
        };
        assert_eq!(words("| a | 1,000 | – |\n\n## b\n"), 3);
        assert_eq!(faults(&[("README.md", 800), ("docs/guide/gateway.md", 2_500)]), 0);
        assert_eq!(faults(&[("README.md", 801), ("docs/guide/library.md", 1_501)]), 2);
        assert_eq!(faults(&[("docs/performance.md", TOTAL)]), 0);
        assert_eq!(faults(&[("docs/performance.md", TOTAL), ("README.md", 1)]), 1);
        assert_eq!(faults(&[("docs/guide/sizes.md", TOTAL + 1)]), 0);
    }

    #[test]
    fn links_to_missing_pages_and_headings_are_found() {
        let mut faults = Vec::new();
        links(
            "README.md",
            "[a](ARCHITECTURE.md) [b](nowhere.md) [c](#no-such) `[d](e.md)`",
            &mut faults,
        );
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("nowhere.md") && faults[1].contains("#no-such"), "{faults:?}");
        let page = "nowhere.md";
        let text = format!("see `docs/{page}` and docs/decisions/0001-time-is-an-argument.md.");
        mentions("README.md", &text, &mut faults);
        assert_eq!(faults.len(), 3, "{faults:?}");
    }

    /// Goal: what the guide shows is what QEMU runs. Method: the page and the source as they are,
    /// and a page with another rate or without the program.
    #[test]
    fn programs_on_pages_are_those_that_run() {
        for (page, source) in PROGRAMS {
            let (text, code) = (read(page).unwrap(), read(source).unwrap());
            let faults = |text: &str| {
                let mut faults = Vec::new();
                programs(page, text, source, &code, &mut faults);
                faults.len()
            };
            assert_eq!(faults(&text), 0);
            assert_eq!(faults(&text.replacen("queue.pop(", "queue.take(", 1)), 1);
            assert_eq!(faults(&text.replace("```text", "```")), 1);
        }
    }

    #[test]
    fn a_heading_gives_its_anchor() {
        let page = "# WF2Q+, as here\n```sh\n# no heading\n```\n## Early turns\n";
        assert_eq!(anchors(page), ["wf2q-as-here", "early-turns"]);
    }
}
