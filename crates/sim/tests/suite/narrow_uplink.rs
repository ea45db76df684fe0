//! Test of `sim reproduce narrow-uplink`: missed goals are listed, and the document shows the
//! command's output.

use crate::documents::{Run, document};

#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_check_holds_and_the_document_shows_the_table() {
    let run = Run::of("narrow-uplink", &[]);
    run.assert_verdicts(7, 0);
    run.assert_shown_in(document!("docs/tables/narrow-uplink.md"));
}
