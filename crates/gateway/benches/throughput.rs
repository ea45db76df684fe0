//! Forwarding rate of the gateway and its cost: `cargo bench -p gateway --bench throughput`, as
//! root.
//!
//! Three namespaces in a row, with veth pairs between them (for TAP devices, one more bridge on
//! either side). A thread sends UDP over 64 flows as fast as the kernel accepts it; the last
//! interface counts what arrives. For comparison: the kernel's bridge with tbf at a rate that never
//! delays anything.
//!
//! The last interface swallows frames: they are addressed to a MAC address that it does not have,
//! and the kernel drops them after counting. That matters because the kernel's work for a frame at
//! the far end of a veth pair is accounted to the process that sent it. `--to closed` sends to a
//! closed UDP port instead, where each frame costs an ICMP message at the far end, and `--to open`
//! to a socket that nothing reads.
//!
//! CPU is in microseconds per frame: of the sender, of the gateway's process, and of the kernel's
//! threads for deferred network work (`ksoftirqd`), to which both leave work.
//!
//! Arguments after `--` select rows by a part of their name; `--secs N` makes each row last N
//! seconds.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use core::net::{Ipv4Addr, SocketAddrV4};
    use core::sync::atomic::{AtomicBool, Ordering};
    use core::time::Duration;
    use std::fs::{self, File};
    use std::io::IoSlice;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd as _;
    use std::process::{Child, Command, Stdio};

    use std::thread;
    use std::time::Instant;

    use nix::sched::{CloneFlags, setns};
    use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, sendmmsg};

    /// Number of flows.
    const FLOWS: u16 = 64;
    /// Number of datagrams sent with one call.
    const BURST: usize = 64;
    /// Destination port.
    const PORT: u16 = 9;
    /// Length of Ethernet, IPv4 and UDP headers.
    const HEADERS: usize = 42;

    pub(crate) fn main() {
        let mut words: Vec<String> =
            std::env::args().skip(1).filter(|word| word != "--bench").collect();
        let mut option = |name: &str| {
            let at = words.iter().position(|word| word == name)?;
            words.remove(at);
            (at < words.len()).then(|| words.remove(at))
        };
        let secs = option("--secs").map_or(3, |secs| secs.parse().expect("--secs takes seconds"));
        let end = match option("--to").as_deref() {
            None => End::Swallows,
            Some("closed") => End::ClosedPort,
            Some("open") => End::OpenSocket,
            Some(_) => panic!("--to takes closed or open"),
        };
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs CAP_NET_ADMIN");
            return;
        }
        println!(
            "{:<26} {:>6} {:>11} {:>9} {:>11} {:>12} {:>12} {:>9}",
            "what",
            "frame",
            "frames/s",
            "Gbit/s",
            "sender, us",
            "gateway, us",
            "kernel's, us",
            "user part"
        );
        for len in [64, 1_514] {
            for (name, how) in rows() {
                let row = format!("{name} {len}");
                if words.is_empty() || words.iter().any(|word| row.contains(word.as_str())) {
                    measure((name, how), end, len, secs);
                }
            }
        }
    }

    /// Fate of frames at the far end.
    #[derive(Clone, Copy, PartialEq)]
    enum End {
        /// Addressed to another device, and dropped.
        Swallows,
        /// Sent to a closed port: the kernel answers with ICMP.
        ClosedPort,
        /// Queued at a socket that nothing reads, and dropped when it is full.
        OpenSocket,
    }

    /// Device under test.
    #[derive(Clone, Copy)]
    enum Middle {
        Bridge,
        Gateway { io: &'static str, queue: &'static str },
    }

    fn rows() -> Vec<(&'static str, Middle)> {
        let gateway = |io, queue| Middle::Gateway { io, queue };
        vec![
            ("kernel bridge with tbf", Middle::Bridge),
            ("packet fifo", gateway("packet", "fifo")),
            ("packet drr, hosts", gateway("packet", "drr")),
            ("packet sqf", gateway("packet", "sqf")),
            ("packet qfq", gateway("packet", "qfq")),
            ("tap fifo", gateway("tap", "fifo")),
            ("tap drr, hosts", gateway("tap", "drr")),
        ]
    }

    fn ip(words: &str) {
        let status =
            Command::new("ip").args(words.split(' ')).status().expect("iproute2 is installed");
        assert!(status.success(), "ip {words}");
    }

    /// Three namespaces, removed on drop.
    struct Bed {
        names: [String; 3],
    }

    impl Bed {
        fn new(end: End) -> Self {
            let names = ["c", "g", "s"].map(|part| format!("fbt{}{part}", std::process::id()));
            let bed = Self { names };
            let [c, g, s] = &bed.names;
            for name in &bed.names {
                ip(&format!("netns add {name}"));
            }
            ip(&format!("link add c0 netns {c} type veth peer name lan netns {g}"));
            ip(&format!("link add s0 netns {s} type veth peer name wan netns {g}"));
            ip(&format!("-n {c} addr add 10.9.0.1/24 dev c0"));
            ip(&format!("-n {s} addr add 10.9.0.2/24 dev s0"));
            for (name, device) in [(c, "c0"), (g, "lan"), (g, "wan"), (s, "s0")] {
                ip(&format!("-n {name} link set {device} up"));
            }
            if end == End::Swallows {
                ip(&format!("-n {c} neigh replace 10.9.0.2 lladdr 02:00:00:00:00:99 dev c0"));
            }
            bed
        }

        /// Opens a socket at the far end, the destination of the frames.
        fn listen(&self) -> UdpSocket {
            let listen = || {
                self.enter(2);
                UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).expect("the port is free")
            };
            thread::scope(|scope| scope.spawn(listen).join()).expect("it listens")
        }

        fn enter(&self, part: usize) {
            let file = File::open(format!("/run/netns/{}", self.names[part])).expect("it was made");
            setns(file, CloneFlags::CLONE_NEWNET).expect("root may");
        }

        /// Returns the frames and bytes that have arrived at the far end.
        fn arrived(&self) -> (u64, u64) {
            let output = Command::new("ip")
                .args(["-n", &self.names[2], "-s", "-j", "link", "show", "s0"])
                .output()
                .expect("iproute2 is installed");
            let value: serde_json::Value =
                serde_json::from_slice(&output.stdout).expect("it says JSON");
            let count = |what: &str| value[0]["stats64"]["rx"][what].as_u64().expect("a count");
            (count("packets"), count("bytes"))
        }
    }

    impl Drop for Bed {
        fn drop(&mut self) {
            for name in &self.names {
                let _ = Command::new("ip").args(["netns", "del", name]).status();
            }
        }
    }

    fn middle(bed: &Bed, how: Middle) -> Option<Child> {
        let g = &bed.names[1];
        let (io, queue) = match how {
            Middle::Bridge => {
                ip(&format!("-n {g} link add br0 type bridge"));
                for device in ["lan", "wan"] {
                    ip(&format!("-n {g} link set {device} master br0"));
                    let words = format!(
                        "netns exec {g} tc qdisc add dev {device} root tbf rate 40gbit burst 4mb latency 50ms"
                    );
                    ip(&words);
                }
                ip(&format!("-n {g} link set br0 up"));
                return None;
            }
            Middle::Gateway { io, queue } => (io, queue),
        };
        let (mut lan, mut wan) = ("lan", "wan");
        if io == "tap" {
            for (device, tap) in [("lan", "tlan"), ("wan", "twan")] {
                ip(&format!("-n {g} tuntap add {tap} mode tap"));
                ip(&format!("-n {g} link add b{tap} type bridge"));
                for port in [device, tap] {
                    ip(&format!("-n {g} link set {port} master b{tap}"));
                }
                ip(&format!("-n {g} link set {tap} up"));
                ip(&format!("-n {g} link set b{tap} up"));
            }
            (lan, wan) = ("tlan", "twan");
        }
        let words = format!(
            "netns exec {g} {} --lan {lan} --wan {wan} --up unlimited --down unlimited --io {io} --queue {queue}",
            env!("CARGO_BIN_EXE_freeboard-gateway")
        );
        let child = Command::new("ip")
            .args(words.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        thread::sleep(Duration::from_millis(500));
        Some(child.expect("it starts"))
    }

    /// Returns the run time of a thread, or of a single-threaded process, in nanoseconds.
    fn nanos_of(task: u32) -> u64 {
        let text = fs::read_to_string(format!("/proc/{task}/schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// Returns the user and system ticks of a process.
    fn ticks_of(process: u32) -> [u64; 2] {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let behind_name = text.rsplit(')').next().unwrap_or("");
        let words: Vec<&str> = behind_name.split_whitespace().collect();
        [11, 12].map(|at| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0))
    }

    /// Returns the ids of the kernel's threads for deferred network work.
    fn kernel_threads() -> Vec<u32> {
        let all = fs::read_dir("/proc").expect("proc is mounted");
        let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_one = |task: &u32| {
            fs::read_to_string(format!("/proc/{task}/comm"))
                .is_ok_and(|name| name.starts_with("ksoftirqd/"))
        };
        numbers.filter(is_one).collect()
    }

    /// Counters at one time.
    struct Counts {
        at: Instant,
        arrived: (u64, u64),
        sender: u64,
        gateway: Option<(u64, [u64; 2])>,
        kernel: u64,
    }

    impl Counts {
        fn now(bed: &Bed, sender: u32, gateway: Option<u32>, kernel: &[u32]) -> Self {
            Self {
                at: Instant::now(),
                arrived: bed.arrived(),
                sender: nanos_of(sender),
                gateway: gateway.map(|process| (nanos_of(process), ticks_of(process))),
                kernel: kernel.iter().map(|&task| nanos_of(task)).sum(),
            }
        }
    }

    fn measure((name, how): (&str, Middle), end: End, len: usize, secs: u64) {
        let bed = Bed::new(end);
        let mut child = middle(&bed, how);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _open = (end == End::OpenSocket).then(|| bed.listen());
            let (told, sender) = std::sync::mpsc::channel();
            let (bed, is_over) = (&bed, &is_over);
            scope.spawn(move || {
                let _ = told.send(nix::unistd::gettid().as_raw().cast_unsigned());
                send(bed, len, is_over);
            });
            let sender = sender.recv().expect("the sender says its number");
            thread::sleep(Duration::from_secs(1));
            let (gateway, kernel) = (child.as_ref().map(Child::id), kernel_threads());
            let before = Counts::now(bed, sender, gateway, &kernel);
            thread::sleep(Duration::from_secs(secs));
            let after = Counts::now(bed, sender, gateway, &kernel);
            is_over.store(true, Ordering::Relaxed);
            let span = (after.at - before.at).as_secs_f64();
            let frames = (after.arrived.0 - before.arrived.0) as f64;
            let gbits = (after.arrived.1 - before.arrived.1) as f64 * 8.0 / 1e9;
            let each =
                |before: u64, after: u64| format!("{:.2}", (after - before) as f64 / 1e3 / frames);
            let (of_gateway, user) = match (before.gateway, after.gateway) {
                (Some((before, ticks)), Some((after, ticks_after))) => {
                    let [user, system] = [0, 1].map(|at| (ticks_after[at] - ticks[at]) as f64);
                    (each(before, after), format!("{:.0} %", 100.0 * user / (user + system)))
                }
                _ => ("-".to_owned(), "-".to_owned()),
            };
            println!(
                "{name:<26} {len:>6} {:>11.0} {:>9.3} {:>11} {of_gateway:>12} {:>12} {user:>9}",
                frames / span,
                gbits / span,
                each(before.sender, after.sender),
                each(before.kernel, after.kernel),
            );
        });
        if let Some(child) = &mut child {
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let _ = child.wait();
        }
    }

    /// Sends frames of `len` bytes until `is_over`.
    fn send(bed: &Bed, len: usize, is_over: &AtomicBool) {
        bed.enter(0);
        let sockets: Vec<UdpSocket> = (0..FLOWS)
            .map(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port"))
            .collect();
        let payload = vec![0; len - HEADERS];
        let slices: Vec<[IoSlice<'_>; 1]> = (0..BURST).map(|_| [IoSlice::new(&payload)]).collect();
        let to: Vec<Option<SockaddrIn>> =
            vec![Some(SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 2), PORT).into()); BURST];
        let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BURST, None);
        for socket in sockets.iter().cycle() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let _ = sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &to, [], MsgFlags::empty());
        }
    }
}
