//! What the kernel knows of interfaces: questions by netlink. It answers them at once.

use core::ffi::c_int;
use std::io;
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: c_int,
    pub(crate) name: String,
    /// The kind of interface, such as `veth` or `bridge`; empty where the kernel has no word for it, as for network cards.
    pub(crate) kind: String,
    pub(crate) mtu: usize,
    /// The most packets that it is handed as one to be sent.
    pub(crate) gso_max_segs: u32,
    /// The interface below, or at the other end of the pair.
    pub(crate) other: Option<c_int>,
    /// The number of the namespace that `other` is in, if that is another.
    pub(crate) namespace: Option<c_int>,
    /// The bridge or the like that it is a port of.
    pub(crate) master: Option<c_int>,
    /// Of a TAP: its program may hand over packets that are not cut up.
    pub(crate) has_headers: bool,
}

const HEADER: usize = 16;
const ABOUT: usize = 16;

/// An attribute of a message: its kind and its value.
fn attribute(kind: u16, value: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&8_u16.to_ne_bytes());
    bytes[2..4].copy_from_slice(&kind.to_ne_bytes());
    bytes[4..].copy_from_slice(&value.to_ne_bytes());
    bytes
}

/// All interfaces of this namespace.
pub(crate) fn links() -> io::Result<Vec<Interface>> {
    ask((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16, 0, None)
}

/// One interface, of another namespace if a number is given for it; that takes CAP_NET_ADMIN.
pub(crate) fn link(index: c_int, namespace: Option<c_int>) -> io::Result<Interface> {
    let found = ask(libc::NLM_F_REQUEST as u16, index, namespace)?;
    found.into_iter().next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn ask(flags: u16, index: c_int, namespace: Option<c_int>) -> io::Result<Vec<Interface>> {
    const TARGET_NETNSID: u16 = 46;
    const SKIP_STATISTICS: u32 = 1 << 3;
    let mut attributes = attribute(libc::IFLA_EXT_MASK, SKIP_STATISTICS).to_vec();
    if let Some(namespace) = namespace {
        attributes.extend(attribute(TARGET_NETNSID, namespace.cast_unsigned()));
    }
    let len = (HEADER + ABOUT + attributes.len()) as u32;
    let mut message = len.to_ne_bytes().to_vec();
    message.extend(libc::RTM_GETLINK.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    // A family and a kind, which are any; its number; flags, and those that change.
    message.extend([0; 4]);
    message.extend(index.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(attributes);
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut found = Vec::new();
    let mut room = vec![0; 64 << 10];
    loop {
        let len = match recv(socket.as_raw_fd(), &mut room, MsgFlags::MSG_DONTWAIT) {
            Ok(0) | Err(Errno::EAGAIN) => return Ok(found),
            Ok(len) => len,
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut rest = room.get(..len).unwrap_or(&[]);
        while let Some((kind, body, behind)) = message_of(rest) {
            rest = behind;
            match c_int::from(kind) {
                libc::NLMSG_DONE => return Ok(found),
                libc::NLMSG_ERROR => {
                    let code = number(body.get(..4).unwrap_or(&[])).cast_signed();
                    return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
                }
                _ if kind == libc::RTM_NEWLINK => found.extend(read(body)),
                _ => {}
            }
        }
    }
}

/// The number that these bytes are; 0 if they are none.
fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |&bytes| u32::from_ne_bytes(bytes))
}

/// The first message: its kind, what it says, and the messages behind it.
pub(crate) fn message_of(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = number(bytes) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..len)?;
    Some((kind, body, bytes.get(len.next_multiple_of(4)..).unwrap_or(&[])))
}

/// The attributes in these bytes, by their kinds.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    // Two bits of a kind say how its value is written.
    const KIND: u16 = 0x3fff;
    core::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & KIND;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

/// What a message says of an interface.
fn read(body: &[u8]) -> Option<Interface> {
    const LINK_NETNSID: u16 = 37;
    const GSO_MAX_SEGS: u16 = 40;
    const INFO_KIND: u16 = 1;
    const INFO_DATA: u16 = 2;
    const TUN_VNET_HDR: u16 = 5;
    let about = body.get(..ABOUT)?;
    let mut link =
        Interface { index: number(about.get(4..)?).cast_signed(), ..Interface::default() };
    for (kind, value) in attributes(body.get(ABOUT..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
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

    /// Goal: whatever comes as an answer is read without a panic.
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
            let _ = message_of(&body[..len]);
        }
        for length in 0..4 {
            // An attribute shorter than its own head ends the list.
            assert_eq!(attributes(&[length, 0, 4, 0, 1, 2, 3, 4]).count(), 0);
        }
    }
}
