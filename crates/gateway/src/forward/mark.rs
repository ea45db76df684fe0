//! Writes the congestion-experienced mark of an AQM into the IP header.

use freeboard::flowhash::parse;

/// Marks the outermost IP header of `frame`; a frame without one is unchanged.
pub(crate) fn congestion_experienced(frame: &mut [u8]) {
    if let Some(ip) = parse::ethernet(frame).ip {
        freeboard::mark_congestion(frame, &ip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum_of(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !(((folded & 0xffff) + (folded >> 16)) as u16)
    }

    /// Goal: the mark is set, the checksum is correct and nothing else changes. Method: both kinds
    /// of ECN-capable packets and every DSCP, with and without VLAN tags; the checksum is
    /// recomputed over the whole header.
    #[test]
    fn a_marked_ipv4_header_has_a_right_checksum() {
        for tags in 0..=2 {
            for class in (0..=255_u8).filter(|class| class & 3 != 0) {
                let mut frame = vec![2; 12];
                for _ in 0..tags {
                    frame.extend([0x81, 0, 0, 7]);
                }
                frame.extend([8, 0]);
                let at = frame.len();
                frame.extend([0x45, class, 0, 28, 0x12, class, 0, 0, 64, 17, 0, 0]);
                frame.extend([10, 0, 0, 1, 192, 0, 2, class, 0, 9, 0, 9, 0, 8, 0, 0]);
                let sum = checksum_of(&frame[at..at + 20]);
                frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
                let before = frame.clone();
                congestion_experienced(&mut frame);
                assert_eq!(frame[at + 1], class | 3);
                assert_eq!(checksum_of(&frame[at..at + 20]), 0, "{class:#x}");
                let same = |skip: usize| [at + 1, at + 10, at + 11].contains(&skip);
                for (place, (a, b)) in before.iter().zip(&frame).enumerate() {
                    assert!(same(place) || a == b);
                }
            }
        }
    }

    #[test]
    fn an_ipv6_header_is_marked_and_other_frames_are_left_alone() {
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x6a, 0x25, 0xcd, 0xef, 0, 0, 59, 64]);
        frame.extend([1; 32]);
        congestion_experienced(&mut frame);
        assert_eq!(&frame[14..18], &[0x6a, 0x35, 0xcd, 0xef]);
        for mut other in
            [vec![], vec![0xff; 14], [vec![2; 12], vec![8, 6], vec![0x45; 28]].concat()]
        {
            let before = other.clone();
            congestion_experienced(&mut other);
            assert_eq!(before, other);
        }
    }
}
