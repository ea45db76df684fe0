//! Reads the kernel's reports of new and changed connections.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt,
    socket, sockopt,
};

use crate::io::sys::message_of;

/// Maximum number of events read at once; the others follow after the frames.
const AT_ONCE: usize = 256;
/// Receive buffer of the socket in bytes: about 4,000 events.
const HELD: usize = 4 << 20;
/// Maximum length of an event. The kernel's have less than 500 bytes.
const LONGEST: usize = 8 << 10;

/// `NFNLGRP_CONNTRACK_NEW` and `NFNLGRP_CONNTRACK_UPDATE`, the first two groups.
const GROUPS: u32 = 0b11;
/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW`, for new and for changed connections.
const NEW: u16 = 1 << 8;

/// Socket on which the kernel reports connections of the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Events {
    socket: OwnedFd,
    room: Vec<u8>,
}

/// Result of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Number of events.
    pub(crate) count: usize,
    /// True if the socket's buffer overflowed and events were lost.
    pub(crate) is_overrun: bool,
}

impl Events {
    /// Opens the socket, which requires CAP_NET_ADMIN. Reading requires no privileges afterwards.
    pub(crate) fn open() -> nix::Result<Self> {
        Self::holding(HELD)
    }

    /// Opens the socket with a buffer of about this many bytes.
    fn holding(bytes: usize) -> nix::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::NetlinkNetFilter;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
            let _ = setsockopt(&socket, sockopt::RcvBuf, &bytes);
        }
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self { socket, room: vec![0; LONGEST] })
    }

    /// Reads the available events, up to a bound, and passes the body of each on.
    pub(crate) fn read(&mut self, mut event: impl FnMut(&[u8])) -> Heard {
        let mut heard = Heard::default();
        for _ in 0..AT_ONCE {
            match recv(self.socket.as_raw_fd(), &mut self.room, MsgFlags::MSG_DONTWAIT) {
                Ok(len) => {
                    let read = self.room.get(..len).unwrap_or(&[]);
                    each_event(read, &mut event);
                    heard.count += 1;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => heard.is_overrun = true,
                Err(_) => break,
            }
        }
        heard
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Passes on the events in these bytes; truncated ones are ignored.
fn each_event(mut bytes: &[u8], event: &mut impl FnMut(&[u8])) {
    while let Some((kind, body, behind)) = message_of(bytes) {
        bytes = behind;
        if kind == NEW {
            event(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// Goal: events are found among other messages, and truncated ones are ignored.
    #[test]
    fn events_are_found_among_messages() {
        let message = |kind: u16, body: &[u8]| {
            let mut bytes = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(body);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let all = [message(NEW, b"one"), message(NEW | 2, b"gone"), message(NEW, b"two!")].concat();
        let given = |bytes: &[u8]| {
            let mut given = Vec::new();
            each_event(bytes, &mut |body| given.push(body.to_vec()));
            given
        };
        assert_eq!(given(&all), [&b"one"[..], b"two!"]);
        for len in 0..all.len() {
            let expected = usize::from(len >= 19);
            assert_eq!(given(&all[..len]).len(), expected, "{len}");
        }
        // A message shorter than its own header ends the list.
        for length in 0..16 {
            let mut bytes = all.clone();
            bytes[0] = length;
            assert!(given(&bytes).is_empty());
        }
    }

    /// Goal: a socket whose buffer overflowed reports it once, returns the buffered events, and
    /// receives later ones. Method: a namespace with connection tracking, a small buffer, and 500
    /// connections of one datagram each before it is read.
    #[test]
    fn an_overrun_is_told_once() {
        let needs = |what: &str| eprintln!("an_overrun_is_told_once: skipped: needs {what}");
        let apart = std::thread::spawn(move || {
            if unshare(CloneFlags::CLONE_NEWNET).is_err() {
                return needs("CAP_SYS_ADMIN");
            }
            let rule = "add table ip t; add chain ip t o { type filter hook output priority 0; }; add rule ip t o ct state new accept";
            let call = |program: &str, words: &[&str]| {
                Command::new(program).args(words).status().is_ok_and(|status| status.success())
            };
            if !call("ip", &["link", "set", "lo", "up"]) || !call("nft", &[rule]) {
                return needs("ip, and nft with ct");
            }
            let Ok(mut events) = Events::holding(16 << 10) else {
                return needs("a kernel that tracks connections");
            };
            let sending = UdpSocket::bind("127.0.0.1:0").unwrap();
            let connect = |ports: core::ops::Range<u16>| {
                // Closed ports cause errors on the socket; the next datagram is sent nevertheless.
                ports.for_each(|port| drop(sending.send_to(b"datagram", ("127.0.0.1", port))));
            };
            connect(20_000..20_500);
            let (mut told, mut overruns, mut count) = (0, 0, 0);
            loop {
                let heard = events.read(|_| told += 1);
                overruns += u32::from(heard.is_overrun);
                count += heard.count;
                if heard.count == 0 {
                    break;
                }
            }
            assert_eq!(overruns, 1, "{count} messages");
            assert!((1..500).contains(&told), "{told} of 500");
            connect(30_000..30_001);
            let mut told = 0;
            let heard = events.read(|_| told += 1);
            assert!(told > 0 && !heard.is_overrun, "{told} events, {heard:?}");
        });
        apart.join().unwrap();
    }

    /// Goal: without events, reading returns at once and reports no overrun.
    #[test]
    fn silence_is_heard_at_once() {
        // Without the privileges or connection tracking there is nothing to read.
        let Ok(mut events) = Events::open() else { return };
        // Other programs of this machine may have connections; they end as well.
        let heard = events.read(|_| {});
        assert!(heard.count <= AT_ONCE);
        assert!(!heard.is_overrun);
    }
}
