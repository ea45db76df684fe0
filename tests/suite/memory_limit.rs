//! The memory of queued packets is within its limit after every call.

use freeboard::flowhash::mix;
use freeboard::sched_core::{
    Descriptor, DropReason, Fifo, FlowId, Limits, Nanos, Packet, Scheduler,
};
use freeboard::shaper::Rate;
use freeboard::{
    InTin, Labelled, MemoryLimit, MemoryLimitError, Rtt, SmartQueue, SmartQueueError, TinMode,
};

struct Flow(u32);

impl Labelled for Flow {
    fn flow(&self) -> u32 {
        mix(self.0)
    }
    fn source(&self) -> u32 {
        mix(self.0 / 4)
    }
    fn destination(&self) -> u32 {
        0
    }
}

/// Goal: the rule equals CAKE's. Method: compare with the table of a kernel's values, which do not
/// depend on the tins.
#[test]
fn the_rule_is_that_of_cake() {
    let table = include_str!("../golden/memory_limit.tsv");
    let mut rows = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let (words, bytes) = line.split_once('\t').unwrap();
        let words: Vec<&str> = words.split(' ').collect();
        let rtt = match words.get(3) {
            None => Rtt::INTERNET,
            Some(&"30ms") => Rtt::REGIONAL,
            other => panic!("{other:?}"),
        };
        let rate: Rate = words[1].parse().unwrap();
        assert_eq!(MemoryLimit::ByRate.bytes(rate, rtt), bytes.parse::<u32>().unwrap(), "{line}");
        rows += 1;
    }
    assert_eq!(rows, 50);
    assert_eq!(MemoryLimit::ByRate.bytes(Rate::UNLIMITED, Rtt::INTERNET), MemoryLimit::MOST);
    assert_eq!(MemoryLimit::ByRate.bytes(Rate::STOPPED, Rtt::INTERNET), MemoryLimit::LEAST);
}

/// Goal: the limit is hard after every call, and no more is dropped for it than necessary. Method:
/// sequences of arrivals, departures, and changes of limits, rates and round-trip times, by
/// descriptor with lengths and with buffers; the mirror's buffers are compared after each call.
#[test]
fn the_limit_is_kept_after_every_call() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut dropped = 0;
    for buffer in [None, Some(2_048)] {
        let rate = Rate::megabits_per_second(10).unwrap();
        let mut builder = SmartQueue::upload(rate).memory_limit(MemoryLimit::Bytes(60_000));
        if let Some(bytes) = buffer {
            builder = builder.buffer_len(bytes);
        }
        let mut queue = builder.buffers(256).descriptors().unwrap();
        let mut lengths = vec![None; 256];
        let mut now = Nanos::from_secs(1);
        for _ in 0..20_000 {
            let mut lost = Vec::new();
            let mut sink = |packet: Packet, _: DropReason| lost.push(packet.handle);
            match random(20) {
                0..=11 => {
                    let handle = random(256) as u32;
                    let packet = Packet::new(handle, 40 + random(1_483) as u32);
                    let flow = Flow(random(32) as u32);
                    if queue.enqueue(now, &flow, packet, &mut sink).is_ok() {
                        lengths[handle as usize] = Some(packet.len);
                    }
                }
                12..=16 => {
                    now = now.plus(Nanos::from_micros(random(2_000)));
                    if let Some(packet) = queue.dequeue(now, &mut sink) {
                        lengths[packet.handle as usize] = None;
                    }
                }
                17 => {
                    let bytes = 3_000 + random(200_000) as u32;
                    queue.set_memory_limit(Some(MemoryLimit::Bytes(bytes)), &mut sink).unwrap();
                    assert_eq!(queue.memory_limit(), Some(bytes));
                }
                18 if random(50) == 0 => queue.set_limits(Limits::packets(200), &mut sink),
                18 => queue.set_rtt(if random(2) == 0 { Rtt::LAN } else { Rtt::SATELLITE }),
                _ => queue.set_rate(now, Rate::megabits_per_second(1 + random(900)).unwrap()),
            }
            dropped += lost.len();
            for handle in lost {
                assert!(lengths[handle as usize].take().is_some());
            }
            let held: u64 =
                lengths.iter().flatten().map(|&len| u64::from(buffer.unwrap_or(len))).sum();
            assert_eq!(queue.memory_held(), held);
            assert!(held <= queue.memory_limit().unwrap().into());
        }
        let asked = queue.limits();
        queue.set_memory_limit(None, &mut |_: Packet, _: DropReason| ()).unwrap();
        assert_eq!(queue.memory_limit(), None);
        assert!(queue.limits().packets >= asked.packets && queue.limits().bytes >= asked.bytes);
    }
    assert!(dropped > 1_000, "{dropped}");
}

/// Goal: in a queue with frames, buffers count with their full size, including the one held by the
/// caller. Method: short frames.
#[test]
fn a_short_frame_takes_a_buffer() {
    let rate = Rate::megabits_per_second(10).unwrap();
    let builder = SmartQueue::upload(rate).memory_limit(MemoryLimit::Bytes(5 * 1_522 - 1));
    let mut queue = builder.frames([42; 16]).unwrap();
    for number in 0..20 {
        queue.push(Nanos(number), &[7; 60]).unwrap();
        assert!(queue.memory_held() <= 4 * 1_522);
    }
    assert_eq!((queue.backlog().packets, queue.memory_held()), (4, 4 * 1_522));
    queue.set_memory_limit(Some(MemoryLimit::Bytes(2 * 1_522))).unwrap();
    assert_eq!(queue.backlog().packets, 2);
    assert!(queue.pop(Nanos::from_secs(1)).is_some());
    assert_eq!(queue.memory_held(), 1_522);
    // By rate, the limit only increases.
    queue.set_memory_limit(Some(MemoryLimit::ByRate)).unwrap();
    assert_eq!(queue.memory_limit(), Some(MemoryLimit::LEAST));
    queue.set_rate(Nanos::from_secs(2), Rate::megabits_per_second(100).unwrap());
    assert_eq!(queue.memory_limit(), Some(5_000_000));
    queue.set_rate(Nanos::from_secs(2), rate);
    assert_eq!(queue.memory_limit(), Some(5_000_000));
}

#[test]
fn a_limit_below_a_packet_is_refused() {
    let rate = Rate::megabits_per_second(10).unwrap();
    let error = MemoryLimitError { given: 1_000, needed: 1_522 };
    let refused = SmartQueue::upload(rate).memory_limit(MemoryLimit::Bytes(1_000));
    let refused = refused.frames([42; 16]).unwrap_err();
    assert_eq!(refused, SmartQueueError::MemoryLimit(error));
    assert_eq!(
        refused.to_string(),
        "memory limit of 1000 bytes is less than a packet takes (expected 1522 or more)"
    );
    let mut queue = SmartQueue::upload(rate).frames([42; 16]).unwrap();
    let before = queue.limits();
    assert_eq!(queue.set_memory_limit(Some(MemoryLimit::Bytes(1_000))), Err(error));
    assert_eq!((queue.memory_limit(), queue.limits()), (None, before));
    for bytes in [0, 1] {
        let refused = queue.set_memory_limit(Some(MemoryLimit::Bytes(bytes)));
        assert_eq!(refused, Err(MemoryLimitError { given: bytes, needed: 1_522 }));
    }
    assert_eq!(queue.set_memory_limit(Some(MemoryLimit::Bytes(u32::MAX))), Ok(()));
    assert_eq!(queue.limits(), before, "as many as without");
}

/// Goal: limits derived from buffer sizes keep queues of the bare core within the memory, and drop
/// no more packets than necessary. Method: every small granule, longest packet and memory, compared
/// with a sum; and a FIFO with packets of all lengths.
#[test]
fn limits_within_memory_are_exact_for_the_longest() {
    let footprint = |len: u32, granule: u32| len.div_ceil(granule) * granule;
    for granule in 1..=9_u32 {
        for longest in 1..=20 {
            for memory in 0..=100 {
                let limits = Limits::NONE.within_memory(memory, granule, longest);
                let each = footprint(longest, granule);
                assert_eq!(Limits::footprint(longest, granule), each);
                assert!(limits.packets * each <= memory);
                assert!((limits.packets + 1) * each > memory);
            }
        }
    }
    assert_eq!(Limits::packets(3).within_memory(1 << 20, 2_048, 1_514).packets, 3);
    assert_eq!(Limits::NONE.within_memory(1_000, 0, 0).packets, 1_000);
    assert_eq!(Limits::footprint(u32::MAX, 2_048), u32::MAX);

    let limits = Limits::NONE.within_memory(40_000, 2_048, 5_000);
    let mut fifo = Fifo::tail_drop([Descriptor::EMPTY; 64], limits);
    let mut held = 0;
    for handle in 0..64 {
        let len = 1 + mix(handle) % 5_000;
        let packet = Packet::new(handle, len);
        let taken = fifo.enqueue(Nanos(0), FlowId(0), packet, &mut |_: Packet, _: DropReason| {});
        held += if taken.is_ok() { footprint(len, 2_048) } else { 0 };
        assert!(held <= 40_000, "{held}");
    }
    assert_eq!(fifo.backlog().packets, 6);
}

/// Goal: with times that stop, jump and run backwards and rates from 0 to the maximum, every packet
/// in tins is returned once, by `dequeue` or as a drop, and the limit holds. Method: a queue at
/// each rate with each of these times, and finally without a rate limit.
#[test]
fn no_time_and_no_rate_loses_a_packet() {
    let largest = Rate::bits_per_second(Rate::MAX_BITS_PER_SECOND).unwrap();
    let slowest = Rate::bits_per_second(Rate::MIN_BITS_PER_SECOND).unwrap();
    let times = [0, 1, u64::MAX, 0, u64::MAX - 1, 1 << 63, (1 << 32) - 1, u64::MAX, u64::MAX, 5];
    for rate in [Rate::STOPPED, slowest, largest, Rate::UNLIMITED] {
        let builder = SmartQueue::upload(rate).tins(TinMode::Diffserv8).ingress(true);
        let builder = builder.memory_limit(MemoryLimit::Bytes(8_000)).buffers(64);
        let mut queue = builder.framing("overhead -64 mpu 256 atm").unwrap().descriptors().unwrap();
        let (mut inside, mut overflown) = ([false; 64], 0);
        for (turn, at) in times.into_iter().cycle().take(400).enumerate() {
            let mut lost = Vec::new();
            let mut sink = |packet: Packet, _: DropReason| lost.push(packet.handle);
            let (handle, number) = ((turn % 64) as u32, turn as u32);
            let labels = InTin { labels: Flow(number % 7), tin: (number % 9) as u8 };
            if !inside[handle as usize] {
                let packet = Packet::new(handle, 1 + number * 37 % 1_500);
                let taken = queue.enqueue(Nanos(at), &labels, packet, &mut sink).is_ok();
                inside[handle as usize] = taken;
            }
            let asks = turn % 3 == 0;
            let left = if asks { queue.dequeue(Nanos(at), &mut sink) } else { None };
            overflown += lost.len();
            for handle in lost.into_iter().chain(left.map(|packet| packet.handle)) {
                assert!(core::mem::take(&mut inside[handle as usize]), "{rate:?}: {handle} twice");
            }
            assert!(queue.memory_held() <= 8_000);
            let held = inside.iter().filter(|&&is_inside| is_inside).count();
            assert_eq!(queue.backlog().packets as usize, held, "{rate:?}, turn {turn}");
        }
        assert!(overflown > 0 && queue.backlog().packets > 0, "{rate:?}");
        queue.set_rate(Nanos(u64::MAX), Rate::UNLIMITED);
        let mut dropped = 0;
        let mut left = 0;
        let before = queue.backlog().packets;
        while queue.dequeue(Nanos(u64::MAX), &mut |_: Packet, _: DropReason| dropped += 1).is_some()
        {
            left += 1;
        }
        assert_eq!((left + dropped, queue.backlog().packets), (before, 0), "{rate:?}");
    }
}
