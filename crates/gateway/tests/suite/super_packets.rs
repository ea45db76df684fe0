//! Frames of several packets, from a kernel that leaves segmentation to its device, segmented by
//! the gateway.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Instant;

use conformance::measurement::attempts;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;

use crate::gateway::{Gateway, dropped};
use crate::raw::{Raw, millis};
use crate::refusals::file;
use crate::topology::{FAR, HOSTS, Namespace, Row};
use crate::traffic::{Bulk, Heading, Paced, percentile, uncut_datagrams};

const RATES: &str = "--up 50mbit --down 50mbit";

/// Makes both ends leave all segmentation to their devices, which are virtual.
fn uncut(row: &Row) {
    for (inside, device) in [(&row.c, "c0"), (&row.s, "s0")] {
        inside.ip(&format!("link set {device} gso_max_segs 65535"));
    }
}

/// Sends `len` bytes from one namespace to an address in the other; returns true if they arrive
/// intact.
fn is_intact(from: &Namespace, to: &Namespace, address: IpAddr, len: usize) -> bool {
    let listener = to.within(|| TcpListener::bind((address, 0)).unwrap());
    let address: SocketAddr = listener.local_addr().unwrap();
    let mut sending = from.within(move || TcpStream::connect(address).unwrap());
    let (mut receiving, _) = listener.accept().unwrap();
    receiving.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let bytes: Vec<u8> = (0..len as u32).map(|at| (at ^ (at >> 8) ^ (at >> 15)) as u8).collect();
    let sent = bytes.clone();
    let sender = thread::spawn(move || {
        let _ = sending.write_all(&sent);
        let _ = sending.shutdown(Shutdown::Write);
    });
    let mut received = Vec::new();
    let is_over = receiving.read_to_end(&mut received).is_ok();
    let _ = receiving.shutdown(Shutdown::Both);
    sender.join().unwrap();
    is_over && received == bytes
}

/// Number of bytes sent by `is_intact` in these tests, and the minimum number of frames: an
/// unsegmented frame has at most 64 kB.
const SENT: usize = 2_000_000;
const FEWEST: i64 = (SENT / 65_536) as i64;

fn count(report: &Value, direction: usize, what: &str) -> i64 {
    report["directions"][direction][what].as_i64().unwrap()
}

/// Goal: TCP and datagrams that arrive unsegmented leave as packets of at most the MTU, one per
/// segment, and their contents arrive intact, which the receiver's kernel verifies by checksums
/// too, over IPv4 and IPv6 and in both directions. Nothing is logged about the senders, and nothing
/// is counted as merged.
#[test]
fn uncut_frames_leave_as_the_packets_they_are() {
    let Some(row) = Row::alone("cut") else { return };
    row.with_ipv6();
    uncut(&row);
    let gateway = Gateway::start(&row.gw, RATES);
    let mut line = Raw::open(&row.s, "s0");
    for (near, far) in [(HOSTS[0], FAR), ("fd00::1", "fd00::2")] {
        let [near, far]: [IpAddr; 2] = [near, far].map(|address| address.parse().unwrap());
        assert!(is_intact(&row.c, &row.s, far, SENT), "to {far}");
        assert!(is_intact(&row.s, &row.c, near, SENT), "to {near}");
        assert_eq!(uncut_datagrams(&row.c, &row.s, far, 20), 200, "{far}");
    }
    let (mut longest, mut frames) = (0, 0);
    while let Some(frame) = line.receive() {
        (longest, frames) = (longest.max(frame.len()), frames + 1);
    }
    assert_eq!(longest, 1_514, "of {frames} frames");
    let report = gateway.end();
    for direction in 0..2 {
        assert_eq!(dropped(&report, direction, "merged"), 0, "{report}");
        let (cut, received) =
            (count(&report, direction, "segmented"), count(&report, direction, "received"));
        // Sent twice, in packets of 1,448 bytes.
        assert!(cut > 2 * FEWEST && received > 2_700, "{cut} cut, {received} received: {report}");
    }
}

/// Goal: in a tunnel the inner packets are segmented, and the tunnel's headers are correct for
/// each: TCP and datagrams arrive intact, at a rate, with checksums that the receiver's kernel
/// accepts. Method: each kind of tunnel that this kernel has.
#[test]
fn packets_inside_tunnels_are_cut() {
    let Some(row) = Row::alone("cuttunnel") else { return };
    uncut(&row);
    let tunnels = row.with_tunnels();
    if tunnels.is_empty() {
        println!("this kernel has no tunnels");
        return;
    }
    let gateway = Gateway::start(&row.gw, RATES);
    for (kind, [near, far]) in &tunnels {
        let [near, far]: [IpAddr; 2] = [near, far].map(|address| address.parse().unwrap());
        assert!(is_intact(&row.c, &row.s, far, SENT), "{kind}, up");
        assert!(is_intact(&row.s, &row.c, near, SENT), "{kind}, down");
        assert_eq!(uncut_datagrams(&row.c, &row.s, far, 10), 100, "{kind}");
    }
    let report = gateway.end();
    for direction in 0..2 {
        assert_eq!(dropped(&report, direction, "merged"), 0, "{report}");
        let cut = count(&report, direction, "segmented");
        assert!(cut > tunnels.len() as i64 * FEWEST, "{cut} cut: {report}");
    }
}

/// Goal: a device that coalesces received packets does no harm if frames are segmented, and each
/// packet keeps its tags.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn merged_frames_and_tagged_ones_are_cut() {
    let Some(row) = Row::alone("cutgro") else { return };
    uncut(&row);
    row.gw.ethtool("-K lan gro on");
    let gateway = Gateway::start(&row.gw, RATES);
    let [near, far]: [IpAddr; 2] = [HOSTS[0], FAR].map(|address| address.parse().unwrap());
    assert!(is_intact(&row.c, &row.s, far, SENT));
    // The sender segments, and the gateway's device coalesces.
    row.c.ip("link set c0 gso_max_segs 1");
    assert!(is_intact(&row.c, &row.s, far, SENT));
    assert!(is_intact(&row.s, &row.c, near, SENT));
    row.c.ip("link set c0 gso_max_segs 65535");
    if row.with_tags() {
        assert!(is_intact(&row.c, &row.s, "10.7.0.2".parse().unwrap(), SENT));
    } else {
        println!("this kernel has no VLAN devices");
    }
    let report = gateway.end();
    assert_eq!(dropped(&report, 0, "merged") + dropped(&report, 1, "merged"), 0, "{report}");
    assert!(count(&report, 0, "segmented") > FEWEST, "{report}");
}

/// Goal: a reload enables and disables segmentation, and unsegmented frames are dropped and
/// counted.
#[test]
fn cutting_changes_on_a_reload() {
    let Some(row) = Row::alone("cutreload") else { return };
    row.c.ip("link set c0 gso_max_segs 65535");
    let text = |more: &str| format!("up = \"50mbit\"\ndown = \"50mbit\"\n{more}");
    let file = file("cutreload", &text(""));
    let gateway = Gateway::start(&row.gw, &format!("--config {}", file.path()));
    let datagrams = |calls| uncut_datagrams(&row.c, &row.s, FAR.parse().unwrap(), calls);
    assert_eq!(datagrams(5), 50);
    file.write(&text("split-gso = false"));
    assert_eq!(gateway.reads_again(1), ["freeboard-gateway: split-gso: on -> off"]);
    assert_eq!(datagrams(5), 0);
    assert!(gateway.says().contains(" lan: dropped "));
    file.write(&text("split-gso = true"));
    assert_eq!(gateway.reads_again(1), ["freeboard-gateway: split-gso: off -> on"]);
    assert_eq!(datagrams(5), 50);
    let report = gateway.end();
    assert_eq!(
        (count(&report, 0, "segmented"), dropped(&report, 0, "merged")),
        (10, 5),
        "{report}"
    );
}

/// Goal: a sender of frames with many small packets blocks neither the link nor the other
/// direction, at any rate. Method: datagrams of 100 bytes, sent a hundred at a time without pause
/// for two seconds, beside one every 5 ms in the other direction. At 10 Mbit/s the link carries
/// 8,800 packets of 142 bytes a second; at least half of them must be sent.
#[test]
fn a_flood_of_small_packets_leaves_the_line_and_the_way_back() {
    let Some(row) = Row::alone("cutflood") else { return };
    row.c.ip("link set c0 gso_max_segs 65535");
    attempts("a flood of small packets", || {
        let gateway = Gateway::start(&row.gw, "--up 10mbit --down 10mbit");
        row.wait_for_carriers();
        let probe = Paced::start(&row, Heading::Down, millis(5), &[100]);
        let (from, packet) = (Instant::now(), [7; 10_000]);
        let flood = row.c.within(|| UdpSocket::bind((HOSTS[0], 0)).unwrap());
        setsockopt(&flood, sockopt::UdpGsoSegment, &100).unwrap();
        while from.elapsed() < millis(2_000) {
            let _ = flood.send_to(&packet, (FAR, 9));
        }
        let delays = probe.stop().delays(from, Instant::now());
        let (report, probes) = (gateway.end(), delays.len());
        assert!(count(&report, 0, "segmented") > 100, "{report}");
        let (sent, p50) = (count(&report, 0, "sent"), percentile(&delays, 50));
        println!("{sent} packets sent up, {probes} of 400 probes down, {p50:?} at the median");
        let is_fair = sent > 8_800 && probes > 100 && p50 < millis(50);
        if is_fair { Ok(()) } else { Err(format!("{sent} packets, {probes} probes, {p50:?}")) }
    });
}

/// Goal: a small flow beside an upload waits for one of its packets, whether the sender or the
/// gateway segments, and the upload gets the link; if neither does, the upload gets hardly
/// anything. Method: 100 bytes every 5 ms beside one TCP flow, at 10 Mbit/s up.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_small_flow_beside_an_uncut_upload_waits_for_a_packet() {
    let Some(row) = Row::alone("cutdelay") else { return };
    let measure = |segments: u32, words: &str| {
        row.c.ip(&format!("link set c0 gso_max_segs {segments}"));
        let gateway = Gateway::start(&row.gw, &format!("--up 10mbit --down 10mbit {words}"));
        row.wait_for_carriers();
        let probe = Paced::start(&row, Heading::Up, millis(5), &[100]);
        let bulks = [Bulk::start(&row, HOSTS[0], Heading::Up, 1)];
        thread::sleep(millis(1_500));
        let from = Instant::now();
        let received = Bulk::received_in(&bulks, millis(6_000))[0];
        let to = Instant::now();
        let delays = probe.stop().delays(from, to);
        drop(bulks);
        gateway.signal(nix::sys::signal::Signal::SIGTERM);
        let ended = gateway.ends();
        assert!(ended.status.success(), "{ended:?}");
        let [p50, p99] = [50, 99].map(|part| percentile(&delays, part).as_secs_f64() * 1e3);
        let megabits = received as f64 * 8.0 / 6e6;
        println!(
            "gso_max_segs {segments} {words}: upload {megabits:.2} Mbit/s, probe {p50:.2} ms, 99 % {p99:.2} ms, {} cut, {} \
             dropped as merged",
            count(&ended.report, 0, "segmented"),
            dropped(&ended.report, 0, "merged"),
        );
        (megabits, p50)
    };
    attempts("a small flow beside an uncut upload", || {
        let [sender, here, nowhere] = [(1, ""), (65_535, ""), (65_535, "--split-gso=off")]
            .map(|(segments, words)| measure(segments, words));
        // A packet of 1,514 bytes takes 1.2 ms, one of 64 kB 52 ms.
        let is_small = sender.1 < 4.0 && here.1 < 4.0;
        let has_line = sender.0 > 8.0 && here.0 > 8.0 && nowhere.0 < 5.0;
        if is_small && has_line {
            Ok(())
        } else {
            Err(format!("{sender:.2?}, {here:.2?}, {nowhere:.2?}"))
        }
    });
}
