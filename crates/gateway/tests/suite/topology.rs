//! Three namespaces in a row: `c` with the device c0, veth to lan in `gw`, which has wan, veth to
//! s0 in `s`.

use core::time::Duration;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

use nix::sched::{CloneFlags, setns};
use serde_json::Value;

/// Addresses of the LAN hosts.
pub(crate) const HOSTS: [&str; 2] = ["10.9.0.1", "10.9.0.3"];
/// Address of the far end.
pub(crate) const FAR: &str = "10.9.0.2";

/// Orders the tests: most of them wait for a slow link, and run beside each other; those that load
/// the processors, or measure to the percent, run alone.
static TURNS: RwLock<()> = RwLock::new(());

/// The right to run.
#[derive(Debug)]
enum Turn {
    Alone { _guard: RwLockWriteGuard<'static, ()> },
    Beside { _guard: RwLockReadGuard<'static, ()> },
}

/// Returns the right to be the only test that runs.
pub(crate) fn alone() -> impl Drop {
    TURNS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Programs that the tests of a row call.
const PROGRAMS: [&str; 4] = ["ip", "ethtool", "tc", "setpriv"];

/// Returns the first of these programs that is in no folder of `path`, which is formatted like
/// `PATH`.
fn missing<'a>(programs: &[&'a str], path: &OsStr) -> Option<&'a str> {
    let is_there = |program: &str| env::split_paths(path).any(|at| at.join(program).is_file());
    programs.iter().copied().find(|program| !is_there(program))
}

/// Skips `test` with a line that names what this machine lacks, written past the test harness's
/// capture so that it is visible. With CI=true no test may be skipped.
pub(crate) fn skip(test: &str, needs: &str) {
    let is_ci = env::var_os("CI").is_some_and(|word| word == "true");
    assert!(!is_ci, "with CI=true no test may be skipped: {test} needs {needs}");
    let _ = writeln!(std::io::stderr(), "{test}: skipped: needs {needs}");
}

/// Returns true if these programs exist; otherwise skips `test`.
pub(crate) fn has(test: &str, programs: &[&str]) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let missing = missing(programs, &path);
    missing.iter().for_each(|program| skip(test, &format!("the program {program}")));
    missing.is_none()
}

/// Runs a program of the system; returns its output, or why it failed.
pub(crate) fn call(program: &str, words: &str) -> Result<String, String> {
    let output = Command::new(program).args(words.split_whitespace()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {words}: {}", String::from_utf8_lossy(&output.stderr)))
}

pub(crate) fn ip(words: &str) {
    call("ip", words).unwrap();
}

/// A network namespace, removed on drop.
#[derive(Debug)]
pub(crate) struct Namespace(String);

impl Namespace {
    fn new(test: &str, part: &str) -> Result<Self, String> {
        let name = format!("fb{}-{test}-{part}", std::process::id());
        call("ip", &format!("netns add {name}"))?;
        let made = Self(name);
        made.ip("link set lo up");
        made.set("ipv6/conf/all/disable_ipv6", "1");
        made.set("ipv6/conf/default/disable_ipv6", "1");
        // The same TCP on every machine, and one that keeps probing for capacity: BBR takes drops
        // for a policer and then keeps to a rate for seconds, even after the limit was raised.
        made.set("ipv4/tcp_congestion_control", "reno");
        Ok(made)
    }

    /// Runs `act` in a thread inside. Sockets and processes that it creates stay inside.
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let act = move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            act()
        };
        thread::scope(|scope| scope.spawn(act).join()).unwrap()
    }

    /// Returns its name, for `ip`.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Runs `ip` inside.
    pub(crate) fn ip(&self, words: &str) {
        self.try_ip(words).unwrap();
    }

    pub(crate) fn try_ip(&self, words: &str) -> Result<String, String> {
        call("ip", &format!("-n {} {words}", self.0))
    }

    pub(crate) fn ethtool(&self, words: &str) {
        let words = words.to_owned();
        self.within(move || call("ethtool", &words)).unwrap();
    }

    /// Sets a sysctl, by its path below `/proc/sys/net`.
    pub(crate) fn set(&self, variable: &str, value: &str) {
        self.try_set(variable, value).unwrap();
    }

    fn try_set(&self, variable: &str, value: &str) -> Result<(), String> {
        let path = format!("/proc/sys/net/{variable}");
        self.within(move || fs::write(&path, value).map_err(|error| format!("{path}: {error}")))
    }

    /// Returns what the gateway must not change: flags, MTU and promiscuity of every device.
    pub(crate) fn devices(&self) -> Vec<String> {
        let text = call("ip", &format!("-n {} -d -j link show", self.0)).unwrap();
        let devices: Vec<Value> = serde_json::from_str(&text).unwrap();
        let device = |device: &Value| {
            // The carrier is not a setting.
            let flags = device["flags"].as_array().unwrap().iter();
            let flags: Vec<&Value> =
                flags.filter(|flag| **flag != "NO-CARRIER" && **flag != "LOWER_UP").collect();
            let [name, mtu, promiscuity] = ["ifname", "mtu", "promiscuity"].map(|of| &device[of]);
            format!("{name} {flags:?} mtu {mtu} promiscuity {promiscuity}")
        };
        devices.iter().map(device).collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = call("ip", &format!("netns del {}", self.0));
    }
}

/// The row, and the right to run.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) c: Namespace,
    pub(crate) gw: Namespace,
    pub(crate) s: Namespace,
    _turn: Turn,
}

impl Row {
    /// Creates the row for a test that waits more than it computes. `None` if namespaces are not
    /// permitted or a program is missing: the test is skipped then.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let guard = TURNS.read().unwrap_or_else(PoisonError::into_inner);
        Self::in_turn(test, Turn::Beside { _guard: guard })
    }

    /// Creates the row for a test that runs alone; `None` as for [`Row::new`].
    pub(crate) fn alone(test: &str) -> Option<Self> {
        let guard = TURNS.write().unwrap_or_else(PoisonError::into_inner);
        Self::in_turn(test, Turn::Alone { _guard: guard })
    }

    fn in_turn(test: &str, turn: Turn) -> Option<Self> {
        if !has(test, &PROGRAMS) {
            return None;
        }
        let c = match Namespace::new(test, "c") {
            Ok(c) => c,
            Err(why) => {
                skip(test, &format!("CAP_NET_ADMIN ({})", why.trim()));
                return None;
            }
        };
        let [gw, s] = ["gw", "s"].map(|part| Namespace::new(test, part).unwrap());
        let row = Self { c, gw, s, _turn: turn };
        row.connect("lan", "c0");
        row.connect("wan", "s0");
        row.wait_for_carriers();
        Some(row)
    }

    /// Connects a device of the gateway with a peer at that end of the row, which has the end's
    /// addresses.
    pub(crate) fn connect(&self, device: &str, peer: &str) {
        let (end, index, addresses) = match device {
            "lan" => (&self.c, 11, &HOSTS[..]),
            _ => (&self.s, 12, &[FAR][..]),
        };
        // With equal indexes at both ends of a pair, the kernel notices the carrier up to a second
        // later.
        ip(&format!(
            "link add {peer} index 101 netns {} type veth peer {device} index {index} netns {}",
            end.0, self.gw.0
        ));
        for (inside, device) in [(end, peer), (&self.gw, device)] {
            inside.ip(&format!("link set {device} up"));
            // No device coalesces packets, and none leaves segmentation to others.
            inside.ethtool(&format!("-K {device} gro off"));
            inside.ip(&format!("link set {device} gso_max_segs 1"));
        }
        for address in addresses {
            end.ip(&format!("addr add {address}/24 dev {peer}"));
        }
    }

    /// Waits until the kernel has noticed all carriers; before that it drops packets.
    pub(crate) fn wait_for_carriers(&self) {
        let is_waiting = |inside: &Namespace| {
            let text = call("ip", &format!("-n {} link show", inside.0)).unwrap();
            text.contains("NO-CARRIER")
        };
        while [&self.c, &self.gw, &self.s].into_iter().any(is_waiting) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sets the MTU of every device.
    pub(crate) fn set_mtu(&self, mtu: u32) {
        for (inside, device) in
            [(&self.c, "c0"), (&self.gw, "lan"), (&self.gw, "wan"), (&self.s, "s0")]
        {
            inside.ip(&format!("link set {device} mtu {mtu}"));
        }
    }

    /// Adds IPv6 at both ends: fd00::1 and fd00::2.
    pub(crate) fn with_ipv6(&self) {
        for (inside, device, address) in [(&self.c, "c0", "fd00::1"), (&self.s, "s0", "fd00::2")] {
            inside.set(&format!("ipv6/conf/{device}/disable_ipv6"), "0");
            inside.ip(&format!("addr add {address}/64 dev {device} nodad"));
        }
    }

    /// Adds a device for tagged frames at both ends, 10.7.0.1 and 10.7.0.2; returns false if the
    /// kernel has no VLAN devices.
    pub(crate) fn with_tags(&self) -> bool {
        let ends = [(&self.c, "c0", "10.7.0.1"), (&self.s, "s0", "10.7.0.2")];
        ends.iter().all(|(inside, device, address)| {
            let vlan = format!("link add link {device} name tagged type vlan id 7");
            let is_made = inside.try_ip(&vlan).is_ok();
            if is_made {
                inside.ip(&format!("addr add {address}/24 dev tagged"));
                inside.ip("link set tagged up");
            }
            is_made
        })
    }

    /// Adds a device at both ends for each kind of tunnel that the kernel has; returns the kinds
    /// with the inner addresses of both ends.
    pub(crate) fn with_tunnels(&self) -> Vec<(&'static str, [String; 2])> {
        let kinds = [
            ("vxlan", "vxlan id 7 dstport 4789 udpcsum"),
            ("vxlan without a checksum", "vxlan id 8 dstport 4790 noudpcsum"),
            ("ipip", "ipip"),
            ("gre", "gre"),
            ("gre with a checksum and a key", "gre key 7 ocsum icsum"),
            ("gretap", "gretap key 8"),
        ];
        let ends = [(&self.c, HOSTS[0], FAR), (&self.s, FAR, HOSTS[0])];
        let made = kinds.into_iter().enumerate().filter_map(|(number, (kind, words))| {
            let inside = [1, 2].map(|end| format!("10.7{number}.0.{end}"));
            for ((end, local, remote), address) in ends.iter().zip(&inside) {
                let link =
                    format!("link add tun{number} type {words} local {local} remote {remote}");
                end.try_ip(&link).ok()?;
                end.ip(&format!("addr add {address}/24 dev tun{number}"));
                end.ip(&format!("link set tun{number} mtu 1400 up"));
            }
            Some((kind, inside))
        });
        made.collect()
    }

    /// Silences both ends: no address, no ARP.
    pub(crate) fn silence(&self) {
        for (inside, device) in [(&self.c, "c0"), (&self.s, "s0")] {
            inside.ip(&format!("addr flush dev {device}"));
            inside.ip(&format!("link set {device} arp off"));
        }
    }

    /// Makes the device `ours` of `gw` a port of a bridge, with a new TAP device for the gateway as
    /// another port.
    pub(crate) fn bridge_to_tap(&self, ours: &str, tap: &str) {
        self.gw.ip(&format!("tuntap add dev {tap} mode tap"));
        // Bridge firewalls, if the kernel has them, drop invalid packets.
        for kind in ["iptables", "ip6tables", "arptables"] {
            let _ = self.gw.try_set(&format!("bridge/bridge-nf-call-{kind}"), "0");
        }
        self.gw.ip(&format!("link add name br-{ours} type bridge"));
        for device in [ours, tap] {
            self.gw.ip(&format!("link set {device} master br-{ours}"));
        }
        for device in [tap, &format!("br-{ours}")] {
            self.gw.ip(&format!("link set {device} up"));
        }
    }
}

/// Goal: a test is skipped if and only if a program is missing: names are looked up as the system
/// does.
#[test]
fn a_program_that_is_in_no_folder_is_named() {
    let path = env::var_os("PATH").unwrap();
    assert_eq!(missing(&["sh", "no-such-program"], &path), Some("no-such-program"));
    assert_eq!(missing(&["sh"], &path), None);
    assert_eq!(missing(&["sh"], OsStr::new("/nowhere")), Some("sh"));
    assert_eq!(missing(&["sh"], OsStr::new("")), Some("sh"));
}
