//! Uploads through a shaper in front of a modem with a queue of its own.
//!
//! ```text
//! uploads, probe ─▶ FQ-CoDel, shaper ─▶ modem: FIFO ─▶ link that changes ─▶ server
//!                        ▲                                                    │
//!                        └──── Autorate ◀── delay, 20 ms later ◀──────────────┘
//! ```
//!
//! The modem accepts everything from the shaper at once and holds it until the link is free. So
//! only the shaper can keep the backlog in the queue with CoDel.

use core::num::NonZeroU64;
use std::collections::VecDeque;

use freeboard::sched_core::{CoDel, CoDelParams, CoDelState, Ecn, Imbalance, Limits, Nanos};
use freeboard::shaper::{Autorate, AutorateParams, Overhead, Rate, Shaper};

use super::traces::Trace;
use crate::discipline::{Discipline, QUEUES, fair_queues};
use crate::link::Link;
use crate::source::Cbr;
use crate::tcp::congestion::Cubic;
use crate::tcp::network::{Naming, TcpNetwork, Way};
use crate::tcp::{Config, HEADERS, PAYLOAD};
use conformance::rng::Streams;

/// Source of the shaper's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shaping {
    /// Fixed at the link's maximum rate, its advertised rate.
    Best,
    /// Autorate.
    Auto,
    /// Fixed at the floor, which never exceeds the link's rate.
    Floor,
}

impl Shaping {
    /// All variants, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Best, Self::Auto, Self::Floor];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Best => "best, fixed",
            Self::Auto => "autorate",
            Self::Floor => "floor, fixed",
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Capacity of the link over time.
    pub trace: Trace,
    /// Source of the shaper's rate.
    pub shaping: Shaping,
    /// Duration of the run.
    pub lasts: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Time at which each probe was answered and its delay beyond that of the path.
    pub delays: Vec<(Nanos, Nanos)>,
    /// Rate of the shaper at each change.
    pub rates: Vec<(Nanos, u64)>,
    /// Rate of the link at each change.
    pub line: Vec<(Nanos, u64)>,
    /// Bytes that arrived in order, including headers.
    pub carried: u64,
    /// Capacity of the link in bytes.
    pub capacity: u64,
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

/// Capacity of the modem's queue in packets.
pub const MODEM: u32 = 1_000;
const UPLOADS: usize = 4;
const MTU: u32 = 1_500;
/// Interval at which the link and the rate may change.
const STEP: Nanos = Nanos::from_millis(10);
/// Delay from the server to the sender, of acknowledgements and of answers to probes.
const BACK: Nanos = Nanos::from_millis(20);
const LIMITS: Limits = Limits { packets: 10_240, bytes: u32::MAX };
const PROBE: u32 = 20;

/// Runs the scenario once.
///
/// # Panics
/// If a trace has a rate that is out of range.
#[must_use]
pub fn run(setup: &Setup) -> Outcome {
    let rate = |bps| Rate::bits_per_second(bps).expect("a rate that lines have");
    let [floor, base, ceiling] = setup.trace.megabits().map(|megabits| rate(megabits * 1_000_000));
    let params = AutorateParams::new(floor, base, ceiling)
        .and_then(|params| params.with_threshold(setup.trace.threshold()))
        .expect("floor, base and ceiling are in order");
    let mut autorate = (setup.shaping == Shaping::Auto).then(|| Autorate::new(params));
    let first = match setup.shaping {
        Shaping::Best => ceiling,
        Shaping::Auto => base,
        Shaping::Floor => floor,
    };
    let capacities = setup.trace.capacities(setup.lasts, setup.seed);
    let mut network = network(setup, first);
    let streams = Streams::new(setup.seed);
    let mut starts = streams.stream("starts");
    let uploads: Vec<_> = (0..UPLOADS)
        .map(|_| {
            let config = Config::new(Box::new(Cubic::new(Ecn::NotEct)));
            network.connect(Way::Up, [1, 1], Nanos(starts.below(1_000_000_000)), config)
        })
        .collect();
    let phase = Nanos(streams.stream("probes").below(50_000_000));
    let probe = network.add_source(Way::Up, [1, 2], Cbr::new(phase, Nanos::from_millis(50), PROBE));

    let mut changes = capacities.iter().peekable();
    let mut path = Nanos::ZERO;
    let mut delays = Vec::new();
    let mut rates = vec![(Nanos::ZERO, first.as_bits_per_second().unwrap_or(0))];
    let mut answers: VecDeque<(Nanos, Nanos)> = VecDeque::new();
    let (mut seen, mut sent) = (0, 0);
    let (mut now, mut capacity, mut bps) = (Nanos::ZERO, 0, 0);
    while now < setup.lasts {
        while let Some(change) = changes.next_if(|change| change.at <= now) {
            (path, bps) = (change.delay, change.bps);
            let of = NonZeroU64::new(bps).map_or(Rate::STOPPED, |bps| rate(bps.get()));
            network.set_modem(now, of, path);
        }
        now = now.plus(STEP);
        network.run_until(now);
        capacity += bps * STEP.0 / 8_000_000_000;
        for &delay in network.delays(probe).samples().iter().skip(seen) {
            seen += 1;
            delays.push((now, delay.since(path)));
            answers.push_back((now.plus(BACK), delay.plus(BACK)));
        }
        let Some(autorate) = &mut autorate else { continue };
        while let Some((_, delay)) = answers.pop_front_if(|answer| answer.0 <= now) {
            autorate.delay_sample(delay);
        }
        let all = network.sent_bytes(Way::Up);
        let before = autorate.rate();
        let after = autorate.update(now, all - sent);
        sent = all;
        if after != before {
            network.set_rate(now, Way::Up, after);
            rates.push((now, after.as_bits_per_second().unwrap_or(0)));
        }
    }
    rates.push((now, rates.last().map_or(0, |last| last.1)));
    let payload: u64 = uploads.iter().map(|&id| network.goodput(id).bytes()).sum();
    Outcome {
        delays,
        rates,
        line: capacities.iter().map(|capacity| (capacity.at, capacity.bps)).collect(),
        carried: payload / u64::from(PAYLOAD) * u64::from(PAYLOAD + HEADERS),
        capacity,
        recount: network.recount(),
    }
}

fn network(setup: &Setup, first: Rate) -> TcpNetwork {
    let key = 0x6b65_795f_u128.wrapping_mul(u128::from(setup.seed) << 64 | 0x9e37).to_le_bytes();
    let fifo = |rate, packets| {
        let limits = Limits { packets, bytes: u32::MAX };
        Discipline::Fifo.behind(Shaper::new(rate), Overhead::RAW, limits, MTU)
    };
    let within = "lengths and parameters are within their ranges";
    let aqm = CoDel::new(vec![CoDelState::EMPTY; QUEUES as usize], CoDelParams::INTERNET);
    let line = Shaper::new(first);
    let queue = fair_queues(aqm.expect(within), line, Overhead::RAW, LIMITS, MTU).expect(within);
    let up = Link::new(queue, LIMITS.packets + 1, key, Nanos::ZERO);
    let fast = Rate::megabits_per_second(100).expect(within);
    let down = Link::new(fifo(fast, 10_000), 10_001, key, BACK);
    let modem = Link::new(fifo(Rate::STOPPED, MODEM), MODEM + 1, key, Nanos::ZERO);
    TcpNetwork::new(up, down, Naming::Key, (Nanos::ZERO, setup.lasts)).modem(modem)
}
