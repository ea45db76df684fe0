//! The shaped device on a TAP device, with the kernel as its peer. Needs root, `ip` and `ping`;
//! otherwise the test prints `skipped: needs CAP_NET_ADMIN` and passes, unless the environment has
//! `CI=true`.

#![cfg(target_os = "linux")]

mod namespace;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{self, Sender};
use std::thread;

use conformance::measurement::tried;
use freeboard::sched_core::Counters;
use freeboard::shaper::Rate;
use freeboard::{AqmKind, SmartQueue};
use freeboard_smoltcp::ShapedDevice;
use namespace::{DEVICE, Load, Namespace, STACK};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Medium, TunTapInterface, wait};
use smoltcp::socket::tcp::{self, CongestionControl};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, Ipv4Address};

/// Rate of the queue in bits per second.
const RATE: u64 = 5_000_000;
const PORT: u16 = 5_000;
/// Longest sleep of the stack, after which it looks whether the test is over.
const LONGEST: smoltcp::time::Duration = smoltcp::time::Duration::from_millis(50);

/// Progress of the stack, and the request to end it.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Wake-ups: turns of the loop around the device.
    turns: AtomicU64,
}

/// Ends the stack, also if the test fails: its thread is waited for.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Runs a stack that sends to whoever connects with this window, until the test is over. `exists`
/// receives a message when the TAP device exists.
fn run(shared: &Shared, exists: &Sender<()>, (aqm, window): (AqmKind, usize)) -> Counters {
    let tap = TunTapInterface::new(DEVICE, Medium::Ethernet).unwrap();
    let fd = tap.as_raw_fd();
    let uplink = SmartQueue::upload(Rate::bits_per_second(RATE).unwrap());
    let queue = uplink.aqm(aqm).frames([42; 16]).unwrap();
    let mut device = ShapedDevice::new(tap, queue).unwrap();
    let hardware = HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, 2]));
    let now = smoltcp::time::Instant::now;
    let mut interface = Interface::new(Config::new(hardware), &mut device, now());
    let own = IpCidr::new(Ipv4Address::from(STACK).into(), 24);
    interface.update_ip_addrs(|all| all.push(own).unwrap());
    let buffer = || tcp::SocketBuffer::new(vec![0; window]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_congestion_control(CongestionControl::Reno);
    let mut sockets = SocketSet::new(vec![]);
    let server = sockets.add(socket);
    exists.send(()).unwrap();
    while !shared.is_over.load(Ordering::Relaxed) {
        shared.turns.fetch_add(1, Ordering::Relaxed);
        let socket = sockets.get_mut::<tcp::Socket<'_>>(server);
        if !socket.is_open() {
            socket.listen(PORT).unwrap();
        }
        while socket.can_send() {
            socket.send(|room| (room.len(), ())).unwrap();
        }
        if socket.state() == tcp::State::CloseWait {
            socket.abort();
        }
        interface.poll(now(), &mut device, &mut sockets);
        device.pump(now());
        let delay = device.poll_delay(now(), &mut interface, &sockets);
        let delay = delay.map_or(LONGEST, |delay| delay.min(LONGEST));
        // Whole milliseconds, rounded up: `wait` rounds down, and would return at once.
        let millis = delay.total_micros().div_ceil(1_000);
        wait(fd, Some(smoltcp::time::Duration::from_millis(millis))).unwrap();
    }
    device.queue().recount().unwrap();
    device.queue().counters()
}

fn measure(namespace: &Namespace, shared: &Shared) -> Result<(), String> {
    let Load { share, pings, per_frame, idle } =
        namespace.load(PORT, RATE, || shared.turns.load(Ordering::Relaxed));
    let worst = pings.iter().copied().fold(0.0, f64::max);
    let said = format!(
        "goodput {share:.3} of the rate, {} pings of 15 answered in at most {worst:.1} ms, {per_frame:.1} wake-ups a frame, {idle} in an idle second",
        pings.len(),
    );
    println!("{said}");
    // 0.964 of a frame is payload. A wake-up is for a frame that may leave, an acknowledgement or a
    // timer of TCP. A response waits for one frame, 2.4 ms, not for the window of the connection.
    let is_right = (0.9..1.0).contains(&share)
        && (pings.len() == 15 && worst < 20.0)
        && per_frame < 6.0
        && idle < 30;
    if is_right { Ok(()) } else { Err(said) }
}

/// Goal: on a real device the connection of a kernel reaches the rate, other flows do not wait for
/// it, and the stack sleeps while there is nothing to do. Method: a download from the stack with
/// pings beside it, and the turns of the loop around the device; a large window without an AQM and
/// one of four packets with the default, since the kernel raises its window.
#[test]
fn on_a_tap_device() {
    for case in [(AqmKind::None, 65_535), (AqmKind::Cobalt, 5_840)] {
        let Some(namespace) = Namespace::new("smoltcp") else { return };
        let shared = Shared::default();
        let (measured, counters) = thread::scope(|scope| {
            let (exists, exist) = mpsc::channel();
            let (inside, shared) = (&namespace, &shared);
            let stack = scope.spawn(move || inside.within(|| run(shared, &exists, case)));
            let end = End(shared);
            exist.recv().unwrap();
            namespace.set_up();
            let measured = tried("freeboard-smoltcp", || measure(&namespace, shared));
            drop(end);
            (measured, stack.join().unwrap())
        });
        measured.unwrap();
        assert_eq!((counters.rejected.packets, counters.dropped_total().packets), (0, 0));
    }
}
