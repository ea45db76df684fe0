//! Rates that follow lines, by `sim reproduce autorate`: every sentence that must hold does, and the documents show what
//! the command prints.

use std::path::PathBuf;
use std::process::Command;

#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_the_table_and_the_picture() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("autorate");
    let _ = std::fs::remove_dir_all(&folder);
    let words = ["reproduce", "autorate", "--out", folder.to_str().unwrap()];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let page = include_str!("../../../../docs/disciplines/autorate.md");
    for line in text.lines() {
        assert!(page.contains(line), "docs/disciplines/autorate.md lacks: {line}\nof\n{text}");
    }
    let svg = std::fs::read_to_string(folder.join("autorate.svg")).unwrap();
    assert!(svg == include_str!("../../../../docs/autorate.svg"), "docs/autorate.svg is another");
}
