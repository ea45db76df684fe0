//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{Config, RawOptions};
use crate::setup::Place;

/// The command line.
///
/// Option values are kept as strings; command line and file share one validation.
#[derive(Debug, Parser)]
#[command(
    name = "freeboard-gateway",
    version,
    about = ABOUT,
    // The doc comment above is not for users.
    long_about = None,
    after_help = AFTER,
    override_usage = "freeboard-gateway --lan DEV --wan DEV --up RATE --down RATE [OPTIONS]\n       \
                      freeboard-gateway --check FILE [OPTIONS]\n       \
                      freeboard-gateway top --stats SOCKET\n       \
                      freeboard-gateway setup --lan DEV --wan DEV [--nat]\n       \
                      freeboard-gateway teardown --lan DEV --wan DEV [--nat]\n       \
                      freeboard-gateway completions SHELL",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    max_term_width = 80
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    words: RawOptions,
    /// Configuration file (TOML) with these options as keys; the command line takes precedence.
    /// SIGHUP reads the file again.
    #[arg(long, value_name = "FILE", help_heading = "Running")]
    config: Option<PathBuf>,
    /// Checks a configuration file and exits. Opens no devices.
    #[arg(long, value_name = "FILE", help_heading = "Running", conflicts_with = "config")]
    check: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows live statistics of a running gateway.
    #[command(override_usage = "freeboard-gateway top --stats SOCKET", max_term_width = 80)]
    Top {
        /// Socket of the running gateway, as given to it with --stats.
        #[arg(long, value_name = "SOCKET")]
        stats: PathBuf,
    },
    /// On a router: inserts a veth pair for the gateway between the machine's network stack and its
    /// LAN device, and moves addresses and routes to it.
    #[command(
        override_usage = "freeboard-gateway setup --lan DEV --wan DEV [--nat]",
        max_term_width = 80
    )]
    Setup(Where),
    /// Removes what `setup` created, and moves addresses and routes back.
    #[command(
        override_usage = "freeboard-gateway teardown --lan DEV --wan DEV [--nat]",
        max_term_width = 80
    )]
    Teardown(Where),
    /// Prints a completion script for a shell.
    #[command(override_usage = "freeboard-gateway completions SHELL", max_term_width = 80)]
    Completions {
        /// Shell that runs the script.
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

#[derive(Args, Debug)]
struct Where {
    /// LAN device, on the side of the hosts.
    #[arg(long, value_name = "DEV")]
    lan: String,
    /// WAN device, on the side of the link.
    #[arg(long, value_name = "DEV")]
    wan: String,
    /// Inserts the pair at the WAN device instead, for a gateway on the outer side of NAT.
    #[arg(long)]
    nat: bool,
}

impl From<Where> for Place {
    fn from(Where { lan, wan, nat }: Where) -> Self {
        Self { lan, wan, nat }
    }
}

const ABOUT: &str = "\
Forwards Ethernet frames between two devices. Each direction has a rate and a
queue that isolates flows and hosts. Upload is from the LAN to the WAN device.";

const AFTER: &str = "\
Settings of single hosts are tables of host = value in the configuration file:
[weights] for larger shares, [rates] for what a host gets even beside busy
hosts, [ceils] for what a host never exceeds. A host is an address, a prefix
(each host in it), a MAC address, vlan N, or one of [names], which are lists:
name = [addresses, prefixes, MACs].

SIGHUP reads the file again and logs the changes. SIGUSR1 prints statistics as
JSON; SIGTERM and SIGINT print them and exit.

Exit codes: 1 a device disappeared, or another failure while forwarding;
2 invalid option or file; 3 a device or another resource is missing or refused
by the system.";

/// A parsed command line.
#[derive(Debug)]
pub(crate) enum Request {
    Run(Box<Source>),
    /// Read and validate only.
    Check(Box<Source>),
    Top(PathBuf),
    SetUp(Place),
    TakeBack(Place),
    /// Print this text: help, version or a completion script.
    Say(String),
}

/// Source of the configuration, kept for reloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    words: RawOptions,
    file: Option<PathBuf>,
}

impl Source {
    #[cfg(test)]
    pub(crate) fn file(&self) -> Option<&std::path::Path> {
        self.file.as_deref()
    }

    /// Reads the file, if any, and validates everything.
    pub(crate) fn read(&self) -> Result<Config, String> {
        let file = self.file.as_deref().map(RawOptions::from_file).transpose()?;
        self.words.clone().over(file.unwrap_or_default()).check()
    }

    /// Reads and validates everything; returns the hints, one per line, and a line of approval.
    pub(crate) fn approve(&self) -> Result<String, String> {
        // Errors name the option that was given.
        let renamed = |why: String| match why.strip_prefix("--config ") {
            Some(rest) => format!("--check {rest}"),
            None => why,
        };
        let hints = self.read().map_err(renamed)?.hints;
        let file = self.file.as_deref().unwrap_or(Path::new("")).display();
        let hints: String = hints.iter().map(|hint| format!("{hint}\n")).collect();
        Ok(format!("{hints}--check {file}: accepted\n"))
    }

    /// Reads the configuration again while frames wait; `None` if there is no file.
    pub(crate) fn read_again(&self) -> Option<Result<Config, String>> {
        let file = self.file.as_deref()?;
        // Opening a FIFO waits for a writer, and frames would wait meanwhile; its content was read
        // at the start anyway.
        if std::fs::metadata(file).is_ok_and(|there| !there.is_file()) {
            let file = file.display();
            return Some(Err(format!("--config {file}: no longer a regular file")));
        }
        Some(self.read())
    }
}

/// Parses the arguments after the program's name.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let name = OsString::from("freeboard-gateway");
    let words: Vec<OsString> = [name].into_iter().chain(words).collect();
    let line = match CommandLine::try_parse_from(&words) {
        Ok(line) => line,
        Err(asked)
            if matches!(asked.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            return Ok(Request::Say(asked.to_string()));
        }
        Err(error) => {
            return Err(stray(&error, &words).unwrap_or_else(|| one_line(&error.to_string())));
        }
    };
    Ok(match line.command {
        Some(Command::Top { stats }) => Request::Top(stats),
        Some(Command::Setup(at)) => Request::SetUp(at.into()),
        Some(Command::Teardown(at)) => Request::TakeBack(at.into()),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(
                shell,
                &mut CommandLine::command(),
                "freeboard-gateway",
                &mut script,
            );
            Request::Say(String::from_utf8_lossy(&script).into_owned())
        }
        None => {
            let source = |file| Box::new(Source { words: line.words, file });
            match line.check {
                Some(file) => Request::Check(source(Some(file))),
                None => Request::Run(source(line.config)),
            }
        }
    })
}

/// Returns the error for a stray word in place of an option, which clap takes for a subcommand.
fn stray(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(stray)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let line = CommandLine::command();
    if line.find_subcommand(stray).is_some() {
        return None;
    }
    let option_of = |word: &OsString| {
        let name = word.to_str()?.strip_prefix("--")?;
        line.get_arguments().find(|option| option.get_long() == Some(name))
    };
    // After an option that takes a value, the word is that value.
    let (before, option) = words.windows(2).find_map(|pair| {
        let [before, word] = pair else { return None };
        let option = option_of(before);
        let is_value = option.is_some_and(|option| !option.is_require_equals_set());
        (word == stray.as_str() && !is_value).then_some((before.to_string_lossy(), option))
    })?;
    if option.is_some() {
        return Some(format!(
            "{before} \"{stray}\": invalid value (expected the value after =: {before}={stray})"
        ));
    }
    (error.kind() == ErrorKind::ArgumentConflict).then(|| {
        format!(
            "\"{stray}\" after \"{before}\": unexpected word (expected an option); quote a value of \
             several words"
        )
    })
}

/// Joins clap's message into one line without the usage: the log has one line per message.
fn one_line(said: &str) -> String {
    let said = said.trim().trim_start_matches("error: ");
    let paragraphs = said.split("\n\n").filter(|paragraph| !paragraph.starts_with("Usage:"));
    let lines = paragraphs
        .map(|paragraph| paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>();
    lines.join("; ").replace("For more information, try '--help'.", "see --help")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::handling::Ways;
    use freeboard::AckFilter;

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
            "--lan a --wan b --up 1mbit --down 2mbit --io tap --queue qfq --hosts srchost --max-hosts 77 --host-by mac --limit 9p \
             --aqm cobalt --l4s off --rtt regional --overhead 8 --mpu 64 --encoding ptm --catch-up 3 --wash=up --split-gso=off --ingress --memory-limit 2mb --nat \
             --stats s --stats-interval 5 --metrics 127.0.0.1:9100 --user u",
        );
        let config = config.unwrap();
        assert_eq!(config.framing.overhead(), 8);
        let text = format!("{config:?}");
        for part in [
            "Tap",
            "Qfq",
            "SrcHost",
            "max_hosts: 77",
            "by: Mac",
            "Packets(9)",
            "mpu: 64",
            "Ptm",
            "aqm: Cobalt, l4s: false, rtt: Rtt(Nanos(30000000))",
            "late: CatchUp(Nanos(3000000))",
            "wash: Up, splits_gso: false, is_ingress: true, hosts_across_tins: false, memory_limit: Some(Bytes(2097152))",
            "9100",
            "nat: true",
            "\"u\"",
            "stats_interval: 5",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    /// Goal: an option without a value takes its default, and with a value the value.
    #[test]
    fn an_option_may_stand_alone() {
        let handling = |words: &str| {
            config(&format!("--lan a --wan b --up 1mbit --down 1mbit {words}")).unwrap().handling
        };
        assert_eq!(handling("--ack-filter --wash").ack_filter, AckFilter::Conservative);
        assert_eq!(handling("--ack-filter=aggressive").ack_filter, AckFilter::Aggressive);
        assert_eq!(handling("").wash, Ways::Neither);
        assert_eq!(handling("--wash").wash, Ways::Both);
        assert!(handling("").splits_gso && handling("--split-gso").splits_gso);
        assert!(handling("--ingress").is_ingress && !handling("--ingress=off").is_ingress);
        let fwmark = |words: &str| handling(&format!("--tins diffserv4 {words}")).fwmark.mask();
        assert_eq!(["", "--fwmark 0xff00", "--fwmark 255"].map(fwmark), [0, 0xff00, 255]);
        let across = |words: &str| handling(&format!("--tins diffserv4 {words}")).hosts_across_tins;
        assert!(across("--hosts-across-tins") && !across("--hosts-across-tins=off") && !across(""));
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
            ("--speed 1", "unexpected argument '--speed' found; see --help"),
            ("--ovrhead 1", "'--ovrhead' found; tip: a similar argument exists: '--overhead'; see"),
            ("-x", "unexpected argument '-x' found"),
            ("bottom", "unrecognized subcommand 'bottom'"),
            ("tap", "tip: a similar subcommand exists: 'top'"),
            ("--lan a top", "the subcommand 'top' cannot be used with '--lan <DEV>'"),
            ("--lan", "a value is required for '--lan <DEV>'"),
            ("--up 1mbit --up 2mbit", "'--up <RATE>' cannot be used multiple times"),
            ("--config a --config b", "'--config <FILE>' cannot be used multiple times"),
            ("--config=", "a value is required for '--config <FILE>'"),
            ("top --stats s --up 1mbit", "unexpected argument '--up' found"),
            ("top --stats s --speed 1", "unexpected argument '--speed' found"),
            ("top --stats s more", "unexpected argument 'more' found"),
            ("top --stats s --stats t", "'--stats <SOCKET>' cannot be used multiple times"),
            ("top --stats=", "a value is required for '--stats <SOCKET>'"),
            ("top", "required arguments were not provided: --stats <SOCKET>"),
            (
                "--queue cake",
                "'cake' for '--queue <SCHEDULER>' [possible values: fifo, sqf, drr, qfq]",
            ),
            ("--queue drx", "tip: a similar value exists: 'drr'"),
            ("completions shell", "[possible values: bash, elvish, fish, powershell, zsh]"),
            (
                "--lan a --wan b --up 1mbit --down 1mbit --tins diffserv4 --fwmark 0x1ffffffff",
                "(expected a bit mask from 0",
            ),
            (
                "--lan a --wan b --up 1mbit --down 1mbit --fwmark 1",
                "without several --tins (expected 0",
            ),
            (
                "--lan a --wan b --up 1mbit --down 1mbit --io tap --tins diffserv4 --fwmark 1",
                "with --io tap (expected 0); TAP devices have no marks",
            ),
            (
                "--lan a --split-gso off",
                "--split-gso \"off\": invalid value (expected the value after =: --split-gso=off",
            ),
            ("--lan up --wash up", "--wash \"up\": invalid value (expected the value after ="),
            (
                "--wash up --lan a",
                "--wash \"up\": invalid value (expected the value after =: --wash=up",
            ),
            (
                "--tins diffserv4 map EF",
                "\"map\" after \"diffserv4\": unexpected word (expected an option)",
            ),
            (
                "--lan a --wan b --up -5 --down 1mbit",
                "--up \"-5\": invalid value (expected unlimited, or",
            ),
            ("--overhead -65 --lan a --wan b --up 1mbit --down 1mbit", "-64 to 256"),
        ] {
            let error = config(line).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{line}: {error}");
        }
        assert!(matches!(words("top --stats s"), Ok(Request::Top(_))));
        use std::os::unix::ffi::OsStringExt as _;
        let error = parse([OsString::from("--lan"), OsString::from_vec(vec![b'a', 0xff])]);
        let error = error.unwrap_err();
        assert!(error.contains("for '--lan <DEV>': invalid value (expected UTF-8"), "{error}");
    }

    fn said(line: &str) -> String {
        match words(line) {
            Ok(Request::Say(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Goal: the help lists everything and fits a terminal of 80 columns.
    #[test]
    fn the_help_is_as_wide_as_a_terminal() {
        for (line, named) in [
            ("--help", &["--lan", "--queue", "users+sqf", "--config", "SIGHUP"][..]),
            ("-h", &["--stats-interval", "top", "completions"]),
            ("top --help", &["--stats <SOCKET>"]),
            ("completions --help", &["bash"]),
        ] {
            let text = said(line);
            assert!(!text.contains("the program's name"), "a comment on the code in {text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
            assert!(named.iter().all(|part| text.contains(part)), "{text}");
        }
        assert_eq!(said("-V"), concat!("freeboard-gateway ", env!("CARGO_PKG_VERSION"), "\n"));
    }

    #[test]
    fn every_shell_is_told_the_options_and_their_values() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = said(&format!("completions {shell}"));
            for part in ["flush-unserved", "top", "completions"] {
                assert!(script.contains(part), "{shell}: {part}");
            }
        }
        assert!(said("completions bash").contains("fifo sqf drr qfq"));
    }

    /// Goal: `--check` validates a file with the command line merged over it, and opens no device.
    #[test]
    fn a_file_is_checked_without_devices() {
        let name = format!("freeboard-check-{}.toml", std::process::id());
        let file = std::env::temp_dir().join(name);
        let check = |text: &str, more: &str| {
            std::fs::write(&file, text).unwrap();
            match words(&format!("--check {} {more}", file.display()))? {
                Request::Check(source) => source.approve(),
                other => panic!("{other:?}"),
            }
        };
        let line = "lan = \"nowhere\"\nwan = \"elsewhere\"\nup = \"1mbit\"\ndown = \"1mbit\"\n";
        let path = file.display();
        assert_eq!(check(line, ""), Ok(format!("--check {path}: accepted\n")));
        let old = check(&format!("{line}[caps]\n\"10.0.0.1\" = 5000"), "").unwrap();
        assert!(old.starts_with("[caps]: ") && old.lines().count() == 2, "{old}");
        let wrong = check(&format!("{line}queue = \"cake\""), "");
        assert_eq!(
            wrong,
            Err(format!(
                "--check {path}: line 5: --queue \"cake\": invalid value \
                 (expected fifo, sqf, drr, qfq)"
            ))
        );
        assert_eq!(check("", "").map_err(|why| why.contains("--lan is missing")), Err(true));
        assert!(check(&line.replace("\"1mbit\"", "\"fast\""), "--up 1mbit --down 1mbit").is_ok());
        std::fs::remove_file(&file).unwrap();
        let both = words("--check a --config b").unwrap_err();
        assert!(both.contains("'--check <FILE>' cannot be used with '--config <FILE>'"), "{both}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = config("--config /nowhere/x.toml").unwrap_err();
        assert!(error.starts_with("--config /nowhere/x.toml: "), "{error}");
        let error = config("--config /dev/zero").unwrap_err();
        assert_eq!(error, "--config /dev/zero: too long (expected at most 262144 bytes)");
    }
}
