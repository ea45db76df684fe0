//! Uploads through a shaper, before a modem with a queue of its own.
//!
//! ```text
//! uploads, probe ─▶ FQ-CoDel, shaper ─▶ modem: FIFO ─▶ line that changes ─▶ server
//!                        ▲                                                    │
//!                        └──── Autorate ◀── delay, 20 ms later ◀──────────────┘
//! ```
//!
//! The modem takes what the shaper sends at once and holds it until the line is free. So only the
//! shaper can keep the queue where CoDel is.

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

/// How the shaper gets its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shaping {
    /// The best rate that the line has, fixed: what a label on the line says.
    Best,
    /// It follows the line.
    Auto,
    /// The floor, fixed: what is never too much.
    Floor,
}

impl Shaping {
    /// All, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Best, Self::Auto, Self::Floor];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Best => "best, fixed",
            Self::Auto => "autorate",
            Self::Floor => "floor, fixed",
        }
    }
}

/// What may be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The line.
    pub trace: Trace,
    /// The rate of the shaper.
    pub shaping: Shaping,
    /// How long it runs.
    pub lasts: Nanos,
    /// What all random draws come from.
    pub seed: u64,
}

/// What a run has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What each probe waited beyond the path, and when its answer came.
    pub delays: Vec<(Nanos, Nanos)>,
    /// The rate of the shaper, whenever it changed.
    pub rates: Vec<(Nanos, u64)>,
    /// The rate of the line, whenever it changed.
    pub line: Vec<(Nanos, u64)>,
    /// Bytes that arrived in order, with headers.
    pub carried: u64,
    /// Bytes that the line had.
    pub capacity: u64,
    /// Whether every packet is accounted for.
    pub recount: Result<(), Imbalance>,
}

/// Packets that the modem holds.
pub const MODEM: u32 = 1_000;
const UPLOADS: usize = 4;
const MTU: u32 = 1_500;
/// How often the line and the rate may change.
const STEP: Nanos = Nanos::from_millis(10);
/// From the server to the sender: the way of acknowledgements and of answers to probes.
const BACK: Nanos = Nanos::from_millis(20);
const LIMITS: Limits = Limits { packets: 10_240, bytes: u32::MAX };
const PROBE: u32 = 20;

/// Runs the scenario once.
///
/// # Panics
/// If a trace has rates that no line can have.
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
