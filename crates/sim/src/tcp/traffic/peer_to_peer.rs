//! Uploads to many peers.

use conformance::rng::Stream;
use freeboard::sched_core::Nanos;

use super::{Config, TcpNetwork, sized};
use crate::sizes::FlowSizes;
use crate::tcp::network::{ConnectionId, Way};

/// Peers that come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Churn {
    /// Number of uploads to each peer slot, one after another.
    pub uploads: u32,
    /// Size of an upload in bytes.
    pub size: FlowSizes,
    /// Mean of the pause before the next peer takes the slot, which is exponential.
    pub mean_pause: Nanos,
}

/// A host that uploads to many peers at once, like a seed of BitTorrent.
///
/// Acknowledgements of all peers share the downlink. Blocks that peers request from each other and
/// the choking of peers are not modelled; neither is LEDBAT, which most clients use today: the
/// congestion control is that of the given configuration.
///
/// ```
/// # use conformance::rng::Streams;
/// # use freeboard::sched_core::{Limits, Nanos};
/// # use freeboard::shaper::{Overhead, Rate, Shaper};
/// # use sim::{discipline::Discipline, link::Link};
/// # use sim::tcp::network::{Naming, TcpNetwork};
/// # use sim::tcp::traffic::{PeerToPeer, cubic};
/// # let link = || {
/// #     let line = Shaper::new(Rate::megabits_per_second(10).unwrap());
/// #     let queue = Discipline::Drr.behind(line, Overhead::RAW, Limits::packets(1_000), 1_500);
/// #     Link::new(queue, 1_001, [0; 16], Nanos::from_millis(10))
/// # };
/// # let measured = (Nanos::ZERO, Nanos::from_secs(5));
/// let mut network = TcpNetwork::new(link(), link(), Naming::Key, measured);
/// let uploads =
///     PeerToPeer::thirty_peers(cubic).add_to(&mut network, 1, Streams::new(1).stream("peers"));
/// network.run_until(Nanos::from_secs(5));
/// assert_eq!(uploads.len(), 30);
/// assert!(uploads.iter().all(|of_peer| network.goodput(of_peer[0]).bytes() > 0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PeerToPeer {
    /// Start of the earliest uploads.
    pub start: Nanos,
    /// Span after `start` in which the first uploads begin, at random.
    pub stagger: Nanos,
    /// Number of concurrent peers, each a host on the Internet of its own.
    pub peers: u8,
    /// Uploads of limited size; `None` for one endless upload to each peer.
    pub churn: Option<Churn>,
    /// Creates the configuration of each upload; the number of segments is set.
    pub config: fn() -> Config,
}

impl PeerToPeer {
    /// Creates endless uploads to 30 peers, which begin within the first second.
    #[must_use]
    pub const fn thirty_peers(config: fn() -> Config) -> Self {
        let (start, stagger) = (Nanos::ZERO, Nanos::from_secs(1));
        Self { start, stagger, peers: 30, churn: None, config }
    }

    /// Adds the uploads of a host at home and returns those to each peer. Peers have the addresses
    /// 1, 2, … on the Internet, in their last byte.
    ///
    /// # Panics
    /// If there are 2^32 connections.
    pub fn add_to(
        &self,
        network: &mut TcpNetwork,
        home: u8,
        mut stream: Stream,
    ) -> Vec<Vec<ConnectionId>> {
        let of_peer = |peer| {
            let hosts = [home, peer];
            let begins = self.start.plus(Nanos(stream.below(self.stagger.0)));
            let Some(churn) = self.churn else {
                return vec![network.connect(Way::Up, hosts, begins, (self.config)())];
            };
            let mut ids: Vec<ConnectionId> = Vec::new();
            for _ in 0..churn.uploads {
                let (config, payload) = sized((self.config)(), churn.size.draw(&mut stream));
                let id = match ids.last() {
                    None => network.connect(Way::Up, hosts, begins, config),
                    Some(&last) => {
                        let pause = stream.exponential(churn.mean_pause);
                        network.connect_after(Way::Up, hosts, &[last], pause, config)
                    }
                };
                network.set_payload(id, payload);
                ids.push(id);
            }
            ids
        };
        (1..=self.peers).map(of_peer).collect()
    }
}
