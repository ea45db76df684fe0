//! Test of `sim reproduce age-based`: every required check passes, and the documents show the
//! command's output.

use conformance::effort::effort;

use crate::documents::{Run, document};

/// Goal: every check passes; at full depth the page shows the tables. Method: as few
/// seeds as pass all checks.
#[test]
#[ignore = "minutes: `cargo xtask check` runs it"]
fn every_check_holds_and_the_documents_show_the_tables() {
    let options: &[&str] = effort(&["--quick"], &[]);
    let run = Run::of("age-based", options);
    run.assert_verdicts(17, 0);
    if options.is_empty() {
        run.assert_shown_in(document!("docs/tables/age-based.md"));
    }
}
