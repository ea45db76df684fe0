//! Command-line options of the home gateway.

use std::path::{Path, PathBuf};

use clap::Parser;
use freeboard::sched_core::Nanos;
use freeboard::shaper::{Overhead, Rate};

use super::Setup;
use crate::discipline::Discipline;
use crate::notation::{self, Seed, within};

/// Simulates a home gateway with a saturated uplink.
///
/// Eight uploads fill the uplink while web pages load, two calls run and a video is sent. Prints a
/// table that compares several queues for the uplink.
#[derive(Clone, Debug, Parser, PartialEq, Eq)]
#[command(name = "home_gateway", max_term_width = 80)]
pub struct Options {
    /// Simulated time to measure, in seconds, 10 to 100000.
    #[arg(
        long,
        value_name = "N",
        default_value = "300",
        allow_negative_numbers = true,
        value_parser = within(10..=100_000)
    )]
    seconds: u64,
    #[command(flatten)]
    seed: Seed,
    /// Rate of the uplink, for example 1mbit or 512kbit; a plain number is bits per second.
    #[arg(long, value_name = "RATE", default_value = "1mbit", value_parser = notation::rate)]
    uplink: Rate,
    /// Framing of packets on the link, in keywords of tc, for example "pppoe-llcsnap" or "overhead
    /// 44 atm".
    #[arg(long, value_name = "KEYWORDS", default_value = "raw", value_parser = framing)]
    link: Overhead,
    /// Run only this queue; by default smart_queue, fifo, drr, sqf, sqf+floor and qfq.
    #[arg(long, value_name = "NAME", value_parser = notation::discipline())]
    scheduler: Option<Discipline>,
    /// File for the chart of call delays (SVG).
    #[arg(long, value_name = "FILE", default_value = "home_gateway.svg")]
    pub svg: PathBuf,
    /// File for a capture of the packets that leave the uplink's queue; with several queues, the
    /// name of each is inserted before the extension: FILE-sqf.pcap.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
}

/// Parses the framing. Lengths of IP packets include no lower header.
fn framing(words: &str) -> Result<Overhead, String> {
    Overhead::from_keywords(words, 0).map_err(|error| error.to_string())
}

impl Options {
    /// Returns the parameters of the run.
    #[must_use]
    pub fn setup(&self) -> Setup {
        Setup {
            duration: Nanos::from_secs(self.seconds),
            seed: self.seed.number,
            uplink: self.uplink,
            framing: self.link,
        }
    }

    /// Returns the disciplines to run in turn.
    #[must_use]
    pub fn disciplines(&self) -> Vec<Discipline> {
        self.scheduler.map_or_else(|| Discipline::ALL.to_vec(), |only| vec![only])
    }

    /// Returns the capture file of a discipline: the named file if there is only one discipline,
    /// otherwise a file beside it with the discipline in its name.
    #[must_use]
    pub fn pcap_of(&self, discipline: Discipline) -> Option<PathBuf> {
        let file = self.pcap.as_deref()?;
        if self.scheduler.is_some() {
            return Some(file.to_owned());
        }
        let mut name = file.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{discipline}."));
        name.push(file.extension().unwrap_or("pcap".as_ref()));
        Some(file.parent().unwrap_or(Path::new("")).join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options, String> {
        let words = ["home_gateway"].into_iter().chain(words.split_whitespace());
        Options::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn no_words_are_the_defaults() {
        let options = parse("").unwrap();
        assert_eq!(options.setup(), Setup::default());
        assert_eq!(options.disciplines(), Discipline::ALL);
        assert_eq!((options.pcap, options.svg), (None, "home_gateway.svg".into()));
    }

    #[test]
    fn every_option_is_understood_in_both_forms() {
        let apart = parse(
            "--seconds 60 --seed 7 --uplink 512kbit --scheduler sqf --pcap a.pcap --svg b.svg --link pppoe-llcsnap",
        );
        let joined = parse(
            "--seconds=60 --seed=7 --uplink=512kbit --scheduler=sqf --pcap=a.pcap --svg=b.svg --link=pppoe-llcsnap",
        );
        let options = apart.clone().unwrap();
        assert_eq!(apart, joined);
        let setup = options.setup();
        assert_eq!(setup.duration, Nanos::from_secs(60));
        assert_eq!(setup.uplink.as_bits_per_second(), Some(512_000));
        assert_eq!(setup.framing, Overhead::PPPOE_LLCSNAP);
        assert_eq!((setup.seed, options.disciplines()), (7, vec![Discipline::Sqf]));
        assert_eq!((options.pcap, options.svg), (Some("a.pcap".into()), "b.svg".into()));
    }

    #[test]
    fn a_bad_word_is_named_with_what_is_accepted() {
        for (words, parts) in [
            ("--uplink 1mb", ["--uplink", "\"1mb\"", "1kbit to 400gbit"]),
            ("--seconds 9", ["--seconds", "'9'", "expected 10 to 100000"]),
            ("--seed -1", ["--seed", "'-1'", "expected 0 to"]),
            ("--scheduler sfq", ["--scheduler", "'sfq'", "[possible values: fifo, drr, sqf"]),
            ("--link adsl", ["--link", "`adsl`", "pppoe-llcsnap"]),
            ("--sed 3", ["'--sed'", "a similar argument exists", "'--seed'"]),
            ("now", ["unexpected", "'now'", "--help"]),
            ("--pcap", ["--pcap", "a value is required", "--help"]),
        ] {
            let error = parse(words).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{words}: {error}");
        }
    }

    /// Goal: the help fits a terminal of 80 columns.
    #[test]
    fn the_help_is_as_wide_as_a_terminal() {
        let help = parse("-h").unwrap_err() + &parse("--help").unwrap_err();
        assert!(help.contains("--scheduler <NAME>"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }

    #[test]
    fn captures_of_several_queues_have_names_of_their_own() {
        let several = parse("--pcap out/up.cap").unwrap();
        assert_eq!(several.pcap_of(Discipline::Sqf), Some("out/up-sqf.cap".into()));
        let one = parse("--pcap out/up --scheduler drr").unwrap();
        assert_eq!(one.pcap_of(Discipline::Drr), Some("out/up".into()));
        let plain = parse("--pcap up").unwrap();
        assert_eq!(plain.pcap_of(Discipline::Fifo), Some("up-fifo.pcap".into()));
        assert_eq!(parse("").unwrap().pcap_of(Discipline::Fifo), None);
    }
}
