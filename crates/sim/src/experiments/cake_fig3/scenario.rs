//! Two hosts share a line to four others: six TCP flows that never end.
//!
//! ```text
//! a ─▶ A, a ─▶ B, a ─▶ C twice, b ─▶ C, b ─▶ D     10 Mbit/s, 50 ms there and back
//! ```
//!
//! The scenario of CAKE §IV-B: what shares the line, flows, source hosts, destination hosts
//! or both, is read from their goodputs. Packets are real, and the queue learns of flows and hosts
//! from their bytes alone. All flows of a host are sockets of one stack.
//!
//! What the source does not say is assumed:
//!
//! - The line carries IP packets without framing, both ways at the same rate; acknowledgements wait
//!   in a FIFO.
//! - Flows start within a second, and what arrives in the first ten seconds does not count.
//! - The queue holds 300,000 bytes, nearly five times what the line holds. Windows are no limit.
//!
//! A scheduler divides the line among queues that hold packets. A TCP that halves a window of no
//! more than what the line holds leaves its queue empty for a while, and the other flows take what
//! it leaves. So the shares speak of TCP as well where [`Drops::CoDel`] keeps queues much shorter
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

/// What may be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What shares the line; `None` is plain deficit round robin over flows, without hosts.
    pub isolation: Option<Isolation>,
    /// Which packets are dropped. Plain deficit round robin drops from the longest queue alone.
    pub drops: Drops,
    /// How long what arrives is counted.
    pub measured: Nanos,
    /// What all random draws come from.
    pub seed: u64,
}

const WARM_UP: Nanos = Nanos::from_secs(10);
const RATE: Rate = match Rate::megabits_per_second(10) {
    Ok(rate) => rate,
    Err(_) => Rate::STOPPED,
};
/// One way.
const DELAY: Nanos = Nanos::from_millis(25);
const BUFFER_BYTES: u32 = 300_000;
/// A limit in packets that is never reached before the one in bytes: no packet here is shorter than
/// 40 bytes.
const LIMITS: Limits = Limits { packets: BUFFER_BYTES / 40, bytes: BUFFER_BYTES };
/// One more than fit: the arrival that overflows the limit has a buffer too.
const BUFFERS: u32 = LIMITS.packets + 1;
const MTU: u32 = 1_500;
/// More than line and queue hold together.
const WINDOW: Buffers = Buffers { send: 1 << 19, receive: 1 << 19 };
/// Flow `n` goes to the `n`-th port from here.
const FIRST_PORT: u16 = 8_001;

/// What a run has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes that reached each flow's receiver in the measured time.
    pub bytes: [u64; FLOWS],
    /// The packets of the queue under test.
    pub books: Books,
    /// Whether every packet is accounted for.
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

/// Lets each act; the first instant at which one wants to again.
fn earliest(flows: &mut [impl Application], now: Nanos, host: &mut Host) -> Option<Nanos> {
    // All act, so that none is left out when an earlier one has a wish.
    flows
        .iter_mut()
        .fold(None, |first: Option<Nanos>, flow| first.into_iter().chain(flow.act(now, host)).min())
}

/// Runs the scenario once.
///
/// # Errors
/// Parameters of CoDel that are out of range.
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

/// The numbers of the flows whose ends are so.
fn flows_where(wanted: impl Fn((u8, u8)) -> bool) -> impl Iterator<Item = usize> {
    ENDS.into_iter().enumerate().filter(move |&(_, ends)| wanted(ends)).map(|(flow, _)| flow)
}

const fn port(flow: usize) -> u16 {
    FIRST_PORT + flow as u16
}

/// A private network (RFC 1918), and TEST-NET-3 of RFC 5737 for the Internet.
const fn address(side: Side, host: u8) -> Ipv4Addr {
    match side {
        Side::Home => Ipv4Addr::new(192, 168, 1, 1 + host),
        Side::Internet => Ipv4Addr::new(203, 0, 113, 1 + host),
    }
}
