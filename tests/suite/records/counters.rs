//! What the queue says of its tins, flows and hosts.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::AckFilter;
use freeboard::flowhash::{Ack, FlowKey, Transport};

use super::*;

/// A queued packet: its host, flow and tin, when it came, and its length.
#[derive(Clone, Copy)]
struct Queued {
    host: u32,
    flow: u32,
    tin: u8,
    since: Nanos,
    len: u32,
}

/// The queue, and what a reader should see of it, counted anew.
struct Counted {
    queue: IsolatedQueue<Heap>,
    queued: BTreeMap<u32, Queued>,
    of_tins: Vec<Counters>,
    /// Of flows and of hosts all activations, and who has been backlogged.
    activations: [u64; 2],
    known: [BTreeSet<(u32, u8)>; 2],
}

impl Counted {
    fn volume(packet: Packet) -> Volume {
        Volume { packets: 1, bytes: packet.len.into() }
    }

    fn lost(&mut self, packet: Packet, why: DropReason) {
        let Queued { tin, .. } = self.queued.remove(&packet.handle).expect("it is queued");
        self.of_tins[usize::from(tin)].count_dropped(why, packet.len);
    }

    fn enqueue(&mut self, now: Nanos, random: &mut Xorshift) {
        let tins = self.of_tins.len() as u32;
        let (host, flow, tin) = (random.below(5), random.below(4), random.below(tins) as u8);
        let Some(handle) = (0..HANDLES).find(|handle| !self.queued.contains_key(handle)) else {
            return;
        };
        let len = if random.below(20) == 0 { 0 } else { 1 + random.below(1_500) };
        let ecn = if random.below(4) == 0 { Ecn::Ce } else { Ecn::NotEct };
        let packet = Packet { handle, len, ecn };
        let labels = InTin { labels: labels(host * 8 + flow, host, flow), tin };
        let mut lost = Vec::new();
        let drops = &mut |packet: Packet, why| lost.push((packet, why));
        let accepted = self.queue.enqueue_labelled(now, &labels, packet, drops);
        let is_idle = |of: &dyn Fn(&Queued) -> bool| !self.queued.values().any(of);
        self.activations[0] +=
            u64::from(is_idle(&|of| (of.host, of.flow, of.tin) == (host, flow, tin)));
        self.activations[1] += u64::from(is_idle(&|of| of.host == host));
        self.known[0].insert((host * 8 + flow, tin));
        self.known[1].insert((host, 0));
        let counters = &mut self.of_tins[usize::from(tin)];
        if accepted.is_err() {
            return counters.count_dropped(DropReason::Rejected, len);
        }
        counters.accepted = counters.accepted.plus(Self::volume(packet));
        counters.came_marked += u64::from(ecn == Ecn::Ce);
        self.queued.insert(handle, Queued { host, flow, tin, since: now, len });
        lost.into_iter().for_each(|(packet, why)| self.lost(packet, why));
    }

    fn dequeue(&mut self, now: Nanos) {
        let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
        let Some(packet) = self.queue.dequeue(now, drops) else { return };
        let Queued { tin, since, .. } = self.queued.remove(&packet.handle).expect("it is queued");
        let counters = &mut self.of_tins[usize::from(tin)];
        counters.delivered = counters.delivered.plus(Self::volume(packet));
        let waited = self.queue.waited(packet, now).0;
        assert!(waited.abs_diff(now.0 - since.0) <= 2_048, "{waited}");
    }

    /// Drops all, and sets so many tins: what others have counted is of tin 0.
    fn set_tins(&mut self, tins: usize) {
        let mut lost = Vec::new();
        self.queue.drain(&mut |packet: Packet, why| lost.push((packet, why)));
        lost.into_iter().for_each(|(packet, why)| self.lost(packet, why));
        self.queue.set_tins(&vec![TinConfig::by_weight(1); tins]).expect("there is room");
        let gone = self.of_tins.split_off(tins.min(self.of_tins.len()));
        self.of_tins[0] = gone.iter().fold(self.of_tins[0], Counters::plus);
        self.of_tins.resize(tins, Counters::default());
    }

    fn compare(&self, now: Nanos) {
        let queue = &self.queue;
        queue.recount().expect("the books hold");
        for (tin, expected) in (0..).zip(&self.of_tins) {
            let found = queue.tin_counters(tin).expect("there is such a tin");
            assert_eq!(found.counters, *expected, "tin {tin}");
            let held: Vec<_> = self.queued.values().filter(|of| of.tin == tin).collect();
            let (packets, bytes) = (held.len() as u32, held.iter().map(|of| of.len).sum());
            assert_eq!(found.backlog, Backlog { packets, bytes });
        }
        assert_eq!(queue.tin_counters(queue.tins()), None);
        let [side, other] = match queue.isolation() {
            Isolation::DualSrcHost => [Side::Source, Side::Destination],
            _ => [Side::Destination, Side::Source],
        };
        let mut hosts = [HostStatistics::EMPTY; 64];
        assert_eq!(queue.host_statistics(other, now, &mut hosts), 0);
        let found = queue.host_statistics(side, now, &mut hosts);
        let host_of = |of: &Queued| if side == Side::Source { of.host } else { of.flow };
        let held: BTreeSet<u32> = self.queued.values().map(host_of).collect();
        assert_eq!(found, held.len());
        let counted = [found as u32, 0];
        let (sources, destinations) = queue.backlogged_hosts();
        assert_eq!(
            counted,
            if side == Side::Source { [sources, destinations] } else { [destinations, sources] }
        );
        for host in held {
            let (source, destination) = queue.entries_of(&labels(0, host, host));
            let [entry, none] =
                if side == Side::Source { [source, destination] } else { [destination, source] };
            assert_eq!(none, None, "the other side does not count");
            let entry = entry.expect("it holds packets");
            let found = hosts.iter().find(|host| host.entry == entry).expect("it holds packets");
            let of: Vec<_> = self.queued.values().filter(|of| host_of(of) == host).collect();
            let tins = of.iter().fold(0, |tins, of| tins | 1_u8 << of.tin);
            let flows: BTreeSet<_> = of.iter().map(|of| (of.host, of.flow, of.tin)).collect();
            assert_eq!((found.tins, found.flows as usize), (tins, flows.len()));
            assert_eq!(found.queued.packets as usize, of.len());
        }
        let flows: BTreeSet<_> =
            self.queued.values().map(|of| (of.host, of.flow, of.tin)).collect();
        assert_eq!(queue.flow_totals().all() as usize, flows.len());
        for (host, flow, tin) in flows {
            let labels = InTin { labels: labels(host * 8 + flow, host, flow), tin };
            let number = queue.queue_of(&labels).expect("it holds packets");
            let found = queue.flow_statistics(now).find(|flow| flow.queue == number);
            assert_eq!(found.map(|flow| flow.tin), Some(tin));
        }
    }
}

/// Goal: what is said of tins, flows and hosts is right, in whatever tins a host sends, and nothing
/// is said of hosts that do not count. Method: random packets in one to eight tins with drops,
/// rejections and marks; all is counted anew after each step.
#[test]
fn tins_flows_and_hosts_are_counted() {
    for isolation in [Isolation::DualSrcHost, Isolation::DualDstHost] {
        let memory = IsolationMemory::<Heap>::allocate(256, 64, 8, HANDLES as usize);
        let config = IsolatedConfig::new(1_500, Limits::packets(40)).isolated_by(isolation);
        let mut counted = Counted {
            queue: IsolatedQueue::new(memory, config).expect("powers of two"),
            queued: BTreeMap::new(),
            of_tins: vec![Counters::default()],
            activations: [0; 2],
            known: Default::default(),
        };
        let mut random = Xorshift::new(3);
        for step in 0..4_000_u32 {
            let now = Nanos::from_millis(step.into());
            if step % 500 == 499 {
                counted.set_tins([4, 8, 2, 1][step as usize / 500 % 4]);
            }
            match random.below(100) < if step % 400 < 200 { 60 } else { 45 } {
                true => counted.enqueue(now, &mut random),
                false => counted.dequeue(now),
            }
            if step % 8 == 7 {
                counted.compare(now);
            }
        }
        let all = counted.queue.activations();
        let counters = counted.queue.counters();
        assert!(counters.dropped_total().packets > 50 && counters.rejected.packets > 50);
        if isolation == Isolation::DualSrcHost {
            assert_eq!([all.flows, all.source_hosts], counted.activations);
            assert_eq!(all.new_source_hosts, 5, "no host had another's entry");
            assert!(all.new_flows >= counted.known[0].len() as u64);
            assert_eq!((all.destination_hosts, all.new_destination_hosts), (0, 0));
        } else {
            assert_eq!((all.flows, all.source_hosts), (counted.activations[0], 0));
            assert!(all.destination_hosts > 4 && all.new_destination_hosts == 4);
        }
    }
}

/// Goal: an acknowledgement that says all that one before it says in the same queue takes its
/// place, with room for its flow and without. Method: three of one connection and tin, one of
/// another tin; the queue that they are in is the flow's own, and then the spare one of its host.
#[test]
fn an_acknowledgement_takes_the_place_of_an_older_one() {
    let transport = Transport { protocol: 6, src_port: 50_000, dst_port: 443 };
    let connection = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport };
    let acks = |packet: Packet| Some(Ack::new(connection, 1, 1_500 * packet.handle));
    for is_crowded in [false, true] {
        let memory = IsolationMemory::<Heap>::allocate(8, 8, 2, 64);
        let mut queue = IsolatedQueue::new(memory, IsolatedConfig::new(MTU, Limits::NONE)).unwrap();
        queue.set_tins(&[TinConfig::by_weight(1); 2]).expect("there is room");
        if is_crowded {
            (0..8).for_each(|flow| put(&mut queue, &labels(flow, 1, 1), 40 + flow));
        }
        let mut gone = Vec::new();
        for (handle, tin) in [(1, 1), (2, 0), (3, 1), (4, 1)] {
            let packet = Packet::new(handle, 60);
            let ack = acks(packet).expect("all are");
            let filter = (AckFilter::Aggressive, &acks);
            let labels = InTin { labels: labels(100, 2, 1), tin };
            let drops = &mut |packet: Packet, why| gone.push((packet.handle, why));
            queue.enqueue_ack(Nanos(0), &labels, (packet, &ack), filter, drops).unwrap();
        }
        // In a spare queue those of both tins stand in one line.
        let expected: &[u32] = if is_crowded { &[1, 2, 3] } else { &[1, 3] };
        assert!(gone.iter().all(|(_, why)| *why == DropReason::Filtered));
        assert!(gone.iter().map(|(handle, _)| handle).eq(expected), "{gone:?}");
        let filtered = |tin| {
            let found = queue.tin_counters(tin).expect("there is such a tin").counters;
            found.dropped_for(DropReason::Filtered).packets
        };
        assert_eq!([0, 1].map(filtered), if is_crowded { [0, 3] } else { [0, 2] });
        queue.recount().expect("the books hold");
    }
}
