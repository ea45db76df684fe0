//! What may be asked for on the command line of `sim reproduce`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{ALL, Experiment, find};

/// Which experiments are run, with which seeds, and where the pictures go.
#[derive(Clone, Debug)]
pub struct Options {
    /// In the order they were named; all if none was.
    pub experiments: Vec<&'static Experiment>,
    /// The seeds are 1 to this.
    pub seeds: u32,
    /// The folder of the pictures; made if there is none.
    pub out: PathBuf,
}

/// What the words ask for.
#[derive(Clone, Debug)]
pub enum Request {
    /// To run experiments.
    Run(Options),
    /// The usage.
    Help,
    /// The names of all experiments.
    List,
}

impl Default for Options {
    /// Everything, ten seeds, pictures beside what cargo builds.
    fn default() -> Self {
        Self { experiments: ALL.iter().collect(), seeds: 10, out: PathBuf::from("target/figures") }
    }
}

const SEEDS: core::ops::RangeInclusive<u32> = 2..=10_000;

impl Options {
    /// What `--help` prints.
    #[must_use]
    pub fn help() -> String {
        format!(
            "\
usage: sim reproduce [NAME...] [--seeds COUNT] [--out FOLDER] [--list]

Makes figures of the papers again: prints what was assumed, the table, and each sentence that must
hold of it with its verdict; writes the pictures. Without names: all of them. Fails if a sentence does.

  --seeds COUNT     run with the seeds 1 to COUNT, {} to {} [10]
  --out FOLDER      where the pictures go [target/figures]
  --list            only name what there is

{}",
            SEEDS.start(),
            SEEDS.end(),
            Self::list()
        )
    }

    /// What `--list` prints: a line for each experiment.
    #[must_use]
    pub fn list() -> String {
        let line =
            |experiment: &Experiment| format!("  {:<16}  {}\n", experiment.name, experiment.about);
        ALL.iter().map(line).collect()
    }

    /// Reads the words behind `reproduce`.
    ///
    /// # Errors
    /// One line that names the word and says what is accepted.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
        let mut options = Self { experiments: Vec::new(), ..Self::default() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            let (name, joined) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.into())),
                _ => (text.as_str(), None),
            };
            let mut value = || {
                let next = joined.clone().or_else(|| words.next());
                next.ok_or_else(|| format!("{name} needs a value; see sim reproduce --help"))
            };
            match name {
                "--help" | "-h" => return Ok(Request::Help),
                "--list" => return Ok(Request::List),
                "--out" => options.out = value()?.into(),
                "--seeds" => {
                    let word = value()?.to_string_lossy().into_owned();
                    let seeds = word.parse().ok().filter(|seeds| SEEDS.contains(seeds));
                    let (least, most) = (SEEDS.start(), SEEDS.end());
                    options.seeds = seeds.ok_or_else(|| {
                        format!("--seeds {word:?} is refused; accepted: {least} to {most}")
                    })?;
                }
                _ if name.starts_with('-') => {
                    return Err(format!(
                        "{text:?} is not an option; accepted: --seeds, --out, --list, --help"
                    ));
                }
                _ => options.experiments.push(find(&text).ok_or_else(|| {
                    let names: Vec<_> = ALL.iter().map(|experiment| experiment.name).collect();
                    format!("{text:?} is not a figure; accepted: {}", names.join(", "))
                })?),
            }
        }
        if options.experiments.is_empty() {
            options.experiments = ALL.iter().collect();
        }
        Ok(Request::Run(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Request, String> {
        Options::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn words_are_read_in_any_order_and_in_both_forms() {
        for words in
            [&["qfq-fig7", "--seeds", "3", "--out", "x"][..], &["--out=x", "--seeds=3", "qfq-fig7"]]
        {
            let Ok(Request::Run(options)) = parse(words) else { panic!("{words:?}") };
            let names: Vec<_> = options.experiments.iter().map(|e| e.name).collect();
            assert_eq!((names, options.seeds), (vec!["qfq-fig7"], 3));
            assert_eq!(options.out, PathBuf::from("x"));
        }
        let Ok(Request::Run(all)) = parse(&[]) else { panic!("no words are everything") };
        assert_eq!((all.experiments.len(), all.seeds), (ALL.len(), 10));
        assert!(matches!(parse(&["qfq-fig7", "-h"]), Ok(Request::Help)));
        assert!(matches!(parse(&["--list"]), Ok(Request::List)));
    }

    #[test]
    fn a_refused_word_is_named_with_what_is_accepted() {
        for (words, expected) in [
            (&["--seeds", "1"][..], "--seeds \"1\" is refused; accepted: 2 to 10000"),
            (&["--seeds", "-1"], "--seeds \"-1\" is refused; accepted: 2 to 10000"),
            (&["--out"], "--out needs a value; see sim reproduce --help"),
            (
                &["--seed", "1"],
                "\"--seed\" is not an option; accepted: --seeds, --out, --list, --help",
            ),
        ] {
            assert_eq!(parse(words).err().as_deref(), Some(expected));
        }
        let why = parse(&["qfq-fig8"]).err().unwrap();
        assert!(why.starts_with("\"qfq-fig8\" is not a figure; accepted: qfq-fig7"), "{why}");
    }
}
