//! Writing pcap, little-endian, in either resolution.

use std::io::{self, ErrorKind, Write};

use freeboard::sched_core::Nanos;

use super::{LinkType, MAX_CAPTURED};

/// The unit of a file's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// What every tool reads; times are rounded down.
    Micros,
    /// What the simulator knows.
    Nanos,
}

/// Writes packets to a pcap file. Wrap a file in a `BufWriter`: each packet is two small writes.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    resolution: Resolution,
}

impl<W: Write> Writer<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// What `out` reports.
    pub fn new(mut out: W, link: LinkType, resolution: Resolution) -> io::Result<Self> {
        let magic: u32 = match resolution {
            Resolution::Micros => 0xa1b2_c3d4,
            Resolution::Nanos => 0xa1b2_3c4d,
        };
        let version = 2 | 4_u32 << 16;
        for word in [magic, version, 0, 0, MAX_CAPTURED, link.number().into()] {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Self { out, resolution })
    }

    /// Writes one packet of which `bytes` were kept and `original_len` were on the wire. An
    /// original length below the number of bytes counts as that number.
    ///
    /// # Errors
    /// What the file reports; [`ErrorKind::InvalidInput`], with nothing written, for a time beyond
    /// 2^32 seconds or more than 262,144 bytes, which the format cannot hold.
    pub fn write(&mut self, at: Nanos, bytes: &[u8], original_len: u32) -> io::Result<()> {
        let refuse = |why: &str| io::Error::new(ErrorKind::InvalidInput, why.to_owned());
        let captured = u32::try_from(bytes.len()).ok().filter(|&len| len <= MAX_CAPTURED);
        let captured = captured.ok_or_else(|| refuse("more than 262144 bytes in a packet"))?;
        let seconds = u32::try_from(at.0 / 1_000_000_000)
            .map_err(|_| refuse("a time beyond 2^32 - 1 seconds"))?;
        // Below 10^9, so it fits.
        let nanos = (at.0 % 1_000_000_000) as u32;
        let fraction = match self.resolution {
            Resolution::Micros => nanos / 1_000,
            Resolution::Nanos => nanos,
        };
        let mut record = [0; 16];
        let words = [seconds, fraction, captured, original_len.max(captured)];
        for (place, word) in record.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.out.write_all(&record)?;
        self.out.write_all(bytes)
    }

    /// Flushes what was written and gives the sink back.
    ///
    /// # Errors
    /// What the sink reports.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
