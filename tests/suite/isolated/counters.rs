//! Counters of tins, flows and hosts.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::flowhash::{Ack, FlowKey, Transport};
use freeboard::sched_core::TokenBucket;
use freeboard::{AckFilter, HostTerms};

use super::*;

/// A queued packet: host, flow, tin, arrival time and length.
#[derive(Clone, Copy)]
struct Queued {
    host: u32,
    flow: u32,
    tin: u8,
    since: Nanos,
    len: u32,
}

/// The queue, and independent counts of what a reader should see.
struct Counted {
    queue: Isolated<Heap>,
    queued: BTreeMap<u32, Queued>,
    of_tins: Vec<Counters>,
    /// Activations of flows, sources and destinations.
    activations: [u64; 3],
}

/// Labels of hosts; one host exceeds its rate, and one has a ceiling.
struct Limited {
    of: InTin<Labels>,
    host: u32,
}

impl Labelled for Limited {
    fn flow(&self) -> u32 {
        self.of.flow()
    }

    fn source(&self) -> u32 {
        self.of.source()
    }

    fn destination(&self) -> u32 {
        self.of.destination()
    }

    fn tin(&self) -> u8 {
        self.of.tin()
    }

    fn host_terms(&self) -> HostTerms {
        let of = |host, rate| {
            (self.host == host).then(|| TokenBucket::new(rate, 1_500).expect("in range"))
        };
        HostTerms { quantum: None, committed_rate: of(1, 100_000), ceiling: of(2, 500_000) }
    }
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
        let labels = Self::labels(host, flow, tin);
        let mut lost = Vec::new();
        let drops = &mut |packet: Packet, why| lost.push((packet, why));
        let accepted = self.queue.enqueue_labelled(now, &labels, packet, drops);
        let is_idle = |of: &dyn Fn(&Queued) -> bool| !self.queued.values().any(of);
        let counted = match self.queue.isolation() {
            Isolation::DualSrcHost => Some((1, is_idle(&|of| of.host == host))),
            Isolation::DualDstHost => Some((2, is_idle(&|of| of.flow == flow))),
            _ => None,
        };
        let of_flow = (0, is_idle(&|of| (of.host, of.flow, of.tin) == (host, flow, tin)));
        for (what, was_idle) in counted.into_iter().chain([of_flow]) {
            self.activations[what] += u64::from(was_idle);
        }
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

    fn labels(host: u32, flow: u32, tin: u8) -> Limited {
        Limited { of: InTin { labels: labels(host * 8 + flow, host, flow), tin }, host }
    }

    /// Sets other tins while packets are queued: tin `t` becomes tin `to(t)`, or tin 0.
    fn set_tins(&mut self, tins: usize, to: impl Fn(u8) -> u8) {
        let to = |tin| Some(to(tin)).filter(|to| usize::from(*to) < tins).unwrap_or(0);
        self.queued.values_mut().for_each(|of| of.tin = to(of.tin));
        let labels_of = |packet: Packet| {
            let Queued { host, flow, tin, .. } = self.queued[&packet.handle];
            Self::labels(host, flow, tin)
        };
        let shares = vec![TinConfig::by_weight(1); tins];
        let (isolation, to_tins) = (self.queue.isolation(), (Some(&shares[..]), to));
        self.queue.rebuild_and_move(isolation, to_tins, labels_of).expect("there is room");
        let before = core::mem::replace(&mut self.of_tins, vec![Counters::default(); tins]);
        for (tin, counters) in (0..).zip(&before) {
            let sum = &mut self.of_tins[usize::from(to(tin))];
            *sum = sum.plus(counters);
        }
    }

    fn set_isolation(&mut self, isolation: Isolation) {
        let labels_of = |packet: Packet| {
            let Queued { host, flow, tin, .. } = self.queued[&packet.handle];
            Self::labels(host, flow, tin)
        };
        self.queue.rebuild(isolation, None, labels_of).expect("there is room");
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
        let all = queue.activations();
        let counted = [all.flows, all.source_hosts, all.destination_hosts];
        assert_eq!(counted, self.activations);
        let (sources, destinations) = queue.backlogged_hosts();
        for (side, backlogged) in [(Side::Source, sources), (Side::Destination, destinations)] {
            self.compare_hosts(now, side, backlogged);
        }
        let flows: BTreeSet<_> =
            self.queued.values().map(|of| (of.host, of.flow, of.tin)).collect();
        assert_eq!(queue.flow_totals().all() as usize, flows.len());
        for (host, flow, tin) in flows {
            let labels = Self::labels(host, flow, tin);
            let number = queue.queue_of(&labels).expect("it holds packets");
            let found = queue.flow_statistics(now).find(|flow| flow.queue == number);
            assert_eq!(found.map(|flow| flow.tin), Some(tin));
        }
    }

    fn compare_hosts(&self, now: Nanos, side: Side, backlogged: u32) {
        let is_source = side == Side::Source;
        let counts = match self.queue.isolation() {
            Isolation::DualSrcHost => is_source,
            Isolation::DualDstHost => !is_source,
            _ => false,
        };
        let host_of = |of: &Queued| if is_source { of.host } else { of.flow };
        let held: BTreeSet<u32> = self.queued.values().filter(|_| counts).map(host_of).collect();
        let mut hosts = [HostStatistics::EMPTY; 64];
        let found = self.queue.host_statistics(side, now, &mut hosts);
        assert_eq!((found, backlogged as usize), (held.len(), held.len()), "{side:?}");
        for host in 0..5 {
            let (source, destination) = self.queue.entries_of(&labels(0, host, host));
            let entry = if is_source { source } else { destination };
            assert_eq!(entry.is_some(), held.contains(&host));
            let Some(found) = entry.and_then(|at| hosts.iter().find(|host| host.entry == at))
            else {
                continue;
            };
            let of: Vec<_> = self.queued.values().filter(|of| host_of(of) == host).collect();
            let tins = of.iter().fold(0, |tins, of| tins | 1_u8 << of.tin);
            let flows: BTreeSet<_> = of.iter().map(|of| (of.host, of.flow, of.tin)).collect();
            assert_eq!((found.tins, found.flows as usize), (tins, flows.len()));
            assert_eq!(found.queued.packets as usize, of.len());
        }
    }
}

/// Goal: the counters of tins, flows and hosts are correct, in whatever tins a host sends, for the
/// side whose hosts count and no other; changes under load move the counters of tins as documented
/// and count no flow or host again. Method: random packets in one to eight tins with drops,
/// rejections and marks, counted independently.
#[test]
fn tins_flows_and_hosts_are_counted() {
    let memory = IsolatedMemory::<Heap>::allocate(256, 64, 8, HANDLES as usize).with_rates();
    let config = IsolatedConfig::new(1_500, Limits::packets(40));
    let mut counted = Counted {
        queue: Isolated::new(memory, config).expect("powers of two"),
        queued: BTreeMap::new(),
        of_tins: vec![Counters::default()],
        activations: [0; 3],
    };
    let mut random = Xorshift::new(3);
    let modes = [Isolation::DualDstHost, Isolation::Flows, Isolation::DualSrcHost];
    for step in 0..6_000_u32 {
        let now = Nanos::from_millis(step.into());
        if step % 300 == 299 {
            let (tins, turned) = ([4, 8, 3, 1, 2][step as usize / 300 % 5], random.below(8) as u8);
            counted.set_tins(tins, |tin| (tin + turned) % 8);
        }
        if step % 700 == 699 {
            counted.set_isolation(modes[step as usize / 700 % 3]);
        }
        match random.below(100) < if step % 400 < 200 { 60 } else { 45 } {
            true => counted.enqueue(now, &mut random),
            false => counted.dequeue(now),
        }
        if step % 8 == 7 || step % 100 == 99 {
            counted.compare(now);
        }
    }
    let counters = counted.queue.counters();
    assert!(counters.dropped_total().packets > 50 && counters.rejected.packets > 50);
    let all = counted.queue.activations();
    assert!([all.source_hosts, all.destination_hosts].iter().all(|count| *count > 20), "{all:?}");
    // No host took over another's entry: each is new once, and once after a rebuild.
    assert!((9..=9 * 30).contains(&(all.new_source_hosts + all.new_destination_hosts)), "{all:?}");
}

/// Goal: an acknowledgement with all information of an earlier one in the same queue replaces it,
/// with and without a free queue for its flow. Method: three of one connection and tin, one of
/// another tin, in the flow's own queue and in the spare queue of its host.
#[test]
fn an_acknowledgement_takes_the_place_of_an_older_one() {
    let transport = Transport { protocol: 6, src_port: 50_000, dst_port: 443 };
    let connection = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport };
    let acks = |packet: Packet| Some(Ack::new(connection, 1, 1_500 * packet.handle));
    for is_crowded in [false, true] {
        let memory = IsolatedMemory::<Heap>::allocate(8, 8, 2, 64);
        let mut queue = Isolated::new(memory, IsolatedConfig::new(MTU, Limits::NONE)).unwrap();
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
        // A spare queue holds the acknowledgements of both tins in one order.
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
