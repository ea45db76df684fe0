//! Quick fair queueing compared with its reference model where its rarer rules apply.

use conformance::effort::effort;
use conformance::history::{Coming, Operation, Setting, check, pair, soak_on};
use conformance::sides::{self, MAX_LEN};
use conformance::twin::{Exercised, Rule};
use freeboard::sched_core::{DropFrom, Limits};

const FLOWS: usize = 24;
const DESCRIPTORS: usize = 32;

fn operations(quick: u64) -> u64 {
    std::env::var("FREEBOARD_OPERATIONS").map_or(effort(quick, 4_000_000), |count| {
        count.parse().expect("FREEBOARD_OPERATIONS is a number")
    })
}

/// Returns a sequence of short-lived flows.
fn coming(seed: u64) -> Box<dyn Iterator<Item = Operation>> {
    Box::new(Coming::new(FLOWS as u32, seed))
}

/// Goal: every rule of "The exact order" decides the next flow many times. Method: the reference
/// model counts the applications of each rule: at least one, and one in 400,000 operations.
/// `FREEBOARD_OPERATIONS` sets another number of operations.
#[test]
fn agrees_with_its_twin_while_flows_come_and_go_and_every_rule_applies() {
    let exercised = Exercised::new();
    let sides =
        || pair(sides::qfq_counting::<FLOWS, DESCRIPTORS>(MAX_LEN, Limits::NONE, &exercised));
    let operations = operations(160_000);
    soak_on(&coming, &sides, 1, operations, 2_000)
        .unwrap_or_else(|difference| panic!("{difference}"));
    for rule in Rule::ALL {
        let count = exercised.count(rule);
        println!("{rule:?} applied {count} times");
        assert!(count >= (operations / 400_000).max(1), "{rule:?} applied {count} times");
    }
}

#[test]
fn agrees_with_its_twin_while_flows_come_and_go_and_the_longest_drops() {
    for (seed, end) in [(2, DropFrom::Head), (3, DropFrom::Tail)] {
        let limits = Limits { packets: 16, bytes: 8_000 };
        let sides = || pair(sides::qfq_lqd::<FLOWS, DESCRIPTORS>(MAX_LEN, end, limits));
        soak_on(&coming, &sides, seed, operations(50_000) / 4, 2_000)
            .unwrap_or_else(|difference| panic!("{difference}"));
    }
}

/// Goal: with more single flows than are examined, the victims agree. Method: 16 flows that mostly
/// send one packet at a time into a buffer of 14 packets, under DRR.
#[test]
fn agrees_with_its_twin_where_many_flows_hold_one_packet() {
    let singles = |seed: u64| -> Box<dyn Iterator<Item = Operation>> {
        let mut random = conformance::Xorshift::new(seed);
        let setting = Setting { weight: 1, max_len: MAX_LEN };
        let configured = (0..16).map(move |flow| Operation::Configure { flow, setting });
        let mut next = 0;
        Box::new(configured.chain(core::iter::repeat_with(move || {
            if random.below(3) == 0 {
                return Operation::Dequeue;
            }
            next = if random.below(8) == 0 { random.below(16) } else { (next + 1) % 16 };
            Operation::Enqueue { flow: next, len: 1 + random.below(MAX_LEN) }
        })))
    };
    for (seed, end) in [(2, DropFrom::Head), (3, DropFrom::Tail)] {
        let sides = || pair(sides::drr_lqd::<16, 32>(MAX_LEN, false, end, Limits::packets(14)));
        soak_on(&singles, &sides, seed, operations(50_000) / 4, 2_000)
            .unwrap_or_else(|difference| panic!("{difference}"));
    }
}

/// Aggregates fill and empty: 24 flows with one or two weights, one to eight members.
#[test]
fn qfq_plus_agrees_with_its_twin_while_flows_come_and_go() {
    for members in 1..=8 {
        let sides = || pair(sides::qfq_plus::<FLOWS, DESCRIPTORS>(MAX_LEN, members, Limits::NONE));
        soak_on(&coming, &sides, u64::from(members), operations(50_000) / 32, 2_000)
            .unwrap_or_else(|difference| panic!("{members} members: {difference}"));
    }
}

/// Goal: a start that eq. 17 shifts back is compared with `F_b` itself, not by its slot. Method:
/// flows 0 to 4 are charged too little, so that `V` is ahead of the `F` of their group. Flow 5 of
/// the group below becomes idle and backlogged again when `V` is in the slot that begins at that
/// `F`. If its start stayed at `V`, its next packet would be in a later slot.
#[test]
fn a_start_in_the_slot_that_begins_at_the_finish_above_is_shifted_back() {
    let configure =
        |flow, weight, max_len| Operation::Configure { flow, setting: Setting { weight, max_len } };
    let enqueue = |flow, len| Operation::Enqueue { flow, len };
    let dequeue = |times| core::iter::repeat_n(Operation::Dequeue, times);
    let (crowd, slow, other) = (0..5, 5..9, 9);
    let mut history = vec![configure(other, 1_000, 576), enqueue(other, 40), Operation::Dequeue];
    history.extend(slow.clone().map(|flow| configure(flow, 1_000, 1_500)));
    history.extend(slow.clone().map(|flow| enqueue(flow, 1_500)));
    history.extend(crowd.clone().map(|flow| configure(flow, 28_000, 1_500)));
    history.extend([1, 2, 3, 0, 4].map(|flow| enqueue(flow, 1_500)));
    history.extend(crowd.map(|flow| configure(flow, 1_000, 54)));
    history.extend(slow.map(|flow| configure(flow, 2_000, 54)));
    history.extend(dequeue(1));
    history.push(enqueue(5, 50));
    history.extend(dequeue(4));
    history.push(enqueue(6, 50));
    history.extend(dequeue(4));
    history.push(enqueue(5, 15));
    history.extend(dequeue(8));
    let exercised = Exercised::new();
    let sides =
        || pair(sides::qfq_counting::<FLOWS, DESCRIPTORS>(MAX_LEN, Limits::NONE, &exercised));
    check(&sides, &history).unwrap_or_else(|difference| panic!("{difference}"));
    assert_ne!(exercised.count(Rule::ShiftedWithinSlot), 0);
}
