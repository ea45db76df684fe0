//! L4S inside flow and host isolation, by `sim reproduce l4s`: every sentence holds, and the documents show the table and the
//! picture.

use std::path::Path;
use std::process::Command;

/// Goal: a change of a queue, an AQM or the model TCP shows here as a difference to look at. Method: ten seeds, those of
/// the documented table.
#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_table_and_picture() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("l4s");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    let output = command.args(["reproduce", "l4s", "--out"]).arg(&folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let page = include_str!("../../../../docs/disciplines/l4s.md");
    for line in text.lines().filter(|line| !line.contains("l4s.svg")) {
        assert!(page.contains(line), "docs/disciplines/l4s.md lacks: {line}\nof\n{text}");
    }
    assert_eq!(output.status.code(), Some(0), "{text}");
    let svg = std::fs::read_to_string(folder.join("l4s.svg")).unwrap();
    assert!(svg == include_str!("../../../../docs/l4s.svg"));
}
