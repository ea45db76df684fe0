//! Weights and committed rates of hosts.

use conformance::history::WithTerms;
use freeboard::HostTerms;
use freeboard::sched_core::CommittedRate;

use super::*;

/// Of one of two hosts of which the second has three times the weight.
fn weighted(labels: Labels) -> WithTerms {
    // Out of range at either end counts as the nearest that is not.
    let quantum = if labels.src_host == mix(2) { 3 * MTU } else { 0 };
    WithTerms {
        labels,
        terms: HostTerms { quantum: Some(quantum), ..HostTerms::default() },
        tin: 0,
    }
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
    WithTerms { labels, terms: only_rate(has_rate.then_some(rate)), tin: 0 }
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
    for &isolation in Isolation::ALL {
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
    WithTerms { labels, terms: only_rate(has_rate.then_some(rate)), tin: 0 }
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

/// Goal: a host does not find the bucket of another that has left an entry of its set, also where
/// all ways of its set of flows are taken. Method: source 3 has left its entry with an empty
/// bucket, and the spare queue of this entry is that of destination 3, from before. So source 11,
/// whose own way this entry is, comes to another entry, with a queue there.
#[test]
fn a_bucket_is_not_left_to_a_host_of_the_same_way() {
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
    put(&mut queue, labels(19, 11, 1), true, 904..907);
    let entry = queue.entries_of(&labels(19, 11, 1)).0.expect("it is backlogged");
    assert_ne!(entry, 3, "the bucket there is not full");
    assert_eq!(spare(&queue, entry), 3);
    assert!(spare(&queue, 3) > 0, "still that of others");
    // Its burst, and the packet that overdraws it.
    let next = [0; 7].map(|_| queue.dequeue(Nanos(0), &mut |_, _| ()).expect("others wait").handle);
    assert!(next.contains(&904) && next.contains(&905), "its burst is its own: {next:?}");
    assert!(!next.contains(&906), "{next:?}");
    assert_eq!(queue.recount(), Ok(()));
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
