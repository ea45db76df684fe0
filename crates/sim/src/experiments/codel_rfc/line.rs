//! One expectation and the library's result.

use serde::{Deserialize, Serialize};

use crate::aqm::ns3::TestResult;

/// One expectation and the library's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) source: String,
    pub(super) what: String,
    pub(super) expected: String,
    pub(super) ours: Option<String>,
    /// Reason why the result is not compared, or not the expected one.
    pub(super) reason: Option<String>,
    /// True if the result is as expected or as explained.
    holds: bool,
}

impl Line {
    /// Creates a line whose result is evaluated by the caller.
    pub(super) fn judged(
        source: &str,
        what: impl Into<String>,
        expected: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
    ) -> Self {
        let (source, ours, reason) = (source.to_owned(), Some(ours.into()), None);
        Self { source, what: what.into(), expected: expected.into(), ours, reason, holds }
    }

    /// Compares expectations, in the form of `ns3.txt`, with the results.
    pub(super) fn all(source: &str, expectations: &str, results: &[TestResult]) -> Vec<Self> {
        let rows = expectations.lines().filter(|row| !row.starts_with('#'));
        rows.map(|row| Self::compared(source, row, results)).collect()
    }

    fn compared(source: &str, row: &str, results: &[TestResult]) -> Self {
        let [what, expected, ref exception @ ..] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row} (expected a test and its expectation)")
        };
        let ours = results.iter().find(|(test, _)| *test == what).map(|(_, ours)| ours.clone());
        let (reason, holds) = match (ours.as_deref(), exception) {
            (Some(ours), []) => (None, ours == expected),
            (Some(ours), &[explained, why]) => (Some(why), ours == explained),
            (None, &[why]) => (Some(why), true),
            _ => (None, false),
        };
        let reason = reason.filter(|_| holds).map(str::to_owned);
        Self { ours, reason, ..Self::judged(source, what, expected, "", holds) }
    }

    pub(super) const fn verdict(&self) -> &'static str {
        match (&self.ours, &self.reason) {
            _ if !self.holds => "FAILS",
            (Some(_), None) => "same",
            (Some(_), Some(_)) => "departs",
            (None, _) => "not compared",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_departure_needs_its_explanation() {
        let verdict = |row: &str, ours: Option<&str>| {
            let results: Vec<_> = ours.map(|ours| ("test", ours.to_owned())).into_iter().collect();
            Line::compared("source", row, &results).verdict()
        };
        assert_eq!(verdict("test | 1", Some("1")), "same");
        assert_eq!(verdict("test | 1", Some("2")), "FAILS");
        assert_eq!(verdict("test | 1", None), "FAILS");
        assert_eq!(verdict("test | 1 | 2 | why", Some("2")), "departs");
        // As ns-3 expects: the reason is obsolete.
        assert_eq!(verdict("test | 1 | 2 | why", Some("1")), "FAILS");
        assert_eq!(verdict("test | 1 | why", None), "not compared");
        assert_eq!(verdict("test | 1 | why", Some("1")), "FAILS");
    }
}
