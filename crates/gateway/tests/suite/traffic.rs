//! Kernel traffic: bulk TCP, and paced UDP. A socket belongs to the namespace it was created in, so
//! threads outside can use it.

use core::net::{IpAddr, SocketAddr, SocketAddrV4};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::io::{IoSliceMut, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime};

use nix::cmsg_space;
use nix::sys::socket::{
    self, AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn, bind,
    recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

use conformance::measurement::attempts;

use crate::topology::{FAR, Namespace, Row};

/// Time without arrivals after which missing datagrams count as lost: a machine may pause for some
/// hundred milliseconds.
const QUIET: Duration = Duration::from_millis(1_000);

/// Maximum time that a sender may be behind its pace. What a paused machine has delayed beyond that
/// is not sent at once, since CoDel would rightly drop from such a burst.
const MOST_LATE: Duration = Duration::from_millis(20);

/// Direction of packets through the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    Up,
    Down,
}

pub(crate) const BOTH: [Heading; 2] = [Heading::Up, Heading::Down];

/// TCP flows between one host and the far end, all in one direction, at full speed.
#[derive(Debug)]
pub(crate) struct Bulk {
    received: Arc<AtomicU64>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Bulk {
    /// Starts the flows with the host listening, so that they have its address.
    pub(crate) fn start(row: &Row, host: &str, heading: Heading, flows: usize) -> Self {
        let listener = row.c.within(|| TcpListener::bind((host, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let connect = || {
            let far = row.s.within(|| TcpStream::connect(address).unwrap());
            (listener.accept().unwrap().0, far)
        };
        Self::over((0..flows).map(|_| connect()), heading)
    }

    /// Starts the flows with the far end listening, as needed for a host behind NAT.
    pub(crate) fn from_host(row: &Row, host: &str, heading: Heading, flows: usize) -> Self {
        let listener = row.s.within(|| TcpListener::bind((FAR, 0)).unwrap());
        let far = SockaddrIn::from(SocketAddrV4::new(
            FAR.parse().unwrap(),
            listener.local_addr().unwrap().port(),
        ));
        let near = SockaddrIn::from(SocketAddrV4::new(host.parse().unwrap(), 0));
        let connect = || {
            let near = row.c.within(|| {
                let (family, kind) = (AddressFamily::Inet, SockType::Stream);
                let made = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
                bind(made.as_raw_fd(), &near).unwrap();
                socket::connect(made.as_raw_fd(), &far).unwrap();
                TcpStream::from(made)
            });
            (near, listener.accept().unwrap().0)
        };
        Self::over((0..flows).map(|_| connect()), heading)
    }

    /// Uses these connections, with the host's end and the far one.
    fn over(connections: impl Iterator<Item = (TcpStream, TcpStream)>, heading: Heading) -> Self {
        let mut bulk = Self { received: Arc::default(), streams: vec![], threads: vec![] };
        for (near, far) in connections {
            let (mut from, mut to) = if heading == Heading::Up { (near, far) } else { (far, near) };
            bulk.streams.extend([from.try_clone().unwrap(), to.try_clone().unwrap()]);
            let received = Arc::clone(&bulk.received);
            bulk.threads.push(thread::spawn(move || {
                let bytes = [0; 16_384];
                while from.write_all(&bytes).is_ok() {}
            }));
            bulk.threads.push(thread::spawn(move || {
                let mut room = [0; 65_536];
                while let Ok(read @ 1..) = to.read(&mut room) {
                    received.fetch_add(read as u64, Ordering::Relaxed);
                }
            }));
        }
        bulk
    }

    /// Sets the traffic class byte of all packets from now on, over IPv4.
    pub(crate) fn with_class(self, class: u8) -> Self {
        for stream in &self.streams {
            setsockopt(stream, sockopt::Ipv4Tos, &class.into()).unwrap();
        }
        self
    }

    /// Returns the bytes received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until `bytes` more are received; returns false after a long timeout.
    pub(crate) fn receives(&self, bytes: u64) -> bool {
        let (begin, wanted) = (Instant::now(), self.received() + bytes);
        while self.received() < wanted && begin.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(20));
        }
        self.received() >= wanted
    }

    /// Returns the bytes received in this time.
    pub(crate) fn received_in(bulks: &[Self], span: Duration) -> Vec<u64> {
        let all = || bulks.iter().map(Self::received).collect::<Vec<_>>();
        let before = all();
        thread::sleep(span);
        all().iter().zip(before).map(|(after, before)| after - before).collect()
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) number: u32,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    /// Length of the IP packet.
    pub(crate) bytes: usize,
}

impl Arrived {
    pub(crate) fn delay(&self) -> Duration {
        self.received.saturating_duration_since(self.sent)
    }
}

/// Paced UDP: datagrams with a sequence number and the time they were sent.
#[derive(Debug)]
pub(crate) struct Paced {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<u32>>,
    receiver: Option<JoinHandle<Vec<Arrived>>>,
}

/// Outcome of such a flow.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) sent: u32,
    pub(crate) arrived: Vec<Arrived>,
}

/// Returns the length of the headers before a datagram's payload.
fn headers(address: &SocketAddr) -> usize {
    if address.is_ipv4() { 28 } else { 48 }
}

/// Receives a datagram; returns its length and the time at which the kernel received it, which a
/// thread may learn much later.
fn receive(socket: &UdpSocket, room: &mut [u8]) -> Option<(usize, Instant)> {
    let mut control = cmsg_space!(TimeSpec);
    let mut vectors = [IoSliceMut::new(room)];
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let message = recvmsg::<()>(fd, &mut vectors, Some(&mut control), flags).ok()?;
    let (now, time) = (Instant::now(), SystemTime::now());
    let stamp = message.cmsgs().unwrap().find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
        _ => None,
    })?;
    let ago = time.duration_since(SystemTime::UNIX_EPOCH + stamp).unwrap_or_default();
    Some((message.bytes, now - ago))
}

impl Paced {
    /// Starts a flow from the first LAN host to the far end, or back.
    pub(crate) fn start(row: &Row, heading: Heading, every: Duration, lengths: &[usize]) -> Self {
        let (from, to, address) = match heading {
            Heading::Up => (&row.c, &row.s, FAR),
            Heading::Down => (&row.s, &row.c, crate::topology::HOSTS[0]),
        };
        Self::between(from, to, address.parse().unwrap(), every, lengths)
    }

    /// Sends a packet of each of these lengths in turn, in bytes of IP.
    pub(crate) fn between(
        from: &Namespace,
        to: &Namespace,
        address: IpAddr,
        every: Duration,
        lengths: &[usize],
    ) -> Self {
        Self::with_class(from, to, address, (every, lengths), 0)
    }

    /// Starts a flow with this traffic class byte, over IPv4.
    pub(crate) fn with_class(
        from: &Namespace,
        to: &Namespace,
        address: IpAddr,
        (every, lengths): (Duration, &[usize]),
        class: u8,
    ) -> Self {
        let receiving = to.within(move || UdpSocket::bind((address, 0)).unwrap());
        setsockopt(&receiving, sockopt::RcvBufForce, &(8 << 20)).unwrap();
        setsockopt(&receiving, sockopt::ReceiveTimestampns, &true).unwrap();
        receiving.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let target = receiving.local_addr().unwrap();
        let any: SocketAddr =
            if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        let sending = from.within(move || UdpSocket::bind(any).unwrap());
        if class > 0 {
            setsockopt(&sending, sockopt::Ipv4Tos, &class.into()).unwrap();
        }
        sending.connect(target).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (is_over, epoch, lengths) = (Arc::clone(&stop), Instant::now(), lengths.to_vec());
        // Number of datagrams sent, once sending has ended.
        let total = Arc::new(AtomicU32::new(u32::MAX));
        let all = Arc::clone(&total);
        let sender = thread::spawn(move || {
            let mut datagram = [0; 65_536];
            let mut due = epoch;
            for number in 0_u32.. {
                due = (due + every).max(Instant::now() - MOST_LATE);
                let wait = due.saturating_duration_since(Instant::now());
                // Shorter sleeps take longer than requested.
                if wait > Duration::from_micros(200) {
                    thread::sleep(wait);
                }
                if is_over.load(Ordering::Relaxed) {
                    total.store(number, Ordering::Relaxed);
                    return number;
                }
                datagram[..4].copy_from_slice(&number.to_be_bytes());
                let nanos = epoch.elapsed().as_nanos() as u64;
                datagram[4..12].copy_from_slice(&nanos.to_be_bytes());
                let len = lengths[number as usize % lengths.len()] - headers(&target);
                // A link that is down refuses the datagram, which counts as lost.
                let _ = sending.send(&datagram[..len]);
            }
            0
        });
        let receiver = thread::spawn(move || {
            let mut arrived = Vec::new();
            let mut room = [0; 65_536];
            let mut last = Instant::now();
            loop {
                match receive(&receiving, &mut room) {
                    Some((len, received)) => {
                        let number = u32::from_be_bytes(room[..4].try_into().unwrap());
                        let nanos = u64::from_be_bytes(room[4..12].try_into().unwrap());
                        let sent = epoch + Duration::from_nanos(nanos);
                        let bytes = len + headers(&target);
                        arrived.push(Arrived { number, sent, received, bytes });
                        last = Instant::now();
                    }
                    None => match all.load(Ordering::Relaxed) {
                        u32::MAX => last = Instant::now(),
                        // Duplicates have arrived by now too.
                        total if arrived.len() >= total as usize => return arrived,
                        _ if last.elapsed() > QUIET => return arrived,
                        _ => {}
                    },
                }
            }
        });
        Self { stop, sender: Some(sender), receiver: Some(receiver) }
    }

    /// Stops sending, and waits for datagrams in flight.
    pub(crate) fn stop(mut self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.take().unwrap().join().unwrap();
        let arrived = self.receiver.take().unwrap().join().unwrap();
        Outcome { sent, arrived }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Checks that a flow of small packets arrives complete through an idle queue, for 200 ms.
pub(crate) fn small_flow_arrives(row: &Row, when: &str) {
    attempts(when, || {
        let flow = Paced::start(row, Heading::Up, Duration::from_millis(5), &[500]);
        thread::sleep(Duration::from_millis(200));
        flow.stop().complete()
    });
}

impl Outcome {
    /// Returns true if everything has arrived in order.
    pub(crate) fn is_complete(&self) -> bool {
        self.arrived.len() == self.sent as usize
            && (0..).zip(&self.arrived).all(|(number, arrived)| arrived.number == number)
    }

    /// Returns an error if something is missing or out of order.
    pub(crate) fn complete(&self) -> Result<(), String> {
        if self.sent > 0 && self.is_complete() {
            return Ok(());
        }
        let mut numbers: Vec<u32> = self.arrived.iter().map(|arrived| arrived.number).collect();
        let is_in_order = numbers.is_sorted();
        numbers.sort_unstable();
        let missing: Vec<u32> =
            (0..self.sent).filter(|number| numbers.binary_search(number).is_err()).collect();
        let (sent, arrived) = (self.sent, numbers.len());
        Err(format!("{arrived} of {sent} arrived, in order: {is_in_order}, missing: {missing:?}"))
    }

    /// Returns the sorted delays of what was sent in the part `from..to` of time.
    pub(crate) fn delays(&self, from: Instant, to: Instant) -> Vec<Duration> {
        let within = self.arrived.iter().filter(|arrived| (from..to).contains(&arrived.sent));
        let mut delays: Vec<Duration> = within.map(Arrived::delay).collect();
        delays.sort_unstable();
        delays
    }
}

/// Returns the delay that `percent` of the sorted `delays` do not exceed.
pub(crate) fn percentile(delays: &[Duration], percent: usize) -> Duration {
    let at = (delays.len() * percent).div_ceil(100).max(1) - 1;
    delays.get(at).copied().unwrap_or(Duration::MAX)
}

/// Sends `calls` times ten datagrams of 1,200 bytes, passed to the kernel as one to be segmented;
/// returns how many arrive.
pub(crate) fn uncut_datagrams(
    from: &Namespace,
    to: &Namespace,
    address: IpAddr,
    calls: u32,
) -> u32 {
    let receiving = to.within(|| UdpSocket::bind((address, 0)).unwrap());
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let sending = from.within(|| UdpSocket::bind((any, 0)).unwrap());
    setsockopt(&sending, sockopt::UdpGsoSegment, &1_200).unwrap();
    sending.connect(receiving.local_addr().unwrap()).unwrap();
    receiving.set_read_timeout(Some(QUIET)).unwrap();
    let sender = thread::spawn(move || {
        // One datagram that is not counted resolves the address: the kernel keeps only a few until
        // then.
        let _ = sending.send(b"who is there");
        thread::sleep(Duration::from_millis(200));
        for _ in 0..calls {
            let _ = sending.send(&[7; 12_000]);
            thread::sleep(Duration::from_millis(20));
        }
    });
    let mut room = [0; 2_000];
    let mut arrived = 0;
    while let Ok(len) = receiving.recv(&mut room) {
        arrived += u32::from(len == 1_200);
    }
    sender.join().unwrap();
    arrived
}
