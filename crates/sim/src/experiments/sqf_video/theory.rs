//! Figs. 3 and 4 by formula, beside the queue that they estimate, and rule (3) for several streams.

use freeboard::sched_core::Nanos;

use super::formulas::{Estimates, Link};
use super::saturated::{BUFFER, MEGABITS, PACKET, Run, Setup, Timing, run};
use crate::experiments::harness::Functions;
use crate::experiments::{Check, Experiment, Report, Row};
use crate::measure::estimate::Spread;
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};

/// The experiment `sim reproduce sqf-video-theory`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sqf-video-theory",
    quick: 2,
    about: "SQF-VBR Figs. 3, 4 and rule (3): priority of a Poisson video, by formula and in the queue",
    runs: &Functions { cells, run, report },
};

/// Numbers of flows in Figs. 3 and 4.
const FLOWS: [u32; 3] = [5, 10, 20];
/// Duration of the video in Fig. 3.
const VIDEO: Nanos = Nanos::from_secs(600);
/// Simulated first passages: flows and rates in kbit/s.
const PASSAGES: [(u32, &[u64]); 3] = [
    (5, &[8_500, 9_000]),
    (10, &[7_000, 7_500, 8_000]),
    (20, &[5_000, 5_500, 6_000, 6_500, 7_000]),
];
/// Simulated time of each of them, for the queue alone and behind SQF.
const PASSAGE: [Nanos; 2] = [Nanos::from_secs(300), Nanos::from_secs(60)];
/// Duration of a run of rule (3).
const RULE: Nanos = Nanos::from_secs(60);
/// Delays of rule (3).
const LATE: Nanos = Nanos::from_millis(4);

fn cells() -> Vec<Setup> {
    let mut cells = Vec::new();
    for present in [false, true] {
        for (flows, rates) in PASSAGES {
            cells.extend(rates.iter().map(|&kbit| Setup {
                flows,
                present,
                streams: 1,
                kbit,
                timing: Timing::Poisson,
                lasts: PASSAGE[usize::from(present)],
                renews: true,
            }));
        }
    }
    let rule = |timing| Setup {
        flows: 20,
        present: true,
        streams: 3,
        kbit: 2_000,
        timing,
        lasts: RULE,
        renews: false,
    };
    cells.extend([Timing::Late(Nanos::ZERO), Timing::Late(LATE), Timing::Poisson].map(rule));
    cells
}

/// Returns the model of a link that this many flows share.
fn link(flows: u32) -> Link {
    Setup { flows, ..cells()[0] }.model()
}

/// Estimates for this many flows and a video with this rate in Mbit/s.
fn estimates(flows: u32, mbps: f64) -> Estimates {
    link(flows).estimates(mbps * 1e6 / f64::from(8 * PACKET), VIDEO.0 as f64 / 1e9)
}

/// Formats small and large numbers with two digits.
fn short(value: f64) -> String {
    if (0.001..1e4).contains(&value) {
        fixed(value, if value < 10.0 { 4 } else { 0 })
    } else {
        format!("{value:.1e}")
    }
}

/// Returns the mean first passage time of all runs in seconds, and the number of passages.
fn passages(row: &Row<Setup, Run>) -> (f64, u32) {
    let reached = row.runs.iter().map(|run| run.reached).sum();
    (row.runs.iter().map(|run| run.seconds).sum::<f64>() / f64::from(reached), reached)
}

fn report(rows: &[Row<Setup, Run>], seeds: u32) -> Report {
    let passages = rows.len() / 2 - 1;
    let (alone, rest) = rows.split_at(passages);
    let (behind, rule) = rest.split_at(passages);
    let heading = format!(
        "\
SQF-VBR Figs. 3 and 4: a Poisson video on {MEGABITS} Mbit/s beside n flows that fill a buffer of {BUFFER} packets equally,
packets of {PACKET} bytes; it has priority while fewer than {BUFFER} / (n + 1) of its packets are in the buffer
p: probability to lose it within 10 minutes; T: mean time with it in minutes
normal, Poisson: formula (2) with a normal and with the exact number of arrivals; M/D/1: first passage of the queue

"
    );
    let [longer, shorter] = PASSAGE.map(|span| span.0 / 1_000_000_000);
    let passage = format!(
        "
First passage in seconds: M/D/1 by formula; the queue alone, simulated; behind SQF with n flows that keep the
buffer full; {longer} and {shorter} s of video, {seeds} seeds; ±: relative standard error in %

"
    );
    let several = format!(
        "
Rule (3): three streams of 2 Mbit/s beside 20 flows behind SQF, {} s, {seeds} seeds
reached: runs in which the streams had {BUFFER} / 21 packets in the buffer; lost: their packets, in %

",
        RULE.0 / 1_000_000_000
    );
    let mut checks = formula_checks();
    checks.extend(queue_checks(alone, behind, rule));
    checks.push(Check::accounted_for(
        "runs",
        rows.iter().flat_map(|row| &row.runs).map(|run| run.balanced),
    ));
    Report::new(heading)
        .table("formulas", &formula_table())
        .with_text(&passage)
        .table("passages", &passage_table(alone, behind))
        .with_text(&several)
        .table("rule-3", &rule_table(rule))
        .picture("sqf-video-fig3", figure_3())
        .picture("sqf-video-fig4", figure_4())
        .checks(checks)
}

fn formula_table() -> TextTable<8> {
    let mut table = TextTable::new([
        Column::Right("n"),
        Column::Right("Mbit/s"),
        Column::Right("p normal"),
        Column::Right("p Poisson"),
        Column::Right("p M/D/1"),
        Column::Right("T normal"),
        Column::Right("T Poisson"),
        Column::Right("T M/D/1"),
    ]);
    for flows in FLOWS {
        for mbps in [4.0, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5] {
            let Estimates { normal, poisson, queue } = estimates(flows, mbps);
            let [p, q, r] = [normal.0, poisson.0, queue.0].map(short);
            let [t, u, v] = [normal.1, poisson.1, queue.1].map(short);
            table.row([&flows, &fixed(mbps, 1), &p, &q, &r, &t, &u, &v]);
        }
    }
    table
}

fn passage_table(alone: &[Row<Setup, Run>], behind: &[Row<Setup, Run>]) -> TextTable<7> {
    let time = |row| fixed(passages(row).0, 1);
    let error = |row| percent(1.0 / libm::sqrt(f64::from(passages(row).1)), 0);
    let rows: Vec<_> = alone.iter().zip(behind).collect();
    TextTable::of(
        &rows,
        [
            (Column::Right("n"), &|(row, _)| row.cell.flows.to_string()),
            (Column::Right("Mbit/s"), &|(row, _)| fixed(row.cell.kbit as f64 / 1e3, 1)),
            (Column::Right("M/D/1"), &|(row, _)| fixed(formula(&row.cell), 1)),
            (Column::Right("queue alone"), &|&(alone, _)| time(alone)),
            (Column::Right("±"), &|&(alone, _)| error(alone)),
            (Column::Right("behind SQF"), &|&(_, behind)| time(behind)),
            (Column::Right("±"), &|&(_, behind)| error(behind)),
        ],
    )
}

/// Returns the mean first passage time of the M/D/1 queue in seconds.
fn formula(cell: &Setup) -> f64 {
    estimates(cell.flows, cell.kbit as f64 / 1e3).queue.1 * 60.0
}

/// Returns the number of runs in which the threshold was reached, and the fraction of packets lost.
fn rule_result(row: &Row<Setup, Run>) -> (usize, f64) {
    let sum = |value: fn(&Run) -> u64| row.runs.iter().map(value).sum::<u64>() as f64;
    let reached = row.runs.iter().filter(|run| run.reached > 0).count();
    (reached, sum(|run| run.lost) / sum(|run| run.sent))
}

fn rule_table(rule: &[Row<Setup, Run>]) -> TextTable<3> {
    let columns = [Column::Left("arrivals"), Column::Right("reached"), Column::Right("lost")];
    let mut table = TextTable::new(columns);
    for row in rule {
        let (reached, lost) = rule_result(row);
        let timing = match row.cell.timing {
            Timing::Poisson => "Poisson".to_owned(),
            Timing::Late(late) => format!("constant rate, {} ms late", late.0 / 1_000_000),
        };
        table.row([&timing, &reached, &percent(lost, 2)]);
    }
    table
}

/// Returns the rates on the horizontal axis, in Mbit/s.
fn axis() -> impl Iterator<Item = f64> + Clone {
    (1..=100).map(|tenths| f64::from(tenths) / 10.0)
}

/// Draws one panel for each estimate, with a line for each number of flows.
fn panels(title: &str, y: &str, value: impl Fn(u32, f64) -> [f64; 3]) -> Vec<Chart> {
    let panel = |(at, estimate): (usize, &str)| {
        let chart = Chart::new(&format!("{title}: {estimate}")).x("video, Mbit/s").y(y).height(330);
        let line = |chart: Chart, flows: u32| {
            let points = axis().map(|mbps| (mbps, value(flows, mbps)[at]));
            chart.series(&format!("{flows} flows"), Mark::Line, points)
        };
        FLOWS.into_iter().fold(chart, line)
    };
    ["normal approximation", "exact Poisson", "M/D/1 queue"]
        .iter()
        .copied()
        .enumerate()
        .map(panel)
        .collect()
}

fn figure_3() -> Vec<Chart> {
    let value = |flows, mbps| {
        let Estimates { normal, poisson, queue } = estimates(flows, mbps);
        [normal.0, poisson.0, queue.0]
    };
    let panels = panels("SQF-VBR Fig. 3", "p within 10 minutes", value);
    let fair = |chart: Chart| {
        FLOWS.into_iter().fold(chart, |chart, flows| {
            let share = MEGABITS as f64 / f64::from(flows + 1);
            let points = [(0.0, 0.0), (share, 1.0), (MEGABITS as f64, 1.0)];
            chart.series(&format!("FQ, {flows} flows"), Mark::Step, points)
        })
    };
    panels.into_iter().map(fair).collect()
}

fn figure_4() -> Vec<Chart> {
    let value = |flows, mbps| {
        let Estimates { normal, poisson, queue } = estimates(flows, mbps);
        // Beyond a thousand years the figure ends.
        [normal.1, poisson.1, queue.1].map(|minutes| if minutes < 1e9 { minutes } else { f64::NAN })
    };
    let panels = panels("SQF-VBR Fig. 4", "minutes with priority", value);
    panels.into_iter().map(Chart::log_y).collect()
}

fn formula_checks() -> Vec<Check> {
    let at_6 = estimates(20, 6.0);
    let anchors = |(p, minutes): (f64, f64)| p < 0.01 && minutes > 180.0;
    let told =
        |(p, minutes): (f64, f64)| format!("p = {}, T = {} minutes", short(p), short(minutes));
    let is_worse = axis().filter(|mbps| (3.0..9.5).contains(mbps)).all(|mbps| {
        let Estimates { normal, poisson, queue } = estimates(20, mbps);
        queue.1 < poisson.1.min(normal.1)
    });
    vec![
        Check::new(
            "20 flows, 6 Mbit/s: p is close to 0 (below 1 %) and T above 180 minutes, with the normal approximation",
            told(at_6.normal),
            anchors(at_6.normal),
        ),
        Check::differs(
            "the same with the exact Poisson distribution",
            "its tail is heavier; the paper's curves fit the normal approximation only",
            told(at_6.poisson),
            anchors(at_6.poisson),
        ),
        Check::differs(
            "20 flows, 6 Mbit/s: the queue keeps its priority for as long",
            "(2) cuts time into independent parts, but a queue can reach the threshold in any of all overlapping spans",
            told(at_6.queue),
            anchors(at_6.queue),
        ),
        Check::new(
            "20 flows, 3 to 9.5 Mbit/s: the queue loses its priority sooner than both estimates say",
            "in minutes, see the table".to_owned(),
            is_worse,
        ),
    ]
}

fn queue_checks(
    alone: &[Row<Setup, Run>],
    behind: &[Row<Setup, Run>],
    rule: &[Row<Setup, Run>],
) -> Vec<Check> {
    // Differences from the formula in standard errors; an exponential time has a relative one of 1.
    let off = |row: &Row<Setup, Run>| {
        let (time, reached) = passages(row);
        (time / formula(&row.cell) - 1.0).abs() * libm::sqrt(f64::from(reached))
    };
    let off = alone.iter().map(off).fold(0.0, f64::max);
    let ratio = |row: &Row<Setup, Run>| passages(row).0 / formula(&row.cell);
    // Others have a standard error above a quarter.
    let frequent = behind.iter().filter(|row| passages(row).1 >= 16);
    let ratios = Spread::of(frequent.map(ratio));
    let results: Vec<_> = rule.iter().map(rule_result).collect();
    let [(_, constant), (_, late), (reached, lost)] = results[..] else { return Vec::new() };
    vec![
        Check::new(
            "the simulated queue alone has the first passage time of M/D/1, to 3.5 standard errors",
            format!("at most {} standard errors off", fixed(off, 1)),
            off <= 3.5,
        ),
        Check::new(
            "behind SQF with flows that fill the buffer the video loses its priority no later (rows with 16 passages and more)",
            format!("after {ratios} of the time"),
            ratios.count > 0 && ratios.most < 1.1,
        ),
        Check::new(
            "rule (3): three streams of 2 Mbit/s at constant rate, exact or with 4 ms of Gaussian delay, lose below 0.1 % beside 20 flows",
            format!("{} and {} %", percent(constant, 2), percent(late, 2)),
            constant.max(late) < 0.001,
        ),
        Check::differs(
            "rule (3): three Poisson streams of 2 Mbit/s keep the priority beside 20 flows",
            "together they are the queue of 6 Mbit/s above, which reaches the threshold every 18 s or sooner; while the flows keep equal queues it recovers, and little is lost",
            format!("{reached} runs reached the threshold, {} % lost", percent(lost, 2)),
            reached == 0,
        ),
    ]
}
