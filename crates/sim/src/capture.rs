//! Recorded traffic: reading pcap and pcapng, writing pcap.
//!
//! A reader walks a file that lies in memory and copies nothing. Whatever is wrong with the file,
//! the error says at which byte the record begins that cannot be read, what was found and what
//! would have been accepted; every record before it has been given out. Formats:
//! `draft-ietf-opsawg-pcap` and `draft-ietf-opsawg-pcapng`.
//!
//! The formats are read here, and not by a library, for two reasons: the offset, and the corners
//! that libraries leave out (binary time resolution, a big-endian time offset, the closing block
//! length). A library is the oracle of the tests instead.

use core::fmt;

use freeboard::sched_core::Nanos;

mod fields;
mod fuzz;
mod link;
mod pcap;
mod pcapng;
mod write;

pub use fuzz::check_reading;
pub use link::{Frame, LinkType};
pub use write::{Resolution, Writer};

/// The largest record that is taken for real: libpcap's own limit on the snapshot length.
const MAX_CAPTURED: u32 = 262_144;

/// One captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Where its record begins in the file.
    pub offset: usize,
    /// When it was captured, since the epoch of the file (usually 1970), rounded down to
    /// nanoseconds. A pcapng simple packet carries no time and has that of the packet before it.
    pub at: Nanos,
    /// What its first byte belongs to.
    pub link: LinkType,
    /// The bytes captured, from the link header on.
    pub bytes: &'a [u8],
    /// Original length in bytes, as the file says. Some writers leave less than was captured, or
    /// 0: [`wire_len`](Self::wire_len).
    pub original_len: u32,
}

impl Packet<'_> {
    /// Returns the length on the wire in bytes: the original length, or what was captured if that
    /// is more.
    #[must_use]
    pub fn wire_len(&self) -> u32 {
        // What was captured is at most `MAX_CAPTURED` bytes.
        self.original_len.max(self.bytes.len() as u32)
    }
}

/// Why a file, or the rest of it, cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureError {
    /// Where the record, block or header begins that cannot be read, from the start of the file.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file begins like neither format.
    Foreign {
        /// Its first four bytes.
        magic: [u8; 4],
    },
    /// The file ends inside.
    Truncated {
        /// What it ends in.
        what: &'static str,
        /// Bytes this takes, as far as the file tells.
        needed: u64,
        /// Bytes from the offset to the end of the file.
        found: u64,
    },
    /// A field holds what it must not.
    Invalid {
        /// Which field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What would have been accepted.
        accepted: &'static str,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: ", self.offset)?;
        match self.problem {
            Problem::Foreign { magic: [a, b, c, d] } => write!(
                f,
                "no capture begins with {a:02x} {b:02x} {c:02x} {d:02x}; expected a1b2c3d4 or \
                 a1b23c4d in either byte order (pcap), or 0a0d0d0a (pcapng)"
            ),
            Problem::Truncated { what, needed, found } => {
                write!(f, "the file ends in the {what}: {needed} bytes needed, {found} there")
            }
            Problem::Invalid { what, found, accepted } => {
                write!(f, "{what} is {found}; accepted: {accepted}")
            }
        }
    }
}

impl core::error::Error for CaptureError {}

/// The packets of a capture, in the order of the file.
///
/// An iterator over results; after the first error it is at its end.
///
/// ```
/// use sim::capture::{LinkType, Reader, Resolution, Writer};
/// use freeboard::sched_core::Nanos;
///
/// let mut file = Vec::new();
/// let mut writer = Writer::new(&mut file, LinkType::RawIp, Resolution::Nanos)?;
/// writer.write(Nanos(1_000_000_007), &[0x45, 0, 0, 20], 1_500)?;
///
/// let packet = Reader::new(&file)?.next().unwrap()?;
/// assert_eq!((packet.at, packet.bytes.len(), packet.original_len), (Nanos(1_000_000_007), 4, 1_500));
///
/// let error = Reader::new(&file[..30])?.next().unwrap().unwrap_err();
/// assert_eq!(error.to_string(),
///     "at byte 24: the file ends in the record header: 16 bytes needed, 6 there");
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
    /// Recognises the format of a file by its first bytes.
    ///
    /// # Errors
    /// [`Problem::Foreign`] if it is neither; the other problems if a pcap file's header is broken.
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
