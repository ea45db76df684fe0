//! No call costs more than stated, in loop iterations; `cargo xtask search-cost` searches for
//! longer.

use conformance::history::play_aqm;
use conformance::worst_call::{Subject, climb, steps};
use conformance::{Xorshift, scramble};

/// Goal: the cost of a call is bounded, and grows with the number of flows as stated: not at all,
/// or by a constant for each doubling. Method: 400 sequences for each discipline with 16 and with
/// 1,024 flows, varied to increase the cost.
#[test]
fn no_call_takes_more_steps_than_stated() {
    for subject in &Subject::ALL {
        for flows in [16, 1_024] {
            let mut left = 400;
            let found = climb(
                subject.name,
                7,
                |history| steps(subject, flows, history),
                || {
                    left -= 1;
                    left > 0
                },
            );
            let (worst, bound) = (found.worst, subject.bound(flows));
            println!("{} with {flows}: {worst:?}, bound {bound}", subject.name);
            assert!(
                worst.per_packet <= bound,
                "{} with {flows}: {worst:?}, bound {bound}",
                subject.name
            );
        }
    }
}

/// Goal: the counter counts, and the search finds the worst case. Method: drops from the longest
/// class need a tree over all 256 classes, and a packet can climb its height of 8.
#[test]
fn the_search_finds_the_height_of_a_tree() {
    let subject = Subject::ALL
        .iter()
        .find(|subject| subject.name.starts_with("classes, the longest"))
        .unwrap();
    let mut left = 400;
    let found = climb(
        subject.name,
        7,
        |history| steps(subject, 1_024, history),
        || {
            left -= 1;
            left > 0
        },
    );
    assert!(found.worst.per_packet > 8, "{:?}", found.worst);
}

/// Goal: no call of an AQM takes more iterations than eight updates, even after hours without
/// calls. Method: random sequences, in which `play_aqm` counts.
#[test]
fn no_call_of_an_aqm_takes_more_than_eight_turns() {
    for seed in 0..1_000 {
        let mut random = Xorshift::new(scramble(seed));
        let bytes: Vec<u8> = (0..2_000).map(|_| random.byte()).collect();
        let _told = play_aqm(&bytes);
    }
}
