//! Test of `ArrivalRate`: downloads over a link whose rate changes, with a gateway behind it that
//! follows the arrival rate.
//!
//! ```text
//! servers, probe ─▶ link: FIFO, a rate that changes ─▶ gateway: FQ-CoDel, shaper ─▶ hosts
//!                                                   │          ▲
//!                                                   └▶ ArrivalRate
//! ```
//!
//! The gateway sees no queue but its own, and only the arrival times of packets.

use core::num::NonZeroU64;

use freeboard::sched_core::{CoDel, CoDelParams, CoDelState, Ecn, Imbalance, Limits, Nanos};
use freeboard::shaper::{ArrivalRate, Overhead, Rate, Shaper};

use conformance::effort::effort;
use conformance::rng::Streams;
use sim::discipline::{Discipline, QUEUES, fair_queues};
use sim::link::Link;
use sim::source::Cbr;
use sim::tcp::congestion::{Controller, Cubic, NewReno};
use sim::tcp::network::{Naming, TcpNetwork, Way};
use sim::tcp::{Config, HEADERS, PAYLOAD};

/// Congestion control of the senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Senders {
    /// NewReno.
    Reno,
    /// CUBIC.
    Cubic,
}

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setup {
    /// Rate of the link in bits per second from each time on, the first from zero.
    line: Vec<(Nanos, u64)>,
    /// Range of the gateway's rate.
    bounds: (u64, u64),
    /// Number of downloads.
    flows: usize,
    /// Congestion control of the senders.
    senders: Senders,
    /// Round-trip time without queueing.
    path: Nanos,
    /// Interval at which the gateway reads arrived packets.
    turn: Nanos,
    /// Duration of the run.
    lasts: Nanos,
    /// Seed of all random numbers.
    seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    /// Rate of the shaper at each change.
    rates: Vec<(Nanos, u64)>,
    /// Arrival time of each probe and its delay beyond that of the path.
    delays: Vec<(Nanos, Nanos)>,
    /// Bytes that had left the gateway at the end of each [`STEP`].
    carried: Vec<u64>,
    /// Error if a packet is not accounted for.
    recount: Result<(), Imbalance>,
}

/// Interval at which arrivals are reported and departures are counted.
const STEP: Nanos = Nanos::from_millis(10);
/// Interval at which the rate is set.
const SETS: Nanos = Nanos::from_millis(250);
/// Capacity of the link's queue in packets.
const LINE_HOLDS: u32 = 1_000;
const MTU: u32 = 1_500;
const LIMITS: Limits = Limits { packets: 10_240, bytes: u32::MAX };

/// Runs the scenario once.
fn run(setup: &Setup) -> Outcome {
    let rate = |bps: u64| Rate::bits_per_second(bps).expect("a rate that lines have");
    let mut network = network(setup);
    let mut starts = Streams::new(setup.seed).stream("starts");
    let downloads: Vec<_> = (0..setup.flows)
        .map(|_| {
            let control: Box<dyn Controller> = match setup.senders {
                Senders::Reno => Box::new(NewReno::new(Ecn::NotEct)),
                Senders::Cubic => Box::new(Cubic::new(Ecn::NotEct)),
            };
            let begins = Nanos(starts.below(1_000_000_000));
            network.connect(Way::Up, [1, 1], begins, Config::new(control))
        })
        .collect();
    let half = Nanos(setup.path.0 / 2);
    let phase = Nanos(Streams::new(setup.seed).stream("probes").below(20_000_000));
    let probe = network.add_source(Way::Up, [1, 2], Cbr::new(phase, Nanos::from_millis(20), 20));
    let mut arrivals = ArrivalRate::new();
    let mut line = setup.line.iter().peekable();
    let (mut now, mut due, mut seen) = (Nanos::ZERO, Nanos::ZERO, 0);
    let mut rates = vec![(now, setup.bounds.1)];
    let (mut delays, mut carried) = (Vec::new(), Vec::new());
    while now < setup.lasts {
        while let Some(&(_, bps)) = line.next_if(|change| change.0 <= now) {
            network.set_rate(now, Way::Up, rate(bps));
        }
        now = now.plus(STEP);
        network.run_until(now);
        for (at, len) in network.take_passed() {
            let turns =
                NonZeroU64::new(setup.turn.0).map_or(at.0, |turn| at.0.div_ceil(turn.get()));
            let at = Nanos(turns * setup.turn.0.max(1));
            arrivals.arrived(at, len);
        }
        for &delay in network.delays(probe).samples().iter().skip(seen) {
            seen += 1;
            delays.push((now, delay.since(half)));
        }
        carried.push(
            downloads.iter().map(|&id| network.goodput(id).bytes()).sum::<u64>()
                / u64::from(PAYLOAD)
                * u64::from(PAYLOAD + HEADERS),
        );
        if now < due {
            continue;
        }
        due = now.plus(SETS);
        if let Some(follows) = arrivals.rate() {
            let bps = follows.as_bits_per_second().unwrap_or(u64::MAX);
            let bps = bps.clamp(setup.bounds.0, setup.bounds.1);
            network.set_modem(now, rate(bps), Nanos::ZERO);
            if rates.last().is_none_or(|last| last.1 != bps) {
                rates.push((now, bps));
            }
        }
    }
    Outcome { rates, delays, carried, recount: network.recount() }
}

fn network(setup: &Setup) -> TcpNetwork {
    let key = 0x6b65_795f_u128.wrapping_mul(u128::from(setup.seed) << 64 | 0x9e37).to_le_bytes();
    let within = "lengths and parameters are within their ranges";
    let fifo = |rate: Rate, packets: u32| {
        let limits = Limits { packets, bytes: u32::MAX };
        Discipline::Fifo.behind(Shaper::new(rate), Overhead::RAW, limits, MTU)
    };
    let half = Nanos(setup.path.0 / 2);
    let line = Link::new(fifo(Rate::STOPPED, LINE_HOLDS), LINE_HOLDS + 1, key, half);
    let fast = Rate::megabits_per_second(1_000).expect(within);
    let back = Link::new(fifo(fast, 10_000), 10_001, key, half);
    let first = Shaper::new(Rate::bits_per_second(setup.bounds.1).expect(within));
    let aqm = CoDel::new(vec![CoDelState::EMPTY; QUEUES as usize], CoDelParams::INTERNET);
    let queue = fair_queues(aqm.expect(within), first, Overhead::RAW, LIMITS, MTU).expect(within);
    let gateway = Link::new(queue, LIMITS.packets + 1, key, Nanos::ZERO);
    TcpNetwork::new(line, back, Naming::Key, (Nanos::ZERO, setup.lasts)).gateway(gateway)
}

const MBIT: u64 = 1_000_000;
const SECOND: usize = 100;
/// Minimum throughput in Mbit/s.
const LEAST: f64 = 34.0;
const LEAST_FAR: f64 = 25.0;
/// Maximum median delay of probes in milliseconds.
const P50: f64 = 20.0;
const P95: f64 = 70.0;

fn setup(line: &[(u64, u64)], senders: Senders, path: u64, seed: u64) -> Setup {
    let line = line.iter().map(|&(at, mbit)| (Nanos::from_secs(at), mbit * MBIT)).collect();
    // The gateway reads once per millisecond with even seeds, and at once with odd ones.
    let turn = Nanos::from_millis(if seed.is_multiple_of(2) { 1 } else { 0 });
    Setup {
        line,
        bounds: (2 * MBIT, 100 * MBIT),
        flows: 4,
        senders,
        path: Nanos::from_millis(path),
        turn,
        lasts: Nanos::from_secs(90),
        seed,
    }
}

impl Outcome {
    /// Returns the throughput of the gateway between two seconds, in Mbit/s.
    fn carried(&self, from: usize, to: usize) -> f64 {
        let bytes = self.carried[to * SECOND - 1] - self.carried[from * SECOND - 1];
        bytes as f64 * 8e-6 / (to - from) as f64
    }

    /// Returns the delay percentile of probes between two seconds, in milliseconds.
    fn waits(&self, from: u64, to: u64, percent: usize) -> f64 {
        let span = Nanos::from_secs(from)..Nanos::from_secs(to);
        let of = self.delays.iter().filter(|delay| span.contains(&delay.0));
        let mut all: Vec<u64> = of.map(|delay| delay.1.0).collect();
        all.sort_unstable();
        all[(all.len() * percent / 100).min(all.len() - 1)] as f64 / 1e6
    }
}

/// With full effort two seeds used to choose the steps, and four others; otherwise one of the
/// others.
fn seeds() -> impl Iterator<Item = u64> {
    (1..=effort(0, 2)).chain(101..=effort(101, 104))
}

/// Goal: four downloads use the whole link, which a rate below the arrival rate would prevent,
/// and little is queued before the link. Method: 40 Mbit/s, paths of 10 to 100 ms, Reno and
/// CUBIC; measured from 30 s on.
#[test]
fn downloads_have_the_line() {
    for seed in seeds() {
        for senders in [Senders::Reno, Senders::Cubic] {
            for path in [10, 50, 100] {
                let setup = setup(&[(0, 40)], senders, path, seed);
                let outcome = run(&setup);
                let told =
                    (outcome.carried(30, 90), [50, 95].map(|part| outcome.waits(30, 90, part)));
                println!("{senders:?}, {path} ms, seed {seed}: {told:.1?}");
                let least = if path == 100 { LEAST_FAR } else { LEAST };
                assert!(told.0 >= least, "{senders:?}, {path} ms, seed {seed}: {told:.1?}");
                assert!(
                    told.1[0] <= P50 && told.1[1] <= P95,
                    "{senders:?}, {path} ms, seed {seed}: {told:.1?}"
                );
                assert_eq!(outcome.recount, Ok(()));
            }
        }
    }
}

/// Goal: the shaper follows a link that becomes slower and faster again within the time that
/// the page states. Method: 40, 10 and 40 Mbit/s, 30 s each.
#[test]
fn a_line_that_changes_is_followed() {
    for seed in seeds() {
        for senders in [Senders::Reno, Senders::Cubic] {
            let setup = setup(&[(0, 40), (30, 10), (60, 40)], senders, 50, seed);
            let outcome = run(&setup);
            let at = |second: u64| {
                let until = Nanos::from_secs(second);
                outcome.rates.iter().rev().find(|rate| rate.0 <= until).unwrap().1 / 1_000
            };
            let what = format!("{senders:?}, seed {seed}");
            let slower = [35, 38, 40, 59].map(at);
            assert!(
                slower.iter().all(|rate| (9_000..=10_700).contains(rate)),
                "{what}: {slower:?}"
            );
            let faster = at(75);
            assert!(faster >= 34_000, "{what}: {faster}");
            let carried = (outcome.carried(40, 60), outcome.carried(75, 90));
            assert!(carried.0 >= 9.0 && carried.1 >= 34.0, "{what}: {carried:.1?}");
            let waits = [outcome.waits(40, 60, 95), outcome.waits(60, 90, 95)];
            assert!(waits[0] <= 200.0 && waits[1] <= 100.0, "{what}: {waits:.1?}");
            assert_eq!(outcome.recount, Ok(()));
        }
    }
}
