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
//! [`Rtt::codel`](freeboard::Rtt::codel) for the link. The target is 5 ms, or two packets of the
//! link and a longer interval if that is more. The FIFO holds 1,000 packets and has no CoDel.

use core::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{FlowId, Limits, Nanos};
use freeboard::shaper::{Framing, Overhead, Rate, Shaper};

use crate::app::{Media, Packetised, Transfers};
use crate::discipline::{Discipline, GatewayQueue, PerUser};
use crate::experiments::hosts::Site;
use crate::host::Buffers;
use crate::measure::delay::Delays;
use crate::measure::goodput::{Goodput, Loss};
use crate::network::{Network, NodeId, Side};
use crate::source::Cbr;

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Queue under test.
    pub queueing: GatewayQueue,
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
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Queueing delay of each packet of the call, without its transmission time and the
    /// propagation delay.
    pub added: Delays,
    /// Loss of the call.
    pub loss: Loss,
    /// Bytes of each upload that its receiver got, those of the call's host first.
    pub uploads: Vec<u64>,
    /// True if every packet is accounted for.
    pub balanced: bool,
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
/// Longer than 1,000 packets take at 1 Mbit/s, in seconds.
const LONGEST_QUEUE: u64 = 14;
/// More than link and queue hold together.
const WINDOW: Buffers = Buffers { send: 1 << 20, receive: 1 << 20 };
const CALL_PORT: u16 = 5_004;
/// Upload `n` uses the `n`-th port from here.
const FIRST_PORT: u16 = 8_001;

/// Runs the scenario once.
///
/// # Panics
/// If the queue does not accept packets of this length.
#[must_use]
pub fn run(setup: &Setup, seed: u64) -> Run {
    let end = WARM_UP.plus(setup.measured);
    let one_way = Nanos(setup.round_trip.0 / 2);
    let rate = megabits(setup.megabits.into());
    let mut site = site(setup, rate, one_way, seed);
    let sender = |site: &Site, number: u16| {
        let to = SocketAddrV4::new(SERVER, FIRST_PORT + number);
        site.sender(&format!("start {number}"), to)
    };
    let phase = site.phase("call", Nanos::from_millis(20));
    let sent = Packetised { source: Cbr::g711(phase), payload_type: 0, until: end };
    let call = Media::new(CALL_PORT, SocketAddrV4::new(SERVER, CALL_PORT), Some(sent));
    let own = u16::from(setup.own);
    let senders = (0..own).map(|number| sender(&site, number)).collect();
    let home = Transfers { senders, media: Some(call), ..Transfers::default() };
    let caller = site.add(Side::Home, address(0), home);
    for other in 0..setup.others {
        let senders = vec![sender(&site, own + u16::from(other))];
        site.add(Side::Home, address(1 + other), Transfers { senders, ..Transfers::default() });
    }
    let uploads = own + u16::from(setup.others);
    let receivers = (0..uploads).map(|number| site.receiver(FIRST_PORT + number)).collect();
    let answer = Media::new(CALL_PORT, SocketAddrV4::new(address(0), CALL_PORT), None);
    let server = Transfers { receivers, media: Some(answer), ..Transfers::default() };
    let server = site.add(Side::Internet, SERVER, server);
    let mut network = site.finish();
    network.run_until(end, &mut |_, _| ());
    // Packets that are queued and in transit arrive within this time, or never.
    for second in 1..=LONGEST_QUEUE {
        if is_complete(&network, caller, server) {
            break;
        }
        network.run_until(end.plus(Nanos::from_secs(second)), &mut |_, _| ());
    }

    // Delay of a packet of the call on an idle link.
    let alone = one_way.plus(rate.time_of(CALL + HEADER));
    let call = network.stream((caller, server), WARM_UP);
    let receivers = &network.application(server).receivers;
    Run {
        added: call.delays().samples().iter().map(|delay| delay.since(alone)).collect(),
        loss: call.loss(),
        uploads: receivers.iter().map(|receiver| receiver.goodput().bytes()).collect(),
        balanced: network.recount().is_ok(),
    }
}

/// Returns true if the last packet of the call has arrived.
fn is_complete(network: &Network<Transfers>, caller: NodeId, server: NodeId) -> bool {
    let call = |id| network.application(id).media.as_ref();
    let sent = call(caller).map_or(0, |call| call.sent().len());
    sent == call(server).map_or(0, |call| call.delays().len())
}

fn megabits(rate: u64) -> Rate {
    Rate::megabits_per_second(rate).expect("a rate that lines have")
}

/// Creates the links, without hosts.
fn site(setup: &Setup, rate: Rate, one_way: Nanos, seed: u64) -> Site {
    let overhead = Overhead::new(Framing::None, HEADER.cast_signed(), 0).expect("in range");
    let (hosts, permitted) = (1 + u32::from(setup.others), setup.permitted);
    let queue = setup.queueing.behind(Shaper::new(rate), overhead, hosts, MTU, permitted);
    let queue = queue.expect("lengths and parameters are within their ranges");
    let back = Discipline::Fifo.behind(Shaper::new(megabits(BACK)), overhead, LIMITS, MTU);
    let links = [(queue, setup.queueing.limits().packets), (back, LIMITS.packets)];
    let has_users = matches!(setup.queueing, GatewayQueue::UsersSqf(_));
    let naming: Option<fn(&[u8]) -> FlowId> = if has_users { Some(flow_of) } else { None };
    let goodput = Goodput::over(WARM_UP, WARM_UP.plus(setup.measured));
    Site::new(seed, links, one_way, naming, (WINDOW, goodput))
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

/// Returns an address of a private network (RFC 1918); the call comes from host 0.
const fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 1, 1 + host)
}

/// Server address in TEST-NET-3 of RFC 5737.
const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

#[cfg(test)]
mod tests {
    use freeboard::Isolation;
    use freeboard::sched_core::FloorShare;

    use super::*;

    /// Goal: the added delay is that caused by others. Method: a call without uploads.
    #[test]
    fn a_call_alone_waits_for_nothing() {
        for queueing in [
            GatewayQueue::Fifo,
            GatewayQueue::Isolated(Isolation::DualSrcHost),
            GatewayQueue::Sqf(FloorShare::EIGHTH),
            GatewayQueue::UsersSqf(FloorShare::EIGHTH),
        ] {
            let measured = Nanos::from_secs(1);
            let round_trip = ROUND_TRIP;
            let (own, others, permitted) = (0, 0, MTU);
            let setup =
                Setup { queueing, megabits: 1, own, others, permitted, round_trip, measured };
            let outcome = run(&setup, 1);
            assert_eq!(outcome.loss, Loss { sent: 50, lost: 0 });
            // Tolerance for rounding on the link, and for the microseconds of the hosts' clocks.
            assert!(outcome.added.quantile(1_000).unwrap() <= Nanos::from_micros(2));
            assert!(outcome.balanced);
        }
    }

    #[test]
    fn a_seed_names_a_run() {
        let run = |seed| {
            let queueing = GatewayQueue::Isolated(Isolation::TripleIsolate);
            let measured = Nanos::from_secs(2);
            let (own, others, permitted, round_trip) = (2, 2, MTU, ROUND_TRIP);
            let setup =
                Setup { queueing, megabits: 10, own, others, permitted, round_trip, measured };
            run(&setup, seed)
        };
        let first = run(1);
        assert_eq!(first, run(1));
        assert_ne!(first, run(2));
        assert_eq!((first.balanced, first.uploads.len()), (true, 4));
    }
}
