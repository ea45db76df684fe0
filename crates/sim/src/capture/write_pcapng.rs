//! A writer for pcapng with comments on packets: little-endian, nanoseconds, raw IP.
//!
//! Format: draft-ietf-opsawg-pcapng: a section header, an interface description for each name, and
//! an enhanced packet block for each packet.

use std::io::{self, ErrorKind, Write};

use freeboard::sched_core::Nanos;

/// Code of the option for a comment.
const COMMENT: u16 = 1;
/// Code of the option for the name of an interface.
const NAME: u16 = 2;
/// Code of the option for the resolution of times.
const RESOLUTION: u16 = 9;
/// Link type of packets that begin with an IP header.
const RAW_IP: u16 = 101;

/// Writer of pcapng files whose packets have comments. Wrap a file in a `BufWriter`.
///
/// ```
/// use freeboard::sched_core::Nanos;
/// use sim::capture::{CommentWriter, Reader};
///
/// let mut file = Vec::new();
/// let mut writer = CommentWriter::new(&mut file, &["uplink"])?;
/// writer.write(Nanos(1_500), 0, &[0x45; 28], 1_000, "dropped: the queue is full")?;
/// let packet = Reader::new(&file)?.next().unwrap()?;
/// assert_eq!((packet.at, packet.original_len), (Nanos(1_500), 1_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CommentWriter<W> {
    out: W,
    interfaces: u32,
}

impl<W: Write> CommentWriter<W> {
    /// Creates a writer and writes the headers of the file and of an interface for each name.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(out: W, interfaces: &[&str]) -> io::Result<Self> {
        let mut writer = Self { out, interfaces: 0 };
        // Byte-order magic, version 1.0, unknown section length.
        let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend(u64::MAX.to_le_bytes());
        writer.block(0x0a0d_0d0a, &body)?;
        for name in interfaces {
            let mut body = RAW_IP.to_le_bytes().to_vec();
            // Two reserved bytes, and no limit of the captured length.
            body.extend([0; 6]);
            option(&mut body, NAME, name.as_bytes())?;
            option(&mut body, RESOLUTION, &[9])?;
            option(&mut body, 0, &[])?;
            writer.block(1, &body)?;
            writer.interfaces += 1;
        }
        Ok(writer)
    }

    /// Writes one packet of which `bytes` were kept and `original_len` were on the wire, on the
    /// interface with this index.
    ///
    /// # Errors
    /// Errors of the sink; [`ErrorKind::InvalidInput`], with nothing written, for an unknown
    /// interface or a comment or packet that is too long for the format.
    pub fn write(
        &mut self,
        at: Nanos,
        interface: u32,
        bytes: &[u8],
        original_len: u32,
        comment: &str,
    ) -> io::Result<()> {
        if interface >= self.interfaces {
            return Err(invalid("an unknown interface"));
        }
        let captured = u32::try_from(bytes.len()).map_err(|_| invalid("a packet of 2^32 bytes"))?;
        let mut body = Vec::with_capacity(bytes.len() + comment.len() + 40);
        let [low, high] = [at.0 as u32, (at.0 >> 32) as u32];
        for word in [interface, high, low, captured, original_len.max(captured)] {
            body.extend(word.to_le_bytes());
        }
        body.extend(bytes);
        pad(&mut body);
        option(&mut body, COMMENT, comment.as_bytes())?;
        option(&mut body, 0, &[])?;
        self.block(6, &body)
    }

    /// Flushes and returns the sink.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let len = u32::try_from(body.len() + 12).map_err(|_| invalid("a block of 2^32 bytes"))?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&len.to_le_bytes())
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) -> io::Result<()> {
    let len = u16::try_from(value.len()).map_err(|_| invalid("a comment above 65535 bytes"))?;
    body.extend(code.to_le_bytes());
    body.extend(len.to_le_bytes());
    body.extend(value);
    pad(body);
    Ok(())
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what.to_owned())
}
