//! A network namespace of the kernel, the peer of a stack behind a TAP device.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;

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

    /// Returns the round-trip times of `count` pings to the stack that were answered, in
    /// milliseconds.
    pub(crate) fn ping(&self, count: u32) -> Vec<f64> {
        let (count, to) = (count.to_string(), core::net::Ipv4Addr::from(STACK).to_string());
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
