//! Test of `sim reproduce sqf-adsl`, SQF in an ADSL gateway: every required check passes, and the
//! documents show the command's output.

use conformance::effort::effort;

use crate::documents::{Run, document};

/// Goal: a change of any queue, transport or link is noticed as a difference to review. Method:
/// `docs/tables/sqf-adsl.md` has the tables to the last digit, `docs/sqf-adsl.svg` is the picture.
#[test]
#[ignore = "two minutes: `cargo xtask check` runs it"]
fn every_check_holds_and_the_documents_show_the_tables_and_the_picture() {
    let options: &[&str] = effort(&["--quick"], &[]);
    let run = Run::of("sqf-adsl", options);
    run.assert_verdicts(15, 0);
    if options.is_empty() {
        run.assert_shown_in(document!("docs/tables/sqf-adsl.md"));
        run.assert_drew(document!("docs/sqf-adsl.svg"));
    }
}
