//! Tables and checks of a call beside uploads.

use super::scenario::{HEADER, MTU, WARM_UP};
use super::{LOADS, Load, MEASURED, Measured, Quantiles, ROWS, packet_millis, shortest};
use crate::experiments::{Check, Report};
use crate::plot::{Column, TextTable, fixed, percent};

/// Minimum goodput of four uploads at 10 Mbit/s, in Mbit/s.
const GOODPUT: f64 = 9.35;
/// Maximum relative loss of the uploads' goodput because of the call's priority, compared with
/// plain DRR.
const COST: f64 = 0.02;

/// Builds the report from the rows of [`ROWS`] and those of [`shortest::ROWS`].
pub(super) fn report(isolated: &[Measured], shortest: &[Measured], seeds: u32) -> Report {
    let tables = [table(&LOADS, isolated), table(&shortest::LOADS, shortest)];
    let text = format!("{}\n{}\n{}\n{}", heading(seeds), tables[0], shortest::HEADING, tables[1]);
    let mut checks = checks(isolated);
    checks.extend(shortest::checks(shortest));
    let all = isolated.iter().chain(shortest);
    checks.push(Check::accounted_for("rows", all.map(|m| m.balanced)));
    Report::new(text).checks(checks)
}

fn heading(seeds: u32) -> String {
    format!(
        "\
A call beside uploads: 160 bytes every 20 ms; TCP uploads without end (Reno), 50 ms there and back
queues of the gateway, with CoDel in each; the FIFO holds 1,000 packets; packets of {MTU} bytes, {HEADER} more
on the line; all go to one server; {} s after a warm-up of {} s, {seeds} seeds
added: what a packet of the call waits, p50/p95/p99 in ms; even: the least and the most that an upload had
of its part of the line, in any run
CAKE and fq_codel: Linux, with a kernel's TCP, quoted; elsewhere they were not measured
",
        MEASURED.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000
    )
}

pub(super) fn quantiles(quantiles: Quantiles) -> [String; 3] {
    quantiles.map(|quantile| fixed(quantile, 2))
}

/// Returns a table. `measured` contains an equal number of rows for each load, in order.
fn table(loads: &[Load], measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("beside the call"),
        Column::Right("Mbit/s"),
        Column::Left("queue"),
        Column::Right("p50"),
        Column::Right("p95"),
        Column::Right("p99"),
        Column::Right("lost, %"),
        Column::Right("goodput"),
        Column::Right("even"),
        Column::Right(""),
    ]);
    for (load, of) in loads.iter().zip(measured.chunks(measured.len() / loads.len())) {
        let (mut name, mut rate) = (load.name, load.megabits.to_string());
        for m in of {
            let [p50, p95, p99] = quantiles(m.added);
            let [least, most] = m.evenness.map(|part| fixed(part, 2));
            let lost = percent(m.loss.ratio(), 2);
            table.row([
                &name,
                &rate,
                &m.row.name,
                &p50,
                &p95,
                &p99,
                &lost,
                &fixed(m.goodput, 3),
                &least,
                &most,
            ]);
            (name, rate) = ("", String::new());
        }
        let quoted = [("CAKE", load.cake), ("fq_codel", load.fq_codel)];
        for (queue, added) in quoted.into_iter().filter_map(|(name, of)| Some((name, of?))) {
            let [p50, p95, p99] = quantiles(added);
            table.row([&"", &"", &queue, &p50, &p95, &p99, &"", &"", &"", &""]);
        }
    }
    table.to_string()
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let protecting = || ROWS.into_iter().filter(|row| row.protects);
    let of = |name: &'static str| measured.iter().filter(move |m| m.row.name == name);
    let mut checks = Vec::new();
    for (at, load) in LOADS.iter().enumerate() {
        for m in measured.chunks(ROWS.len()).nth(at).into_iter().flatten() {
            if !m.row.protects || (load.others > 0 && !m.row.has_hosts) {
                continue;
            }
            let [p50, p95, p99] = quantiles(m.added);
            let (wanted, found) = match load.wanted {
                super::Wanted::NearCake(cake) => {
                    let [a, b, c] = quantiles(cake.map(|of| 1.1 * of));
                    (format!("at most {a} / {b} / {c} ms"), format!("{p50} / {p95} / {p99} ms"))
                }
                super::Wanted::Packets(packets) => {
                    let most = f64::from(packets) * packet_millis(load.megabits);
                    (format!("p99 at most {packets} packets, {} ms", fixed(most, 1)), p99)
                }
            };
            checks.push(Check {
                claim: format!(
                    "{} at {} Mbit/s, {}: {wanted}",
                    load.name, load.megabits, m.row.name
                ),
                measured: found,
                holds: m.is_near(),
            });
        }
    }
    for row in protecting() {
        let goodput = of(row.name).next().map_or(0.0, |m| m.goodput);
        checks.push(Check {
            claim: format!("{}: four uploads at 10 Mbit/s carry at least {GOODPUT}", row.name),
            measured: format!("{} Mbit/s", fixed(goodput, 3)),
            holds: goodput >= GOODPUT,
        });
        let plain = of("DRR over flows").map(|m| m.goodput);
        let parts = of(row.name).zip(plain).map(|(m, plain)| m.goodput / plain);
        let least = parts.fold(f64::INFINITY, f64::min);
        checks.push(Check {
            claim: format!(
                "{}: uploads carry at least {} % of what they carry behind plain DRR",
                row.name,
                percent(1.0 - COST, 0)
            ),
            measured: format!("at least {} %", percent(least, 1)),
            holds: least >= 1.0 - COST,
        });
    }
    let lost = measured.iter().filter(|m| m.row.protects).map(|m| m.loss.lost).sum::<u64>();
    checks.push(Check {
        claim: "no packet of the call is lost where sparse flows are first".to_owned(),
        measured: format!("{lost} packets"),
        holds: lost == 0,
    });
    checks
}
