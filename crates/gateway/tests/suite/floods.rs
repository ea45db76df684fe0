//! Floods without IP: such frames are one host, with a flow per device.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use conformance::measurement::attempts;

use crate::gateway::Gateway;
use crate::raw::{Raw, millis};
use crate::topology::Row;
use crate::traffic::{Heading, Paced, percentile};

/// EtherType of ARP, and an unassigned one.
const ARP: [u8; 2] = [0x08, 0x06];
const OTHER: [u8; 2] = [0x90, 0x00];
/// Length of a flood's frame in bytes: 2.2 ms at 5 Mbit/s.
const LONG: usize = 1_400;
/// Number of frames per 10 ms: twice the link's rate.
const TOGETHER: u32 = 9;

/// Maximum loss of another device's frames without IP during a flood with forged addresses, of 100:
/// 24 were observed, and other load on the machine contributes.
const MOST_LOST: usize = 50;

/// Returns a frame without IP from the device whose address ends with this number.
fn frame(device: u32, kind: [u8; 2], len: usize) -> Vec<u8> {
    let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0];
    frame.extend(device.to_be_bytes());
    frame.extend(kind);
    frame.resize(len, 0);
    frame
}

/// Goal: a device that floods the gateway with ARP, from any number of MAC addresses, delays an IP
/// probe by a few frames at most and costs none of its packets. A flood from one address costs
/// other devices none of their frames without IP, and a flood from forged addresses at most half of
/// them. Method: ARP uploads at twice the link's rate, each frame with its own address, or all with
/// one.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_flood_without_ip_is_one_host() {
    let Some(row) = Row::alone("floods") else { return };
    attempts("floods", || {
        for forges in [true, false] {
            let gateway = Gateway::start(&row.gw, "--up 5mbit --down 5mbit");
            row.wait_for_carriers();
            let (mut far, near) = (Raw::open(&row.s, "s0"), Raw::open(&row.c, "c0"));
            let is_over = AtomicBool::new(false);
            let (outcome, begin) = thread::scope(|scope| {
                let flood = Raw::open(&row.c, "c0");
                let is_over = &is_over;
                scope.spawn(move || {
                    for burst in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                        for number in 0..TOGETHER {
                            let device = if forges { burst * TOGETHER + number } else { 0 };
                            flood.send(&frame(device, ARP, LONG));
                        }
                        thread::sleep(millis(10));
                    }
                });
                thread::sleep(millis(1_000));
                let begin = Instant::now();
                let probe = Paced::start(&row, Heading::Up, millis(20), &[200]);
                for _ in 0..100 {
                    assert!(near.send(&frame(u32::MAX, OTHER, 60)));
                    thread::sleep(millis(20));
                }
                let outcome = probe.stop();
                is_over.store(true, Ordering::Relaxed);
                (outcome, begin)
            });
            let others = core::iter::from_fn(|| far.receive());
            let others = others.filter(|frame| frame[12..14] == OTHER).count();
            gateway.end();
            let delays = outcome.delays(begin, Instant::now());
            let [p50, p99] = [50, 99].map(|percent| percentile(&delays, percent));
            let (arrived, sent) = (outcome.arrived.len(), outcome.sent);
            println!(
                "forges {forges}: {arrived} of {sent} datagrams, {p50:.1?} and {p99:.1?}; {others} of 100 without IP"
            );
            if !outcome.is_complete() || p50 > millis(8) || p99 > Duration::from_millis(40) {
                return Err(format!("forges {forges}: the probe is harmed"));
            }
            let wanted = if forges { 100 - MOST_LOST } else { 100 };
            if others < wanted {
                return Err(format!("forges {forges}: {others} of 100 frames of another device"));
            }
        }
        Ok(())
    });
}
