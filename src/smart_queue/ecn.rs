//! Congestion experienced (CE): writing the AQM's mark into the IP header.

use flowhash::Ip;
use sched_core::Ecn;

/// Sets congestion experienced (RFC 3168 §5) in the IP header of `frame` that [`flowhash::parse`]
/// found; returns true if it is set now. Cost: O(1).
///
/// For IPv4 the header checksum is updated (RFC 1624, eqn. 3), so a wrong checksum stays wrong by
/// the same amount. A header of a sender without ECN ([`Ecn::NotEct`]), and bytes that are no IP
/// header, stay unchanged.
///
/// ```
/// use freeboard::flowhash::parse;
///
/// let mut packet = [0x45, 2, 0, 20, 0, 0, 0, 0, 64, 17, 0x66, 0xd5, 10, 0, 0, 1, 10, 0, 0, 2];
/// let ip = parse::ip(&packet).ip.expect("an IPv4 header");
/// assert!(freeboard::mark_congestion(&mut packet, &ip));
/// assert_eq!((packet[1], &packet[10..12]), (3, &[0x66, 0xd4][..]));
/// ```
pub fn mark_congestion(frame: &mut [u8], ip: &Ip) -> bool {
    let Some(header) = frame.get_mut(ip.offset..) else { return false };
    let ce = Ecn::Ce.bits();
    match header {
        [first, class, _, _, _, _, _, _, _, _, high, low, ..] if *first >> 4 == 4 => {
            match Ecn::from_bits(*class) {
                Ecn::NotEct => return false,
                Ecn::Ce => return true,
                Ecn::Ect0 | Ecn::Ect1 => {}
            }
            let old = u16::from_be_bytes([*first, *class]);
            *class |= ce;
            let new = u16::from_be_bytes([*first, *class]);
            let checksum = u16::from_be_bytes([*high, *low]);
            [*high, *low] = updated(checksum, old, new).to_be_bytes();
            true
        }
        // The traffic class spans two bytes, with the ECN bits in the second.
        [first, second, ..] if *first >> 4 == 6 => {
            let is_capable = Ecn::from_bits(*second >> 4).is_capable();
            if is_capable {
                *second |= ce << 4;
            }
            is_capable
        }
        _ => false,
    }
}

/// Returns the checksum after a covered 16-bit word changed from `old` to `new`.
pub(super) fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum).wrapping_add(u32::from(!old)).wrapping_add(u32::from(new));
    // Three words need at most two carries.
    let folded = (sum & 0xffff).wrapping_add(sum >> 16);
    let folded = (folded & 0xffff).wrapping_add(folded >> 16);
    !(folded as u16)
}
