//! Interfaces as known to the kernel, read by netlink requests, which are answered at once.

use core::ffi::c_int;
use std::io;

use super::netlink::{Request, attributes, number};

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: c_int,
    pub(crate) name: String,
    /// Kind of interface, such as `veth` or `bridge`; empty if the kernel has no name for it, as
    /// for network cards.
    pub(crate) kind: String,
    pub(crate) mtu: usize,
    /// Maximum number of packets that it is given as one frame to send.
    pub(crate) gso_max_segs: u32,
    /// Interface below, or at the other end of the pair.
    pub(crate) other: Option<c_int>,
    /// Id of the namespace of `other`, if it is another one.
    pub(crate) namespace: Option<c_int>,
    /// Bridge or similar that it is a port of.
    pub(crate) master: Option<c_int>,
    /// Flags such as `IFF_UP`.
    pub(crate) flags: u32,
    /// MAC address.
    pub(crate) mac: Vec<u8>,
    /// Administrator's alias.
    pub(crate) alias: String,
    /// TAP only: its program may send unsegmented packets.
    pub(crate) has_headers: bool,
}

/// Length of the fixed part of a message about an interface: family, kind, index, flags and change
/// mask.
const ABOUT: usize = 16;

impl Interface {
    /// Returns true if the interface is administratively up.
    pub(crate) fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP.cast_unsigned() != 0
    }

    /// Returns true if there is a carrier. An interface that is down may not know.
    pub(crate) fn has_carrier(&self) -> bool {
        self.flags & libc::IFF_LOWER_UP.cast_unsigned() != 0
    }
}

/// Builds the fixed part for the interface with this index; the flags in `change` are set to those
/// of `flags`.
pub(crate) fn about(index: c_int, flags: u32, change: u32) -> [u8; ABOUT] {
    let mut bytes = [0; ABOUT];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..].copy_from_slice(&change.to_ne_bytes());
    bytes
}

/// Returns all interfaces of this namespace.
pub(crate) fn links() -> io::Result<Vec<Interface>> {
    ask(libc::NLM_F_DUMP, 0, None)
}

/// Returns one interface, of another namespace if its id is given, which requires CAP_NET_ADMIN.
pub(crate) fn link(index: c_int, namespace: Option<c_int>) -> io::Result<Interface> {
    let found = ask(0, index, namespace)?;
    found.into_iter().next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn ask(flags: c_int, index: c_int, namespace: Option<c_int>) -> io::Result<Vec<Interface>> {
    const TARGET_NETNSID: u16 = 46;
    const SKIP_STATISTICS: u32 = 1 << 3;
    let request = Request::new(libc::RTM_GETLINK, flags, &about(index, 0, 0))
        .with(libc::IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes());
    let request = match namespace {
        Some(namespace) => request.with(TARGET_NETNSID, &namespace.to_ne_bytes()),
        None => request,
    };
    let found = request.send()?;
    let links = found.iter().filter(|(kind, _)| *kind == libc::RTM_NEWLINK);
    Ok(links.filter_map(|(_, body)| read(body)).collect())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

/// Parses a message about an interface.
pub(super) fn read(body: &[u8]) -> Option<Interface> {
    const LINK_NETNSID: u16 = 37;
    const GSO_MAX_SEGS: u16 = 40;
    const INFO_KIND: u16 = 1;
    const INFO_DATA: u16 = 2;
    const TUN_VNET_HDR: u16 = 5;
    let about = body.get(..ABOUT)?;
    let index = number(about.get(4..)?).cast_signed();
    let mut link = Interface { index, flags: number(about.get(8..)?), ..Interface::default() };
    for (kind, value) in attributes(body.get(ABOUT..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_ADDRESS => link.mac = value.to_vec(),
            libc::IFLA_IFALIAS => link.alias = text(value),
            libc::IFLA_MTU => link.mtu = number(value) as usize,
            libc::IFLA_LINK => link.other = Some(number(value).cast_signed()),
            libc::IFLA_MASTER => link.master = Some(number(value).cast_signed()),
            LINK_NETNSID => link.namespace = Some(number(value).cast_signed()),
            GSO_MAX_SEGS => link.gso_max_segs = number(value),
            libc::IFLA_LINKINFO => {
                let mut data: &[u8] = &[];
                for (kind, value) in attributes(value) {
                    match kind {
                        INFO_KIND => link.kind = text(value),
                        INFO_DATA => data = value,
                        _ => {}
                    }
                }
                let mut headers = attributes(data).filter(|(kind, _)| *kind == TUN_VNET_HDR);
                link.has_headers =
                    link.kind == "tun" && headers.any(|(_, value)| value.first() == Some(&1));
            }
            _ => {}
        }
    }
    Some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_a_loopback() {
        let all = links().unwrap();
        let found = all.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!(link(found.index, None).unwrap(), *found);
        assert!(found.mtu > 0 && found.gso_max_segs > 0, "{found:?}");
        assert!(link(c_int::MAX, None).is_err());
    }

    /// Goal: parsing a truncated reply does not panic.
    #[test]
    fn a_message_that_is_cut_is_read_as_far_as_it_goes() {
        let mut body = vec![0; ABOUT];
        body[4] = 7;
        body.extend([8, 0, 4, 0, 0xdc, 5, 0, 0]);
        body.extend([7, 0, 3, 0, b'a', b'b', 0, 0]);
        let whole = read(&body).unwrap();
        assert_eq!((whole.index, whole.mtu, &*whole.name), (7, 1_500, "ab"));
        for len in 0..body.len() {
            let _ = read(&body[..len]);
        }
    }
}
