//! Test of `sim reproduce sparse`: the documents show the command's output and state which checks
//! fail and why.

use freeboard::Isolation;
use freeboard::sched_core::Nanos;
use sim::discipline::GatewayQueue;
use sim::experiments::sparse::scenario::{self, Cell, Load, run};

use crate::documents::{Run, document};

/// Goal: a change of any flow scheduler, transport or link shows here as a difference to look at.
/// Method: ten seeds, those of the documented table; `docs/tables/sparse.md` has the tables and
/// the checks to the last digit, `docs/disciplines/sparse.md` says why some of them fail.
#[test]
#[ignore = "45 seconds: `cargo xtask check` runs it"]
fn the_document_shows_the_tables_and_which_checks_fail() {
    let run = Run::of("sparse", &[]);
    run.assert_verdicts(30, 8);
    let of_triple = |line: &&str| line.starts_with("FAILS  ") && line.contains("triple-isolate");
    assert_eq!(run.text().lines().filter(of_triple).count(), 2, "{}", run.text());
    run.assert_shown_in(document!("docs/tables/sparse.md"));
}

/// Goal: permitting batches of 64 KiB costs a call nothing while none is sent. Method: the call
/// beside uploads of its host at 10 Mbit/s, and beside other hosts, with and without the
/// permission; the 99th percentiles differ by less than a packet. With quanta of the longest
/// permitted packet it would rise from 2 to 53 ms.
#[test]
fn a_call_does_not_wait_for_packets_that_are_only_permitted() {
    for (own, others) in [(4, 0), (0, 12)] {
        for isolation in [Isolation::DualSrcHost, Isolation::TripleIsolate] {
            let [frames, batches] = [scenario::MTU, 65_535].map(|permitted| {
                let load = Load::new("", 10, own, others);
                let cell = Cell { load, queue: GatewayQueue::Isolated(isolation) };
                let outcome = run(&cell, permitted, Nanos::from_secs(10), 1);
                assert!(outcome.balanced);
                outcome.added.quantile(990).expect("a call")
            });
            let packet = Nanos::from_micros(1_212);
            let named = format!("{isolation}, {own} and {others}: {frames:?}, {batches:?}");
            assert!(batches <= frames.plus(packet), "{named}");
        }
    }
}
