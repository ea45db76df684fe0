//! Edge cases of the kernel: devices that accept nothing, refuse frames, or deliver what cannot be
//! described.

use std::thread;

use conformance::measurement::attempts;

use crate::gateway::{Gateway, dropped, told};
use crate::raw::{Raw, Tap, millis};
use crate::refusals::file;
use crate::topology::{Row, call};
use crate::traffic::{Heading, Outcome, Paced, percentile};

/// Limits `wan` to 8 Mbit/s with a queue of `limit` bytes.
fn slow_down(row: &Row, limit: u32) {
    let words = format!("qdisc add dev wan root tbf rate 8mbit burst 10000 limit {limit}");
    row.gw.within(|| call("tc", &words)).unwrap();
}

/// Starts more traffic than `wan` carries: 22 Mbit/s.
fn too_much(row: &Row) -> Paced {
    Paced::start(row, Heading::Up, millis(1) / 2, &[1_400])
}

/// Checks that the other direction is not affected.
fn is_free(down: &Outcome) -> Result<(), String> {
    let mut delays: Vec<_> = down.arrived.iter().map(|arrived| arrived.delay()).collect();
    delays.sort_unstable();
    let median = percentile(&delays, 50);
    println!("the other way: {} datagrams, median {median:?}", delays.len());
    if down.is_complete() && median < millis(5) { Ok(()) } else { Err(format!("{median:?}")) }
}

/// Goal: while the device accepts no more, frames wait, count as queued, and are all sent in order
/// later, even if the queue is replaced meanwhile. The other direction is not affected. Method: the
/// kernel sends 8 Mbit/s and holds what one socket may have unsent; four times as much arrives.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_device_that_is_full_is_waited_for() {
    let Some(row) = Row::new("busydev") else { return };
    slow_down(&row, 10_000_000);
    attempts("busydev", || {
        let path = std::env::temp_dir().join(format!("freeboard-{}-busydev", std::process::id()));
        let file = file("busydev", "limit = \"4000p\"");
        let words = "--up 1gbit --down 20mbit --queue fifo";
        let words = format!("{words} --stats {} --config {}", path.display(), file.path());
        let gateway = Gateway::start(&row.gw, &words);
        let (up, down) = (too_much(&row), Paced::start(&row, Heading::Down, millis(5), &[500]));
        thread::sleep(millis(500));
        let queued = told(&path)["directions"][0]["queued"].as_u64();
        // The limit of a queue of another size: queued packets move.
        file.write("limit = \"5000p\"");
        let said = gateway.reads_again(1).remove(0);
        assert!(said.ends_with("limit: 4000 packets -> 5000 packets"), "{said}");
        thread::sleep(millis(300));
        let (up, down) = (up.stop(), down.stop());
        let report = gateway.end();
        println!("{queued:?} queued; {} of {} datagrams", up.arrived.len(), up.sent);
        let _ = std::fs::remove_file(&path);
        assert_eq!(dropped(&report, 0, "device"), 0, "{report}");
        if queued < Some(100) || !up.is_complete() {
            return Err(format!("{queued:?} queued, complete: {}", up.is_complete()));
        }
        is_free(&down)
    });
}

/// Goal: frames refused by a full device are counted. Method: the kernel holds at most three
/// frames, and reports each further one.
#[test]
fn frames_that_a_full_device_refuses_are_counted() {
    let Some(row) = Row::new("refuse") else { return };
    slow_down(&row, 5_000);
    attempts("refuse", || {
        let gateway = Gateway::start(&row.gw, "--up 1gbit --down 20mbit");
        let (up, down) = (too_much(&row), Paced::start(&row, Heading::Down, millis(5), &[500]));
        thread::sleep(millis(500));
        let (up, down) = (up.stop(), down.stop());
        let report = gateway.end();
        let (arrived, refused) = (up.arrived.len() as i64, dropped(&report, 0, "device"));
        println!("{arrived} of {} datagrams, {refused} refused", up.sent);
        if refused < 100 || arrived + refused != i64::from(up.sent) {
            return Err(format!("{report}"));
        }
        is_free(&down)
    });
}

/// Returns frame `number`, of an unknown protocol.
fn plain(number: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x90, 0];
    frame.extend(number.to_be_bytes());
    frame.resize(500, 7);
    frame
}

/// Returns the numbers of those frames that are received until none arrives for a while.
fn numbers(raw: &mut Raw) -> Vec<u16> {
    let frames = core::iter::from_fn(|| raw.receive());
    frames
        .filter(|frame| frame[12..14] == [0x90, 0])
        .map(|frame| u16::from_be_bytes([frame[14], frame[15]]))
        .collect()
}

/// Goal: with a TAP device whose program never reads, the gateway keeps running, and frames from
/// that program arrive.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_program_that_never_reads_its_tap_holds_nothing_up() {
    let Some(row) = Row::new("unread") else { return };
    row.silence();
    row.gw.ip("tuntap add dev tap0 mode tap");
    row.gw.ip("link set tap0 txqueuelen 10 up");
    let mut tap = Tap::open(&row.gw, "tap0", false);
    row.gw.ethtool("-K tap0 gro off");
    let gateway = Gateway::start_with(&row.gw, "--lan lan --wan tap0 --up 1gbit --down 1gbit");
    let mut raw = Raw::open(&row.c, "c0");
    for round in 0..5 {
        for number in 0..100 {
            assert!(raw.send(&plain(number)));
        }
        let sent: Vec<u16> = (0..100).map(|number| round * 100 + number).collect();
        for &number in &sent {
            tap.write(&plain(number));
        }
        assert_eq!(numbers(&mut raw), sent);
    }
    let report = gateway.end();
    println!("{}", report["directions"][0]);
    assert!(report["directions"][0]["received"].as_u64() >= Some(500), "{report}");
}

/// Goal: an unsegmented packet of a kind that packet sockets cannot describe is counted as merged,
/// and those before and after it arrive. Method: a program at a TAP device sends UDP to be
/// fragmented, which packet sockets do not support.
#[test]
fn packets_merged_in_a_way_without_a_name_are_counted() {
    let Some(row) = Row::new("nameless") else { return };
    row.silence();
    row.gw.ip("tuntap add dev tap0 mode tap vnet_hdr");
    row.gw.ip("link set tap0 up");
    let mut tap = Tap::open(&row.gw, "tap0", true);
    row.gw.ethtool("-K tap0 gro off");
    let words = "--lan tap0 --wan wan --up 1gbit --down 1gbit --split-gso=off";
    let gateway = Gateway::start_with(&row.gw, words);
    let said = gateway.says();
    assert!(
        said.contains(" tap0: the program at its other end, such as a virtual machine, "),
        "{said}"
    );
    let mut raw = Raw::open(&row.s, "s0");
    let mut merged = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let ip_len = 3_000_u16.to_be_bytes();
    merged.extend([
        0x45, 0, ip_len[0], ip_len[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    let udp_len = 2_980_u16.to_be_bytes();
    merged.extend([0, 9, 0, 9, udp_len[0], udp_len[1], 0, 0]);
    merged.resize(3_014, 7);
    for number in 0..50 {
        tap.write(&plain(2 * number));
        tap.write_unfragmented(&merged);
        tap.write(&plain(2 * number + 1));
        thread::sleep(millis(1));
    }
    assert_eq!(numbers(&mut raw), (0..100).collect::<Vec<u16>>());
    let said = gateway.says();
    assert!(said.contains(" tap0: dropped "), "{said}");
    assert_eq!(dropped(&gateway.end(), 0, "merged"), 50);
}

/// Returns the device's offloads as shown by `ethtool -k`.
fn offloads(row: &Row, device: &str) -> Vec<String> {
    let text = row.gw.within(|| call("ethtool", &format!("-k {device}"))).unwrap();
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("tx-"));
    lines.map(str::to_owned).collect()
}

/// Goal: a TAP device delivers segmented packets while the gateway is attached, and has its former
/// offloads afterwards. Method: former programs that enabled nothing, checksums, and more and more
/// offloads; one never set any.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_tap_keeps_what_its_program_said_before() {
    let Some(row) = Row::new("offload") else { return };
    let words = "--io tap --lan tap0 --wan tap1 --up 1gbit --down 1gbit";
    row.gw.ip("tuntap add dev tap1 mode tap");
    // Bits of `linux/if_tun.h`: checksums, TSO for IPv4 and IPv6, TSO with ECN, USO for both.
    for bits in [None, Some(0), Some(1), Some(3), Some(5), Some(0xf), Some(0x67)] {
        row.gw.ip("tuntap add dev tap0 mode tap");
        if let Some(bits) = bits {
            Tap::open(&row.gw, "tap0", false).set_offloads(bits);
        }
        let before = offloads(&row, "tap0");
        let gateway = Gateway::start_with(&row.gw, words);
        for feature in ["tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-udp-segmentation"] {
            let now = offloads(&row, "tap0");
            let of = now.iter().find(|line| line.starts_with(feature)).unwrap();
            assert!(of.starts_with(&format!("{feature}: off")), "{bits:?}: {of}");
        }
        gateway.end();
        assert_eq!(offloads(&row, "tap0"), before, "{bits:?}");
        row.gw.ip("link del tap0");
    }
}
