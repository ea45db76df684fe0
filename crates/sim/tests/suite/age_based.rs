//! Flows by age, by `sim reproduce age-based`: every sentence that must hold does, and the documents show what the
//! command prints.

use std::process::Command;

#[test]
#[ignore = "minutes: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_the_tables() {
    let words = ["reproduce", "age-based", "--out", env!("CARGO_TARGET_TMPDIR")];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (17, 0), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let page = include_str!("../../../../docs/disciplines/age.md");
    for line in text.lines() {
        assert!(page.contains(line), "docs/disciplines/age.md lacks: {line}\nof\n{text}");
    }
}
