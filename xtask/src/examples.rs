//! Checks that the documentation of every main type and trait has an example.

use std::path::Path;

use crate::run::root;

/// The types and traits that users meet first, by the source folder of their crate.
const MAIN: [(&str, &[&str]); 6] = [
    (
        "crates/sched-core/src",
        &[
            "Nanos",
            "Packet",
            "Limits",
            "Fifo",
            "FlowQueues",
            "DropPolicy",
            "FlowDirectory",
            "Aqm",
            "Needs",
            "Drr",
            "Qfq",
            "QfqPlus",
            "Wf2q",
            "ShortestQueue",
            "Rate",
            "TinChoice",
            "TokenBucket",
            "Classes",
            "LongestQueueDrop",
            "LongestHostDrop",
            "Blue",
            "BlueParams",
            "CeThreshold",
            "ChosenAqm",
            "Cobalt",
            "CobaltParams",
            "CoDel",
            "CoDelParams",
            "Guarantee",
        ],
    ),
    (
        "crates/flowhash/src",
        &[
            "Parser",
            "Parsed",
            "FlowKey",
            "SipHash13",
            "HalfSipHash",
            "Labels",
            "Labeller",
            "FlowTable",
        ],
    ),
    ("crates/shaper/src", &["Overhead", "Shaper", "Shaped"]),
    (
        "src",
        &[
            "SmartQueue",
            "SmartQueueBuilder",
            "StaticFrames",
            "StaticTables",
            "Rtt",
            "Hashed",
            "Isolated",
            "Isolation",
            "LabelledScheduler",
            "Buffers",
        ],
    ),
    ("crates/freeboard-smoltcp/src", &["ShapedDevice"]),
    ("crates/freeboard-embassy/src", &["ShapedDriver", "SharedQueue"]),
];

/// Fails unless every type in [`MAIN`] has an example in its documentation.
pub(crate) fn run() -> Result<(), String> {
    eprintln!("xtask: examples of the main types");
    let mut missing = Vec::new();
    for (folder, names) in MAIN {
        let mut sources = Vec::new();
        read(&root().join(folder), &mut sources)?;
        for name in names {
            match sources.iter().find_map(|source| documentation(source, name)) {
                None => missing.push(format!("{name}: not found in {folder}")),
                Some(text) if !has_example(&text) => missing.push(format!("{name}: no example")),
                Some(_) => {}
            }
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
}

/// Appends the Rust sources in `folder` and below to `sources`.
fn read(folder: &Path, sources: &mut Vec<String>) -> Result<(), String> {
    let error = |error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        if path.is_dir() {
            read(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(std::fs::read_to_string(&path).map_err(error)?);
        }
    }
    Ok(())
}

/// Returns the lines of documentation of the public type `name` if `source` declares it.
fn documentation(source: &str, name: &str) -> Option<Vec<String>> {
    let lines: Vec<&str> = source.lines().collect();
    let declared = lines.iter().position(|line| {
        ["pub struct ", "pub enum ", "pub trait "].iter().any(|start| {
            // A declaration inside a macro is indented.
            let rest = line.trim_start().strip_prefix(start);
            let rest = rest.and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        })
    })?;
    let above = lines.get(..declared)?;
    let begin = above
        .iter()
        .rposition(|line| !["///", "#[", ")]", "    "].iter().any(|start| line.starts_with(start)));
    let documented = above.get(begin.map_or(0, |at| at + 1)..)?;
    let text = documented.iter().filter_map(|line| line.trim_start().strip_prefix("///"));
    Some(text.map(|line| line.trim().to_owned()).collect())
}

/// Returns true if the documentation contains a code block that is compiled and run as a test.
fn has_example(documentation: &[String]) -> bool {
    let fences = documentation.iter().filter(|line| line.starts_with("```"));
    fences.step_by(2).any(|opening| opening == "```" || opening == "```rust")
}

#[cfg(test)]
mod tests {
    use super::{documentation, has_example};

    /// Returns true if the type `T` in this source has an example, `None` if there is no such type.
    fn example(source: &str) -> Option<bool> {
        documentation(source, "T").map(|lines| has_example(&lines))
    }

    #[test]
    fn a_type_without_example_is_found() {
        let with = "/// A type.\n///\n/// ```\n/// let a = 1;\n/// ```\n#[derive(Debug)]\npub struct T<A> {\n}\n";
        assert_eq!(example(with), Some(true));
        let drawing = with.replacen("/// ```\n", "/// ```text\n", 1);
        assert_eq!(example(&drawing), Some(false));
        let refused = with.replacen("/// ```\n", "/// ```compile_fail\n", 1);
        assert_eq!(example(&refused), Some(false), "it shows what is not accepted only");
        assert_eq!(example("/// A type.\npub enum T {\n}\n"), Some(false));
        let other =
            format!("{with}\n/// Another.\npub struct Type;\n\n/// This one.\npub struct T;\n");
        assert_eq!(example(&other), Some(true), "the first declaration counts");
        assert_eq!(example("/// Another.\npub struct Type;\n"), None);
        let not_its_own = "/// ```\n/// ```\npub struct A;\n\n/// No example.\npub struct T;\n";
        assert_eq!(example(not_its_own), Some(false));
    }
}
