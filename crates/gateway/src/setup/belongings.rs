//! Configuration of a device in the network stack: addresses, permanent neighbours and routes,
//! copied with all attributes.

use core::ffi::c_int;
use core::fmt;

use crate::io::sys::{Interface, Request, attributes, number};

/// Attribute kinds and flags of `linux/if_addr.h`, `rtnetlink.h` and `neighbour.h`.
const IFA_LOCAL: u16 = 2;
const IFA_ADDRESS: u16 = 1;
const IFA_LABEL: u16 = 3;
const IFA_FLAGS: u16 = 8;
const IFA_PROTO: u16 = 11;
/// Protocol of the link-local address that the kernel creates for each device.
const KERNEL_LL: u8 = 3;
const F_TEMPORARY: u32 = 0x01;
const F_NODAD: u32 = 0x02;
/// Address flags that users set: no duplicate address detection, home, managed, no prefix route,
/// joined automatically.
const F_SET: u32 = 0x02 | 0x10 | 0x100 | 0x200 | 0x400;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NTF_PROXY: u8 = 8;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_MULTIPATH: u16 = 9;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_EXPIRES: u16 = 23;
const RTA_NH_ID: u16 = 30;
const CLONED: u32 = 0x200;
const ONLINK: u32 = 4;
const TABLE_LOCAL: u32 = 255;
const PROTOCOL_KERNEL: u8 = 2;
/// Ticks per second in the kernel's times of routes.
const TICKS: u32 = 100;

/// Configuration of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Belongings {
    addresses: Vec<Item>,
    neighbours: Vec<Item>,
    routes: Vec<Item>,
    /// Routes through other devices with one of these addresses as source; they are lost with it.
    others: Vec<Item>,
}

/// A message of the kernel that can be sent back to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    /// Fixed part of the message.
    about: Vec<u8>,
    attributes: Vec<(u16, Vec<u8>)>,
}

impl Item {
    fn is_ipv6(&self) -> bool {
        self.about.first() == Some(&(libc::AF_INET6 as u8))
    }

    fn value(&self, wanted: u16) -> Option<&[u8]> {
        let found = self.attributes.iter().find(|(kind, _)| *kind == wanted);
        found.map(|(_, value)| &**value)
    }

    /// Builds a request, with the fixed part changed by `about` and each attribute by `attribute`.
    fn request(
        &self,
        kind: u16,
        flags: c_int,
        about: impl Fn(&mut [u8]),
        attribute: impl Fn(u16, &[u8]) -> Option<Vec<u8>>,
    ) -> Request {
        let mut fixed = self.about.clone();
        about(&mut fixed);
        let request = Request::new(kind, flags | libc::NLM_F_ACK, &fixed);
        self.attributes.iter().fold(request, |request, (kind, value)| {
            match attribute(*kind, value) {
                Some(value) => request.with(*kind, &value),
                None => request,
            }
        })
    }
}

impl fmt::Display for Belongings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        f.write_str(&said(self.addresses.len(), "address", "addresses"))?;
        if !self.neighbours.is_empty() {
            let neighbours = said(self.neighbours.len(), "neighbour", "neighbours");
            write!(f, ", {neighbours}")?;
        }
        write!(f, " and {}", said(self.routes.len(), "route", "routes"))
    }
}

/// Returns all messages of one kind, of both families, with a fixed part of `len` bytes.
fn dump(kind: u16, len: usize) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut about = vec![0; len];
        about[0] = family as u8;
        let answer = Request::new(kind, libc::NLM_F_DUMP, &about).send();
        let answer = answer.map_err(|error| error.to_string())?;
        items.extend(answer.iter().filter_map(|(_, body)| {
            let about = body.get(..len)?.to_vec();
            let rest = attributes(body.get(len..)?);
            let attributes = rest.map(|(kind, value)| (kind, value.to_vec())).collect();
            (about.first() == Some(&(family as u8))).then_some(Item { about, attributes })
        }));
    }
    Ok(items)
}

/// Returns the interfaces of a route with several next hops.
fn hops(mut bytes: &[u8]) -> Vec<c_int> {
    let mut hops = Vec::new();
    while let Some(index) = bytes.get(4..8) {
        hops.push(number(index).cast_signed());
        let len = u16::from_ne_bytes([bytes[0], bytes[1]]);
        bytes = bytes.get(usize::from(len).next_multiple_of(4).max(8)..).unwrap_or(&[]);
    }
    hops
}

impl Belongings {
    /// Reads the configuration of `device`. The error names what cannot be moved.
    pub(super) fn of(device: &Interface) -> Result<Self, String> {
        let index = &device.index.to_ne_bytes()[..];
        let mut addresses = dump(libc::RTM_GETADDR, 8)?;
        addresses.retain(|of| of.about.get(4..8) == Some(index) && !is_made_by_the_kernel(of));
        // The kernel adds a new IPv6 address before the others.
        let (mut v6, mut addresses): (Vec<Item>, Vec<Item>) =
            addresses.into_iter().partition(Item::is_ipv6);
        v6.reverse();
        addresses.append(&mut v6);
        let mut neighbours = dump(libc::RTM_GETNEIGH, 12)?;
        neighbours.retain(|of| {
            let state = u16::from_ne_bytes([of.about[8], of.about[9]]);
            of.about.get(4..8) == Some(index)
                && state & libc::NUD_PERMANENT != 0
                && of.about[10] & NTF_PROXY == 0
        });
        let mut routes = dump(libc::RTM_GETROUTE, 12)?;
        routes.retain(|of| {
            let table = of.value(RTA_TABLE).map_or(u32::from(of.about[4]), number);
            number(&of.about[8..]) & CLONED == 0
                && table != TABLE_LOCAL
                && of.about[5] != PROTOCOL_KERNEL
        });
        let (routes, mut others): (Vec<Item>, Vec<Item>) = routes.into_iter().partition(|of| {
            of.value(RTA_OIF) == Some(index)
                || of.value(RTA_MULTIPATH).is_some_and(|of| hops(of).contains(&device.index))
        });
        let own = |of: &Item| of.value(IFA_LOCAL).or(of.value(IFA_ADDRESS)).map(<[u8]>::to_vec);
        let own: Vec<Vec<u8>> = addresses.iter().filter_map(own).collect();
        others.retain(|of| {
            let source = of.value(RTA_PREFSRC);
            source.is_some_and(|source| own.iter().any(|own| own == source))
                && of.value(RTA_NH_ID).is_none()
        });
        if routes.iter().any(|of| of.value(RTA_MULTIPATH).or(of.value(RTA_NH_ID)).is_some()) {
            return Err(format!(
                "has a route with several next hops or a next hop object, which cannot be moved; see: ip route show table \
                 all | grep -w {}",
                device.name
            ));
        }
        Ok(Self { addresses, neighbours, routes, others })
    }

    /// Removes routes and addresses from the interface. What IPv6 has left disappears when IPv6 is
    /// disabled on it.
    pub(super) fn take_from(&self, index: c_int) -> Result<(), String> {
        let same = |_: u16, value: &[u8]| Some(value.to_vec());
        for route in self.routes.iter().rev() {
            // It may have been removed along with another one.
            let _ = route.request(libc::RTM_DELROUTE, 0, |_| {}, same).send();
        }
        for address in self.addresses.iter().rev() {
            let removed = address.request(libc::RTM_DELADDR, 0, |_| {}, same).send();
            match removed {
                Err(error) if error.raw_os_error() != Some(libc::EADDRNOTAVAIL) => {
                    return Err(format!("an address of interface {index}: {error}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the configuration to a device; it comes from a device named `old`.
    pub(super) fn give_to(&self, device: &Interface, old: &str) -> Result<(), String> {
        let failed =
            |what: &str, error: &std::io::Error| format!("{}: {what}: {error}", device.name);
        let is_there = |error: &std::io::Error| error.raw_os_error() == Some(libc::EEXIST);
        for address in &self.addresses {
            let sent = add_address(address, device, old);
            sent.or_else(|error| if is_there(&error) { Ok(()) } else { Err(error) })
                .map_err(|error| failed("an address", &error))?;
        }
        for neighbour in &self.neighbours {
            let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
            let keep = |kind: u16, value: &[u8]| {
                [NDA_DST, NDA_LLADDR].contains(&kind).then(|| value.to_vec())
            };
            let at = |about: &mut [u8]| about[4..8].copy_from_slice(&device.index.to_ne_bytes());
            let sent = neighbour.request(libc::RTM_NEWNEIGH, flags, at, keep).send();
            sent.map_err(|error| failed("a neighbour", &error))?;
        }
        for route in &self.others {
            let about = |about: &mut [u8]| keep_onlink(about, 0);
            let attribute =
                |kind: u16, value: &[u8]| (kind != RTA_CACHEINFO).then(|| value.to_vec());
            let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
            let sent = route.request(libc::RTM_NEWROUTE, flags, about, attribute).send();
            sent.map_err(|error| failed("a route from one of its addresses", &error))?;
        }
        // A route may need another one to reach its gateway, or one that no longer exists.
        let mut rest: Vec<&Item> = self.routes.iter().collect();
        let mut on_link = 0;
        loop {
            let before = rest.len();
            let mut why = None;
            rest.retain(|route| match add_route(route, device, on_link) {
                Err(error) if !is_there(&error) => {
                    why = Some(error);
                    true
                }
                _ => false,
            });
            match why {
                None => return Ok(()),
                Some(_) if rest.len() < before => {}
                Some(_) if on_link == 0 => on_link = ONLINK,
                Some(error) => return Err(failed("a route", &error)),
            }
        }
    }
}

/// Returns true for addresses that the kernel creates for each device, and for temporary addresses.
fn is_made_by_the_kernel(address: &Item) -> bool {
    let flags = address.value(IFA_FLAGS).map_or(0, number);
    address.is_ipv6()
        && (address.value(IFA_PROTO) == Some(&[KERNEL_LL][..]) || flags & F_TEMPORARY != 0)
}

fn add_address(address: &Item, device: &Interface, old: &str) -> std::io::Result<()> {
    let send = |more: u32, flags: c_int| {
        let about = |about: &mut [u8]| {
            about[2] = 0;
            about[4..8].copy_from_slice(&device.index.to_ne_bytes());
        };
        let attribute = |kind: u16, value: &[u8]| match kind {
            IFA_FLAGS => Some(((number(value) & F_SET) | more).to_ne_bytes().to_vec()),
            // The device's name, unless an administrator chose another label.
            IFA_LABEL if value.strip_suffix(&[0]) == Some(old.as_bytes()) => {
                Some([device.name.as_bytes(), &[0]].concat())
            }
            _ => Some(value.to_vec()),
        };
        address.request(libc::RTM_NEWADDR, flags, about, attribute).send().map(drop)
    };
    let create = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    if !address.is_ipv6() {
        return send(0, create);
    }
    // Duplicates were checked for on this link before, and a route from the address needs it at
    // once.
    send(F_NODAD, create)?;
    send(0, libc::NLM_F_REPLACE)
}

/// Keeps the route flag that an administrator sets, and adds `more`.
fn keep_onlink(about: &mut [u8], more: u32) {
    let flags = (number(&about[8..]) & ONLINK) | more;
    about[8..].copy_from_slice(&flags.to_ne_bytes());
}

fn add_route(route: &Item, device: &Interface, on_link: u32) -> std::io::Result<()> {
    let about = |about: &mut [u8]| keep_onlink(about, on_link);
    let attribute = |kind: u16, value: &[u8]| match kind {
        RTA_OIF => Some(device.index.to_ne_bytes().to_vec()),
        RTA_CACHEINFO => None,
        _ => Some(value.to_vec()),
    };
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let request = route.request(libc::RTM_NEWROUTE, flags, about, attribute);
    // Expiry of an advertised route.
    let ends = route.value(RTA_CACHEINFO).and_then(|of| of.get(8..12)).map_or(0, number);
    let ends = if ends.cast_signed() < 0 { 0 } else { ends };
    let request = match ends {
        0 => request,
        ticks => request.with(RTA_EXPIRES, &(ticks / TICKS).max(1).to_ne_bytes()),
    };
    request.send().map(drop)
}
