//! Tables, picture and checks of QFQ Fig. 7.

use super::{Cell, OF_PAPER, Run};
use crate::experiments::{Check, Report, Row};
use crate::measure::estimate::Estimate;
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};
use crate::reserved::PROPAGATION;

/// Delay of F1 alone: propagation of 22 ms, two packets of 200 bytes at 10 Mbit/s and two at 100.
const BASE_MS: f64 = 22.352;

/// Name of a row of the table, results of F0 and of F1.
type SecondModel = (&'static str, [f64; 3], Option<[f64; 3]>);

/// Results of an independent model of the scenario, written from the definitions of the schedulers
/// and not from this library; mean, standard deviation and mean of the largest delays in ms, five
/// seeds.
const SECOND_MODEL: [SecondModel; 6] = [
    ("DRR", [125.8, 63.2, 254.0], Some([112.5, 56.2, 249.0])),
    ("QFQ", [69.5, 28.5, 115.0], Some([22.44, 0.05, 23.2])),
    ("WF2Q+", [50.4, 16.2, 63.6], Some([22.56, 0.07, 22.7])),
    ("DRR, quantum 512", [98.9, 37.7, 173.0], Some([74.2, 31.9, 143.0])),
    ("DRR, quantum 200", [62.6, 9.1, 71.0], Some([43.4, 13.1, 70.0])),
    ("QFQ, packets of 210", [80.0, 41.8, 163.0], None),
];

pub(super) fn report(rows: &[Row<Cell, Run>], seeds: u32) -> Report {
    Report::new(heading(seeds) + "\n")
        .table("delays", &delays(rows))
        .with_text("\n")
        .table("lags", &lags(rows))
        .picture("qfq-fig7", charts(rows, seeds))
        .checks(checks(rows))
}

fn heading(seeds: u32) -> String {
    format!(
        "\
QFQ Fig. 7, Table II: flows with reserved rates across three routers, end-to-end delays in ms
two links of 10 Mbit/s and 10 ms, both crossed by all flows; hosts at 100 Mbit/s and 1 ms
F0 32 kbit/s, F1 512 kbit/s, and beside them 512 kbit/s, 50 x 160 kbit/s, and best effort: two
Pareto on-off sources of 2 Mbit/s in the mean; what arrives from second 5 to 20 counts
Assumed, as the paper is silent: packets of 200 bytes; weights are the rates, of which best effort has
half of what is left each, in 2^-20 of the line; Pareto shape 1.5; constant rates start all at once;
a queue of 50 packets for each best-effort flow and room for all packets of the others, 2,000 in a FIFO;
smallest quantum of DRR 1,500 bytes. Each further line of the table changes one of these: \"one hop
each\" is one best-effort flow on the first of the links between routers, the other on the second
{seeds} seeds; mean over the runs and half of its 95 % confidence interval
"
    )
}

fn delays(rows: &[Row<Cell, Run>]) -> TextTable<9> {
    let figure = |row: &Row<Cell, Run>, flow, number: usize| {
        row.figures(flow)[number].text(|value| fixed(value, 2))
    };
    let lost = |row: &Row<Cell, Run>, flow| percent(row.loss(flow).ratio(), 1);
    TextTable::of(
        rows,
        [
            (Column::Left("scheduler"), &|row| row.name().to_owned()),
            (Column::Right("F0 avg"), &|row| figure(row, 0, 0)),
            (Column::Right("sd"), &|row| figure(row, 0, 1)),
            (Column::Right("max"), &|row| figure(row, 0, 2)),
            (Column::Right("lost, %"), &|row| lost(row, 0)),
            (Column::Right("F1 avg"), &|row| figure(row, 1, 0)),
            (Column::Right("sd"), &|row| figure(row, 1, 1)),
            (Column::Right("max"), &|row| figure(row, 1, 2)),
            (Column::Right("lost, %"), &|row| lost(row, 1)),
        ],
    )
}

/// Returns the table of the proven bound of each hop and the used fraction.
fn lags(rows: &[Row<Cell, Run>]) -> TextTable<6> {
    let bounded: Vec<_> = rows.iter().filter(|row| row.of_bound().is_some()).collect();
    let lag = |row: &Row<Cell, Run>, flow| fixed(row.lag(flow), 2);
    let bound = |row: &Row<Cell, Run>, flow| fixed(row.t_wfi(flow).unwrap_or(f64::NAN), 2);
    let used = |row: &Row<Cell, Run>| percent(row.of_bound().unwrap_or(f64::NAN), 1);
    TextTable::of(
        &bounded,
        [
            (Column::Left("behind the reserved rate at one hop, ms"), &|row| row.name().to_owned()),
            (Column::Right("F0 most"), &|row| lag(row, 0)),
            (Column::Right("T-WFI"), &|row| bound(row, 0)),
            (Column::Right("F1 most"), &|row| lag(row, 1)),
            (Column::Right("T-WFI"), &|row| bound(row, 1)),
            (Column::Right("any flow, % of T-WFI"), &|row| used(row)),
        ],
    )
}

fn checks(rows: &[Row<Cell, Run>]) -> Vec<Check> {
    let of = |name: &str, flow| {
        let found = rows.iter().find(|row| row.name() == name);
        found.unwrap_or_else(|| panic!("{name} is a row of the table")).figures(flow)
    };
    let ([_, _, drr0_max], [drr1, ..]) = (of("DRR", 0), of("DRR", 1));
    let ([_, qfq0_sd, qfq0_max], [qfq1, ..]) = (of("QFQ", 0), of("QFQ", 1));
    let ([_, wf2q0_sd, wf2q0_max], [wf2q1, ..]) = (of("WF2Q+", 0), of("WF2Q+", 1));
    let [_, _, longer_max] = of("QFQ, packets of 210", 0);
    let off_base = |estimate: Estimate| (estimate.mean / BASE_MS - 1.0).abs();
    let mut checks = vec![
        Check::new(
            "the largest delay of F0 is smallest behind WF2Q+, then QFQ, then DRR",
            format!("{} < {} < {} ms", ms(wf2q0_max), ms(qfq0_max), ms(drr0_max)),
            wf2q0_max.mean < qfq0_max.mean && qfq0_max.mean < drr0_max.mean,
        ),
        Check::new(
            "the delay of F0 varies more behind QFQ than behind WF2Q+",
            format!("sd {} > {} ms", ms(qfq0_sd), ms(wf2q0_sd)),
            qfq0_sd.mean > wf2q0_sd.mean,
        ),
        Check::new(
            "the mean delay of F1 is within 5 % of an empty network's behind both",
            format!(
                "{} ms behind QFQ, {} ms behind WF2Q+; {BASE_MS} ms empty",
                fixed(qfq1.mean, 3),
                fixed(wf2q1.mean, 3)
            ),
            off_base(qfq1) <= 0.05 && off_base(wf2q1) <= 0.05,
        ),
        Check::new(
            "the mean delay of F1 is at least three times as long behind DRR as behind QFQ",
            format!("{} : {} ms", ms(drr1), ms(qfq1)),
            drr1.mean >= 3.0 * qfq1.mean,
        ),
        Check::new(
            "with 210 instead of 200 bytes, just above a power of two in L/φ, the largest delay of \
                    F0 behind QFQ is at least 1.3 times as long",
            format!("{} : {} ms", ms(longer_max), ms(qfq0_max)),
            longer_max.mean >= 1.3 * qfq0_max.mean,
        ),
        second_model(rows),
    ];
    checks.extend(bounds(rows));
    checks
}

fn ms(estimate: Estimate) -> String {
    fixed(estimate.mean, 1)
}

/// Deviations below a millisecond are ignored: they are differences of single packets.
fn second_model(rows: &[Row<Cell, Run>]) -> Check {
    const WITHIN: f64 = 0.15;
    let (mut worst, mut words, mut holds) = (0.0, String::new(), true);
    for (name, f0, f1) in SECOND_MODEL {
        let Some(row) = rows.iter().find(|row| row.name() == name) else { continue };
        for (flow, figures) in [Some(f0), f1].into_iter().enumerate() {
            let own = ["avg", "sd", "max"].into_iter().zip(row.figures(flow));
            let pairs = own.zip(figures.into_iter().flatten());
            for ((what, own), other) in pairs.filter(|(_, other)| *other >= 1.0) {
                let off = (own.mean - other).abs();
                if off / other > worst {
                    worst = off / other;
                    words = format!("{name}, F{flow}, {what}: {}, {other} there", ms(own));
                }
                holds &= off - own.margin.unwrap_or(0.0) <= WITHIN * other;
            }
        }
    }
    Check::new(
        "every figure that a second, independent model has too, but for deviations below 1 ms, is \
                within 15 % of its, or its confidence interval reaches there",
        format!("the mean at most {} % off ({words})", percent(worst, 1)),
        holds,
    )
}

/// Checks the proven bounds, with and without the packet's own time at the reserved rate.
fn bounds(rows: &[Row<Cell, Run>]) -> [Check; 2] {
    let lags = rows.iter().filter_map(|row| Some((row.of_bound()?, row.name())));
    let lag = lags.max_by(|a, b| a.0.total_cmp(&b.0));
    // A packet of at most 210 bytes, at both speeds.
    let serialisation = 2.0 * (210.0 * 8.0 / 1e4) + 2.0 * (210.0 * 8.0 / 1e5);
    let ends = rows.iter().flat_map(|row| [(row, 0), (row, 1)]).filter_map(|(row, flow)| {
        let bound = PROPAGATION.0 as f64 / 1e6 + serialisation + 2.0 * row.t_wfi(flow)?;
        let max = row.flow_delays(flow).summary()?.max.0 as f64 / 1e6;
        Some((max / bound, format!("{}, F{flow}: {max:.1} of {bound:.1} ms", row.name())))
    });
    let end = ends.max_by(|a, b| a.0.total_cmp(&b.0));
    [
        Check::new(
            "no packet of any constant-rate flow falls behind its reserved rate by more than the \
                    T-WFI at any hop",
            lag.map_or_else(String::new, |(of_bound, name)| {
                format!("at most {} % of it ({name})", percent(of_bound, 1))
            }),
            lag.is_some_and(|(of_bound, _)| of_bound <= 1.0),
        ),
        Check::new(
            "no delay of F0 or F1 exceeds propagation, serialisation and the T-WFI of both hops",
            end.as_ref().map_or_else(String::new, |(_, words)| words.clone()),
            end.is_some_and(|(of_bound, _)| of_bound <= 1.0),
        ),
    ]
}

/// Draws the distribution of the packets' delays.
fn charts(rows: &[Row<Cell, Run>], seeds: u32) -> Vec<Chart> {
    let panel = |flow: usize, rate: &str| {
        let chart = Chart::new(&format!("F{flow}: a flow of {rate} over two busy hops"))
            .subtitle(&format!(
                "part of its packets that take at most so long; QFQ Fig. 7 and Table II, {seeds} seeds"
            ))
            .x("end-to-end delay (ms)")
            .y("packets (%)")
            .height(400);
        rows.iter().take(OF_PAPER).fold(chart, |chart, row| {
            let points = row.flow_delays(flow).distribution(1.0);
            chart.series(row.name(), Mark::Line, [(0.0, 0.0)].into_iter().chain(points))
        })
    };
    Vec::from([panel(0, "32 kbit/s"), panel(1, "512 kbit/s")])
}
