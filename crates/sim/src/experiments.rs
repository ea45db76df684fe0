//! Experiments that reproduce published results, for `sim reproduce`.
//!
//! Each experiment is a [`Study`]: cells that differ in their parameters, a run of a cell with a
//! seed, and a [`Report`] over all runs: text, tables, charts and checks. The [`harness`] does the
//! rest. To add one, write its module with a constant [`Experiment`], declare the module below, and
//! add the constant to [`ALL`].

pub mod age_based;
mod age_flows;
mod age_transfers;
pub mod aqm_linux;
pub mod attacks;
pub mod autorate;
pub mod cake_alg1;
pub mod cake_fig1;
pub mod cake_fig2;
pub mod cake_fig3;
pub mod cake_fig4;
pub mod cake_fig5;
pub mod cake_fig6;
pub mod codel_rfc;
pub mod dumbbell;
pub mod harness;
pub mod home_gateway;
mod hosts;
pub mod l4s;
pub mod mixed_load;
pub mod narrow_uplink;
pub mod options;
pub mod output;
pub mod page;
pub mod papers;
pub mod qfq_fig7;
pub mod run_file;
pub mod slow_uplink;
pub mod sparse;
pub mod sqf_adsl;
pub mod sqf_vbr;
pub mod sqf_video;
pub mod users_sqf;

use core::fmt;

use crate::plot::{Chart, TextTable};
use crate::progress::Progress;

pub use harness::{Row, Study, Sweep};
pub use options::Options;

/// All experiments, in the order in which they are listed and run.
pub const ALL: &[Experiment] = &[
    qfq_fig7::EXPERIMENT,
    cake_alg1::EXPERIMENT,
    cake_fig1::EXPERIMENT,
    cake_fig2::EXPERIMENT,
    cake_fig3::EXPERIMENT,
    cake_fig4::EXPERIMENT,
    cake_fig5::EXPERIMENT,
    cake_fig6::EXPERIMENT,
    narrow_uplink::EXPERIMENT,
    users_sqf::EXPERIMENT,
    sqf_adsl::EXPERIMENT,
    sqf_vbr::EXPERIMENT,
    sqf_video::theory::EXPERIMENT,
    sqf_video::testbed::EXPERIMENT,
    sqf_video::peak::EXPERIMENT,
    sqf_video::jitter::EXPERIMENT,
    sparse::EXPERIMENT,
    attacks::EXPERIMENT,
    age_based::EXPERIMENT,
    aqm_linux::EXPERIMENT,
    codel_rfc::EXPERIMENT,
    l4s::EXPERIMENT,
    autorate::EXPERIMENT,
];

/// A reproducible figure or table.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line: the paper's key in `docs/disciplines`, and the figure.
    pub name: &'static str,
    /// Least number of seeds, two or more, with which the same checks pass as with the usual ten,
    /// for `--quick`.
    pub quick: u32,
    /// Description in one line.
    pub about: &'static str,
    /// Its runs and their evaluation.
    pub runs: &'static dyn Sweep,
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Experiment {
    /// Runs the experiment with the seeds 1, 2, … up to `seeds`, and shows the number of completed
    /// runs.
    #[must_use]
    pub fn run(&self, seeds: u32, progress: &Progress) -> Report {
        harness::report(self.runs, seeds, progress)
    }
}

/// Result of an experiment. A function of the seeds: equal seeds give equal bytes.
#[derive(Clone, Debug, Default)]
pub struct Report {
    text: String,
    tables: Vec<Table>,
    pictures: Vec<Picture>,
    checks: Vec<Check>,
}

/// A table of a report, for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name among the tables of the report.
    pub name: String,
    /// Headings of the columns.
    pub headings: Vec<String>,
    /// Cells of each row, as many as headings.
    pub rows: Vec<Vec<String>>,
}

/// A picture with its file name: charts below one another.
#[derive(Clone, Debug)]
pub struct Picture {
    /// File name without folders and without ending.
    pub name: String,
    /// The charts, from top to bottom.
    pub charts: Vec<Chart>,
}

impl Picture {
    /// Draws the picture as SVG.
    #[must_use]
    pub fn to_svg(&self) -> String {
        match &self.charts[..] {
            [chart] => chart.to_svg(),
            charts => Chart::stacked(charts),
        }
    }
}

/// A check of an experiment and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    claim: String,
    measured: String,
    verdict: Verdict,
}

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The statement is true.
    Passes,
    /// The result differs from the paper for the stated reason.
    Differs,
    /// The statement is not true.
    Fails,
}

impl Verdict {
    /// Returns the verdict as a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::Differs => "differs",
            Self::Fails => "fails",
        }
    }
}

impl Check {
    /// Creates a check of a statement, with the figures that the result is based on.
    #[must_use]
    pub fn new(claim: impl Into<String>, measured: impl Into<String>, holds: bool) -> Self {
        let verdict = if holds { Verdict::Passes } else { Verdict::Fails };
        Self { claim: claim.into(), measured: measured.into(), verdict }
    }

    /// Creates a check for a statement of a source that is not true here, for the reason `why`. It
    /// passes while the statement is not true and fails once it is, because the reason is then
    /// obsolete.
    #[must_use]
    pub fn differs(what: &str, why: &str, measured: String, is_so: bool) -> Self {
        let verdict = if is_so { Verdict::Fails } else { Verdict::Differs };
        Self { claim: format!("{what} differs: {why}"), measured, verdict }
    }

    /// Creates a check that every packet is accounted for in all runs, or in the rows named by
    /// `what`.
    pub(crate) fn accounted_for(what: &str, balanced: impl Iterator<Item = bool> + Clone) -> Self {
        Self::new(
            "every packet is accounted for in every run",
            format!("{} {what}", balanced.clone().count()),
            { balanced }.all(|is_balanced| is_balanced),
        )
    }

    /// Returns the statement that is checked.
    #[must_use]
    pub fn claim(&self) -> &str {
        &self.claim
    }

    /// Returns the figures that the result is based on.
    #[must_use]
    pub fn measured(&self) -> &str {
        &self.measured
    }

    /// Returns the verdict.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl Report {
    /// Creates a report that begins with this text: what was run, and assumptions.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Appends text.
    #[must_use]
    pub fn with_text(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Appends a table, whose data is known by `name` among the tables of this report.
    #[must_use]
    pub fn table<const N: usize>(mut self, name: &str, table: &TextTable<N>) -> Self {
        self.text.push_str(&table.to_string());
        let headings = table.headings().map(str::to_owned).to_vec();
        let rows = table.rows().iter().map(|row| row.to_vec()).collect();
        self.tables.push(Table { name: name.to_owned(), headings, rows });
        self
    }

    /// Adds a table that is not printed.
    #[must_use]
    pub fn data(mut self, table: Table) -> Self {
        self.tables.push(table);
        self
    }

    /// Adds a picture of one chart, or of several below one another.
    #[must_use]
    pub fn picture(mut self, name: &str, charts: impl Into<Vec<Chart>>) -> Self {
        self.pictures.push(Picture { name: name.to_owned(), charts: charts.into() });
        self
    }

    /// Appends another report, its text after an empty line.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.tables.extend(other.tables);
        self.pictures.extend(other.pictures);
        self.with_text("\n").with_text(&other.text).checks(other.checks)
    }

    /// Adds checks.
    #[must_use]
    pub fn checks(mut self, checks: impl IntoIterator<Item = Check>) -> Self {
        self.checks.extend(checks);
        self
    }

    /// Returns the text with its tables, without the checks.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the data of the tables.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the pictures.
    #[must_use]
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// Returns the checks and their results.
    #[must_use]
    pub fn results(&self) -> &[Check] {
        &self.checks
    }

    /// Returns true if every check passed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.verdict != Verdict::Fails)
    }
}

/// Writes the text, then a line or two for each check.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text.trim_end())?;
        writeln!(f)?;
        self.checks.iter().try_for_each(|check| write!(f, "{check}"))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Passes => "holds",
            Verdict::Differs => "differs",
            Verdict::Fails => "FAILS",
        };
        writeln!(f, "{verdict}  {}", self.claim)?;
        writeln!(f, "       {}", self.measured)
    }
}

/// Returns the experiment with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fails_with_one_check_and_names_it() {
        let check = |claim: &str, holds| Check::new(claim, "1 < 2", holds);
        let checks = vec![check("one is less", true), check("two is less", false)];
        let report = Report::new("table\n").checks(checks);
        assert!(!report.holds());
        let expected = "\
table

holds  one is less
       1 < 2
FAILS  two is less
       1 < 2
";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn names_are_different_and_can_be_found() {
        for experiment in ALL {
            let found = ALL.iter().filter(|other| other.name == experiment.name).count();
            assert_eq!(found, 1, "{}", experiment.name);
            assert_eq!(find(experiment.name).map(|found| found.about), Some(experiment.about));
        }
        assert!(find("no-such-figure").is_none());
    }
}
