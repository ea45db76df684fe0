//! AQMs beside printed numbers, by `sim reproduce codel-rfc`: every sentence that must hold does, and the documents show
//! what the command prints.

use std::process::Command;

#[test]
fn every_sentence_holds_and_the_documents_show_the_tables() {
    let words = ["reproduce", "codel-rfc", "--out", env!("CARGO_TARGET_TMPDIR")];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (4, 0), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let page = include_str!("../../../../docs/disciplines/aqm_numbers.md");
    for line in text.lines() {
        assert!(page.contains(line), "docs/disciplines/aqm_numbers.md lacks: {line}\nof\n{text}");
    }
}
