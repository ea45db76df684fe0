//! The shaped driver on a TAP device, with the kernel as its peer. Needs root, `ip` and `ping`;
//! otherwise the test prints `skipped: needs CAP_NET_ADMIN` and passes, unless the environment has
//! `CI=true`.

#![cfg(target_os = "linux")]

#[path = "../../../freeboard-smoltcp/tests/namespaces/namespace.rs"]
mod namespace;

use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use conformance::measurement::tried;
use embassy_net::tcp::TcpSocket;
use embassy_net::{Config, Ipv4Cidr, Stack, StackResources, StaticConfigV4};
use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};
use embassy_time::MockDriver;
use freeboard::sched_core::Counters;
use freeboard::shaper::Rate;
use freeboard::{AqmKind, SmartQueue};
use freeboard_embassy::{ShapedDriver, SharedQueue};
use namespace::{DEVICE, Load, Namespace, STACK};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio_tun::Tun;

/// Rate of the queue in bits per second.
const RATE: u64 = 5_000_000;
const PORT: u16 = 5_000;
/// Resolution of the clock of the stack.
const TICK: Duration = Duration::from_millis(1);

/// Progress of the stack, and the request to end it.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Wake-ups: polls of the task of the stack.
    polls: AtomicU64,
}

/// Ends the stack, also if the test fails: its thread is waited for.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// A TAP device as a driver.
struct Tap {
    tun: Tun,
    room: Vec<u8>,
}

struct Received<'a>(&'a mut [u8]);

struct Slot<'a>(&'a Tun);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl TxToken for Slot<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.try_send(&frame).unwrap();
        result
    }
}

impl Driver for Tap {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Slot<'a>;

    fn receive(&mut self, cx: &mut Context<'_>) -> Option<(Received<'_>, Slot<'_>)> {
        let mut read = ReadBuf::new(&mut self.room);
        let Poll::Ready(outcome) = Pin::new(&mut self.tun).poll_read(cx, &mut read) else {
            return None;
        };
        outcome.unwrap();
        let len = read.filled().len();
        Some((Received(&mut self.room[..len]), Slot(&self.tun)))
    }

    fn transmit(&mut self, _: &mut Context<'_>) -> Option<Slot<'_>> {
        Some(Slot(&self.tun))
    }

    fn link_state(&mut self, _: &mut Context<'_>) -> LinkState {
        LinkState::Up
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = 1_514;
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ethernet([2, 0, 0, 0, 0, 2])
    }
}

/// Sends to whoever connects.
async fn serve(stack: Stack<'_>) {
    let [mut receive, mut send] = [64, 65_535].map(|len| vec![0; len]);
    loop {
        let mut socket = TcpSocket::new(stack, &mut receive, &mut send);
        socket.accept(PORT).await.unwrap();
        while socket.write(&[7; 4_096]).await.is_ok() {}
    }
}

/// Runs a stack until the test is over. `exists` receives a message when the
/// TAP device exists.
fn run(shared: &Arc<Shared>, exists: &Sender<()>) -> Counters {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let mut taps = Tun::builder().name(DEVICE).tap().build().unwrap();
        let tap = Tap { tun: taps.remove(0), room: vec![0; 2_000] };
        let uplink = SmartQueue::upload(Rate::bits_per_second(RATE).unwrap());
        // For a connection of the stack itself to a receiver that raises its window.
        let queue = SharedQueue::new(uplink.aqm(AqmKind::None).frames([42; 16]).unwrap());
        // Tasks are `'static`.
        let queue = &*Box::leak(Box::new(queue));
        let driver = ShapedDriver::new(tap, queue).unwrap();
        let address = Ipv4Cidr::new(STACK.into(), 24);
        let config = StaticConfigV4 { address, gateway: None, dns_servers: Default::default() };
        let resources = Box::leak(Box::new(StackResources::<4>::new()));
        let (stack, runner) = embassy_net::new(driver, Config::ipv4_static(config), resources, 1);
        let runner = Box::leak(Box::new(runner));
        tokio::task::spawn_local(serve(stack));
        let mut running = Box::pin(runner.run());
        let polled = Arc::clone(shared);
        tokio::task::spawn_local(poll_fn(move |cx| {
            polled.polls.fetch_add(1, Ordering::Relaxed);
            running.as_mut().poll(cx).map(|never| match never {})
        }));
        exists.send(()).unwrap();
        // The clock of the stack follows that of the machine.
        let (mut clock, mut shown) = (tokio::time::interval(TICK), Duration::ZERO);
        let begin = Instant::now();
        while !shared.is_over.load(Ordering::Relaxed) {
            clock.tick().await;
            let step = begin.elapsed() - shown;
            MockDriver::get().advance(embassy_time::Duration::from_micros(step.as_micros() as u64));
            shown += Duration::from_micros(step.as_micros() as u64);
        }
        queue.with(|queue| {
            queue.recount().unwrap();
            queue.counters()
        })
    })
}

fn measure(namespace: &Namespace, shared: &Shared) -> Result<(), String> {
    let Load { share, pings, per_frame, idle } =
        namespace.load(PORT, RATE, || shared.polls.load(Ordering::Relaxed));
    let worst = pings.iter().copied().fold(0.0, f64::max);
    let said = format!(
        "goodput {share:.3} of the rate, {} pings of 15 answered in at most {worst:.1} ms, {per_frame:.1} polls a frame, {idle} in an idle second",
        pings.len(),
    );
    println!("{said}");
    // 0.964 of a frame is payload. A poll is for a frame that may leave, an acknowledgement or a
    // timer of TCP. A response waits for one frame, 2.4 ms, and the clock, not for the window of
    // the connection.
    let is_right = (0.9..1.0).contains(&share)
        && (pings.len() == 15 && worst < 20.0)
        && per_frame < 8.0
        && idle < 10;
    if is_right { Ok(()) } else { Err(said) }
}

/// Goal: on a real device the connection of a kernel reaches the rate, other flows do not wait for
/// it, and the task of the stack sleeps while there is nothing to do. Method: a download from the
/// stack with pings beside it, and the polls of the task.
#[test]
fn on_a_tap_device() {
    let Some(namespace) = Namespace::new("embassy") else { return };
    let shared = Arc::new(Shared::default());
    let (measured, counters) = thread::scope(|scope| {
        let (exists, exist) = mpsc::channel();
        let (inside, running) = (&namespace, &shared);
        let stack = scope.spawn(move || inside.within(|| run(running, &exists)));
        let end = End(&shared);
        exist.recv().unwrap();
        namespace.set_up();
        let measured = tried("freeboard-embassy", || measure(&namespace, &shared));
        drop(end);
        (measured, stack.join().unwrap())
    });
    measured.unwrap();
    assert_eq!(counters.rejected.packets, 0);
}
