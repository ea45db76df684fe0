//! The rate, and each host's share of it.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::gateway::Gateway;
use crate::topology::{HOSTS, Row};
use crate::traffic::{Arrived, BOTH, Bulk, Heading, Paced};
use conformance::measurement::attempts;

/// Number of parts of the measured time.
const PARTS: u32 = 10;

/// Returns the rate from `from` to `to` relative to `bps`, minus one, in percent, if a packet of
/// `n` bytes of IP takes `wire(n)` bytes.
///
/// A datagram may arrive late, whenever the machine is busy, but never early. So the earliest one
/// in each part of the time shows the progress of the link: the result is how much it fell behind
/// from the first part to the last.
fn off_by(
    arrived: &[Arrived],
    [from, to]: [Instant; 2],
    wire: impl Fn(usize) -> usize,
    bps: f64,
) -> Option<f64> {
    let part = (to - from) / PARTS;
    let mut bits = 0.0;
    let mut earliest = [f64::INFINITY; PARTS as usize];
    for datagram in arrived {
        bits += wire(datagram.bytes) as f64 * 8.0;
        let after = datagram.received.saturating_duration_since(from);
        let at = (after.as_nanos() / part.as_nanos()) as usize;
        if let Some(earliest) = earliest.get_mut(at).filter(|_| datagram.received >= from) {
            *earliest = earliest.min(after.as_secs_f64() - bits / bps);
        }
    }
    let lost = earliest[earliest.len() - 1] - earliest[0];
    let span = (to - from - part).as_secs_f64();
    lost.is_finite().then_some(-lost / span * 100.0)
}

/// Sends more than the link carries, in both directions, for a while; the measured error must be
/// within `accepted`, in percent of the rate.
fn keeps_its_rate(
    row: &Row,
    words: &str,
    lengths: &[usize],
    wire: fn(usize) -> usize,
    accepted: core::ops::RangeInclusive<f64>,
) {
    let rates = [6e6, 9e6];
    attempts(words, || {
        let gateway = Gateway::start(&row.gw, &format!("--up 6mbit --down 9mbit {words}"));
        let mean = lengths.iter().map(|len| wire(*len)).sum::<usize>() / lengths.len();
        let flows = [0, 1].map(|at| {
            let every = Duration::from_secs_f64(mean as f64 * 8.0 / rates[at] / 1.4);
            Paced::start(row, BOTH[at], every, lengths)
        });
        thread::sleep(Duration::from_millis(500));
        let from = Instant::now();
        thread::sleep(Duration::from_millis(2_500));
        let to = Instant::now();
        gateway.end();
        let outcomes = flows.map(Paced::stop);
        for (at, outcome) in outcomes.iter().enumerate() {
            let Some(found) = off_by(&outcome.arrived, [from, to], wire, rates[at]) else {
                return Err(format!("{:?}: nothing in a tenth of the time", BOTH[at]));
            };
            println!("{words}: {:?} {found:+.3} %, accepted {accepted:?}", BOTH[at]);
            if !accepted.contains(&found) {
                return Err(format!("{:?} {found:+.3} %", BOTH[at]));
            }
        }
        Ok(())
    });
}

/// Goal: the rate is the configured one, within 1 %, with the configured framing. Method: 1.4 times
/// the rate, in packets of three lengths; catch-up compensates for time that a busy machine takes
/// from the gateway, so that only the rate is measured.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn a_saturated_line_has_its_rate() {
    let Some(row) = Row::alone("rate") else { return };
    let frame = |ip: usize| ip + 14;
    let lengths = [1_400, 100, 700];
    keeps_its_rate(&row, "--catch-up 1000", &lengths, frame, -1.0..=1.0);
    // Cells of 53 bytes with 48 of the packet and its 32 bytes of overhead each.
    let cells = |ip: usize| (ip + 32).div_ceil(48) * 53;
    let words = "--catch-up 1000 --encoding atm --overhead 32";
    keeps_its_rate(&row, words, &lengths, cells, -1.0..=1.0);
    // Lost time stays lost, and is never gained.
    for words in ["", "--catch-up 0"] {
        keeps_its_rate(&row, words, &lengths, frame, -100.0..=1.0);
    }
}

/// Returns the first host's share in percent, up or down; each host has the number of TCP flows in
/// its entry.
fn share_of_first(row: &Row, words: &str, heading: Heading, flows: [usize; 2]) -> f64 {
    let gateway = Gateway::start(&row.gw, &format!("--up 20mbit --down 20mbit {words}"));
    let bulk = [0, 1].map(|at| Bulk::start(row, HOSTS[at], heading, flows[at]));
    thread::sleep(Duration::from_millis(1_000));
    let received = Bulk::received_in(&bulk, Duration::from_millis(2_500));
    gateway.end();
    received[0] as f64 * 100.0 / (received[0] + received[1]) as f64
}

fn shares(
    what: &str,
    row: &Row,
    words: &str,
    flows: [usize; 2],
    accepted: core::ops::RangeInclusive<f64>,
) {
    for heading in BOTH {
        attempts(what, || {
            let share = share_of_first(row, words, heading, flows);
            println!("{what}: {heading:?} {share:.1} %, accepted {accepted:?}");
            if accepted.contains(&share) {
                Ok(())
            } else {
                Err(format!("{heading:?} {share:.1} %"))
            }
        });
    }
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn hosts_have_half_whatever_their_flows() {
    let Some(row) = Row::alone("hosts") else { return };
    shares("hosts on, 1 and 8 flows", &row, "", [1, 8], 47.0..=53.0);
    shares("hosts off, 1 and 8 flows", &row, "--hosts flows", [1, 8], 0.0..=30.0);
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn weights_are_honoured() {
    let Some(row) = Row::alone("weights") else { return };
    let file = crate::refusals::file("weights", "[weights]\n\"10.9.0.1\" = 3\n");
    let with = |words: &str| format!("--config {} {words}", file.path());
    // Three quarters for a host with one flow, the rest for one with four.
    shares("weight 3 of a host, drr", &row, &with(""), [1, 4], 72.0..=78.0);
    // QFQ has no level of hosts: the weight is that of each of the host's flows.
    shares("weight 3 of flows, qfq", &row, &with("--queue qfq"), [2, 2], 72.0..=78.0);
}
