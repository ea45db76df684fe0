//! Command-line options of `sim reproduce`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::harness::Shard;
use super::{ALL, Experiment, find, papers};
use crate::notation::within;

/// Reproduces results of the papers.
///
/// Prints assumptions, tables and checks with their results, and writes charts. Exits with code 1
/// if a check fails.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Experiments to run [default: all].
    #[arg(value_name = "NAME", value_parser = experiment())]
    experiments: Vec<Group>,
    /// Number of seeds, 2 to 10000: runs use the seeds 1 to COUNT.
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "10",
        allow_negative_numbers = true,
        value_parser = within(2..=10_000)
    )]
    seeds: u64,
    /// Run each experiment with the fewest seeds for which its checks pass as with ten: 2 to 5.
    ///
    /// All experiments together take about three minutes on two idle cores, most of it `sqf-vbr`,
    /// whose rare event needs five seeds, and `age-based`.
    #[arg(long, conflicts_with = "seeds")]
    quick: bool,
    /// Folder for the charts, created if missing.
    #[arg(long, value_name = "FOLDER", default_value = "target/figures")]
    pub out: PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented options would get a heading in the help")]
    pub kept: Kept,
    /// Also write one page with the papers' expectations and the measurements side by side: HTML
    /// with all text and charts, or only the table if the name ends with .md.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// List the experiments, and every figure, table and algorithm of the papers with the place of
    /// its result, and exit.
    #[arg(long)]
    pub list: bool,
}

/// Options for results that outlive the command.
#[derive(Args, Clone, Debug)]
pub struct Kept {
    /// Folder that keeps the result of each run, created if missing: an interrupted command
    /// continues where it ended. Delete it after a change of the simulator.
    #[arg(long, value_name = "FOLDER")]
    pub runs: Option<PathBuf>,
    /// Do only the K-th of N parts of the runs, write them to --runs, and print no report: `sim
    /// merge` prints it once all parts are there.
    #[arg(long, value_name = "K/N", requires = "runs")]
    shard: Option<Shard>,
}

impl Kept {
    /// Returns the part of the runs to do.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shard.unwrap_or(Shard::WHOLE)
    }
}

/// Experiments selected by one name.
type Group = Vec<&'static Experiment>;

/// Papers whose name selects all experiments that begin with it and a dash.
const PAPERS: [(&str, &str); 2] = [
    ("cake", "all figures of the CAKE paper"),
    ("sqf-video", "all figures of the paper on SQF for audio and video"),
];

fn experiment() -> impl TypedValueParser<Value = Group> {
    let figures = ALL.iter().map(|one| (one.name, one.about));
    let names = figures.chain(PAPERS).map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|name| group(&name))
}

/// Returns the experiment with this name, or all experiments of the paper.
fn group(name: &str) -> Group {
    let of_paper =
        |one: &&Experiment| one.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    find(name).map_or_else(|| ALL.iter().filter(of_paper).collect(), |one| vec![one])
}

impl Options {
    /// Returns the selected experiments in the order of the command line, or all if none was named.
    #[must_use]
    pub fn experiments(&self) -> Vec<&'static Experiment> {
        if self.experiments.is_empty() { ALL.iter().collect() } else { self.experiments.concat() }
    }

    /// Returns the number of seeds of an experiment.
    #[must_use]
    pub fn seeds(&self, experiment: &Experiment) -> u32 {
        if self.quick { experiment.quick } else { u32::try_from(self.seeds).unwrap_or(u32::MAX) }
    }

    /// Returns the output of `--list`: a line for each experiment and each group of experiments,
    /// then one for each item of the papers.
    #[must_use]
    pub fn list() -> String {
        let figures = ALL.iter().map(|experiment| (experiment.name, experiment.about));
        let names = figures.chain(PAPERS);
        let names: String = names.map(|(name, about)| format!("  {name:<18}  {about}\n")).collect();
        format!("experiments:\n{names}\npapers:\n{}", papers::list())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    fn parse(words: &[&str]) -> Result<Options, String> {
        let line = CommandLine::try_parse_from(["reproduce"].iter().chain(words));
        line.map(|line| line.options).map_err(|error| error.to_string())
    }

    #[test]
    fn words_are_read_in_any_order_and_in_both_forms() {
        for words in
            [&["qfq-fig7", "--seeds", "3", "--out", "x"][..], &["--out=x", "--seeds=3", "qfq-fig7"]]
        {
            let options = parse(words).unwrap();
            let names: Vec<_> = options.experiments().iter().map(|e| e.name).collect();
            assert_eq!((names, options.seeds(&ALL[0])), (vec!["qfq-fig7"], 3));
            assert_eq!(options.out, PathBuf::from("x"));
        }
        let all = parse(&[]).unwrap();
        assert_eq!((all.experiments().len(), all.seeds(&ALL[0])), (ALL.len(), 10));
        let quick = parse(&["--quick"]).unwrap();
        assert!(
            ALL.iter().all(|one| quick.seeds(one) == one.quick && (2..10).contains(&one.quick))
        );
        assert!(parse(&["--list"]).unwrap().list);
    }

    #[test]
    fn a_paper_stands_for_its_figures() {
        let names = |word| -> Vec<&str> {
            parse(&[word]).unwrap().experiments().iter().map(|one| one.name).collect()
        };
        let cake = names("cake");
        let all = ALL.iter().map(|one| one.name).filter(|name| name.starts_with("cake-"));
        assert_eq!(cake, all.collect::<Vec<_>>());
        let expected = [
            "cake-alg1",
            "cake-fig1",
            "cake-fig2",
            "cake-fig3",
            "cake-fig4",
            "cake-fig5",
            "cake-fig6",
        ];
        assert_eq!(cake, expected);
        let video = names("sqf-video");
        let expected =
            ["sqf-video-theory", "sqf-video-testbed", "sqf-video-peak", "sqf-video-jitter"];
        assert_eq!(video, expected);
        for (paper, _) in PAPERS {
            assert!(
                Options::list().lines().any(|line| line.split_whitespace().next() == Some(paper))
            );
        }
    }

    #[test]
    fn a_refused_word_is_named_with_what_is_accepted() {
        for (words, expected) in [
            (&["--seeds", "1"][..], "invalid value '1' for '--seeds <COUNT>': expected 2 to 10000"),
            (&["--seeds", "-1"], "invalid value '-1' for '--seeds <COUNT>': expected 2 to 10000"),
            (&["--quick", "--seeds", "3"], "'--quick' cannot be used with '--seeds <COUNT>'"),
            (&["--out"], "a value is required for '--out <FOLDER>'"),
            (&["--seed", "1"], "a similar argument exists: '--seeds'"),
            (&["qfq-fig8"], "invalid value 'qfq-fig8' for '[NAME]...'"),
            (&["qfq-fig8"], "[possible values: qfq-fig7, "),
            (&["qfq-fig8"], "a similar value exists: 'qfq-fig7'"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
