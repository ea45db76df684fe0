//! Transfers that arrive at random.

use core::num::NonZeroU64;

use conformance::rng::Stream;
use freeboard::sched_core::Nanos;

use super::{Config, TcpNetwork, sized};
use crate::sizes::FlowSizes;
use crate::tcp::network::{ConnectionId, Way};

/// Transfers with exponential interarrival times and sizes of a distribution: a given load,
/// whatever the network does with it.
///
/// ```
/// # use core::num::NonZeroU64;
/// # use conformance::rng::Streams;
/// # use freeboard::sched_core::{Limits, Nanos};
/// # use freeboard::shaper::{Overhead, Rate, Shaper};
/// # use sim::{discipline::Discipline, link::Link, sizes::FlowSizes};
/// # use sim::tcp::network::{Naming, TcpNetwork, Way};
/// # use sim::tcp::traffic::{FlowArrivals, cubic};
/// # let link = || {
/// #     let line = Shaper::new(Rate::megabits_per_second(100).unwrap());
/// #     let queue = Discipline::Fifo.behind(line, Overhead::RAW, Limits::packets(1_000), 1_500);
/// #     Link::new(queue, 1_001, [0; 16], Nanos::from_millis(5))
/// # };
/// # let measured = (Nanos::ZERO, Nanos::from_secs(10));
/// let mut network = TcpNetwork::new(link(), link(), Naming::Key, measured);
/// let arrivals = FlowArrivals {
///     start: Nanos::ZERO,
///     until: Nanos::from_secs(2),
///     way: Way::Down,
///     hosts: [1, 1],
///     sizes: FlowSizes::Fixed(100_000),
///     load: NonZeroU64::new(40_000_000).unwrap(),
///     config: cubic,
/// };
/// let flows = arrivals.add_to(&mut network, Streams::new(1).stream("arrivals"));
/// network.run_until(Nanos::from_secs(10));
/// assert!(flows.iter().all(|flow| network.completion(flow.id).is_some()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FlowArrivals {
    /// Time from which flows arrive; the first arrives one interarrival time later.
    pub start: Nanos,
    /// Time from which no flow arrives.
    pub until: Nanos,
    /// Direction of the data.
    pub way: Way,
    /// Last bytes of the addresses at home and on the Internet.
    pub hosts: [u8; 2],
    /// Distribution of sizes in bytes of payload.
    pub sizes: FlowSizes,
    /// Offered load: mean rate of payload in bits per second, without headers and retransmissions.
    pub load: NonZeroU64,
    /// Creates the configuration of each transfer; the number of segments is set.
    pub config: fn() -> Config,
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its connection; [`TcpNetwork::completion`] returns its time.
    pub id: ConnectionId,
    /// Start of the transfer.
    pub at: Nanos,
    /// Bytes of payload drawn. The model sends up to a byte more for each segment.
    pub bytes: u64,
}

impl FlowArrivals {
    /// Returns the mean time between arrivals.
    #[must_use]
    pub fn mean_gap(&self) -> Nanos {
        Nanos((self.sizes.mean() * 8e9 / self.load.get() as f64) as u64)
    }

    /// Adds the transfers and returns them in order of time.
    ///
    /// # Panics
    /// If there are 2^32 connections.
    pub fn add_to(&self, network: &mut TcpNetwork, mut stream: Stream) -> Vec<Arrival> {
        // At least a nanosecond, so that the time passes.
        let gap = self.mean_gap().max(Nanos(1));
        let mut at = self.start.plus(stream.exponential(gap));
        let mut arrivals = Vec::new();
        while at < self.until {
            let bytes = self.sizes.draw(&mut stream);
            let (config, payload) = sized((self.config)(), bytes);
            let id = network.connect(self.way, self.hosts, at, config);
            network.set_payload(id, payload);
            arrivals.push(Arrival { id, at, bytes });
            at = at.plus(stream.exponential(gap));
        }
        arrivals
    }
}
