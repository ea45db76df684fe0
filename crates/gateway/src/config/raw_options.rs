//! Options as written, on the command line or in a file, with their locations.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::ValueParserFactory;
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser, ValueParser};
use freeboard::shaper::Framing;
use freeboard::{AckFilter, AqmKind, TinBy};
use serde::Deserialize;
use toml::Spanned;

use crate::config::handling::Ways;
use crate::config::keywords::{HostMode, Io, QueueKind, Switch, Words};
use crate::config::mistakes;

/// Options as written on the command line or in the file; each may be absent. The doc comment of an
/// option is its help text.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[group(skip)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawOptions {
    /// LAN device, on the side of the hosts.
    #[arg(long, value_name = "DEV", help_heading = "Devices and rates")]
    pub(crate) lan: Option<Word>,
    /// WAN device, on the side of the link.
    #[arg(long, value_name = "DEV", help_heading = "Devices and rates")]
    pub(crate) wan: Option<Word>,
    /// Upload rate: 10mbit, 512kbit, 1gbit, unlimited, or a number of bits per second.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Devices and rates",
        allow_negative_numbers = true
    )]
    pub(crate) up: Option<Word>,
    /// Download rate, written like --up.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Devices and rates",
        allow_negative_numbers = true
    )]
    pub(crate) down: Option<Word>,
    /// Adjusts the rates to the delay of echo requests to these addresses. One address is pinged,
    /// 20 times a second; if it stops answering, the next one is used. --up and --down are the
    /// rates that the link usually has [default: off].
    #[arg(long, value_name = "ADDR,...", help_heading = "Autorate")]
    pub(crate) autorate: Option<Word>,
    /// Minimum upload rate of --autorate; without it the upload rate is fixed.
    #[arg(long, value_name = "RATE", help_heading = "Autorate", allow_negative_numbers = true)]
    pub(crate) up_min: Option<Word>,
    /// Maximum upload rate of --autorate [default: --up].
    #[arg(long, value_name = "RATE", help_heading = "Autorate", allow_negative_numbers = true)]
    pub(crate) up_max: Option<Word>,
    /// Minimum download rate of --autorate and --autorate-ingress; without it the download rate is
    /// fixed.
    #[arg(long, value_name = "RATE", help_heading = "Autorate", allow_negative_numbers = true)]
    pub(crate) down_min: Option<Word>,
    /// Maximum download rate of --autorate and --autorate-ingress [default: --down].
    #[arg(long, value_name = "RATE", help_heading = "Autorate", allow_negative_numbers = true)]
    pub(crate) down_max: Option<Word>,
    /// Delay above the path's baseline, in milliseconds, from which --autorate assumes a queue in
    /// the modem and reduces the rate: 1 to 1000 [default: 15].
    #[arg(long, value_name = "MS", help_heading = "Autorate", allow_negative_numbers = true)]
    pub(crate) autorate_delay: Option<Word>,
    /// Adjusts the download rate to the rate of arrivals, between --down-min and --down-max. With
    /// --autorate too, the lower of both rates applies [default: off; without a value: on].
    #[arg(long, value_name = "ON|OFF", help_heading = "Autorate", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) autorate_ingress: Option<Word>,
    /// Frame access: `packet` opens packet sockets on existing interfaces, `tap` attaches to TAP
    /// devices [default: packet].
    #[arg(long, value_name = "MODE", help_heading = "Devices and rates", value_parser = one_of::<Io>())]
    pub(crate) io: Option<Word>,
    /// Flow scheduler: `drr` (deficit round robin, sparse flows first), `sqf` (shortest queue
    /// first), `qfq` (quick fair queueing), or `fifo` (one queue with tail drop, for comparison)
    /// [default: drr].
    #[arg(long, value_name = "SCHEDULER", help_heading = "Queues", value_parser = one_of::<QueueKind>())]
    pub(crate) queue: Option<Word>,
    /// Host isolation, the unit that shares the rate equally. `lan` shares it among the hosts on
    /// the LAN side, then among the flows of each host; `users+sqf` does so with --queue sqf among
    /// the flows. The other modes are those of CAKE [default: lan with drr, flows otherwise].
    #[arg(long, value_name = "MODE", help_heading = "Queues", value_parser = one_of::<HostMode>())]
    pub(crate) hosts: Option<Word>,
    /// Maximum number of hosts with a share of their own, 1 to 8192; beyond it, some hosts share
    /// one share. Takes 1.96 kB of memory per host and direction [default: 2048].
    #[arg(long, value_name = "N", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) max_hosts: Option<Word>,
    /// Host identity on the LAN side: `address`, `mac`, `vlan`, or `prefix/V4/V6`, the first bits
    /// of the address (`prefix` is prefix/32/64). `auto` is `mac` if frames of several network
    /// cards arrive and `address` if all come from one. Lists in [names] take precedence [default:
    /// auto; address with --nat and where a table of the file names an address].
    #[arg(long, value_name = "KEY", help_heading = "Queues")]
    pub(crate) host_by: Option<Word>,
    /// Isolates the hosts behind this machine's NAT, for a gateway on its outer side. Hosts are
    /// looked up in the kernel's connection tracking table [default: off; without a value: on].
    #[arg(long, value_name = "ON|OFF", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) nat: Option<Word>,
    /// Limit of each direction's queue: bytes such as 4mb or 300000, and then at most 8192
    /// packets, or a number of packets such as 1000p. Each packet takes the MTU and about 300
    /// bytes of memory [default: what the rate carries in four times --rtt, at least 32 packets of
    /// maximum length, at most 4 MiB; with fifo 1000p, as much as a modem holds].
    #[arg(long, value_name = "N", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) limit: Option<Word>,
    /// With --queue sqf: on overflow, drops a whole queue if it was not served for this many
    /// milliseconds, 0 to 60000; 0 disables it [default: 0].
    #[arg(long, value_name = "MS", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) flush_unserved: Option<Word>,
    /// AQM algorithm: `codel` marks or drops packets of a standing queue; `cobalt` also drops from
    /// unresponsive flows; `pie`, `pi2`, `red` and `blue` mark or drop packets at random as they
    /// arrive; `none` disables AQM [default: cobalt; none with fifo].
    #[arg(long, value_name = "ALGORITHM", help_heading = "Queues", value_parser = one_of::<AqmKind>())]
    pub(crate) aqm: Option<Word>,
    /// Marks packets with ECT(1) above a shallow threshold in the queue of their flow [default:
    /// on; off with --queue fifo and with --aqm none].
    #[arg(long, value_name = "ON|OFF", help_heading = "Queues", value_parser = one_of::<Switch>())]
    pub(crate) l4s: Option<Word>,
    /// Round-trip time to the other ends, which sets the AQM and the limits: datacentre, lan,
    /// metro, regional, internet, oceanic, satellite, or a time such as 30ms. The AQM accepts a
    /// standing queue of a twentieth of it [default: internet, 100 ms].
    #[arg(long, value_name = "TIME", help_heading = "Queues")]
    pub(crate) rtt: Option<Word>,
    /// Priority tins by code point (DSCP): besteffort, precedence, diffserv3, diffserv4,
    /// diffserv8, or your own such as "tin rest tin calls share 1/4 map EF calls". A tin is served
    /// before those below it up to its share of the rate, and after them beyond it. With --queue
    /// drr only [default: besteffort, a single tin].
    #[arg(long, value_name = "KEYWORDS", help_heading = "Queues")]
    pub(crate) tins: Option<Word>,
    /// Header field that selects the tin: `dscp`, the code point of the packet; `inner-dscp`, that
    /// of the innermost packet in tunnels that can be parsed; `priority`, the 802.1p bits of a
    /// VLAN tag [default: dscp].
    #[arg(long, value_name = "FIELD", help_heading = "Queues", value_parser = one_of::<TinBy>())]
    pub(crate) tin_by: Option<Word>,
    /// Bits of the firewall mark that select the tin, such as 0xff: 1 is the first tin; if the
    /// bits are 0, the header decides. Linux 5.19 and later passes marks on for what this
    /// machine's own stack sends over a veth pair [default: 0, none].
    #[arg(long, value_name = "MASK", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) fwmark: Option<Word>,
    /// Drops redundant TCP acknowledgements from the upload queue, keeping at least two of each
    /// connection, or one with `aggressive`. For links whose download is ten times as fast as the
    /// upload [default: off; without a value: conservative].
    #[arg(long, value_name = "MODE", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<AckFilter>())]
    pub(crate) ack_filter: Option<Word>,
    /// Clears the code point (DSCP) of frames that leave in these directions [default: off;
    /// without a value: both].
    #[arg(long, value_name = "DIRECTION", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "both", value_parser = one_of::<Ways>())]
    pub(crate) wash: Option<Word>,
    /// Memory limit for the buffers of queued frames in each direction: a size such as 4mb or
    /// 300000, or `by-rate`, four times --rtt at the rate, 4 to 15 MB [default: given by --limit].
    #[arg(long, value_name = "SIZE", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) memory_limit: Option<Word>,
    /// Keywords for what the link adds to a packet, such as "pppoe-ptm ether-vlan", "docsis" or
    /// "overhead 44 mpu 96 atm". Replaces --overhead, --mpu and --encoding.
    #[arg(
        long,
        alias = "link",
        value_name = "KEYWORDS",
        help_heading = "Framing and rate control"
    )]
    #[serde(alias = "link")]
    pub(crate) framing: Option<Word>,
    /// Bytes that the link adds to an IP packet, -64 to 256.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Framing and rate control",
        allow_negative_numbers = true
    )]
    pub(crate) overhead: Option<Word>,
    /// Minimum size of a packet on the link in bytes, 0 to 256.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Framing and rate control",
        allow_negative_numbers = true
    )]
    pub(crate) mpu: Option<Word>,
    /// Encoding on the link: `atm` cells, `ptm` (64b/65b; `ptm-paper` is the formula of the CAKE
    /// paper), or `gem` or `xgem` headers of GPON [default: none].
    #[arg(long, value_name = "ENCODING", help_heading = "Framing and rate control", value_parser = one_of::<Framing>())]
    pub(crate) encoding: Option<Word>,
    /// Maximum time lost to a late timer that is caught up afterwards, in milliseconds, 0 to 1000
    /// [default: 10].
    #[arg(
        long,
        value_name = "MS",
        help_heading = "Framing and rate control",
        allow_negative_numbers = true
    )]
    pub(crate) catch_up: Option<Word>,
    /// Like --catch-up, in bytes that may leave at once whatever the rate is. Replaces --catch-up.
    #[arg(
        long,
        value_name = "BYTES",
        help_heading = "Framing and rate control",
        allow_negative_numbers = true
    )]
    pub(crate) burst: Option<Word>,
    /// Gives each host one share across all tins instead of one per tin. With --tins [default:
    /// off; without a value: on].
    #[arg(long, value_name = "ON|OFF", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) hosts_across_tins: Option<Word>,
    /// Segments frames of several packets (GSO, TSO, GRO) as they arrive; `off` drops them,
    /// counted as merged [default: on].
    #[arg(long, value_name = "ON|OFF", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) split_gso: Option<Word>,
    /// Counts packets dropped on the download side as sent: they have already passed the link, so
    /// that arrivals stay at the rate [default: off; without a value: on].
    #[arg(long, value_name = "ON|OFF", help_heading = "Framing and rate control", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) ingress: Option<Word>,
    /// Unix socket to serve statistics on, one line of JSON per report.
    #[arg(long, value_name = "SOCKET", help_heading = "Statistics")]
    pub(crate) stats: Option<Word>,
    /// Interval between reports in seconds, 1 to 86400 [default: 1].
    #[arg(
        long,
        alias = "stats-every",
        value_name = "SECS",
        help_heading = "Statistics",
        allow_negative_numbers = true
    )]
    #[serde(alias = "stats-every")]
    pub(crate) stats_interval: Option<Word>,
    /// Address, such as 127.0.0.1:9100, to serve metrics for Prometheus on over HTTP.
    #[arg(long, value_name = "ADDR", help_heading = "Statistics")]
    pub(crate) metrics: Option<Word>,
    /// User to run as once the devices are open, if started by root [default: "nobody"].
    #[arg(long, value_name = "NAME", help_heading = "Running")]
    pub(crate) user: Option<Word>,
    /// Lists of addresses that count as one host, by name.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) names: BTreeMap<String, Spanned<Vec<Word>>>,
    /// Weights by host, as written.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) weights: BTreeMap<String, Word>,
    /// Committed rates by host, as written.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) rates: BTreeMap<String, Word>,
    /// Ceilings by host, as written.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) ceils: BTreeMap<String, Word>,
    /// Old name of `rates`.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) caps: BTreeMap<String, Word>,
    /// File that the words with a position come from.
    #[arg(skip)]
    #[serde(skip)]
    pub(super) origin: Option<Origin>,
    /// Hints about options that were given under an old name.
    #[arg(skip)]
    #[serde(skip)]
    pub(super) renamed: Vec<String>,
}

/// An option value as written, with its position.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Spanned<Bare>")]
pub(crate) struct Word {
    text: String,
    /// Byte offset in the file; `None` for a word of the command line.
    begin: Option<usize>,
}

/// A value in the file: a string, or an unquoted number or boolean. `true` and `false` mean `on`
/// and `off`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "invalid value (expected a string, a whole number, true or false)")]
enum Bare {
    Text(String),
    Number(i64),
    Switch(bool),
}

impl From<Spanned<Bare>> for Word {
    fn from(word: Spanned<Bare>) -> Self {
        let begin = Some(word.span().start);
        let text = match word.into_inner() {
            Bare::Text(text) => text,
            Bare::Number(number) => number.to_string(),
            Bare::Switch(is_on) => Switch::of(is_on).word().to_owned(),
        };
        Self { text, begin }
    }
}

/// Accepts any UTF-8; further validation is shared with the values in the file.
impl ValueParserFactory for Word {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        let utf8 =
            |word: OsString| word.into_string().map_err(|_| "invalid value (expected UTF-8)");
        ValueParser::new(OsStringValueParser::new().try_map(utf8).map(Word::said))
    }
}

/// Accepts one of the keywords of `T`, so that shells can complete them.
fn one_of<T: Words>() -> impl TypedValueParser<Value = Word> {
    PossibleValuesParser::new(T::WORDS.iter().map(|(word, _)| *word)).map(Word::said)
}

impl Word {
    /// Creates a word of the command line.
    pub(super) fn said(text: String) -> Self {
        Self { text, begin: None }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// File that words were read from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    path: PathBuf,
    text: String,
}

impl Origin {
    /// Returns the line number (from 1) of byte `at`, and the line, truncated to [`SHOWN`]
    /// characters.
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

/// Maximum size of a configuration file in bytes: about ten thousand weights, read in a few
/// milliseconds while frames wait.
const LONGEST_FILE: u64 = 256 << 10;
/// Characters of a line that an error shows.
const SHOWN: usize = 60;

impl RawOptions {
    /// Reads a file.
    pub(crate) fn from_file(path: &Path) -> Result<Self, String> {
        let named = |why: &str| Origin::named(path, why);
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut text))
            .map_err(|error| named(&error.to_string()))?;
        if text.len() as u64 > LONGEST_FILE {
            return Err(named(&format!("too long (expected at most {LONGEST_FILE} bytes)")));
        }
        let text = String::from_utf8(text).map_err(|_| named("not text (expected UTF-8)"))?;
        Self::from_text(path, text)
    }

    /// Parses the text of the file at `path`.
    pub(crate) fn from_text(path: &Path, text: String) -> Result<Self, String> {
        let read = match mistakes::find(&text) {
            Some(mistake) => Err(mistake),
            None => toml::from_str::<Self>(&text).map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                (at, error.message().replace('\n', ", "))
            }),
        };
        let origin = Origin { path: path.to_owned(), text };
        match read {
            Ok(written) => Ok(Self { origin: Some(origin), ..written }.with_new_names()),
            Err((at, why)) => {
                let (number, line) = origin.line(at);
                Err(Origin::named(path, &format!("line {number} {line:?}: {why}")))
            }
        }
    }

    /// Returns the prefix of an error about `word`: file and line, or empty for a word of the
    /// command line.
    pub(super) fn place(&self, word: Option<&Word>) -> String {
        self.place_at(word.and_then(|word| word.begin))
    }

    /// Returns the prefix of an error about the byte `begin` of the file.
    pub(super) fn place_at(&self, begin: Option<usize>) -> String {
        match (&self.origin, begin) {
            (Some(origin), Some(begin)) => {
                Origin::named(&origin.path, &format!("line {}: ", origin.line(begin).0))
            }
            _ => String::new(),
        }
    }

    /// Parses the value of an option, if given; errors start with its location.
    pub(super) fn read<T>(
        &self,
        option: &str,
        word: &Option<Word>,
        parse: impl FnOnce(&str, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(word) = word else { return Ok(None) };
        parse(option, word.text()).map(Some).map_err(|why| self.place(Some(word)) + &why)
    }

    /// Merges the command line (`self`) over `file`.
    pub(crate) fn over(self, file: Self) -> Self {
        let line = self.with_new_names();
        let mut file = file.without_what_is_said_otherwise(&line);
        file.renamed.extend_from_slice(&line.renamed);
        line.merged_with(file)
    }

    /// Accepts `--framing ptm` beside `--overhead` or `--mpu`, and `--framing none`, under its new
    /// name `--encoding`.
    fn with_new_names(mut self) -> Self {
        let Some(word) = &self.framing else { return self };
        let text = word.text();
        let is_encoding = Framing::WORDS.iter().any(|(name, _)| *name == text);
        let is_part = self.overhead.is_some() || self.mpu.is_some() || text == "none";
        if is_encoding && is_part && self.encoding.is_none() {
            let place = self.place(Some(word));
            self.renamed.push(format!("{place}--framing {text:?}: renamed, use --encoding {text}"));
            self.encoding = self.framing.take();
        }
        self
    }

    /// Takes each option from the command line (`self`) if given there, or else from `file`.
    fn merged_with(self, file: Self) -> Self {
        let names = if self.names.is_empty() { file.names } else { self.names };
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
            host_by: self.host_by.or(file.host_by),
            nat: self.nat.or(file.nat),
            limit: self.limit.or(file.limit),
            flush_unserved: self.flush_unserved.or(file.flush_unserved),
            aqm: self.aqm.or(file.aqm),
            l4s: self.l4s.or(file.l4s),
            rtt: self.rtt.or(file.rtt),
            overhead: self.overhead.or(file.overhead),
            mpu: self.mpu.or(file.mpu),
            encoding: self.encoding.or(file.encoding),
            autorate: self.autorate.or(file.autorate),
            up_min: self.up_min.or(file.up_min),
            up_max: self.up_max.or(file.up_max),
            down_min: self.down_min.or(file.down_min),
            down_max: self.down_max.or(file.down_max),
            autorate_delay: self.autorate_delay.or(file.autorate_delay),
            autorate_ingress: self.autorate_ingress.or(file.autorate_ingress),
            tins: self.tins.or(file.tins),
            tin_by: self.tin_by.or(file.tin_by),
            fwmark: self.fwmark.or(file.fwmark),
            ack_filter: self.ack_filter.or(file.ack_filter),
            wash: self.wash.or(file.wash),
            memory_limit: self.memory_limit.or(file.memory_limit),
            framing: self.framing.or(file.framing),
            catch_up: self.catch_up.or(file.catch_up),
            burst: self.burst.or(file.burst),
            hosts_across_tins: self.hosts_across_tins.or(file.hosts_across_tins),
            ingress: self.ingress.or(file.ingress),
            split_gso: self.split_gso.or(file.split_gso),
            stats: self.stats.or(file.stats),
            stats_interval: self.stats_interval.or(file.stats_interval),
            metrics: self.metrics.or(file.metrics),
            user: self.user.or(file.user),
            names,
            weights,
            rates,
            ceils,
            caps,
            origin: file.origin,
            renamed: file.renamed,
        }
    }

    /// Removes options that an option of `line`, the command line, replaces.
    fn without_what_is_said_otherwise(mut self, line: &Self) -> Self {
        if line.framing.is_some() {
            (self.overhead, self.mpu, self.encoding) = (None, None, None);
        }
        if line.overhead.is_some() || line.mpu.is_some() || line.encoding.is_some() {
            self.framing = None;
        }
        if line.catch_up.is_some() {
            self.burst = None;
        }
        if line.burst.is_some() {
            self.catch_up = None;
        }
        // These hosts allow only one flow scheduler.
        if line.hosts.as_ref().is_some_and(|hosts| hosts.text() == HostMode::UsersSqf.word()) {
            self.queue = None;
        }
        self
    }
}
