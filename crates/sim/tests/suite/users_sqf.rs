//! Test of `sim reproduce users-sqf`, SQF inside users: every required check passes, and the
//! documents show the command's output.

use crate::documents::{Run, document};

/// Goal: a change of any flow scheduler, transport or link is noticed as a difference to review.
/// Method: `docs/tables/users-sqf.md` has the tables to the last digit, `docs/users-sqf.svg` is the
/// picture.
#[test]
#[ignore = "11 seconds: `cargo xtask check` runs it"]
fn every_check_holds_and_the_documents_show_the_tables_and_the_picture() {
    let run = Run::of("users-sqf", &[]);
    run.assert_verdicts(7, 0);
    run.assert_shown_in(document!("docs/tables/users-sqf.md"));
    run.assert_drew(document!("docs/users-sqf.svg"));
}
