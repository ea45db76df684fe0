//! Replays of real kernel traffic, compared with a reference model, with each other, and with
//! recorded output.

use core::num::NonZeroU64;
use std::collections::{HashMap, VecDeque};
use std::process::{Command, Output};

use freeboard::QueueSettings;
use freeboard::flowhash::{FlowKey, parse};
use freeboard::sched_core::{Nanos, Volume};
use sim::capture::{LinkType, Packet, Reader};
use sim::discipline::Discipline;
use sim::notation;
use sim::replay::{Choice, Corrections, Report, Setup};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kernel.pcap");
const PCAP: &[u8] = include_bytes!("../data/kernel.pcap");

fn packets() -> Vec<Packet<'static>> {
    Reader::new(PCAP).and_then(Iterator::collect).unwrap()
}

fn setup(discipline: Discipline) -> Setup {
    let queue = Choice::Discipline(discipline);
    Setup { queue, rate: notation::rate("5mbit").unwrap(), limit: Some(50), seed: 1 }
}

fn replay(packets: &[Packet<'_>], setup: Setup) -> Report {
    sim::replay::replay(packets, setup).expect("a discipline can always be built")
}

/// Goal: arrivals, departures, loss and delays of every flow are right to the nanosecond. Method: a
/// reference model of a FIFO with tail drop, in exact fractions of a nanosecond.
#[test]
fn a_fifo_replay_is_that_of_the_definition() {
    let rate = NonZeroU64::new(5_000_000).unwrap();
    // All times in fractions of a nanosecond, of which there are `rate`.
    let parts = |at: Nanos| u128::from(at.0) * u128::from(rate.get());
    let ceil = |at: u128| at.div_ceil(rate.get().into());
    let mut delays: HashMap<FlowKey, Vec<Nanos>> = HashMap::new();
    let mut lost: HashMap<FlowKey, u64> = HashMap::new();
    let (mut queue, mut free) = (VecDeque::new(), 0_u128);
    let mut depart = |queue: &mut VecDeque<(FlowKey, Nanos, u32)>, until: u128| {
        while let Some(&(key, since, len)) = queue.front() {
            // A packet leaves at a whole nanosecond; the link keeps the fraction.
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

/// The call sends 86 kbit/s into 5 Mbit/s. Behind a FIFO it loses most of its packets to the
/// uploads; disciplines with a queue for each flow lose none of them.
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

/// Packets without their Ethernet headers form equal flows, except for the frames that are not IP.
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

/// Goal: the order of records in the file changes only the note on it. Method: halves of the
/// capture swapped, and each packet swapped with its neighbour, as recorded by multi-queue network
/// cards.
#[test]
fn packets_out_of_order_are_replayed_by_their_times() {
    let sorted = packets();
    let (mut swapped, mut neighbours) = (sorted.clone(), sorted.clone());
    swapped.rotate_left(900);
    neighbours.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
    let distinct = |pair: &[Packet<'_>]| pair[0].at != pair[1].at;
    // Two records with equal times are excluded, because they keep the order of the file.
    assert!(sorted.chunks_exact(2).all(distinct) && distinct(&sorted[899..=900]));
    for discipline in Discipline::ALL {
        let expected = replay(&sorted, setup(discipline));
        assert_eq!(expected.corrections, Corrections::default());
        for (file, out_of_order) in [(&swapped, 900), (&neighbours, 893)] {
            let found = replay(file, setup(discipline));
            assert_eq!(found.corrections.out_of_order, out_of_order);
            assert!(found.corrections.farthest_back > Nanos::ZERO);
            let corrections = Corrections::default();
            assert_eq!(Report { corrections, ..found }, expected, "{discipline}");
        }
    }
    let found = replay(&swapped, setup(Discipline::Drr)).corrections;
    assert_eq!(found.farthest_back, sorted[1_786].at.since(sorted[0].at));
}

#[test]
fn an_empty_capture_is_replayed() {
    let nothing = replay(&[], setup(Discipline::Drr));
    assert_eq!((nothing.flows.len(), nothing.span), (0, Nanos::ZERO));
    assert!(nothing.table(20).to_string().contains("all"));
}

/// A queue for one packet. 100 bytes take 160 µs: the second packet waits, and leaves at the time
/// of the third arrival, which is therefore accepted.
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
            replay(&packets, Setup { limit: Some(1), ..setup(discipline) }).flows[0].lost()
        };
        assert_eq!((lost(159_999), lost(160_000)), (1, 0), "{discipline}");
    }
}

/// Goal: the discipline `smart_queue` is the queue that users configure. Method: replay equal
/// packets by its name and by default settings.
#[test]
fn the_smart_queue_is_the_same_by_name_and_by_default_settings() {
    let by_name = replay(&packets(), setup(Discipline::Smart));
    let queue = Choice::Smart(QueueSettings::default());
    let by_settings = replay(&packets(), Setup { queue, ..setup(Discipline::Smart) });
    assert_eq!(Report { queue: by_name.queue.clone(), ..by_settings }, by_name);
}

/// Flows and hosts of equal packets are equal over each link type.
#[test]
fn the_flows_are_the_same_over_every_link() {
    let ethernet = packets();
    let keys = |packets: &[Packet<'_>]| {
        let report = replay(packets, setup(Discipline::Drr));
        let keys: Vec<_> = report.flows.iter().map(|flow| flow.key).collect();
        assert_eq!(report.corrections, Corrections::default());
        keys
    };
    // The kernel's two ARP packets and their hosts are known if the link names a sender.
    let is_ip = |packet: &&Packet<'_>| packet.bytes[12..14] != [0x08, 0x06];
    let ip_only: Vec<_> = ethernet.iter().filter(is_ip).copied().collect();
    let radiotap = |kind: u8, flags: u8, more: usize, packet: &Packet<'_>| {
        let (source, protocol) = (&packet.bytes[6..12], &packet.bytes[12..14]);
        let mut header = vec![0, 0, 12, 0, 0, 0, 0, 0, 9, 9, 9, 9];
        header.extend([kind, flags, 0, 0]);
        // To the access point the transmitter is the sender; from it, the third address; between
        // two, the fourth.
        let addresses: [&[u8]; 3] = match flags & 3 {
            1 => [&[1; 6], source, &[2; 6]],
            2 => [&[1; 6], &[2; 6], source],
            _ => [&[1; 6], &[2; 6], &[3; 6]],
        };
        header.extend(addresses.concat());
        header.extend([0, 0]);
        if flags & 3 == 3 {
            header.extend(source);
        }
        header.extend(vec![0; more]);
        header.extend([0xaa, 0xaa, 3, 0, 0, 0]);
        header.extend(protocol);
        header
    };
    type Header = Box<dyn Fn(&Packet<'_>) -> Vec<u8>>;
    let protocol = |packet: &Packet<'_>| packet.bytes[12..14].to_vec();
    let ppp = |packet: &Packet<'_>| if packet.bytes[12] == 8 { 0x21 } else { 0x57 };
    let sender = |packet: &Packet<'_>| packet.bytes[6..12].to_vec();
    let links: [(u16, bool, Header); 12] = [
        (0, false, Box::new(|_| vec![2, 0, 0, 0])),
        (108, false, Box::new(|_| vec![0, 0, 0, 30])),
        (9, false, Box::new(move |packet| vec![0xff, 3, 0, ppp(packet)])),
        (9, false, Box::new(move |packet| vec![0, ppp(packet)])),
        (50, false, Box::new(move |packet| vec![0xff, 3, ppp(packet)])),
        (
            113,
            true,
            Box::new(move |packet| {
                [vec![0, 4, 0, 1, 0, 6], sender(packet), vec![0, 0], protocol(packet)].concat()
            }),
        ),
        (
            276,
            true,
            Box::new(move |packet| {
                let middle = vec![0, 0, 0, 0, 0, 3, 0, 1, 4, 6];
                [protocol(packet), middle, sender(packet), vec![0, 0]].concat()
            }),
        ),
        (127, true, Box::new(move |packet| radiotap(0x08, 1, 0, packet))),
        (127, true, Box::new(move |packet| radiotap(0x88, 2, 2, packet))),
        (127, true, Box::new(move |packet| radiotap(0x88, 0x81, 6, packet))),
        (127, true, Box::new(move |packet| radiotap(0x08, 3, 0, packet))),
        (127, true, Box::new(move |packet| radiotap(0x88, 3, 2, packet))),
    ];
    for (number, names_senders, header) in links {
        let from = if names_senders { &ethernet } else { &ip_only };
        let expected = keys(from);
        let carried: Vec<_> = from
            .iter()
            .map(|packet| [header(packet), packet.bytes[14..].to_vec()].concat())
            .collect();
        let link = LinkType::from_number(number);
        let packets: Vec<_> = from
            .iter()
            .zip(&carried)
            .map(|(&packet, bytes)| Packet { link, bytes, original_len: 1_600, ..packet })
            .collect();
        assert_eq!(keys(&packets), expected, "link type {number}");
    }
}

/// A frame that is truncated anywhere, including its link header, counts like any other packet.
#[test]
fn a_link_header_may_be_cut_anywhere() {
    for number in [0, 1, 9, 101, 108, 113, 127, 276] {
        let link = LinkType::from_number(number);
        let bytes = [vec![0, 0, 8, 0, 0, 0, 0, 0, 0x88, 0x83], vec![0xaa; 60]].concat();
        for cut in 0..bytes.len() {
            let packet = Packet { link, bytes: &bytes[..cut], ..packets()[0] };
            let report = replay(&[packet], setup(Discipline::Drr));
            assert_eq!(report.counters.delivered.packets, 1, "link type {number}, {cut} bytes");
        }
    }
}

#[test]
fn packets_of_an_unknown_link_and_wrong_lengths_are_counted() {
    let mut file = packets();
    file[3].link = LinkType::Other(147);
    file[5].link = LinkType::Other(147);
    file[9].link = LinkType::Other(195);
    file[7].original_len = 0;
    file[8].original_len = file[8].bytes.len() as u32 - 1;
    let report = replay(&file, setup(Discipline::Drr));
    assert_eq!(report.counters.offered().packets, 1_784);
    let found = report.corrections;
    assert_eq!((found.too_short, found.out_of_order), (2, 0));
    assert_eq!(found.skipped.into_iter().collect::<Vec<_>>(), [(147, 2), (195, 1)]);
}

// ---- the command -------------------------------------------------------------------------------

fn sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap()
}

/// Equal files give equal output: `data/replay-NAME.txt` is the recorded output of the command.
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

/// Returns the command's output for this file and these arguments.
fn replayed(name: &str, file: &[u8], words: &[&str]) -> (bool, String) {
    let path = std::env::temp_dir().join(format!("freeboard-{}-{name}.pcap", std::process::id()));
    std::fs::write(&path, file).unwrap();
    let output = sim(&[&["replay", path.to_str().unwrap(), "--rate=5mbit"], words].concat());
    std::fs::remove_file(&path).unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.success(), text)
}

/// A file that ends too early is replayed up to its end with a note; an unreadable file is an
/// error.
#[test]
fn the_command_says_what_it_corrected() {
    let drr = ["--scheduler=drr"];
    let second = 24 + 16 + u32::from_le_bytes(PCAP[32..36].try_into().unwrap()) as usize;
    let (is_done, text) = replayed("cut", &PCAP[..PCAP.len() - 1], &drr);
    assert!(is_done && text.contains("1786 packets of"), "{text}");
    assert!(text.contains("the rest of the file cannot be read: at byte "), "{text}");
    assert!(text.contains("the file ends in the packet: 82 bytes needed, 81 there"), "{text}");
    assert!(text.contains("; replayed the 1786 packets before it\n"), "{text}");

    let (is_done, text) = replayed("cut-at-once", &PCAP[..30], &drr);
    assert!(!is_done && text.contains("at byte 24: the file ends in the record header"), "{text}");

    let mut file = PCAP.to_vec();
    file[36..40].fill(0); // the first packet's original length
    file[second..second + 4].fill(0); // the second packet's seconds
    let (is_done, text) = replayed("wrong", &file, &drr);
    assert!(is_done && text.contains("1787 packets of"), "{text}");
    assert!(text.contains("out of order in the file: 1 packets, by up to "), "{text}");
    assert!(text.contains("original length below the captured length: 1 packets"), "{text}");

    file = PCAP.to_vec();
    file[20] = 147;
    let (is_done, text) = replayed("link", &file, &drr);
    assert!(is_done && text.contains("skipped: 1787 packets of link type 147"), "{text}");
}

/// The queue that users embed, with keywords as users write them: hosts are isolated, the call has
/// no loss.
#[test]
fn the_command_replays_through_a_smart_queue() {
    for words in
        ["", "diffserv4 dual-srchost ack-filter rtt 30ms no-l4s", "triple-isolate overhead 44 atm"]
    {
        let (is_done, text) = replayed("smart", PCAP, &["--queue", words, "--limit=50"]);
        assert!(is_done && text.starts_with("SmartQueue (bandwidth 5mbit "), "{text}");
        let call = text.lines().find(|line| line.contains(" 192.0.2.2:5004 ")).unwrap();
        assert!(call.split_whitespace().skip(4).take(2).eq(["33", "0.00"]), "{call}");
    }
    let (_, own) = replayed("own", PCAP, &["--queue", "besteffort"]);
    assert!(own.contains("limit 256 packets: 1787 packets"), "{own}");
    let refused = [
        ("difserv4", "did you mean `diffserv4`?"),
        ("nat", "not available in a replay: nat"),
        ("bandwidth 3mbit", "not available in a replay: a rate (use --rate)"),
    ];
    for (words, expected) in refused {
        let (is_done, text) = replayed("refused", PCAP, &["--queue", words]);
        assert!(!is_done && text.contains(expected), "{text}");
    }
    let (is_done, text) = replayed("both", PCAP, &["--queue", "", "--scheduler", "drr"]);
    assert!(!is_done && text.contains("cannot be used with"), "{text}");
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
            "\"10mbits\" is not a rate (expected 1kbit to 400gbit: a number with bit, kbit, mbit or \
             gbit, or bits per second)",
        ),
        (&["--limit", "0"], "invalid value '0' for '--limit <PACKETS>': expected 1 to 1000000"),
        (&["--limit", "-1"], "invalid value '-1' for '--limit <PACKETS>': expected 1 to 1000000"),
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
    assert!(why.contains("Cargo.toml: at byte 0: not a capture: begins with"), "{why}");
    let (code, why) = replay("no such file");
    assert_eq!(code, Some(1));
    assert!(why.starts_with("sim: no such file: "), "{why}");
}

/// Goal: help is printed to standard output and fits a terminal of 80 columns.
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
