//! Four uploads and four downloads on a link whose uplink is thirty or sixty times slower, behind
//! the assembled queue and behind CAKE as published.
//!
//! ```text
//! uploads, probe  ─▶ SmartQueue, filter ─▶  1 Mbit/s, 25 ms ─▶ server         or 0.5 Mbit/s
//!         client  ◀─ SmartQueue         ◀─ 30 Mbit/s, 25 ms ◀─ downloads, probe
//! ```
//!
//! The paper does not describe its measurement flow. Its tool, Flent, sends a ping each 200 ms by
//! default; the runs of Linux have a probe like a call, which takes 7 % of the uplink. Both are
//! run.
//!
//! The paper does not state the code points of its flows. Flent's test RRUL has as many flows, with
//! four code points, so the scenario is run without marks and with those of RRUL.

use freeboard::sched_core::{DropReason, Ecn, Imbalance, Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};
use freeboard::{AckFilter, AqmKind, SmartQueue, TinMode};

use crate::discipline::{Bottleneck, FlowLists};
use crate::experiments::cake_fig4::scenario::{FLOWS, MARKS};
use crate::link::Link;
use crate::measure::delay::Delays;
use crate::source::Cbr;
use crate::tcp::Config;
use crate::tcp::congestion::Cubic;
use crate::tcp::network::{Naming, TcpNetwork, Way};
use conformance::rng::Streams;

/// Queue in front of the link, in both directions, and variant of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// The assembled queue with this AQM; CUBIC of RFC 9438.
    Smart(AqmKind),
    /// The assembled queue with this AQM in CAKE's default mode `diffserv3`; CUBIC of RFC 9438. The
    /// flows have the [marks of RRUL](MARKS), also on acknowledgements; the probe has none.
    Marked(AqmKind),
    /// [CAKE as published](FlowLists), and CUBIC of RFC 8312, as in kernels of its time.
    Published,
}

/// Traffic that measures the latency in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// 160 bytes every 20 ms, headers included, as in the runs of Linux.
    Call,
    /// 100 bytes every 20 ms, headers included: Opus at 24 kbit/s.
    SmallCall,
    /// 84 bytes every 200 ms, headers included.
    Ping,
}

impl Probe {
    /// Returns the name of the probe in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::SmallCall => "small call",
            Self::Ping => "ping",
        }
    }

    /// Returns the UDP payload and the sending interval.
    const fn sends(self) -> (u32, Nanos) {
        match self {
            Self::Call => (132, Nanos::from_millis(20)),
            Self::SmallCall => (72, Nanos::from_millis(20)),
            Self::Ping => (56, Nanos::from_millis(200)),
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Queue under test.
    pub queueing: Queueing,
    /// Measurement traffic.
    pub probe: Probe,
    /// Rate of the uplink, in kbit/s.
    pub uplink: u64,
    /// ACK filter of the uplink.
    pub filter: AckFilter,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of all uploads and of all downloads that arrived in order.
    pub bytes: [u64; 2],
    /// Mean queueing delay of a probe up and down, without its transmission time and the
    /// propagation delay.
    pub added: [Nanos; 2],
    /// Queueing delay of each packet of the upload probe, without its transmission time and the
    /// propagation delay.
    pub waits: Delays,
    /// Retransmission timeouts of all downloads since the start.
    pub timeouts: u64,
    /// Acknowledgements that left the uplink since the start.
    pub acks: u64,
    /// Acknowledgements that the filter dropped since the start.
    pub filtered: u64,
    /// Packets of the uplink dropped by the AQM since the start.
    pub judged: u64,
    /// Time since the start.
    pub lasted: Nanos,
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

/// Duration of the measurement.
pub(crate) const MEASURED: Nanos = Nanos::from_secs(60);
/// Start of the measurement.
const WARM_UP: Nanos = Nanos::from_secs(10);
/// Rate of the downlink in kbit/s.
const DOWNLINK: u64 = 30_000;
/// Round-trip time without queueing.
const ROUND_TRIP: Nanos = Nanos::from_millis(50);
/// Longest packet, in bytes.
const MTU: u32 = 1_500;
/// Header bytes of a packet in the counters and on the link: an Ethernet header, as in Linux. It
/// counts in shares of the link, where it is a fifth of an acknowledgement.
const HEADER: u32 = 14;
const LIMITS: Limits = Limits { packets: 4_096, bytes: 4 << 20 };

fn control(queueing: Queueing) -> Cubic {
    match queueing {
        Queueing::Smart(_) | Queueing::Marked(_) => Cubic::new(Ecn::NotEct),
        Queueing::Published => Cubic::rfc_8312(Ecn::NotEct),
    }
}

/// Runs the scenario once.
///
/// # Panics
/// Never: the settings are in range.
#[must_use]
pub fn run(setup: &Setup) -> Outcome {
    let end = WARM_UP.plus(MEASURED);
    let streams = Streams::new(setup.seed);
    let rates = [setup.uplink, DOWNLINK];
    let rates = rates.map(|rate| Rate::kilobits_per_second(rate).expect("a rate that links have"));
    let mut keys = streams.stream("flow-hash");
    let mut link = |way: usize| {
        let key = (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
        let delay = Nanos(ROUND_TRIP.0 / 2);
        let made = |queue: Box<dyn Bottleneck>| {
            Link::new(queue, LIMITS.packets + 1, key, delay).with_header(HEADER)
        };
        let filter = if way == 0 { setup.filter } else { AckFilter::Off };
        let (aqm, tins) = match setup.queueing {
            Queueing::Smart(aqm) => (aqm, TinMode::BestEffort),
            Queueing::Marked(aqm) => (aqm, TinMode::Diffserv3),
            Queueing::Published => {
                let (line, longest) = (Shaper::new(rates[way]), MTU + HEADER);
                return made(FlowLists::behind(line, Overhead::RAW, LIMITS, longest, filter));
            }
        };
        let builder = match way {
            0 => SmartQueue::upload(rates[way]),
            _ => SmartQueue::download(rates[way]),
        };
        let builder = builder.raw_ip().overhead(Overhead::RAW).max_len(MTU + HEADER);
        let builder = builder.aqm(aqm).tins(tins).ack_filter(filter);
        let builder = builder.limits(LIMITS).buffers(LIMITS.packets + 1);
        let queue = builder.descriptors().expect("settings in range");
        made(Box::new(queue))
    };
    let mut network = TcpNetwork::new(link(0), link(1), Naming::Key, (WARM_UP, end));
    let mut starts = streams.stream("starts");
    let connections = [Way::Up, Way::Down].map(|way| {
        [(); FLOWS].map(|()| {
            let begins = Nanos(starts.below(1_000_000_000));
            network.connect(way, [1, 1], begins, Config::new(Box::new(control(setup.queueing))))
        })
    });
    if matches!(setup.queueing, Queueing::Marked(_)) {
        for (&id, (_, mark)) in connections.iter().flat_map(|ids| ids.iter().zip(MARKS)) {
            network.mark_connection(id, mark);
        }
    }
    let mut phases = streams.stream("probes");
    let (payload, every) = setup.probe.sends();
    let probes = [Way::Up, Way::Down].map(|way| {
        let source = Cbr::new(Nanos(phases.below(every.0)), every, payload);
        network.add_source(way, [1, 1], source)
    });
    network.run_until(end);
    let waits = [0, 1].map(|way| {
        let alone = Nanos(ROUND_TRIP.0 / 2).plus(rates[way].time_of(payload + 28 + HEADER));
        let delays = network.delays(probes[way]).samples();
        delays.iter().map(|delay| delay.since(alone)).collect::<Delays>()
    });
    let added = [&waits[0], &waits[1]].map(|delays| {
        let delays = delays.samples();
        let sum: u64 = delays.iter().map(|delay| delay.0).sum();
        Nanos(sum / u64::try_from(delays.len().max(1)).expect("fits"))
    });
    let [waits, _] = waits;
    let up = network.link(Way::Up);
    let counters = up.queue().counters();
    let datagrams = network.loss(probes[0]).sent * end.0 / MEASURED.0;
    let data: u64 = connections[0].iter().map(|&id| network.sender(id).events().sent).sum();
    Outcome {
        bytes: connections
            .map(|ids| ids.into_iter().map(|id| network.goodput(id).bytes()).sum::<u64>()),
        added,
        waits,
        timeouts: connections[1].iter().map(|&id| network.sender(id).events().timeouts).sum(),
        // Departures are data, probes or acknowledgements; data that was dropped or is queued is
        // negligible.
        acks: up.books().left.saturating_sub(data + datagrams),
        filtered: counters.dropped_for(DropReason::Filtered).packets,
        judged: counters.dropped_for(DropReason::Aqm).packets,
        lasted: end,
        recount: network.recount(),
    }
}
