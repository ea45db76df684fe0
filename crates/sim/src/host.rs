//! Hosts: a TCP/IP stack (smoltcp) in simulated time.
//!
//! A [`Host`] has one address, one stack and its sockets. It makes and reads real IPv4 packets with
//! real checksums, and knows neither links nor queues: packets go in by [`Host::receive`] and come
//! out of [`Host::take_sent`]; [`Host::poll_at`] says when its timers want attention. Polling a
//! stack walks all its sockets, so every flow of a scenario has a host of its own, and only hosts
//! that are due are polled.
//!
//! No other module uses smoltcp. What its TCP does and does not do colours every result:
//!
//! - Reno (RFC 5681), in integers: its CUBIC takes cube roots from the platform, and runs would no
//!   longer be the same bytes everywhere. An initial window of 2 × 1,024 bytes (RFC 6928 allows ten
//!   segments).
//! - The retransmission timeout starts at 1 s and is never shorter (RFC 6298 §2.4).
//! - The sender ignores SACK; after a fast retransmit the first new acknowledgement ends recovery,
//!   so several losses in one window often cost a timeout.
//! - Time in microseconds; acknowledgements are delayed by at most 10 ms; no ECN.

mod device;

use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::VecDeque;

use freeboard::sched_core::Nanos;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::{Socket, tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{
    HardwareAddress, IpAddress, IpCidr, IpEndpoint, IpProtocol, Ipv4Packet, TcpPacket,
};

use device::Wire;

/// A TCP socket of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp(SocketHandle);

/// A UDP socket of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp(SocketHandle);

/// How many bytes a TCP socket holds for its peer and for its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Written and not yet acknowledged: at most this much is in flight.
    pub send: usize,
    /// Arrived and not yet read: the largest window that is advertised.
    pub receive: usize,
}

/// A port that takes connections.
struct Listener {
    port: u16,
    buffers: Buffers,
    /// Connections that no application has accepted yet.
    begun: VecDeque<Tcp>,
}

/// One address, one stack, its sockets.
pub struct Host {
    address: Ipv4Addr,
    stack: Interface,
    sockets: SocketSet<'static>,
    listeners: Vec<Listener>,
    /// Arrived, not yet read.
    inbox: VecDeque<Vec<u8>>,
    wire: Wire,
    /// The next local port for a connection from here.
    next_port: u16,
}

/// The first port for connections from here (RFC 6335 §6: the dynamic ports).
const FIRST_DYNAMIC_PORT: u16 = 49_152;
/// Datagrams a UDP socket holds in each direction between two polls, and their bytes.
const DATAGRAMS: usize = 64;
const DATAGRAM_BYTES: usize = 1 << 16;

impl Host {
    /// A host without sockets; `seed` is what its initial sequence numbers come from.
    #[must_use]
    pub fn new(address: Ipv4Addr, seed: u64) -> Self {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut stack = Interface::new(config, &mut wire, Instant::ZERO);
        stack.update_ip_addrs(|addresses| {
            // The prefix of length 0: every other host is a neighbour, there is no router.
            // One address fits: the list holds at least two.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(address), 0));
        });
        let sockets = SocketSet::new(Vec::new());
        let (listeners, inbox, next_port) = (Vec::new(), VecDeque::new(), FIRST_DYNAMIC_PORT);
        Self { address, stack, sockets, listeners, inbox, wire, next_port }
    }

    /// The host's address.
    #[must_use]
    pub const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Begins a connection to `remote` from a port that was not used for a long time.
    pub fn connect(&mut self, remote: SocketAddrV4, buffers: Buffers) -> Tcp {
        let mut socket = tcp_socket(buffers);
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
        // Cannot fail: the socket is new, and neither port nor address is zero.
        let begun = socket.connect(self.stack.context(), endpoint(remote), port);
        debug_assert!(begun.is_ok(), "{begun:?}");
        Tcp(self.sockets.add(socket))
    }

    /// Takes connections to `port` from now on; [`Host::accept`] hands them out.
    pub fn listen(&mut self, port: u16, buffers: Buffers) {
        self.listeners.push(Listener { port, buffers, begun: VecDeque::new() });
    }

    /// The next connection to `port` that has begun, its handshake perhaps unfinished.
    pub fn accept(&mut self, port: u16) -> Option<Tcp> {
        self.listeners.iter_mut().find(|listener| listener.port == port)?.begun.pop_front()
    }

    /// Opens `port` for datagrams.
    pub fn bind(&mut self, port: u16) -> Udp {
        let buffer = || {
            udp::PacketBuffer::new(
                vec![udp::PacketMetadata::EMPTY; DATAGRAMS],
                vec![0; DATAGRAM_BYTES],
            )
        };
        let mut socket = udp::Socket::new(buffer(), buffer());
        let begun = socket.bind(port);
        debug_assert!(begun.is_ok(), "{begun:?}");
        Udp(self.sockets.add(socket))
    }

    /// Whether data may be written: the connection stands and this side has not finished.
    #[must_use]
    pub fn may_write(&self, socket: Tcp) -> bool {
        self.tcp(socket).may_send()
    }

    /// Whether the peer has finished and everything it sent has been read.
    #[must_use]
    pub fn is_read_to_the_end(&self, socket: Tcp) -> bool {
        let socket = self.tcp(socket);
        socket.state() == tcp::State::CloseWait && !socket.can_recv()
    }

    /// Whether the connection is over on both sides, or was reset.
    #[must_use]
    pub fn is_over(&self, socket: Tcp) -> bool {
        !self.tcp(socket).is_open()
    }

    /// Writes `data` as far as there is room; returns how much.
    pub fn write(&mut self, socket: Tcp, data: &[u8]) -> usize {
        self.tcp_mut(socket).send_slice(data).unwrap_or(0)
    }

    /// Writes `len` bytes of no meaning as far as there is room; returns how many.
    pub fn write_filler(&mut self, socket: Tcp, len: usize) -> usize {
        let socket = self.tcp_mut(socket);
        let mut written = 0;
        // The free part of a ring buffer is at most two pieces.
        for _ in 0..2 {
            let left = len - written;
            let fill = |room: &mut [u8]| (room.len().min(left), room.len().min(left));
            written += socket.send(fill).unwrap_or(0);
        }
        written
    }

    /// Reads what has arrived, appending it to `into`; returns how many bytes.
    pub fn read(&mut self, socket: Tcp, into: &mut Vec<u8>) -> usize {
        self.read_each(socket, |data| into.extend_from_slice(data))
    }

    /// Reads what has arrived and forgets it; returns how many bytes.
    pub fn discard(&mut self, socket: Tcp) -> usize {
        self.read_each(socket, |_| ())
    }

    fn read_each(&mut self, socket: Tcp, mut take: impl FnMut(&[u8])) -> usize {
        let socket = self.tcp_mut(socket);
        let mut read = 0;
        while socket.can_recv() {
            let took = socket.recv(|data| {
                take(data);
                (data.len(), data.len())
            });
            match took {
                Ok(bytes) if bytes > 0 => read += bytes,
                _ => break,
            }
        }
        read
    }

    /// Sends only full segments while something is not acknowledged (RFC 1122 §4.2.3.4), which
    /// sockets do not do by default: the last, short segment of a message does not wait. A sender
    /// without messages should ask for it: smoltcp has no other guard against short segments, and
    /// without one a window that opens by a few bytes lets out a segment of as many.
    pub fn send_full_segments(&mut self, socket: Tcp) {
        self.tcp_mut(socket).set_nagle_enabled(true);
    }

    /// Nothing more will be written; what was written is still delivered.
    pub fn finish(&mut self, socket: Tcp) {
        self.tcp_mut(socket).close();
    }

    /// Forgets a socket, whatever its state.
    pub fn remove(&mut self, socket: Tcp) {
        self.sockets.remove(socket.0);
    }

    /// Sends one datagram; returns whether there was room for it until the next poll.
    pub fn send_to(&mut self, socket: Udp, remote: SocketAddrV4, payload: &[u8]) -> bool {
        let socket: &mut udp::Socket<'_> = self.sockets.get_mut(socket.0);
        socket.send_slice(payload, endpoint(remote)).is_ok()
    }

    /// Reads the datagrams that have arrived, in order.
    pub fn receive_from(&mut self, socket: Udp, mut take: impl FnMut(&[u8])) {
        let socket: &mut udp::Socket<'_> = self.sockets.get_mut(socket.0);
        while let Ok((payload, _)) = socket.recv() {
            take(payload);
        }
    }

    /// A packet arrives from the network; the next [`Host::poll`] reads it.
    pub fn receive(&mut self, packet: Vec<u8>) {
        self.inbox.push_back(packet);
    }

    /// Reads what has arrived, lets timers fire, and makes packets of what sockets may send.
    pub fn poll(&mut self, now: Nanos) {
        let now = instant(now);
        while let Some(packet) = self.inbox.pop_front() {
            let opened = self.open_for(&packet);
            self.wire.arrived = Some(packet);
            self.stack.poll_ingress_single(now, &mut self.wire, &mut self.sockets);
            if let Some((listener, socket)) = opened {
                if self.tcp(socket).is_listening() {
                    self.remove(socket); // the stack did not take the packet
                } else {
                    self.listeners[listener].begun.push_back(socket);
                }
            }
        }
        self.stack.poll(now, &mut self.wire, &mut self.sockets);
    }

    /// A socket for the connection that `packet` wants to open, and the index of its listener.
    ///
    /// A listening socket exists only while the packet that opens the connection is read. smoltcp
    /// gives a SYN to the first socket that would take it. On a slow line the sender repeats its
    /// SYN, and the repeated SYN must reach the connection that the first one opened.
    fn open_for(&mut self, packet: &[u8]) -> Option<(usize, Tcp)> {
        let ip = Ipv4Packet::new_checked(packet).ok()?;
        let from = ip.src_addr();
        if ip.next_header() != IpProtocol::Tcp {
            return None;
        }
        let segment = TcpPacket::new_checked(ip.payload()).ok()?;
        if !segment.syn() || segment.ack() {
            return None;
        }
        let port = segment.dst_port();
        let from = IpEndpoint::new(IpAddress::Ipv4(from), segment.src_port());
        let index = self.listeners.iter().position(|listener| listener.port == port)?;
        let known = self.sockets.iter().any(|(_, socket)| match socket {
            Socket::Tcp(socket) => {
                socket.remote_endpoint() == Some(from)
                    && socket.local_endpoint().is_some_and(|local| local.port == port)
            }
            Socket::Udp(_) => false,
        });
        if known {
            return None;
        }
        let mut socket = tcp_socket(self.listeners[index].buffers);
        // Cannot fail: the socket is new, and a packet to port 0 has no listener.
        socket.listen(port).ok()?;
        Some((index, Tcp(self.sockets.add(socket))))
    }

    /// The packets made since the last call, in order.
    pub fn take_sent(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.wire.sent)
    }

    /// When the next timer fires; `None` if nothing happens before a packet arrives.
    pub fn poll_at(&mut self, now: Nanos) -> Option<Nanos> {
        let at = self.stack.poll_at(instant(now), &self.sockets)?;
        Some(Nanos::from_micros(u64::try_from(at.total_micros()).unwrap_or(0)))
    }

    fn tcp(&self, socket: Tcp) -> &tcp::Socket<'static> {
        self.sockets.get(socket.0)
    }

    fn tcp_mut(&mut self, socket: Tcp) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(socket.0)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("address", &self.address).finish_non_exhaustive()
    }
}

fn tcp_socket(buffers: Buffers) -> tcp::Socket<'static> {
    let buffer = |len| tcp::SocketBuffer::new(vec![0; len]);
    let mut socket = tcp::Socket::new(buffer(buffers.receive), buffer(buffers.send));
    socket.set_congestion_control(tcp::CongestionControl::Reno);
    socket.set_nagle_enabled(false);
    socket
}

fn endpoint(address: SocketAddrV4) -> IpEndpoint {
    IpEndpoint::new(IpAddress::Ipv4(*address.ip()), address.port())
}

/// Rounded down to smoltcp's microseconds: a host never acts before its time.
fn instant(now: Nanos) -> Instant {
    Instant::from_micros(i64::try_from(now.0 / 1_000).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFERS: Buffers = Buffers { send: 20_000, receive: 20_000 };

    fn pair() -> (Host, Host) {
        (Host::new(Ipv4Addr::new(10, 0, 0, 1), 1), Host::new(Ipv4Addr::new(10, 0, 0, 2), 2))
    }

    /// Carries packets both ways without delay until neither host has more to say at `now`.
    fn settle(now: Nanos, a: &mut Host, b: &mut Host) {
        loop {
            a.poll(now);
            b.poll(now);
            let (from_a, from_b) = (a.take_sent(), b.take_sent());
            if from_a.is_empty() && from_b.is_empty() {
                return;
            }
            from_a.into_iter().for_each(|packet| b.receive(packet));
            from_b.into_iter().for_each(|packet| a.receive(packet));
        }
    }

    #[test]
    fn a_stream_arrives_as_written_and_ends_on_both_sides() {
        let (mut a, mut b) = pair();
        b.listen(80, BUFFERS);
        let client = a.connect(SocketAddrV4::new(b.address(), 80), BUFFERS);
        settle(Nanos::ZERO, &mut a, &mut b);
        let server = b.accept(80).unwrap();
        let data: Vec<u8> = (0..50_000_u32).map(|i| (i % 251) as u8).collect();
        let (mut written, mut read, mut now) = (0, Vec::new(), Nanos::ZERO);
        while read.len() < data.len() {
            settle(now, &mut a, &mut b);
            written += a.write(client, &data[written..]);
            b.read(server, &mut read);
            // The window update of what was read may be held back by the delayed ACK.
            now = now.plus(Nanos::from_millis(10));
        }
        assert!(read == data);
        a.finish(client);
        settle(now, &mut a, &mut b);
        assert!(b.is_read_to_the_end(server));
        b.finish(server);
        settle(now, &mut a, &mut b);
        assert!(a.is_over(client) && b.is_over(server));
    }

    #[test]
    fn filler_takes_all_the_room_there_is() {
        let (mut a, mut b) = pair();
        b.listen(80, BUFFERS);
        let client = a.connect(SocketAddrV4::new(b.address(), 80), BUFFERS);
        assert_eq!(a.write_filler(client, 1), 0, "not yet connected");
        settle(Nanos::ZERO, &mut a, &mut b);
        assert_eq!(a.write_filler(client, 1_000), 1_000);
        assert_eq!(a.write_filler(client, usize::MAX), BUFFERS.send - 1_000);
        assert_eq!(a.write_filler(client, 1), 0);
    }

    #[test]
    fn full_segments_are_sent_while_something_is_not_acknowledged() {
        for (full_only, expected) in [(false, vec![40 + 1_460, 41]), (true, vec![40 + 1_460])] {
            let (mut a, mut b) = pair();
            b.listen(80, BUFFERS);
            let client = a.connect(SocketAddrV4::new(b.address(), 80), BUFFERS);
            settle(Nanos::ZERO, &mut a, &mut b);
            if full_only {
                a.send_full_segments(client);
            }
            a.write_filler(client, 1_461);
            a.poll(Nanos::ZERO);
            assert_eq!(a.take_sent().iter().map(Vec::len).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_datagram_arrives_whole_and_as_long_as_the_headers_say() {
        let (mut a, mut b) = pair();
        let (from, to) = (a.bind(5_004), b.bind(5_006));
        assert!(a.send_to(from, SocketAddrV4::new(b.address(), 5_006), &[7; 160]));
        a.poll(Nanos(1_999));
        let packets = a.take_sent();
        assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [20 + 8 + 160]);
        packets.into_iter().for_each(|packet| b.receive(packet));
        b.poll(Nanos(2_000));
        let mut got = Vec::new();
        b.receive_from(to, |payload| got.push(payload.to_vec()));
        assert_eq!(got, [[7; 160]]);
    }

    /// Goal: a handshake slower than the first timeout of 1 s ends in one connection. Method: the
    /// server gets the SYN and its repetition before anything comes back.
    #[test]
    fn a_repeated_syn_opens_no_second_connection() {
        let (mut a, mut b) = pair();
        b.listen(80, BUFFERS);
        let client = a.connect(SocketAddrV4::new(b.address(), 80), BUFFERS);
        for now in [Nanos::ZERO, Nanos::from_secs(1)] {
            a.poll(now);
            a.take_sent().into_iter().for_each(|packet| b.receive(packet));
        }
        settle(Nanos::from_secs(2), &mut a, &mut b);
        let server = b.accept(80).unwrap();
        assert_eq!(b.accept(80), None);
        assert_eq!(a.write(client, b"hello"), 5);
        settle(Nanos::from_secs(2), &mut a, &mut b);
        let mut read = Vec::new();
        assert_eq!((b.read(server, &mut read), read.as_slice()), (5, &b"hello"[..]));
    }

    #[test]
    fn a_connection_to_a_port_without_a_listener_is_refused() {
        let (mut a, mut b) = pair();
        let client = a.connect(SocketAddrV4::new(b.address(), 81), BUFFERS);
        b.listen(80, BUFFERS);
        settle(Nanos::ZERO, &mut a, &mut b);
        assert!(a.is_over(client));
    }

    /// RFC 6298 §2: without an answer, the SYN is repeated after 1 s, then after 2 s more.
    #[test]
    fn an_unanswered_connection_tries_again_after_a_second() {
        let mut a = pair().0;
        a.connect(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 80), BUFFERS);
        let mut tries = Vec::new();
        let mut now = Nanos::ZERO;
        for _ in 0..3 {
            a.poll(now);
            tries.extend(a.take_sent().iter().map(|_| now.0 / 1_000_000));
            now = a.poll_at(now).unwrap();
        }
        assert_eq!(tries, [0, 1_000, 3_000]);
    }
}
