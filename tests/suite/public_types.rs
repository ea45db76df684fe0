//! Parts of the public API that may grow after a release, and statements about it in the READMEs.

use std::fs;
use std::path::{Path, PathBuf};

/// Closed enums: `(name, reason)`.
const CLOSED: [(&str, &str); 5] = [
    ("DropFrom", "a queue has two ends"),
    ("Ecn", "two bits"),
    ("Look", "an AQM that knows is asked no further, and one that does not is"),
    ("Outcome", "a lookup hits, claims or collides"),
    ("Side", "a packet has two ends"),
];

/// Public constants that are arrays: `(name, reason)`.
const FIXED: [(&str, &str); 1] = [("OF_PRIORITIES", "802.1Q has three bits")];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Calls `check` with each line of the library and the lines before it.
fn lines(mut check: impl FnMut(&Path, &[&str], &str)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "crates/sched-core/src", "crates/shaper/src", "crates/flowhash/src"] {
        sources(&root.join(folder), &mut found);
    }
    assert!(found.len() > 100, "{}", found.len());
    for path in found {
        let text = fs::read_to_string(&path).expect("a source");
        let all: Vec<&str> = text.lines().collect();
        for (at, line) in all.iter().enumerate() {
            check(&path, &all[..at], line);
        }
    }
}

/// Goal: a release can add a variant to every enum that may grow, and an element to every public
/// list, without breaking callers. Method: search the sources; a public enum is `non_exhaustive` or
/// listed as closed, and no public constant is an array.
#[test]
fn what_may_grow_is_open() {
    let (mut open, mut closed, mut fixed) = (0, Vec::new(), Vec::new());
    lines(|path, before, line| {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("pub enum ") {
            let name = rest.split(|letter: char| !letter.is_alphanumeric()).next().expect("a name");
            let mut attributes =
                before.iter().rev().take_while(|line| line.trim().starts_with('#'));
            if attributes.any(|line| line.trim() == "#[non_exhaustive]") {
                open += 1;
            } else {
                closed.push(name.to_owned());
                assert!(CLOSED.iter().any(|(of, _)| *of == name), "{name} in {}", path.display());
            }
        } else if let Some((name, kind)) =
            line.strip_prefix("pub const ").and_then(|rest| rest.split_once(": "))
            && name.chars().all(|letter| !letter.is_lowercase())
            && kind.starts_with('[')
        {
            fixed.push(name.to_owned());
            assert!(FIXED.iter().any(|(of, _)| *of == name), "{name} in {}", path.display());
        }
    });
    closed.sort();
    fixed.sort();
    assert_eq!(closed, CLOSED.map(|(name, _)| name));
    assert_eq!(fixed, FIXED.map(|(name, _)| name));
    assert!(open > 20, "{open}");
}

/// Goal: the example in the READMEs compiles with the version of `rand` that they name. Method: it
/// is the version used by the tests.
#[test]
fn the_readmes_name_the_version_of_rand() {
    let manifest = include_str!("../../Cargo.toml");
    let line = manifest.lines().find(|line| line.starts_with("rand = ")).expect("a dependency");
    let version = line.split('"').nth(1).expect("a version");
    for text in [include_str!("../../README.md"), include_str!("../../src/README.md")] {
        assert!(text.contains(&format!("`rand` {version}")), "{version}");
    }
}
