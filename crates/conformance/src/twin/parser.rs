//! Reference model of the parser: one value per header, taken from the front of the bytes, and
//! recursion through tunnels. Written from the RFCs and the tables in the documentation.

use freeboard::flowhash::parse::{MAX_EXTENSION_HEADERS, MAX_TUNNELS, MAX_VLAN_TAGS};
use freeboard::flowhash::{
    Ending, FlowKey, FlowLabels, Inner, Ip, Parsed, Parser, Transport, Tunnels,
};

/// Unread bytes of a frame, consumed from the front.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Ending> {
        if self.bytes.len() < count {
            return Err(Ending::Truncated);
        }
        let (taken, rest) = self.bytes.split_at(count);
        (self.bytes, self.at) = (rest, self.at + count);
        Ok(taken)
    }

    fn limit(&mut self, length: usize) {
        self.bytes = &self.bytes[..length.min(self.bytes.len())];
    }
}

fn be16(bytes: &[u8]) -> u16 {
    u16::from(bytes[0]) * 256 + u16::from(bytes[1])
}

/// One IP packet, as far as it was read.
struct Read<'a> {
    key: FlowKey,
    ip: Ip,
    ending: Ending,
    protocol: u8,
    upper: Cursor<'a>,
}

/// Parses a frame or a raw packet.
pub fn read(parser: Parser, bytes: &[u8], framed: bool) -> Parsed {
    let mut cursor = Cursor { bytes, at: 0 };
    let none = |key, ending| Parsed::new(key, None, None, ending);
    if !framed {
        return match bytes.first().map(|first| first / 16) {
            Some(version @ (4 | 6)) => match packet(parser, cursor, version) {
                Ok(outer) => through(parser, outer),
                Err(ending) => none(FlowKey::Unknown, ending),
            },
            Some(_) => none(FlowKey::Unknown, Ending::NotIp),
            None => none(FlowKey::Unknown, Ending::Truncated),
        };
    }
    let Ok(macs) = cursor.take(12).and_then(|macs| cursor.clone().take(2).map(|_| macs)) else {
        return none(FlowKey::Unknown, Ending::Truncated);
    };
    let outer = ethertypes(parser, &mut cursor).and_then(|version| packet(parser, cursor, version));
    outer.map_or_else(
        |ending| none(FlowKey::Ethernet { src: macs[6..].try_into().unwrap() }, ending),
        |outer| through(parser, outer),
    )
}

/// Reads EtherTypes up to the IP header; returns the IP version.
fn ethertypes(parser: Parser, cursor: &mut Cursor<'_>) -> Result<u8, Ending> {
    let mut last = be16(cursor.take(2)?);
    let mut tags = 0;
    while [0x8100, 0x88a8, 0x9100].contains(&last) {
        if tags == MAX_VLAN_TAGS {
            return Err(Ending::TooManyHeaders);
        }
        last = be16(&cursor.take(4)?[2..]);
        tags += 1;
    }
    match last {
        0x0800 => Ok(4),
        0x86dd => Ok(6),
        0x8864 if parser.tunnels.contains(Tunnels::PPPOE) => {
            let header = cursor.take(6)?;
            let length = usize::from(be16(&header[4..]));
            // The first byte of the number has to be present, whatever precedes it.
            let begin = *cursor.bytes.first().ok_or(Ending::Truncated)?;
            if header[..2] != [0x11, 0] {
                return Err(Ending::NotIp);
            }
            let number = cursor.take(if begin % 2 == 1 { 1 } else { 2 })?;
            if length < number.len() {
                return Err(Ending::Malformed);
            }
            cursor.limit(length - number.len());
            match number {
                [0x21] | [0, 0x21] => Ok(4),
                [0x57] | [0, 0x57] => Ok(6),
                _ => Err(Ending::NotIp),
            }
        }
        0..=1500 => {
            let header = cursor.take(8)?;
            if header[..6] != [0xaa, 0xaa, 3, 0, 0, 0] {
                return Err(Ending::NotIp);
            }
            if last < 8 {
                return Err(Ending::Malformed);
            }
            cursor.limit(usize::from(last) - 8);
            match be16(&header[6..]) {
                0x0800 => Ok(4),
                0x86dd => Ok(6),
                0x0806 => Err(Ending::Arp),
                _ => Err(Ending::NotIp),
            }
        }
        0x0806 => Err(Ending::Arp),
        _ => Err(Ending::NotIp),
    }
}

/// Replaces the result of the outermost packet by that of the packet in its tunnel, recursively.
fn through(parser: Parser, outer: Read<'_>) -> Parsed {
    let (outer_key, outer_ip) = (outer.key, outer.ip);
    let (innermost, depth) = descend(parser, outer, 0);
    let inner = (depth > 0).then_some(Inner::new(innermost.ip, outer_key, depth));
    Parsed::new(innermost.key, Some(outer_ip), inner, innermost.ending)
}

fn descend(parser: Parser, layer: Read<'_>, depth: u8) -> (Read<'_>, u8) {
    let mut cursor = layer.upper;
    let follows = |tunnel| parser.tunnels.contains(tunnel);
    let is_upper = matches!(layer.ending, Ending::NoPorts | Ending::Ports);
    let port = if cursor.bytes.len() >= 4 { be16(&cursor.bytes[2..]) } else { 0 };
    let kind = match layer.protocol {
        4 if follows(Tunnels::IP_IN_IP) => "ipv4",
        41 if follows(Tunnels::IP_IN_IP) => "ipv6",
        47 if follows(Tunnels::GRE) => "gre",
        17 if port == 4789 && follows(Tunnels::VXLAN) => "vxlan",
        _ => return (layer, depth),
    };
    if !is_upper {
        return (layer, depth);
    }
    if usize::from(depth) == MAX_TUNNELS {
        return (Read { ending: Ending::TooManyHeaders, ..layer }, depth);
    }
    let version = match kind {
        "ipv4" => Ok(4),
        "ipv6" => Ok(6),
        "gre" => gre(parser, &mut cursor),
        _ => vxlan(parser, &mut cursor),
    };
    match version.and_then(|version| packet(parser, cursor, version)) {
        Ok(inner) => descend(parser, inner, depth + 1),
        Err(Ending::Truncated) => (Read { ending: Ending::Truncated, ..layer }, depth),
        Err(_) => (layer, depth),
    }
}

fn gre(parser: Parser, cursor: &mut Cursor<'_>) -> Result<u8, Ending> {
    let header = cursor.take(4)?;
    let bit = |number: u32| header[number as usize / 8] >> (7 - number % 8) & 1 == 1;
    // RFC 2784 §2: checksum 0, reserved 1 to 12, version 13 to 15; RFC 2890 §2: key 2, sequence 3.
    if bit(1) || bit(4) || bit(5) || header[1] & 7 != 0 {
        return Err(Ending::NotIp);
    }
    if bit(3) && !parser.tunnels.contains(Tunnels::SEQUENCED_GRE) {
        return Err(Ending::NotIp);
    }
    for field in [0, 2, 3] {
        if bit(field) {
            cursor.take(4)?;
        }
    }
    match be16(&header[2..]) {
        0x0800 => Ok(4),
        0x86dd => Ok(6),
        0x6558 => inner_frame(parser, cursor),
        _ => Err(Ending::NotIp),
    }
}

fn vxlan(parser: Parser, cursor: &mut Cursor<'_>) -> Result<u8, Ending> {
    let header = &cursor.take(16)?[8..];
    if header[0] & 8 == 0 { Err(Ending::NotIp) } else { inner_frame(parser, cursor) }
}

fn inner_frame(parser: Parser, cursor: &mut Cursor<'_>) -> Result<u8, Ending> {
    cursor.take(12)?;
    ethertypes(parser, cursor)
}

fn packet<'a>(parser: Parser, mut cursor: Cursor<'a>, version: u8) -> Result<Read<'a>, Ending> {
    let offset = cursor.at;
    let whole = cursor;
    let header = cursor.take(if version == 4 { 20 } else { 40 })?;
    if header[0] / 16 != version {
        return Err(Ending::Malformed);
    }
    let mut label = [0, 0];
    let (traffic_class, mut protocol) = if version == 4 {
        (header[1], header[9])
    } else {
        label = [u16::from(header[1] % 16), be16(&header[2..])];
        ((be16(header) >> 4) as u8, header[6])
    };
    let mut offset_of_upper = offset;
    let stop = if version == 4 {
        v4(&mut cursor, whole, header, &mut offset_of_upper)
    } else {
        let length = be16(&header[4..]);
        if length != 0 {
            cursor.limit(length.into());
        }
        None
    };
    let (ports, ending) = match stop {
        Some(ending) => ([0, 0], ending),
        None => {
            let found = upper(&mut cursor, &mut protocol, version);
            offset_of_upper = cursor.at;
            match found {
                Ok(Some(ports)) => (ports, Ending::Ports),
                Ok(None) => ([0, 0], Ending::NoPorts),
                Err(ending) => ([0, 0], ending),
            }
        }
    };
    let has_label = label != [0, 0];
    let (named, [src_port, dst_port]) = match parser.flow_labels {
        FlowLabels::Always if has_label => (0, label),
        FlowLabels::WithoutPorts if has_label && ending != Ending::Ports => (protocol, label),
        _ => (protocol, ports),
    };
    let transport = Transport { protocol: named, src_port, dst_port };
    let key = if version == 4 {
        let [src, dst] = [&header[12..16], &header[16..20]].map(|a| a.try_into().unwrap());
        FlowKey::V4 { src, dst, transport }
    } else {
        let [src, dst] = [&header[8..24], &header[24..40]].map(|a| a.try_into().unwrap());
        FlowKey::V6 { src, dst, transport }
    };
    let ip = Ip::new(offset, traffic_class, offset_of_upper);
    Ok(Read { key, ip, ending, protocol, upper: cursor })
}

/// Reads the rest of an IPv4 header; returns the ending if parsing ends there.
fn v4<'a>(
    cursor: &mut Cursor<'a>,
    whole: Cursor<'a>,
    header: &[u8],
    upper: &mut usize,
) -> Option<Ending> {
    let (length, total) = (usize::from(header[0] % 16) * 4, usize::from(be16(&header[2..])));
    if length < 20 || (total != 0 && total < length) {
        return Some(Ending::Malformed);
    }
    if be16(&header[6..]) & 0x3fff != 0 {
        *upper += length;
        return Some(Ending::Fragment);
    }
    *cursor = whole;
    if total != 0 {
        cursor.limit(total);
    }
    cursor.take(length).err()
}

/// Skips the extension headers and returns the ports, if any; `cursor` stays at the upper layer.
fn upper(
    cursor: &mut Cursor<'_>,
    protocol: &mut u8,
    version: u8,
) -> Result<Option<[u16; 2]>, Ending> {
    for headers in 0.. {
        let is_extension = *protocol == 51 || (version == 6 && [0, 43, 44, 60].contains(protocol));
        if !is_extension {
            break;
        }
        if headers == MAX_EXTENSION_HEADERS {
            return Err(Ending::TooManyHeaders);
        }
        let mut ahead = *cursor;
        let start = cursor.clone().take(4)?;
        let length = match *protocol {
            51 => 4 * (usize::from(start[1]) + 2),
            44 if be16(&start[2..]) & !6 != 0 => return Err(Ending::Fragment),
            44 => 8,
            _ => 8 * (usize::from(start[1]) + 1),
        };
        ahead.take(length)?;
        (*protocol, *cursor) = (start[0], ahead);
    }
    let mut ahead = *cursor;
    match *protocol {
        6 | 17 | 33 | 50 | 132 | 136 => {
            let ports = ahead.take(4)?;
            Ok(Some([be16(ports), be16(&ports[2..])]))
        }
        1 | 58 => {
            let kind = be16(ahead.take(2)?);
            let is_echo = match *protocol {
                1 => [0, 8].contains(&(kind >> 8)),
                _ => [128, 129].contains(&(kind >> 8)),
            };
            Ok(Some([if is_echo { be16(&ahead.take(4)?[2..]) } else { 0 }, kind]))
        }
        _ => Ok(None),
    }
}
