//! Checks of the test-bed against the paper's figures.

use super::{Cell, DOWNLOADS, Results, VIDEOS};
use crate::experiments::Check;
use crate::experiments::sqf_video::scenario::{Queueing, Video};
use crate::plot::{fixed, percent};

/// Table I: goodput of the downloads in Mbit/s, for 1, 5, 10, 15 and 20 of them.
const FIFO: [f64; 5] = [4.1, 4.4, 4.8, 5.1, 5.6];
const FQ: [f64; 5] = [4.1, 7.5, 8.5, 8.9, 9.1];
const SQF: [f64; 5] = [4.1; 5];

fn list(values: impl Iterator<Item = f64>, decimals: usize) -> String {
    values.map(|value| fixed(value, decimals)).collect::<Vec<_>>().join(", ")
}

/// Returns the maximum relative difference from the paper's goodput.
fn off(rows: &[&Cell], paper: &[f64]) -> f64 {
    let pairs = rows.iter().zip(paper);
    pairs.map(|(row, paper)| (row.data() / paper - 1.0).abs()).fold(0.0, f64::max)
}

fn data(rows: &[&Cell]) -> String {
    format!("{} Mbit/s", list(rows.iter().map(|row| row.data()), 2))
}

/// Returns the part of the video that fair queueing loses if each of n + 1 flows has an equal share
/// of what the audio leaves: 99.5 kbit/s of 10 Mbit/s. The video has 5.296 Mbit/s on the link.
fn fair_loss(downloads: u8) -> f64 {
    1.0 - (10.0 - 0.0995) / f64::from(downloads + 1) / 5.296
}

/// Returns the correlation of the loss of audio with the number of downloads.
fn correlation(rows: &[&Cell]) -> f64 {
    let points: Vec<(f64, f64)> =
        rows.iter().map(|row| (row.cell.downloads.into(), row.audio())).collect();
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let sum = |value: &dyn Fn(f64, f64) -> f64| {
        points.iter().map(|&(x, y)| value(x - mean_x, y - mean_y)).sum::<f64>()
    };
    sum(&|x, y| x * y) / libm::sqrt(sum(&|x, _| x * x) * sum(&|_, y| y * y))
}

/// Returns all checks.
pub(super) fn checks(results: &Results<'_>) -> Vec<Check> {
    let mut checks = fifo(results);
    checks.extend(fair(results));
    checks.extend(shortest(results));
    let rows = [results.main, results.round_trips].into_iter().flatten();
    checks
        .push(Check::accounted_for("runs", rows.flat_map(|row| &row.runs).map(|run| run.balanced)));
    checks
}

fn fifo(results: &Results<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for video in VIDEOS {
        let rows = results.of(Queueing::Fifo, video);
        let last = rows[rows.len() - 1].audio();
        let losses = list(rows.iter().map(|row| 100.0 * row.audio()), 1);
        let correlation = correlation(&rows);
        checks.push(Check::new(format!("FIFO, {video}: audio loses about 1 % beside one download and 15 to 35 % beside 20, in a line (correlation at least 0.95)"), format!("{losses} %, correlation {}", fixed(correlation, 3)), rows[0].audio() < 0.05 && (0.15..=0.35).contains(&last) && correlation >= 0.95));
        let off = off(&rows, &FIFO);
        let rises = rows.windows(2).all(|pair| pair[0].data() <= pair[1].data());
        checks.push(Check::new(format!("FIFO, {video}: the data of Table I to 20 %, more with more downloads, Jain's index at least 0.9"), format!("{}, at most {} % off", data(&rows), percent(off, 1)), off <= 0.2 && rises && rows.iter().all(|row| row.jain() >= 0.9)));
    }
    checks
}

fn fair(results: &Results<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for video in VIDEOS {
        let rows = results.of(Queueing::Fq, video);
        let many = &rows[1..];
        let points = many.iter().map(|row| (row.video() - fair_loss(row.cell.downloads)).abs());
        let points = points.fold(0.0, f64::max);
        let audio = rows.iter().map(|row| row.audio()).fold(0.0, f64::max);
        checks.push(Check::new(format!("FQ, {video}: with 5 and more downloads the video loses all beyond its share, to 6 points, and the audio below 0.5 %"), format!(
                "{} %, at most {} points off; audio at most {} %",
                list(many.iter().map(|row| 100.0 * row.video()), 1),
                percent(points, 1),
                percent(audio, 2)
            ), points <= 0.06 && audio < 0.005));
        let off = off(many, &FQ[1..]);
        checks.push(Check::new(format!("FQ, {video}: the data of Table I with 5 and more downloads to 8 %, Jain's index at least 0.9"), format!("{}, at most {} % off", data(many), percent(off, 1)), off <= 0.08 && rows.iter().all(|row| row.jain() >= 0.9)));
        let jitter = [rows[0].late(), rows[rows.len() - 1].late()];
        let flows = f64::from(DOWNLOADS[4] - DOWNLOADS[0]);
        let [video_slope, audio_slope] = [0, 1].map(|at| (jitter[1][at] - jitter[0][at]) / flows);
        checks.push(Check::new(format!("FQ, {video}: jitter of both streams grows by one packet, 1.2 ms to 30 %, with each download"), format!("p99 of the video by {} ms, of the audio by {} ms", fixed(video_slope, 2), fixed(audio_slope, 2)), [video_slope, audio_slope].iter().all(|slope| (0.84..=1.56).contains(slope))));
    }
    let one = results.of(Queueing::Fq, Video::Constant)[0];
    checks.push(Check::differs(
        "FQ: 4.1 Mbit/s of data beside one download, to 8 %",
        "the fair half of the link, without headers, is 4.66 Mbit/s, and the video does not leave more",
        format!("{} Mbit/s", fixed(one.data(), 2)),
        (one.data() / FQ[0] - 1.0).abs() <= 0.08,
    ));
    checks
}

fn shortest(results: &Results<'_>) -> Vec<Check> {
    let rows = results.of(Queueing::Sqf, Video::Constant);
    let most =
        |of: fn(&Cell) -> f64, rows: &[&Cell]| rows.iter().map(|row| of(row)).fold(0.0, f64::max);
    let lost = |row: &Cell| row.most(|run| run.video.loss.max(run.audio.loss));
    let apart = |rows: &[&Cell]| {
        let off = rows.iter().map(|row| (row.data() / rows[0].data() - 1.0).abs());
        off.fold(0.0, f64::max)
    };
    let off_paper = off(&rows, &SQF);
    let late = |row: &Cell| row.late().into_iter().fold(0.0, f64::max);
    let jain = rows.iter().map(|row| row.jain()).fold(1.0, f64::min);
    let frames = results.of(Queueing::Sqf, Video::Frames);
    let worst = frames[1..].iter().map(|row| row.least(|run| run.video.loss)).fold(1.0, f64::min);
    let audio = most(|row| row.most(|run| run.audio.loss), &frames);
    vec![
        Check::new(
            "SQF, constant: neither stream loses 0.5 % in any run",
            format!("at most {} %", percent(most(lost, &rows), 2)),
            most(lost, &rows) < 0.005,
        ),
        Check::new(
            "SQF, constant: jitter is small for any number of downloads, at most 4 ms (p99)",
            format!("at most {} ms", fixed(most(late, &rows), 2)),
            most(late, &rows) <= 4.0,
        ),
        Check::new(
            "SQF, constant: 4.1 Mbit/s of data to 8 %, Jain's index at least 0.85",
            format!(
                "{}, at most {} % off; Jain {}",
                data(&rows),
                percent(off_paper, 1),
                fixed(jain, 3)
            ),
            off_paper <= 0.08 && jain >= 0.85,
        ),
        Check::differs(
            "SQF, constant: as much data for all n, to 3 %",
            "beside 15 downloads one has nothing (Jain 14/15), and the link is not always busy",
            format!("up to {} % from one download", percent(apart(&rows), 1)),
            apart(&rows) <= 0.03,
        ),
        Check::new(
            "SQF, frames: the audio loses below 0.5 % in any run",
            format!("at most {} %", percent(audio, 2)),
            audio < 0.005,
        ),
        Check::differs(
            "SQF, frames: the video loses below 0.5 %",
            "an I frame arrives faster than the link sends; once the video has the longest queue, downloads that stay shorter take the link, and it does not recover",
            format!("at least {} % in any run with 5 and more downloads", percent(worst, 1)),
            frames.iter().all(|row| row.video() < 0.005),
        ),
    ]
}
