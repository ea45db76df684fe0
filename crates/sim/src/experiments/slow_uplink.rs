//! Four uploads and four downloads on a link whose uplink is thirty or sixty times slower, behind
//! the assembled queue and behind CAKE as published: the scenario of
//! [CAKE Fig. 6](super::cake_fig6) and of a [narrower uplink](super::narrow_uplink).
//!
//! ```text
//! uploads, probe  ─▶ SmartQueue, filter ─▶  1 Mbit/s, 25 ms ─▶ server         or 0.5 Mbit/s
//!         client  ◀─ SmartQueue         ◀─ 30 Mbit/s, 25 ms ◀─ downloads, probe
//! ```
//!
//! The paper does not describe its measurement flow. Its tool, Flent, sends a ping each 200 ms by
//! default; the runs of Linux have a probe like a call, which takes 7 % of the uplink. Both are
//! run.
//!
//! The paper does not state the code points of its flows. Flent's test RRUL has as many flows, with
//! four code points, so the scenario is run without marks and with those of RRUL.
//!
//! Packets are Ethernet frames, as in Linux: the header counts in shares of the link, where it is a
//! fifth of an acknowledgement.

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{DropReason, Ecn, Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};
use freeboard::{AckFilter, AqmKind, SmartQueue, TinMode};

use super::Row;
use super::dumbbell::{self, DELAY, Dumbbell, ETHERNET, LONGEST_FRAME, Traffic};
use crate::discipline::{Bottleneck, FlowLists};
use crate::measure::delay::Delays;
use crate::tcp::Config;
use crate::tcp::congestion::Cubic;
use crate::tcp::network::{Naming, Way};

/// Duration of the measurement.
pub const MEASURED: Nanos = Nanos::from_secs(60);
/// Start of the measurement.
const WARM_UP: Nanos = Nanos::from_secs(10);
const END: Nanos = WARM_UP.plus(MEASURED);
/// Rate of the downlink in kbit/s.
const DOWNLINK: u64 = 30_000;
const LIMITS: Limits = Limits { packets: 4_096, bytes: 4 << 20 };

/// Queue in front of the link, in both directions, and variant of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// The assembled queue with this AQM; CUBIC of RFC 9438.
    Smart(AqmKind),
    /// The assembled queue with this AQM in CAKE's default mode `diffserv3`; CUBIC of RFC 9438. The
    /// flows have the [marks of RRUL](dumbbell::MARKS), also on acknowledgements; the probe has
    /// none.
    Marked(AqmKind),
    /// [CAKE as published](FlowLists), and CUBIC of RFC 8312, as in kernels of its time.
    Published,
}

impl Queueing {
    fn before(self, way: Way, rate: Rate, filter: AckFilter) -> Box<dyn Bottleneck> {
        let (aqm, tins) = match self {
            Self::Smart(aqm) => (aqm, TinMode::BestEffort),
            Self::Marked(aqm) => (aqm, TinMode::Diffserv3),
            Self::Published => {
                let line = Shaper::new(rate);
                return FlowLists::behind(line, Overhead::RAW, LIMITS, LONGEST_FRAME, filter);
            }
        };
        let builder = match way {
            Way::Up => SmartQueue::upload(rate),
            Way::Down => SmartQueue::download(rate),
        };
        let builder = dumbbell::for_frames(builder, LIMITS);
        let builder = builder.aqm(aqm).tins(tins).ack_filter(filter);
        Box::new(builder.descriptors().expect("settings in range"))
    }

    fn sender(self) -> Config {
        match self {
            Self::Smart(_) | Self::Marked(_) => dumbbell::cubic(),
            Self::Published => Config::new(Box::new(Cubic::rfc_8312(Ecn::NotEct))),
        }
    }
}

/// Traffic that measures the latency in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// 160 bytes every 20 ms, headers included, as in the runs of Linux.
    Call,
    /// 100 bytes every 20 ms, headers included: Opus at 24 kbit/s.
    SmallCall,
    /// 84 bytes every 200 ms, headers included.
    Ping,
}

impl Probe {
    /// Returns the name of the probe in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::SmallCall => "small call",
            Self::Ping => "ping",
        }
    }

    /// Returns the UDP payload and the sending interval.
    const fn sends(self) -> (u32, Nanos) {
        match self {
            Self::Call => dumbbell::CALL,
            Self::SmallCall => (72, Nanos::from_millis(20)),
            Self::Ping => (56, Nanos::from_millis(200)),
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Queue under test.
    pub queueing: Queueing,
    /// Measurement traffic.
    pub probe: Probe,
    /// Rate of the uplink, in kbit/s.
    pub uplink: u64,
    /// ACK filter of the uplink.
    pub filter: AckFilter,
}

impl Cell {
    /// Returns the cells of each of `queues` in each filter mode.
    #[must_use]
    pub fn all(queues: &[(Queueing, Probe)], uplink: u64) -> Vec<Self> {
        let of = |&(queueing, probe): &(Queueing, Probe)| {
            let filters = AckFilter::ALL.iter();
            filters.map(move |&filter| Self { queueing, probe, uplink, filter })
        };
        queues.iter().flat_map(of).collect()
    }

    /// Runs the scenario once.
    #[must_use]
    pub fn run(&self, seed: u64) -> Run {
        let mut site = Dumbbell::new(seed, Naming::Key, (WARM_UP, END), |way, keys| {
            let (rate, filter) = match way {
                Way::Up => (self.uplink, self.filter),
                Way::Down => (DOWNLINK, AckFilter::Off),
            };
            let rate = Rate::kilobits_per_second(rate).expect("a rate that links have");
            let queue = self.queueing.before(way, rate, filter);
            dumbbell::link(queue, LIMITS, keys, DELAY).with_header(ETHERNET)
        });
        let connections = site.connect_both([4; 2], || self.queueing.sender());
        if let Queueing::Marked(_) = self.queueing {
            site.mark(&connections);
        }
        let mut phases = site.stream("probes");
        let probes = site.probe_both(&mut phases, self.probe.sends());
        site.run_until(END);
        let [up, down] = probes.map(|probe| site.report(probe));
        let queue = site.link(Way::Up);
        let counters = queue.queue().counters();
        let datagrams = up.loss.sent * END.0 / MEASURED.0;
        let data: u64 = connections[0].iter().map(|&id| site.sender(id).events().sent).sum();
        Run {
            bytes: connections.each_ref().map(|ids| site.bytes(ids).iter().sum()),
            added: [&up, &down].map(mean_of),
            timeouts: connections[1].iter().map(|&id| site.sender(id).events().timeouts).sum(),
            // Departures are data, probes or acknowledgements; data that was dropped or is queued
            // is negligible.
            acks: queue.books().left.saturating_sub(data + datagrams),
            filtered: counters.dropped_for(DropReason::Filtered).packets,
            judged: counters.dropped_for(DropReason::Aqm).packets,
            waits: up.added,
            balanced: site.is_balanced(),
        }
    }
}

fn mean_of(traffic: &Traffic) -> Nanos {
    traffic.added.summary().map_or(Nanos::ZERO, |summary| summary.mean)
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Bytes of all uploads and of all downloads that arrived in order.
    pub bytes: [u64; 2],
    /// Mean queueing delay of a probe up and down.
    pub added: [Nanos; 2],
    /// Queueing delay of each packet of the upload probe.
    pub waits: Delays,
    /// Retransmission timeouts of all downloads since the start.
    pub timeouts: u64,
    /// Acknowledgements that left the uplink since the start.
    pub acks: u64,
    /// Acknowledgements that the filter dropped since the start.
    pub filtered: u64,
    /// Packets of the uplink dropped by the AQM since the start.
    pub judged: u64,
    /// True if every packet is accounted for.
    pub balanced: bool,
}

impl Run {
    /// Returns the goodput of all uploads or of all downloads in Mbit/s.
    #[must_use]
    pub fn goodput(&self, way: Way) -> f64 {
        self.bytes[way as usize] as f64 * 8.0 / (MEASURED.0 as f64 / 1_000.0)
    }
}

impl Row<Cell, Run> {
    /// Returns the goodput of the downloads in Mbit/s.
    #[must_use]
    pub fn down(&self) -> f64 {
        self.mean(|run| run.goodput(Way::Down))
    }

    /// Returns the goodput of the uploads in Mbit/s.
    #[must_use]
    pub fn up(&self) -> f64 {
        self.mean(|run| run.goodput(Way::Up))
    }

    /// Returns the mean queueing delay of a probe up or down, in milliseconds.
    #[must_use]
    pub fn wait(&self, way: Way) -> f64 {
        self.mean(|run| run.added[way as usize].0 as f64 / 1e6)
    }

    /// Returns the mean queueing delay of a probe in both directions together, in milliseconds.
    #[must_use]
    pub fn latency(&self) -> f64 {
        Way::BOTH.iter().map(|&way| self.wait(way)).sum()
    }

    /// Returns an event count since the start as a rate per second.
    pub fn per_second(&self, count: impl Fn(&Run) -> u64) -> f64 {
        self.mean(|run| count(run) as f64 / (END.0 as f64 / 1e9))
    }
}
