//! The gateway's user, its reports, and its cost while idle.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::raw::millis;
use crate::topology::{HOSTS, Row};
use crate::traffic::{BOTH, Bulk, Heading, Outcome, Paced, small_flow_arrives};
use conformance::measurement::attempts;

const RATES: &str = "--up 10mbit --down 10mbit";

/// Returns a line of `/proc/PID/status`.
fn status(gateway: &Gateway<'_>, what: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the CPU ticks of the process, user and system.
fn ticks(gateway: &Gateway<'_>) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).unwrap();
    // After the name in parentheses, the third field is next.
    let (_, fields) = text.rsplit_once(") ").unwrap();
    let field =
        |number: usize| -> u64 { fields.split(' ').nth(number - 3).unwrap().parse().unwrap() };
    field(14) + field(15)
}

/// Returns this user's ids as the system has them.
fn user(name: &str) -> [String; 2] {
    let text = fs::read_to_string("/etc/passwd").unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
    let fields: Vec<&str> = line.split(':').collect();
    [fields[2], fields[3]].map(|number| [number; 4].join(" "))
}

/// Goal: an exploit of the frame parser gains no privileges. Method: started by root with various
/// users, root included, and by an unprivileged user with the capabilities that it needs.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn it_runs_as_whom_it_is_told_and_without_capabilities() {
    let Some(row) = Row::new("user") else { return };
    let able = [
        "setpriv",
        "--reuid=daemon",
        "--regid=daemon",
        "--clear-groups",
        "--inh-caps=+net_raw",
        "--ambient-caps=+net_raw",
    ];
    for (by, words, name) in [
        (&[][..], "", "nobody"),
        (&[], "--user daemon", "daemon"),
        (&[], "--user root", "root"),
        (&able, "", "daemon"),
        (&able, "--split-gso=off", "daemon"),
    ] {
        // A gateway that does not segment checks the other ends of the pairs, which requires
        // CAP_NET_ADMIN.
        let asks = words.contains("--split-gso=off");
        let words = format!("--lan lan --wan wan {RATES} {words}");
        let gateway = Gateway::start_by(&row.gw, by, &words);
        for device in ["lan", "wan"].iter().filter(|_| asks) {
            let said = gateway.says();
            assert!(
                said.contains(&format!(" {device}: the other end of the pair is in ")),
                "{said}"
            );
        }
        let [uid, gid] = user(name);
        assert_eq!((status(&gateway, "Uid"), status(&gateway, "Gid")), (uid, gid));
        assert!(status(&gateway, "Groups").is_empty() || name == "root");
        for kind in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
            assert_eq!(status(&gateway, kind), "0000000000000000", "{kind} {by:?} {words}");
        }
        // It can do all that it has to.
        small_flow_arrives(&row, &words);
        gateway.end();
    }
}

/// Goal: an idle gateway sleeps: it is not woken once, so it takes no CPU time. Method: after
/// traffic in each direction and a queue that has drained; with a client that requested metrics.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn an_idle_gateway_sleeps() {
    let Some(row) = Row::alone("idle") else { return };
    // The kernel's own occasional traffic is no idle time.
    attempts("idle", || {
        let gateway =
            Gateway::start(&row.gw, &format!("{RATES} --metrics 127.0.0.1:9101 --encoding atm"));
        let bulk = BOTH.map(|heading| Bulk::start(&row, HOSTS[0], heading, 2));
        thread::sleep(millis(300));
        drop(bulk);
        let _open = row.gw.within(|| TcpStream::connect("127.0.0.1:9101").unwrap());
        thread::sleep(millis(1_000));
        let cost = || {
            let switches = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"];
            (ticks(&gateway), switches.map(|kind| status(&gateway, kind)))
        };
        let before = cost();
        thread::sleep(millis(3_000));
        let after = cost();
        println!("before {before:?}, after {after:?}");
        gateway.end();
        if before == after { Ok(()) } else { Err(format!("{before:?} became {after:?}")) }
    });
}

/// Goal: a client that uses up all descriptors does not make the gateway busy, frames are
/// forwarded, no device is taken for lost, and a client that connects later is answered. Method:
/// capacity for nine clients; 30 that request metrics and 30 statistics. In a loop that does not
/// sleep, 2 s would be 200 ticks.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn many_clients_do_not_keep_it_busy() {
    let Some(row) = Row::new("many") else { return };
    let path = std::env::temp_dir().join(format!("freeboard-{}-many", std::process::id()));
    let words =
        format!("--lan lan --wan wan {RATES} --stats {} --metrics 127.0.0.1:9101", path.display());
    let few = ["sh", "-c", "ulimit -n 20; exec \"$@\"", "sh"];
    let gateway = Gateway::start_by(&row.gw, &few, &words);
    let connect = || row.gw.within(|| TcpStream::connect("127.0.0.1:9101").unwrap());
    let asking: Vec<TcpStream> = (0..30).map(|_| connect()).collect();
    let reading: Vec<UnixStream> = (0..30).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let is_open =
        |fd: u32| fs::symlink_metadata(format!("/proc/{}/fd/{fd}", gateway.pid())).is_ok();
    let is_full = (0..200).any(|_| {
        thread::sleep(millis(50));
        (0..20).all(is_open)
    });
    assert!(is_full, "there is room for no more");
    attempts("many clients", || {
        let (before, flows) =
            (ticks(&gateway), BOTH.map(|heading| Paced::start(&row, heading, millis(5), &[500])));
        row.gw.ip("link set wan alias known");
        thread::sleep(millis(2_000));
        let cost = ticks(&gateway) - before;
        println!("{cost} ticks in 2 s");
        let outcomes = flows.map(Paced::stop);
        if cost >= 60 {
            return Err(format!("{cost} ticks"));
        }
        outcomes.iter().try_for_each(Outcome::complete)
    });
    drop((asking, reading));
    let mut later = connect();
    later.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    later.set_read_timeout(Some(millis(20_000))).unwrap();
    let mut answer = String::new();
    later.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    gateway.end();
    let _ = fs::remove_file(path);
}

#[test]
fn it_says_what_it_does_to_clients() {
    let Some(row) = Row::new("serving") else { return };
    let path = std::env::temp_dir().join(format!("freeboard-{}-stats", std::process::id()));
    let socket = path.display().to_string();
    let words = format!("{RATES} --stats {socket} --metrics 127.0.0.1:9101");
    let gateway = Gateway::start(&row.gw, &words);
    let bulk = BOTH.map(|heading| Bulk::start(&row, HOSTS[0], heading, 2));
    thread::sleep(millis(300));

    let mut top = Command::new(env!("CARGO_BIN_EXE_freeboard-gateway"));
    let mut top = top.args(["top", "--stats", &socket]).stdout(Stdio::piped()).spawn().unwrap();
    let listen = || BufReader::new(UnixStream::connect(&path).unwrap()).lines();
    let mut lines = listen();
    let reports: Vec<Value> = (0..4)
        .map(|_| {
            let report = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            // A new client gets a report at once, without effect on the others.
            assert!(listen().next().unwrap().unwrap().starts_with("{\"version\":1,"));
            report
        })
        .collect();
    let sent = |report: &Value| report["directions"][0]["sent_bytes"].as_u64().unwrap();
    let seconds = |report: &Value| report["seconds"].as_f64().unwrap();
    for (at, pair) in reports.windows(2).enumerate() {
        let bits = (sent(&pair[1]) - sent(&pair[0])) as f64 * 8.0;
        let span = seconds(&pair[1]) - seconds(&pair[0]);
        println!("{bits} bits in {span} s reported");
        // Plus a burst of the shaper; the first report is sent when a client connects.
        assert!(bits <= 10.1e6 * span + 1e5, "{pair:?}");
        assert!(at == 0 || span > 0.999 && bits > 1e6, "{pair:?}");
        for direction in pair[1]["directions"].as_array().unwrap() {
            assert_eq!(direction["hosts_seen"][0]["name"].as_str(), Some(HOSTS[0]), "{direction}");
            assert!(direction["flows_seen"].as_array().unwrap().len() >= 4, "{direction}");
            assert!(direction["delay"]["p99_ms"].as_f64() > Some(0.0), "{direction}");
        }
    }
    // The gateway waits for no client that does not read, and delays no other client.
    let mut asking = row.gw.within(|| TcpStream::connect("127.0.0.1:9101").unwrap());
    asking.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "freeboard_unaccounted_packets{direction=\"up\"} 0",
        "freeboard_unaccounted_packets{direction=\"down\"} 0",
        "# TYPE freeboard_delay_seconds histogram",
    ] {
        assert!(answer.lines().any(|found| found == line), "{line} in {answer}");
    }
    gateway.end();
    drop(bulk);
    assert!(lines.next().is_none_or(|line| line.is_ok()));
    let mut text = String::new();
    top.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(top.wait().unwrap().success(), "it ends with the gateway");
    for part in ["\nup ", "\ndown ", "of 10mbit", HOSTS[0], " tcp"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let _ = fs::remove_file(path);
}

/// Goal: SIGUSR1 prints a report and nothing ends, also without per-flow statistics. Method: twice,
/// beside a flow that has to arrive complete, with standard output in a file.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_signal_prints_a_report() {
    let Some(row) = Row::new("usr1") else { return };
    let path = std::env::temp_dir().join(format!("freeboard-{}-usr1", std::process::id()));
    let by = ["sh", "-c", "out=$0; exec \"$@\" > \"$out\"", path.to_str().unwrap()];
    let words = format!("--lan lan --wan wan {RATES}");
    let gateway = Gateway::start_by(&row.gw, &by, &words);
    let mut asked = 0;
    attempts("reports", || {
        let flow = Paced::start(&row, Heading::Up, millis(5), &[500]);
        for _ in 0..2 {
            thread::sleep(millis(100));
            gateway.signal(Signal::SIGUSR1);
            asked += 1;
            let has_come = || fs::read_to_string(&path).unwrap().lines().count() == asked;
            assert!((0..100).any(|_| {
                thread::sleep(millis(20));
                has_come()
            }));
        }
        flow.stop().complete()
    });
    small_flow_arrives(&row, "after the signals");
    gateway.signal(Signal::SIGTERM);
    thread::sleep(millis(500));
    let text = fs::read_to_string(&path).unwrap();
    let reports: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let received = |report: &Value| report["directions"][0]["received"].as_u64().unwrap();
    assert_eq!(reports.len(), asked + 1, "{text}");
    assert!(reports.windows(2).all(|pair| received(&pair[0]) < received(&pair[1])), "{text}");
    let _ = fs::remove_file(path);
}
