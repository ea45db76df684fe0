//! Choice of the default AQM of the isolated queue: equal loads behind each AQM, with an
//! unresponsive flow.

use freeboard::AqmKind;
use freeboard::sched_core::Ecn;

use super::{BOTH, Cell, Figures, Load, MANY, Managed, Measured, SLOW, UP, cell};
use crate::experiments::{Check, Report};
use crate::plot::{Column, TextTable, fixed, percent};

const DEAF: Load = Load { deaf: Some(Ecn::NotEct), ..Load::new("4 up, deaf", 10, [4, 0]) };
const DEAF_ECT: Load = Load { deaf: Some(Ecn::Ect0), ..Load::new("4 up, deaf ECT(0)", 10, [4, 0]) };
const LOADS: [Load; 6] = [UP, BOTH, MANY, SLOW, DEAF, DEAF_ECT];
const NO_AQM: Managed = Managed::Smart(AqmKind::None);
const CODEL: Managed = Managed::Smart(AqmKind::CoDel);
const COBALT: Managed = Managed::Smart(AqmKind::Cobalt);
const QUEUES: [Managed; 4] = [NO_AQM, CODEL, COBALT, Managed::IsolatedPie];

/// Maximum by which the default's goodput may be below another's, relative.
const LESS: f64 = 0.02;
/// Maximum by which a probe may wait longer than behind another AQM, in ms.
const LONGER: f64 = 1.0;

pub(super) fn cells() -> Vec<Cell> {
    let unknown = [Figures::NONE; 2];
    LOADS.iter().flat_map(|&load| QUEUES.map(|queue| cell(load, queue, unknown))).collect()
}

/// Adds the table and the checks.
pub(super) fn add(report: Report, rows: &[Measured]) -> Report {
    report
        .with_text(
            "
The isolated queue with each AQM, as it would be by default: goodput in Mbit/s, the probe up, timeouts, and the median of what
a flow waits that offers one and a half times the rate and does not react, in ms

",
        )
        .table("defaults", &table(rows))
        .checks(checks(rows))
}

/// Returns the median wait of the unresponsive flow, in ms.
fn deaf(row: &Measured) -> f64 {
    row.delays(|run| &run.deaf.added).millis(500)
}

fn table(rows: &[Measured]) -> TextTable<10> {
    let in_first = |row: &Measured, text: String| {
        if row.queueing == NO_AQM { text } else { String::new() }
    };
    let found = |row: &Measured, way: usize, at: usize| row.found()[way].cells()[at].clone();
    TextTable::of(
        rows,
        [
            (Column::Left("load"), &|row| in_first(row, row.load.name.to_owned())),
            (Column::Right("Mbit/s"), &|row| in_first(row, row.load.megabits.to_string())),
            (Column::Left("AQM"), &|row| row.queueing.to_string()),
            (Column::Right("up"), &|row| found(row, 0, 0)),
            (Column::Right("p50"), &|row| found(row, 0, 1)),
            (Column::Right("p95"), &|row| found(row, 0, 2)),
            (Column::Right("p99"), &|row| found(row, 0, 3)),
            (Column::Right("down"), &|row| found(row, 1, 0)),
            (Column::Right("RTO"), &|row| row.timeouts().to_string()),
            (Column::Right("deaf p50"), &|row| {
                row.load.deaf.map_or(String::new(), |_| fixed(deaf(row), 1))
            }),
        ],
    )
}

fn checks(rows: &[Measured]) -> [Check; 3] {
    let of = |queueing, load| {
        let mut rows = rows.iter();
        rows.find(|row| (row.queueing, row.load) == (queueing, load)).expect("each was run")
    };
    let goodput = |row: &Measured| row.found().iter().filter_map(|of| of.goodput).sum::<f64>();
    let p99 = |row: &Measured| row.found()[0].added.map_or(f64::NAN, |added| added[2]);
    let pairs = || [UP, BOTH, MANY, SLOW].map(|load| (of(COBALT, load), of(CODEL, load)));
    let most = |values: [f64; 4]| values.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let less = most(pairs().map(|(a, b)| 1.0 - goodput(a) / goodput(b)));
    let longer = most(pairs().map(|(a, b)| p99(a) - p99(b)));
    let waits = [DEAF, DEAF_ECT].map(|load| [COBALT, CODEL].map(|queue| deaf(of(queue, load))));
    let words = waits.map(|[cobalt, codel]| {
        format!("{} ms, with CoDel {} ms", fixed(cobalt, 1), fixed(codel, 1))
    });
    [
        Check::new(
            format!(
                "the isolated queue with COBALT carries no less than with CoDel, to {} %, and a probe waits no longer at the \
                 99th percentile, to {} ms, behind senders that react",
                percent(LESS, 0),
                fixed(LONGER, 0)
            ),
            format!("at most {} % less; at most {} ms longer", percent(less, 1), fixed(longer, 2)),
            less <= LESS && longer <= LONGER,
        ),
        Check::new(
            "with COBALT a flow that does not react waits at most a third of what it waits with CoDel, ECN-capable or \
                    not",
            format!("Not-ECT {}; ECT(0) {}", words[0], words[1]),
            waits.iter().all(|[cobalt, codel]| 3.0 * cobalt <= *codel),
        ),
        Check::new(
            "every packet is accounted for behind each AQM too",
            format!("{} rows", rows.len()),
            rows.iter().all(Measured::is_balanced),
        ),
    ]
}
