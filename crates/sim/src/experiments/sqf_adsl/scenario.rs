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

use freeboard::flowhash::{FlowKey, Transport};
use freeboard::sched_core::{Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};
use serde::{Deserialize, Serialize};

use crate::app::Page;
use crate::discipline::{Bottleneck, Discipline, UserFlows, VirtualQueues};
use crate::experiments::home_gateway::site::{CALL_PORT, Site, WINDOW, address};
use crate::measure::goodput::Goodput;
use crate::network::Side;

/// Queue of the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// One queue, with tail drop.
    Fifo,
    /// Deficit round robin over this many virtual queues and a default queue.
    Drr(u32),
    /// Shortest queue first over this many virtual queues and a default queue.
    Sqf(u32),
    /// The gateway's queue.
    Smart,
}

/// Part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Table 1: uploads that fill the buffer.
    Full,
    /// Table 1 with uploads that have one packet in flight each.
    OnePacket,
    /// Calls beside a constant number of uploads, with more packets buffered than there are virtual
    /// queues.
    Constant,
    /// Fig. 1: calls while uploads start one after the other, over the run.
    Growing,
}

impl Part {
    /// Returns the number of packets in the uplink's buffer.
    #[must_use]
    pub const fn buffer(self) -> u32 {
        match self {
            Self::Full | Self::OnePacket => 100,
            Self::Constant | Self::Growing => 300,
        }
    }

    /// Returns the simulated time.
    #[must_use]
    pub const fn duration(self) -> Nanos {
        match self {
            Self::Full | Self::OnePacket => Nanos::from_secs(600),
            Self::Constant | Self::Growing => Nanos::from_secs(300),
        }
    }

    const fn calls(self) -> u16 {
        match self {
            Self::Full | Self::OnePacket | Self::Constant => 8,
            Self::Growing => 20,
        }
    }

    /// Returns the time over which uploads start.
    const fn starting(self) -> Nanos {
        match self {
            Self::Full | Self::OnePacket | Self::Constant => Nanos::from_secs(1),
            Self::Growing => self.duration(),
        }
    }

    /// Returns the maximum number of unacknowledged bytes of an upload.
    const fn in_flight(self) -> usize {
        match self {
            Self::OnePacket => (MTU - TCP_HEADERS) as usize,
            Self::Full | Self::Constant | Self::Growing => WINDOW,
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Part of the experiment.
    pub part: Part,
    /// Number of uploads.
    pub uploads: u16,
    /// Queue of the uplink.
    pub queueing: Queueing,
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

/// A call.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Call {
    /// Time of its start in seconds.
    pub start: f64,
    /// Mean opinion score.
    pub mos: f64,
    /// Part of its packets that were in the default queue.
    pub in_default: f64,
}

/// Start of the measurement.
pub const WARM_UP: Nanos = Nanos::from_secs(20);
/// Duration of a call.
const CALL: Nanos = Nanos::from_secs(30);

/// A page of a document and equal objects.
#[derive(Clone, Copy, Debug)]
pub struct PageKind {
    /// Size in tables.
    pub name: &'static str,
    document: u32,
    objects: usize,
    object: u32,
}

/// Pages that the browser loads in turn: a small one of 5 parts, and big ones of 50, 80 and 120.
pub const PAGES: [PageKind; 4] = [
    PageKind { name: "30 kB, s", document: 10_000, objects: 4, object: 5_000 },
    PageKind { name: "0.5 MB, s", document: 59_000, objects: 49, object: 9_000 },
    PageKind { name: "1 MB, s", document: 52_000, objects: 79, object: 12_000 },
    PageKind { name: "2 MB, s", document: 96_000, objects: 119, object: 16_000 },
];

const PAUSE: Nanos = Nanos::from_secs(1);
const DELAY: Nanos = Nanos::from_millis(20);
const MTU: u32 = 1_500;
const TCP_HEADERS: u32 = 40;
const DOWNLINK_PACKETS: u32 = 200;
/// Time for the packets of the last call to arrive.
const DRAIN: Nanos = Nanos::from_secs(5);
const BROWSER: u16 = 10;
const FIRST_CALL: u16 = 20;
const FIRST_PEER: u16 = 256;

/// Runs the scenario once.
#[must_use]
pub fn run(cell: &Cell, seed: u64) -> Run {
    let &Cell { part, uploads, queueing } = cell;
    let buffers = part.buffer().max(DOWNLINK_PACKETS) + 1;
    let down = line(12);
    let down = Discipline::Fifo.behind(down, Overhead::RAW, packets(DOWNLINK_PACKETS), MTU);
    let mut site = Site::new(seed, uplink(queueing, part.buffer()), down, buffers, DELAY);
    let begins = |n| site.phase(&format!("upload {n}"), part.starting());
    let begins: Vec<Nanos> = (0..uploads).map(begins).collect();
    let goodput = Goodput::over(WARM_UP, part.duration());
    site.add_uploads(FIRST_PEER, &begins, part.in_flight(), goodput);
    let span = part.duration().since(WARM_UP).since(CALL);
    let mut starts: Vec<Nanos> = (0..part.calls())
        .map(|n| WARM_UP.plus(site.phase(&format!("start of call {n}"), span)))
        .collect();
    starts.sort_unstable();
    let paths: Vec<_> = (0..)
        .zip(&starts)
        .map(|(n, &start)| site.add_call(FIRST_CALL + n, n, start, start.plus(CALL)))
        .collect();
    let pages = PAGES.map(|kind| Page::uniform(kind.document, kind.objects, kind.object));
    let browser = site.add_browser(BROWSER, pages.to_vec(), WARM_UP, PAUSE);
    let mut network = site.finish();
    network.run_until(part.duration().plus(DRAIN), &mut |_, _| ());

    let mut pages: [Vec<f64>; PAGES.len()] = Default::default();
    for load in network.loads(browser) {
        pages[load.page].extend(load.end.map(|end| seconds(end.since(load.start))));
    }
    let calls = (FIRST_CALL..).zip(starts.iter().zip(paths)).map(|(host, (&start, path))| {
        let placed = network.uplink().queue().placement(&key_of_call(host)).unwrap_or_default();
        let all = (placed.own + placed.default).max(1);
        let rating = network.stream(path, WARM_UP).rating().expect("a call sends packets");
        Call {
            start: seconds(start),
            mos: rating.mos,
            in_default: placed.default as f64 / all as f64,
        }
    });
    Run { calls: calls.collect(), pages, balanced: network.recount().is_ok() }
}

fn uplink(queueing: Queueing, buffer: u32) -> Box<dyn Bottleneck> {
    let (line, limits) = (line(1), packets(buffer));
    let plain = |discipline: Discipline, line| discipline.behind(line, Overhead::RAW, limits, MTU);
    let (scheduling, count) = match queueing {
        Queueing::Fifo => return plain(Discipline::Fifo, line),
        Queueing::Smart => return plain(Discipline::Smart, line),
        Queueing::Drr(count) => (UserFlows::Drr, count),
        Queueing::Sqf(count) => (UserFlows::Sqf, count),
    };
    VirtualQueues::behind(scheduling, count, line, limits, MTU).expect("lengths are in range")
}

const fn packets(packets: u32) -> Limits {
    Limits { packets, bytes: packets * MTU }
}

fn line(megabits: u64) -> Shaper {
    Shaper::new(Rate::megabits_per_second(megabits).expect("a rate that lines have"))
}

const fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// Returns the key of the packets that call `host` sends from home.
const fn key_of_call(host: u16) -> FlowKey {
    let transport = Transport { protocol: 17, src_port: CALL_PORT, dst_port: CALL_PORT };
    let [src, dst] = [address(Side::Home, host).octets(), address(Side::Internet, host).octets()];
    FlowKey::V4 { src, dst, transport }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a call's quality depends on its queue. Method: beside 60 uploads each call has a
    /// virtual queue of 128; with 20 virtual queues most of its packets are in the default queue.
    #[test]
    fn a_call_is_good_in_a_virtual_queue_and_bad_in_the_default_queue() {
        let calls = |virtual_queues| {
            let queueing = Queueing::Sqf(virtual_queues);
            let run = run(&Cell { part: Part::Constant, uploads: 60, queueing }, 1);
            assert!(run.balanced);
            run.calls
        };
        let (own, default) = (calls(128), calls(20));
        assert!(own.iter().all(|call| call.in_default == 0.0 && call.mos > 4.3), "{own:?}");
        let bad = default.iter().filter(|call| call.in_default > 0.5 && call.mos < 2.5).count();
        assert!(bad * 2 > default.len(), "{default:?}");
    }
}
