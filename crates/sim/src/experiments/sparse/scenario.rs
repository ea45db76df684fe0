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
use freeboard::shaper::{Framing, Overhead};

use crate::app::{BulkSender, Media, Packetised, Transfers};
use crate::discipline::{Discipline, GatewayQueue, PerUser, line};
use crate::experiments::hosts::Site;
use crate::host::Buffers;
use crate::measure::delay::Delays;
use crate::measure::goodput::{Goodput, Loss};
use crate::network::Side;
use crate::source::Cbr;

/// Median, 95th and 99th percentile in milliseconds.
pub type Quantiles = [f64; 3];

/// Traffic beside the call, and the call's delay beside it behind Linux's queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Name in tables.
    pub name: &'static str,
    /// Rate of the link in Mbit/s.
    pub megabits: u32,
    /// Number of uploads of the call's host.
    pub own: u8,
    /// Number of other hosts, with an upload each.
    pub others: u8,
    /// Propagation delay of the link, in each direction.
    pub delay: Nanos,
    /// CAKE's figures, to which those here are compared.
    pub cake: Option<Quantiles>,
    /// Figures measured with this load, by queue.
    pub quoted: &'static [(&'static str, Quantiles)],
}

impl Load {
    /// Creates a load over [`DELAY`] that was not measured on Linux.
    #[must_use]
    pub const fn new(name: &'static str, megabits: u32, own: u8, others: u8) -> Self {
        Self { name, megabits, own, others, delay: DELAY, cake: None, quoted: &[] }
    }

    /// Quotes figures measured with this load, CAKE's first.
    pub(super) const fn quoting(self, quoted: &'static [(&'static str, Quantiles)]) -> Self {
        Self { cake: Some(quoted[0].1), quoted, ..self }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The traffic.
    pub load: Load,
    /// Queue under test.
    pub queue: GatewayQueue,
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
/// Duration of the measurement in the experiment.
pub const MEASURED: Nanos = Nanos::from_secs(30);
/// Longest packet, in bytes.
pub const MTU: u32 = 1_500;
/// Length of a packet of the call, in bytes.
pub const CALL: u32 = 200;
/// Bytes that the link adds to a packet.
pub const HEADER: u32 = 14;

/// Propagation delay of a long path.
pub const DELAY: Nanos = Nanos::from_millis(25);
const LIMITS: Limits = Limits { packets: 8_192, bytes: 4 << 20 };
/// Longer than 1,000 packets take at 1 Mbit/s, in seconds.
const LONGEST_QUEUE: u64 = 14;
/// More than link and queue hold together.
const WINDOW: Buffers = Buffers { send: 1 << 20, receive: 1 << 20 };
const CALL_PORT: u16 = 5_004;
/// Upload `n` uses the `n`-th port from here.
const FIRST_PORT: u16 = 8_001;

/// Runs the scenario once. The queue permits packets of up to `permitted` bytes, though none is
/// longer than [`MTU`], and the measurement lasts for `measured`.
///
/// # Panics
/// If the queue does not accept packets of this length.
#[must_use]
pub fn run(&Cell { load, queue }: &Cell, permitted: u32, measured: Nanos, seed: u64) -> Run {
    let end = WARM_UP.plus(measured);
    let overhead = Overhead::new(Framing::None, HEADER.cast_signed(), 0).expect("in range");
    let link = || line(load.megabits.into());
    let up = queue.behind(link(), overhead, 1 + u32::from(load.others), MTU, permitted);
    let up = up.expect("lengths and parameters are within their ranges");
    let back = Discipline::Fifo.behind(line(100), overhead, LIMITS, MTU);
    let links = [(up, queue.limits().packets), (back, LIMITS.packets)];
    let has_users = matches!(queue, GatewayQueue::UsersSqf(_));
    let naming = has_users.then_some(flow_of as fn(&[u8]) -> FlowId);
    let mut site =
        Site::new(seed, links, load.delay, naming, (WINDOW, Goodput::over(WARM_UP, end)));

    let uploads = u16::from(load.own) + u16::from(load.others);
    let to = |n| SocketAddrV4::new(SERVER, FIRST_PORT + n);
    let sender = |n| site.sender(&format!("start {n}"), to(n));
    let mut senders: Vec<BulkSender> = (0..uploads).map(sender).collect();
    let of_others = senders.split_off(load.own.into());
    let phase = site.phase("call", Nanos::from_millis(20));
    let sent = Packetised { source: Cbr::g711(phase), payload_type: 0, until: end };
    let call = Media::new(CALL_PORT, SocketAddrV4::new(SERVER, CALL_PORT), Some(sent));
    let home = Transfers { senders, media: Some(call), ..Transfers::default() };
    let caller = site.add(Side::Home, address(0), home);
    for (host, sender) in (1..).zip(of_others) {
        let other = Transfers { senders: vec![sender], ..Transfers::default() };
        site.add(Side::Home, address(host), other);
    }
    let receivers = (0..uploads).map(|n| site.receiver(FIRST_PORT + n)).collect();
    let answer = Media::new(CALL_PORT, SocketAddrV4::new(address(0), CALL_PORT), None);
    let server = Transfers { receivers, media: Some(answer), ..Transfers::default() };
    let server = site.add(Side::Internet, SERVER, server);

    let mut network = site.finish();
    network.run_until_received(end, (caller, server), LONGEST_QUEUE);

    // Delay of a packet of the call on an idle link.
    let alone = load.delay.plus(link().rate().time_of(CALL + HEADER));
    let call = network.stream((caller, server), WARM_UP);
    let receivers = &network.application(server).receivers;
    Run {
        added: call.delays().samples().iter().map(|delay| delay.since(alone)).collect(),
        loss: call.loss(),
        uploads: receivers.iter().map(|receiver| receiver.goodput().bytes()).collect(),
        balanced: network.recount().is_ok(),
    }
}

/// Returns the flow of an upload packet, by its source address and destination port. The call is
/// flow 0, and the uploads of a host follow in order.
fn flow_of(packet: &[u8]) -> FlowId {
    let byte = |at: usize| packet.get(at).copied().map_or(0, u32::from);
    let (host, port) = (byte(15), byte(22) << 8 | byte(23));
    let flow = port.saturating_sub(u32::from(FIRST_PORT) - 1);
    PerUser::flow(host.saturating_sub(1), flow % PerUser::FLOWS)
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
        for queue in [
            GatewayQueue::Fifo,
            GatewayQueue::Isolated(Isolation::DualSrcHost),
            GatewayQueue::Sqf(FloorShare::EIGHTH),
            GatewayQueue::UsersSqf(FloorShare::EIGHTH),
        ] {
            let alone = Cell { load: Load::new("alone", 1, 0, 0), queue };
            let outcome = run(&alone, MTU, Nanos::from_secs(1), 1);
            assert_eq!(outcome.loss, Loss { sent: 50, lost: 0 });
            // Tolerance for rounding on the link, and for the microseconds of the hosts' clocks.
            assert!(outcome.added.quantile(1_000).unwrap() <= Nanos::from_micros(2));
            assert!(outcome.balanced);
        }
    }

    #[test]
    fn a_seed_names_a_run() {
        let queue = GatewayQueue::Isolated(Isolation::TripleIsolate);
        let cell = Cell { load: Load::new("2 uploads, 2 hosts", 10, 2, 2), queue };
        let run = |seed| run(&cell, MTU, Nanos::from_secs(2), seed);
        let first = run(1);
        assert_eq!(first, run(1));
        assert_ne!(first, run(2));
        assert_eq!((first.balanced, first.uploads.len()), (true, 4));
    }
}
