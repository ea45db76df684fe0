//! Invalid options and configurations: errors, without any change to the system.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::gateway::{Gateway, run};
use crate::topology::Row;

/// A file, removed on drop.
#[derive(Debug)]
pub(crate) struct Written(PathBuf);

/// Creates a file for this test with this text, readable by every user.
pub(crate) fn file(test: &str, text: &str) -> Written {
    let name = format!("freeboard-{}-{test}.toml", std::process::id());
    let written = Written(std::env::temp_dir().join(name));
    written.write(text);
    written
}

impl Written {
    pub(crate) fn path(&self) -> String {
        self.0.display().to_string()
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }
}

impl AsRef<Path> for Written {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Goal: every error is one line that names the option and what is expected, with exit code 2,
/// before anything has changed.
#[test]
fn what_cannot_be_is_refused_in_one_line_and_nothing_has_changed() {
    let Some(row) = Row::new("words") else { return };
    let file = file("words", "");
    let line = "--lan lan --wan wan --up 1mbit --down 1mbit";
    let before = row.gw.devices();
    // What may become available later has its own exit code.
    let is_missing = |words: &str| {
        ["nowhere", "averylongdevicename", "192.0.2.77:9100", "/no\\n"].iter().any(|word| {
            words.contains(word) && !words.contains("/nowhere.toml") && !words.starts_with("top")
        })
    };
    let refused = |words: &str, parts: &[&str]| {
        let output = run(&row.gw, words);
        let said = String::from_utf8(output.stderr).unwrap();
        let is_top = words.starts_with("top");
        let code = if !is_top && (is_missing(words) || is_missing(&said)) { 3 } else { 2 };
        assert_eq!(
            (output.status.code(), said.lines().count()),
            (Some(code), 1),
            "{words}: {said}"
        );
        assert!(output.stdout.is_empty(), "{words}");
        for part in parts {
            assert!(said.contains(part), "{words}: no {part} in {said}");
        }
        assert_eq!(row.gw.devices(), before, "{words}");
    };
    refused("", &["--lan is missing"]);
    refused("--lan lan --up 1mbit --down 1mbit", &["--wan is missing"]);
    refused("--lan lan --wan wan --up 1mbit", &["--down is missing"]);
    let nowhere = "--wan nowhere: no such device (expected lan, wan)\n";
    refused("--lan lan --wan nowhere --up 1mbit --down 1mbit", &[nowhere]);
    refused("--lan lan --wan lan --up 1mbit --down 1mbit", &["--wan \"lan\""]);
    refused(
        "--lan lan --wan averylongdevicename --up 1mbit --down 1mbit",
        &["averylongdevicename"],
    );
    for rate in ["0", "0mbit", "-5mbit", "500gbit", "fast", "1e9", "10mb/s", ""] {
        let words = format!("--lan lan --wan wan --down 1mbit --up={rate}");
        refused(&words, &["--up", rate]);
    }
    for (option, word, accepted) in [
        ("--queue", "cake", "fifo, sqf, drr, qfq"),
        ("--hosts", "all", "triple-isolate"),
        ("--io", "dpdk", "tap, packet"),
        ("--encoding", "ethernet", "none, atm, ptm"),
        ("--overhead", "300", "-64 to 256"),
        ("--mpu", "-1", "0 to 256"),
        ("--framing", "adsl", "pppoe-ptm"),
        ("--ack-filter", "all", "off, conservative, aggressive"),
        ("--wash", "left", "off, up, down, both"),
        ("--ingress", "up", "on, off"),
        ("--memory-limit", "much", "by-rate, or 1 to 4294967295 bytes, such as 4mb"),
        ("--burst", "0", "1 to 1073741824"),
        ("--limit", "0", "1p to"),
        ("--limit", "99999999p", "1p to"),
        ("--stats-interval", "0", "1 to 86400"),
        ("--metrics", "9100", "ADDRESS:PORT"),
        ("--user", "nosuchuser", "a user of this system"),
        ("--stats", "/nowhere/at/all", "/nowhere/at/all"),
        ("--metrics", "192.0.2.77:9100", "192.0.2.77:9100"),
        ("--metrics", "127.0.0.1:0", "ADDRESS:PORT"),
    ] {
        refused(&format!("{line} {option}={word}"), &[option, word, accepted]);
    }
    refused(&format!("{line} --speed 1"), &["unexpected argument '--speed'", "see --help"]);
    refused(&format!("{line} --up 2mbit"), &["'--up <RATE>' cannot be used multiple times"]);
    refused(&format!("{line} --stats="), &["--stats \"\": invalid value (expected a path"]);
    refused("top --stats /run/s --up 1mbit", &["unexpected argument '--up'"]);
    let accepted = "(expected the socket of a running gateway";
    refused("top --stats /nowhere/at/all", &["--stats /nowhere/at/all: ", accepted]);
    refused(&format!("{line} --queue"), &["--queue"]);
    refused(&format!("{line} faster"), &["faster"]);
    refused(&format!("{line} --queue fifo --ack-filter"), &["--ack-filter", "(expected off"]);
    refused(
        &format!("{line} --catch-up 5 --burst 5"),
        &["--burst \"5\": not available with --catch-up"],
    );
    refused(
        &format!("{line} --framing docsis --mpu 64"),
        &["--framing \"docsis\"", "with --overhead, --mpu"],
    );
    refused(&format!("{line} --queue fifo --hosts srchost"), &["--hosts", "--queue fifo"]);
    refused(&format!("{line} --queue qfq --hosts lan"), &["--hosts", "flows, srchost"]);
    refused(&format!("{line} --config /nowhere.toml"), &["--config /nowhere.toml"]);
    refused(&format!("{line} --config /"), &["--config /: "]);
    for (text, parts) in [
        ("queue = ", &["line 1"][..]),
        ("\nspeed = 1", &["line 2 \"speed = 1\": speed: unknown option; see --help"]),
        ("queue = \"cake\"", &["cake", "fifo, sqf, drr, qfq"]),
        ("queue = \"sqf\"\n[weights]\n\"10.0.0.1\" = 2", &["weights", "drr, qfq"]),
        ("[weights]\nhome = 2", &["home", "(expected an address, a prefix"]),
        ("[weights]\n\"10.0.0.1\" = 1001", &["10.0.0.1", "1 to 1000"]),
        (
            "up = [1]",
            &["line 1 \"up = [1]\": invalid value \
                 (expected a string, a whole number, true or false"],
        ),
        // One line even then.
        ("stats = \"/no\\n/where\"", &["--stats /no\\n/where: "]),
        ("limit = 1\n", &["--limit", "1p to"]),
        // Errors about values in the file name its line, also if the system refuses them.
        ("\n\nlimit = 1\n", &[".toml: line 3: --limit \"1\": "]),
        ("io = \"tap\"\nuser = \"nosuchuser\"", &[".toml: line 2: --user \"nosuchuser\": "]),
        ("\nmetrics = \"192.0.2.77:9100\"", &[".toml: line 2: --metrics 192.0.2.77:9100: "]),
    ] {
        file.write(text);
        refused(&format!("{line} --config {}", file.path()), parts);
    }
    // A file that is not text.
    std::fs::write(&file, [0xff, 0xfe, 0]).unwrap();
    refused(&format!("{line} --config {}", file.path()), &[&file.path()]);
}

/// Goal: a start without a capability names the missing one.
#[test]
fn a_missing_capability_is_named() {
    let Some(row) = Row::new("capability") else { return };
    // Owned by another user: a TAP device is open to its owner, and to everyone if there is none.
    row.gw.ip("tuntap add dev tap0 mode tap user daemon");
    row.gw.ip("tuntap add dev tap1 mode tap user daemon");
    for (lacks, words, device) in [
        ("net_raw", "--lan lan --wan wan", "--lan lan"),
        ("net_admin", "--io tap --lan tap0 --wan tap1", "--lan tap0"),
    ] {
        let mut command = Command::new("timeout");
        command.args(["10", "setpriv"]).arg(format!("--bounding-set=-{lacks}"));
        command.arg(env!("CARGO_BIN_EXE_freeboard-gateway"));
        command.args(words.split(' ')).args(["--up", "1mbit", "--down", "1mbit"]);
        let output = row.gw.within(move || command.output().unwrap());
        let said = String::from_utf8(output.stderr).unwrap();
        let name = format!("CAP_{}", lacks.to_uppercase());
        let expected = format!("{device}: not permitted: {name} is missing;");
        assert!(said.contains(&expected), "{said}");
        assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1));
    }
}

/// Goal: one device given for both sides under different names is rejected.
#[test]
fn a_device_by_another_name_is_the_same_device() {
    let Some(row) = Row::new("altname") else { return };
    row.gw.ip("tuntap add dev tap0 mode tap");
    for (io, device) in [("packet", "wan"), ("tap", "tap0")] {
        row.gw.ip(&format!("link property add dev {device} altname other-{device}"));
        let before = row.gw.devices();
        for (lan, wan) in [("", "other-"), ("other-", "")] {
            let words = format!(
                "--io {io} --lan {lan}{device} --wan {wan}{device} --up 1mbit --down 1mbit"
            );
            let output = run(&row.gw, &words);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
            assert!(said.contains("same device as --lan under another name"), "{said}");
            assert_eq!(row.gw.devices(), before);
        }
    }
}

/// Goal: a device without Ethernet headers, such as that of a VPN, is rejected.
#[test]
fn a_device_without_ethernet_headers_is_refused() {
    let Some(row) = Row::new("notether") else { return };
    row.gw.ip("tuntap add dev tun0 mode tun");
    let output = run(&row.gw, "--lan lan --wan tun0 --up 1mbit --down 1mbit");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1), "{said}");
    assert!(said.ends_with("--wan tun0: not an Ethernet device (expected lan, wan)\n"), "{said}");
}

/// Goal: a configuration that takes too much memory, or that a flow scheduler does not support, is
/// rejected before anything is changed, at the start and later.
#[test]
fn a_limit_that_takes_too_much_memory_is_refused() {
    let Some(row) = Row::new("memory") else { return };
    let line = "--lan lan --wan wan --up 1gbit --down 1gbit";
    let refused = |words: &str, part: &str| {
        let before = row.gw.devices();
        let output = run(&row.gw, &format!("{line} {words}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(part), "{said}");
        assert_eq!(row.gw.devices(), before);
    };
    refused("--limit 1000000p", "(expected 10000 to");
    row.set_mtu(9_000);
    refused("--limit 500000p", "--limit 500000 packets: takes 9");
    let file = file("memory", "limit = \"1000p\"");
    let gateway = Gateway::start_with(&row.gw, &format!("{line} --config {}", file.path()));
    file.write("limit = \"500000p\"");
    let said = gateway.reads_again(1).remove(0);
    assert!(said.contains("configuration not changed: --config "), "{said}");
    assert!(said.contains(": line 1: --limit 500000 packets: takes 9"), "{said}");
    gateway.end();
    // The maximum MTU of a veth pair.
    row.set_mtu(65_535);
    let qfq = "--queue qfq: the devices' MTU is 65535 (expected at most 65513)";
    refused("--queue qfq --limit 100p", qfq);
    Gateway::start_with(&row.gw, &format!("{line} --limit 100p")).end();
    row.set_mtu(65_513);
    Gateway::start_with(&row.gw, &format!("{line} --queue qfq --limit 100p")).end();
}
