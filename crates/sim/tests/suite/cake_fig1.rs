//! CAKE Fig. 1, made again by `sim reproduce cake-fig1`: every sentence that must hold does, and the
//! documents show what the command prints.

use std::path::PathBuf;
use std::process::Command;

#[test]
#[ignore = "a minute: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_the_tables_and_the_picture() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cake-fig1");
    let _ = std::fs::remove_dir_all(&folder);
    let words = ["reproduce", "cake-fig1", "--out", folder.to_str().unwrap()];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (7, 0), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let page = include_str!("../../../../docs/disciplines/flow_table.md");
    for line in text.lines().filter(|line| !line.contains("cake-fig1.svg")) {
        assert!(page.contains(line), "docs/disciplines/flow_table.md lacks: {line}\nof\n{text}");
    }
    let svg = std::fs::read_to_string(folder.join("cake-fig1.svg")).unwrap();
    assert!(svg == include_str!("../../../../docs/cake-fig1.svg"), "docs/cake-fig1.svg is another");
}
