//! Wash: clearing the code point of packets for networks that do not use it.

use flowhash::Ip;

use super::ecn::updated;

/// Clears the differentiated services code point in the IP header of `frame` that
/// [`flowhash::parse`] found, keeping its ECN bits; returns true if there is such a header. Cost:
/// O(1).
///
/// For IPv4 the header checksum is updated (RFC 1624, eqn. 3), so a wrong checksum stays wrong by
/// the same amount. Bytes that are no IP header stay unchanged.
///
/// ```
/// use freeboard::flowhash::parse;
///
/// let mut packet = [0x45, 0xba, 0, 20, 0, 0, 0, 0, 64, 17, 0x66, 0x1d, 10, 0, 0, 1, 10, 0, 0, 2];
/// let ip = parse::ip(&packet).ip.expect("an IPv4 header");
/// assert_eq!((ip.dscp(), ip.ecn()), (46, 2));
/// assert!(freeboard::clear_dscp(&mut packet, &ip));
/// assert_eq!((packet[1], &packet[10..12]), (2, &[0x66, 0xd5][..]));
/// ```
pub fn clear_dscp(frame: &mut [u8], ip: &Ip) -> bool {
    let Some(header) = frame.get_mut(ip.offset..) else { return false };
    match header {
        [first, class, _, _, _, _, _, _, _, _, high, low, ..] if *first >> 4 == 4 => {
            let old = u16::from_be_bytes([*first, *class]);
            *class &= 3;
            let new = u16::from_be_bytes([*first, *class]);
            if new != old {
                let checksum = u16::from_be_bytes([*high, *low]);
                [*high, *low] = updated(checksum, old, new).to_be_bytes();
            }
            true
        }
        // The traffic class spans two bytes: the lower half of the first, the upper half of the
        // second.
        [first, second, ..] if *first >> 4 == 6 => {
            *first &= 0xf0;
            *second &= 0x3f;
            true
        }
        _ => false,
    }
}
