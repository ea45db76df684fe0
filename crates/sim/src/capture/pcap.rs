//! The pcap format: a header of 24 bytes, then packets behind record headers of 16 bytes.

use freeboard::sched_core::Nanos;

use super::fields::{ByteOrder, Fields};
use super::{
    CaptureError, LinkType, MAX_CAPTURED, Packet, Problem, Resolution, invalid, truncated,
};

const HEADER: usize = 24;
const RECORD: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    file: &'a [u8],
    /// Offset of the next record.
    offset: usize,
    order: ByteOrder,
    resolution: Resolution,
    link: LinkType,
}

impl<'a> Records<'a> {
    pub(super) fn new(file: &'a [u8], magic: [u8; 4]) -> Result<Self, CaptureError> {
        let (order, resolution) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (ByteOrder::Little, Resolution::Micros),
            [0x4d, 0x3c, 0xb2, 0xa1] => (ByteOrder::Little, Resolution::Nanos),
            [0xa1, 0xb2, 0xc3, 0xd4] => (ByteOrder::Big, Resolution::Micros),
            [0xa1, 0xb2, 0x3c, 0x4d] => (ByteOrder::Big, Resolution::Nanos),
            _ => return Err(CaptureError { offset: 0, problem: Problem::Foreign { magic } }),
        };
        let mut fields = Fields { rest: file, order };
        let (version, link) = header(&mut fields)
            .ok_or_else(|| truncated(0, "file header", HEADER as u64, file.len()))?;
        if version != 2 {
            return Err(invalid(0, "major version", version.into(), "2"));
        }
        let link = LinkType::from_number(link);
        Ok(Self { file, offset: HEADER, order, resolution, link })
    }

    pub(super) fn next(&mut self) -> Result<Option<Packet<'a>>, CaptureError> {
        let offset = self.offset;
        let rest = self.file.get(offset..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let mut fields = Fields { rest, order: self.order };
        let [seconds, fraction, captured, original_len] = record(&mut fields)
            .ok_or_else(|| truncated(offset, "record header", RECORD as u64, rest.len()))?;
        let (per_second, nanos, accepted) = match self.resolution {
            Resolution::Micros => (1_000_000, 1_000, "0 to 999999 microseconds"),
            Resolution::Nanos => (1_000_000_000, 1, "0 to 999999999 nanoseconds"),
        };
        if fraction >= per_second {
            return Err(invalid(offset, "fraction of a second", fraction.into(), accepted));
        }
        if captured > MAX_CAPTURED {
            return Err(invalid(offset, "captured length", captured.into(), "0 to 262144"));
        }
        let needed = RECORD + captured as usize;
        let bytes = fields
            .take(captured as usize)
            .ok_or_else(|| truncated(offset, "packet", needed as u64, rest.len()))?;
        self.offset += needed;
        // 2^32 seconds are 4.3 · 10^18 ns, a quarter of the range.
        let at = Nanos(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * nanos);
        Ok(Some(Packet { offset, at, link: self.link, bytes, original_len }))
    }
}

/// Reads the major version and the link type.
fn header(fields: &mut Fields<'_>) -> Option<(u16, u16)> {
    let _magic = fields.u32()?;
    let (major, _minor) = (fields.u16()?, fields.u16()?);
    let [_zone, _accuracy, _snapshot, link] = record(fields)?;
    // Only the lower half: the upper half describes the frame check sequence.
    Some((major, link as u16))
}

/// Reads a record header: four 32-bit numbers.
fn record(fields: &mut Fields<'_>) -> Option<[u32; 4]> {
    Some([fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?])
}
