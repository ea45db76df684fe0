//! Live view of a running gateway in the terminal; without a terminal, its reports as text.
//!
//! On a terminal it outlives the gateway: it reports that there is none, and continues when there
//! is one again.

mod page;
mod reading;
mod screen;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use crate::forward::run::Failure;
use crate::stats::report::Report;
use page::Page;
use reading::Reading;

/// Columns and lines of a page that is not for a terminal: names are not truncated, and neither are
/// this many lines.
const PIPE: (usize, usize) = (160, 45);

/// The last report, and the one before, to compute rates.
#[derive(Debug, Default)]
struct Reports {
    last: Option<Report>,
    before: Option<Report>,
}

impl Reports {
    fn add(&mut self, report: Report) {
        self.before = self.last.replace(report);
        // A restarted gateway counts from zero.
        let is_older = |before: &Report, last: &Report| before.seconds > last.seconds;
        if let (Some(before), Some(last)) = (&self.before, &self.last)
            && is_older(before, last)
        {
            self.before = None;
        }
    }
}

/// Shows every report: on a terminal until `q` is pressed, otherwise until the gateway ends.
pub(crate) fn run(socket: &Path) -> Result<(), Failure> {
    let named = |why: String| format!("--stats {}: {why}", socket.display());
    let reading = Reading::connect(socket).map_err(|error| {
        Failure::Refused(named(format!("{error} (expected the socket of a running gateway)")))
    })?;
    let done =
        if io::stdout().is_terminal() { screen::run(reading, socket) } else { print(reading) };
    done.map_err(|why| Failure::Broken(named(why)))
}

/// Prints one report after another.
fn print(mut reading: Reading) -> Result<(), String> {
    let mut reports = Reports::default();
    while let Some(report) = reading.next()? {
        reports.add(report);
        let text = Page::new(&reports, None, PIPE).to_string();
        // The reader may close the pipe early, as in `… top | head`.
        if writeln!(io::stdout(), "{text}").is_err() {
            break;
        }
    }
    Ok(())
}
