//! Checks that stock flent and tshark read the recordings of the simulator.
//!
//! Flent comes from the package index into `target/flent`. Of a run with RRUL and of one without,
//! it has to print a summary with all series, and to draw all of them; tshark has to find the
//! comments of the packets.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::publish::skip;
use crate::run::{has, output, root};
use crate::sweep::{empty_folder, simulator};

/// The newest versions with which flent 2.3 draws.
const INSTALL: &str = "python3 -m venv target/flent && \
                       target/flent/bin/pip install flent 'matplotlib==3.8.4' 'numpy<2'";

/// Bytes of the smallest picture with curves; an empty one is smaller.
const PICTURE: u64 = 10_000;

/// Traffic of a file, and the series that flent has of it.
const TESTS: [(&str, &str, &[&str]); 2] = [
    (
        "rrul",
        "rrul.test = {}",
        &[
            "Ping (ms) ICMP",
            "Ping (ms) UDP BE",
            "Ping (ms) UDP BK",
            "Ping (ms) UDP EF",
            "Ping (ms) avg",
            "TCP download BE",
            "TCP download BK",
            "TCP download CS5",
            "TCP download EF",
            "TCP download avg",
            "TCP download sum",
            "TCP totals",
            "TCP upload BE",
            "TCP upload BK",
            "TCP upload CS5",
            "TCP upload EF",
            "TCP upload avg",
            "TCP upload sum",
        ],
    ),
    (
        "rrul_be_nflows",
        "bulk.backup = { direction = \"both\", count = 2 }\ncall.phone = {}",
        &[
            "Ping (ms) ICMP",
            "Ping (ms) avg",
            "TCP download BE::1",
            "TCP download BE::2",
            "TCP download avg",
            "TCP download sum",
            "TCP totals",
            "TCP upload BE::1",
            "TCP upload BE::2",
            "TCP upload avg",
            "TCP upload sum",
        ],
    ),
];

pub(crate) fn run() -> Result<(), String> {
    let flent = root().join("target/flent/bin/flent");
    let (draws, reads) = (flent.exists(), has("tshark"));
    if !draws {
        skip("recordings for flent", "flent", INSTALL)?;
    }
    if !reads {
        skip("recordings for Wireshark", "tshark", "apt-get install tshark")?;
    }
    if !(draws || reads) {
        return Ok(());
    }
    let sim = simulator()?;
    let folder = empty_folder("recordings")?;
    for (test, traffic, series) in TESTS {
        let file = folder.join(format!("{test}.toml"));
        let text = format!(
            "title = \"recording\"\nseeds = 1\nwarm-up = \"1s\"\nduration = \"20s\"\n\
             queue = \"smart diffserv4\"\nlink = {{ up = \"10mbit\", round-trip = \"40ms\" }}\n\
             {traffic}\n"
        );
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let out = folder.join(test);
        let mut record = Command::new(&sim);
        record.arg("run").arg(&file).args(["--flent", "--pcapng", "--out"]).arg(&out);
        output("recording", &mut record)?;
        if draws {
            draw(&flent, test, series, &out)?;
        }
        if reads {
            read(test, &out)?;
        }
    }
    Ok(())
}

fn draw(flent: &Path, test: &str, series: &[&str], out: &Path) -> Result<(), String> {
    let data = out.join("recording-1.flent.gz");
    let flent = || {
        let mut command = Command::new(flent);
        command.arg("--input").arg(&data);
        command
    };
    let summary = output("flent's summary", flent().args(["--format", "summary"]))?;
    let title = format!("Summary of {test} test run from");
    let names: Vec<&str> =
        summary.lines().filter_map(|line| Some(line.split_once(" :")?.0.trim())).collect();
    if !summary.contains(&title) || names != series {
        return Err(format!("flent printed\n{summary}\nexpected {title} with {series:?}"));
    }
    let picture = out.join("all.png");
    let mut plot = flent();
    plot.args(["--format", "plot", "--plot", "all", "--output"]).arg(&picture);
    let said = output("flent's plot", &mut plot)?;
    let size = fs::metadata(&picture).map_or(0, |file| file.len());
    if size <= PICTURE {
        return Err(format!("flent drew {size} bytes (expected over {PICTURE})\n{said}"));
    }
    eprintln!("xtask: {test}: flent lists {} series and draws {size} bytes", series.len());
    Ok(())
}

fn read(test: &str, out: &Path) -> Result<(), String> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-T", "fields", "-e", "frame.comment", "-r"]).arg(out.join("recording-1.pcapng"));
    let comments = output("tshark", &mut tshark)?;
    let count = |word: &str| comments.lines().filter(|line| line.starts_with(word)).count();
    let [queued, sent, dropped] = ["enqueue", "dequeue", "drop: "].map(count);
    if sent == 0
        || dropped == 0
        || queued < sent
        || queued + sent + dropped != comments.lines().count()
    {
        return Err(format!(
            "{test}: tshark read {queued} packets queued, {sent} sent, {dropped} dropped, of {} \
             (expected some, each with a comment)",
            comments.lines().count()
        ));
    }
    eprintln!(
        "xtask: {test}: tshark reads {queued} packets queued, {sent} sent, {dropped} dropped"
    );
    Ok(())
}
