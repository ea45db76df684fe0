//! Expectations of the paper and the RFCs for the lists, COBALT and the ACK filter, calculated
//! manually.

use super::*;
use conformance::rng::Streams;
use freeboard::flowhash::Transport;

const MTU: u32 = 1_514;
const NONE: Limits = Limits { packets: u32::MAX, bytes: u32::MAX };

/// A queue and the fate of its packets. The handle of a packet is its flow × 10,000 plus its index
/// in the flow.
struct Bench {
    lists: FlowLists,
    came: [u32; 8],
    dropped: Vec<(u32, DropReason)>,
    /// Handles of data packets. All others are acknowledgements: the flow is their connection,
    /// their index is the number.
    data: Vec<u32>,
}

impl Bench {
    fn new(kilobits: u64, limits: Limits, filter: AckFilter) -> Self {
        let rate = Rate::kilobits_per_second(kilobits).unwrap();
        let lists = FlowLists::new(rate, Overhead::RAW, limits, MTU, filter);
        Self { lists, came: [0; 8], dropped: Vec::new(), data: Vec::new() }
    }

    fn key(flow: u32) -> FlowKey {
        let transport = Transport { protocol: 6, src_port: flow as u16, dst_port: 80 };
        FlowKey::V4 { src: [10, 0, 0, 1], dst: [10, 0, 0, 2], transport }
    }

    /// Enqueues a packet, data or an acknowledgement. Returns true if it was accepted.
    fn enter(&mut self, now: Nanos, flow: u32, len: u32, ecn: Ecn) -> bool {
        let Self { lists, came, dropped, data } = self;
        let handle = flow * 10_000 + came[flow as usize];
        came[flow as usize] += 1;
        let acks = |packet: Packet| {
            let is_ack = !data.contains(&packet.handle);
            is_ack.then(|| Ack::new(Self::key(packet.handle / 10_000), 1, packet.handle % 10_000))
        };
        let packet = Packet { ecn, ..Packet::new(handle, len) };
        let drops = &mut |packet: Packet, why| dropped.push((packet.handle, why));
        lists.arrive(now, &Self::key(flow), packet, &acks, drops).is_ok()
    }

    fn leave(&mut self, now: Nanos) -> Option<Packet> {
        let dropped = &mut self.dropped;
        self.lists.dequeue(now, &mut |packet: Packet, why| dropped.push((packet.handle, why)))
    }

    /// Returns the flows served next.
    fn order(&mut self, now: Nanos, packets: usize) -> Vec<u32> {
        (0..packets).map_while(|_| self.leave(now)).map(|packet| packet.handle / 10_000).collect()
    }

    /// Compares the counters with the observed packets.
    fn check(&self, delivered: &[Packet], accepted: u64) {
        let counters = self.lists.counters();
        let held = self.lists.backlog();
        assert_eq!(self.lists.recount(), Ok(()));
        assert_eq!(counters.accepted.packets, accepted);
        assert_eq!(counters.delivered.packets, delivered.len() as u64);
        let bytes: u64 = delivered.iter().map(|packet| u64::from(packet.len)).sum();
        assert_eq!(counters.delivered.bytes, bytes);
        for &reason in DropReason::ALL {
            if reason != DropReason::Rejected {
                let seen = self.dropped.iter().filter(|dropped| dropped.1 == reason).count();
                assert_eq!(counters.dropped_for(reason).packets, seen as u64, "{reason:?}");
            }
        }
        let gone = counters.delivered.packets + self.dropped.len() as u64;
        assert_eq!(counters.accepted.packets, gone + u64::from(held.packets));
        let queued: u32 = self.lists.flows.iter().flat_map(|of| &of.queue).map(|of| of.0.len).sum();
        assert_eq!(queued, held.bytes);
        let limits = self.lists.limits();
        assert!(held.packets <= limits.packets && held.bytes <= limits.bytes, "{held:?}");
    }
}

/// RFC 8290 §4.1.2: deficit round robin by bytes. The service of backlogged flows never differs by
/// more than the longest packet plus a turn, whatever their packet lengths.
#[test]
fn flows_that_stay_have_the_same_bytes() {
    let mut bench = Bench::new(10_000, NONE, AckFilter::Off);
    let lens = [1_514, 300, 66, 777];
    for (flow, len) in (0..4).zip(lens) {
        (0..400).for_each(|_| assert!(bench.enter(Nanos::ZERO, flow, len, Ecn::NotEct)));
    }
    let mut bytes = [0_u32; 4];
    // The shortest packets, 400 of 66 bytes, run out last.
    while bytes[2] < 26_000 {
        let packet = bench.leave(Nanos::ZERO).unwrap();
        bytes[packet.handle as usize / 10_000] += packet.len;
        let [least, most] = [bytes.iter().min(), bytes.iter().max()].map(|of| *of.unwrap());
        assert!(most - least <= MTU + 305, "{bytes:?}");
    }
}

/// RFC 8290 §4.2: a new flow is served first for one quantum and then becomes an old flow. The
/// quantum at 20 Mbit/s is 610 bytes, which is 305 for each of two flows that keep sending: two
/// packets of 200.
#[test]
fn a_flow_that_begins_is_first_for_a_quantum() {
    let mut bench = Bench::new(20_000, NONE, AckFilter::Off);
    for flow in [0, 1] {
        (0..9).for_each(|_| assert!(bench.enter(Nanos::ZERO, flow, 600, Ecn::NotEct)));
    }
    assert_eq!(bench.order(Nanos::ZERO, 6), [0, 0, 1, 1, 0, 1]);
    (0..3).for_each(|_| assert!(bench.enter(Nanos::ZERO, 2, 200, Ecn::NotEct)));
    assert_eq!(bench.order(Nanos::ZERO, 4), [2, 2, 0, 2]);
    assert_eq!(bench.lists.flows[2].place, Place::Bulk);
}

/// Algorithm 2: the quantum is divided by the number of the host's flows that keep sending. A flow
/// that becomes empty before its turn ends does not count until it has a packet again.
#[test]
fn the_quantum_is_divided_by_flows_that_keep_sending() {
    let mut bench = Bench::new(10_000, NONE, AckFilter::Off);
    for flow in 0..3 {
        (0..20).for_each(|_| assert!(bench.enter(Nanos::ZERO, flow, MTU, Ecn::NotEct)));
    }
    assert_eq!(bench.lists.turn(), 305, "no flow has been served");
    bench.order(Nanos::ZERO, 4);
    assert_eq!(bench.lists.turn(), 305 / 3);
    // A packet longer than the turn, alone in its queue.
    assert!(bench.enter(Nanos::ZERO, 3, 400, Ecn::NotEct));
    assert_eq!(bench.order(Nanos::ZERO, 2)[0], 3);
    assert_eq!(bench.lists.flows[3].place, Place::SparseWait);
    assert_eq!(bench.lists.turn(), 305 / 3);
    assert!(bench.enter(Nanos::ZERO, 3, 400, Ecn::NotEct));
    assert_eq!((bench.lists.flows[3].place, bench.lists.turn()), (Place::Bulk, 305 / 4));
}

/// 1/4096 of the bytes per second, between 300 bytes and a frame.
#[test]
fn the_quantum_is_that_of_the_rate() {
    for (kilobits, quantum) in
        [(8, 300), (9_600, 300), (10_000, 305), (40_000, 1_220), (1_000_000, 1_514)]
    {
        assert_eq!(Bench::new(kilobits, NONE, AckFilter::Off).lists.quantum, quantum, "{kilobits}");
    }
}

/// Goal: COBALT's drop times at 1 Mbit/s. Method: a frame takes 12.112 ms, so four take 48.448 ms,
/// and the interval is 100 ms plus the growth of the target: 1.5 frames less 5 ms, 113.168 ms. By
/// RFC 8289 §5.5 it is divided by √1, √2, √3, √4: a queue that first exceeds the target at 100 ms
/// has drops from 213.168 on, 80.022, 65.337 and 56.584 ms apart. Packets leave each millisecond.
#[test]
fn drops_come_closer_by_the_square_root() {
    for (ecn, is_marked) in [(Ecn::NotEct, false), (Ecn::Ect0, true)] {
        let mut bench = Bench::new(1_000, NONE, AckFilter::Off);
        (0..500).for_each(|_| assert!(bench.enter(Nanos::ZERO, 0, 100, ecn)));
        let mut times = Vec::new();
        for ms in 100..420 {
            let packet = bench.leave(Nanos::from_millis(ms)).unwrap();
            let dropped = core::mem::take(&mut bench.dropped);
            assert!(dropped.iter().all(|dropped| dropped.1 == DropReason::Aqm));
            if is_marked {
                assert_eq!(dropped, []);
            }
            if packet.ecn == Ecn::Ce || !dropped.is_empty() {
                times.push(ms);
            }
        }
        assert_eq!(times, [214, 294, 359, 416], "{ecn:?}");
    }
}

/// Goal: packets that wait for up to four frames' time are not dropped, as in CAKE. Method: 1
/// Mbit/s, sojourn times of 48 or 49 ms.
#[test]
fn four_frames_may_wait() {
    for (waits, drops) in [(48, false), (49, true)] {
        let mut bench = Bench::new(1_000, NONE, AckFilter::Off);
        for ms in 0..2_000 {
            assert!(bench.enter(Nanos::from_millis(ms), 0, 100, Ecn::NotEct));
            if ms >= waits {
                assert!(bench.leave(Nanos::from_millis(ms)).is_some());
            }
        }
        assert_eq!(!bench.dropped.is_empty(), drops, "{waits} ms");
    }
}

/// The last packet of a queue is delivered, however late it is.
#[test]
fn the_last_packet_of_a_queue_is_never_dropped() {
    let mut bench = Bench::new(1_000, NONE, AckFilter::Off);
    for second in 0..60 {
        assert!(bench.enter(Nanos::from_secs(second), 0, MTU, Ecn::NotEct));
        assert!(bench.leave(Nanos::from_secs(second).plus(Nanos::from_millis(900))).is_some());
    }
    assert_eq!(bench.dropped, []);
}

/// Goal: an empty flow is forgotten only after its COBALT state is reset. Method: a flow with drops
/// becomes empty; another one is served once a second, for a minute.
#[test]
fn what_cobalt_remembers_is_forgotten_with_time() {
    let mut bench = Bench::new(1_000, NONE, AckFilter::Off);
    (0..400).for_each(|_| assert!(bench.enter(Nanos::ZERO, 0, 100, Ecn::NotEct)));
    let mut ms = 100;
    while bench.leave(Nanos::from_millis(ms)).is_some() {
        ms += 1;
    }
    let mut counts = Vec::new();
    let mut places = Vec::new();
    for second in 1..60 {
        let now = Nanos::from_millis(ms + second * 1_000);
        assert!(bench.enter(now, 1, 100, Ecn::NotEct));
        assert!(bench.leave(now).is_some());
        counts.push(bench.lists.flows[0].cobalt.count);
        places.push(bench.lists.flows[0].place);
    }
    assert!(counts[0] >= 3, "{counts:?}");
    assert!(counts.is_sorted_by(|before, after| before >= after), "{counts:?}");
    assert!(places.contains(&Place::Decaying), "{places:?}");
    assert_eq!((counts.last(), places.last()), (Some(&0), Some(&Place::None)));
}

/// §III, ACK filtering: the conservative mode keeps two acknowledgements, the aggressive one the
/// last. The first acknowledgement behind data is dropped in neither mode.
#[test]
fn superfluous_acknowledgements_go() {
    let gone = |filter, data: &[u32]| {
        let mut bench = Bench::new(1_000, NONE, filter);
        bench.data = data.to_vec();
        (0..5).for_each(|_| assert!(bench.enter(Nanos::ZERO, 0, 66, Ecn::NotEct)));
        assert!(bench.dropped.iter().all(|dropped| dropped.1 == DropReason::Filtered));
        let order: Vec<_> =
            core::iter::from_fn(|| bench.leave(Nanos::ZERO)).map(|packet| packet.handle).collect();
        assert_eq!(order.len() + bench.dropped.len(), 5);
        assert!(order.is_sorted());
        bench.dropped.into_iter().map(|dropped| dropped.0).collect::<Vec<_>>()
    };
    assert_eq!(gone(AckFilter::Off, &[]), [0; 0]);
    assert_eq!(gone(AckFilter::Conservative, &[]), [0, 1, 2]);
    assert_eq!(gone(AckFilter::Aggressive, &[]), [0, 1, 2, 3]);
    // 0 is not directly before 2, so both stay until 3 arrives. Each arrival removes one.
    assert_eq!(gone(AckFilter::Aggressive, &[1]), [0, 2]);
    assert_eq!(gone(AckFilter::Conservative, &[1, 2, 3]), [0; 0]);
}

/// Goal: counters are right after every call, flows keep their packet order, and limits hold.
/// Method: random packets of eight flows, departures, new limits, a drain at the end.
#[test]
fn every_packet_is_accounted_for() {
    for seed in 1..=8 {
        let mut draws = Streams::new(seed).stream("lists");
        let limits = Limits { packets: 60, bytes: 30_000 };
        let filter = AckFilter::ALL[seed as usize % AckFilter::ALL.len()];
        let mut bench = Bench::new(1_000, limits, filter);
        let (mut accepted, mut delivered, mut now) = (0, Vec::new(), Nanos::ZERO);
        for _ in 0..3_000 {
            now = now.plus(Nanos(draws.below(8_000_000)));
            match draws.below(100) {
                0 => {
                    let packets = 20 + draws.below(60) as u32;
                    let limits = Limits { packets, bytes: 10_000 + draws.below(30_000) as u32 };
                    let Bench { lists, dropped, .. } = &mut bench;
                    lists.set_limits(limits, &mut |packet: Packet, why| {
                        dropped.push((packet.handle, why));
                    });
                }
                1..50 => delivered.extend(bench.leave(now)),
                _ => {
                    let (flow, len) = (draws.below(8) as u32, 66 + draws.below(1_448) as u32);
                    let before = bench.lists.backlog();
                    let limits = bench.lists.limits();
                    let has_room =
                        before.packets < limits.packets && before.bytes + len <= limits.bytes;
                    let is_accepted = bench.enter(now, flow, len, Ecn::NotEct);
                    assert_eq!(is_accepted, has_room);
                    accepted += u64::from(is_accepted);
                }
            }
            bench.check(&delivered, accepted);
        }
        for flow in 0..8 {
            let of = |packet: &&Packet| packet.handle / 10_000 == flow;
            assert!(delivered.iter().filter(of).is_sorted_by_key(|packet| packet.handle));
        }
        let Bench { lists, dropped, .. } = &mut bench;
        lists.drain(&mut |packet: Packet, why| dropped.push((packet.handle, why)));
        bench.check(&delivered, accepted);
        assert_eq!(bench.lists.backlog(), Backlog::default());
        assert_eq!(bench.leave(now), None);
    }
}
