//! Rates that follow lines, by `sim reproduce autorate`: every sentence that must hold does, and
//! the documents show what the command prints.

use crate::documents::{Run, document};

#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_the_table_and_the_picture() {
    let run = Run::of("autorate", &[]);
    run.assert_verdicts(10, 0);
    run.assert_shown_in(document!("docs/tables/autorate.md"));
    run.assert_drew(document!("docs/autorate.svg"));
}
