//! The model TCP beside a kernel's, by `sim reproduce aqm-linux`: every sentence holds, and the document shows what the
//! command prints.

use std::process::Command;

/// Goal: a change of a queue, an AQM or the model TCP shows here as a difference to look at. Method: five seeds, those of
/// the documented table.
#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_document_shows_the_table() {
    let words = ["reproduce", "aqm-linux", "--seeds", "5", "--out", env!("CARGO_TARGET_TMPDIR")];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let document = include_str!("../../../../docs/disciplines/aqm_linux.md");
    for line in text.lines() {
        assert!(document.contains(line), "docs/disciplines/aqm_linux.md lacks: {line}\nof\n{text}");
    }
    assert_eq!(output.status.code(), Some(0), "{text}");
}
