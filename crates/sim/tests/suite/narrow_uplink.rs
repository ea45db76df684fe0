//! A call and downloads on 30/0.5 Mbit/s, by `sim reproduce narrow-uplink`: the goals that are
//! missed are named, and the document shows what the command prints.

use crate::documents::{Run, document};

#[test]
#[ignore = "seconds: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_document_shows_the_table() {
    let run = Run::of("narrow-uplink", &[]);
    run.assert_verdicts(7, 0);
    run.assert_shown_in(document!("docs/tables/narrow-uplink.md"));
}
