//! Test of `sim reproduce qfq-fig7`, QFQ Fig. 7 and Table II: every required check passes.

use std::process::{Command, Output};

use crate::documents::{Run, document};

fn sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap()
}

/// Goal: a change of any discipline, source or link is noticed as a difference to review, and the
/// documents show what the command prints. Method: `docs/tables/qfq-fig7.md` has its tables to the
/// last digit, `docs/qfq-fig7.svg` is its picture; the data of tables and picture is
/// written beside it.
#[test]
#[ignore = "half a minute: `cargo xtask check` runs it"]
fn every_check_holds_and_the_documents_show_the_tables_and_the_picture() {
    let run = Run::of("qfq-fig7", &[]);
    run.assert_verdicts(8, 0);
    run.assert_shown_in(document!("docs/tables/qfq-fig7.md"));
    run.assert_drew(document!("docs/qfq-fig7.svg"));
    let files = std::fs::read_dir(run.folder()).unwrap().map(|file| file.unwrap().file_name());
    let mut files: Vec<_> = files.collect();
    files.sort_unstable();
    let expected = [
        "qfq-fig7-delays.csv",
        "qfq-fig7-delays.jsonl",
        "qfq-fig7-lags.csv",
        "qfq-fig7-lags.jsonl",
        "qfq-fig7.csv",
        "qfq-fig7.jsonl",
        "qfq-fig7.svg",
    ];
    assert_eq!(files, expected);
}

#[test]
fn a_figure_that_does_not_exist_is_refused_with_those_that_do() {
    for (words, expected) in [
        (&["qfq-fig8"][..], "[possible values: qfq-fig7, "),
        (&["qfq-fig7", "--seeds", "one"], "value 'one' for '--seeds <COUNT>': expected 2 to 10000"),
        (&["--svg", "x"], "unexpected argument '--svg' found"),
        (&["--out"], "a value is required for '--out <FOLDER>'"),
    ] {
        let output = sim(&[&["reproduce"], words].concat());
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{words:?}");
        assert!(why.starts_with("error: ") && why.contains(expected), "{words:?}: {why}");
    }
}

#[test]
fn a_folder_that_is_a_file_is_named_before_anything_runs() {
    let out = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = sim(&["reproduce", "qfq-fig7", "--out", out]);
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty());
    assert!(why.starts_with("sim: ") && why.contains("Cargo.toml") && why.lines().count() == 1);
}

#[test]
fn help_and_the_list_name_every_figure() {
    for words in [["reproduce", "--help"], ["reproduce", "--list"]] {
        let output = sim(&words);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("qfq-fig7"), "{text}");
    }
}
