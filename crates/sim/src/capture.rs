//! Recorded traffic: a reader for pcap and pcapng, a writer for pcap.
//!
//! A reader walks a file in memory and copies nothing. An error contains the byte offset of the
//! unreadable record, the value found and the expected value; all records before it have been
//! returned. Formats: `draft-ietf-opsawg-pcap` and `draft-ietf-opsawg-pcapng`.
//!
//! The formats are parsed here and not by a library because libraries do not report the offset and
//! omit rare features (binary time resolution, a big-endian time offset, the closing block length).
//! The tests compare with a library.

use core::fmt;

use freeboard::sched_core::Nanos;

mod fields;
mod fuzz;
mod link;
mod pcap;
mod pcapng;
mod write;
mod write_pcapng;

pub use fuzz::check_reading;
pub use link::{Frame, LinkType};
pub use write::{Resolution, Writer};
pub use write_pcapng::CommentWriter;

/// Longest record that is accepted: libpcap's limit on the snapshot length.
const MAX_CAPTURED: u32 = 262_144;

/// One captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Offset of its record in the file.
    pub offset: usize,
    /// Capture time since the epoch of the file (usually 1970), rounded down to nanoseconds. A
    /// pcapng simple packet has no time and gets that of the packet before it.
    pub at: Nanos,
    /// Type of the link header at the start of `bytes`.
    pub link: LinkType,
    /// Captured bytes, beginning with the link header.
    pub bytes: &'a [u8],
    /// Original length in bytes, from the file. Some writers store less than was captured, or 0;
    /// see [`wire_len`](Self::wire_len).
    pub original_len: u32,
}

impl Packet<'_> {
    /// Returns the length on the wire in bytes: the original or the captured length, whichever is
    /// larger.
    #[must_use]
    pub fn wire_len(&self) -> u32 {
        // At most `MAX_CAPTURED` bytes are captured.
        self.original_len.max(self.bytes.len() as u32)
    }
}

/// A file, or the rest of it, that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureError {
    /// Offset in the file of the record, block or header that cannot be read.
    pub offset: usize,
    /// Problem found there.
    pub problem: Problem,
}

/// Problems that a record can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file starts like neither format.
    Foreign {
        /// First four bytes of the file.
        magic: [u8; 4],
    },
    /// The file ends prematurely.
    Truncated {
        /// Structure that is incomplete.
        what: &'static str,
        /// Bytes required, as far as the file specifies.
        needed: u64,
        /// Bytes from the offset to the end of the file.
        found: u64,
    },
    /// A field has an invalid value.
    Invalid {
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        found: u64,
        /// Values that are expected.
        accepted: &'static str,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: ", self.offset)?;
        match self.problem {
            Problem::Foreign { magic: [a, b, c, d] } => write!(
                f,
                "not a capture: begins with {a:02x} {b:02x} {c:02x} {d:02x}; expected a1b2c3d4 or \
                 a1b23c4d in either byte order (pcap), or 0a0d0d0a (pcapng)"
            ),
            Problem::Truncated { what, needed, found } => {
                write!(f, "the file ends in the {what}: {needed} bytes needed, {found} there")
            }
            Problem::Invalid { what, found, accepted } => {
                write!(f, "{what} is {found} (expected {accepted})")
            }
        }
    }
}

impl core::error::Error for CaptureError {}

/// The packets of a capture, in the order of the file.
///
/// An iterator over results that ends after the first error.
///
/// ```
/// use freeboard::sched_core::Nanos;
/// use sim::capture::{LinkType, Reader, Resolution, Writer};
///
/// let mut file = Vec::new();
/// let mut writer = Writer::new(&mut file, LinkType::RawIp, Resolution::Nanos)?;
/// writer.write(Nanos(1_000_000_007), &[0x45, 0, 0, 20], 1_500)?;
///
/// let packet = Reader::new(&file)?.next().unwrap()?;
/// assert_eq!(
///     (packet.at, packet.bytes.len(), packet.original_len),
///     (Nanos(1_000_000_007), 4, 1_500)
/// );
///
/// let error = Reader::new(&file[..30])?.next().unwrap().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "at byte 24: the file ends in the record header: 16 bytes needed, 6 there"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    format: Format<'a>,
    failed: bool,
}

#[derive(Clone, Debug)]
enum Format<'a> {
    Pcap(pcap::Records<'a>),
    PcapNg(pcapng::Blocks<'a>),
}

impl<'a> Reader<'a> {
    /// Detects the format of a file from its first bytes and creates a reader.
    ///
    /// # Errors
    /// [`Problem::Foreign`] if the file is neither pcap nor pcapng; other problems if the header of
    /// a pcap file is invalid.
    pub fn new(file: &'a [u8]) -> Result<Self, CaptureError> {
        let Some(magic) = file.first_chunk::<4>() else {
            return Err(truncated(0, "magic number", 4, file.len()));
        };
        let format = match pcapng::Blocks::recognise(*magic) {
            true => Format::PcapNg(pcapng::Blocks::new(file)),
            false => Format::Pcap(pcap::Records::new(file, *magic)?),
        };
        Ok(Self { format, failed: false })
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Packet<'a>, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = match &mut self.format {
            Format::Pcap(records) => records.next().transpose(),
            Format::PcapNg(blocks) => blocks.next().transpose(),
        };
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

const fn truncated(offset: usize, what: &'static str, needed: u64, found: usize) -> CaptureError {
    CaptureError { offset, problem: Problem::Truncated { what, needed, found: found as u64 } }
}

const fn invalid(
    offset: usize,
    what: &'static str,
    found: u64,
    accepted: &'static str,
) -> CaptureError {
    CaptureError { offset, problem: Problem::Invalid { what, found, accepted } }
}
