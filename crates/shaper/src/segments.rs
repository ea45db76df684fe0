//! Super-packets: several packets of one flow in one buffer, which the link sends one by one.
//!
//! A system that offloads segmentation (GSO, TSO) or coalesces received packets (GRO, LRO) hands
//! over up to about sixty packets as one. On the link each of them has its own headers, minimum
//! size and cells: [`Segments`] describes the packets, and [`Overhead::wire_len_of`] returns their
//! length on the wire. An unsegmented super-packet occupies the link for the whole time it takes,
//! while other flows wait: 26 ms for 64 kB at 20 Mbit/s, 53 µs at 10 Gbit/s. On a slow link,
//! segment it before you enqueue it.

use core::fmt;

use sched_core::Packet;

use crate::Overhead;

/// Segments of a super-packet: all have the same length, except the last, which may be shorter.
///
/// Lengths are those of packets queued one by one, each with the headers that the caller's lengths
/// include.
///
/// ```
/// use shaper::{Overhead, Segments};
///
/// // 3,000 bytes of payload in segments of 1,448, with headers of 66: 1,514 + 1,514 + 170.
/// let segments = Segments::of_offload(3_066, 66, 1_448)?;
/// assert_eq!((segments.count(), segments.each(), segments.last()), (3, 1_514, 170));
/// assert_eq!(segments.bytes(), 3_198);
/// let link = Overhead::ETHERNET.for_frames(14);
/// assert_eq!(link.wire_len_of(segments), 2 * 1_538 + 194);
/// assert!(Segments::new(0, 1_514, 170).is_err());
/// # Ok::<(), shaper::SegmentsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Segments {
    /// `1..=MAX_COUNT`.
    count: u32,
    /// `last..=Packet::MAX_LEN`.
    each: u32,
    /// At least 1.
    last: u32,
}

impl Segments {
    /// Maximum number of segments of a super-packet.
    pub const MAX_COUNT: u32 = 1 << 16;

    /// Creates `count` segments of `each` bytes, except the last, which has `last` bytes.
    ///
    /// # Errors
    /// [`SegmentsError`] names the value that is out of range: `count` outside
    /// 1..=[`Self::MAX_COUNT`], `each` outside 1..=[`Packet::MAX_LEN`], `last` outside 1..=`each`.
    pub const fn new(count: u32, each: u32, last: u32) -> Result<Self, SegmentsError> {
        if count == 0 || count > Self::MAX_COUNT {
            return Err(SegmentsError::Count(count));
        }
        if each == 0 || each > Packet::MAX_LEN {
            return Err(SegmentsError::Length(each));
        }
        if last == 0 || last > each {
            return Err(SegmentsError::Last { last, each });
        }
        Ok(Self { count, each, last })
    }

    /// Creates a single segment of `len` bytes, equivalent to an ordinary packet.
    ///
    /// # Errors
    /// [`SegmentsError::Length`] for a `len` outside 1..=[`Packet::MAX_LEN`].
    pub const fn one(len: u32) -> Result<Self, SegmentsError> {
        Self::new(1, len, len)
    }

    /// Creates the segments of a super-packet of `len` bytes from the parameters of an offload.
    ///
    /// Each segment starts with `headers` bytes and carries `size` bytes of payload (`hdr_len` and
    /// `gso_size` of a virtio header). A super-packet without payload is one segment. Cost: one
    /// division per super-packet.
    ///
    /// # Errors
    /// [`SegmentsError`] if `len` is out of range, `headers` exceeds `len`, `size` is 0, or there
    /// are too many segments.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "`size` is not 0, and `headers` not above `len`"
    )]
    pub const fn of_offload(len: u32, headers: u32, size: u32) -> Result<Self, SegmentsError> {
        if len == 0 || len > Packet::MAX_LEN {
            return Err(SegmentsError::Length(len));
        }
        if headers > len {
            return Err(SegmentsError::Headers { headers, len });
        }
        let Some(size) = core::num::NonZeroU32::new(size) else {
            return Err(SegmentsError::Size);
        };
        let payload = len - headers;
        if payload <= size.get() {
            return Self::one(len);
        }
        let count = payload.div_ceil(size.get());
        // Less than `payload`: all segments except the last are full.
        let before = (count - 1).saturating_mul(size.get());
        let (each, last) = (headers.saturating_add(size.get()), payload - before + headers);
        Self::new(count, each, last)
    }

    /// Returns the number of segments.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Returns the length of each segment except the last, in bytes.
    #[must_use]
    pub const fn each(self) -> u32 {
        self.each
    }

    /// Returns the length of the last segment, in bytes.
    #[must_use]
    pub const fn last(self) -> u32 {
        self.last
    }

    /// Returns the total length of all segments, in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        let full = self.count.saturating_sub(1) as u64;
        full.saturating_mul(self.each as u64).saturating_add(self.last as u64)
    }
}

impl Overhead {
    /// Returns the bytes on the wire for a super-packet: the sum of [`wire_len`](Self::wire_len)
    /// over its segments.
    ///
    /// Cost: that of two packets, for any number of segments.
    #[must_use]
    pub const fn wire_len_of(self, segments: Segments) -> u64 {
        let full = segments.count.saturating_sub(1) as u64;
        let each = self.on_wire(segments.each);
        full.saturating_mul(each).saturating_add(self.on_wire(segments.last))
    }
}

/// Identifies super-packets: a closure, or the caller's table by handle.
pub trait Segmentation {
    /// Returns the segments of `packet` if it is a super-packet.
    ///
    /// Called once for a packet that leaves, or that is dropped while drops are
    /// [charged](crate::Shaped::set_ingress).
    fn segments(&self, packet: Packet) -> Option<Segments>;
}

impl<F: Fn(Packet) -> Option<Segments>> Segmentation for F {
    #[inline]
    fn segments(&self, packet: Packet) -> Option<Segments> {
        self(packet)
    }
}

/// Treats every packet as an ordinary one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole;

impl Segmentation for Whole {
    #[inline(always)]
    fn segments(&self, _packet: Packet) -> Option<Segments> {
        None
    }
}

/// Segments that no super-packet can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SegmentsError {
    /// Number of segments outside 1..=[`Segments::MAX_COUNT`].
    Count(u32),
    /// Length outside 1..=[`Packet::MAX_LEN`].
    Length(u32),
    /// Last segment that is empty or longer than the others.
    Last {
        /// Length of the last segment, in bytes.
        last: u32,
        /// Length of the others, in bytes.
        each: u32,
    },
    /// Headers longer than the super-packet.
    Headers {
        /// Length of the headers, in bytes.
        headers: u32,
        /// Length of the super-packet, in bytes.
        len: u32,
    },
    /// Segments without payload.
    Size,
}

impl fmt::Display for SegmentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => {
                write!(f, "{count} segments (expected 1 to {})", Segments::MAX_COUNT)
            }
            Self::Length(len) => {
                write!(f, "length of {len} bytes (expected 1 to {})", Packet::MAX_LEN)
            }
            Self::Last { last, each } => {
                write!(f, "last segment of {last} bytes (expected 1 to {each})")
            }
            Self::Headers { headers, len } => {
                write!(f, "headers of {headers} bytes (expected 0 to {len})")
            }
            Self::Size => f.write_str("0 bytes of payload in a segment (expected 1 or more)"),
        }
    }
}

impl core::error::Error for SegmentsError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    /// Goal: a super-packet costs the sum of its segments. Method: links at the limits of their
    /// ranges, up to 5 segments, all pairs of lengths up to 130 bytes and around an Ethernet frame;
    /// compare with the sum.
    #[test]
    fn a_super_packet_is_the_sum_of_its_segments() {
        let mut compared = 0_u32;
        for words in [
            "raw",
            "overhead -64",
            "overhead 44 mpu 96 atm",
            "ethernet",
            "pppoe-ptm",
            "docsis",
            "overhead 22 ptm-paper",
            "gpon",
            "xgs-pon",
            "gre wireguard pppoe-ptm",
            "overhead 256 mpu 256",
        ] {
            let link = Overhead::from_keywords(words, 14).unwrap();
            for each in (1..=130).chain([1_513, 1_514, 1_515, 9_014]) {
                for last in (1..=each).filter(|last| each <= 130 || last % 97 == 1 || *last == each)
                {
                    for count in 1..=5 {
                        let segments = Segments::new(count, each, last).unwrap();
                        let one_by_one = (1..count).map(|_| each).chain([last]);
                        let sum: u64 = one_by_one.map(|len| u64::from(link.wire_len(len))).sum();
                        assert_eq!(link.wire_len_of(segments), sum, "{words} {segments:?}");
                        compared += 1;
                    }
                }
            }
            let one = Segments::one(1_514).unwrap();
            assert_eq!(link.wire_len_of(one), link.wire_len(1_514).into());
            // The maximum does not overflow.
            let all = Segments::new(Segments::MAX_COUNT, Packet::MAX_LEN, Packet::MAX_LEN).unwrap();
            let each = u64::from(link.wire_len(Packet::MAX_LEN));
            assert_eq!(link.wire_len_of(all), each << 16);
        }
        assert!(compared > 400_000, "{compared}");
    }

    /// Goal: the segments equal those that a sender makes. Method: all lengths, headers and sizes
    /// of a small grid; compare with a loop that takes payload off.
    #[test]
    fn an_offload_is_cut_by_its_payload() {
        for headers in [0, 1, 7, 54] {
            for len in (headers..headers + 60).filter(|&len| len > 0) {
                for size in 1..=61 {
                    let mut rest = len - headers;
                    let mut cut = std::vec::Vec::new();
                    while rest > size {
                        cut.push(headers + size);
                        rest -= size;
                    }
                    cut.push(headers + rest);
                    let segments = Segments::of_offload(len, headers, size).unwrap();
                    assert_eq!(segments.count() as usize, cut.len());
                    assert_eq!(segments.last(), *cut.last().unwrap());
                    assert_eq!(segments.each(), cut[0]);
                    assert_eq!(segments.bytes(), cut.iter().map(|&len| u64::from(len)).sum());
                }
            }
        }
    }

    #[test]
    fn what_is_no_super_packet_is_refused_by_name() {
        use SegmentsError::{Count, Headers, Last, Length, Size};
        let most = Packet::MAX_LEN;
        for (made, error) in [
            (Segments::new(0, 60, 60), Count(0)),
            (Segments::new(65_537, 60, 60), Count(65_537)),
            (Segments::new(2, 0, 0), Length(0)),
            (Segments::new(2, most + 1, 1), Length(most + 1)),
            (Segments::new(2, 60, 0), Last { last: 0, each: 60 }),
            (Segments::new(2, 60, 61), Last { last: 61, each: 60 }),
            (Segments::one(0), Length(0)),
            (Segments::of_offload(0, 0, 1), Length(0)),
            (Segments::of_offload(u32::MAX, 0, 1), Length(u32::MAX)),
            (Segments::of_offload(60, 61, 1), Headers { headers: 61, len: 60 }),
            (Segments::of_offload(60, 54, 0), Size),
            (Segments::of_offload(most, 0, 1), Count(most)),
        ] {
            assert_eq!(made, Err(error));
            assert!(error.to_string().contains("(expected "), "{error}");
        }
        assert!(Segments::new(Segments::MAX_COUNT, most, most).is_ok());
    }
}
