//! Runs the router between two network namespaces. Needs root, `ip` and `ping`; otherwise the test
//! prints `skipped: needs CAP_NET_ADMIN` and passes, unless the environment has `CI=true`.

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

use crate::router;

const NEAR: &str = "10.9.0.1";
const FAR: &str = "10.9.0.2";
/// Upload and download rates in bits per second.
const RATES: [(&str, f64); 2] = [("4mbit", 4e6), ("8mbit", 8e6)];
/// Duration of one measurement of the rate; the next constant is the number of measurements.
const READING: Duration = Duration::from_millis(250);
const READINGS: usize = 7;

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {said}")) }
}

/// A network namespace, removed on drop.
struct Namespace(String);

impl Namespace {
    fn new(part: &str) -> Result<Self, String> {
        let name = format!("fbtr{}-{part}", std::process::id());
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
    fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let act = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            act()
        };
        thread::scope(|scope| scope.spawn(act).join()).unwrap()
    }

    /// Moves the device of the router into this namespace, once it exists.
    fn take(&self, router: &Self, device: &str, own: &str, peer: &str) {
        let begin = Instant::now();
        while let Err(why) = ip(&format!("-n {} link set {device} netns {}", router.0, self.0)) {
            assert!(begin.elapsed() < Duration::from_secs(10), "{why}");
            thread::sleep(Duration::from_millis(10));
        }
        ip(&format!("-n {} addr add {own} peer {peer} dev {device}", self.0)).unwrap();
        ip(&format!("-n {} link set {device} up", self.0)).unwrap();
    }

    /// Returns the bytes of IP that a device of this namespace has received from the router.
    fn received(&self, device: &str) -> u64 {
        let text = self.within(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'));
        line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Returns the median rate at which a device of this namespace receives, in bits per second.
    fn rate(&self, device: &str) -> f64 {
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
    fn ping(&self, to: &str) -> f64 {
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

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}

/// Sends SIGINT at the end, also if the test fails: the router waits for it.
struct CtrlC;

impl Drop for CtrlC {
    fn drop(&mut self) {
        let _ = kill_process(getpid(), Signal::INT);
    }
}

/// Sends TCP upload at full speed and UDP download at 1.5 times the rate until `until` has
/// returned.
fn with_traffic<T>(left: &Namespace, right: &Namespace, until: impl FnOnce() -> T) -> T {
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

/// Both rates are kept, a ping is not delayed by bulk traffic, and ctrl-C ends the router with its
/// report.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn between_two_namespaces() {
    let left = match Namespace::new("left") {
        Ok(left) => left,
        Err(why) => {
            let is_ci = std::env::var_os("CI").is_some_and(|word| word == "true");
            assert!(!is_ci, "with CI=true no test may be skipped: {why}");
            let _ = writeln!(std::io::stderr(), "tokio_router: skipped: needs CAP_NET_ADMIN");
            return;
        }
    };
    let [right, inside] = ["right", "router"].map(|part| Namespace::new(part).unwrap());
    let rates = RATES.map(|(word, _)| word.parse().unwrap());
    let report = thread::scope(|scope| {
        let run =
            || inside.within(|| router::run(["lan0", "wan0"], rates).map_err(|e| e.to_string()));
        let router = scope.spawn(run);
        let end = CtrlC;
        left.take(&inside, "lan0", NEAR, FAR);
        right.take(&inside, "wan0", FAR, NEAR);
        let measured = with_traffic(&left, &right, || measure(&left, &right));
        drop(end);
        let report = router.join().unwrap();
        measured.unwrap();
        report
    });
    let report = report.unwrap().to_string();
    println!("{report}");
    assert_eq!(report.lines().count(), 2);
    assert!(report.starts_with("up   at 4mbit: "));
    assert!(report.lines().all(|line| line.contains(" 0 refused by the device")));
}

/// Measures rates and ping, with the rules for measurements on a shared machine.
fn measure(left: &Namespace, right: &Namespace) -> Result<(), String> {
    tried("tokio_router", || {
        let shares = [(right, "wan0", RATES[0].1), (left, "lan0", RATES[1].1)]
            .map(|(at, device, rate)| at.rate(device) / rate);
        let ping = left.ping(FAR);
        let said = format!("shares of the rates {shares:.3?}, ping {ping:.1} ms");
        println!("{said}");
        // In each direction the ping waits for a packet of 1,500 bytes, and for the timer: 3 + 1.5
        // + 2 ms.
        let is_right = shares.iter().all(|share| (0.95..1.03).contains(share)) && ping < 20.0;
        if is_right { Ok(()) } else { Err(said) }
    })
}
