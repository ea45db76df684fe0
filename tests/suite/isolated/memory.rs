//! Tables from which the queue is built, and rejected configurations.

use freeboard::flowhash::TableError;
use freeboard::sched_core::ConfigError;
use freeboard::{IsolatedError, StaticTables};

use super::*;

/// Goal: a value out of range is rejected, and the error names the range.
#[test]
fn what_is_out_of_range_is_refused_with_the_range() {
    let refused = |(queues, hosts), change: &dyn Fn(&mut IsolatedConfig)| {
        let mut config = IsolatedConfig::new(MTU, Limits::NONE);
        change(&mut config);
        let memory = IsolatedMemory::<Heap>::allocate(queues, hosts, 1, 64);
        Isolated::new(memory, config).map(|_| ()).expect_err(&format!("{config:?}"))
    };
    let table = IsolatedError::Table;
    assert_eq!(refused((64, 16), &|of| of.ways = 3), table(TableError::Ways { ways: 3 }));
    let queues = |queues| table(TableError::Queues { queues, ways: 8 });
    assert_eq!(refused((48, 16), &|_| ()), queues(48));
    assert_eq!(refused((64, 4), &|_| ()), queues(4));
    for (quantum, host_quantum) in [(MTU - 1, MTU), (MTU, MTU - 1), (0, MTU), (MTU, u32::MAX)] {
        let error =
            refused((64, 16), &|of| (of.quantum, of.host_quantum) = (quantum, host_quantum));
        let is_range = matches!(error, IsolatedError::Config(ConfigError::OutOfRange { .. }));
        assert!(is_range, "{error}");
    }
    assert!(matches!(refused((64, 16), &|of| of.max_len = 0), IsolatedError::Config(_)));
}

/// Goal: tables in arrays behave like allocated ones. Method: the same packets in and out of both,
/// in every isolation mode, with two tins.
#[test]
fn tables_in_arrays_are_as_good_as_those_on_the_heap() {
    // Arrays have no tables for `triple-isolate`.
    let modes = Isolation::ALL.iter().filter(|mode| **mode != Isolation::TripleIsolate);
    for &isolation in modes {
        let config = IsolatedConfig::new(MTU, Limits::packets(48)).isolated_by(isolation);
        let allocated = IsolatedMemory::<Heap>::allocate(64, 16, 2, 64);
        let mut on_heap = Isolated::new(allocated, config).expect("powers of two");
        let mut tables = StaticTables::<64, 2, 2>::new();
        let mut in_arrays = Isolated::new(tables.memory(), config).expect("powers of two");
        let tins = [TinConfig::by_weight(1); 3];
        assert_eq!(on_heap.set_tins(&tins[..2]), in_arrays.set_tins(&tins[..2]));
        let no_room = IsolatedError::Memory { what: "turns", given: 32, needed: 64 };
        assert_eq!([on_heap.set_tins(&tins), in_arrays.set_tins(&tins)], [Err(no_room); 2]);
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
                let labels = InTin { labels, tin: random.below(2) as u8 };
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
        in_arrays.recount().expect("the books hold");
        assert_eq!(
            [0, 1].map(|tin| on_heap.tin_counters(tin)),
            [0, 1].map(|tin| in_arrays.tin_counters(tin))
        );
        assert!(on_heap.counters().dropped_total().packets > 100, "{isolation}");
    }
}
