//! Runs the program with its experiment file.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the 95th percentile of the call's delay in ms behind `queue`, from the data of a sweep.
fn delay(data: &str, queue: &str) -> f64 {
    let start = format!("{queue},phone,delay_p95_ms,");
    let row = data.lines().find_map(|line| line.strip_prefix(&start)).expect("a row of the call");
    row.split(',').next().and_then(|mean| mean.parse().ok()).expect("a mean")
}

/// Goal: a queue of another crate runs in an experiment, and does what it promises. Method: four
/// uploads fill a link with 20 ms of propagation delay. Behind the FIFO the call waits for its
/// whole buffer. The AQM signals above 20 ms, so its queue holds about as much; with flow queues
/// the call waits for hardly anything.
#[test]
fn the_aqm_keeps_its_queue_at_its_time() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let run = Command::new(env!("CARGO_BIN_EXE_own-queue"))
        .args(["run", "--seeds", "1", "--out"])
        .args([out, &crate_folder.join("experiment.toml")])
        .output()
        .expect("the program starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let data = fs::read_to_string(out.join("an-aqm-of-one-s-own-results.csv")).expect("data");
    let delays = ["fifo", "deadline 20", "fq-codel", "smart"].map(|queue| delay(&data, queue));
    let [fifo, own, fq_codel, smart] = delays;
    assert!(fifo > 500.0, "{delays:?}");
    assert!((35.0..60.0).contains(&own), "{delays:?}");
    assert!(fq_codel < 25.0 && smart < 25.0, "{delays:?}");
}

#[test]
fn a_wrong_time_is_reported_with_what_was_expected() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = out.join("wrong.toml");
    let text = "duration = \"1s\"\nqueue = \"deadline soon\"\n\
                [link]\nup = \"1mbit\"\nround-trip = \"1ms\"\n[bulk.upload]\ndirection = \"up\"\n";
    fs::write(&file, text).expect("a file");
    let run = Command::new(env!("CARGO_BIN_EXE_own-queue")).arg("run").arg(&file).output();
    let run = run.expect("the program starts");
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success());
    assert!(error.contains("deadline: time \"soon\" (expected milliseconds)"), "{error}");
}
