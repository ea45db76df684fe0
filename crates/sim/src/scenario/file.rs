//! Keys of an experiment file.
//!
//! Rates and times are text in the notation of `tc`: `"10mbit"`, `"50ms"`. Sizes are in bytes.
//! Traffic has a name of the user's own: `[bulk.backup]` is a group of TCP transfers named
//! *backup*. `direction` is `"up"`, `"down"` or `"both"`, which is one of each.

use core::fmt::Display;
use core::num::{NonZeroU8, NonZeroU32};
use core::ops::RangeInclusive;
use core::str::FromStr;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use conformance::rng::Streams;
use freeboard::Dscp;
use freeboard::sched_core::{Ecn, Nanos};
use freeboard::shaper::{Overhead, Rate};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::queues::{Place, Queues};
use crate::notation;
use crate::sizes::FlowSizes;
use crate::source::Gop;
use crate::tcp::Config;
use crate::tcp::congestion::{Bbr, Cubic, NewReno, Prague};
use crate::tcp::network::Way;

/// Maximum number of flows of a kind, and of objects of a page.
const FLOWS: u64 = 10_000;
/// Maximum UDP payload: a packet of 1,500 bytes.
const PAYLOAD: u64 = 1_472;

/// A value that is written as text and parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
    }
}

/// A rate that a link or a source can have: finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiniteRate(pub Rate);

impl FromStr for FiniteRate {
    type Err = notation::RateNotationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        notation::rate(text).map(Self)
    }
}

/// An experiment without its sweep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Title of the report; the name of the file by default.
    pub title: Option<String>,
    /// Number of seeds: runs use the seeds 1, 2, …
    #[serde(default = "ten")]
    pub seeds: NonZeroU32,
    /// Time before the measurement.
    #[serde(default = "five_seconds")]
    pub warm_up: Text<Nanos>,
    /// Duration of the measurement.
    pub duration: Text<Nanos>,
    /// Queue in front of the link, in both directions: a name of [`Queues`], and its settings.
    pub queue: String,
    /// Queue of the download direction, if it is another.
    pub queue_down: Option<String>,
    /// The link.
    pub link: LinkKeys,
    /// TCP transfers without end, or of a number of bytes.
    #[serde(default)]
    pub bulk: BTreeMap<String, Bulk>,
    /// Packets at a constant rate.
    #[serde(default)]
    pub cbr: BTreeMap<String, Stream>,
    /// Packets at random times, independent of each other.
    #[serde(default)]
    pub poisson: BTreeMap<String, Stream>,
    /// Packets at a constant rate for a random time, then none.
    #[serde(default)]
    pub on_off: BTreeMap<String, OnOffKeys>,
    /// Telephone calls, rated by the E-model.
    #[serde(default)]
    pub call: BTreeMap<String, CallKeys>,
    /// Video of variable rate, in groups of pictures.
    #[serde(default)]
    pub video: BTreeMap<String, VideoKeys>,
    /// Browsers that load pages.
    #[serde(default)]
    pub pages: BTreeMap<String, PagesKeys>,
    /// Uploads to peers.
    #[serde(default)]
    pub p2p: BTreeMap<String, PeerKeys>,
    /// Flent's test RRUL.
    #[serde(default)]
    pub rrul: BTreeMap<String, RrulKeys>,
    /// TCP transfers that arrive at random, with random sizes.
    #[serde(default)]
    pub flows: BTreeMap<String, ArrivalKeys>,
    /// Lengths and times of a recorded capture.
    #[serde(default)]
    pub trace: BTreeMap<String, TraceKeys>,
    /// Read apart: its values replace those of other keys.
    #[serde(default, rename = "sweep")]
    _sweep: IgnoredAny,
}

/// The link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkKeys {
    /// Upload rate.
    pub up: Text<FiniteRate>,
    /// Download rate; the upload rate by default.
    pub down: Option<Text<FiniteRate>>,
    /// Round-trip time without queueing and transmission.
    pub round_trip: Text<Nanos>,
    /// Framing keywords, as for CAKE: `"ethernet"`, `"atm overhead 40"`. Raw IP by default.
    #[serde(default)]
    pub framing: String,
    /// Maximum number of queued packets in each direction; for `smart` its own limit by default,
    /// else 1,000.
    pub limit: Option<NonZeroU32>,
}

impl LinkKeys {
    /// Returns the framing.
    ///
    /// # Panics
    /// If the keywords are invalid, which reading the file rules out.
    #[must_use]
    pub fn overhead(&self) -> Overhead {
        Overhead::from_keywords(&self.framing, 0).expect("checked when the file was read")
    }

    /// Returns the rate of a direction.
    #[must_use]
    pub fn rate(&self, way: Way) -> Rate {
        match (way, self.down) {
            (Way::Down, Some(down)) => down.0.0,
            _ => self.up.0.0,
        }
    }
}

/// Direction of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From home to the Internet.
    Up,
    /// From the Internet to home.
    Down,
    /// One of each.
    Both,
}

impl Direction {
    /// Returns the name of traffic in one of the directions: with the direction if there are both.
    #[must_use]
    pub fn named(self, name: &str, way: Way) -> String {
        match (self, way) {
            (Self::Both, Way::Up) => format!("{name} up"),
            (Self::Both, Way::Down) => format!("{name} down"),
            _ => name.to_owned(),
        }
    }

    /// Returns the directions of the link.
    #[must_use]
    pub const fn ways(self) -> &'static [Way] {
        match self {
            Self::Up => &[Way::Up],
            Self::Down => &[Way::Down],
            Self::Both => &[Way::Up, Way::Down],
        }
    }
}

/// Congestion control of a TCP sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// NewReno (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// CUBIC with ECN.
    CubicEcn,
    /// A scalable sender with ECT(1), like Prague.
    Prague,
    /// A model of BBR.
    Bbr,
}

impl Congestion {
    /// Returns the function that configures a transfer without end.
    #[must_use]
    pub fn config(self) -> fn() -> Config {
        match self {
            Self::Reno => || Config::new(Box::new(NewReno::new(Ecn::NotEct))),
            Self::Cubic => || Config::new(Box::new(Cubic::new(Ecn::NotEct))),
            Self::CubicEcn => || Config::new(Box::new(Cubic::new(Ecn::Ect0))),
            Self::Prague => || Config::new(Box::new(Prague::new())),
            Self::Bbr => || Config::new(Box::new(Bbr::new())),
        }
    }
}

/// TCP transfers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bulk {
    /// Direction of the data.
    pub direction: Direction,
    /// Number of transfers.
    #[serde(default = "one")]
    pub count: NonZeroU32,
    /// Bytes of each; without end by default.
    pub bytes: Option<u64>,
    /// Congestion control.
    #[serde(default)]
    pub congestion: Congestion,
    /// Start of the first transfer.
    #[serde(default = "immediately")]
    pub start: Text<Nanos>,
    /// Each starts at a random time within this one after `start`.
    #[serde(default = "one_second")]
    pub spread: Text<Nanos>,
    /// Code point of all packets, including acknowledgements.
    #[serde(default = "best_effort")]
    pub dscp: Text<Dscp>,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
    /// Last byte of the address on the Internet.
    #[serde(default = "first")]
    pub server: NonZeroU8,
}

/// Packets of one length at a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stream {
    /// Direction of the packets.
    pub direction: Direction,
    /// Number of streams.
    #[serde(default = "one")]
    pub count: NonZeroU32,
    /// Rate of the payload of each.
    pub rate: Text<FiniteRate>,
    /// UDP payload of a packet in bytes.
    pub size: NonZeroU32,
    /// Code point.
    #[serde(default = "best_effort")]
    pub dscp: Text<Dscp>,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
    /// Last byte of the address on the Internet.
    #[serde(default = "first")]
    pub server: NonZeroU8,
}

/// Distribution of on and off periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeriodKeys {
    /// Exponential.
    #[default]
    Exponential,
    /// Pareto with shape 1.5.
    Pareto,
}

/// Packets at a constant rate while on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnOffKeys {
    /// Direction of the packets.
    pub direction: Direction,
    /// Number of sources.
    #[serde(default = "one")]
    pub count: NonZeroU32,
    /// Rate of the payload while on.
    pub rate: Text<FiniteRate>,
    /// UDP payload of a packet in bytes.
    pub size: NonZeroU32,
    /// Mean on period.
    pub on: Text<Nanos>,
    /// Mean off period.
    pub off: Text<Nanos>,
    /// Distribution of the periods.
    #[serde(default)]
    pub periods: PeriodKeys,
    /// Code point.
    #[serde(default = "best_effort")]
    pub dscp: Text<Dscp>,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
    /// Last byte of the address on the Internet.
    #[serde(default = "first")]
    pub server: NonZeroU8,
}

/// Codec of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodecKey {
    /// G.711, 64 kbit/s.
    #[default]
    G711,
    /// G.729A, 8 kbit/s.
    G729,
}

/// Calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CallKeys {
    /// Direction of speech.
    #[serde(default = "both")]
    pub direction: Direction,
    /// Number of calls.
    #[serde(default = "one")]
    pub count: NonZeroU32,
    /// Codec.
    #[serde(default)]
    pub codec: CodecKey,
    /// Sends only while someone speaks, with the means of ITU-T P.59.
    #[serde(default)]
    pub talk_spurts: bool,
    /// Code point.
    #[serde(default = "best_effort")]
    pub dscp: Text<Dscp>,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
    /// Last byte of the address on the Internet.
    #[serde(default = "first")]
    pub server: NonZeroU8,
}

/// Video.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VideoKeys {
    /// Direction of the video.
    pub direction: Direction,
    /// Number of videos.
    #[serde(default = "one")]
    pub count: NonZeroU32,
    /// Mean rate of the payload.
    pub rate: Text<FiniteRate>,
    /// Frames per second.
    #[serde(default = "twenty_five")]
    pub frame_rate: f64,
    /// Group of pictures.
    #[serde(default = "mpeg2")]
    pub gop: Text<Gop>,
    /// Sizes of I, P and B frames relative to each other.
    #[serde(default = "ratio")]
    pub ratio: [f64; 3],
    /// Rate at which the packets of a frame are sent; evenly over the frame interval by default.
    pub peak: Option<Text<FiniteRate>>,
    /// Code point.
    #[serde(default = "best_effort")]
    pub dscp: Text<Dscp>,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
    /// Last byte of the address on the Internet.
    #[serde(default = "first")]
    pub server: NonZeroU8,
}

/// Browsers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PagesKeys {
    /// Number of browsers.
    #[serde(default = "one")]
    pub count: NonZeroU32,
    /// Bytes of the document.
    #[serde(default = "document")]
    pub document: u64,
    /// Number of objects of a page.
    #[serde(default = "objects")]
    pub objects: u32,
    /// Bytes of an object.
    #[serde(default = "object")]
    pub object: u64,
    /// Number of connections at the same time.
    #[serde(default = "six")]
    pub connections: NonZeroU32,
    /// Mean pause after a page.
    #[serde(default = "five_seconds")]
    pub think: Text<Nanos>,
    /// Congestion control of the server.
    #[serde(default)]
    pub congestion: Congestion,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
    /// Last byte of the address on the Internet.
    #[serde(default = "first")]
    pub server: NonZeroU8,
}

/// Uploads to peers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PeerKeys {
    /// Number of peers.
    pub peers: NonZeroU8,
    /// Congestion control.
    #[serde(default)]
    pub congestion: Congestion,
}

/// Flent's test RRUL.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RrulKeys {
    /// Congestion control.
    #[serde(default)]
    pub congestion: Congestion,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
}

/// Distribution of sizes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizesKey {
    /// Web search (Alizadeh et al. 2010).
    WebSearch,
    /// Data mining (Greenberg et al. 2009).
    DataMining,
}

impl SizesKey {
    /// Returns the distribution.
    #[must_use]
    pub const fn sizes(self) -> FlowSizes {
        match self {
            Self::WebSearch => FlowSizes::WebSearch,
            Self::DataMining => FlowSizes::DataMining,
        }
    }
}

/// Transfers that arrive at random.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ArrivalKeys {
    /// Direction of the data.
    pub direction: Direction,
    /// Payload that arrives in the mean.
    pub load: Text<FiniteRate>,
    /// Distribution of the sizes.
    pub sizes: SizesKey,
    /// Congestion control.
    #[serde(default)]
    pub congestion: Congestion,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
    /// Last byte of the address on the Internet.
    #[serde(default = "first")]
    pub server: NonZeroU8,
}

/// A recorded capture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TraceKeys {
    /// Direction of the packets.
    pub direction: Direction,
    /// The capture, relative to the experiment file: pcap or pcapng.
    pub file: std::path::PathBuf,
    /// Time of the first packet.
    #[serde(default = "immediately")]
    pub start: Text<Nanos>,
    /// Code point.
    #[serde(default = "best_effort")]
    pub dscp: Text<Dscp>,
    /// Last byte of the address at home.
    #[serde(default = "first")]
    pub host: NonZeroU8,
    /// Last byte of the address on the Internet.
    #[serde(default = "first")]
    pub server: NonZeroU8,
    /// Contents of the file.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

impl Scenario {
    /// Reads the files of traces and checks what a single key does not show.
    ///
    /// # Errors
    /// The path of the key that is wrong, and what was expected.
    pub(super) fn checked(
        mut self,
        folder: &Path,
        queues: &Queues,
    ) -> Result<Self, (String, String)> {
        let of = |path: &str, why: String| (path.to_owned(), why);
        self.check_numbers().map_err(|(path, found, range)| {
            let range = format!("expected {} to {}", range.start(), range.end());
            of(&path, format!("{found} is out of range ({range})"))
        })?;
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for (path, name) in self.traffic_names() {
            if let Some(other) = names.insert(name.clone(), path.clone()) {
                let why =
                    format!("{other} has the name {name:?} in the report too (expected another)");
                return Err(of(&path, why));
            }
        }
        Overhead::from_keywords(&self.link.framing, 0)
            .map_err(|error| of("link.framing", error.to_string()))?;
        for (path, queue) in
            [("queue", Some(&self.queue)), ("queue-down", self.queue_down.as_ref())]
        {
            let Some(queue) = queue else { continue };
            for way in [Way::Up, Way::Down] {
                queues.build(queue, &self.place(way, 1)).map_err(|why| of(path, why))?;
            }
        }
        if self.duration.0 == Nanos::ZERO {
            return Err(of("duration", "expected more than 0s".to_owned()));
        }
        for (name, trace) in &mut self.trace {
            let path = folder.join(&trace.file);
            let named = |why: String| {
                of(&format!("trace.{name}.file"), format!("{}: {why}", path.display()))
            };
            trace.bytes = fs::read(&path).map_err(|error| named(error.to_string()))?;
            crate::source::Trace::read(&trace.bytes, Nanos::ZERO)
                .map_err(|error| named(error.to_string()))?;
        }
        for (name, video) in &self.video {
            super::run::video(video, Nanos::ZERO)
                .with(Streams::new(1).stream("video"))
                .map_err(|error| of(&format!("video.{name}"), error.to_string()))?;
        }
        Ok(self)
    }
}

const fn ten() -> NonZeroU32 {
    NonZeroU32::new(10).unwrap()
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

const fn first() -> NonZeroU8 {
    NonZeroU8::MIN
}

const fn six() -> NonZeroU32 {
    NonZeroU32::new(6).unwrap()
}

const fn immediately() -> Text<Nanos> {
    Text(Nanos::ZERO)
}

const fn one_second() -> Text<Nanos> {
    Text(Nanos::from_secs(1))
}

const fn five_seconds() -> Text<Nanos> {
    Text(Nanos::from_secs(5))
}

const fn best_effort() -> Text<Dscp> {
    Text(Dscp::CS0)
}

const fn both() -> Direction {
    Direction::Both
}

const fn twenty_five() -> f64 {
    25.0
}

const fn document() -> u64 {
    28_000
}

const fn objects() -> u32 {
    42
}

const fn object() -> u64 {
    16_000
}

fn mpeg2() -> Text<Gop> {
    Text(Gop::mpeg2())
}

const fn ratio() -> [f64; 3] {
    [5.0, 3.0, 1.0]
}

impl Scenario {
    /// Returns the first number that is out of range: the path of its key, the number, the range.
    fn check_numbers(&self) -> Result<(), (String, u64, RangeInclusive<u64>)> {
        let mut numbers: Vec<(String, u64, RangeInclusive<u64>)> =
            vec![("seeds".to_owned(), self.seeds.get().into(), 1..=10_000)];
        if let Some(limit) = self.link.limit {
            numbers.push(("link.limit".to_owned(), limit.get().into(), 1..=1_000_000));
        }
        let mut add = |kind: &str, name: &str, key: &str, number: u32, most: u64| {
            numbers.push((format!("{kind}.{name}.{key}"), number.into(), 0..=most));
        };
        self.bulk.iter().for_each(|(name, of)| add("bulk", name, "count", of.count.get(), FLOWS));
        for (kind, all) in [("cbr", &self.cbr), ("poisson", &self.poisson)] {
            for (name, of) in all {
                add(kind, name, "count", of.count.get(), FLOWS);
                add(kind, name, "size", of.size.get(), PAYLOAD);
            }
        }
        for (name, of) in &self.on_off {
            add("on-off", name, "count", of.count.get(), FLOWS);
            add("on-off", name, "size", of.size.get(), PAYLOAD);
        }
        self.call.iter().for_each(|(name, of)| add("call", name, "count", of.count.get(), FLOWS));
        for (name, of) in &self.video {
            add("video", name, "count", of.count.get(), FLOWS);
            // As an integer: a rate below one frame in a second is in range.
            add("video", name, "frame-rate", of.frame_rate.min(1e9) as u32, 1_000);
        }
        for (name, of) in &self.pages {
            add("pages", name, "count", of.count.get(), FLOWS);
            add("pages", name, "objects", of.objects, FLOWS);
        }
        let wrong = numbers.into_iter().find(|(_, number, range)| !range.contains(number));
        wrong.map_or(Ok(()), Err)
    }

    /// Returns the names of all traffic in the report, with the paths of their tables.
    fn traffic_names(&self) -> Vec<(String, String)> {
        let mut names = Vec::new();
        let mut add = |kind: &str, name: &str, direction: Direction| {
            for &way in direction.ways() {
                names.push((format!("{kind}.{name}"), direction.named(name, way)));
            }
        };
        self.bulk.iter().for_each(|(name, of)| add("bulk", name, of.direction));
        self.cbr.iter().for_each(|(name, of)| add("cbr", name, of.direction));
        self.poisson.iter().for_each(|(name, of)| add("poisson", name, of.direction));
        self.on_off.iter().for_each(|(name, of)| add("on-off", name, of.direction));
        self.call.iter().for_each(|(name, of)| add("call", name, of.direction));
        self.video.iter().for_each(|(name, of)| add("video", name, of.direction));
        self.flows.iter().for_each(|(name, of)| add("flows", name, of.direction));
        self.trace.iter().for_each(|(name, of)| add("trace", name, of.direction));
        self.pages.keys().for_each(|name| add("pages", name, Direction::Down));
        self.p2p.keys().for_each(|name| add("p2p", name, Direction::Up));
        for name in self.rrul.keys() {
            for what in ["upload", "download", "probes up", "probes down"] {
                names.push((format!("rrul.{name}"), format!("{name} {what}")));
            }
        }
        names
    }

    /// Returns where a queue is: its direction, rate and framing.
    #[must_use]
    pub fn place(&self, way: Way, seed: u64) -> Place {
        let LinkKeys { limit, .. } = self.link;
        Place { way, rate: self.link.rate(way), overhead: self.link.overhead(), limit, seed }
    }

    /// Returns the queue of a direction, as in the file.
    #[must_use]
    pub fn queue(&self, way: Way) -> &str {
        match (way, &self.queue_down) {
            (Way::Down, Some(queue)) => queue,
            _ => &self.queue,
        }
    }
}
