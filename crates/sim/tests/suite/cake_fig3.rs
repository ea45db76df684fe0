//! CAKE Fig. 3, made again by `sim reproduce cake-fig3`: every sentence that must hold does, and the
//! documents show what the command prints.

use std::path::PathBuf;
use std::process::Command;

#[test]
#[ignore = "a minute: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_the_tables_and_the_picture() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cake-fig3");
    let _ = std::fs::remove_dir_all(&folder);
    let words = ["reproduce", "cake-fig3", "--out", folder.to_str().unwrap()];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (13, 0), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let page = include_str!("../../../../docs/disciplines/hosts.md");
    for line in text.lines().filter(|line| !line.contains("cake-fig3.svg")) {
        assert!(page.contains(line), "docs/disciplines/hosts.md lacks: {line}\nof\n{text}");
    }
    let svg = std::fs::read_to_string(folder.join("cake-fig3.svg")).unwrap();
    assert!(svg == include_str!("../../../../docs/cake-fig3.svg"), "docs/cake-fig3.svg is another");
}
