//! Users that share one link, compared for several queues in front of it.
//!
//! | | |
//! |---|---|
//! | link | 10 Mbit/s, 10 ms; acknowledgements return over 100 Mbit/s and 10 ms |
//! | buffer | 600,000 bytes, 400 packets of 1,500 |
//! | user A | [`BULK_OF_A`] transfers without end, a video of 2 Mbit/s, a call (G.711) |
//! | user B | one transfer without end, or the number set in [`Setup`] |
//!
//! All transfers are TCP connections with windows of 64 KiB. The video is 1,000 bytes every 4 ms,
//! 1,040 with headers, and does not slow down. Its rate is more than a sixth of user A's half of
//! the link, which is its share by fair queueing among the six flows of A, and less than that half.
//!
//! Each flow has a host at either end. The third byte of both addresses is the user number and the
//! fourth is the flow number; queues identify flows by these numbers, without a hash.

use core::net::{Ipv4Addr, SocketAddrV4};

use freeboard::sched_core::{ConfigError, FlowId, Imbalance, Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};

use crate::app::{BulkOrMedia, BulkReceiver, BulkSender, Media, Packetised};
use crate::discipline::{Discipline, PerUser, UserFlows};
use crate::experiments::home_gateway::MediaStream;
use crate::host::{Buffers, Host};
use crate::link::Link;
use crate::measure::goodput::Goodput;
use crate::network::{Network, NodeId, Side};
use crate::source::Cbr;
use conformance::rng::Streams;

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Scheduling level above the flows.
    pub above: PerUser,
    /// Scheduling of the flows.
    pub inside: UserFlows,
    /// Number of transfers of user B, at most [`PerUser::FLOWS`].
    pub bulk_of_b: u32,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Number of users on the link.
pub const USERS: u32 = 2;
/// Number of transfers of user A.
pub const BULK_OF_A: u32 = 4;
/// Rate of the link in bits per second.
pub const RATE: u64 = 10_000_000;
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
const PORT: u16 = 5_004;
const VIDEO_PERIOD: Nanos = Nanos::from_millis(4);
const VIDEO_PAYLOAD: u32 = 1_000;
/// Numbers of user A's flows after the transfers.
const VIDEO: u32 = BULK_OF_A;
const CALL: u32 = BULK_OF_A + 1;

/// Results of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Bytes of each user that the link carried between [`WARM_UP`] and [`DURATION`].
    pub carried: [u64; USERS as usize],
    /// User A's video.
    pub video: MediaStream,
    /// User A's call.
    pub call: MediaStream,
    /// Goodput of user A's transfers in bits per second.
    pub bulk_of_a: u64,
    /// Error if a packet is not accounted for.
    pub recount: Result<(), Imbalance>,
}

impl Outcome {
    /// Returns user A's share of the bytes on the link.
    #[must_use]
    pub fn share_of_a(&self) -> f64 {
        let [a, b] = self.carried;
        a as f64 / (a + b).max(1) as f64
    }
}

/// Runs the scenario once.
///
/// # Errors
/// [`ConfigError`] if the queue cannot be built.
pub fn run(setup: &Setup) -> Result<Outcome, ConfigError> {
    let mut site = Site::new(setup)?;
    let mut receivers: Vec<NodeId> = (0..BULK_OF_A).map(|flow| site.add_bulk(0, flow)).collect();
    let bulk_of_a = receivers.len();
    receivers.extend((0..setup.bulk_of_b.min(PerUser::FLOWS)).map(|flow| site.add_bulk(1, flow)));
    let phase = site.phase("video", VIDEO_PERIOD);
    let video = site.add_media(VIDEO, Cbr::new(phase, VIDEO_PERIOD, VIDEO_PAYLOAD), 96);
    let phase = site.phase("call", Nanos::from_millis(20));
    let call = site.add_media(CALL, Cbr::g711(phase), 0);
    let mut network = site.network;
    let mut carried = [0; USERS as usize];
    // A second to empty the buffer, which is half a second long, and for packets in transit.
    network.run_until(DURATION.plus(Nanos::from_secs(1)), &mut |now, packet| {
        let user = PerUser::user(flow_of(packet)) as usize;
        if let (true, Some(bytes)) = ((WARM_UP..DURATION).contains(&now), carried.get_mut(user)) {
            *bytes += packet.len() as u64;
        }
    });
    Ok(Outcome {
        carried,
        video: network.stream(video, WARM_UP),
        call: network.stream(call, WARM_UP),
        bulk_of_a: receivers.into_iter().take(bulk_of_a).map(|id| network.goodput(id)).sum(),
        recount: network.recount(),
    })
}

/// Returns the flow of a packet, by its source address.
fn flow_of(packet: &[u8]) -> FlowId {
    let byte = |at: usize| packet.get(at).copied().map_or(0, u32::from);
    PerUser::flow(byte(14).min(USERS - 1), byte(15).min(PerUser::FLOWS - 1))
}

/// Returns an address of a private network (RFC 1918), one network for each side.
fn address(side: Side, user: u32, flow: u32) -> Ipv4Addr {
    let near = if side == Side::Home { 1 } else { 2 };
    let byte = |number: u32| u8::try_from(number).expect("users and flows are few");
    Ipv4Addr::new(10, near, byte(user), byte(flow))
}

/// A network under construction.
struct Site {
    streams: Streams,
    network: Network<BulkOrMedia>,
}

impl Site {
    fn new(setup: &Setup) -> Result<Self, ConfigError> {
        let line = |rate| Shaper::new(Rate::bits_per_second(rate).expect("a rate that lines have"));
        let queue = setup.above.behind(setup.inside, USERS, MTU, line(RATE), LIMITS)?;
        let link = |queue| Link::new(queue, LIMITS.packets + 1, [0; 16], DELAY);
        let back = Discipline::Fifo.behind(line(10 * RATE), Overhead::RAW, LIMITS, MTU);
        let network = Network::new(link(queue).naming(flow_of), link(back));
        Ok(Self { streams: Streams::new(setup.seed), network })
    }

    /// Returns a random time within the first `span`, from the random stream with this name.
    fn phase(&self, name: &str, span: Nanos) -> Nanos {
        Nanos(self.streams.stream(name).below(span.0))
    }

    fn add(&mut self, side: Side, user: u32, flow: u32, app: BulkOrMedia) -> NodeId {
        let address = address(side, user, flow);
        let seed = self.streams.stream(&format!("host {address}")).bits();
        self.network.add(side, Host::new(address, seed), app)
    }

    /// Adds a transfer and returns its receiver.
    fn add_bulk(&mut self, user: u32, flow: u32) -> NodeId {
        let to = SocketAddrV4::new(address(Side::Internet, user, flow), PORT);
        let start = self.phase(&format!("transfer {user}.{flow}"), Nanos::from_secs(1));
        self.add(Side::Home, user, flow, BulkOrMedia::Sender(BulkSender::new(to, start, BUFFERS)));
        let receiver = BulkReceiver::new(PORT, BUFFERS, Goodput::over(WARM_UP, DURATION));
        self.add(Side::Internet, user, flow, BulkOrMedia::Receiver(receiver))
    }

    /// Adds a stream of user A and returns sender and receiver.
    fn add_media(&mut self, flow: u32, source: Cbr, payload_type: u8) -> (NodeId, NodeId) {
        let end = |side| SocketAddrV4::new(address(side, 0, flow), PORT);
        let sent = Packetised { source, payload_type, until: DURATION };
        let from = Media::new(PORT, end(Side::Internet), Some(sent));
        let to = Media::new(PORT, end(Side::Home), None);
        let from = self.add(Side::Home, 0, flow, BulkOrMedia::Media(from));
        (from, self.add(Side::Internet, 0, flow, BulkOrMedia::Media(to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_of_the_flow_that_its_source_address_says() {
        let mut packet = [0; 20];
        let source = address(Side::Home, 1, 7);
        packet[12..16].copy_from_slice(&source.octets());
        assert_eq!(flow_of(&packet), PerUser::flow(1, 7));
        assert_eq!(PerUser::user(flow_of(&packet)), 1);
    }

    #[test]
    fn a_seed_names_a_run() {
        let run = |seed| {
            let (above, inside) = (PerUser::Drr, UserFlows::Sqf);
            run(&Setup { above, inside, bulk_of_b: 1, seed }).unwrap()
        };
        let first = run(1);
        assert_eq!(first, run(1));
        assert_ne!(first, run(2));
        assert_eq!(first.recount, Ok(()));
    }
}
