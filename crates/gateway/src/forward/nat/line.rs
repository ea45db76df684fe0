//! A line of the kernel's table of connections.
//!
//! After the names and numbers of both protocols come the seconds that are left and the state, then
//! the packet that began the connection as it came, `src= dst= sport= dport=`, then its answer as
//! it comes, and more that is not needed. Where addresses are translated, the answer does not go
//! where the first packet came from, or does not come from where that one went. An echo has `type=
//! code= id=` in place of ports.

use core::net::IpAddr;

use super::{End, Outside};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Whether there are no ports, but perhaps an identifier.
pub(super) const fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, ICMP | ICMPV6)
}

/// Whether a packet of this protocol is an echo, where a flow's key has this in place of the
/// destination's port: type and code.
pub(super) const fn is_echo(protocol: u8, type_and_code: u16) -> bool {
    matches!((protocol, type_and_code >> 8), (ICMP, 0 | 8) | (ICMPV6, 128 | 129))
}

/// From where to where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuple {
    pub(super) source: End,
    pub(super) destination: End,
}

/// A connection: its first packet as it came, and an answer as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) protocol: u8,
    pub(super) first: Tuple,
    pub(super) answer: Tuple,
}

impl Connection {
    /// None if the line is not such a line, or its protocol has neither ports nor echoes.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let _family = words.next().filter(|family| matches!(*family, "ipv4" | "ipv6"))?;
        let protocol = words.nth(2)?.parse().ok()?;
        let first = tuple(&mut words, protocol)?;
        let answer = tuple(&mut words, protocol)?;
        Some(Self { protocol, first, answer })
    }

    /// What is translated, from the outer side to the end of the host: of a connection from a host,
    /// of one to a host, of neither or of both.
    pub(super) fn translations(&self) -> impl Iterator<Item = (Outside, End)> {
        let Self { protocol, first, answer } = *self;
        let from_host = (answer.destination, answer.source, first.source);
        let to_host = (first.destination, first.source, answer.source);
        [from_host, to_host].into_iter().filter_map(move |(local, remote, host)| {
            // Another identifier alone is no other host, and stands at both ends.
            let ports_differ = !is_icmp(protocol) && local.port != host.port;
            let is_translated = local.address != host.address || ports_differ;
            is_translated.then_some((Outside { protocol, local, remote }, host))
        })
    }
}

/// The next tuple: what its words say first, up to its last one.
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
