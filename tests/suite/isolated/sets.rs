//! Flows that find their set of queues full.

use super::*;

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
        queue.recount().expect("the counters are right");
    }
}

/// Among its own a flow goes where the table says: a host with more flows than there are ways has all of them
/// share, and not the last ones one queue.
#[test]
fn flows_of_one_host_share_the_ways_of_their_set() {
    for &isolation in Isolation::ALL {
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
        queue.recount().expect("the counters are right");
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
        queue.recount().expect("the counters are right");
        (came, [0, 1, 2, 3].map(|entry| spare(queue, entry)))
    };
    for flow in 0..8 {
        put(&mut queue, flow, 0, 0);
    }
    assert_eq!(put(&mut queue, 8, 1, 2), (Outcome::Collision, [0, 1, 0, 0]));

    queue.set_isolation(Isolation::DualDstHost).expect("there is room");
    queue.recount().expect("the counters are right");
    // Destination 1 finds its spare queue taken by another; destination 2 has one of its own.
    assert_eq!(put(&mut queue, 9, 3, 1), (Outcome::Collision, [0, 1, 0, 0]));
    assert_eq!(queue.queues().flow_backlog(FlowId(1)).packets, 2, "in its own way");
    assert_eq!(put(&mut queue, 10, 3, 2), (Outcome::Collision, [0, 1, 1, 0]));
    assert_eq!(put(&mut queue, 11, 2, 2), (Outcome::Collision, [0, 1, 2, 0]));
    assert_eq!(queue.backlogged_hosts(), (3, 2), "sources 0, 1, 3 and destinations 0, 2");

    queue.set_isolation(Isolation::TripleIsolate).expect("there is room");
    queue.recount().expect("the counters are right");
    // To sources the queue of entry 2 is source 3's, and that of entry 1 its own again.
    assert_eq!(put(&mut queue, 12, 2, 4), (Outcome::Collision, [0, 1, 2, 0]));
    assert_eq!(put(&mut queue, 13, 1, 4), (Outcome::Collision, [0, 2, 2, 0]));
    // Nothing has entry 3 on its side but counts there: it is free.
    assert_eq!(put(&mut queue, 14, 3, 3), (Outcome::Collision, [0, 2, 2, 1]));

    let none = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    let mut sent = BTreeSet::new();
    while let Some(packet) = queue.dequeue(Nanos(0), none) {
        assert!(sent.insert(packet.handle));
        queue.recount().expect("the counters are right");
    }
    assert!(sent.into_iter().eq(0..15));
    assert_eq!(queue.backlogged_hosts(), (0, 0));
}

/// Goal: where hosts have no share of their own, no books of hosts are kept, and the longest queue gives way all the same. Method: each
/// isolation in turn, three packets in one queue and one in each of three.
#[test]
fn books_of_hosts_are_kept_only_where_hosts_have_a_share() {
    for &isolation in Isolation::ALL {
        let has_hosts = matches!(
            isolation,
            Isolation::DualSrcHost | Isolation::DualDstHost | Isolation::TripleIsolate
        );
        let mut queue = one_set(isolation, Limits::packets(5));
        let mut dropped = Vec::new();
        for (handle, flow) in (0..).zip([0, 1, 2, 2, 2, 3]) {
            let drops = &mut |packet: Packet, _| dropped.push(packet.handle);
            let packet = Packet::new(handle, MTU);
            queue.enqueue_labelled(Nanos(0), &of(flow, flow), packet, drops).unwrap();
        }
        assert_eq!(dropped, [2], "{isolation}");
        let policy = queue.queues().policy();
        let held: u32 = (0..8).map(|host| policy.bytes_of(host)).sum();
        assert_eq!(held, if has_hosts { 5 * MTU } else { 0 }, "{isolation}");
    }
}
