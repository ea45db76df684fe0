//! A million frames of every kind and length.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashMap;
use std::thread;
use std::time::Instant;

use conformance::{Xorshift, scramble};

use crate::gateway::{Gateway, dropped, drops, told};
use crate::raw::{Raw, millis};
use crate::topology::Row;

/// Maximum number of frames in flight, and their bytes: as much as the buffers in between certainly
/// hold.
const WINDOW: (u64, u64) = (200, 150_000);
/// Number of flows whose scheduling order is checked.
const FLOWS: u64 = 16;

/// Returns frame `number`, whose source address is its number, and its flow if its order matters.
///
/// Lengths from 14 on occur in turn. The frames are IPv4 and IPv6 of a few flows, truncated or
/// random IP headers, ARP, and any other EtherType, after no, one or two VLAN tags.
fn frame(number: u32, mtu: usize) -> (Vec<u8>, Option<u64>) {
    let mut random = Xorshift::new(scramble(number.into()));
    let len = 14 + number as usize % (mtu + 1);
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 1];
    frame.extend(number.to_be_bytes());
    let tags = if len < 60 { 0 } else { random.below(8).saturating_sub(5) };
    for tag in 0..tags {
        // With two tags the outer one is usually a service tag.
        let is_service = tags == 2 && tag == 0 && random.below(2) == 0;
        frame.extend(if is_service { [0x88, 0xa8] } else { [0x81, 0] });
        frame.extend((random.next_u32() as u16).to_be_bytes());
    }
    let kind = random.below(8);
    let ether_type = match kind {
        0..=2 => 0x0800,
        3 | 4 => 0x86dd,
        5 => 0x0806,
        _ => random.next_u32() as u16,
    };
    // The kernel itself drops a truncated tag.
    let is_tag = matches!(ether_type, 0x8100 | 0x88a8);
    let ether_type = if is_tag { 0x9000 } else { ether_type };
    frame.extend(ether_type.to_be_bytes());
    let start = frame.len();
    while frame.len() < len {
        frame.extend(random.next_u64().to_be_bytes());
    }
    frame.truncate(len.max(start));
    let mut flow = None;
    let body = &mut frame[start..];
    // Some headers stay random.
    if kind == 0 && body.len() >= 28 {
        let of = u64::from(random.below(FLOWS as u32));
        body[..20].copy_from_slice(&[
            0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, of as u8, 10, 2, 0, 1,
        ]);
        body[2..4].copy_from_slice(&(len as u16 - 14).to_be_bytes());
        body[20..24].copy_from_slice(&[0, of as u8, 0, 53]);
        flow = Some(of);
    } else if kind == 3 && body.len() >= 48 {
        let of = u64::from(random.below(FLOWS as u32));
        body[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, 17, 64]);
        body[4..6].copy_from_slice(&(len as u16 - 54).to_be_bytes());
        body[8..40].fill(of as u8 + 1);
        body[40..44].copy_from_slice(&[0, of as u8, 0, 53]);
        flow = Some(FLOWS + of);
    } else if kind == 1 {
        // The beginning of a header, or nothing.
        if let Some(first) = body.first_mut() {
            *first = 0x45;
        }
    }
    // A tagged packet is in another flow.
    (frame, flow.filter(|_| tags == 0))
}

/// Sends the frames through and checks that each arrives unchanged, and those of a flow in order;
/// returns their number.
fn sent_through(row: &Row, to: (&str, &str), count: u32, mtu: usize) -> u64 {
    let (sending, mut receiving) = (Raw::open(&row.c, to.0), Raw::open(&row.s, to.1));
    let (packets, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let sender = || {
        let mut sent = (0, 0);
        for number in 0..count {
            let (frame, _) = frame(number, mtu);
            let len = frame.len() as u64;
            let mut since = Instant::now();
            let mut last = 0;
            loop {
                let arrived = packets.load(Ordering::Relaxed);
                let held = sent.1 - bytes.load(Ordering::Relaxed);
                if sent.0 - arrived < WINDOW.0 && held + len <= WINDOW.1.max(len) {
                    break;
                }
                if arrived != last {
                    (since, last) = (Instant::now(), arrived);
                }
                assert!(since.elapsed() < millis(5_000), "{} of {} arrived", arrived, sent.0);
                thread::yield_now();
            }
            // Two tags exceed the MTU at its limit.
            if sending.send(&frame) {
                sent = (sent.0 + 1, sent.1 + len);
            }
        }
        sent.0
    };
    let receiver = || {
        let mut newest = HashMap::new();
        while packets.load(Ordering::Relaxed) < u64::from(count) {
            let Some(found) = receiving.receive() else {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                continue;
            };
            // Bridges send frames of their own.
            if found[0] & 1 == 1 {
                continue;
            }
            let number = u32::from_be_bytes(found[8..12].try_into().unwrap());
            let (frame, flow) = frame(number, mtu);
            assert!(found == frame, "frame {number}: {found:02x?} is not {frame:02x?}");
            if let Some(before) = flow.and_then(|flow| newest.insert(flow, number)) {
                assert!(before < number, "{before} came before {number}, flow {flow:?}");
            }
            bytes.fetch_add(found.len() as u64, Ordering::Relaxed);
            packets.fetch_add(1, Ordering::Relaxed);
        }
    };
    let sent = thread::scope(|scope| {
        let receiver = scope.spawn(receiver);
        let sent = scope.spawn(sender).join();
        is_over.store(true, Ordering::Relaxed);
        receiver.join().unwrap();
        sent.unwrap()
    });
    assert_eq!(packets.into_inner(), sent, "every frame has arrived, once");
    sent
}

/// Checks the gateway's report against what arrived.
fn all_through(row: &Row, words: &str, count: u32, mtu: usize) {
    let begin = Instant::now();
    let gateway = Gateway::start(&row.gw, words);
    let sent = sent_through(row, ("c0", "s0"), count, mtu);
    let report = gateway.end();
    let up = &report["directions"][0];
    println!("{words}: {sent} frames of at most {} bytes in {:.1?}", mtu + 14, begin.elapsed());
    assert_eq!((up["received"].as_u64(), up["sent"].as_u64()), (Some(sent), Some(sent)));
    assert!(drops(up).is_empty(), "{up}");
    assert!(sent > u64::from(count) * 99 / 100);
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_million_frames_come_out_as_they_went_in() {
    let Some(row) = Row::alone("frames") else { return };
    row.silence();
    for queue in ["fifo", "sqf", "drr", "qfq"] {
        let words = format!("--up 2gbit --down 2gbit --limit 300p --queue {queue}");
        all_through(&row, &words, 250_000, 1_500);
    }
    row.set_mtu(9_000);
    all_through(&row, "--up 4gbit --down 4gbit --limit 300p", 30_000, 9_000);
}

/// Goal: frames that cannot be sent are counted by reason. Method: the WAN device's MTU is 1,000
/// bytes smaller than the LAN device's.
#[test]
fn frames_too_long_for_the_other_side_are_counted() {
    let Some(row) = Row::new("toolong") else { return };
    row.silence();
    for (inside, device) in [(&row.gw, "wan"), (&row.s, "s0")] {
        inside.ip(&format!("link set {device} mtu 500"));
    }
    let path = std::env::temp_dir().join(format!("freeboard-{}-toolong", std::process::id()));
    let words = format!("--up 1gbit --down 1gbit --stats {}", path.display());
    let gateway = Gateway::start(&row.gw, &words);
    let said = gateway.says();
    assert!(said.contains(" wan has an MTU of 500 and lan of 1500: "), "{said}");
    let sending = Raw::open(&row.c, "c0");
    for number in 0..1_501 {
        assert!(sending.send(&frame(number, 1_500).0));
        // Long frames fill the buffers in between, and the last ones are not read any more.
        if number % 100 == 0 {
            let sent = u64::from(number) + 1;
            let received = || told(&path)["directions"][0]["received"].as_u64();
            let arrived = (0..1_000).any(|_| {
                thread::sleep(millis(5));
                received() == Some(sent)
            });
            assert!(arrived, "{:?} of {sent} received", received());
        }
    }
    let report = gateway.end();
    let _ = std::fs::remove_file(path);
    let up = &report["directions"][0];
    let (sent, refused) = (up["sent"].as_i64().unwrap(), dropped(&report, 0, "device"));
    assert_eq!((up["received"].as_i64(), sent + refused), (Some(1_501), 1_501), "{up}");
    // Tagged frames may be four bytes longer.
    assert!((501..=505).contains(&sent), "{up}");
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn as_many_frames_come_out_of_taps() {
    let Some(row) = Row::alone("tapframes") else { return };
    row.silence();
    row.bridge_to_tap("lan", "tap0");
    row.bridge_to_tap("wan", "tap1");
    let words = "--io tap --lan tap0 --wan tap1 --up 2gbit --down 2gbit --limit 300p";
    let gateway = Gateway::start_with(&row.gw, words);
    row.wait_for_carriers();
    let sent = sent_through(&row, ("c0", "s0"), 50_000, 1_500);
    let report = gateway.end();
    assert!(report["directions"][0]["sent"].as_u64() >= Some(sent), "{report}");
}
