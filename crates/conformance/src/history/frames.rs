//! Sequences of arbitrary frames and changes of settings for a smart queue, compared with a
//! reference model that keeps the frames in a list.

use freeboard::flowhash::{FlowKey, HostKey, NoNat, Parsed, parse};
use freeboard::sched_core::{Limits, Nanos, TokenBucket, Volume};
use freeboard::shaper::{Overhead, Rate};
use freeboard::{
    AckFilter, AqmKind, BufferState, DeviceRoom, Frames, Fwmark, Heap, HostRules, HostTerms,
    IsolatedMemory, Isolation, MemoryLimit, PushError, Rtt, SmartQueue, StaticFrames, Storage,
    TinBy, TinMode,
};

const LEN: usize = 256;
const FRAMES: usize = 6;

/// The smart queue under test.
type Played<S> = SmartQueue<S, Frames<S, NoNat, Rules>>;

/// Host rules by the last byte of the address and a number that changes.
struct Rules(u8);

impl HostRules for Rules {
    fn terms(&self, host: HostKey) -> HostTerms {
        let last = match host {
            HostKey::V4(address) => address[3],
            HostKey::V6(address) => address[15],
            _ => 0,
        };
        let bits = |mbit: u64| mbit * 1_000_000;
        let rate = || TokenBucket::new(bits(10), 400).expect("in range");
        let ceiling = |burst| TokenBucket::new(bits(20), burst).expect("in range");
        let terms = HostTerms::default();
        match last.wrapping_add(self.0) % 8 {
            0 => HostTerms { quantum: Some(700), ..terms },
            1 => HostTerms { committed_rate: Some(rate()), ..terms },
            2 => HostTerms { ceiling: Some(ceiling(1)), ..terms },
            3 => HostTerms { committed_rate: Some(rate()), ceiling: Some(ceiling(900)), ..terms },
            _ => terms,
        }
    }
}

/// Reference model: the accepted frames in the order of their arrival, and the frames that have
/// left.
#[derive(Default)]
struct Twin {
    raw_ip: bool,
    inside: Vec<Vec<u8>>,
    /// Index of the output frame that each input frame was matched to.
    is: Vec<Option<usize>>,
    /// Output frames; the flag is true if the frame was washed.
    out: Vec<(Vec<u8>, bool)>,
    pushed: u64,
    refused: u64,
    popped: Volume,
    marked: u64,
    wash: bool,
    /// Source and destination of the last frame, if it has addresses.
    hosts: Option<[HostKey; 2]>,
}

/// Plays the sequence encoded in `bytes`: the first byte selects how the queue is built, the others
/// encode calls and frames.
///
/// # Panics
/// If a frame that leaves is not one that was accepted, apart from a mark and a cleared code point,
/// or if the counters are wrong.
pub fn play_frames(bytes: &[u8]) {
    let (&shape, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let raw_ip = shape & 1 == 1;
    let builder = SmartQueue::download(Rate::UNLIMITED).rtt(Rtt::DATACENTRE);
    let builder = if raw_ip { builder.raw_ip() } else { builder };
    let builder = if shape & 2 == 2 { builder.limits(Limits::bytes(600)) } else { builder };
    if shape & 4 == 4 {
        let memory = IsolatedMemory::<Heap>::allocate(8, 8, 8, FRAMES).with_rates().with_triple(32);
        let aqm = memory.aqm();
        let (frames, states) = ([0; FRAMES * LEN].into(), [BufferState::EMPTY; FRAMES].into());
        let builder = builder.max_len(LEN as u32);
        let queue = builder.frames_over(memory, aqm, frames, states, [shape; 16]);
        play(queue.expect("sizes that are accepted").with_host_rules(Rules(0)), raw_ip, rest);
    } else {
        let mut memory = StaticFrames::<FRAMES, LEN, 1, 8>::new();
        let queue = builder.frames_in(&mut memory, [shape; 16]).expect("dual isolation");
        play(queue.with_host_rules(Rules(0)), raw_ip, rest);
    }
}

fn play<S: Storage>(mut queue: Played<S>, raw_ip: bool, mut rest: &[u8]) {
    let (mut twin, mut now) = (Twin { raw_ip, ..Twin::default() }, Nanos::from_secs(1));
    while let Some((&call, after)) = rest.split_first() {
        let (&value, after) = after.split_first().unwrap_or((&0, &[]));
        rest = after;
        match (call, call % 12) {
            (192.., _) => set(&mut queue, now, call % 16, value, &mut twin),
            (_, kind @ 0..=4) => {
                let len = usize::from(value) + if kind == 4 { 40 } else { 0 };
                let (frame, after) = rest.split_at(len.min(rest.len()));
                rest = after;
                twin.push(&mut queue, now, frame, u32::from(call / 12));
            }
            (_, 5..=7) => twin.pop(&mut queue, now),
            (_, 8) => now = now.plus(Nanos::from_micros(u64::from(value) * 40)),
            (_, 9) => now = Nanos(now.0.saturating_sub(u64::from(value) * 1_000_000)),
            (_, 10) => queue.set_device(match value % 4 {
                0 => DeviceRoom::Busy,
                1 => DeviceRoom::Takes(u32::from(value) * 4),
                _ => DeviceRoom::Ready,
            }),
            _ => {
                let kbps = u64::from(value) * 400;
                let rate = Rate::kilobits_per_second(kbps).unwrap_or(Rate::UNLIMITED);
                queue.set_rate(now, rate);
                let isolation = Isolation::ALL[usize::from(value % 6)];
                queue.set_isolation(isolation).expect("needs no tables");
            }
        }
        twin.compare(&queue);
    }
    queue.set_device(DeviceRoom::Ready);
    queue.set_rate(now, Rate::UNLIMITED);
    while queue.backlog().packets > 0 {
        // A host may be limited by its ceiling, or the link may not be free: use the time from
        // `poll_at`.
        now = queue.poll_at(now).expect("a packet leaves some time");
        twin.pop(&mut queue, now);
    }
    twin.compare(&queue);
}

/// Changes one setting, regardless of queued packets.
fn set<S: Storage>(queue: &mut Played<S>, now: Nanos, setting: u8, value: u8, twin: &mut Twin) {
    let (on, number) = (value & 1 == 1, usize::from(value));
    let links = [
        Overhead::RAW,
        Overhead::PPPOE_LLCSNAP.for_frames(14),
        Overhead::ETHERNET,
        Overhead::CONSERVATIVE,
    ];
    match setting {
        0 => queue.set_overhead(links[number % links.len()]),
        1 => queue.set_tins(TinMode::ALL[number % TinMode::ALL.len()]).expect("room for eight"),
        2 => queue.set_hosts_across_tins(on),
        3 => queue.set_ack_filter(AckFilter::ALL[number % AckFilter::ALL.len()]),
        4 => queue.set_aqm(AqmKind::WORDS[number % AqmKind::WORDS.len()].1),
        5 => queue.set_l4s(on),
        6 => queue.set_ingress(on),
        7 => queue.set_limits(match value % 4 {
            0 => Limits::packets((value / 4 % 8).into()),
            1 => Limits::bytes(u32::from(value) * 4),
            _ => Limits::NONE,
        }),
        8 => {
            let bytes = u32::from(value) * 8;
            let limit = if on { Some(MemoryLimit::Bytes(bytes)) } else { None };
            let is_set = queue.set_memory_limit(limit).is_ok();
            assert_eq!(is_set, !on || bytes >= LEN as u32, "{limit:?}");
        }
        9 => queue.rotate([value; 16]),
        10 => {
            twin.wash = on;
            queue.set_wash(on);
        }
        11 => {
            queue.set_tin_by(TinBy::ALL[number % TinBy::ALL.len()]);
            queue.set_fwmark(Fwmark::new(if value < 128 { u32::MAX } else { value.into() }));
        }
        12 => queue.set_rtt(Rtt::PRESETS[number % Rtt::PRESETS.len()].1),
        13 if value < 64 => queue.reset_line(),
        13 => {
            let span = Nanos::from_micros(u64::from(value) * 40);
            let line = queue.line().clone();
            queue.set_line(if on { line.with_catch_up(span) } else { line.with_burst(600) });
        }
        14 => {
            queue.host_rules_mut().0 = value;
            for host in twin.hosts.into_iter().flatten() {
                queue.update_host(now, host);
            }
        }
        _ => {
            // `triple-isolate` is rejected if its tables are missing.
            let isolation = Isolation::ALL[number % Isolation::ALL.len()];
            let refused = queue.set_isolation(isolation).is_err();
            assert!(!refused || isolation == Isolation::TripleIsolate, "{isolation}");
        }
    }
}

impl Twin {
    fn read(&self, frame: &[u8]) -> Parsed {
        if self.raw_ip { parse::ip(frame) } else { parse::ethernet(frame) }
    }

    fn push<S: Storage>(&mut self, queue: &mut Played<S>, now: Nanos, frame: &[u8], mark: u32) {
        self.pushed += 1;
        self.hosts = match self.read(frame).key {
            FlowKey::V4 { src, dst, .. } => Some([src, dst].map(HostKey::V4)),
            FlowKey::V6 { src, dst, .. } => Some([src, dst].map(HostKey::V6)),
            _ => None,
        };
        match queue.push_marked(now, mark, frame) {
            Ok(()) => {
                self.inside.push(frame.to_vec());
                self.is.push(None);
            }
            Err(PushError::Length { len, max }) => {
                assert!(len == frame.len() && max == LEN && (len == 0 || len > max));
                self.refused += 1;
            }
            Err(_) => self.refused += 1,
        }
    }

    fn pop<S: Storage>(&mut self, queue: &mut Played<S>, now: Nanos) {
        let polled = queue.poll_at(now);
        let Some(frame) = queue.pop(now).as_deref().map(<[u8]>::to_vec) else {
            // After a backward step of the clock, `poll_at` is correct once `pop` was called.
            assert_ne!(queue.poll_at(now), Some(now), "a packet is ready");
            return;
        };
        assert_eq!(polled, Some(now));
        self.popped.add(frame.len() as u32);
        self.out.push((frame, self.wash));
        let popped = self.out.len() - 1;
        let may_be_unmarked = self.inside.iter().any(|inside| self.becomes(inside, popped, false));
        self.marked += u64::from(!may_be_unmarked);
        let mut seen = vec![false; self.inside.len()];
        assert!(self.find(popped, &mut seen), "a frame that was pushed");
    }

    /// Finds an input frame for output frame `popped`, and reassigns others if necessary: frames
    /// may become equal.
    fn find(&mut self, popped: usize, seen: &mut [bool]) -> bool {
        for at in 0..self.inside.len() {
            let inside = &self.inside[at];
            let may_be = self.becomes(inside, popped, false) || self.becomes(inside, popped, true);
            if !may_be || core::mem::replace(&mut seen[at], true) {
                continue;
            }
            if self.is[at].is_none_or(|other| self.find(other, seen)) {
                self.is[at] = Some(popped);
                return true;
            }
        }
        false
    }

    /// Returns true if output frame `popped` is `before`, marked CE if `is_marked`.
    fn becomes(&self, before: &[u8], popped: usize, is_marked: bool) -> bool {
        let (after, is_washed) = &self.out[popped];
        before.len() == after.len()
            && becomes(before, after, self.read(before), *is_washed, is_marked)
    }

    fn compare<S: Storage>(&self, queue: &Played<S>) {
        queue.recount().expect("the counters are right");
        let counters = queue.counters();
        assert_eq!(counters.offered().packets, self.pushed);
        assert_eq!(counters.rejected.packets, self.refused);
        assert_eq!(counters.delivered, self.popped);
        assert!(counters.marked >= self.marked, "a mark may make a frame equal to another");
        let dropped = counters.dropped_total().packets;
        let left = self.inside.len() as u64 - counters.delivered.packets;
        assert_eq!(left, u64::from(queue.backlog().packets) + dropped);
        let of_tins = (0..queue.tins().count()).filter_map(|tin| queue.tin_counters(tin));
        let held: u32 = of_tins.map(|tin| tin.backlog.packets).sum();
        assert_eq!(held, queue.backlog().packets);
    }
}

/// Returns true if `after` equals `before` except for the code point, which is 0 if `is_washed`,
/// the ECN field, which changed from ECT to CE if `is_marked`, and the IPv4 checksum, adjusted for
/// those bits.
fn becomes(before: &[u8], after: &[u8], parsed: Parsed, is_washed: bool, is_marked: bool) -> bool {
    let Some(ip) = parsed.ip else { return !is_marked && before == after };
    let was = ip.traffic_class;
    if is_marked && matches!(was & 3, 0 | 3) {
        return false;
    }
    let class = if is_washed { was & 3 } else { was } | if is_marked { 3 } else { 0 };
    let (at, mut expected) = (ip.offset, before.to_vec());
    if before[at] >> 4 == 6 {
        expected[at] = 0x60 | class >> 4;
        expected[at + 1] = class << 4 | before[at + 1] & 15;
        return expected == after;
    }
    expected[at + 1] = class;
    if class == was {
        return expected == after;
    }
    let word = |bytes: &[u8]| u64::from(u16::from_be_bytes([bytes[at + 10], bytes[at + 11]]));
    // The sum over all words including the checksum is unchanged modulo 2^16 − 1.
    let sums = [(before, was), (after, class)].map(|(bytes, class)| word(bytes) + u64::from(class));
    expected[at + 10..at + 12].copy_from_slice(&after[at + 10..at + 12]);
    sums[0] % 0xffff == sums[1] % 0xffff && expected == after
}
