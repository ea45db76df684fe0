//! An ADSL gateway with P2P uploads, pages and calls.
//!
//! | | |
//! |---|---|
//! | link | 12 Mbit/s down, 1 Mbit/s up, 20 ms each way; IP bytes count |
//! | uplink buffer | [`Part::buffer`] packets of 1,500 bytes |
//! | downlink | FIFO of 200 packets, 200 ms at its rate |
//! | uploads | TCP connections of one home host to as many peers, without end |
//! | pages | one browser; the four of [`PAGES`] in turn, with a mean pause of 1 s |
//! | calls | G.711 in both directions for 30 s each, from random times on: 80 kbit/s with headers |
//!
//! The paper gives the rates, the number of virtual queues and the kinds of traffic. Round trip,
//! buffer, number of uploads and page contents are our choices.

use freeboard::sched_core::{Limits, Nanos};
use serde::{Deserialize, Serialize};

use crate::app::PageKind;
use crate::discipline::{UplinkQueue, line};
use crate::experiments::home_gateway::calls::Call;
use crate::experiments::home_gateway::site::{Site, WINDOW};
use crate::measure::goodput::Goodput;

/// Part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name in tables.
    pub name: &'static str,
    /// Number of packets in the uplink's buffer.
    pub buffer: u32,
    /// Simulated time in seconds.
    pub seconds: u64,
    /// Number of calls.
    pub calls: u16,
    /// Time over which uploads start, in seconds.
    pub starting: u64,
    /// Maximum number of unacknowledged bytes of an upload.
    pub in_flight: usize,
}

/// Table 1: uploads that fill the buffer.
pub const FULL: Part =
    Part { name: "full", buffer: 100, seconds: 600, calls: 8, starting: 1, in_flight: WINDOW };
/// Table 1 with uploads that have one packet in flight each: one of the MTU without 40 bytes of
/// headers.
pub const ONE_PACKET: Part = Part { name: "one packet", in_flight: MTU as usize - 40, ..FULL };
/// Calls beside a constant number of uploads, with more packets buffered than there are virtual
/// queues.
pub const CONSTANT: Part = Part { name: "constant", buffer: 300, seconds: 300, ..FULL };
/// Fig. 1: calls while uploads start one after the other, over the run.
pub const GROWING: Part = Part { name: "growing", calls: 20, starting: 300, ..CONSTANT };

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Part of the experiment.
    pub part: Part,
    /// Number of uploads.
    pub uploads: u16,
    /// Queue of the uplink.
    pub queue: UplinkQueue,
}

/// Results of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Run {
    /// Load times of each of [`PAGES`] in seconds.
    pub pages: [Vec<f64>; PAGES.len()],
    /// The calls as heard on the Internet, in order of their start.
    pub calls: Vec<Call>,
    /// True if every packet is accounted for.
    pub balanced: bool,
}

/// Pages that the browser loads in turn: a small one of 5 parts, and big ones of 50, 80 and 120.
pub const PAGES: [PageKind; 4] = [
    PageKind { name: "30 kB, s", document: 10_000, objects: 4, object: 5_000 },
    PageKind { name: "0.5 MB, s", document: 59_000, objects: 49, object: 9_000 },
    PageKind { name: "1 MB, s", document: 52_000, objects: 79, object: 12_000 },
    PageKind { name: "2 MB, s", document: 96_000, objects: 119, object: 16_000 },
];

/// Start of the measurement.
pub const WARM_UP: Nanos = Nanos::from_secs(20);
/// Duration of a call.
const CALL: Nanos = Nanos::from_secs(30);
/// Mean time between two pages.
const PAUSE: Nanos = Nanos::from_secs(1);
const DELAY: Nanos = Nanos::from_millis(20);
const MTU: u32 = 1_500;
const DOWNLINK_PACKETS: u32 = 200;
/// Time for the packets of the last call to arrive.
const DRAIN: Nanos = Nanos::from_secs(5);
/// Numbers of the hosts.
const BROWSER: u16 = 10;
const FIRST_CALL: u16 = 20;
const FIRST_PEER: u16 = 256;

/// Runs the scenario once.
#[must_use]
pub fn run(&Cell { part, uploads, queue }: &Cell, seed: u64) -> Run {
    let end = Nanos::from_secs(part.seconds);
    let up = queue.behind(line(1), Limits::packets(part.buffer), MTU);
    let down = UplinkQueue::Fifo.behind(line(12), Limits::packets(DOWNLINK_PACKETS), MTU);
    let mut site = Site::new(seed, up, down, part.buffer.max(DOWNLINK_PACKETS) + 1, DELAY);
    let begins = site.phases("upload", uploads, Nanos::from_secs(part.starting));
    site.add_uploads(FIRST_PEER, &begins, part.in_flight, Goodput::over(WARM_UP, end));
    let calls = site.add_calls(FIRST_CALL, part.calls, WARM_UP..end.since(CALL), CALL);
    let browser = site.add_browser(BROWSER, &PAGES, WARM_UP, PAUSE);
    let mut network = site.finish();
    network.run_until(end.plus(DRAIN), &mut |_, _| ());
    Run {
        pages: network.load_times(browser),
        calls: calls.iter().map(|call| network.rate(call)).collect(),
        balanced: network.recount().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a call's quality depends on its queue. Method: beside 60 uploads each call has a
    /// virtual queue of 128; with 20 virtual queues most of its packets are in the default queue.
    #[test]
    fn a_call_is_good_in_a_virtual_queue_and_bad_in_the_default_queue() {
        let calls = |virtual_queues| {
            let queue = UplinkQueue::Sqf(virtual_queues);
            let run = run(&Cell { part: CONSTANT, uploads: 60, queue }, 1);
            assert!(run.balanced);
            run.calls
        };
        let (own, default) = (calls(128), calls(20));
        assert!(own.iter().all(|call| call.in_default == 0.0 && call.mos > 4.3), "{own:?}");
        let bad = default.iter().filter(|call| call.in_default > 0.5 && call.mos < 2.5).count();
        assert!(bad * 2 > default.len(), "{default:?}");
    }
}
