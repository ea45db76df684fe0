//! Model TCP over one bottleneck: the set-up of several experiments.
//!
//! ```text
//! uploads, probes  ─▶ queue ─▶ rate, delay ─▶ servers
//!         clients  ◀─ queue ◀─ rate, delay ◀─ downloads, probes
//! ```
//!
//! Connections begin at random within a span of time, and probes have random phases. An experiment
//! states queues, rates, delays and flows.

use core::ops::{Deref, DerefMut, Range};

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{Ecn, Limits, Nanos};
use freeboard::shaper::{Framing, Overhead, Rate};
use freeboard::{Dscp, SmartQueue, SmartQueueBuilder};

use crate::discipline::Bottleneck;
use crate::link::Link;
use crate::measure::delay::Delays;
use crate::measure::goodput::Loss;
use crate::source::Cbr;
use crate::tcp::congestion::Cubic;
use crate::tcp::network::{
    ConnectionId, DATAGRAM_HEADERS, DatagramsId, Naming, Parcel, TcpNetwork, Way,
};
use crate::tcp::{Config, Data};
use conformance::rng::{Stream, Streams};

/// Rate of the link in CAKE's test bed, in Mbit/s.
pub const MEGABITS: u32 = 10;
/// Round-trip time without queueing in CAKE's test bed.
pub const ROUND_TRIP: Nanos = Nanos::from_millis(50);
/// Half of it: the delay of a direction.
pub const DELAY: Nanos = Nanos(ROUND_TRIP.0 / 2);
/// CAKE's memory limit at these rates, and FQ-CoDel's limit in packets.
pub const LIMITS: Limits = Limits { packets: 10_240, bytes: 4 << 20 };
/// Length of an Ethernet header in bytes.
pub const ETHERNET: u32 = 14;
/// Length of the longest Ethernet frame in bytes.
pub const LONGEST_FRAME: u32 = Data::LEN + ETHERNET;
/// Code points of the four flows of a direction in Flent's test RRUL, and in CAKE Fig. 4. CS5 and
/// EF share a tin.
pub const MARKS: [(&str, Dscp); 4] =
    [("BE", Dscp::CS0), ("BK", Dscp::CS1), ("CS5", Dscp::CS5), ("EF", Dscp::EF)];
/// UDP payload and interval of a call of 160 bytes every 20 ms, headers included.
pub const CALL: (u32, Nanos) = (132, Nanos::from_millis(20));
/// Span in which connections begin that are not meant to join later.
pub const FIRST_SECOND: Range<Nanos> = Nanos::ZERO..Nanos::from_secs(1);

/// Returns a rate in Mbit/s.
///
/// # Panics
/// If no link has this rate.
#[must_use]
pub fn megabits_per_second(megabits: u32) -> Rate {
    Rate::megabits_per_second(megabits.into()).expect("a rate that links have")
}

/// Returns a link that adds an Ethernet header to each packet. In contrast to
/// [`Link::with_header`] the queue counts packets without it.
#[must_use]
pub fn ethernet() -> Overhead {
    Overhead::new(Framing::None, ETHERNET.cast_signed(), 0).expect("in range")
}

/// Returns the builder of a [`SmartQueue`] for [frames](LONGEST_FRAME), which have their header
/// in the queue: see [`Link::with_header`].
#[must_use]
pub fn smart_queue(rate: Rate, limits: Limits) -> SmartQueueBuilder {
    for_frames(SmartQueue::upload(rate), limits)
}

/// Configures a builder like [`smart_queue`].
#[must_use]
pub fn for_frames(builder: SmartQueueBuilder, limits: Limits) -> SmartQueueBuilder {
    let builder = builder.raw_ip().overhead(Overhead::RAW).max_len(LONGEST_FRAME);
    builder.limits(limits).buffers(limits.packets + 1)
}

/// Returns a link with this queue, which holds at most `limits.packets`, and with a secret of
/// `stream` for the flow hash.
#[must_use]
pub fn link<P>(
    queue: Box<dyn Bottleneck>,
    limits: Limits,
    stream: &mut Stream,
    delay: Nanos,
) -> Link<P> {
    let key = (u128::from(stream.bits()) << 64 | u128::from(stream.bits())).to_le_bytes();
    Link::new(queue, limits.packets + 1, key, delay)
}

/// Returns the configuration of a connection with CUBIC and without ECN.
#[must_use]
pub fn cubic() -> Config {
    Config::new(Box::new(Cubic::new(Ecn::NotEct)))
}

/// A network with one bottleneck. Dereferences to the [`TcpNetwork`].
#[derive(Debug)]
pub struct Dumbbell {
    network: TcpNetwork,
    streams: Streams,
    starts: Stream,
}

/// An open-loop flow of equal packets.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    id: DatagramsId,
    way: Way,
    len: u32,
}

/// Results of an open-loop flow or of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Queueing delay of each packet: without its transmission time and the propagation delay.
    pub added: Delays,
    /// Bytes of payload that arrived: in order, for connections.
    pub bytes: u64,
    /// Loss of packets of an open-loop flow.
    pub loss: Loss,
}

/// Summary of the traffic of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Goodput in Mbit/s.
    pub rate: f64,
    /// Median of the queueing delays of all runs in milliseconds.
    pub p50: f64,
    /// Their 99th percentile.
    pub p99: f64,
    /// Fraction of packets lost.
    pub lost: f64,
}

impl Traffic {
    /// Summarises the traffic of runs of `span` each.
    #[must_use]
    pub fn summary<'a>(runs: impl Iterator<Item = &'a Self> + Clone, span: Nanos) -> Summary {
        let added: Delays = runs.clone().flat_map(|run| run.added.samples()).copied().collect();
        let bytes: u64 = runs.clone().map(|run| run.bytes).sum();
        let loss: Loss = runs.clone().map(|run| run.loss).sum();
        let seconds = runs.count() as f64 * span.0 as f64 / 1e9;
        Summary {
            rate: bytes as f64 * 8.0 / 1e6 / seconds,
            p50: added.millis(500),
            p99: added.millis(990),
            lost: loss.ratio(),
        }
    }
}

impl Dumbbell {
    /// Creates a network without flows that is measured in `[from, to)`. `link` creates the link of
    /// a direction with random numbers of the stream.
    #[must_use]
    pub fn new(
        seed: u64,
        naming: Naming,
        measured: (Nanos, Nanos),
        mut link: impl FnMut(Way, &mut Stream) -> Link<Parcel>,
    ) -> Self {
        let streams = Streams::new(seed);
        let mut stream = streams.stream("flow-hash");
        let [up, down] = Way::BOTH.map(|way| link(way, &mut stream));
        let starts = streams.stream("starts");
        Self { network: TcpNetwork::new(up, down, naming, measured), streams, starts }
    }

    /// Returns the random stream with this name, for phases.
    #[must_use]
    pub fn stream(&self, name: &str) -> Stream {
        self.streams.stream(name)
    }

    /// Adds a connection like [`TcpNetwork::connect`] that begins at random within `span`.
    pub fn connect_within(
        &mut self,
        span: Range<Nanos>,
        way: Way,
        hosts: [u8; 2],
        config: Config,
    ) -> ConnectionId {
        let begins = span.start.plus(Nanos(self.starts.below(span.end.since(span.start).0)));
        self.network.connect(way, hosts, begins, config)
    }

    /// Adds this many uploads and downloads between two hosts, which begin within the
    /// [first second](FIRST_SECOND).
    pub fn connect_both(
        &mut self,
        counts: [u8; 2],
        config: impl Fn() -> Config,
    ) -> [Vec<ConnectionId>; 2] {
        let mut of = |way: Way| {
            let one = |_| self.connect_within(FIRST_SECOND, way, [1, 1], config());
            (0..counts[way as usize]).map(one).collect()
        };
        Way::BOTH.map(&mut of)
    }

    /// Gives the connections of each direction the code points [`MARKS`].
    pub fn mark(&mut self, connections: &[Vec<ConnectionId>; 2]) {
        for (&id, (_, mark)) in connections.iter().flat_map(|ids| ids.iter().zip(MARKS)) {
            self.network.mark_connection(id, mark);
        }
    }

    /// Adds an open-loop flow with this code point.
    pub fn send(&mut self, way: Way, hosts: [u8; 2], ecn: Ecn, source: Cbr) -> Probe {
        let id = self.network.add_source_with_ecn(way, hosts, ecn, source);
        Probe { id, way, len: DATAGRAM_HEADERS + source.payload() }
    }

    /// Adds a flow of this payload and interval in each direction, with phases of `phases`.
    pub fn probe_both(
        &mut self,
        phases: &mut Stream,
        (payload, every): (u32, Nanos),
    ) -> [Probe; 2] {
        Way::BOTH.map(|way| {
            let source = Cbr::new(Nanos(phases.below(every.0)), every, payload);
            self.send(way, [1, 1], Ecn::NotEct, source)
        })
    }

    /// Sets the code point of a flow's packets.
    pub fn mark_probe(&mut self, probe: Probe, mark: Dscp) {
        self.network.mark_source(probe.id, mark);
    }

    /// Returns the results of an open-loop flow in the measured window.
    #[must_use]
    pub fn report(&self, probe: Probe) -> Traffic {
        let loss = self.network.loss(probe.id);
        Traffic {
            added: self.added(probe.way, probe.len, self.network.delays(probe.id)).collect(),
            bytes: (loss.sent - loss.lost) * u64::from(probe.len - DATAGRAM_HEADERS),
            loss,
        }
    }

    /// Returns the results of connections in direction `way` whose [delays are
    /// measured](TcpNetwork::measure_delays).
    #[must_use]
    pub fn transfers(&self, way: Way, ids: &[ConnectionId]) -> Traffic {
        let added = |&id| self.added(way, Data::LEN, self.network.segment_delays(id));
        Traffic {
            added: ids.iter().flat_map(added).collect(),
            bytes: self.bytes(ids).iter().sum(),
            loss: Loss::default(),
        }
    }

    /// Returns the time by which each of these one-way delays of packets of `len` bytes exceeds
    /// that of such a packet on an idle link.
    fn added<'a>(
        &self,
        way: Way,
        len: u32,
        delays: &'a Delays,
    ) -> impl Iterator<Item = Nanos> + use<'a> {
        let alone = self.network.link(way).delay_when_idle(len);
        delays.samples().iter().map(move |delay| delay.since(alone))
    }

    /// Returns the bytes of each of these connections that arrived in order in the measured window.
    #[must_use]
    pub fn bytes(&self, ids: &[ConnectionId]) -> Vec<u64> {
        ids.iter().map(|&id| self.network.goodput(id).bytes()).collect()
    }

    /// Returns true if every packet is accounted for.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.network.recount().is_ok()
    }
}

impl Deref for Dumbbell {
    type Target = TcpNetwork;

    fn deref(&self) -> &TcpNetwork {
        &self.network
    }
}

impl DerefMut for Dumbbell {
    fn deref_mut(&mut self) -> &mut TcpNetwork {
        &mut self.network
    }
}
