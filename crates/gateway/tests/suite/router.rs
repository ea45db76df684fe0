//! `firmware/router`, the bridge without an operating system, in QEMU between two TAP devices, and
//! the gateway in its place.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use conformance::measurement::attempts;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::raw::millis;
use crate::topology::{FAR, HOSTS, Namespace, Row, has};
use crate::traffic::{BOTH, Bulk, Heading, Outcome, Paced, percentile};

const QEMU: &str = "qemu-system-riscv64";
const TARGET: &str = "riscv64imac-unknown-none-elf";
/// The machine, which `cargo xtask firmware-router` boots too.
const MACHINE: &str = include_str!("../../../../firmware/router/qemu.args");
const SETTINGS: &str = "upload bandwidth 10mbit; download bandwidth 10mbit";
/// Maximum goodput of TCP on a link of 10 Mbit/s: 1,448 bytes in frames of 1,514.
const MOST_GOODPUT: f64 = 10.0 * 1_448.0 / 1_514.0;

/// Builds the program once; returns its path.
fn image() -> &'static Path {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let into = root.join("target/router-firmware");
        let mut build = Command::new("cargo");
        build.current_dir(root.join("firmware/router"));
        build.args(["build", "--quiet", "--release", "--target", TARGET, "--target-dir"]);
        build.arg(&into);
        // Those of this package are not those of the program.
        for (name, _) in std::env::vars() {
            if name.starts_with("CARGO_PKG") || name == "CARGO" || name == "CARGO_MANIFEST_DIR" {
                build.env_remove(name);
            }
        }
        let built = build.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        into.join(TARGET).join("release/router-firmware")
    })
}

/// Counters of a direction.
#[derive(Clone, Copy, Debug)]
struct Counts {
    received: u64,
    sent: u64,
    dropped: u64,
    rejected: u64,
    queued: u64,
}

impl Counts {
    fn parse(line: &str) -> Self {
        let mut words = line.split(' ');
        let mut count = |name: &str| {
            words.find(|&word| word == name).unwrap_or_else(|| panic!("{name} in `{line}`"));
            words.next().unwrap().parse().unwrap()
        };
        Self {
            received: count("received"),
            sent: count("sent"),
            dropped: count("dropped"),
            rejected: count("rejected"),
            queued: count("queued"),
        }
    }

    fn unaccounted(&self) -> i64 {
        let known = self.sent + self.dropped + self.rejected + self.queued;
        self.received.cast_signed() - known.cast_signed()
    }
}

/// A running router between `tap0` and `tap1`, killed on drop.
#[derive(Debug)]
struct Router {
    child: Child,
    keys: ChildStdin,
    screen: BufReader<ChildStdout>,
}

impl Router {
    /// Boots it, and waits until it forwards.
    fn boot(inside: &Namespace) -> Self {
        let mut qemu = Command::new("nice");
        qemu.args(["-n", "-20", QEMU]).args(MACHINE.split_whitespace());
        for (id, tap) in [("lan", "tap0"), ("wan", "tap1")] {
            qemu.arg("-netdev");
            qemu.arg(format!("tap,id={id},ifname={tap},script=no,downscript=no"));
        }
        qemu.arg("-kernel").arg(image()).args(["-append", SETTINGS]);
        qemu.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = inside.within(move || qemu.spawn().unwrap());
        let screen = BufReader::new(child.stdout.take().unwrap());
        let mut router = Self { keys: child.stdin.take().unwrap(), screen, child };
        let mut said = String::new();
        while !said.ends_with("press Enter for counters\n") {
            let read = router.screen.read_line(&mut said).unwrap();
            assert!(read > 0, "the router has ended: {said}");
        }
        router
    }

    /// Returns the counters for upload and download, in which every frame is accounted for.
    fn counts(&mut self) -> [Counts; 2] {
        self.keys.write_all(b"\n").unwrap();
        let counts = ["upload: ", "download: "].map(|direction| {
            let mut line = String::new();
            self.screen.read_line(&mut line).unwrap();
            assert!(line.starts_with(direction), "{line}");
            Counts::parse(line.trim_end())
        });
        assert!(counts.iter().all(|counts| counts.unaccounted() == 0), "{counts:?}");
        counts
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn row(test: &str, make: impl FnOnce(&str) -> Option<Row>) -> Option<Row> {
    if !has(test, &[QEMU, "ping"]) {
        return None;
    }
    // Before the other tests wait for this one.
    image();
    let row = make(test)?;
    row.bridge_to_tap("lan", "tap0");
    row.bridge_to_tap("wan", "tap1");
    Some(row)
}

/// A probe beside eight TCP flows: its delays in milliseconds, the part of it that is lost, and the
/// goodput of the flows in Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Measured {
    p50: f64,
    p95: f64,
    lost: f64,
    goodput: f64,
}

fn measure(row: &Row, heading: Heading) -> Measured {
    row.wait_for_carriers();
    let probe = Paced::start(row, heading, millis(10), &[100]);
    let bulk = [Bulk::start(row, HOSTS[0], heading, 8)];
    // Slow start is over.
    thread::sleep(millis(1_500));
    let (from, span) = (Instant::now(), Duration::from_secs(4));
    let received = Bulk::received_in(&bulk, span)[0];
    let to = Instant::now();
    let outcome = probe.stop();
    drop(bulk);
    let delays = outcome.delays(from, to);
    let delay = |percent| percentile(&delays, percent).as_secs_f64() * 1e3;
    Measured {
        p50: delay(50),
        p95: delay(95),
        lost: 1.0 - outcome.arrived.len() as f64 / f64::from(outcome.sent),
        goodput: received as f64 * 8e-6 / (to - from).as_secs_f64(),
    }
}

/// Goal: a probe beside TCP waits in the router as long as in the gateway, and TCP fills the link.
/// Method: eight flows and a probe, in each direction, through one after the other.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn router_has_the_delays_of_the_gateway() {
    let Some(row) = row("router", Row::alone) else { return };
    attempts("router", || {
        let in_router = BOTH.map(|heading| {
            let mut router = Router::boot(&row.gw);
            let measured = measure(&row, heading);
            println!("{heading:?}: router {measured:.2?}, {:?}", router.counts());
            measured
        });
        let in_gateway = BOTH.map(|heading| {
            let words = "--io tap --lan tap0 --wan tap1 --up 10mbit --down 10mbit";
            let gateway = Gateway::start_with(&row.gw, words);
            let measured = measure(&row, heading);
            gateway.end();
            println!("{heading:?}: gateway {measured:.2?}");
            measured
        });
        for ((heading, router), gateway) in BOTH.iter().zip(in_router).zip(in_gateway) {
            let failed = |what: &str| {
                Err(format!("{heading:?}: {what}: router {router:.2?}, gateway {gateway:.2?}"))
            };
            if !(9.0..MOST_GOODPUT * 1.01).contains(&router.goodput) {
                return failed("goodput (expected 9 to 9.6 Mbit/s)");
            }
            if router.lost > 0.01 {
                return failed("the probe lost packets (expected at most 1 %)");
            }
            if router.p50 > gateway.p50 + 1.0 {
                return failed("the median is over 1 ms above the gateway's");
            }
            if router.p95 > gateway.p95 + 2.0 {
                return failed("the 95th percentile is over 2 ms above the gateway's");
            }
        }
        Ok(())
    });
}

/// Returns how many of `count` echo requests, sent with these options, were answered.
fn answered(from: &Namespace, words: &str) -> u32 {
    let words = words.to_owned();
    let output = from.within(|| Command::new("ping").args(words.split(' ')).output().unwrap());
    let said = String::from_utf8(output.stdout).unwrap();
    let line = said.lines().find_map(|line| line.split_once(" received")?.0.rsplit_once(' '));
    line.unwrap_or_else(|| panic!("ping {words}: {said}")).1.parse().unwrap()
}

/// Checks that each datagram of a flow at twice the rate arrives, or is counted as dropped by the
/// router or by its TAP device.
fn overload(row: &Row, router: &mut Router) {
    let in_tap = || {
        let shown = row.gw.try_ip("-s -j link show dev tap0").unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown[0]["stats64"]["tx"]["dropped"].as_u64().unwrap()
    };
    let (before, before_tap) = (router.counts()[0], in_tap());
    let flow = Paced::start(row, Heading::Up, Duration::from_micros(200), &[500]);
    thread::sleep(millis(2_000));
    let Outcome { sent, arrived } = flow.stop();
    let (after, in_tap) = (router.counts()[0], in_tap() - before_tap);
    let dropped = after.dropped + after.rejected - before.dropped - before.rejected;
    println!("overload: {sent} sent, {dropped} dropped, {in_tap} by the TAP device");
    assert_eq!(u64::from(sent), arrived.len() as u64 + dropped + in_tap);
    assert!(dropped > 0, "{after:?}");
}

/// Goal: the router carries ARP, IPv4 and IPv6 both ways, with every frame accounted for; it goes
/// on after frames that are too long, an overload and a TAP device that was down. Method: echo
/// requests after each, and the router's counters.
#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn router_goes_on_whatever_comes() {
    let Some(row) = row("routerfunc", Row::new) else { return };
    row.with_ipv6();
    let mut router = Router::boot(&row.gw);
    row.wait_for_carriers();
    let reaches = |when: &str| {
        for (from, address) in
            [(&row.c, FAR), (&row.s, HOSTS[0]), (&row.c, "fd00::2"), (&row.s, "fd00::1")]
        {
            attempts(when, || match answered(from, &format!("-c 5 -i 0.05 -W 2 {address}")) {
                5 => Ok(()),
                some => Err(format!("{address} answers {some} of 5")),
            });
        }
    };
    reaches("at first");
    // Both directions at once.
    let bulk = BOTH.map(|heading| Bulk::start(&row, HOSTS[0], heading, 8));
    for (flows, heading) in bulk.iter().zip(BOTH) {
        assert!(flows.receives(2_000_000), "{heading:?}");
    }
    drop(bulk);
    println!("after TCP: {:?}", router.counts());
    reaches("after TCP");
    // Longer than a buffer of the router.
    row.set_mtu(9_000);
    for device in ["tap0", "tap1", "br-lan", "br-wan"] {
        row.gw.ip(&format!("link set {device} mtu 9000"));
    }
    assert_eq!(answered(&row.c, &format!("-c 100 -i 0.002 -W 1 -s 3000 -M do {FAR}")), 0);
    row.set_mtu(1_500);
    for device in ["tap0", "tap1", "br-lan", "br-wan"] {
        row.gw.ip(&format!("link set {device} mtu 1500"));
    }
    println!("after long frames: {:?}", router.counts());
    reaches("after long frames");
    attempts("ping -f", || match answered(&row.c, &format!("-f -c 2000 -W 2 {FAR}")) {
        2_000 => Ok(()),
        some => Err(format!("{some} of 2000 answered")),
    });
    overload(&row, &mut router);
    reaches("after an overload");
    for tap in ["tap0", "tap1"] {
        let flows = BOTH.map(|heading| Paced::start(&row, heading, millis(2), &[500]));
        row.gw.ip(&format!("link set {tap} down"));
        thread::sleep(millis(500));
        row.gw.ip(&format!("link set {tap} up"));
        row.wait_for_carriers();
        drop(flows);
        reaches("after it was down");
    }
    println!("at last: {:?}", router.counts());
}
