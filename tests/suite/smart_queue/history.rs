//! Random sequences of operations on a smart queue with frames, compared with a reference model.

use std::collections::BTreeMap;

use conformance::effort::effort;
use proptest::prelude::*;

use freeboard::shaper::Overhead;
use freeboard::{AckFilter, MemoryLimit, StaticFrameQueue, TinBy, TinMode};

use super::*;

/// One operation.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(Shape),
    /// Pushes bytes that are not a valid frame.
    PushBytes(u8, u16),
    Pop,
    PopAll,
    SetRate(Rate),
    SetRtt(Rtt),
    SetDevice(DeviceRoom),
    AddRoom(u16),
    SetIsolation(Isolation),
    /// Changes a setting to a value.
    Set(u8, u8),
    Wait(u32),
    Back(u32),
    Clear,
}

fn shapes() -> impl Strategy<Value = Shape> {
    (0..4_u8, 0..3_u8, 0..4_u8, any::<bool>(), 0..3_u8, 4..1_400_u16).prop_map(
        |(host, port, ecn, v6, tags, payload)| Shape { host, port, ecn, v6, tags, payload },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let rates = prop_oneof![
        (1..200_u64).prop_map(mbit),
        Just(Rate::UNLIMITED),
        Just(Rate::STOPPED),
        Just(Rate::kilobits_per_second(64).expect("in range")),
    ];
    let devices = prop_oneof![
        2 => Just(DeviceRoom::Ready),
        1 => Just(DeviceRoom::Busy),
        3 => (0..6_000_u32).prop_map(DeviceRoom::Takes),
    ];
    prop_oneof![
        24 => shapes().prop_map(Step::Push),
        2 => (any::<u8>(), 0..2_000_u16).prop_map(|(byte, len)| Step::PushBytes(byte, len)),
        12 => Just(Step::Pop),
        1 => Just(Step::PopAll),
        2 => rates.prop_map(Step::SetRate),
        1 => (0..7_usize).prop_map(|at| Step::SetRtt(Rtt::PRESETS[at].1)),
        3 => devices.prop_map(Step::SetDevice),
        3 => (0..3_000_u16).prop_map(Step::AddRoom),
        1 => (0..7_usize).prop_map(|at| Step::SetIsolation(Isolation::ALL[at])),
        4 => (0..13_u8, any::<u8>()).prop_map(|(setting, value)| Step::Set(setting, value)),
        8 => (0..3_000_000_u32).prop_map(Step::Wait),
        1 => (0..90_000_000_u32).prop_map(Step::Back),
        1 => Just(Step::Clear),
    ]
}

/// Reference model: every queued frame by its number, and sums.
#[derive(Default)]
struct Twin {
    inside: BTreeMap<u32, (Shape, Vec<u8>)>,
    next: u32,
    pushed: u64,
    refused: u64,
    /// True if an AQM that signals arrivals was set.
    marks_arrivals: bool,
    popped: u64,
    popped_bytes: u64,
    /// Bytes that the device accepts; `None` if unlimited.
    room: Option<u64>,
    marked: u64,
    wash: bool,
}

impl Twin {
    /// Checks that a popped frame is one of those pushed, except for a mark.
    fn popped(&mut self, bytes: &[u8]) {
        self.popped += 1;
        self.popped_bytes += bytes.len() as u64;
        if let Some(room) = &mut self.room {
            *room = room.checked_sub(bytes.len() as u64).expect("a frame that fits");
        }
        let wash = self.wash;
        let left = |shape: Shape, frame: &[u8]| match wash {
            true => washed(shape, frame),
            false => frame.to_vec(),
        };
        let found = self.inside.iter().find(|(number, (shape, frame))| {
            frame.len() == bytes.len()
                && [frame, &marked(*shape, **number)]
                    .iter()
                    .any(|frame| left(*shape, frame) == bytes)
        });
        let (&number, (shape, frame)) = found.expect("a frame that was pushed");
        if left(*shape, frame) != bytes {
            assert_ne!(shape.ecn, 0, "not capable of marks");
            self.marked += 1;
        }
        self.inside.remove(&number);
    }
}

/// Returns `frame` without its code point, with the checksum computed over the whole header.
fn washed(shape: Shape, frame: &[u8]) -> Vec<u8> {
    let (at, mut frame) = (ip_at(shape), frame.to_vec());
    // Invalid frames have no shape.
    match frame.get(at).filter(|_| shape.payload > 0).map(|first| first >> 4) {
        Some(4) => {
            frame[at + 1] &= 3;
            frame[at + 10..at + 12].fill(0);
            let sum = checksum(&frame[at..at + 20]);
            frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) => {
            frame[at] = 0x60;
            frame[at + 1] &= 0x3f;
        }
        _ => {}
    }
    frame
}

/// Changes one setting, regardless of queued packets.
fn set<'a>(queue: &mut StaticFrameQueue<'a>, setting: u8, value: u8, twin: &mut Twin) {
    let (on, number) = (value & 1 == 1, usize::from(value));
    let links = [Overhead::RAW, Overhead::PPPOE_LLCSNAP, Overhead::ETHERNET, Overhead::PPPOE_PTM];
    match setting {
        0 => queue.set_overhead(links[number % 4].for_frames(value % 16)),
        1 => queue.set_tins(TinMode::ALL[number % 5]).expect("room for eight"),
        2 => queue.set_hosts_across_tins(on),
        3 => queue.set_ack_filter(AckFilter::ALL[number % 3]),
        4 => {
            queue.set_aqm(AqmKind::WORDS[number % AqmKind::WORDS.len()].1);
            twin.marks_arrivals |= turns_away(queue.aqm());
        }
        5 => queue.set_l4s(on),
        6 => queue.set_ingress(on),
        7 => queue.set_limits(match value % 3 {
            0 => Limits::packets(u32::from(value / 4 % 16)),
            1 => Limits::bytes(u32::from(value) * 64),
            _ => Limits::NONE,
        }),
        8 => {
            let limit = MemoryLimit::Bytes(u32::from(value) * 100);
            let is_set = queue.set_memory_limit(Some(limit).filter(|_| on)).is_ok();
            assert_eq!(is_set, !on || usize::from(value) * 100 >= LEN, "{limit:?}");
        }
        9 => queue.rotate([value; 16]),
        10 => {
            let isolation = Isolation::ALL[number % 7];
            let is_set = queue.set_isolation(isolation).is_ok();
            assert_eq!(is_set, isolation != Isolation::TripleIsolate);
        }
        11 => {
            twin.wash = on;
            queue.set_wash(on);
        }
        _ => queue.set_tin_by(TinBy::ALL[number % 3]),
    }
}

/// Returns true if the AQM signals arrivals: it marks or drops them.
const fn turns_away(aqm: AqmKind) -> bool {
    !matches!(aqm, AqmKind::None | AqmKind::CoDel | AqmKind::Cobalt)
}

const FRAMES: usize = 12;

const LEN: usize = 1_514;

proptest! {
    #![proptest_config(ProptestConfig { cases: effort(50, 400), ..ProptestConfig::default() })]

    /// Goal: for any order of calls, and any settings changed under load, the frames that leave are
    /// those pushed, byte for byte except for congestion marks and washed code points. Each leaves
    /// once or is counted as dropped once. The device receives no more than it accepts. `poll_at`
    /// predicts whether a frame leaves now. Method: random sequences compared with a model that
    /// holds the frames in a map; the counters are recounted after every call.
    #[test]
    fn frames_come_out_as_they_went_in_and_each_is_accounted_for_once(
        history in proptest::collection::vec(steps(), 1..250),
        start in 0..2_u8,
    ) {
        let mut memory = StaticFrames::<FRAMES, LEN, 1, 8>::new();
        let builder = SmartQueue::upload(mbit(5)).rtt(Rtt::LAN);
        let builder = if start == 0 { builder } else { builder.limits(Limits::bytes(6_000)) };
        let mut queue = builder.frames_in(&mut memory, KEY).expect("a queue");
        let mut twin = Twin::default();
        let mut now = Nanos::from_secs(100);
        for step in history {
            match step {
                Step::Push(shape) => {
                    let number = twin.next;
                    twin.next += 1;
                    let bytes = frame(shape, number);
                    twin.pushed += 1;
                    match queue.push(now, &bytes) {
                        Ok(()) => drop(twin.inside.insert(number, (shape, bytes))),
                        Err(PushError::Rejected(RejectReason::Full { limits })) => {
                            assert_ne!(limits, Limits::NONE);
                            twin.refused += 1;
                        }
                        Err(PushError::Rejected(RejectReason::Aqm)) => {
                            assert!(turns_away(queue.aqm()));
                            twin.refused += 1;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::PushBytes(byte, len) => {
                    let bytes = vec![byte; len.into()];
                    twin.pushed += 1;
                    let shape = Shape { host: 0, port: 0, ecn: 0, v6: false, tags: 0, payload: 0 };
                    match queue.push(now, &bytes) {
                        Ok(()) => {
                            // Frames with equal bytes are interchangeable.
                            let number = twin.next;
                            twin.next += 1;
                            twin.inside.insert(number, (shape, bytes));
                        }
                        Err(PushError::Length { len, max }) => {
                            assert!(len == bytes.len() && max == LEN && (len == 0 || len > LEN));
                            twin.refused += 1;
                        }
                        Err(PushError::Rejected(RejectReason::Full { limits })) => {
                            assert_ne!(limits, Limits::NONE);
                            twin.refused += 1;
                        }
                        Err(PushError::Rejected(RejectReason::Aqm)) => {
                            assert!(turns_away(queue.aqm()));
                            twin.refused += 1;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::Pop => {
                    let polled = queue.poll_at(now);
                    let popped = queue.pop(now).as_deref().map(<[u8]>::to_vec);
                    assert_eq!(polled == Some(now), popped.is_some(), "{polled:?}");
                    popped.iter().for_each(|bytes| twin.popped(bytes));
                }
                Step::PopAll => {
                    while let Some(bytes) = queue.pop(now) {
                        twin.popped(bytes);
                    }
                }
                Step::SetRate(rate) => queue.set_rate(now, rate),
                Step::SetRtt(rtt) => queue.set_rtt(rtt),
                Step::SetDevice(device) => {
                    queue.set_device(device);
                    twin.room = match device {
                        DeviceRoom::Ready => None,
                        DeviceRoom::Busy => Some(0),
                        DeviceRoom::Takes(bytes) => Some(bytes.into()),
                        other => panic!("{other:?}"),
                    };
                }
                Step::AddRoom(bytes) => {
                    queue.add_room(bytes.into());
                    if let Some(room) = &mut twin.room {
                        *room += u64::from(bytes);
                    }
                }
                Step::SetIsolation(isolation) => {
                    let done = queue.set_isolation(isolation);
                    assert_eq!(done.is_err(), isolation == Isolation::TripleIsolate);
                }
                Step::Set(setting, value) => set(&mut queue, setting, value, &mut twin),
                Step::Wait(span) => now = now.plus(Nanos(span.into())),
                Step::Back(span) => now = Nanos(now.0.saturating_sub(span.into())),
                Step::Clear => queue.clear(),
            }
            queue.recount().expect("the counters are right");
            let (counters, backlog) = (queue.counters(), queue.backlog());
            assert_eq!(counters.offered().packets, twin.pushed);
            assert_eq!(counters.rejected.packets, twin.refused);
            assert_eq!((counters.delivered.packets, counters.delivered.bytes), (twin.popped, twin.popped_bytes));
            let dropped = counters.dropped_total().packets;
            assert_eq!(twin.inside.len() as u64, u64::from(backlog.packets) + dropped);
            // A frame marked on arrival is still queued, or was dropped.
            let waits = if twin.marks_arrivals { twin.inside.len() as u64 } else { 0 };
            assert!((twin.marked..=twin.marked + waits).contains(&counters.marked), "{counters:?}");
            let room = twin.room.map_or(u64::from(u32::MAX), |room| room);
            let left = match queue.device() {
                DeviceRoom::Ready => u32::MAX.into(),
                DeviceRoom::Busy => 0,
                DeviceRoom::Takes(bytes) => bytes.into(),
                other => panic!("{other:?}"),
            };
            assert_eq!(left, room);
        }
        queue.set_device(DeviceRoom::Ready);
        twin.room = None;
        queue.set_rate(now, Rate::UNLIMITED);
        while let Some(bytes) = queue.pop(now) {
            twin.popped(bytes);
        }
        assert_eq!(queue.backlog().packets, 0);
        assert_eq!(queue.pop(now), None);
        queue.recount().expect("the counters are right");
    }
}
