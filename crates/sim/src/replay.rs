//! Recorded packets through hash, scheduler and shaper, at their recorded times.
//!
//! ```text
//! capture ─ parse ─▶ flow key ─ keyed hash ─▶ set-associative table ─▶ queue ─▶ scheduler ─▶ line
//! ```
//!
//! Open loop: the senders in the recording reacted to the network they were on, not to this one.
//! What a replay tells is how a discipline divides the delay and the loss of a given traffic.
//!
//! A packet's length is its original length as recorded, link header included, and the line adds
//! nothing to it. Flows are counted by their full key, so that hash collisions are seen in the
//! results and do not blur the books.

mod text;

use std::collections::HashMap;

use freeboard::flowhash::{self, FlowKey, Labels, SipHash13, parse};
use freeboard::sched_core::{Counters, Ecn, FlowId, Limits, Nanos, Packet, Volume};
use freeboard::shaper::{Overhead, Rate, Shaper};

use crate::capture::{self, LinkType};
use crate::discipline::{Bottleneck, Discipline};
use crate::measure::delay::Delays;
use conformance::rng::Streams;

/// What the packets meet.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The order of service.
    pub discipline: Discipline,
    /// The rate of the line.
    pub rate: Rate,
    /// The most packets that wait at once.
    pub limit: u32,
    /// Chooses the secret key of the hash.
    pub seed: u64,
}

/// What became of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedFlow {
    /// The flow.
    pub key: FlowKey,
    /// What it sent.
    pub offered: Volume,
    /// What left on the line.
    pub delivered: Volume,
    /// How long each delivered packet waited before its first bit left.
    pub delays: Delays,
}

impl ReplayedFlow {
    /// Packets that were rejected or dropped.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.offered.packets - self.delivered.packets
    }
}

/// What a replay showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// All flows, in order of their first packets.
    pub flows: Vec<ReplayedFlow>,
    /// The scheduler's own books.
    pub counters: Counters,
    /// How lookups of flows by hash ended; `None` where flows are not told apart.
    pub lookups: Option<flowhash::Counts>,
    /// From the first packet's arrival to the end of the last departure.
    pub span: Nanos,
}

/// Sends `packets` through the setup until the last of them has left.
///
/// A packet recorded as earlier than the one before it counts as simultaneous. At equal times
/// departures come before arrivals.
#[must_use]
pub fn replay(packets: &[capture::Packet<'_>], setup: Setup) -> Report {
    let begin = packets.first().map_or(Nanos::ZERO, |packet| packet.at);
    let mut gateway = Gateway::new(packets, setup, begin);
    for packet in packets {
        gateway.depart_until(packet.at);
        gateway.arrive(packet);
    }
    gateway.depart_until(Nanos::MAX);
    Report {
        flows: gateway.flows,
        counters: gateway.queue.counters(),
        lookups: gateway.queue.lookups(),
        span: gateway.now.max(gateway.queue.line().due()).since(begin),
    }
}

struct Gateway {
    hasher: SipHash13,
    queue: Box<dyn Bottleneck>,
    now: Nanos,
    flows: Vec<ReplayedFlow>,
    /// Where a key stands in `flows`. Never iterated: its order is not that of any seed.
    index: HashMap<FlowKey, usize>,
    /// `waiting[handle]` is what waits under this handle; `free` are the handles without a packet.
    waiting: Vec<Waiting>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Waiting {
    flow: usize,
    since: Nanos,
}

impl Gateway {
    fn new(packets: &[capture::Packet<'_>], setup: Setup, begin: Nanos) -> Self {
        let longest = packets.iter().map(|packet| packet.original_len).max().unwrap_or(0);
        let line = Shaper::new(setup.rate);
        let mut stream = Streams::new(setup.seed).stream("hash");
        let secret = u128::from(stream.bits()) << 64 | u128::from(stream.bits());
        Self {
            hasher: SipHash13::new(secret.to_le_bytes()),
            queue: setup.discipline.behind(
                line,
                Overhead::RAW,
                Limits::packets(setup.limit),
                longest,
            ),
            now: begin,
            flows: Vec::new(),
            index: HashMap::new(),
            waiting: vec![Waiting::default(); setup.limit as usize + 1],
            free: (0..=setup.limit).rev().collect(),
        }
    }

    fn arrive(&mut self, packet: &capture::Packet<'_>) {
        self.now = self.now.max(packet.at);
        let parsed = match packet.link {
            LinkType::Ethernet => parse::ethernet(packet.bytes),
            LinkType::RawIp => parse::ip(packet.bytes),
        };
        let flow = *self.index.entry(parsed.key).or_insert_with(|| {
            let (offered, delivered, delays) = (Volume::ZERO, Volume::ZERO, Delays::new());
            self.flows.push(ReplayedFlow { key: parsed.key, offered, delivered, delays });
            self.flows.len() - 1
        });
        self.flows[flow].offered.add(packet.original_len);
        let hash = FlowId(Labels::new(&parsed.key, &self.hasher).flow);
        let handle = self.free.pop().expect("one handle more than may be queued");
        self.waiting[handle as usize] = Waiting { flow, since: self.now };
        let ecn = parsed.ip.map_or(Ecn::NotEct, |ip| Ecn::from_bits(ip.ecn()));
        let packet = Packet { ecn, ..Packet::new(handle, packet.original_len) };
        let mut gone = Vec::new();
        let drops = &mut |packet: Packet, _| gone.push(packet.handle);
        if let Err(rejected) = self.queue.enqueue(self.now, hash, packet, drops) {
            gone.push(rejected.packet.handle);
        }
        for handle in gone {
            self.settle(handle);
        }
    }

    fn depart_until(&mut self, limit: Nanos) {
        while let Some(due) = self.queue.poll_at(self.now).filter(|&due| due <= limit) {
            self.now = self.now.max(due);
            let mut gone = Vec::new();
            let drops = &mut |packet: Packet, _| gone.push(packet.handle);
            let sent = self.queue.dequeue(self.now, drops);
            for handle in gone {
                self.settle(handle);
            }
            let Some(packet) = sent else { break };
            let Waiting { flow, since } = self.settle(packet.handle);
            self.flows[flow].delivered.add(packet.len);
            self.flows[flow].delays.record(self.now.since(since));
        }
    }

    /// The handle is free again.
    fn settle(&mut self, handle: u32) -> Waiting {
        self.free.push(handle);
        self.waiting[handle as usize]
    }
}
