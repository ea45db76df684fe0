//! A call and downloads on 30/0.5 Mbit/s, by `sim reproduce narrow-uplink`: the goals that are
//! missed are named, and the document shows what the command prints.

use std::process::Command;

#[test]
#[ignore = "a minute: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_document_shows_the_table() {
    let words = ["reproduce", "narrow-uplink", "--out", env!("CARGO_TARGET_TMPDIR")];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (5, 0), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let page = include_str!("../../../../docs/disciplines/ack_filter.md");
    for line in text.lines() {
        assert!(page.contains(line), "docs/disciplines/ack_filter.md lacks: {line}\nof\n{text}");
    }
}
