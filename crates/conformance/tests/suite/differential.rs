//! Long random sequences on every discipline and its reference model, which must agree in the order
//! of packets, the victims and the counters.
//!
//! With `FREEBOARD_TESTS=full` every entry of the catalogue gets a third of 10^7 operations and
//! every tree a 25th; otherwise a two-hundredth of that. `FREEBOARD_OPERATIONS` sets another
//! number, which is then used for each of them.

use crate::every_discipline::every_discipline;
use conformance::effort::effort;
use conformance::history::{Pair, check, operations, prelude, soak};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Long enough for clocks, timestamps and virtual times to advance far, short enough to replay.
const LENGTH: usize = 100_000;

fn play(share: u64, seed: u64, sides: &dyn Fn() -> Pair) {
    let shared = effort(50_000, 10_000_000) / share;
    let operations = std::env::var("FREEBOARD_OPERATIONS")
        .map_or(shared, |count| count.parse().expect("FREEBOARD_OPERATIONS is a number"));
    if let Err(difference) = soak(sides, seed, operations, LENGTH) {
        panic!("{difference}");
    }
}

every_discipline!(agrees_with_its_twin, super::play);

/// Goal: cover distributions other than that of `soak`, and the decoding used by the fuzzer.
/// Method: byte strings from proptest, each decoded to a sequence and compared thoroughly after
/// each step.
fn play_bytes(_: u64, _: u64, sides: &dyn Fn() -> Pair) {
    let config = Config { cases: effort(4, 128), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::XorShift,
        ),
    );
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..4_096);
    let outcome = runner.run(&bytes, |bytes| {
        let history: Vec<_> = prelude().chain(operations(&bytes)).collect();
        check(sides, &history).map_err(|difference| TestCaseError::fail(difference.to_string()))
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

every_discipline!(agrees_with_its_twin_on_any_bytes, super::play_bytes);
