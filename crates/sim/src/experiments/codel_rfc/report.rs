//! Table, reasons, and a check for each source.

use super::{Line, Source, Verdict, controller, law};
use crate::experiments::{Check, Report};
use crate::plot::{Column, TextTable};

pub(super) fn report(lines: &[Line], seeds: u32) -> Report {
    let (of_law, of_controller) = (law::table(), controller::table());
    let tables = format!("{of_law}\n{of_controller}\n{}", table(lines));
    let text = format!("{}\n{tables}\n{}", heading(seeds), reasons(lines));
    Report::new(text).checks(checks(lines))
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

/// Returns the number of a line's reason, from 1 on.
fn number(lines: &[Line], at: usize) -> Option<usize> {
    let has_reason =
        |line: &&Line| matches!(line.verdict, Verdict::Departs(_) | Verdict::NotCompared(_));
    has_reason(&&lines[at]).then(|| lines[..=at].iter().filter(has_reason).count())
}

fn table(lines: &[Line]) -> String {
    let mut table = TextTable::new([
        Column::Left("source"),
        Column::Left("what"),
        Column::Left("expected"),
        Column::Left("ours"),
        Column::Left("verdict"),
    ]);
    for (at, line) in lines.iter().enumerate() {
        let verdict = match (line.verdict, number(lines, at)) {
            (Verdict::Same, _) => "same".to_owned(),
            (Verdict::Departs(_), Some(number)) => format!("departs [{number}]"),
            (Verdict::NotCompared(_), Some(number)) => format!("not compared [{number}]"),
            _ => "FAILS".to_owned(),
        };
        table.row([&line.source.name(), &line.what, &line.expected, &line.ours, &verdict]);
    }
    table.to_string()
}

fn reasons(lines: &[Line]) -> String {
    let reason = |(at, line): (usize, &Line)| match line.verdict {
        Verdict::Departs(why) | Verdict::NotCompared(why) => {
            number(lines, at).map(|number| format!("[{number}] {why}\n"))
        }
        Verdict::Same | Verdict::Fails => None,
    };
    lines.iter().enumerate().filter_map(reason).collect()
}

fn checks(lines: &[Line]) -> Vec<Check> {
    Source::ALL.into_iter().map(|source| check(lines, source)).collect()
}

fn check(lines: &[Line], source: Source) -> Check {
    let count = |is: fn(Verdict) -> bool| {
        lines.iter().filter(|line| line.source == source && is(line.verdict)).count()
    };
    let same = count(|verdict| verdict == Verdict::Same);
    let departs = count(|verdict| matches!(verdict, Verdict::Departs(_)));
    let left_out = count(|verdict| matches!(verdict, Verdict::NotCompared(_)));
    let fails = count(|verdict| verdict == Verdict::Fails);
    let claim = match source {
        Source::Rfc8289 => {
            "CoDel and COBALT signal at the instants of RFC 8289, and by its law within 0.5 % up to n = 65,535"
        }
        Source::Rfc8033 => {
            "PIE has the probabilities of RFC 8033 to the printed digits, and its distances"
        }
        Source::Red => "RED has the average of a burst and the distances of its paper",
        Source::Ns3 => {
            "CoDel, COBALT, BLUE, PIE and fair queues are as ns-3 expects, but for what a reason explains"
        }
    };
    Check {
        claim: claim.to_owned(),
        measured: format!(
            "{same} lines are the same, {departs} depart as explained, {left_out} are not compared, {fails} fail"
        ),
        holds: fails == 0 && same > 0,
    }
}
