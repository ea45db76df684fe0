//! ICMP requests that measure the round trip to a reflector, and each direction separately if the
//! reflector gives timestamps.
//!
//! Sockets are opened while the gateway has the privileges, and used without them. The kernel
//! chooses route and source address, as for any program of this machine.

use core::net::{IpAddr, SocketAddr};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use freeboard::sched_core::Nanos;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recvfrom, sendto,
    socket,
};

use crate::io::privileges::Capability;
use crate::io::sys;

/// Maximum number of outstanding requests, about ten seconds; replies to older ones are ignored.
const AWAITED: usize = 512;
/// Maximum number of messages read at once; the others follow after the frames.
const AT_ONCE: usize = 64;
/// Length in bytes of an echo request and of a timestamp request.
const REQUEST: usize = 24;
const STAMPED: usize = 20;
/// Types of ICMP echo request and reply, of ICMPv6 echo request and reply, and of timestamp request
/// and reply.
const V4: (u8, u8) = (8, 0);
const V6: (u8, u8) = (128, 129);
const STAMP: (u8, u8) = (13, 14);
/// A reflector gives timestamps if it answers three quarters of the timestamp requests by its
/// eighth echo reply.
const TRIED: u32 = 8;
const GIVEN: u32 = 6;
/// Timestamps are milliseconds of the day.
const MILLI: i64 = 1_000_000;
const DAY: i64 = 86_400_000 * MILLI;

/// Sockets and state of outstanding requests.
#[derive(Debug)]
pub(crate) struct Pinger {
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
    to: Option<IpAddr>,
    /// Contents of a request by which a reply is recognised: identifier and secret.
    id: u16,
    secret: [u8; 8],
    next: u16,
    awaited: VecDeque<Awaited>,
    /// Known clocks of reflectors.
    clocks: HashMap<IpAddr, Clock>,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Awaited {
    number: u16,
    to: IpAddr,
    at: Nanos,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) from: IpAddr,
    /// Round-trip delay.
    pub(crate) delay: Nanos,
    /// Delays of upload and download, if the reflector gives timestamps. Changes are accurate;
    /// each delay starts at the round-trip delay of the first timestamps, since the difference of
    /// the clocks is unknown.
    pub(crate) ways: Option<[Nanos; 2]>,
}

/// Clock of a reflector, as known from its timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Clock {
    echoes: u32,
    stamps: u32,
    /// Of the first timestamps: the round-trip delay, and the delays of both directions including
    /// the difference of the clocks.
    first: Option<(i64, [i64; 2])>,
}

impl Clock {
    /// Returns whether the reflector gives timestamps; `None` if not yet known.
    fn gives(&self) -> Option<bool> {
        (self.echoes >= TRIED).then_some(self.stamps >= GIVEN)
    }

    /// Returns the delays of both directions from the local times of request and reply and the
    /// reflector's times of reception and reply, in milliseconds of the day.
    fn ways(&mut self, [sent, came]: [Nanos; 2], [received, answered]: [u32; 2]) -> [Nanos; 2] {
        let nanos = |time: Nanos| i64::try_from(time.0).unwrap_or(i64::MAX).rem_euclid(DAY);
        let theirs = |millis: u32| i64::from(millis) * MILLI;
        let ways = [theirs(received) - nanos(sent), nanos(came) - theirs(answered)];
        let delay = i64::try_from(came.since(sent).0).unwrap_or(i64::MAX);
        let (first, by_first) = self.first.get_or_insert((delay, ways));
        let mut both = [0; 2];
        for (at, way) in both.iter_mut().enumerate() {
            // Handles midnight, and days of the local clock.
            let more = (ways[at] - by_first[at] + DAY / 2).rem_euclid(DAY) - DAY / 2;
            *way = first.saturating_add(more);
        }
        // No delay is negative: if one would be, the clocks drift apart, and the other delay has
        // grown by the same amount.
        for at in 0..2 {
            let apart = both[at].min(0);
            (both[at], both[1 - at]) = (both[at] - apart, both[1 - at].saturating_add(apart));
            by_first[at] = (by_first[at] + apart).rem_euclid(DAY);
            by_first[1 - at] = (by_first[1 - at] - apart).rem_euclid(DAY);
        }
        both.map(|way| Nanos(u64::try_from(way).unwrap_or(0)))
    }
}

impl Pinger {
    /// Opens the sockets; fails if neither can be opened.
    pub(crate) fn open(secret: [u8; 10]) -> Result<Self, String> {
        let open = |family, protocol| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            socket(family, SockType::Raw, flags, protocol)
        };
        let v4 = open(AddressFamily::Inet, SockProtocol::Icmp);
        let v6 = open(AddressFamily::Inet6, SockProtocol::IcmpV6);
        if let (Err(error), Err(_)) = (&v4, &v6) {
            let why = match error {
                Errno::EPERM | Errno::EACCES => Capability::NET_RAW.missing(),
                error => error.desc().to_owned(),
            };
            return Err(format!("cannot open a socket for ICMP: {why}"));
        }
        // Other messages would be ignored anyway.
        if let Ok(socket) = &v4 {
            sys::hear_only(socket.as_fd(), true, [V4.1, STAMP.1]);
        }
        if let Ok(socket) = &v6 {
            sys::hear_only(socket.as_fd(), false, [V6.1; 2]);
        }
        let [high, low, secret @ ..] = secret;
        Ok(Self {
            v4: v4.ok(),
            v6: v6.ok(),
            to: None,
            id: u16::from_be_bytes([high, low]),
            secret,
            next: 0,
            awaited: VecDeque::with_capacity(AWAITED),
            clocks: HashMap::new(),
            sent: 0,
            answered: 0,
        })
    }

    /// Returns the sockets, to be polled.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.v4, &self.v6].into_iter().flatten().map(AsFd::as_fd)
    }

    pub(crate) fn to(&self) -> Option<IpAddr> {
        self.to
    }

    /// Sets the reflector. Late replies of others are reported with their addresses.
    pub(crate) fn ask(&mut self, to: Option<IpAddr>) {
        self.to = to;
    }

    /// Forgets a reflector that stopped answering: it may have stopped giving timestamps.
    pub(crate) fn forget_clock(&mut self, of: IpAddr) {
        self.clocks.remove(&of);
    }

    fn socket(&self, to: IpAddr) -> Option<&OwnedFd> {
        if to.is_ipv4() { self.v4.as_ref() } else { self.v6.as_ref() }
    }

    /// Sends an echo request, a timestamp request, or both until it is known if timestamp requests
    /// are answered.
    pub(crate) fn request(&mut self, now: Nanos) {
        let Some(to) = self.to else { return };
        let gives = match to.is_ipv4() {
            true => self.clocks.get(&to).and_then(Clock::gives),
            false => Some(false),
        };
        if gives != Some(true) {
            self.next = self.next.wrapping_add(1);
            let kind = if to.is_ipv4() { V4 } else { V6 };
            self.send(now, to, &echo_request(kind.0, self.id, self.next, self.secret));
        }
        if gives != Some(false) {
            self.next = self.next.wrapping_add(1);
            self.send(now, to, &stamp_request(self.id, self.next, self.secret));
        }
    }

    fn send(&mut self, now: Nanos, to: IpAddr, bytes: &[u8]) {
        self.sent += 1;
        let Some(socket) = self.socket(to) else { return };
        let address = SockaddrStorage::from(SocketAddr::new(to, 0));
        // Without a route, requests fail, which counts as lost.
        if sendto(socket.as_raw_fd(), bytes, &address, MsgFlags::empty()).is_ok() {
            if self.awaited.len() >= AWAITED {
                self.awaited.pop_front();
            }
            self.awaited.push_back(Awaited { number: self.next, to, at: now });
        }
    }

    /// Reads the available messages; calls `heard` for each reply.
    pub(crate) fn answers(&mut self, now: Nanos, mut heard: impl FnMut(Answer)) {
        let mut room = [0; 512];
        for is_v4 in [true, false] {
            let socket = if is_v4 { &self.v4 } else { &self.v6 };
            let Some(fd) = socket.as_ref().map(|socket| socket.as_raw_fd()) else { continue };
            for _ in 0..AT_ONCE {
                let Ok((len, from)) = recvfrom::<SockaddrStorage>(fd, &mut room) else { break };
                let Some(from) = from.as_ref().and_then(address_of) else { continue };
                let bytes = room.get(..len).unwrap_or(&[]);
                let message = if is_v4 { behind_header(bytes) } else { bytes };
                if let Some(answer) = self.answer(now, from, message) {
                    heard(answer);
                }
            }
        }
    }

    /// Returns the reply in a message from this address, if it matches one of our requests.
    fn answer(&mut self, now: Nanos, from: IpAddr, message: &[u8]) -> Option<Answer> {
        let kind = if from.is_ipv4() { V4.1 } else { V6.1 };
        let echo = echo_answer(message, kind, self.id, self.secret).map(|number| (number, None));
        let stamps = || stamp_answer(message, self.id, self.secret).filter(|_| from.is_ipv4());
        let (number, times) =
            echo.or_else(|| stamps().map(|(number, times)| (number, Some(times))))?;
        // Each reply counts once.
        let of = |awaited: &Awaited| awaited.number == number && awaited.to == from;
        let at = self.awaited.iter().position(of)?;
        let sent = self.awaited.remove(at)?.at;
        self.answered += 1;
        let clock = self.clocks.entry(from).or_default();
        let gives = clock.gives();
        let ways = times.map(|times| clock.ways([sent, now], times));
        let count = if times.is_some() { &mut clock.stamps } else { &mut clock.echoes };
        *count = count.saturating_add(1);
        // Echo replies count until the reflector is known to give timestamps, and not beside them.
        let is_sample = ways.is_some() == (gives == Some(true));
        is_sample.then_some(Answer { from, delay: now.since(sent), ways })
    }
}

fn address_of(from: &SockaddrStorage) -> Option<IpAddr> {
    match (from.as_sockaddr_in(), from.as_sockaddr_in6()) {
        (Some(of), _) => Some(IpAddr::V4(of.ip())),
        (_, Some(of)) => Some(IpAddr::V6(of.ip())),
        _ => None,
    }
}

/// Builds an echo request with its checksum; for ICMPv6 the kernel overwrites the checksum.
fn echo_request(kind: u8, id: u16, number: u16, secret: [u8; 8]) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[8..16].copy_from_slice(&secret);
    headed(bytes, kind, id, number)
}

/// Builds a timestamp request (RFC 792). Its originate timestamp is a secret in the form of a valid
/// time, which the reply returns.
fn stamp_request(id: u16, number: u16, secret: [u8; 8]) -> [u8; STAMPED] {
    let mut bytes = [0; STAMPED];
    bytes[8..12].copy_from_slice(&nonce(secret));
    headed(bytes, STAMP.0, id, number)
}

/// Returns a secret time of the day.
fn nonce(secret: [u8; 8]) -> [u8; 4] {
    let millis = u64::from_be_bytes(secret) % 86_400_000;
    u32::try_from(millis).unwrap_or(0).to_be_bytes()
}

/// Adds header and checksum to a message.
fn headed<const N: usize>(mut bytes: [u8; N], kind: u8, id: u16, number: u16) -> [u8; N] {
    bytes[0] = kind;
    bytes[4..6].copy_from_slice(&id.to_be_bytes());
    bytes[6..8].copy_from_slice(&number.to_be_bytes());
    let sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Skips the IPv4 header, which a raw socket delivers.
fn behind_header(bytes: &[u8]) -> &[u8] {
    let header = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
    bytes.get(header..).unwrap_or(&[])
}

/// Returns the sequence number and the body of a message of this type with our identifier.
fn headless(message: &[u8], kind: u8, id: u16) -> Option<(u16, &[u8])> {
    match *message {
        [of, 0, _, _, high, low, first, second, ref rest @ ..]
            if of == kind && [high, low] == id.to_be_bytes() =>
        {
            Some((u16::from_be_bytes([first, second]), rest))
        }
        _ => None,
    }
}

/// Returns the sequence number of the echo request that this message answers, if it is ours.
fn echo_answer(message: &[u8], kind: u8, id: u16, secret: [u8; 8]) -> Option<u16> {
    let (number, rest) = headless(message, kind, id)?;
    rest.starts_with(&secret).then_some(number)
}

/// Returns the sequence number of the timestamp request that this message answers, and its times of
/// reception and reply. Values beyond a day have another meaning and are ignored.
fn stamp_answer(message: &[u8], id: u16, secret: [u8; 8]) -> Option<(u16, [u32; 2])> {
    let (number, rest) = headless(message, STAMP.1, id)?;
    let (nonce_back, times) = rest.split_first_chunk::<4>()?;
    let (received, times) = times.split_first_chunk::<4>()?;
    let (answered, _) = times.split_first_chunk::<4>()?;
    let times = [received, answered].map(|time| u32::from_be_bytes(*time));
    let is_valid = *nonce_back == nonce(secret) && times.iter().all(|time| *time < 86_400_000);
    is_valid.then_some((number, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn sum(message: &[u8]) -> u32 {
        let words = message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        (sum & 0xffff) + (sum >> 16)
    }

    /// Goal: only a reply to our own request is accepted, with the request's sequence number.
    #[test]
    fn an_answer_is_one_to_our_request() {
        let mut message = echo_request(V4.0, 0x1234, 0xfffe, SECRET);
        assert_eq!(sum(&message), 0xffff);
        assert_eq!(echo_answer(&message, V4.1, 0x1234, SECRET), None, "a request is none");
        message[0] = V4.1;
        assert_eq!(echo_answer(&message, V4.1, 0x1234, SECRET), Some(0xfffe));
        assert_eq!(echo_answer(&message, V4.1, 0x1235, SECRET), None);
        assert_eq!(echo_answer(&message, V4.1, 0x1234, [0; 8]), None);
        for len in 0..16 {
            assert_eq!(echo_answer(&message[..len], V4.1, 0x1234, SECRET), None, "{len}");
        }
        let packet = [&[0x46; 24][..], &message].concat();
        assert_eq!(behind_header(&packet), message);
        for odd in [&[][..], &[0x4f], &[0x4f; 30]] {
            assert_eq!(behind_header(odd), [0_u8; 0]);
        }
    }

    /// Builds a reflector's reply to a timestamp request.
    fn stamped(number: u16, times: [u32; 2]) -> Vec<u8> {
        let mut message = stamp_request(0x1234, number, SECRET).to_vec();
        message[0] = STAMP.1;
        message[12..16].copy_from_slice(&times[0].to_be_bytes());
        message[16..20].copy_from_slice(&times[1].to_be_bytes());
        message
    }

    #[test]
    fn timestamps_are_those_of_our_request_and_of_a_day() {
        assert_eq!(sum(&stamp_request(0x1234, 0xfffe, SECRET)), 0xffff);
        let message = stamped(7, [5, 86_399_999]);
        assert_eq!(stamp_answer(&message, 0x1234, SECRET), Some((7, [5, 86_399_999])));
        assert_eq!(stamp_answer(&message, 0x1234, [0; 8]), None);
        for len in 0..20 {
            assert_eq!(stamp_answer(&message[..len], 0x1234, SECRET), None, "{len}");
        }
        for odd in [[86_400_000, 5], [5, 1 << 31]] {
            assert_eq!(stamp_answer(&stamped(7, odd), 0x1234, SECRET), None);
        }
    }

    /// Goal: changes of each direction's delay are measured for any clock offset, across midnight
    /// of either clock.
    #[test]
    fn each_way_is_told_by_itself() {
        for ahead in [0, 5_000, 43_200_000, 86_399_000] {
            let mut clock = Clock::default();
            for begin in [0, 40_000_000, 86_395_000, 172_800_001_u64] {
                for (up, down) in [(10, 20), (10, 300), (3_000, 20), (8, 18)] {
                    let sent = Nanos::from_millis(begin);
                    let received = ((begin + up + ahead) % 86_400_000) as u32;
                    let came = Nanos::from_millis(begin + up + down);
                    let ways = clock.ways([sent, came], [received; 2]);
                    // The first round trip took 30 ms.
                    let expected = [up + 20, down + 10].map(Nanos::from_millis);
                    assert_eq!(ways, expected, "{ahead} {begin} {up} {down}");
                }
            }
        }
    }

    /// Goal: clocks that drift apart by 50 ppm hide no queue, and no delay grows without bound.
    /// Method: six hours, in which each direction takes 20 ms, and the download 300 ms more during
    /// the second half of each minute.
    #[test]
    fn clocks_that_run_apart_hide_no_queue() {
        for sign in [1, -1] {
            let mut clock = Clock::default();
            let mut before = [Nanos::ZERO; 2];
            for second in 0..21_600_u64 {
                let queue = if second % 60 < 30 { 0 } else { 300 };
                let begin = second * 1_000;
                let theirs = (begin + 20).cast_signed() + sign * (second / 20).cast_signed();
                let received = theirs.rem_euclid(86_400_000) as u32;
                let came = begin + 40 + queue;
                let [up, down] = clock.ways([begin, came].map(Nanos::from_millis), [received; 2]);
                if second > 0 && second % 60 == 30 {
                    let [more_up, more_down] = [up.since(before[0]), down.since(before[1])];
                    assert!(more_up <= Nanos::from_millis(2), "{sign} {second}: {more_up:?}");
                    assert!(more_down >= Nanos::from_millis(298), "{sign} {second}: {more_down:?}");
                }
                assert!(up.max(down) < Nanos::from_millis(390), "{sign} {second}: {up:?} {down:?}");
                before = [up, down];
            }
        }
    }

    /// Goal: a reply is attributed to the reflector that sent it, however late; timestamps count
    /// once a reflector is known to give them.
    #[test]
    fn late_answers_are_told_with_their_addresses() {
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let mut pinger = Pinger {
            v4: None,
            v6: None,
            to: None,
            id: 0x1234,
            secret: SECRET,
            next: 0,
            awaited: VecDeque::new(),
            clocks: HashMap::new(),
            sent: 0,
            answered: 0,
        };
        let echo = |number| {
            let mut message = echo_request(V4.0, 0x1234, number, SECRET);
            message[0] = V4.1;
            message
        };
        for (number, to) in [(1, one), (2, other)] {
            pinger.awaited.push_back(Awaited { number, to, at: Nanos::ZERO });
        }
        pinger.ask(Some(other));
        let late = Nanos::from_millis(3_800);
        let answer = Answer { from: one, delay: late, ways: None };
        assert_eq!(pinger.answer(late, other, &echo(1)), None, "it was not asked this");
        assert_eq!(pinger.answer(late, one, &echo(1)), Some(answer));
        assert_eq!(pinger.answer(late, one, &echo(1)), None, "once");
        let mut told = Vec::new();
        for number in 10..30_u16 {
            let to = one;
            pinger.awaited.push_back(Awaited { number, to, at: late });
            let message = match number % 2 {
                0 => echo(number).to_vec(),
                _ => stamped(number, [7, 7]),
            };
            told.push(pinger.answer(late, one, &message).map(|answer| answer.ways.is_some()));
        }
        assert_eq!(told[..4], [Some(false), None, Some(false), None]);
        assert_eq!(told[18..], [None, Some(true)]);
        assert_eq!(pinger.clocks[&one].gives(), Some(true));
        pinger.forget_clock(one);
        assert!(pinger.clocks.is_empty());
    }
}
