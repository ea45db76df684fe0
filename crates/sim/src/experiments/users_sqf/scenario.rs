//! Users that share one link, compared for several queues in front of it.
//!
//! | | |
//! |---|---|
//! | link | 10 Mbit/s, 10 ms; acknowledgements return over 100 Mbit/s and 10 ms |
//! | buffer | 600,000 bytes, 400 packets of 1,500 |
//! | user A | [`BULK_OF_A`] transfers without end, a video of 2 Mbit/s, a call (G.711) |
//! | user B | one transfer without end, or the number set in [`Cell`] |
//!
//! All transfers are TCP connections with windows of 64 KiB. The video is 1,000 bytes every 4 ms,
//! 1,040 with headers, and does not slow down. Its rate is more than a sixth of user A's half of
//! the link, which is its share by fair queueing among the six flows of A, and less than that half.
//!
//! Each flow has a host at either end. The third byte of both addresses is the user number and the
//! fourth is the flow number; queues identify flows by these numbers, without a hash.

use core::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{FlowId, Limits, Nanos};
use freeboard::shaper::Overhead;

use crate::app::Packetised;
use crate::discipline::{Discipline, PerUser, UserFlows, line};
use crate::experiments::home_gateway::MediaSummary;
use crate::experiments::hosts::Site;
use crate::host::Buffers;
use crate::measure::goodput::Goodput;
use crate::network::NodeId;
use crate::source::Cbr;

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Name of the queue in tables.
    pub name: &'static str,
    /// Scheduling level above the flows.
    pub above: PerUser,
    /// Scheduling of the flows.
    pub inside: UserFlows,
    /// Number of transfers of user B, at most [`PerUser::FLOWS`].
    pub bulk_of_b: u32,
}

/// Number of users on the link.
pub const USERS: u32 = 2;
/// Number of transfers of user A.
pub const BULK_OF_A: u32 = 4;
/// Rate of the link in Mbit/s.
pub const MEGABITS: u64 = 10;
/// Longest packet, in bytes.
pub const MTU: u32 = 1_500;
/// Length of a packet of the call, in bytes.
pub const VOICE: u32 = 200;
/// Propagation delay of the link.
pub const DELAY: Nanos = Nanos::from_millis(10);
/// Start of the measurement.
pub const WARM_UP: Nanos = Nanos::from_secs(5);
/// End of the measurement.
pub const DURATION: Nanos = Nanos::from_secs(35);

const BUFFER_BYTES: u32 = 600_000;
/// The limit in packets is never reached before the limit in bytes: no packet here is shorter than
/// 40 bytes.
const LIMITS: Limits = Limits { packets: BUFFER_BYTES / 40, bytes: BUFFER_BYTES };
const BUFFERS: Buffers = Buffers { send: 1 << 16, receive: 65_535 };
const VIDEO_PERIOD: Nanos = Nanos::from_millis(4);
const VIDEO_PAYLOAD: u32 = 1_000;
/// Numbers of user A's flows after the transfers.
const VIDEO: u32 = BULK_OF_A;
const CALL: u32 = BULK_OF_A + 1;

/// Results of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// User A's share of the bytes that the link carried between [`WARM_UP`] and [`DURATION`].
    pub share_of_a: f64,
    /// User A's video.
    pub video: MediaSummary,
    /// User A's call.
    pub call: MediaSummary,
    /// Goodput of user A's transfers in bits per second.
    pub bulk_of_a: u64,
    /// True if every packet is accounted for.
    pub balanced: bool,
}

/// Runs the scenario once.
#[must_use]
pub fn run(cell: &Cell, seed: u64) -> Run {
    let queue = cell.above.behind(cell.inside, USERS, MTU, line(MEGABITS), LIMITS);
    let queue = queue.expect("lengths and the floor are within their ranges");
    let back = Discipline::Fifo.behind(line(10 * MEGABITS), Overhead::RAW, LIMITS, MTU);
    let links = [queue, back].map(|queue| (queue, LIMITS.packets));
    let counted = (BUFFERS, Goodput::over(WARM_UP, DURATION));
    let mut site = Site::new(seed, links, DELAY, Some(flow_of), counted);
    let mut bulk =
        |user: u32, flow: u32| site.add_bulk(&format!("transfer {user}.{flow}"), ends(user, flow));
    let bulk_of_a: Vec<NodeId> = (0..BULK_OF_A).map(|flow| bulk(0, flow)).collect();
    for flow in 0..cell.bulk_of_b.min(PerUser::FLOWS) {
        bulk(1, flow);
    }
    let sent = |source, payload_type| Packetised { source, payload_type, until: DURATION };
    let source = Cbr::new(site.phase("video", VIDEO_PERIOD), VIDEO_PERIOD, VIDEO_PAYLOAD);
    let video = site.add_media(ends(0, VIDEO), sent(source, 96));
    let source = Cbr::g711(site.phase("call", Nanos::from_millis(20)));
    let call = site.add_media(ends(0, CALL), sent(source, 0));
    let mut network = site.finish();
    let mut carried = [0; USERS as usize];
    // A second to empty the buffer, which is half a second long, and for packets in transit.
    network.run_until(DURATION.plus(Nanos::from_secs(1)), &mut |now, packet| {
        let user = PerUser::user(flow_of(packet)) as usize;
        if let (true, Some(bytes)) = ((WARM_UP..DURATION).contains(&now), carried.get_mut(user)) {
            *bytes += packet.len() as u64;
        }
    });
    let [of_a, of_b] = carried;
    Run {
        share_of_a: of_a as f64 / (of_a + of_b).max(1) as f64,
        video: network.stream(video, WARM_UP).summary(),
        call: network.stream(call, WARM_UP).summary(),
        bulk_of_a: bulk_of_a.into_iter().map(|id| network.goodput(id)).sum(),
        balanced: network.recount().is_ok(),
    }
}

/// Returns the flow of a packet, by its source address.
fn flow_of(packet: &[u8]) -> FlowId {
    let byte = |at: usize| packet.get(at).copied().map_or(0, u32::from);
    PerUser::flow(byte(14).min(USERS - 1), byte(15).min(PerUser::FLOWS - 1))
}

/// Returns the addresses at home and on the Internet, in private networks (RFC 1918).
fn ends(user: u32, flow: u32) -> [Ipv4Addr; 2] {
    let byte = |number: u32| u8::try_from(number).expect("users and flows are few");
    [1, 2].map(|side| Ipv4Addr::new(10, side, byte(user), byte(flow)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_of_the_flow_that_its_source_address_says() {
        let mut packet = [0; 20];
        let [home, _] = ends(1, 7);
        packet[12..16].copy_from_slice(&home.octets());
        assert_eq!(flow_of(&packet), PerUser::flow(1, 7));
        assert_eq!(PerUser::user(flow_of(&packet)), 1);
    }

    #[test]
    fn a_seed_names_a_run() {
        let run = |seed| {
            let (name, above, inside) = ("", PerUser::Drr, UserFlows::Sqf);
            run(&Cell { name, above, inside, bulk_of_b: 1 }, seed)
        };
        let first = run(1);
        assert_eq!(first, run(1));
        assert_ne!(first, run(2));
        assert!(first.balanced);
    }
}
