//! The ACK filter with tins, hosts, an AQM and a drop policy, each of which counts the packets.

use std::collections::BTreeMap;

use conformance::Xorshift;
use conformance::acks::{Segment, Wrap};
use conformance::effort::effort;
use freeboard::flowhash::{Ack, Labels, Parser, mix};
use freeboard::sched_core::{DropReason, Limits, Nanos, Packet, Scheduler};
use freeboard::shaper::Rate;
use freeboard::{
    AckFilter, AqmKind, DescriptorQueue, InTin, Isolation, MemoryLimit, SmartQueue, TinMode,
};

/// Number of handles.
const HANDLES: u32 = 400;
const TINS: usize = 4;

/// Counters of one tin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Books {
    accepted: u64,
    delivered: u64,
    dropped: [u64; REASONS.len()],
}

/// A packet that is queued.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Tin in its labels.
    tin: usize,
    flow: u32,
    /// Acknowledgement number.
    number: u32,
    has_payload: bool,
}

/// Drop reasons that are counted.
const REASONS: [DropReason; 4] =
    [DropReason::Filtered, DropReason::Aqm, DropReason::Overflow, DropReason::LimitLowered];

struct Uplink {
    queue: DescriptorQueue,
    frames: Vec<Vec<u8>>,
    /// Packets by handle.
    inside: BTreeMap<u32, Sent>,
    free: Vec<u32>,
    books: [Books; TINS],
    /// Acknowledgement number of each flow.
    numbers: BTreeMap<u32, u32>,
    now: Nanos,
    /// Number of flows.
    flows: u32,
    /// Number of the current key.
    key: u32,
}

impl Uplink {
    fn new(aqm: AqmKind, filter: AckFilter, isolation: Isolation) -> Self {
        Self::of_flows(8, 64, aqm, filter, isolation)
    }

    /// Creates an uplink for `flows` flows, with a table of `queues` queues.
    fn of_flows(
        flows: u32,
        queues: usize,
        aqm: AqmKind,
        filter: AckFilter,
        isolation: Isolation,
    ) -> Self {
        let rate = Rate::kilobits_per_second(2_000).unwrap();
        let builder = SmartQueue::upload(rate).aqm(aqm).ack_filter(filter).isolation(isolation);
        let builder = builder.tins(TinMode::Diffserv4).limits(Limits::packets(90));
        let queue = builder.tables(queues, 8).buffers(HANDLES).descriptors().expect("in range");
        Self {
            queue,
            frames: vec![Vec::new(); HANDLES as usize],
            inside: BTreeMap::new(),
            free: (0..HANDLES).collect(),
            books: Default::default(),
            numbers: BTreeMap::new(),
            now: Nanos::from_secs(1),
            flows,
            key: 0,
        }
    }

    /// Returns the labels of a packet of `flow` under a key.
    fn labels(flow: u32, key: u32) -> Labels {
        let label = |number: u32| mix(number ^ key << 16);
        let (src_host, dst_host) = (label(1_000 + flow % 3), label(7 + flow % 2));
        Labels { flow: label(flow), src_host, dst_host }
    }

    /// Enqueues a packet of `flow`: an acknowledgement of new data, a duplicate, or data of the
    /// flow's own.
    fn push(&mut self, random: &mut Xorshift, flow: u32) {
        let Some(handle) = self.free.pop() else { return };
        let number = self.numbers.entry(flow).or_default();
        *number = number.wrapping_add(if random.below(8) == 0 { 0 } else { 1_448 });
        let mut segment = Segment::ack(*number);
        segment.port = flow as u8;
        let sent_number = *number;
        let has_payload = random.below(2) == 0;
        if has_payload {
            segment.payload = 1 + random.below(1_300) as usize;
        }
        if random.below(3) == 0 {
            segment.ecn = 2;
        }
        self.frames[handle as usize] = Wrap::Ethernet.frame(&segment.v4());
        let frames = &self.frames;
        let acks = |packet: Packet| {
            let frame = &frames[packet.handle as usize];
            Ack::read(frame, &Parser::default().ethernet(frame))
        };
        let tin = (flow % TINS as u32) as usize;
        let labels = InTin { labels: Self::labels(flow, self.key), tin: tin as u8 };
        let packet = Packet::new(handle, frames[handle as usize].len() as u32);
        let sent = Sent { tin, flow, number: sent_number, has_payload };
        self.inside.insert(handle, sent);
        let (inside, free, books) = (&mut self.inside, &mut self.free, &mut self.books);
        let drops = &mut |packet: Packet, why| {
            let lost = Self::dropped(inside, free, books, packet, why);
            if why == DropReason::Filtered {
                assert!(inside.contains_key(&handle), "what says the same is queued");
                assert!(lost.flow == flow && !lost.has_payload, "{lost:?} for {sent:?}");
                let newer = sent_number.wrapping_sub(lost.number);
                assert!((1..1 << 31).contains(&newer), "{lost:?} for {sent:?}");
            }
        };
        let taken = self.queue.enqueue_with_acks(self.now, &labels, packet, &acks, drops);
        match taken {
            Ok(()) => self.books[tin].accepted += 1,
            Err(rejected) => {
                assert_eq!(rejected.packet.handle, handle);
                self.inside.remove(&handle).expect("it has not come out otherwise");
                self.free.push(handle);
            }
        }
    }

    fn dropped(
        inside: &mut BTreeMap<u32, Sent>,
        free: &mut Vec<u32>,
        books: &mut [Books; TINS],
        packet: Packet,
        why: DropReason,
    ) -> Sent {
        let sent = inside.remove(&packet.handle).expect("what is dropped is queued, once");
        free.push(packet.handle);
        let reason = REASONS.iter().position(|reason| *reason == why).expect("no other reason");
        books[sent.tin].dropped[reason] += 1;
        sent
    }

    fn pop(&mut self) {
        let (inside, free, books) = (&mut self.inside, &mut self.free, &mut self.books);
        let drops = &mut |packet: Packet, why| {
            Self::dropped(inside, free, books, packet, why);
        };
        let Some(packet) = self.queue.dequeue(self.now, drops) else { return };
        let sent = self.inside.remove(&packet.handle).expect("what leaves is queued, once");
        assert_eq!(packet.len as usize, self.frames[packet.handle as usize].len());
        self.free.push(packet.handle);
        self.books[sent.tin].delivered += 1;
    }

    /// Changes the limits, which may drop packets.
    fn limit(&mut self, limits: Limits, memory: Option<MemoryLimit>) {
        let (inside, free, books) = (&mut self.inside, &mut self.free, &mut self.books);
        let drops = &mut |packet: Packet, why| {
            Self::dropped(inside, free, books, packet, why);
        };
        self.queue.set_limits(limits, drops);
        self.queue.set_memory_limit(memory, drops).expect("as much as the longest packet takes");
    }

    /// Returns the labels of queued packets under the current key.
    fn labels_of(
        inside: &BTreeMap<u32, Sent>,
        key: u32,
    ) -> impl Fn(Packet) -> InTin<Labels> + use<'_> {
        move |packet| {
            let sent = inside[&packet.handle];
            InTin { labels: Self::labels(sent.flow, key), tin: sent.tin as u8 }
        }
    }

    fn set_isolation(&mut self, isolation: Isolation) {
        let labels_of = Self::labels_of(&self.inside, self.key);
        self.queue.set_isolation(isolation, labels_of).expect("there is room");
    }

    fn set_tins(&mut self, mode: TinMode) {
        let labels_of = Self::labels_of(&self.inside, self.key);
        self.queue.set_tins(mode, labels_of).expect("there is room for eight");
    }

    /// Changes the key.
    fn rotate(&mut self) {
        self.key += 1;
        self.queue.relabel(Self::labels_of(&self.inside, self.key));
    }

    /// Checks that the counters, and their sums over all tins, equal the independent counts.
    fn check_sums(&self) {
        assert_eq!(self.queue.recount(), Ok(()));
        let counters = self.queue.counters();
        let sum = |count: fn(&Books) -> u64| self.books.iter().map(count).sum::<u64>();
        assert_eq!(counters.accepted.packets, sum(|books| books.accepted));
        assert_eq!(counters.delivered.packets, sum(|books| books.delivered));
        for (at, reason) in REASONS.into_iter().enumerate() {
            let by_hand: u64 = self.books.iter().map(|books| books.dropped[at]).sum();
            assert_eq!(counters.dropped_for(reason).packets, by_hand, "{reason:?}");
        }
        assert_eq!(self.queue.backlog().packets as usize, self.inside.len());
        let tins = (0..self.queue.isolated().tins()).filter_map(|tin| self.queue.tin_counters(tin));
        let (mut accepted, mut delivered, mut held) = (0, 0, 0);
        for tin in tins {
            accepted += tin.counters.accepted.packets;
            delivered += tin.counters.delivered.packets;
            held += tin.backlog.packets as usize;
            let gone = tin.counters.delivered.packets + tin.counters.dropped_total().packets;
            assert_eq!(tin.counters.accepted.packets, gone + u64::from(tin.backlog.packets));
        }
        assert_eq!((accepted, held), (counters.accepted.packets, self.inside.len()));
        assert_eq!(delivered, counters.delivered.packets);
    }

    /// Dequeues everything and checks that every handle is free.
    fn drain(&mut self) {
        self.queue.set_rate(self.now, Rate::UNLIMITED);
        while self.queue.backlog().packets > 0 {
            self.pop();
        }
        assert_eq!(self.free.len(), HANDLES as usize, "every handle came out");
        assert!(self.inside.is_empty());
    }

    fn check(&self) {
        assert_eq!(self.queue.recount(), Ok(()));
        assert_eq!(self.queue.backlog().packets as usize, self.inside.len());
        for (tin, books) in self.books.iter().enumerate() {
            let found = self.queue.tin_counters(tin as u8).expect("there are four");
            let counters = found.counters;
            let dropped = REASONS.map(|reason| counters.dropped_for(reason).packets);
            let (accepted, delivered) = (counters.accepted.packets, counters.delivered.packets);
            assert_eq!(Books { accepted, delivered, dropped }, *books, "tin {tin}");
            let held = self.inside.values().filter(|sent| sent.tin == tin).count();
            assert_eq!(found.backlog.packets as usize, held, "tin {tin}");
        }
    }
}

/// Goal: a packet removed from the middle of its queue is removed from all counters: of its tin,
/// its host, the AQM and the drop policy, which selects hosts across all tins. Method: floods of
/// acknowledgements with data between them, of eight flows of three hosts in four tins, at more
/// than the rate. Packets are counted independently by tin and reason; the counters are recounted
/// after each call. Filter, AQM, isolation, rate and limits change during the test.
#[test]
fn what_is_filtered_leaves_the_books_of_its_tin_its_host_and_its_aqm() {
    let mut dropped = [[0; REASONS.len()]; 2];
    for (number, aqm) in [AqmKind::Cobalt, AqmKind::CoDel].into_iter().enumerate() {
        for filter in [AckFilter::Conservative, AckFilter::Aggressive] {
            for isolation in [Isolation::DualSrcHost, Isolation::TripleIsolate, Isolation::Flows] {
                let mut random = Xorshift::new(5 + number as u64);
                let mut uplink = Uplink::new(aqm, filter, isolation);
                for step in 0..effort(1_500, 12_000) {
                    match random.below(1_000) {
                        0 => uplink.queue.set_hosts_across_tins(random.below(2) == 0),
                        1 => uplink.queue.set_ack_filter(AckFilter::Off),
                        2..6 => uplink.queue.set_ack_filter(filter),
                        6 => uplink.queue.set_rate(
                            uplink.now,
                            Rate::kilobits_per_second(500 + u64::from(random.below(4_000)))
                                .unwrap(),
                        ),
                        7 => uplink.set_isolation(Isolation::DualDstHost),
                        8 => uplink.set_isolation(isolation),
                        9 => uplink.queue.set_aqm(AqmKind::None),
                        10..18 => uplink.queue.set_aqm(aqm),
                        18..600 => {
                            let flow = random.below(8);
                            uplink.push(&mut random, flow);
                        }
                        600..950 => uplink.pop(),
                        _ => {
                            let step = Nanos::from_micros(u64::from(random.below(20_000)));
                            uplink.now = uplink.now.plus(step);
                        }
                    }
                    if step % effort(3, 1) == 0 {
                        uplink.check();
                    }
                }
                for books in &uplink.books {
                    for (sum, packets) in dropped[number].iter_mut().zip(books.dropped) {
                        *sum += packets;
                    }
                }
                uplink.drain();
                uplink.check();
            }
        }
    }
    let of_all_reasons =
        dropped.iter().all(|of_aqm| of_aqm[..3].iter().all(|packets| *packets > 20));
    assert!(of_all_reasons, "{dropped:?} for {REASONS:?}");
}

/// Changes a setting, regardless of queued packets.
fn change(uplink: &mut Uplink, random: &mut Xorshift) {
    let value = random.below(1_000);
    let choice = value as usize;
    match random.below(12) {
        0 | 1 => uplink.set_tins(TinMode::ALL[choice % 5]),
        2 => uplink.queue.set_hosts_across_tins(value.is_multiple_of(2)),
        3 => uplink.set_isolation(Isolation::ALL[choice % 7]),
        4 => uplink.queue.set_ack_filter(AckFilter::ALL[choice % 3]),
        5 => uplink.queue.set_aqm(AqmKind::WORDS[choice % AqmKind::WORDS.len()].1),
        6 => {
            let limits = match value % 4 {
                0 => Limits::packets(value / 4 % 64),
                1 => Limits::bytes(1_500 + value * 64),
                _ => Limits::NONE,
            };
            let memory = (value.is_multiple_of(3)).then(|| MemoryLimit::Bytes(4_096 + value * 100));
            uplink.limit(limits, memory);
        }
        7 => {
            let rate = if value.is_multiple_of(9) {
                Ok(Rate::STOPPED)
            } else {
                Rate::kilobits_per_second(300 + u64::from(value) * 4)
            };
            uplink.queue.set_rate(uplink.now, rate.expect("in range"));
        }
        8 => uplink.rotate(),
        9 | 10 => uplink.queue.set_ingress(value.is_multiple_of(2)),
        _ => uplink.now = Nanos(uplink.now.0 - uplink.now.0.min(u64::from(value) * 30_000)),
    }
}

/// Goal: whatever setting changes while acknowledgements are filtered, every handle is returned
/// once, the counters are correct, and no acknowledgement is filtered for one that is not queued or
/// belongs to another flow. Method: 24 flows in a table of eight queues, so that flows share queues
/// and spare ones; number and names of tins, hosts across them, isolation, limits, key, AQM and
/// filter change.
#[test]
fn whatever_changes_every_handle_comes_out_once_and_no_flow_filters_another() {
    let mut dropped = [0; REASONS.len()];
    for seed in 1..=effort(12, 100) {
        let mut random = Xorshift::new(seed);
        // Allocates the tables for this mode, too.
        let isolation = Isolation::TripleIsolate;
        let mut uplink = Uplink::of_flows(24, 8, AqmKind::Cobalt, AckFilter::Aggressive, isolation);
        for step in 0..2_000 {
            match random.below(400) {
                0..10 => change(&mut uplink, &mut random),
                10..240 => {
                    let flow = random.below(uplink.flows);
                    uplink.push(&mut random, flow);
                }
                240..370 => uplink.pop(),
                _ => uplink.now = uplink.now.plus(Nanos(u64::from(random.below(20_000_000)))),
            }
            if step % effort(4, 1) == 0 {
                uplink.check_sums();
            }
        }
        uplink.drain();
        uplink.check_sums();
        for books in &uplink.books {
            for (sum, packets) in dropped.iter_mut().zip(books.dropped) {
                *sum += packets;
            }
        }
    }
    assert!(dropped.iter().all(|packets| *packets > 20), "{dropped:?} for {REASONS:?}");
}
