//! Hosts: a TCP/IP stack (smoltcp) in simulated time.
//!
//! A [`Host`] has one address, one stack and its sockets. It sends and receives real IPv4 packets
//! with real checksums and knows neither links nor queues: packets go in by [`Host::receive`] and
//! come out of [`Host::take_sent`]; [`Host::poll_at`] returns the time of its next timer. Polling a
//! stack visits all its sockets, so every flow of a scenario has a host of its own, and only hosts
//! that are due are polled.
//!
//! No other module uses smoltcp. Properties of its TCP that affect all results:
//!
//! - Reno (RFC 5681), in integers. smoltcp's CUBIC uses the platform's cube root, so runs would not
//!   be reproducible on other platforms. The initial window is 2 × 1,024 bytes (RFC 6928 allows ten
//!   segments).
//! - The retransmission timeout starts at 1 s and is never shorter (RFC 6298 §2.4).
//! - The sender ignores SACK; after a fast retransmit the first new acknowledgement ends recovery,
//!   so several losses in one window often cause a timeout.
//! - Time is in microseconds; acknowledgements are delayed by at most 10 ms; there is no ECN.

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

/// Buffer sizes of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Bytes written and not yet acknowledged: the limit of bytes in flight.
    pub send: usize,
    /// Bytes received and not yet read: the largest advertised window.
    pub receive: usize,
}

/// A port that accepts connections.
struct Listener {
    port: u16,
    buffers: Buffers,
    /// Connections that no application has accepted yet.
    begun: VecDeque<Tcp>,
}

/// A host with one address, one stack and its sockets.
pub struct Host {
    address: Ipv4Addr,
    stack: Interface,
    sockets: SocketSet<'static>,
    listeners: Vec<Listener>,
    /// Packets that have arrived and are not yet processed.
    inbox: VecDeque<Vec<u8>>,
    wire: Wire,
    /// Next local port for an outgoing connection.
    next_port: u16,
}

/// First port for outgoing connections (RFC 6335 §6: the dynamic ports).
const FIRST_DYNAMIC_PORT: u16 = 49_152;
/// Datagrams that a UDP socket buffers in each direction between two polls.
const DATAGRAMS: usize = 64;
const DATAGRAM_BYTES: usize = 1 << 16;

impl Host {
    /// Creates a host without sockets; its initial sequence numbers are derived from `seed`.
    #[must_use]
    pub fn new(address: Ipv4Addr, seed: u64) -> Self {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut stack = Interface::new(config, &mut wire, Instant::ZERO);
        stack.update_ip_addrs(|addresses| {
            // The prefix length 0 makes every other host a neighbour: there is no router. Cannot
            // fail: the list has a capacity of at least two addresses.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(address), 0));
        });
        let sockets = SocketSet::new(Vec::new());
        let (listeners, inbox, next_port) = (Vec::new(), VecDeque::new(), FIRST_DYNAMIC_PORT);
        Self { address, stack, sockets, listeners, inbox, wire, next_port }
    }

    /// Returns the host's address.
    #[must_use]
    pub const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Opens a connection to `remote` from the least recently used port.
    pub fn connect(&mut self, remote: SocketAddrV4, buffers: Buffers) -> Tcp {
        let mut socket = tcp_socket(buffers);
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
        // Cannot fail: the socket is new, and neither port nor address is zero.
        let begun = socket.connect(self.stack.context(), endpoint(remote), port);
        debug_assert!(begun.is_ok(), "{begun:?}");
        Tcp(self.sockets.add(socket))
    }

    /// Accepts connections to `port` from now on; [`Host::accept`] returns them.
    pub fn listen(&mut self, port: u16, buffers: Buffers) {
        self.listeners.push(Listener { port, buffers, begun: VecDeque::new() });
    }

    /// Returns the next connection to `port`; its handshake may be unfinished.
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

    /// Returns true if data may be written: the connection is established and this side has not
    /// finished.
    #[must_use]
    pub fn may_write(&self, socket: Tcp) -> bool {
        self.tcp(socket).may_send()
    }

    /// Returns true if the peer has finished and everything it sent has been read.
    #[must_use]
    pub fn is_read_to_the_end(&self, socket: Tcp) -> bool {
        let socket = self.tcp(socket);
        socket.state() == tcp::State::CloseWait && !socket.can_recv()
    }

    /// Returns true if the connection is closed on both sides, or was reset.
    #[must_use]
    pub fn is_over(&self, socket: Tcp) -> bool {
        !self.tcp(socket).is_open()
    }

    /// Writes as much of `data` as fits and returns the number of bytes.
    pub fn write(&mut self, socket: Tcp, data: &[u8]) -> usize {
        self.tcp_mut(socket).send_slice(data).unwrap_or(0)
    }

    /// Writes up to `len` filler bytes, as many as fit, and returns their number.
    pub fn write_filler(&mut self, socket: Tcp, len: usize) -> usize {
        let socket = self.tcp_mut(socket);
        let mut written = 0;
        // The free part of a ring buffer is at most two slices.
        for _ in 0..2 {
            let left = len - written;
            let fill = |room: &mut [u8]| (room.len().min(left), room.len().min(left));
            written += socket.send(fill).unwrap_or(0);
        }
        written
    }

    /// Reads everything received, appends it to `into` and returns the number of bytes.
    pub fn read(&mut self, socket: Tcp, into: &mut Vec<u8>) -> usize {
        self.read_each(socket, |data| into.extend_from_slice(data))
    }

    /// Reads and discards everything received and returns the number of bytes.
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

    /// Sends only full segments while data is unacknowledged (Nagle, RFC 1122 §4.2.3.4). By default
    /// sockets do not, so that the last, short segment of a message is not delayed. Enable it for
    /// bulk senders: smoltcp has no other protection against short segments, and a window that
    /// opens by a few bytes would trigger a segment of as many.
    pub fn send_full_segments(&mut self, socket: Tcp) {
        self.tcp_mut(socket).set_nagle_enabled(true);
    }

    /// Closes the sending side; data already written is still delivered.
    pub fn finish(&mut self, socket: Tcp) {
        self.tcp_mut(socket).close();
    }

    /// Removes a socket in any state.
    pub fn remove(&mut self, socket: Tcp) {
        self.sockets.remove(socket.0);
    }

    /// Sends one datagram; returns false if the socket's buffer is full until the next poll.
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

    /// Receives a packet from the network; the next [`Host::poll`] processes it.
    pub fn receive(&mut self, packet: Vec<u8>) {
        self.inbox.push_back(packet);
    }

    /// Processes received packets and expired timers, and creates the packets that sockets may
    /// send.
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

    /// Returns a socket for the connection that `packet` opens, and the index of its listener.
    ///
    /// A listening socket exists only while the packet that opens the connection is processed,
    /// because smoltcp passes a SYN to the first socket that accepts it. On a slow link the sender
    /// repeats its SYN, and the repetition must reach the connection that the first one opened.
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

    /// Returns the packets created since the last call, in order.
    pub fn take_sent(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.wire.sent)
    }

    /// Returns the time of the next timer; `None` if nothing happens before a packet arrives.
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

/// Converts to smoltcp's microseconds, rounded down; a host never acts before its time.
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

    /// Exchanges packets without delay until neither host has more to send at `now`.
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
            // The window update after reading may be held back by the delayed ACK.
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

    /// Goal: a handshake slower than the first timeout of 1 s results in one connection. Method:
    /// the server gets the SYN and its repetition before any answer is delivered.
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
