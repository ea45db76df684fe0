//! Test of `sim reproduce autorate`: every required check passes, and the documents show the
//! command's output.

use crate::documents::{Run, document};

#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_check_holds_and_the_documents_show_the_table_and_the_picture() {
    let run = Run::of("autorate", &[]);
    run.assert_verdicts(10, 0);
    run.assert_shown_in(document!("docs/tables/autorate.md"));
    run.assert_drew(document!("docs/autorate.svg"));
}
