//! Flows by age, by `sim reproduce age-based`: every sentence that must hold does, and the
//! documents show what the command prints.

use crate::documents::{Run, document};

#[test]
#[ignore = "minutes: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_the_tables() {
    let run = Run::of("age-based", &[]);
    run.assert_verdicts(17, 0);
    run.assert_shown_in(document!("docs/tables/age-based.md"));
}
