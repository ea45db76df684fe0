//! `setup` and `teardown`: a veth pair between this machine's network stack and one of its devices,
//! for a gateway to run on.
//!
//! The stack gets a new device with the addresses, permanent neighbours and routes of the old one.
//! The state that `teardown` restores is stored as the alias of the new device, so that it exists
//! exactly as long as the pair.

mod belongings;

use core::ffi::c_int;
use std::fs;
use std::io;

use crate::forward::run::Failure;
use crate::io::device::is_same;
use crate::io::privileges::Capability;
use crate::io::stack::{Use, lies_on, uses};
use crate::io::sys::{self, Interface, Request, about, link, links, nested};
use crate::log::say;
use belongings::Belongings;

/// Prefix of the alias of the new device.
const MARK: &str = "freeboard-gateway setup:";
/// Maximum length of a device name.
const LONGEST_NAME: usize = 15;

/// Arguments of a command: the gateway's devices, and the side of the NAT that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) lan: String,
    pub(crate) wan: String,
    pub(crate) nat: bool,
}

impl Place {
    /// Returns the device at which the pair is inserted.
    fn device(&self) -> &str {
        if self.nat { &self.wan } else { &self.lan }
    }

    fn name(&self, end: &str) -> String {
        let device: String = self.device().chars().take(LONGEST_NAME - end.len()).collect();
        device + end
    }

    /// Returns the name of the device that the stack gets.
    fn inside(&self) -> String {
        self.name(if self.nat { "-out" } else { "-in" })
    }

    /// Returns the name of the gateway's end of the pair.
    fn outside(&self) -> String {
        self.name("-fb")
    }

    /// Returns, for a bridge, the names of the port that the gateway gets there and of the
    /// gateway's end of that pair.
    fn port(&self) -> [String; 2] {
        [self.name("-pt"), self.name(if self.nat { "-wan" } else { "-lan" })]
    }

    /// Returns the command that creates the pair.
    pub(crate) fn command(&self) -> String {
        let nat = if self.nat { " --nat" } else { "" };
        format!("freeboard-gateway setup --lan {} --wan {}{nat}", self.lan, self.wan)
    }

    /// Returns the options of a gateway that runs on the pair.
    pub(crate) fn options(&self) -> String {
        let all = links().unwrap_or_default();
        let is_bridge = all.iter().any(|link| link.name == *self.device() && is_bridge(link));
        let [_, own] = self.port();
        let near = if is_bridge { own } else { self.device().to_owned() };
        match self.nat {
            true => format!("--lan {} --wan {near} --nat", self.outside()),
            false => format!("--lan {near} --wan {}", self.outside()),
        }
    }
}

fn is_bridge(link: &Interface) -> bool {
    link.kind == "bridge"
}

/// State that `teardown` restores at the device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    device: c_int,
    mac: Vec<u8>,
    is_up: bool,
    has_arp: bool,
    forwarding: Option<String>,
    disable_ipv6: Option<String>,
}

impl Record {
    fn of(device: &Interface) -> Self {
        Self {
            device: device.index,
            mac: device.mac.clone(),
            is_up: has(device, libc::IFF_UP),
            has_arp: !has(device, libc::IFF_NOARP),
            forwarding: variable("ipv4", &device.name, "forwarding"),
            disable_ipv6: variable("ipv6", &device.name, "disable_ipv6"),
        }
    }

    fn to_alias(&self) -> String {
        let mac: Vec<String> = self.mac.iter().map(|byte| format!("{byte:02x}")).collect();
        let [up, arp] = [self.is_up, self.has_arp].map(u8::from);
        let [forwarding, disable_ipv6] =
            [&self.forwarding, &self.disable_ipv6].map(|of| of.as_deref().unwrap_or("-"));
        format!("{MARK} {} {} {up} {arp} {forwarding} {disable_ipv6}", self.device, mac.join(":"))
    }

    fn from_alias(alias: &str) -> Option<Self> {
        let words: Vec<&str> = alias.strip_prefix(MARK)?.split_whitespace().collect();
        let [device, mac, up, arp, forwarding, disable_ipv6] = *words else { return None };
        let mac = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
        let value = |word: &str| (word != "-").then(|| word.to_owned());
        Some(Self {
            device: device.parse().ok()?,
            mac: mac.collect::<Option<_>>()?,
            is_up: up == "1",
            has_arp: arp == "1",
            forwarding: value(forwarding),
            disable_ipv6: value(disable_ipv6),
        })
    }
}

fn has(device: &Interface, flag: c_int) -> bool {
    device.flags & flag.cast_unsigned() != 0
}

fn path(family: &str, device: &str, variable: &str) -> String {
    format!("/proc/sys/net/{family}/conf/{device}/{variable}")
}

fn variable(family: &str, device: &str, variable: &str) -> Option<String> {
    let text = fs::read_to_string(path(family, device, variable)).ok()?;
    Some(text.trim().to_owned())
}

fn set(family: &str, device: &str, name: &str, value: Option<&str>) -> Result<(), String> {
    match value {
        Some(value) if variable(family, device, name).is_some_and(|now| now != value) => {
            let path = path(family, device, name);
            fs::write(&path, value).map_err(|error| failed(&path, &error))
        }
        _ => Ok(()),
    }
}

/// Copies the sysctl settings of one device to another.
fn copy_variables(from: &str, to: &str) {
    for family in ["ipv4", "ipv6"] {
        let Ok(all) = fs::read_dir(path(family, from, "")) else { continue };
        for name in all.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            let value = variable(family, from, &name);
            // Some can only be read, and a few can only be written in certain states.
            let _ = set(family, to, &name, value.as_deref());
        }
    }
}

fn failed(what: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            format!("{what}: {}", Capability::NET_ADMIN.missing())
        }
        _ => format!("{what}: {error}"),
    }
}

/// Sends a change to the kernel.
fn change(what: &str, request: Request) -> Result<(), String> {
    request.send().map(drop).map_err(|error| failed(what, &error))
}

fn change_link(what: &str, index: c_int, flags: u32, mask: u32) -> Result<(), String> {
    change(what, Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &about(index, flags, mask)))
}

fn set_up_or_down(device: &Interface, is_up: bool) -> Result<(), String> {
    let up = libc::IFF_UP.cast_unsigned();
    let flags = if is_up { up } else { 0 };
    change_link(&format!("{}: up {is_up}", device.name), device.index, flags, up)
}

fn set_arp(device: &Interface, has_arp: bool) -> Result<(), String> {
    let off = libc::IFF_NOARP.cast_unsigned();
    let flags = if has_arp { 0 } else { off };
    change_link(&format!("{}: arp {has_arp}", device.name), device.index, flags, off)
}

/// Sets the MAC address. Some drivers allow it only while the device is down.
fn set_mac(device: &Interface, mac: &[u8]) -> Result<(), String> {
    let set = || {
        let request = Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &about(device.index, 0, 0));
        change(&format!("{}: its MAC", device.name), request.with(libc::IFLA_ADDRESS, mac))
    };
    set().or_else(|_| {
        set_up_or_down(device, false)?;
        set().and(set_up_or_down(device, true))
    })
}

/// Returns a pair with these names that is unchanged since its creation, left by a killed `setup`.
/// It has no record.
fn leftover(ends: [&str; 2]) -> Option<Interface> {
    let all = links().ok()?;
    let [first, second] = ends.map(|end| all.iter().find(|link| link.name == end));
    let (first, second) = (first?, second?);
    let is_fresh = |link: &Interface| {
        link.kind == "veth" && !link.is_up() && link.master.is_none() && link.alias.is_empty()
    };
    let is_pair = first.other == Some(second.index) && first.namespace.is_none();
    (is_pair && is_fresh(first) && is_fresh(second)).then(|| first.clone())
}

/// Creates a pair; the first end may have a given MAC address.
fn make_pair(ends: [&str; 2], mtu: usize, mac: Option<&[u8]>) -> Result<[Interface; 2], String> {
    if let Some(leftover) = leftover(ends) {
        remove(&leftover)?;
    }
    const INFO_KIND: u16 = 1;
    const INFO_DATA: u16 = 2;
    const PEER: u16 = 1;
    let [first, second] = ends.map(|end| [end.as_bytes(), &[0]].concat());
    let mtu = (mtu as u32).to_ne_bytes();
    let none = about(0, 0, 0);
    let peer = nested(&none, &[(libc::IFLA_IFNAME, &second), (libc::IFLA_MTU, &mtu)]);
    let data = nested(&[], &[(PEER, &peer)]);
    let info = nested(&[], &[(INFO_KIND, b"veth"), (INFO_DATA, &data)]);
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let request = Request::new(libc::RTM_NEWLINK, flags, &none)
        .with(libc::IFLA_IFNAME, &first)
        .with(libc::IFLA_MTU, &mtu);
    let request = match mac {
        Some(mac) => request.with(libc::IFLA_ADDRESS, mac),
        None => request,
    };
    let what = format!("{}, {}: a pair (veth)", ends[0], ends[1]);
    change(&what, request.with(libc::IFLA_LINKINFO, &info))?;
    let [first, second] = ends.map(named);
    Ok([first?, second?])
}

fn named(name: &str) -> Result<Interface, String> {
    let found = sys::index(name).and_then(|index| link(index, None));
    found.map_err(|error| format!("{name}: {error}"))
}

/// Removes a device, and the other end with it for a pair.
fn remove(device: &Interface) -> Result<(), String> {
    let request = Request::new(libc::RTM_DELLINK, libc::NLM_F_ACK, &about(device.index, 0, 0));
    change(&format!("{}: remove", device.name), request)
}

/// Makes the stack ignore a device.
fn silence(device: &Interface) -> Result<(), String> {
    set("ipv6", &device.name, "disable_ipv6", Some("1"))?;
    set("ipv4", &device.name, "forwarding", Some("0"))?;
    set_arp(device, false)
}

/// Returns the pair of `place`, if any: the stack's device, and the state to restore.
fn pair(place: &Place, device: Option<&Interface>) -> Option<(Interface, Record)> {
    let all = links().unwrap_or_default();
    let read = |link: &Interface| Some((link.clone(), Record::from_alias(&link.alias)?));
    all.iter().filter_map(read).find(|(inside, record)| {
        device.is_some_and(|device| device.index == record.device) || inside.name == place.inside()
    })
}

/// Creates the pair and moves the device's configuration to it.
pub(crate) fn set_up(place: &Place) -> Result<(), Failure> {
    let missing = |option: &'static str| move |why| Failure::Missing(format!("{option} {why}"));
    let lan = named(&place.lan).map_err(missing("--lan"))?;
    let wan = named(&place.wan).map_err(missing("--wan"))?;
    if is_same(&place.lan, &place.wan) {
        return Err(Failure::Refused(format!(
            "--wan {:?}: same device as --lan (expected another one)",
            place.wan
        )));
    }
    let (device, other, option) =
        if place.nat { (&wan, &lan, "--wan") } else { (&lan, &wan, "--lan") };
    let in_use = uses(device.index).map_err(|error| Failure::Missing(error.to_string()))?;
    let refused = |why: String| Failure::Missing(format!("{option} {}: {why}", device.name));
    let is_in_the_way = |of: &&Use| of.on() != device.name || matches!(of, Use::Port { .. });
    if let Some(of) = in_use.iter().find(is_in_the_way) {
        let bridge = match of {
            Use::Port { master, .. } => format!(", or use {master}"),
            Use::Address { on, .. } => format!(", or use {on}"),
        };
        return Err(refused(format!("{} {of}; run: {}{bridge}", of.on(), of.stop())));
    }
    if let Some((inside, _)) = pair(place, Some(device)) {
        if in_use.is_empty() {
            let options = place.options();
            say(&format!(
                "{}: {} already exists; start the gateway with {options}",
                device.name, inside.name
            ));
            return Ok(());
        }
        // The device has got addresses again since: start over.
        take_back(place)?;
        return set_up(place);
    }
    if !sys::is_ethernet(&device.name).unwrap_or(false) {
        return Err(refused("not an Ethernet device".to_owned()));
    }
    if lies_on(other, device) {
        return Err(refused(format!("{} lies on top of it", other.name)));
    }
    let belongings = Belongings::of(device).map_err(refused)?;
    let record = Record::of(device);
    if let Err(why) = build(place, device, &record, &belongings) {
        // Without a record nothing was changed.
        let back = match pair(place, Some(device)) {
            Some(_) => undo(place, Some(device), &record, &belongings),
            None => Ok(()),
        };
        let back = match back {
            Ok(()) => "all changes were undone".to_owned(),
            Err(why) => format!("undoing the changes failed too: {why}"),
        };
        return Err(refused(format!("{why}; {back}")));
    }
    let (inside, options) = (place.inside(), place.options());
    say(&format!(
        "{}: {belongings} moved to {inside}; start the gateway with {options}; for this machine's own traffic, change {} to \
         {inside} in programs and firewall rules",
        device.name, device.name,
    ));
    Ok(())
}

fn build(
    place: &Place,
    device: &Interface,
    record: &Record,
    belongings: &Belongings,
) -> Result<(), String> {
    // Hosts keep the MAC address that they know. The MAC address of a bridge or a VLAN cannot be
    // used, since a device below has the same and would take the frames.
    let keeps_mac = matches!(&*device.kind, "" | "veth") && device.mac.len() == 6;
    let mac = keeps_mac.then_some(&*device.mac);
    let ends = [&*place.inside(), &*place.outside()];
    let [inside, outside] = make_pair(ends, device.mtu, mac)?;
    let alias = Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &about(inside.index, 0, 0))
        .with(libc::IFLA_IFALIAS, record.to_alias().as_bytes());
    if let Err(why) = change(&inside.name, alias) {
        // Without an alias `teardown` would not find it.
        return remove(&inside).and(Err(why));
    }
    if is_bridge(device) {
        let [port, own] = place.port();
        let [port, own] = make_pair([&*port, &*own], device.mtu, None)?;
        let master = Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &about(port.index, 0, 0))
            .with(libc::IFLA_MASTER, &device.index.to_ne_bytes());
        change(&format!("{}: a port of {}", port.name, device.name), master)?;
        for end in [&port, &own] {
            silence(end)?;
            set_up_or_down(end, true)?;
        }
    }
    copy_variables(&device.name, &inside.name);
    silence(&outside)?;
    belongings.take_from(device.index)?;
    silence(device)?;
    if keeps_mac {
        let mut mac = [0; 6];
        getrandom::fill(&mut mac).map_err(|error| format!("no random numbers: {error}"))?;
        // Locally administered, unicast.
        mac[0] = (mac[0] & 0xfc) | 2;
        set_mac(device, &mac)?;
    }
    for up in [device, &outside, &inside] {
        set_up_or_down(up, true)?;
    }
    belongings.give_to(&inside, &device.name)
}

/// Removes the pair and moves the stack's current configuration back to the device.
pub(crate) fn take_back(place: &Place) -> Result<(), Failure> {
    let device = named(place.device()).ok();
    let Some((inside, record)) = pair(place, device.as_ref()) else {
        say(&format!("{}: nothing to remove", place.device()));
        return Ok(());
    };
    let failed = |why: String| Failure::Missing(format!("{}: {why}", inside.name));
    let belongings = Belongings::of(&inside).map_err(failed)?;
    undo(place, device.as_ref(), &record, &belongings).map_err(failed)?;
    match device {
        Some(device) => {
            say(&format!("{}: {belongings} moved back from {}", device.name, inside.name))
        }
        None => say(&format!("{}: removed; {} no longer exists", inside.name, place.device())),
    }
    Ok(())
}

/// Removes what was created and restores the device as far as possible; returns the failures.
fn undo(
    place: &Place,
    device: Option<&Interface>,
    record: &Record,
    belongings: &Belongings,
) -> Result<(), String> {
    let mut failures = Vec::new();
    let inside = pair(place, device).map(|(inside, _)| inside);
    let name = inside.as_ref().map_or_else(|| place.inside(), |inside| inside.name.clone());
    let [port, _] = place.port();
    let is_ours = |port: &Interface| {
        port.kind == "veth" && device.is_some_and(|device| port.master == Some(device.index))
    };
    for made in inside.into_iter().chain(named(&port).ok().filter(is_ours)) {
        failures.extend(remove(&made).err());
    }
    if let Some(device) = device {
        let (v4, v6) = (&record.forwarding, &record.disable_ipv6);
        let now = link(device.index, None).map(|now| now.mac).unwrap_or_default();
        if now != record.mac {
            failures.extend(set_mac(device, &record.mac).err());
        }
        failures.extend(set_arp(device, record.has_arp).err());
        failures.extend(set_up_or_down(device, record.is_up).err());
        failures.extend(set("ipv4", &device.name, "forwarding", v4.as_deref()).err());
        failures.extend(set("ipv6", &device.name, "disable_ipv6", v6.as_deref()).err());
        failures.extend(belongings.give_to(device, &name).err());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(lan: &str, nat: bool) -> Place {
        Place { lan: lan.to_owned(), wan: "eth0".to_owned(), nat }
    }

    #[test]
    fn names_are_those_of_the_device_and_fit() {
        let of = place("eth1", false);
        assert_eq!((of.inside(), of.outside()), ("eth1-in".into(), "eth1-fb".into()));
        assert_eq!(of.port(), ["eth1-pt", "eth1-lan"]);
        let of = place("eth1", true);
        assert_eq!((of.inside(), of.outside()), ("eth0-out".into(), "eth0-fb".into()));
        let of = place("enx001122334455", false);
        assert_eq!(
            (of.inside(), of.outside()),
            ("enx001122334-in".into(), "enx001122334-fb".into())
        );
        assert_eq!(of.port()[1].len(), LONGEST_NAME);
    }

    #[test]
    fn a_record_is_read_back_from_an_alias() {
        for (is_up, forwarding) in [(true, Some("1")), (false, None)] {
            let record = Record {
                device: 12,
                mac: vec![2, 0, 0, 0xff, 0, 1],
                is_up,
                has_arp: !is_up,
                forwarding: forwarding.map(str::to_owned),
                disable_ipv6: Some("0".to_owned()),
            };
            // Maximum length that the kernel keeps.
            assert!(record.to_alias().len() < 256);
            assert_eq!(Record::from_alias(&record.to_alias()), Some(record));
        }
        for alias in ["", "uplink", MARK, "freeboard-gateway setup: 1 zz 1 1 1 1"] {
            assert_eq!(Record::from_alias(alias), None, "{alias}");
        }
    }
}
