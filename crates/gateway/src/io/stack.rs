//! Detects other users of a device: this machine's network stack, a bridge or another gateway. Each
//! of them receives and sends frames that bypass the gateway.

use core::ffi::c_int;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen,
    socket, sockopt,
};
use nix::unistd::geteuid;

use crate::config::keywords::{Io, Words as _};
use crate::io::sys::{Interface, Request, attributes, links, number};

/// A use of a device that bypasses the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The stack has this address, on the device itself or on one above it, such as a VLAN.
    Address { on: String, address: IpAddr, len: u8 },
    /// The device, or one above it, is a port of a bridge or similar.
    Port { on: String, master: String, kind: String },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address, len, .. } => write!(f, "has the address {address}/{len}"),
            Self::Port { master, kind, .. } => write!(f, "is a port of {master} ({kind})"),
        }
    }
}

impl Use {
    /// Returns the device that is used.
    pub(crate) fn on(&self) -> &str {
        match self {
            Self::Address { on, .. } | Self::Port { on, .. } => on,
        }
    }

    /// Returns the command that ends the use.
    pub(crate) fn stop(&self) -> String {
        match self {
            Self::Address { on, address: address @ IpAddr::V4(_), len } => {
                format!("ip addr del {address}/{len} dev {on}")
            }
            // A router advertisement would bring a removed address back.
            Self::Address { on, .. } => {
                format!("sysctl -w net/ipv6/conf/{on}/disable_ipv6=1")
            }
            Self::Port { on, .. } => format!("ip link set {on} nomaster"),
        }
    }
}

/// Returns the interface `index` first, and those above it, such as VLANs.
fn tower(all: &[Interface], index: c_int) -> Vec<&Interface> {
    let mut tower: Vec<&Interface> = all.iter().filter(|link| link.index == index).collect();
    let mut at = 0;
    while let Some(below) = tower.get(at).map(|link| link.index) {
        at += 1;
        let lies_on = |link: &&Interface| {
            let kinds = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"];
            link.other == Some(below) && link.namespace.is_none() && kinds.contains(&&*link.kind)
        };
        for above in all.iter().filter(lies_on) {
            if tower.iter().all(|link| link.index != above.index) {
                tower.push(above);
            }
        }
    }
    tower
}

/// Returns true if `above` lies on `below` or is a port of it.
pub(crate) fn lies_on(above: &Interface, below: &Interface) -> bool {
    let all = links().unwrap_or_default();
    above.master == Some(below.index)
        || tower(&all, below.index).iter().any(|link| link.index == above.index)
}

/// Returns the uses of interface `index` by others than the gateway. IPv6 link-local addresses do
/// not count: every device has one, and no other machine is reached through it.
pub(crate) fn uses(index: c_int) -> io::Result<Vec<Use>> {
    let all = links()?;
    let addresses = addresses()?;
    let mut uses = Vec::new();
    for link in tower(&all, index) {
        if let Some(master) = link.master {
            let master = all.iter().find(|of| of.index == master);
            let (name, kind) = match master {
                Some(of) => (of.name.clone(), of.kind.clone()),
                None => ("another device".to_owned(), "hidden".to_owned()),
            };
            uses.push(Use::Port { on: link.name.clone(), master: name, kind });
        }
        let of_link = addresses.iter().filter(|(of, ..)| *of == link.index);
        uses.extend(of_link.map(|&(_, address, len)| {
            let on = link.name.clone();
            Use::Address { on, address, len }
        }));
    }
    Ok(uses)
}

/// Returns all addresses except IPv6 link-local ones: interface, address and prefix length.
fn addresses() -> io::Result<Vec<(c_int, IpAddr, u8)>> {
    const ABOUT: usize = 8;
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    let answer = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; ABOUT]).send()?;
    let read = |body: &[u8]| {
        let [_, len, _, _, index @ ..] = *body.first_chunk::<ABOUT>()?;
        // On a point-to-point device, LOCAL is the own address.
        let value = |wanted| attributes(body.get(ABOUT..)?).find(|(kind, _)| *kind == wanted);
        let (_, bytes) = value(LOCAL).or_else(|| value(ADDRESS))?;
        let address = match bytes.len() {
            4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
            _ => IpAddr::from(Ipv6Addr::from(*bytes.first_chunk::<16>()?)),
        };
        let counts = !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        counts.then_some((number(&index).cast_signed(), address, len))
    };
    Ok(answer.iter().filter_map(|(_, body)| read(body)).collect())
}

/// Claims the right to forward the frames of a device, until the descriptor is closed. Returns the
/// process id of another gateway that has it.
///
/// The claim is a Unix socket with an abstract name in the network namespace. A name taken by a
/// user who may not run a gateway is ignored.
pub(crate) fn claim(index: c_int, io: Io) -> io::Result<Result<OwnedFd, i32>> {
    let name = format!("freeboard-gateway {} {index}", io.word());
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    let open = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        socket(AddressFamily::Unix, SockType::Stream, flags, None)
    };
    let claim = open()?;
    match bind(claim.as_raw_fd(), &address) {
        Ok(()) => {
            listen(&claim, Backlog::MAXCONN)?;
            Ok(Ok(claim))
        }
        Err(Errno::EADDRINUSE) => {
            let asking = open()?;
            let other = connect(asking.as_raw_fd(), &address)
                .and_then(|()| getsockopt(&asking, sockopt::PeerCredentials));
            let may_run = |uid| uid == 0 || uid == geteuid().as_raw();
            match other {
                Ok(other) if may_run(other.uid()) => Ok(Err(other.pid())),
                _ => Ok(Ok(claim)),
            }
        }
        Err(error) => Err(error.into()),
    }
}
