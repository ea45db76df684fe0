//! Choice of the default AQM of the isolated queue: equal loads behind each AQM, with an
//! unresponsive flow.

use freeboard::AqmKind;
use freeboard::sched_core::Ecn;

use super::report::cells;
use super::{BOTH, Load, MANY, Measured, NONE, Queueing, Row, SLOW, UP, load, row};
use crate::experiments::{Check, Report};
use crate::plot::{Column, TextTable, fixed, percent};

const DEAF: Load = Load { deaf: Some(Ecn::NotEct), ..load("4 up, deaf", 10, 4, 0) };
const DEAF_ECT: Load = Load { deaf: Some(Ecn::Ect0), ..load("4 up, deaf ECT(0)", 10, 4, 0) };
const LOADS: [Load; 6] = [UP, BOTH, MANY, SLOW, DEAF, DEAF_ECT];
const CODEL: Queueing = Queueing::Smart(AqmKind::CoDel);
const COBALT: Queueing = Queueing::Smart(AqmKind::Cobalt);
const NO_AQM: Queueing = Queueing::Smart(AqmKind::None);
const QUEUES: [Queueing; 4] = [NO_AQM, CODEL, COBALT, Queueing::IsolatedPie];

/// Maximum by which the default's goodput may be below another's, relative.
const LESS: f64 = 0.02;
/// Maximum by which a probe may wait longer than behind another AQM, in ms.
const LONGER: f64 = 1.0;

pub(super) fn rows() -> Vec<Row> {
    LOADS.iter().flat_map(|&load| QUEUES.map(|queue| row(load, queue, [NONE, NONE]))).collect()
}

/// Adds the table and the checks.
pub(super) fn add(report: Report, measured: &[Measured]) -> Report {
    let mut table = TextTable::new([
        Column::Left("load"),
        Column::Right("Mbit/s"),
        Column::Left("AQM"),
        Column::Right("up"),
        Column::Right("p50"),
        Column::Right("p95"),
        Column::Right("p99"),
        Column::Right("down"),
        Column::Right("RTO"),
        Column::Right("deaf p50"),
    ]);
    for m in measured {
        let is_new = m.row.queueing == NO_AQM;
        let (load, rate) = if is_new {
            (m.row.load.name, m.row.load.megabits.to_string())
        } else {
            ("", String::new())
        };
        let [[up, p50, p95, p99, _], [down, ..]] = [&m.found[0], &m.found[1]].map(cells);
        let deaf = m.row.load.deaf.map_or(String::new(), |_| fixed(m.deaf, 1));
        let queue = m.row.queueing.to_string();
        table.row([&load, &rate, &queue, &up, &p50, &p95, &p99, &down, &m.timeouts, &deaf]);
    }
    report
        .with_text(
            "
The isolated queue with each AQM, as it would be by default: goodput in Mbit/s, the probe up, timeouts, and the median of what
a flow waits that offers one and a half times the rate and does not react, in ms

",
        )
        .table("defaults", &table)
        .checks(checks(measured))
}

fn checks(measured: &[Measured]) -> [Check; 3] {
    let of = |queueing, load| {
        let mut rows = measured.iter();
        rows.find(|m| (m.row.queueing, m.row.load) == (queueing, load)).expect("each was run")
    };
    let goodput = |m: &Measured| m.found.iter().filter_map(|found| found.goodput).sum::<f64>();
    let p99 = |m: &Measured| m.found[0].added.map_or(f64::NAN, |added| added[2]);
    let reacting = [UP, BOTH, MANY, SLOW];
    let pairs = || reacting.map(|load| (of(COBALT, load), of(CODEL, load)));
    let less = pairs().map(|(a, b)| 1.0 - goodput(a) / goodput(b));
    let longer = pairs().map(|(a, b)| p99(a) - p99(b));
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (less, longer) = (most(&less), most(&longer));
    let deaf = [DEAF, DEAF_ECT].map(|load| [COBALT, CODEL].map(|queue| of(queue, load).deaf));
    let words = deaf.map(|[cobalt, codel]| {
        format!("{} ms, with CoDel {} ms", fixed(cobalt, 1), fixed(codel, 1))
    });
    [
        Check {
            claim: format!(
                "the isolated queue with COBALT carries no less than with CoDel, to {} %, and a probe waits no longer at the \
                 99th percentile, to {} ms, behind senders that react",
                percent(LESS, 0),
                fixed(LONGER, 0)
            ),
            measured: format!("at most {} % less; at most {} ms longer", percent(less, 1), fixed(longer, 2)),
            holds: less <= LESS && longer <= LONGER,
        },
        Check {
            claim: "with COBALT a flow that does not react waits at most a third of what it waits with CoDel, ECN-capable or \
                    not"
                .to_owned(),
            measured: format!("Not-ECT {}; ECT(0) {}", words[0], words[1]),
            holds: deaf.iter().all(|[cobalt, codel]| 3.0 * cobalt <= *codel),
        },
        Check {
            claim: "every packet is accounted for behind each AQM too".to_owned(),
            measured: format!("{} rows", measured.len()),
            holds: measured.iter().all(|m| m.balanced),
        },
    ]
}
