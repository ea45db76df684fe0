//! What the gateway is told, by words and by a file, and checked before anything is opened.

pub(crate) mod keywords;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod per_host;

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::ValueParserFactory;
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser, ValueParser};
use freeboard::Isolation;
use freeboard::sched_core::Nanos;
use freeboard::shaper::{Framing, Overhead, Rate};
use serde::Deserialize;
use toml::Spanned;

use crate::config::keywords::{HostMode, Io, Limit, QueueKind, Words, number, rate, rate_word};
use crate::io::frame::ETHERNET_HEADER;

/// Options as they were written: in the file, or as words. Each may be absent. The comment of an option is
/// what the help says of it.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[group(skip)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Written {
    /// The device on the side of the hosts.
    #[arg(long, value_name = "DEV", help_heading = "Devices and rates")]
    pub(crate) lan: Option<Word>,
    /// The device on the side of the line.
    #[arg(long, value_name = "DEV", help_heading = "Devices and rates")]
    pub(crate) wan: Option<Word>,
    /// 10mbit, 512kbit, 1gbit, unlimited, or bits per second.
    #[arg(long, value_name = "RATE", help_heading = "Devices and rates")]
    pub(crate) up: Option<Word>,
    /// The same for the way back.
    #[arg(long, value_name = "RATE", help_heading = "Devices and rates")]
    pub(crate) down: Option<Word>,
    /// Sockets on existing interfaces, or TAP devices to attach to [default: packet].
    #[arg(long, value_name = "WORD", help_heading = "Devices and rates", value_parser = one_of::<Io>())]
    pub(crate) io: Option<Word>,
    /// Which flow is next [default: drr].
    #[arg(long, value_name = "WORD", help_heading = "Queues", value_parser = one_of::<QueueKind>())]
    pub(crate) queue: Option<Word>,
    /// What has equal shares. With lan these are the hosts on the lan side and then their flows
    /// [default: lan with drr, flows with others].
    #[arg(long, value_name = "WORD", help_heading = "Queues", value_parser = one_of::<HostMode>())]
    pub(crate) hosts: Option<Word>,
    /// Hosts told apart at once, 1 to 16384; beyond them, two and more share one share. Queues grow
    /// with it: 1.5 kB a host and direction [default: 2048].
    #[arg(long, value_name = "N", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) max_hosts: Option<Word>,
    /// What each direction may hold: bytes, and at most 8192 packets then, or packets with a p behind
    /// them. Each takes memory: the MTU and about 300 bytes [default: 4194304; with fifo 1000p, as
    /// many as a modem holds].
    #[arg(long, value_name = "N", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) limit: Option<Word>,
    /// With sqf: a queue that has to make room and was not served for this many milliseconds is dropped
    /// whole, 0 to 60000; 0 is never [default: 0].
    #[arg(long, value_name = "MS", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) flush_unserved: Option<Word>,
    /// Bytes that the line adds to an IP packet, -64 to 256.
    #[arg(long, value_name = "N", help_heading = "The line", allow_negative_numbers = true)]
    pub(crate) overhead: Option<Word>,
    /// The least bytes of a packet on the line, 0 to 256.
    #[arg(long, value_name = "N", help_heading = "The line", allow_negative_numbers = true)]
    pub(crate) mpu: Option<Word>,
    /// Cells of ATM, or the 64b/65b encoding of PTM [default: none].
    #[arg(long, value_name = "WORD", help_heading = "The line", value_parser = one_of::<Framing>())]
    pub(crate) framing: Option<Word>,
    /// How late a timer may be, in milliseconds, without the line losing time, 0 to 1000
    /// [default: 10].
    #[arg(long, value_name = "MS", help_heading = "The line", allow_negative_numbers = true)]
    pub(crate) catch_up: Option<Word>,
    /// A Unix socket on which statistics are given, a line of JSON each time.
    #[arg(long, value_name = "SOCKET", help_heading = "Statistics")]
    pub(crate) stats: Option<Word>,
    /// How often, in seconds, 1 to 86400 [default: 1].
    #[arg(long, value_name = "SECS", help_heading = "Statistics", allow_negative_numbers = true)]
    pub(crate) stats_every: Option<Word>,
    /// An address, such as 127.0.0.1:9100, that answers HTTP with metrics for Prometheus.
    #[arg(long, value_name = "ADDR", help_heading = "Statistics")]
    pub(crate) metrics: Option<Word>,
    /// The user whose rights the gateway keeps once the devices are open, if root started it
    /// [default: "nobody"].
    #[arg(long, value_name = "NAME", help_heading = "Running")]
    pub(crate) user: Option<Word>,
    /// By address, as it is written.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) weights: BTreeMap<String, Word>,
    /// By address, as it is written.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) rates: BTreeMap<String, Word>,
    /// By address, as it is written.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) ceils: BTreeMap<String, Word>,
    /// The old word for `rates`.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) caps: BTreeMap<String, Word>,
    /// The file of those words that are from a file.
    #[arg(skip)]
    #[serde(skip)]
    origin: Option<Origin>,
}

/// A value as it was written, and where.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Spanned<Bare>")]
pub(crate) struct Word {
    text: String,
    /// Of a word in the file, where it begins there.
    begin: Option<usize>,
}

/// A value: a string, or a number that stands without quotes.
#[derive(Deserialize)]
#[serde(untagged, expecting = "accepted is a string or a whole number")]
enum Bare {
    Text(String),
    Number(i64),
}

impl From<Spanned<Bare>> for Word {
    fn from(word: Spanned<Bare>) -> Self {
        let begin = Some(word.span().start);
        let text = match word.into_inner() {
            Bare::Text(text) => text,
            Bare::Number(number) => number.to_string(),
        };
        Self { text, begin }
    }
}

/// Any UTF-8; what else is asked of a word is asked of those in the file too.
impl ValueParserFactory for Word {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        let utf8 = |word: OsString| word.into_string().map_err(|_| "accepted is UTF-8");
        ValueParser::new(OsStringValueParser::new().try_map(utf8).map(Word::said))
    }
}

/// One of the words of a type, which a shell can complete.
fn one_of<T: Words>() -> impl TypedValueParser<Value = Word> {
    PossibleValuesParser::new(T::WORDS.iter().map(|(word, _)| *word)).map(Word::said)
}

impl Word {
    /// A word of the command line.
    fn said(text: String) -> Self {
        Self { text, begin: None }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The file that words were read from.
#[derive(Clone, Debug)]
struct Origin {
    path: PathBuf,
    text: String,
}

impl Origin {
    /// The number of the line in which the byte `at` is, from 1, and the line, of which a long one is cut.
    fn line(&self, at: usize) -> (usize, String) {
        let before = self.text.get(..at).unwrap_or("");
        let line = before.matches('\n').count();
        let written = self.text.lines().nth(line).unwrap_or("").trim();
        (line + 1, written.chars().take(SHOWN).collect())
    }

    fn named(path: &Path, why: &str) -> String {
        format!("--config {}: {why}", path.display())
    }
}

/// One direction's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    pub(crate) kind: QueueKind,
    pub(crate) hosts: HostMode,
    /// Hosts that are told apart at once, where they are told apart and not a fixed number.
    pub(crate) max_hosts: u32,
    pub(crate) limit: Limit,
    /// With SQF: a queue that has to make room and was not served for so long is dropped whole.
    pub(crate) flush_unserved: Option<Nanos>,
}

/// All that was told, in range and without contradictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) lan: String,
    pub(crate) wan: String,
    pub(crate) io: Io,
    pub(crate) up: Rate,
    pub(crate) down: Rate,
    pub(crate) share: Sharing,
    pub(crate) link: Overhead,
    /// How late a timer may be without the line losing time.
    pub(crate) catch_up: Nanos,
    pub(crate) stats: Option<PathBuf>,
    pub(crate) stats_every: u64,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) user: String,
    /// The weights of hosts on the LAN side; the others have 1.
    pub(crate) weights: BTreeMap<IpAddr, u32>,
    /// The committed rates of hosts on the LAN side, each way; the others have none.
    pub(crate) rates: BTreeMap<IpAddr, Rate>,
    /// The ceilings of hosts on the LAN side, each way; the others have none.
    pub(crate) ceils: BTreeMap<IpAddr, Rate>,
    /// What is written with a word that will not be accepted for long.
    pub(crate) hints: Vec<&'static str>,
    /// Where it was written.
    pub(crate) places: Places,
}

/// Where options were written whose values the system may refuse: file and line, by option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(BTreeMap<&'static str, String>);

impl Places {
    /// Puts the place of an option's value in front of what is wrong with it, if that place is a file.
    pub(crate) fn of(&self, option: &str) -> impl Fn(String) -> String + use<> {
        let place = self.0.get(option).cloned().unwrap_or_default();
        move |why| format!("{place}{why}")
    }
}

/// What is said of `[caps]`.
const CAPS_ARE_RATES: &str =
    "caps: accepted for this release, the word is rates; a limit on an idle line is one of ceils";

/// The heaviest host.
pub(crate) const MAX_WEIGHT: u32 = 1_000;

/// Hosts that are told apart, if nothing is said.
pub(crate) const DEFAULT_MAX_HOSTS: u32 = 2_048;
/// The most hosts that can be asked for.
const MOST_HOSTS: u32 = 16_384;

/// How late a timer may be, in milliseconds, without the line losing time, if nothing is said: what a busy
/// home router keeps a process waiting.
const DEFAULT_CATCH_UP: i64 = 10;

/// The longest time without service, in milliseconds, that can be asked for.
const LONGEST_UNSERVED: i64 = 60_000;

/// The longest configuration file, in bytes: some ten thousand weights, read in a few milliseconds while
/// frames wait.
const LONGEST_FILE: u64 = 256 << 10;
/// Letters of a line that are shown with what is wrong with it.
const SHOWN: usize = 60;

/// What each direction may hold if nothing is said: enough for the queues of many flows, which an AQM keeps short.
const DEFAULT_LIMIT: Limit = Limit::Bytes(4 << 20);
/// What a FIFO may hold if nothing is said. No AQM keeps it short, so it holds what a modem does.
const DEFAULT_LIMIT_OF_FIFO: Limit = Limit::Packets(1_000);

impl Written {
    /// Reads a file; one line says what is wrong with it.
    pub(crate) fn from_file(path: &Path) -> Result<Self, String> {
        let named = |why: &str| Origin::named(path, why);
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut text))
            .map_err(|error| named(&error.to_string()))?;
        if text.len() as u64 > LONGEST_FILE {
            return Err(named(&format!("accepted are at most {LONGEST_FILE} bytes")));
        }
        let text = String::from_utf8(text).map_err(|_| named("accepted is UTF-8"))?;
        Self::from_text(path, text)
    }

    /// Reads the text of the file at `path`.
    pub(crate) fn from_text(path: &Path, text: String) -> Result<Self, String> {
        let read = toml::from_str::<Self>(&text);
        let origin = Origin { path: path.to_owned(), text };
        match read {
            Ok(written) => Ok(Self { origin: Some(origin), ..written }),
            Err(error) => {
                let (number, line) = origin.line(error.span().map_or(0, |span| span.start));
                let why = error.message().replace('\n', ", ");
                Err(Origin::named(path, &format!("line {number} {line:?}: {why}")))
            }
        }
    }

    /// What stands in front of what is wrong with `word`: the file and the line, of a word in a file.
    fn place(&self, word: Option<&Word>) -> String {
        match (&self.origin, word.and_then(|word| word.begin)) {
            (Some(origin), Some(begin)) => {
                Origin::named(&origin.path, &format!("line {}: ", origin.line(begin).0))
            }
            _ => String::new(),
        }
    }

    /// The value of an option, if it is given; what is wrong with it begins with its place.
    fn read<T>(
        &self,
        option: &str,
        word: &Option<Word>,
        parse: impl FnOnce(&str, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(word) = word else { return Ok(None) };
        parse(option, word.text()).map(Some).map_err(|why| self.place(Some(word)) + &why)
    }

    /// What `self` says, and where it says nothing, what `file` says.
    pub(crate) fn over(self, file: Self) -> Self {
        let weights = if self.weights.is_empty() { file.weights } else { self.weights };
        let rates = if self.rates.is_empty() { file.rates } else { self.rates };
        let ceils = if self.ceils.is_empty() { file.ceils } else { self.ceils };
        let caps = if self.caps.is_empty() { file.caps } else { self.caps };
        Self {
            lan: self.lan.or(file.lan),
            wan: self.wan.or(file.wan),
            up: self.up.or(file.up),
            down: self.down.or(file.down),
            io: self.io.or(file.io),
            queue: self.queue.or(file.queue),
            hosts: self.hosts.or(file.hosts),
            max_hosts: self.max_hosts.or(file.max_hosts),
            limit: self.limit.or(file.limit),
            flush_unserved: self.flush_unserved.or(file.flush_unserved),
            overhead: self.overhead.or(file.overhead),
            mpu: self.mpu.or(file.mpu),
            framing: self.framing.or(file.framing),
            catch_up: self.catch_up.or(file.catch_up),
            stats: self.stats.or(file.stats),
            stats_every: self.stats_every.or(file.stats_every),
            metrics: self.metrics.or(file.metrics),
            user: self.user.or(file.user),
            weights,
            rates,
            ceils,
            caps,
            // The words of `self` are those of the command line.
            origin: file.origin,
        }
    }

    /// Checks everything, in the order of the help.
    pub(crate) fn check(&self) -> Result<Config, String> {
        let needed = |option: &str, word: &Option<Word>, what: &str| match word {
            Some(word) if !word.text().is_empty() => Ok(word.text().to_owned()),
            _ => Err(format!("{option} is missing: {what}")),
        };
        let lan = needed("--lan", &self.lan, "the device of the hosts")?;
        let wan = needed("--wan", &self.wan, "the device of the line")?;
        if lan == wan {
            let place = self.place(self.wan.as_ref());
            return Err(format!("{place}--wan {wan:?}: is the device of --lan; two are needed"));
        }
        let needed_rate = |option: &str, word: &Option<Word>| {
            needed(option, word, "a rate such as 10mbit, or unlimited")?;
            self.read(option, word, rate).map(|rate| rate.unwrap_or(Rate::UNLIMITED))
        };
        let up = needed_rate("--up", &self.up)?;
        let down = needed_rate("--down", &self.down)?;
        let io = self.read("--io", &self.io, Io::parse)?;
        let (kind, hosts) = self.kind_and_hosts()?;
        let limit = self.read("--limit", &self.limit, Limit::parse)?;
        let limit = limit.unwrap_or(match kind {
            QueueKind::Fifo => DEFAULT_LIMIT_OF_FIFO,
            _ => DEFAULT_LIMIT,
        });
        let flush_unserved = self.flush_unserved(kind)?;
        let every = self.in_range("--stats-every", &self.stats_every, 1..=86_400)?;
        let catch_up = self.in_range("--catch-up", &self.catch_up, 0..=1_000)?;
        let metrics = self.read("--metrics", &self.metrics, |option, word| {
            // For port 0 the system would choose a port that is written nowhere.
            let address = word.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
            address.ok_or_else(|| {
                format!("{option} {word:?}: accepted is ADDRESS:PORT, such as 127.0.0.1:9100")
            })
        })?;
        let stats = self.read("--stats", &self.stats, |option, word| match word {
            "" => Err(format!("{option} \"\": accepted is a path for a socket")),
            path => Ok(PathBuf::from(path)),
        })?;
        Ok(Config {
            lan,
            wan,
            io: io.unwrap_or_default(),
            up,
            down,
            share: Sharing {
                kind,
                hosts,
                max_hosts: self.max_hosts(kind, hosts)?,
                limit,
                flush_unserved,
            },
            link: self.link()?,
            catch_up: Nanos::from_millis(catch_up.unwrap_or(DEFAULT_CATCH_UP).unsigned_abs()),
            stats,
            stats_every: every.unwrap_or(1).unsigned_abs(),
            metrics,
            user: self.user.as_ref().map_or("nobody", Word::text).to_owned(),
            weights: self.weights(kind)?,
            rates: self.rates(hosts)?,
            ceils: self.ceils(hosts)?,
            hints: if self.caps.is_empty() { Vec::new() } else { vec![CAPS_ARE_RATES] },
            places: self.places(),
        })
    }

    /// The places of what the system may refuse later.
    fn places(&self) -> Places {
        let words = [
            ("--lan", &self.lan),
            ("--wan", &self.wan),
            ("--limit", &self.limit),
            ("--queue", &self.queue),
            ("--stats", &self.stats),
            ("--metrics", &self.metrics),
            ("--user", &self.user),
        ];
        let place = |(option, word): (_, &Option<Word>)| (option, self.place(word.as_ref()));
        Places(words.into_iter().map(place).collect())
    }

    fn in_range(
        &self,
        option: &str,
        word: &Option<Word>,
        range: core::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, String> {
        self.read(option, word, |option, word| number(option, word, range))
    }

    /// The flow scheduler, and what shares the line; some pairs make no sense.
    fn kind_and_hosts(&self) -> Result<(QueueKind, HostMode), String> {
        let hosts = self.read("--hosts", &self.hosts, HostMode::parse)?;
        let kind = match self.read("--queue", &self.queue, QueueKind::parse)? {
            None if hosts == Some(HostMode::UsersSqf) => QueueKind::Sqf,
            kind => kind.unwrap_or_default(),
        };
        let accepted = match kind {
            QueueKind::Drr => {
                "flows, srchost, dsthost, hosts, dual-srchost, dual-dsthost, triple-isolate, lan"
            }
            QueueKind::Sqf => "flows, srchost, dsthost, hosts, users+sqf",
            QueueKind::Qfq => "flows, srchost, dsthost, hosts",
            QueueKind::Fifo => "none: a FIFO knows no hosts",
        };
        let fits = match hosts {
            None => true,
            Some(HostMode::UsersSqf) => kind == QueueKind::Sqf,
            Some(HostMode::Lan) => kind == QueueKind::Drr,
            Some(HostMode::By(isolation)) => match isolation {
                Isolation::DualSrcHost | Isolation::DualDstHost | Isolation::TripleIsolate => {
                    kind == QueueKind::Drr
                }
                _ => kind != QueueKind::Fifo,
            },
        };
        match hosts {
            Some(hosts) if !fits => Err(format!(
                "{}--hosts {:?}: with --queue {} accepted are {accepted}",
                self.place(self.hosts.as_ref()),
                hosts.word(),
                kind.word()
            )),
            Some(hosts) => Ok((kind, hosts)),
            None if kind == QueueKind::Drr => Ok((kind, HostMode::Lan)),
            None => Ok((kind, HostMode::By(Isolation::Flows))),
        }
    }

    /// How many hosts are told apart; a word where that is not asked is refused.
    fn max_hosts(&self, kind: QueueKind, hosts: HostMode) -> Result<u32, String> {
        let why = match (kind, hosts) {
            (QueueKind::Fifo, _) => "--queue fifo tells no hosts apart",
            (_, HostMode::UsersSqf) => "--hosts users+sqf tells 64 hosts apart, and more share",
            _ => {
                let hosts = self.in_range("--max-hosts", &self.max_hosts, 1..=MOST_HOSTS.into())?;
                let hosts = hosts.and_then(|hosts| u32::try_from(hosts).ok());
                return Ok(hosts.unwrap_or(DEFAULT_MAX_HOSTS));
            }
        };
        let refused =
            |option: &str, word: &str| Err(format!("{option} {word:?}: {why}; accepted is none"));
        Ok(self.read("--max-hosts", &self.max_hosts, refused)?.unwrap_or(DEFAULT_MAX_HOSTS))
    }

    /// The time without service after which a queue of SQF that has to make room is dropped whole, if any.
    fn flush_unserved(&self, kind: QueueKind) -> Result<Option<Nanos>, String> {
        if kind != QueueKind::Sqf
            && let Some(word) = &self.flush_unserved
        {
            return Err(format!(
                "{}--flush-unserved {:?}: with --queue {} there is none; accepted is sqf",
                self.place(Some(word)),
                word.text(),
                kind.word()
            ));
        }
        let millis =
            self.in_range("--flush-unserved", &self.flush_unserved, 0..=LONGEST_UNSERVED)?;
        let millis = millis.filter(|&millis| millis > 0);
        Ok(millis.map(|millis| Nanos::from_millis(millis.unsigned_abs())))
    }

    /// What a packet is on the wire. Frames are counted as they are unless something is said of the link.
    fn link(&self) -> Result<Overhead, String> {
        let least = Overhead::MIN_OVERHEAD.into();
        let most = Overhead::MAX_OVERHEAD.into();
        let overhead = self.in_range("--overhead", &self.overhead, least..=most)?;
        let mpu = self.in_range("--mpu", &self.mpu, 0..=Overhead::MAX_MPU.into())?;
        let framing = self.read("--framing", &self.framing, Framing::parse)?;
        if overhead.is_none() && mpu.is_none() && framing.is_none() {
            return Ok(Overhead::RAW);
        }
        let overhead = i32::try_from(overhead.unwrap_or(0)).unwrap_or(0);
        let mpu = u32::try_from(mpu.unwrap_or(0)).unwrap_or(0);
        let link = Overhead::new(framing.unwrap_or(Framing::None), overhead, mpu);
        let link = link.map_err(|error| {
            format!("{}--overhead: {error}", self.place(self.overhead.as_ref()))
        })?;
        Ok(link.for_frames(ETHERNET_HEADER as u8))
    }

    fn weights(&self, kind: QueueKind) -> Result<BTreeMap<IpAddr, u32>, String> {
        if !self.weights.is_empty() && !matches!(kind, QueueKind::Drr | QueueKind::Qfq) {
            return Err(format!(
                "{}weights: with --queue {} there are none; accepted are drr, qfq",
                self.place(self.weights.values().next()),
                kind.word()
            ));
        }
        let mut weights = BTreeMap::new();
        for (address, word) in &self.weights {
            let placed = |why: String| self.place(Some(word)) + &why;
            let host = host("weights", address).map_err(placed)?;
            let option = format!("weights {address}");
            let weight = number(&option, word.text(), 1..=MAX_WEIGHT.into()).map_err(placed)?;
            if weights.insert(host, u32::try_from(weight).unwrap_or(1)).is_some() {
                return Err(placed(format!("weights {address:?}: given twice; accepted is one")));
            }
        }
        Ok(weights)
    }

    fn rates(&self, hosts: HostMode) -> Result<BTreeMap<IpAddr, Rate>, String> {
        match (self.rates.is_empty(), self.caps.values().next()) {
            (false, caps @ Some(_)) => {
                Err(self.place(caps)
                    + "caps: the word is rates, and both are given; accepted is one")
            }
            (true, Some(_)) => self.of_hosts("caps", &self.caps, hosts),
            _ => self.of_hosts("rates", &self.rates, hosts),
        }
    }

    fn ceils(&self, hosts: HostMode) -> Result<BTreeMap<IpAddr, Rate>, String> {
        let (rates, ceils) = (self.rates(hosts)?, self.of_hosts("ceils", &self.ceils, hosts)?);
        for (address, word) in &self.ceils {
            let placed = |why: String| self.place(Some(word)) + &why;
            let host = host("ceils", address).map_err(placed)?;
            let (rate, ceil) = (rates.get(&host), ceils.get(&host));
            let bits = |rate: &Rate| rate.as_bits_per_second();
            if let (Some(rate), Some(ceil)) = (rate, ceil)
                && bits(rate) > bits(ceil)
            {
                return Err(placed(format!(
                    "ceils {address} {:?}: accepted is its rate, {}, or more",
                    word.text(),
                    rate_word(*rate)
                )));
            }
        }
        Ok(ceils)
    }

    /// The rates of a table of hosts as a level of their own, which have one host on the LAN side.
    fn of_hosts(
        &self,
        table: &str,
        written: &BTreeMap<String, Word>,
        hosts: HostMode,
    ) -> Result<BTreeMap<IpAddr, Rate>, String> {
        if !written.is_empty() && hosts != HostMode::Lan {
            return Err(format!(
                "{}{table}: with --hosts {} there are none; accepted are --queue drr and --hosts lan",
                self.place(written.values().next()),
                hosts.word()
            ));
        }
        let mut rates = BTreeMap::new();
        for (address, word) in written {
            let placed = |why: String| self.place(Some(word)) + &why;
            let host = host(table, address).map_err(placed)?;
            let option = format!("{table} {address}");
            let rate = rate(&option, word.text()).map_err(placed)?;
            if rate == Rate::UNLIMITED {
                let word = word.text();
                return Err(placed(format!("{option} {word:?}: accepted is a rate such as 5mbit")));
            }
            if rates.insert(host, rate).is_some() {
                return Err(placed(format!("{table} {address:?}: given twice; accepted is one")));
            }
        }
        Ok(rates)
    }
}

impl Config {
    /// Takes over from `new` what can change while packets are queued; says what has changed, a line each,
    /// and what would have but needs a restart.
    pub(crate) fn take_over(&mut self, new: Self) -> Vec<String> {
        let mut said = Vec::new();
        let mut changed = |what: &str, from: String, to: String| {
            if from != to {
                said.push(format!("{what}: {from} -> {to}"));
            }
        };
        changed("up", rate_word(self.up), rate_word(new.up));
        changed("down", rate_word(self.down), rate_word(new.down));
        changed("queue", self.share.kind.word().into(), new.share.kind.word().into());
        changed("hosts", self.share.hosts.word().into(), new.share.hosts.word().into());
        changed("max-hosts", self.share.max_hosts.to_string(), new.share.max_hosts.to_string());
        changed("limit", self.share.limit.word(), new.share.limit.word());
        let flush = |share: Sharing| share.flush_unserved.map_or("off".to_owned(), millis_word);
        changed("flush-unserved", flush(self.share), flush(new.share));
        changed("link", link_words(self.link), link_words(new.link));
        changed("catch-up", millis_word(self.catch_up), millis_word(new.catch_up));
        changed("stats-every", self.stats_every.to_string(), new.stats_every.to_string());
        said.extend(changed_hosts("weights", &self.weights, &new.weights, |weight| {
            weight.map_or("1".to_owned(), u32::to_string)
        }));
        let word = |rate: Option<&Rate>| rate.map_or("none".to_owned(), |&rate| rate_word(rate));
        said.extend(changed_hosts("rates", &self.rates, &new.rates, word));
        said.extend(changed_hosts("ceils", &self.ceils, &new.ceils, word));
        said.extend(new.hints.iter().map(|&hint| hint.to_owned()));
        let kept = [
            ("lan", self.lan == new.lan),
            ("wan", self.wan == new.wan),
            ("io", self.io == new.io),
            ("stats", self.stats == new.stats),
            ("metrics", self.metrics == new.metrics),
            ("user", self.user == new.user),
        ];
        for (what, is_same) in kept {
            if !is_same {
                said.push(format!("{what}: another needs a restart, kept as it was"));
            }
        }
        let Self {
            up,
            down,
            share,
            link,
            catch_up,
            stats_every,
            weights,
            rates,
            ceils,
            hints,
            places,
            ..
        } = new;
        (self.up, self.down, self.share, self.link) = (up, down, share, link);
        (self.catch_up, self.stats_every) = (catch_up, stats_every);
        (self.weights, self.rates, self.ceils) = (weights, rates, ceils);
        (self.hints, self.places) = (hints, places);
        said
    }
}

fn link_words(link: Overhead) -> String {
    format!("{} overhead {} mpu {}", link.framing().word(), link.overhead(), link.mpu())
}

fn millis_word(span: Nanos) -> String {
    format!("{} ms", span.0 / 1_000_000)
}

/// The host of which a table says something.
fn host(table: &str, address: &str) -> Result<IpAddr, String> {
    address.parse().map_err(|_| format!("{table} {address:?}: accepted is an IP address"))
}

/// The most hosts that are named in one line of changes.
const NAMED: usize = 8;

/// What has changed of hosts, in one line, if anything has: the first few of them by name. `word` says what a host
/// has, and what one of which the table says nothing.
fn changed_hosts<T: PartialEq>(
    table: &str,
    old: &BTreeMap<IpAddr, T>,
    new: &BTreeMap<IpAddr, T>,
    word: impl Fn(Option<&T>) -> String,
) -> Option<String> {
    let hosts: BTreeSet<&IpAddr> = old.keys().chain(new.keys()).collect();
    let change = |host: &IpAddr| {
        let (from, to) = (old.get(host), new.get(host));
        (from != to).then_some((from, to))
    };
    let mut changes = hosts.into_iter().filter_map(|host| Some((host, change(host)?)));
    let named: Vec<String> = (&mut changes)
        .take(NAMED)
        .map(|(host, (from, to))| format!("{host} {} -> {}", word(from), word(to)))
        .collect();
    let more = match changes.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!named.is_empty()).then(|| format!("{table}: {}{more}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        Written::from_text(Path::new("x.toml"), text.to_owned())?.check()
    }

    const LINE: &str = "lan = \"a\"\nwan = \"b\"\nup = \"1mbit\"\ndown = 16000000\n";

    fn with(more: &str) -> Result<Config, String> {
        read(&format!("{LINE}{more}"))
    }

    #[test]
    fn devices_and_rates_are_all_that_is_needed() {
        let config = with("").unwrap();
        assert_eq!(config.up, Rate::megabits_per_second(1).unwrap());
        assert_eq!(config.down, Rate::megabits_per_second(16).unwrap());
        assert_eq!((config.share.kind, config.share.hosts), (QueueKind::Drr, HostMode::Lan));
        assert_eq!(config.link, Overhead::RAW);
        for option in ["lan", "wan", "up", "down"] {
            let without: String = LINE
                .lines()
                .filter(|line| !line.starts_with(option))
                .map(|l| format!("{l}\n"))
                .collect();
            let error = read(&without).unwrap_err();
            assert!(error.starts_with(&format!("--{option} is missing")), "{error}");
        }
        let error = read(&LINE.replace("\"b\"", "\"a\"")).unwrap_err();
        assert!(error.starts_with("--config x.toml: line 2: --wan"), "{error}");
    }

    #[test]
    fn contradictions_name_the_word_and_what_is_accepted() {
        for (more, part) in [
            ("queue = \"fifo\"\nhosts = \"flows\"", "--hosts \"flows\": with --queue fifo"),
            (
                "queue = \"qfq\"\nhosts = \"dual-srchost\"",
                "accepted are flows, srchost, dsthost, hosts",
            ),
            ("queue = \"drr\"\nhosts = \"users+sqf\"", "--hosts \"users+sqf\": with --queue drr"),
            ("queue = \"sqf\"\n[weights]\n\"10.0.0.1\" = 2", "accepted are drr, qfq"),
            ("[weights]\n\"home\" = 2", "weights \"home\": accepted is an IP address"),
            ("[weights]\n\"10.0.0.1\" = 0", "weights 10.0.0.1 \"0\": accepted are 1 to 1000"),
            ("[rates]\n\"home\" = \"1mbit\"", "rates \"home\": accepted is an IP address"),
            ("[rates]\n\"10.0.0.1\" = \"fast\"", "rates 10.0.0.1 \"fast\": "),
            ("[rates]\n\"::1\" = 5000\n\"0::1\" = 5000", "given twice; accepted is one"),
            ("[rates]\n\"10.0.0.1\" = \"unlimited\"", "accepted is a rate such as 5mbit"),
            ("[ceils]\n\"home\" = \"1mbit\"", "ceils \"home\": accepted is an IP address"),
            ("[ceils]\n\"10.0.0.1\" = \"unlimited\"", "accepted is a rate such as 5mbit"),
            ("hosts = \"flows\"\n[ceils]\n\"10.0.0.1\" = 5000", "ceils: with --hosts flows"),
            (
                "[rates]\n\"::1\" = \"2mbit\"\n[ceils]\n\"0::1\" = \"1mbit\"",
                "ceils 0::1 \"1mbit\": accepted is its rate, 2mbit, or more",
            ),
            (
                "[rates]\n\"::1\" = 5000\n[caps]\n\"::2\" = 5000",
                "caps: the word is rates, and both are given",
            ),
            ("[caps]\n\"10.0.0.1\" = \"fast\"", "caps 10.0.0.1 \"fast\": "),
            ("hosts = \"flows\"\n[rates]\n\"10.0.0.1\" = 5000", "rates: with --hosts flows"),
            ("queue = \"qfq\"\n[rates]\n\"10.0.0.1\" = 5000", "accepted are --queue drr"),
            ("max-hosts = 16385", "--max-hosts \"16385\": accepted are 1 to 16384"),
            ("max-hosts = 9\nqueue = \"fifo\"", "--max-hosts \"9\": --queue fifo tells no hosts"),
            ("max-hosts = 9\nhosts = \"users+sqf\"", "users+sqf tells 64 hosts apart"),
            ("overhead = 300", "--overhead \"300\": accepted are -64 to 256"),
            ("mpu = -1", "--mpu \"-1\": accepted are 0 to 256"),
            (
                "flush-unserved = 500",
                "--flush-unserved \"500\": with --queue drr there is none; accepted is sqf",
            ),
            (
                "queue = \"sqf\"\nflush-unserved = 60001",
                "--flush-unserved \"60001\": accepted are 0 to 60000",
            ),
            ("catch-up = 1001", "--catch-up \"1001\": accepted are 0 to 1000"),
            ("framing = \"frames\"", "accepted are none, atm, ptm"),
            (
                "[weights]\n\"fd00::1\" = 1\n\"fd00:0::1\" = 2",
                "weights \"fd00::1\": given twice; accepted is one",
            ),
            ("metrics = \"9100\"", "ADDRESS:PORT"),
            ("metrics = \"127.0.0.1:0\"", "ADDRESS:PORT"),
            ("stats-every = 0", "--stats-every \"0\": accepted are 1 to 86400"),
            ("stats = \"\"", "--stats \"\": accepted is a path"),
            ("speed = 1", "unknown field `speed`"),
            ("mpu = 1.5", "a string or a whole number"),
        ] {
            let error = with(more).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{more}: {error}");
            // The lines above it are four; of two options or hosts either may be named.
            let line =
                error.strip_prefix("--config x.toml: line ").unwrap_or_else(|| panic!("{error}"));
            let line: usize = line.split([' ', ':']).next().unwrap().parse().unwrap();
            assert!((5..=4 + more.lines().count()).contains(&line), "{more}: {error}");
        }
    }

    /// Goal: of a long file the line that is wrong is named, and of a word of the command line no line is.
    #[test]
    fn a_wrong_value_is_found_by_its_line() {
        let hosts = (0..4_000).map(|at| format!("\"10.0.{}.{}\" = 2\n", at / 250, at % 250));
        let text = format!("[weights]\n{}", hosts.collect::<String>());
        assert_eq!(with(&text).unwrap().weights.len(), 4_000);
        let error = with(&text.replace("\"10.0.8.0\" = 2", "\"10.0.8.0\" = 0")).unwrap_err();
        let expected = "--config x.toml: line 2006: weights 10.0.8.0 \"0\": accepted are 1 to 1000";
        assert_eq!(error, expected);
        let file = Written::from_text(Path::new("x.toml"), LINE.to_owned()).unwrap();
        let words = Written { up: Some(Word::said("fast".into())), ..Written::default() };
        let error = words.over(file.clone()).check().unwrap_err();
        assert!(error.starts_with("--up \"fast\": "), "{error}");
        let config = file.check().unwrap();
        assert_eq!(config.places.of("--wan")("gone".into()), "--config x.toml: line 2: gone");
        assert_eq!(config.places.of("--limit")("gone".into()), "gone");
    }

    /// Goal: a FIFO without a limit waits as a modem does, 1.2 s at 10 Mbit/s, and not 3.4 s.
    #[test]
    fn a_fifo_holds_what_a_modem_does() {
        let limit = |more| with(more).unwrap().share.limit;
        assert_eq!(limit("queue = \"fifo\""), Limit::Packets(1_000));
        assert_eq!(limit("queue = \"fifo\"\nlimit = 500000"), Limit::Bytes(500_000));
        assert_eq!(limit("queue = \"sqf\""), Limit::Bytes(4 << 20));
    }

    /// Goal: the old word for rates is accepted, with a hint each time the file is read.
    #[test]
    fn caps_are_rates() {
        let config = with("[caps]\n\"10.0.0.1\" = \"2mbit\"").unwrap();
        let rates = with("[rates]\n\"10.0.0.1\" = \"2mbit\"").unwrap();
        assert_eq!(config.rates, rates.rates);
        assert_eq!((config.hints.len(), rates.hints.len()), (1, 0));
        assert!(config.hints[0].contains("the word is rates"));
        let said = with("").unwrap().take_over(config);
        assert_eq!(said.len(), 2);
        assert!(said[0] == "rates: 10.0.0.1 none -> 2mbit" && said[1].starts_with("caps: "));
    }

    #[test]
    fn users_with_sqf_inside_need_no_second_word() {
        let share = with("hosts = \"users+sqf\"").unwrap().share;
        assert_eq!((share.kind, share.hosts), (QueueKind::Sqf, HostMode::UsersSqf));
    }

    #[test]
    fn a_queue_of_sqf_may_be_dropped_whole() {
        let flush = |more: &str| with(more).unwrap().share.flush_unserved;
        assert_eq!(flush("queue = \"sqf\""), None);
        assert_eq!(flush("queue = \"sqf\"\nflush-unserved = 0"), None);
        let half = Some(Nanos::from_millis(500));
        assert_eq!(flush("queue = \"sqf\"\nflush-unserved = 500"), half);
        assert_eq!(flush("hosts = \"users+sqf\"\nflush-unserved = \"500\""), half);
    }

    #[test]
    fn a_link_that_is_described_does_not_count_the_ethernet_header() {
        let link = with("framing = \"atm\"\noverhead = 32").unwrap().link;
        assert_eq!((link.framing(), link.overhead(), link.header()), (Framing::Atm, 32, 14));
        assert_eq!(with("mpu = 64").unwrap().link.header(), 14);
    }

    #[test]
    fn words_win_over_the_file() {
        let file =
            Written::from_text(Path::new("x.toml"), format!("{LINE}queue = \"sqf\"")).unwrap();
        let words = Written { up: Some(Word::said("3mbit".into())), ..Written::default() };
        let config = words.over(file).check().unwrap();
        assert_eq!((rate_word(config.up), config.share.kind), ("3mbit".to_owned(), QueueKind::Sqf));
    }

    /// Goal: a long table of which a little has changed makes a short line, and one of which all has changed too.
    #[test]
    fn of_hosts_is_said_what_has_changed() {
        let table = |rate: &str| {
            let rates =
                (0..5_000).map(|at| format!("\"10.0.{}.{}\" = \"{rate}\"\n", at / 250, at % 250));
            format!("[rates]\n{}", rates.collect::<String>())
        };
        let (slow, fast) = (table("1mbit"), table("2mbit"));
        let mut config = with(&slow).unwrap();
        assert!(config.take_over(with(&slow).unwrap()).is_empty());
        let one = slow.replace("\"10.0.3.7\" = \"1mbit\"\n", "\"10.9.9.9\" = \"3mbit\"\n");
        let said = config.take_over(with(&one).unwrap());
        assert_eq!(said, ["rates: 10.0.3.7 1mbit -> none, 10.9.9.9 none -> 3mbit"]);
        config.take_over(with(&slow).unwrap());
        let said = config.take_over(with(&fast).unwrap());
        assert!(said[0].starts_with("rates: 10.0.0.0 1mbit -> 2mbit, 10.0.0.1 "), "{said:?}");
        assert!(said[0].ends_with(", and 4992 more") && said[0].len() < 400, "{said:?}");
    }

    #[test]
    fn what_cannot_change_is_kept_and_said() {
        let mut config = with("").unwrap();
        let new = with("queue = \"qfq\"\nio = \"tap\"\n[weights]\n\"10.0.0.1\" = 3").unwrap();
        let said = config.take_over(Config { up: Rate::UNLIMITED, lan: "c".into(), ..new });
        assert_eq!(
            said,
            [
                "up: 1mbit -> unlimited",
                "queue: drr -> qfq",
                "hosts: lan -> flows",
                "weights: 10.0.0.1 1 -> 3",
                "lan: another needs a restart, kept as it was",
                "io: another needs a restart, kept as it was",
            ]
        );
        assert_eq!(
            (config.lan.as_str(), config.io, config.share.kind),
            ("a", Io::Packet, QueueKind::Qfq)
        );
    }
}
