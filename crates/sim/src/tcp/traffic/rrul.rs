//! The Real-time Response Under Load test.

use freeboard::Dscp;
use freeboard::sched_core::Nanos;

use super::{Config, TcpNetwork};
use crate::source::Cbr;
use crate::tcp::network::{ConnectionId, DatagramsId, Way};

/// Flent's test RRUL: four uploads, four downloads and four probes.
///
/// Source: `rrul.conf` of flent (Høiland-Jørgensen et al. 2017), and the RRUL specification by
/// Taht. TCP begins 5 s after the probes, and probes are sent each 200 ms, flent's defaults. A
/// probe of flent is answered by the server; here each direction has probes of its own at the same
/// times, and a round-trip time is the sum of the two delays. Acknowledgements have the code point
/// of their data.
///
/// ```
/// # use freeboard::sched_core::{Limits, Nanos};
/// # use freeboard::shaper::{Overhead, Rate, Shaper};
/// # use sim::{discipline::Discipline, link::Link};
/// # use sim::tcp::network::{Naming, TcpNetwork};
/// # use sim::tcp::traffic::{Rrul, cubic};
/// # let link = || {
/// #     let line = Shaper::new(Rate::megabits_per_second(10).unwrap());
/// #     let queue = Discipline::Drr.behind(line, Overhead::RAW, Limits::packets(1_000), 1_500);
/// #     Link::new(queue, 1_001, [0; 16], Nanos::from_millis(10))
/// # };
/// # let measured = (Nanos::ZERO, Nanos::from_secs(10));
/// let mut network = TcpNetwork::new(link(), link(), Naming::Key, measured);
/// let flows = Rrul { start: Nanos::ZERO, config: cubic }.add_to(&mut network, [1, 1]);
/// network.run_until(Nanos::from_secs(10));
/// let [ping_up, _] = flows.probes[3];
/// assert_eq!(network.loss(ping_up).sent, 50);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rrul {
    /// Time of the first probes.
    pub start: Nanos,
    /// Creates the configuration of each connection.
    pub config: fn() -> Config,
}

/// Flows of an RRUL test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RrulFlows {
    /// Uploads, in the order of [`Rrul::MARKS`].
    pub up: [ConnectionId; 4],
    /// Downloads, in the order of [`Rrul::MARKS`].
    pub down: [ConnectionId; 4],
    /// Probes up and down, in the order of [`Rrul::PROBES`].
    pub probes: [[DatagramsId; 2]; 4],
}

impl Rrul {
    /// Code points of the uploads and of the downloads: best effort, background, and two that are
    /// more urgent.
    pub const MARKS: [Dscp; 4] = [Dscp::CS0, Dscp::CS1, Dscp::CS5, Dscp::EF];
    /// Code points of the probes: three of UDP, and the ping.
    pub const PROBES: [Dscp; 4] = [Dscp::CS0, Dscp::CS1, Dscp::EF, Dscp::CS0];
    /// Time from the first probes to the start of TCP.
    pub const LEAD_IN: Nanos = Nanos::from_secs(5);
    /// Time between the packets of a probe.
    pub const STEP: Nanos = Nanos::from_millis(200);
    /// Payload of a probe in bytes: 56 like that of `ping`, packets of 84 bytes. UDP probes have
    /// the same (assumption).
    pub const PAYLOAD: u32 = 56;

    /// Adds the flows between a client at home and a server. To measure as long as flent does, run
    /// the network for 60 s of TCP and [`Rrul::LEAD_IN`].
    ///
    /// # Panics
    /// If there are 2^32 flows.
    pub fn add_to(&self, network: &mut TcpNetwork, hosts: [u8; 2]) -> RrulFlows {
        let begins = self.start.plus(Self::LEAD_IN);
        let [up, down] = [Way::Up, Way::Down].map(|way| {
            Self::MARKS.map(|mark| {
                let id = network.connect(way, hosts, begins, (self.config)());
                network.mark_connection(id, mark);
                id
            })
        });
        let probes = Self::PROBES.map(|mark| {
            [Way::Up, Way::Down].map(|way| {
                let source = Cbr::new(self.start, Self::STEP, Self::PAYLOAD);
                let id = network.add_source(way, hosts, source);
                network.mark_source(id, mark);
                id
            })
        });
        RrulFlows { up, down, probes }
    }
}
