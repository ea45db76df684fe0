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

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{CoDel, CoDelParams, CoDelState, Ecn, Limits, Nanos};
use freeboard::shaper::{Autorate, AutorateParams, Overhead, Rate, Shaper};

use crate::discipline::{Discipline, QUEUES, fair_queues};
use crate::link::Link;
use crate::link::trace::Trace;
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

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Time at which each probe was answered and its delay beyond that of the path.
    pub delays: Vec<(Nanos, Nanos)>,
    /// Rate of the shaper at each change.
    pub rates: Vec<(Nanos, u64)>,
    /// Bytes that arrived in order, including headers.
    pub carried: u64,
    /// Capacity of the link in bytes.
    pub capacity: u64,
    /// True if every packet is accounted for.
    pub balanced: bool,
}

/// Capacity of the modem's queue in packets.
pub const MODEM: u32 = 1_000;
const UPLOADS: usize = 4;
const MTU: u32 = 1_500;
/// Interval at which the link and the rate may change.
const STEP: Nanos = Nanos::from_millis(10);
/// Delay from the server to the sender, of acknowledgements and of answers to probes.
const BACK: Nanos = Nanos::from_millis(20);
const LIMITS: Limits = Limits::packets(10_240);

/// Returns the threshold of the controller.
#[must_use]
pub const fn threshold(trace: Trace) -> Nanos {
    match trace {
        Trace::Lte => Nanos::from_millis(20),
        Trace::Starlink | Trace::Docsis => Nanos::from_millis(15),
    }
}

/// Runs the scenario once, for `lasts`.
///
/// # Panics
/// If a trace has a rate that is out of range.
#[must_use]
pub fn run(trace: Trace, shaping: Shaping, lasts: Nanos, seed: u64) -> Run {
    let rate = |bps| Rate::bits_per_second(bps).expect("a rate that lines have");
    let [floor, base, ceiling] = trace.megabits().map(|megabits| rate(megabits * 1_000_000));
    let params = AutorateParams::new(floor, base, ceiling)
        .and_then(|params| params.with_threshold(threshold(trace)))
        .expect("floor, base and ceiling are in order");
    let mut autorate = (shaping == Shaping::Auto).then(|| Autorate::new(params));
    let first = match shaping {
        Shaping::Best => ceiling,
        Shaping::Auto => base,
        Shaping::Floor => floor,
    };
    let capacities = trace.capacities(lasts, seed);
    let mut network = network(first, lasts, seed);
    let streams = Streams::new(seed);
    let mut starts = streams.stream("starts");
    let uploads: Vec<_> = (0..UPLOADS)
        .map(|_| {
            let config = Config::new(Box::new(Cubic::new(Ecn::NotEct)));
            network.connect(Way::Up, [1, 1], Nanos(starts.below(1_000_000_000)), config)
        })
        .collect();
    let phase = Nanos(streams.stream("probes").below(50_000_000));
    let probe = network.add_source(Way::Up, [1, 2], Cbr::new(phase, Nanos::from_millis(50), 20));

    let mut changes = capacities.iter().peekable();
    let mut path = Nanos::ZERO;
    let mut delays = Vec::new();
    let mut rates = vec![(Nanos::ZERO, first.as_bits_per_second().unwrap_or(0))];
    let mut answers: VecDeque<(Nanos, Nanos)> = VecDeque::new();
    let (mut seen, mut sent) = (0, 0);
    let (mut now, mut capacity, mut bps) = (Nanos::ZERO, 0, 0);
    while now < lasts {
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
    Run {
        delays,
        rates,
        carried: payload / u64::from(PAYLOAD) * u64::from(PAYLOAD + HEADERS),
        capacity,
        balanced: network.recount().is_ok(),
    }
}

fn network(first: Rate, lasts: Nanos, seed: u64) -> TcpNetwork {
    let key = 0x6b65_795f_u128.wrapping_mul(u128::from(seed) << 64 | 0x9e37).to_le_bytes();
    let fifo = |rate, packets, delay| {
        let line = Shaper::new(rate);
        let queue = Discipline::Fifo.behind(line, Overhead::RAW, Limits::packets(packets), MTU);
        Link::new(queue, packets + 1, key, delay)
    };
    let within = "lengths and parameters are within their ranges";
    let aqm = CoDel::new(vec![CoDelState::EMPTY; QUEUES as usize], CoDelParams::INTERNET);
    let line = Shaper::new(first);
    let queue = fair_queues(aqm.expect(within), line, Overhead::RAW, LIMITS, MTU).expect(within);
    let up = Link::new(queue, LIMITS.packets + 1, key, Nanos::ZERO);
    let down = fifo(Rate::megabits_per_second(100).expect(within), 10_000, BACK);
    TcpNetwork::new(up, down, Naming::Key, (Nanos::ZERO, lasts)).modem(fifo(
        Rate::STOPPED,
        MODEM,
        Nanos::ZERO,
    ))
}
