//! Test of `sim reproduce l4s`, L4S inside flow and host isolation: every check passes, and the
//! documents show the table and the picture.

use crate::documents::{Run, document};

/// Goal: a change of a queue, an AQM or the model TCP is noticed as a difference to review. Method:
/// ten seeds, those of the documented table.
#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_check_holds_and_the_documents_show_table_and_picture() {
    let run = Run::of("l4s", &[]);
    run.assert_verdicts(7, 0);
    run.assert_shown_in(document!("docs/tables/l4s.md"));
    run.assert_drew(document!("docs/l4s.svg"));
}
