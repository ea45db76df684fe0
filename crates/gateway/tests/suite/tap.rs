//! The gateway with TAP devices.

use std::thread;

use crate::delays;
use crate::gateway::{Gateway, run};
use crate::raw::{Tap, millis};
use crate::topology::{HOSTS, Row};
use crate::traffic::{BOTH, Bulk, Paced};
use conformance::measurement::attempts;

const WORDS: &str = "--io tap --lan tap0 --wan tap1";

fn row(test: &str) -> Option<Row> {
    let row = Row::new(test)?;
    row.bridge_to_tap("lan", "tap0");
    row.bridge_to_tap("wan", "tap1");
    Some(row)
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn taps_carry_tcp_and_a_sparse_flow_that_does_not_wait() {
    let Some(row) = row("tap") else { return };
    attempts("tap", || {
        let fifo = delays::measure(&row, &format!("{WORDS} --queue fifo"));
        let drr = delays::measure(&row, &format!("{WORDS} --queue drr"));
        println!("ms added to the probe at TAPs, up and down: fifo {fifo:.2?}, drr {drr:.2?}");
        for (fifo, drr) in fifo.into_iter().zip(drr) {
            if fifo.p50 < 10.0 * drr.p50 || drr.p50 > 5.0 || drr.p99 > fifo.p99 / 10.0 {
                return Err(format!("drr {drr:.2?}, fifo {fifo:.2?}"));
            }
        }
        Ok(())
    });
}

/// Goal: a TAP device that is down passes no frames, and works again when it is up.
#[test]
fn a_tap_that_was_down_goes_on() {
    let Some(row) = row("tapdown") else { return };
    let gateway = Gateway::start_with(&row.gw, &format!("{WORDS} --up 20mbit --down 20mbit"));
    row.wait_for_carriers();
    for tap in ["tap0", "tap1"] {
        let flows = BOTH.map(|heading| Paced::start(&row, heading, millis(5), &[500]));
        thread::sleep(millis(200));
        row.gw.ip(&format!("link set {tap} down"));
        thread::sleep(millis(200));
        row.gw.ip(&format!("link set {tap} up"));
        row.wait_for_carriers();
        drop(flows);
        // The bridge has learned the addresses again.
        attempts("complete after it was down", || {
            let flows = BOTH.map(|heading| Paced::start(&row, heading, millis(5), &[500]));
            thread::sleep(millis(300));
            for outcome in flows.map(Paced::stop) {
                if !outcome.is_complete() || outcome.sent <= 20 {
                    return Err(format!("{tap}: {outcome:?}"));
                }
            }
            Ok(())
        });
    }
    gateway.end();
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_tap_that_is_deleted_ends_it_with_statistics() {
    let Some(row) = row("tapgone") else { return };
    let gateway = Gateway::start_with(&row.gw, &format!("{WORDS} --up 5mbit --down 5mbit"));
    row.wait_for_carriers();
    let bulk = BOTH.map(|heading| Bulk::start(&row, HOSTS[0], heading, 4));
    for flow in &bulk {
        assert!(flow.receives(200_000), "nothing flows");
    }
    row.gw.ip("link del tap1");
    let ended = gateway.ends();
    drop(bulk);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(ended.said_of_the_end(), ["freeboard-gateway: tap1: the device has disappeared"]);
    assert!(ended.report["directions"][0]["sent"].as_u64() > Some(100), "{ended:?}");
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn what_is_no_tap_is_refused() {
    let Some(row) = row("notap") else { return };
    let before = row.gw.devices();
    for (lan, part) in [
        ("nowhere", "--lan nowhere: no such device (expected a TAP device: tap0, tap1)\n"),
        ("lan", "--lan lan: not a TAP device (expected a TAP device: tap0, tap1)\n"),
        ("lo", "--lan lo: not a TAP device"),
    ] {
        let words = format!("--io tap --lan {lan} --wan tap1 --up 1mbit --down 1mbit");
        let output = run(&row.gw, &words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1), "{said}");
        assert!(said.contains(part) && output.stdout.is_empty(), "{said}");
        assert_eq!(row.gw.devices(), before);
    }
    // A TAP device has one user.
    let first = Gateway::start_with(&row.gw, &format!("{WORDS} --up 1mbit --down 1mbit"));
    let second = run(&row.gw, &format!("{WORDS} --up 1mbit --down 1mbit"));
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(3));
    let first_one = format!("to stop that one run: kill {}\n", first.pid());
    assert!(said.contains(" --lan tap0: another freeboard-gateway ") && said.ends_with(&first_one));
    first.end();
    // A program other than a gateway.
    let _program = Tap::open(&row.gw, "tap0", false);
    let second = run(&row.gw, &format!("{WORDS} --up 1mbit --down 1mbit"));
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(
        said,
        "freeboard-gateway: --lan tap0: another program is attached to this TAP device\n"
    );
}
