//! Tables and checks of a call beside uploads.

use super::scenario::{HEADER, MTU, Run, WARM_UP};
use super::{Cell, LOADS, MEASURED, QUEUES, Quantiles, Wanted, packet_millis, shortest};
use crate::experiments::{Check, Report, Row};
use crate::plot::{Column, TextTable, fixed, percent};

/// Minimum goodput of four uploads at 10 Mbit/s, in Mbit/s.
const GOODPUT: f64 = 9.35;
/// Maximum relative loss of the uploads' goodput because of the call's priority, compared with
/// plain DRR.
const COST: f64 = 0.02;

pub(super) fn report(rows: &[Row<Cell, Run>], seeds: u32) -> Report {
    let (isolated, shortest) = rows.split_at(LOADS.len() * QUEUES.len());
    let balanced = rows.iter().map(|row| row.runs.iter().all(|run| run.balanced));
    Report::new(heading(seeds) + "\n")
        .table("isolated", &table(isolated, QUEUES.len()))
        .with_text(&format!("\n{}\n", shortest::HEADING))
        .table("shortest", &table(shortest, shortest::QUEUES.len()))
        .checks(checks(isolated))
        .checks(shortest::checks(shortest))
        .checks([Check::accounted_for("rows", balanced)])
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

/// Returns a table of loads behind this number of `queues` each.
fn table(rows: &[Row<Cell, Run>], queues: usize) -> TextTable<10> {
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
    for of in rows.chunks(queues) {
        let load = of[0].0;
        let (mut name, mut rate) = (load.name, load.megabits.to_string());
        for row in of {
            let [p50, p95, p99] = quantiles(row.added());
            let [least, most] = row.evenness().map(|part| fixed(part, 2));
            let (lost, goodput) = (percent(row.loss().ratio(), 2), fixed(row.goodput(), 3));
            let queue = row.1.name;
            table.row([&name, &rate, &queue, &p50, &p95, &p99, &lost, &goodput, &least, &most]);
            (name, rate) = ("", String::new());
        }
        let quoted = [("CAKE", load.cake), ("fq_codel", load.fq_codel)];
        for (queue, added) in quoted.into_iter().filter_map(|(name, of)| Some((name, of?))) {
            let [p50, p95, p99] = quantiles(added);
            table.row([&"", &"", &queue, &p50, &p95, &p99, &"", &"", &"", &""]);
        }
    }
    table
}

fn checks(rows: &[Row<Cell, Run>]) -> Vec<Check> {
    let protecting = || QUEUES.into_iter().filter(|queue| queue.protects);
    let of = |name: &'static str| rows.iter().filter(move |row| row.1.name == name);
    let mut checks = Vec::new();
    for row in rows {
        let (load, queue) = row.cell;
        if !queue.protects || (load.others > 0 && !queue.has_hosts) {
            continue;
        }
        let [p50, p95, p99] = quantiles(row.added());
        let (wanted, found) = match load.wanted {
            Wanted::NearCake(cake) => {
                let [a, b, c] = quantiles(cake.map(|of| 1.1 * of));
                (format!("at most {a} / {b} / {c} ms"), format!("{p50} / {p95} / {p99} ms"))
            }
            Wanted::Packets(packets) => {
                let most = f64::from(packets) * packet_millis(load.megabits);
                (format!("p99 at most {packets} packets, {} ms", fixed(most, 1)), p99)
            }
        };
        checks.push(Check::new(
            format!("{} at {} Mbit/s, {}: {wanted}", load.name, load.megabits, queue.name),
            found,
            row.is_near(),
        ));
    }
    for queue in protecting() {
        let goodput = of(queue.name).next().map_or(0.0, Row::goodput);
        checks.push(Check::new(
            format!("{}: four uploads at 10 Mbit/s carry at least {GOODPUT}", queue.name),
            format!("{} Mbit/s", fixed(goodput, 3)),
            goodput >= GOODPUT,
        ));
        let plain = of("DRR over flows").map(Row::goodput);
        let parts = of(queue.name).zip(plain).map(|(row, plain)| row.goodput() / plain);
        let least = parts.fold(f64::INFINITY, f64::min);
        checks.push(Check::new(
            format!(
                "{}: uploads carry at least {} % of what they carry behind plain DRR",
                queue.name,
                percent(1.0 - COST, 0)
            ),
            format!("at least {} %", percent(least, 1)),
            least >= 1.0 - COST,
        ));
    }
    let lost = rows.iter().filter(|row| row.1.protects).map(|row| row.loss().lost).sum::<u64>();
    checks.push(Check::new(
        "no packet of the call is lost where sparse flows are first",
        format!("{lost} packets"),
        lost == 0,
    ));
    checks
}
