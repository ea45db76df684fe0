//! Two hosts share a link to four others: six TCP flows without end.
//!
//! ```text
//! a ─▶ A, a ─▶ B, a ─▶ C twice, b ─▶ C, b ─▶ D     10 Mbit/s, round trip 50 ms
//! ```
//!
//! The scenario of CAKE §IV-B: whether flows, source hosts, destination hosts or both share the
//! link is visible in their goodputs. Packets are real, and the queue identifies flows and hosts
//! from their bytes only. All flows of a host are sockets of one stack.
//!
//! Not specified by the source and assumed here:
//!
//! - The link carries IP packets without framing, in both directions at equal rates;
//!   acknowledgements wait in a FIFO.
//! - Flows start within a second, and arrivals in the first ten seconds are not counted.
//! - The queue holds 300,000 bytes, nearly five times the bandwidth-delay product. Windows do not
//!   limit the flows.
//!
//! A scheduler divides the link among backlogged queues. A TCP that halves a window no larger than
//! the bandwidth-delay product leaves its queue empty for a while, and the other flows use the
//! remainder. So the shares also depend on TCP where [`Drops::CoDel`] keeps queues much shorter
//! than a round trip, and where several flows share a queue.

use core::net::{Ipv4Addr, SocketAddrV4};

use freeboard::Isolation;
use freeboard::sched_core::{ConfigError, Imbalance, Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};

use crate::app::{BulkReceiver, BulkSender};
use crate::discipline::{Discipline, isolated};
use crate::host::{Buffers, Host};
use crate::link::{Books, Link};
use crate::measure::goodput::Goodput;
use crate::network::{Application, Network, NodeId, Side};
use conformance::rng::Streams;

pub use crate::discipline::Drops;

/// Number of flows.
pub const FLOWS: usize = 6;

/// Source and destination of each flow, by number.
pub const ENDS: [(u8, u8); FLOWS] = [(0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 3)];
const SOURCES: u8 = 2;
const DESTINATIONS: u8 = 4;

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Isolation mode; `None` is plain deficit round robin over flows, without hosts.
    pub isolation: Option<Isolation>,
    /// Drop policy. Plain deficit round robin drops from the longest queue only.
    pub drops: Drops,
    /// Duration of the measurement.
    pub measured: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
}

const WARM_UP: Nanos = Nanos::from_secs(10);
const RATE: Rate = match Rate::megabits_per_second(10) {
    Ok(rate) => rate,
    Err(_) => Rate::STOPPED,
};
/// One-way delay.
const DELAY: Nanos = Nanos::from_millis(25);
const BUFFER_BYTES: u32 = 300_000;
/// The limit in packets is never reached before the limit in bytes: no packet here is shorter than
/// 40 bytes.
const LIMITS: Limits = Limits { packets: BUFFER_BYTES / 40, bytes: BUFFER_BYTES };
/// One more than the limit: the arrival that exceeds it has a buffer too.
const BUFFERS: u32 = LIMITS.packets + 1;
const MTU: u32 = 1_500;
/// More than link and queue hold together.
const WINDOW: Buffers = Buffers { send: 1 << 19, receive: 1 << 19 };
/// Flow `n` uses the `n`-th port from here.
const FIRST_PORT: u16 = 8_001;

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes that each flow's receiver got during the measurement.
    pub bytes: [u64; FLOWS],
    /// Packet counters of the queue under test.
    pub books: Books,
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

/// The flows that one host sends or receives.
enum App {
    Sends(Vec<BulkSender>),
    Receives(Vec<BulkReceiver>),
}

impl Application for App {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        match self {
            Self::Sends(flows) => earliest(flows, now, host),
            Self::Receives(flows) => earliest(flows, now, host),
        }
    }
}

/// Calls each application; returns the earliest time at which one must be called again.
fn earliest(flows: &mut [impl Application], now: Nanos, host: &mut Host) -> Option<Nanos> {
    // A fold, so that all are called.
    flows
        .iter_mut()
        .fold(None, |first: Option<Nanos>, flow| first.into_iter().chain(flow.act(now, host)).min())
}

/// Runs the scenario once.
///
/// # Errors
/// Invalid parameters of CoDel.
pub fn run(setup: &Setup) -> Result<Outcome, ConfigError> {
    let end = WARM_UP.plus(setup.measured);
    let streams = Streams::new(setup.seed);
    let mut network = network(setup, &streams)?;
    for source in 0..SOURCES {
        let flows = flows_where(|ends| ends.0 == source).map(|flow| {
            let (_, destination) = ENDS[flow];
            let to = SocketAddrV4::new(address(Side::Internet, destination), port(flow));
            let start = streams.stream(&format!("start {flow}")).below(1_000_000_000);
            BulkSender::new(to, Nanos(start), WINDOW)
        });
        add(&mut network, &streams, Side::Home, source, App::Sends(flows.collect()));
    }
    let receivers: Vec<NodeId> = (0..DESTINATIONS)
        .map(|destination| {
            let flows = flows_where(|ends| ends.1 == destination)
                .map(|flow| BulkReceiver::new(port(flow), WINDOW, Goodput::over(WARM_UP, end)));
            let app = App::Receives(flows.collect());
            add(&mut network, &streams, Side::Internet, destination, app)
        })
        .collect();
    network.run_until(end, &mut |_, _| ());

    let mut bytes = [0; FLOWS];
    for (destination, node) in (0..).zip(receivers) {
        let App::Receives(apps) = network.application(node) else { continue };
        for (flow, app) in flows_where(|ends| ends.1 == destination).zip(apps) {
            bytes[flow] = app.goodput().bytes();
        }
    }
    Ok(Outcome { bytes, books: network.uplink().books(), recount: network.recount() })
}

fn network(setup: &Setup, streams: &Streams) -> Result<Network<App>, ConfigError> {
    let mut keys = streams.stream("flow-hash");
    let mut key = || (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
    let line = || Shaper::new(RATE);
    let tested = match setup.isolation {
        None => Discipline::Drr.behind(line(), Overhead::RAW, LIMITS, MTU),
        Some(isolation) => isolated(isolation, setup.drops, line(), Overhead::RAW, LIMITS, MTU)?,
    };
    let back = Discipline::Fifo.behind(line(), Overhead::RAW, LIMITS, MTU);
    let up = Link::new(tested, BUFFERS, key(), DELAY);
    Ok(Network::new(up, Link::new(back, BUFFERS, key(), DELAY)))
}

fn add(network: &mut Network<App>, streams: &Streams, side: Side, host: u8, app: App) -> NodeId {
    let address = address(side, host);
    let seed = streams.stream(&format!("host {address}")).bits();
    network.add(side, Host::new(address, seed), app)
}

/// Returns the numbers of the flows with matching ends.
fn flows_where(wanted: impl Fn((u8, u8)) -> bool) -> impl Iterator<Item = usize> {
    ENDS.into_iter().enumerate().filter(move |&(_, ends)| wanted(ends)).map(|(flow, _)| flow)
}

const fn port(flow: usize) -> u16 {
    FIRST_PORT + flow as u16
}

/// Returns addresses of a private network (RFC 1918), and of TEST-NET-3 (RFC 5737) for the
/// Internet.
const fn address(side: Side, host: u8) -> Ipv4Addr {
    match side {
        Side::Home => Ipv4Addr::new(192, 168, 1, 1 + host),
        Side::Internet => Ipv4Addr::new(203, 0, 113, 1 + host),
    }
}
