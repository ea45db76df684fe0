//! The peak rate of a video from which on SQF fails it, which the paper does not give.

use freeboard::sched_core::Nanos;

use super::scenario::{BUFFER, Queueing, ROUND_TRIP, Run, Setup, Video, WARM_UP, run};
use crate::experiments::harness::Functions;
use crate::experiments::{Check, Experiment, Report, Row};
use crate::plot::{Chart, Column, Mark, TextTable, fixed, percent};

/// The experiment `sim reproduce sqf-video-peak`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sqf-video-peak",
    quick: 2,
    about: "SQF-VBR §V: loss of a video behind SQF by its peak rate, beside downloads",
    runs: &Functions { cells, run, report },
};

/// Peak rates of the payload in kbit/s, and numbers of downloads.
const PEAKS: [u64; 12] =
    [5_500, 6_000, 6_500, 7_000, 7_500, 8_000, 8_500, 9_000, 9_500, 10_000, 12_000, 15_000];
const BESIDE: [u8; 4] = [1, 5, 10, 20];
/// Duration, as in the paper.
const MEASURED: Nanos = Nanos::from_secs(600);
/// A video that loses more in a run has lost its priority.
const LOST: f64 = 0.01;

type Cell = Row<Setup, Run>;

fn cells() -> Vec<Setup> {
    let cell = |downloads, peak| Setup {
        queue: Queueing::Sqf,
        megabits: 10,
        downloads,
        round_trip: ROUND_TRIP,
        video: Video::Peak(peak),
        measured: MEASURED,
    };
    BESIDE.into_iter().flat_map(|downloads| PEAKS.map(|peak| cell(downloads, peak))).collect()
}

fn loss(row: &Cell) -> f64 {
    row.mean(|run| run.video.loss)
}

fn report(rows: &[Cell], seeds: u32) -> Report {
    let text = format!(
        "\
SQF-VBR §V: a video of 5 Mbit/s behind SQF beside n CUBIC downloads, by its peak rate, which the paper does not give
10 Mbit/s Ethernet, buffer of {BUFFER} packets; MPEG-2 frames as in sqf-video-testbed, each sent at the peak rate from
its beginning on; peak: rate of payload; lost video in %, mean; in brackets the runs of {seeds} with more than 1 %
{} s after {} s

",
        MEASURED.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    );
    Report::new(text)
        .table("loss", &table(rows))
        .picture("sqf-video-peak", chart(rows))
        .checks(checks(rows))
}

fn table(rows: &[Cell]) -> TextTable<5> {
    let mut table = TextTable::new([
        Column::Right("peak, Mbit/s"),
        Column::Right("n = 1"),
        Column::Right("5"),
        Column::Right("10"),
        Column::Right("20"),
    ]);
    let curves: Vec<&[Cell]> = rows.chunks(PEAKS.len()).collect();
    let cell = |row: &Cell| {
        let runs = row.runs.iter().filter(|run| run.video.loss > LOST).count();
        format!("{} ({runs})", percent(loss(row), 2))
    };
    for (at, &peak) in PEAKS.iter().enumerate() {
        let cells: Vec<String> = curves.iter().map(|curve| cell(&curve[at])).collect();
        let [a, b, c, d] = &cells[..] else { continue };
        table.row([&fixed(peak as f64 / 1e3, 1), a, b, c, d]);
    }
    table
}

fn chart(rows: &[Cell]) -> Chart {
    let chart = Chart::new("SQF: loss of the video by its peak rate")
        .x("peak rate of the payload (Mbit/s)")
        .y("lost video (%)");
    rows.chunks(PEAKS.len()).fold(chart, |chart, curve| {
        let points = PEAKS.iter().zip(curve);
        let points = points.map(|(&peak, row)| (peak as f64 / 1e3, 100.0 * loss(row)));
        chart.series(&format!("{} downloads", curve[0].cell.downloads), Mark::Line, points)
    })
}

fn checks(rows: &[Cell]) -> Vec<Check> {
    let curves: Vec<&[Cell]> = rows.chunks(PEAKS.len()).collect();
    let first = |curve: &[Cell]| {
        let at = curve.iter().position(|row| row.most(|run| run.video.loss) > LOST);
        at.map(|at| PEAKS[at])
    };
    let told = curves.iter().zip(BESIDE).map(|(curve, downloads)| {
        let from = first(curve).map_or_else(
            || format!("none up to {} Mbit/s", fixed(PEAKS[PEAKS.len() - 1] as f64 / 1e3, 1)),
            |peak| format!("{} Mbit/s", fixed(peak as f64 / 1e3, 1)),
        );
        format!("{from} (n = {downloads})")
    });
    // The payload of a link that is full of video: 1,316 bytes of 1,382 on Ethernet.
    let capacity = 10_000.0 * 1_316.0 / f64::from(1_316 + 28 + 38);
    let is_free = curves.iter().all(|curve| first(curve).is_none_or(|peak| peak as f64 > capacity));
    vec![
        Check::differs(
            "§IV-A: a peak rate below that of the link keeps the priority",
            "two packets arrive together where frames meet, and beside many downloads, whose queues are unequal, two packets are not the shortest queue",
            format!(
                "the link carries {} Mbit/s of video; more than 1 % lost in some run from a peak of {}",
                fixed(capacity / 1e3, 1),
                told.collect::<Vec<_>>().join(", ")
            ),
            is_free,
        ),
        Check::accounted_for("runs", rows.iter().flat_map(|row| &row.runs).map(|run| run.balanced)),
    ]
}
