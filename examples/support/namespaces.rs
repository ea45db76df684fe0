//! Network namespaces for the tests of the examples: real TCP and UDP through a program.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use conformance::measurement::tried;
use rustix::process::{Signal, getpid, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub(crate) const NEAR: &str = "10.9.0.1";
pub(crate) const FAR: &str = "10.9.0.2";
/// Rates from [`NEAR`] to [`FAR`] and back, in bits per second.
pub(crate) const RATES: [(&str, f64); 2] = [("4mbit", 4e6), ("8mbit", 8e6)];
/// Duration of one measurement of the rate; the next constant is the number of measurements.
const READING: Duration = Duration::from_millis(250);
const READINGS: usize = 7;

/// Creates the namespaces called `parts`; `None`, with a word on it, without the privilege.
///
/// # Panics
/// Without the privilege if the environment has `CI=true`.
pub(crate) fn namespaces<const N: usize>(parts: [&str; N]) -> Option<[Namespace; N]> {
    let made: Result<Vec<_>, _> = parts.into_iter().map(Namespace::new).collect();
    match made {
        Ok(made) => made.try_into().ok(),
        Err(why) => {
            let is_ci = std::env::var_os("CI").is_some_and(|word| word == "true");
            assert!(!is_ci, "with CI=true no test may be skipped: {why}");
            let _ = writeln!(std::io::stderr(), "skipped: needs CAP_NET_ADMIN");
            None
        }
    }
}

pub(crate) fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {said}")) }
}

/// A network namespace, removed on drop.
pub(crate) struct Namespace(String);

impl Namespace {
    fn new(part: &str) -> Result<Self, String> {
        let name = format!("fbex{}-{part}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let made = Self(name);
        // Suppresses packets other than those of the test.
        for conf in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{conf}/disable_ipv6");
            let _where_there_is_ipv6 = made.within(move || fs::write(path, "1"));
        }
        Ok(made)
    }

    /// Runs `act` in a thread inside the namespace; sockets, devices and processes that it creates
    /// stay inside.
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let act = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            act()
        };
        thread::scope(|scope| scope.spawn(act).join()).unwrap()
    }

    /// Gives `device` of this namespace an address and sets it up, once it exists.
    pub(crate) fn set_up(&self, device: &str, own: &str, peer: &str, more: &str) {
        self.when_there(&format!("addr add {own} peer {peer} dev {device}"));
        ip(&format!("-n {self} link set {device} {more} up")).unwrap();
    }

    /// Repeats `ip words` in this namespace until the device that it names exists.
    pub(crate) fn when_there(&self, words: &str) {
        let begin = Instant::now();
        while let Err(why) = ip(&format!("-n {self} {words}")) {
            assert!(begin.elapsed() < Duration::from_secs(10), "{why}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the bytes of IP that a device of this namespace has received from the router.
    pub(crate) fn received(&self, device: &str) -> u64 {
        let text = self.within(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'));
        line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Returns the median rate at which a device of this namespace receives, in bits per second.
    pub(crate) fn rate(&self, device: &str) -> f64 {
        let mut rates = [0; READINGS].map(|_| {
            let (begin, before) = (Instant::now(), self.received(device));
            thread::sleep(READING);
            let bytes = self.received(device) - before;
            bytes as f64 * 8.0 / begin.elapsed().as_secs_f64()
        });
        rates.sort_by(f64::total_cmp);
        rates[READINGS / 2]
    }

    /// Returns the median round-trip time of pings in milliseconds.
    pub(crate) fn ping(&self, to: &str) -> f64 {
        let words = ["-n", "-i", "0.05", "-c", "15", "-W", "2", to];
        let output = self.within(|| Command::new("ping").args(words).output()).unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let times = said.lines().filter_map(|line| line.split_once("time=")?.1.split(' ').next());
        let mut times: Vec<f64> = times.map(|time| time.parse().unwrap()).collect();
        assert!(times.len() >= 10, "{said}");
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}

/// Sends SIGINT at the end, also if the test fails: the programs wait for it.
pub(crate) struct CtrlC;

impl Drop for CtrlC {
    fn drop(&mut self) {
        let _ = kill_process(getpid(), Signal::INT);
    }
}

/// Sends TCP from [`NEAR`] to [`FAR`] at full speed, and UDP back at 1.5 times the second of
/// [`RATES`], until `until` has returned.
pub(crate) fn with_traffic<T>(left: &Namespace, right: &Namespace, until: impl FnOnce() -> T) -> T {
    let listener = right.within(|| TcpListener::bind((FAR, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let mut upload = left.within(move || TcpStream::connect(address).unwrap());
    let (mut download, _) = listener.accept().unwrap();
    let sink = left.within(|| UdpSocket::bind((NEAR, 0)).unwrap());
    let to = sink.local_addr().unwrap();
    let socket = right.within(|| UdpSocket::bind((FAR, 0)).unwrap());
    let stop = upload.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || while upload.write_all(&[0; 16_384]).is_ok() {});
        scope.spawn(move || {
            let mut room = [0; 65_536];
            while download.read(&mut room).is_ok_and(|len| len > 0) {}
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        scope.spawn(move || {
            let (begin, mut sent) = (Instant::now(), 0.0);
            while !ends.load(Ordering::Relaxed) {
                while sent < begin.elapsed().as_secs_f64() * RATES[1].1 * 1.5 {
                    let _ = socket.send_to(&[0; 1_372], to);
                    sent += 1_400.0 * 8.0;
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        let result = until();
        is_over.store(true, Ordering::Relaxed);
        let _ = stop.shutdown(Shutdown::Both);
        result
    })
}

/// Measures both rates, as received by the device `near` of `left` and the device `far` of `right`,
/// and a ping beside the traffic, with the rules for measurements on a shared machine. `share` is
/// the part of the rates that is left to the received packets.
pub(crate) fn measure(
    what: &str,
    (left, near): (&Namespace, &str),
    (right, far): (&Namespace, &str),
    share: f64,
) -> Result<(), String> {
    tried(what, || {
        let shares = [(right, far, RATES[0].1), (left, near, RATES[1].1)]
            .map(|(at, device, rate)| at.rate(device) / rate / share);
        let ping = left.ping(FAR);
        let said = format!("shares of the rates {shares:.3?}, ping {ping:.1} ms");
        println!("{said}");
        // In each direction the ping waits for a packet of 1,500 bytes, and for the timer: 3 + 1.5
        // + 2 ms.
        let is_right = shares.iter().all(|share| (0.95..1.03).contains(share)) && ping < 20.0;
        if is_right { Ok(()) } else { Err(said) }
    })
}
