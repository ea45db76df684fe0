//! Table, picture and checks.

use freeboard::sched_core::Nanos;

use super::scenario::{HEADER, LIMITS, MEGABITS, ROUND_TRIP, WARM_UP};
use super::{
    ALONE, DEAF, MANY_CLASSIC, MANY_SCALABLE, Measured, Queueing, SAME_HOST, TrafficReport,
};
use crate::experiments::{Check, Report};
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};

pub(super) fn report(rows: &[Measured], measured: Nanos, seeds: u32) -> Report {
    let text = format!("{}\n{}", heading(measured, seeds), table(rows));
    let charts = picture(rows, seeds);
    Report::new(text).picture("l4s", charts).checks(checks(rows))
}

fn heading(measured: Nanos, seeds: u32) -> String {
    format!(
        "\
A Prague-like sender and a call of host A, CUBIC of host A or B, and a source of ECT(1) of host C that does not react
{MEGABITS} Mbit/s, {} ms there and back, {HEADER} bytes more a packet on the line, room for {} packets; {} s after a warm-up of {} s,
{seeds} seeds. Isolated: by source host and flow. L4S: ECT(1) is marked above 1 ms in its own queue. Behind DualPI2 the call has ECT(1)
goodput of all senders of a kind, Mbit/s; added: what a packet waits, p50/p99 in ms; marked, lost: of its packets, in %
",
        ROUND_TRIP.0 / 1_000_000,
        LIMITS.packets,
        measured.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    )
}

fn table(rows: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("load"),
        Column::Left("queue"),
        Column::Right("Prague"),
        Column::Right("p50"),
        Column::Right("p99"),
        Column::Right("marked"),
        Column::Right("CUBIC"),
        Column::Right("p50"),
        Column::Right("p99"),
        Column::Right("call p50"),
        Column::Right("p99"),
        Column::Right("lost"),
        Column::Right("deaf"),
        Column::Right("p50"),
        Column::Right("p99"),
    ]);
    let mut last = None;
    for m in rows {
        let load = if last == Some(m.load) { "" } else { m.load.name };
        last = Some(m.load);
        let cells = |seen: &TrafficReport, is_there: bool| {
            let cell = |value: f64, decimals| {
                if is_there { fixed(value, decimals) } else { String::new() }
            };
            [cell(m.rate(seen), 2), cell(seen.quantile(500), 2), cell(seen.quantile(990), 2)]
        };
        let prague = cells(&m.prague, true);
        let cubic = cells(&m.cubic, m.load.cubic > 0);
        let deaf = cells(&m.deaf, m.load.deaf);
        table.row([
            &load,
            &m.queueing,
            &prague[0],
            &prague[1],
            &prague[2],
            &percent(m.marked, 2),
            &cubic[0],
            &cubic[1],
            &cubic[2],
            &fixed(m.call.quantile(500), 2),
            &fixed(m.call.quantile(990), 2),
            &percent(m.call.loss.ratio(), 2),
            &deaf[0],
            &deaf[1],
            &deaf[2],
        ]);
    }
    table.to_string()
}

/// Maximum relative difference between shares of hosts, and between those of flows.
const FAIR: f64 = 0.05;
/// Maximum relative loss of goodput by the threshold, for a single sender.
const COST: f64 = 0.03;
/// Maximum queueing delay of the call behind isolated queues, in ms: a packet of each other flow
/// and one on the link.
const SHORT: f64 = 3.0;

fn checks(rows: &[Measured]) -> Vec<Check> {
    let of = |queueing, load| {
        rows.iter().find(|m| (m.queueing, m.load) == (queueing, load)).expect("each was run")
    };
    let l4s = |load| of(Queueing::CobaltL4s, load);
    let [alone, plain] = [l4s(ALONE), of(Queueing::Cobalt, ALONE)];
    let cost = 1.0 - alone.prague.bytes as f64 / plain.prague.bytes as f64;
    let same = l4s(SAME_HOST);
    let uneven = |m: &Measured| {
        let [one, other] = [&m.prague, &m.cubic].map(|seen| seen.bytes as f64);
        (one - other).abs() / one.max(other)
    };
    let times =
        |m: &Measured, less: &TrafficReport, more: &TrafficReport| m.rate(more) / m.rate(less);
    let [classic, scalable] = [MANY_CLASSIC, MANY_SCALABLE].map(l4s);
    let dual_classic = of(Queueing::DualPi2, MANY_CLASSIC);
    let dual_scalable = of(Queueing::DualPi2, MANY_SCALABLE);
    let dual_times = [
        times(dual_classic, &dual_classic.prague, &dual_classic.cubic),
        times(dual_scalable, &dual_scalable.cubic, &dual_scalable.prague),
    ];
    let isolated = || rows.iter().filter(|m| m.queueing.isolates());
    let call = isolated().map(|m| m.call.quantile(990)).fold(0.0, f64::max);
    let lost = isolated().map(|m| m.call.loss.ratio()).fold(0.0, f64::max);
    let [deaf, codel, dual] =
        [Queueing::CobaltL4s, Queueing::CoDelL4s, Queueing::DualPi2].map(|q| of(q, DEAF));
    let third = (deaf.rate(&deaf.prague) + deaf.rate(&deaf.cubic) + deaf.rate(&deaf.deaf)) / 3.0;
    let parts = [&deaf.prague, &deaf.cubic].map(|seen| deaf.rate(seen) / third);
    let medians = [deaf, codel].map(|m| m.deaf.quantile(500));
    let share = [dual.rate(&dual.prague), dual.rate(&dual.cubic)];
    vec![
        Check {
            claim: format!(
                "with the threshold a Prague-like sender alone waits for a fifth of what it waits without, or less, and \
                 less than 1 ms in the median, for at most {} % of its goodput",
                percent(COST, 0)
            ),
            measured: format!(
                "{} ms and {} ms; {} %",
                fixed(alone.prague.quantile(500), 2),
                fixed(plain.prague.quantile(500), 2),
                percent(cost, 1)
            ),
            holds: alone.prague.quantile(500) < 1.0
                && alone.prague.quantile(500) * 5.0 <= plain.prague.quantile(500)
                && cost <= COST,
        },
        Check {
            claim: format!(
                "beside CUBIC of its own host it has as much, to {} %, and waits less than 1 ms in the median, whatever \
                 CUBIC's queue holds",
                percent(FAIR, 0)
            ),
            measured: format!(
                "{} % apart; {} ms, CUBIC {} ms",
                percent(uneven(same), 1),
                fixed(same.prague.quantile(500), 2),
                fixed(same.cubic.quantile(500), 2)
            ),
            holds: uneven(same) <= FAIR
                && same.prague.quantile(500) < 1.0
                && same.prague.quantile(500) < same.cubic.quantile(500),
        },
        Check {
            claim: format!(
                "two hosts have as much each, to {} %, if either has four senders and the other has one of the other \
                 kind; behind DualPI2 the host of four has at least three times as much",
                percent(FAIR, 0)
            ),
            measured: format!(
                "{} % and {} % apart; {} and {} times",
                percent(uneven(classic), 1),
                percent(uneven(scalable), 1),
                fixed(dual_times[0], 1),
                fixed(dual_times[1], 1)
            ),
            holds: uneven(classic) <= FAIR
                && uneven(scalable) <= FAIR
                && dual_times.iter().all(|&times| times >= 3.0),
        },
        Check {
            claim: format!(
                "behind isolated queues the call, without a codepoint and whatever its DSCP, loses nothing and waits at \
                 most {} ms at the 99th percentile under every load",
                fixed(SHORT, 0)
            ),
            measured: format!("at most {} ms; {} %", fixed(call, 2), percent(lost, 2)),
            holds: call <= SHORT && lost <= 0.0,
        },
        Check {
            claim: format!(
                "ECT(1) traffic that does not react takes nothing of the third of each other host, to {} %; \
                 COBALT keeps its queue, in the median, below half of what CoDel leaves",
                percent(FAIR, 0)
            ),
            measured: format!(
                "{} and {} of a third; {} ms, with CoDel {} ms",
                fixed(parts[0], 3),
                fixed(parts[1], 3),
                fixed(medians[0], 1),
                fixed(medians[1], 1)
            ),
            holds: parts.iter().all(|part| (part - 1.0).abs() <= FAIR)
                && medians[0] * 2.0 < medians[1],
        },
        Check {
            claim: "behind DualPI2, which leaves it to others to hold such traffic back (RFC 9332 §8.2), it takes nine \
                    tenths of the line, and the call in its queue loses more than a tenth"
                .to_owned(),
            measured: format!(
                "Prague {} and CUBIC {} Mbit/s are left; the call loses {} %",
                fixed(share[0], 2),
                fixed(share[1], 2),
                percent(dual.call.loss.ratio(), 1)
            ),
            holds: dual.rate(&dual.deaf) >= 9.0 * (share[0] + share[1])
                && dual.call.loss.ratio() > 0.1,
        },
        Check {
            claim: "every packet of every run is accounted for".to_owned(),
            measured: format!(
                "{} of {} rows",
                rows.iter().filter(|m| m.balanced).count(),
                rows.len()
            ),
            holds: rows.iter().all(|m| m.balanced),
        },
    ]
}

/// Draws the distribution of the queueing delay of the packets that arrived.
fn picture(rows: &[Measured], seeds: u32) -> Vec<Chart> {
    let panel = |load, title: &str, of: fn(&Measured) -> &TrafficReport| {
        let chart = Chart::new(title)
            .subtitle(&format!(
                "part of the packets that waited no longer, {MEGABITS} Mbit/s, {seeds} seeds"
            ))
            .x("time in the queue (ms)")
            .y("packets (%)")
            .log_x()
            .height(380);
        let drawn = rows.iter().filter(|m| m.load == load);
        drawn.fold(chart, |chart, m| {
            chart.series(&m.queueing.to_string(), Mark::Line, distribution(of(m)))
        })
    };
    Vec::from([
        panel(SAME_HOST, "Prague-like sender beside CUBIC of its host", |m| &m.prague),
        panel(DEAF, "A call beside ECT(1) traffic that does not react", |m| &m.call),
    ])
}

/// Returns the distribution in steps of half a percent. Times are at least 10 µs, for the log axis.
fn distribution(seen: &TrafficReport) -> Vec<(f64, f64)> {
    let mut sorted = seen.added.samples().to_vec();
    sorted.sort_unstable();
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    let at = |step: usize| (sorted[last * step / 200].0 as f64 / 1e6).max(0.01);
    (0..=200).map(|step| (at(step), step as f64 / 2.0)).collect()
}
