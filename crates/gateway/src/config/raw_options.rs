//! Options as they were written, in a file or as words, and where.

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

/// Options as they were written: in the file, or as words. Each may be absent. The comment of an
/// option is what the help says of it.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[group(skip)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawOptions {
    /// The device on the side of the hosts.
    #[arg(long, value_name = "DEV", help_heading = "Devices and rates")]
    pub(crate) lan: Option<Word>,
    /// The device on the side of the line.
    #[arg(long, value_name = "DEV", help_heading = "Devices and rates")]
    pub(crate) wan: Option<Word>,
    /// 10mbit, 512kbit, 1gbit, unlimited, or bits per second.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Devices and rates",
        allow_negative_numbers = true
    )]
    pub(crate) up: Option<Word>,
    /// The same for the way back.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Devices and rates",
        allow_negative_numbers = true
    )]
    pub(crate) down: Option<Word>,
    /// The rates follow the line, by how long echo requests to these addresses take: one at a time
    /// is asked, 20 times a second, the next one if it is silent. --up and --down are what the
    /// line usually carries [default: off].
    #[arg(long, value_name = "ADDR,...", help_heading = "Rates that follow the line")]
    pub(crate) autorate: Option<Word>,
    /// The least rate up; without it --up is fixed.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Rates that follow the line",
        allow_negative_numbers = true
    )]
    pub(crate) up_min: Option<Word>,
    /// The greatest rate up [default: --up].
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Rates that follow the line",
        allow_negative_numbers = true
    )]
    pub(crate) up_max: Option<Word>,
    /// The least rate down; without it --down is fixed.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Rates that follow the line",
        allow_negative_numbers = true
    )]
    pub(crate) down_min: Option<Word>,
    /// The greatest rate down [default: --down].
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Rates that follow the line",
        allow_negative_numbers = true
    )]
    pub(crate) down_max: Option<Word>,
    /// How many milliseconds more than the path takes are a queue in the modem, 1 to 1000
    /// [default: 15].
    #[arg(
        long,
        value_name = "MS",
        help_heading = "Rates that follow the line",
        allow_negative_numbers = true
    )]
    pub(crate) autorate_delay: Option<Word>,
    /// The rate down follows what arrives, between --down-min and --down-max; with --autorate it
    /// is the lesser of both [default: off; alone: on].
    #[arg(long, value_name = "WORD", help_heading = "Rates that follow the line", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) autorate_ingress: Option<Word>,
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
    /// Hosts told apart at once, 1 to 8192; beyond them, two and more share one share. Queues grow
    /// with it: 1.96 kB a host and direction [default: 2048].
    #[arg(long, value_name = "N", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) max_hosts: Option<Word>,
    /// What tells hosts of the lan side apart: address, mac, vlan, or the first bits of addresses:
    /// prefix/V4/V6; prefix is prefix/32/64. auto is mac where frames of several cards come and
    /// address where all come from one. Lists of addresses in [names] come before [default: auto;
    /// address with
    /// --nat, and where a table names an address].
    #[arg(long, value_name = "WORD", help_heading = "Queues")]
    pub(crate) host_by: Option<Word>,
    /// Hosts are those behind this machine's own translation of addresses (NAT), where the gateway
    /// stands on the outer side of it: the kernel's table of connections knows them [default: off;
    /// alone: on].
    #[arg(long, value_name = "WORD", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) nat: Option<Word>,
    /// What each direction may hold: a size such as 4mb or 300000, and at most 8192 packets then,
    /// or packets with a p behind them. Each takes memory: the MTU and about 300 bytes [default:
    /// what the rate carries in four times --rtt, 32 of the longest packets at least and 4 MiB at
    /// most; with fifo 1000p, as many as a modem holds].
    #[arg(long, value_name = "N", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) limit: Option<Word>,
    /// With sqf: a queue that has to make room and was not served for this many milliseconds is
    /// dropped whole, 0 to 60000; 0 is never [default: 0].
    #[arg(long, value_name = "MS", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) flush_unserved: Option<Word>,
    /// AQM algorithm: codel marks or drops packets of a standing queue; cobalt also drops from
    /// unresponsive flows; pie, pi2, red and blue mark or drop packets at random as they arrive;
    /// none disables AQM [default: cobalt; with fifo none].
    #[arg(long, value_name = "WORD", help_heading = "Queues", value_parser = one_of::<AqmKind>())]
    pub(crate) aqm: Option<Word>,
    /// Packets with ECT(1) are marked above a shallow threshold in the queue of their flow
    /// [default: on; off with fifo and with aqm none].
    #[arg(long, value_name = "WORD", help_heading = "Queues", value_parser = one_of::<Switch>())]
    pub(crate) l4s: Option<Word>,
    /// How far away the other ends are, which sets the AQM and limits: datacentre, lan, metro,
    /// regional, internet, oceanic, satellite, or a time such as 30ms. A queue may stand for a
    /// twentieth of it [default: internet, 100 ms].
    #[arg(long, value_name = "WORD", help_heading = "Queues")]
    pub(crate) rtt: Option<Word>,
    /// Classes of the line by code point (DSCP): besteffort, precedence, diffserv3, diffserv4,
    /// diffserv8, or tins of your own, "tin rest tin calls share 1/4 map EF calls". Within its
    /// share of the rate a tin goes before those below, and beyond it behind them. With drr
    /// [default: besteffort].
    #[arg(long, value_name = "WORDS", help_heading = "Queues")]
    pub(crate) tins: Option<Word>,
    /// Which header names the tin: that of the packet, the innermost one that can be read of
    /// tunnels, or the priority bits (802.1p) of a VLAN tag [default: dscp].
    #[arg(long, value_name = "WORD", help_heading = "Queues", value_parser = one_of::<TinBy>())]
    pub(crate) tin_by: Option<Word>,
    /// Bits of the firewall's mark that name the tin, such as 0xff: 1 is the first, and where they
    /// are 0 the header counts. The kernel says marks, since Linux 5.19, of what this machine's
    /// own stack hands over at a veth pair [default: 0, none].
    #[arg(long, value_name = "MASK", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) fwmark: Option<Word>,
    /// What waits of the TCP acknowledgements that hosts send is thinned out: at most all but two
    /// of a connection, or, aggressive, all but one. For a line that is ten times as fast down as
    /// up [default: off; alone: conservative].
    #[arg(long, value_name = "WORD", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<AckFilter>())]
    pub(crate) ack_filter: Option<Word>,
    /// Frames leave without the code point (DSCP) that they came with [default: off; alone: both].
    #[arg(long, value_name = "WAY", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "both", value_parser = one_of::<Ways>())]
    pub(crate) wash: Option<Word>,
    /// What the buffers of queued frames may take in each direction: by-rate, which is what the
    /// rate carries in four times --rtt, 4 to 15 MB, or a size such as 4mb or 300000 [default:
    /// what --limit says].
    #[arg(long, value_name = "SIZE", help_heading = "Queues", allow_negative_numbers = true)]
    pub(crate) memory_limit: Option<Word>,
    /// What the line is, in words: "pppoe-ptm ether-vlan", "docsis", "overhead 44 mpu 96 atm"; in
    /// place of the next three.
    #[arg(long, value_name = "WORDS", help_heading = "The line")]
    pub(crate) link: Option<Word>,
    /// Bytes that the line adds to an IP packet, -64 to 256.
    #[arg(long, value_name = "N", help_heading = "The line", allow_negative_numbers = true)]
    pub(crate) overhead: Option<Word>,
    /// The least bytes of a packet on the line, 0 to 256.
    #[arg(long, value_name = "N", help_heading = "The line", allow_negative_numbers = true)]
    pub(crate) mpu: Option<Word>,
    /// Cells of ATM, the 64b/65b encoding of PTM, or the headers of GPON [default: none].
    #[arg(long, value_name = "WORD", help_heading = "The line", value_parser = one_of::<Framing>())]
    pub(crate) framing: Option<Word>,
    /// How late a timer may be, in milliseconds, without the line losing time, 0 to 1000
    /// [default: 10].
    #[arg(long, value_name = "MS", help_heading = "The line", allow_negative_numbers = true)]
    pub(crate) catch_up: Option<Word>,
    /// The same in bytes that may leave at once then, whatever the rate: in place of --catch-up.
    #[arg(long, value_name = "BYTES", help_heading = "The line", allow_negative_numbers = true)]
    pub(crate) burst: Option<Word>,
    /// A host has one share in all tins together, and not one in each. With --tins [default: off;
    /// alone: on].
    #[arg(long, value_name = "WORD", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) hosts_across_tins: Option<Word>,
    /// Frames of several packets (GSO, TSO, GRO) are cut into these when they come, and else
    /// dropped as merged [default: on].
    #[arg(long, value_name = "WORD", help_heading = "Queues", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) split_gso: Option<Word>,
    /// On the way down the line stands before the gateway: what is dropped here counts as sent, so
    /// that arrivals keep to the rate [default: off; alone: on].
    #[arg(long, value_name = "WORD", help_heading = "The line", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of::<Switch>())]
    pub(crate) ingress: Option<Word>,
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
    /// Lists of addresses that are one host, by name.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) names: BTreeMap<String, Spanned<Vec<Word>>>,
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
    pub(super) origin: Option<Origin>,
}

/// A value as it was written, and where.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Spanned<Bare>")]
pub(crate) struct Word {
    text: String,
    /// Of a word in the file, where it begins there.
    begin: Option<usize>,
}

/// A value: a string, or a number or `true` or `false` that stand without quotes. These are the
/// words `on` and `off`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "not accepted (expected a string, a whole number, true or false)")]
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

/// Any UTF-8; what else is asked of a word is asked of those in the file too.
impl ValueParserFactory for Word {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        let utf8 = |word: OsString| word.into_string().map_err(|_| "not accepted (expected UTF-8)");
        ValueParser::new(OsStringValueParser::new().try_map(utf8).map(Word::said))
    }
}

/// One of the words of a type, which a shell can complete.
fn one_of<T: Words>() -> impl TypedValueParser<Value = Word> {
    PossibleValuesParser::new(T::WORDS.iter().map(|(word, _)| *word)).map(Word::said)
}

impl Word {
    /// A word of the command line.
    pub(super) fn said(text: String) -> Self {
        Self { text, begin: None }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The file that words were read from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    path: PathBuf,
    text: String,
}

impl Origin {
    /// The number of the line in which the byte `at` is, from 1, and the line, of which a long one
    /// is cut.
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

/// The longest configuration file, in bytes: some ten thousand weights, read in a few milliseconds
/// while frames wait.
const LONGEST_FILE: u64 = 256 << 10;
/// Letters of a line that are shown with what is wrong with it.
const SHOWN: usize = 60;

impl RawOptions {
    /// Reads a file; one line says what is wrong with it.
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

    /// Reads the text of the file at `path`.
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
            Ok(written) => Ok(Self { origin: Some(origin), ..written }),
            Err((at, why)) => {
                let (number, line) = origin.line(at);
                Err(Origin::named(path, &format!("line {number} {line:?}: {why}")))
            }
        }
    }

    /// What stands in front of what is wrong with `word`: the file and the line, of a word in a
    /// file.
    pub(super) fn place(&self, word: Option<&Word>) -> String {
        self.place_at(word.and_then(|word| word.begin))
    }

    /// The same of what begins there in the file.
    pub(super) fn place_at(&self, begin: Option<usize>) -> String {
        match (&self.origin, begin) {
            (Some(origin), Some(begin)) => {
                Origin::named(&origin.path, &format!("line {}: ", origin.line(begin).0))
            }
            _ => String::new(),
        }
    }

    /// The value of an option, if it is given; what is wrong with it begins with its place.
    pub(super) fn read<T>(
        &self,
        option: &str,
        word: &Option<Word>,
        parse: impl FnOnce(&str, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(word) = word else { return Ok(None) };
        parse(option, word.text()).map(Some).map_err(|why| self.place(Some(word)) + &why)
    }

    /// What the command line (`self`) says, and where it says nothing, what `file` says.
    pub(crate) fn over(self, file: Self) -> Self {
        let file = file.without_what_is_said_otherwise(&self);
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
            framing: self.framing.or(file.framing),
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
            link: self.link.or(file.link),
            catch_up: self.catch_up.or(file.catch_up),
            burst: self.burst.or(file.burst),
            hosts_across_tins: self.hosts_across_tins.or(file.hosts_across_tins),
            ingress: self.ingress.or(file.ingress),
            split_gso: self.split_gso.or(file.split_gso),
            stats: self.stats.or(file.stats),
            stats_every: self.stats_every.or(file.stats_every),
            metrics: self.metrics.or(file.metrics),
            user: self.user.or(file.user),
            names,
            weights,
            rates,
            ceils,
            caps,
            origin: file.origin,
        }
    }

    /// Takes out what `line`, the command line, says in different words.
    fn without_what_is_said_otherwise(mut self, line: &Self) -> Self {
        if line.link.is_some() {
            (self.overhead, self.mpu, self.framing) = (None, None, None);
        }
        if line.overhead.is_some() || line.mpu.is_some() || line.framing.is_some() {
            self.link = None;
        }
        if line.catch_up.is_some() {
            self.burst = None;
        }
        if line.burst.is_some() {
            self.catch_up = None;
        }
        // Those hosts have one flow scheduler.
        if line.hosts.as_ref().is_some_and(|hosts| hosts.text() == HostMode::UsersSqf.word()) {
            self.queue = None;
        }
        self
    }
}
