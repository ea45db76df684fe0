//! Searches for the call with the most instructions: `search_instructions SECONDS [SEED]`. All
//! disciplines share the time.
//!
//! A sequence runs in a separate process under callgrind, which counts each call. Prints the median
//! over the calls of the worst sequence and the maximum number of instructions per packet moved;
//! fails if that exceeds [`MOST`] times the median.

mod arguments;

use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use conformance::worst_call::{Call, Subject, Worst, climb, play};

/// Name of the counted function in callgrind.
const CALL: &str = "conformance::worst_call::one_call";
const FLOWS: u32 = 1_024;
/// Limit for a call, as a multiple of the median.
const MOST: u64 = 8;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [name] = &words[..]
        && let Some(subject) = Subject::ALL.iter().find(|subject| subject.name == name)
    {
        return play_input(subject);
    }
    let Some((seconds, seed)) = arguments::seconds_and_seed("search_instructions") else {
        return ExitCode::from(2);
    };
    let span = Duration::from_secs(seconds) / Subject::ALL.len() as u32;
    println!(
        "{:<40} {:>6} {:>6} {:>6} {:>10} {:>6}",
        "instructions for a packet moved", "median", "most", "ratio", "in a call", "played"
    );
    let mut is_kept = true;
    for subject in &Subject::ALL {
        let start = Instant::now();
        let measure = |history: &[Call]| {
            let calls = counted(subject, history);
            calls.into_iter().fold(Worst::default(), Worst::or)
        };
        let found = climb(subject.name, seed, measure, || start.elapsed() < span);
        let mut calls: Vec<u64> =
            counted(subject, &found.history).iter().map(|call| call.per_packet).collect();
        calls.sort_unstable();
        let median = calls.get(calls.len() / 2).copied().unwrap_or(1);
        let Worst { per_packet, cost, .. } = found.worst;
        let ratio = per_packet as f64 / median as f64;
        println!(
            "{:<40} {median:>6} {per_packet:>6} {ratio:>6.1} {cost:>10} {:>6}",
            subject.name, found.played
        );
        // A result of 0 means that no function has the name in `CALL`.
        is_kept &= (1..=MOST * median).contains(&per_packet);
    }
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays the sequence read from standard input; prints each call and the number of packets it
/// moved.
fn play_input(subject: &Subject) -> ExitCode {
    let mut text = String::new();
    if std::io::stdin().read_to_string(&mut text).is_err() {
        return ExitCode::FAILURE;
    }
    let history: Vec<Call> = text.lines().filter_map(read).collect();
    let mut moved = Vec::with_capacity(history.len());
    play(subject, FLOWS, &history, |at, packets| moved.push((at, packets)));
    for (at, packets) in moved {
        println!("{at} {packets}");
    }
    ExitCode::SUCCESS
}

/// Formats a call as a line: flow and length of an arriving packet, `-`, or nanoseconds.
fn line(call: &Call) -> String {
    match call {
        Call::Enqueue { flow, len } => format!("{flow} {len}"),
        Call::Dequeue => "-".into(),
        Call::Wait(nanos) => nanos.to_string(),
    }
}

/// Parses a [`line`].
fn read(line: &str) -> Option<Call> {
    if line == "-" {
        return Some(Call::Dequeue);
    }
    match line.split_once(' ') {
        Some((flow, len)) => {
            Some(Call::Enqueue { flow: flow.parse().ok()?, len: len.parse().ok()? })
        }
        None => line.parse().ok().map(Call::Wait),
    }
}

/// Counts the instructions of each call of `history`.
fn counted(subject: &Subject, history: &[Call]) -> Vec<Worst> {
    let program = std::env::current_exe().expect("a program has a path");
    let profile = program.with_extension(format!("{}.callgrind", std::process::id()));
    let mut child = Command::new("valgrind")
        .args(["--tool=callgrind", "--combine-dumps=yes", "--compress-strings=no", "-q"])
        .args([format!("--toggle-collect={CALL}"), format!("--dump-after={CALL}")])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(&program)
        .arg(subject.name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("valgrind starts: its callgrind counts the instructions");
    let text: Vec<String> = history.iter().map(line).collect();
    let mut input = child.stdin.take().expect("piped");
    input.write_all(text.join("\n").as_bytes()).expect("the program reads its history");
    drop(input);
    let printed = child.wait_with_output().expect("it ends").stdout;
    let costs = std::fs::read_to_string(&profile).expect("callgrind writes its counts");
    let _gone = std::fs::remove_file(&profile);
    let costs = costs.lines().filter_map(|line| line.strip_prefix("summary: ")?.parse().ok());
    let calls = String::from_utf8_lossy(&printed).into_owned();
    let calls = calls.lines().filter_map(|line| {
        let (at, moved) = line.split_once(' ')?;
        Some((at.parse().ok()?, moved.parse().ok()?))
    });
    calls.zip(costs).map(|((at, moved), cost)| Worst::new(at, cost, moved)).collect()
}
