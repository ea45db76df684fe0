//! Table and checks.

use super::scenario::{HEADER, MTU, ROUND_TRIP, WARM_UP};
use super::{BOTH, DELAY, DELAY_MILLIS, Figures, GOODPUT, MEASURED, Measured, PACED, Queueing};
use crate::experiments::{Check, Report};
use crate::plot::{Column, TextTable, fixed, percent};

pub(super) fn report(measured: &[Measured], seeds: u32) -> Report {
    let mut checks: Vec<Check> = measured.iter().map(check).collect();
    checks.extend(bursts(measured));
    checks.push(Check::accounted_for("rows", measured.iter().map(|m| m.balanced)));
    let text = format!("{}\n{}", heading(seeds), table(measured));
    Report::new(text).checks(checks)
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CUBIC of the model TCP behind each queue, beside a kernel's TCP and Linux's queues, quoted
{} ms there and back, packets of {MTU} bytes and {HEADER} more on the line; {} s after a warm-up of {} s, {seeds} seeds
goodput: all connections of that direction, Mbit/s; added: what a packet of the probe waits (of the video, where there
is one), p50/p95/p99 in ms; lost: of its packets, in %; RTO: timeouts of all senders in all runs
",
        ROUND_TRIP.0 / 1_000_000,
        MEASURED.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    )
}

pub(super) fn cells(figures: &Figures) -> [String; 5] {
    let or_none =
        |value: Option<f64>, decimals| value.map_or(String::new(), |v| fixed(v, decimals));
    let of = |at: usize| or_none(figures.added.map(|added| added[at]), 2);
    [or_none(figures.goodput, 3), of(0), of(1), of(2), or_none(figures.loss, 2)]
}

fn table(measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("load"),
        Column::Right("Mbit/s"),
        Column::Left("queue"),
        Column::Left("way"),
        Column::Left(""),
        Column::Right("goodput"),
        Column::Right("p50"),
        Column::Right("p95"),
        Column::Right("p99"),
        Column::Right("lost"),
        Column::Right("RTO"),
    ]);
    let mut last = None;
    for m in measured {
        let is_new = last != Some(m.row.load);
        last = Some(m.row.load);
        let (mut load, mut rate) = ("", String::new());
        if is_new {
            (load, rate) = (m.row.load.name, m.row.load.megabits.to_string());
        }
        let mut queue = m.row.queueing.to_string();
        let mut timeouts = m.timeouts.to_string();
        let ways = [("up", &m.found[0], &m.row.linux[0]), ("down", &m.found[1], &m.row.linux[1])];
        for (way, found, linux) in ways.into_iter().filter(|(_, found, _)| found.added.is_some()) {
            for (side, figures) in [("here", found), ("Linux", linux)] {
                let [goodput, p50, p95, p99, lost] = cells(figures);
                let way = if side == "here" { way } else { "" };
                table.row([
                    &load, &rate, &queue, &way, &side, &goodput, &p50, &p95, &p99, &lost, &timeouts,
                ]);
                (load, rate, queue) = ("", String::new(), String::new());
                timeouts = String::new();
            }
        }
    }
    table.to_string()
}

fn check(m: &Measured) -> Check {
    let name = format!("{} at {} Mbit/s, {}", m.row.load.name, m.row.load.megabits, m.row.queueing);
    let near = m.is_near();
    let parts = m.found.iter().zip(&m.row.linux).filter(|(_, linux)| **linux != super::NONE);
    let measured: Vec<String> = parts
        .map(|(found, linux)| {
            let goodput = found.goodput.zip(linux.goodput);
            let goodput = goodput.map(|(found, linux)| difference("goodput", found, linux));
            let median = found.added.zip(linux.added);
            let median = median.map(|(found, linux)| difference("median", found[0], linux[0]));
            goodput.into_iter().chain(median).collect::<Vec<_>>().join(", ")
        })
        .collect();
    let measured = measured.join("; ");
    match m.row.differs {
        None => Check {
            claim: format!(
                "{name}: goodput within {} %, median within {} % or {} ms of Linux's",
                percent(GOODPUT, 0),
                percent(DELAY, 0),
                fixed(DELAY_MILLIS, 0)
            ),
            measured,
            holds: near,
        },
        Some(why) => Check::differs(&name, why, measured, near),
    }
}

/// Compares the two rows of CoDel with traffic in both directions, which differ only in their
/// bursts.
fn bursts(measured: &[Measured]) -> Option<Check> {
    let of = |load| {
        let mut rows = measured.iter();
        rows.find(|m| m.row.load == load && m.row.queueing == Queueing::CoDel)
    };
    let (whole, paced) = (of(BOTH)?, of(PACED)?);
    let median = |figures: &[Figures; 2], way: usize| figures[way].added.map_or(f64::NAN, |a| a[0]);
    let medians =
        [0, 1].map(|way| [&paced.found, &whole.row.linux, &whole.found].map(|f| median(f, way)));
    let words = medians.map(|ms| ms.map(|ms| fixed(ms, 1)).join(", "));
    Some(Check {
        claim: "CoDel in one queue, traffic both ways: Linux's median is between those of senders with and without bursts"
            .to_owned(),
        measured: format!("without, Linux, with: {} ms up, {} ms down", words[0], words[1]),
        holds: medians.iter().all(|ms| ms.is_sorted()),
    })
}

fn difference(of: &str, found: f64, linux: f64) -> String {
    let part = (found - linux) / linux;
    let sign = if part < 0.0 { "" } else { "+" };
    format!("{of} {sign}{} %", percent(part, 1))
}
