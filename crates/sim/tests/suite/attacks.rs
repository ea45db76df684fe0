//! Test of `sim reproduce attacks`: every required check passes, and the documents show the
//! command's output.

use crate::documents::{Run, document};

#[test]
#[ignore = "a minute: `cargo xtask check` runs it"]
fn every_check_holds_and_the_documents_show_the_tables() {
    let run = Run::of("attacks", &["--seeds", "2"]);
    run.assert_verdicts(10, 0);
    run.assert_shown_in(document!("docs/tables/attacks.md"));
}

/// Returns a cell of a table in the text; columns are counted from the right: G1, by port,
/// Isolated, SQF, DRR++.
fn cell<'a>(text: &'a str, table: &str, row: &str, from_right: usize) -> &'a str {
    let table = text.split("\n\n").find(|part| part.starts_with(table)).unwrap();
    let line = table.lines().find(|line| line.starts_with(row)).unwrap();
    line.split_whitespace().rev().nth(from_right).unwrap()
}

/// docs/isolation.md compares isolated hosts with DRR++ under some of the attacks.
#[test]
fn the_page_has_the_figures_of_the_table() {
    let tables = include_str!("../../../../docs/tables/attacks.md");
    let page = include_str!("../../../../docs/isolation.md");
    let figures = |row, column| {
        let bulk = cell(tables, "bulk, Mbit/s", row, column);
        let sparse = cell(tables, "delivered of 100 sparse", row, column);
        format!("{bulk} Mbit/s, {sparse} %")
    };
    for (row, attack) in [
        ("J03 J05 1,000 flows", "1,000 flows (J03, J05)"),
        ("J01 J02 a flow a packet, 1514 B", "a new flow per packet (J01, J02)"),
        ("J06 a source a packet", "a new source per packet (J06)"),
    ] {
        let line = format!("| {attack} | {} |", [4, 2, 1].map(|at| figures(row, at)).join(" | "));
        assert!(page.contains(&line), "docs/isolation.md lacks {line}");
    }
    let [flows, hosts] = [4, 2].map(|column| cell(tables, "bulk, Mbit/s", "J03 J05 1,000", column));
    let kept = format!("by flow your upload keeps {flows} Mbit/s, with host isolation {hosts}");
    assert!(page.contains(&kept), "docs/isolation.md lacks: {kept}");
}
