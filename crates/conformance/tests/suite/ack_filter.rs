//! The ACK filter compared with its reference model and on traffic recorded from Linux, and its
//! effect on a sender.

use conformance::Xorshift;
use conformance::acks::{self, Filtered, Learned, Segment, Wrap, read};
use conformance::effort::effort;
use conformance::twin::ack_filter::Feedback;
use freeboard::AckFilter;
use proptest::prelude::*;
use sim::capture::Reader;
use std::collections::{BTreeMap, VecDeque};

/// Goal: library and reference model read and drop the same acknowledgements for any segments.
/// Method: random bytes, decoded like fuzzer input.
#[test]
fn the_filter_does_what_its_twin_does() {
    let mut random = Xorshift::new(1);
    for _ in 0..effort(600, 20_000) {
        let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.byte()).collect();
        acks::play(&bytes);
    }
}

/// Recordings of Linux receivers; the README in the folder says how they were made.
const CAPTURES: [(&str, &[u8]); 8] = [
    ("plain", include_bytes!("../golden/acks/plain.pcap")),
    ("loss", include_bytes!("../golden/acks/loss.pcap")),
    ("reorder", include_bytes!("../golden/acks/reorder.pcap")),
    ("double", include_bytes!("../golden/acks/double.pcap")),
    ("ecn", include_bytes!("../golden/acks/ecn.pcap")),
    ("no_options", include_bytes!("../golden/acks/no_options.pcap")),
    ("two_way", include_bytes!("../golden/acks/two_way.pcap")),
    ("ipv6", include_bytes!("../golden/acks/ipv6.pcap")),
];

/// Returns the frames of a capture, padded to their original length.
fn frames(capture: &[u8]) -> Vec<Vec<u8>> {
    let packets = Reader::new(capture).expect("a capture");
    let frame = |packet: sim::capture::Packet<'_>| {
        let mut frame = packet.bytes.to_vec();
        frame.resize(packet.original_len as usize, 0);
        frame
    };
    packets.map(|packet| frame(packet.expect("a whole record"))).collect()
}

/// Sends `frames` through a queue that is served after every `pace` arrivals and emptied at the
/// end. Returns the acknowledgements that passed and the number dropped.
fn pass(filter: AckFilter, frames: &[Vec<u8>], pace: usize) -> (Vec<Feedback>, usize) {
    let (mut queue, mut heard) = (Filtered::new(filter), Vec::new());
    for (at, frame) in frames.iter().enumerate() {
        queue.push(frame.clone());
        if at % pace == pace - 1 {
            heard.extend(queue.pop().flatten());
        }
    }
    heard.extend(core::iter::from_fn(|| queue.pop()).flatten());
    (heard, queue.dropped.len())
}

fn learned(heard: &[Feedback]) -> Learned {
    let mut learned = Learned::default();
    heard.iter().for_each(|told| learned.hear(told));
    learned
}

/// Goal: decisions on acknowledgements from Linux follow the rules and match the recorded ones, and
/// the sender of the data ends in the same state. Method: play each capture at paces of two to
/// eight arrivals per departure, in each mode and with each kind of header, on the library and its
/// reference model. `decisions.tsv` has the numbers of drops.
#[test]
fn what_linux_sends_is_filtered_as_recorded() {
    let mut table = String::from("capture\tacknowledgements\tpace\tconservative\taggressive\n");
    for (name, capture) in CAPTURES {
        let frames = frames(capture);
        let all: Vec<Feedback> = frames.iter().filter_map(|frame| read(frame).1).collect();
        let told = learned(&all);
        assert!(all.len() > 50, "{name}: {}", all.len());
        for pace in [2, 3, 8] {
            let counts =
                [AckFilter::Off, AckFilter::Conservative, AckFilter::Aggressive].map(|filter| {
                    let (heard, dropped) = pass(filter, &frames, pace);
                    assert_eq!(heard.len() + dropped, all.len(), "{name} {filter}");
                    let ends = learned(&heard);
                    assert_eq!(same(&ends), same(&told), "{name} {filter} {pace}");
                    // The headers in front must not affect decisions. Checked at one pace, or at
                    // all of them in a full run.
                    for wrap in Wrap::ALL.into_iter().filter(|_| effort(pace == 3, true)) {
                        let wrapped: Vec<Vec<u8>> =
                            frames.iter().map(|frame| wrap.frame(&frame[14..])).collect();
                        assert_eq!(pass(filter, &wrapped, pace).0, heard, "{name} {wrap:?}");
                    }
                    dropped
                });
            assert_eq!(counts[0], 0);
            let [_, conservative, aggressive] = counts;
            table += &format!("{name}\t{}\t{pace}\t{conservative}\t{aggressive}\n", all.len());
        }
    }
    assert!(table == include_str!("../golden/acks/decisions.tsv"), "{table}");
}

/// Returns the state that must not depend on the filter. Acknowledgements with SACK are evaluated
/// by the board, not counted.
fn same(learned: &Learned) -> impl PartialEq + core::fmt::Debug + use<> {
    let Learned { number, board, window, stamps, echoes, duplicate_sacks, marks, .. } =
        learned.clone();
    (number, board, window, stamps, echoes, duplicate_sacks, marks)
}

/// Capabilities of the modelled receiver.
#[derive(Clone, Copy, Debug)]
struct Kind {
    sack: bool,
    stamps: bool,
    ecn: bool,
}

const SIZE: u32 = 1_000;

/// A receiver by RFC 9293, 2018, 2883, 7323 and 3168. It acknowledges each segment, and reports
/// marks like DCTCP or until the sender has reduced its window.
#[derive(Debug)]
struct Receiver {
    kind: Kind,
    first: u32,
    /// Segments below this have arrived.
    next: u32,
    /// Ranges received above `next`, the latest first.
    held: VecDeque<(u32, u32)>,
    stamp: u32,
    window: u16,
}

impl Receiver {
    fn at(&self, segment: u32) -> u32 {
        self.first.wrapping_add(segment.wrapping_mul(SIZE))
    }

    fn receive(&mut self, segment: u32, clock: u32, marked: bool) -> Segment {
        let is_held = |&(from, to): &(u32, u32)| from <= segment && segment < to;
        let twice = segment < self.next || self.held.iter().any(is_held);
        if !twice && segment == self.next {
            self.next += 1;
            self.stamp = clock;
            if let Some(at) = self.held.iter().position(|range| range.0 == self.next) {
                self.next = self.held.remove(at).expect("just found").1;
            }
        } else if !twice {
            let (mut start, mut end) = (segment, segment + 1);
            self.held.retain(|&(from, to)| {
                let touches = to == start || from == end;
                if touches {
                    (start, end) = (start.min(from), end.max(to));
                }
                !touches
            });
            self.held.push_front((start, end));
        }
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        if self.kind.sack {
            if twice {
                blocks.push((segment, segment + 1));
                // RFC 2883 §4: the second block is the larger block that contains the duplicate.
                if let Some(at) = self.held.iter().position(is_held) {
                    self.held.swap(0, at);
                }
            }
            blocks.extend(&self.held);
            blocks.truncate(if self.kind.stamps { 3 } else { 4 });
        }
        let blocks: Vec<(u32, u32)> =
            blocks.into_iter().map(|(from, to)| (self.at(from), self.at(to))).collect();
        let mut ack = Segment::ack(self.at(self.next));
        ack.window = self.window;
        if self.kind.stamps {
            ack = ack.stamped(clock, self.stamp);
        }
        if self.kind.ecn && marked {
            ack.flags |= 0x040;
        }
        ack.reporting(&blocks)
    }
}

/// Plays `steps` on a receiver whose acknowledgements pass through a queue with the filter and
/// through one without, served alike. Whenever both are empty, the senders behind them must have
/// the same state.
fn plays(kind: Kind, first: u32, filter: AckFilter, steps: &[u8]) -> (usize, u32) {
    let mut receiver =
        Receiver { kind, first, next: 0, held: VecDeque::new(), stamp: 0, window: 500 };
    let (mut queue, mut plain) = (Filtered::new(filter), VecDeque::new());
    let (mut filtered, mut unfiltered) = (Learned::default(), Learned::default());
    let (mut sent, mut holes) = (0, VecDeque::new());
    let (mut clock, mut marked, mut compared) = (u32::MAX - 20, false, 0);
    for &step in steps {
        let mut arrive = |segment: u32, marked: bool| {
            let frame = Wrap::Ethernet.frame(&receiver.receive(segment, clock, marked).v4());
            plain.push_back(read(&frame).1.expect("an acknowledgement"));
            queue.push(frame);
        };
        match step {
            0..96 => {
                arrive(sent, marked);
                sent += 1;
            }
            96..116 => {
                holes.push_back(sent);
                sent += 1;
            }
            116..150 => {
                // Fills the oldest or the newest hole.
                let hole = if step % 4 == 0 { holes.pop_back() } else { holes.pop_front() };
                if let Some(hole) = hole {
                    arrive(hole, marked);
                }
            }
            150..160 => {
                let back = u32::from(step - 150);
                if sent > back && !holes.contains(&(sent - 1 - back)) {
                    arrive(sent - 1 - back, marked);
                }
            }
            160..170 => marked = !marked,
            170..175 => receiver.window = 500 - u16::from(step - 170),
            175..200 => clock = clock.wrapping_add(1),
            200..250 => {
                if let Some(told) = queue.pop() {
                    filtered.hear(&told.expect("an acknowledgement"));
                }
                if let Some(told) = plain.pop_front() {
                    unfiltered.hear(&told);
                }
            }
            250.. => {
                while let Some(told) = queue.pop() {
                    filtered.hear(&told.expect("an acknowledgement"));
                }
                plain.drain(..).for_each(|told| unfiltered.hear(&told));
                assert_eq!(same(&filtered), same(&unfiltered), "{kind:?} {filter}");
                if !kind.sack {
                    assert!(filtered.retransmits <= unfiltered.retransmits);
                    assert_eq!(filtered.repeated, unfiltered.repeated, "{kind:?} {filter}");
                }
                compared += 1;
            }
        }
    }
    (queue.dropped.len(), compared)
}

fn kinds() -> impl Iterator<Item = Kind> {
    (0..8).map(|bits| Kind { sack: bits & 1 != 0, stamps: bits & 2 != 0, ecn: bits & 4 != 0 })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort(15, 4_000)))]

    /// Goal: whatever the filter drops, the state of the sender is the same as without it: highest
    /// acknowledgement, SACK board, duplicate SACKs, window, newest timestamps, each change of ECE,
    /// marks, and without SACK the count of duplicates. Method: a model receiver with losses,
    /// reordering, repetitions and marks; one sender behind a queue with the filter, and one behind
    /// a queue without.
    #[test]
    fn the_sender_learns_the_same(
        steps in prop::collection::vec(any::<u8>(), 0..400),
        first in prop_oneof![Just(1_u32), Just(u32::MAX - 3_000), Just((1 << 31) - 2_000)],
    ) {
        let steps = [&steps[..], &[255]].concat();
        for kind in kinds() {
            for filter in [AckFilter::Conservative, AckFilter::Aggressive] {
                let (_, compared) = plays(kind, first, filter, &steps);
                prop_assert!(compared > 0);
            }
        }
    }
}

/// Goal: the sequences above exercise the filter in every kind of connection. Method: fixed seeds.
#[test]
fn the_model_has_something_to_filter() {
    let mut random = Xorshift::new(5);
    let mut dropped = BTreeMap::new();
    for _ in 0..effort(6, 20) {
        let steps: Vec<u8> = (0..400).map(|_| random.byte()).chain([255]).collect();
        for (at, kind) in kinds().enumerate() {
            for filter in [AckFilter::Conservative, AckFilter::Aggressive] {
                *dropped.entry((at, filter.name())).or_insert(0) +=
                    plays(kind, 9, filter, &steps).0;
            }
        }
    }
    assert!(dropped.values().all(|&dropped| dropped > effort(60, 200)), "{dropped:?}");
}

/// Goal: without SACK, duplicates that are queued together reach the sender, so that fast
/// retransmit starts at the same time as without the filter. Method: send three duplicates and a
/// higher acknowledgement to a queue.
#[test]
fn duplicates_that_wait_are_counted() {
    for &filter in AckFilter::ALL {
        let mut queue = Filtered::new(filter);
        for number in [500, 1_000, 1_000, 1_000, 1_000, 5_000, 6_000, 7_000] {
            queue.push(Wrap::Ethernet.frame(&Segment::ack(number).v4()));
        }
        let heard: Vec<Feedback> = core::iter::from_fn(|| queue.pop()).flatten().collect();
        assert_eq!(learned(&heard).retransmits, 1, "{filter}");
    }
}
