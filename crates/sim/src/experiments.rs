//! The figures of the papers, made again: what `sim reproduce` runs.
//!
//! An experiment is a module here, with a folder: it runs its `scenario`, prints a table, draws a
//! picture, and judges the sentences that must hold of them. To add one, write its module with a
//! constant [`Experiment`], name the module below, and put the constant into [`ALL`].

pub mod age_based;
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
pub mod home_gateway;
pub mod l4s;
pub mod narrow_uplink;
mod options;
pub mod qfq_fig7;
pub mod sparse;
pub mod sqf_vbr;
pub mod users_sqf;

use core::fmt;

use crate::progress::Progress;

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
    sqf_vbr::EXPERIMENT,
    sparse::EXPERIMENT,
    attacks::EXPERIMENT,
    age_based::EXPERIMENT,
    aqm_linux::EXPERIMENT,
    codel_rfc::EXPERIMENT,
    l4s::EXPERIMENT,
    autorate::EXPERIMENT,
];

/// A figure or table that can be made again.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line: the paper's key in `docs/disciplines`, and the figure.
    pub name: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    /// Runs it with the seeds 1, 2, … up to this one, and shows how many runs are done.
    pub run: fn(seeds: u32, progress: &Progress) -> Report,
}

/// What an experiment has shown. A function of the seeds: the same seeds give the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was run, what was assumed, and the tables.
    pub text: String,
    /// The pictures.
    pub pictures: Vec<Picture>,
    /// What must hold.
    pub sentences: Vec<Sentence>,
}

/// A picture and the name of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// A file name without folders.
    pub file: String,
    /// The picture as SVG.
    pub svg: String,
}

/// A sentence that must hold, and whether it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The claim.
    pub claim: String,
    /// The figures it was judged by.
    pub measured: String,
    /// The verdict.
    pub holds: bool,
}

impl Sentence {
    /// What a source says and what is not so here, for the reason `why`. Holds while it is not so:
    /// when it has become true the reason is none, and the sentence fails.
    #[must_use]
    pub fn differs(what: &str, why: &str, measured: String, is_so: bool) -> Self {
        Self { claim: format!("{what} differs: {why}"), measured, holds: !is_so }
    }

    /// Whether each of some runs, or of the rows made of them, as `what` says, was in balance.
    fn accounted_for(what: &str, balanced: impl Iterator<Item = bool> + Clone) -> Self {
        Self {
            claim: "every packet is accounted for in every run".to_owned(),
            measured: format!("{} {what}", balanced.clone().count()),
            holds: { balanced }.all(|is_balanced| is_balanced),
        }
    }
}

impl Report {
    /// Whether every sentence holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.sentences.iter().all(|sentence| sentence.holds)
    }
}

/// The text, then a line or two for each sentence.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text.trim_end())?;
        writeln!(f)?;
        self.sentences.iter().try_for_each(|sentence| write!(f, "{sentence}"))
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds { "holds" } else { "FAILS" };
        writeln!(f, "{verdict}  {}", self.claim)?;
        writeln!(f, "       {}", self.measured)
    }
}

/// The experiment with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fails_with_one_sentence_and_names_it() {
        let sentence = |claim: &str, holds| Sentence {
            claim: claim.to_owned(),
            measured: "1 < 2".to_owned(),
            holds,
        };
        let sentences = vec![sentence("one is less", true), sentence("two is less", false)];
        let report = Report { text: "table\n".to_owned(), pictures: Vec::new(), sentences };
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
