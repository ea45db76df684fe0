//! Numbers of RFC 8289, RFC 8033 and the RED paper.

use freeboard::sched_core::Nanos;

use super::line::Line;
use super::{RED, RFC_8033, RFC_8289};
use crate::aqm::pie::{self, Series};
use crate::aqm::{red, standing};
use crate::plot::{CellOf, Column, TextTable, fixed, percent};

const INTERVAL: Nanos = Nanos::from_millis(100);
/// Maximum relative error of `interval / √n`.
const NEAR: f64 = 0.005;
/// Largest `n` examined.
const MOST: u32 = 65_535;

/// Number of packets in a burst into RED's empty queue.
const BURST: u32 = 50;

/// Creates a table of the numbers 0 to 11.
fn twelve<const N: usize>(columns: [(Column, CellOf<'_, usize>); N]) -> TextTable<N> {
    TextTable::of(&Vec::from_iter(0..12), columns)
}

pub(super) fn law_table() -> TextTable<4> {
    let [(_, codel), (_, cobalt)] = standing::schedules(INTERVAL, 11);
    let ms = |schedule: &[u64], at: usize| fixed((schedule[at] - schedule[0]) as f64 / 1e6, 3);
    twelve([
        (Column::Right("signal"), &|at| at.to_string()),
        (Column::Right("printed, ms"), &|&at| fixed(standing::PUBLISHED[at], 3)),
        (Column::Right("CoDel"), &|&at| ms(&codel, at)),
        (Column::Right("COBALT"), &|&at| ms(&cobalt, at)),
    ])
}

/// Compares the control law of CoDel and COBALT with RFC 8289.
pub(super) fn law() -> Vec<Line> {
    let mut lines = Vec::new();
    let whats =
        ["CoDel: 12 signals, after the first", "COBALT: 11 signals, after the queue stands"];
    for (what, (_, schedule)) in whats.into_iter().zip(standing::schedules(INTERVAL, 11)) {
        let off = standing::off_published(&schedule);
        let ours = format!("within {} µs", fixed(off / 1e3, 1));
        // The table is rounded to a microsecond, a time to a nanosecond.
        lines.push(Line::judged(RFC_8289, what, "within 0.5 µs", ours, off <= 501.0));
    }
    for interval in [Nanos::from_millis(1), INTERVAL, Nanos((1 << 33) - 1)] {
        for (name, schedule) in standing::schedules(interval, MOST) {
            let off = standing::error(&schedule, interval);
            let ms = fixed(interval.0 as f64 / 1e6, 0);
            let what = format!("{name}: n = 1 to {MOST}, interval {ms} ms");
            let expected = format!("interval/√n within {} %", percent(NEAR, 1));
            let ours = format!("within {} %", percent(off, 5));
            lines.push(Line::judged(RFC_8289, what, expected, ours, off <= NEAR));
        }
    }
    lines
}

pub(super) fn probability_table() -> TextTable<5> {
    let [fast, slow] = Series::PUBLISHED.map(|series| {
        let text = |p: Vec<f64>| Vec::from_iter(p.iter().map(|&p| fixed(p, series.decimals)));
        [text(series.printed()), text(series.measured())]
    });
    twelve([
        (Column::Right("update"), &|at| (at + 1).to_string()),
        (Column::Right("50 ms, printed"), &|&at| fast[0][at].clone()),
        (Column::Right("PIE"), &|&at| fast[1][at].clone()),
        (Column::Right("300 ms, printed"), &|&at| slow[0][at].clone()),
        (Column::Right("PIE"), &|&at| slow[1][at].clone()),
    ])
}

/// Compares the drop probability of PIE, and distances between its signals, with RFC 8033.
pub(super) fn probability() -> Vec<Line> {
    let series = Series::PUBLISHED.map(|series| {
        let what = format!("PIE: p of a delay of {} ms", series.delay.0 / 1_000_000);
        let expected = format!("12 of 12 to {} digits", series.decimals);
        let near = series.near();
        Line::judged(RFC_8033, what, expected, format!("{near} of 12"), near == 12)
    });
    let pie::Distances { probability, least, most } = pie::distances();
    let [closest, farthest] = [0.85, 8.5].map(|sum| libm::ceil(sum / probability));
    let distances = Line::judged(
        RFC_8033,
        format!("PIE: arrivals to the next one told, p = {}", fixed(probability, 4)),
        format!("{} to {}", fixed(closest, 0), fixed(farthest, 0)),
        format!("{least} to {most}"),
        f64::from(least) >= closest && f64::from(most) <= farthest && least < most,
    );
    series.into_iter().chain([distances]).collect()
}

/// Compares RED's average, and distances between its signals, with its paper.
pub(super) fn red() -> Vec<Line> {
    let averages = [7, 8, 9].map(|weight| {
        let what = format!("RED: average after a burst of {BURST}, w = 2^-{weight}");
        let exact = red::published_average(BURST, weight);
        let ours = red::average_after(BURST, weight);
        Line::judged(RED, what, fixed(exact, 2), fixed(ours, 2), (ours - exact).abs() <= 0.005)
    });
    let red::Distances { least, most, mean } = red::distances(10_000_000);
    let distances = Line::judged(
        RED,
        "RED: arrivals to the next one told, p = 0.01",
        "1 to 100, mean 50.5",
        format!("{least} to {most}, mean {}", fixed(mean, 1)),
        least == 1 && most == 100 && (mean - 50.5).abs() <= 0.2,
    );
    averages.into_iter().chain([distances]).collect()
}
