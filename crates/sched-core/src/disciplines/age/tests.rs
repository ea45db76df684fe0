use super::*;
use crate::tests::link::Link;
use conformance::Xorshift;
use std::collections::VecDeque;
use std::string::String;
use std::vec::Vec;

/// The longest packet.
const L: u32 = 100;

type FourFlows = Link<AgeDrr<[AgeFlow; 4]>>;

fn link<const F: usize>(params: AgeParams) -> Link<AgeDrr<[AgeFlow; F]>> {
    let mut scheduler = AgeDrr::new([AgeFlow::EMPTY; F], L, params).unwrap();
    scheduler.add_all(L).unwrap();
    Link::over(scheduler, F)
}

/// Enqueues `packets` packets of 100 bytes for `flow`.
fn put(link: &mut FourFlows, flow: u32, packets: u32) {
    (0..packets).for_each(|_| link.enqueue(flow, L));
    link.recount().unwrap();
}

/// Dequeues `packets` packets and returns their flows, `a` for flow 0, `.` for none.
fn get(link: &mut FourFlows, packets: u32) -> String {
    let next = |_| {
        let flow = link.dequeue();
        link.recount().unwrap();
        flow.map_or('.', |(flow, _)| char::from(b'a' + flow as u8))
    };
    (0..packets).map(next).collect()
}

fn at(link: &mut FourFlows, millis: u64) {
    link.scheduler.advance(Nanos::from_millis(millis));
}

#[test]
fn a_young_flow_passes_an_old_one_until_it_is_as_old() {
    let mut link = link(AgeParams::two_levels(300));
    put(&mut link, 0, 8);
    assert_eq!(get(&mut link, 4), "aaaa");
    put(&mut link, 1, 5);
    // Two-level processor sharing: b gets its first 300 bytes at once, and shares from there on.
    assert_eq!(get(&mut link, 9), "bbbababaa");
    assert_eq!(link.scheduler.attained(FlowId(1)), Some(500));
}

#[test]
fn flows_of_a_level_take_turns() {
    let mut link = link(AgeParams::two_levels(200));
    for flow in 0..3 {
        put(&mut link, flow, 3);
    }
    assert_eq!(get(&mut link, 10), "abcabcabc.");
}

/// Goal: levels end at 100, 200, 400 and 800 bytes. Method: expected order computed manually; a
/// flow that has been served 400 bytes yields until the other one has been.
#[test]
fn with_many_levels_the_flow_that_was_served_least_goes_first() {
    let mut link = link(AgeParams::least_attained(100).with_levels(5));
    put(&mut link, 0, 20);
    assert_eq!(get(&mut link, 4), "aaaa");
    assert_eq!(link.scheduler.level(FlowId(0)), Some(3));
    put(&mut link, 1, 20);
    assert_eq!(get(&mut link, 4), "bbbb");
    assert_eq!(get(&mut link, 4), "abab");
    put(&mut link, 2, 1);
    assert_eq!(get(&mut link, 2), "ca");
}

#[test]
fn a_flow_is_new_when_it_was_idle_long_enough_or_was_removed() {
    let mut link = link(AgeParams::two_levels(200).with_renewal(Nanos::from_millis(100)));
    at(&mut link, 0);
    put(&mut link, 0, 20);
    assert_eq!(get(&mut link, 3), "aaa");
    // Idle for less than 100 ms: as old as before, whatever its lifetime.
    for flow in [1, 2] {
        put(&mut link, flow, 2);
        get(&mut link, 2);
        assert_eq!(link.scheduler.level(FlowId(flow)), Some(1));
    }
    at(&mut link, 99);
    put(&mut link, 1, 1);
    assert_eq!(get(&mut link, 2), "ab", "both are old, and flow 0 was first");
    link.remove(2);
    link.scheduler.configure(FlowId(2), L, None).unwrap();
    put(&mut link, 2, 1);
    assert_eq!(get(&mut link, 1), "c", "removed and added");
    at(&mut link, 99 + 104);
    put(&mut link, 1, 1);
    assert_eq!(get(&mut link, 1), "b", "idle for 104 ms");
    assert_eq!(link.scheduler.attained(FlowId(1)), Some(L));
}

/// Goal: losses are not service. Method: a flow that loses all its packets keeps its age, and is
/// idle from then on.
#[test]
fn what_a_flow_loses_makes_it_no_older_and_no_younger() {
    let mut link = link(AgeParams::two_levels(200));
    put(&mut link, 0, 4);
    assert_eq!(get(&mut link, 1), "a");
    for _ in 0..3 {
        link.lose(0, true);
    }
    link.recount().unwrap();
    assert_eq!(link.scheduler.attained(FlowId(0)), Some(L));
    put(&mut link, 0, 2);
    put(&mut link, 1, 1);
    assert_eq!(get(&mut link, 3), "aba");
}

/// Goal: shifted timestamps, a clock that steps back and hours of silence have no effect beyond the
/// documented one.
#[test]
fn a_flow_is_renewed_by_time_that_has_passed_only() {
    for epoch in [0, 1 << 40, u64::MAX - (1 << 40)] {
        let mut link = link::<4>(AgeParams::two_levels(200).with_renewal(Nanos::from_millis(100)));
        let mut age_after = |steps: &[i64]| {
            link.scheduler.advance(Nanos(epoch));
            put(&mut link, 0, 3);
            get(&mut link, 3);
            let mut now = epoch;
            for &step in steps {
                now = now.saturating_add_signed(step * 1_000_000);
                link.scheduler.advance(Nanos(now));
            }
            put(&mut link, 0, 1);
            let level = link.scheduler.level(FlowId(0));
            get(&mut link, 1);
            level
        };
        assert_eq!(age_after(&[50]), Some(1));
        assert_eq!(age_after(&[50, -40, 20]), Some(1), "70 ms forward, with a step back");
        assert_eq!(age_after(&[60, -60, 60]), Some(0), "120 ms forward");
        assert_eq!(age_after(&[1_000_000]), Some(0));
    }
}

/// Plays random traffic with random lengths. `watch` is called for each packet sent: with its flow,
/// the level it was served on, its length, and the levels that held packets before.
fn live(params: AgeParams, seed: u64, mut watch: impl FnMut(u32, u32, u32, u32)) {
    const F: usize = 12;
    let mut link = link::<F>(params);
    let mut random = Xorshift::new(seed);
    // Bulk flows and short ones; phases with few arrivals, so that levels empty.
    let mut now = 0;
    for step in 0..20_000_u32 {
        now += u64::from(random.below(1 << 19));
        link.scheduler.advance(Nanos(now));
        let busy = step / 500 % 3;
        for _ in 0..random.below(2 + busy) {
            let flow = if busy == 1 { random.below(3) } else { random.below(F as u32) };
            let len = if random.below(2) == 0 { L } else { 1 + random.below(L) };
            link.enqueue(flow, len);
        }
        if random.below(200) == 0 {
            let flow = random.below(F as u32);
            while !link.queues[flow as usize].is_empty() {
                link.lose(flow, random.below(2) == 0);
            }
        }
        if random.below(300) == 0 {
            let flow = random.below(F as u32);
            link.remove(flow);
            link.scheduler.configure(FlowId(flow), L, None).unwrap();
        }
        let in_use = link.scheduler.in_use;
        let flow = link.scheduler.select();
        let level = flow.and_then(|flow| link.scheduler.level(flow));
        if let Some((flow, len)) = link.dequeue() {
            watch(flow, level.unwrap(), len, in_use);
        }
        link.recount().unwrap();
    }
}

/// Goal: the guarantees of a level, with a floor of one in `k` bytes and `m` levels below the
/// first: its next packet after at most `k·m·L` bytes; with two levels, `W/k − L` of `W` bytes; and
/// a younger level waits for at most `W/k + L` bytes of the floor. Method: random traffic; every
/// interval in which the level holds packets, by the lowest and the highest value of a running
/// difference since the interval began.
#[test]
fn the_floor_keeps_its_promises() {
    for (seed, k, levels) in [(1, 2, 2), (2, 3, 2), (3, 8, 2), (4, 64, 2), (5, 2, 5), (6, 8, 16)] {
        let params = AgeParams::least_attained(400)
            .with_levels(levels)
            .with_floor(k)
            .with_renewal(Nanos::from_millis(30));
        let (one_in, most) = (i64::from(k), i64::from(L));
        let mut waited = [0_i64; LEVELS];
        // k times the bytes of the old level minus all bytes, and its highest value, since that
        // level began to hold packets.
        let (mut ahead, mut highest) = (0_i64, 0_i64);
        // The equivalent since the first level began to hold packets, and its lowest value.
        let (mut floor, mut lowest) = (0_i64, 0_i64);
        let (mut worst_wait, mut worst_lag, mut worst_floor) = (0, 0, 0);
        live(params, seed, |_, level, len, in_use| {
            let len = i64::from(len);
            for (at, waited) in waited.iter_mut().enumerate().skip(1) {
                let waits = in_use >> at & 1 == 1 && level as usize != at;
                *waited = if waits { *waited + len } else { 0 };
                worst_wait = worst_wait.max(*waited);
            }
            let part = if level > 0 { one_in * len } else { 0 };
            if levels == 2 && in_use & 2 != 0 {
                ahead += part - len;
                worst_lag = worst_lag.max(highest - ahead);
                highest = highest.max(ahead);
            } else {
                (ahead, highest) = (0, 0);
            }
            if in_use & 1 != 0 {
                floor += part - len;
                worst_floor = worst_floor.max(floor - lowest);
                lowest = lowest.min(floor);
            } else {
                (floor, lowest) = (0, 0);
            }
        });
        let m = i64::from(levels - 1);
        assert!(worst_wait <= one_in * m * most, "1 in {k}, {levels} levels: {worst_wait}");
        assert!(worst_wait > one_in * most / 2, "the bound is put to the test: {worst_wait}");
        assert!(worst_lag <= one_in * most, "1 in {k}: {worst_lag}");
        assert!(worst_floor <= one_in * most, "1 in {k}: {worst_floor}");
    }
}

/// Goal: strict priority serves an old flow only if no young one holds packets, and never two flows
/// of one level out of turn. Method: random traffic.
#[test]
fn without_a_floor_the_youngest_level_is_served() {
    for (seed, levels) in [(1, 2), (2, 7), (3, 16)] {
        let params = AgeParams::least_attained(300).with_levels(levels);
        live(params.with_renewal(Nanos::from_millis(20)), seed, |_, level, _, in_use| {
            assert_eq!(level, in_use.trailing_zeros());
        });
    }
}

/// Goal: within a level DRR's fairness holds. Method: three flows that are old and stay backlogged,
/// with different lengths; in any interval any two differ by less than the bound of DRR, `F·(1 +
/// L̄/Q + L̄/Q)` with quanta `Q` of 100.
#[test]
fn old_flows_share_as_under_drr() {
    let mut link = link::<4>(AgeParams::two_levels(100).with_floor(4));
    let mut random = Xorshift::new(9);
    let mut sent = [0_i64; 3];
    let mut spread = [[(0_i64, 0_i64); 3]; 3];
    for step in 0..30_000 {
        for flow in 0..3 {
            while link.queues[flow as usize].len() < 2 {
                let len = [L, 1 + random.below(L), 40][flow as usize];
                link.enqueue(flow, len);
            }
        }
        if random.below(3) == 0 {
            link.enqueue(3, 1 + random.below(L));
        }
        if step % 100 == 0 {
            link.remove(3);
            link.scheduler.configure(FlowId(3), L, None).unwrap();
        }
        let Some((flow @ 0..3, len)) = link.dequeue() else { continue };
        sent[flow as usize] += i64::from(len);
        if step < 100 {
            continue;
        }
        for (a, row) in spread.iter_mut().enumerate() {
            for (b, (low, high)) in row.iter_mut().enumerate() {
                let lead = sent[a] - sent[b];
                if *low == 0 && *high == 0 {
                    (*low, *high) = (lead, lead);
                }
                (*low, *high) = ((*low).min(lead), (*high).max(lead));
                assert!(*high - *low <= 100 + 99 + 99, "{a} {b}: {low}..{high}");
            }
        }
    }
    assert!(sent.iter().all(|&bytes| bytes > 10_000), "{sent:?}");
}

/// Goal: packets of a flow are not reordered when the flow changes its level, since a flow is on
/// one level at a time. Method: the recount under random traffic, and packets that leave in their
/// order.
#[test]
fn packets_of_a_flow_leave_in_their_order() {
    let mut link = link::<3>(AgeParams::least_attained(150).with_floor(2));
    let mut random = Xorshift::new(3);
    let mut expected: Vec<VecDeque<u32>> = (0..3).map(|_| VecDeque::new()).collect();
    for _ in 0..5_000 {
        let (flow, len) = (random.below(3), 1 + random.below(L));
        if expected[flow as usize].len() < 20 {
            link.enqueue(flow, len);
            expected[flow as usize].push_back(len);
        }
        if random.below(5) > 0
            && let Some((flow, len)) = link.dequeue()
        {
            assert_eq!(expected[flow as usize].pop_front(), Some(len));
        }
        link.recount().unwrap();
    }
}

/// Returns the thresholds after each of `flows` flows of random sizes; `size` maps a number below
/// 2^16 to a size.
fn learned(start: u32, flows: u32, size: impl Fn(u32) -> u32) -> Vec<u32> {
    let range = ThresholdRange { least: 200, most: 1 << 20 };
    let params = AgeParams::two_levels(start).with_learned_threshold(range);
    let mut link = link::<4>(params);
    let mut random = Xorshift::new(11);
    let mut thresholds = Vec::new();
    for _ in 0..flows {
        let mut left = size(random.below(1 << 16));
        while left > 0 {
            let len = left.min(L);
            link.enqueue(0, len);
            left -= len;
            link.dequeue().unwrap();
        }
        link.remove(0);
        link.scheduler.configure(FlowId(0), L, None).unwrap();
        thresholds.push(link.scheduler.threshold());
    }
    thresholds
}

/// Goal: the threshold converges, from above and from below, to where one flow in 16 reaches it.
/// Method: sizes uniform in 1..=65,536 bytes, so that the quantile is 15/16 of that, 61,440; the
/// mean of the last half, within 3 %.
#[test]
fn a_learned_threshold_comes_to_its_quantile() {
    for start in [200, 61_440, 1 << 20] {
        let thresholds = learned(start, 20_000, |random| random + 1);
        let late = &thresholds[10_000..];
        let mean = late.iter().map(|&a| u64::from(a)).sum::<u64>() / late.len() as u64;
        assert!(mean.abs_diff(61_440) < 1_843, "from {start}: {mean}");
    }
}

/// Goal: neither flows of one packet nor endless ones push the threshold out of its range.
#[test]
fn a_learned_threshold_stays_in_its_range() {
    assert_eq!(learned(4_000, 3_000, |_| 40).last(), Some(&200));
    assert_eq!(learned(4_000, 400, |_| 1 << 20).last(), Some(&(1 << 20)));
}

/// Goal: an endless flow reaches the threshold once, however often that moves. Method: 1,000 ·
/// 511/512 · 33/32 = 1,029.2.
#[test]
fn one_flow_raises_the_threshold_once() {
    let range = ThresholdRange { least: 200, most: 1 << 20 };
    let mut link = link::<4>(AgeParams::two_levels(1_000).with_learned_threshold(range));
    put(&mut link, 0, 500);
    get(&mut link, 500);
    assert_eq!(link.scheduler.threshold(), 1_029);
}

#[test]
fn settings_change_at_once_and_wrong_ones_change_nothing() {
    let mut link = link(AgeParams::two_levels(300));
    put(&mut link, 0, 9);
    put(&mut link, 1, 9);
    assert_eq!(get(&mut link, 2), "ab");
    assert!(link.scheduler.set_params(AgeParams::two_levels(0)).is_err());
    assert_eq!(link.scheduler.params(), AgeParams::two_levels(300));
    link.scheduler.set_params(AgeParams::two_levels(100).with_floor(2)).unwrap();
    assert_eq!(get(&mut link, 2), "ab", "each learns of it when it is served");
    put(&mut link, 2, 1);
    assert_eq!(get(&mut link, 3), "cab");
    link.recount().unwrap();
    link.scheduler.set_params(AgeParams::least_attained(100)).unwrap();
    assert_eq!(get(&mut link, 12), "abababababab");
    link.recount().unwrap();
}

#[test]
fn sizes_are_as_documented() {
    assert_eq!(size_of::<AgeFlow>(), 32);
    assert_eq!(size_of::<[Ring; LEVELS]>(), 192);
}
