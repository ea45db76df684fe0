//! SQF inside users, by `sim reproduce users-sqf`: every sentence that must hold does, and the
//! documents show what the command prints.

use crate::documents::{Run, document};

/// Goal: a change of any flow scheduler, transport or link shows here as a difference to look at.
/// Method: `docs/tables/users-sqf.md` has the tables to the last digit, `docs/users-sqf.svg` is
/// the picture.
#[test]
#[ignore = "11 seconds: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_the_tables_and_the_picture() {
    let run = Run::of("users-sqf", &[]);
    run.assert_verdicts(7, 0);
    run.assert_shown_in(document!("docs/tables/users-sqf.md"));
    run.assert_drew(document!("docs/users-sqf.svg"));
}
