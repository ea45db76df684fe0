//! Statistics of a whole queue: they agree with a naive tally, reading them has no effect, and the
//! JSON is the one in the guide.

use std::collections::BTreeMap;

use conformance::Xorshift;
use conformance::effort::effort;
use freeboard::flowhash::{Labels, mix};
use freeboard::sched_core::{Backlog, DelayHistogram, DropReason, Limits, Nanos, Packet, Side};
use freeboard::shaper::Rate;
use freeboard::{
    AqmKind, DescriptorQueue, FlowTotals, HostStatistics, InTin, Isolation, SmartQueue, TinMode,
};

/// A queued packet in the naive tally.
#[derive(Clone, Copy)]
struct Queued {
    flow: u32,
    host: u32,
    peer: u32,
    tin: u8,
    len: u32,
    came: Nanos,
}

fn labels_of(queued: &Queued) -> InTin<Labels> {
    // No label equals the number of a queue.
    let [flow, src_host, dst_host] = [queued.flow, queued.host, queued.peer].map(|n| mix(n + 1));
    InTin { labels: Labels { flow, src_host, dst_host }, tin: queued.tin }
}

/// Groups the queued packets by `key`: packets, bytes, and arrival time of the oldest.
fn tally<K: Ord>(
    queued: &BTreeMap<u32, Queued>,
    key: impl Fn(&Queued) -> K,
) -> BTreeMap<K, (Backlog, Nanos)> {
    let mut all = BTreeMap::new();
    for packet in queued.values() {
        let (held, oldest) = all.entry(key(packet)).or_insert((Backlog::default(), Nanos::MAX));
        held.packets += 1;
        held.bytes += packet.len;
        *oldest = (*oldest).min(packet.came);
    }
    all
}

/// Returns a wait in the queue's resolution, ticks of 2^10 ns.
fn ticks(now: Nanos, came: Nanos) -> Nanos {
    Nanos(((now.0 >> 10) - (came.0 >> 10)) << 10)
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all
}

/// Returns the number of backlogged flows.
fn flows_of(queued: &BTreeMap<u32, Queued>) -> u32 {
    tally(queued, |packet| (packet.tin, packet.flow)).len() as u32
}

/// Compares flows and hosts of both sides with the tally.
fn compare(queue: &DescriptorQueue, queued: &BTreeMap<u32, Queued>, now: Nanos) {
    let row = |(held, waited): (Backlog, Nanos)| (held.packets, held.bytes, waited);
    let told = |all: Vec<(Backlog, Nanos)>| {
        sorted(all.into_iter().map(|(held, came)| row((held, ticks(now, came)))))
    };
    let isolated = queue.isolated();
    let flows = tally(queued, |packet| (packet.tin, packet.flow)).into_values().collect();
    let found = isolated.flow_statistics(now).map(|flow| row((flow.queued, flow.waited)));
    assert_eq!(sorted(found), told(flows));
    let (totals, count) = (isolated.flow_totals(), flows_of(queued));
    assert_eq!((totals.all(), totals.sparse + totals.bulk), (count, count));
    let mut other = HostStatistics::EMPTY;
    (other.entry, other.flows) = (9, 9);
    let mut place = [other; 64];
    for (side, hosts) in [
        (Side::Source, tally(queued, |packet| packet.host)),
        (Side::Destination, tally(queued, |packet| packet.peer)),
    ] {
        let count = isolated.host_statistics(side, now, &mut place);
        if side == Side::Destination && queue.isolation() != Isolation::TripleIsolate {
            assert_eq!(count, 0, "destinations do not count");
            continue;
        }
        let found = place[..count].iter().map(|host| row((host.queued, host.waited)));
        assert_eq!(sorted(found), told(hosts.into_values().collect()));
        assert!(place[..count].is_sorted_by_key(|host| host.entry));
    }
    for packet in queued.values() {
        let entries = isolated.entries_of(&labels_of(packet));
        let count = isolated.host_statistics(Side::Source, now, &mut place);
        let host = place[..count].iter().find(|host| Some(host.entry) == entries.0).unwrap();
        let of_host = |other: &Queued| other.host == packet.host;
        let flows = tally(queued, |other| of_host(other).then_some((other.tin, other.flow)));
        assert_eq!(host.flows as usize, flows.keys().flatten().count());
        assert_eq!(host.tins, flows.keys().flatten().fold(0, |tins, (tin, _)| tins | 1 << tin));
    }
}

/// Goal: the statistics of flows and hosts describe the queued packets, and reading them changes
/// nothing. Method: sequences of arrivals and departures in two isolation modes; a mirror of the
/// queued packets; a second queue with the same operations whose statistics are not read.
#[test]
fn flows_and_hosts_are_those_of_a_naive_tally() {
    for (isolation, mode) in [
        (Isolation::DualSrcHost, TinMode::BestEffort),
        (Isolation::TripleIsolate, TinMode::BestEffort),
        (Isolation::DualSrcHost, TinMode::Diffserv4),
    ] {
        let builder = SmartQueue::upload(Rate::megabits_per_second(100).unwrap());
        let builder = builder.tins(mode).isolation(isolation).tables(256, 64).buffers(40);
        let builder = builder.limits(Limits { packets: 30, bytes: 30_000 });
        let (mut queue, mut silent) =
            (builder.descriptors().unwrap(), builder.descriptors().unwrap());
        let mut random = Xorshift::new(3);
        let (mut queued, mut delays) = (BTreeMap::<u32, Queued>::new(), DelayHistogram::new());
        let mut activations = [0; 3];
        let mut now = Nanos(5);
        for turn in 0..effort(1_500, 4_000_u32) {
            now = now.plus(Nanos(u64::from(random.below(200_000))));
            let handle = turn % 40;
            let mut gone = Vec::new();
            if random.below(5) < 3 && !queued.contains_key(&handle) {
                let flow = random.below(12);
                let len = 60 + random.below(1_400);
                let tin = random.byte() % mode.plan().count();
                let packet = Queued { flow, host: flow / 3, peer: flow % 4, tin, len, came: now };
                let labels = labels_of(&packet);
                let is_idle =
                    |is_of: &dyn Fn(&Queued) -> bool| u64::from(!queued.values().any(is_of));
                activations[0] += is_idle(&|other| (other.tin, other.flow) == (tin, flow));
                activations[1] += is_idle(&|other| other.host == packet.host);
                if isolation == Isolation::TripleIsolate {
                    activations[2] += is_idle(&|other| other.peer == packet.peer);
                }
                let drops = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
                let taken = queue.enqueue(now, &labels, Packet::new(handle, len), drops);
                let again = silent.enqueue(now, &labels, Packet::new(handle, len), &mut |_, _| {});
                assert_eq!(taken, again);
                if taken.is_ok() {
                    queued.insert(handle, packet);
                }
            } else {
                let drops = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
                let left = queue.dequeue(now, drops);
                assert_eq!(silent.dequeue(now, &mut |_, _| {}), left);
                if let Some(packet) = left {
                    let waited = queue.isolated().waited(packet, now);
                    let came = queued.remove(&packet.handle).expect("it was queued").came;
                    assert_eq!(waited, ticks(now, came));
                    delays.add(waited);
                }
            }
            for handle in gone {
                queued.remove(&handle).expect("it was queued");
            }
            compare(&queue, &queued, now);
        }
        assert!(delays.count() > effort(200, 500), "{}", delays.count());
        let all = queue.statistics().activations;
        assert_eq!([all.flows, all.source_hosts, all.destination_hosts], activations);
        // A flow or host that returns after another used its entry counts as new again.
        let tins = u64::from(mode.plan().count());
        let new = [all.new_flows, all.new_source_hosts, all.new_destination_hosts];
        let least = [12 * tins, 4, activations[2].min(4)];
        for ((new, least), most) in new.into_iter().zip(least).zip(activations) {
            assert!((least..=most).contains(&new), "{all:?}");
        }
        let (statistics, counters) = (queue.statistics(), queue.counters());
        assert_eq!((statistics.counters, statistics.queued), (counters, queue.backlog()));
        assert_eq!(counters.delivered.packets, delays.count());
        let hosts = (statistics.source_hosts, statistics.destination_hosts);
        assert_eq!(hosts, queue.backlogged_hosts());
        assert_eq!(counters, silent.counters());
        let tins = (0..mode.plan().count()).map(|tin| queue.tin_statistics(tin).unwrap());
        let of_tins = tins.fold((0, 0), |(packets, drops), tin| {
            let dropped = tin.counters.dropped_total().packets;
            (packets + tin.queued.packets, drops + dropped)
        });
        assert_eq!(of_tins, (queue.backlog().packets, counters.dropped_total().packets));
        assert!(queue.tin_statistics(mode.plan().count()).is_none());
    }
}

/// Goal: a new flow is sparse; one that has used up a turn and stays backlogged is not, until it
/// has been idle. Method: in each isolation mode a flow with 20 packets, and another that arrives
/// when the first has sent 4; each is its own host.
#[test]
fn a_flow_that_stands_is_bulk() {
    for &isolation in Isolation::ALL {
        let builder = SmartQueue::upload(Rate::UNLIMITED).isolation(isolation);
        let mut queue = builder.descriptors().unwrap();
        let labels =
            |flow: u32| Labels { flow: mix(flow), src_host: mix(flow), dst_host: mix(flow) };
        let totals = |queue: &DescriptorQueue| {
            let FlowTotals { sparse, bulk, .. } = queue.isolated().flow_totals();
            (sparse, bulk)
        };
        assert_eq!(totals(&queue), (0, 0));
        for handle in 0..20 {
            let packet = Packet::new(handle, 1_514);
            queue.enqueue(Nanos(0), &labels(1), packet, &mut |_, _| {}).unwrap();
            assert_eq!(totals(&queue), (1, 0), "{isolation:?}");
        }
        for _ in 0..4 {
            assert!(queue.dequeue(Nanos(0), &mut |_, _| {}).is_some());
        }
        assert_eq!(totals(&queue), (0, 1), "{isolation:?}");
        queue.enqueue(Nanos(0), &labels(2), Packet::new(30, 100), &mut |_, _| {}).unwrap();
        assert_eq!(totals(&queue), (1, 1), "{isolation:?}");
        while queue.dequeue(Nanos(0), &mut |_, _| {}).is_some() {}
        assert_eq!(totals(&queue), (0, 0), "{isolation:?}");
    }
}

/// Goal: an unresponsive flow that overflows its queue is reported, and another one is not. Method:
/// with COBALT, packets of a flow that arrive twice as fast as they leave, into a small queue, and
/// those of another flow that never wait for long; with another AQM none is reported.
#[test]
fn a_flow_that_does_not_react_is_told() {
    for (aqm, expected) in [(AqmKind::Cobalt, 1), (AqmKind::CoDel, 0), (AqmKind::None, 0)] {
        let builder = SmartQueue::upload(Rate::megabits_per_second(12).unwrap()).aqm(aqm);
        let builder = builder.limits(Limits { packets: 50, bytes: 75_000 }).buffers(64);
        let mut queue = builder.descriptors().unwrap();
        let labels =
            |flow: u32| Labels { flow: mix(flow), src_host: mix(flow), dst_host: mix(flow) };
        let mut free: Vec<u32> = (0..64).collect();
        for step in 0..4_000_u64 {
            let now = Nanos::from_micros(500 * step);
            let mut gone = Vec::new();
            let drops = &mut |packet: Packet, _: DropReason| gone.push(packet.handle);
            let flow = if step % 10 == 9 { 2 } else { 1 };
            let packet = Packet::new(free.pop().expect("50 are queued at most"), 1_500);
            if let Err(rejected) = queue.enqueue(now, &labels(flow), packet, drops) {
                gone.push(rejected.packet.handle);
            }
            let drops = &mut |packet: Packet, _: DropReason| free.push(packet.handle);
            let left = queue.dequeue(now, drops);
            free.extend(left.map(|packet| packet.handle));
            free.append(&mut gone);
        }
        assert_eq!(queue.unresponsive_flows(), expected, "{aqm:?}");
        assert_eq!(queue.snapshot(Nanos::from_secs(2), None).unresponsive_flows, expected);
    }
}

/// Goal: with too few output entries some are left out, and nothing else happens.
#[test]
fn few_places_are_enough_for_few_entries() {
    let mut queue = SmartQueue::upload(Rate::UNLIMITED).tables(64, 64).descriptors().unwrap();
    for handle in 0..32 {
        let labels = Labels { flow: mix(handle), src_host: mix(handle), dst_host: 0 };
        queue.enqueue(Nanos(0), &labels, Packet::new(handle, 100), &mut |_, _| {}).unwrap();
    }
    let isolated = queue.isolated();
    let mut all = [HostStatistics::EMPTY; 64];
    let count = isolated.host_statistics(Side::Source, Nanos(0), &mut all);
    assert_eq!((isolated.host_entries(), queue.statistics().source_hosts), (64, count as u32));
    for places in 0..64 {
        let mut few = vec![HostStatistics::EMPTY; places];
        let found = isolated.host_statistics(Side::Source, Nanos(0), &mut few);
        let expected = all[..count].iter().filter(|host| (host.entry as usize) < places);
        assert!(few[..found].iter().eq(expected), "{places}");
    }
}

/// Goal: the JSON of a queue is the one in the guide, field by field.
#[test]
fn the_json_is_that_of_the_guide() {
    let builder = SmartQueue::upload(Rate::megabits_per_second(1).unwrap());
    let builder = builder.tables(8, 8).limits(Limits { packets: 3, bytes: 10_000 });
    let mut queue = builder.framing("docsis").unwrap().descriptors().unwrap();
    let mut delays = DelayHistogram::new();
    let drops = &mut |_: Packet, _: DropReason| {};
    for (handle, host) in [(0, 1), (1, 1), (2, 1), (3, 2)] {
        // No label equals the number of a queue.
        let label = |number: u32| 1 << 31 | number;
        let labels = Labels { flow: label(host), src_host: label(host), dst_host: label(3) };
        queue.enqueue(Nanos(0), &labels, Packet::new(handle, 1_000), drops).unwrap();
    }
    let now = Nanos::from_millis(2);
    if let Some(packet) = queue.dequeue(now, drops) {
        delays.add(queue.isolated().waited(packet, now));
    }
    let snapshot = queue.snapshot(Nanos::from_millis(5), Some(&delays));
    let guide = include_str!("../../docs/guide/metrics.md");
    let shown = guide.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    let shown: serde_json::Value = serde_json::from_str(shown.expect("a block of JSON")).unwrap();
    assert_eq!(serde_json::to_value(&snapshot).unwrap(), shown);
}
