//! Builds, boots and tests the router in `firmware/router`, a bridge without an operating system.

use core::time::Duration;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::firmware::build;
use crate::publish::skip;
use crate::run::{cargo, has, root, succeed};
use crate::tools::{Tool, need, need_target};

const QEMU: &str = "qemu-system-riscv64";
const TARGET: &str = "riscv64imac-unknown-none-elf";
const QEMU_PACKAGES: Tool = (QEMU, &["qemu-system-misc", "qemu-system-riscv"]);
/// The machine, which the tests of the gateway boot too.
const MACHINE: &str = include_str!("../../firmware/router/qemu.args");
/// The longest frame that the router forwards: an Ethernet frame with two tags.
const MAX_FRAME: usize = 1_522;
/// Length of the frame after which nothing more comes.
const MARKER: usize = 77;
/// Timeout for anything that should be quick.
const PATIENCE: Duration = Duration::from_secs(60);
/// Default settings of a direction.
const RATE: &str = "bandwidth 10mbit";

/// Command line of the router.
#[derive(clap::Args)]
pub(crate) struct Boot {
    /// TAP device on the side of the hosts; QEMU creates it if it does not exist
    #[arg(long, value_name = "TAP", requires = "wan")]
    lan: Option<String>,
    /// TAP device on the side of the Internet
    #[arg(long, value_name = "TAP", requires = "lan")]
    wan: Option<String>,
    /// Settings of the upload direction, in the keywords of tc for CAKE
    #[arg(long, value_name = "KEYWORDS", default_value = RATE)]
    upload: String,
    /// Settings of the download direction
    #[arg(long, value_name = "KEYWORDS", default_value = RATE)]
    download: String,
    /// Test it with raw frames, then with kernel TCP beside the Linux gateway: needs
    /// CAP_NET_ADMIN; as root it installs missing programs
    #[arg(long, conflicts_with_all = ["lan", "upload", "download"])]
    test: bool,
}

pub(crate) fn run(boot: &Boot) -> Result<(), String> {
    need(&[QEMU_PACKAGES])?;
    if boot.test {
        return test();
    }
    let mut router = qemu(&image()?, &boot.upload, &boot.download);
    for (side, tap, hub) in [("lan", &boot.lan, 0), ("wan", &boot.wan, 1)] {
        router.arg("-netdev").arg(match tap {
            Some(tap) => format!("tap,id={side},ifname={tap},script=no,downscript=no"),
            None => format!("hubport,id={side},hubid={hub}"),
        });
    }
    if boot.lan.is_none() {
        eprintln!("xtask: without --lan and --wan the network cards have no cable");
    }
    succeed("router; end it with Ctrl-C", &mut router)
}

/// Tests with raw frames and with kernel traffic.
fn test() -> Result<(), String> {
    need(&[
        ("ip", &["iproute2"]),
        ("tc", &["iproute2"]),
        ("ping", &["iputils-ping"]),
        ("ethtool", &["ethtool"]),
        ("setpriv", &["util-linux"]),
    ])?;
    frames()?;
    let namespace = format!("fb{}-probe", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &namespace]).output();
    let made = made.map_err(|error| format!("ip: {error}"))?;
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr);
        return Err(format!("kernel traffic needs root or CAP_NET_ADMIN: {}", why.trim()));
    }
    let _ = Command::new("ip").args(["netns", "del", &namespace]).status();
    let mut tests = cargo(".");
    tests.args(["test", "--package", "gateway", "--test", "namespaces", "router::", "--"]);
    tests.args(["--include-ignored", "--nocapture", "--test-threads=1"]).env("CI", "true");
    succeed("kernel traffic through the router and through the gateway", &mut tests)
}

/// Builds the program; returns its path.
fn image() -> Result<PathBuf, String> {
    need_target(TARGET)?;
    build("router", TARGET, "", &root().join("target/router-firmware"))
}

/// Returns the command that boots it, except `-netdev` for `lan` and for `wan`.
fn qemu(image: &Path, upload: &str, download: &str) -> Command {
    let mut qemu = Command::new(QEMU);
    qemu.args(MACHINE.split_whitespace()).arg("-kernel").arg(image);
    qemu.arg("-append").arg(format!("upload {upload}; download {download}"));
    qemu
}

/// Checks the program with raw frames, without privileges.
pub(crate) fn check() -> Result<(), String> {
    if !has(QEMU) {
        return skip("router in QEMU", QEMU, "apt-get install qemu-system-misc");
    }
    frames()
}

/// Sends raw frames through the router, over sockets of QEMU, which lose none.
fn frames() -> Result<(), String> {
    eprintln!("xtask: raw frames through the router");
    let mut router = Running::boot()?;
    lengths(&mut router)?;
    burst(&mut router)?;
    blocked(&mut router)?;
    lengths(&mut router)?;
    sleeps(&router)?;
    refused()
}

/// A running router, with the other ends of the cables of both network cards, killed on drop.
struct Running {
    child: Child,
    keys: ChildStdin,
    screen: BufReader<ChildStdout>,
    /// The LAN side and the WAN side.
    ends: [TcpStream; 2],
}

/// Counters of a direction.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    received: u64,
    sent: u64,
    dropped: u64,
    rejected: u64,
    queued: u64,
}

impl Counts {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let count = |name| {
            words
                .iter()
                .position(|&word| word == name)
                .and_then(|at| words.get(at + 1)?.parse().ok())
        };
        let [received, sent, dropped, rejected, queued] =
            ["received", "sent", "dropped", "rejected", "queued"].map(count);
        Some(Self {
            received: received?,
            sent: sent?,
            dropped: dropped?,
            rejected: rejected?,
            queued: queued?,
        })
    }
}

impl Running {
    /// Boots a router without a limit on the rate, and waits until it forwards.
    fn boot() -> Result<Self, String> {
        let fails = |error: std::io::Error| format!("router: {error}");
        let mut command = qemu(&image()?, "bandwidth unlimited", "bandwidth unlimited");
        let mut listeners = Vec::new();
        for side in ["lan", "wan"] {
            let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(fails)?;
            let address = listener.local_addr().map_err(fails)?;
            command.arg("-netdev").arg(format!("socket,id={side},connect={address}"));
            listeners.push(listener);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(fails)?;
        let (Some(keys), Some(screen)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("router: no serial port".into());
        };
        let mut screen = BufReader::new(screen);
        let mut line = String::new();
        while !line.starts_with("press Enter") {
            line.clear();
            if screen.read_line(&mut line).map_err(fails)? == 0 {
                return Err(format!("router: {:?} before it forwards", child.wait()));
            }
        }
        let [lan, wan] = [0, 1].map(|side| listeners[side].accept());
        let ends = [lan.map_err(fails)?.0, wan.map_err(fails)?.0];
        for end in &ends {
            end.set_read_timeout(Some(PATIENCE)).map_err(fails)?;
            end.set_write_timeout(Some(PATIENCE)).map_err(fails)?;
        }
        Ok(Self { child, keys, screen, ends })
    }

    /// Returns the counters for upload and download, in which every frame is accounted for.
    fn counts(&mut self) -> Result<[Counts; 2], String> {
        self.keys.write_all(b"\n").map_err(|error| format!("keys of the router: {error}"))?;
        let mut both = [Counts::default(); 2];
        for counts in &mut both {
            let mut line = String::new();
            self.screen.read_line(&mut line).map_err(|error| format!("router: {error}"))?;
            *counts = Counts::parse(line.trim_end()).ok_or(format!("no counters in `{line}`"))?;
            let Counts { received, sent, dropped, rejected, queued } = *counts;
            if received != sent + dropped + rejected + queued {
                return Err(format!("unaccounted frames: {counts:?}"));
            }
        }
        Ok(both)
    }

    /// Waits until the counters for upload and download are as expected.
    fn wait(
        &mut self,
        what: &str,
        is_expected: impl Fn(&[Counts; 2]) -> bool,
    ) -> Result<[Counts; 2], String> {
        let begin = Instant::now();
        loop {
            let counts = self.counts()?;
            if is_expected(&counts) {
                return Ok(counts);
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("{what} (expected within {PATIENCE:?}): {counts:?}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a frame of `len` bytes, with a type for experiments and all bytes by its number.
fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.resize(len.max(frame.len()), number as u8);
    frame.truncate(len);
    frame
}

fn send(end: &mut impl Write, frame: &[u8]) -> Result<(), String> {
    let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
    bytes.extend(frame);
    end.write_all(&bytes).map_err(|error| format!("sending a frame to the router: {error}"))
}

fn receive(end: &mut impl Read) -> Result<Vec<u8>, String> {
    let fails = |error| format!("a frame of the router: {error}");
    let mut len = [0; 4];
    end.read_exact(&mut len).map_err(fails)?;
    let mut frame = vec![0; u32::from_be_bytes(len) as usize];
    end.read_exact(&mut frame).map_err(fails)?;
    Ok(frame)
}

/// Sends `count` frames of `len` bytes to the LAN side.
fn flood(router: &mut Running, count: u32, len: usize) -> Result<(), String> {
    (0..count).try_for_each(|number| send(&mut router.ends[0], &frame(number, len)))
}

/// Checks that frames of every length pass unchanged in both directions, and that the network card
/// drops longer ones.
fn lengths(router: &mut Running) -> Result<(), String> {
    let before = router.counts()?;
    let lens = [14, 15, 18, 59, 60, 61, 500, 1_513, 1_514, 1_518, MAX_FRAME];
    for (from, to) in [(0, 1), (1, 0)] {
        for (number, len) in (0..).zip(lens) {
            for longer in [MAX_FRAME + 1, 9_000, 65_535] {
                send(&mut router.ends[from], &frame(u32::MAX, longer))?;
            }
            let sent = frame(number, len);
            send(&mut router.ends[from], &sent)?;
            let came = receive(&mut router.ends[to])?;
            // Some versions of QEMU pad short frames.
            if !came.starts_with(&sent) || (came.len() != len && came.len() != 60) {
                return Err(format!("{came:02x?} of {} bytes (expected {len})", came.len()));
            }
        }
    }
    let after = router.counts()?;
    for (before, after) in before.iter().zip(after) {
        let [received, sent] = [after.received - before.received, after.sent - before.sent];
        if [received, sent] != [lens.len() as u64; 2] {
            return Err(format!("received {received}, sent {sent} (expected {})", lens.len()));
        }
    }
    Ok(())
}

/// Starts to receive on the WAN side, until a frame of [`MARKER`] bytes; returns the number of the
/// frames before it.
fn receiver(router: &Running) -> Result<JoinHandle<Result<u64, String>>, String> {
    let end = router.ends[1].try_clone().map_err(|error| format!("router: {error}"))?;
    Ok(thread::spawn(move || {
        let mut end = BufReader::new(end);
        let mut count = 0;
        while receive(&mut end)?.len() != MARKER {
            count += 1;
        }
        Ok(count)
    }))
}

/// Waits until the upload queue is empty. Checks that the router has received `offered` frames
/// since `before`, and that those that it has sent have arrived. Returns their number.
fn settle(
    router: &mut Running,
    before: Counts,
    offered: u64,
    receiver: JoinHandle<Result<u64, String>>,
) -> Result<u64, String> {
    let is_over = |counts: &[Counts; 2]| {
        counts[0].received == before.received + offered && counts[0].queued == 0
    };
    let sent = router.wait("frames of a flood", is_over)?[0].sent - before.sent;
    send(&mut router.ends[0], &frame(0, MARKER))?;
    let arrived = receiver.join().map_err(|_| "the receiver panicked")??;
    if arrived == sent { Ok(arrived) } else { Err(format!("{arrived} frames of {sent} arrived")) }
}

/// Checks that nothing is lost uncounted when frames come as fast as they can: so many that the
/// counters of the rings, of 16 bits, wrap around.
fn burst(router: &mut Running) -> Result<(), String> {
    const COUNT: u32 = 70_000;
    let before = router.counts()?[0];
    let receiver = receiver(router)?;
    let begin = Instant::now();
    flood(router, COUNT, 60)?;
    let arrived = settle(router, before, COUNT.into(), receiver)?;
    let span = begin.elapsed().as_secs_f64();
    eprintln!(
        "xtask: {arrived} of {COUNT} short frames arrived in {span:.1} s, the others are counted"
    );
    Ok(())
}

/// Checks that frames wait and are dropped in the queue while the WAN card takes none, that the
/// other direction goes on meanwhile, and that everything queued leaves once the card takes frames.
fn blocked(router: &mut Running) -> Result<(), String> {
    const COUNT: u32 = 2_000;
    let before = router.counts()?[0];
    let mut offered = 0;
    let blocked = loop {
        flood(router, COUNT, 1_514)?;
        offered += u64::from(COUNT);
        let all_came = |counts: &[Counts; 2]| counts[0].received == before.received + offered;
        let came = router.wait("frames to a card that is full", all_came)?[0];
        thread::sleep(Duration::from_millis(200));
        let later = router.counts()?[0];
        if later.queued > 0 && later.sent == came.sent && later.dropped > before.dropped {
            break later;
        }
        // More than the buffers of the host's kernel hold.
        if offered > 100_000 {
            return Err(format!("{later:?} (expected queued frames, and some dropped)"));
        }
    };
    let back = frame(7, 100);
    send(&mut router.ends[1], &back)?;
    if receive(&mut router.ends[0])? != back {
        return Err("the download direction is blocked too".into());
    }
    let receiver = receiver(router)?;
    let arrived = settle(router, before, offered, receiver)?;
    eprintln!(
        "xtask: with a full card {} frames waited and {} were dropped, {arrived} arrived later",
        blocked.queued,
        blocked.dropped - before.dropped
    );
    Ok(())
}

/// Checks that the router sleeps while there is nothing to do.
fn sleeps(router: &Running) -> Result<(), String> {
    let path = format!("/proc/{}/stat", router.child.id());
    // Ticks of 10 ms, in user mode and in the kernel.
    let ticks = || -> Result<u64, String> {
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        Ok(fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
    };
    let before = ticks()?;
    thread::sleep(Duration::from_secs(2));
    let millis = (ticks()? - before) * 10;
    eprintln!("xtask: idle for 2 s, QEMU runs for {millis} ms");
    if millis > 400 {
        Err(format!("idle QEMU ran for {millis} ms of 2 s (expected 400)"))
    } else {
        Ok(())
    }
}

/// Checks that wrong settings are named, and end QEMU with an error.
fn refused() -> Result<(), String> {
    let image = image()?;
    for (upload, why) in [
        ("bandwidth 10mbitt", "router: upload: at byte 10, `10mbitt`: expected a rate"),
        ("diffserv4", "router: upload: no rate (expected `bandwidth 10mbit`)"),
        ("bandwidth 10mbit nat", "router: upload: `nat` is not supported"),
        ("bandwidth 10mbit fwmark 0xff", "router: upload: `fwmark` is not supported"),
        ("bandwidth 10mbit triple-isolate", "router: upload: triple-isolate: tables are missing"),
        ("bandwidth 10mbit; upload flows", "router: boot arguments: `upload` twice"),
        ("bandwidth 10mbit; side flows", "router: boot arguments: `side flows` (expected `upload"),
    ] {
        let mut qemu = qemu(&image, upload, RATE);
        for (side, hub) in [("lan", 0), ("wan", 1)] {
            qemu.arg("-netdev").arg(format!("hubport,id={side},hubid={hub}"));
        }
        let ended =
            qemu.stdin(Stdio::null()).output().map_err(|error| format!("{QEMU}: {error}"))?;
        let said = String::from_utf8_lossy(&ended.stdout);
        if ended.status.code() != Some(1) || !said.starts_with(why) {
            return Err(format!("{} {said}(expected exit code 1, {why})", ended.status));
        }
    }
    Ok(())
}
