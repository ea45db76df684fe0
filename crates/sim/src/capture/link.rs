//! Link types of captures, and the position of a packet behind each link header.

use std::borrow::Cow;

/// Type of the link header of a captured packet (a `LINKTYPE_` number of tcpdump.org).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LinkType {
    /// An Ethernet header (1).
    Ethernet,
    /// An IPv4 or IPv6 header, told by its version field (101, 228, 229; BSDs also write 12 and
    /// 14).
    RawIp,
    /// Four bytes of address family in the byte order of the machine, then IP: the loopback of most
    /// BSDs (0).
    Null,
    /// Four bytes of address family in network byte order, then IP: the loopback of OpenBSD (108).
    Loop,
    /// PPP, with or without HDLC-like framing (9, 50).
    Ppp,
    /// Linux "cooked" v1, as captured on the device `any` (113).
    Sll,
    /// Linux "cooked" v2 (276).
    Sll2,
    /// 802.11 behind a radiotap header (127).
    Radiotap,
    /// Another link type, whose packets cannot be parsed.
    Other(u16),
}

/// A captured packet in a form that a parser accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An Ethernet frame, or one built from the addresses and the protocol of another link type.
    Ethernet(Cow<'a, [u8]>),
    /// An IP packet.
    Ip(&'a [u8]),
}

const MAC: usize = 6;

impl LinkType {
    /// Returns the link type with a `LINKTYPE_` number.
    #[must_use]
    pub const fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            9 | 50 => Self::Ppp,
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            108 => Self::Loop,
            113 => Self::Sll,
            127 => Self::Radiotap,
            276 => Self::Sll2,
            other => Self::Other(other),
        }
    }

    /// Returns the `LINKTYPE_` number that a [`Writer`](super::Writer) writes.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Null => 0,
            Self::Ethernet => 1,
            Self::Ppp => 9,
            Self::RawIp => 101,
            Self::Loop => 108,
            Self::Sll => 113,
            Self::Radiotap => 127,
            Self::Sll2 => 276,
            Self::Other(number) => number,
        }
    }

    /// Returns the frame or packet behind the link header; `None` for [`Self::Other`].
    ///
    /// Data that is too short for its link header or carries no packet counts as non-IP: an
    /// Ethernet frame with its source address and without payload if the link header names senders,
    /// otherwise an empty packet.
    #[must_use]
    pub fn frame(self, bytes: &[u8]) -> Option<Frame<'_>> {
        Some(match self {
            Self::Ethernet => Frame::Ethernet(bytes.into()),
            Self::RawIp => Frame::Ip(bytes),
            Self::Null | Self::Loop => Frame::Ip(bytes.get(4..).unwrap_or_default()),
            Self::Ppp => Frame::Ip(ppp(bytes).unwrap_or_default()),
            Self::Sll => framed(bytes.get(6..12), bytes.get(14..16), bytes.get(16..)),
            Self::Sll2 => framed(bytes.get(12..18), bytes.get(..2), bytes.get(20..)),
            Self::Radiotap => wireless(bytes),
            Self::Other(_) => return None,
        })
    }
}

/// Returns the IP packet in a PPP frame; `None` if it carries another protocol.
fn ppp(bytes: &[u8]) -> Option<&[u8]> {
    // Address and control may be omitted, as may the first byte of the protocol (RFC 1661 §6.5 and
    // §6.6).
    let bytes = bytes.strip_prefix(&[0xff, 0x03]).unwrap_or(bytes);
    match bytes {
        [0, 0x21 | 0x57, rest @ ..] | [0x21 | 0x57, rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Builds an Ethernet frame from the fields of a link header.
fn framed<'a>(source: Option<&[u8]>, protocol: Option<&[u8]>, payload: Option<&[u8]>) -> Frame<'a> {
    let source = source.unwrap_or(&[0; MAC]);
    // 0xffff is not a protocol: the frame has only its source.
    let protocol = protocol.unwrap_or(&[0xff, 0xff]);
    Frame::Ethernet([&[0; MAC], source, protocol, payload.unwrap_or_default()].concat().into())
}

/// Returns the frame in an 802.11 frame behind a radiotap header. Only unencrypted data frames
/// carry a packet.
fn wireless<'a>(bytes: &[u8]) -> Frame<'a> {
    const DATA: u8 = 2;
    const QOS: u8 = 0x80;
    const NO_DATA: u8 = 0x40;
    const BOTH_WAYS: u8 = 0x03;
    const PROTECTED: u8 = 0x40;
    const ORDER: u8 = 0x80;
    let header = bytes.get(2..4).map_or(0, |len| usize::from(u16::from_le_bytes([len[0], len[1]])));
    let frame = bytes.get(header..).unwrap_or_default();
    let &[kind, flags, ..] = frame else { return framed(None, None, None) };
    let transmitter = frame.get(10..16);
    let is_data = kind >> 2 & 3 == DATA && kind & NO_DATA == 0 && flags & PROTECTED == 0;
    if !is_data {
        return framed(transmitter, None, None);
    }
    let is_four_addresses = flags & BOTH_WAYS == BOTH_WAYS;
    let source = match flags & BOTH_WAYS {
        // The third address is the sender in frames from an access point, the fourth between two of
        // them.
        0x02 => frame.get(16..22),
        BOTH_WAYS => frame.get(24..30),
        _ => transmitter,
    };
    let mut body = 24 + usize::from(is_four_addresses) * MAC;
    if kind & QOS != 0 {
        body += 2 + usize::from(flags & ORDER != 0) * 4;
    }
    match frame.get(body..) {
        // LLC with SNAP
        Some([0xaa, 0xaa, 3, 0, 0, 0, high, low, payload @ ..]) => {
            framed(source, Some(&[*high, *low]), Some(payload))
        }
        _ => framed(source, None, None),
    }
}
