//! Counting frames in which no IP header was found, by kind.

use flowhash::{Ending, Parsed, parse};

use super::reader::LinkLayer;
use crate::statistics::NonIpFrames;

impl NonIpFrames {
    /// Counts `frame`, for which the parser of this layer returned `parsed`, if it has no IP header
    /// or only appears to begin with one. Not inlined, since few frames get here.
    #[cold]
    #[inline(never)]
    pub(super) fn count(&mut self, layer: LinkLayer, frame: &[u8], parsed: &Parsed) {
        let is_ip = match layer {
            LinkLayer::Ethernet => parsed.ip.is_some(),
            LinkLayer::RawIp => is_whole_packet(frame),
        };
        if is_ip {
            return;
        }
        let is_of_other_layer = match layer {
            LinkLayer::Ethernet => is_whole_packet(frame),
            LinkLayer::RawIp => {
                let parsed = parse::ethernet(frame);
                let is_whole = !matches!(parsed.ending, Ending::Malformed | Ending::Truncated);
                parsed.ip.is_some() && is_whole
            }
        };
        let count = match parsed.ending {
            _ if is_of_other_layer => &mut self.wrong_layer,
            _ if parsed.ip.is_some() => return,
            Ending::Arp => &mut self.arp,
            Ending::Truncated => &mut self.truncated,
            Ending::Malformed => &mut self.malformed,
            Ending::TooManyHeaders => &mut self.too_many_headers,
            _ => &mut self.other,
        };
        *count = count.wrapping_add(1);
    }
}

/// Returns true if `bytes` begin with an IP header that states their length.
fn is_whole_packet(bytes: &[u8]) -> bool {
    let length = |high: u8, low: u8| usize::from(u16::from_be_bytes([high, low]));
    match *bytes {
        [first, _, l0, l1, ..] if first >> 4 == 4 => {
            first & 15 >= 5 && length(l0, l1) == bytes.len()
        }
        [first, _, _, _, l0, l1, ..] if first >> 4 == 6 => {
            length(l0, l1).saturating_add(40) == bytes.len()
        }
        _ => false,
    }
}
