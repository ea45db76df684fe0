//! SQF inside users, by `sim reproduce users-sqf`: every sentence that must hold does, and the documents
//! show what the command prints.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("users-sqf")
}

/// One run with the ten seeds of the documented table.
fn run() -> &'static Output {
    static RUN: OnceLock<Output> = OnceLock::new();
    RUN.get_or_init(|| {
        let _ = std::fs::remove_dir_all(folder());
        let sim = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["reproduce", "users-sqf", "--out"])
            .arg(folder())
            .output();
        sim.unwrap()
    })
}

#[test]
#[ignore = "11 seconds: `cargo xtask check` runs it"]
fn every_sentence_holds() {
    let text = String::from_utf8_lossy(&run().stdout);
    let verdicts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((verdicts("holds  "), verdicts("FAILS  ")), (7, 0), "{text}");
    assert_eq!(run().status.code(), Some(0));
}

/// Goal: a change of any flow scheduler, transport or link shows here as a difference to look at. Method:
/// `docs/disciplines/sqf.md` has the tables to the last digit, `docs/users-sqf.svg` is the picture.
#[test]
#[ignore = "11 seconds: `cargo xtask check` runs it"]
fn the_documents_show_the_tables_and_the_picture() {
    let text = String::from_utf8_lossy(&run().stdout);
    let page = include_str!("../../../../docs/disciplines/sqf.md");
    for line in text.lines().filter(|line| !line.contains("users-sqf.svg")) {
        assert!(page.contains(line), "docs/disciplines/sqf.md lacks: {line}\nof\n{text}");
    }
    let svg = std::fs::read_to_string(folder().join("users-sqf.svg")).unwrap();
    assert!(svg == include_str!("../../../../docs/users-sqf.svg"));
}
