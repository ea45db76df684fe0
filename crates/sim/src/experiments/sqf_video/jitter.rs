//! Fig. 8: loss of a video whose packets are delayed at the sender by Gaussian times.

use freeboard::sched_core::Nanos;

use super::scenario::{BUFFER, Queueing, ROUND_TRIP, Run, Setup, Video, WARM_UP, run};
use crate::experiments::harness::Functions;
use crate::experiments::{Check, Experiment, Report, Row};
use crate::plot::{Chart, Column, Mark, TextTable, percent};

/// The experiment `sim reproduce sqf-video-jitter`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sqf-video-jitter",
    quick: 3,
    about: "SQF-VBR Fig. 8: loss of a video behind SQF with Gaussian delays at its sender, 10 and 100 Mbit/s",
    runs: &Functions { cells, run, report },
};

/// Rates of the link in Mbit/s, and the duration of a run at each.
const RATES: [(u32, Nanos); 2] = [(10, Nanos::from_secs(120)), (100, Nanos::from_secs(10))];
/// The paper does not give the number of downloads.
const DOWNLOADS: [u8; 4] = [1, 2, 3, 5];
/// Standard deviations in milliseconds.
const DEVIATIONS: [u64; 11] = [0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20];
/// Treatment of packets that would overtake others.
const ORDERS: [fn(Nanos) -> Video; 2] = [Video::Late, Video::Overtaking];
/// Mean loss from which on the video has lost its priority.
const LOST: f64 = 0.01;

fn cells() -> Vec<Setup> {
    let mut cells = Vec::new();
    for order in ORDERS {
        for (megabits, measured) in RATES {
            for downloads in DOWNLOADS {
                cells.extend(DEVIATIONS.map(|millis| Setup {
                    queue: Queueing::Sqf,
                    megabits,
                    downloads,
                    round_trip: ROUND_TRIP,
                    video: order(Nanos::from_millis(millis)),
                    measured,
                }));
            }
        }
    }
    cells
}

/// A curve: the cells of one order, rate and number of downloads.
type Curve = [Row<Setup, Run>];

fn loss(row: &Row<Setup, Run>) -> f64 {
    row.mean(|run| run.video.loss)
}

/// Returns the least deviation, in milliseconds, at which the video loses more than [`LOST`].
fn threshold(curve: &Curve) -> Option<u64> {
    let at = curve.iter().position(|row| loss(row) > LOST);
    at.map(|at| DEVIATIONS[at])
}

fn name(curve: &Curve) -> (Video, u32, u8) {
    let Setup { video, megabits, downloads, .. } = curve[0].cell;
    (video, megabits, downloads)
}

fn report(rows: &[Row<Setup, Run>], seeds: u32) -> Report {
    let curves: Vec<&Curve> = rows.chunks(DEVIATIONS.len()).collect();
    let text = format!(
        "\
SQF-VBR Fig. 8: video of 5 Mbit/s at constant rate, each packet delayed by max(0, Gaussian) with standard deviation δ,
behind SQF beside n downloads (the paper does not give n); buffer of {BUFFER} packets
in order: a late packet holds up those behind it; overtaking: it does not, as in Linux's netem
lost packets of the video in %, mean of {seeds} seeds; {} s at 10 Mbit/s and {} s at 100 Mbit/s after {} s

",
        RATES[0].1.0 / 1_000_000_000,
        RATES[1].1.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    );
    Report::new(text)
        .table("loss", &table(&curves))
        .picture("sqf-video-fig8", charts(&curves))
        .checks(checks(&curves))
}

fn table(curves: &[&Curve]) -> TextTable<15> {
    let mut table = TextTable::new([
        Column::Left("packets"),
        Column::Right("Mbit/s"),
        Column::Right("n"),
        Column::Right("δ = 0 ms"),
        Column::Right("1"),
        Column::Right("2"),
        Column::Right("3"),
        Column::Right("4"),
        Column::Right("5"),
        Column::Right("6"),
        Column::Right("8"),
        Column::Right("10"),
        Column::Right("15"),
        Column::Right("20"),
        Column::Right("above 1 % from"),
    ]);
    for curve in curves {
        let (video, megabits, downloads) = name(curve);
        let losses: Vec<String> = curve.iter().map(|row| percent(loss(row), 1)).collect();
        let from = threshold(curve).map_or_else(|| "–".to_owned(), |millis| millis.to_string());
        let [a, b, c, d, e, f, g, h, i, j, k] = &losses[..] else { continue };
        table.row([&video, &megabits, &downloads, a, b, c, d, e, f, g, h, i, j, k, &from]);
    }
    table
}

fn charts(curves: &[&Curve]) -> Vec<Chart> {
    let panel = |of: &[&Curve]| {
        let (video, megabits, _) = name(of[0]);
        let chart = Chart::new(&format!("SQF-VBR Fig. 8, {megabits} Mbit/s, {video}"))
            .x("standard deviation of the delay (ms)")
            .y("lost video (%)")
            .height(330);
        of.iter().fold(chart, |chart, curve| {
            let points = DEVIATIONS.iter().zip(curve.iter());
            let points = points.map(|(&millis, row)| (millis as f64, 100.0 * loss(row)));
            chart.series(&format!("{} downloads", name(curve).2), Mark::Line, points)
        })
    };
    curves.chunks(DOWNLOADS.len()).map(panel).collect()
}

fn checks(curves: &[&Curve]) -> Vec<Check> {
    // One row of thresholds for each order and rate.
    let rows: Vec<Vec<Option<u64>>> = curves
        .chunks(DOWNLOADS.len())
        .map(|curves| curves.iter().map(|curve| threshold(curve)).collect())
        .collect();
    let [slow, fast, slow_overtaking, fast_overtaking] = &rows[..] else { return Vec::new() };
    let told = |row: &[Option<u64>]| {
        let names = row.iter().zip(DOWNLOADS).map(|(from, downloads)| {
            let from = from.map_or_else(|| "none".to_owned(), |millis| format!("{millis} ms"));
            format!("{from} (n = {downloads})")
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let is_near = |from: &Option<u64>| from.is_some_and(|millis| (3..=8).contains(&millis));
    let later = |slow: &[Option<u64>], fast: &[Option<u64>], factor: u64| {
        slow.iter().zip(fast).all(|(slow, fast)| match (slow, fast) {
            (Some(slow), Some(fast)) => *fast >= factor * slow,
            (Some(_), None) | (None, None) => true,
            (None, Some(_)) => false,
        })
    };
    let constant =
        curves.iter().filter_map(|curve| curve.first()).map(|row| row.most(|run| run.video.loss));
    let constant = constant.fold(0.0, f64::max);
    vec![
        Check::new(
            "without delays the video loses nothing at either rate",
            format!("at most {} % in any run", percent(constant, 2)),
            constant < LOST / 10.0,
        ),
        Check::new(
            "at 10 Mbit/s loss appears at 3 to 8 ms (5 ms in the paper) for some number of downloads, in either order",
            format!("in order from {}; overtaking from {}", told(slow), told(slow_overtaking)),
            slow.iter().any(is_near) && slow_overtaking.iter().any(is_near),
        ),
        Check::differs(
            "at 10 Mbit/s loss appears at 3 to 8 ms for all numbers of downloads",
            &format!(
                "the threshold of {BUFFER} / (n + 1) packets falls with n, and so does the delay that reaches it"
            ),
            format!("in order from {}", told(slow)),
            slow.iter().all(is_near),
        ),
        Check::new(
            "at 100 Mbit/s it appears at no smaller deviation; if packets overtake, at twice the deviation or never",
            format!("in order from {}; overtaking from {}", told(fast), told(fast_overtaking)),
            later(slow, fast, 1) && later(slow_overtaking, fast_overtaking, 2),
        ),
        Check::differs(
            "in order it appears at 100 Mbit/s at twice the deviation or more for all numbers of downloads",
            "a packet that is late by d releases the packets of d at once; a faster link drains this burst faster, but the burst is as long",
            format!("{} instead of {}", told(fast), told(slow)),
            later(slow, fast, 2),
        ),
        Check::accounted_for(
            "runs",
            curves
                .iter()
                .flat_map(|curve| curve.iter())
                .flat_map(|row| &row.runs)
                .map(|run| run.balanced),
        ),
    ]
}
