//! Test of `sim reproduce attacks`: every required check passes, and the documents show the
//! command's output.

use crate::documents::{Run, document};

#[test]
#[ignore = "a minute: `cargo xtask check` runs it"]
fn every_sentence_holds_and_the_documents_show_the_tables() {
    let run = Run::of("attacks", &["--seeds", "2"]);
    run.assert_verdicts(10, 0);
    run.assert_shown_in(document!("docs/isolation.md"));
}

/// Returns a cell of a table in the text; columns are counted from the right: G1, by port,
/// Isolated, SQF, DRR++.
fn cell<'a>(text: &'a str, table: &str, row: &str, from_right: usize) -> &'a str {
    let table = text.split("\n\n").find(|part| part.starts_with(table)).unwrap();
    let line = table.lines().find(|line| line.starts_with(row)).unwrap();
    line.split_whitespace().rev().nth(from_right).unwrap()
}

/// README compares host isolation with DRR++ for two attacks; isolation.md begins with one of these
/// figures.
#[test]
fn the_readme_has_the_figures_of_the_page() {
    let page = include_str!("../../../../docs/isolation.md");
    let readme = include_str!("../../../../README.md");
    for row in ["J03 J05 1,000 flows", "J01 J02 a flow a packet, 1514 B"] {
        let [alone, isolated] = [4, 2].map(|column| {
            let bulk = cell(page, "bulk, Mbit/s", row, column);
            let sparse = cell(page, "delivered of 100 sparse", row, column);
            format!("{bulk} Mbit/s, {sparse} %")
        });
        let line = readme.lines().find(|line| line.contains(&alone));
        assert!(
            line.is_some_and(|line| line.contains(&isolated)),
            "README lacks {alone}, {isolated}"
        );
    }
    let bulk = cell(page, "bulk, Mbit/s", "J03 J05 1,000 flows", 4);
    assert!(page.contains(&format!("by flows your upload keeps {bulk} Mbit/s, by hosts 49.84")));
}
