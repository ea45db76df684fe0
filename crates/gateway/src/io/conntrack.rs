//! Reads the kernel's connection tracking table as text, one piece at a time.

pub(crate) mod events;

use std::fs::File;
use std::io::{self, Read, Seek};

/// Path of the table, for the namespace of the process that opens it.
pub(crate) const PATH: &str = "/proc/net/nf_conntrack";

/// Maximum size of a piece. The kernel returns a page at a time.
const PIECE: usize = 16 << 10;

/// Maximum size of the table read in one pass, in bytes: about 100,000 connections.
const MOST_READ: usize = 16 << 20;

/// The table and the state of reading it.
#[derive(Debug)]
pub(crate) struct Conntrack<R = File> {
    from: R,
    buffer: Vec<u8>,
    /// Bytes of an incomplete line.
    begun: usize,
    /// True while the rest of an overlong line is skipped.
    is_too_long: bool,
    /// Bytes read in this pass.
    read: usize,
}

impl Conntrack {
    /// Opens it, which requires root. Reading requires no privileges afterwards.
    pub(crate) fn open() -> io::Result<Self> {
        File::open(PATH).map(Self::new)
    }
}

impl<R: Read + Seek> Conntrack<R> {
    fn new(from: R) -> Self {
        Self { from, buffer: vec![0; PIECE], begun: 0, is_too_long: false, read: 0 }
    }

    /// Reads the next piece and passes the complete lines on; returns true if the pass is over and
    /// the next piece is the first. Overlong lines are skipped. After an error, the next piece is
    /// the first one as well.
    pub(crate) fn read(&mut self, line: impl FnMut(&[u8])) -> io::Result<bool> {
        let more = self.piece(line);
        if !matches!(more, Ok(true)) {
            (self.begun, self.is_too_long, self.read) = (0, false, 0);
            self.from.rewind()?;
        }
        more.map(|more| !more)
    }

    /// Returns false if the pass is over.
    fn piece(&mut self, mut line: impl FnMut(&[u8])) -> io::Result<bool> {
        if self.begun == self.buffer.len() {
            (self.begun, self.is_too_long) = (0, true);
        }
        let got = self.from.read(&mut self.buffer[self.begun..])?;
        self.read += got;
        let filled = self.begun + got;
        let mut begin = 0;
        while let Some(len) = self.buffer[begin..filled].iter().position(|&byte| byte == b'\n') {
            if !core::mem::take(&mut self.is_too_long) {
                line(&self.buffer[begin..begin + len]);
            }
            begin += len + 1;
        }
        self.buffer.copy_within(begin..filled, 0);
        self.begun = filled - begin;
        Ok(got > 0 && self.read < MOST_READ)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, SeekFrom};

    use super::*;

    /// Returns few bytes at once, as the kernel does.
    struct Slow(Cursor<Vec<u8>>, usize);

    impl Read for Slow {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let most = room.len().min(self.1);
            self.0.read(&mut room[..most])
        }
    }

    impl Seek for Slow {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    fn pass(table: &mut Conntrack<Slow>) -> Vec<String> {
        let mut lines = Vec::new();
        while !table.read(|line| lines.push(String::from_utf8_lossy(line).into_owned())).unwrap() {}
        lines
    }

    /// Goal: every line is read whole for any size of pieces, in this pass and in the next.
    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let lines: Vec<String> =
            (0..200).map(|at: usize| format!("{at} {}", "x".repeat(at))).collect();
        for at_once in [1, 7, 4_096, 1 << 20] {
            let text = lines.join("\n") + "\n";
            let mut table = Conntrack::new(Slow(Cursor::new(text.into_bytes()), at_once));
            for _ in 0..2 {
                assert_eq!(pass(&mut table), lines, "{at_once}");
            }
        }
    }

    /// Goal: an overlong line is skipped and others are not; an endless table ends.
    #[test]
    fn a_line_without_end_is_left_out() {
        let text = format!("one\n{}\ntwo\nhalf", "x".repeat(3 * PIECE));
        let mut table = Conntrack::new(Slow(Cursor::new(text.into_bytes()), 4_096));
        assert_eq!(pass(&mut table), ["one", "two"]);
        assert_eq!(pass(&mut table), ["one", "two"]);
        let text = "y".repeat(2 * MOST_READ);
        let mut table = Conntrack::new(Slow(Cursor::new(text.into_bytes()), PIECE));
        assert!(pass(&mut table).is_empty());
        assert_eq!(table.from.0.position(), 0);
    }
}
