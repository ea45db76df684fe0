//! AQMs compared with published numbers: RFC 8289, RFC 8033, the RED paper, and the expectations of
//! ns-3's tests.
//!
//! Each line is one expectation: a number or a statement of the source, and the result of the
//! library's AQMs for equal input, from [`crate::aqm`]. Where the library departs from a source by
//! design, the line states the reason and fails if the result is no longer the one that the reason
//! explains.

mod line;
mod rfc;

use serde::{Deserialize, Serialize};

use super::{Check, Experiment, Report, Row, Study};
use crate::aqm::ns3;
use crate::aqm::pie::Outcome;
use crate::plot::{Column, TextTable, fixed};
use line::Line;

/// The experiment `sim reproduce codel-rfc`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "codel-rfc",
    quick: 2,
    about: "AQMs compared with the numbers of RFC 8289, RFC 8033, the RED paper and ns-3's tests",
    runs: &CodelRfc,
};

const RFC_8289: &str = "RFC 8289";
const RFC_8033: &str = "RFC 8033";
const RED: &str = "RED 1993";
const NS_3: &str = "ns-3";
/// Sources of the lines, and what is checked of each.
const SOURCES: [(&str, &str); 4] = [
    (
        RFC_8289,
        "CoDel and COBALT signal at the instants of RFC 8289, and by its law within 0.5 % up to n = 65,535",
    ),
    (RFC_8033, "PIE has the probabilities of RFC 8033 to the printed digits, and its distances"),
    (RED, "RED has the average of a burst and the distances of its paper"),
    (
        NS_3,
        "CoDel, COBALT, BLUE, PIE and fair queues are as ns-3 expects, but for what a reason explains",
    ),
];

struct CodelRfc;

/// A group of lines.
enum Part {
    /// Lines that do not depend on a seed.
    Lines(fn() -> Vec<Line>),
    /// ns-3's tests of PIE.
    Traffic,
}

/// Lines, or for [`Part::Traffic`] the outcome of each test.
#[derive(Serialize, Deserialize)]
enum Run {
    Lines(Vec<Line>),
    Traffic(Vec<Outcome>),
}

impl Study for CodelRfc {
    type Cell = Part;
    type Run = Run;

    fn cells(&self) -> Vec<Part> {
        let parts = [rfc::law, rfc::probability, rfc::red, ns3_lines];
        parts.into_iter().map(Part::Lines).chain([Part::Traffic]).collect()
    }

    fn seeds(&self, part: &Part, seeds: u32) -> u32 {
        if matches!(part, Part::Traffic) { seeds } else { 1 }
    }

    fn run(&self, part: &Part, seed: u64) -> Run {
        match part {
            Part::Lines(lines) => Run::Lines(lines()),
            Part::Traffic => Run::Traffic(ns3::pie(seed).to_vec()),
        }
    }

    fn report(&self, rows: &[Row<Part, Run>], seeds: u32) -> Report {
        let mut lines = Vec::new();
        let mut outcomes = [Outcome::NONE; ns3::PIE_TESTS];
        for run in rows.iter().flat_map(|row| &row.runs) {
            match run {
                Run::Lines(part) => lines.extend_from_slice(part),
                Run::Traffic(of) => outcomes.iter_mut().zip(of).for_each(|(all, one)| all.add(one)),
            }
        }
        lines.extend(pie_lines(outcomes));
        let reasons = reasons(&lines).map(|(number, why)| format!("[{number}] {why}\n"));
        Report::new(heading(seeds) + "\n")
            .table("law", &rfc::law_table())
            .with_text("\n")
            .table("probability", &rfc::probability_table())
            .with_text("\n")
            .table("lines", &table(&lines))
            .with_text(&format!("\n{}", reasons.collect::<String>()))
            .checks(SOURCES.map(|source| check(&lines, source)))
    }
}

fn ns3_lines() -> Vec<Line> {
    Line::all(NS_3, include_str!("codel_rfc/ns3.txt"), &ns3::results())
}

/// Returns the lines of ns-3's tests of PIE for the outcomes of all seeds.
fn pie_lines(
    [two, three, four, five, capable, other, without]: [Outcome; ns3::PIE_TESTS],
) -> Vec<Line> {
    let line = |what: &str, expected: &str, ours: String, holds| {
        Line::judged(NS_3, what, expected, ours, holds)
    };
    let refused = |what, expected: &str, one: Outcome, holds| {
        line(what, expected, one.refused.to_string(), holds)
    };
    let fewer = |what, one: Outcome, than: Outcome| {
        refused(what, &format!("fewer than {}", than.refused), one, one.refused < than.refused)
    };
    let more = format!("more than {}", two.refused);
    let forced: u64 = [two, three, four, five, capable].iter().map(|one| one.forced).sum();
    let unmarked = other.marked + without.marked;
    let mut lines = vec![
        refused("PIE 2: drops, out each 12 ms", "some", two, two.refused > 0),
        fewer("PIE 3: the same, reference 80 ms", three, two),
        refused("PIE 4: drops, out each 15 ms", &more, four, four.refused > two.refused),
        fewer("PIE 5: the same, an update each 90 ms", five, four),
        line("PIE: forced drops", "0", forced.to_string(), forced == 0),
        line(
            "PIE: marks up to p = 0.3, then drops, ECT",
            "marks; drops above 0.3",
            format!("{} marks; drops from {}", capable.marked, fixed(capable.refused_at, 3)),
            capable.marked > 0 && capable.refused > 0 && capable.refused_at > 0.3,
        ),
        line(
            "PIE: marks of Not-ECT, and without marking",
            "0",
            unmarked.to_string(),
            unmarked == 0 && other.refused > 0 && without.refused > 0,
        ),
    ];
    let step = ("PIE: largest step above p = 0.1", fixed(capable.step, 2));
    lines.extend(Line::all(NS_3, include_str!("codel_rfc/ns3_pie.txt"), &[step]));
    lines
}

fn heading(seeds: u32) -> String {
    format!(
        "\
AQMs beside printed numbers: each line is run through the AQMs of the library
CoDel and COBALT: target 5 ms, interval 100 ms; PIE: reference and period 15 ms, α 1/8, β 1 1/4
Tests of ns-3: 20 packets of 120 bytes a flow, 13 of them a turn; PIE: 400 packets of 1,000 bytes, one each 10 ms,
reference 20 ms, an update each 30 ms, out each 14 ms unless said, sums over {seeds} seeds
"
    )
}

fn table(lines: &[Line]) -> TextTable<5> {
    let reason = |line: &Line| {
        let number = reasons(lines).find(|(_, why)| Some(*why) == line.reason.as_deref());
        number.map_or_else(String::new, |(number, _)| format!(" [{number}]"))
    };
    TextTable::of(
        lines,
        [
            (Column::Left("source"), &|line| line.source.clone()),
            (Column::Left("what"), &|line| line.what.clone()),
            (Column::Left("expected"), &|line| line.expected.clone()),
            (Column::Left("ours"), &|line| line.ours.clone().unwrap_or("–".to_owned())),
            (Column::Left("verdict"), &|line| format!("{}{}", line.verdict(), reason(line))),
        ],
    )
}

fn reasons(lines: &[Line]) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(lines.iter().filter_map(|line| line.reason.as_deref()))
}

fn check(lines: &[Line], (source, claim): (&str, &str)) -> Check {
    let of_source = lines.iter().filter(|line| line.source == source);
    let count = |verdict| of_source.clone().filter(|line| line.verdict() == verdict).count();
    let [same, departs, left_out, fails] = ["same", "departs", "not compared", "FAILS"].map(count);
    Check::new(
        claim,
        format!(
            "{same} lines are the same, {departs} depart as explained, {left_out} are not compared, {fails} fail"
        ),
        fails == 0 && same > 0,
    )
}
