//! Checks of the test-bed against the paper's figures.

use super::{Cell, DOWNLOADS, Results, VIDEOS};
use crate::experiments::Check;
use crate::experiments::sqf_video::scenario::{Queueing, Video};
use crate::measure::estimate::correlation;
use crate::plot::{fixed, percent};

/// Table I: goodput of the downloads in Mbit/s, for 1, 5, 10, 15 and 20 of them.
const FIFO: [f64; 5] = [4.1, 4.4, 4.8, 5.1, 5.6];
const FQ: [f64; 5] = [4.1, 7.5, 8.5, 8.9, 9.1];
const SQF: [f64; 5] = [4.1; 5];

fn list(values: impl Iterator<Item = f64>, decimals: usize) -> String {
    values.map(|value| fixed(value, decimals)).collect::<Vec<_>>().join(", ")
}

fn most(rows: &[&Cell], value: impl Fn(&Cell) -> f64) -> f64 {
    rows.iter().map(|row| value(row)).fold(0.0, f64::max)
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

/// Returns all checks.
pub(super) fn checks(results: &Results<'_>) -> Vec<Check> {
    let mut checks = fifo(results);
    checks.extend(fair(results));
    checks.extend(shortest(results));
    let rows = [results.main, results.round_trips].into_iter().flatten();
    let runs = rows.flat_map(|row| &row.runs);
    checks.push(Check::accounted_for("runs", runs.map(|run| run.balanced)));
    checks
}

fn fifo(results: &Results<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for video in VIDEOS {
        let rows = results.of(Queueing::Fifo, video);

        let claim = format!(
            "FIFO, {video}: audio loses about 1 % beside one download and 15 to 35 % beside 20, in a line (correlation at least 0.95)"
        );
        let last = rows[rows.len() - 1].audio();
        let losses = list(rows.iter().map(|row| 100.0 * row.audio()), 1);
        let points = rows.iter().map(|row| (row.cell.downloads.into(), row.audio()));
        let correlation = correlation(points);
        let measured = format!("{losses} %, correlation {}", fixed(correlation, 3));
        let is_low = rows[0].audio() < 0.05 && (0.15..=0.35).contains(&last);
        checks.push(Check::new(claim, measured, is_low && correlation >= 0.95));

        let claim = format!(
            "FIFO, {video}: the data of Table I to 20 %, more with more downloads, Jain's index at least 0.9"
        );
        let off = off(&rows, &FIFO);
        let rises = rows.windows(2).all(|pair| pair[0].data() <= pair[1].data());
        let is_fair = rows.iter().all(|row| row.jain() >= 0.9);
        let measured = format!("{}, at most {} % off", data(&rows), percent(off, 1));
        checks.push(Check::new(claim, measured, off <= 0.2 && rises && is_fair));
    }
    checks
}

fn fair(results: &Results<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for video in VIDEOS {
        let rows = results.of(Queueing::Fq, video);
        let many = &rows[1..];

        let claim = format!(
            "FQ, {video}: with 5 and more downloads the video loses all beyond its share, to 6 points, and the audio below 0.5 %"
        );
        let points = most(many, |row| (row.video() - fair_loss(row.cell.downloads)).abs());
        let audio = most(&rows, Cell::audio);
        let losses = list(many.iter().map(|row| 100.0 * row.video()), 1);
        let [beyond, lost] = [percent(points, 1), percent(audio, 2)];
        let measured = format!("{losses} %, at most {beyond} points off; audio at most {lost} %");
        checks.push(Check::new(claim, measured, points <= 0.06 && audio < 0.005));

        let claim = format!(
            "FQ, {video}: the data of Table I with 5 and more downloads to 8 %, Jain's index at least 0.9"
        );
        let off = off(many, &FQ[1..]);
        let measured = format!("{}, at most {} % off", data(many), percent(off, 1));
        let is_fair = rows.iter().all(|row| row.jain() >= 0.9);
        checks.push(Check::new(claim, measured, off <= 0.08 && is_fair));

        let claim = format!(
            "FQ, {video}: jitter of both streams grows by one packet, 1.2 ms to 30 %, with each download"
        );
        let [first, last] = [rows[0].late(), rows[rows.len() - 1].late()];
        let flows = f64::from(DOWNLOADS[4] - DOWNLOADS[0]);
        let slopes = [0, 1].map(|at| (last[at] - first[at]) / flows);
        let [video, audio] = slopes.map(|slope| fixed(slope, 2));
        let measured = format!("p99 of the video by {video} ms, of the audio by {audio} ms");
        let holds = slopes.iter().all(|slope| (0.84..=1.56).contains(slope));
        checks.push(Check::new(claim, measured, holds));
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
    let mut checks = Vec::new();

    let claim = "SQF, constant: neither stream loses 0.5 % in any run";
    let lost = most(&rows, |row| row.most(|run| run.video.loss.max(run.audio.loss)));
    checks.push(Check::new(claim, format!("at most {} %", percent(lost, 2)), lost < 0.005));

    let claim = "SQF, constant: jitter is small for any number of downloads, at most 4 ms (p99)";
    let late = most(&rows, |row| row.late().into_iter().fold(0.0, f64::max));
    checks.push(Check::new(claim, format!("at most {} ms", fixed(late, 2)), late <= 4.0));

    let claim = "SQF, constant: 4.1 Mbit/s of data to 8 %, Jain's index at least 0.85";
    let off = off(&rows, &SQF);
    let jain = rows.iter().map(|row| row.jain()).fold(1.0, f64::min);
    let (data, off_percent) = (data(&rows), percent(off, 1));
    let measured = format!("{data}, at most {off_percent} % off; Jain {jain:.3}");
    checks.push(Check::new(claim, measured, off <= 0.08 && jain >= 0.85));

    let claim = "SQF, constant: as much data for all n, to 3 %";
    let why = "beside 15 downloads one has nothing (Jain 14/15), and the link is not always busy";
    let apart = most(&rows, |row| (row.data() / rows[0].data() - 1.0).abs());
    let measured = format!("up to {} % from one download", percent(apart, 1));
    checks.push(Check::differs(claim, why, measured, apart <= 0.03));

    let rows = results.of(Queueing::Sqf, Video::Frames);
    let claim = "SQF, frames: the audio loses below 0.5 % in any run";
    let audio = most(&rows, |row| row.most(|run| run.audio.loss));
    checks.push(Check::new(claim, format!("at most {} %", percent(audio, 2)), audio < 0.005));

    let claim = "SQF, frames: the video loses below 0.5 %";
    let why = "an I frame arrives faster than the link sends; once the video has the longest queue, downloads that stay shorter take the link, and it does not recover";
    let least = rows[1..].iter().map(|row| row.least(|run| run.video.loss)).fold(1.0, f64::min);
    let least = percent(least, 1);
    let measured = format!("at least {least} % in any run with 5 and more downloads");
    let is_so = rows.iter().all(|row| row.video() < 0.005);
    checks.push(Check::differs(claim, why, measured, is_so));
    checks
}
