//! Reports from the socket of a gateway.

use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::stats::report::Report;

/// Maximum length of a line; a gateway writes at most a tenth of it.
const LONGEST: u64 = 1 << 20;

/// Connection to a gateway.
#[derive(Debug)]
pub(super) struct Reading<R = BufReader<UnixStream>> {
    from: R,
}

impl Reading {
    pub(super) fn connect(socket: &Path) -> io::Result<Self> {
        Ok(Self { from: BufReader::new(UnixStream::connect(socket)?) })
    }
}

impl<R: BufRead> Reading<R> {
    /// Returns the next report; `None` if the gateway has ended.
    pub(super) fn next(&mut self) -> Result<Option<Report>, String> {
        let mut line = Vec::new();
        match self.from.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
        match line.last() {
            Some(b'\n') => {
                let report = serde_json::from_slice(&line);
                report.map(Some).map_err(|error| format!("not a report: {error}"))
            }
            _ if line.len() as u64 == LONGEST => {
                Err(format!("not a report: a line of more than {LONGEST} bytes"))
            }
            // The end of the stream, in the middle of a line or not.
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whatever the other end sends, a line takes no more memory than the maximum.
    #[test]
    fn a_line_without_an_end_is_given_up() {
        let mut endless = Reading { from: BufReader::new(io::repeat(b'x')) };
        let error = endless.next().unwrap_err();
        assert_eq!(error, "not a report: a line of more than 1048576 bytes");
    }

    #[test]
    fn what_is_no_report_is_said_and_the_end_is_one() {
        let next = |text: &str| Reading { from: text.as_bytes() }.next();
        assert!(matches!(next(""), Ok(None)));
        assert!(matches!(next("{\"seconds\":1"), Ok(None)));
        assert!(next("{\"seconds\":1}\n").unwrap_err().contains("missing field"));
        let report = next("{\"seconds\":1.0,\"directions\":[]}\n").unwrap().unwrap();
        assert!(report.directions.is_empty());
    }
}
