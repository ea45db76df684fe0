//! Segmentation of frames of several packets, as delivered by a kernel or a network card.

use freeboard::{CutError, Segmenter};

use crate::io::frame::{AROUND, Frame, Offload};

/// Maximum length of a frame that can be segmented: the longest IP packet with headers around it.
pub(crate) const LONGEST: usize = 65_535 + AROUND;

/// Maximum number of segments of a frame, which bounds the work for 64 kB. With the smallest TCP
/// segments that Linux sends, 48 bytes, there are 1,365.
const MOST_SEGMENTS: u32 = 2_048;

/// TCP over IPv4 and IPv6, and UDP datagrams; a fourth kind are UDP fragments.
const KINDS: [u8; 3] = [1, 4, 5];
/// Set if the sender's CWR flag belongs to the first segment only.
const ECN: u8 = 0x80;

/// Returns a segmenter for a frame; in a tunnel it segments the inner packets, whose checksum is
/// the one that the kernel left open. `None` if the frame cannot be segmented.
pub(crate) fn segmenter(whole: &Frame) -> Option<Segmenter<'_>> {
    let offload: &Offload = whole.offload();
    let word = |at: usize| u16::from_ne_bytes([offload[at], offload[at + 1]]);
    if !KINDS.contains(&(offload[1] & !ECN)) {
        return None;
    }
    let start = usize::from(word(6));
    let segmenter: Result<_, CutError> = Segmenter::offloaded(whole.bytes(), word(4), start);
    let segmenter = segmenter.ok()?;
    let is_told = (start, usize::from(word(8))) == segmenter.open_checksum();
    if !is_told || segmenter.segments().count() > MOST_SEGMENTS {
        return None;
    }
    let has_own_cwr = offload[1] & ECN != 0;
    Some(if has_own_cwr { segmenter } else { segmenter.with_accurate_ecn() })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds a frame of two TCP segments with 100 bytes each over Ethernet, with the kernel's
    /// offload header.
    pub(crate) fn uncut(change: impl FnOnce(&mut Vec<u8>, &mut Offload)) -> Frame {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 240, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        bytes.extend([0, 9, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x90, 1, 0, 0, 0, 0, 0]);
        bytes.resize(14 + 240, 7);
        let mut offload = [1, 1 | ECN, 54, 0, 100, 0, 34, 0, 16, 0];
        if cfg!(target_endian = "big") {
            (2..10).step_by(2).for_each(|at| offload.swap(at, at + 1));
        }
        change(&mut bytes, &mut offload);
        let mut frame = Frame::for_uncut();
        frame.room()[..bytes.len()].copy_from_slice(&bytes);
        frame.received(bytes.len());
        frame.set_offload(offload);
        frame
    }

    fn flags(frame: &Frame) -> Option<Vec<u8>> {
        let mut segmenter = segmenter(frame)?;
        let mut place = [0; 200];
        let mut all = Vec::new();
        while segmenter.write_next(&mut place).is_some() {
            all.push(place[47]);
        }
        Some(all)
    }

    #[test]
    fn what_the_kernel_says_decides() {
        assert_eq!(flags(&uncut(|_, _| {})), Some(vec![0x90, 0x10]));
        // Without its bit, CWR is part of a counter.
        assert_eq!(flags(&uncut(|_, offload| offload[1] = 1)), Some(vec![0x90, 0x90]));
        // Fragments, an unknown kind, a size of 0, a checksum that is not open, or another one.
        assert!(segmenter(&uncut(|_, offload| offload[1] = 3)).is_none());
        assert!(segmenter(&uncut(|_, offload| offload[1] = 0x21)).is_none());
        assert!(segmenter(&uncut(|_, offload| offload[4..6].fill(0))).is_none());
        assert!(segmenter(&uncut(|_, offload| offload[0] = 0)).is_none());
        assert!(segmenter(&uncut(|_, offload| offload[6..8].fill(84))).is_none());
        assert!(segmenter(&uncut(|_, offload| offload[8..10].fill(6))).is_none());
    }

    /// Goal: no frame yields thousands of segments.
    #[test]
    fn segments_are_not_too_many() {
        let long = |size: u16| {
            uncut(|bytes, offload| {
                bytes.resize(14 + 65_535, 7);
                bytes[16..18].fill(0xff);
                offload[4..6].copy_from_slice(&size.to_ne_bytes());
            })
        };
        assert_eq!(segmenter(&long(48)).map(|all| all.segments().count()), Some(1_365));
        assert!(segmenter(&long(31)).is_none());
    }
}
