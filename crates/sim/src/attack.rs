//! A host under attack: open-loop packets at a bottleneck.
//!
//! A victim host has two flows on a link of 100 Mbit/s. The bulk flow is always backlogged and
//! sends at the rate of the link. The sparse flow sends a packet of 200 bytes in every ten
//! milliseconds, at a random time. Attackers send according to [`Attack`]. Every packet has the
//! flow and host labels that a keyed hash gives its header, and arrives at a port. Behind each
//! [`Candidate`] are measured
//!
//! - the victim's throughput, the wait of its sparse packets, and its losses;
//! - the packets that the victim lost to another host's overflow while it held less than 7/9 of its
//!   share of the memory.
//!
//! Nothing reacts to congestion: a transport protocol would only reduce its rate, so these are
//! worst cases and not typical behaviour.

mod candidate;
mod traffic;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use freeboard::flowhash::{Labels, SipHash13};
use freeboard::sched_core::{DropReason, Ecn, Nanos, Packet, RejectReason};

use crate::measure::delay::Delays;
use conformance::rng::Streams;

pub use candidate::Candidate;
pub use traffic::Attack;

/// Nanoseconds per byte: 100 Mbit/s.
pub const BYTE_NS: u64 = 80;
/// Memory limit of the queue in bytes: 100 ms of the link.
pub const MEMORY: u32 = 1_250_000;
/// Longest packet unless an attack needs longer ones; also the quantum.
pub const ETHERNET: u32 = 1_514;
/// Length of a packet of the victim's sparse flow, in bytes.
const SPARSE: u32 = 200;
const SPARSE_EVERY: Nanos = Nanos(10_000_000);

/// Timing of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Start of the measurement: queues are full and tables are settled.
    pub from: Nanos,
    /// Sparse packets sent from then on, one in ten milliseconds. Everything else is measured for
    /// as long.
    pub sparse: u32,
    /// Time for which all hosts continue to send afterwards, so that late packets can arrive.
    pub after: Nanos,
}

impl Setup {
    /// Creates the setup of the table: 100 sparse packets in a second, with a fifth of a second
    /// before, in which queues fill, and after, in which the last ones arrive: each twice the
    /// memory's drain time.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let fifth = Nanos::from_millis(200);
        Self { seed, from: fifth, sparse: 100, after: fifth }
    }

    fn to(&self) -> Nanos {
        self.from.plus(Nanos(SPARSE_EVERY.0 * u64::from(self.sparse)))
    }
}

/// Sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Bulk,
    Sparse,
    Attacker,
}

/// Reason for a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// The queue was full: the packet was rejected or dropped for another.
    ForRoom,
    /// The AQM dropped it.
    ToAqm,
}

/// An arriving packet.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Nanos,
    whose: Whose,
    labels: Labels,
    /// Ingress port, which the sender cannot choose. The victim's is 0.
    port: u32,
    len: u32,
    ecn: Ecn,
}

/// Results for the victim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Bytes of the bulk flow sent during the measurement.
    pub bulk_bytes: u64,
    /// Bytes of the host sent during the measurement.
    pub victim_bytes: u64,
    /// Duration of the measurement.
    pub measured: Nanos,
    /// Sparse packets sent.
    pub sparse_sent: u32,
    /// Sparse packets delivered before the run was over.
    pub sparse_delivered: u32,
    /// Time from the arrival of a sparse packet until its first bit is on the wire.
    pub waits: Delays,
    /// Packets of the victim that were rejected or dropped during the measurement.
    pub lost: u64,
    /// Packets of the victim lost because the queue was full while the victim held less than its
    /// guaranteed memory: 7/9 of the memory divided by the number of hosts with queued packets,
    /// less a longest packet.
    pub robbed: u64,
    /// Attackers' packets that the AQM dropped.
    pub aqm_drops: u64,
}

impl Outcome {
    /// Returns the throughput of the victim's bulk flow in Mbit/s.
    #[must_use]
    pub fn bulk_mbit(&self) -> f64 {
        self.mbit(self.bulk_bytes)
    }

    /// Returns the throughput of the victim's host in Mbit/s.
    #[must_use]
    pub fn victim_mbit(&self) -> f64 {
        self.mbit(self.victim_bytes)
    }

    fn mbit(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e3 / self.measured.0 as f64
    }

    /// Returns true if every sparse packet started within `bound`.
    #[must_use]
    pub fn waits_at_most(&self, bound: Nanos) -> bool {
        let longest = self.waits.quantile(1_000);
        self.sparse_delivered == self.sparse_sent && longest.is_some_and(|wait| wait <= bound)
    }
}

/// Returns the bound of the first guarantee: the maximum wait of a sparse packet among `hosts`
/// hosts with quanta and longest packets of `max_len` bytes, `((H − 1)(4Q + L) + L)/C`, if no other
/// flow of its host is new (`docs/guarantees.md`).
#[must_use]
pub const fn wait_bound(hosts: u32, max_len: u32) -> Nanos {
    let others = hosts.saturating_sub(1) as u64;
    Nanos((5 * others + 1) * max_len as u64 * BYTE_NS)
}

/// Bookkeeping for a queued packet.
#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    at: Nanos,
    whose: Whose,
    port: u32,
}

/// The queued packets and the fate of the victim's.
#[derive(Debug)]
struct Books {
    held: Vec<QueuedPacket>,
    free: Vec<u32>,
    /// Queued bytes by port, without ports that have none.
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
            self.outcome.bulk_bytes += if held.whose == Whose::Bulk { len } else { 0 };
            self.outcome.victim_bytes += if held.whose == Whose::Attacker { 0 } else { len };
        }
    }

    /// Counts the loss of `packet` at `now`, to a full queue or to the AQM.
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

/// Runs `attack` on `candidate`.
///
/// # Panics
/// If the candidate's counters are wrong at the end, or if it rejects a packet for another reason
/// than a full queue.
#[must_use]
pub fn run(candidate: Candidate, attack: Attack, setup: &Setup) -> Outcome {
    let max_len = attack.max_len();
    let mut queue = candidate.build(attack);
    let mut books = Books::new(setup, max_len);
    let mut coming = Coming::new(attack, setup);
    let end = setup.to().plus(setup.after);
    // Time from which the link is free.
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
        free = free.max(if queue.backlog().packets == 0 { arrival.at } else { free });
        let handle = books.come(&arrival);
        let packet = Packet { handle, len: arrival.len, ecn: arrival.ecn };
        let mut given_way = Vec::new();
        let drops = &mut |packet: Packet, _: DropReason| given_way.push(packet);
        let accepted =
            queue.enqueue_labelled(arrival.at, &candidate.labels(&arrival), packet, drops);
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

/// All arrivals in order of time; the victim's come first if times are equal.
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
