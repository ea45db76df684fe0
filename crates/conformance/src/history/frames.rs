//! Histories of a smart queue with frames of any bytes, beside a twin that keeps the frames in a list.

use freeboard::flowhash::{Parsed, parse};
use freeboard::sched_core::{Limits, Nanos, Volume};
use freeboard::shaper::Rate;
use freeboard::{
    DeviceRoom, Isolation, PushError, Rtt, SmartQueue, StaticFrameQueue, StaticFrames,
};

const LEN: usize = 256;

/// The twin: the frames that were taken in and have not come out, in the order in which they came.
#[derive(Default)]
struct Twin {
    inside: Vec<Vec<u8>>,
    pushed: u64,
    refused: u64,
    popped: Volume,
    marked: u64,
}

/// Plays the history that `bytes` say: the first of them how the queue is built, the others calls, with the frames
/// among them.
///
/// # Panics
/// If a frame comes out that did not go in, but for a mark, or the books are wrong.
pub fn play_frames(bytes: &[u8]) {
    let (&shape, mut rest) = bytes.split_first().unwrap_or((&0, &[]));
    let mut memory = StaticFrames::<6, LEN, 1>::new();
    let raw_ip = shape & 1 == 1;
    let builder = SmartQueue::download(Rate::UNLIMITED).rtt(Rtt::DATACENTRE);
    let builder = if raw_ip { builder.raw_ip() } else { builder };
    let builder = if shape & 2 == 2 { builder.limits(Limits::bytes(600)) } else { builder };
    let mut queue = builder.frames_in(&mut memory, [shape; 16]).expect("dual isolation");
    let (mut twin, mut now) = (Twin::default(), Nanos::from_secs(1));
    while let Some((&call, after)) = rest.split_first() {
        let (&value, after) = after.split_first().unwrap_or((&0, &[]));
        rest = after;
        match call % 12 {
            0..=4 => {
                let len = usize::from(value) + if call % 12 == 4 { 40 } else { 0 };
                let (frame, after) = rest.split_at(len.min(rest.len()));
                rest = after;
                twin.push(&mut queue, now, frame);
            }
            5..=7 => twin.pop(&mut queue, now, raw_ip),
            8 => now = now.plus(Nanos::from_micros(u64::from(value) * 40)),
            9 => now = Nanos(now.0.saturating_sub(u64::from(value) * 1_000_000)),
            10 => queue.set_device(match value % 4 {
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
        twin.pop(&mut queue, now, raw_ip);
    }
    twin.compare(&queue);
}

impl Twin {
    fn push(&mut self, queue: &mut StaticFrameQueue<'_>, now: Nanos, frame: &[u8]) {
        self.pushed += 1;
        match queue.push(now, frame) {
            Ok(()) => self.inside.push(frame.to_vec()),
            Err(PushError::Length { len, max }) => {
                assert!(len == frame.len() && max == LEN && (len == 0 || len > max));
                self.refused += 1;
            }
            Err(_) => self.refused += 1,
        }
    }

    fn pop(&mut self, queue: &mut StaticFrameQueue<'_>, now: Nanos, raw_ip: bool) {
        let polled = queue.poll_at(now);
        let Some(frame) = queue.pop(now).map(<[u8]>::to_vec) else {
            assert_ne!(polled, Some(now), "a packet is ready");
            return;
        };
        assert_eq!(polled, Some(now));
        let read = |bytes: &[u8]| if raw_ip { parse::ip(bytes) } else { parse::ethernet(bytes) };
        let same = self.inside.iter().position(|inside| *inside == frame);
        let found = same.or_else(|| {
            self.marked += 1;
            self.inside.iter().position(|inside| is_marked(inside, &frame, read(inside)))
        });
        self.inside.remove(found.expect("a frame that was pushed"));
        self.popped.add(frame.len() as u32);
    }

    fn compare(&self, queue: &StaticFrameQueue<'_>) {
        queue.recount().expect("the books are right");
        let counters = queue.counters();
        assert_eq!(counters.offered().packets, self.pushed);
        assert_eq!(counters.rejected.packets, self.refused);
        assert_eq!(counters.delivered, self.popped);
        assert!(counters.marked >= self.marked, "a mark may make a frame equal to another");
        let dropped = counters.dropped_total().packets;
        assert_eq!(self.inside.len() as u64, u64::from(queue.backlog().packets) + dropped);
    }
}

/// Whether `after` is `before` with congestion experienced, which had another capability, and nothing else changed but the
/// checksum of IPv4: by as much as the bits were.
fn is_marked(before: &[u8], after: &[u8], parsed: Parsed) -> bool {
    let Some(ip) = parsed.ip else { return false };
    let (was, is) = (ip.traffic_class & 3, parse_class(after, ip.offset) & 3);
    if before.len() != after.len() || was == 0 || was == 3 || is != 3 {
        return false;
    }
    let at = ip.offset;
    let is_v4 = before[at] >> 4 == 4;
    let mut expected = before.to_vec();
    if is_v4 {
        expected[at + 1] |= 3;
        let word = |bytes: &[u8]| u64::from(u16::from_be_bytes([bytes[at + 10], bytes[at + 11]]));
        // The sum over all words, the checksum among them, stays what it was modulo 2^16 − 1.
        let difference = u64::from(3 - was);
        let congruent = (word(after) + difference) % 0xffff == word(before) % 0xffff;
        expected[at + 10..at + 12].copy_from_slice(&after[at + 10..at + 12]);
        return congruent && expected == after;
    }
    expected[at + 1] |= 0x30;
    expected == after
}

/// The traffic class of the IP header at `at`.
fn parse_class(bytes: &[u8], at: usize) -> u8 {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(first), Some(second)) if first >> 4 == 6 => first << 4 | second >> 4,
        (_, second) => second.copied().unwrap_or(0),
    }
}
