//! No call costs more than is stated, in turns of loops: `cargo xtask search-cost` looks for
//! longer.

use conformance::history::play_aqm;
use conformance::worst_call::{Subject, climb, steps};
use conformance::{Xorshift, scramble};

/// Goal: what a call costs is bounded, and grows with the flows as stated: not at all, or by a
/// constant for each doubling.
/// Method: 400 histories of each discipline with 16 and with 1,024 flows, changed towards what
/// costs most.
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

/// Goal: the counter counts, and the search finds what is there.
/// Method: drops from the longest class need a tree over all 256 classes, whose height of 8 a
/// packet can climb.
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

/// Goal: no call of an AQM takes more turns than eight updates, also after hours of silence.
/// Method: random histories, in which `play_aqm` counts.
#[test]
fn no_call_of_an_aqm_takes_more_than_eight_turns() {
    for seed in 0..1_000 {
        let mut random = Xorshift::new(scramble(seed));
        let bytes: Vec<u8> = (0..2_000).map(|_| random.byte()).collect();
        let _told = play_aqm(&bytes);
    }
}
