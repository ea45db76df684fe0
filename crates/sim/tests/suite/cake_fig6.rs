//! CAKE Fig. 6, made again by `sim reproduce cake-fig6`: the sentences that hold, and the documents show what the
//! command prints.

use std::path::PathBuf;
use std::process::Command;

#[test]
#[ignore = "minutes: `cargo xtask check` runs it"]
fn the_documents_show_the_table_and_the_picture() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cake-fig6");
    let _ = std::fs::remove_dir_all(&folder);
    let words = ["reproduce", "cake-fig6", "--out", folder.to_str().unwrap()];
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    // The gain of downloads and the range of uploads are missed: the page says by how much.
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (4, 2), "{text}");
    let page = include_str!("../../../../docs/disciplines/ack_filter.md");
    for line in text.lines().filter(|line| !line.contains("cake-fig6.svg")) {
        assert!(page.contains(line), "docs/disciplines/ack_filter.md lacks: {line}\nof\n{text}");
    }
    let svg = std::fs::read_to_string(folder.join("cake-fig6.svg")).unwrap();
    assert!(svg == include_str!("../../../../docs/cake-fig6.svg"), "docs/cake-fig6.svg is another");
}
