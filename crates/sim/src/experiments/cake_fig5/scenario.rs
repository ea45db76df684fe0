//! A constant-rate flow with the code point EF, and 32 uploads that begin after five seconds.
//!
//! ```text
//! 32 uploads, 2 Mbit/s EF ─▶ queue ─▶ 10 Mbit/s, 25 ms ─▶ server
//! client                  ◀─ queue ◀─ 10 Mbit/s, 25 ms ◀─ acknowledgements
//! ```
//!
//! The constant-rate flow has 1,400 bytes in each packet and receives no feedback. Uploads begin
//! within a tenth of a second.

use core::fmt;
use core::num::NonZeroU64;

use freeboard::sched_core::{
    AqmChoice, CoDel, CoDelParams, CoDelState, ConfigError, Ecn, Imbalance, Limits, Nanos,
    Probability,
};
use freeboard::shaper::{Overhead, Rate, Shaper};
use freeboard::{AqmKind, DescriptorQueue, Dscp, Isolation, Rtt, SmartQueue, TinMode};

use crate::discipline::{Bottleneck, QUEUES, fair_queues, isolated_smart};
use crate::link::Link;
use crate::source::Cbr;
use crate::tcp::congestion::Cubic;
use crate::tcp::network::{Naming, TcpNetwork, Way};
use crate::tcp::{Config, Data};
use conformance::rng::Streams;

/// Queue in front of the link, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// A queue for each flow, sparse flows first, with `CoDel` in each.
    FqCoDel,
    /// [`freeboard::SmartQueue`] with `CoDel` in each queue instead of COBALT.
    SmartCoDel,
    /// [`freeboard::SmartQueue`] with COBALT in each queue, whose BLUE never drops.
    SmartWithoutBlue,
    /// [`freeboard::SmartQueue`] with this tin mode and COBALT.
    Smart(TinMode),
}

impl fmt::Display for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FqCoDel => f.pad("FQ-CoDel"),
            Self::Smart(mode) => f.pad(&format!("CAKE, {}", mode.word())),
            Self::SmartWithoutBlue => f.pad("CAKE, besteffort, no BLUE"),
            Self::SmartCoDel => f.pad("CAKE, CoDel for COBALT"),
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Queue under test.
    pub queueing: Queueing,
    /// Duration of the run.
    pub lasts: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Queueing delay of each packet of the flow, without its transmission time and the
    /// propagation delay, by the [`STEP`] in which it arrived.
    pub added: Vec<Vec<Nanos>>,
    /// Fraction of its packets that were lost.
    pub lost: f64,
    /// Bytes of the uploads that arrived in order.
    pub bytes: u64,
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

/// Number of uploads.
pub const UPLOADS: u16 = 32;
/// Start of the uploads.
pub const BEGIN: Nanos = Nanos::from_secs(5);
/// Interval over which arrivals are grouped.
pub const STEP: Nanos = Nanos::from_millis(100);
/// Rate of the link in Mbit/s.
pub const MEGABITS: u32 = 10;
/// Round-trip time without queueing.
pub const ROUND_TRIP: Nanos = Nanos::from_millis(50);
/// Header bytes of a packet in the counters and on the link: an Ethernet header.
const HEADER: u32 = 14;
const LONGEST: u32 = Data::LEN + HEADER;
/// UDP payload of a packet of the flow.
const PAYLOAD: u32 = 1_400;
const FIXED_RATE: NonZeroU64 = NonZeroU64::new(2_000_000).unwrap();
/// CAKE's memory limit at this rate, and FQ-CoDel's limit in packets.
const LIMITS: Limits = Limits { packets: 10_240, bytes: 4 << 20 };

/// Runs the scenario once.
///
/// # Errors
/// [`ConfigError`] if the queue cannot be built.
pub fn run(setup: &Setup) -> Result<Outcome, ConfigError> {
    let streams = Streams::new(setup.seed);
    let rate = Rate::megabits_per_second(MEGABITS.into()).expect("a rate that lines have");
    let mut keys = streams.stream("flow-hash");
    let mut link = || {
        let key = (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
        let queue = queue(setup.queueing, rate)?;
        let link = Link::new(queue, LIMITS.packets + 1, key, Nanos(ROUND_TRIP.0 / 2));
        Ok::<_, ConfigError>(link.with_header(HEADER))
    };
    let mut network = TcpNetwork::new(link()?, link()?, Naming::Key, (Nanos::ZERO, setup.lasts));
    let mut starts = streams.stream("starts");
    let uploads: Vec<_> = (0..UPLOADS)
        .map(|_| {
            let begins = BEGIN.plus(Nanos(starts.below(100_000_000)));
            let control = Box::new(Cubic::new(Ecn::NotEct));
            network.connect(Way::Up, [1, 1], begins, Config::new(control))
        })
        .collect();
    let source = Cbr::at_rate(Nanos(streams.stream("phase").below(5_000_000)), FIXED_RATE, PAYLOAD);
    let fixed = network.add_source(Way::Up, [1, 1], source);
    network.mark_source(fixed, Dscp::EF);
    // Delay of a packet on an idle link.
    let alone = Nanos(ROUND_TRIP.0 / 2).plus(rate.time_of(PAYLOAD + 28 + HEADER));
    let (mut now, mut added) = (Nanos::ZERO, Vec::new());
    let mut seen = 0;
    while now < setup.lasts {
        now = now.plus(STEP);
        network.run_until(now);
        let news = network.delays(fixed).samples().get(seen..).unwrap_or_default();
        seen += news.len();
        added.push(news.iter().map(|delay| delay.since(alone)).collect());
    }
    Ok(Outcome {
        added,
        lost: network.loss(fixed).ratio(),
        bytes: uploads.into_iter().map(|id| network.goodput(id).bytes()).sum(),
        recount: network.recount(),
    })
}

fn queue(queueing: Queueing, rate: Rate) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let line = Shaper::new(rate);
    match queueing {
        Queueing::FqCoDel => {
            let states = vec![CoDelState::EMPTY; QUEUES as usize];
            let aqm = CoDel::new(states, CoDelParams::INTERNET)?;
            fair_queues(aqm, line, Overhead::RAW, LIMITS, LONGEST)
        }
        Queueing::SmartCoDel => {
            let (isolation, aqm) = (Isolation::TripleIsolate, AqmKind::CoDel);
            Ok(isolated_smart(isolation, aqm, false, line, Overhead::RAW, LIMITS, LONGEST))
        }
        Queueing::SmartWithoutBlue => {
            let mut queue = smart(rate, TinMode::BestEffort);
            let least = Probability::from_raw(1);
            let params = Rtt::INTERNET.cobalt(rate, LONGEST).with_steps(least, least);
            queue.set_aqm_params(AqmChoice::Cobalt(params))?;
            Ok(Box::new(queue))
        }
        Queueing::Smart(mode) => Ok(Box::new(smart(rate, mode))),
    }
}

fn smart(rate: Rate, mode: TinMode) -> DescriptorQueue {
    let builder = SmartQueue::upload(rate).raw_ip().overhead(Overhead::RAW).max_len(LONGEST);
    let builder = builder.limits(LIMITS).buffers(LIMITS.packets + 1).tins(mode);
    builder.descriptors().expect("settings in range")
}
