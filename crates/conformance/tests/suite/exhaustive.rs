//! Exhaustive tests of small cases: all short sequences of operations on small schedulers, compared
//! with their reference models.
//!
//! With `FREEBOARD_TESTS=full` each test plays every string of eight letters from an alphabet of
//! seven operations, which is 5,764,801 strings, and compares everything after every letter. The
//! FIFOs use an alphabet of six, 1,679,616 strings. Tests with operations before the string use six
//! letters, 117,649 strings. Without `full`, strings have five letters, or one letter less than in
//! full where a test counts the rules that were applied. The alphabets contain the operations that
//! are critical for the discipline.

use conformance::catalog::Age;
use conformance::effort::effort;
use conformance::history::{ConfigurableScheduler, Operation, Setting, explore};
use conformance::sides;
use conformance::twin::{Exercised, Rule};
use freeboard::sched_core::{AgeParams, DropFrom, Limits, Nanos};

const FLOWS: usize = 3;
/// Enough for the flows, the operations before the string, and its letters.
const DESCRIPTORS: usize = 12;

const fn enqueue(flow: u32, len: u32) -> Operation {
    Operation::Enqueue { flow, len }
}

const fn set(flow: u32, weight: u32) -> Operation {
    Operation::Configure { flow, setting: Setting { weight, max_len: 500 } }
}

const DEQUEUE: Operation = Operation::Dequeue;

/// Adds three flows of weight 1, then plays all strings.
fn play<S, T>((subject, twin): (S, T), alphabet: &[Operation])
where
    S: ConfigurableScheduler + Clone,
    T: ConfigurableScheduler + Clone,
{
    play_after((subject, twin), &[set(0, 1), set(1, 1), set(2, 1)], alphabet);
}

/// Plays every string of `depth` letters after `prelude`.
fn play_all<S, T>(
    (subject, twin): (S, T),
    prelude: &[Operation],
    alphabet: &[Operation],
    depth: usize,
) where
    S: ConfigurableScheduler + Clone,
    T: ConfigurableScheduler + Clone,
{
    match explore(subject, twin, prelude, alphabet, depth) {
        Ok(histories) => assert_eq!(histories, (alphabet.len() as u64).pow(depth as u32)),
        Err(difference) => panic!("{difference}"),
    }
}

fn play_after<S, T>((subject, twin): (S, T), prelude: &[Operation], alphabet: &[Operation])
where
    S: ConfigurableScheduler + Clone,
    T: ConfigurableScheduler + Clone,
{
    play_all((subject, twin), prelude, alphabet, effort(5, 8));
}

#[test]
fn every_short_history_of_a_fifo_with_tail_drop() {
    let letters = [
        enqueue(0, 100),
        enqueue(1, 300),
        enqueue(2, 501),
        DEQUEUE,
        Operation::SetLimits { packets: 3, bytes: 500 },
        Operation::EnqueueAs { flow: 0, len: 64, handle: 1 },
    ];
    play(sides::fifo::<DESCRIPTORS>(DropFrom::Tail, Limits::packets(3)), &letters);
}

#[test]
fn every_short_history_of_a_fifo_with_head_drop() {
    let letters = [
        enqueue(0, 100),
        enqueue(1, 300),
        enqueue(2, 500),
        DEQUEUE,
        Operation::SetLimits { packets: 2, bytes: u32::MAX },
        Operation::EnqueueAs { flow: 0, len: 64, handle: 1 },
    ];
    play(sides::fifo::<DESCRIPTORS>(DropFrom::Head, Limits { packets: 4, bytes: 700 }), &letters);
}

#[test]
fn every_short_history_of_drr_with_flows_changed_and_removed() {
    let letters = [
        enqueue(0, 500),
        enqueue(0, 300),
        enqueue(1, 499),
        enqueue(2, 1),
        DEQUEUE,
        set(0, 2),
        Operation::Remove { flow: 0 },
    ];
    play(sides::drr::<FLOWS, DESCRIPTORS>(500, false, Limits::packets(6)), &letters);
}

#[test]
fn every_short_history_of_drr_with_sparse_flows_first() {
    let letters = [
        enqueue(0, 500),
        enqueue(0, 100),
        enqueue(1, 500),
        enqueue(2, 300),
        DEQUEUE,
        Operation::SetLimits { packets: 2, bytes: u32::MAX },
        Operation::Remove { flow: 1 },
    ];
    play(sides::drr::<FLOWS, DESCRIPTORS>(500, true, Limits::packets(6)), &letters);
}

#[test]
fn every_short_history_of_drr_with_sparse_flows_first_and_drops_from_the_longest() {
    let letters = [
        enqueue(0, 500),
        enqueue(0, 100),
        enqueue(1, 400),
        enqueue(1, 200),
        enqueue(2, 500),
        DEQUEUE,
        Operation::SetLimits { packets: 3, bytes: 800 },
    ];
    let sides = sides::drr_lqd::<FLOWS, DESCRIPTORS>(500, true, DropFrom::Head, Limits::packets(3));
    play(sides, &letters);
}

/// A flow is old after 500 bytes, and new again after 1 ms.
#[test]
fn every_short_history_of_two_levels_by_age() {
    let letters = [
        enqueue(0, 500),
        enqueue(0, 100),
        enqueue(1, 400),
        enqueue(2, 500),
        DEQUEUE,
        Operation::Forward { nanos: 1 << 20 },
        Operation::Remove { flow: 0 },
    ];
    let params = AgeParams::two_levels(500).with_floor(2).with_renewal(Nanos::from_millis(1));
    let limits = Limits::packets(6);
    play(sides::flows::<FLOWS, DESCRIPTORS, _>(Age(params), 500, limits), &letters);
}

/// Levels end at 200 and 400 bytes.
#[test]
fn every_short_history_of_three_levels_by_age() {
    let letters = [
        enqueue(0, 300),
        enqueue(0, 100),
        enqueue(1, 200),
        enqueue(1, 101),
        enqueue(2, 400),
        DEQUEUE,
        Operation::SetLimits { packets: 2, bytes: u32::MAX },
    ];
    let params = AgeParams::least_attained(200).with_levels(3).with_floor(3);
    let limits = Limits::packets(6);
    play(sides::flows::<FLOWS, DESCRIPTORS, _>(Age(params), 500, limits), &letters);
}

#[test]
fn every_short_history_of_sqf_with_head_drop() {
    let letters = [
        enqueue(0, 100),
        enqueue(0, 300),
        enqueue(1, 100),
        enqueue(1, 200),
        enqueue(2, 300),
        DEQUEUE,
        Operation::Remove { flow: 0 },
    ];
    play(sides::sqf::<FLOWS, DESCRIPTORS>(DropFrom::Head, Limits::packets(3)), &letters);
}

#[test]
fn every_short_history_of_sqf_with_tail_drop() {
    let letters = [
        enqueue(0, 100),
        enqueue(0, 400),
        enqueue(1, 100),
        enqueue(2, 200),
        DEQUEUE,
        Operation::SetLimits { packets: 2, bytes: u32::MAX },
        Operation::SetLimits { packets: 8, bytes: 500 },
    ];
    play(sides::sqf::<FLOWS, DESCRIPTORS>(DropFrom::Tail, Limits::packets(3)), &letters);
}

#[test]
fn every_short_history_of_sqf_with_a_service_floor() {
    let letters = [
        enqueue(0, 100),
        enqueue(1, 300),
        enqueue(1, 100),
        enqueue(2, 300),
        DEQUEUE,
        Operation::Remove { flow: 1 },
        set(1, 1),
    ];
    let limits = Limits::packets(4);
    play(sides::sqf_with_floor::<FLOWS, DESCRIPTORS>(DropFrom::Head, 1, limits), &letters);
}

/// A victim that was not served for two ticks loses its queue.
#[test]
fn every_short_history_of_sqf_that_flushes() {
    let letters = [
        enqueue(0, 100),
        enqueue(1, 300),
        enqueue(2, 200),
        DEQUEUE,
        Operation::Forward { nanos: 1 << 20 },
        Operation::Back { nanos: 1 << 20 },
        Operation::Remove { flow: 1 },
    ];
    let after = Nanos(2 << 20);
    play(
        sides::sqf_flushing::<FLOWS, DESCRIPTORS>(DropFrom::Tail, after, Limits::packets(4)),
        &letters,
    );
}

/// Plays every string of letters after `prelude`; every one of `rules` must have been applied.
fn play_rules<S, T>(
    (subject, twin): (S, T),
    prelude: &[Operation],
    alphabet: &[Operation],
    exercised: &Exercised,
    rules: &[Rule],
) where
    S: ConfigurableScheduler + Clone,
    T: ConfigurableScheduler + Clone,
{
    play_all((subject, twin), prelude, alphabet, effort(5, 6));
    for &rule in rules {
        assert!(exercised.count(rule) > 0, "{rule:?}");
    }
}

/// Before the first letter five flows have sent one packet each and linger, while a slower one is
/// backlogged. Flow 4 then becomes backlogged again, changes its group or is removed.
#[test]
fn every_short_history_of_qfq_while_five_flows_linger() {
    let mut prelude: Vec<_> = (0..5).map(|flow| set(flow, 3)).collect();
    prelude.extend([set(5, 1), enqueue(5, 500), enqueue(5, 500), enqueue(5, 500)]);
    prelude.extend((0..5).map(|flow| enqueue(flow, 300 + 20 * flow)));
    prelude.extend([DEQUEUE; 5]);
    let letters = [
        enqueue(1, 400),
        enqueue(4, 40),
        enqueue(5, 500),
        DEQUEUE,
        set(4, 40),
        set(4, 3),
        Operation::Remove { flow: 4 },
    ];
    let exercised = Exercised::new();
    let sides = sides::qfq_counting::<6, 32>(500, Limits::NONE, &exercised);
    let rules = [
        Rule::Capped,
        Rule::Empties,
        Rule::Lingers,
        Rule::LetGo,
        Rule::NotYet,
        Rule::SeveralDue,
        Rule::MoreThanLetGo,
        Rule::BackFromDue,
        Rule::Fresh,
        Rule::PassedButCounts,
        Rule::LingersElsewhere,
        Rule::RemovedLingering,
        Rule::AddedAmongLingering,
        Rule::ChangesGroup,
    ];
    play_rules(sides, &prelude, &letters, &exercised, &rules);
}

/// Three flows hold packets of 500 bytes and then declare a maximum of 18 bytes, with 1/28 of the
/// weight so that their group stays the same: `V` runs ahead of them. Two others join them, in
/// their group and below.
#[test]
fn every_short_history_of_qfq_with_packets_longer_than_declared() {
    let declare =
        |flow, weight| Operation::Configure { flow, setting: Setting { weight, max_len: 18 } };
    let mut prelude: Vec<_> = (0..3).map(|flow| set(flow, 280)).collect();
    prelude.extend([declare(3, 10), declare(4, 20)]);
    prelude.extend((0..9).map(|turn| enqueue(turn % 3, 500)));
    prelude.extend((0..3).map(|flow| declare(flow, 10)));
    let letters = [
        enqueue(0, 18),
        enqueue(3, 18),
        enqueue(4, 18),
        DEQUEUE,
        set(3, 280),
        declare(3, 10),
        Operation::Remove { flow: 1 },
    ];
    let exercised = Exercised::new();
    let sides = sides::qfq_counting::<5, 32>(500, Limits::NONE, &exercised);
    let rules = [Rule::LongerThanMaximum, Rule::StaysAtHead, Rule::Shifted, Rule::MovedToFront];
    play_rules(sides, &prelude, &letters, &exercised, &rules);
}

/// Flow 0 gets another weight, backlogged and idle, and is removed.
const CHANGED_AND_REMOVED: [Operation; 7] = [
    enqueue(0, 500),
    enqueue(0, 1),
    enqueue(1, 500),
    enqueue(2, 40),
    DEQUEUE,
    set(0, 100),
    Operation::Remove { flow: 0 },
];

/// Arrivals of three flows, and a limit that some of them exceed.
const WITH_LIMITS: [Operation; 7] = [
    enqueue(0, 500),
    enqueue(1, 499),
    enqueue(1, 20),
    enqueue(2, 300),
    enqueue(2, 1),
    DEQUEUE,
    Operation::SetLimits { packets: 3, bytes: 600 },
];

/// Flow 0 moves between the groups of weight 1 and 100, and only that adds it again after a
/// removal.
#[test]
fn every_short_history_of_qfq_with_flows_changed_and_removed() {
    play(sides::qfq::<FLOWS, DESCRIPTORS>(500, Limits::packets(6)), &CHANGED_AND_REMOVED);
}

/// Weights 1, 30 and 1,000, so that each flow has its own group and back-shifts happen.
#[test]
fn every_short_history_of_qfq_with_drops_from_the_longest() {
    let sides = sides::qfq_lqd::<FLOWS, DESCRIPTORS>(500, DropFrom::Head, Limits::packets(4));
    play_after(sides, &[set(0, 1), set(1, 30), set(2, 1_000)], &WITH_LIMITS);
}

/// Two of the three flows share an aggregate; the flow that changes its class joins or leaves it.
#[test]
fn every_short_history_of_qfq_plus_with_flows_changed_and_removed() {
    let letters = [
        enqueue(0, 500),
        enqueue(0, 60),
        enqueue(1, 300),
        enqueue(2, 450),
        DEQUEUE,
        set(1, 2),
        Operation::Remove { flow: 0 },
    ];
    let prelude = [set(0, 1), set(1, 1), set(2, 2)];
    play_after(
        sides::qfq_plus::<FLOWS, DESCRIPTORS>(500, 2, Limits::packets(6)),
        &prelude,
        &letters,
    );
}

#[test]
fn every_short_history_of_qfq_plus_with_drops_from_the_longest() {
    let letters = [
        enqueue(0, 500),
        enqueue(0, 60),
        enqueue(1, 300),
        enqueue(2, 450),
        enqueue(2, 1),
        DEQUEUE,
        Operation::SetLimits { packets: 3, bytes: 700 },
    ];
    let sides =
        sides::qfq_plus_lqd::<FLOWS, DESCRIPTORS>(500, 2, DropFrom::Head, Limits::packets(4));
    play(sides, &letters);
}

#[test]
fn every_short_history_of_wf2q_with_flows_changed_and_removed() {
    play(sides::wf2q::<FLOWS, DESCRIPTORS>(500, Limits::packets(6)), &CHANGED_AND_REMOVED);
}

#[test]
fn every_short_history_of_wf2q_with_drops_from_the_longest() {
    let sides = sides::wf2q_lqd::<FLOWS, DESCRIPTORS>(500, DropFrom::Head, Limits::packets(4));
    play_after(sides, &[set(0, 1), set(1, 3), set(2, 20)], &WITH_LIMITS);
}
