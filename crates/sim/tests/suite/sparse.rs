//! A call beside uploads, by `sim reproduce sparse`: the documents show what the command prints, and say which
//! sentences fail and why.

use std::process::Command;

/// Goal: a change of any flow scheduler, transport or link shows here as a difference to look at. Method: ten seeds,
/// those of the documented table; `docs/disciplines/sparse.md` has the tables and the sentences to the last digit, and
/// says why some of them fail.
#[test]
#[ignore = "45 seconds: `cargo xtask check` runs it"]
fn the_document_shows_the_tables_and_which_sentences_fail() {
    let words = ["reproduce", "sparse", "--seeds", "10", "--out", env!("CARGO_TARGET_TMPDIR")];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (30, 8), "{text}");
    let of_triple = |line: &&str| line.starts_with("FAILS  ") && line.contains("triple-isolate");
    assert_eq!(text.lines().filter(of_triple).count(), 2, "{text}");
    let document = include_str!("../../../../docs/disciplines/sparse.md");
    for line in text.lines() {
        assert!(document.contains(line), "docs/disciplines/sparse.md lacks: {line}\nof\n{text}");
    }
}
