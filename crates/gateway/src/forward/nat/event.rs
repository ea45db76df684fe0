//! Parses reports of connections, which are netlink attributes.
//!
//! After the family come attributes, each with two bytes of length, two of kind, and a value. Two
//! of a connection's attributes are read, the packet that began it and the reply; each contains
//! attributes for addresses and for ports. Numbers in values are in network order.

use core::net::IpAddr;

use super::End;
use super::line::{Connection, Tuple, is_icmp};
use crate::io::sys::attributes;

/// Length of family, version and a number before the attributes.
const FAMILY: usize = 4;

/// `CTA_TUPLE_ORIG` and `CTA_TUPLE_REPLY`.
const FIRST: u16 = 1;
const ANSWER: u16 = 2;

/// `CTA_TUPLE_IP` and `CTA_TUPLE_PROTO`, inside a tuple.
const ADDRESSES: u16 = 1;
const PORTS: u16 = 2;

impl Connection {
    /// Parses the body of a report. `None` if it is no connection, or if its protocol has neither
    /// ports nor echoes.
    pub(super) fn of_event(body: &[u8]) -> Option<Self> {
        let body = body.get(FAMILY..)?;
        let (protocol, first) = tuple(value(body, FIRST)?)?;
        let (protocol_of_answer, answer) = tuple(value(body, ANSWER)?)?;
        let is_one = protocol == protocol_of_answer
            && first.source.address.is_ipv4() == answer.source.address.is_ipv4();
        is_one.then_some(Self { protocol, first, answer })
    }
}

/// Returns the value of the first attribute of this kind.
fn value(of: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(of).find_map(|(found, value)| (found == kind).then_some(value))
}

fn tuple(of: &[u8]) -> Option<(u8, Tuple)> {
    let (addresses, ports) = (value(of, ADDRESSES)?, value(of, PORTS)?);
    let (source, destination) = match (v4(addresses, 1), v6(addresses, 3)) {
        (Some(source), _) => (source, v4(addresses, 2)?),
        (None, Some(source)) => (source, v6(addresses, 4)?),
        (None, None) => return None,
    };
    let port = |kind| value(ports, kind)?.try_into().ok().map(u16::from_be_bytes);
    // `CTA_PROTO_NUM`, then the source and destination ports, then identifier, type and code of
    // ICMP, and those three of ICMPv6.
    let [protocol] = *value(ports, 1)? else { return None };
    let (from, to) = if is_icmp(protocol) {
        let id = port(4).or_else(|| port(7))?;
        (id, id)
    } else {
        (port(2)?, port(3)?)
    };
    let end = |address, port| End { address, port };
    Some((protocol, Tuple { source: end(source, from), destination: end(destination, to) }))
}

fn v4(of: &[u8], kind: u16) -> Option<IpAddr> {
    let octets: [u8; 4] = value(of, kind)?.try_into().ok()?;
    Some(octets.into())
}

fn v6(of: &[u8], kind: u16) -> Option<IpAddr> {
    let octets: [u8; 16] = value(of, kind)?.try_into().ok()?;
    Some(octets.into())
}

#[cfg(test)]
mod tests;
