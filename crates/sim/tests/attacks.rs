//! The table of attacks, made again by `sim reproduce attacks`: every sentence that must hold does, and
//! the documents show what the command prints.

use std::process::Command;

#[test]
fn every_sentence_holds_and_the_documents_show_the_tables() {
    let words = ["reproduce", "attacks", "--seeds", "2", "--out", env!("CARGO_TARGET_TMPDIR")];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (10, 0), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let document = include_str!("../../../docs/isolation.md");
    for line in text.lines() {
        assert!(
            document.contains(line),
            "docs/isolation.md lacks: {line}
of\n{text}"
        );
    }
}
