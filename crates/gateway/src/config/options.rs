//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser};

use crate::config::{Config, Word, Written};

/// What `--help` says.
pub(crate) const USAGE: &str = "\
usage: freeboard-gateway --lan DEV --wan DEV --up RATE --down RATE [options]
       freeboard-gateway top --stats SOCKET

Forwards Ethernet frames between two devices, each direction through a queue that isolates flows and
hosts, at the rates given. Up is from lan to wan.

  --lan DEV           the device on the side of the hosts
  --wan DEV           the device on the side of the line
  --up RATE           10mbit, 512kbit, 1gbit, unlimited, or bits per second
  --down RATE         the same for the way back
  --io WORD           packet: sockets on existing interfaces; tap: attach to TAP devices [packet]
  --queue WORD        fifo, sqf, drr or qfq [drr]
  --hosts WORD        flows, srchost, dsthost, hosts, dual-srchost, dual-dsthost, triple-isolate, users+sqf,
                      or lan: hosts on the lan side and then their flows [lan with drr, flows with others]
  --max-hosts N       hosts told apart at once, 1 to 16384; beyond them, two and more share one share. Queues grow
                      with it: 1.2 kB a host and direction [2048]
  --limit N           what each direction may hold: bytes, and at most 8192 packets then, or packets with a p
                      behind them. Each takes memory: the MTU and about 300 bytes
                      [4194304; with fifo 1000p, as many as a modem holds]
  --flush-unserved MS with sqf: a queue that has to make room and was not served for so long is dropped
                      whole, 0 to 60000; 0 is never [0]
  --overhead N        bytes that the line adds to an IP packet, -64 to 256
  --mpu N             the least bytes of a packet on the line, 0 to 256
  --framing WORD      none, atm or ptm [none]
  --catch-up MS       how late a timer may be without the line losing time, 0 to 1000 [10]
  --config FILE       the same options without dashes, as TOML; words win. Read again on SIGHUP
  --stats SOCKET      a Unix socket on which statistics are given, a line of JSON each time
  --stats-every SECS  how often [1]
  --metrics ADDR      an address, such as 127.0.0.1:9100, that answers HTTP with metrics for Prometheus
  --user NAME         who runs it once the devices are open, if root started it [nobody]
  --help              this text
  --version           which version it is

SIGHUP reads the file again and says what has changed. SIGUSR1 prints statistics as JSON; SIGTERM and
SIGINT do so and end. Exit codes: 1 a device is gone, or something else failed while forwarding; 2 a word or
the file is not accepted; 3 the system does not have what they name, or does not give it. What single
hosts get is told in the file, in tables of address = value: [weights], [rates] and [ceils]. Above its rate a
host gets what the others leave, above its ceil nothing.
";

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Request {
    Run(Box<Source>),
    Top(PathBuf),
    Help,
    Version,
}

/// Where the configuration comes from, to be read again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    words: Written,
    file: Option<PathBuf>,
}

impl Source {
    #[cfg(test)]
    pub(crate) fn file(&self) -> Option<&std::path::Path> {
        self.file.as_deref()
    }

    /// Reads the file, if there is one, and checks all.
    pub(crate) fn read(&self) -> Result<Config, String> {
        let file = self.file.as_deref().map(Written::from_file).transpose()?;
        self.words.clone().over(file.unwrap_or_default()).check()
    }

    /// The same while frames wait, if there is a file at all.
    pub(crate) fn read_again(&self) -> Option<Result<Config, String>> {
        let file = self.file.as_deref()?;
        // One that waits for a writer would keep the frames waiting; what it had to say it has said.
        if std::fs::metadata(file).is_ok_and(|there| !there.is_file()) {
            let file = file.display();
            return Some(Err(format!("--config {file}: accepted is a regular file now")));
        }
        Some(self.read())
    }
}

/// Reads the words behind the program's name.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let mut parser = Parser::from_args(words);
    let mut source = Source::default();
    let mut is_top = false;
    let mut is_first = true;
    while let Some(word) = parser.next().map_err(one_line)? {
        let words = &mut source.words;
        let option = match &word {
            Arg::Long(name) => format!("--{name}"),
            Arg::Short(name) => format!("-{name}"),
            Arg::Value(value) => format!("{value:?}"),
        };
        if is_top && !TOP.contains(&option.as_str()) {
            return Err(format!("{option}: behind top accepted are {}", TOP.join(", ")));
        }
        let place = match word {
            Arg::Value(value) if is_first && value == "top" => {
                (is_top, is_first) = (true, false);
                continue;
            }
            Arg::Value(_) => {
                return Err(format!(
                    "{option}: accepted are {}, and top as first word",
                    accepted()
                ));
            }
            Arg::Long("help") | Arg::Short('h') => return Ok(Request::Help),
            Arg::Long("version") | Arg::Short('V') => return Ok(Request::Version),
            Arg::Long("config") => {
                let file = PathBuf::from(parser.value().map_err(one_line)?);
                if file.as_os_str().is_empty() {
                    return Err("--config \"\": accepted is the path of a file".to_owned());
                }
                if source.file.replace(file).is_some() {
                    return Err(twice(&option));
                }
                is_first = false;
                continue;
            }
            Arg::Long("lan") => &mut words.lan,
            Arg::Long("wan") => &mut words.wan,
            Arg::Long("up") => &mut words.up,
            Arg::Long("down") => &mut words.down,
            Arg::Long("io") => &mut words.io,
            Arg::Long("queue") => &mut words.queue,
            Arg::Long("hosts") => &mut words.hosts,
            Arg::Long("max-hosts") => &mut words.max_hosts,
            Arg::Long("limit") => &mut words.limit,
            Arg::Long("flush-unserved") => &mut words.flush_unserved,
            Arg::Long("overhead") => &mut words.overhead,
            Arg::Long("mpu") => &mut words.mpu,
            Arg::Long("framing") => &mut words.framing,
            Arg::Long("catch-up") => &mut words.catch_up,
            Arg::Long("stats") => &mut words.stats,
            Arg::Long("stats-every") => &mut words.stats_every,
            Arg::Long("metrics") => &mut words.metrics,
            Arg::Long("user") => &mut words.user,
            Arg::Long(_) | Arg::Short(_) => {
                return Err(format!("{option}: no such option; accepted are {}", accepted()));
            }
        };
        let text = parser.value().map_err(one_line)?.into_string();
        let text = text.map_err(|text| format!("{option} {text:?}: accepted is UTF-8"))?;
        if place.replace(Word::said(text)).is_some() {
            return Err(twice(&option));
        }
        is_first = false;
    }
    if is_top {
        return match source.words.stats {
            Some(socket) if !socket.text().is_empty() => {
                Ok(Request::Top(PathBuf::from(socket.text())))
            }
            _ => Err("top: --stats SOCKET is missing: the socket of a running gateway".to_owned()),
        };
    }
    Ok(Request::Run(Box::new(source)))
}

/// What `top` knows.
const TOP: [&str; 5] = ["--stats", "--help", "--version", "-h", "-V"];

/// The options of the help.
fn accepted() -> String {
    let options = USAGE.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let options: Vec<&str> = options.filter(|word| word.starts_with("--")).collect();
    options.join(", ")
}

fn twice(option: &str) -> String {
    format!("{option}: given twice; accepted is one")
}

fn one_line(error: lexopt::Error) -> String {
    error.to_string().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Request, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn config(line: &str) -> Result<Config, String> {
        match words(line)? {
            Request::Run(source) => source.read(),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn every_option_reaches_the_configuration() {
        let config = config(
            "--lan a --wan b --up 1mbit --down 2mbit --io tap --queue qfq --hosts srchost --max-hosts 77 --limit 9p \
             --overhead 8 --mpu 64 --framing ptm --catch-up 3 \
             --stats s --stats-every 5 --metrics 127.0.0.1:9100 --user u",
        );
        let text = format!("{:?}", config.unwrap());
        for part in [
            "Tap",
            "Qfq",
            "SrcHost",
            "max_hosts: 77",
            "Packets(9)",
            "overhead: 8",
            "mpu: 64",
            "Ptm",
            "catch_up: Nanos(3000000)",
            "9100",
            "\"u\"",
            "stats_every: 5",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_option_of_sqf_reaches_the_configuration() {
        let line = "--lan a --wan b --up 1mbit --down 1mbit --queue sqf --flush-unserved 300";
        let share = config(line).unwrap().share;
        assert_eq!(share.flush_unserved, Some(freeboard::sched_core::Nanos::from_millis(300)));
    }

    #[test]
    fn other_words_are_named() {
        for (line, part) in [
            ("--speed 1", "--speed: no such option; accepted are --lan, --wan, --up"),
            ("-x", "-x: no such option; accepted are --lan"),
            ("bottom", "\"bottom\": accepted are --lan, --wan"),
            ("--lan a top", "\"top\": accepted are --lan"),
            ("--lan", "--lan"),
            ("--up 1mbit --up 2mbit", "--up: given twice"),
            ("--config a --config b", "--config: given twice"),
            ("--config=", "--config \"\": accepted is"),
            ("top --stats s --up 1mbit", "--up: behind top accepted are --stats"),
            ("top --stats s --speed 1", "--speed: behind top accepted are --stats"),
            ("top --stats s more", "\"more\": behind top accepted are --stats"),
            ("top --stats s --stats t", "--stats: given twice"),
            ("top --stats=", "--stats SOCKET is missing"),
            ("top", "--stats SOCKET is missing"),
            ("--lan a --wan b --up 1mbit --down 1mbit --queue cake", "--queue \"cake\""),
        ] {
            let error = config(line).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{line}: {error}");
        }
        assert!(matches!(words("top --stats s"), Ok(Request::Top(_))));
        assert!(matches!(words("--help"), Ok(Request::Help)));
        assert!(matches!(words("top --help"), Ok(Request::Help)));
        let listed = accepted();
        use std::os::unix::ffi::OsStringExt as _;
        let error = parse([OsString::from("--lan"), OsString::from_vec(vec![b'a', 0xff])]);
        assert_eq!(error.unwrap_err(), "--lan \"a\\xFF\": accepted is UTF-8");
        for option in ["--lan", "--stats-every", "--metrics", "--user", "--config", "--help"] {
            assert!(listed.split(", ").any(|one| one == option), "{option} in {listed}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = config("--config /nowhere/x.toml").unwrap_err();
        assert!(error.starts_with("--config /nowhere/x.toml: "), "{error}");
        let error = config("--config /dev/zero").unwrap_err();
        assert_eq!(error, "--config /dev/zero: accepted are at most 262144 bytes");
    }
}
