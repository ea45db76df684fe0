//! A network namespace of the kernel, the peer of a stack behind a TAP device.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::Instant;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The addresses of the kernel and of the stack.
pub(crate) const KERNEL: &str = "10.9.0.1";
pub(crate) const STACK: [u8; 4] = [10, 9, 0, 2];
/// The TAP device, in its namespace.
pub(crate) const DEVICE: &str = "tap0";

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {said}")) }
}

/// A download from the stack with pings beside it.
pub(crate) struct Load {
    /// Goodput as a part of the rate.
    pub(crate) share: f64,
    /// Round-trip times of the answered pings of 15, in milliseconds.
    pub(crate) pings: Vec<f64>,
    /// Wake-ups of the stack for each frame of the download.
    pub(crate) per_frame: f64,
    /// Wake-ups in a second after it.
    pub(crate) idle: u64,
}

/// A network namespace, removed on drop.
pub(crate) struct Namespace(String);

impl Namespace {
    /// Creates a namespace, or returns `None` if that is not permitted: the test is skipped then,
    /// which is a failure with `CI=true`.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let name = format!("fb{}-{test}", std::process::id());
        if let Err(why) = ip(&format!("netns add {name}")) {
            let is_ci = std::env::var_os("CI").is_some_and(|word| word == "true");
            assert!(!is_ci, "with CI=true no test may be skipped: {why}");
            let _ = writeln!(std::io::stderr(), "{test}: skipped: needs CAP_NET_ADMIN");
            return None;
        }
        let made = Self(name);
        // Suppresses packets other than those of the test.
        for conf in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{conf}/disable_ipv6");
            let _where_there_is_ipv6 = made.within(move || fs::write(path, "1"));
        }
        Some(made)
    }

    /// Runs `act` in a thread inside the namespace; sockets and devices that it creates stay
    /// inside.
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let act = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            act()
        };
        thread::scope(|scope| scope.spawn(act).join()).unwrap()
    }

    /// Gives the kernel its address on the TAP device, which must exist.
    pub(crate) fn set_up(&self) {
        ip(&format!("-n {} addr add {KERNEL}/24 dev {DEVICE}", self.0)).unwrap();
        ip(&format!("-n {} link set {DEVICE} up", self.0)).unwrap();
    }

    /// Downloads from `port` of the stack for three seconds at `rate` bits per second, then leaves
    /// the stack idle. `wakeups` returns the number of its wake-ups so far.
    pub(crate) fn load(&self, port: u16, rate: u64, wakeups: impl Fn() -> u64) -> Load {
        let (time, before) = (Duration::from_secs(3), wakeups());
        let (bytes, pings) = thread::scope(|scope| {
            let download = scope.spawn(|| self.download(port, time));
            let pings = self.ping(15);
            (download.join().unwrap(), pings)
        });
        let busy = wakeups() - before;
        // The connection is reset; after that the stack is idle.
        thread::sleep(Duration::from_millis(500));
        let before = wakeups();
        thread::sleep(Duration::from_secs(1));
        let idle = wakeups() - before;
        let share = bytes as f64 * 8.0 / time.as_secs_f64() / rate as f64;
        let per_frame = busy as f64 / (bytes as f64 / 1_460.0);
        Load { share, pings, per_frame, idle }
    }

    /// Returns the bytes that a connection to the stack receives in this time.
    fn download(&self, port: u16, time: Duration) -> u64 {
        let address = (Ipv4Addr::from(STACK), port);
        let mut stream = self.within(|| TcpStream::connect(address)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let (begin, mut bytes, mut room) = (Instant::now(), 0, vec![0; 65_536]);
        while begin.elapsed() < time {
            bytes += stream.read(&mut room).unwrap() as u64;
        }
        bytes
    }

    /// Returns the round-trip times of `count` pings to the stack that were answered, in
    /// milliseconds.
    pub(crate) fn ping(&self, count: u32) -> Vec<f64> {
        let (count, to) = (count.to_string(), Ipv4Addr::from(STACK).to_string());
        let words = ["-n", "-i", "0.1", "-c", &count, "-W", "2", &to];
        let output = self.within(|| Command::new("ping").args(words).output()).unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let times = said.lines().filter_map(|line| line.split_once("time=")?.1.split(' ').next());
        times.map(|time| time.parse().unwrap()).collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}
