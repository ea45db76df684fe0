//! What may be asked for on the command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use freeboard::sched_core::Nanos;
use freeboard::shaper::Overhead;

use super::Setup;
use crate::discipline::Discipline;
use crate::notation;

/// A run of the scenario and where its results go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The scenario.
    pub setup: Setup,
    /// The uplink's queue, in turn.
    pub disciplines: Vec<Discipline>,
    /// Where the departures of the uplink go; see [`Options::pcap_of`].
    pub pcap: Option<PathBuf>,
    /// Where the chart goes.
    pub svg: PathBuf,
}

impl Default for Options {
    /// All disciplines, no capture, the chart in the current directory.
    fn default() -> Self {
        Self {
            setup: Setup::default(),
            disciplines: Discipline::ALL.to_vec(),
            pcap: None,
            svg: PathBuf::from("home_gateway.svg"),
        }
    }
}

const SECONDS: core::ops::RangeInclusive<u64> = 10..=100_000;

impl Options {
    /// What `--help` prints.
    #[must_use]
    pub fn help() -> String {
        let [all, names] = [Discipline::ALL.as_slice(), &Discipline::NAMED]
            .map(|some| some.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "));
        format!(
            "\
usage: home_gateway [--seconds N] [--seed N] [--uplink RATE] [--link WORDS] [--scheduler NAME]
                    [--svg FILE] [--pcap FILE]

Eight uploads fill the uplink of a home while web pages load, two people are on the phone and one
sends video. The uplink's queue is {all} in turn; one table compares them.

  --seconds N       simulated time that is measured, {} to {} [300]
  --seed N          chooses everything that is random [1]
  --uplink RATE     the uplink: 1mbit, 512kbit, or bits per second [1mbit]
  --link WORDS      what the link adds to a packet, as in \"pppoe-llcsnap\" or \"overhead 44 atm\" [raw]
  --scheduler NAME  this queue only: {names} [all]
  --svg FILE        where the delays of the calls are drawn [home_gateway.svg]
  --pcap FILE       write the packets that leave the uplink's queue; with several queues the name
                    of each is put before the extension: FILE-sqf.pcap
",
            SECONDS.start(),
            SECONDS.end(),
        )
    }

    /// Reads the words behind the program's name; `None` if help was asked for.
    ///
    /// # Errors
    /// One line that names the word and says what is accepted.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut options = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            let (name, joined) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.into())),
                _ => (text.as_str(), None),
            };
            let mut value = || {
                let next = joined.clone().or_else(|| words.next());
                next.ok_or_else(|| format!("{name} needs a value; see --help"))
            };
            let named = |why: &dyn core::fmt::Display| format!("{name}: {why}");
            match name {
                "--help" | "-h" => return Ok(None),
                "--seconds" => {
                    let seconds = number(name, &value()?, SECONDS)?;
                    options.setup.duration = Nanos::from_secs(seconds);
                }
                "--seed" => options.setup.seed = number(name, &value()?, 0..=u64::MAX)?,
                "--uplink" => {
                    let rate = notation::rate(&value()?.to_string_lossy());
                    options.setup.uplink = rate.map_err(|error| named(&error))?;
                }
                "--link" => {
                    let words = value()?.to_string_lossy().into_owned();
                    // The lengths of IP packets contain no header below them.
                    let framing = Overhead::from_keywords(&words, 0);
                    options.setup.framing = framing.map_err(|error| named(&error))?;
                }
                "--scheduler" => {
                    let discipline = value()?.to_string_lossy().parse::<Discipline>();
                    options.disciplines = vec![discipline.map_err(|error| named(&error))?];
                }
                "--svg" => options.svg = value()?.into(),
                "--pcap" => options.pcap = Some(value()?.into()),
                _ => {
                    return Err(format!(
                        "{text:?} is not an option; accepted: --seconds, --seed, --uplink, \
                         --link, --scheduler, --svg, --pcap, --help"
                    ));
                }
            }
        }
        Ok(Some(options))
    }

    /// The capture of one of the disciplines: the file that was named if there is only one, else a
    /// file beside it with the discipline in its name.
    #[must_use]
    pub fn pcap_of(&self, discipline: Discipline) -> Option<PathBuf> {
        let file = self.pcap.as_deref()?;
        if self.disciplines.len() == 1 {
            return Some(file.to_owned());
        }
        let mut name = file.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{discipline}."));
        name.push(file.extension().unwrap_or("pcap".as_ref()));
        Some(file.parent().unwrap_or(Path::new("")).join(name))
    }
}

fn number(
    name: &str,
    word: &OsString,
    accepted: core::ops::RangeInclusive<u64>,
) -> Result<u64, String> {
    let (first, last) = (*accepted.start(), *accepted.end());
    let parsed = word.to_str().and_then(|word| word.parse().ok());
    parsed
        .filter(|number| accepted.contains(number))
        .ok_or_else(|| format!("{name}: {word:?} is not a whole number from {first} to {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Option<Options>, String> {
        Options::parse(words.split_whitespace().map(OsString::from))
    }

    #[test]
    fn no_words_are_the_defaults_and_help_wins() {
        assert_eq!(parse(""), Ok(Some(Options::default())));
        assert_eq!(parse("--seed 3 --help"), Ok(None));
    }

    #[test]
    fn every_option_is_understood_in_both_forms() {
        let apart = parse(
            "--seconds 60 --seed 7 --uplink 512kbit --scheduler sqf --pcap a.pcap --svg b.svg --link pppoe-llcsnap",
        );
        let joined = parse(
            "--seconds=60 --seed=7 --uplink=512kbit --scheduler=sqf --pcap=a.pcap --svg=b.svg --link=pppoe-llcsnap",
        );
        let options = apart.clone().unwrap().unwrap();
        assert_eq!(apart, joined);
        assert_eq!(options.setup.duration, Nanos::from_secs(60));
        assert_eq!(options.setup.uplink.as_bits_per_second(), Some(512_000));
        assert_eq!(options.setup.framing, Overhead::PPPOE_LLCSNAP);
        assert_eq!((options.setup.seed, options.disciplines), (7, vec![Discipline::Sqf]));
        assert_eq!((options.pcap, options.svg), (Some("a.pcap".into()), "b.svg".into()));
    }

    #[test]
    fn a_bad_word_is_named_in_one_line_with_what_is_accepted() {
        for (words, parts) in [
            ("--uplink 1mb", ["--uplink", "\"1mb\"", "from 1kbit to 400gbit"]),
            ("--seconds 9", ["--seconds", "\"9\"", "from 10 to 100000"]),
            ("--seed -1", ["--seed", "\"-1\"", "from 0 to"]),
            ("--scheduler sfq", ["--scheduler", "\"sfq\"", "accepted: fifo, drr, sqf"]),
            ("--link adsl", ["--link", "`adsl`", "pppoe-llcsnap"]),
            ("--speed", ["\"--speed\"", "is not an option", "--seconds"]),
            ("now", ["\"now\"", "is not an option", "--seconds"]),
            ("--pcap", ["--pcap", "needs a value", "--help"]),
        ] {
            let error = parse(words).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{words}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn captures_of_several_queues_have_names_of_their_own() {
        let several = parse("--pcap out/up.cap").unwrap().unwrap();
        assert_eq!(several.pcap_of(Discipline::Sqf), Some("out/up-sqf.cap".into()));
        let one = parse("--pcap out/up --scheduler drr").unwrap().unwrap();
        assert_eq!(one.pcap_of(Discipline::Drr), Some("out/up".into()));
        let plain = parse("--pcap up").unwrap().unwrap();
        assert_eq!(plain.pcap_of(Discipline::Fifo), Some("up-fifo.pcap".into()));
        assert_eq!(parse("").unwrap().unwrap().pcap_of(Discipline::Fifo), None);
    }
}
