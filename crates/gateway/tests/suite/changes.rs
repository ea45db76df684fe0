//! Links that go down, devices that disappear and configurations that change, all under load.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use conformance::measurement::attempts;

use crate::gateway::Gateway;
use crate::raw::millis;
use crate::refusals::file;
use crate::topology::{HOSTS, Row, call};
use crate::traffic::{BOTH, Bulk, Paced, small_flow_arrives};

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_link_that_was_down_goes_on() {
    let Some(row) = Row::new("updown") else { return };
    let gateway = Gateway::start(&row.gw, "--up 10mbit --down 10mbit");
    let bulk = BOTH.map(|heading| Bulk::start(&row, HOSTS[0], heading, 2));
    // The gateway's devices on both sides, and the other ends of the veth pairs.
    for (inside, device) in [(&row.gw, "wan"), (&row.gw, "lan"), (&row.s, "s0"), (&row.c, "c0")] {
        thread::sleep(millis(200));
        inside.ip(&format!("link set {device} down"));
        thread::sleep(millis(200));
        inside.ip(&format!("link set {device} up"));
        row.wait_for_carriers();
        // The ends resolve each other's address again, once a second. After that a flow beside the
        // TCP flows loses nothing.
        let tries = (1..=10).find(|_| {
            let flows = BOTH.map(|heading| Paced::start(&row, heading, millis(10), &[500]));
            thread::sleep(millis(300));
            flows.map(Paced::stop).iter().all(|flow| flow.is_complete() && flow.sent > 10)
        });
        println!("{device} was down, complete at try {tries:?}");
        assert!(tries.is_some(), "{device}");
    }
    // TCP retries after seconds if it has failed before.
    for (bulk, heading) in bulk.iter().zip(BOTH) {
        assert!(bulk.receives(200_000), "TCP does not go on {heading:?}");
    }
    gateway.end();
}

/// Goal: a device that disappears ends the gateway with one line and statistics, loaded or idle, on
/// either side and whether it was up or down. Method: several runs, since the device may still be
/// listed when the notification arrives.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_device_that_is_deleted_ends_it_with_statistics() {
    let Some(row) = Row::new("deleted") else { return };
    for (device, peer, is_loaded, is_up) in [
        ("wan", "s0", true, true),
        ("lan", "c0", true, true),
        ("wan", "s0", false, true),
        ("lan", "c0", false, true),
        ("wan", "s0", false, false),
        ("lan", "c0", true, false),
        ("wan", "s0", true, false),
    ] {
        let what = format!("{device}, loaded {is_loaded}, up {is_up}");
        let gateway = Gateway::start(&row.gw, "--up 5mbit --down 5mbit");
        let bulk = is_loaded.then(|| BOTH.map(|heading| Bulk::start(&row, HOSTS[0], heading, 4)));
        let flows = bulk.iter().flatten();
        for flow in flows {
            assert!(flow.receives(50_000), "{what}: nothing flows");
        }
        if !is_up {
            row.gw.ip(&format!("link set {device} down"));
            thread::sleep(millis(50));
        }
        row.gw.ip(&format!("link del {device}"));
        println!("{what}");
        let ended = gateway.ends();
        drop(bulk);
        assert_eq!(ended.status.code(), Some(1), "{what}");
        let gone = format!("freeboard-gateway: {device}: the device has disappeared");
        assert_eq!(ended.said_of_the_end(), [&gone]);
        let sent = ended.report["directions"][0]["sent"].as_u64().unwrap();
        assert!(sent > 20 || !is_loaded, "{what}: {ended:?}");
        row.connect(device, peer);
        row.wait_for_carriers();
    }
}

/// Goal: a change of any kind loses nothing, and is logged. Method: UDP flows below the rate beside
/// TCP flows throughout a list of changes; they arrive complete and in order.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_change_under_load_loses_nothing() {
    let Some(row) = Row::alone("changes") else { return };
    // On a machine that pauses longer than CoDel tolerates, the AQM may drop what arrived
    // meanwhile.
    attempts("changes", || {
        let file = file("changes", "up = \"10mbit\"\ndown = \"10mbit\"\n");
        let socket =
            std::env::temp_dir().join(format!("freeboard-{}-changes.sock", std::process::id()));
        let words = format!("--config {} --stats {}", file.path(), socket.display());
        let gateway = Gateway::start(&row.gw, &words);
        let bulk = BOTH.map(|heading| Bulk::start(&row, HOSTS[1], heading, 4));
        thread::sleep(millis(500));
        let flows = BOTH.map(|heading| Paced::start(&row, heading, millis(4), &[200, 1_000]));
        let rates = "up = \"20mbit\"\ndown = \"8mbit\"\n";
        let weights = "[weights]\n\"10.9.0.1\" = 4\n";
        for (text, expected) in [
            (rates.to_owned(), &["up: 10mbit -> 20mbit", "down: 10mbit -> 8mbit"][..]),
            (rates.to_owned(), &["configuration read again, no changes"]),
            (format!("{rates}queue = \"qfq\""), &["queue: drr -> qfq", "hosts: lan -> flows"]),
            (
                format!("{rates}queue = \"qfq\"\n{weights}"),
                &["host-by: auto -> address", "weights: 10.9.0.1 1 -> 4"],
            ),
            (
                format!("{rates}queue = \"drr\"\n{weights}"),
                &["queue: qfq -> drr", "hosts: flows -> lan"],
            ),
            (
                format!("{rates}hosts = \"triple-isolate\""),
                &[
                    "hosts: lan -> triple-isolate",
                    "host-by: address -> auto",
                    "weights: 10.9.0.1 4 -> 1",
                ],
            ),
            (
                format!("{rates}hosts = \"flows\"\ncatch-up = 25"),
                &["hosts: triple-isolate -> flows", "catch-up: 10 ms -> 25 ms"],
            ),
            (format!("{rates}queue = \"sqf\""), &["queue: drr -> sqf", "catch-up: 25 ms -> 10 ms"]),
            (format!("{rates}hosts = \"users+sqf\""), &["hosts: flows -> users+sqf"]),
            (
                format!("{rates}limit = \"20000p\""),
                &[
                    "queue: sqf -> drr",
                    "hosts: users+sqf -> lan",
                    "limit: by the rate -> 20000 packets",
                ],
            ),
            (format!("{rates}limit = \"500p\""), &["limit: 20000 packets -> 500 packets"]),
            (
                format!("{rates}encoding = \"atm\"\noverhead = 32"),
                &["limit: 500 packets -> by the rate", "framing: raw -> overhead 32 atm"],
            ),
            (
                format!("{rates}stats-interval = 7\nuser = \"daemon\""),
                &[
                    "framing: overhead 32 atm -> raw",
                    "stats-interval: 1 -> 7",
                    "user: cannot change at run time; restart needed, old value kept",
                ],
            ),
            (
                format!(
                    "{rates}ack-filter = \"aggressive\"\nwash = true\ningress = true\n\
                     memory-limit = \"by-rate\"\nburst = 9000\nframing = \"docsis\""
                ),
                &[
                    "framing: raw -> overhead 18 mpu 64",
                    "catch-up: 10 ms -> 9000 bytes",
                    "ack-filter: off -> aggressive",
                    "wash: off -> both",
                    "ingress: off -> on",
                    "memory-limit: off -> by-rate",
                    "stats-interval: 7 -> 1",
                ],
            ),
            (
                rates.to_owned(),
                &[
                    "framing: overhead 18 mpu 64 -> raw",
                    "catch-up: 9000 bytes -> 10 ms",
                    "ack-filter: aggressive -> off",
                    "wash: both -> off",
                    "ingress: on -> off",
                    "memory-limit: by-rate -> off",
                ],
            ),
        ] {
            file.write(&text);
            let said = gateway.reads_again(expected.len());
            let expected: Vec<String> =
                expected.iter().map(|line| format!("freeboard-gateway: {line}")).collect();
            assert_eq!(said, expected, "{text}");
            thread::sleep(millis(120));
        }
        for (text, part) in [
            (&format!("{rates}queue = \"cake\"")[..], "--queue \"cake\""),
            ("up = ", "line 1"),
            ("up = \"0\"\ndown = \"1mbit\"", "--up \"0\""),
            ("down = \"1mbit\"", "--up is missing"),
            // A configuration that cannot be built leaves the number of frames unchanged.
            (
                &format!("{rates}limit = \"200000p\"\nhosts = \"users+sqf\""),
                "supports (expected 1p to 65504p",
            ),
        ] {
            file.write(text);
            let said = gateway.reads_again(1).remove(0);
            let kept = "freeboard-gateway: configuration not changed: ";
            assert!(said.starts_with(kept) && said.contains(part), "{said}");
            thread::sleep(millis(60));
        }
        let mut is_complete = true;
        for flow in flows {
            let outcome = flow.stop();
            let (arrived, sent) = (outcome.arrived.len(), outcome.sent);
            println!("{arrived} of {sent} datagrams");
            is_complete &= outcome.is_complete() && sent > 300;
        }
        let report = gateway.end();
        drop(bulk);
        let up = &report["directions"][0];
        assert_eq!(
            (up["rate"].as_str(), up["queue"].as_str()),
            (Some("20mbit"), Some("drr")),
            "{up}"
        );
        if is_complete { Ok(()) } else { Err("a flow is not complete".to_owned()) }
    });
}

/// Goal: a queue that needs more memory than available is accepted once there are fewer frames,
/// whose memory is returned.
#[test]
fn a_lower_limit_makes_room_for_another_queue() {
    let Some(row) = Row::new("lower") else { return };
    let text = |more: &str| format!("up = \"10mbit\"\ndown = \"10mbit\"\n{more}");
    let file = file("lower", &text("limit = \"200000p\""));
    let gateway = Gateway::start(&row.gw, &format!("--config {}", file.path()));
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap()
    };
    let many = resident();
    for (more, expected) in [
        ("limit = \"1000p\"", &["limit: 200000 packets -> 1000 packets"][..]),
        (
            "hosts = \"users+sqf\"\nlimit = \"1000p\"",
            &["queue: drr -> sqf", "hosts: lan -> users+sqf"],
        ),
    ] {
        file.write(&text(more));
        let said = gateway.reads_again(expected.len());
        let expected: Vec<String> =
            expected.iter().map(|line| format!("freeboard-gateway: {line}")).collect();
        assert_eq!(said, expected);
    }
    let few = resident();
    println!("{many} kB with the frames of 200,000 packets, {few} kB with those of 1,000");
    assert!(few < many / 4, "{many} kB, then {few} kB");
    small_flow_arrives(&row, "with a lower limit");
    gateway.end();
}

/// Goal: no frame waits until a file is written.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_file_that_has_become_a_pipe_is_not_waited_for() {
    let Some(row) = Row::new("pipe") else { return };
    let file = file("pipe", "up = \"10mbit\"\ndown = \"10mbit\"");
    let gateway = Gateway::start(&row.gw, &format!("--config {}", file.path()));
    std::fs::remove_file(&file).unwrap();
    call("mkfifo", &file.path()).unwrap();
    let said = gateway.reads_again(1).remove(0);
    assert!(said.contains("configuration not changed: --config "), "{said}");
    assert!(said.ends_with(": no longer a regular file"), "{said}");
    gateway.end();
}

/// Goal: a file that changes while the gateway starts is read again, and the gateway keeps running.
/// Method: a pipe as the file, so that it waits for what is written.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_change_while_it_starts_is_waited_for() {
    let Some(row) = Row::new("early") else { return };
    let file = file("early", "");
    std::fs::remove_file(&file).unwrap();
    call("mkfifo", &file.path()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_freeboard-gateway"));
    command.args(["--config", &file.path()]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = row.gw.within(move || command.spawn().unwrap());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut writer = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGHUP).unwrap();
    let text = "lan = \"lan\"\nwan = \"wan\"\nup = \"10mbit\"\ndown = \"10mbit\"\n";
    let _ = writer.write_all(text.as_bytes());
    drop(writer);
    let first = said.next().unwrap();
    assert!(first.contains(" up 10mbit to wan, "), "{first}");
    let second = said.next().unwrap();
    assert!(second.ends_with(": no longer a regular file"), "{second}");
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!((said.next(), child.wait().unwrap().code()), (None, Some(0)));
}

/// Goal: the gateway keeps running if the reader of its output is gone.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn it_goes_on_when_its_output_is_not_read() {
    let Some(row) = Row::new("unheard") else { return };
    let file = file("unheard", "lan = \"lan\"\nwan = \"wan\"\nup = \"10mbit\"\ndown = \"10mbit\"");
    let start = |words: &[&str]| {
        let (reader, stderr) = UnixStream::pair().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_freeboard-gateway"));
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(OwnedFd::from(stderr));
        (row.gw.within(move || command.spawn().unwrap()), reader)
    };
    let (child, reader) = start(&["--config", &file.path()]);
    BufReader::new(reader).read_line(&mut String::new()).unwrap();
    let pid = Pid::from_raw(child.id().cast_signed());
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        small_flow_arrives(&row, signal.as_str());
        kill(pid, signal).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["directions"][0]["unaccounted"].as_i64(), Some(0), "{report}");
    let (mut refused, reader) = start(&["--speed"]);
    drop(reader);
    assert_eq!(refused.wait().unwrap().code(), Some(2));
}

/// Goal: the gateway keeps forwarding if its output is not read and the pipe is full. Method: a
/// pipe that is full from the start.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn it_goes_on_when_what_it_says_finds_no_room() {
    let Some(row) = Row::new("full") else { return };
    let file = file("full", "lan = \"lan\"\nwan = \"wan\"\nup = \"10mbit\"\ndown = \"10mbit\"");
    let (reader, mut stderr) = std::io::pipe().unwrap();
    stderr.write_all(&[b'.'; 65_536]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_freeboard-gateway"));
    command.args(["--config", &file.path()]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(stderr);
    let child = row.gw.within(move || command.spawn().unwrap());
    let pid = Pid::from_raw(child.id().cast_signed());
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        // The first datagrams may arrive before the gateway runs.
        small_flow_arrives(&row, signal.as_str());
        kill(pid, signal).unwrap();
    }
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    drop(reader);
}

/// Goal: however many lines a change logs, and whether they are read or not, the gateway keeps
/// forwarding and ends on a signal. Method: 5,000 rates that all change; standard error and
/// standard output are pipes with two free pages and none; clients of both sockets that never read.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn it_goes_on_when_a_long_change_finds_little_room() {
    let Some(row) = Row::new("nearlyfull") else { return };
    let table = |rate: &str| {
        let line = |at: u32| format!("\"10.8.{}.{}\" = \"{rate}\"\n", at / 250, at % 250);
        let rates: String = (0..5_000).map(line).collect();
        format!(
            "lan = \"lan\"\nwan = \"wan\"\nup = \"10mbit\"\ndown = \"10mbit\"\n[rates]\n{rates}"
        )
    };
    let file = file("nearlyfull", &table("1mbit"));
    let socket = std::env::temp_dir().join(format!("freeboard-{}-nearly", std::process::id()));
    let (reader, mut stderr) = std::io::pipe().unwrap();
    // Two pages: the first line takes one.
    stderr.write_all(&[b'.'; 65_536 - 2 * 4_096]).unwrap();
    let (out_reader, mut stdout) = std::io::pipe().unwrap();
    stdout.write_all(&[b'.'; 65_536]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_freeboard-gateway"));
    command.args(["--config", &file.path(), "--metrics", "127.0.0.1:9101", "--stats"]).arg(&socket);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut child = row.gw.within(move || command.spawn().unwrap());
    let pid = Pid::from_raw(child.id().cast_signed());
    // The first datagrams may arrive before the gateway runs.
    small_flow_arrives(&row, "at the start");
    let deaf: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let asking: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut asking = row.gw.within(|| TcpStream::connect("127.0.0.1:9101").unwrap());
            asking.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            asking
        })
        .collect();
    for rate in ["2mbit", "3mbit"] {
        file.write(&table(rate));
        kill(pid, Signal::SIGHUP).unwrap();
        thread::sleep(millis(100));
        small_flow_arrives(&row, &format!("after the change to {rate}"));
    }
    kill(pid, Signal::SIGTERM).unwrap();
    let deadline = Instant::now() + millis(10_000);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            break None;
        }
        thread::sleep(millis(20));
    };
    drop((reader, out_reader, deaf, asking));
    assert_eq!(status.and_then(|status| status.code()), Some(0), "it ends");
    let _ = std::fs::remove_file(socket);
}

/// Goal: even if the gateway is killed, devices are unchanged.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn killed_it_leaves_the_devices_as_they_were() {
    let Some(row) = Row::new("killed") else { return };
    for tap in ["tap0", "tap1"] {
        row.gw.ip(&format!("tuntap add dev {tap} mode tap"));
    }
    let before = row.gw.devices();
    for words in ["--lan lan --wan wan", "--io tap --lan tap0 --wan tap1"] {
        let gateway = Gateway::start_with(&row.gw, &format!("{words} --up 1mbit --down 1mbit"));
        let while_it_runs = row.gw.devices();
        // Kills it and waits.
        drop(gateway);
        assert_eq!(row.gw.devices(), before, "{words}");
        assert!(while_it_runs != before || words.contains("tap"));
    }
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn without_a_file_there_is_nothing_to_read_again() {
    let Some(row) = Row::new("nofile") else { return };
    let gateway = Gateway::start(&row.gw, "--up 10mbit --down 10mbit");
    assert_eq!(
        gateway.reads_again(1),
        ["freeboard-gateway: SIGHUP ignored: started without --config"]
    );
    gateway.signal(Signal::SIGINT);
    let ended = gateway.ends();
    assert!(ended.status.success(), "{ended:?}");
}

/// Goal: each change of a link is logged exactly once: down, up again, the carrier, the name.
#[test]
fn each_change_of_a_link_is_said_once() {
    let Some(row) = Row::new("linknews") else { return };
    let gateway = Gateway::start(&row.gw, "--up 10mbit --down 10mbit");
    let says = |expected: &str| {
        let said = gateway.says();
        assert!(said.ends_with(expected), "{said} in place of {expected}");
    };
    for _ in 0..3 {
        row.gw.ip("link set lan down");
        says(" lan: down, frames for it are dropped; run: ip link set lan up");
        row.gw.ip("link set lan up");
        let said = gateway.says();
        assert!(said.contains(" lan: up again"), "{said}");
        if said.ends_with(", without carrier") {
            says(" lan: carrier restored");
        }
        row.s.ip("link set s0 down");
        says(" wan: carrier lost");
        row.s.ip("link set s0 up");
        says(" wan: carrier restored");
    }
    for (from, to) in [("wan", "uplink"), ("uplink", "wan")] {
        // Linux renames a device that is up since 6.2.
        if row.gw.try_ip(&format!("link set {from} name {to}")).is_err() {
            break;
        }
        says(&format!(" {from}: renamed to {to}"));
    }
    row.wait_for_carriers();
    small_flow_arrives(&row, "after all changes");
    gateway.signal(Signal::SIGTERM);
    let ended = gateway.ends();
    assert!(ended.status.success() && ended.said.is_empty(), "{ended:?}");
}
