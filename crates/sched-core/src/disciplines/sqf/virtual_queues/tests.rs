use super::*;
use crate::Volume;
use std::collections::VecDeque;
use std::vec::Vec;

type Small = Sqf<
    [LengthFlow; 3],
    [Queue; 3],
    [Descriptor; 16],
    [SqfFlow; 5],
    [u32; 16],
    [u32; 3],
    [FlowRecord; 5],
>;

/// Two virtual queues and the default queue, five labels.
fn small(drop_from: DropFrom, limits: Limits) -> Small {
    let SqfMemory { scheduler, queues, descriptors, flows, labels, free, .. } =
        SqfArrays::<5, 16, 3>::EMPTY;
    let records = [FlowRecord::EMPTY; 5];
    let memory = SqfMemory { scheduler, queues, descriptors, flows, labels, free, records };
    let mut sqf = Sqf::new(memory, drop_from, limits).unwrap();
    for flow in 0..5 {
        sqf.add_flow(FlowId(flow)).unwrap();
    }
    sqf
}

/// Enqueues `(flow, length)` with handles from `first` on; returns the handles dropped meanwhile.
fn fill(sqf: &mut Small, first: u32, packets: &[(u32, u32)]) -> Vec<u32> {
    let mut dropped = Vec::new();
    for (handle, &(flow, len)) in (first..).zip(packets) {
        let sink = &mut |packet: Packet, _| dropped.push(packet.handle);
        sqf.enqueue(Nanos(0), FlowId(flow), Packet::new(handle, len), sink).unwrap();
        assert_eq!(sqf.recount(), Ok(()));
    }
    dropped
}

fn next(sqf: &mut Small) -> Option<u32> {
    let foreseen = sqf.peek(Nanos(0));
    let packet = sqf.dequeue(Nanos(0), &mut |_, _| panic!("nothing is dropped here"));
    assert_eq!(packet, foreseen);
    assert_eq!(sqf.recount(), Ok(()));
    packet.map(|packet| packet.handle)
}

fn places(sqf: &Small) -> Vec<Option<u32>> {
    (0..5).map(|flow| sqf.queue_of(FlowId(flow)).map(|queue| queue.0)).collect()
}

/// Flows 3 and 0 take virtual queues 0 and 1, flows 1 and 2 meet in the default queue, which holds
/// 300 + 100 bytes; flow 2 alone would have been first.
#[test]
fn a_flow_too_many_goes_to_the_default_queue_and_waits_behind_its_length() {
    let mut sqf = small(DropFrom::Head, Limits::NONE);
    fill(&mut sqf, 0, &[(3, 350), (0, 200), (1, 300), (2, 100)]);
    assert_eq!(places(&sqf), [Some(1), Some(2), Some(2), Some(0), None]);
    let order: Vec<_> = core::iter::from_fn(|| next(&mut sqf)).collect();
    assert_eq!(order, [1, 0, 2, 3]);
}

/// Flow 2 enters the default queue; then a virtual queue becomes free, and its next packets still
/// go behind its first. Once empty, it takes the virtual queue that was freed last.
#[test]
fn a_flow_leaves_the_default_queue_with_its_last_packet() {
    let mut sqf = small(DropFrom::Head, Limits::NONE);
    fill(&mut sqf, 0, &[(0, 100), (1, 200), (2, 900)]);
    assert_eq!((next(&mut sqf), next(&mut sqf)), (Some(0), Some(1)));
    fill(&mut sqf, 3, &[(2, 50)]);
    assert_eq!(places(&sqf), [None, None, Some(2), None, None]);
    assert_eq!((next(&mut sqf), next(&mut sqf)), (Some(2), Some(3)));
    fill(&mut sqf, 4, &[(2, 50), (4, 50)]);
    assert_eq!(places(&sqf), [None, None, Some(1), None, Some(0)]);
}

/// Goal: a removed flow gives back its packets from among others', and only those.
/// Method: the default queue holds flows 2, 3, 2, 4, 2, 3 in this order; flows 0 and 1 fill the
/// virtual queues.
#[test]
fn a_flow_is_removed_out_of_the_middle_of_the_default_queue() {
    let mut sqf = small(DropFrom::Head, Limits::NONE);
    let arrivals = [(0, 1), (1, 1), (2, 10), (3, 10), (2, 20), (4, 10), (2, 30), (3, 20)];
    fill(&mut sqf, 0, &arrivals);
    let mut dropped = Vec::new();
    let sink = &mut |packet: Packet, reason| dropped.push((packet.handle, reason));
    sqf.remove_flow(FlowId(2), sink);
    sqf.remove_flow(FlowId(2), sink);
    assert_eq!(sqf.recount(), Ok(()));
    sqf.remove_flow(FlowId(0), sink);
    assert_eq!(sqf.recount(), Ok(()));
    let removed = DropReason::FlowRemoved;
    assert_eq!(dropped, [(2, removed), (4, removed), (6, removed), (0, removed)]);
    let packet = Packet::new(2, 10);
    let reason = RejectReason::UnknownFlow { flow: FlowId(2), flows: 5 };
    let rejected = sqf.enqueue(Nanos(0), FlowId(2), packet, &mut |_, _| {});
    assert_eq!(rejected, Err(Rejected { packet, reason }));
    sqf.add_flow(FlowId(2)).unwrap();
    fill(&mut sqf, 8, &[(2, 41), (3, 30)]);
    assert_eq!(places(&sqf), [None, Some(1), Some(0), Some(2), Some(2)]);
    let order: Vec<_> = core::iter::from_fn(|| next(&mut sqf)).collect();
    assert_eq!(order, [1, 8, 3, 5, 7, 9]);
}

/// Flow 0 holds 300 bytes in a virtual queue, the default queue 150 of flow 2 and 250 of flow 3.
/// An arrival of 100 into room for 800 makes the default queue give way: at the head that is flow
/// 2, which is idle then, at the tail flow 3's last packet.
#[test]
fn the_default_queue_gives_way_as_one() {
    let filled = [(0, 300), (1, 50), (2, 150), (3, 150), (3, 100)];
    for (end, dropped, left) in [(DropFrom::Head, 2, [0, 250]), (DropFrom::Tail, 4, [150, 150])] {
        let mut sqf = small(end, Limits::bytes(800));
        assert_eq!(fill(&mut sqf, 0, &filled), []);
        assert_eq!(fill(&mut sqf, 5, &[(1, 100)]), [dropped], "{end:?}");
        assert_eq!([2, 3].map(|flow| sqf.flow_backlog(FlowId(flow)).bytes), left);
    }
}

/// A flow whose only packet gives way to its own arrival keeps its virtual queue; a flow whose
/// only packet is rejected gives it back.
#[test]
fn making_room_neither_loses_nor_doubles_a_virtual_queue() {
    let mut sqf = small(DropFrom::Head, Limits::bytes(1_000));
    fill(&mut sqf, 0, &[(0, 600)]);
    assert_eq!(fill(&mut sqf, 1, &[(0, 500)]), [0]);
    assert_eq!(places(&sqf), [Some(0), None, None, None, None]);
    let packet = Packet::new(2, 520);
    let rejected = sqf.enqueue(Nanos(0), FlowId(1), packet, &mut |_, _| panic!("no victim"));
    let reason = RejectReason::Full { limits: Limits::bytes(1_000) };
    assert_eq!(rejected, Err(Rejected { packet, reason }));
    assert_eq!(sqf.recount(), Ok(()));
    fill(&mut sqf, 3, &[(2, 10), (3, 10)]);
    assert_eq!(places(&sqf), [Some(0), None, Some(1), Some(2), None]);
}

#[test]
fn statistics_are_kept_by_label() {
    let mut sqf = small(DropFrom::Head, Limits::packets(4));
    fill(&mut sqf, 0, &[(0, 10), (1, 20), (2, 30), (3, 40), (2, 50)]);
    // The default queue held 120 bytes of flows 2 and 3 when it gave way at its head.
    let counters = sqf.flow_counters(FlowId(2)).unwrap();
    assert_eq!(counters.accepted, Volume { packets: 2, bytes: 80 });
    assert_eq!(counters.dropped_for(DropReason::Overflow), Volume { packets: 1, bytes: 30 });
    assert_eq!(counters.peak, Backlog { packets: 1, bytes: 50 });
    assert_eq!(next(&mut sqf), Some(0));
    sqf.set_limits(Limits::packets(1), &mut |_, _| {});
    sqf.drain(&mut |_, _| {});
    assert_eq!(sqf.recount(), Ok(()));
    let flows: Vec<_> = (0..5).map(|flow| sqf.flow_counters(FlowId(flow)).unwrap()).collect();
    let sum = |of: &dyn Fn(&Counters) -> Volume| {
        flows.iter().fold(Volume::ZERO, |sum, flow| sum.plus(of(flow)))
    };
    let total = sqf.counters();
    assert_eq!(sum(&|flow| flow.accepted), total.accepted);
    assert_eq!(sum(&|flow| flow.delivered), total.delivered);
    for &why in DropReason::ALL {
        assert_eq!(sum(&|flow| flow.dropped_for(why)), total.dropped_for(why), "{why:?}");
    }
    assert_eq!((total.rejected, total.marked, total.came_marked), (Volume::ZERO, 0, 0));
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let fits = SqfArrays::<4, 8, 3>::EMPTY;
    let refused = |memory: SqfMemory<Vec<LengthFlow>, Vec<Queue>, _, _, Vec<u32>, Vec<u32>, _>| {
        Sqf::new(memory, DropFrom::Head, Limits::NONE).err()
    };
    let memory = |scheduler, queues, labels, free| SqfMemory {
        scheduler: std::vec![LengthFlow::EMPTY; scheduler],
        queues: std::vec![Queue::EMPTY; queues],
        descriptors: fits.descriptors,
        flows: fits.flows,
        labels: std::vec![0; labels],
        free: std::vec![0; free],
        records: fits.records,
    };
    let error = |what, value, min, max| Some(ConfigError::OutOfRange { what, value, min, max });
    assert_eq!(refused(memory(3, 3, 8, 2)), None);
    assert_eq!(refused(memory(0, 0, 8, 2)), error("queues", 0, 1, u32::MAX.into()));
    assert_eq!(refused(memory(2, 3, 8, 2)), error("scheduler of queues", 2, 3, 3));
    assert_eq!(refused(memory(3, 3, 7, 2)), error("labels", 7, 8, u64::MAX));
    assert_eq!(refused(memory(3, 3, 8, 1)), error("stack of free queues", 1, 2, u64::MAX));
}

/// Goal: no packet is lost, doubled or reordered within its flow, a backlogged flow stays where it
/// is, and only a flow that finds no virtual queue free goes to the default queue. Where that takes the
/// longest, a new flow always has a virtual queue, and at most one flow is moved for it, to the default queue.
/// Method: 100,000 random operations, with a queue of handles for each label beside them. With head
/// drop a packet leaves its flow in order whatever the reason.
#[test]
fn a_flow_keeps_its_queue_and_its_order_whatever_happens() {
    for takes_longest in [false, true] {
        any_history(takes_longest);
    }
}

fn any_history(takes_longest: bool) {
    let mut sqf = small(DropFrom::Head, Limits { packets: 12, bytes: 4_000 });
    if takes_longest {
        sqf = sqf.default_takes_longest();
    }
    let mut held: [VecDeque<u32>; 5] = Default::default();
    let mut free: Vec<u32> = (0..16).collect();
    let (mut seed, mut moves) = (1_u32, 0_u32);
    for step in 0..100_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let flow = FlowId((seed >> 8) % 5);
        let before = places(&sqf);
        let mut left = Vec::new();
        let mut arrival = None;
        let sink = &mut |packet: Packet, _| left.push(packet.handle);
        match seed >> 27 {
            0..16 => {
                let packet = Packet::new(free.pop().unwrap(), 1 + (seed >> 13) % 6 * 99);
                match sqf.enqueue(Nanos(0), flow, packet, sink) {
                    Ok(()) => arrival = Some(packet.handle),
                    Err(rejected) => free.push(rejected.packet.handle),
                }
            }
            16..29 => {
                let packet = sqf.dequeue(Nanos(0), sink);
                left.extend(packet.map(|packet| packet.handle));
            }
            29 => sqf.add_flow(flow).unwrap(),
            30 => sqf.remove_flow(flow, sink),
            _ => {
                let limits = sqf.limits();
                sqf.set_limits(Limits::packets((seed >> 13) % 12), sink);
                sqf.set_limits(limits, sink);
            }
        }
        held[flow.index()].extend(arrival);
        for handle in left {
            let owner = held.iter_mut().find(|queue| queue.front() == Some(&handle));
            owner.unwrap_or_else(|| panic!("{handle} out of order, step {step}")).pop_front();
            free.push(handle);
        }
        let mut moved = 0;
        for (at, (&before, &after)) in before.iter().zip(&places(&sqf)).enumerate() {
            assert_eq!(after.is_some(), !held[at].is_empty(), "step {step}");
            if before.is_some() && after.is_some() && before != after {
                assert!(after == Some(2) && at != flow.index(), "step {step}");
                moved += 1;
            }
        }
        let newcomer = arrival.is_some() && before[flow.index()].is_none();
        assert!(moved <= u32::from(takes_longest && newcomer), "step {step}");
        moves += moved;
        if newcomer {
            let taken = before.iter().filter(|queue| queue.is_some_and(|q| q < 2)).count();
            let in_default = sqf.queue_of(flow) == Some(FlowId(2));
            assert_eq!(in_default, taken == 2 && !takes_longest, "step {step}");
        }
        assert_eq!(sqf.recount(), Ok(()), "step {step}");
    }
    assert_eq!(moves > 1_000, takes_longest, "{moves}");
}

#[test]
fn broken_books_are_noticed() {
    let broken = |break_it: fn(&mut Small)| {
        let mut sqf = small(DropFrom::Head, Limits::NONE);
        fill(&mut sqf, 0, &[(0, 10), (2, 20), (3, 30), (1, 40)]);
        next(&mut sqf);
        break_it(&mut sqf);
        sqf.recount().unwrap_err().what
    };
    assert_eq!(broken(|sqf| sqf.labels.flows[2].held.packets = 2), "packets of a label");
    assert_eq!(broken(|sqf| sqf.labels.flows[3].held.bytes = 31), "bytes of a label");
    assert_eq!(broken(|sqf| sqf.labels.flows[3].queue = 0), "packets of a label");
    assert_eq!(broken(|sqf| sqf.labels.of[3] = 3), "packets of a label");
    assert_eq!(broken(|sqf| sqf.labels.free_len = 0), "free once if and only if empty");
    assert_eq!(broken(|sqf| sqf.labels.free_len = 4), "free virtual queues");
    assert_eq!(broken(|sqf| sqf.labels.free[0] = 1), "free once if and only if empty");
    let twice: fn(&mut Small) = |sqf| {
        sqf.labels.free = [0, 0, 0];
        sqf.labels.free_len = 2;
    };
    assert_eq!(broken(twice), "free once if and only if empty");
}

/// Flows 3 and 0 hold the virtual queues. Flow 1 finds none, so flow 3, the longest, goes to the default
/// queue with both of its packets and flow 1 gets its queue. Then flow 0 makes way for flow 2, and its
/// packets go behind those of flow 3.
#[test]
fn the_longest_flow_makes_way_for_a_new_one() {
    let mut sqf = small(DropFrom::Head, Limits::NONE).default_takes_longest();
    fill(&mut sqf, 0, &[(3, 350), (0, 200), (3, 10), (1, 300)]);
    assert_eq!(places(&sqf), [Some(1), Some(0), None, Some(2), None]);
    fill(&mut sqf, 4, &[(0, 120), (2, 100), (3, 5)]);
    assert_eq!(places(&sqf), [Some(2), Some(0), Some(1), Some(2), None]);
    // Flow 2 holds 100 bytes, flow 1 300, the default queue all the rest, in the order of the moves.
    let order: Vec<_> = core::iter::from_fn(|| next(&mut sqf)).collect();
    assert_eq!(order, [5, 3, 0, 2, 1, 4, 6]);
}

/// The default queue is the longest of all: still it is the longest virtual queue that makes way. Of equal
/// ones, it is that served least recently.
#[test]
fn the_default_queue_never_makes_way() {
    let mut sqf = small(DropFrom::Head, Limits::NONE).default_takes_longest();
    fill(&mut sqf, 0, &[(0, 900), (1, 100), (2, 10), (2, 80)]);
    assert_eq!(places(&sqf), [Some(2), Some(1), Some(0), None, None]);
    assert_eq!(next(&mut sqf), Some(2));
    fill(&mut sqf, 4, &[(2, 20), (3, 30)]);
    // Both held 100 bytes; virtual queue 0 was served, queue 1 was not.
    assert_eq!(places(&sqf), [Some(2), Some(2), Some(0), Some(1), None]);
    assert_eq!(sqf.flow_backlog(FlowId(1)), Backlog { packets: 1, bytes: 100 });
}

/// Each of these is rejected before any packet is moved; only an arrival that makes others give way until it
/// is itself the victim leaves them where it has put them.
#[test]
fn a_rejected_arrival_moves_no_flow() {
    let limits = Limits::bytes(1_000);
    let mut sqf = small(DropFrom::Head, limits).default_takes_longest();
    fill(&mut sqf, 0, &[(0, 300), (1, 200)]);
    let before = places(&sqf);
    for (flow, packet) in [
        (5, Packet::new(2, 10)),
        (2, Packet::new(2, 0)),
        (2, Packet::new(2, 1_001)),
        (2, Packet::new(1, 10)),
        (2, Packet::new(16, 10)),
    ] {
        let rejected = sqf.enqueue(Nanos(0), FlowId(flow), packet, &mut |_, _| panic!("no victim"));
        assert_eq!((rejected.map_err(|r| r.packet), places(&sqf)), (Err(packet), before.clone()));
        assert_eq!(sqf.recount(), Ok(()));
    }
    let packet = Packet::new(2, 600);
    let rejected = sqf.enqueue(Nanos(0), FlowId(2), packet, &mut |_, _| panic!("no victim"));
    let reason = RejectReason::Full { limits };
    assert_eq!(rejected, Err(Rejected { packet, reason }));
    assert_eq!(places(&sqf), [Some(2), Some(1), None, None, None]);
    assert_eq!(sqf.recount(), Ok(()));
    // The virtual queue is free.
    fill(&mut sqf, 3, &[(4, 10)]);
    assert_eq!(places(&sqf), [Some(2), Some(1), None, None, Some(0)]);
}

/// An arrival into a full buffer: first the longest flow is moved, then the longest queue, which is the
/// default queue then, gives way at either end.
#[test]
fn the_flow_that_was_moved_gives_way() {
    for (end, dropped) in [(DropFrom::Head, 0), (DropFrom::Tail, 2)] {
        let mut sqf = small(end, Limits::bytes(1_000)).default_takes_longest();
        fill(&mut sqf, 0, &[(0, 300), (1, 400), (0, 300)]);
        assert_eq!(fill(&mut sqf, 3, &[(2, 100)]), [dropped], "{end:?}");
        assert_eq!(places(&sqf), [Some(2), Some(1), Some(0), None, None]);
        let counters = sqf.flow_counters(FlowId(0)).unwrap();
        assert_eq!(counters.dropped_for(DropReason::Overflow), Volume { packets: 1, bytes: 300 });
    }
}

#[test]
fn without_virtual_queues_there_is_no_flow_to_move() {
    let memory = SqfArrays::<3, 4, 1>::EMPTY;
    let mut sqf = Sqf::new(memory, DropFrom::Head, Limits::NONE).unwrap().default_takes_longest();
    for flow in [2, 0, 1].map(FlowId) {
        sqf.add_flow(flow).unwrap();
        sqf.enqueue(Nanos(0), flow, Packet::new(flow.0, 100), &mut |_, _| ()).unwrap();
        assert_eq!((sqf.queue_of(flow), sqf.recount()), (Some(FlowId(0)), Ok(())));
    }
    let sent = || sqf.dequeue(Nanos(0), &mut |_, _| ()).map(|packet| packet.handle);
    assert_eq!(core::iter::from_fn(sent).collect::<Vec<_>>(), [2, 0, 1]);
}

/// SQF §3, Fig. 1: more uploads are backlogged than there are virtual queues, and a call starts. Goal: as
/// published, the call finds no virtual queue free, and waits behind all packets of the uploads that share the
/// default queue. Where the default queue takes the longest, each packet of the call is the next one, or with
/// a service floor the one after. Method: 140 uploads of ten packets over 128 virtual queues; a packet of the
/// call comes, the line sends, and what the line has sent of an upload comes anew.
#[test]
fn a_call_that_starts_among_too_many_uploads_waits_for_one_packet() {
    type Busy<W> = Sqf<
        [LengthFlow; VIRTUAL_QUEUES + 1],
        [Queue; VIRTUAL_QUEUES + 1],
        [Descriptor; 1_500],
        [SqfFlow; 141],
        [u32; 1_500],
        [u32; VIRTUAL_QUEUES + 1],
        [FlowRecord; 0],
        W,
    >;
    const UPLOADS: u32 = 140;
    const CALL: FlowId = FlowId(UPLOADS);
    let room = || SqfArrays::<141, 1_500>::EMPTY;
    let plain = || Sqf::new(room(), DropFrom::Head, Limits::NONE).unwrap();
    let floor = |sqf: Sqf<_, _, _, _, _, _, _>| {
        sqf.service_floor(FloorShare::EIGHTH.after(0), [WaitingFlow::EMPTY; VIRTUAL_QUEUES + 1])
            .unwrap()
    };
    assert_eq!(waits(plain()), None, "not within a thousand packets");
    assert_eq!(waits(plain().default_takes_longest()), Some(0));
    assert_eq!(waits(floor(plain().default_takes_longest())), Some(1));

    /// For how many packets that start after its arrival a packet of the call waits at most; `None` for
    /// more than a thousand.
    fn waits<W: Table<WaitingFlow>>(mut sqf: Busy<W>) -> Option<u32> {
        let drops = &mut |packet: Packet, reason| panic!("{packet:?}: {reason:?}");
        for flow in (0..=UPLOADS).map(FlowId) {
            sqf.add_flow(flow).unwrap();
        }
        for handle in 0..10 * UPLOADS {
            let packet = Packet::new(handle, 1_500);
            sqf.enqueue(Nanos(0), FlowId(handle % UPLOADS), packet, drops).unwrap();
        }
        let mut most = 0;
        for _ in 0..100 {
            let voice = Packet::new(10 * UPLOADS, 200);
            sqf.enqueue(Nanos(0), CALL, voice, drops).unwrap();
            let mut waited = 0;
            loop {
                let packet = sqf.dequeue(Nanos(0), drops).unwrap();
                if packet == voice {
                    break;
                }
                waited += 1;
                if waited > 1_000 {
                    return None;
                }
                sqf.enqueue(Nanos(0), FlowId(packet.handle % UPLOADS), packet, drops).unwrap();
            }
            assert_eq!(sqf.recount(), Ok(()));
            most = most.max(waited);
            // Some uploads go on before the next packet of the call.
            for _ in 0..3 {
                let packet = sqf.dequeue(Nanos(0), drops).unwrap();
                sqf.enqueue(Nanos(0), FlowId(packet.handle % UPLOADS), packet, drops).unwrap();
            }
        }
        Some(most)
    }
}
