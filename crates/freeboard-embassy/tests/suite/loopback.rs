//! Two stacks of `embassy-net` at the ends of a link, one of them behind the queue.

use core::cell::{Cell, RefCell};

use embassy_net::tcp::TcpSocket;
use embassy_net::udp::{PacketMetadata, UdpSocket};
use embassy_net::{Config, Ipv4Address, Ipv4Cidr, Stack, StackResources, StaticConfigV4};
use embassy_net_driver::HardwareAddress;
use embassy_time::{Duration, Timer};
use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use freeboard::{AqmKind, Frames, SmartQueue, SmartQueueBuilder, StaticFrames, Storage};
use freeboard_embassy::{ShapedDriver, SharedQueue, now};

use crate::line::End;
use crate::world::World;

const NEAR: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const FAR: Ipv4Address = Ipv4Address::new(10, 0, 0, 9);
/// Rate of the queue in bits per second; that of the link behind it.
const RATE: u64 = 5_000_000;
const FAST: u64 = 100_000_000;
const KEY: [u8; 16] = *b"not for real use";
const ETHERNET: [HardwareAddress; 2] =
    [HardwareAddress::Ethernet([2, 0, 0, 0, 0, 1]), HardwareAddress::Ethernet([2, 0, 0, 0, 0, 9])];
const IP: [HardwareAddress; 2] = [HardwareAddress::Ip; 2];

/// Returns a builder of a queue with this rate for the frames of this medium.
fn builder(addresses: [HardwareAddress; 2], rate: u64) -> SmartQueueBuilder {
    let builder = SmartQueue::upload(Rate::bits_per_second(rate).expect("in range"));
    if addresses == IP { builder.raw_ip() } else { builder }
}

fn config(address: Ipv4Address) -> Config {
    let address = Ipv4Cidr::new(address, 24);
    Config::ipv4_static(StaticConfigV4 { address, gateway: None, dns_servers: Default::default() })
}

#[derive(Clone, Copy, Debug)]
struct Case {
    addresses: [HardwareAddress; 2],
    round_trip: Nanos,
    connections: u16,
    /// Buffers of each connection in bytes.
    window: usize,
    /// Slots of the ring of the device, and rate of the link.
    device: (usize, u64),
}

const FROM: Duration = Duration::from_secs(2);
const UNTIL: Duration = Duration::from_secs(6);

/// Sends without end.
async fn send(stack: Stack<'_>, number: u16, window: usize) {
    let [mut receive, mut send] = [64, window].map(|len| vec![0; len]);
    let mut socket = TcpSocket::new(stack, &mut receive, &mut send);
    Timer::after(Duration::from_millis(37 * u64::from(number))).await;
    socket.connect((FAR, 5_000 + number)).await.expect("a listener");
    while socket.write(&[7; 4_096]).await.is_ok() {}
}

/// Receives without end, and counts bytes after [`FROM`].
async fn receive(stack: Stack<'_>, number: u16, window: usize, counted: &Cell<usize>) {
    let [mut receive, mut send] = [window, 64].map(|len| vec![0; len]);
    let mut socket = TcpSocket::new(stack, &mut receive, &mut send);
    socket.accept(5_000 + number).await.expect("a connection");
    let mut room = vec![0; 65_536];
    while let Ok(bytes) = socket.read(&mut room).await {
        if now() >= Nanos(FROM.as_micros() * 1_000) {
            counted.set(counted.get() + bytes);
        }
    }
}

/// Uploads through the queue and checks that the link is full, that its rate is kept, and that the
/// task of the stack is not woken in vain. Returns the payload of each connection relative to the
/// rate.
fn check<S: Storage>(case: Case, queue: SmartQueue<S, Frames<S>>) -> Vec<f64> {
    let delay = Nanos(case.round_trip.0 / 2);
    let [near, far] = End::pair(case.addresses, case.device, delay);
    let shared = SharedQueue::new(queue);
    let driver = ShapedDriver::new(near.clone(), &shared).expect("they fit");
    let mut resources = (StackResources::<8>::new(), StackResources::<8>::new());
    let (ours, mut our_runner) = embassy_net::new(driver, config(NEAR), &mut resources.0, 1);
    let (theirs, mut their_runner) = embassy_net::new(far, config(FAR), &mut resources.1, 2);
    let counted: Vec<Cell<usize>> = (0..case.connections).map(|_| Cell::new(0)).collect();
    let mut world = World::new();
    let polls = world.spawn(async move {
        our_runner.run().await;
    });
    world.spawn(async move {
        their_runner.run().await;
    });
    for (number, counted) in (0..).zip(&counted) {
        world.spawn(receive(theirs, number, case.window, counted));
        world.spawn(send(ours, number, case.window));
    }
    world.run_until(UNTIL);
    drop(world);
    let seconds = (UNTIL - FROM).as_millis() as f64 / 1e3;
    let relative = |counted: &Cell<usize>| counted.get() as f64 * 8.0 / seconds / RATE as f64;
    let goodputs: Vec<f64> = counted.iter().map(relative).collect();
    let goodput: f64 = goodputs.iter().sum();
    let polls = polls.get() as f64 / near.carried() as f64;
    println!("{case:?}: {goodput:.3}, {polls:.1} polls a frame");
    assert!((0.92..0.98).contains(&goodput), "{case:?}: {goodputs:?}");
    assert!(polls < 8.0, "{case:?}: {polls}");
    shared.with(|queue| {
        queue.recount().expect("the counters are right");
        let (counters, backlog) = (queue.counters(), u64::from(queue.backlog().packets));
        assert_eq!(counters.rejected.packets, 0, "{case:?}");
        assert_eq!(counters.dropped_total().packets, 0, "{case:?}");
        assert_eq!(counters.accepted.packets, near.carried() + backlog, "{case:?}");
    });
    goodputs
}

/// Goal: TCP of `embassy-net` fills a shaped link. Method: one and several connections at two
/// round-trip times, on both mediums: windows of three and four packets behind the default AQM, and
/// large windows without an AQM; on the heap and in the caller's memory.
#[test]
fn tcp_fills_the_link() {
    for addresses in [ETHERNET, IP] {
        for (connections, window, micros, aqm) in [
            (1, 4_380, 200, AqmKind::Cobalt),
            (4, 5_840, 200, AqmKind::Cobalt),
            (5, 4_380, 20_000, AqmKind::Cobalt),
            (1, 65_535, 200, AqmKind::None),
            (2, 65_535, 20_000, AqmKind::None),
        ] {
            let (round_trip, device) = (Nanos::from_micros(micros), (64, FAST));
            let case = Case { addresses, round_trip, connections, window, device };
            check(case, builder(addresses, RATE).aqm(aqm).frames(KEY).expect("a queue"));
        }
        let (round_trip, device) = (Nanos::from_micros(200), (64, FAST));
        let case = Case { addresses, round_trip, connections: 2, window: 5_840, device };
        let mut memory = StaticFrames::<32, 1_514, 1>::new();
        check(case, builder(addresses, RATE).frames_in(&mut memory, KEY).expect("a queue"));
    }
}

/// Goal: behind a device that is slower than the queue, the connections share its rate equally: the
/// device wakes the task when it has sent. Method: a fast queue, and a ring of two slots.
#[test]
fn a_full_device_sends_from_the_queue_when_it_can() {
    for addresses in [ETHERNET, IP] {
        let (round_trip, device) = (Nanos::from_micros(200), (2, RATE));
        let case = Case { addresses, round_trip, connections: 2, window: 5_840, device };
        let goodputs = check(case, builder(addresses, FAST).frames(KEY).expect("a queue"));
        assert!(goodputs.iter().all(|goodput| (0.4..0.6).contains(goodput)), "{goodputs:?}");
    }
}

/// Sends `count` datagrams of 1,000 bytes at once.
async fn datagrams(stack: Stack<'_>, count: usize) {
    let mut meta = ([PacketMetadata::EMPTY; 16], [PacketMetadata::EMPTY; 16]);
    let (mut receive, mut send) = ([0; 16], vec![0; 16_384]);
    let mut socket = UdpSocket::new(stack, &mut meta.0, &mut receive, &mut meta.1, &mut send);
    socket.bind(4_000).expect("a free port");
    for _ in 0..count {
        socket.send_to(&[7; 972], (FAR, 4_000)).await.expect("there is room");
    }
    core::future::pending().await
}

/// Records the times of arriving datagrams.
async fn arrivals(stack: Stack<'_>, times: &RefCell<Vec<Nanos>>) {
    let mut meta = ([PacketMetadata::EMPTY; 16], [PacketMetadata::EMPTY; 16]);
    let (mut receive, mut send) = (vec![0; 16_384], [0; 16]);
    let mut socket = UdpSocket::new(stack, &mut meta.0, &mut receive, &mut meta.1, &mut send);
    socket.bind(4_000).expect("a free port");
    loop {
        let _ = socket.recv_from(&mut [0; 1_500]).await.expect("a datagram");
        times.borrow_mut().push(now());
    }
}

/// Goal: the last frames leave in time although nothing else happens, and the task sleeps
/// otherwise: the rule for wake-ups. Method: at 100 kbit/s a packet of 1,000 bytes takes 80 ms;
/// five datagrams, whose sender then does nothing; UDP has no timers. Then a frame and another rate
/// from another task.
#[test]
fn frames_leave_in_time_without_another_event() {
    let [near, far] = End::pair(IP, (64, FAST), Nanos::ZERO);
    let shared = SharedQueue::new(builder(IP, 100_000).frames(KEY).expect("a queue"));
    let driver = ShapedDriver::new(near.clone(), &shared).expect("they fit");
    let mut resources = (StackResources::<4>::new(), StackResources::<4>::new());
    let (ours, mut our_runner) = embassy_net::new(driver, config(NEAR), &mut resources.0, 1);
    let (theirs, mut their_runner) = embassy_net::new(far, config(FAR), &mut resources.1, 2);
    let times = RefCell::new(vec![]);
    let mut world = World::new();
    let polls = world.spawn(async move {
        our_runner.run().await;
    });
    world.spawn(async move {
        their_runner.run().await;
    });
    world.spawn(datagrams(ours, 5));
    world.spawn(arrivals(theirs, &times));
    world.run_until(Duration::from_secs(1));
    // The time on the wire behind the queue, and a step of the simulation for each hand-over.
    let is_at =
        |time: Nanos, millis: i64| (0..300_000).contains(&(time.0 as i64 - millis * 1_000_000));
    {
        let times = times.borrow();
        assert_eq!(times.len(), 5);
        let mut expected = (0..5).map(|number| 80 * number);
        assert!(times.iter().all(|&time| is_at(time, expected.next().unwrap_or(0))), "{times:?}");
    }
    assert!(polls.get() <= 16, "{} polls for 5 packets", polls.get());

    // Two packets of another host: the second leaves when the first has, 80 ms later, but at 20 ms
    // the rate becomes ten times as high, so that 6 ms remain.
    let before = polls.get();
    let mut packet = [0; 1_000];
    packet[..10].copy_from_slice(&[0x45, 0, 3, 0xe8, 0, 0, 0, 0, 64, 17]);
    for _ in 0..2 {
        shared.forward(&packet).expect("there is room");
    }
    world.run_until(Duration::from_millis(1_020));
    assert_eq!(near.carried(), 6);
    let faster = Rate::megabits_per_second(1).expect("in range");
    shared.with(|queue| queue.set_rate(now(), faster));
    world.run_until(Duration::from_micros(1_025_900));
    assert_eq!(near.carried(), 6);
    world.run_until(Duration::from_micros(1_026_100));
    assert_eq!(near.carried(), 7);
    world.run_until(Duration::from_secs(2));
    assert!(polls.get() - before <= 8, "{} polls for 2 packets", polls.get() - before);
}
