//! Four uploads and four downloads, each of the four with another code point, behind tins in both
//! directions.
//!
//! ```text
//! uploads BE, BK, CS5, EF   ─▶ tins ─▶ 10 Mbit/s, 25 ms ─▶ server
//! client                    ◀─ tins ◀─ 10 Mbit/s, 25 ms ◀─ downloads BE, BK, CS5, EF
//! ```
//!
//! Acknowledgements have the code point of their data. Connections begin within the first second,
//! at random.

use freeboard::sched_core::{Ecn, Imbalance, Limits, Nanos};
use freeboard::shaper::{Overhead, Rate};
use freeboard::{Dscp, Rtt, SmartQueue, TinMode};

use crate::discipline::Bottleneck;
use crate::link::Link;
use crate::tcp::congestion::Cubic;
use crate::tcp::network::{ConnectionId, Naming, TcpNetwork, Way};
use crate::tcp::{Config, Data};
use conformance::rng::Streams;

/// Number of flows in each direction.
pub const FLOWS: usize = 4;
/// Their code points, of three of the four tins of `diffserv4`; CS5 and EF share one.
pub const MARKS: [(&str, Dscp); FLOWS] =
    [("BE", Dscp::CS0), ("BK", Dscp::CS1), ("CS5", Dscp::CS5), ("EF", Dscp::EF)];
/// Number of the tin that gets the bandwidth the others leave.
const BEST_EFFORT_TIN: u8 = 0;
/// Flows of the tin with priority.
const VOICE: [usize; 2] = [2, 3];

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Tin mode of the [`SmartQueue`].
    pub mode: TinMode,
    /// RTT setting of COBALT.
    pub rtt: Rtt,
    /// Duration of the measurement.
    pub measured: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Bytes of each upload and of each download that arrived in order.
    pub bytes: [[u64; FLOWS]; 2],
    /// Maximum bytes, in longest packets, sent by EF and CS5 together beyond a quarter of the link
    /// in any span in which best effort was backlogged, up and down.
    pub beyond: [f64; 2],
    /// Fraction of time in which the best-effort tin was backlogged, including its
    /// acknowledgements.
    pub backlogged: [f64; 2],
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

/// Start of the measurement.
pub const WARM_UP: Nanos = Nanos::from_secs(10);
/// Rate of the link in Mbit/s.
pub const MEGABITS: u32 = 10;
/// Round-trip time without queueing.
pub const ROUND_TRIP: Nanos = Nanos::from_millis(50);
/// Header bytes of a packet in the counters and on the link: an Ethernet header.
const HEADER: u32 = 14;
const LONGEST: u32 = Data::LEN + HEADER;
/// CAKE's memory limit at this rate, and as many packets as fit.
pub const LIMITS: Limits = Limits { packets: 10_240, bytes: 4 << 20 };
/// Interval at which the queues are examined: less than the transmission time of a packet.
const LOOK: Nanos = Nanos::from_millis(1);

/// Maximum bytes sent beyond a rate, in any span since the last [`Beyond::pause`].
struct Beyond {
    /// Bytes per nanosecond.
    rate: f64,
    least: f64,
    most: f64,
}

impl Beyond {
    fn look(&mut self, now: Nanos, bytes: u64) {
        let ahead = bytes as f64 - self.rate * now.0 as f64;
        self.least = self.least.min(ahead);
        self.most = self.most.max(ahead - self.least);
    }

    fn pause(&mut self) {
        self.least = f64::INFINITY;
    }
}

/// Runs the scenario once.
#[must_use]
pub fn run(setup: &Setup) -> Outcome {
    let end = WARM_UP.plus(setup.measured);
    let streams = Streams::new(setup.seed);
    let mut network = network(setup, &streams, end);
    let mut starts = streams.stream("starts");
    let connections = [Way::Up, Way::Down].map(|way| {
        [(); FLOWS].map(|()| {
            let begins = Nanos(starts.below(1_000_000_000));
            network.connect(way, [1, 1], begins, Config::new(Box::new(Cubic::new(Ecn::NotEct))))
        })
    });
    for (&id, (_, mark)) in connections.iter().flat_map(|ids| ids.iter().zip(MARKS)) {
        network.mark_connection(id, mark);
    }
    let quarter = f64::from(MEGABITS) / 8e3 / 4.0;
    let mut voice = [(); 2].map(|()| Beyond { rate: quarter, least: f64::INFINITY, most: 0.0 });
    let (mut now, mut looks, mut backlogged) = (WARM_UP, 0_u32, [0_u32; 2]);
    while now < end {
        network.run_until(now);
        looks += 1;
        for (at, way) in [Way::Up, Way::Down].into_iter().enumerate() {
            let queued = network.link(way).queue().tin_backlog(BEST_EFFORT_TIN);
            if queued.is_none_or(|queued| queued.packets == 0) {
                voice[at].pause();
                continue;
            }
            backlogged[at] += 1;
            voice[at].look(now, voice_bytes(&network, &connections, way));
        }
        now = now.plus(LOOK);
    }
    network.run_until(end);
    let longest = f64::from(LONGEST);
    Outcome {
        bytes: connections.map(|ids| ids.map(|id| network.goodput(id).bytes())),
        beyond: voice.map(|voice| voice.most / longest),
        backlogged: backlogged.map(|times| f64::from(times) / f64::from(looks)),
        recount: network.recount(),
    }
}

fn network(setup: &Setup, streams: &Streams, end: Nanos) -> TcpNetwork {
    let mut keys = streams.stream("flow-hash");
    let mut link = || {
        let key = (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
        let link = Link::new(queue(setup), LIMITS.packets + 1, key, Nanos(ROUND_TRIP.0 / 2));
        link.with_header(HEADER)
    };
    TcpNetwork::new(link(), link(), Naming::Key, (WARM_UP, end))
}

fn queue(setup: &Setup) -> Box<dyn Bottleneck> {
    let rate = Rate::megabits_per_second(MEGABITS.into()).expect("a rate that lines have");
    let builder = SmartQueue::upload(rate).raw_ip().overhead(Overhead::RAW).max_len(LONGEST);
    let builder = builder.limits(LIMITS).buffers(LIMITS.packets + 1);
    let builder = builder.tins(setup.mode).rtt(setup.rtt);
    Box::new(builder.descriptors().expect("settings in range"))
}

/// Returns the bytes of EF and CS5 sent in a direction, data and acknowledgements.
fn voice_bytes(network: &TcpNetwork, connections: &[[ConnectionId; FLOWS]; 2], way: Way) -> u64 {
    let ids = connections.iter().flat_map(|ids| VOICE.map(|flow| ids[flow]));
    ids.map(|id| network.left(id, way)).sum()
}
