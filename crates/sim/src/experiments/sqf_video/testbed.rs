//! Fig. 6 (loss), Fig. 7 (jitter) and Table I (goodput) of the test-bed, for a video of constant
//! and one of variable rate.

use freeboard::sched_core::Nanos;

use super::scenario::{BUFFER, Queueing, ROUND_TRIP, Run, Setup, Video, WARM_UP, run};
use crate::experiments::harness::Functions;
use crate::experiments::{Experiment, Report, Row};
use crate::plot::Column::{Left, Right};
use crate::plot::{Chart, Mark, TextTable, fixed, percent};

mod checks;

/// The experiment `sim reproduce sqf-video-testbed`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sqf-video-testbed",
    quick: 2,
    about: "SQF-VBR Figs. 6, 7 and Table I: a video and its audio beside downloads, FIFO, FQ, SQF",
    runs: &Functions { cells, run, report },
};

const QUEUES: [Queueing; 4] = [Queueing::Fifo, Queueing::Fq, Queueing::Sqf, Queueing::Smart];
/// Numbers of downloads in Table I.
const DOWNLOADS: [u8; 5] = [1, 5, 10, 15, 20];
const VIDEOS: [Video; 2] = [Video::Constant, Video::Frames];
/// Other round-trip times, for FIFO.
const ROUND_TRIPS: [Nanos; 2] = [Nanos::from_millis(1), Nanos::from_millis(10)];
/// Duration, as in the paper.
const MEASURED: Nanos = Nanos::from_secs(600);

fn cells() -> Vec<Setup> {
    let cell = |queue, downloads, video| Setup {
        queue,
        megabits: 10,
        downloads,
        round_trip: ROUND_TRIP,
        video,
        measured: MEASURED,
    };
    let mut cells = Vec::new();
    for video in VIDEOS {
        for queue in QUEUES {
            cells.extend(DOWNLOADS.map(|downloads| cell(queue, downloads, video)));
        }
    }
    for round_trip in ROUND_TRIPS {
        for video in VIDEOS {
            cells.extend(
                [1, 20].map(|downloads| Setup {
                    round_trip,
                    ..cell(Queueing::Fifo, downloads, video)
                }),
            );
        }
    }
    cells
}

type Cell = Row<Setup, Run>;

impl Cell {
    fn video(&self) -> f64 {
        self.mean(|run| run.video.loss)
    }

    fn audio(&self) -> f64 {
        self.mean(|run| run.audio.loss)
    }

    /// Returns the mean of a stream's jitter, mean or 99th percentile, over the runs that have one.
    fn jitter(&self, of: impl Fn(&Run) -> Option<[f64; 2]>, at: usize) -> f64 {
        let values: Vec<f64> = self.runs.iter().filter_map(of).map(|both| both[at]).collect();
        crate::measure::estimate::mean(&values).unwrap_or(f64::NAN)
    }

    /// Returns the 99th percentile of the jitter of the video and of the audio, in milliseconds.
    fn late(&self) -> [f64; 2] {
        [self.jitter(|run| run.video.jitter, 1), self.jitter(|run| run.audio.jitter, 1)]
    }

    fn data(&self) -> f64 {
        self.mean(|run| run.data)
    }

    /// Returns the mean of Jain's index.
    fn jain(&self) -> f64 {
        self.mean(|run| run.jain.unwrap_or(f64::NAN))
    }
}

/// Rows of the report by part.
struct Results<'a> {
    /// Fig. 6, Fig. 7 and Table I.
    main: &'a [Cell],
    round_trips: &'a [Cell],
}

impl<'a> Results<'a> {
    fn new(rows: &'a [Cell]) -> Self {
        let (main, round_trips) = rows.split_at(VIDEOS.len() * QUEUES.len() * DOWNLOADS.len());
        Self { main, round_trips }
    }

    /// Returns the rows of one queue and video, in order of downloads.
    fn of(&self, queue: Queueing, video: Video) -> Vec<&'a Cell> {
        let is = |row: &&Cell| row.cell.queue == queue && row.cell.video == video;
        self.main.iter().filter(is).collect()
    }
}

fn report(rows: &[Cell], seeds: u32) -> Report {
    let results = Results::new(rows);
    let text = format!(
        "\
SQF-VBR §V: a video of 5 Mbit/s and its audio of 64 kbit/s beside n CUBIC downloads, to one client
10 Mbit/s Ethernet, buffer of {BUFFER} packets, {} ms there and back; {} s after {} s, {seeds} seeds
constant: the video has a constant rate; frames: MPEG-2 frames, I : P : B as 5 : 3 : 1, of random sizes, each sent
evenly over its 40 ms, so that I frames have 13.6 Mbit/s in the mean
FIFO: tail drop; FQ: DRR, the longest queue is dropped from; SmartQueue: as assembled for a download, COBALT
jitter: absolute delay variation (RFC 3393) in ms, mean and 99th percentile; –: no two consecutive packets arrived
lost: packets in %, and the most of any run; data: goodput of all downloads in Mbit/s; Jain: of their goodputs

",
        fixed(ROUND_TRIP.0 as f64 / 1e6, 1),
        MEASURED.0 / 1_000_000_000,
        WARM_UP.0 / 1_000_000_000,
    );
    let loss = |row: &Cell| [row.video(), row.audio()].map(|loss| 100.0 * loss);
    Report::new(text)
        .table("queues", &main_table(results.main))
        .with_text("\nFIFO with longer round trips\n\n")
        .table("round-trips", &round_trip_table(results.round_trips))
        .picture("sqf-video-fig6", panels(&results, "Fig. 6", "lost (%)", loss))
        .picture("sqf-video-fig7", panels(&results, "Fig. 7", "jitter, p99 (ms)", Cell::late))
        .checks(checks::checks(&results))
}

fn main_table(rows: &[Cell]) -> TextTable<12> {
    TextTable::of(
        rows,
        [
            (Left("video"), &|row| row.cell.video.to_string()),
            (Left("queue"), &|row| row.cell.queue.to_string()),
            (Right("n"), &|row| row.cell.downloads.to_string()),
            (Right("video lost"), &|row| percent(row.video(), 2)),
            (Right("most"), &|row| percent(row.most(|run| run.video.loss), 2)),
            (Right("jitter"), &|row| fixed(row.jitter(|run| run.video.jitter, 0), 2)),
            (Right("p99"), &|row| fixed(row.late()[0], 2)),
            (Right("audio lost"), &|row| percent(row.audio(), 2)),
            (Right("jitter"), &|row| fixed(row.jitter(|run| run.audio.jitter, 0), 2)),
            (Right("p99"), &|row| fixed(row.late()[1], 2)),
            (Right("data"), &|row| fixed(row.data(), 2)),
            (Right("Jain"), &|row| fixed(row.jain(), 3)),
        ],
    )
}

fn round_trip_table(rows: &[Cell]) -> TextTable<6> {
    TextTable::of(
        rows,
        [
            (Right("RTT, ms"), &|row| (row.cell.round_trip.0 / 1_000_000).to_string()),
            (Left("video"), &|row| row.cell.video.to_string()),
            (Right("n"), &|row| row.cell.downloads.to_string()),
            (Right("video lost"), &|row| percent(row.video(), 2)),
            (Right("audio lost"), &|row| percent(row.audio(), 2)),
            (Right("data"), &|row| fixed(row.data(), 2)),
        ],
    )
}

/// Draws a panel for each video and stream, with a line for each queue.
fn panels(
    results: &Results<'_>,
    figure: &str,
    y: &str,
    value: impl Fn(&Cell) -> [f64; 2],
) -> Vec<Chart> {
    let mut charts = Vec::new();
    for video in VIDEOS {
        for (at, stream) in ["video", "audio"].into_iter().enumerate() {
            let chart =
                Chart::new(&format!("SQF-VBR {figure}: {stream}, video of {}", shape(video)))
                    .x("downloads")
                    .y(y)
                    .height(330);
            charts.push(QUEUES.into_iter().fold(chart, |chart, queue| {
                let rows = results.of(queue, video).into_iter();
                let points = rows.map(|row| (row.cell.downloads.into(), value(row)[at]));
                chart.series(&queue.to_string(), Mark::Line, points)
            }));
        }
    }
    charts
}

const fn shape(video: Video) -> &'static str {
    if matches!(video, Video::Constant) { "constant rate" } else { "frames" }
}
