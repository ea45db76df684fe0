//! Test of `sim reproduce aqm-linux`, model TCP compared with a kernel's: every check passes, and
//! the document shows the command's output.

use crate::documents::{Run, document};

/// Goal: a change of a queue, an AQM or the model TCP is noticed as a difference to review. Method:
/// five seeds, those of the documented table.
#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_check_holds_and_the_document_shows_the_table() {
    let run = Run::of("aqm-linux", &["--seeds", "5"]);
    run.assert_verdicts(27, 0);
    run.assert_shown_in(document!("docs/tables/aqm-linux.md"));
}
