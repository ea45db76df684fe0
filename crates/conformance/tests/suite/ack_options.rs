//! Truncated TCP options, and options with wrong lengths.

use conformance::acks::{Segment, Wrap, read};

/// Options permitted in a pure acknowledgement, each with its length byte if it has one.
const TIMESTAMPS: &[u8] = &[8, 10, 0, 0, 0, 9, 0, 0, 0, 4];
const SACK_1: &[u8] = &[5, 10, 0, 0, 1, 0, 0, 0, 2, 0];
const SACK_2: &[u8] = &[5, 18, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0];
const MD5: &[u8] = &[19, 18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
/// Options that carry more information than an acknowledgement.
const SEGMENT_SIZE: &[u8] = &[2, 4, 5, 180];
const WINDOW_SCALE: &[u8] = &[3, 3, 7];
const SACK_PERMITTED: &[u8] = &[4, 2];
const FAST_OPEN: &[u8] = &[34, 10, 1, 2, 3, 4, 5, 6, 7, 8];
const MULTIPATH: &[u8] = &[30, 8, 0x20, 1, 0, 0, 0, 7];
const UNKNOWN: &[u8] = &[253, 4, 1, 2];

/// Lists of options, and whether a segment with them is a pure acknowledgement.
const LISTS: [(&[&[u8]], bool); 16] = [
    (&[TIMESTAMPS], true),
    (&[SACK_1], true),
    (&[SACK_2], true),
    (&[MD5], true),
    (&[&[1], &[1], TIMESTAMPS], true),
    (&[&[1, 1], TIMESTAMPS, &[1, 1], SACK_2], true),
    (&[SACK_1, TIMESTAMPS, MD5], true),
    (&[TIMESTAMPS, &[0], UNKNOWN], true),
    (&[TIMESTAMPS, TIMESTAMPS], false),
    (&[SACK_1, SACK_2], false),
    (&[SEGMENT_SIZE, TIMESTAMPS], false),
    (&[TIMESTAMPS, WINDOW_SCALE], false),
    (&[SACK_PERMITTED, TIMESTAMPS], false),
    (&[TIMESTAMPS, FAST_OPEN], false),
    (&[MULTIPATH], false),
    (&[UNKNOWN], false),
];

/// Returns true if the segment with these options is read as a pure acknowledgement, with all kinds
/// of headers and both versions of IP. Library and reference model must agree.
fn is_read(options: &[u8]) -> bool {
    let segment = Segment { options: options.to_vec(), ..Segment::ack(1) };
    let frames = Wrap::ALL.map(|wrap| [wrap.frame(&segment.v4()), wrap.frame(&segment.v6())]);
    let mut answers = frames.iter().flatten().map(|frame| read(frame).0.is_some());
    let first = answers.next().expect("eight frames");
    assert!(answers.all(|answer| answer == first), "{options:02x?}");
    first
}

#[test]
fn only_padding_sack_timestamps_and_md5_stand_in_an_acknowledgement() {
    for (list, expected) in LISTS {
        assert_eq!(is_read(&list.concat()), expected, "{list:02x?}");
    }
}

/// Goal: a segment whose options end within an option is not a pure acknowledgement. Method:
/// truncate each list at every byte; truncation between two options leaves a pure acknowledgement
/// if the remaining options permit it.
#[test]
fn an_option_that_is_cut_is_none() {
    for (list, _) in LISTS {
        let bytes = list.concat();
        for cut in 0..bytes.len() {
            let (mut whole, mut at) = (0, 0);
            for option in list {
                at += option.len();
                whole += usize::from(at <= cut);
            }
            let left = list[..whole].concat();
            let is_at_end = left.len() == cut;
            // The padding consists of zeros, which may complete the truncated option; it then ends
            // elsewhere.
            let padded = cut.div_ceil(4) * 4;
            let next = left.len() + list[whole].len();
            let is_padded = !is_at_end && next <= padded;
            if is_padded {
                is_read(&bytes[..cut]);
                continue;
            }
            let is_ended = list[..whole].contains(&[0].as_slice());
            let expected = is_ended || is_at_end && is_read(&left);
            assert_eq!(is_read(&bytes[..cut]), expected, "{list:02x?}, {cut} bytes");
        }
    }
}

/// Goal: a wrong length byte does not turn an option into another. Method: set each length in each
/// list to 0, 1, 2, 255, one more and one less; bytes after the end of the list are ignored.
#[test]
fn a_wrong_length_is_no_acknowledgement() {
    let mut tried = 0;
    for (list, expected) in LISTS {
        let mut at = 0;
        for (place, option) in list.iter().enumerate() {
            let has_length = option[0] > 1;
            let is_behind_end = list[..place].contains(&[0].as_slice());
            for length in [0, 1, 2, 255, option.len() as u8 + 1, option.len() as u8 - 1] {
                if !has_length || length == option[1] {
                    continue;
                }
                let mut bytes = list.concat();
                bytes[at + 1] = length;
                assert_eq!(is_read(&bytes), expected && is_behind_end, "{bytes:02x?}");
                tried += 1;
            }
            at += option.len();
        }
    }
    assert!(tried > 130, "{tried} lengths");
}

/// Goal: a frame that ends before the segment does is not an acknowledgement. Method: truncate each
/// frame at every byte.
#[test]
fn a_frame_that_is_cut_is_none() {
    for (list, _) in LISTS {
        let segment = Segment { options: list.concat(), ..Segment::ack(1) };
        for packet in [segment.v4(), segment.v6()] {
            for wrap in Wrap::ALL {
                let header = wrap.frame(&packet).len() - packet.len();
                let whole = [&wrap.frame(&packet)[..header], &packet].concat();
                for cut in 0..whole.len() {
                    assert!(read(&whole[..cut]).0.is_none(), "{wrap:?}, {cut} of {}", whole.len());
                }
            }
        }
    }
}
