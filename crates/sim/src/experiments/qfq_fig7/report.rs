//! Tables, picture and checks of QFQ Fig. 7.

use super::scenario::PROPAGATION;
use super::{Measured, ObservedFlow};
use crate::experiments::{Check, Report};
use crate::measure::estimate::Estimate;
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};

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

pub(super) fn report(measured: &[Measured], seeds: u32) -> Report {
    let text = format!("{}\n{}\n{}", heading(seeds), delays(measured), lags(measured));
    let charts = picture(measured, seeds);
    Report::new(text).picture("qfq-fig7", charts).checks(checks(measured))
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

fn delays(measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("scheduler"),
        Column::Right("F0 avg"),
        Column::Right("sd"),
        Column::Right("max"),
        Column::Right("lost, %"),
        Column::Right("F1 avg"),
        Column::Right("sd"),
        Column::Right("max"),
        Column::Right("lost, %"),
    ]);
    for Measured { row, flows: [f0, f1], .. } in measured {
        table.row([
            &row.name,
            &f0.mean,
            &f0.deviation,
            &f0.max,
            &percent(f0.loss.ratio(), 1),
            &f1.mean,
            &f1.deviation,
            &f1.max,
            &percent(f1.loss.ratio(), 1),
        ]);
    }
    table.to_string()
}

/// Returns the table of the proven bound of each hop and the used fraction.
fn lags(measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("behind the reserved rate at one hop, ms"),
        Column::Right("F0 most"),
        Column::Right("T-WFI"),
        Column::Right("F1 most"),
        Column::Right("T-WFI"),
        Column::Right("any flow, % of T-WFI"),
    ]);
    for Measured { row, flows: [f0, f1], of_bound } in measured {
        let (Some(bound0), Some(bound1), Some(of_bound)) = (f0.t_wfi, f1.t_wfi, *of_bound) else {
            continue;
        };
        table.row([
            &row.name,
            &fixed(f0.lag, 2),
            &fixed(bound0, 2),
            &fixed(f1.lag, 2),
            &fixed(bound1, 2),
            &percent(of_bound, 1),
        ]);
    }
    table.to_string()
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let of = |name: &str| {
        let found = measured.iter().find(|measured| measured.row.name == name);
        found.unwrap_or_else(|| panic!("{name} is a row of the table"))
    };
    let [drr0, drr1] = &of("DRR").flows;
    let [qfq0, qfq1] = &of("QFQ").flows;
    let [wf2q0, wf2q1] = &of("WF2Q+").flows;
    let longer = &of("QFQ, packets of 210").flows[0];
    let off_base = |flow: &ObservedFlow| (flow.mean.mean / BASE_MS - 1.0).abs();
    let mut checks = vec![
        Check {
            claim: "the largest delay of F0 is smallest behind WF2Q+, then QFQ, then DRR".to_owned(),
            measured: format!("{} < {} < {} ms", ms(wf2q0.max), ms(qfq0.max), ms(drr0.max)),
            holds: wf2q0.max.mean < qfq0.max.mean && qfq0.max.mean < drr0.max.mean,
        },
        Check {
            claim: "the delay of F0 varies more behind QFQ than behind WF2Q+".to_owned(),
            measured: format!("sd {} > {} ms", ms(qfq0.deviation), ms(wf2q0.deviation)),
            holds: qfq0.deviation.mean > wf2q0.deviation.mean,
        },
        Check {
            claim: "the mean delay of F1 is within 5 % of an empty network's behind both".to_owned(),
            measured: format!(
                "{} ms behind QFQ, {} ms behind WF2Q+; {BASE_MS} ms empty",
                fixed(qfq1.mean.mean, 3),
                fixed(wf2q1.mean.mean, 3)
            ),
            holds: off_base(qfq1) <= 0.05 && off_base(wf2q1) <= 0.05,
        },
        Check {
            claim: "the mean delay of F1 is at least three times as long behind DRR as behind QFQ"
                .to_owned(),
            measured: format!("{} : {} ms", ms(drr1.mean), ms(qfq1.mean)),
            holds: drr1.mean.mean >= 3.0 * qfq1.mean.mean,
        },
        Check {
            claim: "with 210 instead of 200 bytes, just above a power of two in L/φ, the largest delay of \
                    F0 behind QFQ is at least 1.3 times as long"
                .to_owned(),
            measured: format!("{} : {} ms", ms(longer.max), ms(qfq0.max)),
            holds: longer.max.mean >= 1.3 * qfq0.max.mean,
        },
        second_model(measured),
    ];
    checks.extend(bounds(measured));
    checks
}

fn ms(estimate: Estimate) -> String {
    fixed(estimate.mean, 1)
}

/// Deviations below a millisecond are ignored: they are differences of single packets.
fn second_model(measured: &[Measured]) -> Check {
    const WITHIN: f64 = 0.15;
    let (mut worst, mut words, mut holds) = (0.0, String::new(), true);
    for (name, f0, f1) in SECOND_MODEL {
        let Some(found) = measured.iter().find(|measured| measured.row.name == name) else {
            continue;
        };
        for (number, (flow, figures)) in found.flows.iter().zip([Some(f0), f1]).enumerate() {
            let own = [("avg", flow.mean), ("sd", flow.deviation), ("max", flow.max)];
            let pairs = own.into_iter().zip(figures.into_iter().flatten());
            for ((what, own), other) in pairs.filter(|(_, other)| *other >= 1.0) {
                let off = (own.mean - other).abs();
                if off / other > worst {
                    worst = off / other;
                    words = format!("{name}, F{number}, {what}: {}, {other} there", ms(own));
                }
                holds &= off - own.margin.unwrap_or(0.0) <= WITHIN * other;
            }
        }
    }
    Check {
        claim:
            "every figure that a second, independent model has too, but for deviations below 1 ms, is \
                within 15 % of its, or its confidence interval reaches there"
                .to_owned(),
        measured: format!("the mean at most {} % off ({words})", percent(worst, 1)),
        holds,
    }
}

/// Checks the proven bounds, with and without the packet's own time at the reserved rate.
fn bounds(measured: &[Measured]) -> [Check; 2] {
    let all = || measured.iter().filter_map(|measured| Some((measured, measured.of_bound?)));
    let by_use = |a: &(&Measured, f64), b: &(&Measured, f64)| a.1.total_cmp(&b.1);
    let lag = all().max_by(by_use);
    // A packet of at most 210 bytes, at both speeds.
    let serialisation = 2.0 * (210.0 * 8.0 / 1e4) + 2.0 * (210.0 * 8.0 / 1e5);
    let end_to_end = |flow: &ObservedFlow| {
        let bound = PROPAGATION.0 as f64 / 1e6 + serialisation + 2.0 * flow.t_wfi?;
        Some((flow.delays.summary()?.max.0 as f64 / 1e6, bound))
    };
    let flows = measured.iter().flat_map(|measured| {
        measured.flows.iter().enumerate().map(move |(number, flow)| (measured, number, flow))
    });
    let ends = flows.filter_map(|(measured, number, flow)| {
        let (max, bound) = end_to_end(flow)?;
        Some((max / bound, format!("{}, F{number}: {max:.1} of {bound:.1} ms", measured.row.name)))
    });
    let end = ends.max_by(|a, b| a.0.total_cmp(&b.0));
    [
        Check {
            claim: "no packet of any constant-rate flow falls behind its reserved rate by more than the \
                    T-WFI at any hop"
                .to_owned(),
            measured: lag.map_or_else(String::new, |(measured, of_bound)| {
                format!("at most {} % of it ({})", percent(of_bound, 1), measured.row.name)
            }),
            holds: lag.is_some_and(|(_, of_bound)| of_bound <= 1.0),
        },
        Check {
            claim: "no delay of F0 or F1 exceeds propagation, serialisation and the T-WFI of both hops"
                .to_owned(),
            measured: end.as_ref().map_or_else(String::new, |(_, words)| words.clone()),
            holds: end.is_some_and(|(of_bound, _)| of_bound <= 1.0),
        },
    ]
}

/// Draws the distribution of the packets' delays.
fn picture(measured: &[Measured], seeds: u32) -> Vec<Chart> {
    let panel = |number: usize, rate: &str, height| {
        let chart = Chart::new(&format!("F{number}: a flow of {rate} over two busy hops"))
            .subtitle(&format!(
                "part of its packets that take at most so long; QFQ Fig. 7 and Table II, {seeds} seeds"
            ))
            .x("end-to-end delay (ms)")
            .y("packets (%)")
            .height(height);
        let drawn = measured.iter().filter(|measured| measured.row.drawn);
        drawn.fold(chart, |chart, Measured { row, flows, .. }| {
            chart.series(row.name, Mark::Line, distribution(&flows[number]))
        })
    };
    Vec::from([panel(0, "32 kbit/s", 400), panel(1, "512 kbit/s", 400)])
}

/// Returns the distribution from 0 to 100 % in steps of half a percent: delay and percentage.
fn distribution(flow: &ObservedFlow) -> Vec<(f64, f64)> {
    let mut sorted = flow.delays.samples().to_vec();
    sorted.sort_unstable();
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    let at = |step: usize| sorted[last * step / 200].0 as f64 / 1e6;
    let steps = (0..=200).map(|step| (at(step), step as f64 / 2.0));
    [(0.0, 0.0), (at(0), 0.0)].into_iter().chain(steps).collect()
}
