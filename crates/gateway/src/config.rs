//! What the gateway is told, by words and by a file, and checked before anything is opened.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use freeboard::Isolation;
use freeboard::sched_core::Nanos;
use freeboard::shaper::{Framing, Overhead, Rate};
use serde::Deserialize;

use crate::frame::ETHERNET_HEADER;
use crate::words::{Hosts, Io, Limit, Order, Words as _, number, rate, rate_word};

/// Options as they were written: in the file, or as words. Each may be absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Written {
    pub(crate) lan: Option<Word>,
    pub(crate) wan: Option<Word>,
    pub(crate) up: Option<Word>,
    pub(crate) down: Option<Word>,
    pub(crate) io: Option<Word>,
    pub(crate) queue: Option<Word>,
    pub(crate) hosts: Option<Word>,
    pub(crate) limit: Option<Word>,
    pub(crate) overhead: Option<Word>,
    pub(crate) mpu: Option<Word>,
    pub(crate) framing: Option<Word>,
    pub(crate) catch_up: Option<Word>,
    pub(crate) stats: Option<Word>,
    pub(crate) stats_every: Option<Word>,
    pub(crate) metrics: Option<Word>,
    pub(crate) user: Option<Word>,
    /// By address, as it is written.
    #[serde(default)]
    pub(crate) weights: BTreeMap<String, Word>,
    /// By address, as it is written.
    #[serde(default)]
    pub(crate) caps: BTreeMap<String, Word>,
}

/// A value: a string, or a number that stands without quotes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "accepted is a string or a whole number")]
pub(crate) enum Word {
    Text(String),
    Number(i64),
}

impl Word {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// One direction's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) order: Order,
    pub(crate) hosts: Hosts,
    pub(crate) limit: Limit,
}

/// All that was told, in range and without contradictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) lan: String,
    pub(crate) wan: String,
    pub(crate) io: Io,
    pub(crate) up: Rate,
    pub(crate) down: Rate,
    pub(crate) share: Share,
    pub(crate) link: Overhead,
    /// How late a timer may be without the line losing time.
    pub(crate) catch_up: Nanos,
    pub(crate) stats: Option<PathBuf>,
    pub(crate) stats_every: u64,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) user: String,
    /// The weights of hosts on the LAN side; the others have 1.
    pub(crate) weights: BTreeMap<IpAddr, u32>,
    /// The caps of hosts on the LAN side, each way; the others have none.
    pub(crate) caps: BTreeMap<IpAddr, Rate>,
}

/// The heaviest host.
pub(crate) const MAX_WEIGHT: u32 = 1_000;

/// How late a timer may be, in milliseconds, without the line losing time, if nothing is said: what a busy
/// home router keeps a process waiting.
const DEFAULT_CATCH_UP: i64 = 10;

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
        let named = |why: &str| format!("--config {}: {why}", path.display());
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut text))
            .map_err(|error| named(&error.to_string()))?;
        if text.len() as u64 > LONGEST_FILE {
            return Err(named(&format!("accepted are at most {LONGEST_FILE} bytes")));
        }
        let text = String::from_utf8(text).map_err(|_| named("accepted is UTF-8"))?;
        toml::from_str(&text).map_err(|error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or("");
            let line = before.matches('\n').count();
            let written = text.lines().nth(line).unwrap_or("").trim();
            let written: String = written.chars().take(SHOWN).collect();
            let why = error.message().replace('\n', ", ");
            named(&format!("line {} {written:?}: {why}", line + 1))
        })
    }

    /// What `self` says, and where it says nothing, what `file` says.
    pub(crate) fn over(self, file: Self) -> Self {
        let weights = if self.weights.is_empty() { file.weights } else { self.weights };
        let caps = if self.caps.is_empty() { file.caps } else { self.caps };
        Self {
            lan: self.lan.or(file.lan),
            wan: self.wan.or(file.wan),
            up: self.up.or(file.up),
            down: self.down.or(file.down),
            io: self.io.or(file.io),
            queue: self.queue.or(file.queue),
            hosts: self.hosts.or(file.hosts),
            limit: self.limit.or(file.limit),
            overhead: self.overhead.or(file.overhead),
            mpu: self.mpu.or(file.mpu),
            framing: self.framing.or(file.framing),
            catch_up: self.catch_up.or(file.catch_up),
            stats: self.stats.or(file.stats),
            stats_every: self.stats_every.or(file.stats_every),
            metrics: self.metrics.or(file.metrics),
            user: self.user.or(file.user),
            weights,
            caps,
        }
    }

    /// Checks everything, in the order of the help.
    pub(crate) fn check(&self) -> Result<Config, String> {
        let needed = |option: &str, word: &Option<Word>, what: &str| {
            let text = word.as_ref().map(Word::text).filter(|text| !text.is_empty());
            text.ok_or_else(|| format!("{option} is missing: {what}"))
        };
        let given = |word: &Option<Word>| word.as_ref().map(Word::text);
        let lan = needed("--lan", &self.lan, "the device of the hosts")?;
        let wan = needed("--wan", &self.wan, "the device of the line")?;
        if lan == wan {
            return Err(format!("--wan {wan:?}: is the device of --lan; two are needed"));
        }
        let rate_needed = "a rate such as 10mbit, or unlimited";
        let up = rate("--up", &needed("--up", &self.up, rate_needed)?)?;
        let down = rate("--down", &needed("--down", &self.down, rate_needed)?)?;
        let io = given(&self.io).map_or(Ok(Io::default()), |word| Io::parse("--io", &word))?;
        let (order, hosts) = self.order_and_hosts()?;
        let limit = match given(&self.limit) {
            Some(word) => Limit::parse("--limit", &word)?,
            None if order == Order::Fifo => DEFAULT_LIMIT_OF_FIFO,
            None => DEFAULT_LIMIT,
        };
        let every = given(&self.stats_every);
        let every = every.map_or(Ok(1), |word| number("--stats-every", &word, 1..=86_400))?;
        let catch_up = given(&self.catch_up);
        let catch_up =
            catch_up.map_or(Ok(DEFAULT_CATCH_UP), |word| number("--catch-up", &word, 0..=1_000))?;
        let metrics = given(&self.metrics).map(|word| {
            // Nobody would know which port 0 has become.
            let address = word.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
            address.ok_or_else(|| {
                format!("--metrics {word:?}: accepted is ADDRESS:PORT, such as 127.0.0.1:9100")
            })
        });
        let stats = given(&self.stats);
        if stats.as_deref() == Some("") {
            return Err("--stats \"\": accepted is a path for a socket".to_owned());
        }
        Ok(Config {
            lan,
            wan,
            io,
            up,
            down,
            share: Share { order, hosts, limit },
            link: self.link()?,
            catch_up: Nanos::from_millis(catch_up.unsigned_abs()),
            stats: stats.map(PathBuf::from),
            stats_every: every.unsigned_abs(),
            metrics: metrics.transpose()?,
            user: given(&self.user).unwrap_or_else(|| "nobody".to_owned()),
            weights: self.weights(order)?,
            caps: self.caps(hosts)?,
        })
    }

    /// The order, and what shares the line; some pairs make no sense.
    fn order_and_hosts(&self) -> Result<(Order, Hosts), String> {
        let hosts = self.hosts.as_ref().map(|word| Hosts::parse("--hosts", &word.text()));
        let hosts = hosts.transpose()?;
        let order = self.queue.as_ref().map(|word| Order::parse("--queue", &word.text()));
        let order = match order.transpose()? {
            None if hosts == Some(Hosts::UsersSqf) => Order::Sqf,
            order => order.unwrap_or_default(),
        };
        let accepted = match order {
            Order::Drr => {
                "flows, srchost, dsthost, hosts, dual-srchost, dual-dsthost, triple-isolate, lan"
            }
            Order::Sqf => "flows, srchost, dsthost, hosts, users+sqf",
            Order::Qfq => "flows, srchost, dsthost, hosts",
            Order::Fifo => "none: a FIFO knows no hosts",
        };
        let fits = match hosts {
            None => true,
            Some(Hosts::UsersSqf) => order == Order::Sqf,
            Some(Hosts::Lan) => order == Order::Drr,
            Some(Hosts::By(isolation)) => match isolation {
                Isolation::DualSrcHost | Isolation::DualDstHost | Isolation::TripleIsolate => {
                    order == Order::Drr
                }
                _ => order != Order::Fifo,
            },
        };
        match hosts {
            Some(hosts) if !fits => Err(format!(
                "--hosts {:?}: with --queue {} accepted are {accepted}",
                hosts.word(),
                order.word()
            )),
            Some(hosts) => Ok((order, hosts)),
            None if order == Order::Drr => Ok((order, Hosts::Lan)),
            None => Ok((order, Hosts::By(Isolation::Flows))),
        }
    }

    /// What a packet is on the wire. Frames are counted as they are unless something is said of the link.
    fn link(&self) -> Result<Overhead, String> {
        let in_range = |option: &str, word: &Option<Word>, range| {
            word.as_ref().map(|word| number(option, &word.text(), range)).transpose()
        };
        let least = Overhead::MIN_OVERHEAD.into();
        let overhead =
            in_range("--overhead", &self.overhead, least..=Overhead::MAX_OVERHEAD.into())?;
        let mpu = in_range("--mpu", &self.mpu, 0..=Overhead::MAX_MPU.into())?;
        let framing = self.framing.as_ref().map(|word| Framing::parse("--framing", &word.text()));
        let framing = framing.transpose()?;
        if overhead.is_none() && mpu.is_none() && framing.is_none() {
            return Ok(Overhead::RAW);
        }
        let overhead = i32::try_from(overhead.unwrap_or(0)).unwrap_or(0);
        let mpu = u32::try_from(mpu.unwrap_or(0)).unwrap_or(0);
        let link = Overhead::new(framing.unwrap_or(Framing::None), overhead, mpu);
        let link = link.map_err(|error| format!("--overhead: {error}"))?;
        Ok(link.for_frames(ETHERNET_HEADER as u8))
    }

    fn weights(&self, order: Order) -> Result<BTreeMap<IpAddr, u32>, String> {
        if !self.weights.is_empty() && !matches!(order, Order::Drr | Order::Qfq) {
            return Err(format!(
                "weights: with --queue {} there are none; accepted are drr, qfq",
                order.word()
            ));
        }
        let mut weights = BTreeMap::new();
        for (address, word) in &self.weights {
            let host = host("weights", address)?;
            let option = format!("weights {address}");
            let weight = number(&option, &word.text(), 1..=MAX_WEIGHT.into())?;
            if weights.insert(host, u32::try_from(weight).unwrap_or(1)).is_some() {
                return Err(format!("weights {address:?}: given twice; accepted is one"));
            }
        }
        Ok(weights)
    }

    /// Those of hosts as a level of their own, which have one host on the LAN side.
    fn caps(&self, hosts: Hosts) -> Result<BTreeMap<IpAddr, Rate>, String> {
        if !self.caps.is_empty() && hosts != Hosts::Lan {
            return Err(format!(
                "caps: with --hosts {} there are none; accepted are --queue drr and --hosts lan",
                hosts.word()
            ));
        }
        let mut caps = BTreeMap::new();
        for (address, word) in &self.caps {
            let host = host("caps", address)?;
            let word = word.text();
            let option = format!("caps {address}");
            let rate = rate(&option, &word)?;
            if rate == Rate::UNLIMITED {
                return Err(format!("{option} {word:?}: accepted is a rate such as 5mbit"));
            }
            if caps.insert(host, rate).is_some() {
                return Err(format!("caps {address:?}: given twice; accepted is one"));
            }
        }
        Ok(caps)
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
        changed("queue", self.share.order.word().into(), new.share.order.word().into());
        changed("hosts", self.share.hosts.word().into(), new.share.hosts.word().into());
        changed("limit", self.share.limit.word(), new.share.limit.word());
        changed("link", link_words(self.link), link_words(new.link));
        changed("catch-up", millis_word(self.catch_up), millis_word(new.catch_up));
        changed("stats-every", self.stats_every.to_string(), new.stats_every.to_string());
        said.extend(changed_hosts("weights", &self.weights, &new.weights, |weight| {
            weight.map_or("1".to_owned(), u32::to_string)
        }));
        said.extend(changed_hosts("caps", &self.caps, &new.caps, |cap| {
            cap.map_or("none".to_owned(), |&rate| rate_word(rate))
        }));
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
        let Self { up, down, share, link, catch_up, stats_every, weights, caps, .. } = new;
        (self.up, self.down, self.share, self.link) = (up, down, share, link);
        (self.catch_up, self.stats_every) = (catch_up, stats_every);
        (self.weights, self.caps) = (weights, caps);
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
        (from != to).then(|| (from, to))
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
        let written: Written = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        written.check()
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
        assert_eq!((config.share.order, config.share.hosts), (Order::Drr, Hosts::Lan));
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
        assert!(read(&LINE.replace("\"b\"", "\"a\"")).unwrap_err().starts_with("--wan"));
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
            ("[caps]\n\"home\" = \"1mbit\"", "caps \"home\": accepted is an IP address"),
            ("[caps]\n\"10.0.0.1\" = \"fast\"", "caps 10.0.0.1 \"fast\": "),
            ("[caps]\n\"::1\" = 5000\n\"0::1\" = 5000", "given twice; accepted is one"),
            ("[caps]\n\"10.0.0.1\" = \"unlimited\"", "accepted is a rate such as 5mbit"),
            ("hosts = \"flows\"\n[caps]\n\"10.0.0.1\" = 5000", "caps: with --hosts flows"),
            ("queue = \"qfq\"\n[caps]\n\"10.0.0.1\" = 5000", "accepted are --queue drr"),
            ("overhead = 300", "--overhead \"300\": accepted are -64 to 256"),
            ("mpu = -1", "--mpu \"-1\": accepted are 0 to 256"),
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
        }
    }

    /// Goal: a FIFO without a limit waits as a modem does, 1.2 s at 10 Mbit/s, and not 3.4 s.
    #[test]
    fn a_fifo_holds_what_a_modem_does() {
        let limit = |more| with(more).unwrap().share.limit;
        assert_eq!(limit("queue = \"fifo\""), Limit::Packets(1_000));
        assert_eq!(limit("queue = \"fifo\"\nlimit = 500000"), Limit::Bytes(500_000));
        assert_eq!(limit("queue = \"sqf\""), Limit::Bytes(4 << 20));
    }

    #[test]
    fn users_with_sqf_inside_need_no_second_word() {
        let share = with("hosts = \"users+sqf\"").unwrap().share;
        assert_eq!((share.order, share.hosts), (Order::Sqf, Hosts::UsersSqf));
    }

    #[test]
    fn a_link_that_is_described_does_not_count_the_ethernet_header() {
        let link = with("framing = \"atm\"\noverhead = 32").unwrap().link;
        assert_eq!((link.framing(), link.overhead(), link.header()), (Framing::Atm, 32, 14));
        assert_eq!(with("mpu = 64").unwrap().link.header(), 14);
    }

    #[test]
    fn words_win_over_the_file() {
        let file: Written = toml::from_str(&format!("{LINE}queue = \"sqf\"")).unwrap();
        let words = Written { up: Some(Word::Text("3mbit".into())), ..Written::default() };
        let config = words.over(file).check().unwrap();
        assert_eq!((rate_word(config.up), config.share.order), ("3mbit".to_owned(), Order::Sqf));
    }

    /// Goal: a long table of which a little has changed makes a short line, and one of which all has changed too.
    #[test]
    fn of_hosts_is_said_what_has_changed() {
        let table = |rate: &str| {
            let caps =
                (0..5_000).map(|at| format!("\"10.0.{}.{}\" = \"{rate}\"\n", at / 250, at % 250));
            format!("[caps]\n{}", caps.collect::<String>())
        };
        let (slow, fast) = (table("1mbit"), table("2mbit"));
        let mut config = with(&slow).unwrap();
        assert!(config.take_over(with(&slow).unwrap()).is_empty());
        let one = slow.replace("\"10.0.3.7\" = \"1mbit\"\n", "\"10.9.9.9\" = \"3mbit\"\n");
        let said = config.take_over(with(&one).unwrap());
        assert_eq!(said, ["caps: 10.0.3.7 1mbit -> none, 10.9.9.9 none -> 3mbit"]);
        config.take_over(with(&slow).unwrap());
        let said = config.take_over(with(&fast).unwrap());
        assert!(said[0].starts_with("caps: 10.0.0.0 1mbit -> 2mbit, 10.0.0.1 "), "{said:?}");
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
            (config.lan.as_str(), config.io, config.share.order),
            ("a", Io::Packet, Order::Qfq)
        );
    }
}
