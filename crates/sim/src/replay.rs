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

/// The queue that packets are replayed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one value a replay")]
pub enum Choice {
    /// A discipline by itself.
    Discipline(Discipline),
    /// A [`SmartQueue`] for uploads, with these settings beside its defaults.
    Smart(QueueSettings),
}

/// The queue and the line of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The queue.
    pub queue: Choice,
    /// The rate of the line.
    pub rate: Rate,
    /// The most packets that may wait at once; `None` leaves it to a [`SmartQueue`], and is 256
    /// for a discipline.
    pub limit: Option<u32>,
    /// Chooses the secret key of the hash.
    pub seed: u64,
}

/// The limit of a discipline where [`Setup::limit`] does not say.
const LIMIT: u32 = 256;

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

/// What was corrected in the recording before it was replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corrections {
    /// Packets recorded as earlier than one before them in the file. They are replayed in the
    /// order of their times.
    pub out_of_order: u64,
    /// The most that such a packet is behind the latest one before it.
    pub farthest_back: Nanos,
    /// Packets whose original length was recorded as less than what was captured. They count with
    /// what was captured.
    pub too_short: u64,
    /// Packets left out because their link type cannot be parsed, by its number.
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

/// What a replay showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The queue as it was built.
    pub queue: String,
    /// The most packets that may wait at once.
    pub limit: u32,
    /// All flows, in order of their first packets.
    pub flows: Vec<ReplayedFlow>,
    /// The scheduler's own books.
    pub counters: Counters,
    /// How lookups of flows by hash ended; `None` where they are not counted.
    pub lookups: Option<flowhash::Counts>,
    /// From the first packet's arrival to the end of the last departure.
    pub span: Nanos,
    /// What was corrected in the recording.
    pub corrections: Corrections,
}

/// Sends `packets` through the setup until the last of them has left, in the order of their times.
/// Packets of equal times keep the order of the file, and departures come before arrivals.
///
/// # Errors
/// Settings of a [`SmartQueue`] that cannot be built; a discipline always can.
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
    /// Read only where acknowledgements are filtered.
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
                // Departures come at the instant that is due.
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

    /// The handle is free again.
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
