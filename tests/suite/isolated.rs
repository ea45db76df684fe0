//! The isolated queue: CAKE's shares in every mode, and books that hold whatever collides or changes.

use core::cell::Cell;
use std::collections::BTreeSet;

use conformance::Xorshift;
use conformance::history::WithTerms;
use freeboard::flowhash::{FlowHasher, Labeller, Labels, Outcome, TableError, mix, parse};
use freeboard::sched_core::{
    CommittedRate, ConfigError, DropReason, FlowId, Limits, Nanos, NoAqm, Packet, RejectReason,
    Scheduler, Side,
};
use freeboard::{
    ByLabeller, Heap, HostTerms, Isolated, IsolatedConfig, IsolatedError, IsolatedMemory,
    Isolation, Labelled, NoRoom, OnDemand, StaticRates, StaticTables, StaticTriple, Storage,
};

const MTU: u32 = 1_500;

fn labels(flow: u32, source: u32, destination: u32) -> Labels {
    Labels { flow: mix(flow + 1), src_host: mix(source + 1), dst_host: mix(destination + 1) }
}

fn queue(isolation: Isolation, limits: Limits) -> Isolated<Heap, NoAqm, NoRoom, Heap> {
    let memory = IsolatedMemory::allocate(64, 16, 4_096).with_triple(64);
    let config = IsolatedConfig::new(MTU, limits).isolated_by(isolation);
    Isolated::new(memory, config).expect("sizes are powers of two")
}

/// CAKE Fig. 3: source and destination of the six flows.
const FIG_3: [(u32, u32); 6] = [(0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 3)];

/// What each flow sends of 6,600 packets while all six have packets queued; flows that share a queue, what
/// they send together is halved.
fn shares(isolation: Isolation) -> [f64; 6] {
    let mut queue = queue(isolation, Limits::NONE);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let mut sent = [0_u32; 6];
    let mut put = |queue: &mut Isolated<Heap, NoAqm, NoRoom, Heap>, handle: u32| {
        let flow = handle % 6;
        let (source, destination) = FIG_3[flow as usize];
        let packet = Packet::new(handle, MTU);
        let labels = labels(flow, source, destination);
        queue.enqueue_labelled(Nanos(0), &labels, packet, drops).expect("there is room");
    };
    (0..60).for_each(|handle| put(&mut queue, handle));
    for _ in 0..6_600 {
        let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
        let packet = queue.dequeue(Nanos(0), drops).expect("sixty are queued");
        sent[packet.handle as usize % 6] += 1;
        put(&mut queue, packet.handle);
    }
    queue.recount().expect("the books are right");
    sent.map(|packets| f64::from(packets) / 6_600.0)
}

#[test]
fn the_shares_of_cake_fig_3() {
    let expected: [(Isolation, [f64; 6]); 7] = [
        (Isolation::Flows, [1.0 / 6.0; 6]),
        (Isolation::SrcHost, [0.125, 0.125, 0.125, 0.125, 0.25, 0.25]),
        (Isolation::DstHost, [0.25, 0.25, 1.0 / 12.0, 1.0 / 12.0, 1.0 / 12.0, 0.25]),
        (Isolation::Hosts, [0.2, 0.2, 0.1, 0.1, 0.2, 0.2]),
        (Isolation::DualSrcHost, [0.125, 0.125, 0.125, 0.125, 0.25, 0.25]),
        (Isolation::DualDstHost, [0.25, 0.25, 1.0 / 12.0, 1.0 / 12.0, 1.0 / 12.0, 0.25]),
        (Isolation::TripleIsolate, [0.1364, 0.1364, 0.1364, 0.1364, 0.1818, 0.2727]),
    ];
    for (isolation, expected) in expected {
        let measured = shares(isolation);
        for (flow, (measured, expected)) in measured.into_iter().zip(expected).enumerate() {
            let off = (measured / expected - 1.0).abs();
            assert!(off < 0.02, "{isolation}, flow {flow}: {measured:.4}, expected {expected:.4}");
        }
    }
}

#[test]
fn names_are_those_of_cake() {
    let names: Vec<String> = Isolation::ALL.iter().map(ToString::to_string).collect();
    let expected =
        "flows srchost dsthost hosts dual-srchost dual-dsthost triple-isolate".split_whitespace();
    assert!(names.iter().map(String::as_str).eq(expected));
    for isolation in Isolation::ALL {
        assert_eq!(isolation.name().parse(), Ok(isolation));
    }
    let error = "dual".parse::<Isolation>().expect_err("no such mode");
    assert!(error.to_string().ends_with("dual-srchost dual-dsthost triple-isolate"), "{error}");
}

/// Random packets of far more flows and hosts than there is room for, changes of isolation and limits:
/// the books hold after every operation, and every handle comes home once.
#[test]
fn the_books_hold_under_collisions_and_changes() {
    const HANDLES: u32 = 128;
    for seed in 1..=6 {
        let memory = IsolatedMemory::<Heap>::allocate(16, 4, HANDLES as usize).with_triple(8);
        let mut config = IsolatedConfig::new(MTU, Limits { packets: 60, bytes: 40_000 });
        config.ways = 4;
        let mut queue = Isolated::new(memory, config).expect("sizes are powers of two");
        let mut random = Xorshift::new(seed);
        let (mut inside, mut free) = (BTreeSet::new(), Vec::from_iter(0..HANDLES));
        let (mut outcomes, mut in_spares) = ([0_u32; 3], 0);
        for step in 0..6_000 {
            let mut gone = Vec::new();
            let drops = &mut |packet: Packet, _| gone.push(packet.handle);
            match random.below(100) {
                0 => queue.set_isolation(Isolation::ALL[random.below(7) as usize]).expect("room"),
                1 => {
                    let packets = random.below(60) + 1;
                    queue.set_limits(Limits { packets, bytes: 40_000 }, drops);
                }
                2 if step % 7 == 0 => queue.drain(drops),
                3..=52 => {
                    let Some(handle) = free.pop() else { continue };
                    let flow = random.below(60);
                    let labels = labels(flow, flow % 9, random.below(2) * 3 + flow % 7);
                    let packet = Packet::new(handle, random.below(MTU + 1));
                    match queue.enqueue_labelled(Nanos(step), &labels, packet, drops) {
                        Ok(outcome) => {
                            inside.insert(handle);
                            outcomes[outcome as usize] += 1;
                        }
                        Err(rejected) => {
                            assert_eq!(rejected.packet.handle, handle);
                            free.push(handle);
                        }
                    }
                }
                _ => {
                    let next = queue.peek(Nanos(step));
                    let packet = queue.dequeue(Nanos(step), drops);
                    assert_eq!(next, packet, "step {step}");
                    gone.extend(packet.map(|packet| packet.handle));
                }
            }
            for handle in gone {
                assert!(inside.remove(&handle), "step {step}: handle {handle} comes home twice");
                free.push(handle);
            }
            assert_eq!(queue.backlog().packets as usize, inside.len(), "step {step}");
            let spares = (16..20).map(|number| queue.queues().flow_backlog(FlowId(number)).packets);
            in_spares += spares.sum::<u32>();
            queue.recount().unwrap_or_else(|wrong| panic!("seed {seed}, step {step}: {wrong:?}"));
        }
        assert!(outcomes.iter().all(|&count| count > 100), "{outcomes:?}");
        assert!(in_spares > 1_000, "{in_spares}");
        queue.drain(&mut |packet: Packet, why| {
            assert_eq!(why, DropReason::Drained);
            assert!(inside.remove(&packet.handle));
        });
        assert!(inside.is_empty(), "lost: {inside:?}");
        assert_eq!(queue.backlogged_hosts(), (0, 0));
    }
}

#[test]
fn a_change_of_isolation_holds_for_what_is_queued() {
    let mut queue = queue(Isolation::Flows, Limits::NONE);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    // Host 0 has seven flows, host 1 has one: handles below 4 · 8 in the order of arrival.
    for handle in 0..320 {
        let flow = handle % 8;
        let labels = labels(flow, u32::from(flow == 7), 0);
        queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops).unwrap();
    }
    let of_host_1 = |queue: &mut Isolated<Heap, NoAqm, NoRoom, Heap>| {
        let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
        let sent = (0..32).filter_map(|_| queue.dequeue(Nanos(0), drops));
        sent.filter(|packet| packet.handle % 8 == 7).count()
    };
    assert_eq!(of_host_1(&mut queue), 4, "one flow of eight");
    queue.set_isolation(Isolation::DualSrcHost).expect("there is room");
    assert_eq!(queue.backlogged_hosts(), (2, 1));
    assert_eq!(of_host_1(&mut queue), 16, "one host of two");
    queue.set_isolation(Isolation::TripleIsolate).expect("there is room");
    let triple = of_host_1(&mut queue);
    assert!((3..=5).contains(&triple), "{triple}: all eight flows go to one destination");
    queue.recount().expect("the books are right");
}

/// Of one of two hosts of which the second has three times the weight.
fn weighted(labels: Labels) -> WithTerms {
    // Out of range at either end counts as the nearest that is not.
    let quantum = if labels.src_host == mix(2) { 3 * MTU } else { 0 };
    WithTerms { labels, terms: HostTerms { quantum: Some(quantum), ..HostTerms::default() } }
}

#[test]
fn hosts_have_weights() {
    let mut queue = queue(Isolation::DualSrcHost, Limits::NONE);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for handle in 0..800 {
        let labels = weighted(labels(handle % 4, u32::from(handle % 4 == 3), 0));
        queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops).unwrap();
    }
    let sent = (0..200).filter_map(|_| queue.dequeue(Nanos(0), drops));
    assert_eq!(sent.filter(|packet| packet.handle % 4 == 3).count(), 150);
}

fn only_rate(committed_rate: Option<CommittedRate>) -> HostTerms {
    HostTerms { committed_rate, ..HostTerms::default() }
}

/// Host 2, on both sides, may have a tenth of 12 Mbit/s, on which a packet takes a millisecond.
fn with_committed_rate(labels: Labels) -> WithTerms {
    let has_rate = labels.src_host == mix(3);
    // Too small a burst counts as the longest packet.
    let rate = CommittedRate::new(1_200_000, 1).expect("in range");
    WithTerms { labels, terms: only_rate(has_rate.then_some(rate)) }
}

/// Room for rates in the same storage.
type WithRoom = Isolated<Heap, NoAqm, Heap, Heap>;

fn with_rates(isolation: Isolation) -> WithRoom {
    let memory = IsolatedMemory::allocate(64, 16, 4_096).with_rates().with_triple(64);
    let config = IsolatedConfig::new(MTU, Limits::NONE).isolated_by(isolation);
    Isolated::new(memory, config).expect("sizes are powers of two")
}

/// Three flows of host 2 and one of host 1, with a packet of each in every round.
fn fill<K: Storage>(queue: &mut Isolated<Heap, NoAqm, K, Heap>, now: u64, rounds: u32) {
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for handle in 0..4 * rounds {
        let host = if handle % 4 == 3 { 1 } else { 2 };
        let labels = with_committed_rate(labels(handle % 4, host, host));
        let packet = Packet::new(handle, MTU);
        queue.enqueue_labelled(Nanos::from_millis(now), &labels, packet, drops).unwrap();
    }
}

/// Sends a packet a millisecond; returns how many were of host 2, by their handles.
fn send<K: Storage>(queue: &mut Isolated<Heap, NoAqm, K, Heap>, from: u64, packets: u64) -> usize {
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let sent = (from..from + packets).map(|millis| {
        let next = queue.peek(Nanos::from_millis(millis));
        let packet = queue.dequeue(Nanos::from_millis(millis), drops);
        assert_eq!(packet, next);
        assert_eq!(queue.recount(), Ok(()));
        packet.expect("backlogged")
    });
    sent.filter(|packet| packet.handle % 4 != 3).count()
}

/// Goal: a host has its rate beside another in the modes that have a level of its side, alone the whole line;
/// in the others rates have no effect.
#[test]
fn hosts_have_committed_rates() {
    for isolation in Isolation::ALL {
        let mut queue = with_rates(isolation);
        fill(&mut queue, 0, 200);
        let of_host_2 = send(&mut queue, 0, 200);
        match isolation {
            Isolation::DualSrcHost | Isolation::DualDstHost => {
                // A packet every ten milliseconds, and two at the beginning: the burst, and the one that
                // overdraws it.
                assert!((20..=22).contains(&of_host_2), "{isolation}: {of_host_2}");
                let rest = send(&mut queue, 200, 600);
                assert_eq!(rest, 600 - of_host_2, "{isolation}");
            }
            Isolation::Flows => assert_eq!(of_host_2, 150),
            // Its three flows begin at once.
            Isolation::TripleIsolate => {
                assert!((100..=101).contains(&of_host_2), "{isolation}: {of_host_2}");
            }
            _ => assert_eq!(of_host_2, 100, "{isolation}"),
        }
    }
}

#[test]
fn without_room_a_rate_has_no_effect() {
    let mut queue = queue(Isolation::DualSrcHost, Limits::NONE);
    fill(&mut queue, 0, 200);
    assert_eq!(send(&mut queue, 0, 200), 100);
}

/// Goal: the bucket is that of the host, whether it comes and goes or stays.
#[test]
fn a_host_that_comes_and_goes_has_no_more_than_its_rate() {
    let mut queue = with_rates(Isolation::DualSrcHost);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for handle in 0..1_000 {
        let labels = with_committed_rate(labels(3, 1, 1));
        queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops).unwrap();
    }
    let (mut waits, mut sent) = (false, 0);
    for millis in 0..500 {
        let now = Nanos::from_millis(millis);
        if !waits {
            let labels = with_committed_rate(labels(0, 2, 2));
            queue.enqueue_labelled(now, &labels, Packet::new(2_000, MTU), drops).unwrap();
            waits = true;
        }
        if queue.dequeue(now, drops).expect("backlogged").handle == 2_000 {
            (waits, sent) = (false, sent + 1);
        }
    }
    assert!((50..=52).contains(&sent), "{sent}");
}

/// Of a host that may have a rate, one so slow that it is a burst once.
fn slow(labels: Labels, has_rate: bool) -> WithTerms {
    let rate = CommittedRate::new(1_000, MTU).expect("in range");
    WithTerms { labels, terms: only_rate(has_rate.then_some(rate)) }
}

/// Goal: neither a host that comes into the entry of a host with a rate nor a host after another isolation has its rate.
/// Method: eight entries in one set; host 8 gets the entry of host 0, whose bucket is empty.
#[test]
fn a_rate_is_not_left_to_the_next_host_nor_to_another_isolation() {
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let memory = IsolatedMemory::allocate(8, 8, 1_024).with_rates().with_triple(64);
    let mut queue = WithRoom::new(memory, IsolatedConfig::new(MTU, Limits::NONE)).unwrap();
    // Its burst, what overdraws it, and two that are borrowed.
    let put = |queue: &mut WithRoom, host, with_rate, handles: core::ops::Range<u32>| {
        for handle in handles {
            let packet = Packet::new(handle, MTU);
            let labels = slow(of(host, host), with_rate);
            queue.enqueue_labelled(Nanos(0), &labels, packet, &mut |_, _| ()).unwrap();
        }
    };
    let mut get = |queue: &mut WithRoom, packets| {
        let sent = (0..packets).filter_map(|_| queue.dequeue(Nanos(0), drops));
        sent.filter(|packet| packet.handle < 100).count()
    };
    put(&mut queue, 0, true, 0..4);
    assert_eq!(get(&mut queue, 4), 4);
    // The same host finds its bucket empty: nothing of it beside another that has no rate.
    put(&mut queue, 0, true, 0..4);
    put(&mut queue, 1, false, 100..110);
    assert_eq!((get(&mut queue, 10), get(&mut queue, 4)), (0, 4));
    // The next in the entry has neither the rate nor the bucket; nor has one with the same rate the bucket.
    put(&mut queue, 8, false, 0..10);
    put(&mut queue, 1, false, 100..110);
    assert_eq!((get(&mut queue, 10), get(&mut queue, 10)), (5, 5));
    put(&mut queue, 16, true, 0..4);
    put(&mut queue, 1, false, 100..110);
    assert_eq!((get(&mut queue, 10), get(&mut queue, 4)), (2, 2));
    // Another isolation and back, while the hosts hold packets.
    put(&mut queue, 16, true, 0..10);
    put(&mut queue, 1, false, 100..110);
    queue.set_isolation(Isolation::Flows).expect("there is room");
    queue.set_isolation(Isolation::DualSrcHost).expect("there is room");
    assert_eq!(queue.recount(), Ok(()));
    assert_eq!(get(&mut queue, 10), 5);
}

/// Goal: nor has it a host that came into the entry without a queue of its own. Method: all ways of a set are taken, and
/// the spare queue of source 3 is that of destination 3, from before. So source 11, in the entry that source 3
/// has left with an empty bucket, shares a queue of others and has counted nowhere when it comes back.
#[test]
fn a_bucket_is_not_left_to_a_host_that_shared_a_queue_of_others() {
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let memory = IsolatedMemory::allocate(8, 8, 1_024).with_rates().with_triple(64);
    let config = IsolatedConfig::new(MTU, Limits::NONE).isolated_by(Isolation::DualDstHost);
    let mut queue = WithRoom::new(memory, config).unwrap();
    let put = |queue: &mut WithRoom, labels, with_rate, handles: core::ops::Range<u32>| {
        for handle in handles {
            let packet = Packet::new(handle, MTU);
            let came =
                queue.enqueue_labelled(Nanos(0), &slow(labels, with_rate), packet, &mut |_, _| ());
            came.expect("there is room");
        }
    };
    let mut get_until = |queue: &mut WithRoom, last| {
        while queue.dequeue(Nanos(0), drops).expect("others wait").handle != last {}
    };
    let labels = |flow, src_host, dst_host| Labels { flow, src_host, dst_host };
    // Seven flows with many packets, one with one, and the spare queue with many.
    for flow in 0..7 {
        put(&mut queue, labels(flow, 1, 1), false, 100 * flow..100 * flow + 100);
    }
    put(&mut queue, labels(7, 1, 1), false, 900..901);
    put(&mut queue, labels(8, 2, 3), false, 800..900);
    assert_eq!(spare(&queue, 3), 100);
    queue.set_isolation(Isolation::DualSrcHost).expect("there is room");
    get_until(&mut queue, 900);
    // Source 3 empties its bucket from the way that is free now.
    put(&mut queue, labels(7, 3, 1), true, 901..903);
    get_until(&mut queue, 902);
    put(&mut queue, labels(15, 1, 1), false, 903..904);
    put(&mut queue, labels(19, 11, 1), true, 904..905);
    get_until(&mut queue, 903);
    assert!(spare(&queue, 3) > 0, "still that of others");
    put(&mut queue, labels(23, 11, 1), true, 905..907);
    let next = [0; 7].map(|_| queue.dequeue(Nanos(0), &mut |_, _| ()).expect("others wait").handle);
    assert!(next.contains(&905) && next.contains(&906), "its burst is its own: {next:?}");
    assert_eq!(queue.recount(), Ok(()));
}

#[test]
fn the_host_that_holds_most_gives_way() {
    let mut queue = queue(Isolation::DualSrcHost, Limits::bytes(30 * MTU));
    let mut lost = Vec::new();
    // A flood of single packets of host 0, then ten packets of one flow of host 1.
    for handle in 0..100 {
        let victim = handle >= 90;
        let flow = if victim { 1_000 } else { handle };
        let labels = labels(flow, victim.into(), 0);
        let drops = &mut |packet: Packet, why| lost.push((packet.handle, why));
        let _full = queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops);
    }
    assert!(lost.iter().all(|&(handle, why)| handle < 90 && why == DropReason::Overflow));
    let sent: Vec<u32> =
        core::iter::from_fn(|| queue.dequeue(Nanos(0), &mut |_, _| ())).map(|p| p.handle).collect();
    assert_eq!(sent.iter().filter(|&&handle| handle >= 90).count(), 10, "{sent:?}");
}

/// Eight queues in one set, and eight entries for hosts in one set: a label with low bits `i` is in entry `i`.
fn one_set(isolation: Isolation, limits: Limits) -> Isolated<Heap, NoAqm, NoRoom, Heap> {
    let memory = IsolatedMemory::allocate(8, 8, 1_024).with_triple(64);
    let config = IsolatedConfig::new(MTU, limits).isolated_by(isolation);
    Isolated::new(memory, config).expect("sizes are powers of two")
}

/// Labels of a flow of the same host on both sides.
const fn of(flow: u32, host: u32) -> Labels {
    Labels { flow, src_host: host, dst_host: host }
}

/// What the spare queue of an entry holds, in packets.
fn spare<K: Storage>(queue: &Isolated<Heap, NoAqm, K, Heap>, entry: u32) -> u32 {
    queue.queues().flow_backlog(FlowId(8 + entry)).packets
}

/// Goal: a host that fills a set takes nothing from another host whose flow would go there (J01, J05). Method: host 0
/// has a flow with twenty packets in each way; then a sparse flow of host 1 comes by, and then a busy one.
#[test]
fn a_full_set_joins_no_hosts() {
    const MEMORY: u32 = 200 * MTU;
    for isolation in [Isolation::DualSrcHost, Isolation::DualDstHost, Isolation::TripleIsolate] {
        let mut queue = one_set(isolation, Limits::bytes(MEMORY));
        let none = &mut |packet: Packet, why| panic!("{isolation}: {packet:?}: {why:?}");
        for handle in 0..160 {
            let labels = of(handle % 8, 0);
            queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), none).unwrap();
        }
        // G1: one is on the wire, and (H − 1)(Q + L) are those of two packets. By rounds the eight flows of host 0,
        // which began at once, have their turns in one round: a ninth packet at most.
        let most = if isolation == Isolation::TripleIsolate { 9 } else { 3 };
        for handle in 160..170 {
            queue.dequeue(Nanos(0), none).expect("160 wait");
            let sparse = Packet::new(handle, MTU);
            let came = queue.enqueue_labelled(Nanos(0), &of(8 + handle, 1), sparse, none);
            assert_eq!(came, Ok(Outcome::Collision));
            assert_eq!((spare(&queue, 1), queue.backlogged_hosts()), (1, (2, 2)), "{isolation}");
            let mut next = || queue.dequeue(Nanos(0), none).expect("more wait").handle;
            assert!((0..most).any(|_| next() == handle), "{isolation}: {handle}");
            assert_eq!((spare(&queue, 1), queue.backlogged_hosts()), (0, (1, 1)), "{isolation}");
        }
        // G4: half of the memory less a packet is host 1's, whatever comes then.
        for handle in 170..269 {
            let labels = of(8 + handle % 3, 1);
            let drops = &mut |packet: Packet, _| assert!(packet.handle < 160, "{packet:?}");
            queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops).unwrap();
        }
        for handle in 269..600 {
            let labels = of(handle % 8, 0);
            let drops = &mut |packet: Packet, _| {
                assert!(!(170..269).contains(&packet.handle), "{isolation}: {packet:?}");
            };
            let _full = queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops);
        }
        assert_eq!(spare(&queue, 1), 99, "{isolation}");
        queue.recount().expect("the books are right");
    }
}

/// Among its own a flow goes where the table says: a host with more flows than there are ways has all of them
/// share, and not the last ones one queue.
#[test]
fn flows_of_one_host_share_the_ways_of_their_set() {
    for isolation in Isolation::ALL {
        let mut queue = one_set(isolation, Limits::NONE);
        let none = &mut |packet: Packet, why| panic!("{isolation}: {packet:?}: {why:?}");
        for handle in 0..32 {
            let packet = Packet::new(handle, MTU);
            queue.enqueue_labelled(Nanos(0), &of(handle, 0), packet, none).unwrap();
        }
        let by_host =
            matches!(isolation, Isolation::SrcHost | Isolation::DstHost | Isolation::Hosts);
        let held = (0..16).map(|number| queue.queues().flow_backlog(FlowId(number)).packets);
        let expected: Vec<u32> = (0..16).map(|at| if at < 8 { 4 } else { 0 }).collect();
        assert!(by_host || held.eq(expected), "{isolation}");
    }
}

/// Without a share for hosts a flow shares the queue of its own way, whichever flow has it.
#[test]
fn without_a_level_of_hosts_a_full_set_is_shared() {
    for isolation in [Isolation::Flows, Isolation::SrcHost, Isolation::DstHost] {
        let mut queue = one_set(isolation, Limits::NONE);
        let none = &mut |packet: Packet, why| panic!("{isolation}: {packet:?}: {why:?}");
        for handle in 0..9 {
            let (labels, packet) = (of(handle, handle), Packet::new(handle, MTU));
            queue.enqueue_labelled(Nanos(0), &labels, packet, none).unwrap();
        }
        assert_eq!(queue.queues().flow_backlog(FlowId(0)).packets, 2, "{isolation}");
        assert!((0..8).all(|entry| spare(&queue, entry) == 0), "{isolation}");
        queue.recount().expect("the books are right");
    }
}

/// Goal: what waits in a spare queue of a source when destinations take turns is joined by its own only,
/// and comes out. Method: the spare queue of entry 1 is that of source 1 and goes to destination 2; then it is
/// destinations 1 and 2 whose flows find their set full, and then sources again.
#[test]
fn a_spare_queue_outlives_a_change_of_sides() {
    let mut queue = one_set(Isolation::DualSrcHost, Limits::NONE);
    let none = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let mut handles = 0..;
    let mut put = |queue: &mut Isolated<Heap, NoAqm, NoRoom, Heap>, flow, src_host, dst_host| {
        let labels = Labels { flow, src_host, dst_host };
        let packet = Packet::new(handles.next().expect("endless"), MTU);
        let came = queue.enqueue_labelled(Nanos(0), &labels, packet, none).expect("there is room");
        queue.recount().expect("the books are right");
        (came, [0, 1, 2, 3].map(|entry| spare(queue, entry)))
    };
    for flow in 0..8 {
        put(&mut queue, flow, 0, 0);
    }
    assert_eq!(put(&mut queue, 8, 1, 2), (Outcome::Collision, [0, 1, 0, 0]));

    queue.set_isolation(Isolation::DualDstHost).expect("there is room");
    queue.recount().expect("the books are right");
    // Destination 1 finds its spare queue taken by another; destination 2 has one of its own.
    assert_eq!(put(&mut queue, 9, 3, 1), (Outcome::Collision, [0, 1, 0, 0]));
    assert_eq!(queue.queues().flow_backlog(FlowId(1)).packets, 2, "in its own way");
    assert_eq!(put(&mut queue, 10, 3, 2), (Outcome::Collision, [0, 1, 1, 0]));
    assert_eq!(put(&mut queue, 11, 2, 2), (Outcome::Collision, [0, 1, 2, 0]));
    assert_eq!(queue.backlogged_hosts(), (3, 2), "sources 0, 1, 3 and destinations 0, 2");

    queue.set_isolation(Isolation::TripleIsolate).expect("there is room");
    queue.recount().expect("the books are right");
    // To sources the queue of entry 2 is source 3's, and that of entry 1 its own again.
    assert_eq!(put(&mut queue, 12, 2, 4), (Outcome::Collision, [0, 1, 2, 0]));
    assert_eq!(put(&mut queue, 13, 1, 4), (Outcome::Collision, [0, 2, 2, 0]));
    // Nothing has entry 3 on its side but counts there: it is free.
    assert_eq!(put(&mut queue, 14, 3, 3), (Outcome::Collision, [0, 2, 2, 1]));

    let none = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let mut sent = BTreeSet::new();
    while let Some(packet) = queue.dequeue(Nanos(0), none) {
        assert!(sent.insert(packet.handle));
        queue.recount().expect("the books are right");
    }
    assert!(sent.into_iter().eq(0..15));
    assert_eq!(queue.backlogged_hosts(), (0, 0));
}

/// Two hosts that share an entry share its spare queue, and the weight of a host that comes that way counts.
#[test]
fn a_host_at_a_spare_queue_has_its_weight() {
    let mut queue = one_set(Isolation::DualSrcHost, Limits::NONE);
    let none = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for handle in 0..800 {
        let heavy = handle % 4 == 3;
        let labels = Labels {
            flow: if heavy { 8 } else { handle % 4 + handle / 4 % 8 },
            src_host: if heavy { mix(2) } else { 0 },
            dst_host: 0,
        };
        let packet = Packet::new(handle, MTU);
        // The light host is there first, with all ways.
        let first = handle < 64 && heavy;
        if !first {
            queue.enqueue_labelled(Nanos(0), &weighted(labels), packet, none).unwrap();
        }
    }
    assert_eq!(spare(&queue, mix(2) % 8), 200 - 16);
    let sent = (0..200).filter_map(|_| queue.dequeue(Nanos(0), none));
    assert_eq!(sent.filter(|packet| packet.handle % 4 == 3).count(), 150);
}

#[test]
fn what_is_out_of_range_is_refused_with_the_range() {
    let config = IsolatedConfig::new(MTU, Limits::NONE);
    let memory = || IsolatedMemory::<Heap>::allocate(64, 16, 64).with_triple(64);
    fn refused<T: Storage>(
        memory: IsolatedMemory<Heap, NoRoom, T>,
        config: IsolatedConfig,
    ) -> IsolatedError {
        let built = Isolated::new(memory, config).map(|_| ());
        built.expect_err(&format!("{config:?}"))
    }

    let changed = |change: fn(&mut IsolatedConfig)| {
        let mut config = config;
        change(&mut config);
        config
    };
    let ways = refused(memory(), changed(|config| config.ways = 3));
    assert_eq!(ways, IsolatedError::Table(TableError::Ways { ways: 3 }));
    let queues = refused(IsolatedMemory::allocate(48, 16, 64).with_triple(64), config);
    assert_eq!(queues, IsolatedError::Table(TableError::Queues { queues: 48, ways: 8 }));
    let hosts = refused(IsolatedMemory::allocate(64, 4, 64).with_triple(64), config);
    assert_eq!(hosts, IsolatedError::Table(TableError::Queues { queues: 4, ways: 8 }));
    for (quantum, host_quantum) in [(MTU - 1, MTU), (MTU, MTU - 1), (0, MTU), (MTU, u32::MAX)] {
        let mut config = config;
        (config.quantum, config.host_quantum) = (quantum, host_quantum);
        let error = refused(memory(), config);
        let in_range =
            |value| matches!(value, IsolatedError::Config(ConfigError::OutOfRange { .. }));
        assert!(in_range(error), "{error}");
    }
    for rounds in [0, 1] {
        let error = refused(IsolatedMemory::allocate(64, 16, 64).with_triple(rounds), config);
        assert!(matches!(error, IsolatedError::Config(_)), "{rounds} rounds: {error}");
    }
    assert!(matches!(
        refused(memory(), changed(|config| config.max_len = 0)),
        IsolatedError::Config(_)
    ));
}

/// Goal: without its tables `triple-isolate` is refused, and nothing changes. Method: at construction, and of a queue
/// that holds packets; every other isolation is accepted without them, and with them `triple-isolate` is.
#[test]
fn triple_isolate_is_refused_without_its_tables() {
    let config = IsolatedConfig::new(MTU, Limits::NONE);
    let memory = || IsolatedMemory::<Heap>::allocate(64, 16, 64);
    let refused = Isolated::new(memory(), config.isolated_by(Isolation::TripleIsolate));
    assert_eq!(refused.map(|_| ()), Err(IsolatedError::NoTriple));
    assert!(IsolatedError::NoTriple.to_string().starts_with("triple-isolate: its tables"));

    let mut queue = Isolated::new(memory(), config).expect("powers of two");
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for (handle, isolation) in (0..).zip(Isolation::ALL) {
        let packet = Packet::new(handle, 100);
        queue.enqueue_labelled(Nanos(0), &labels(1, 2, 3), packet, drops).unwrap();
        let before = queue.isolation();
        let expected = match isolation {
            Isolation::TripleIsolate => Err(IsolatedError::NoTriple),
            _ => Ok(()),
        };
        assert_eq!(queue.set_isolation(isolation), expected);
        assert_eq!(queue.isolation(), if expected.is_ok() { isolation } else { before });
        queue.recount().expect("the books are right");
    }
    let sent = (0..9).filter_map(|_| queue.dequeue(Nanos(0), drops));
    // In which order, is a matter of the queues that the isolations chose.
    assert!(sent.map(|packet| packet.handle).collect::<BTreeSet<_>>().into_iter().eq(0..7));
}

/// Goal: the tables of arrays are those that are allocated. Method: the same packets in and out of both, in every
/// isolation; and tables for fewer groups than there are hosts are refused.
#[test]
fn tables_in_arrays_are_as_good_as_those_on_the_heap() {
    for isolation in Isolation::ALL {
        let config = IsolatedConfig::new(MTU, Limits::packets(48)).isolated_by(isolation);
        let allocated = IsolatedMemory::<Heap>::allocate(64, 16, 64).with_rates().with_triple(8);
        let mut on_heap = Isolated::new(allocated, config).expect("powers of two");
        let mut tables = StaticTables::<64, 2>::new();
        let (mut rates, mut triple) = (StaticRates::<2>::new(), StaticTriple::<2, 8>::new());
        let memory = tables.memory().with_rates_in(&mut rates).with_triple_in(&mut triple);
        let mut in_arrays = Isolated::new(memory, config).expect("one number says all");
        let mut free: Vec<u32> = (0..64).collect();
        let mut random = Xorshift::new(7);
        for step in 0..4_000 {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let drops = &mut |packet: Packet, _| ours.push(packet);
            let others = &mut |packet: Packet, _| theirs.push(packet);
            if random.below(5) < 3
                && let Some(handle) = free.pop()
            {
                let labels = labels(random.below(90), random.below(20), random.below(9));
                let packet = Packet::new(handle, 1 + random.below(MTU));
                let accepted = on_heap.enqueue_labelled(Nanos(step), &labels, packet, drops);
                let same = in_arrays.enqueue_labelled(Nanos(step), &labels, packet, others);
                assert_eq!(accepted, same);
                free.extend(accepted.err().map(|rejected| rejected.packet.handle));
            } else {
                let sent = on_heap.dequeue(Nanos(step), drops);
                assert_eq!(sent, in_arrays.dequeue(Nanos(step), others));
                free.extend(sent.map(|packet| packet.handle));
            }
            assert_eq!(ours, theirs);
            free.extend(ours.iter().map(|packet| packet.handle));
        }
        in_arrays.recount().expect("the books are right");
        assert_eq!(on_heap.counters(), in_arrays.counters());
        assert!(on_heap.counters().dropped_total().packets > 100, "{isolation}");
    }

    let (mut tables, mut few) = (StaticTables::<64, 2>::new(), StaticRates::<1>::new());
    let config = IsolatedConfig::new(MTU, Limits::NONE);
    let refused = Isolated::new(tables.memory().with_rates_in(&mut few), config).map(|_| ());
    let expected = IsolatedError::Memory { what: "excess", given: 8, needed: 16 };
    assert_eq!(refused, Err(expected));
    let mut few = StaticTriple::<1, 8>::new();
    let refused = Isolated::new(tables.memory().with_triple_in(&mut few), config).map(|_| ());
    let what = "turns in triple-isolate";
    assert_eq!(refused, Err(IsolatedError::Memory { what, given: 40, needed: 80 }));
}

#[test]
fn a_rejected_packet_leaves_no_claim() {
    let mut queue = queue(Isolation::DualSrcHost, Limits::NONE);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for len in [0, MTU + 1] {
        let rejected =
            queue.enqueue_labelled(Nanos(0), &labels(1, 1, 1), Packet::new(0, len), drops);
        let reason = rejected.expect_err("out of range").reason;
        assert_eq!(reason, RejectReason::Length { len, max: MTU });
        assert_eq!(queue.backlogged_hosts(), (0, 0));
        queue.recount().expect("the books are right");
    }
    // As a plain scheduler, a flow is its own host.
    queue.enqueue(Nanos(0), FlowId(7), Packet::new(0, MTU), drops).unwrap();
    assert_eq!(queue.backlogged_hosts(), (1, 1));
}

/// Counts what it hashes.
#[derive(Default)]
struct Counting(Cell<u32>);

impl FlowHasher for Counting {
    fn hash(&self, bytes: &[u8]) -> u32 {
        self.0.set(self.0.get() + 1);
        bytes.iter().fold(1, |sum, &byte| mix(sum ^ u32::from(byte)))
    }
}

/// Goal: hosts are hashed when a flow becomes backlogged and not with every packet, of a key as of a parsed
/// packet. Method: a hash that counts.
#[test]
fn hosts_are_hashed_when_a_flow_becomes_backlogged() {
    let mut packet = [0; 28];
    packet[..12].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    packet[12..24].copy_from_slice(&[10, 0, 0, 1, 192, 0, 2, 1, 0x13, 0x88, 0, 53]);
    let parsed = parse::ip(&packet);
    let hasher = Counting::default();
    let labeller = Labeller::new(&hasher);
    let by_key = OnDemand { key: &parsed.key, hasher: &hasher };
    let by_labeller = ByLabeller { parsed: &parsed, labeller: &labeller };
    fn hashes(labels: &impl Labelled, count: &Counting) -> [u32; 3] {
        let mut queue = queue(Isolation::DualSrcHost, Limits::NONE);
        let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
        [0, 1, 2].map(|handle| {
            let before = count.0.get();
            let packet = Packet::new(handle, 28);
            queue.enqueue_labelled(Nanos(0), labels, packet, drops).expect("there is room");
            count.0.get() - before
        })
    }
    assert_eq!(hashes(&by_key, &hasher), [3, 1, 1]);
    assert_eq!(hashes(&by_labeller, &hasher), [3, 1, 1]);
}

/// Goal: in a mode that goes by local hosts, a sender of the other side has what all the local hosts have that it
/// sends to, as `SECURITY.md` says: it chooses destinations. Method: on the way down one local host has a standing
/// flow, and one sender keeps a packet of a fresh flow ready for each of some others.
#[test]
fn a_sender_has_the_turns_of_the_local_hosts_it_sends_to() {
    for isolation in [Isolation::DualDstHost, Isolation::TripleIsolate] {
        for others in [1, 3, 11] {
            let memory = IsolatedMemory::<Heap>::allocate(64, 16, 4_096).with_triple(64);
            let config = IsolatedConfig::new(MTU, Limits::NONE).isolated_by(isolation);
            let mut queue =
                Isolated::new(memory, config.with_local_side(Side::Destination)).unwrap();
            let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
            let (mut at, mut standing) = (0, 0);
            let mut put = |queue: &mut Isolated<Heap, NoAqm, NoRoom, Heap>, host: u32| {
                // The handle says whose it is.
                let handle = at * 16 % 4_096 + host;
                let flow = if host == 0 { 0 } else { handle };
                at += 1;
                let labels = labels(flow, u32::from(host > 0), host);
                queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops).unwrap();
            };
            (0..4).for_each(|_| put(&mut queue, 0));
            (1..=others).for_each(|host| put(&mut queue, host));
            for _ in 0..2_400 {
                let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
                let host = queue.dequeue(Nanos(0), drops).expect("backlogged").handle % 16;
                standing += u32::from(host == 0);
                put(&mut queue, host);
            }
            // By rounds each of them has up to two turns, one early and one by load.
            let part = 2_400 / (others + 1);
            let about = part / 2..=part * 3 / 2;
            assert!(about.contains(&standing), "{isolation}, {others}: {standing}");
        }
    }
}
