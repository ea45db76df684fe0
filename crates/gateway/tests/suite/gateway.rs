//! The gateway's process.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::topology::Namespace;

/// Timeout for anything that should be quick.
const PATIENCE: Duration = Duration::from_secs(30);

/// Creates a command with raised priority, since the gateway is measured and not the rest of the
/// machine. `by` is a program that starts it.
fn command(by: &[&str], words: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "-20"]).args(by).arg(env!("CARGO_BIN_EXE_freeboard-gateway"));
    command.args(words.split_whitespace()).stdin(Stdio::null());
    command
}

/// Runs it until it ends by itself, or kills it after a timeout.
pub(crate) fn run(inside: &Namespace, words: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args([&PATIENCE.as_secs().to_string(), env!("CARGO_BIN_EXE_freeboard-gateway")]);
    command.args(words.split_whitespace()).stdin(Stdio::null());
    inside.within(move || command.output().unwrap())
}

/// A running gateway, killed on drop.
#[derive(Debug)]
pub(crate) struct Gateway<'a> {
    inside: &'a Namespace,
    child: Child,
    lines: Receiver<String>,
    stdout: Option<JoinHandle<String>>,
    before: Vec<String>,
}

/// Output of a gateway that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Lines on stderr that were not read.
    pub(crate) said: Vec<String>,
    pub(crate) report: Value,
}

impl Ended {
    /// Returns the lines that are not about a link going down or up, or about refused frames.
    pub(crate) fn said_of_the_end(&self) -> Vec<&String> {
        let of_links = [": refuses frames ", ": down, ", ": up again", ": carrier "];
        let is_of_a_link = |line: &&String| of_links.iter().any(|part| line.contains(part));
        self.said.iter().filter(|line| !is_of_a_link(line)).collect()
    }
}

impl<'a> Gateway<'a> {
    /// Starts it between lan and wan.
    pub(crate) fn start(inside: &'a Namespace, words: &str) -> Self {
        Self::start_with(inside, &format!("--lan lan --wan wan {words}"))
    }

    /// Starts it, and waits until it forwards.
    pub(crate) fn start_with(inside: &'a Namespace, words: &str) -> Self {
        Self::start_by(inside, &[], words)
    }

    /// Starts it with another program.
    pub(crate) fn start_by(inside: &'a Namespace, by: &[&str], words: &str) -> Self {
        let before = inside.devices();
        let mut command = command(by, words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = inside.within(move || command.spawn().unwrap());
        let (mut stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let stdout = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        let (said, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let _ = said.send(line.unwrap());
            }
        });
        let gateway = Self { inside, child, lines, stdout: Some(stdout), before };
        let first = gateway.says();
        assert!(first.contains(" up ") && first.contains(" down "), "{first}");
        gateway
    }

    /// Returns the next line on stderr.
    pub(crate) fn says(&self) -> String {
        self.says_within(PATIENCE)
    }

    /// Returns the next line on stderr, which may take longer.
    pub(crate) fn says_within(&self, patience: Duration) -> String {
        self.lines.recv_timeout(patience).unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }

    /// Makes it read the configuration again; returns `count` lines of its log.
    pub(crate) fn reads_again(&self, count: usize) -> Vec<String> {
        self.signal(Signal::SIGHUP);
        (0..count).map(|_| self.says()).collect()
    }

    /// Waits until it ends by itself, and checks its accounting.
    pub(crate) fn ends(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the gateway does not end");
            thread::sleep(Duration::from_millis(5));
        };
        let text = self.stdout.take().unwrap().join().unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        for direction in report["directions"].as_array().unwrap() {
            let count = |what: &str| direction[what].as_i64().unwrap();
            let dropped: i64 = drops(direction).iter().map(|(_, count)| *count).sum();
            assert_eq!(count("unaccounted"), 0, "{direction}");
            assert_eq!(count("received"), count("sent") + count("queued") + dropped, "{direction}");
        }
        let said = self.lines.iter().collect();
        Ended { status, said, report }
    }

    /// Ends it like an administrator, and checks that devices are unchanged.
    pub(crate) fn end(self) -> Value {
        let (inside, before) = (self.inside, self.before.clone());
        self.signal(Signal::SIGTERM);
        let ended = self.ends();
        assert!(ended.status.success() && ended.said_of_the_end().is_empty(), "{ended:?}");
        assert_eq!(inside.devices(), before, "the devices are as they were");
        ended.report
    }
}

impl Drop for Gateway<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the first report for a client of the `--stats` socket.
pub(crate) fn told(socket: &Path) -> Value {
    let mut line = String::new();
    BufReader::new(UnixStream::connect(socket).unwrap()).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// Returns the drops of a direction in a report, by reason.
pub(crate) fn drops(direction: &Value) -> Vec<(String, i64)> {
    serde_json::from_value(direction["drops"].clone()).unwrap()
}

/// Returns the drops of `direction`, 0 for upload, for this reason.
pub(crate) fn dropped(report: &Value, direction: usize, why: &str) -> i64 {
    let drops = drops(&report["directions"][direction]);
    drops.iter().find(|(reason, _)| reason == why).map_or(0, |(_, count)| *count)
}
