//! Service received by flows and hosts.

use core::cell::Cell;

use freeboard::flowhash::{ByAddress, FlowHasher, Labeller, SipHash13, parse};
use freeboard::sched_core::{FlowId, Side};
use freeboard::{Identified, Labelled, OnDemand};

use super::*;

/// CAKE Fig. 3: source and destination of the six flows.
const FIG_3: [(u32, u32); 6] = [(0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 3)];

/// Goal: the shares of CAKE Fig. 3. Method: all six flows have ten packets queued; the service of
/// flows that share a queue is halved.
#[test]
fn the_shares_are_those_of_cake_fig_3() {
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
        let mut queue = queue(isolation, Limits::NONE);
        let mut sent = [0_u32; 6];
        let put = |queue: &mut Isolated<Heap>, handle: u32| {
            let (source, destination) = FIG_3[handle as usize % 6];
            put(queue, &labels(handle % 6, source, destination), handle);
        };
        (0..60).for_each(|handle| put(&mut queue, handle));
        for _ in 0..6_600 {
            let handle = take(&mut queue);
            sent[handle as usize % 6] += 1;
            put(&mut queue, handle);
        }
        queue.recount().expect("the books hold");
        for (sent, expected) in sent.into_iter().zip(expected) {
            let measured = f64::from(sent) / 6_600.0;
            assert!((measured / expected - 1.0).abs() < 0.02, "{isolation}: {measured} {expected}");
        }
    }
}

/// Goal: with eight tins and the default ways no two hosts of a home share an entry by chance, and
/// each receives its share of a tin. Method: ten and twenty hosts in one of eight tins and in each
/// of six tins, with twenty keys.
#[test]
fn hosts_of_eight_tins_share_no_entries() {
    let homes = [(10, 1), (10, 6), (20, 1), (20, 6)];
    for (key, (hosts, tins)) in (0..20).flat_map(|key| homes.map(|home| (key, home))) {
        let hasher = SipHash13::new([key; 16]);
        let memory = IsolatedMemory::<Heap>::allocate(1_024, 256, 8, 1_024);
        let config = IsolatedConfig::new(MTU, Limits::NONE);
        let mut queue = Isolated::new(memory, config).expect("powers of two");
        queue.set_tins(&[TinConfig::by_weight(1); 8]).expect("there is room");
        // Four packets of each host in each tin, of which three are sent.
        for handle in 0..hosts * tins * 4 {
            let label = hasher.hash(&u32::to_le_bytes(handle % hosts));
            let labels = Labels { flow: label, src_host: label, dst_host: 7 };
            let tin = 2 + (handle / hosts % tins) as u8;
            put(&mut queue, &InTin { labels, tin }, handle);
        }
        assert_eq!(queue.backlogged_hosts(), (hosts, 0));
        let mut sent = vec![0; hosts as usize];
        (0..3 * hosts * tins).for_each(|_| sent[(take(&mut queue) % hosts) as usize] += 1);
        assert!(sent.iter().all(|&packets| packets == 3 * tins), "key {key}: {sent:?}");
    }
}

/// Goal: in a mode by local hosts, a sender on the other side receives the shares of all local
/// hosts that it sends to, as `SECURITY.md` says, because it chooses the destinations. Method: one
/// local host has a backlogged flow, and one sender keeps a packet of a new flow ready for each of
/// several others.
#[test]
fn a_sender_has_the_turns_of_the_local_hosts_it_sends_to() {
    for others in [1, 3, 11] {
        let mut queue = queue(Isolation::DualDstHost, Limits::NONE);
        let (mut at, mut standing) = (0, 0);
        let mut put = |queue: &mut Isolated<Heap>, host: u32| {
            // The handle encodes the host.
            let handle = at * 16 % 1_024 + host;
            at += 1;
            let flow = if host == 0 { 0 } else { handle };
            put(queue, &labels(flow, u32::from(host > 0), host), handle);
        };
        (0..4).for_each(|_| put(&mut queue, 0));
        (1..=others).for_each(|host| put(&mut queue, host));
        for _ in 0..2_400 {
            let host = take(&mut queue) % 16;
            standing += u32::from(host == 0);
            put(&mut queue, host);
        }
        let part = 2_400 / (others + 1);
        assert!((part / 2..=part * 3 / 2).contains(&standing), "{others}: {standing}");
    }
}

/// Goal: where hosts do not count, no host is reported; where they do, hosts of one side are.
#[test]
fn hosts_are_known_on_the_side_that_counts() {
    for &isolation in Isolation::ALL {
        let mut queue = queue(isolation, Limits::NONE);
        for flow in 0..24 {
            put(&mut queue, &labels(flow, flow % 5, flow % 3), flow);
        }
        let expected = match isolation {
            Isolation::DualSrcHost => (5, 0),
            Isolation::DualDstHost => (0, 3),
            Isolation::TripleIsolate => (5, 3),
            _ => (0, 0),
        };
        assert_eq!(queue.backlogged_hosts(), expected, "{isolation}");
        for flow in queue.flow_statistics(Nanos(0)) {
            let known = (flow.source.is_some(), flow.destination.is_some());
            assert_eq!(known, (expected.0 > 0, expected.1 > 0), "{isolation}");
        }
        while queue.dequeue(Nanos(0), &mut no_drops).is_some() {}
        assert_eq!(queue.backlogged_hosts(), (0, 0));
    }
}

/// A hasher that counts its calls.
#[derive(Default)]
struct Counting(Cell<u32>);

impl FlowHasher for Counting {
    fn hash(&self, bytes: &[u8]) -> u32 {
        self.0.set(self.0.get() + 1);
        bytes.iter().fold(1, |sum, &byte| mix(sum ^ u32::from(byte)))
    }
}

/// Goal: the host is hashed when a flow becomes backlogged, not with every packet, and the host of
/// the other side never. Method: a hasher that counts, with a key and with a parsed packet.
#[test]
fn the_host_that_counts_is_hashed_when_a_flow_becomes_backlogged() {
    let mut packet = [0; 28];
    packet[..12].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    packet[12..24].copy_from_slice(&[10, 0, 0, 1, 192, 0, 2, 1, 0x13, 0x88, 0, 53]);
    let parsed = parse::ip(&packet);
    let hasher = Counting::default();
    let labeller = Labeller::new(&hasher);
    let by_key = OnDemand { key: &parsed.key, hasher: &hasher };
    let by_labeller = Identified {
        parsed: &parsed,
        link: None,
        labeller: &labeller,
        identity: &ByAddress,
        local_side: Side::Source,
    };
    fn hashes(isolation: Isolation, labels: &impl Labelled, count: &Counting) -> [u32; 3] {
        let mut queue = queue(isolation, Limits::NONE);
        [0, 1, 2].map(|handle| {
            let before = count.0.get();
            put(&mut queue, labels, handle);
            count.0.get() - before
        })
    }
    let expected = [
        (Isolation::DualSrcHost, [2, 1, 1]),
        (Isolation::DualDstHost, [2, 1, 1]),
        (Isolation::Flows, [1, 1, 1]),
    ];
    for (isolation, expected) in expected {
        assert_eq!(hashes(isolation, &by_key, &hasher), expected);
        assert_eq!(hashes(isolation, &by_labeller, &hasher), expected);
    }
}

/// Goal: a rejected packet leaves no claim, and a flow without hosts is its own host.
#[test]
fn a_rejected_packet_leaves_no_claim() {
    let mut queue = queue(Isolation::DualSrcHost, Limits::NONE);
    for len in [0, MTU + 1] {
        let packet = Packet::new(0, len);
        let rejected = queue.enqueue_labelled(Nanos(0), &labels(1, 1, 1), packet, &mut no_drops);
        let reason = rejected.expect_err("out of range").reason;
        assert_eq!(reason, RejectReason::Length { len, max: MTU });
        assert_eq!(queue.backlogged_hosts(), (0, 0));
        queue.recount().expect("the books hold");
    }
    queue.enqueue(Nanos(0), FlowId(7), Packet::new(0, MTU), &mut no_drops).unwrap();
    assert_eq!(queue.backlogged_hosts(), (1, 0));
}
