//! One run of a cell in detail: for flent as time series, for Wireshark as packets.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use freeboard::sched_core::{DropReason, Nanos};
use serde_json::{Map, Value, json};

use super::run::{Flows, Model, window};
use super::{Scenario, Sweep};
use crate::capture::CommentWriter;
use crate::link::PacketEvent;
use crate::tcp::network::{ConnectionId, DatagramsId, TcpNetwork, Way};

/// Time between two points of a series: flent's default.
const STEP: Nanos = Nanos::from_millis(200);
/// Seed of the run that is recorded.
const SEED: u64 = 1;

/// Values of a series by its name in flent; `None` where a step has none.
type Series = Vec<(String, Vec<Option<f64>>)>;

/// Runs a cell with seed 1 and returns a data file of flent, format version 4, gzip-compressed:
/// goodput of each transfer in Mbit/s and the delay of the first open-loop traffic there and back
/// in ms, each 200 ms. Beside an `[rrul]` table, other traffic is left out.
///
/// With an `[rrul]` table the test is *rrul*, otherwise *rrul_be_nflows*, whose plots stock flent
/// draws of it.
///
/// # Errors
/// Never in practice: the sink is memory.
///
/// # Panics
/// If there is no such cell.
pub fn flent(sweep: &Sweep, cell: usize) -> io::Result<Vec<u8>> {
    let chosen = &sweep.all()[cell];
    let scenario = &chosen.scenario;
    let end = window(scenario).1;
    let mut model = Model::new(scenario, sweep.queues(), SEED, (Nanos::ZERO, end));
    let names = FlentNames::new(scenario, &model);
    let mut x_values = Vec::new();
    let mut series: Series = names.all().map(|name| (name, Vec::new())).collect();
    let mut seen = Seen::default();
    let mut now = Nanos::ZERO;
    while now < end {
        now = now.plus(STEP).min(end);
        model.network.run_until(now);
        x_values.push(now.0 as f64 / 1e9);
        let values = names.values(&model.network, scenario, &mut seen);
        series.iter_mut().zip(values).for_each(|(series, value)| series.1.push(value));
    }
    let keys: Vec<String> =
        chosen.keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let points = |values: &[Option<f64>]| {
        let known = x_values.iter().zip(values).filter_map(|(at, value)| Some((at, (*value)?)));
        known.map(|(at, value)| json!({ "t": at, "val": value })).collect::<Vec<_>>()
    };
    let raw_values: Map<String, Value> =
        series.iter().map(|(name, values)| (name.clone(), json!(points(values)))).collect();
    let results: Map<String, Value> =
        series.iter().map(|(name, values)| (name.clone(), json!(values))).collect();
    let [up, down] = [names.up.len(), names.down.len()].map(|count| count.to_string());
    let length = end.0 / 1_000_000_000;
    let host = "simulation";
    let data = json!({
        "version": 4,
        "metadata": {
            "NAME": names.test,
            "TITLE": keys.join(" "),
            "NOTE": format!("{}, queue {}, seed {SEED}", sweep.name(), scenario.queue),
            // Simulated time has no date.
            "TIME": "1970-01-01T00:00:00.000000Z",
            "T0": "1970-01-01T00:00:00.000000Z",
            "DATA_FILENAME": format!("{}-{}.flent.gz", sweep.name(), cell + 1),
            "HOST": host,
            "HOSTS": [host],
            "LOCAL_HOST": host,
            "LENGTH": length,
            "TOTAL_LENGTH": length,
            "STEP_SIZE": STEP.0 as f64 / 1e9,
            "TEST_PARAMETERS": { "upload_streams": up, "download_streams": down },
            "SERIES_META": {},
        },
        "x_values": x_values,
        "results": results,
        "raw_values": raw_values,
    });
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(data.to_string().as_bytes())?;
    gzip.finish()
}

/// Series of a data file, and the flows they are of.
struct FlentNames {
    test: &'static str,
    up: Vec<(String, ConnectionId)>,
    down: Vec<(String, ConnectionId)>,
    /// A probe in each direction, if there is one.
    pings: Vec<(String, [Option<DatagramsId>; 2])>,
}

/// Positions up to which values were returned.
#[derive(Default)]
struct Seen {
    bytes: Vec<u64>,
    samples: Vec<[usize; 2]>,
}

impl FlentNames {
    fn new(scenario: &Scenario, model: &Model) -> Self {
        let is_rrul = scenario.rrul.len() == 1;
        // Beside RRUL other traffic would take the names of its flows: it is left out.
        let prefix = if is_rrul { scenario.rrul.keys().next() } else { None };
        let is_named = |name: &str| prefix.is_none_or(|prefix| name.starts_with(prefix.as_str()));
        let transfers = |way: Way| {
            let of_way = model.flows.iter().filter(|(name, of, _)| *of == way && is_named(name));
            let ids = of_way.flat_map(|(_, _, flows)| match flows {
                Flows::Transfers(ids) => ids.clone(),
                _ => Vec::new(),
            });
            let word = if way == Way::Up { "upload" } else { "download" };
            let name = move |number: usize| match (is_rrul, MARKS.get(number)) {
                (true, Some(mark)) => format!("TCP {word} {mark}"),
                _ => format!("TCP {word} BE::{}", number + 1),
            };
            ids.enumerate().map(|(number, id)| (name(number), id)).collect::<Vec<_>>()
        };
        let probes = |way: Way| -> Vec<DatagramsId> {
            let of_way = model.flows.iter().filter(|(name, of, _)| *of == way && is_named(name));
            of_way
                .flat_map(|(_, _, flows)| match flows {
                    Flows::Datagrams(ids) | Flows::Calls(ids, _) => ids.clone(),
                    _ => Vec::new(),
                })
                .collect()
        };
        let (ups, downs) = (probes(Way::Up), probes(Way::Down));
        let pings = if is_rrul {
            let names = ["UDP BE", "UDP BK", "UDP EF", "ICMP"];
            let pair = |(number, name): (usize, &str)| {
                let pair = [ups.get(number).copied(), downs.get(number).copied()];
                (format!("Ping (ms) {name}"), pair)
            };
            names.into_iter().enumerate().map(pair).collect()
        } else if ups.is_empty() && downs.is_empty() {
            Vec::new()
        } else {
            let pair = [ups.first().copied(), downs.first().copied()];
            vec![("Ping (ms) ICMP".to_owned(), pair)]
        };
        let test = if is_rrul { "rrul" } else { "rrul_be_nflows" };
        Self { test, up: transfers(Way::Up), down: transfers(Way::Down), pings }
    }

    /// Returns the names of all series, those of sums and means last.
    fn all(&self) -> impl Iterator<Item = String> {
        let own = self.up.iter().chain(&self.down).map(|(name, _)| name.clone());
        let pings = self.pings.iter().map(|(name, _)| name.clone());
        let sums = ["TCP upload sum", "TCP upload avg", "TCP download sum", "TCP download avg"];
        let means = ["TCP totals", "Ping (ms) avg"];
        own.chain(pings).chain(sums.into_iter().chain(means).map(str::to_owned))
    }

    /// Returns the values of the last step, in the order of [`FlentNames::all`].
    fn values(
        &self,
        network: &TcpNetwork,
        scenario: &Scenario,
        seen: &mut Seen,
    ) -> Vec<Option<f64>> {
        let connections = self.up.iter().chain(&self.down);
        let bytes: Vec<u64> = connections.map(|(_, id)| network.goodput(*id).bytes()).collect();
        seen.bytes.resize(bytes.len(), 0);
        let rate = |(new, old): (&u64, &u64)| (new - old) as f64 * 8e3 / STEP.0 as f64;
        let rates: Vec<f64> = bytes.iter().zip(&seen.bytes).map(rate).collect();
        seen.bytes = bytes;
        seen.samples.resize(self.pings.len(), [0; 2]);
        let idle = scenario.link.round_trip.0.0 as f64 / 2e6;
        let pings: Vec<Option<f64>> = self
            .pings
            .iter()
            .zip(&mut seen.samples)
            .map(|((_, pair), seen)| {
                let [up, down] = [0, 1].map(|way| {
                    let samples = network.delays(pair[way]?).samples();
                    let new = samples.get(seen[way]..).unwrap_or_default();
                    seen[way] = samples.len();
                    let sum: u64 = new.iter().map(|delay| delay.0).sum();
                    (!new.is_empty()).then(|| sum as f64 / new.len() as f64 / 1e6)
                });
                // A direction without a probe counts as idle.
                let one = |way: usize, delay: Option<f64>| match pair[way] {
                    Some(_) => delay,
                    None => Some(idle),
                };
                Some(one(0, up)? + one(1, down)?)
            })
            .collect();
        let (up, down) = rates.split_at(self.up.len());
        let sum = |of: &[f64]| of.iter().sum::<f64>();
        let mean = |of: &[f64]| (!of.is_empty()).then(|| sum(of) / of.len() as f64);
        let known: Vec<f64> = pings.iter().flatten().copied().collect();
        let totals =
            [Some(sum(up)), mean(up), Some(sum(down)), mean(down), Some(sum(&rates)), mean(&known)];
        rates.iter().copied().map(Some).chain(pings).chain(totals).collect()
    }
}

/// Returns a reason in words: `LimitLowered` as *limit lowered*.
fn word(reason: DropReason) -> String {
    let name = format!("{reason:?}");
    let letters = name.chars().enumerate().map(|(index, letter)| {
        let gap = if index > 0 && letter.is_uppercase() { " " } else { "" };
        format!("{gap}{}", letter.to_ascii_lowercase())
    });
    letters.collect()
}

/// Names of the four code points of RRUL in flent.
const MARKS: [&str; 4] = ["BE", "BK", "CS5", "EF"];

/// Runs a cell with seed 1 and returns its packets as pcapng: an interface for each direction, and
/// each packet when it is enqueued, sent, dropped or rejected, with a comment that says so.
///
/// # Errors
/// Never in practice: the sink is memory.
///
/// # Panics
/// If there is no such cell.
pub fn pcapng(sweep: &Sweep, cell: usize) -> io::Result<Vec<u8>> {
    let scenario = &sweep.all()[cell].scenario;
    let end = window(scenario).1;
    let mut model = Model::new(scenario, sweep.queues(), SEED, (Nanos::ZERO, end));
    model.network.log_packets();
    let mut writer = CommentWriter::new(Vec::new(), &["uplink", "downlink"])?;
    let mut now = Nanos::ZERO;
    while now < end {
        now = now.plus(Nanos::from_secs(1)).min(end);
        model.network.run_until(now);
        let log = |way: Way, number: u32| (number, way);
        let mut entries = Vec::new();
        for (number, way) in [log(Way::Up, 0), log(Way::Down, 1)] {
            let logged = model.network.take_log(way);
            entries.extend(logged.into_iter().map(|entry| (entry.at, number, entry)));
        }
        // Stable: events of one time stay in their order.
        entries.sort_by_key(|entry| (entry.0, entry.1));
        for (at, interface, entry) in entries {
            let comment = match entry.event {
                PacketEvent::Enqueued => "enqueue".to_owned(),
                PacketEvent::Sent => "dequeue".to_owned(),
                PacketEvent::Marked => "dequeue, marked CE".to_owned(),
                PacketEvent::Dropped(reason) => format!("drop: {}", word(reason)),
                PacketEvent::Rejected => "drop: rejected on arrival".to_owned(),
            };
            writer.write(at, interface, &entry.headers, entry.len, &comment)?;
        }
    }
    writer.finish()
}
