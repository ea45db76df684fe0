//! A host under attack: packets at a bottleneck, no host reacts.
//!
//! A victim host has two flows on a link of 100 Mbit/s. The bulk flow always has packets waiting,
//! and sends as fast as the link is. The sparse flow sends a packet of 200 bytes in every ten
//! milliseconds, at a random instant. Beside the victim, attackers send what [`Attack`] says. Every
//! packet has the flow and host labels that a keyed hash gives its header, and comes in by a port.
//! Measured, behind each [`Candidate`], are
//!
//! - how fast the victim's bulk flow is, how late its packets are, and how many are lost;
//! - whether the victim lost a packet to another host's overflow while it held less than 7/9 of its
//!   share of the memory.
//!
//! Nothing reacts: a transport protocol would only give way, so these are the worst that senders
//! can do and not what they would.

mod candidate;
mod traffic;

use std::collections::BTreeMap;

use freeboard::flowhash::{Labels, SipHash13};
use freeboard::sched_core::{DropReason, Ecn, Nanos, Packet, RejectReason};

use crate::measure::delay::Delays;
use conformance::rng::Streams;

pub use candidate::Candidate;
pub use traffic::Attack;

/// Nanoseconds a byte takes: 100 Mbit/s.
pub const BYTE_NS: u64 = 80;
/// What the queue may hold, in bytes: 100 ms of the link.
pub const MEMORY: u32 = 1_250_000;
/// The longest packet but where an attack needs longer ones; also what is the quantum.
pub const ETHERNET: u32 = 1_514;
/// Bytes of a packet of the victim's sparse flow.
const SPARSE: u32 = 200;
const SPARSE_EVERY: Nanos = Nanos(10_000_000);

/// When it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The seed of everything that is random.
    pub seed: u64,
    /// Measured from here: queues are full and tables are settled.
    pub from: Nanos,
    /// Sparse packets that come from then on, one in ten milliseconds. All else is measured as
    /// long.
    pub sparse: u32,
    /// How long all hosts go on sending afterwards, so that late packets can arrive.
    pub after: Nanos,
}

impl Setup {
    /// The run of the table: 100 sparse packets in a second, with a fifth of a second before, in
    /// which queues fill, and after, in which the last arrive: each twice what the memory holds.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let fifth = Nanos::from_millis(200);
        Self { seed, from: fifth, sparse: 100, after: fifth }
    }

    fn to(&self) -> Nanos {
        self.from.plus(Nanos(SPARSE_EVERY.0 * u64::from(self.sparse)))
    }
}

/// Whose packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Bulk,
    Sparse,
    Attacker,
}

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// There was no room for it, or it made room for another.
    ForRoom,
    /// The AQM dropped it.
    ToAqm,
}

/// A packet comes.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Nanos,
    whose: Whose,
    labels: Labels,
    /// Where it comes in: what the sender cannot choose. The victim's is 0.
    port: u32,
    len: u32,
    ecn: Ecn,
}

/// What the victim got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of the flow that always has packets waiting, sent in the time measured.
    pub bulk_bytes: u64,
    /// Bytes of the host, sent in the time measured.
    pub victim_bytes: u64,
    /// How long that was.
    pub measured: Nanos,
    /// Sparse packets sent.
    pub sparse_sent: u32,
    /// Sparse packets delivered before the run was over.
    pub sparse_delivered: u32,
    /// From the arrival of a sparse packet until its first bit is on the wire.
    pub waits: Delays,
    /// Packets of the victim that were rejected or dropped in the time measured.
    pub lost: u64,
    /// Packets of the victim that were lost for want of room while the victim held less than what
    /// is promised of its share: 7/9 of the memory by the number of hosts that held packets, less
    /// a longest packet.
    pub robbed: u64,
    /// Attackers' packets that the AQM dropped.
    pub aqm_drops: u64,
    /// Attackers' bytes sent in the time measured.
    pub attacker_bytes: u64,
}

impl Outcome {
    /// Of the victim's bulk flow.
    #[must_use]
    pub fn bulk_mbit(&self) -> f64 {
        self.mbit(self.bulk_bytes)
    }

    /// Of the victim's host.
    #[must_use]
    pub fn victim_mbit(&self) -> f64 {
        self.mbit(self.victim_bytes)
    }

    fn mbit(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e3 / self.measured.0 as f64
    }

    /// Whether every sparse packet started within `bound`.
    #[must_use]
    pub fn waits_at_most(&self, bound: Nanos) -> bool {
        let longest = self.waits.quantile(1_000);
        self.sparse_delivered == self.sparse_sent && longest.is_some_and(|wait| wait <= bound)
    }
}

/// The first guarantee: the longest that a sparse packet waits among `hosts` hosts with quanta and
/// longest packets of `max_len` bytes, `((H − 1)(3Q + L) + (H − 2)Q + L)/C`, whatever its host
/// sends besides.
#[must_use]
pub const fn wait_bound(hosts: u32, max_len: u32) -> Nanos {
    let (others, twice) = (hosts.saturating_sub(1) as u64, hosts.saturating_sub(2) as u64);
    Nanos((4 * others + twice + 1) * max_len as u64 * BYTE_NS)
}

/// What is known of a packet in the queue.
#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    at: Nanos,
    whose: Whose,
    port: u32,
}

/// What lies in the queue, and what has come of the victim's packets.
#[derive(Debug)]
struct Books {
    held: Vec<QueuedPacket>,
    free: Vec<u32>,
    /// Bytes by port; a port that holds none is not in it.
    by_port: BTreeMap<u32, u64>,
    max_len: u32,
    window: (Nanos, Nanos),
    outcome: Outcome,
}

impl Books {
    fn new(setup: &Setup, max_len: u32) -> Self {
        let outcome = Outcome { measured: setup.to().since(setup.from), ..Outcome::default() };
        let window = (setup.from, setup.to());
        let (held, free) = (Vec::new(), Vec::new());
        Self { held, free, by_port: BTreeMap::new(), max_len, window, outcome }
    }

    fn measures(&self, at: Nanos) -> bool {
        (self.window.0..self.window.1).contains(&at)
    }

    fn come(&mut self, arrival: &Arrival) -> u32 {
        if arrival.whose == Whose::Sparse && self.measures(arrival.at) {
            self.outcome.sparse_sent += 1;
        }
        *self.by_port.entry(arrival.port).or_default() += u64::from(arrival.len);
        let held = QueuedPacket { at: arrival.at, whose: arrival.whose, port: arrival.port };
        if let Some(handle) = self.free.pop() {
            self.held[handle as usize] = held;
            return handle;
        }
        self.held.push(held);
        u32::try_from(self.held.len() - 1).expect("a packet is at least a byte of the memory")
    }

    fn leave(&mut self, packet: Packet) -> QueuedPacket {
        let held = self.held[packet.handle as usize];
        let bytes = self.by_port.get_mut(&held.port).expect("a port that came has an entry");
        *bytes -= u64::from(packet.len);
        if *bytes == 0 {
            self.by_port.remove(&held.port);
        }
        self.free.push(packet.handle);
        held
    }

    fn sent(&mut self, packet: Packet, start: Nanos) {
        let held = self.leave(packet);
        if held.whose == Whose::Sparse && self.measures(held.at) {
            self.outcome.sparse_delivered += 1;
            self.outcome.waits.record(start.since(held.at));
        }
        if self.measures(start) {
            let len = u64::from(packet.len);
            match held.whose {
                Whose::Bulk => self.outcome.bulk_bytes += len,
                Whose::Sparse => {}
                Whose::Attacker => self.outcome.attacker_bytes += len,
            }
            if held.whose != Whose::Attacker {
                self.outcome.victim_bytes += len;
            }
        }
    }

    /// `packet` was lost at `now`: for want of room, or to the AQM.
    fn lost(&mut self, packet: Packet, now: Nanos, why: Lost) {
        let held = self.held[packet.handle as usize];
        let with_room =
            self.by_port.get(&held.port).copied().unwrap_or(0) + u64::from(self.max_len);
        let is_below_share = 9 * with_room * (self.by_port.len() as u64) < 7 * u64::from(MEMORY);
        self.leave(packet);
        if !self.measures(now) {
            return;
        }
        let outcome = &mut self.outcome;
        match (held.whose, why) {
            (Whose::Attacker, Lost::ToAqm) => outcome.aqm_drops += 1,
            (Whose::Attacker, Lost::ForRoom) => {}
            (Whose::Bulk | Whose::Sparse, why) => {
                outcome.lost += 1;
                outcome.robbed += u64::from(why == Lost::ForRoom && is_below_share);
            }
        }
    }
}

/// Plays `attack` against `candidate`.
///
/// # Panics
/// If the candidate's books are wrong at the end, or it refuses a packet for another reason than
/// that it is full.
#[must_use]
pub fn run(candidate: Candidate, attack: Attack, setup: &Setup) -> Outcome {
    let max_len = attack.max_len();
    let mut queue = candidate.build(attack);
    let mut books = Books::new(setup, max_len);
    let mut coming = Coming::new(attack, setup);
    let end = setup.to().plus(setup.after);
    // The instant from which the link is free.
    let mut free = Nanos::ZERO;
    loop {
        let arrival = coming.next();
        while free < arrival.at && free < end {
            let aqm = &mut |packet: Packet, _: DropReason| books.lost(packet, free, Lost::ToAqm);
            let Some(packet) = queue.dequeue(free, aqm) else { break };
            books.sent(packet, free);
            free = free.plus(Nanos(u64::from(packet.len) * BYTE_NS));
        }
        if arrival.at >= end {
            break;
        }
        free = free.max(if queue.is_empty() { arrival.at } else { free });
        let handle = books.come(&arrival);
        let packet = Packet { handle, len: arrival.len, ecn: arrival.ecn };
        let mut given_way = Vec::new();
        let drops = &mut |packet: Packet, _: DropReason| given_way.push(packet);
        let accepted = queue.enqueue(arrival.at, &arrival, packet, drops);
        for packet in given_way {
            books.lost(packet, arrival.at, Lost::ForRoom);
        }
        if let Err(rejected) = accepted {
            assert!(matches!(rejected.reason, RejectReason::Full { .. }), "{rejected}");
            books.lost(packet, arrival.at, Lost::ForRoom);
        }
    }
    queue.recount().expect("the books are right");
    books.outcome
}

/// All arrivals in the order of time: the victim's first where they are equal.
struct Coming {
    sources: [core::iter::Peekable<Box<dyn Iterator<Item = Arrival>>>; 3],
}

impl Coming {
    fn new(attack: Attack, setup: &Setup) -> Self {
        let hasher = SipHash13::new(*b"a secret of ours");
        let streams = Streams::new(setup.seed);
        let (bulk, sparse) = traffic::victim(hasher, streams.stream("sparse"));
        let attackers = attack.arrivals(hasher, streams.stream("attackers"));
        Self { sources: [bulk, sparse, attackers].map(Iterator::peekable) }
    }

    fn next(&mut self) -> Arrival {
        let mut first = (Nanos::MAX, 0);
        for (number, source) in self.sources.iter_mut().enumerate() {
            let at = source.peek().map_or(Nanos::MAX, |arrival| arrival.at);
            first = first.min((at, number));
        }
        self.sources[first.1].next().expect("the victim never stops")
    }
}
