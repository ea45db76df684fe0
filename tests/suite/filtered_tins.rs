//! The filter of acknowledgements where tins, hosts, an AQM and a drop policy have the packets in their books.

use std::collections::BTreeMap;

use conformance::Xorshift;
use conformance::acks::{Segment, Wrap};
use conformance::effort::effort;
use freeboard::flowhash::{Ack, Labels, Parser, mix};
use freeboard::sched_core::{DropReason, Limits, Nanos, Packet, Scheduler};
use freeboard::shaper::Rate;
use freeboard::{AckFilter, AqmKind, DescriptorQueue, InTin, Isolation, SmartQueue, TinMode};

/// As many handles there are.
const HANDLES: u32 = 400;
const TINS: usize = 4;

/// What happened to the packets of one tin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Books {
    accepted: u64,
    delivered: u64,
    dropped: [u64; 3],
}

/// The reasons that are counted.
const REASONS: [DropReason; 3] = [DropReason::Filtered, DropReason::Aqm, DropReason::Overflow];

struct Uplink {
    queue: DescriptorQueue,
    frames: Vec<Vec<u8>>,
    /// The tin of each handle that is queued.
    inside: BTreeMap<u32, usize>,
    free: Vec<u32>,
    books: [Books; TINS],
    /// The acknowledgement number of each flow.
    numbers: BTreeMap<u32, u32>,
    now: Nanos,
}

impl Uplink {
    fn new(aqm: AqmKind, filter: AckFilter, isolation: Isolation) -> Self {
        let rate = Rate::kilobits_per_second(2_000).unwrap();
        let builder = SmartQueue::upload(rate).aqm(aqm).ack_filter(filter).isolation(isolation);
        let builder = builder.tins(TinMode::Diffserv4).limits(Limits::packets(90));
        let queue = builder.tables(64, 8).buffers(HANDLES).descriptors().expect("in range");
        Self {
            queue,
            frames: vec![Vec::new(); HANDLES as usize],
            inside: BTreeMap::new(),
            free: (0..HANDLES).collect(),
            books: Default::default(),
            numbers: BTreeMap::new(),
            now: Nanos::from_secs(1),
        }
    }

    /// A packet of `flow`: an acknowledgement of what came since, of the same, or data of the flow's own.
    fn push(&mut self, random: &mut Xorshift, flow: u32) {
        let Some(handle) = self.free.pop() else { return };
        let number = self.numbers.entry(flow).or_default();
        *number = number.wrapping_add(if random.below(8) == 0 { 0 } else { 1_448 });
        let mut segment = Segment::ack(*number);
        segment.port = flow as u8;
        if random.below(2) == 0 {
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
        let (src_host, tin) = (mix(1_000 + flow % 3), (flow % TINS as u32) as usize);
        let labels = Labels { flow: mix(flow), src_host, dst_host: mix(7 + flow % 2) };
        let labels = InTin { labels, tin: tin as u8 };
        let packet = Packet::new(handle, frames[handle as usize].len() as u32);
        self.inside.insert(handle, tin);
        let (inside, free, books) = (&mut self.inside, &mut self.free, &mut self.books);
        let drops = &mut |packet: Packet, why| Self::dropped(inside, free, books, packet, why);
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
        inside: &mut BTreeMap<u32, usize>,
        free: &mut Vec<u32>,
        books: &mut [Books; TINS],
        packet: Packet,
        why: DropReason,
    ) {
        let tin = inside.remove(&packet.handle).expect("what is dropped is queued, once");
        free.push(packet.handle);
        let reason = REASONS.iter().position(|reason| *reason == why).expect("no other reason");
        books[tin].dropped[reason] += 1;
    }

    fn pop(&mut self) {
        let (inside, free, books) = (&mut self.inside, &mut self.free, &mut self.books);
        let drops = &mut |packet: Packet, why| Self::dropped(inside, free, books, packet, why);
        let Some(packet) = self.queue.dequeue(self.now, drops) else { return };
        let tin = self.inside.remove(&packet.handle).expect("what leaves is queued, once");
        assert_eq!(packet.len as usize, self.frames[packet.handle as usize].len());
        self.free.push(packet.handle);
        self.books[tin].delivered += 1;
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
            let held = self.inside.values().filter(|of| **of == tin).count();
            assert_eq!(found.backlog.packets as usize, held, "tin {tin}");
        }
    }
}

/// Goal: a packet that is taken from the middle of its queue is taken from all books: those of its tin, its host, the AQM and the drop
/// policy, which chooses among hosts over all tins. Method: floods of acknowledgements with data between them, of eight flows
/// of three hosts in four tins, at more than the rate. What comes out is counted by hand, tin by tin and reason by reason; the books are
/// recounted after each call. Filter, AQM, isolation, rate and limits change meanwhile.
#[test]
fn what_is_filtered_leaves_the_books_of_its_tin_its_host_and_its_aqm() {
    let mut dropped = [[0; 3]; 2];
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
                        7 => uplink.queue.set_isolation(Isolation::DualDstHost).unwrap(),
                        8 => uplink.queue.set_isolation(isolation).unwrap(),
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
                uplink.queue.set_rate(uplink.now, Rate::UNLIMITED);
                while uplink.queue.backlog().packets > 0 {
                    uplink.pop();
                }
                uplink.check();
                assert_eq!(uplink.free.len(), HANDLES as usize, "every handle came out");
            }
        }
    }
    let of_all_reasons = dropped.iter().all(|of_aqm| of_aqm.iter().all(|packets| *packets > 20));
    assert!(of_all_reasons, "{dropped:?} for {REASONS:?}");
}
