//! A call beside uploads: the queueing delay of a sparse flow.
//!
//! ```text
//! call, uploads of its host, other hosts with an upload each ─▶ 10 or 1 Mbit/s, round trip 50 or 1 ms
//! ```
//!
//! The call is 160 bytes every 20 ms (G.711), packets of 200 bytes with headers. Uploads are TCP
//! connections without end, not limited by their windows. All go to one server, so that for an
//! isolation that counts both ends everything shares a destination. Acknowledgements return over
//! 100 Mbit/s. A packet takes 14 bytes more on the link, the header of an Ethernet frame.
//!
//! Queues are those of the gateway: 1,024 flow queues with CoDel in each, configured by
//! [`Rtt::codel`] for the link. The target is 5 ms, or two packets of the link and a longer
//! interval if that is more. The FIFO holds 1,000 packets and has no CoDel.

use core::net::{Ipv4Addr, SocketAddrV4};

use freeboard::sched_core::{ConfigError, FloorShare, FlowId, Imbalance, Limits, Nanos};
use freeboard::shaper::{Framing, Overhead, Rate, Shaper};
use freeboard::{Isolation, Rtt};

use crate::app::{BulkReceiver, BulkSender, Media, Packetised};
use crate::discipline::{
    Bottleneck, Discipline, Drops, PerUser, drr_with_codel, isolated, sqf_with_codel,
    users_sqf_with_codel,
};
use crate::host::{Buffers, Host};
use crate::link::Link;
use crate::measure::delay::Delays;
use crate::measure::goodput::{Goodput, Loss};
use crate::network::{Application, Network, NodeId, Side};
use crate::source::Cbr;
use conformance::rng::Streams;

/// Queue in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// FIFO with a limit of 1,000 packets.
    Fifo,
    /// Deficit round robin over flows, without priority for sparse flows.
    PlainDrr,
    /// Deficit round robin with sparse flows first, with this isolation mode.
    Isolated(Isolation),
    /// Shortest queue first over flows, with this floor.
    Sqf(FloorShare),
    /// Deficit round robin over hosts, and shortest queue first with this floor over the flows of
    /// each. A host has at most [`PerUser::FLOWS`] flows.
    UsersSqf(FloorShare),
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Queue under test.
    pub queueing: Queueing,
    /// Rate of the link in Mbit/s.
    pub megabits: u32,
    /// Number of uploads of the call's host.
    pub own: u8,
    /// Number of other hosts, with an upload each.
    pub others: u8,
    /// Maximum packet length of the queue, though no packet is longer than [`MTU`].
    pub permitted: u32,
    /// Round-trip time without queueing: [`ROUND_TRIP`] unless a scenario varies it.
    pub round_trip: Nanos,
    /// Duration of the measurement.
    pub measured: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Queueing delay of each packet of the call, without its transmission time and the
    /// propagation delay.
    pub added: Delays,
    /// Loss of the call.
    pub loss: Loss,
    /// Bytes of each upload that its receiver got, those of the call's host first.
    pub uploads: Vec<u64>,
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

/// Start of the measurement.
pub const WARM_UP: Nanos = Nanos::from_secs(10);
/// Longest packet, in bytes.
pub const MTU: u32 = 1_500;
/// Length of a packet of the call, in bytes.
pub const CALL: u32 = 200;
/// Bytes that the link adds to a packet.
pub const HEADER: u32 = 14;

/// Round-trip time of a long path.
pub const ROUND_TRIP: Nanos = Nanos::from_millis(50);
const BACK: u64 = 100;
const LIMITS: Limits = Limits { packets: 8_192, bytes: 4 << 20 };
const FIFO_LIMITS: Limits = Limits { packets: 1_000, bytes: u32::MAX };
/// Longer than 1,000 packets take at 1 Mbit/s, in seconds.
const LONGEST_QUEUE: u64 = 14;
/// More than link and queue hold together.
const WINDOW: Buffers = Buffers { send: 1 << 20, receive: 1 << 20 };
const CALL_PORT: u16 = 5_004;
/// Upload `n` uses the `n`-th port from here.
const FIRST_PORT: u16 = 8_001;

/// Application of a host: uploads or their receivers, and an end of the call if it is there.
struct App {
    senders: Vec<BulkSender>,
    receivers: Vec<BulkReceiver>,
    call: Option<Media>,
}

impl Application for App {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        // A fold, so that all are called.
        let senders = self.senders.iter_mut().map(|flow| flow.act(now, host));
        let first = senders.fold(None, earlier);
        let receivers = self.receivers.iter_mut().map(|flow| flow.act(now, host));
        let first = receivers.fold(first, earlier);
        earlier(first, self.call.as_mut().and_then(|call| call.act(now, host)))
    }
}

fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    a.into_iter().chain(b).min()
}

/// Runs the scenario once.
///
/// # Errors
/// [`ConfigError`] if the queue cannot be built.
pub fn run(setup: &Setup) -> Result<Outcome, ConfigError> {
    let end = WARM_UP.plus(setup.measured);
    let streams = Streams::new(setup.seed);
    let rate = megabits(setup.megabits.into());
    let mut network = network(setup, rate, &streams)?;
    let upload = |number: u16| {
        let to = SocketAddrV4::new(SERVER, FIRST_PORT + number);
        let start = streams.stream(&format!("start {number}")).below(1_000_000_000);
        BulkSender::new(to, Nanos(start), WINDOW)
    };
    let phase = streams.stream("call").below(20_000_000);
    let sent = Packetised { source: Cbr::g711(Nanos(phase)), payload_type: 0, until: end };
    let call = Media::new(CALL_PORT, SocketAddrV4::new(SERVER, CALL_PORT), Some(sent));
    let own = (0..setup.own.into()).map(upload).collect();
    let home = App { senders: own, receivers: Vec::new(), call: Some(call) };
    let caller = add(&mut network, &streams, Side::Home, address(0), home);
    for other in 0..setup.others {
        let senders = vec![upload(u16::from(setup.own) + u16::from(other))];
        let app = App { senders, receivers: Vec::new(), call: None };
        add(&mut network, &streams, Side::Home, address(1 + other), app);
    }
    let uploads = u16::from(setup.own) + u16::from(setup.others);
    let receiver =
        |number| BulkReceiver::new(FIRST_PORT + number, WINDOW, Goodput::over(WARM_UP, end));
    let answer = Media::new(CALL_PORT, SocketAddrV4::new(address(0), CALL_PORT), None);
    let receivers = (0..uploads).map(receiver).collect();
    let server = App { senders: Vec::new(), receivers, call: Some(answer) };
    let server = add(&mut network, &streams, Side::Internet, SERVER, server);
    network.run_until(end, &mut |_, _| ());
    // Packets that are queued and in transit arrive within this time, or never.
    for second in 1..=LONGEST_QUEUE {
        if is_complete(&network, caller, server) {
            break;
        }
        network.run_until(end.plus(Nanos::from_secs(second)), &mut |_, _| ());
    }

    // Delay of a packet of the call on an idle link.
    let alone = one_way(setup).plus(rate.time_of(CALL + HEADER));
    let (from, to) = (network.application(caller), network.application(server));
    let sent = from.call.as_ref().map_or(&[][..], Media::sent);
    let delays = to.call.as_ref().map_or(&[][..], Media::delays);
    let delays = delays.iter().copied().chain(core::iter::repeat(None));
    let counted = sent.iter().zip(delays).filter(|(sent, _)| **sent >= WARM_UP);
    let (mut added, mut loss) = (Delays::new(), Loss::default());
    for (_, delay) in counted {
        loss.sent += 1;
        match delay {
            Some(delay) => added.record(delay.since(alone)),
            None => loss.lost += 1,
        }
    }
    let uploads = to.receivers.iter().map(|receiver| receiver.goodput().bytes()).collect();
    Ok(Outcome { added, loss, uploads, recount: network.recount() })
}

/// Returns true if the last packet of the call has arrived.
fn is_complete(network: &Network<App>, caller: NodeId, server: NodeId) -> bool {
    let sent = network.application(caller).call.as_ref().map_or(0, |call| call.sent().len());
    let seen = network.application(server).call.as_ref().map_or(0, |call| call.delays().len());
    sent == seen
}

const fn one_way(setup: &Setup) -> Nanos {
    Nanos(setup.round_trip.0 / 2)
}

fn megabits(rate: u64) -> Rate {
    Rate::megabits_per_second(rate).expect("a rate that lines have")
}

fn network(setup: &Setup, rate: Rate, streams: &Streams) -> Result<Network<App>, ConfigError> {
    let mut keys = streams.stream("flow-hash");
    let mut key = || (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
    let overhead = Overhead::new(Framing::None, HEADER.cast_signed(), 0).expect("in range");
    let back = Discipline::Fifo.behind(Shaper::new(megabits(BACK)), overhead, LIMITS, MTU);
    let (queue, limits) = queue(setup, rate, overhead)?;
    let mut up = Link::new(queue, limits.packets + 1, key(), one_way(setup));
    if matches!(setup.queueing, Queueing::UsersSqf(_)) {
        up = up.naming(flow_of);
    }
    Ok(Network::new(up, Link::new(back, LIMITS.packets + 1, key(), one_way(setup))))
}

fn queue(
    setup: &Setup,
    rate: Rate,
    overhead: Overhead,
) -> Result<(Box<dyn Bottleneck>, Limits), ConfigError> {
    let line = Shaper::new(rate);
    let codel = Rtt::INTERNET.codel(rate, MTU + HEADER).with_mtu(MTU);
    Ok(match setup.queueing {
        Queueing::Fifo => (Discipline::Fifo.behind(line, overhead, FIFO_LIMITS, MTU), FIFO_LIMITS),
        Queueing::PlainDrr => (drr_with_codel(codel, line, overhead, LIMITS, MTU)?, LIMITS),
        Queueing::Isolated(isolation) => {
            let drops = Drops::CoDel(codel);
            (isolated(isolation, drops, line, overhead, LIMITS, setup.permitted)?, LIMITS)
        }
        Queueing::Sqf(floor) => (sqf_with_codel(floor, codel, line, overhead, LIMITS)?, LIMITS),
        Queueing::UsersSqf(floor) => {
            let hosts = 1 + u32::from(setup.others);
            (users_sqf_with_codel(floor, codel, hosts, MTU, line, overhead, LIMITS)?, LIMITS)
        }
    })
}

/// Returns the flow of an upload packet, by its source address and destination port.
fn flow_of(packet: &[u8]) -> FlowId {
    let (host, port) = match packet {
        [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, host, _, _, _, _, _, _, high, low, ..] => {
            (u32::from(*host), u16::from_be_bytes([*high, *low]))
        }
        _ => (1, CALL_PORT),
    };
    // The call is flow 0, and the uploads of a host follow in order.
    let flow = u32::from(port.saturating_sub(FIRST_PORT - 1));
    PerUser::flow(host - 1, flow % PerUser::FLOWS)
}

fn add(
    network: &mut Network<App>,
    streams: &Streams,
    side: Side,
    address: Ipv4Addr,
    app: App,
) -> NodeId {
    let seed = streams.stream(&format!("host {address}")).bits();
    network.add(side, Host::new(address, seed), app)
}

/// Returns an address of a private network (RFC 1918); the call comes from host 0.
const fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 1, 1 + host)
}

/// Server address in TEST-NET-3 of RFC 5737.
const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the added delay is that caused by others. Method: a call without uploads.
    #[test]
    fn a_call_alone_waits_for_nothing() {
        for queueing in [
            Queueing::Fifo,
            Queueing::Isolated(Isolation::DualSrcHost),
            Queueing::Sqf(FloorShare::EIGHTH),
            Queueing::UsersSqf(FloorShare::EIGHTH),
        ] {
            let measured = Nanos::from_secs(1);
            let round_trip = ROUND_TRIP;
            let (own, others, permitted, seed) = (0, 0, MTU, 1);
            let setup =
                Setup { queueing, megabits: 1, own, others, permitted, round_trip, measured, seed };
            let outcome = run(&setup).unwrap();
            assert_eq!(outcome.loss, Loss { sent: 50, lost: 0 });
            // Tolerance for rounding on the link, and for the microseconds of the hosts' clocks.
            assert!(outcome.added.quantile(1_000).unwrap() <= Nanos::from_micros(2));
            assert_eq!(outcome.recount, Ok(()));
        }
    }

    #[test]
    fn a_seed_names_a_run() {
        let run = |seed| {
            let queueing = Queueing::Isolated(Isolation::TripleIsolate);
            let measured = Nanos::from_secs(2);
            let (own, others, permitted, round_trip) = (2, 2, MTU, ROUND_TRIP);
            let setup = Setup {
                queueing,
                megabits: 10,
                own,
                others,
                permitted,
                round_trip,
                measured,
                seed,
            };
            run(&setup).unwrap()
        };
        let first = run(1);
        assert_eq!(first, run(1));
        assert_ne!(first, run(2));
        assert_eq!((first.recount, first.uploads.len()), (Ok(()), 4));
    }
}
