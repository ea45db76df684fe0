//! A writer for pcap: little-endian, with microseconds or nanoseconds.

use std::io::{self, ErrorKind, Write};

use freeboard::sched_core::Nanos;

use super::{LinkType, MAX_CAPTURED};

/// Time resolution of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds, which every tool reads; times are rounded down.
    Micros,
    /// Nanoseconds, the resolution of the simulator.
    Nanos,
}

/// Writer of pcap files. Wrap a file in a `BufWriter`: each packet causes two small writes.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    resolution: Resolution,
}

impl<W: Write> Writer<W> {
    /// Creates a writer and writes the file header.
    ///
    /// # Errors
    /// Errors of `out`.
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
    /// Errors of the sink; [`ErrorKind::InvalidInput`], with nothing written, for a time beyond
    /// 2^32 seconds or more than 262,144 bytes, which the format cannot represent.
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

    /// Flushes the sink and returns it.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
