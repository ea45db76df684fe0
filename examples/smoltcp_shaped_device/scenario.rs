//! Two hosts behind one device, and a server: the traffic, and the arrival times.

use freeboard::Heap;
use freeboard::sched_core::Counters;
use freeboard_smoltcp::ShapedDevice;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, TxToken as _};
use smoltcp::socket::tcp::{self, CongestionControl};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, HardwareAddress, IpCidr,
    IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

use crate::wire::Wire;

const OURS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const CALLER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 9);
/// Bytes of each upload.
const UPLOAD: usize = 1_000_000;
/// The call: 100 bytes every 20 ms.
const CALL_BYTES: usize = 100;
const CALL_EVERY: Duration = Duration::from_millis(20);
/// Length of a call's frame in bytes.
pub(crate) const CALL_FRAME: usize = 14 + 20 + 8 + CALL_BYTES;
/// Simulated time after which the run is abandoned.
const GIVE_UP: Instant = Instant::from_millis_const(60_000);

/// Interface of the simulation to the device of the first host, with or without a queue.
pub(crate) trait Port: Device {
    /// Sends a frame of another host; returns false if the device refuses it.
    fn forward(&mut self, now: Instant, frame: &[u8]) -> bool;
    /// Moves frames that may leave to the link.
    fn pump(&mut self, _now: Instant) {}
    /// Returns the time until the next action that does not depend on the link.
    fn delay(
        &self,
        now: Instant,
        interface: &mut Interface,
        of: &SocketSet<'_>,
    ) -> Option<Duration>;
    fn wire(&mut self) -> &mut Wire;
    /// Returns the counters of the queue after checking them.
    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl Port for Wire {
    fn forward(&mut self, now: Instant, frame: &[u8]) -> bool {
        let Some(place) = self.transmit(now) else { return false };
        place.consume(frame.len(), |bytes| bytes.copy_from_slice(frame));
        true
    }

    fn delay(
        &self,
        now: Instant,
        interface: &mut Interface,
        of: &SocketSet<'_>,
    ) -> Option<Duration> {
        interface.poll_delay(now, of)
    }

    fn wire(&mut self) -> &mut Wire {
        self
    }
}

impl Port for ShapedDevice<Wire, Heap> {
    fn forward(&mut self, now: Instant, frame: &[u8]) -> bool {
        self.forward(now, frame).is_ok()
    }

    fn pump(&mut self, now: Instant) {
        self.pump(now);
    }

    fn delay(
        &self,
        now: Instant,
        interface: &mut Interface,
        of: &SocketSet<'_>,
    ) -> Option<Duration> {
        self.poll_delay(now, interface, of)
    }

    fn wire(&mut self) -> &mut Wire {
        self.inner_mut()
    }

    fn counters(&self) -> Option<Counters> {
        self.queue().recount().ok()?;
        Some(self.queue().counters())
    }
}

/// Results of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Bytes of each upload received by the server when the first was complete; the next field is
    /// at the end.
    pub(crate) at_first: [usize; 2],
    pub(crate) received: [usize; 2],
    /// Number of frames sent in the call; the next field is the sorted waits of those that
    /// arrived.
    pub(crate) calls: u64,
    pub(crate) waits: Vec<Duration>,
    /// Frames of the call that the device refused.
    pub(crate) refused: u64,
    /// Frames that the link carried.
    pub(crate) carried: u64,
    pub(crate) counters: Option<Counters>,
}

impl Outcome {
    /// Returns each upload's share in percent, until the first was complete.
    pub(crate) fn shares(&self) -> [f64; 2] {
        let all: usize = self.at_first.iter().sum();
        self.at_first.map(|bytes| 100.0 * bytes as f64 / all.max(1) as f64)
    }

    /// Returns the wait in milliseconds that `percent` of the call's frames did not exceed.
    pub(crate) fn wait(&self, percent: usize) -> f64 {
        let at = (self.waits.len() * percent).div_ceil(100).max(1) - 1;
        self.waits.get(at).map_or(f64::NAN, |wait| wait.total_micros() as f64 / 1_000.0)
    }
}

/// Runs until both uploads are complete and everything sent has arrived.
pub(crate) fn run(mut port: impl Port) -> Outcome {
    let mut far = Wire::new(1_000, 100_000_000);
    let (mut now, mut next_call) = (Instant::ZERO, Instant::ZERO);
    let mut ours = interface(OURS, &mut port);
    let mut server = interface(SERVER, &mut far);
    let (mut sending, mut receiving) = (SocketSet::new(vec![]), SocketSet::new(vec![]));
    let uploads = [1, 2].map(|number| upload(number, &mut ours, &mut sending, &mut receiving));
    let (mut outcome, mut sent) = (Outcome::default(), [0; 2]);
    while now < GIVE_UP {
        while let Some((left, frame)) = port.wire().arrival(now) {
            match stamp(&frame) {
                Some(forwarded) => outcome.waits.push(left - forwarded),
                None => far.inbox.push_back(frame),
            }
        }
        while let Some((_, frame)) = far.arrival(now) {
            port.wire().inbox.push_back(frame);
        }
        let is_over = outcome.received == [UPLOAD; 2];
        if now >= next_call && !is_over {
            let is_taken = port.forward(now, &call(now));
            outcome.refused += u64::from(!is_taken);
            outcome.calls += 1;
            next_call = now + CALL_EVERY;
        }
        for (from, sent) in uploads.map(|(from, _)| from).into_iter().zip(&mut sent) {
            let socket = sending.get_mut::<tcp::Socket<'_>>(from);
            while *sent < UPLOAD && socket.can_send() {
                let write = |room: &mut [u8]| {
                    let len = room.len().min(UPLOAD - *sent);
                    room[..len].fill(7);
                    (len, len)
                };
                *sent += socket.send(write).unwrap_or(0);
            }
        }
        while ours.poll(now, &mut port, &mut sending) != PollResult::None {}
        while server.poll(now, &mut far, &mut receiving) != PollResult::None {}
        for ((_, to), received) in uploads.into_iter().zip(&mut outcome.received) {
            let socket = receiving.get_mut::<tcp::Socket<'_>>(to);
            while socket.can_recv() {
                *received += socket.recv(|bytes| (bytes.len(), bytes.len())).unwrap_or(0);
            }
        }
        if outcome.at_first == [0; 2] && outcome.received.contains(&UPLOAD) {
            outcome.at_first = outcome.received;
        }
        port.pump(now);
        let delays = [port.delay(now, &mut ours, &sending), server.poll_delay(now, &receiving)];
        let timers = delays.into_iter().flatten().map(|delay| now + delay);
        let wires = [port.wire().next(now), far.next(now), (!is_over).then_some(next_call)];
        let next = timers.chain(wires.into_iter().flatten()).filter(|&at| at > now).min();
        let is_silent = is_over && port.wire().is_empty() && far.is_empty();
        let Some(next) = next.filter(|_| !is_silent) else { break };
        now = next;
    }
    outcome.waits.sort_unstable();
    outcome.carried = port.wire().carried;
    outcome.counters = port.counters();
    outcome
}

fn interface(address: Ipv4Address, device: &mut impl Device) -> Interface {
    let config = Config::new(HardwareAddress::Ethernet(mac(address)));
    let mut interface = Interface::new(config, device, Instant::ZERO);
    interface.update_ip_addrs(|own| {
        own.push(IpCidr::new(address.into(), 24)).expect("the first address")
    });
    interface
}

fn mac(of: Ipv4Address) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 0, of.octets()[3]])
}

/// Opens a connection from `ours` to the server.
fn upload(
    number: u16,
    ours: &mut Interface,
    sending: &mut SocketSet<'static>,
    receiving: &mut SocketSet<'static>,
) -> (SocketHandle, SocketHandle) {
    let buffer = || tcp::SocketBuffer::new(vec![0; 65_535]);
    let [mut from, mut to] = [(); 2].map(|()| tcp::Socket::new(buffer(), buffer()));
    from.set_congestion_control(CongestionControl::Reno);
    from.connect(ours.context(), (SERVER, 5_000 + number), 50_000 + number).expect("a new socket");
    to.listen(5_000 + number).expect("a new socket");
    (sending.add(from), receiving.add(to))
}

/// Builds a frame of the call, which contains its sending time.
fn call(now: Instant) -> Vec<u8> {
    let udp = UdpRepr { src_port: 4_000, dst_port: 4_000 };
    let ip = Ipv4Repr {
        src_addr: CALLER,
        dst_addr: SERVER,
        next_header: IpProtocol::Udp,
        payload_len: udp.header_len() + CALL_BYTES,
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: mac(CALLER),
        dst_addr: mac(SERVER),
        ethertype: EthernetProtocol::Ipv4,
    };
    let mut bytes = vec![0; CALL_FRAME];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    ethernet.emit(&mut frame);
    let mut packet = Ipv4Packet::new_unchecked(frame.payload_mut());
    ip.emit(&mut packet, &ChecksumCapabilities::default());
    let mut datagram = UdpPacket::new_unchecked(packet.payload_mut());
    let (from, to, checksums) = (CALLER.into(), SERVER.into(), ChecksumCapabilities::default());
    let write =
        |payload: &mut [u8]| payload[..8].copy_from_slice(&now.total_micros().to_be_bytes());
    udp.emit(&mut datagram, &from, &to, CALL_BYTES, write, &checksums);
    bytes
}

/// Returns the sending time of a frame of the call; `None` for any other frame.
fn stamp(frame: &[u8]) -> Option<Instant> {
    let packet = Ipv4Packet::new_checked(EthernetFrame::new_checked(frame).ok()?.payload()).ok()?;
    let datagram = UdpPacket::new_checked(packet.payload()).ok()?;
    let is_call = packet.src_addr() == CALLER && packet.next_header() == IpProtocol::Udp;
    let stamp = datagram.payload().first_chunk().filter(|_| is_call)?;
    Some(Instant::from_micros(i64::from_be_bytes(*stamp)))
}
