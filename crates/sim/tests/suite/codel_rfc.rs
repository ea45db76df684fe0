//! AQMs beside printed numbers, by `sim reproduce codel-rfc`: every sentence that must hold does,
//! and the documents show what the command prints.

use crate::documents::{Run, document};

#[test]
fn every_sentence_holds_and_the_documents_show_the_tables() {
    let run = Run::of("codel-rfc", &[]);
    run.assert_verdicts(4, 0);
    run.assert_shown_in(document!("docs/tables/codel-rfc.md"));
}
