//! One run of a scenario: the model network and its measurements.

use core::num::{NonZeroU32, NonZeroU64};

use conformance::rng::{ParetoShape, Streams};
use freeboard::Dscp;
use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use serde::{Deserialize, Serialize};

use super::file::{
    ArrivalKeys, Bulk, CallKeys, CodecKey, Direction, OnOffKeys, PagesKeys, PeriodKeys, Scenario,
    Stream, VideoKeys,
};
use super::queues::{BuiltQueue, MTU, Queues};
use crate::link::Link;
use crate::measure::delay::Delays;
use crate::measure::emodel::{Call, Codec, JitterBuffer};
use crate::measure::goodput::{Loss, jain};
use crate::sizes::FlowSizes;
use crate::source::{
    Cbr, Lengths, OnOff, Periods, Poisson, Sent, Spacing, TalkSpurts, Trace, Variation, Video,
};
use crate::tcp::network::{ConnectionId, DatagramsId, Naming, TcpNetwork, Way};
use crate::tcp::traffic::{Arrival, FlowArrivals, PageLoads, Pages, PeerToPeer, Rrul};
use crate::tcp::{Config, PAYLOAD};

/// A measured quantity, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Payload that arrived, all flows together, in Mbit/s.
    Goodput,
    /// Jain's index of the flows' goodputs.
    Jain,
    /// Lost packets in %.
    Loss,
    /// Median one-way delay in ms.
    DelayMedian,
    /// 95th percentile of the one-way delay in ms.
    Delay95,
    /// 99th percentile of the one-way delay in ms.
    Delay99,
    /// Mean difference between the delays of consecutive packets in ms.
    Jitter,
    /// Mean opinion score of a call (ITU-T G.107).
    Mos,
    /// Pages or transfers that were complete.
    Complete,
    /// Those that were not complete at the end.
    Incomplete,
    /// Median time of a complete page or transfer in ms.
    TimeMedian,
    /// 95th percentile of it in ms.
    Time95,
}

impl Metric {
    /// Returns the heading of its column.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Goodput => "Mbit/s",
            Self::Jain => "Jain",
            Self::Loss => "loss, %",
            Self::DelayMedian => "delay p50, ms",
            Self::Delay95 => "p95",
            Self::Delay99 => "p99",
            Self::Jitter => "jitter, ms",
            Self::Mos => "MOS",
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::TimeMedian => "time p50, ms",
            Self::Time95 => "time p95, ms",
        }
    }

    /// Returns the name in data files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_mbit_s",
            Self::Jain => "jain",
            Self::Loss => "loss_percent",
            Self::DelayMedian => "delay_p50_ms",
            Self::Delay95 => "delay_p95_ms",
            Self::Delay99 => "delay_p99_ms",
            Self::Jitter => "jitter_ms",
            Self::Mos => "mos",
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::TimeMedian => "time_p50_ms",
            Self::Time95 => "time_p95_ms",
        }
    }

    /// Returns the number of decimals in tables.
    #[must_use]
    pub const fn decimals(self) -> usize {
        match self {
            Self::Goodput | Self::Jain | Self::Loss => 3,
            Self::Complete | Self::Incomplete => 1,
            _ => 2,
        }
    }
}

/// Measurements of one kind of traffic in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Name in the file, with the direction if there are both.
    pub name: String,
    /// Values, in order of the metrics.
    pub metrics: Vec<(Metric, f64)>,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// All traffic of the file.
    pub traffic: Vec<Measured>,
    /// Packets that left the queues of both directions, also outside the measured time.
    pub packets: u64,
    /// True if every packet is accounted for.
    pub balanced: bool,
}

/// Flows of one kind of traffic in one direction.
#[derive(Debug)]
pub(super) enum Flows {
    Transfers(Vec<ConnectionId>),
    Datagrams(Vec<DatagramsId>),
    Calls(Vec<DatagramsId>, Codec),
    Pages(Vec<PageLoads>),
    Arrivals(Vec<Arrival>),
}

/// A network with its flows by name.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) network: TcpNetwork,
    pub(super) flows: Vec<(String, Way, Flows)>,
    /// End of the measurement.
    end: Nanos,
    /// Time after the measurement in which queued packets arrive: a full queue of the slower
    /// direction, and a round trip.
    drain: Nanos,
}

/// Runs a scenario once.
///
/// # Panics
/// If a queue cannot be built, which reading the file rules out.
#[must_use]
pub fn run(scenario: &Scenario, queues: &Queues, seed: u64) -> Run {
    let (from, to) = window(scenario);
    let mut model = Model::new(scenario, queues, seed, (from, to));
    model.network.run_until(to.plus(model.drain));
    let measured = |(name, _, flows): &(String, Way, Flows)| Measured {
        name: name.clone(),
        metrics: metrics(&model.network, flows, (from, to)),
    };
    let traffic = model.flows.iter().map(measured).collect();
    let left = [Way::Up, Way::Down].map(|way| model.network.link(way).books().left);
    let packets = left.iter().sum();
    Run { traffic, packets, balanced: model.network.recount().is_ok() }
}

/// Returns start and end of the measurement.
pub(super) fn window(scenario: &Scenario) -> (Nanos, Nanos) {
    let from = scenario.warm_up.0;
    (from, from.plus(scenario.duration.0))
}

impl Model {
    pub(super) fn new(
        scenario: &Scenario,
        queues: &Queues,
        seed: u64,
        measured: (Nanos, Nanos),
    ) -> Self {
        let streams = Streams::new(seed);
        let mut keys = streams.stream("flow-hash");
        let mut drain = Nanos::ZERO;
        let mut link = |way: Way| {
            let place = scenario.place(way, keys.bits());
            let BuiltQueue { queue, buffers, is_one_flow } =
                queues.build(scenario.queue(way), &place).expect("checked when the file was read");
            let key = (u128::from(keys.bits()) << 64 | u128::from(keys.bits())).to_le_bytes();
            drain = drain.max(place.rate.time_of(MTU.saturating_mul(buffers)));
            let link = Link::new(queue, buffers, key, Nanos(scenario.link.round_trip.0.0 / 2));
            if is_one_flow { link.as_one_flow() } else { link }
        };
        let network = TcpNetwork::new(link(Way::Up), link(Way::Down), Naming::Key, measured);
        let drain = drain.plus(scenario.link.round_trip.0);
        let mut model = Self { network, flows: Vec::new(), end: window(scenario).1, drain };
        model.add_all(scenario, &streams);
        model
    }

    fn add_all(&mut self, scenario: &Scenario, streams: &Streams) {
        let end = window(scenario).1;
        for (name, keys) in &scenario.bulk {
            self.add_bulk(name, keys, streams);
        }
        for (name, keys) in &scenario.cbr {
            let rate = bits(keys.rate.0.0);
            self.add_streams(("cbr", name), keys, streams, |phase, _| {
                Cbr::at_rate(phase, rate, keys.size.get())
            });
        }
        for (name, keys) in &scenario.poisson {
            let rate = bits(keys.rate.0.0);
            self.add_streams(("poisson", name), keys, streams, |phase, stream| {
                Poisson::at_rate(phase, rate, Lengths::fixed(keys.size.get()), stream)
            });
        }
        for (name, keys) in &scenario.on_off {
            let ends = (keys.host.get(), keys.server.get(), keys.dscp.0);
            let source = |way: Way, number| {
                let stream = streams.stream(&format!("on-off {name} {way:?} {number}"));
                on_off(keys).with(stream)
            };
            self.add_sources(name, keys.direction, keys.count, ends, source, Flows::Datagrams);
        }
        for (name, keys) in &scenario.call {
            self.add_calls(name, keys, streams);
        }
        for (name, keys) in &scenario.video {
            let ends = (keys.host.get(), keys.server.get(), keys.dscp.0);
            let source = |way: Way, number| {
                let mut stream = streams.stream(&format!("video {name} {way:?} {number}"));
                let phase = Nanos(stream.below((1e9 / keys.frame_rate) as u64));
                video(keys, phase).with(stream).expect("checked when the file was read")
            };
            self.add_sources(name, keys.direction, keys.count, ends, source, Flows::Datagrams);
        }
        for (name, keys) in &scenario.trace {
            let ends = (keys.host.get(), keys.server.get(), keys.dscp.0);
            let source = |_, _| {
                Trace::read(&keys.bytes, keys.start.0).expect("checked when the file was read")
            };
            self.add_sources(name, keys.direction, NonZeroU32::MIN, ends, source, Flows::Datagrams);
        }
        for (name, keys) in &scenario.pages {
            self.add_pages(name, keys, streams, end);
        }
        for (name, keys) in &scenario.p2p {
            let config = keys.congestion.config();
            let peers = PeerToPeer { peers: keys.peers.get(), ..PeerToPeer::thirty_peers(config) };
            let stream = streams.stream(&format!("p2p {name}"));
            let uploads = peers.add_to(&mut self.network, 1, stream).concat();
            uploads.iter().for_each(|&id| self.network.measure_delays(id));
            self.flows.push((name.clone(), Way::Up, Flows::Transfers(uploads)));
        }
        for (name, keys) in &scenario.rrul {
            let rrul = Rrul { start: Nanos::ZERO, config: keys.congestion.config() };
            let flows = rrul.add_to(&mut self.network, [keys.host.get(), 1]);
            let transfers = flows.up.iter().chain(&flows.down);
            transfers.for_each(|&id| self.network.measure_delays(id));
            let probes = |way: usize| flows.probes.map(|probe| probe[way]).to_vec();
            let mut add =
                |what: &str, way, flows| self.flows.push((format!("{name} {what}"), way, flows));
            add("upload", Way::Up, Flows::Transfers(flows.up.to_vec()));
            add("download", Way::Down, Flows::Transfers(flows.down.to_vec()));
            add("probes up", Way::Up, Flows::Datagrams(probes(0)));
            add("probes down", Way::Down, Flows::Datagrams(probes(1)));
        }
        for (name, keys) in &scenario.flows {
            self.add_arrivals(name, keys, streams, end);
        }
    }

    fn add_bulk(&mut self, name: &str, keys: &Bulk, streams: &Streams) {
        let hosts = [keys.host.get(), keys.server.get()];
        for &way in keys.direction.ways() {
            let mut starts = streams.stream(&format!("bulk {name} {way:?}"));
            let transfer = |_| {
                let begins = keys.start.0.plus(Nanos(starts.below(keys.spread.0.0.max(1))));
                let mut config = keys.congestion.config()();
                if let Some(bytes) = keys.bytes {
                    let segments = bytes.div_ceil(PAYLOAD.into()).max(1);
                    config =
                        Config { segments: u32::try_from(segments).unwrap_or(u32::MAX), ..config };
                }
                let id = self.network.connect(way, hosts, begins, config);
                self.network.mark_connection(id, keys.dscp.0);
                self.network.measure_delays(id);
                id
            };
            let ids = (0..keys.count.get()).map(transfer).collect();
            self.flows.push((keys.direction.named(name, way), way, Flows::Transfers(ids)));
        }
    }

    /// Adds streams that begin at a random phase within the time of a packet.
    fn add_streams<S: Iterator<Item = Sent> + 'static>(
        &mut self,
        (kind, name): (&str, &str),
        keys: &Stream,
        streams: &Streams,
        source: impl Fn(Nanos, conformance::rng::Stream) -> S,
    ) {
        let ends = (keys.host.get(), keys.server.get(), keys.dscp.0);
        let source = |way: Way, number| {
            let mut stream = streams.stream(&format!("{kind} {name} {way:?} {number}"));
            let phase = Nanos(stream.below(keys.rate.0.0.time_of(keys.size.get()).0.max(1)));
            source(phase, stream)
        };
        self.add_sources(name, keys.direction, keys.count, ends, source, Flows::Datagrams);
    }

    fn add_calls(&mut self, name: &str, keys: &CallKeys, streams: &Streams) {
        let ends = (keys.host.get(), keys.server.get(), keys.dscp.0);
        let (codec, quality): (fn(Nanos) -> Cbr, _) = match keys.codec {
            CodecKey::G711 => (Cbr::g711, Codec::G711_PLC),
            CodecKey::G729 => (Cbr::g729, Codec::G729A),
        };
        let source = |way: Way, number| {
            let mut stream = streams.stream(&format!("call {name} {way:?} {number}"));
            let codec = codec(Nanos(stream.below(20_000_000)));
            let source: Box<dyn Iterator<Item = Sent>> = match keys.talk_spurts {
                true => Box::new(TalkSpurts::p59(codec).with(stream)),
                false => Box::new(codec),
            };
            source
        };
        let flows = |ids| Flows::Calls(ids, quality);
        self.add_sources(name, keys.direction, keys.count, ends, source, flows);
    }

    /// Adds `count` sources in each direction.
    fn add_sources<S: Iterator<Item = Sent> + 'static>(
        &mut self,
        name: &str,
        direction: Direction,
        count: NonZeroU32,
        (host, server, dscp): (u8, u8, Dscp),
        source: impl Fn(Way, u32) -> S,
        flows: impl Fn(Vec<DatagramsId>) -> Flows,
    ) {
        // Later packets are not measured, and would only keep the queue full.
        let end = self.end;
        for &way in direction.ways() {
            let one = |number| {
                let sent = source(way, number).take_while(move |packet| packet.at < end);
                let id = self.network.add_source(way, [host, server], sent);
                self.network.mark_source(id, dscp);
                id
            };
            let ids = (0..count.get()).map(one).collect();
            self.flows.push((direction.named(name, way), way, flows(ids)));
        }
    }

    fn add_pages(&mut self, name: &str, keys: &PagesKeys, streams: &Streams, end: Nanos) {
        let config = keys.congestion.config();
        let browser = |number| {
            let mut stream = streams.stream(&format!("pages {name} {number}"));
            let think = keys.think.0;
            let start = Nanos(stream.below(think.0.max(1)));
            // More than fit: twice as many as without any time to load them.
            let pages = end.0 / think.0.max(500_000_000) * 2 + 20;
            let pages = Pages {
                document: FlowSizes::Fixed(keys.document),
                objects: keys.objects,
                object: FlowSizes::Fixed(keys.object),
                connections: keys.connections.get(),
                think,
                ..Pages::new(start, u32::try_from(pages).unwrap_or(u32::MAX), config)
            };
            pages.add_to(&mut self.network, [keys.host.get(), keys.server.get()], stream)
        };
        let loads = (0..keys.count.get()).map(browser).collect();
        self.flows.push((name.to_owned(), Way::Down, Flows::Pages(loads)));
    }

    fn add_arrivals(&mut self, name: &str, keys: &ArrivalKeys, streams: &Streams, end: Nanos) {
        for &way in keys.direction.ways() {
            let arrivals = FlowArrivals {
                start: Nanos::ZERO,
                until: end,
                way,
                hosts: [keys.host.get(), keys.server.get()],
                sizes: keys.sizes.sizes(),
                load: bits(keys.load.0.0),
                config: keys.congestion.config(),
            };
            let stream = streams.stream(&format!("flows {name} {way:?}"));
            let flows = Flows::Arrivals(arrivals.add_to(&mut self.network, stream));
            self.flows.push((keys.direction.named(name, way), way, flows));
        }
    }
}

/// Returns the settings of a video that begins at `start`.
pub(super) fn video(keys: &VideoKeys, start: Nanos) -> Video {
    Video {
        start,
        frame_rate: keys.frame_rate,
        gop: keys.gop.0.clone(),
        rate: bits(keys.rate.0.0),
        ratio: keys.ratio,
        variation: Variation::Lognormal(0.2),
        packet: NonZeroU32::new(1_316).expect("not zero"),
        spacing: keys.peak.map_or(Spacing::Even, |peak| Spacing::Burst(bits(peak.0.0))),
    }
}

fn on_off(keys: &OnOffKeys) -> OnOff {
    OnOff {
        start: Nanos::ZERO,
        periods: match keys.periods {
            PeriodKeys::Exponential => Periods::Exponential,
            PeriodKeys::Pareto => Periods::Pareto(ParetoShape::TRAFFIC),
        },
        mean_on: keys.on.0,
        mean_off: keys.off.0,
        rate: bits(keys.rate.0.0),
        payload: keys.size.get(),
    }
}

/// Returns a rate in bits per second; the notation has no unlimited rates.
fn bits(rate: Rate) -> NonZeroU64 {
    rate.as_bits_per_second().and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MAX)
}

fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Returns the metrics of these flows that have a value.
fn metrics(network: &TcpNetwork, flows: &Flows, window: (Nanos, Nanos)) -> Vec<(Metric, f64)> {
    let mut found = Vec::new();
    match flows {
        Flows::Transfers(ids) => {
            let goodput: Vec<u64> =
                ids.iter().map(|&id| network.goodput(id).bits_per_second()).collect();
            found.push((Metric::Goodput, goodput.iter().sum::<u64>() as f64 / 1e6));
            if goodput.len() > 1 {
                found.extend(jain(&goodput).map(|index| (Metric::Jain, index)));
            }
            delays(ids.iter().map(|&id| network.segment_delays(id)), &mut found);
        }
        Flows::Datagrams(ids) => datagrams(network, ids, window, &mut found),
        Flows::Calls(ids, codec) => {
            datagrams(network, ids, window, &mut found);
            let call = |&id: &DatagramsId| {
                let lost = usize::try_from(network.loss(id).lost).unwrap_or(usize::MAX);
                let arrived = network.delays(id).samples().iter().copied().map(Some);
                let packets: Vec<Option<Nanos>> =
                    arrived.chain(core::iter::repeat_n(None, lost)).collect();
                Call::judge(&packets, JitterBuffer::Best, *codec).map(|call| call.mos)
            };
            let scores: Vec<f64> = ids.iter().filter_map(call).collect();
            found.extend(crate::measure::estimate::mean(&scores).map(|mos| (Metric::Mos, mos)));
        }
        Flows::Pages(browsers) => {
            let loads = browsers.iter().flat_map(|browser| browser.loads(network));
            let is_counted = |start: Nanos| (window.0..window.1).contains(&start);
            let counted = loads.filter(|load| load.start.is_some_and(is_counted));
            times(counted.map(|load| load.time()), &mut found);
        }
        Flows::Arrivals(arrivals) => {
            let counted = arrivals.iter().filter(|one| (window.0..window.1).contains(&one.at));
            let time = |one: &Arrival| Some(network.arrival(one.id)?.since(one.at));
            times(counted.map(time), &mut found);
        }
    }
    found
}

fn datagrams(
    network: &TcpNetwork,
    ids: &[DatagramsId],
    window: (Nanos, Nanos),
    found: &mut Vec<(Metric, f64)>,
) {
    let loss = ids.iter().map(|&id| network.loss(id)).fold(Loss::default(), |sum, one| Loss {
        sent: sum.sent + one.sent,
        lost: sum.lost + one.lost,
    });
    let bytes: u64 = ids.iter().map(|&id| network.arrived_bytes(id)).sum();
    let seconds = window.1.since(window.0).0 as f64 / 1e9;
    found.push((Metric::Goodput, bytes as f64 * 8.0 / seconds / 1e6));
    if loss.sent > 0 {
        found.push((Metric::Loss, loss.ratio() * 100.0));
    }
    delays(ids.iter().map(|&id| network.delays(id)), found);
    let differences = ids.iter().flat_map(|&id| {
        network
            .delays(id)
            .samples()
            .windows(2)
            .map(|pair| millis(Nanos(pair[0].0.abs_diff(pair[1].0))))
    });
    let differences: Vec<f64> = differences.collect();
    found.extend(crate::measure::estimate::mean(&differences).map(|mean| (Metric::Jitter, mean)));
}

fn delays<'a>(of: impl Iterator<Item = &'a Delays>, found: &mut Vec<(Metric, f64)>) {
    let all: Delays = of.flat_map(|delays| delays.samples()).copied().collect();
    for (metric, per_mille) in
        [(Metric::DelayMedian, 500), (Metric::Delay95, 950), (Metric::Delay99, 990)]
    {
        found.extend(all.quantile(per_mille).map(|delay| (metric, millis(delay))));
    }
}

fn times(all: impl Iterator<Item = Option<Nanos>>, found: &mut Vec<(Metric, f64)>) {
    let all: Vec<Option<Nanos>> = all.collect();
    let complete: Delays = all.iter().flatten().copied().collect();
    found.push((Metric::Complete, complete.len() as f64));
    found.push((Metric::Incomplete, (all.len() - complete.len()) as f64));
    for (metric, per_mille) in [(Metric::TimeMedian, 500), (Metric::Time95, 950)] {
        found.extend(complete.quantile(per_mille).map(|time| (metric, millis(time))));
    }
}
