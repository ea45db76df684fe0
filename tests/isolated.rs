//! The isolated queue: CAKE's shares in every mode, and books that hold whatever collides or changes.

use core::fmt::Debug;
use std::collections::BTreeSet;

use freeboard::flowhash::{Labels, TableError, mix};
use freeboard::sched_core::{
    ConfigError, DropReason, FlowId, Limits, Nanos, Packet, RejectReason, Scheduler,
};
use freeboard::{
    Allocate, Isolated, IsolatedConfig, IsolatedError, IsolatedMemory, Isolation, Labelled, Storage,
};

#[derive(Debug)]
enum Vecs {}

impl Storage for Vecs {
    type Of<T: Debug + 'static> = Vec<T>;
}

impl Allocate for Vecs {
    fn table<T: Clone + Debug + 'static>(empty: T, len: usize) -> Vec<T> {
        vec![empty; len]
    }
}

const MTU: u32 = 1_500;

fn labels(flow: u32, source: u32, destination: u32) -> Labels {
    Labels { flow: mix(flow + 1), src_host: mix(source + 1), dst_host: mix(destination + 1) }
}

fn queue(isolation: Isolation, limits: Limits) -> Isolated<Vecs> {
    let memory = IsolatedMemory::allocate(64, 16, 4_096, 64);
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
    let mut put = |queue: &mut Isolated<Vecs>, handle: u32| {
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
    queue.recount().expect("the books are right");
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
    for isolation in Isolation::ALL {
        assert_eq!(isolation.name().parse(), Ok(isolation));
    }
    let error = "dual".parse::<Isolation>().expect_err("no such mode");
    assert!(error.to_string().ends_with("dual-srchost dual-dsthost triple-isolate"), "{error}");
}

/// xorshift64 (Marsaglia 2003), shifts 13, 7, 17.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(((self.0 >> 32) * u64::from(bound)) >> 32).expect("below a u32")
    }
}

/// Random packets of far more flows and hosts than there is room for, changes of isolation and limits:
/// the books hold after every operation, and every handle comes home once.
#[test]
fn the_books_hold_under_collisions_and_changes() {
    const HANDLES: u32 = 128;
    for seed in 1..=6 {
        let memory = IsolatedMemory::<Vecs>::allocate(16, 4, HANDLES as usize, 8);
        let config = IsolatedConfig {
            ways: 4,
            ..IsolatedConfig::new(MTU, Limits { packets: 60, bytes: 40_000 })
        };
        let mut queue = Isolated::new(memory, config).expect("sizes are powers of two");
        let mut random = Random(0x9e37_79b9 + seed);
        let (mut inside, mut free) = (BTreeSet::new(), Vec::from_iter(0..HANDLES));
        let mut outcomes = [0_u32; 3];
        for step in 0..6_000 {
            let mut gone = Vec::new();
            let drops = &mut |packet: Packet, _| gone.push(packet.handle);
            match random.below(100) {
                0 => queue.set_isolation(Isolation::ALL[random.below(7) as usize]),
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
            queue.recount().unwrap_or_else(|wrong| panic!("seed {seed}, step {step}: {wrong:?}"));
        }
        assert!(outcomes.iter().all(|&count| count > 100), "{outcomes:?}");
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
    let of_host_1 = |queue: &mut Isolated<Vecs>| {
        let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
        let sent = (0..32).filter_map(|_| queue.dequeue(Nanos(0), drops));
        sent.filter(|packet| packet.handle % 8 == 7).count()
    };
    assert_eq!(of_host_1(&mut queue), 4, "one flow of eight");
    queue.set_isolation(Isolation::DualSrcHost);
    assert_eq!(queue.backlogged_hosts(), (2, 1));
    assert_eq!(of_host_1(&mut queue), 16, "one host of two");
    queue.set_isolation(Isolation::TripleIsolate);
    let triple = of_host_1(&mut queue);
    assert!((3..=5).contains(&triple), "{triple}: all eight flows go to one destination");
    queue.recount().expect("the books are right");
}

/// A packet of one of two hosts of which the second has three times the weight.
struct Weighted(Labels);

impl Labelled for Weighted {
    fn flow(&self) -> u32 {
        self.0.flow
    }

    fn source(&self) -> u32 {
        self.0.src_host
    }

    fn destination(&self) -> u32 {
        self.0.dst_host
    }

    fn host_quantum(&self) -> Option<u32> {
        // Out of range at either end counts as the nearest that is not.
        Some(if self.0.src_host == mix(2) { 3 * MTU } else { 0 })
    }
}

#[test]
fn hosts_have_weights() {
    let mut queue = queue(Isolation::DualSrcHost, Limits::NONE);
    let drops = &mut |packet: Packet, why| panic!("{packet:?}: {why:?}");
    for handle in 0..800 {
        let labels = Weighted(labels(handle % 4, u32::from(handle % 4 == 3), 0));
        queue.enqueue_labelled(Nanos(0), &labels, Packet::new(handle, MTU), drops).unwrap();
    }
    let sent = (0..200).filter_map(|_| queue.dequeue(Nanos(0), drops));
    assert_eq!(sent.filter(|packet| packet.handle % 4 == 3).count(), 150);
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

#[test]
fn what_is_out_of_range_is_refused_with_the_range() {
    let config = IsolatedConfig::new(MTU, Limits::NONE);
    let memory = || IsolatedMemory::<Vecs>::allocate(64, 16, 64, 64);
    let refused = |memory, config| {
        let built = Isolated::new(memory, config).map(|_| ());
        built.expect_err(&format!("{config:?}"))
    };

    let ways = refused(memory(), IsolatedConfig { ways: 3, ..config });
    assert_eq!(ways, IsolatedError::Table(TableError::Ways { ways: 3 }));
    let queues = refused(IsolatedMemory::allocate(48, 16, 64, 64), config);
    assert_eq!(queues, IsolatedError::Table(TableError::Queues { queues: 48, ways: 8 }));
    let hosts = refused(IsolatedMemory::allocate(64, 4, 64, 64), config);
    assert_eq!(hosts, IsolatedError::Table(TableError::Queues { queues: 4, ways: 8 }));
    let short = IsolatedMemory { rings: Vec::new(), ..memory() };
    let expected = IsolatedError::Memory { what: "rings", given: 0, needed: 16 };
    assert_eq!(refused(short, config), expected);
    assert_eq!(expected.to_string(), "rings: 0 elements, at least 16 are needed");
    for (quantum, host_quantum) in [(MTU - 1, MTU), (MTU, MTU - 1), (0, MTU), (MTU, u32::MAX)] {
        let error = refused(memory(), IsolatedConfig { quantum, host_quantum, ..config });
        let in_range =
            |value| matches!(value, IsolatedError::Config(ConfigError::OutOfRange { .. }));
        assert!(in_range(error), "{error}");
    }
    for rounds in [0, 1] {
        let error = refused(IsolatedMemory::allocate(64, 16, 64, rounds), config);
        assert!(matches!(error, IsolatedError::Config(_)), "{rounds} rounds: {error}");
    }
    assert!(matches!(
        refused(memory(), IsolatedConfig { max_len: 0, ..config }),
        IsolatedError::Config(_)
    ));
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
        queue.recount().expect("the books are right");
    }
    // As a plain scheduler, a flow is its own host.
    queue.enqueue(Nanos(0), FlowId(7), Packet::new(0, MTU), drops).unwrap();
    assert_eq!(queue.backlogged_hosts(), (1, 1));
}
