//! Reference model of segmentation, by the table of [`Segmenter`](freeboard::Segmenter). Every
//! segment is assembled as a whole, and checksums are computed word by word.

use freeboard::flowhash::{FlowLabels, Parser, Tunnels};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Returns the segments of a frame, or of a raw IP packet, with `size` bytes of payload each;
/// `None` if it cannot be segmented.
///
/// With `accurate_ecn` CWR stays set in all segments. For frames below 64 kB.
#[must_use]
pub fn cut(bytes: &[u8], framed: bool, size: u16, accurate_ecn: bool) -> Option<Vec<Vec<u8>>> {
    let link = if framed { ethernet(bytes)? } else { 0 };
    let packet = &bytes[link..];
    let version = packet.first()? / 16;
    let (header, length, protocol) = match version {
        4 if packet.len() >= 20 => {
            let is_fragment = word(packet, 6) & 0x3fff != 0;
            let header = usize::from(packet[0] % 16) * 4;
            let length = usize::from(word(packet, 2));
            (!is_fragment && header >= 20 && length >= header)
                .then_some((header, length, packet[9]))?
        }
        6 if packet.len() >= 40 => (40, usize::from(word(packet, 4)) + 40, packet[6]),
        _ => return None,
    };
    let packet = packet.get(..length)?;
    let upper = &packet[header..];
    let upper_header = match protocol {
        TCP if upper.len() >= 20 => {
            let refused = [0x02, 0x04, 0x20].iter().any(|flag| upper[13] & flag != 0);
            let length = usize::from(upper[12] / 16) * 4;
            (!refused && length >= 20 && length <= upper.len()).then_some(length)?
        }
        UDP if upper.len() >= 8 && usize::from(word(upper, 4)) == upper.len() => 8,
        _ => return None,
    };
    if size == 0 {
        return None;
    }
    let (headers, payload) = bytes[..link + length].split_at(link + header + upper_header);
    let mut parts: Vec<&[u8]> = payload.chunks(size.into()).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let last = parts.len() - 1;
    let segment = |(at, part): (usize, &&[u8])| {
        let mut segment = [headers, part].concat();
        let ip = &mut segment[link..];
        let length = ip.len();
        if version == 4 {
            set(ip, 2, length as u16);
            set(ip, 4, word(ip, 4).wrapping_add(at as u16));
            set(ip, 10, 0);
            set(ip, 10, !sum(&ip[..header]));
        } else {
            set(ip, 4, (length - 40) as u16);
        }
        let addresses = if version == 4 { ip[12..20].to_vec() } else { ip[8..40].to_vec() };
        let upper = &mut ip[header..];
        let length = upper.len() as u16;
        let place = if protocol == TCP { 16 } else { 6 };
        if protocol == TCP {
            let before = u32::from_be_bytes([upper[4], upper[5], upper[6], upper[7]]);
            let seq = before.wrapping_add((at * usize::from(size)) as u32);
            upper[4..8].copy_from_slice(&seq.to_be_bytes());
            if at < last {
                upper[13] &= !0x09;
            }
            if at > 0 && !accurate_ecn {
                upper[13] &= !0x80;
            }
        } else {
            set(upper, 4, length);
        }
        set(upper, place, 0);
        let pseudo = [&addresses[..], &[0, protocol], &length.to_be_bytes(), upper].concat();
        let checksum = match !sum(&pseudo) {
            0 if protocol == UDP => 0xffff,
            other => other,
        };
        set(upper, place, checksum);
        segment
    };
    Some(parts.iter().enumerate().map(segment).collect())
}

/// Returns the number of bytes before the IP header, if it follows an EtherType of IP.
fn ethernet(bytes: &[u8]) -> Option<usize> {
    let parser = Parser { tunnels: Tunnels::NONE, flow_labels: FlowLabels::Ignored };
    let offset = super::parser::read(parser, bytes, true).ip?.offset;
    [0x0800, 0x86dd].contains(&word(bytes, offset - 2)).then_some(offset)
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn set(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

/// Returns the ones' complement sum of the words; an odd last byte is padded with a zero.
fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) * 256 + pair.get(1).map_or(0, |&low| low.into());
    bytes.chunks(2).map(word).fold(0, |sum, word| {
        let sum = u32::from(sum) + word;
        (sum % 0x1_0000 + sum / 0x1_0000) as u16
    })
}
