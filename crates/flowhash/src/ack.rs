//! Pure TCP acknowledgements: segments without other information for the sender of the data.
//!
//! **Source.** RFC 9293 (header), RFC 2018 and 2883 (SACK, duplicate SACK), RFC 7323 (timestamps),
//! RFC 3168 (ECN).

use crate::{Ending, FlowKey, Parsed};

/// A TCP segment that is a pure acknowledgement.
///
/// It has no payload, the flag ACK and optionally ECE and CWR, and no options except padding, SACK,
/// timestamps and MD5. A segment with anything else is not read as an `Ack`: reserved bits
/// (accurate ECN uses one of them), other options, truncated options, or an option that occurs
/// twice.
///
/// ```
/// use flowhash::{Ack, parse};
///
/// // From 10.0.0.1 port 80 to 10.0.0.2 port 8080: acknowledges 1,000, with a timestamp.
/// let mut packet = vec![0x45, 0, 0, 52, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// packet.extend([0, 80, 0x1f, 0x90, 0, 0, 0, 7, 0, 0, 0x03, 0xe8, 0x80, 0x10, 1, 0, 0, 0, 0, 0]);
/// packet.extend([1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 4]);
///
/// let ack = Ack::read(&packet, &parse::ip(&packet)).expect("nothing else");
/// assert_eq!((ack.seq, ack.number, ack.window), (7, 1_000, 256));
/// assert_eq!(ack.timestamps.map(|stamps| (stamps.value, stamps.echo)), Some((5, 4)));
/// assert_eq!(ack.sack.as_slice(), []);
///
/// // With FIN it is not a pure acknowledgement.
/// packet[33] |= 1;
/// assert_eq!(Ack::read(&packet, &parse::ip(&packet)), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Ack {
    /// Addresses and ports of the innermost header that was read.
    pub connection: FlowKey,
    /// Sequence number of the segment itself.
    pub seq: u32,
    /// Acknowledgement number: all data before it has arrived.
    pub number: u32,
    /// Window field of the header, not scaled.
    pub window: u16,
    /// Echo of a congestion mark (RFC 3168 §6.1).
    pub ece: bool,
    /// Congestion window reduced (RFC 3168 §6.1).
    pub cwr: bool,
    /// True if the segment itself has a congestion mark, in its outermost or its own IP header:
    /// the end of a tunnel keeps a mark in either (RFC 6040 §4.2).
    pub marked: bool,
    /// Timestamps, if present.
    pub timestamps: Option<Timestamps>,
    /// Data that has arrived above [`number`](Self::number), possibly with a duplicate.
    pub sack: SackBlocks,
}

/// Timestamps of a TCP segment (RFC 7323 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Timestamps {
    /// Clock of the segment's sender: TSval.
    pub value: u32,
    /// Echoed clock: TSecr.
    pub echo: u32,
}

/// Up to four blocks of received data, as start and end (exclusive) sequence numbers, in the order
/// of the segment (RFC 2018 §3).
#[derive(Clone, Copy, Default)]
pub struct SackBlocks {
    blocks: [(u32, u32); Self::MOST],
    count: u8,
}

impl SackBlocks {
    /// Maximum number of blocks that fit into the options.
    pub const MOST: usize = 4;
    /// No blocks.
    pub const NONE: Self = Self { blocks: [(0, 0); Self::MOST], count: 0 };

    /// Creates blocks from the first four of `blocks`.
    #[must_use]
    pub fn new(blocks: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut all = Self::NONE;
        for (place, block) in all.blocks.iter_mut().zip(blocks) {
            *place = block;
            all.count = all.count.wrapping_add(1);
        }
        all
    }

    /// Returns the blocks, latest first, as a receiver sends them.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        self.blocks.get(..usize::from(self.count)).unwrap_or_default()
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl core::fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for SackBlocks {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{}", self.as_slice());
    }
}

/// Protocol number (IANA).
const TCP: u8 = 6;

// Flags (RFC 9293 §3.1, RFC 3168 §6.1).
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

// Kinds of options (IANA).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const MD5: u8 = 19;

impl Ack {
    /// Maximum length of frames that are read, in bytes. The longest acknowledgement over Ethernet
    /// with two tags, PPPoE and an IPv4 tunnel has 210 bytes; IPv6 extension headers may take the
    /// rest.
    pub const LONGEST: usize = 256;

    /// Creates an acknowledgement without options, for callers without packet bytes, such as a
    /// simulator or a network card that parses headers.
    #[must_use]
    pub const fn new(connection: FlowKey, seq: u32, number: u32) -> Self {
        Self {
            connection,
            seq,
            number,
            window: u16::MAX,
            ece: false,
            cwr: false,
            marked: false,
            timestamps: None,
            sack: SackBlocks::NONE,
        }
    }

    /// Reads the acknowledgement in `frame`; `parsed` is a parser's result for the same bytes.
    /// Returns `None` if it is not a pure acknowledgement.
    ///
    /// In a tunnel that the parser follows, the inner segment is read. In two or more nested
    /// tunnels the result is `None`, because a header between the outermost and the innermost may
    /// carry a mark.
    ///
    /// The segment ends where the IP header says, so padding of a short Ethernet frame does not
    /// count. The result is `None` for fragments, and for packets whose length field is 0, as
    /// segmentation offload leaves it. Cost: constant; a loop over at most 40 bytes of options.
    #[inline]
    #[must_use]
    pub fn read(frame: &[u8], parsed: &Parsed) -> Option<Self> {
        if frame.len() > Self::LONGEST || parsed.ending != Ending::Ports {
            return None;
        }
        let is_tcp = match &parsed.key {
            FlowKey::V4 { transport, .. } | FlowKey::V6 { transport, .. } => {
                transport.protocol == TCP
            }
            _ => false,
        };
        if is_tcp { Self::read_short(frame, parsed) } else { None }
    }

    #[inline(never)]
    fn read_short(frame: &[u8], parsed: &Parsed) -> Option<Self> {
        let outer = parsed.ip?;
        let (ip, depth) = parsed.inner.map_or((outer, 0), |inner| (inner.ip, inner.depth));
        if depth > 1 {
            return None;
        }
        let length = length_of_packet(frame.get(ip.offset..)?)?;
        let segment = frame.get(ip.upper_offset..ip.offset.checked_add(length)?)?;
        let (header, options) = segment.split_first_chunk::<20>()?;
        let &[_, _, _, _, s0, s1, s2, s3, n0, n1, n2, n3, offset, flags, w0, w1, ..] = header;
        // Reserved flags in the lower four bits; header length in units of four bytes in the upper.
        if offset & 0x0f != 0 || usize::from(offset >> 4).checked_mul(4)? != segment.len() {
            return None;
        }
        if flags & (FIN | SYN | RST | PSH | ACK | URG) != ACK {
            return None;
        }
        let (timestamps, sack) = read_options(options)?;
        Some(Self {
            connection: parsed.key,
            seq: u32::from_be_bytes([s0, s1, s2, s3]),
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            window: u16::from_be_bytes([w0, w1]),
            ece: flags & ECE != 0,
            cwr: flags & CWR != 0,
            marked: outer.ecn() == 3 || ip.ecn() == 3,
            timestamps,
            sack,
        })
    }
}

/// Returns the length of the packet from its IP header on, by the header's length field.
fn length_of_packet(packet: &[u8]) -> Option<usize> {
    let &[first, _, l0, l1, p0, p1] = packet.first_chunk::<6>()?;
    let (field, before) = match first >> 4 {
        4 => ([l0, l1], 0),
        _ => ([p0, p1], 40),
    };
    let length = usize::from(u16::from_be_bytes(field));
    (length > 0).then_some(length.saturating_add(before))
}

/// Returns timestamps and SACK blocks; `None` for other or malformed options.
fn read_options(mut rest: &[u8]) -> Option<(Option<Timestamps>, SackBlocks)> {
    let (mut timestamps, mut sack) = (None, None);
    loop {
        rest = match rest {
            [] | [END, ..] => break,
            [NO_OPERATION, rest @ ..] => rest,
            [TIMESTAMPS, 10, v0, v1, v2, v3, e0, e1, e2, e3, rest @ ..] if timestamps.is_none() => {
                let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
                let echo = u32::from_be_bytes([*e0, *e1, *e2, *e3]);
                timestamps = Some(Timestamps { value, echo });
                rest
            }
            [SACK, length @ (10 | 18 | 26 | 34), rest @ ..] if sack.is_none() => {
                let (blocks, rest) = rest.split_at_checked(usize::from(*length).wrapping_sub(2))?;
                sack = Some(read_blocks(blocks));
                rest
            }
            [MD5, 18, rest @ ..] => rest.get(16..)?,
            _ => return None,
        };
    }
    Some((timestamps, sack.unwrap_or_default()))
}

fn read_blocks(bytes: &[u8]) -> SackBlocks {
    let mut rest = bytes;
    SackBlocks::new(core::iter::from_fn(|| {
        let (&[l0, l1, l2, l3, r0, r1, r2, r3], behind) = rest.split_first_chunk::<8>()?;
        rest = behind;
        Some((u32::from_be_bytes([l0, l1, l2, l3]), u32::from_be_bytes([r0, r1, r2, r3])))
    }))
}
