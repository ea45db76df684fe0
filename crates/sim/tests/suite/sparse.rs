//! A call beside uploads, by `sim reproduce sparse`: the documents show what the command prints, and say which
//! sentences fail and why.

use crate::documents::{Run, document};

/// Goal: a change of any flow scheduler, transport or link shows here as a difference to look at. Method: ten seeds,
/// those of the documented table; `docs/disciplines/sparse.md` has the tables and the sentences to the last digit, and
/// says why some of them fail.
#[test]
#[ignore = "45 seconds: `cargo xtask check` runs it"]
fn the_document_shows_the_tables_and_which_sentences_fail() {
    let run = Run::of("sparse", &[]);
    run.assert_verdicts(30, 8);
    let of_triple = |line: &&str| line.starts_with("FAILS  ") && line.contains("triple-isolate");
    assert_eq!(run.text().lines().filter(of_triple).count(), 2, "{}", run.text());
    run.assert_shown_in(document!("docs/disciplines/sparse.md"));
}
