//! Two stacks of smoltcp at the ends of a link, one of them behind the queue.

use freeboard::shaper::Rate;
use freeboard::{
    AqmKind, FrameQueue, Frames, PushError, SmartQueue, SmartQueueBuilder, StaticFrames, Storage,
};
use freeboard_smoltcp::ShapedDevice;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, Loopback, Medium};
use smoltcp::socket::tcp::{self, CongestionControl};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    EthernetAddress, HardwareAddress, Icmpv4Packet, Icmpv4Repr, IpCidr, IpProtocol, Ipv4Address,
    Ipv4Packet, Ipv4Repr,
};

use crate::wire::Wire;

const NEAR: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const FAR: Ipv4Address = Ipv4Address::new(10, 0, 0, 9);
/// Rate of the queue in bits per second; that of the link behind it.
const RATE: u64 = 5_000_000;
const FAST: u64 = 100_000_000;
const KEY: [u8; 16] = *b"not for real use";
const MEDIUMS: [Medium; 2] = [Medium::Ethernet, Medium::Ip];

/// Returns a builder of a queue with this rate for the frames of this medium.
fn builder(medium: Medium, rate: Rate) -> SmartQueueBuilder {
    let builder = SmartQueue::upload(rate);
    if medium == Medium::Ip { builder.raw_ip() } else { builder }
}

fn rate() -> Rate {
    Rate::bits_per_second(RATE).expect("in range")
}

fn interface(address: Ipv4Address, device: &mut impl Device) -> Interface {
    let hardware = match device.capabilities().medium {
        Medium::Ethernet => {
            let [.., last] = address.octets();
            HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, last]))
        }
        _ => HardwareAddress::Ip,
    };
    let mut interface = Interface::new(Config::new(hardware), device, Instant::ZERO);
    let own = IpCidr::new(address.into(), 24);
    interface.update_ip_addrs(|all| all.push(own).expect("the first address"));
    interface
}

#[derive(Clone, Copy, Debug)]
struct Case {
    medium: Medium,
    round_trip: Duration,
    connections: u16,
    control: CongestionControl,
    /// Buffers of each connection in bytes.
    window: usize,
}

impl Case {
    const fn new(medium: Medium, micros: u64, control: CongestionControl) -> Self {
        let round_trip = Duration::from_micros(micros);
        Self { medium, round_trip, connections: 1, control, window: 65_535 }
    }
}

#[derive(Debug)]
struct Outcome {
    /// Payload received of each connection, relative to the rate.
    goodputs: Vec<f64>,
    /// Bytes passed to the link, relative to the rate.
    carried: f64,
    /// Calls of `poll` and `pump` per frame on the link.
    rounds: f64,
}

impl Outcome {
    fn goodput(&self) -> f64 {
        self.goodputs.iter().sum()
    }
}

/// Time from which and until which payload is counted.
const FROM: Instant = Instant::from_millis_const(3_000);
const UNTIL: Instant = Instant::from_millis_const(13_000);

/// Uploads through the queue and a device until the end.
fn upload<S: Storage>(case: Case, wire: Wire, queue: SmartQueue<S, Frames<S>>) -> Outcome {
    let delay = case.round_trip / 2;
    let mut near = ShapedDevice::new(wire, queue).expect("they fit");
    let mut far = Wire::new(case.medium, 1_000, FAST, delay);
    let mut ours = interface(NEAR, &mut near);
    let mut theirs = interface(FAR, &mut far);
    let (mut sending, mut receiving) = (SocketSet::new(vec![]), SocketSet::new(vec![]));
    let connections: Vec<(SocketHandle, SocketHandle)> = (0..case.connections)
        .map(|number| {
            let buffer = || tcp::SocketBuffer::new(vec![0; case.window]);
            let [mut from, mut to] = [(); 2].map(|()| tcp::Socket::new(buffer(), buffer()));
            from.set_congestion_control(case.control);
            to.listen(5_000 + number).expect("closed");
            (sending.add(from), receiving.add(to))
        })
        .collect();
    let (mut now, mut rounds, mut opened) = (Instant::ZERO, 0, 0);
    let mut received = vec![0; connections.len()];
    while now < UNTIL {
        rounds += 1;
        // One after the other, since they would otherwise lose and retransmit together.
        let begins = Instant::from_millis(37 * i64::from(opened));
        if opened < case.connections && begins <= now {
            let socket = sending.get_mut::<tcp::Socket<'_>>(connections[usize::from(opened)].0);
            let remote = (FAR, 5_000 + opened);
            socket.connect(ours.context(), remote, 50_000 + opened).expect("closed");
            opened += 1;
        }
        while let Some(frame) = near.inner_mut().arrival(now) {
            far.inbox.push_back(frame);
        }
        while let Some(frame) = far.arrival(now) {
            near.inner_mut().inbox.push_back(frame);
        }
        theirs.poll(now, &mut far, &mut receiving);
        for (&(from, to), received) in connections.iter().zip(&mut received) {
            let socket = receiving.get_mut::<tcp::Socket<'_>>(to);
            while socket.can_recv() {
                let bytes = socket.recv(|bytes| (bytes.len(), bytes.len())).expect("open");
                *received += if now >= FROM { bytes } else { 0 };
            }
            let socket = sending.get_mut::<tcp::Socket<'_>>(from);
            while socket.can_send() {
                socket.send(|room| (room.len(), ())).expect("open");
            }
        }
        theirs.poll(now, &mut far, &mut receiving);
        ours.poll(now, &mut near, &mut sending);
        near.pump(now);
        let delays =
            [near.poll_delay(now, &mut ours, &sending), theirs.poll_delay(now, &receiving)];
        let timers = delays.into_iter().flatten().map(|delay| now + delay);
        let arrivals = [near.inner().next(now), far.next(now)].into_iter().flatten();
        let starts = (opened < case.connections).then_some(begins);
        let next = timers.chain(arrivals).chain(starts).min().expect("work to do");
        now = next.max(now + Duration::from_micros(1));
    }
    near.queue().recount().expect("the counters are right");
    let (backlog, counters) = (near.queue().backlog(), near.queue().counters());
    let left = counters.delivered.plus(counters.dropped_total());
    assert_eq!(counters.accepted.packets, left.packets + u64::from(backlog.packets), "{case:?}");
    assert_eq!(counters.rejected.packets, 0, "{case:?}");
    let (frames, bytes) = near.inner().carried;
    assert_eq!(counters.delivered.packets, frames, "{case:?}");
    let relative = |bytes: u64, millis: i64| bytes as f64 * 8e3 / millis as f64 / RATE as f64;
    let counted = (UNTIL - FROM).total_millis() as i64;
    Outcome {
        goodputs: received.into_iter().map(|bytes| relative(bytes as u64, counted)).collect(),
        carried: relative(bytes, UNTIL.total_millis()),
        rounds: f64::from(rounds) / frames as f64,
    }
}

fn wire(case: Case) -> Wire {
    Wire::new(case.medium, 64, FAST, case.round_trip / 2)
}

/// Checks that the connections fill the link but do not exceed its rate, and that nothing is called
/// in vain.
fn check(case: Case, outcome: &Outcome) {
    let goodput = outcome.goodput();
    println!("{case:?}: {goodput:.3}, {:.1} rounds a frame", outcome.rounds);
    assert!(goodput >= 0.92, "{case:?}: {outcome:?}");
    assert!(outcome.carried <= 1.001, "{case:?}: {outcome:?}");
    // A frame is pumped, leaves the ring and arrives; so does its acknowledgement, and there are
    // timers of TCP.
    assert!(outcome.rounds < 8.0, "{case:?}: {outcome:?}");
}

/// Goal: smoltcp's TCP fills a shaped link with the defaults of the queue and with congestion
/// control. Method: one and several connections at two round-trip times; payload is 0.96 of an
/// Ethernet frame and 0.97 of a packet.
#[test]
fn tcp_with_congestion_control_fills_the_link() {
    for medium in MEDIUMS {
        for control in [CongestionControl::Reno, CongestionControl::Cubic] {
            for micros in [200, 20_000] {
                for connections in [1, 2, 4, 8] {
                    let case = Case { connections, ..Case::new(medium, micros, control) };
                    let queue = builder(medium, rate()).frames(KEY).expect("a queue");
                    check(case, &upload(case, wire(case), queue));
                }
            }
        }
    }
}

/// Goal: without congestion control the link is full too, in the two ways that
/// [`ShapedDevice`] describes. Method: windows of three and four packets behind the default
/// AQM; large windows without an AQM.
#[test]
fn tcp_without_congestion_control_fills_the_link() {
    for medium in MEDIUMS {
        for (connections, window, micros, aqm) in [
            (1, 4_380, 200, AqmKind::Cobalt),
            (2, 4_380, 200, AqmKind::Cobalt),
            (8, 4_380, 200, AqmKind::Cobalt),
            (4, 5_840, 200, AqmKind::Cobalt),
            (8, 4_380, 20_000, AqmKind::Cobalt),
            (1, 65_535, 200, AqmKind::None),
            (2, 65_535, 200, AqmKind::None),
            (1, 65_535, 20_000, AqmKind::None),
            (2, 65_535, 20_000, AqmKind::None),
        ] {
            let case = Case::new(medium, micros, CongestionControl::None);
            let case = Case { connections, window, ..case };
            let queue = builder(medium, rate()).aqm(aqm).frames(KEY).expect("a queue");
            check(case, &upload(case, wire(case), queue));
        }
    }
}

/// Goal: a queue in the caller's memory fills the link too, and its few buffers are enough. Method:
/// 32 buffers, as in a firmware.
#[test]
fn a_queue_in_static_memory_fills_the_link() {
    for medium in MEDIUMS {
        for micros in [200, 20_000] {
            let case = Case::new(medium, micros, CongestionControl::Reno);
            let case = Case { connections: 4, ..case };
            let mut memory = StaticFrames::<32, 1_514, 1>::new();
            let queue = builder(medium, rate()).frames_in(&mut memory, KEY).expect("a queue");
            check(case, &upload(case, wire(case), queue));
        }
    }
}

/// Goal: behind a device that is slower than the queue, the connections share its rate equally: no
/// frame is refused, and the device is asked again when it has sent. Method: no rate, and a ring of
/// two slots; the bare device serves smoltcp's first socket only.
#[test]
fn a_full_device_sends_from_the_queue_when_it_can() {
    for medium in MEDIUMS {
        let case = Case { connections: 2, ..Case::new(medium, 20_000, CongestionControl::Reno) };
        let wire = Wire::new(medium, 2, RATE, case.round_trip / 2);
        let queue = builder(medium, Rate::UNLIMITED).frames(KEY).expect("a queue");
        let outcome = upload(case, wire, queue);
        check(case, &outcome);
        for goodput in &outcome.goodputs {
            assert!((0.4..0.6).contains(goodput), "{outcome:?}");
        }
    }
}

/// Goal: buffers that are shorter than the frames of the device limit what the stack sends, and
/// nothing panics. Method: buffers of 600 bytes, a window of four segments; the device panics for a
/// longer frame.
#[test]
fn short_buffers_limit_the_frames_of_the_stack() {
    for medium in MEDIUMS {
        let case = Case::new(medium, 200, CongestionControl::Reno);
        let case = Case { window: 4 * 560, ..case };
        let queue = builder(medium, rate()).max_len(600).frames(KEY).expect("a queue");
        let outcome = upload(case, wire(case).sending_at_most(600), queue);
        assert!((0.85..0.95).contains(&outcome.goodput()), "{outcome:?}");
    }
}

/// Goal: the loop in the documentation of [`ShapedDevice`] keeps a link busy on which frames arrive
/// as soon as they are sent. Method: a connection over a loopback device; data and acknowledgements
/// take all of the rate.
#[test]
fn the_loop_of_the_documentation_keeps_a_loopback_busy() {
    for medium in MEDIUMS {
        let queue = builder(medium, rate()).aqm(AqmKind::None).frames(KEY).expect("a queue");
        let mut device = ShapedDevice::new(Loopback::new(medium), queue).expect("they fit");
        let mut interface = interface(NEAR, &mut device);
        let buffer = || tcp::SocketBuffer::new(vec![0; 4_380]);
        let [mut from, mut to] = [(); 2].map(|()| tcp::Socket::new(buffer(), buffer()));
        to.listen(5_000).expect("closed");
        from.connect(interface.context(), (NEAR, 5_000), 50_000).expect("closed");
        let mut sockets = SocketSet::new(vec![]);
        let (from, to) = (sockets.add(from), sockets.add(to));
        let (mut now, mut turns) = (Instant::ZERO, 0);
        while now < Instant::from_secs(2) {
            turns += 1;
            assert!(turns < 20_000, "{medium:?}: at {now} again and again");
            let socket = sockets.get_mut::<tcp::Socket<'_>>(to);
            while socket.can_recv() {
                socket.recv(|bytes| (bytes.len(), ())).expect("open");
            }
            let socket = sockets.get_mut::<tcp::Socket<'_>>(from);
            while socket.can_send() {
                socket.send(|room| (room.len(), ())).expect("open");
            }
            device.pump(now);
            if interface.poll(now, &mut device, &mut sockets) != PollResult::None {
                continue;
            }
            match device.poll_delay(now, &mut interface, &sockets) {
                Some(delay) => now += delay,
                None => break,
            }
        }
        let bits = device.queue().counters().delivered.bytes as f64 * 8.0;
        let share = bits / 2.0 / RATE as f64;
        println!("{medium:?}: {share:.3} of the rate, {turns} turns");
        assert!((0.97..1.01).contains(&share), "{medium:?}: {share}");
    }
}

/// Builds an echo request of 1,500 bytes.
fn echo_request() -> Vec<u8> {
    let data = [7; 1_472];
    let echo = Icmpv4Repr::EchoRequest { ident: 1, seq_no: 1, data: &data };
    let ip = Ipv4Repr {
        src_addr: FAR,
        dst_addr: NEAR,
        next_header: IpProtocol::Icmp,
        payload_len: echo.buffer_len(),
        hop_limit: 64,
    };
    let mut bytes = vec![0; 1_500];
    let mut packet = Ipv4Packet::new_unchecked(&mut bytes);
    ip.emit(&mut packet, &ChecksumCapabilities::default());
    let mut icmp = Icmpv4Packet::new_unchecked(packet.payload_mut());
    echo.emit(&mut icmp, &ChecksumCapabilities::default());
    bytes
}

/// Goal: a response that is longer than a buffer does not panic: it is sent in fragments. Method:
/// an echo request of 1,500 bytes, buffers of 600.
#[test]
fn a_long_response_is_fragmented() {
    let queue = builder(Medium::Ip, Rate::UNLIMITED).max_len(600).frames(KEY).expect("a queue");
    let wire = Wire::new(Medium::Ip, 64, FAST, Duration::ZERO);
    let mut near = ShapedDevice::new(wire, queue).expect("they fit");
    let mut ours = interface(NEAR, &mut near);
    let mut sockets = SocketSet::new(vec![]);
    near.inner_mut().inbox.push_back(echo_request());
    for millis in 0..10 {
        let now = Instant::from_millis(millis);
        ours.poll(now, &mut near, &mut sockets);
        near.pump(now);
    }
    let mut lengths = vec![];
    while let Some(frame) = near.inner_mut().arrival(Instant::from_millis(20)) {
        lengths.push(frame.len());
    }
    assert!(lengths.iter().all(|&len| len <= 600), "{lengths:?}");
    let payload: usize = lengths.iter().map(|len| len - 20).sum();
    assert_eq!((lengths.len(), payload), (3, 1_480));
}

/// Builds an IP packet of this host, with an Ethernet header if the medium has one.
fn forwarded(medium: Medium, host: u8, len: usize) -> Vec<u8> {
    let mut frame = match medium {
        Medium::Ethernet => [[2; 12].as_slice(), &[8, 0]].concat(),
        _ => vec![],
    };
    let bytes = len - frame.len();
    let [high, low] = (bytes as u16).to_be_bytes();
    frame.extend([0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, host, 10, 0, 0, 9]);
    frame.extend([0x13, 0x88, 0x13, 0x88, 0, 8, 0, 0]);
    frame.resize(len, 0);
    frame
}

/// Goal: frames of other hosts are isolated from each other on both mediums, and one that the
/// device cannot send is refused with its length, and counted. Method: forwarded frames of three
/// hosts, then one above the MTU of the device but not above the buffers.
#[test]
fn forwarded_frames_are_isolated() {
    for medium in MEDIUMS {
        let wire = Wire::new(medium, 64, FAST, Duration::ZERO);
        let max = wire.mtu;
        let queue: FrameQueue =
            builder(medium, rate()).max_len(2_000).frames(KEY).expect("a queue");
        let mut device = ShapedDevice::new(wire, queue).expect("they fit");
        for number in 0..30 {
            let host = [1, 1, 1, 1, 1, 1, 1, 1, 2, 3][number % 10];
            let frame = forwarded(medium, host, 1_000);
            device.forward(Instant::ZERO, &frame).expect("there is room");
        }
        assert_eq!(device.queue().backlogged_hosts(), (3, 0), "{medium:?}");
        let long = forwarded(medium, 4, max + 1);
        let refused = device.forward(Instant::ZERO, &long);
        assert_eq!(refused, Err(PushError::Length { len: max + 1, max }));
        let rejected = device.queue().counters().rejected;
        assert_eq!((rejected.packets, rejected.bytes), (1, 0), "{medium:?}");
        device.queue().recount().expect("the counters are right");
        assert_eq!(device.capabilities().max_transmission_unit, max);
        device.pump(Instant::from_millis(1_000));
        let delivered = device.queue().counters().delivered.packets;
        assert!(delivered > 0 && delivered == device.inner().carried.0);
    }
}

/// Goal: after the delay the next frame may leave, so each sleep sends a frame. Method: a rate at
/// which a frame takes no whole number of microseconds.
#[test]
fn each_sleep_ends_with_a_frame() {
    let queue = builder(Medium::Ip, Rate::bits_per_second(7_000_001).expect("in range"));
    let queue = queue.frames(KEY).expect("a queue");
    let wire = Wire::new(Medium::Ip, 64, FAST, Duration::ZERO);
    let mut device = ShapedDevice::new(wire, queue).expect("they fit");
    let mut interface = interface(NEAR, &mut device);
    let (sockets, mut now) = (SocketSet::new(vec![]), Instant::ZERO);
    for _ in 0..20 {
        device.forward(now, &forwarded(Medium::Ip, 1, 1_000)).expect("there is room");
    }
    for sent in 1..=20 {
        device.pump(now);
        assert_eq!(device.inner().carried.0, sent);
        let delay = device.poll_delay(now, &mut interface, &sockets);
        assert_eq!(delay.is_some(), sent < 20);
        now += delay.unwrap_or(Duration::ZERO);
    }
}
