//! Replays of real kernel traffic: against an oracle, by identities, and to the byte.

use core::num::NonZeroU64;
use std::collections::{HashMap, VecDeque};
use std::process::{Command, Output};

use freeboard::flowhash::{FlowKey, parse};
use freeboard::sched_core::{Nanos, Volume};
use sim::capture::{LinkType, Packet, Reader};
use sim::discipline::Discipline;
use sim::notation;
use sim::replay::{Report, Setup, replay};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kernel.pcap");
const PCAP: &[u8] = include_bytes!("../data/kernel.pcap");

fn packets() -> Vec<Packet<'static>> {
    Reader::new(PCAP).and_then(Iterator::collect).unwrap()
}

fn setup(discipline: Discipline) -> Setup {
    Setup { discipline, rate: notation::rate("5mbit").unwrap(), limit: 50, seed: 1 }
}

/// Goal: arrivals, departures, loss and delays of every flow are right to the nanosecond. Method: a
/// FIFO with tail drop written from its definition, over exact fractions of a nanosecond.
#[test]
fn a_fifo_replay_is_that_of_the_definition() {
    let rate = NonZeroU64::new(5_000_000).unwrap();
    // All instants in parts of a nanosecond, of which there are `rate`.
    let parts = |at: Nanos| u128::from(at.0) * u128::from(rate.get());
    let ceil = |at: u128| at.div_ceil(rate.get().into());
    let mut delays: HashMap<FlowKey, Vec<Nanos>> = HashMap::new();
    let mut lost: HashMap<FlowKey, u64> = HashMap::new();
    let (mut queue, mut free) = (VecDeque::new(), 0_u128);
    let mut depart = |queue: &mut VecDeque<(FlowKey, Nanos, u32)>, until: u128| {
        while let Some(&(key, since, len)) = queue.front() {
            // A packet leaves on a whole nanosecond; the line keeps the fraction.
            let due = free.max(parts(since));
            if ceil(due) > until {
                break;
            }
            queue.pop_front();
            delays.entry(key).or_default().push(Nanos(ceil(due) as u64 - since.0));
            free = due + u128::from(len) * 8_000_000_000;
        }
    };
    for packet in packets() {
        let key = parse::ethernet(packet.bytes).key;
        depart(&mut queue, packet.at.0.into());
        if queue.len() == 50 {
            *lost.entry(key).or_insert(0) += 1;
        } else {
            queue.push_back((key, packet.at, packet.original_len));
        }
    }
    depart(&mut queue, u128::MAX);
    let report = replay(&packets(), setup(Discipline::Fifo));
    for flow in &report.flows {
        let key = flow.key;
        assert_eq!(flow.delays.samples(), delays.remove(&key).unwrap_or_default(), "{key:?}");
        assert_eq!(flow.lost(), lost.remove(&key).unwrap_or(0), "{key:?}");
    }
    assert!(delays.is_empty() && lost.is_empty());
}

#[test]
fn every_packet_is_delivered_or_lost_in_every_discipline() {
    let offered: u64 = packets().iter().map(|packet| u64::from(packet.original_len)).sum();
    for discipline in Discipline::ALL {
        let report = replay(&packets(), setup(discipline));
        let sum = |of: fn(&sim::replay::ReplayedFlow) -> Volume| {
            report.flows.iter().map(of).fold(Volume::ZERO, Volume::plus)
        };
        let all = Volume { packets: 1_787, bytes: offered };
        assert_eq!((sum(|flow| flow.offered), report.counters.offered()), (all, all));
        assert_eq!(sum(|flow| flow.delivered), report.counters.delivered);
        let gone = report.counters.rejected.plus(report.counters.dropped_total());
        assert_eq!(all.minus(report.counters.delivered), gone, "{discipline}");
        for flow in &report.flows {
            assert_eq!(flow.delays.len() as u64, flow.delivered.packets);
        }
        if let Some(lookups) = report.lookups {
            assert_eq!(lookups.hits + lookups.claims + lookups.collisions, 1_787);
        }
    }
}

fn call(report: &Report) -> &sim::replay::ReplayedFlow {
    let is_call =
        |key: FlowKey| matches!(key, FlowKey::V4 { transport, .. } if transport.dst_port == 5_004);
    report.flows.iter().find(|flow| is_call(flow.key)).unwrap()
}

/// The call sends 86 kbit/s into 5 Mbit/s. Behind a FIFO it loses most of its packets to the uploads;
/// a discipline with a queue for each flow loses none of them.
#[test]
fn a_queue_for_each_flow_keeps_a_call_whole() {
    for discipline in Discipline::ALL {
        let report = replay(&packets(), setup(discipline));
        let call = call(&report);
        assert_eq!(call.offered.packets, 33);
        assert_eq!(call.lost() == 0, discipline != Discipline::Fifo, "{discipline}");
    }
}

#[test]
fn a_replay_an_hour_later_is_the_same_replay() {
    let later =
        |packet: Packet<'static>| Packet { at: packet.at.plus(Nanos::from_secs(3_600)), ..packet };
    for discipline in Discipline::ALL {
        let shifted: Vec<_> = packets().into_iter().map(later).collect();
        assert_eq!(replay(&shifted, setup(discipline)), replay(&packets(), setup(discipline)));
    }
}

/// The same packets without their Ethernet headers are the same flows, but for the frames that
/// are not IP.
#[test]
fn raw_ip_is_the_same_traffic_without_its_frames() {
    let raw: Vec<_> = packets()
        .into_iter()
        .filter(|packet| packet.bytes[12..14] != [0x08, 0x06])
        .map(|packet| Packet {
            link: LinkType::RawIp,
            bytes: &packet.bytes[14..],
            original_len: packet.original_len - 14,
            ..packet
        })
        .collect();
    let report = replay(&raw, setup(Discipline::Drr));
    let framed = replay(&packets(), setup(Discipline::Drr));
    let keys = |report: &Report| report.flows.iter().map(|flow| flow.key).collect::<Vec<_>>();
    let ip = keys(&framed).into_iter().filter(|key| !matches!(key, FlowKey::Ethernet { .. }));
    assert_eq!(keys(&report), ip.collect::<Vec<_>>());
}

#[test]
fn a_clock_that_steps_back_and_an_empty_capture_are_replayed() {
    let (mut back, mut still) = (packets(), packets());
    back[900].at = Nanos::ZERO;
    still[900].at = still[899].at;
    for discipline in Discipline::ALL {
        assert_eq!(replay(&back, setup(discipline)), replay(&still, setup(discipline)));
    }
    let nothing = replay(&[], setup(Discipline::Drr));
    assert_eq!((nothing.flows.len(), nothing.span), (0, Nanos::ZERO));
    assert!(nothing.table(20).to_string().contains("all"));
}

/// Room for one. 100 bytes take 160 µs: the second waits, and leaves in the instant in which the
/// third arrives, which therefore finds room.
#[test]
fn at_equal_times_departures_come_before_arrivals() {
    let packet = |at| Packet {
        offset: 0,
        at: Nanos(at),
        link: LinkType::RawIp,
        bytes: &[],
        original_len: 100,
    };
    for discipline in Discipline::ALL {
        let lost = |third| {
            let packets = [packet(0), packet(1), packet(third)];
            replay(&packets, Setup { limit: 1, ..setup(discipline) }).flows[0].lost()
        };
        assert_eq!((lost(159_999), lost(160_000)), (1, 0), "{discipline}");
    }
}

// ---- the command -------------------------------------------------------------------------------

fn sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap()
}

/// Same file, same bytes: `data/replay-NAME.txt` is what the command printed when it was recorded.
#[test]
fn the_command_prints_what_is_recorded() {
    for discipline in Discipline::NAMED {
        let recorded = format!("{}/tests/data/replay-{discipline}.txt", env!("CARGO_MANIFEST_DIR"));
        let name = discipline.name();
        let line = ["--rate", "5mbit", "--limit", "50", "--flows=12", "--scheduler", name];
        let output = sim(&[&["replay", FILE][..], &line].concat());
        assert!(output.status.success() && output.stderr.is_empty());
        let expected = std::fs::read_to_string(recorded).unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{discipline}");
    }
}

fn refusal(words: &[&str]) -> (Option<i32>, String) {
    let output = sim(words);
    assert!(output.stdout.is_empty(), "{words:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_refused_word_is_named_with_what_is_accepted() {
    let line = ["replay", "x", "--rate=5mbit", "--scheduler=fifo"];
    let cases: [(&[&str], &str); 11] = [
        (&["reply"], "a similar subcommand exists: 'replay'"),
        (&["replay"], "not provided:\n  --rate <RATE>\n  --scheduler <NAME>\n  <FILE>"),
        (&["replay", "--rate=5mbit", "--scheduler=fifo"], "not provided:\n  <FILE>"),
        (
            &["replay", "x", "--rate", "10mbits"],
            "\"10mbits\" is not a rate; accepted: bits per second, or a number with bit, kbit, mbit \
             or gbit behind it, from 1kbit to 400gbit",
        ),
        (&["--limit", "0"], "invalid value '0' for '--limit <PACKETS>': accepted: 1 to 1000000"),
        (&["--limit", "-1"], "invalid value '-1' for '--limit <PACKETS>': accepted: 1 to 1000000"),
        (&["--limt", "9"], "a similar argument exists: '--limit'"),
        (&["y"], "unexpected argument 'y' found"),
        (&["--seed"], "a value is required for '--seed <N>'"),
        (&["replay", "x", "--scheduler", "sfq"], "invalid value 'sfq' for '--scheduler <NAME>'"),
        (&["replay", "x", "--scheduler", "sfq"], "[possible values: fifo, drr, sqf, sqf+floor, "),
    ];
    for (words, expected) in cases {
        let words = match words[0].starts_with("rep") {
            true => words.to_vec(),
            false => [&line[..], words].concat(),
        };
        let (code, why) = refusal(&words);
        assert_eq!(code, Some(2), "{words:?}");
        assert!(why.starts_with("error: ") && why.contains(expected), "{words:?}: {why}");
    }
}

#[test]
fn a_file_that_is_no_capture_is_refused_with_the_offset() {
    let replay = |file| refusal(&["replay", file, "--rate", "1mbit", "--scheduler", "fifo"]);
    let toml = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let (code, why) = replay(toml);
    assert_eq!(code, Some(1));
    assert!(why.contains("Cargo.toml: at byte 0: no capture begins with"), "{why}");
    let (code, why) = replay("no such file");
    assert_eq!(code, Some(1));
    assert!(why.starts_with("sim: no such file: "), "{why}");
}

/// Goal: the help is an answer, and fits a terminal of 80 columns.
#[test]
fn help_is_an_answer_and_not_an_error() {
    for words in [&["--help"][..], &["replay", "--help"], &["reproduce", "-h"], &[]] {
        let output = sim(words);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("Usage: sim"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn a_shell_is_told_the_names() {
    let output = sim(&["completions", "bash"]);
    let script = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(["qfq-fig7", "sqf+floor", "--limit"].iter().all(|part| script.contains(part)));
}
