//! Packets built from a description, with the expected result of the parser for every prefix.
//!
//! The results come from the construction, field by field; nothing here reads a packet.

use flowhash::{Ending, FlowKey, Ip, Parsed, Transport};

/// Upper 4 and lower 16 bits of the flow label of every IPv6 packet.
pub(crate) const FLOW_LABEL: [u16; 2] = [5, 0x0607];

/// An IPv6 extension header, or an authentication header in IPv4.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extension {
    /// Hop-by-hop (0), routing (43) or destination options (60), with this length field.
    Options(u8, u8),
    /// Authentication header with this length field.
    Authentication(u8),
    /// Fragment header of a whole packet: offset 0, no more fragments.
    Atomic,
}

/// Contents after the last extension header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upper {
    /// Protocol that starts with two ports, or their replacement.
    Ports(u8, u16, u16),
    /// ICMP (1) or ICMPv6 (58) message: protocol, type, code, the two bytes after the checksum.
    Icmp(u8, u8, u8, u16),
    /// Protocol without ports.
    Other(u8),
    /// Fragment: its protocol, its offset in units of 8 bytes, and whether more follow.
    Fragment(u8, u16, bool),
}

/// Network layer of a packet.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    V4 { src: [u8; 4], dst: [u8; 4], options: u8 },
    V6 { src: [u8; 16], dst: [u8; 16] },
}

/// Description of a packet to build.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// MAC addresses and identifiers of the tags; `None` for raw IP.
    pub(crate) link: Option<([u8; 6], [u8; 6], Vec<u16>)>,
    pub(crate) network: Network,
    pub(crate) traffic_class: u8,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) upper: Upper,
    /// Bytes after the first eight of the upper layer.
    pub(crate) payload: u8,
}

/// A packet with its expected results.
pub(crate) struct Built {
    pub(crate) bytes: Vec<u8>,
    /// Results for truncated packets, in ascending order: the result of the first row with more
    /// bytes than are left applies.
    pub(crate) cuts: Vec<(usize, Parsed)>,
    /// Result for the whole packet.
    pub(crate) whole: Parsed,
}

impl Built {
    /// Returns the expected result for the first `length` bytes.
    pub(crate) fn answer(&self, length: usize) -> Parsed {
        let cut = self.cuts.iter().find(|(needed, _)| length < *needed);
        cut.map_or(self.whole, |(_, answer)| *answer)
    }
}

impl Network {
    fn key(&self, transport: Transport) -> FlowKey {
        match *self {
            Self::V4 { src, dst, .. } => FlowKey::V4 { src, dst, transport },
            Self::V6 { src, dst } => FlowKey::V6 { src, dst, transport },
        }
    }
}

impl Upper {
    fn protocol(self) -> u8 {
        match self {
            Self::Ports(number, ..) | Self::Other(number) | Self::Fragment(number, ..) => number,
            Self::Icmp(number, ..) => number,
        }
    }
}

/// Builds `packet`. A fragment of IPv6 gets its fragment header after the extensions.
pub(crate) fn build(packet: &Packet) -> Built {
    let mut bytes = Vec::new();
    let mut cuts = Vec::new();
    let mut no_key = FlowKey::Unknown;
    let v6 = matches!(packet.network, Network::V6 { .. });
    if let Some((src, dst, tags)) = &packet.link {
        let cut = |key| Parsed::new(key, None, None, Ending::Truncated);
        bytes.extend([*dst, *src].concat());
        cuts.push((14, cut(no_key)));
        for tag in tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0xa0, 0x64]);
            no_key = FlowKey::Ethernet { src: *src };
            cuts.push((bytes.len() + 2, cut(no_key)));
        }
        let ethertype = if v6 { 0x86dd } else { 0x0800 };
        bytes.extend(u16::to_be_bytes(ethertype));
        no_key = FlowKey::Ethernet { src: *src };
    }
    let offset = bytes.len();
    let answer = |transport, ending, upper_offset| {
        let ip = Ip::new(offset, packet.traffic_class, upper_offset);
        Parsed::new(packet.network.key(transport), Some(ip), None, ending)
    };
    // A flow label replaces the ports if there are none.
    let [src_port, dst_port] = if v6 { FLOW_LABEL } else { [0, 0] };
    let stopped =
        |protocol, ending, at| answer(Transport { protocol, src_port, dst_port }, ending, at);

    // Bytes after the fixed header, and the protocol number that announces them.
    let mut rest: Vec<u8> = Vec::new();
    let mut numbers: Vec<u8> = packet.extensions.iter().map(|e| e.number()).collect();
    if let (Upper::Fragment(..), true) = (packet.upper, v6) {
        numbers.push(44);
    }
    numbers.push(packet.upper.protocol());
    let first = numbers.remove(0);
    let fixed = match &packet.network {
        Network::V4 { options, .. } => 20 + 4 * usize::from(*options),
        Network::V6 { .. } => 40,
    };
    let base = offset + fixed;
    let needed = offset + if v6 { 40 } else { 20 };
    cuts.push((needed, Parsed::new(no_key, None, None, Ending::Truncated)));
    let v4_fragment = !v6 && matches!(packet.upper, Upper::Fragment(..));
    if !v6 && !v4_fragment {
        cuts.push((base, stopped(first, Ending::Truncated, offset)));
    }
    for (extension, next) in packet.extensions.iter().zip(&numbers) {
        let (at, body) = (base + rest.len(), extension.body(*next));
        rest.extend(&body);
        if !v4_fragment {
            let cut = stopped(extension.number(), Ending::Truncated, at);
            cuts.push((base + rest.len(), cut));
        }
    }
    let at = base + rest.len();
    let protocol = packet.upper.protocol();
    let ports = |src_port, dst_port| Transport { protocol, src_port, dst_port };
    let whole = match packet.upper {
        Upper::Ports(_, src, dst) => {
            rest.extend(
                [src.to_be_bytes(), dst.to_be_bytes(), [0xee; 2], [0xee; 2]].as_flattened(),
            );
            cuts.push((at + 4, stopped(protocol, Ending::Truncated, at)));
            answer(ports(src, dst), Ending::Ports, at)
        }
        Upper::Icmp(_, kind, code, word) => {
            rest.extend([[kind, code], [0xcc; 2], word.to_be_bytes(), [0; 2]].as_flattened());
            let echo = [(1, 0), (1, 8), (58, 128), (58, 129)].contains(&(protocol, kind));
            let needed = if echo { 6 } else { 2 };
            cuts.push((at + needed, stopped(protocol, Ending::Truncated, at)));
            let identifier = if echo { word } else { 0 };
            answer(ports(identifier, u16::from(kind) * 256 + u16::from(code)), Ending::Ports, at)
        }
        Upper::Other(_) => {
            rest.extend([0xdd; 8]);
            stopped(protocol, Ending::NoPorts, at)
        }
        Upper::Fragment(_, place, more) if v6 => {
            rest.extend([protocol, 0]);
            rest.extend((place << 3 | u16::from(more)).to_be_bytes());
            rest.extend([1, 2, 3, 4]);
            cuts.push((at + 4, stopped(44, Ending::Truncated, at)));
            rest.extend([0xbb; 8]);
            stopped(44, Ending::Fragment, at)
        }
        Upper::Fragment(..) => {
            rest.extend([0xbb; 8]);
            stopped(first, Ending::Fragment, base)
        }
    };
    rest.extend(vec![0x99; packet.payload.into()]);

    let tc = packet.traffic_class;
    match &packet.network {
        Network::V4 { src, dst, options } => {
            let flags = match packet.upper {
                Upper::Fragment(_, place, more) => u16::from(more) << 13 | place,
                _ => 0x4000,
            };
            let total = (fixed + rest.len()) as u16;
            bytes.extend([0x45 + options, tc]);
            bytes.extend([total.to_be_bytes(), [7, 7], flags.to_be_bytes(), [64, first]].concat());
            bytes.extend([[0, 0].as_slice(), src, dst].concat());
            bytes.extend(vec![1; usize::from(*options) * 4]);
        }
        Network::V6 { src, dst } => {
            bytes.extend([0x60 | tc >> 4, tc << 4 | FLOW_LABEL[0] as u8]);
            bytes.extend(FLOW_LABEL[1].to_be_bytes());
            bytes.extend((rest.len() as u16).to_be_bytes());
            bytes.extend([first, 64]);
            bytes.extend([src.as_slice(), dst].concat());
        }
    }
    bytes.extend(rest);
    Built { bytes, cuts, whole }
}

impl Extension {
    fn number(self) -> u8 {
        match self {
            Self::Options(number, _) => number,
            Self::Authentication(_) => 51,
            Self::Atomic => 44,
        }
    }

    fn body(self, next: u8) -> Vec<u8> {
        let (length, size) = match self {
            Self::Options(_, length) => (length, 8 + 8 * usize::from(length)),
            Self::Authentication(length) => (length, 8 + 4 * usize::from(length)),
            // The reserved byte and the two reserved bits are set, and must be ignored.
            Self::Atomic => return vec![next, 0xff, 0, 0x06, 1, 2, 3, 4],
        };
        let mut body = vec![0x77; size];
        (body[0], body[1]) = (next, length);
        body
    }
}
