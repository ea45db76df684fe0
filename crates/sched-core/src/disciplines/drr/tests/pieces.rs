//! One turn per round, in pieces: what a flow that empties and returns gets with sparse flows
//! first.

use super::*;
use conformance::Xorshift;
use std::vec;

/// Creates a scheduler with the given quanta, flow by flow, and packets of up to 100 bytes.
fn sparse_first(quanta: &[u32]) -> Link<Drr<Vec<DrrFlow>>> {
    let flows = vec![DrrFlow::EMPTY; quanta.len()];
    let mut scheduler = Drr::new(flows, 100).unwrap().sparse_first();
    for (flow, &quantum) in (0..).zip(quanta) {
        scheduler.configure(FlowId(flow), quantum, None).unwrap();
    }
    Link::over(scheduler, quanta.len())
}

/// Goal: a flow that sends less than its share waits for one packet, not for a round, however many
/// flows are backlogged. Method: 24 backlogged flows; another sends 10 bytes after each third
/// packet, a third of its share.
#[test]
fn a_sparse_flow_waits_for_no_round() {
    let mut link = sparse_first(&[100; 25]);
    (0..24).for_each(|flow| (0..100).for_each(|_| link.enqueue(flow, 100)));
    (0..24).for_each(|_| assert!(link.dequeue().is_some()));
    for probe in 0..200 {
        link.enqueue(24, 10);
        assert_eq!(link.dequeue(), Some((24, 10)), "probe {probe}");
        (0..3).for_each(|_| assert_ne!(link.dequeue().unwrap().0, 24));
        link.recount().unwrap();
    }
}

/// Goal: the rest of a turn outlives neither the round nor a quantum lowered below what was used.
#[test]
fn the_rest_of_a_turn_is_of_that_turn() {
    let mut line = Letters::sparse_first(100);
    line.put("aaaaaaaacccccccc", 100);
    assert_eq!(line.get(2), "ac");
    line.put("b", 60);
    assert_eq!(line.get(1), "b");
    // 40 bytes are left: with 60 more the turn is over, and 20 are owed.
    line.put("b", 60);
    assert_eq!((line.get(1).as_str(), state_of_b(&line)), ("b", 20));
    line.put("b", 10);
    assert_eq!((line.get(3).as_str(), state_of_b(&line)), ("acb", 30), "behind those that stand");
    // Flow b emptied on the old list, with 70 left, and returns to the new one.
    line.put("b", 10);
    assert_eq!((line.get(1).as_str(), state_of_b(&line)), ("b", 40));
    assert_eq!(line.get(2), "ac", "the round is over");
    line.put("b", 10);
    assert_eq!((line.get(1).as_str(), state_of_b(&line)), ("b", 10));

    line.set('b', 300);
    line.put("bb", 100);
    assert_eq!((line.get(2).as_str(), state_of_b(&line)), ("bb", 210));
    line.set('b', 150);
    assert_eq!(state_of_b(&line), 60, "used up, and 60 owed");
    line.put("b", 10);
    assert_eq!(line.get(3), "acb");
}

fn state_of_b(line: &Letters) -> u32 {
    line.queues.recount().unwrap();
    line.queues.scheduler().nodes[1].flow.charged
}

/// Runs flow 1 beside flow 0, which stays backlogged and sends a turn's worth with each packet.
///
/// Returns all bytes of flow 1, and the most that flow 1 gets in any interval beyond a quantum for
/// each turn of flow 0. `len` returns the next length of flow 1, and whether flow 1 first waits
/// until it is empty.
fn beside(quanta: &[u32], turns: u32, len: impl Fn(&mut Xorshift) -> (u32, bool)) -> (u64, i64) {
    let (mut link, mut random) = (sparse_first(quanta), Xorshift::new(5));
    let (mut bytes, mut ahead, mut least, mut most) = (0, 0, 0, 0);
    let mut turn = 0;
    while turn < turns {
        for flow in 2..quanta.len() as u32 {
            while link.queues[flow as usize].len() < 2 {
                link.enqueue(flow, 1 + random.below(100));
            }
        }
        while link.queues[0].len() < 2 {
            link.enqueue(0, quanta[0]);
        }
        let (len, when_empty) = len(&mut random);
        if !when_empty || link.queues[1].is_empty() {
            link.enqueue(1, len);
        }
        match link.dequeue().unwrap() {
            (0, _) => {
                turn += 1;
                ahead -= i64::from(quanta[1]);
            }
            (1, len) => {
                bytes += u64::from(len);
                ahead += i64::from(len);
            }
            _ => {}
        }
        (least, most) = (least.min(ahead), most.max(ahead - least.min(ahead)));
        if random.below(64) == 0 {
            link.recount().unwrap();
            // Flow 1 may also lose its packets.
            while random.below(2) == 0 && !link.queues[1].is_empty() {
                link.lose(1, true);
            }
        }
    }
    (bytes, most)
}

/// Length of the next packet, and whether the flow waits until it is empty before it sends it.
type NextPacket = fn(&mut Xorshift) -> (u32, bool);

/// Goal: a flow that empties and returns in any pattern gets at most k + 2 quanta and a packet less
/// one byte in any k turns of a flow that stays backlogged. In the long run it gets no more than
/// its share.
///
/// Method: flow 1 sends in the patterns that gain most if a flow that empties on the old list is
/// new at once. It sends a packet whenever it is empty, of a quantum, one byte less, or random
/// length; beside one flow or four, with quanta of 100 to 250.
#[test]
fn a_flow_that_keeps_returning_has_a_turn_a_round() {
    let ways: [(&str, NextPacket); 5] = [
        ("a quantum", |_| (100, true)),
        ("a byte less", |_| (99, true)),
        ("short ones", |random| (1 + random.below(20), true)),
        ("any", |random| (1 + random.below(100), random.below(3) > 0)),
        ("stands now and then", |random| (1 + random.below(100), random.below(50) > 0)),
    ];
    for quanta in [&[100, 100][..], &[100, 150], &[100, 250, 100, 130], &[100, 100, 100, 100, 100]]
    {
        for (way, len) in ways {
            let turns = 20_000;
            let (bytes, most) = beside(quanta, turns, len);
            let quantum = i64::from(quanta[1]);
            assert!(most <= 2 * quantum + 99, "{way}, {quanta:?}: {most}");
            let share = bytes as f64 / (f64::from(turns) * f64::from(quanta[1]));
            assert!(share < 1.001, "{way}, {quanta:?}: {share}");
        }
    }
    // With a turn on each list in every round, flow 1 would get twice that.
    let (bytes, _) = beside(&[100, 100], 20_000, ways[0].1);
    assert_eq!(bytes, 2_000_000, "its share, and all of it");
}

/// Goal: flows that send one byte less than the quantum leave a backlogged flow its share. Method:
/// eight of them beside one, each sending a packet when its last one is gone. Two packets per round
/// would leave the one flow 1/17.
#[test]
fn flows_of_a_byte_less_than_the_quantum_have_no_two_turns() {
    let mut link = sparse_first(&[100; 9]);
    let mut of_standing = 0_u32;
    for _ in 0..90_000 {
        for flow in 0..8 {
            if link.queues[flow].is_empty() {
                link.enqueue(flow as u32, 99);
            }
        }
        while link.queues[8].len() < 2 {
            link.enqueue(8, 100);
        }
        of_standing += u32::from(link.dequeue().unwrap().0 == 8);
    }
    assert!((9_900..10_100).contains(&of_standing), "{of_standing} of 10,000");
}
