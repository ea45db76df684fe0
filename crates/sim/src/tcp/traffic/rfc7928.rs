//! Traffic of RFC 7928, "Characterization Guidelines for Active Queue Management".
//!
//! [`Profile::ALL`] lists the scenarios that the model can express, [`NOT_MODELLED`] the others.
//! The RFC leaves numbers to the tester in many places; those chosen here are marked as choices.
//! Its senders are NewReno without ECN unless it asks for another.
//!
//! ```
//! # use core::num::NonZeroU64;
//! # use conformance::rng::Streams;
//! # use freeboard::sched_core::{Limits, Nanos};
//! # use freeboard::shaper::{Overhead, Rate, Shaper};
//! # use sim::{discipline::Discipline, link::Link};
//! # use sim::tcp::network::{Naming, TcpNetwork, Way};
//! use sim::tcp::traffic::rfc7928::{Profile, Setting};
//! # let link = || {
//! #     let line = Shaper::new(Rate::megabits_per_second(10).unwrap());
//! #     let queue = Discipline::Fifo.behind(line, Overhead::RAW, Limits::packets(83), 1_500);
//! #     Link::new(queue, 84, [0; 16], Nanos::from_millis(50))
//! # };
//! # let measured = (Nanos::ZERO, Nanos::from_secs(5));
//! let mut network = TcpNetwork::new(link(), link(), Naming::Key, measured);
//! let setting = Setting {
//!     rate: NonZeroU64::new(10_000_000).unwrap(),
//!     round_trip: Nanos::from_millis(100),
//!     buffer: 83,
//!     way: Way::Down,
//!     start: Nanos::ZERO,
//!     end: Nanos::from_secs(5),
//! };
//! let flows = Profile::Unresponsive.add_to(&mut network, &setting, &Streams::new(1));
//! network.run_until(Nanos::from_secs(5));
//! // The constant rate exceeds the link by a fifth.
//! assert!(network.loss(flows.sources[0]).ratio() > 0.15);
//! ```

use core::num::{NonZeroU32, NonZeroU64};

use conformance::rng::Streams;
use freeboard::sched_core::{Ecn, Nanos};

use super::pages::{PageLoads, Pages};
use super::{Config, TcpNetwork, cubic, sized};
use crate::source::{Cbr, Spacing, Video};
use crate::tcp::congestion::NewReno;
use crate::tcp::network::{ConnectionId, DatagramsId, Way};

/// A scenario of RFC 7928.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// One long transfer with an initial window of three segments.
    TcpFriendly,
    /// Two long transfers with initial windows of three and ten segments.
    InitialWindows,
    /// One long transfer of CUBIC.
    Aggressive,
    /// A constant rate of UDP at 1.2 times that of the link (choice), and a long transfer.
    Unresponsive,
    /// Two long transfers, one with a round-trip time of 100 ms, one with this.
    RoundTrips(Nanos),
    /// Pages with an initial window of ten segments, video in bursts, a constant rate, and a long
    /// transfer. Video and constant rate have a tenth of the link each; bursts leave at ten times
    /// the rate of the link (choices).
    Bursts,
    /// As many long transfers as cause this congestion in a queue that drops at its limit.
    Stable(Congestion),
    /// Mild congestion in the first third, medium in the second, heavy in the last.
    VaryingCongestion,
    /// Medium congestion, for a link whose capacity the caller changes with
    /// [`TcpNetwork::set_rate`].
    VaryingCapacity,
    /// A long transfer, repeated transfers of 5 MB, repeated pages of 700 kB, a call of 87 kbit/s
    /// (G.711 with the headers of Ethernet) and 1 Mbit/s of UDP.
    Mix,
    /// A long transfer in each direction.
    Bidirectional,
}

/// Congestion level: congestion signals per packet of long transfers. A queue that drops at its
/// limit loses more than one packet with each signal, so that its loss is higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// A loss of 0.1 %.
    Mild,
    /// A loss of 0.5 %.
    Medium,
    /// A loss of 1 %.
    Heavy,
}

impl Congestion {
    /// Returns the congestion signals per packet.
    #[must_use]
    pub const fn loss(self) -> f64 {
        match self {
            Self::Mild => 0.001,
            Self::Medium => 0.005,
            Self::Heavy => 0.01,
        }
    }
}

/// A scenario that the model cannot express, with its section and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotModelled {
    /// Section of RFC 7928.
    pub section: &'static str,
    /// Name of the scenario.
    pub name: &'static str,
    /// Reason why it is missing.
    pub reason: &'static str,
}

/// Scenarios of RFC 7928 that are missing.
pub const NOT_MODELLED: [NotModelled; 2] = [
    NotModelled {
        section: "5.4",
        name: "less-than-best-effort sender",
        reason: "no congestion control here yields to others by delay, as LEDBAT (RFC 6817) does",
    },
    NotModelled {
        section: "9.1",
        name: "adaptive video of the traffic mix",
        reason: "no player here chooses the rate of a segment by its download time",
    },
];

/// The bottleneck and the time of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Rate of the bottleneck in bits per second.
    pub rate: NonZeroU64,
    /// Round-trip time without queueing.
    pub round_trip: Nanos,
    /// Capacity of its queue in packets.
    pub buffer: u32,
    /// Direction of the bottleneck and of the data.
    pub way: Way,
    /// Start of the traffic.
    pub start: Nanos,
    /// End of the open-loop flows; others may end later.
    pub end: Nanos,
}

impl Setting {
    /// Returns the number of long transfers that cause this congestion.
    ///
    /// N transfers that fill the queue and the path with S packets of 1,500 bytes have windows of W
    /// = S / N, and a loss of 1.5 / W² (Mathis et al. 1997, "The macroscopic behavior of the TCP
    /// congestion avoidance algorithm", §2). The constant is that of one acknowledgement per
    /// packet: the window of [`NewReno`] grows by a segment per round trip also if they are
    /// delayed.
    #[must_use]
    pub fn transfers(&self, congestion: Congestion) -> u32 {
        let path = self.rate.get() as f64 * self.round_trip.0 as f64 / 8e9 / 1_500.0;
        let window = libm::sqrt(1.5 / congestion.loss());
        libm::round((path + f64::from(self.buffer)) / window).max(1.0) as u32
    }

    fn lasts(&self) -> Nanos {
        self.end.since(self.start)
    }

    /// Returns a share of the rate.
    fn part(&self, of: f64) -> NonZeroU64 {
        NonZeroU64::new((self.rate.get() as f64 * of) as u64).unwrap_or(NonZeroU64::MIN)
    }
}

/// Flows that a scenario added.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// Long and repeated transfers.
    pub connections: Vec<ConnectionId>,
    /// Open-loop flows.
    pub sources: Vec<DatagramsId>,
    /// Pages.
    pub pages: Vec<PageLoads>,
}

/// Payload of open-loop packets: an MTU of 1,500 bytes.
const DATAGRAM: u32 = 1_472;
/// Round-trip time of the first transfer of [`Profile::RoundTrips`].
const REFERENCE: Nanos = Nanos::from_millis(100);
/// Bytes of the repeated transfer of [`Profile::Mix`].
const REPEATED: u64 = 5_000_000;
/// Initial window of RFC 3390 for segments of 1,448 bytes.
const OLD_INITIAL_WINDOW: u32 = 3;

fn new_reno() -> Config {
    Config::new(Box::new(NewReno::new(Ecn::NotEct)))
}

fn new_reno_from_three() -> Config {
    Config { initial_window: OLD_INITIAL_WINDOW, ..new_reno() }
}

impl Profile {
    /// The scenarios in the order of the RFC. The second round-trip times are the ends of its
    /// range.
    pub const ALL: [Self; 14] = [
        Self::TcpFriendly,
        Self::InitialWindows,
        Self::Aggressive,
        Self::Unresponsive,
        Self::RoundTrips(Nanos::from_millis(5)),
        Self::RoundTrips(Nanos::from_millis(560)),
        Self::Bursts,
        Self::Stable(Congestion::Mild),
        Self::Stable(Congestion::Medium),
        Self::Stable(Congestion::Heavy),
        Self::VaryingCongestion,
        Self::VaryingCapacity,
        Self::Mix,
        Self::Bidirectional,
    ];

    /// Returns the section of RFC 7928.
    #[must_use]
    pub const fn section(self) -> &'static str {
        match self {
            Self::TcpFriendly => "5.1.1",
            Self::InitialWindows => "5.1.2",
            Self::Aggressive => "5.2",
            Self::Unresponsive => "5.3",
            Self::RoundTrips(_) => "6.2",
            Self::Bursts => "7.2",
            Self::Stable(Congestion::Mild) => "8.2.2",
            Self::Stable(Congestion::Medium) => "8.2.3",
            Self::Stable(Congestion::Heavy) => "8.2.4",
            Self::VaryingCongestion => "8.2.5",
            Self::VaryingCapacity => "8.2.6",
            Self::Mix => "9.1",
            Self::Bidirectional => "9.2",
        }
    }

    /// Adds the flows of the scenario.
    ///
    /// A round-trip time shorter than that of the setting counts as that of the setting.
    ///
    /// # Panics
    /// If there are 2^32 flows.
    pub fn add_to(self, network: &mut TcpNetwork, setting: &Setting, streams: &Streams) -> Flows {
        let mut flows = Adding { network, setting, streams, added: Flows::default() };
        let start = setting.start;
        match self {
            Self::TcpFriendly => {
                flows.long(start, new_reno_from_three());
            }
            Self::InitialWindows => {
                flows.long(start, new_reno_from_three());
                flows.long(start, new_reno());
            }
            Self::Aggressive => {
                flows.long(start, cubic());
            }
            Self::Unresponsive => {
                flows.constant(setting.part(1.2));
                flows.long(start, new_reno());
            }
            Self::RoundTrips(other) => {
                for round_trip in [REFERENCE, other] {
                    let id = flows.long(start, new_reno());
                    let access = round_trip.since(setting.round_trip);
                    flows.network.set_access_delay(id, access);
                }
            }
            Self::Bursts => {
                flows.pages();
                flows.video(setting.part(0.1), setting.part(10.0));
                flows.constant(setting.part(0.1));
                flows.long(start, new_reno());
            }
            Self::Stable(congestion) => flows.congest(&[(start, congestion)]),
            Self::VaryingCongestion => {
                let third = setting.lasts().0 / 3;
                flows.congest(&[
                    (start, Congestion::Mild),
                    (start.plus(Nanos(third)), Congestion::Medium),
                    (start.plus(Nanos(2 * third)), Congestion::Heavy),
                ]);
            }
            Self::VaryingCapacity => flows.congest(&[(start, Congestion::Medium)]),
            Self::Mix => {
                flows.long(start, new_reno());
                flows.repeated();
                flows.pages();
                flows.source(Cbr::g711(start));
                flows.constant(NonZeroU64::new(1_000_000).expect("not zero"));
            }
            Self::Bidirectional => {
                for way in [Way::Up, Way::Down] {
                    let id = flows.network.connect(way, [1, 1], start, new_reno());
                    flows.added.connections.push(id);
                }
            }
        }
        flows.added
    }
}

/// A scenario while its flows are added. Each flow has a server of its own.
struct Adding<'a> {
    network: &'a mut TcpNetwork,
    setting: &'a Setting,
    streams: &'a Streams,
    added: Flows,
}

impl Adding<'_> {
    fn hosts(&self) -> [u8; 2] {
        let Flows { connections, sources, pages } = &self.added;
        let number = connections.len() + sources.len() + pages.len();
        [1, (number % 254) as u8 + 1]
    }

    fn long(&mut self, begins: Nanos, config: Config) -> ConnectionId {
        let id = self.network.connect(self.setting.way, self.hosts(), begins, config);
        self.added.connections.push(id);
        id
    }

    /// Adds transfers so that there are as many as each level needs from its time on. They begin
    /// within the first second, at random.
    fn congest(&mut self, levels: &[(Nanos, Congestion)]) {
        let mut starts = self.streams.stream("starts");
        for &(at, congestion) in levels {
            while (self.added.connections.len() as u64) < self.setting.transfers(congestion).into()
            {
                self.long(at.plus(Nanos(starts.below(1_000_000_000))), new_reno());
            }
        }
    }

    fn repeated(&mut self) {
        let most = self.setting.lasts().0 as f64 / 1e9 * self.setting.rate.get() as f64 / 8.0;
        let hosts = self.hosts();
        let mut before: Vec<ConnectionId> = Vec::new();
        for _ in 0..=(most / REPEATED as f64) as u32 {
            let (config, payload) = sized(new_reno(), REPEATED);
            let way = self.setting.way;
            let id = match before[..] {
                [] => self.network.connect(way, hosts, self.setting.start, config),
                _ => self.network.connect_after(way, hosts, &before, Nanos::ZERO, config),
            };
            self.network.set_payload(id, payload);
            self.added.connections.push(id);
            before = vec![id];
        }
    }

    fn pages(&mut self) {
        let plan = Pages::new(self.setting.start, 0, new_reno);
        // Pauses are half of their mean or less in 4 of 10 cases: twice as many as fit on average.
        let fit = self.setting.lasts().0 / plan.think.0;
        let pages = u32::try_from(2 * fit + 1).unwrap_or(u32::MAX);
        let stream = self.streams.stream("pages");
        let hosts = self.hosts();
        self.added.pages.push(Pages { pages, ..plan }.add_to(self.network, hosts, stream));
    }

    fn constant(&mut self, rate: NonZeroU64) {
        self.source(Cbr::at_rate(self.setting.start, rate, DATAGRAM));
    }

    fn video(&mut self, rate: NonZeroU64, peak: NonZeroU64) {
        let packet = NonZeroU32::new(DATAGRAM).expect("not zero");
        let spacing = Spacing::Burst(peak);
        let video = Video { packet, spacing, ..Video::mpeg2(self.setting.start, rate) };
        let source = video.with(self.streams.stream("video")).expect("settings in range");
        self.source(source);
    }

    fn source(&mut self, source: impl Iterator<Item = crate::source::Sent> + 'static) {
        let end = self.setting.end;
        let source = source.take_while(move |packet| packet.at < end);
        let id = self.network.add_source(self.setting.way, self.hosts(), source);
        self.added.sources.push(id);
    }
}
