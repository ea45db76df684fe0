//! The isolated queue: CAKE's shares in every mode, and books that hold whatever collides or changes.

mod gives_way_in_tins;
mod rates;
mod rates_in_tins;
mod sets;

use core::cell::Cell;
use std::collections::BTreeSet;

use conformance::Xorshift;
use conformance::effort::effort;
use freeboard::flowhash::{FlowHasher, Labeller, Labels, Outcome, TableError, mix, parse};
use freeboard::sched_core::{
    Cobalt, CobaltParams, CobaltState, ConfigError, DropReason, FlowId, Limits, Nanos, NoAqm,
    Packet, Probability, RejectReason, Scheduler, Side, TinConfig,
};
use freeboard::{
    ByLabeller, Heap, HostStatistics, InTin, Isolated, IsolatedConfig, IsolatedError,
    IsolatedMemory, Isolation, Labelled, NoRoom, OnDemand, Rekeyed, StaticRates, StaticTables,
    StaticTriple, Storage,
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
    queue.recount().expect("the counters are right");
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
    for &isolation in Isolation::ALL {
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
    for seed in 1..=effort(2, 6) {
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
    assert_eq!(queue.backlogged_hosts(), (1, 1), "no packet has named its hosts");
    assert_eq!(of_host_1(&mut queue), 4, "one flow of eight of one host");
    for flow in 0..8 {
        let labels = labels(flow, u32::from(flow == 7), 0);
        let packet = Packet::new(320 + flow, MTU);
        let outcome = queue.enqueue_labelled(Nanos(0), &labels, packet, drops).unwrap();
        assert_eq!(outcome, Outcome::Hit);
        queue.recount().expect("the counters are right");
    }
    assert_eq!(queue.backlogged_hosts(), (2, 1));
    assert_eq!(of_host_1(&mut queue), 16, "one host of two");
    queue.set_isolation(Isolation::TripleIsolate).expect("there is room");
    let triple = of_host_1(&mut queue);
    assert!((3..=5).contains(&triple), "{triple}: all eight flows go to one destination");
    queue.recount().expect("the counters are right");
}

/// Goal: where hosts do not count, nothing is kept of a host, whatever becomes of sets that are full and of isolations. Method:
/// histories in which each mode has its turn; in modes without hosts, no entry is held and no flow or host says a host.
#[test]
fn no_host_is_kept_where_hosts_do_not_count() {
    let without = [Isolation::Flows, Isolation::SrcHost, Isolation::DstHost, Isolation::Hosts];
    for tins in [1, 4] {
        let mut queue = one_set(Isolation::Flows, Limits::NONE);
        queue.set_tins(&vec![TinConfig::by_weight(1); tins]).expect("no more tins than ways");
        let modes = Isolation::ALL.iter().copied().filter(|mode| *mode != Isolation::TripleIsolate);
        let mut handle = 0;
        for isolation in modes.cycle().take(24) {
            queue.set_isolation(isolation).expect("there is room");
            for flow in 0..24 {
                let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
                let labels =
                    InTin { labels: labels(flow, flow % 5, flow % 3), tin: (flow % 4) as u8 };
                handle = (handle + 1) % 64;
                let _rejected =
                    queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops);
                if flow % 2 == 0 {
                    queue.dequeue(Nanos(0), drops);
                }
                queue.recount().expect("the counters are right");
                let counts = !without.contains(&isolation);
                let (sources, destinations) = queue.backlogged_hosts();
                let is_empty = queue.backlog().packets == 0;
                assert_eq!(sources > 0, counts && !is_empty, "{isolation}");
                assert_eq!(destinations > 0, counts && !is_empty, "{isolation}");
                for flow in queue.flow_statistics(Nanos(0)) {
                    assert_eq!(flow.source.is_some(), counts, "{isolation}");
                    assert_eq!(flow.destination.is_some(), counts, "{isolation}");
                }
                let mut hosts = [HostStatistics::EMPTY; 16];
                let found = queue.host_statistics(Side::Source, Nanos(0), &mut hosts);
                assert_eq!(found as u32, sources, "{isolation}");
            }
            assert!(queue.backlog().packets > 0);
        }
    }
}

/// Goal: a transition to another key ends where hosts do not count. Method: it begins in one mode, and ends by itself in the
/// other, by packets alone; both ways.
#[test]
fn a_new_key_takes_over_where_hosts_do_not_count() {
    for (from, to) in [
        (Isolation::Flows, Isolation::Flows),
        (Isolation::DualSrcHost, Isolation::Flows),
        (Isolation::Flows, Isolation::DualSrcHost),
    ] {
        let mut queue = queue(from, Limits::NONE);
        let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
        let both = |flow: u32| Rekeyed {
            before: labels(flow, flow % 3, 0),
            after: labels(flow + 100, 100 + flow % 3, 7),
        };
        for flow in 0..16 {
            let packet = Packet::new(flow, MTU);
            queue.enqueue_labelled(Nanos(0), &both(flow).before, packet, drops).unwrap();
        }
        queue.rotate().expect("it is the first");
        queue.set_isolation(to).expect("there is room");
        for flow in 0..16 {
            let packet = Packet::new(16 + flow, MTU);
            let outcome = queue.enqueue_labelled(Nanos(0), &both(flow), packet, drops);
            assert_eq!(outcome, Ok(Outcome::Hit), "the flow stays in its queue");
            queue.recount().expect("the counters are right");
        }
        while queue.dequeue(Nanos(0), drops).is_some() {}
        for packet in 0..200 {
            let labels = both(packet % 40);
            queue.enqueue_labelled(Nanos(0), &labels, Packet::new(packet, MTU), drops).unwrap();
            queue.dequeue(Nanos(0), drops).expect("one is queued");
            queue.recount().expect("the counters are right");
        }
        assert!(!queue.is_rotating(), "from {from} to {to}");
    }
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
    for (handle, isolation) in (0..).zip(Isolation::ALL.iter().copied()) {
        let packet = Packet::new(handle, 100);
        queue.enqueue_labelled(Nanos(0), &labels(1, 2, 3), packet, drops).unwrap();
        let before = queue.isolation();
        let expected = match isolation {
            Isolation::TripleIsolate => Err(IsolatedError::NoTriple),
            _ => Ok(()),
        };
        assert_eq!(queue.set_isolation(isolation), expected);
        assert_eq!(queue.isolation(), if expected.is_ok() { isolation } else { before });
        queue.recount().expect("the counters are right");
    }
    let sent = (0..9).filter_map(|_| queue.dequeue(Nanos(0), drops));
    // In which order, is a matter of the queues that the isolations chose.
    assert!(sent.map(|packet| packet.handle).collect::<BTreeSet<_>>().into_iter().eq(0..7));
}

/// Goal: the tables of arrays are those that are allocated. Method: the same packets in and out of both, in every
/// isolation; and tables for fewer groups than there are hosts are refused.
#[test]
fn tables_in_arrays_are_as_good_as_those_on_the_heap() {
    for &isolation in Isolation::ALL {
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
        in_arrays.recount().expect("the counters are right");
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
        queue.recount().expect("the counters are right");
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

/// Queues with a COBALT whose probability rises fast, so that one overflow is seen.
type Punishing = Isolated<Heap, Cobalt<Vec<CobaltState>>>;

/// Eight queues that hold `packets` packets together, by source host and flow.
fn punishing(packets: u32) -> Punishing {
    let memory = IsolatedMemory::<Heap>::allocate(8, 8, 64);
    let steps = [1 << 28, 1 << 20].map(Probability::from_raw);
    let params = CobaltParams::INTERNET.with_steps(steps[0], steps[1]);
    let aqm = Cobalt::new(vec![CobaltState::EMPTY; memory.queues()], params, 1).unwrap();
    let config = IsolatedConfig::new(1_500, Limits::packets(packets));
    Isolated::with_aqm(memory, aqm, config.isolated_by(Isolation::DualSrcHost)).unwrap()
}

/// How many queues, spare ones too, have a probability.
fn punished(queue: &Punishing) -> usize {
    let probability = |flow| queue.aqm().probability(FlowId(flow));
    (0..16).filter(|&flow| probability(flow) > Probability::NEVER).count()
}

/// Goal: what COBALT has learned of a flow waits for this flow, and another flow that gets its queue begins without it.
/// Method: a flow overflows, and leaves; it comes back; then as many other flows come as there are queues.
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

/// Goal: the same after the key has changed. Method: a flow overflows under the old key, the transition ends at once or with the
/// packets of other flows, and as many flows come as there are queues.
#[test]
fn a_flow_inherits_no_punishment_from_before_the_key_changed() {
    for ends_at_once in [true, false] {
        let mut queue = punishing(4);
        let drops = &mut |_: Packet, _: DropReason| {};
        let now = Nanos::from_secs(1);
        for handle in 0..8 {
            queue.enqueue(now, FlowId(100), Packet::new(handle, 1_000), drops).unwrap();
        }
        while queue.dequeue(now, drops).is_some() {}
        assert_eq!(punished(&queue), 1);
        queue.rotate().unwrap();
        if ends_at_once {
            assert_eq!(queue.finish_rotation(), 0);
        }
        queue.set_limits(Limits::packets(64), drops);
        for flow in 0..8 {
            let packet = Packet::new(flow, 1_000);
            queue.enqueue(now, FlowId(200 + flow), packet, drops).unwrap();
        }
        assert_eq!(queue.backlog().packets, 8);
        assert_eq!(punished(&queue), 0, "{ends_at_once}");
    }
}

/// Goal: nor does a flow that shares the spare queue of its host inherit what other flows did there, of its host or of the host that had
/// the entry before. Method: more flows of a host than there are queues overflow; then so do those of other hosts.
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
    assert_eq!(queue.backlog().packets, 24);
    assert_eq!(punished(&queue), 0);
}
