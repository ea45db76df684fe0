//! Transfers without end from hosts at home to hosts on the Internet.

use core::net::{Ipv4Addr, SocketAddrV4};

use freeboard::sched_core::Nanos;

use super::{BulkReceiver, BulkSender};
use crate::host::{Buffers, Host};
use crate::link::Link;
use crate::measure::goodput::Goodput;
use crate::network::{Application, Network, NodeId, Side};
use conformance::rng::Streams;

/// The transfers that one host sends or receives: all are sockets of one stack.
#[derive(Debug)]
enum Transfers {
    Sends(Vec<BulkSender>),
    Receives(Vec<BulkReceiver>),
}

impl Application for Transfers {
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

/// Results of transfers between pairs of hosts, each of which began within the first second.
#[derive(Debug)]
pub struct BulkPairs<const N: usize> {
    network: Network<Transfers>,
    /// Receiving hosts by number.
    receivers: Vec<NodeId>,
    ends: [(u8, u8); N],
}

/// Transfer `n` uses the `n`-th port from here.
const FIRST_PORT: u16 = 8_001;

impl<const N: usize> BulkPairs<N> {
    /// Runs a transfer for each of `ends`, the numbers of its source and its destination, until
    /// `to`. `windows` bounds the bytes in flight; goodput is measured in `[from, to)`.
    #[must_use]
    pub fn run(
        [up, down]: [Link; 2],
        streams: &Streams,
        ends: [(u8, u8); N],
        windows: Buffers,
        (from, to): (Nanos, Nanos),
    ) -> Self {
        let mut network = Network::new(up, down);
        let mut add = |side, host, transfers| {
            let address = address(side, host);
            let seed = streams.stream(&format!("host {address}")).bits();
            network.add(side, Host::new(address, seed), transfers)
        };
        for source in 0..=ends.iter().map(|ends| ends.0).max().unwrap_or(0) {
            let flows = flows_where(&ends, |ends| ends.0 == source).map(|flow| {
                let to = SocketAddrV4::new(address(Side::Internet, ends[flow].1), port(flow));
                let start = streams.stream(&format!("start {flow}")).below(1_000_000_000);
                BulkSender::new(to, Nanos(start), windows)
            });
            add(Side::Home, source, Transfers::Sends(flows.collect()));
        }
        let receivers = (0..=ends.iter().map(|ends| ends.1).max().unwrap_or(0))
            .map(|destination| {
                let flows = flows_where(&ends, |ends| ends.1 == destination)
                    .map(|flow| BulkReceiver::new(port(flow), windows, Goodput::over(from, to)));
                add(Side::Internet, destination, Transfers::Receives(flows.collect()))
            })
            .collect();
        network.run_until(to, &mut |_, _| ());
        Self { network, receivers, ends }
    }

    /// Returns the bytes of each transfer that arrived in the measured window.
    #[must_use]
    pub fn bytes(&self) -> [u64; N] {
        let mut bytes = [0; N];
        for (destination, &node) in (0..).zip(&self.receivers) {
            let Transfers::Receives(apps) = self.network.application(node) else { continue };
            let flows = flows_where(&self.ends, |ends| ends.1 == destination);
            for (flow, app) in flows.zip(apps) {
                bytes[flow] = app.goodput().bytes();
            }
        }
        bytes
    }

    /// Returns true if every packet is accounted for.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.network.recount().is_ok()
    }
}

/// Returns the numbers of the transfers with matching ends.
fn flows_where(
    ends: &[(u8, u8)],
    wanted: impl Fn((u8, u8)) -> bool,
) -> impl Iterator<Item = usize> {
    ends.iter().enumerate().filter(move |&(_, &ends)| wanted(ends)).map(|(flow, _)| flow)
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
