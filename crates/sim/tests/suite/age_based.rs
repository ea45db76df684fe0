//! Test of `sim reproduce age-based`: every required check passes, and the documents show the
//! command's output.

use crate::documents::{Run, document};

#[test]
#[ignore = "minutes: `cargo xtask check` runs it"]
fn every_check_holds_and_the_documents_show_the_tables() {
    let run = Run::of("age-based", &[]);
    run.assert_verdicts(17, 0);
    run.assert_shown_in(document!("docs/tables/age-based.md"));
}
