//! The pcapng format: a sequence of blocks with their length at both ends.
//!
//! A section header sets the byte order and discards the interfaces of the previous section. Each
//! interface description sets the link type and the clock of the packets that refer to it. Blocks
//! of other types are skipped.

use freeboard::sched_core::Nanos;

use super::fields::{ByteOrder, Fields};
use super::{CaptureError, LinkType, MAX_CAPTURED, Packet, invalid, truncated};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete but still found in old files: an enhanced packet with a 16-bit interface number.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const END_OF_OPTIONS: u16 = 0;
const TIME_RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;

/// Bytes around the body: type and length before it, length again behind it.
const FRAME: usize = 12;

#[derive(Clone, Debug)]
pub(super) struct Blocks<'a> {
    file: &'a [u8],
    /// Offset of the next block.
    offset: usize,
    order: ByteOrder,
    /// Interfaces of this section, in the order of their descriptions.
    interfaces: Vec<Interface>,
    last: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snapshot: u32,
    clock: Clock,
}

/// Conversion from a packet's ticks to time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// `if_tsresol`: a tick is 10^-n seconds, or 2^-n if the top bit is set.
    resolution: u8,
    /// `if_tsoffset`: seconds to add.
    offset: i64,
}

impl Clock {
    const DEFAULT: Self = Self { resolution: 6, offset: 0 };

    /// Converts ticks; `None` for a time before the epoch or more than 584 years after it.
    fn time(self, ticks: u64) -> Option<Nanos> {
        let (ticks, exponent) = (u128::from(ticks), u32::from(self.resolution & 0x7f));
        let nanos = match (self.resolution & 0x80 != 0, exponent) {
            // 2^64 ticks · 10^9 < 2^94, and the shift is at most 127.
            (true, _) => (ticks * 1_000_000_000) >> exponent,
            (false, ..=9) => ticks * 10_u128.pow(9 - exponent),
            // If 10^(n−9) overflows, 2^64 ticks are less than a nanosecond.
            (false, _) => 10_u128.checked_pow(exponent - 9).map_or(0, |unit| ticks / unit),
        };
        let offset = i128::from(self.offset) * 1_000_000_000;
        u64::try_from(nanos as i128 + offset).ok().map(Nanos)
    }
}

impl<'a> Blocks<'a> {
    /// Returns true if a file with these first bytes is pcapng. The number is equal in both byte
    /// orders.
    pub(super) fn recognise(magic: [u8; 4]) -> bool {
        u32::from_le_bytes(magic) == SECTION_HEADER
    }

    pub(super) fn new(file: &'a [u8]) -> Self {
        // The first block is a section header and sets the byte order.
        let order = ByteOrder::Little;
        Self { file, offset: 0, order, interfaces: Vec::new(), last: Nanos::ZERO }
    }

    pub(super) fn next(&mut self) -> Result<Option<Packet<'a>>, CaptureError> {
        while self.offset < self.file.len() {
            let offset = self.offset;
            let (kind, body) = self.block()?;
            match kind {
                SECTION_HEADER => self.section(offset, body)?,
                INTERFACE_DESCRIPTION => {
                    let interface = describe(offset, body)?;
                    self.interfaces.push(interface);
                }
                SIMPLE_PACKET => return self.simple(offset, body).map(Some),
                PACKET | ENHANCED_PACKET => return self.enhanced(offset, body, kind).map(Some),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Skips one block; returns its type and the bytes between its lengths.
    fn block(&mut self) -> Result<(u32, Fields<'a>), CaptureError> {
        let offset = self.offset;
        let rest = self.file.get(offset..).unwrap_or_default();
        let short = || truncated(offset, "block header", FRAME as u64, rest.len());
        let magic = rest.first_chunk::<4>().ok_or_else(short)?;
        if Self::recognise(*magic) {
            self.order = match rest.get(8..FRAME).ok_or_else(short)? {
                [0x4d, 0x3c, 0x2b, 0x1a] => ByteOrder::Little,
                [0x1a, 0x2b, 0x3c, 0x4d] => ByteOrder::Big,
                other => {
                    let found = other.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
                    let accepted = "439041101 (1a2b3c4d) in either byte order";
                    return Err(invalid(offset, "byte-order magic", found, accepted));
                }
            };
        }
        let mut fields = Fields { rest, order: self.order };
        let (kind, len) = fields.u32().zip(fields.u32()).ok_or_else(short)?;
        if rest.len() < FRAME {
            return Err(short());
        }
        if (len as usize) < FRAME || !len.is_multiple_of(4) {
            return Err(invalid(offset, "block length", len.into(), "multiples of 4 from 12"));
        }
        let cut = || truncated(offset, "block", len.into(), rest.len());
        let body = fields.take(len as usize - FRAME).ok_or_else(cut)?;
        let closing = fields.u32().ok_or_else(cut)?;
        if closing != len {
            let accepted = "the length at the start of the block";
            return Err(invalid(offset, "closing block length", closing.into(), accepted));
        }
        self.offset += len as usize;
        Ok((kind, Fields { rest: body, order: self.order }))
    }

    fn section(&mut self, offset: usize, mut body: Fields<'_>) -> Result<(), CaptureError> {
        let len = framed(&body);
        let version = (|| {
            let _byte_order = body.u32()?;
            let major = body.u16()?;
            let (_minor, _length) = (body.u16()?, body.i64()?);
            Some(major)
        })();
        let accepted = "28 and above for a section header";
        match version.ok_or_else(|| invalid(offset, "block length", len, accepted))? {
            1 => self.interfaces.clear(),
            other => return Err(invalid(offset, "major version", other.into(), "1")),
        }
        Ok(())
    }

    fn enhanced(
        &mut self,
        offset: usize,
        mut body: Fields<'a>,
        kind: u32,
    ) -> Result<Packet<'a>, CaptureError> {
        let len = framed(&body);
        let fixed = (|| {
            let number = match kind {
                PACKET => {
                    let (number, _drops) = (body.u16()?, body.u16()?);
                    number.into()
                }
                _ => body.u32()?,
            };
            let ticks = u64::from(body.u32()?) << 32 | u64::from(body.u32()?);
            Some((number, ticks, body.u32()?, body.u32()?))
        })();
        let accepted = "32 and above for a packet";
        let (number, ticks, captured, original_len) =
            fixed.ok_or_else(|| invalid(offset, "block length", len, accepted))?;
        let interface = self.interface(offset, number)?;
        let accepted = "0 to 2^64 - 1 nanoseconds from the epoch";
        let at = interface.clock.time(ticks);
        self.last = at.ok_or_else(|| invalid(offset, "time in ticks", ticks, accepted))?;
        self.packet(offset, interface, body, captured, original_len)
    }

    /// Reads a packet without interface number (it belongs to the first interface) and without
    /// time.
    fn simple(&mut self, offset: usize, mut body: Fields<'a>) -> Result<Packet<'a>, CaptureError> {
        let (len, accepted) = (framed(&body), "16 and above for a simple packet");
        let original_len =
            body.u32().ok_or_else(|| invalid(offset, "block length", len, accepted))?;
        let interface = self.interface(offset, 0)?;
        let captured = match interface.snapshot {
            0 => original_len,
            snapshot => original_len.min(snapshot),
        };
        self.packet(offset, interface, body, captured, original_len)
    }

    fn packet(
        &self,
        offset: usize,
        interface: Interface,
        mut body: Fields<'a>,
        captured: u32,
        original_len: u32,
    ) -> Result<Packet<'a>, CaptureError> {
        let link = interface.link;
        let bytes = body.take(captured as usize).filter(|_| captured <= MAX_CAPTURED);
        let accepted = "0 to 262144 and at most what its block holds";
        let bytes =
            bytes.ok_or_else(|| invalid(offset, "captured length", captured.into(), accepted))?;
        Ok(Packet { offset, at: self.last, link, bytes, original_len })
    }

    fn interface(&self, offset: usize, number: u32) -> Result<Interface, CaptureError> {
        let accepted = "the numbers of interfaces described before, from 0";
        let found = usize::try_from(number).ok().and_then(|number| self.interfaces.get(number));
        found.copied().ok_or_else(|| invalid(offset, "interface", number.into(), accepted))
    }
}

fn describe(offset: usize, mut body: Fields<'_>) -> Result<Interface, CaptureError> {
    let (len, accepted) = (framed(&body), "20 and above for an interface description");
    let fixed = body.u16().zip(body.u16()).zip(body.u32());
    let ((number, _reserved), snapshot) =
        fixed.ok_or_else(|| invalid(offset, "block length", len, accepted))?;
    let mut clock = Clock::DEFAULT;
    while let Some((code, len)) = body.u16().zip(body.u16()) {
        // Values are padded to four bytes; the padding of the last may be missing.
        let padding = usize::from(len).next_multiple_of(4) - usize::from(len);
        let value = body.take(len.into()).ok_or_else(|| {
            invalid(offset, "option length", len.into(), "at most what is left of its block")
        })?;
        body.take(padding);
        let wrong = |accepted| invalid(offset, "length of a clock option", len.into(), accepted);
        match code {
            END_OF_OPTIONS => break,
            TIME_RESOLUTION => {
                let [resolution] = value else { return Err(wrong("1 for if_tsresol")) };
                clock.resolution = *resolution;
            }
            TIME_OFFSET => {
                let mut seconds = Fields { rest: value, order: body.order };
                clock.offset = seconds
                    .i64()
                    .filter(|_| value.len() == 8)
                    .ok_or_else(|| wrong("8 for if_tsoffset"))?;
            }
            _ => {}
        }
    }
    let link = LinkType::from_number(number);
    Ok(Interface { link, snapshot, clock })
}

/// Returns the length of the block around this body, for the error that it is too short for its
/// type.
const fn framed(body: &Fields<'_>) -> u64 {
    (body.rest.len() + FRAME) as u64
}
