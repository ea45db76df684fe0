//! Host identity on the LAN side, and lists of addresses that count as one host.

use core::fmt;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use crate::config::keywords::digits;
use freeboard::flowhash::{HostBy, HostError, HostKey, HostMap, HostMember, PrefixLengths};

/// The key of an entry in a table of hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    Address(IpAddr),
    /// Each host in the prefix: an address without bits after the prefix.
    Prefix(IpAddr, u8),
    Mac([u8; 6]),
    Vlan([u16; 2]),
    Named(String),
}

/// Error for an invalid key in a table of hosts.
const WRITTEN: &str = "invalid value (expected an address, a prefix such as fd00::/64, a MAC, \
                       vlan N, or a name from [names])";
/// Maximum length of a list's name in characters.
const LONGEST_NAME: usize = 32;
/// Values of `--host-by`.
const HOST_BY: &str = "auto, address, mac, vlan, prefix, or prefix/V4/V6 such as prefix/32/56";

impl Host {
    /// Parses the key of a table entry; anything that is nothing else is a name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if let Some(mac) = mac(text) {
            return Ok(Self::Mac(mac));
        }
        if let Some(tags) = text.strip_prefix("vlan ") {
            let (outer, inner) = tags.split_once('.').unwrap_or((tags, "0"));
            let tag = |text: &str| digits(text)?.parse().ok().filter(|tag: &u16| *tag < 4_096);
            let tags = tag(outer).zip(tag(inner)).map(|(outer, inner)| Self::Vlan([outer, inner]));
            return tags.ok_or_else(|| {
                "invalid value (expected vlan 0 to vlan 4095, and vlan N.N)".to_owned()
            });
        }
        if let Some((address, len)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| WRITTEN.to_owned())?;
            let len = digits(len).and_then(|len| len.parse().ok());
            let len: u8 = len.ok_or_else(|| WRITTEN.to_owned())?;
            member_of_prefix(address, len)?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            return Ok(if len == most {
                Self::Address(address)
            } else {
                Self::Prefix(address, len)
            });
        }
        Ok(Self::Named(text.to_owned()))
    }

    /// Returns the host of this address, or its prefix if hosts are identified by prefix.
    pub(crate) const fn of_address(address: IpAddr, by: HostBy) -> Self {
        let (most, len) = match (address, by) {
            (IpAddr::V4(_), HostBy::Prefix(lengths)) => (32, lengths.v4()),
            (IpAddr::V6(_), HostBy::Prefix(lengths)) => (128, lengths.v6()),
            _ => return Self::Address(address),
        };
        if len < most { Self::Prefix(address, len) } else { Self::Address(address) }
    }

    /// Returns the key that packets of this host have, and the number of significant bits: all of
    /// an address, 0 for other kinds.
    fn key(&self, names: &Names) -> Option<(HostKey, u8)> {
        Some(match self {
            Self::Address(address) => (key_of(*address), if address.is_ipv4() { 32 } else { 128 }),
            Self::Prefix(address, len) => (key_of(*address), *len),
            Self::Mac(mac) => (HostKey::Mac(*mac), 0),
            Self::Vlan(vlans) => (HostKey::Vlan(*vlans), 0),
            Self::Named(name) => (HostKey::Named(names.lists.get(name)?.number), 0),
        })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Prefix(address, len) => write!(f, "{address}/{len}"),
            Self::Mac([a, b, c, d, e, g]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            Self::Vlan([outer, 0]) => write!(f, "vlan {outer}"),
            Self::Vlan([outer, inner]) => write!(f, "vlan {outer}.{inner}"),
            Self::Named(name) => name.fmt(f),
        }
    }
}

fn key_of(address: IpAddr) -> HostKey {
    match address {
        IpAddr::V4(address) => HostKey::V4(address.octets()),
        IpAddr::V6(address) => HostKey::V6(address.octets()),
    }
}

/// Parses six bytes in hexadecimal.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut bytes = text.split(':');
    for byte in &mut mac {
        let is_byte =
            |text: &&str| text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let text = bytes.next().filter(is_byte)?;
        *byte = u8::from_str_radix(text, 16).ok()?;
    }
    bytes.next().is_none().then_some(mac)
}

fn member_of_prefix(address: IpAddr, len: u8) -> Result<HostMember, String> {
    let member = match address {
        IpAddr::V4(address) => HostMember::v4_prefix(address.octets(), len, 0),
        IpAddr::V6(address) => HostMember::v6_prefix(address.octets(), len, 0),
    };
    member.map_err(|error| error.to_string())
}

/// Parses a member of a list.
pub(crate) fn member(text: &str) -> Result<HostMember, String> {
    if let Some((first, last)) = text.split_once('-') {
        let member = match (first.parse(), last.parse()) {
            (Ok(IpAddr::V4(first)), Ok(IpAddr::V4(last))) => {
                HostMember::v4_range(first.octets(), last.octets(), 0)
            }
            (Ok(IpAddr::V6(first)), Ok(IpAddr::V6(last))) => {
                HostMember::v6_range(first.octets(), last.octets(), 0)
            }
            _ => {
                return Err(
                    "invalid value (expected a range such as 10.0.0.8-10.0.0.15)".to_owned()
                );
            }
        };
        return member.map_err(|error| error.to_string());
    }
    match Host::parse(text)? {
        Host::Address(IpAddr::V4(address)) => Ok(HostMember::v4(address.octets(), 0)),
        Host::Address(IpAddr::V6(address)) => Ok(HostMember::v6(address.octets(), 0)),
        Host::Prefix(address, len) => member_of_prefix(address, len),
        Host::Mac(mac) => Ok(HostMember::mac(mac, 0)),
        Host::Vlan(_) | Host::Named(_) => {
            Err("invalid value (expected an address, a prefix, a range of addresses or a MAC)"
                .to_owned())
        }
    }
}

/// Checks that a list may have this name: it must differ from any other kind of key.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fits = !name.is_empty()
        && name.chars().count() <= LONGEST_NAME
        && name.chars().all(|letter| letter.is_alphanumeric() || "-_. ".contains(letter))
        && name == name.trim()
        && matches!(Host::parse(name), Ok(Host::Named(_)));
    if fits {
        return Ok(());
    }
    Err(format!(
        "invalid value (expected 1 to {LONGEST_NAME} letters, digits, - and _, and no address)"
    ))
}

/// Parses `--host-by`, the identity of hosts that are in no list.
pub(crate) fn host_by(option: &str, word: &str) -> Result<HostBy, String> {
    let refused = || format!("{option} {word:?}: invalid value (expected {HOST_BY})");
    Ok(match word {
        "auto" => HostBy::Auto,
        "address" => HostBy::Address,
        "mac" => HostBy::Mac,
        "vlan" => HostBy::Vlan,
        "prefix" => HostBy::Prefix(PrefixLengths::SUBNETS),
        _ => {
            let lengths = word.strip_prefix("prefix/").and_then(|text| text.split_once('/'));
            let (v4, v6) = lengths.ok_or_else(refused)?;
            let length = |text| digits(text).and_then(|text| text.parse().ok());
            let [v4, v6] = [v4, v6].map(|text| length(text).ok_or_else(refused));
            let lengths = PrefixLengths::new(v4?, v6?);
            HostBy::Prefix(lengths.map_err(|error| format!("{option} {word:?}: {error}"))?)
        }
    })
}

/// Formats a host identity the way it is parsed.
pub(crate) fn host_by_word(by: HostBy) -> String {
    match by {
        HostBy::Auto => "auto".to_owned(),
        HostBy::Address => "address".to_owned(),
        HostBy::Mac => "mac".to_owned(),
        HostBy::Vlan => "vlan".to_owned(),
        HostBy::Prefix(lengths) => format!("prefix/{}/{}", lengths.v4(), lengths.v6()),
        other => format!("{other:?}"),
    }
}

/// A list of addresses that count as one host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    number: u16,
    members: Vec<HostMember>,
}

/// Host identity and lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) by: HostBy,
    lists: BTreeMap<String, List>,
    /// Lookup table of all lists, once they are complete.
    table: Option<HostMap<Vec<HostMember>>>,
}

impl Names {
    pub(crate) fn new(by: HostBy) -> Self {
        Self { by, lists: BTreeMap::new(), table: None }
    }

    /// Adds a list. Returns false if all 65,536 numbers are taken.
    #[must_use]
    pub(crate) fn add(&mut self, name: &str, members: &[HostMember]) -> bool {
        let Ok(number) = u16::try_from(self.lists.len()) else { return false };
        let members = members.iter().map(|member| member.of_host(number)).collect();
        self.lists.insert(name.to_owned(), List { number, members });
        true
    }

    /// Renumbers the lists so that each keeps the number that a list of its name has in `before`.
    /// Hosts with queued packets keep their identity.
    pub(crate) fn numbered_as(self, before: &Self) -> Self {
        let old: BTreeSet<u16> = before.lists.values().map(|list| list.number).collect();
        // Prefer numbers that no list had: a queued packet may carry the number of a removed list.
        let unused = (0..=u16::MAX).filter(|number| !old.contains(number));
        let gone = before.lists.iter().filter(|(name, _)| !self.lists.contains_key(*name));
        let mut numbers = unused.chain(gone.map(|(_, list)| list.number));
        let mut number = |name: &String| match before.lists.get(name) {
            Some(list) => list.number,
            // There are no more lists than numbers.
            None => numbers.next().unwrap_or(u16::MAX),
        };
        let names: Vec<String> = self.lists.keys().cloned().collect();
        let names: BTreeMap<String, u16> =
            names.into_iter().map(|name| (name.clone(), number(&name))).collect();
        let lists = self.lists.into_iter().map(|(name, list)| {
            let number = names.get(&name).copied().unwrap_or(u16::MAX);
            let members = list.members.iter().map(|member| member.of_host(number)).collect();
            (name, List { number, members })
        });
        let renumbered = Self { by: self.by, lists: lists.collect(), table: None };
        // Cannot fail: the members are unchanged.
        let table = renumbered.map().ok();
        Self { table, ..renumbered }
    }

    /// Builds the table in which packets find their hosts.
    pub(crate) fn map(&self) -> Result<HostMap<Vec<HostMember>>, HostError> {
        let members = self.lists.values().flat_map(|list| &list.members).copied().collect();
        HostMap::new(self.by, members)
    }

    /// Completes the lists by building the lookup table.
    pub(crate) fn finish(&mut self) -> Result<(), HostError> {
        self.table = Some(self.map()?);
        Ok(())
    }

    /// Returns the name of a list by its number.
    pub(crate) fn name(&self, number: u16) -> &str {
        let list = self.lists.iter().find(|(_, list)| list.number == number);
        list.map_or("removed list", |(name, _)| name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.lists.contains_key(name)
    }

    /// Returns the members of each list.
    pub(crate) fn sizes(&self) -> BTreeMap<Host, Vec<HostMember>> {
        let members = |list: &List| {
            let members = list.members.iter().map(|member| member.of_host(0));
            members.collect::<Vec<_>>()
        };
        let lists = self.lists.iter();
        lists.map(|(name, list)| (Host::Named(name.clone()), members(list))).collect()
    }

    /// Returns the reason if no packet can ever count for `host` under this host identity.
    pub(crate) fn never(&self, host: &Host) -> Option<String> {
        let word = host_by_word(self.by);
        let with = |accepted: &str| {
            Some(format!("not available with --host-by {word} (expected {accepted})"))
        };
        match (host, self.by) {
            (Host::Named(name), _) => (!self.has(name)).then(|| WRITTEN.to_owned()),
            (Host::Mac(_), HostBy::Mac) | (Host::Vlan(_), HostBy::Vlan) => None,
            (Host::Address(_) | Host::Prefix(..), HostBy::Address) => None,
            (Host::Address(address), HostBy::Prefix(lengths)) => {
                let whole =
                    if address.is_ipv4() { lengths.v4() == 32 } else { lengths.v6() == 128 };
                if whole {
                    None
                } else {
                    with("prefixes of that length or shorter ones, and names")
                }
            }
            (Host::Prefix(address, len), HostBy::Prefix(lengths)) => {
                let most = if address.is_ipv4() { lengths.v4() } else { lengths.v6() };
                if *len <= most {
                    None
                } else {
                    with("prefixes of that length or shorter ones, and names")
                }
            }
            (_, HostBy::Address) => {
                with("addresses, prefixes and names; a MAC has a name in [names]")
            }
            (_, HostBy::Prefix(_)) => with("prefixes and names"),
            (_, HostBy::Mac) => with("MACs and names"),
            (_, HostBy::Vlan) => with("vlan N, vlan N.N and names"),
            _ => with("names"),
        }
    }

    /// Returns the list that contains this host, or for a prefix the first list if every host of
    /// the prefix is in a list. A table must then use the list's name.
    pub(crate) fn list_of(&self, host: &Host) -> Option<&str> {
        let (key, _) = match host {
            Host::Address(_) | Host::Mac(_) => host.key(self)?,
            Host::Prefix(address, len) => {
                let all = member_of_prefix(*address, *len).ok()?;
                let number = self.table.as_ref()?.all_listed(&all)?;
                return Some(self.name(number));
            }
            Host::Vlan(_) | Host::Named(_) => return None,
        };
        self.table.as_ref()?.listed(key).map(|number| self.name(number))
    }
}

/// Values by host. A host in several prefixes has the value of the longest one.
#[derive(Clone, Debug)]
pub(crate) struct ByHost<T> {
    found: BTreeMap<(HostKey, u8), T>,
    /// Lengths of prefixes, longest first: at most 33 and 129.
    v4_lengths: Vec<u8>,
    v6_lengths: Vec<u8>,
}

impl<T> Default for ByHost<T> {
    fn default() -> Self {
        Self { found: BTreeMap::new(), v4_lengths: Vec::new(), v6_lengths: Vec::new() }
    }
}

impl<T> ByHost<T> {
    /// Stores `all` under the keys that packets of these hosts have.
    pub(crate) fn new(names: &Names, all: impl IntoIterator<Item = (Host, T)>) -> Self {
        let keyed = all.into_iter().filter_map(|(host, what)| Some((host.key(names)?, what)));
        let found: BTreeMap<(HostKey, u8), T> = keyed.collect();
        let lengths = |of: fn(&HostKey) -> bool| {
            let lengths: BTreeSet<u8> =
                found.keys().filter(|(key, _)| of(key)).map(|(_, len)| *len).collect();
            lengths.into_iter().rev().collect()
        };
        let v4_lengths = lengths(|key| matches!(key, HostKey::V4(_)));
        let v6_lengths = lengths(|key| matches!(key, HostKey::V6(_)));
        Self { found, v4_lengths, v6_lengths }
    }

    /// Applies `of` to each host or prefix, with its value and those of the prefixes that contain
    /// it, longest first.
    pub(crate) fn map<U>(&self, of: impl Fn(&mut dyn Iterator<Item = &T>) -> U) -> ByHost<U> {
        let made =
            self.found.keys().map(|&(host, len)| ((host, len), of(&mut self.within(host, len))));
        let (v4_lengths, v6_lengths) = (self.v4_lengths.clone(), self.v6_lengths.clone());
        ByHost { found: made.collect(), v4_lengths, v6_lengths }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the value for this host. Cost: one search per distinct prefix length.
    pub(crate) fn get(&self, host: HostKey) -> Option<&T> {
        self.within(host, u8::MAX).next()
    }

    /// Returns the values of the prefixes of at most `most` bits that contain this host, longest
    /// first.
    fn within(&self, host: HostKey, most: u8) -> impl Iterator<Item = &T> {
        let lengths: &[u8] = match host {
            HostKey::V4(_) => &self.v4_lengths,
            HostKey::V6(_) => &self.v6_lengths,
            HostKey::Mac(_) | HostKey::Vlan(_) | HostKey::Named(_) => &[0],
            _ => &[],
        };
        lengths.iter().filter(move |&&len| len <= most).filter_map(move |&len| {
            let of = match host {
                HostKey::V4(_) => PrefixLengths::new(len, 0),
                _ => PrefixLengths::new(0, len),
            };
            self.found.get(&(of.map_or(host, |of| of.of(host)), len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each kind of host is parsed as itself and printed the way it is parsed.
    #[test]
    fn hosts_are_read_as_they_are_said() {
        for text in [
            "10.0.0.1",
            "fd00::1",
            "fd00::/64",
            "10.0.0.0/8",
            "02:00:00:00:00:07",
            "vlan 7",
            "vlan 7.9",
            "television",
        ] {
            let host = Host::parse(text).unwrap();
            assert_eq!(host.to_string(), text);
            let is_named = matches!(host, Host::Named(_));
            assert_eq!(check_name(text).is_ok(), is_named, "{text}");
        }
        assert_eq!(mac("02:00:00:00:00:+7"), None);
        assert!(check_name("02:00:00:00:00:+7").is_err());
        assert_eq!(Host::parse("10.0.0.1/32"), Host::parse("10.0.0.1"));
        for text in [
            "10.0.0.1/24",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "fd00::/129",
            "x/8",
            "vlan 4096",
            "vlan +7",
            "vlan 7.+9",
            "vlan x",
        ] {
            assert!(Host::parse(text).unwrap_err().contains("(expected "), "{text}");
        }
        for text in ["", " a", "a,b", "a\nb", "it is a name that is longer than others"] {
            assert!(check_name(text).is_err(), "{text}");
        }
        for text in ["10.0.0.9-10.0.0.1", "10.0.0.1-::1", "vlan 7", "home", "10.0.0.1/24"] {
            assert!(member(text).unwrap_err().contains("(expected "), "{text}");
        }
        for word in ["address", "mac", "vlan", "prefix/32/56"] {
            assert_eq!(host_by_word(host_by("--host-by", word).unwrap()), word);
        }
        assert_eq!(host_by("--host-by", "prefix"), host_by("--host-by", "prefix/32/64"));
        for word in ["", "prefix/33/64", "prefix/32", "prefix/32/129", "prefix/+8/64", "port"] {
            let error = host_by("--host-by", word).unwrap_err();
            assert!(error.starts_with(&format!("--host-by {word:?}: ")), "{error}");
        }
    }

    /// Goal: the longest of nested prefixes counts. Method: every address of 10.0.0.0/28 against
    /// expected prefixes.
    #[test]
    fn the_longest_prefix_counts() {
        let written = ["0.0.0.0/0", "10.0.0.0/29", "10.0.0.4/30", "10.0.0.5", "fd00::/64", "tv"];
        let mut names = Names::new(HostBy::Address);
        assert!(names.add("tv", &[member("10.0.0.9").unwrap()]));
        let all = written.iter().map(|text| (Host::parse(text).unwrap(), *text));
        let found = ByHost::new(&names, all);
        let map = names.map().unwrap();
        for last in 0..16 {
            let expected = match last {
                5 => "10.0.0.5",
                4..=7 => "10.0.0.4/30",
                0..=3 => "10.0.0.0/29",
                9 => "tv",
                _ => "0.0.0.0/0",
            };
            let address = HostKey::V4([10, 0, 0, last]);
            let host = map.listed(address).map_or(address, HostKey::Named);
            assert_eq!(found.get(host), Some(&expected), "{last}");
        }
        assert_eq!(found.within(HostKey::V4([10, 0, 0, 5]), 29).count(), 2);
        assert_eq!(found.get(HostKey::V6([0xfe; 16])), None);
        assert_eq!(found.get(HostKey::NotIp), None);
    }

    /// Goal: a prefix is found if and only if all its hosts are in lists. Method: every prefix in
    /// 10.0.0.0/28 against a lookup of each address.
    #[test]
    fn a_prefix_whose_hosts_are_all_listed_is_found() {
        let mut names = Names::new(HostBy::Address);
        for (name, members) in
            [("a", &["10.0.0.0-10.0.0.2", "fd00::/64"][..]), ("b", &["10.0.0.3", "10.0.0.8/29"])]
        {
            let members: Vec<_> = members.iter().map(|text| member(text).unwrap()).collect();
            assert!(names.add(name, &members));
        }
        names.finish().unwrap();
        for len in 28..=31 {
            let hosts = 1 << (32 - len);
            for first in (0..16).step_by(hosts) {
                let prefix = Host::parse(&format!("10.0.0.{first}/{len}")).unwrap();
                let of = |last: u8| names.list_of(&Host::Address(IpAddr::from([10, 0, 0, last])));
                let all: Option<Vec<&str>> =
                    (first as u8..first as u8 + hosts as u8).map(of).collect();
                let expected = all.and_then(|all| all.first().copied());
                assert_eq!(names.list_of(&prefix), expected, "{prefix}");
            }
        }
        assert_eq!(names.list_of(&Host::parse("fd00::/72").unwrap()), Some("a"));
        assert_eq!(names.list_of(&Host::parse("fd00::/63").unwrap()), None);
        assert_eq!(names.list_of(&Host::parse("11.0.0.0/8").unwrap()), None);
    }

    /// Goal: numbers of removed lists are reused when no others are left, in time linear in the
    /// number of lists. Method: 40,000 lists replaced by 40,000 others three times; every list has
    /// its own number, and lists that stay keep theirs.
    #[test]
    fn forty_thousand_lists_may_change_places_with_others() {
        let lists = |round: u32| {
            let mut names = Names::new(HostBy::Address);
            for at in 0..40_000_u32 {
                let name = if at < 100 { format!("stays {at}") } else { format!("{round} {at}") };
                assert!(names.add(&name, &[HostMember::v4(at.to_be_bytes(), 0)]));
            }
            names
        };
        let mut before = lists(0);
        for round in 1..4 {
            let after = lists(round).numbered_as(&before);
            let numbers: BTreeSet<u16> = after.lists.values().map(|list| list.number).collect();
            assert_eq!(numbers.len(), 40_000);
            for (name, list) in before.lists.range("stays".to_owned()..) {
                assert_eq!(after.lists[name].number, list.number);
            }
            let listed = after.map().unwrap().listed(HostKey::V4(7_000_u32.to_be_bytes()));
            assert_eq!(listed, Some(after.lists[&format!("{round} 7000")].number));
            before = after;
        }
    }

    /// Goal: a list keeps its number while other lists come and go.
    #[test]
    fn lists_keep_their_numbers() {
        let names = |all: &[&str]| {
            let mut names = Names::new(HostBy::Address);
            for (at, name) in all.iter().enumerate() {
                assert!(names.add(name, &[HostMember::v4([10, 0, 0, at as u8], 0)]));
            }
            names
        };
        let before = names(&["b", "d"]);
        let number = |names: &Names, name: &str| names.lists[name].number;
        let after = names(&["a", "b", "c"]).numbered_as(&before);
        assert_eq!(number(&after, "b"), number(&before, "b"));
        let taken: BTreeSet<u16> = after.lists.values().map(|list| list.number).collect();
        assert_eq!(taken.len(), 3);
        assert!(!taken.contains(&number(&before, "d")));
        assert_eq!(after.name(number(&after, "c")), "c");
        let member = after.map().unwrap().listed(HostKey::V4([10, 0, 0, 2]));
        assert_eq!(member, Some(number(&after, "c")));
    }
}
