use super::*;
use crate::disciplines::qfq::tests::{out_of_range, refuses_what_is_out_of_range};
use crate::tests::link::{Link, Load};
use conformance::Xorshift;
use conformance::effort::effort;
use std::vec;
use std::vec::Vec;

type Plus = QfqPlus<Vec<PlusFlow>, Vec<Aggregate>, Vec<QfqFlow>>;

fn plus(flows: usize, max_len: u32, members: u32) -> Plus {
    let aggregates = vec![Aggregate::EMPTY; flows];
    let nodes = vec![QfqFlow::EMPTY; flows];
    QfqPlus::new(vec![PlusFlow::EMPTY; flows], aggregates, nodes, max_len, members).unwrap()
}

/// Returns up to four classes of flows, few enough that aggregates fill.
fn classes(random: &mut Xorshift, longest: u32) -> Vec<(u32, u32)> {
    let count = 1 + random.below(4);
    let class =
        |_| (1 + random.magnitude(16), ((1 + random.below(longest)) >> random.below(4)).max(1));
    (0..count).map(class).collect()
}

/// Goal: with one member per aggregate, the order of packets is that of QFQ. Method: the same
/// random load on both; every flow served is compared.
#[test]
fn with_aggregates_of_one_flow_it_is_qfq() {
    for seed in 1..=effort(5, 100) {
        let mut random = Xorshift::new(seed);
        let (count, longest) = (2 + random.below(30), 64 << random.below(10));
        let configs: Vec<_> = (0..count)
            .map(|_| {
                (1 + random.magnitude(16), ((1 + random.below(longest)) >> random.below(8)).max(1))
            })
            .collect();
        let mut ours = Link::with(plus(count as usize, longest, 1), &configs);
        let mut theirs =
            Link::with(Qfq::new(vec![QfqFlow::EMPTY; count as usize], longest).unwrap(), &configs);
        for operation in 0..10_000_u32 {
            let flow = random.below(count);
            let filling = operation >> 9 & 1 == 0;
            match random.below(64) {
                0 => {
                    ours.lose(flow, operation & 1 == 0);
                    theirs.lose(flow, operation & 1 == 0);
                }
                choice if (choice < 36) == filling => {
                    let len = (1 + random.magnitude(16)).min(configs[flow as usize].1);
                    ours.enqueue(flow, len);
                    theirs.enqueue(flow, len);
                }
                _ => assert_eq!(ours.dequeue(), theirs.dequeue(), "{seed}: {operation}"),
            }
            if operation % 64 == 0 {
                assert_eq!(ours.recount(), Ok(()));
            }
        }
    }
}

/// Plays random classes, lengths, arrivals and losses; with `churn` flows also come, go and change
/// class.
fn random_run(seed: u64, operations: u32, churn: bool) -> Result<(), Imbalance> {
    let mut random = Xorshift::new(seed);
    let (count, members) = (2 + random.below(40), 1 + random.below(8));
    let longest = 64 << random.below(10);
    let classes = classes(&mut random, longest);
    let class = |random: &mut Xorshift| classes[random.below(classes.len() as u32) as usize];
    let configs: Vec<_> = (0..count).map(|_| class(&mut random)).collect();
    let mut link = Link::with(plus(count as usize, longest, members), &configs);
    let load = Load { operations, churn, configs, draw: &class };
    load.play(&mut link, &mut random, &|plus| plus.check_lag())
}

#[test]
fn the_books_balance_over_a_long_random_run() {
    for seed in 1..=effort(5, 100) {
        assert_eq!(random_run(seed, 10_000, false), Ok(()), "{seed}");
    }
}

#[test]
fn the_books_balance_while_flows_come_and_go_and_change() {
    for seed in 1..=effort(5, 100) {
        assert_eq!(random_run(seed, 10_000, true), Ok(()), "{seed}");
    }
}

#[test]
fn without_room_for_another_aggregate_nothing_changes() {
    let (flows, aggregates) = ([PlusFlow::EMPTY; 4], [Aggregate::EMPTY; 2]);
    let mut plus = QfqPlus::new(flows, aggregates, [QfqFlow::EMPTY; 4], 1_500, 2).unwrap();
    let config = |weight| QfqConfig { weight, max_len: 1_500 };
    for (flow, weight) in [(0, 1), (1, 1), (2, 7)] {
        plus.configure(FlowId(flow), config(weight), None).unwrap();
    }
    let none_left = ConfigError::OutOfRange { what: "aggregates", value: 3, min: 1, max: 2 };
    assert_eq!(plus.configure(FlowId(3), config(1), None), Err(none_left));
    assert_eq!(plus.configure(FlowId(1), config(2), None), Err(none_left));
    assert_eq!(
        [1, 2, 3].map(|flow| plus.config(FlowId(flow)).map(|c| c.weight)),
        [Some(1), Some(7), None]
    );
    plus.configure(FlowId(2), config(3), None).expect("it leaves an aggregate of its own");
    plus.configure(FlowId(3), config(3), None).expect("there is one that is open");
    assert_eq!(plus.recount(&|_| FlowState::default()), Ok(()));
}

#[test]
fn what_is_out_of_range_is_refused_with_its_range_and_changes_nothing() {
    let made = |max_len, members| {
        let (flows, aggregates) = ([PlusFlow::EMPTY; 1], [Aggregate::EMPTY; 1]);
        QfqPlus::new(flows, aggregates, [QfqFlow::EMPTY; 1], max_len, members).map(|_| ())
    };
    for len in [0, 65_536, u32::MAX] {
        let error = out_of_range("longest packet in bytes", len.into(), 65_535);
        assert_eq!(made(len, 8), Err(error));
    }
    for members in [0, 9, u32::MAX] {
        let error = out_of_range("members of an aggregate", members.into(), 8);
        assert_eq!(made(1_500, members), Err(error));
    }
    let mut plus = plus(257, 1_500, 8);
    for flow in 0..256 {
        // 65,535 counts as 65,536, the weight of its inverse.
        let config = QfqConfig { weight: 65_536 - flow % 2, max_len: 1_500 };
        plus.configure(FlowId(flow), config, None).unwrap();
        plus.backlogged(FlowId(flow), 700);
    }
    refuses_what_is_out_of_range(&mut plus);
}

/// Goal: the cost in relative fairness. Method: two full aggregates of equal flows; all flows of
/// one are backlogged, and one flow of the other. With QFQ each would get a ninth; here that one
/// flow gets half and each of the others a sixteenth, as guaranteed.
#[test]
fn a_flow_whose_fellows_are_idle_has_their_share_as_well() {
    let mut link = Link::with(plus(16, 1_500, 8), &[(1, 1_500); 16]);
    for flow in 0..9 {
        link.enqueue(flow, 1_500);
    }
    let mut packets = [0; 16];
    for _ in 0..1_600 {
        let flow = link.scheduler.select().unwrap();
        link.scheduler.served(flow, 1_500, Some(1_500));
        packets[flow.index()] += 1;
    }
    assert_eq!(packets[..9], [100, 100, 100, 100, 100, 100, 100, 100, 800]);
}

#[test]
fn a_flow_takes_16_bytes_and_an_aggregate_48() {
    assert_eq!((size_of::<PlusFlow>(), size_of::<Aggregate>()), (16, 16));
    assert_eq!(size_of::<QfqFlow>(), 32);
    assert!(size_of::<QfqPlus<[PlusFlow; 0], [Aggregate; 0], [QfqFlow; 0]>>() <= 9_900);
}
