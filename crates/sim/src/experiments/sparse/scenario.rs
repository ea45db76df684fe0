//! A call beside uploads: what a sparse flow waits for.
//!
//! ```text
//! call, uploads of its host, other hosts with an upload each ─▶ 10 or 1 Mbit/s, 50 or 1 ms there and back
//! ```
//!
//! The call is 160 bytes every 20 ms (G.711), packets of 200 bytes with their headers. Uploads are
//! TCP connections without end whose windows are no limit. All go to one server, so that for an
//! isolation that counts both ends everything shares a destination. Acknowledgements come back over
//! 100 Mbit/s. A packet takes 14 bytes more on the line, the header of an Ethernet frame.
//!
//! Queues are those of the gateway: 1,024 of flows, CoDel in each as [`Rtt::codel`] sets it for the
//! line. The target is 5 ms, or two packets of the line and a longer interval where that is more.
//! The FIFO has room for 1,000 packets and no CoDel.

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

/// What stands in front of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// First in, first out, for 1,000 packets.
    Fifo,
    /// Deficit round robin over flows, none of them preferred.
    PlainDrr,
    /// Deficit round robin with sparse flows first, over what this isolates.
    Isolated(Isolation),
    /// Shortest queue first over flows, with this floor.
    Sqf(FloorShare),
    /// Deficit round robin over hosts, and shortest queue first with this floor over the flows of
    /// each. A host has at most [`PerUser::FLOWS`] flows.
    UsersSqf(FloorShare),
}

/// What may be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The queue under test.
    pub queueing: Queueing,
    /// Megabits per second of the line.
    pub megabits: u32,
    /// Uploads of the host that the call comes from.
    pub own: u8,
    /// Other hosts, with an upload each.
    pub others: u8,
    /// The longest packet that the queue permits, though no packet is longer than [`MTU`].
    pub permitted: u32,
    /// There and back, without what is queued: [`ROUND_TRIP`] unless a scenario is about another.
    pub round_trip: Nanos,
    /// How long is measured.
    pub measured: Nanos,
    /// What all random draws come from.
    pub seed: u64,
}

/// What a run has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What each packet of the call waited, its own bits and the propagation left out.
    pub added: Delays,
    /// The packets of the call.
    pub loss: Loss,
    /// Bytes of each upload that reached its receiver, those of the call's own host first.
    pub uploads: Vec<u64>,
    /// Whether every packet is accounted for.
    pub recount: Result<(), Imbalance>,
}

/// What is sent before this instant does not count.
pub const WARM_UP: Nanos = Nanos::from_secs(10);
/// The longest packet, in bytes.
pub const MTU: u32 = 1_500;
/// A packet of the call, in bytes.
pub const CALL: u32 = 200;
/// What the line adds to a packet.
pub const HEADER: u32 = 14;

/// Of a long way.
pub const ROUND_TRIP: Nanos = Nanos::from_millis(50);
const BACK: u64 = 100;
const LIMITS: Limits = Limits { packets: 8_192, bytes: 4 << 20 };
const FIFO_LIMITS: Limits = Limits { packets: 1_000, bytes: u32::MAX };
/// Longer than 1,000 packets take at 1 Mbit/s, in seconds.
const LONGEST_QUEUE: u64 = 14;
/// More than line and queue hold together.
const WINDOW: Buffers = Buffers { send: 1 << 20, receive: 1 << 20 };
const CALL_PORT: u16 = 5_004;
/// Upload `n` goes to the `n`-th port from here.
const FIRST_PORT: u16 = 8_001;

/// What runs on a host: uploads or their receivers, and an end of the call if it is there.
struct App {
    senders: Vec<BulkSender>,
    receivers: Vec<BulkReceiver>,
    call: Option<Media>,
}

impl Application for App {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        // All act, so that none is left out when an earlier one has a wish.
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
/// [`ConfigError`] if the queue cannot be made so.
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
    // What is queued and on the way arrives within this, or never.
    for second in 1..=LONGEST_QUEUE {
        if is_complete(&network, caller, server) {
            break;
        }
        network.run_until(end.plus(Nanos::from_secs(second)), &mut |_, _| ());
    }

    // What a packet of the call takes on an idle line.
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

/// Whether the last packet of the call has arrived.
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

/// The flow of a packet on its way up, by its source address and its destination port.
fn flow_of(packet: &[u8]) -> FlowId {
    let (host, port) = match packet {
        [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, host, _, _, _, _, _, _, high, low, ..] => {
            (u32::from(*host), u16::from_be_bytes([*high, *low]))
        }
        _ => (1, CALL_PORT),
    };
    // The call is flow 0, and the uploads of a host follow in their order.
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

/// A private network (RFC 1918); the call comes from host 0.
const fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 1, 1 + host)
}

/// TEST-NET-3 of RFC 5737.
const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is called added is what others cause. Method: a call without uploads.
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
            // Rounding of the line's times, and the microseconds of the hosts' clocks.
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
