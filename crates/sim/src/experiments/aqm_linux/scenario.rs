//! CUBIC behind a queue under test in both directions, with a probe: the scenarios in which Linux
//! was measured.
//!
//! ```text
//! uploads, probe ─▶ queue ─▶ 10 or 1 Mbit/s, 25 ms ─▶ server
//!        client  ◀─ queue ◀─ 10 or 1 Mbit/s, 25 ms ◀─ downloads, video, probe
//! ```
//!
//! The probe is 160 bytes every 20 ms, headers included. The video is 5 Mbit/s in packets of 1,428
//! bytes, evenly spaced. A packet takes 14 bytes more on the link, the header of an Ethernet frame.
//! Connections begin within the first second, at random.

use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

use freeboard::sched_core::{
    CoDel, CoDelParams, CoDelState, Cobalt, CobaltParams, CobaltState, ConfigError, Ecn, Imbalance,
    Limits, Nanos, Pie, PieParams, PieState,
};
use freeboard::shaper::{Framing, Overhead, Rate, Shaper};
use freeboard::{AqmKind, Isolation};

use crate::discipline::{
    Bottleneck, Discipline, QUEUES, fair_queues, isolated_smart, isolated_with, one_queue,
};
use crate::link::Link;
use crate::measure::delay::Delays;
use crate::measure::goodput::Loss;
use crate::source::Cbr;
use crate::tcp::Config;
use crate::tcp::congestion::Cubic;
use crate::tcp::network::{Naming, TcpNetwork, Way};
use conformance::rng::Streams;

/// Queue in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// FIFO with a limit of this many packets.
    Fifo(u32),
    /// One queue with CoDel.
    CoDel,
    /// A queue for each flow, sparse flows first, with CoDel in each.
    FqCoDel,
    /// One queue with PIE.
    Pie,
    /// A queue for each flow, sparse flows first, with PIE in each.
    FqPie,
    /// A queue for each flow, sparse flows first, with COBALT in each.
    FqCobalt,
    /// The isolated queue in the mode `triple-isolate`, with COBALT in each queue: the structure of
    /// CAKE.
    Isolated,
    /// The isolated queue with this AQM, as [`freeboard::SmartQueue`] configures it.
    Smart(AqmKind),
    /// The isolated queue with PIE.
    IsolatedPie,
}

impl fmt::Display for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(packets) => write!(f, "FIFO, {packets} packets"),
            Self::CoDel => f.pad("CoDel"),
            Self::FqCoDel => f.pad("FQ-CoDel"),
            Self::Pie => f.pad("PIE"),
            Self::FqPie => f.pad("FQ-PIE"),
            Self::FqCobalt => f.pad("FQ-COBALT"),
            Self::Isolated => f.pad("isolated (CAKE)"),
            Self::Smart(AqmKind::None) => f.pad("none"),
            Self::Smart(AqmKind::CoDel) => f.pad("CoDel"),
            Self::Smart(_) => f.pad("COBALT"),
            Self::IsolatedPie => f.pad("PIE"),
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Queue under test.
    pub queueing: Queueing,
    /// Rate of the link in Mbit/s.
    pub megabits: NonZeroU32,
    /// Number of uploads.
    pub up: u8,
    /// Number of downloads.
    pub down: u8,
    /// True if a video is sent beside the downloads.
    pub video: bool,
    /// True if segments are paced.
    pub paced: bool,
    /// ECN code point of an unresponsive upload at 1.5 times the rate of the link, if there is
    /// one.
    pub deaf: Option<Ecn>,
    /// Duration of the measurement.
    pub measured: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Results of an open-loop flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// Queueing delay of each packet, without its transmission time and the propagation delay.
    pub added: Delays,
    /// Loss of its packets.
    pub loss: Loss,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of each upload and of each download that arrived in order.
    pub bytes: [Vec<u64>; 2],
    /// Probes up and down.
    pub probes: [FlowReport; 2],
    /// Results of the video.
    pub video: FlowReport,
    /// Results of the unresponsive flow.
    pub deaf: FlowReport,
    /// Timeouts of all senders.
    pub timeouts: u64,
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

/// Start of the measurement.
pub const WARM_UP: Nanos = Nanos::from_secs(10);
/// Longest packet, in bytes.
pub const MTU: u32 = 1_500;
/// Bytes that the link adds to a packet.
pub const HEADER: u32 = 14;
/// Round-trip time without queueing.
pub const ROUND_TRIP: Nanos = Nanos::from_millis(50);
/// UDP payload of the probe.
const PROBE: u32 = 132;
const VIDEO: u32 = 1_400;
const VIDEO_RATE: NonZeroU64 = NonZeroU64::new(5_000_000).unwrap();
/// Rate of the unresponsive flow for each Mbit/s of the link.
const DEAF_RATE: NonZeroU64 = NonZeroU64::new(1_500_000).unwrap();
/// FQ-CoDel's default limit in packets.
const LIMITS: Limits = Limits { packets: 10_240, bytes: u32::MAX };
const ONE_QUEUE_LIMITS: Limits = Limits { packets: 1_000, bytes: u32::MAX };
/// Time to send the packets that are queued when the measurement ends.
const DRAIN: Nanos = Nanos::from_secs(14);

/// Runs the scenario once.
///
/// # Errors
/// [`ConfigError`] if the queue cannot be built.
pub fn run(setup: &Setup) -> Result<Outcome, ConfigError> {
    let end = WARM_UP.plus(setup.measured);
    let streams = Streams::new(setup.seed);
    let rate =
        Rate::megabits_per_second(setup.megabits.get().into()).expect("a rate that lines have");
    let mut keys = streams.stream("flow-hash");
    let mut link = || {
        let (queue, limits) = queue(setup.queueing, rate, keys.bits())?;
        let key = (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
        Ok::<_, ConfigError>(Link::new(queue, limits.packets + 1, key, Nanos(ROUND_TRIP.0 / 2)))
    };
    let naming = match setup.queueing {
        Queueing::Fifo(_) | Queueing::CoDel | Queueing::Pie => Naming::One,
        _ => Naming::Key,
    };
    let mut network = TcpNetwork::new(link()?, link()?, naming, (WARM_UP, end));
    let mut starts = streams.stream("starts");
    let connections = [(Way::Up, setup.up), (Way::Down, setup.down)].map(|(way, count)| {
        let mut connect = |_| {
            let begins = Nanos(starts.below(1_000_000_000));
            let control = Box::new(Cubic::new(Ecn::NotEct));
            let config = Config { paced: setup.paced, ..Config::new(control) };
            network.connect(way, [1, 1], begins, config)
        };
        (0..count).map(&mut connect).collect::<Vec<_>>()
    });
    let mut phases = streams.stream("probes");
    let probes = [Way::Up, Way::Down].map(|way| {
        let source = Cbr::new(Nanos(phases.below(20_000_000)), Nanos::from_millis(20), PROBE);
        network.add_source(way, [1, 1], source)
    });
    let video = setup.video.then(|| {
        let source = Cbr::at_rate(Nanos(phases.below(2_000_000)), VIDEO_RATE, VIDEO);
        network.add_source(Way::Down, [1, 2], source)
    });
    let deaf = setup.deaf.map(|ecn| {
        let bits = NonZeroU64::from(setup.megabits).saturating_mul(DEAF_RATE);
        let source = Cbr::at_rate(Nanos(phases.below(2_000_000)), bits, VIDEO);
        network.add_source_with_ecn(Way::Up, [1, 3], ecn, source)
    });
    network.run_until(end.plus(DRAIN));
    let timeouts =
        connections.iter().flatten().map(|&id| network.sender(id).events().timeouts).sum();
    let bytes = connections
        .map(|ids| ids.into_iter().map(|id| network.goodput(id).bytes()).collect::<Vec<_>>());
    let seen = |id, payload| {
        // Delay of a packet on an idle link.
        let alone = Nanos(ROUND_TRIP.0 / 2).plus(rate.time_of(payload + 28 + HEADER));
        let delays = network.delays(id).samples().iter();
        FlowReport {
            added: delays.map(|delay| delay.since(alone)).collect(),
            loss: network.loss(id),
        }
    };
    Ok(Outcome {
        bytes,
        probes: probes.map(|id| seen(id, PROBE)),
        video: video.map(|id| seen(id, VIDEO)).unwrap_or_default(),
        deaf: deaf.map(|id| seen(id, VIDEO)).unwrap_or_default(),
        timeouts,
        recount: network.recount(),
    })
}

fn queue(
    queueing: Queueing,
    rate: Rate,
    seed: u64,
) -> Result<(Box<dyn Bottleneck>, Limits), ConfigError> {
    let line = Shaper::new(rate);
    let overhead = Overhead::new(Framing::None, HEADER.cast_signed(), 0).expect("in range");
    let codel = CoDelParams::INTERNET;
    let states = |queues: u32| vec![CoDelState::EMPTY; queues as usize];
    Ok(match queueing {
        Queueing::Fifo(packets) => {
            let limits = Limits { packets, bytes: u32::MAX };
            (Discipline::Fifo.behind(line, overhead, limits, MTU), limits)
        }
        Queueing::CoDel => {
            let aqm = CoDel::new(states(1), codel)?;
            (one_queue(aqm, line, overhead, ONE_QUEUE_LIMITS, MTU)?, ONE_QUEUE_LIMITS)
        }
        Queueing::FqCoDel => {
            let aqm = CoDel::new(states(QUEUES), codel)?;
            (fair_queues(aqm, line, overhead, LIMITS, MTU)?, LIMITS)
        }
        Queueing::Pie => {
            let aqm = Pie::new(vec![PieState::EMPTY; 1], PieParams::default(), seed)?;
            (one_queue(aqm, line, overhead, ONE_QUEUE_LIMITS, MTU)?, ONE_QUEUE_LIMITS)
        }
        Queueing::FqPie => {
            let aqm = Pie::new(vec![PieState::EMPTY; QUEUES as usize], PieParams::default(), seed)?;
            (fair_queues(aqm, line, overhead, LIMITS, MTU)?, LIMITS)
        }
        Queueing::FqCobalt => {
            let cobalt = CobaltParams::INTERNET.with_mtu_time(rate.time_of(MTU + HEADER));
            let aqm = Cobalt::new(vec![CobaltState::EMPTY; QUEUES as usize], cobalt, seed)?;
            (fair_queues(aqm, line, overhead, LIMITS, MTU)?, LIMITS)
        }
        Queueing::Smart(aqm) => {
            let isolation = Isolation::TripleIsolate;
            (isolated_smart(isolation, aqm, true, line, overhead, LIMITS, MTU), LIMITS)
        }
        Queueing::IsolatedPie => {
            let aqm = |queues| Pie::new(vec![PieState::EMPTY; queues], PieParams::default(), seed);
            let isolation = Isolation::TripleIsolate;
            (isolated_with(isolation, aqm, line, overhead, LIMITS, MTU)?, LIMITS)
        }
        Queueing::Isolated => {
            let cobalt = CobaltParams::INTERNET.with_mtu_time(rate.time_of(MTU + HEADER));
            let aqm = |queues| Cobalt::new(vec![CobaltState::EMPTY; queues], cobalt, seed);
            let isolation = Isolation::TripleIsolate;
            (isolated_with(isolation, aqm, line, overhead, LIMITS, MTU)?, LIMITS)
        }
    })
}
