//! The kernel's table of connections, as text, read a piece at a time.

pub(crate) mod events;

use std::fs::File;
use std::io::{self, Read, Seek};

/// Where the kernel has it, for the namespace of the process that opens it.
pub(crate) const PATH: &str = "/proc/net/nf_conntrack";

/// The most that is read at once. The kernel gives a page.
const PIECE: usize = 16 << 10;

/// The most that is read of the table in one pass, in bytes: about 100,000 connections.
const MOST_READ: usize = 16 << 20;

/// The table, and how far it has been read.
#[derive(Debug)]
pub(crate) struct Conntrack<R = File> {
    from: R,
    buffer: Vec<u8>,
    /// Bytes of a line whose end has not been read.
    begun: usize,
    /// The rest of the line belongs to one that does not fit.
    is_too_long: bool,
    /// In this pass.
    read: usize,
}

impl Conntrack {
    /// Opens it, which takes root. It can be read without rights afterwards.
    pub(crate) fn open() -> io::Result<Self> {
        File::open(PATH).map(Self::new)
    }
}

impl<R: Read + Seek> Conntrack<R> {
    fn new(from: R) -> Self {
        Self { from, buffer: vec![0; PIECE], begun: 0, is_too_long: false, read: 0 }
    }

    /// Reads the next piece and gives the lines that end in it; true if the pass is over, and the
    /// next piece is the first. A line that is longer than a piece is left out. After an error the
    /// next piece is the first as well.
    pub(crate) fn read(&mut self, line: impl FnMut(&[u8])) -> io::Result<bool> {
        let more = self.piece(line);
        if !matches!(more, Ok(true)) {
            (self.begun, self.is_too_long, self.read) = (0, false, 0);
            self.from.rewind()?;
        }
        more.map(|more| !more)
    }

    /// False if there is nothing more in this pass.
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

    /// Gives little at once, as the kernel does.
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

    /// Goal: every line comes out whole, whatever pieces the kernel gives, in this pass and in the
    /// next.
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

    /// Goal: a line longer than a piece is left out, and the others are not; a table without end
    /// ends.
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
