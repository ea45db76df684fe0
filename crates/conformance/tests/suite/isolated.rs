//! The isolated queue does what its twin of maps does: every departure, every drop, every answer, with committed
//! rates and without room for them.

use conformance::Xorshift;
use conformance::effort::effort;
use conformance::history::{Seen, play_labelled};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Goal: hosts, flows, turns, spare queues and drops are those of the twin in every isolation, whatever
/// collides and whenever it changes. Method: histories by proptest, which cuts down one that fails.
#[test]
fn the_isolated_queue_is_its_twin() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::XorShift);
    let config = Config { cases: effort(30, 300), failure_persistence: None, ..Config::default() };
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..1_200);
    let outcome = TestRunner::new_with_rng(config, rng).run(&bytes, |bytes| {
        play_labelled(&bytes).map(|_| ()).map_err(proptest::test_runner::TestCaseError::fail)
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Goal: the test above meets what it is about. Method: longer histories from a seed, counted.
/// `FREEBOARD_TRIALS` is how many.
#[test]
fn long_histories_meet_full_sets_and_changes() {
    let trials =
        std::env::var("FREEBOARD_TRIALS").map_or(effort(16, 40), |trials| trials.parse().unwrap());
    let mut all = Seen::default();
    for seed in 1..=trials {
        let mut random = Xorshift::new(seed);
        // Mostly full: two departures of three are arrivals in every other spell of the history.
        let bytes: Vec<u8> = (0..16_000)
            .map(|at| match random.byte() {
                byte @ 128..=221 if at / 2_000 % 2 == 0 && random.below(3) > 0 => byte - 94,
                byte => byte,
            })
            .collect();
        let seen = play_labelled(&bytes).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        for (sum, count) in all.outcomes.iter_mut().zip(seen.outcomes) {
            *sum += count;
        }
        all.in_spares += seen.in_spares;
        all.overflows += seen.overflows;
        all.evicted += seen.evicted;
        all.changes += seen.changes;
        all.borrowing += seen.borrowing;
        all.waiting += seen.waiting;
        all.rotating += seen.rotating;
        all.in_tins += seen.in_tins;
        all.tin_changes += seen.tin_changes;
        all.across += seen.across;
        all.link_changes += seen.link_changes;
    }
    println!("{all:?}");
    let Seen { outcomes, in_spares, overflows, evicted, changes, borrowing, waiting, .. } = all;
    let Seen { rotating, in_tins, tin_changes, across, link_changes, .. } = all;
    assert!(outcomes.iter().all(|&count| count > 100 * trials), "{all:?}");
    assert!(evicted > 20 * trials, "{all:?}");
    assert!(in_spares > 100 * trials && overflows > 50 * trials && changes > 5 * trials, "{all:?}");
    assert!(borrowing > 80 * trials && waiting > 20 * trials, "{all:?}");
    assert!(rotating > 100 * trials, "{all:?}");
    assert!(in_tins > 500 * trials && tin_changes > 10 * trials, "{all:?}");
    assert!(across > 5 * trials && link_changes > 20 * trials, "{all:?}");
}
