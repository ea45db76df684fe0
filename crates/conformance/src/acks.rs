//! TCP acknowledgements as bytes, a model of the sender that receives them, and filtered queues
//! compared with a reference model.

use std::collections::{BTreeSet, VecDeque};

use freeboard::flowhash::{Ack, Parser};
use freeboard::sched_core::{DropReason, Limits, Nanos, Packet, Scheduler};
use freeboard::{AckFilter, Heap, Isolated, IsolatedConfig, IsolatedMemory};

use crate::twin::ack_filter::{self, Feedback};

/// A TCP segment from which packets are built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Last byte of the source port; identifies the connection.
    pub port: u8,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub number: u32,
    /// Window.
    pub window: u16,
    /// Flags, the twelve bits after the data offset: ACK is 0x010, ECE 0x040, CWR 0x080, AE 0x100.
    pub flags: u16,
    /// Raw options, padded with zeros to a multiple of four; at most 40 bytes.
    pub options: Vec<u8>,
    /// Payload length in bytes.
    pub payload: usize,
    /// ECN field of the IP header.
    pub ecn: u8,
}

impl Segment {
    /// Returns a pure acknowledgement without options.
    #[must_use]
    pub fn ack(number: u32) -> Self {
        let (seq, window, flags, options) = (7, 512, 0x010, Vec::new());
        Self { port: 1, seq, number, window, flags, options, payload: 0, ecn: 0 }
    }

    /// Adds a timestamp option after two bytes of padding.
    #[must_use]
    pub fn stamped(mut self, value: u32, echo: u32) -> Self {
        self.options.extend([1, 1, 8, 10]);
        self.options.extend(value.to_be_bytes());
        self.options.extend(echo.to_be_bytes());
        self
    }

    /// Adds SACK blocks after two bytes of padding; adds nothing if there are no blocks.
    #[must_use]
    pub fn reporting(mut self, blocks: &[(u32, u32)]) -> Self {
        if !blocks.is_empty() {
            let len = u8::try_from(2 + 8 * blocks.len()).expect("four blocks at most");
            self.options.extend([1, 1, 5, len]);
            for edge in blocks.iter().flat_map(|&(start, end)| [start, end]) {
                self.options.extend(edge.to_be_bytes());
            }
        }
        self
    }

    fn tcp(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().div_ceil(4) * 4, 0);
        let words = u16::try_from(5 + options.len() / 4).expect("a header of 60 bytes at most");
        let mut tcp = vec![0xc0, self.port, 1, 0xbb];
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.number.to_be_bytes());
        tcp.extend((words << 12 | self.flags).to_be_bytes());
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0, 0, 0]);
        tcp.extend(options);
        tcp.resize(tcp.len() + self.payload, 0x5a);
        tcp
    }

    /// Builds an IPv4 packet.
    #[must_use]
    pub fn v4(&self) -> Vec<u8> {
        v4(self.ecn, 6, &self.tcp())
    }

    /// Builds an IPv6 packet.
    #[must_use]
    pub fn v6(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut packet = vec![0x60, self.ecn << 4, 0, 0];
        packet.extend(u16::try_from(tcp.len()).expect("no jumbogram").to_be_bytes());
        packet.extend([6, 64]);
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend(tcp);
        packet
    }
}

/// Builds an IPv4 packet of this protocol.
fn v4(ecn: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, ecn];
    packet.extend(u16::try_from(20 + payload.len()).expect("below 64 KiB").to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
    packet.extend(payload);
    packet
}

/// Headers in front of the IP packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// An Ethernet header.
    Ethernet,
    /// An Ethernet header and two VLAN tags.
    Tagged,
    /// An Ethernet header, a VLAN tag and a PPPoE session header.
    Pppoe,
    /// An Ethernet header and an IPv4 header: a tunnel.
    InIpv4,
}

impl Wrap {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Ethernet, Self::Tagged, Self::Pppoe, Self::InIpv4];

    /// Builds a frame with this IP packet, padded to the minimum length of Ethernet.
    #[must_use]
    pub fn frame(self, packet: &[u8]) -> Vec<u8> {
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let kind: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
        let mut frame = vec![2; 12];
        match self {
            Self::Ethernet => frame.extend(kind),
            Self::Tagged => {
                frame.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 7]);
                frame.extend(kind);
            }
            Self::Pppoe => {
                let len = u16::try_from(packet.len() + 2).expect("below 64 KiB");
                frame.extend([0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0, 9]);
                frame.extend(len.to_be_bytes());
                frame.extend(if is_v6 { [0, 0x57] } else { [0, 0x21] });
            }
            Self::InIpv4 => {
                frame.extend([8, 0]);
                frame.extend(&v4(0, if is_v6 { 41 } else { 4 }, packet)[..20]);
            }
        }
        frame.extend(packet);
        frame.resize(frame.len().max(60), 0);
        frame
    }
}

/// State of a sender after a sequence of acknowledgements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Highest acknowledgement number.
    pub number: Option<u32>,
    /// Data above `number` that was reported as received, as disjoint ranges relative to it.
    pub board: Vec<(u32, u32)>,
    /// Window, updated as in RFC 9293 §3.10.7.4.
    pub window: u16,
    /// Sequence number of the segment that updated the window last.
    last: u32,
    /// Newest echoed timestamp and newest timestamp of the receiver.
    pub stamps: Option<(u32, u32)>,
    /// ECE and CWR, one entry per change.
    pub echoes: Vec<(bool, bool)>,
    /// SACK blocks that reported duplicates.
    pub duplicate_sacks: BTreeSet<(u32, u32)>,
    /// Duplicate acknowledgements since the last one that acknowledged new data (RFC 5681 §3.2).
    pub repeated: u32,
    /// Number of fast retransmits, each caused by three duplicate acknowledgements.
    pub retransmits: u32,
    /// Acknowledgements that carried a congestion mark themselves.
    pub marks: u32,
}

impl Learned {
    /// Processes an acknowledgement.
    pub fn hear(&mut self, told: &Feedback) {
        self.marks += u32::from(told.marked);
        if self.echoes.last() != Some(&told.echoes) {
            self.echoes.push(told.echoes);
        }
        let is_below = |from: u32, to: u32| from != to && to.wrapping_sub(from) < 1 << 31;
        let number = *self.number.get_or_insert(told.number);
        let is_new = is_below(number, told.number);
        if let Some(&(start, end)) = told.blocks.first() {
            let inside = told
                .blocks
                .get(1)
                .is_some_and(|&(from, to)| !is_below(start, from) && !is_below(to, end));
            if is_below(start, told.number) || inside {
                self.duplicate_sacks.insert((start, end));
            }
        }
        if is_below(told.number, number) {
            return;
        }
        if is_new {
            let step = told.number.wrapping_sub(number);
            let left = self.board.iter().filter(|block| block.1 > step);
            self.board = left.map(|block| (block.0.saturating_sub(step), block.1 - step)).collect();
            (self.number, self.repeated) = (Some(told.number), 0);
        } else if self.window == told.window {
            self.repeated += 1;
            self.retransmits += u32::from(self.repeated == 3);
        }
        if !is_below(told.seq, self.last) {
            (self.window, self.last) = (told.window, told.seq);
        }
        for &(start, end) in &told.blocks {
            if is_below(told.number, end) && is_below(start, end) && !is_below(start, told.number) {
                let [start, end] = [start, end].map(|edge| edge.wrapping_sub(told.number));
                self.report(start, end);
            }
        }
        if told.stamps.is_some() {
            self.stamps = told.stamps;
        }
    }

    fn report(&mut self, mut start: u32, mut end: u32) {
        self.board.retain(|&(from, to)| {
            let touches = from <= end && start <= to;
            if touches {
                (start, end) = (start.min(from), end.max(to));
            }
            !touches
        });
        self.board.push((start, end));
        self.board.sort_unstable();
    }
}

/// A queue of frames with [`AckFilter`] and a list with the naive filter, which must behave alike.
#[derive(Debug)]
pub struct Filtered {
    filter: AckFilter,
    queue: Isolated<Heap>,
    frames: Vec<Option<Vec<u8>>>,
    list: VecDeque<(u32, Option<Feedback>)>,
    /// Dropped frames, each with its acknowledgement if it was one.
    pub dropped: Vec<Option<Feedback>>,
}

/// Capacity of a [`Filtered`] in frames.
const FRAMES: u32 = 512;

/// Reads the acknowledgement in `frame` with the library and with the reference model, and checks
/// that they agree.
#[must_use]
pub fn read(frame: &[u8]) -> (Option<Ack>, Option<Feedback>) {
    let parsed = Parser::default().ethernet(frame);
    let (ack, told) = (Ack::read(frame, &parsed), ack_filter::read(frame, &parsed));
    let plain = ack.map(|ack| Feedback {
        connection: ack.connection,
        seq: ack.seq,
        number: ack.number,
        window: ack.window,
        echoes: (ack.ece, ack.cwr),
        marked: ack.marked,
        stamps: ack.timestamps.map(|stamps| (stamps.value, stamps.echo)),
        blocks: ack.sack.as_slice().to_vec(),
    });
    assert_eq!(plain, told, "{frame:02x?}");
    (ack, told)
}

/// Labels that put all frames in one flow of one host: connections share a queue.
struct OneFlow;

impl freeboard::Labelled for OneFlow {
    fn flow(&self) -> u32 {
        1
    }

    fn source(&self) -> u32 {
        2
    }

    fn destination(&self) -> u32 {
        3
    }
}

impl Filtered {
    /// Creates an empty queue.
    ///
    /// # Panics
    /// Never: the sizes are valid.
    #[must_use]
    pub fn new(filter: AckFilter) -> Self {
        let memory = IsolatedMemory::<Heap>::allocate(8, 8, 1, FRAMES as usize);
        let config = IsolatedConfig::new(1_600, Limits::NONE);
        Self {
            filter,
            queue: Isolated::new(memory, config).expect("sizes are in range"),
            frames: vec![None; FRAMES as usize],
            list: VecDeque::new(),
            dropped: Vec::new(),
        }
    }

    /// Enqueues a frame. Rejects it if 512 are queued or its length is not in 1 to 1,600 bytes.
    ///
    /// # Panics
    /// If library and reference model differ, or the counters are inconsistent.
    pub fn push(&mut self, frame: Vec<u8>) {
        let Some(handle) = self.frames.iter().position(Option::is_none) else { return };
        let Ok(len) = u32::try_from(frame.len()) else { return };
        if !(1..=1_600).contains(&len) {
            return;
        }
        let (ack, told) = read(&frame);
        self.frames[handle] = Some(frame);
        let handle = u32::try_from(handle).expect("below 512");
        let packet = Packet::new(handle, len);
        let mut gone = Vec::new();
        let Self { filter, queue, frames, list, dropped } = self;
        let drops = &mut |packet: Packet, why: DropReason| gone.push((packet.handle, why));
        let acks = |packet: Packet| {
            let frame = frames[packet.handle as usize].as_ref().expect("it is queued");
            read(frame).0
        };
        match ack {
            Some(ack) => {
                let filter = (*filter, &acks);
                queue.enqueue_ack(Nanos(0), &OneFlow, (packet, &ack), filter, drops).unwrap();
            }
            None => drop(queue.enqueue_labelled(Nanos(0), &OneFlow, packet, drops).unwrap()),
        }
        list.push_back((handle, told));
        let queued: Vec<Option<Feedback>> = list.iter().map(|(_, told)| told.clone()).collect();
        let chosen = ack_filter::choose(*filter, &queued).map(|younger| list.len() - 1 - younger);
        let expected: Vec<(u32, DropReason)> = chosen
            .into_iter()
            .filter_map(|place| list.remove(place))
            .map(|(handle, told)| {
                dropped.push(told);
                (handle, DropReason::Filtered)
            })
            .collect();
        assert_eq!(gone, expected, "of {queued:#?}");
        for (handle, _) in gone {
            frames[handle as usize] = None;
        }
        assert_eq!(queue.recount(), Ok(()));
    }

    /// Dequeues the first frame; returns its acknowledgement if it is a pure one.
    ///
    /// # Panics
    /// If library and reference model differ.
    pub fn pop(&mut self) -> Option<Option<Feedback>> {
        let drops = &mut |_: Packet, _: DropReason| panic!("nothing is dropped here");
        let packet = self.queue.dequeue(Nanos(0), drops);
        let first = self.list.pop_front();
        assert_eq!(packet.map(|packet| packet.handle), first.as_ref().map(|first| first.0));
        let frame = self.frames[packet?.handle as usize].take().expect("it was queued");
        Some(read(&frame).1)
    }

    /// Returns the number of queued frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if no frame is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Decodes `bytes` as segments with arbitrary options, flags and numbers, and plays them on a
/// filtered queue.
///
/// # Panics
/// If library and reference model differ.
pub fn play(bytes: &[u8]) {
    let mut rest = bytes.iter().copied();
    let mut next = || rest.next();
    let Some(first) = next() else { return };
    let mut queue = Filtered::new(AckFilter::ALL[usize::from(first % 3)]);
    // Sequence numbers wrap in most sequences.
    let mut segment = Segment { seq: u32::MAX - 1, ..Segment::ack(u32::MAX - 2_500) };
    let (mut value, mut echo) = (u32::MAX - 3, u32::MAX - 9);
    while let (Some(what), Some(how)) = (next(), next()) {
        if what < 64 {
            let _left = queue.pop();
            continue;
        }
        segment.number = segment.number.wrapping_add(match how % 8 {
            0 | 1 => 0,
            2 => u32::MAX - 499, // back by 500
            3 => 1 << 31,
            _ => 500,
        });
        segment.seq = segment.seq.wrapping_add(u32::from(how >> 3 == 31));
        value = value.wrapping_add(u32::from(what & 1));
        echo = echo.wrapping_add(u32::from(what >> 1 & 1));
        segment.options.clear();
        segment.flags = 0x010;
        segment.payload = 0;
        segment.port = 1 + (how >> 6 & 1);
        segment.ecn = 0;
        if what & 4 != 0 {
            segment = segment.stamped(value, echo);
        }
        let far = |byte: u8| u32::from(byte % 16) * 250;
        match what >> 3 & 7 {
            0..3 => {}
            3 | 4 => {
                let blocks: Vec<(u32, u32)> = (0..=how >> 3 & 3)
                    .map_while(|_| {
                        let byte = next()?;
                        let start = segment.number.wrapping_add(far(byte)).wrapping_sub(500);
                        Some((start, start.wrapping_add(far(byte >> 4))))
                    })
                    .collect();
                let room = if what & 4 != 0 { 3 } else { 4 };
                segment = segment.reporting(&blocks[..blocks.len().min(room)]);
            }
            5 => {
                // Arbitrary options.
                let len = usize::from(how >> 3).min(40 - segment.options.len());
                segment.options.extend(core::iter::from_fn(&mut next).take(len));
            }
            6 => segment.flags ^= u16::from(next().unwrap_or(0)) << (how >> 5 & 4),
            _ => match next().unwrap_or(0) {
                byte @ 0..64 => segment.ecn = byte & 3,
                byte @ 64..128 => segment.payload = usize::from(byte & 3),
                _ => segment.flags |= 0x040,
            },
        }
        let packet = if how >> 5 & 1 == 0 { segment.v4() } else { segment.v6() };
        let mut frame = Wrap::ALL[usize::from(what >> 6)].frame(&packet);
        if what == 255 {
            frame.truncate(frame.len().saturating_sub(usize::from(how)));
        }
        queue.push(frame);
    }
    while queue.pop().is_some() {}
}
