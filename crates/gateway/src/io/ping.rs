//! Echo requests of ICMP: how long the way to a reflector and back takes.
//!
//! Sockets are opened while the gateway has the right to, and go on without it. The kernel chooses way and source
//! address, as for any program of this machine.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use freeboard::sched_core::Nanos;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, connect, recv,
    send, socket,
};

use crate::io::privileges::Capability;

/// Requests whose answers are waited for; an answer to an older one is no sample.
const AWAITED: usize = 256;
/// The bytes of a request.
const REQUEST: usize = 24;
/// An echo request of ICMP and its answer, and those of ICMPv6.
const V4: (u8, u8) = (8, 0);
const V6: (u8, u8) = (128, 129);

/// Sockets that ask.
#[derive(Debug)]
pub(crate) struct Pinger {
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
    to: Option<IpAddr>,
    /// What a request says, so that an answer is known: identifier and secret.
    id: u16,
    secret: [u8; 8],
    next: u16,
    awaited: VecDeque<(u16, Nanos)>,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
}

impl Pinger {
    /// Opens the sockets. One line says why not, if neither can be opened.
    pub(crate) fn open(secret: [u8; 10]) -> Result<Self, String> {
        let open = |family, protocol| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            socket(family, SockType::Raw, flags, protocol)
        };
        let v4 = open(AddressFamily::Inet, SockProtocol::Icmp);
        let v6 = open(AddressFamily::Inet6, SockProtocol::IcmpV6);
        if let (Err(error), Err(_)) = (&v4, &v6) {
            let why = match error {
                Errno::EPERM | Errno::EACCES => Capability::NetRaw.missing(),
                error => error.desc().to_owned(),
            };
            return Err(format!("cannot open a socket for ICMP: {why}"));
        }
        let [high, low, secret @ ..] = secret;
        Ok(Self {
            v4: v4.ok(),
            v6: v6.ok(),
            to: None,
            id: u16::from_be_bytes([high, low]),
            secret,
            next: 0,
            awaited: VecDeque::with_capacity(AWAITED),
            sent: 0,
            answered: 0,
        })
    }

    /// The sockets, to be waited for.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.v4, &self.v6].into_iter().flatten().map(AsFd::as_fd)
    }

    pub(crate) fn to(&self) -> Option<IpAddr> {
        self.to
    }

    /// Asks this one from now on. What others still answer is no sample.
    pub(crate) fn ask(&mut self, to: Option<IpAddr>) {
        self.to = to;
        self.awaited.clear();
        let Some((to, socket)) = to.and_then(|to| Some((to, self.socket(to)?))) else { return };
        // Without a way there, requests fail, and are as good as lost.
        let _ = connect(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(to, 0)));
    }

    fn socket(&self, to: IpAddr) -> Option<&OwnedFd> {
        if to.is_ipv4() { self.v4.as_ref() } else { self.v6.as_ref() }
    }

    /// Sends a request.
    pub(crate) fn request(&mut self, now: Nanos) {
        let Some(to) = self.to else { return };
        self.next = self.next.wrapping_add(1);
        let kind = if to.is_ipv4() { V4 } else { V6 };
        let bytes = request(kind.0, self.id, self.next, self.secret);
        self.sent += 1;
        let Some(socket) = self.socket(to) else { return };
        if send(socket.as_raw_fd(), &bytes, MsgFlags::empty()).is_ok() {
            if self.awaited.len() >= AWAITED {
                self.awaited.pop_front();
            }
            self.awaited.push_back((self.next, now));
        }
    }

    /// Takes in what has come; `sample` is told how long each answer took.
    pub(crate) fn answers(&mut self, now: Nanos, mut sample: impl FnMut(Nanos)) {
        let mut room = [0; 512];
        for is_v4 in [true, false] {
            let socket = if is_v4 { &self.v4 } else { &self.v6 };
            let Some(fd) = socket.as_ref().map(|socket| socket.as_raw_fd()) else { continue };
            while let Ok(len) = recv(fd, &mut room, MsgFlags::empty()) {
                let bytes = room.get(..len).unwrap_or(&[]);
                let message = if is_v4 { behind_header(bytes) } else { bytes };
                let kind = if is_v4 { V4.1 } else { V6.1 };
                let Some(number) = answer(message, kind, self.id, self.secret) else { continue };
                // Each answer once.
                let Some(at) = self.awaited.iter().position(|(of, _)| *of == number) else {
                    continue;
                };
                if let Some((_, sent)) = self.awaited.remove(at) {
                    self.answered += 1;
                    sample(now.since(sent));
                }
            }
        }
    }
}

/// An echo request, with its checksum; that of ICMPv6 the kernel makes, and overwrites this one.
fn request(kind: u8, id: u16, number: u16, secret: [u8; 8]) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[0] = kind;
    bytes[4..6].copy_from_slice(&id.to_be_bytes());
    bytes[6..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..16].copy_from_slice(&secret);
    let sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// What stands behind the header of IPv4, which a raw socket hands over.
fn behind_header(bytes: &[u8]) -> &[u8] {
    let header = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
    bytes.get(header..).unwrap_or(&[])
}

/// The number of the request that this message answers, if it is one of ours.
fn answer(message: &[u8], kind: u8, id: u16, secret: [u8; 8]) -> Option<u16> {
    match *message {
        [of, 0, _, _, high, low, first, second, ref rest @ ..]
            if of == kind && [high, low] == id.to_be_bytes() && rest.starts_with(&secret) =>
        {
            Some(u16::from_be_bytes([first, second]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: only an answer to our own request is one, and its number is that of the request.
    #[test]
    fn an_answer_is_one_to_our_request() {
        let secret = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut message = request(V4.0, 0x1234, 0xfffe, secret);
        let words = message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(answer(&message, V4.1, 0x1234, secret), None, "a request is none");
        message[0] = V4.1;
        assert_eq!(answer(&message, V4.1, 0x1234, secret), Some(0xfffe));
        assert_eq!(answer(&message, V4.1, 0x1235, secret), None);
        assert_eq!(answer(&message, V4.1, 0x1234, [0; 8]), None);
        for len in 0..16 {
            assert_eq!(answer(&message[..len], V4.1, 0x1234, secret), None, "{len}");
        }
        let packet = [&[0x46; 24][..], &message].concat();
        assert_eq!(behind_header(&packet), message);
        for odd in [&[][..], &[0x4f], &[0x4f; 30]] {
            assert_eq!(behind_header(odd), [0_u8; 0]);
        }
    }
}
