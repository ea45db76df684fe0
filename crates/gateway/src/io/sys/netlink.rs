//! Requests to the kernel by route netlink, which replies at once.

use core::ffi::c_int;
use std::io;
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

const HEADER: usize = 16;

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// Creates a request of this kind; `about` is its fixed part.
    pub(crate) fn new(kind: u16, flags: c_int, about: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        bytes.extend(about);
        Self(bytes)
    }

    /// Adds an attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        append(&mut self.0, kind, value);
        self
    }

    /// Sends the request; returns the kinds and bodies of the replies.
    pub(crate) fn send(mut self) -> io::Result<Vec<(u16, Vec<u8>)>> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        let flags = SockFlag::SOCK_CLOEXEC;
        let protocol = SockProtocol::NetlinkRoute;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        send(socket.as_raw_fd(), &self.0, MsgFlags::empty())?;
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
                        return match code {
                            0 => Ok(found),
                            code => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
                        };
                    }
                    _ => found.push((kind, body.to_vec())),
                }
            }
        }
    }
}

/// Appends an attribute, padded.
fn append(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend(((value.len() + 4) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// Encodes attributes as the value of another one, after its fixed part `about`.
pub(crate) fn nested(about: &[u8], parts: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = about.to_vec();
    parts.iter().for_each(|(kind, value)| append(&mut bytes, *kind, value));
    bytes
}

/// Decodes a number; 0 if there are too few bytes.
pub(crate) fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |&bytes| u32::from_ne_bytes(bytes))
}

/// Splits off the first message: its kind, its body and the remaining messages.
pub(crate) fn message_of(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = number(bytes) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..len)?;
    Some((kind, body, bytes.get(len.next_multiple_of(4)..).unwrap_or(&[])))
}

/// Iterates over the attributes in these bytes, with their kinds.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    // Two bits of a kind describe the encoding of its value.
    const KIND: u16 = 0x3fff;
    core::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & KIND;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: parsing truncated replies does not panic, and what was built is read back.
    #[test]
    fn messages_and_attributes_are_read_as_far_as_they_go() {
        let bytes = nested(&[], &[(3, b"ab\0"), (4, &[0xdc, 5, 0, 0]), (9, &[])]);
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(3, &b"ab\0"[..]), (4, &[0xdc, 5, 0, 0]), (9, &[])]);
        for len in 0..bytes.len() {
            let _ = message_of(&bytes[..len]);
            assert!(attributes(&bytes[..len]).count() <= 3);
        }
        for length in 0..4 {
            // An attribute shorter than its own header ends the list.
            assert_eq!(attributes(&[length, 0, 4, 0, 1, 2, 3, 4]).count(), 0);
        }
    }
}
