//! Tests of files outside the crate's code: the service files, the example configuration and the
//! commands in the documentation are parsed with the program's own parser.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::config::options::{Request, Source, parse};
use crate::config::{Config, RawOptions};

const UNIT: &str = include_str!("../dist/freeboard-gateway.service");
const EXAMPLE: &str = include_str!("../dist/freeboard-gateway.toml");
const PROGRAM: &str = "/usr/sbin/freeboard-gateway";

fn dist(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dist").join(name)
}

fn source(words: &[&str]) -> Source {
    match parse(words.iter().map(OsString::from)) {
        Ok(Request::Run(source)) => *source,
        other => panic!("{words:?}: {other:?}"),
    }
}

/// Returns the configuration of a command line with the example as its file.
fn with_example(words: &[&str]) -> Config {
    assert_eq!(source(words).file(), Some(Path::new("/etc/freeboard-gateway.toml")), "{words:?}");
    let example = dist("freeboard-gateway.toml").display().to_string();
    let is_file = |word: &&str| {
        if *word == "/etc/freeboard-gateway.toml" { example.clone() } else { word.to_string() }
    };
    let words: Vec<String> = words.iter().map(is_file).collect();
    source(&words.iter().map(String::as_str).collect::<Vec<_>>()).read().unwrap()
}

/// Returns values by section and key.
fn unit() -> BTreeMap<(&'static str, &'static str), Vec<&'static str>> {
    let mut values: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut section = "";
    for line in UNIT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("no key: {line}"));
        values.entry((section, key)).or_default().push(value);
    }
    values
}

/// Keys that the unit may have, by `systemd.unit`, `.service` and `.exec` of systemd 252.
const KEYS: [(&str, &[&str]); 3] = [
    ("Unit", &["Description", "Wants", "After", "StartLimitIntervalSec", "StartLimitBurst"]),
    (
        "Service",
        &[
            "ExecStart",
            "ExecReload",
            "Restart",
            "RestartSec",
            "RestartPreventExitStatus",
            "RuntimeDirectory",
            "Nice",
            "CPUSchedulingPolicy",
            "CPUSchedulingPriority",
            "CapabilityBoundingSet",
            "NoNewPrivileges",
            "ProtectSystem",
            "ProtectHome",
            "PrivateTmp",
            "ProtectKernelModules",
            "ProtectKernelTunables",
            "ProtectControlGroups",
            "RestrictAddressFamilies",
            "RestrictNamespaces",
            "LockPersonality",
            "MemoryDenyWriteExecute",
            "DevicePolicy",
            "DeviceAllow",
        ],
    ),
    ("Install", &["WantedBy"]),
];

#[test]
fn the_unit_starts_what_the_parser_accepts() {
    let unit = unit();
    for (section, key) in unit.keys() {
        let keys = KEYS.iter().find(|(name, _)| name == section);
        assert!(keys.is_some_and(|(_, keys)| keys.contains(key)), "[{section}] {key}");
    }
    let command = unit[&("Service", "ExecStart")].concat();
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], PROGRAM);
    let config = with_example(&words[1..]);
    // The directory that systemd creates is the socket's.
    let directory = Path::new("/run").join(unit[&("Service", "RuntimeDirectory")].concat());
    assert_eq!(config.stats.as_deref().and_then(Path::parent), Some(&*directory));
    assert_eq!(unit[&("Service", "ExecReload")], ["+/bin/kill -HUP $MAINPID"]);
    // Invalid options are not retried, and nothing is retried forever: the limit is reached before
    // its interval is over.
    assert_eq!(unit[&("Service", "RestartPreventExitStatus")], ["2"]);
    let number = |section, key| -> u64 { unit[&(section, key)][0].parse().unwrap() };
    let burst = number("Unit", "StartLimitBurst");
    assert!(burst * number("Service", "RestartSec") < number("Unit", "StartLimitIntervalSec") / 2);
}

/// systemd itself verifies the unit, if installed, with an existing program in place of the
/// gateway.
#[test]
fn systemd_has_nothing_to_say_about_the_unit() {
    let directory = std::env::temp_dir().join(format!("freeboard-unit-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("freeboard-gateway.service");
    fs::write(&file, UNIT.replace(PROGRAM, "/bin/sh")).unwrap();
    let verified = Command::new("systemd-analyze").arg("verify").arg(&file).output();
    fs::remove_dir_all(&directory).unwrap();
    match verified {
        Ok(Output { status, stderr, .. }) => {
            let said = String::from_utf8_lossy(&stderr);
            // Messages about other units are ignored.
            let said: Vec<&str> =
                said.lines().filter(|line| line.contains("freeboard-gateway")).collect();
            assert!(status.success() && said.is_empty(), "{said:?}");
        }
        Err(error) => println!("systemd-analyze: {error}"),
    }
}

/// Returns the arguments of the init script's calls to procd.
fn procd() -> Vec<Vec<String>> {
    let recorder = r#"
        for name in open_instance set_param append_param close_instance; do
            eval "procd_$name() { printf '%s\n' $name \"\$@\" .; }"
        done
        . "$1" || exit
        [ "$USE_PROCD" = 1 ] && [ "$START" -gt 0 ] && [ "$STOP" -gt 0 ] && start_service
    "#;
    let script = dist("freeboard-gateway.init");
    let output = Command::new("sh").args(["-euc", recorder, "rc.common"]).arg(script).output();
    let Output { status, stdout, stderr } = output.unwrap();
    assert!(status.success() && stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    let said = String::from_utf8(stdout).unwrap();
    let calls = said.split_terminator("\n.\n");
    calls.map(|call| call.lines().map(str::to_owned).collect()).collect()
}

#[test]
fn the_init_script_starts_what_the_parser_accepts() {
    let calls = procd();
    let calls: Vec<Vec<&str>> =
        calls.iter().map(|call| call.iter().map(String::as_str).collect()).collect();
    assert_eq!(
        (calls.first(), calls.last()),
        (Some(&vec!["open_instance"]), Some(&vec!["close_instance"]))
    );
    let params: BTreeMap<&str, &[&str]> =
        calls[1..calls.len() - 1].iter().map(|call| (call[1], &call[2..])).collect();
    assert!(calls[1..calls.len() - 1].iter().all(|call| call[0] == "set_param"), "{calls:?}");
    let [program, words @ ..] = params["command"] else { panic!("{params:?}") };
    assert_eq!(*program, PROGRAM);
    assert!(with_example(words).stats.is_some());
    // procd reloads by signal when this file has changed.
    assert_eq!(params["file"], ["/etc/freeboard-gateway.toml"]);
    assert_eq!(params["reload_signal"], ["HUP"]);
    assert_eq!(params["respawn"], ["3600", "2", "300"]);
    let others = ["command", "file", "reload_signal", "respawn", "stdout", "stderr"];
    assert!(params.keys().all(|name| others.contains(name)), "{params:?}");
}

#[test]
fn the_example_of_a_configuration_says_what_its_comments_say() {
    let written: RawOptions = toml::from_str(EXAMPLE).unwrap();
    written.check().unwrap();
    // Commented-out settings are valid too.
    let written: RawOptions = toml::from_str(&EXAMPLE.replace("# \"192", "\"192")).unwrap();
    let config = written.check().unwrap();
    assert_eq!((config.weights.len(), config.rates.len(), config.ceils.len()), (1, 1, 1));
}

const OPTIONS: &str = include_str!("../../../docs/guide/gateway-options.md");
const PAGES: [&str; 3] =
    [include_str!("../../../docs/guide/gateway.md"), OPTIONS, include_str!("../../../README.md")];

/// Returns the code on all pages with its language: blocks, with continued lines joined, and code
/// between backticks in text, without a language.
fn code() -> Vec<(&'static str, String)> {
    let mut code = Vec::new();
    for page in PAGES {
        for (at, part) in page.split("```").enumerate() {
            if at % 2 == 1 {
                let (language, block) = part.split_once('\n').unwrap();
                code.push((language, block.replace("\\\n", " ")));
            } else {
                code.extend(part.split('`').skip(1).step_by(2).map(|word| ("", word.to_owned())));
            }
        }
    }
    code
}

#[test]
fn every_command_of_the_pages_is_accepted() {
    let mut found = 0;
    for line in code().iter().flat_map(|(_, block)| block.lines()) {
        let Some((_, words)) = line.split_once("freeboard-gateway ") else { continue };
        let words: Vec<OsString> = words
            .split_whitespace()
            .take_while(|word| !["&", ">", "|", "#"].contains(word))
            .map(OsString::from)
            .collect();
        match parse(words) {
            Ok(Request::Run(source)) => {
                source.read().unwrap_or_else(|why| panic!("{line}: {why}"));
            }
            Ok(_) => {}
            Err(why) => panic!("{line}: {why}"),
        }
        found += 1;
    }
    assert!(found >= 5, "{found}");
}

#[test]
fn every_option_of_the_pages_is_accepted() {
    let mut found = 0;
    for (_, text) in code() {
        let words: Vec<&str> = text.split_whitespace().collect();
        if text.starts_with("--") && words.len() > 1 {
            let line = ["--lan", "a", "--wan", "b", "--up", "1mbit", "--down", "1mbit"];
            source(&[&line[..], &words].concat())
                .read()
                .unwrap_or_else(|why| panic!("{text}: {why}"));
            found += 1;
        }
    }
    assert!(found >= 7, "{found}");
}

/// Goal: the page of options has a row for each option, and none for another. Method: the options
/// of the help.
#[test]
fn the_page_of_options_has_every_option() {
    let Ok(Request::Say(help)) = parse(["--help".into()]) else { panic!("no help") };
    let first = |line: &str| {
        line.split(|c: char| !c.is_alphanumeric() && c != '-').next().map(str::to_owned)
    };
    let named: BTreeSet<String> =
        help.lines().filter_map(|line| first(line.strip_prefix("      --")?)).collect();
    let written: BTreeSet<String> =
        OPTIONS.lines().filter_map(|line| first(line.strip_prefix("| `--")?)).collect();
    assert!(named.len() > 40, "{named:?}");
    assert_eq!(named, written);
}

#[test]
fn every_piece_of_a_configuration_on_the_pages_is_accepted() {
    let mut found = 0;
    for (_, text) in code().iter().filter(|(language, _)| *language == "toml") {
        let line = "lan = \"a\"\nwan = \"b\"\nup = \"1mbit\"\ndown = \"1mbit\"\n";
        let written: RawOptions = toml::from_str(&format!("{line}{text}")).unwrap();
        written.check().unwrap();
        found += 1;
    }
    assert!(found >= 1);
}
