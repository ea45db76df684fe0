//! Validates options: ranges of values, and contradictions between options.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::path::PathBuf;

use freeboard::flowhash::{HostBy, HostError, HostMember};
use freeboard::sched_core::Nanos;
use freeboard::shaper::{Framing, Overhead, Rate};
use freeboard::{AqmKind, Isolation};

use crate::config::handling::rtt;
use crate::config::hosts::{Host, Names, check_name, host_by, member};
use crate::config::keywords::{
    HostMode, Io, Limit, QueueKind, Switch, Words, finite_rate, number, rate, rate_word,
};
use crate::config::{Config, DEFAULT_MAX_HOSTS, MAX_WEIGHT, Places, RawOptions, Sharing, Word};
use crate::io::frame::ETHERNET_HEADER;

/// Hint for the deprecated table `[caps]`.
const CAPS_ARE_RATES: &str =
    "[caps]: renamed, use [rates]; to limit a host on an idle link, use [ceils]";

/// Maximum of `--max-hosts`. Twice as many would need more queues and host entries than
/// [`IsolatedMemory::MAX_QUEUES`](freeboard::IsolatedMemory::MAX_QUEUES).
const MOST_HOSTS: u32 = 8_192;

/// Maximum of `--flush-unserved` in milliseconds.
const LONGEST_UNSERVED: i64 = 60_000;

/// Default limit of a FIFO: as much as a modem holds, since no AQM keeps it short.
const DEFAULT_LIMIT_OF_FIFO: Limit = Limit::Packets(1_000);

impl RawOptions {
    /// Validates everything, in the order of the help.
    pub(crate) fn check(&self) -> Result<Config, String> {
        let needed = |option: &str, word: &Option<Word>, what: &str| match word {
            Some(word) if !word.text().is_empty() => Ok(word.text().to_owned()),
            _ => Err(format!("{option} is missing (expected {what})")),
        };
        let lan = needed("--lan", &self.lan, "the LAN device")?;
        let wan = needed("--wan", &self.wan, "the WAN device")?;
        if lan == wan {
            let place = self.place(self.wan.as_ref());
            return Err(format!(
                "{place}--wan {wan:?}: same device as --lan (expected another one)"
            ));
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
            _ => Limit::ByRate,
        });
        let flush_unserved = self.flush_unserved(kind)?;
        let (aqm, l4s) = self.aqm_and_l4s(kind)?;
        let every = self.in_range("--stats-interval", &self.stats_interval, 1..=86_400)?;
        let metrics = self.read("--metrics", &self.metrics, |option, word| {
            // With port 0 the system would choose a port that is not known.
            let address = word.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
            address.ok_or_else(|| {
                format!(
                    "{option} {word:?}: invalid value (expected ADDRESS:PORT, such as 127.0.0.1:9100)"
                )
            })
        })?;
        let names = self.names(kind)?;
        let stats = self.read("--stats", &self.stats, |option, word| match word {
            "" => Err(format!("{option} \"\": invalid value (expected a path for a socket)")),
            path => Ok(PathBuf::from(path)),
        })?;
        let mut config = Config {
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
                aqm,
                l4s,
                rtt: self.read("--rtt", &self.rtt, rtt)?.unwrap_or_default(),
            },
            framing: self.framing()?,
            handling: self.handling(kind, hosts)?,
            follow: self.follow(up, down)?,
            nat: self.read("--nat", &self.nat, Switch::parse)? == Some(Switch::On),
            stats,
            stats_interval: every.unwrap_or(1).unsigned_abs(),
            metrics,
            user: self.user.as_ref().map_or("nobody", Word::text).to_owned(),
            weights: self.weights(kind, hosts, &names)?,
            rates: self.rates(hosts, &names)?,
            ceils: self.ceils(hosts, &names)?,
            names,
            lists: self.lists(),
            hints: Vec::new(),
            places: self.places(),
        };
        config.hints = self.idle(&config);
        config.hints.extend_from_slice(&self.renamed);
        config.hints.extend((!self.caps.is_empty()).then(|| CAPS_ARE_RATES.to_owned()));
        Ok(config)
    }

    /// Returns the locations of options that the system may refuse later.
    fn places(&self) -> Places {
        let words = [
            ("--lan", &self.lan),
            ("--wan", &self.wan),
            ("--limit", &self.limit),
            ("--memory-limit", &self.memory_limit),
            ("--autorate", &self.autorate),
            ("--nat", &self.nat),
            ("--queue", &self.queue),
            ("--stats", &self.stats),
            ("--metrics", &self.metrics),
            ("--user", &self.user),
        ];
        let place = |(option, word): (_, &Option<Word>)| (option, self.place(word.as_ref()));
        Places(words.into_iter().map(place).collect())
    }

    pub(super) fn in_range(
        &self,
        option: &str,
        word: &Option<Word>,
        range: core::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, String> {
        self.read(option, word, |option, word| number(option, word, range))
    }

    /// Returns flow scheduler and host isolation; some combinations are rejected.
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
            QueueKind::Fifo => "no --hosts; a FIFO does not isolate hosts",
        };
        let fits = match hosts {
            None => true,
            Some(HostMode::UsersSqf) => kind == QueueKind::Sqf,
            Some(HostMode::Lan) => kind == QueueKind::Drr,
            Some(HostMode::By(isolation)) => match has_level_of_hosts(isolation) {
                true => kind == QueueKind::Drr,
                false => kind != QueueKind::Fifo,
            },
        };
        match hosts {
            Some(hosts) if !fits => Err(format!(
                "{}--hosts {:?}: not available with --queue {} (expected {accepted})",
                self.place(self.hosts.as_ref()),
                hosts.word(),
                kind.word()
            )),
            Some(hosts) => Ok((kind, hosts)),
            None if kind == QueueKind::Drr => Ok((kind, HostMode::Lan)),
            None => Ok((kind, HostMode::By(Isolation::Flows))),
        }
    }

    /// Returns the maximum number of hosts; rejected for modes with a fixed number.
    fn max_hosts(&self, kind: QueueKind, hosts: HostMode) -> Result<u32, String> {
        let why = match (kind, hosts) {
            (QueueKind::Fifo, _) => "not available with --queue fifo",
            (_, HostMode::UsersSqf) => {
                "not available with --hosts users+sqf, which has 64 host slots"
            }
            _ => {
                let hosts = self.in_range("--max-hosts", &self.max_hosts, 1..=MOST_HOSTS.into())?;
                let hosts = hosts.and_then(|hosts| u32::try_from(hosts).ok());
                return Ok(hosts.unwrap_or(DEFAULT_MAX_HOSTS));
            }
        };
        let refused =
            |option: &str, word: &str| Err(format!("{option} {word:?}: {why} (expected none)"));
        Ok(self.read("--max-hosts", &self.max_hosts, refused)?.unwrap_or(DEFAULT_MAX_HOSTS))
    }

    /// Returns the time without service after which SQF drops a whole queue on overflow.
    fn flush_unserved(&self, kind: QueueKind) -> Result<Option<Nanos>, String> {
        if kind != QueueKind::Sqf
            && let Some(word) = &self.flush_unserved
        {
            return Err(format!(
                "{}--flush-unserved {:?}: not available with --queue {} (expected sqf)",
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

    /// Returns the AQM, and true if packets with ECT(1) have their own threshold; a FIFO has
    /// neither.
    fn aqm_and_l4s(&self, kind: QueueKind) -> Result<(AqmKind, bool), String> {
        let aqm = self.read("--aqm", &self.aqm, <AqmKind as Words>::parse)?;
        let l4s = self.read("--l4s", &self.l4s, Switch::parse)?;
        if kind != QueueKind::Fifo {
            let aqm = aqm.unwrap_or_default();
            return Ok((aqm, l4s.map_or(aqm != AqmKind::None, |l4s| l4s == Switch::On)));
        }
        let refused = |option: &str, word: &Option<Word>, accepted: &str| {
            let (place, text) = (self.place(word.as_ref()), word.as_ref().map_or("", Word::text));
            Err(format!(
                "{place}{option} {text:?}: not available with --queue fifo (expected {accepted})"
            ))
        };
        match (aqm, l4s) {
            (Some(aqm), _) if aqm != AqmKind::None => refused("--aqm", &self.aqm, "none"),
            (_, Some(Switch::On)) => refused("--l4s", &self.l4s, "off"),
            _ => Ok((AqmKind::None, false)),
        }
    }

    /// Returns the lists of [names] as written.
    fn lists(&self) -> BTreeMap<String, Vec<String>> {
        let words = |list: &[Word]| list.iter().map(|word| word.text().to_owned()).collect();
        self.names.iter().map(|(name, list)| (name.clone(), words(list.get_ref()))).collect()
    }

    /// Returns the default host identity: addresses if a table names single ones or with `--nat`.
    fn usual_host_by(&self) -> HostBy {
        let tables = [&self.weights, &self.rates, &self.caps, &self.ceils];
        let mut written = tables.into_iter().flat_map(BTreeMap::keys);
        let are_named = written.all(|host| matches!(Host::parse(host), Ok(Host::Named(_))));
        let are_looked_up = self.nat.as_ref().is_some_and(|word| word.text() != "off");
        if are_named && !are_looked_up { HostBy::Auto } else { HostBy::Address }
    }

    /// Returns host identity and lists.
    fn names(&self, kind: QueueKind) -> Result<Names, String> {
        let asked = self.read("--host-by", &self.host_by, host_by)?;
        if kind == QueueKind::Fifo && asked.is_some_and(|by| by != HostBy::Address) {
            let why = "not available with --queue fifo (expected address)";
            return Err(self.not_with("--host-by", &self.host_by, why));
        }
        let by = asked.unwrap_or_else(|| self.usual_host_by());
        let mut names = Names::new(by);
        let mut written = Vec::new();
        for (name, list) in &self.names {
            let (place, words) = (self.place_at(Some(list.span().start)), list.get_ref());
            let named = |why: String| format!("{place}names {name:?}: {why}");
            check_name(name).map_err(named)?;
            if words.is_empty() {
                return Err(named(
                    "list is empty (expected addresses, prefixes, ranges or MACs)".into(),
                ));
            }
            let begin = written.len();
            for word in words {
                let member = member(word.text()).map_err(|why| {
                    format!("{}names {name} {:?}: {why}", self.place(Some(word)), word.text())
                })?;
                written.push((member, name, word));
            }
            let members: Vec<_> = written[begin..].iter().map(|(member, ..)| *member).collect();
            if !names.add(name, &members) {
                return Err(named("too many names (expected at most 65536)".into()));
            }
        }
        match names.finish() {
            Ok(()) => Ok(names),
            Err(HostError::Overlap { one, other }) => {
                let said = |of: HostMember| {
                    let name = names.name(of.host());
                    let is_same = |(member, in_list, _): &&(HostMember, &String, &Word)| {
                        *member == of.of_host(0) && *in_list == name
                    };
                    // If a member is given twice, the second word.
                    let word = written.iter().rfind(is_same).map(|(.., word)| *word);
                    let text = word.map_or("", Word::text);
                    (word, format!("names {name} {text:?}"))
                };
                let ((_, one), (word, other)) = (said(one), said(other));
                Err(format!(
                    "{}{other}: overlaps with {one} (expected each address in one list)",
                    self.place(word)
                ))
            }
            Err(error) => Err(format!("names: {error}")),
        }
    }

    /// Returns the framing given by `--overhead`, `--mpu` and `--encoding`.
    pub(super) fn framing_of_parts(&self) -> Result<Overhead, String> {
        let least = Overhead::MIN_OVERHEAD.into();
        let most = Overhead::MAX_OVERHEAD.into();
        let overhead = self.in_range("--overhead", &self.overhead, least..=most)?;
        let mpu = self.in_range("--mpu", &self.mpu, 0..=Overhead::MAX_MPU.into())?;
        let encoding = self.read("--encoding", &self.encoding, Framing::parse)?;
        if overhead.is_none() && mpu.is_none() && encoding.is_none() {
            return Ok(Overhead::RAW);
        }
        let overhead = i32::try_from(overhead.unwrap_or(0)).unwrap_or(0);
        let mpu = u32::try_from(mpu.unwrap_or(0)).unwrap_or(0);
        let framing = Overhead::new(encoding.unwrap_or(Framing::None), overhead, mpu);
        let framing = framing.map_err(|error| {
            format!("{}--overhead: {error}", self.place(self.overhead.as_ref()))
        })?;
        Ok(framing.for_frames(ETHERNET_HEADER as u8))
    }

    fn weights(
        &self,
        kind: QueueKind,
        hosts: HostMode,
        names: &Names,
    ) -> Result<BTreeMap<Host, u32>, String> {
        if !self.weights.is_empty() && !matches!(kind, QueueKind::Drr | QueueKind::Qfq) {
            return Err(format!(
                "{}weights: not available with --queue {} (expected drr, qfq)",
                self.place(self.weights.values().next()),
                kind.word()
            ));
        }
        if let (QueueKind::Drr, HostMode::By(isolation)) = (kind, hosts)
            && !self.weights.is_empty()
            && !has_level_of_hosts(isolation)
        {
            return Err(format!(
                "{}weights: not available with --queue drr --hosts {} (expected lan, \
                 dual-srchost, dual-dsthost or triple-isolate)",
                self.place(self.weights.values().next()),
                hosts.word()
            ));
        }
        let mut weights = BTreeMap::new();
        for (address, word) in &self.weights {
            let placed = |why: String| self.place(Some(word)) + &why;
            let host = host("weights", address, names).map_err(placed)?;
            let option = format!("weights {address}");
            let weight = number(&option, word.text(), 1..=MAX_WEIGHT.into()).map_err(placed)?;
            if weights.insert(host, u32::try_from(weight).unwrap_or(1)).is_some() {
                return Err(placed(format!("weights {address:?}: given twice (expected once)")));
            }
        }
        Ok(weights)
    }

    fn rates(&self, hosts: HostMode, names: &Names) -> Result<BTreeMap<Host, Rate>, String> {
        match (self.rates.is_empty(), self.caps.values().next()) {
            (false, caps @ Some(_)) => Err(self.place(caps)
                + "[caps] is the old name of [rates], and both are given (expected [rates])"),
            (true, Some(_)) => self.of_hosts("caps", &self.caps, hosts, names),
            _ => self.of_hosts("rates", &self.rates, hosts, names),
        }
    }

    fn ceils(&self, hosts: HostMode, names: &Names) -> Result<BTreeMap<Host, Rate>, String> {
        let rates = self.rates(hosts, names)?;
        let ceils = self.of_hosts("ceils", &self.ceils, hosts, names)?;
        for (address, word) in &self.ceils {
            let placed = |why: String| self.place(Some(word)) + &why;
            let host = host("ceils", address, names).map_err(placed)?;
            let (rate, ceil) = (rates.get(&host), ceils.get(&host));
            let bits = |rate: &Rate| rate.as_bits_per_second();
            if let (Some(rate), Some(ceil)) = (rate, ceil)
                && bits(rate) > bits(ceil)
            {
                return Err(placed(format!(
                    "ceils {address} {:?}: invalid value (expected its rate, {}, or more)",
                    word.text(),
                    rate_word(*rate)
                )));
            }
        }
        Ok(ceils)
    }

    /// Parses a table of rates per host, which requires isolated hosts on the LAN side.
    fn of_hosts(
        &self,
        table: &str,
        written: &BTreeMap<String, Word>,
        hosts: HostMode,
        names: &Names,
    ) -> Result<BTreeMap<Host, Rate>, String> {
        if !written.is_empty() && hosts != HostMode::Lan {
            return Err(format!(
                "{}{table}: not available with --hosts {} (expected --queue drr and --hosts lan)",
                self.place(written.values().next()),
                hosts.word()
            ));
        }
        let mut rates = BTreeMap::new();
        for (address, word) in written {
            let placed = |why: String| self.place(Some(word)) + &why;
            let host = host(table, address, names).map_err(placed)?;
            let option = format!("{table} {address}");
            let rate = finite_rate(&option, word.text()).map_err(placed)?;
            if rates.insert(host, rate).is_some() {
                return Err(placed(format!("{table} {address:?}: given twice (expected once)")));
            }
        }
        Ok(rates)
    }
}

/// Returns true if the link is shared among hosts and each host's share among its flows.
const fn has_level_of_hosts(isolation: Isolation) -> bool {
    matches!(isolation, Isolation::DualSrcHost | Isolation::DualDstHost | Isolation::TripleIsolate)
}

/// Parses the host that a table entry is for.
fn host(table: &str, written: &str, names: &Names) -> Result<Host, String> {
    let named = |why: String| format!("{table} {written:?}: {why}");
    let host = Host::parse(written).map_err(named)?;
    if let Some(name) = names.list_of(&host) {
        return Err(named(format!("is in list {name} (expected the name of the list)")));
    }
    names.never(&host).map_or(Ok(host), |why| Err(named(why)))
}
