//! AQMs compared with published numbers: RFC 8289, RFC 8033, the RED paper, and the expectations of
//! ns-3's tests.
//!
//! Each line is one expectation: a number or a statement of the source, and the result of the
//! library's AQMs for equal input. Nothing here reimplements an AQM. Where the library departs from
//! a source by design, the line states the reason and fails if the result is no longer the one that
//! the reason explains.

mod controller;
mod early;
mod law;
mod queues;
mod report;

use super::{Experiment, Report};
use crate::progress::Progress;

/// The experiment `sim reproduce codel-rfc`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "codel-rfc",
    about: "AQMs compared with the numbers of RFC 8289, RFC 8033, the RED paper and ns-3's tests",
    runs: super::Runs::Whole(run),
};

/// Nanoseconds per millisecond.
const MS: u64 = 1_000_000;

/// One expectation and the library's result.
#[derive(Clone, Debug)]
struct Line {
    source: Source,
    what: String,
    expected: String,
    ours: String,
    verdict: Verdict,
}

/// Source of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Rfc8289,
    Rfc8033,
    Red,
    Ns3,
}

impl Source {
    const ALL: [Self; 4] = [Self::Rfc8289, Self::Rfc8033, Self::Red, Self::Ns3];

    const fn name(self) -> &'static str {
        match self {
            Self::Rfc8289 => "RFC 8289",
            Self::Rfc8033 => "RFC 8033",
            Self::Red => "RED 1993",
            Self::Ns3 => "ns-3",
        }
    }
}

/// Outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Result as expected.
    Same,
    /// A departure that this reason explains.
    Departs(&'static str),
    /// Nothing to compare, for this reason.
    NotCompared(&'static str),
    /// Neither as expected nor as explained.
    Fails,
}

impl Line {
    /// Compares the expected and the actual result as printed.
    fn same(source: Source, what: impl Into<String>, expected: &str, ours: String) -> Self {
        let holds = expected == ours;
        Self::judged(source, what, expected, ours, holds)
    }

    /// Creates a line whose result is evaluated by the caller.
    fn judged(
        source: Source,
        what: impl Into<String>,
        expected: &str,
        ours: String,
        holds: bool,
    ) -> Self {
        let verdict = if holds { Verdict::Same } else { Verdict::Fails };
        Self { source, what: what.into(), expected: expected.to_owned(), ours, verdict }
    }

    /// Creates a line for a departure: `ours` must equal `explained`, for the reason `why`.
    fn departs(
        source: Source,
        what: impl Into<String>,
        expected: &str,
        ours: String,
        explained: &str,
        why: &'static str,
    ) -> Self {
        let verdict = if ours == explained { Verdict::Departs(why) } else { Verdict::Fails };
        Self { source, what: what.into(), expected: expected.to_owned(), ours, verdict }
    }

    /// Creates a line that is not compared.
    fn not_compared(source: Source, what: &str, expected: &str, why: &'static str) -> Self {
        Self {
            source,
            what: what.to_owned(),
            expected: expected.to_owned(),
            ours: "–".to_owned(),
            verdict: Verdict::NotCompared(why),
        }
    }
}

fn run(seeds: u32, progress: &Progress) -> Report {
    let parts: [&dyn Fn() -> Vec<Line>; 5] =
        [&law::lines, &controller::series, &early::lines, &queues::lines, &|| {
            controller::traffic(seeds)
        }];
    progress.expect(parts.len() as u64);
    let each = |part: &dyn Fn() -> Vec<Line>| {
        let lines = part();
        progress.done();
        lines
    };
    let lines: Vec<Line> = parts.into_iter().flat_map(each).collect();
    report::report(&lines, seeds)
}
