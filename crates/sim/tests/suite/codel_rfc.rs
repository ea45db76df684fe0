//! Test of `sim reproduce codel-rfc`, AQMs compared with published numbers: every required check
//! passes, and the documents show the command's output.

use crate::documents::{Run, document};

#[test]
fn every_check_holds_and_the_documents_show_the_tables() {
    let run = Run::of("codel-rfc", &[]);
    run.assert_verdicts(4, 0);
    run.assert_shown_in(document!("docs/tables/codel-rfc.md"));
}
