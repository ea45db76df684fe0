//! Parses a line of the kernel's connection tracking table.
//!
//! The names and numbers of both protocols are followed by the remaining seconds and the state,
//! then by the packet that began the connection as it arrived, `src= dst= sport= dport=`, then by
//! its reply as it arrives, and by other fields. Where addresses are translated, the reply's source
//! or destination differs from the first packet's destination or source. An echo has `type= code=
//! id=` instead of ports.

use core::net::IpAddr;

use super::{End, OuterConnection};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Returns true for protocols without ports, but possibly with an identifier.
pub(super) const fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, ICMP | ICMPV6)
}

/// Returns true if a packet of this protocol is an echo. Type and code take the place of the
/// destination port in a flow's key.
pub(super) const fn is_echo(protocol: u8, type_and_code: u16) -> bool {
    matches!((protocol, type_and_code >> 8), (ICMP, 0 | 8) | (ICMPV6, 128 | 129))
}

/// Source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuple {
    pub(super) source: End,
    pub(super) destination: End,
}

/// A connection: its first packet as it arrived, and a reply as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) protocol: u8,
    pub(super) first: Tuple,
    pub(super) answer: Tuple,
}

impl Connection {
    /// Parses a line. `None` if it is malformed, or if its protocol has neither ports nor echoes.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let _family = words.next().filter(|family| matches!(*family, "ipv4" | "ipv6"))?;
        let protocol = words.nth(2)?.parse().ok()?;
        let first = tuple(&mut words, protocol)?;
        let answer = tuple(&mut words, protocol)?;
        Some(Self { protocol, first, answer })
    }

    /// Returns the translations from the outer side to the host's end: of a connection from a host,
    /// of one to a host, of neither or of both.
    pub(super) fn translations(&self) -> impl Iterator<Item = (OuterConnection, End)> {
        let Self { protocol, first, answer } = *self;
        let from_host = (answer.destination, answer.source, first.source);
        let to_host = (first.destination, first.source, answer.source);
        [from_host, to_host].into_iter().filter_map(move |(local, remote, host)| {
            // A different identifier alone does not mean a different host; both ends have it.
            let ports_differ = !is_icmp(protocol) && local.port != host.port;
            let is_translated = local.address != host.address || ports_differ;
            is_translated.then_some((OuterConnection { protocol, local, remote }, host))
        })
    }
}

/// Parses the next tuple, up to its last field; the first field of each name counts.
fn tuple<'a>(words: &mut impl Iterator<Item = &'a str>, protocol: u8) -> Option<Tuple> {
    let mut after = |name: &str| words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let source: IpAddr = after("src")?.parse().ok()?;
    let destination: IpAddr = after("dst")?.parse().ok()?;
    let (from, to) = if is_icmp(protocol) {
        let id = after("id")?.parse().ok()?;
        (id, id)
    } else {
        (after("sport")?.parse().ok()?, after("dport")?.parse().ok()?)
    };
    Some(Tuple {
        source: End { address: source, port: from },
        destination: End { address: destination, port: to },
    })
}
