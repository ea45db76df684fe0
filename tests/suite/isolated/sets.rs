//! Flows whose set of queues is full, and the AQM state of flows that leave.

use freeboard::sched_core::{FlowId, Probability};

use super::*;

/// Creates eight queues in one set and eight hosts in one set: a label with low bits `i` is in
/// entry `i`.
fn one_set(isolation: Isolation, limits: Limits) -> Isolated<Heap> {
    let memory = IsolatedMemory::allocate(8, 8, 1, 1_024).with_triple(64);
    let config = IsolatedConfig::new(MTU, limits).isolated_by(isolation);
    Isolated::new(memory, config).expect("powers of two")
}

/// Returns the labels of a flow with the same host on both sides.
const fn of(flow: u32, host: u32) -> Labels {
    Labels { flow, src_host: host, dst_host: host }
}

/// Returns the number of packets in the spare queue of a host.
fn spare(queue: &Isolated<Heap>, host: u32) -> u32 {
    queue.queue_backlog(8 + host).packets
}

/// Goal: a host that fills a set takes nothing from another host whose flow would use it. Method:
/// host 0 has a flow with twenty packets in each way; then host 1 has first a sparse flow, and then
/// a busy one.
#[test]
fn a_full_set_joins_no_hosts() {
    for isolation in [Isolation::DualSrcHost, Isolation::DualDstHost] {
        let mut queue = one_set(isolation, Limits::bytes(200 * MTU));
        let known = |queue: &Isolated<Heap>| {
            let (sources, destinations) = queue.backlogged_hosts();
            (spare(queue, 1), sources + destinations)
        };
        (0..160).for_each(|handle| put(&mut queue, &of(handle % 8, 0), handle));
        for handle in 160..170 {
            take(&mut queue);
            let sparse = Packet::new(handle, MTU);
            let came = queue.enqueue_labelled(Nanos(0), &of(8 + handle, 1), sparse, &mut no_drops);
            assert_eq!((came, known(&queue)), (Ok(Outcome::Collision), (1, 2)));
            // G1: one packet is on the wire, and (H − 1)(Q + L) are two packets.
            assert!((0..3).any(|_| take(&mut queue) == handle), "{isolation}: {handle}");
            assert_eq!(known(&queue), (0, 1));
        }
        // G4: half of the memory less a packet belongs to host 1, whatever arrives then.
        for handle in 170..600 {
            let labels = if handle < 269 { of(8 + handle % 3, 1) } else { of(handle % 8, 0) };
            let drops = &mut |packet: Packet, _| {
                assert!(!(170..269).contains(&packet.handle), "{isolation}: {packet:?}");
            };
            let _full = queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops);
        }
        assert_eq!(spare(&queue, 1), 99, "{isolation}");
        queue.recount().expect("the books hold");
    }
}

/// Goal: flows of one host are distributed as the table says: with more flows than ways, all of
/// them share, instead of the last ones sharing one queue.
#[test]
fn flows_of_one_host_share_the_ways_of_their_set() {
    for isolation in [Isolation::Flows, Isolation::DualSrcHost, Isolation::DualDstHost] {
        let mut queue = one_set(isolation, Limits::NONE);
        (0..32).for_each(|handle| put(&mut queue, &of(handle, 0), handle));
        for number in 0..16 {
            let held = queue.queue_backlog(number).packets;
            assert_eq!(held, if number < 8 { 4 } else { 0 }, "{isolation}, {number}");
        }
    }
}

/// Goal: without a level of hosts a flow shares the queue of its own way with any other flow, but
/// with none of another tin if there is a spare queue for each tin.
#[test]
fn without_a_level_of_hosts_a_full_set_is_shared_within_a_tin() {
    for isolation in [Isolation::Flows, Isolation::SrcHost, Isolation::DstHost] {
        let mut queue = one_set(isolation, Limits::NONE);
        (0..9).for_each(|handle| put(&mut queue, &of(handle, handle), handle));
        assert_eq!(queue.queue_backlog(0).packets, 2, "{isolation}");
        assert!((0..8).all(|host| spare(&queue, host) == 0), "{isolation}");
        queue.recount().expect("the books hold");
    }
    let memory = IsolatedMemory::allocate(8, 8, 2, 64);
    let config = IsolatedConfig::new(MTU, Limits::NONE).isolated_by(Isolation::Flows);
    let mut queue = Isolated::<Heap>::new(memory, config).expect("powers of two");
    queue.set_tins(&[TinConfig::by_weight(1); 2]).expect("there is room");
    for handle in 0..11 {
        put(&mut queue, &InTin { labels: of(handle, 0), tin: u8::from(handle > 8) }, handle);
    }
    assert_eq!([0, 1].map(|tin| spare(&queue, tin)), [0, 2]);
    queue.recount().expect("the books hold");
}

/// Goal: where hosts have no shares, packets are dropped from the longest queue; where they have,
/// from the host with the longest backlog. Method: three packets in one queue and one in each of
/// three.
#[test]
fn the_longest_queue_gives_way_in_every_mode() {
    for &isolation in Isolation::ALL {
        let mut queue = one_set(isolation, Limits::packets(5));
        let mut dropped = Vec::new();
        for (handle, flow) in (0..).zip([0, 1, 2, 2, 2, 3]) {
            let drops = &mut |packet: Packet, _| dropped.push(packet.handle);
            let packet = Packet::new(handle, MTU);
            queue.enqueue_labelled(Nanos(0), &of(flow, flow), packet, drops).unwrap();
        }
        assert_eq!(dropped, [2], "{isolation}");
    }
}

/// Queues with a COBALT whose probability rises so fast that one overflow is visible.
type Punishing = Isolated<Heap, Cobalt<Vec<CobaltState>>>;

/// Creates eight queues, by source host and flow, with a limit of `packets` packets in total.
fn punishing(packets: u32) -> Punishing {
    let memory = IsolatedMemory::<Heap>::allocate(8, 8, 1, 64);
    let steps = [1 << 28, 1 << 20].map(Probability::from_raw);
    let params = CobaltParams::INTERNET.with_steps(steps[0], steps[1]);
    let aqm = Cobalt::new(vec![CobaltState::EMPTY; memory.queues()], params, 1).unwrap();
    Isolated::with_aqm(memory, aqm, IsolatedConfig::new(MTU, Limits::packets(packets))).unwrap()
}

/// Counts the queues, including spare ones, with a probability above zero.
fn punished(queue: &Punishing) -> usize {
    let probability = |flow| queue.aqm().probability(FlowId(flow));
    (0..16).filter(|&flow| probability(flow) > Probability::NEVER).count()
}

/// Goal: COBALT's state of a flow is kept for this flow, and another flow that takes over its queue
/// starts without it. Method: a flow overflows and leaves; it returns; then as many other flows
/// arrive as there are queues.
#[test]
fn a_flow_that_inherits_a_queue_inherits_no_punishment() {
    let mut queue = punishing(4);
    let drops = &mut |_: Packet, _: DropReason| {};
    let now = Nanos::from_secs(1);
    for turn in 0..2 {
        for handle in 0..8 {
            queue.enqueue(now, FlowId(100), Packet::new(handle, 1_000), drops).unwrap();
        }
        while queue.dequeue(now, drops).is_some() {}
        assert_eq!((queue.backlog().packets, punished(&queue)), (0, 1), "turn {turn}");
    }
    queue.set_limits(Limits::packets(64), drops);
    queue.enqueue(now, FlowId(100), Packet::new(0, 1_000), drops).unwrap();
    assert_eq!(punished(&queue), 1, "it comes back");
    while queue.dequeue(now, drops).is_some() {}
    for flow in 0..8 {
        queue.enqueue(now, FlowId(200 + flow), Packet::new(flow, 1_000), drops).unwrap();
    }
    assert_eq!(punished(&queue), 0);
}

/// Goal: a flow in the spare queue of its host does not inherit the state of other flows there,
/// whether of its host or of the previous host of the entry. Method: more flows of a host than
/// there are queues overflow; then flows of other hosts do.
#[test]
fn a_spare_queue_hands_on_no_punishment() {
    let mut queue = punishing(12);
    let drops = &mut |_: Packet, _: DropReason| {};
    let now = Nanos::from_secs(1);
    let put = |queue: &mut Punishing, handle: u32, flow: u32, host: u32| {
        let packet = Packet::new(handle, 1_000);
        queue.enqueue_labelled(now, &labels(flow, host, 0), packet, &mut |_, _| {}).map(drop)
    };
    // Eight flows of host 1 have the queues; a ninth overflows in the spare one.
    (0..8).for_each(|flow| put(&mut queue, flow, 100 + flow, 1).unwrap());
    for handle in 8..24 {
        let _full = put(&mut queue, handle, 300, 1);
    }
    assert_eq!(punished(&queue), 1);
    while queue.dequeue(now, drops).is_some() {}
    assert_eq!(punished(&queue), 1, "a queue that was left keeps it");
    queue.set_limits(Limits::packets(64), drops);
    // Eight other hosts have a queue each, and two flows of each share a spare one.
    (0..8).for_each(|host| put(&mut queue, host, 400 + host, 10 + host).unwrap());
    for handle in 8..24 {
        put(&mut queue, handle, 500 + handle, 10 + handle % 8).unwrap();
    }
    assert_eq!((queue.backlog().packets, punished(&queue)), (24, 0));
}

/// Goal: no state is inherited after the key has changed. Method: a flow overflows under the old
/// key, and as many flows arrive under the new one as there are queues.
#[test]
fn a_flow_inherits_no_punishment_from_before_the_key_changed() {
    let mut queue = punishing(4);
    let drops = &mut |_: Packet, _: DropReason| {};
    let now = Nanos::from_secs(1);
    for handle in 0..8 {
        queue.enqueue(now, FlowId(100), Packet::new(handle, 1_000), drops).unwrap();
    }
    while queue.dequeue(now, drops).is_some() {}
    assert_eq!(punished(&queue), 1);
    queue.relabel(|_| -> Labels { panic!("nothing is queued") });
    queue.set_limits(Limits::packets(64), drops);
    for flow in 0..8 {
        queue.enqueue(now, FlowId(200 + flow), Packet::new(flow, 1_000), drops).unwrap();
    }
    assert_eq!((queue.backlog().packets, punished(&queue)), (8, 0));
}
