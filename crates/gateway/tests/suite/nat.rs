//! Hosts behind this machine's own NAT.

use core::time::Duration;
use std::io::Write as _;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use conformance::measurement::settles;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::gateway::{Gateway, told};
use crate::raw::millis;
use crate::refusals::file;
use crate::topology::{FAR, Namespace, Row, has, skip};
use crate::traffic::{BOTH, Bulk};

const HOSTS: [&str; 2] = ["10.8.0.1", "10.8.0.3"];
const LINE: &str = "up = \"20mbit\"\ndown = \"20mbit\"\n";

/// Turns the machine in the middle into a router with NAT, with the gateway on its outer side: its
/// stack has `out`, whose peer is `fb`. Returns false if the kernel cannot.
fn translate(row: &Row) -> bool {
    for (inside, device, address) in
        [(&row.c, "c0", HOSTS[0]), (&row.c, "c0", HOSTS[1]), (&row.gw, "lan", "10.8.0.254")]
    {
        if address == HOSTS[0] {
            inside.ip(&format!("addr flush dev {device}"));
        }
        inside.ip(&format!("addr add {address}/24 dev {device}"));
    }
    row.gw.ip("link add out type veth peer name fb");
    for device in ["out", "fb"] {
        row.gw.ethtool(&format!("-K {device} gro off"));
        row.gw.ip(&format!("link set {device} gso_max_segs 1 up"));
    }
    // Otherwise the kernel would answer for the address of `out` there as well.
    row.gw.ip("link set wan arp off");
    row.gw.ip("addr add 10.9.0.254/24 dev out");
    row.c.ip("route add default via 10.8.0.254");
    row.gw.set("ipv4/ip_forward", "1");
    let rules = "table ip t {\n chain post {\n  type nat hook postrouting priority srcnat;\n  \
                 oifname out masquerade\n }\n}\n";
    if let Err(why) = nft(&row.gw, rules) {
        skip("nat", &format!("nft with masquerade ({})", why.trim()));
        return false;
    }
    let table = row.gw.within(|| Path::new("/proc/thread-self/net/nf_conntrack").exists());
    if !table {
        skip("nat", "a kernel with /proc/net/nf_conntrack");
    }
    table
}

/// Runs `nft` rules inside.
pub(crate) fn nft(inside: &Namespace, rules: &str) -> Result<(), String> {
    inside.within(|| {
        let mut child = Command::new("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("nft: {error}"))?;
        let written = child.stdin.take().map(|mut stdin| stdin.write_all(rules.as_bytes()));
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        match (written, output.status.success()) {
            (Some(Ok(())), true) => Ok(()),
            _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    })
}

/// Returns the first one's share of the total of two, in percent.
fn share_of_first(bulks: &[Bulk]) -> f64 {
    let bytes = Bulk::received_in(bulks, Duration::from_millis(1_500));
    bytes[0] as f64 * 100.0 / bytes.iter().sum::<u64>() as f64
}

/// Goal: hosts behind this machine's NAT share the link equally, whatever flows they open, and
/// reports show their addresses; without the option the flows share, since all have one address. A
/// reload enables and disables it. Method: a router that masquerades two hosts, with the gateway on
/// its outer side; one flow beside eight, in each direction.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn hosts_behind_the_own_translation_are_told_apart() {
    let Some(row) = Row::new("nat") else { return };
    if !has("nat", &["nft"]) || !translate(&row) {
        return;
    }
    let socket = std::env::temp_dir().join(format!("freeboard-{}-nat", std::process::id()));
    let file = file("nat", &format!("{LINE}nat = true\n"));
    let words = format!("--config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start_with(&row.gw, &format!("--lan fb --wan wan {words}"));
    let shares = |what: &str, accepted: core::ops::RangeInclusive<f64>| {
        for heading in BOTH {
            let bulks: Vec<Bulk> = HOSTS
                .iter()
                .zip([1, 8])
                .map(|(host, flows)| Bulk::from_host(&row, host, heading, flows))
                .collect();
            thread::sleep(millis(1_500));
            let what = format!("{what}: {heading:?}, the host with one flow beside eight, %");
            settles(&what, || vec![share_of_first(&bulks)], |share| accepted.contains(&share[0]));
            let report = told(&socket);
            let seen = report["directions"][1]["hosts_seen"].as_array().unwrap();
            let is_seen = |host: &str| seen.iter().any(|of| of["name"] == host);
            let is_on = what.starts_with("on");
            assert!(!is_on || HOSTS.iter().all(|host| is_seen(host)), "{seen:?}");
            assert_eq!(report["nat"].as_u64().is_some_and(|count| count >= 9), is_on, "{report}");
        }
    };
    shares("on", 45.0..=55.0);
    file.write(LINE);
    let changes = ["host-by: address -> auto", "nat: on -> off"];
    assert_eq!(
        gateway.reads_again(2),
        changes.map(|change| format!("freeboard-gateway: {change}"))
    );
    shares("off", 5.0..=20.0);
    file.write(&format!("{LINE}nat = true\n"));
    let changes = ["host-by: auto -> address", "nat: off -> on"];
    assert_eq!(
        gateway.reads_again(2),
        changes.map(|change| format!("freeboard-gateway: {change}"))
    );
    shares("on again", 45.0..=55.0);
    gateway.end();
}

/// Sends a datagram from each of `count` ports of the first host, after one that resolves
/// addresses.
fn each_port_once(row: &Row, count: u16) {
    let far = (FAR, 9_999);
    row.c.within(|| {
        let from = |port| UdpSocket::bind((HOSTS[0], port)).unwrap();
        from(0).send_to(b"who is there", far).unwrap();
        thread::sleep(millis(300));
        for port in 0..count {
            from(20_000 + port).send_to(b"datagram", far).unwrap();
            if port % 16 == 0 {
                thread::sleep(millis(1));
            }
        }
    });
}

/// Returns the number of uploaded packets of `host`.
fn sent_up(report: &Value, host: &str) -> u64 {
    let seen = report["directions"][0]["hosts_seen"].as_array().unwrap();
    let found = seen.iter().filter(|of| of["name"] == host);
    found.map(|of| of["sent"].as_u64().unwrap()).sum()
}

/// Goal: the first packet of a host's connection is attributed to the host, none to the machine's
/// own address. Method: 400 connections of one datagram each within 25 ms.
#[test]
fn the_first_packet_of_a_connection_is_of_its_host() {
    let Some(row) = Row::new("natfirst") else { return };
    if !has("natfirst", &["nft"]) || !translate(&row) {
        return;
    }
    let socket = std::env::temp_dir().join(format!("freeboard-{}-natfirst", std::process::id()));
    let words = format!("--up 100mbit --down 100mbit --nat --stats {}", socket.display());
    let gateway = Gateway::start_with(&row.gw, &format!("--lan fb --wan wan {words}"));
    row.wait_for_carriers();
    each_port_once(&row, 400);
    thread::sleep(millis(300));
    let report = told(&socket);
    let counts = (sent_up(&report, HOSTS[0]), sent_up(&report, "10.9.0.254"));
    println!("of the host and of the machine: {counts:?}");
    assert!(counts.0 >= 400 && counts.1 == 0, "{report}");
    assert!(report["nat"].as_u64() >= Some(400), "{report}");
    gateway.end();
}

/// Goal: connections that began while the gateway did not read are known soon after, by report or
/// from the table. Method: a stopped gateway while 16,000 connections begin.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn what_began_meanwhile_is_known_soon() {
    let Some(row) = Row::new("natlost") else { return };
    if !has("natlost", &["nft"]) || !translate(&row) {
        return;
    }
    let socket = std::env::temp_dir().join(format!("freeboard-{}-natlost", std::process::id()));
    let words = format!("--up 100mbit --down 100mbit --nat --stats {}", socket.display());
    let gateway = Gateway::start_with(&row.gw, &format!("--lan fb --wan wan {words}"));
    row.wait_for_carriers();
    each_port_once(&row, 1);
    gateway.signal(Signal::SIGSTOP);
    each_port_once(&row, 16_000);
    gateway.signal(Signal::SIGCONT);
    let begin = Instant::now();
    loop {
        let known = told(&socket)["nat"].as_u64().unwrap();
        if known >= 16_000 {
            println!("{known} connections, {:.1?} after it went on", begin.elapsed());
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{known}");
        thread::sleep(millis(50));
    }
    gateway.end();
}

/// Goal: a gateway that was started without the option reports that it needs a restart, and
/// continues without it.
#[test]
fn the_option_needs_a_restart_where_it_was_off() {
    let Some(row) = Row::new("natlate") else { return };
    let socket = std::env::temp_dir().join(format!("freeboard-{}-natlate", std::process::id()));
    let file = file("natlate", LINE);
    let words = format!("--config {} --stats {}", file.path(), socket.display());
    let gateway = Gateway::start(&row.gw, &words);
    file.write(&format!("{LINE}nat = true\n"));
    let said = gateway.reads_again(2);
    assert!(said[1].ends_with("needs a restart; off until then"), "{said:?}");
    assert!(told(&socket)["nat"].is_null());
    gateway.end();
}
