//! Replay of recorded packets through flow hash, scheduler and shaper, at their recorded times.
//!
//! ```text
//! capture ─ parse ─▶ flow key ─ keyed hash ─▶ set-associative table ─▶ queue ─▶ scheduler ─▶ link
//! ```
//!
//! A replay is open-loop: the senders in the recording reacted to the network they were on, not to
//! this one. It shows how a discipline divides delay and loss among given traffic.
//!
//! A packet's length is its recorded original length, link header included; the link adds nothing.
//! Flows are counted by their full key, so that hash collisions affect the results but not the
//! per-flow counters.

mod text;

use std::collections::{BTreeMap, HashMap};

use freeboard::flowhash::parse::{self, vlan_priority};
use freeboard::flowhash::{self, Ack, FlowKey, Parsed, SipHash13};
use freeboard::sched_core::{Counters, Ecn, Limits, Nanos, Packet, Volume};
use freeboard::shaper::{Overhead, Rate, Shaper};
use freeboard::{AckFilter, QueueSettings, SmartQueue, SmartQueueError, TinBy};

use crate::capture::{self, Frame, LinkType};
use crate::discipline::{Bottleneck, Discipline};
use crate::measure::delay::Delays;
use conformance::rng::Streams;

/// Queue for a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one value a replay")]
pub enum Choice {
    /// A discipline with its default settings.
    Discipline(Discipline),
    /// A [`SmartQueue`] for uploads, with these settings on top of its defaults.
    Smart(QueueSettings),
}

/// Configuration of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Queue under test.
    pub queue: Choice,
    /// Rate of the link.
    pub rate: Rate,
    /// Maximum number of queued packets. `None` means 256 for a discipline, and the default of a
    /// [`SmartQueue`].
    pub limit: Option<u32>,
    /// Seed of the hash key.
    pub seed: u64,
}

/// Limit of a discipline if [`Setup::limit`] is `None`.
const LIMIT: u32 = 256;

/// Results of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedFlow {
    /// Key of the flow.
    pub key: FlowKey,
    /// Packets and bytes offered.
    pub offered: Volume,
    /// Packets and bytes delivered.
    pub delivered: Volume,
    /// Time from the arrival of each delivered packet to the departure of its first bit.
    pub delays: Delays,
}

impl ReplayedFlow {
    /// Returns the number of packets that were rejected or dropped.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.offered.packets - self.delivered.packets
    }
}

/// Corrections to a recording before its replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corrections {
    /// Packets with an earlier time than one before them in the file. They are replayed in the
    /// order of their times.
    pub out_of_order: u64,
    /// Maximum time by which such a packet is behind the latest one before it.
    pub farthest_back: Nanos,
    /// Packets whose recorded original length is less than the captured length, which is used
    /// instead.
    pub too_short: u64,
    /// Packets skipped because their link type cannot be parsed, by its number.
    pub skipped: BTreeMap<u16, u64>,
}

impl Corrections {
    fn of(packets: &[capture::Packet<'_>]) -> Self {
        let mut found = Self::default();
        let mut latest = Nanos::ZERO;
        for packet in packets {
            if let LinkType::Other(number) = packet.link {
                *found.skipped.entry(number).or_insert(0) += 1;
                continue;
            }
            if packet.at < latest {
                found.out_of_order += 1;
                found.farthest_back = found.farthest_back.max(latest.since(packet.at));
            }
            latest = latest.max(packet.at);
            found.too_short += u64::from(packet.original_len < packet.wire_len());
        }
        found
    }
}

/// Results of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Description of the queue.
    pub queue: String,
    /// Maximum number of queued packets.
    pub limit: u32,
    /// All flows, in the order of their first packets.
    pub flows: Vec<ReplayedFlow>,
    /// Counters of the scheduler.
    pub counters: Counters,
    /// Outcomes of flow lookups by hash; `None` if they are not counted.
    pub lookups: Option<flowhash::Counts>,
    /// Time from the first packet's arrival to the end of the last departure.
    pub span: Nanos,
    /// Corrections to the recording.
    pub corrections: Corrections,
}

/// Replays `packets` in the order of their times until the last of them has left. Packets of equal
/// times keep the order of the file, and departures precede arrivals.
///
/// # Errors
/// Invalid settings of a [`SmartQueue`]; a discipline can always be built.
pub fn replay(packets: &[capture::Packet<'_>], setup: Setup) -> Result<Report, SmartQueueError> {
    let corrections = Corrections::of(packets);
    let parsed =
        packets.iter().filter_map(|packet| Some((packet, packet.link.frame(packet.bytes)?)));
    let mut arrivals: Vec<_> = parsed.collect();
    arrivals.sort_by_key(|(packet, _)| packet.at);
    let begin = arrivals.first().map_or(Nanos::ZERO, |(packet, _)| packet.at);
    let mut gateway = Gateway::new(&arrivals, setup, begin)?;
    for (packet, frame) in arrivals {
        gateway.depart_until(packet.at);
        gateway.arrive(packet, &frame);
    }
    gateway.depart_until(Nanos::MAX);
    Ok(Report {
        queue: gateway.name,
        limit: gateway.limit,
        flows: gateway.flows,
        counters: gateway.queue.counters(),
        lookups: gateway.queue.lookups(),
        span: gateway.now.max(gateway.queue.line().due()).since(begin),
        corrections,
    })
}

struct Gateway {
    hasher: SipHash13,
    queue: Box<dyn Bottleneck>,
    name: String,
    limit: u32,
    tin_by: TinBy,
    filters_acks: bool,
    now: Nanos,
    flows: Vec<ReplayedFlow>,
    /// Index of each key in `flows`. Never iterated: its order does not depend on the seed.
    index: HashMap<FlowKey, usize>,
    /// `waiting[handle]` is the packet with this handle; `free` are the unused handles.
    waiting: Vec<Waiting>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Waiting {
    flow: usize,
    since: Nanos,
    /// Read only if acknowledgements are filtered.
    ack: Option<Ack>,
}

impl Gateway {
    fn new(
        arrivals: &[(&capture::Packet<'_>, Frame<'_>)],
        setup: Setup,
        begin: Nanos,
    ) -> Result<Self, SmartQueueError> {
        let longest = arrivals.iter().map(|(packet, _)| packet.wire_len()).max().unwrap_or(0);
        let mut stream = Streams::new(setup.seed).stream("hash");
        let secret = u128::from(stream.bits()) << 64 | u128::from(stream.bits());
        let (mut tin_by, mut filters_acks) = (TinBy::Dscp, false);
        let (queue, name, limit): (Box<dyn Bottleneck>, _, _) = match setup.queue {
            Choice::Discipline(discipline) => {
                let limit = setup.limit.unwrap_or(LIMIT);
                let (line, limits) = (Shaper::new(setup.rate), Limits::packets(limit));
                let queue = discipline.behind(line, Overhead::RAW, limits, longest);
                (queue, discipline.to_string(), limit)
            }
            Choice::Smart(settings) => {
                tin_by = settings.tin_by.unwrap_or(tin_by);
                filters_acks = settings.ack_filter.is_some_and(|filter| filter != AckFilter::Off);
                // No catch-up: departures happen exactly when they are due.
                let mut builder = SmartQueue::upload(setup.rate).catch_up(Nanos::ZERO);
                if matches!(arrivals.first(), Some((_, Frame::Ip(_)))) {
                    builder = builder.raw_ip();
                }
                let mut builder = builder.max_len(longest.max(1)).settings(&settings);
                if let Some(limit) = setup.limit {
                    builder =
                        builder.limits(Limits::packets(limit)).buffers(limit.saturating_add(1));
                }
                let queue = builder.rate(setup.rate).descriptors()?;
                let limit = setup.limit.unwrap_or(queue.limits().packets);
                let name = format!("SmartQueue ({})", queue.settings());
                (Box::new(queue), name, limit)
            }
        };
        Ok(Self {
            hasher: SipHash13::new(secret.to_le_bytes()),
            queue,
            name,
            limit,
            tin_by,
            filters_acks,
            now: begin,
            flows: Vec::new(),
            index: HashMap::new(),
            waiting: vec![Waiting::default(); limit as usize + 1],
            free: (0..=limit).rev().collect(),
        })
    }

    fn arrive(&mut self, packet: &capture::Packet<'_>, frame: &Frame<'_>) {
        self.now = self.now.max(packet.at);
        let parsed = parse(frame);
        let flow = *self.index.entry(parsed.key).or_insert_with(|| {
            let (offered, delivered, delays) = (Volume::ZERO, Volume::ZERO, Delays::new());
            self.flows.push(ReplayedFlow { key: parsed.key, offered, delivered, delays });
            self.flows.len() - 1
        });
        self.flows[flow].offered.add(packet.wire_len());
        let handle = self.free.pop().expect("one handle more than may be queued");
        let ack = Ack::read(bytes(frame), &parsed).filter(|_| self.filters_acks);
        self.waiting[handle as usize] = Waiting { flow, since: self.now, ack };
        let mark = self.tin_by.dscp(&parsed, || match frame {
            Frame::Ethernet(frame) => vlan_priority(frame),
            Frame::Ip(_) => None,
        });
        let ecn = parsed.ip.map_or(Ecn::NotEct, |ip| Ecn::from_bits(ip.ecn()));
        let packet = Packet { ecn, ..Packet::new(handle, packet.wire_len()) };
        let mut gone = Vec::new();
        let drops = &mut |packet: Packet, _| gone.push(packet.handle);
        let waiting = &self.waiting;
        let acks = |packet: Packet| waiting[packet.handle as usize].ack;
        let label = (&parsed.key, &self.hasher, mark);
        if let Err(rejected) = self.queue.enqueue_marked(self.now, label, packet, &acks, drops) {
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
            let Waiting { flow, since, .. } = self.settle(packet.handle);
            self.flows[flow].delivered.add(packet.len);
            self.flows[flow].delays.record(self.now.since(since));
        }
    }

    /// Frees the handle.
    fn settle(&mut self, handle: u32) -> Waiting {
        self.free.push(handle);
        self.waiting[handle as usize]
    }
}

fn parse(frame: &Frame<'_>) -> Parsed {
    match frame {
        Frame::Ethernet(frame) => parse::ethernet(frame),
        Frame::Ip(packet) => parse::ip(packet),
    }
}

fn bytes<'a>(frame: &'a Frame<'_>) -> &'a [u8] {
    match frame {
        Frame::Ethernet(frame) => frame,
        Frame::Ip(packet) => packet,
    }
}
