//! Tables, picture and checks of SQF inside users.

use freeboard::sched_core::{FloorShare, Nanos};

use super::scenario::{BULK_OF_A, DELAY, MTU};
use super::{BULK_OF_B, FLOOR, Measured, Row, Stream};
use crate::discipline::UserFlows;
use crate::experiments::{Check, Report};
use crate::plot::{Chart, Column, Mark, TextTable, fixed, millis, percent};

/// Maximum difference of a user's share from one half of the link.
const FAIR: f64 = 0.03;
/// Number of flows of both users if B has one: A's transfers, video and call, and B's transfer.
const FLOWS: u32 = BULK_OF_A + 3;
/// Maximum loss of a protected video.
const PROTECTED: f64 = 0.001;
/// Minimum loss of an unprotected video.
const CUT: f64 = 0.2;

pub(super) fn report(measured: &[Measured], seeds: u32) -> Report {
    let text = format!("{}\n{}\n{}", heading(seeds), table(measured), bounds(measured));
    let charts = picture(measured, seeds);
    Report::new(text).picture("users-sqf", charts).checks(checks(measured))
}

fn heading(seeds: u32) -> String {
    format!(
        "\
SQF inside users: two users on a line of 10 Mbit/s and 10 ms, buffer 600,000 bytes
A: four TCP transfers, a video of 2 Mbit/s that does not slow down, a call (G.711)
B: one TCP transfer, or the same traffic split over eight
What is sent from second 5 to 35 counts; delays are end to end, 10 ms of them on the line
The floor gives one byte of {FLOOR} to the queue that has waited longest
{seeds} seeds; shares and rates: mean over the runs and half of its 95 % confidence interval
"
    )
}

fn table(measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("queue"),
        Column::Right("B's flows"),
        Column::Right("A's share, %"),
        Column::Right("A's transfers, Mbit/s"),
        Column::Right("video lost, %"),
        Column::Right("avg, ms"),
        Column::Right("max"),
        Column::Right("call lost, %"),
        Column::Right("avg, ms"),
        Column::Right("max"),
    ]);
    let margin = |mean: String, margin: Option<String>| {
        margin.map_or(mean.clone(), |margin| format!("{mean} ±{margin}"))
    };
    for m in measured {
        let mean = |stream: &Stream| millis(stream.delays.summary().map(|summary| summary.mean));
        table.row([
            &m.row.name,
            &m.bulk_of_b,
            &margin(percent(m.share.mean, 1), m.share.margin.map(|share| percent(share, 1))),
            &margin(fixed(m.bulk.mean, 2), m.bulk.margin.map(|rate| fixed(rate, 2))),
            &percent(m.video.loss.ratio(), 2),
            &mean(&m.video),
            &millis(m.video.max()),
            &percent(m.call.loss.ratio(), 2),
            &mean(&m.call),
            &millis(m.call.max()),
        ]);
    }
    table.to_string()
}

/// Returns the table of the maximum delay of the call, over both loads, and its bound.
fn bounds(measured: &[Measured]) -> String {
    let mut table = TextTable::new([
        Column::Left("call beyond propagation, ms"),
        Column::Right("most"),
        Column::Right("bound"),
        Column::Right("% of it"),
    ]);
    for (row, most, bound) in bounded(measured) {
        let beyond = |time: Nanos| millis(Some(time.since(DELAY)));
        let part = most.since(DELAY).0 as f64 / bound.since(DELAY).0 as f64;
        table.row([&row.name, &beyond(most), &beyond(bound), &percent(part, 1)]);
    }
    table.to_string()
}

fn bounded(measured: &[Measured]) -> Vec<(Row, Nanos, Nanos)> {
    let row = |pair: &[Measured]| {
        let [first, ..] = pair else { return None };
        let most = pair.iter().filter_map(|m| m.call.max()).max()?;
        Some((first.row, most, first.row.bound()?))
    };
    measured.chunks(BULK_OF_B.len()).filter_map(row).collect()
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let over_users = || measured.iter().filter(|m| m.row.has_users());
    let sqf_inside = || over_users().filter(|m| m.row.prefers_short());
    let drr_inside = || over_users().filter(|m| !m.row.prefers_short());
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let plain_inside = || sqf_inside().filter(|m| m.row.inside == UserFlows::Sqf);
    let video = most(&mut plain_inside().map(|m| m.video.worst_loss));
    let call = most(&mut sqf_inside().map(|m| m.call.worst_loss));
    let cut = least(&mut drr_inside().map(|m| m.video.loss.ratio()));
    let off = most(&mut over_users().map(|m| m.off_half));
    // Loss of A's share when B splits its traffic.
    let loses = |name: &str| {
        let mut shares = measured.iter().filter(|m| m.row.name == name).map(|m| m.share.mean);
        shares.next().unwrap_or(0.0) - shares.next().unwrap_or(0.0)
    };
    let flat = ["FIFO", "DRR over flows", "SQF over flows"].map(loses);
    let users: Vec<&str> = over_users().map(|m| m.row.name).collect();
    let split = most(&mut users.iter().map(|name| loses(name).abs()));
    let of_b = |name: &str| {
        let found = measured.iter().find(|m| m.row.name == name && m.bulk_of_b == 1);
        found.map_or([f64::NAN; 2], |m| m.of_b)
    };
    let [least_of_b, most_of_b] = of_b("SQF over flows");
    let [floor, _] = of_b("SQF over flows with floor");
    // One packet before `D + (k·F + 1)·L` bytes: docs/guarantees.md.
    let promised = f64::from(MTU) / f64::from(FloorShare::AFTER + (FLOOR * FLOWS + 1) * MTU);
    let bounds = bounded(measured);
    let within = |(_, most, bound): &(Row, Nanos, Nanos)| most <= bound;
    let nearest = bounds.iter().map(|(row, most, bound)| {
        (most.since(DELAY).0 as f64 / bound.since(DELAY).0 as f64, row.name)
    });
    let nearest = nearest.max_by(|a, b| a.0.total_cmp(&b.0));
    vec![
        Check {
            claim: format!(
                "with SQF inside users, without a floor, A's video loses at most {} % in any run beside \
                 its own transfers; its call loses nothing, with a floor or without",
                percent(PROTECTED, 1)
            ),
            measured: format!("at most {} % and {} %", percent(video, 3), percent(call, 3)),
            holds: video <= PROTECTED && call <= 0.0,
        },
        Check {
            claim: format!(
                "with DRR inside users the same video loses at least {} %",
                percent(CUT, 0)
            ),
            measured: format!("at least {} %", percent(cut, 1)),
            holds: cut >= CUT,
        },
        Check {
            claim: format!(
                "over users, A has half of the line to ±{} % of it in every run, whether B has one flow \
                 or eight",
                percent(FAIR, 0)
            ),
            measured: format!("at most {} % off", percent(off, 2)),
            holds: off <= FAIR,
        },
        Check {
            claim: format!(
                "over users it does not help B to split: A loses at most {} % of the line by it; over \
                 flows A loses more, first come first served or in turn",
                percent(FAIR, 0)
            ),
            measured: format!(
                "at most {} %; FIFO {} %, DRR {} %, SQF {} %",
                percent(split, 2),
                percent(flat[0], 1),
                percent(flat[1], 1),
                percent(flat[2], 1)
            ),
            holds: split <= FAIR && flat[0] > FAIR && flat[1] > FAIR,
        },
        Check {
            claim: format!(
                "SQF over flows leaves the users' shares to chance: B's one transfer has less than 1 % of \
                 the line in one run, more than half in another; a floor gives it one packet \
                 of its bound at least, {} % of the line",
                percent(promised, 1)
            ),
            measured: format!(
                "{} to {} %; with a floor from {} %",
                percent(least_of_b, 2),
                percent(most_of_b, 1),
                percent(floor, 2)
            ),
            holds: least_of_b < 0.01 && most_of_b > 0.5 && floor >= promised,
        },
        Check {
            claim: "no packet of the call takes longer than the bound of its queue".to_owned(),
            measured: nearest.map_or_else(String::new, |(part, name)| {
                format!("at most {} % of it ({name})", percent(part, 1))
            }),
            holds: bounds.iter().all(within) && !bounds.is_empty(),
        },
        Check {
            claim: "every packet of every run is accounted for".to_owned(),
            measured: format!(
                "{} of {} rows",
                measured.iter().filter(|m| m.balanced).count(),
                measured.len()
            ),
            holds: measured.iter().all(|m| m.balanced),
        },
    ]
}

/// Draws the distribution of the video's delays; a curve that ends below 100 % shows loss.
fn picture(measured: &[Measured], seeds: u32) -> Vec<Chart> {
    let panel = |bulk_of_b: u32, words: &str| {
        let chart =
            Chart::new(&format!("A's video beside its own transfers, and {words} of user B"))
                .subtitle(&format!(
                    "part of all packets sent that arrive within so long, {seeds} seeds"
                ))
                .x("end-to-end delay (ms)")
                .y("packets (%)")
                .log_x()
                .height(380);
        let drawn = measured.iter().filter(|m| m.bulk_of_b == bulk_of_b);
        drawn.fold(chart, |chart, m| chart.series(m.row.name, Mark::Line, distribution(&m.video)))
    };
    Vec::from([panel(1, "one transfer"), panel(8, "eight transfers")])
}

/// Returns the distribution in steps of half a percent of the arrived packets: delay, and
/// percentage of the sent packets.
fn distribution(stream: &Stream) -> Vec<(f64, f64)> {
    let mut sorted = stream.delays.samples().to_vec();
    sorted.sort_unstable();
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    let arrived = 100.0 * (1.0 - stream.loss.ratio());
    let at = |step: usize| sorted[last * step / 200].0 as f64 / 1e6;
    let steps = (0..=200).map(|step| (at(step), step as f64 / 200.0 * arrived));
    [(at(0), 0.0)].into_iter().chain(steps).collect()
}
