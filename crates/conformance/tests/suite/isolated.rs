//! The isolated queue agrees with its reference model in every departure, drop and result.

use conformance::Xorshift;
use conformance::effort::effort;
use conformance::history::{Coverage, Shape, play_labelled};

/// Plays sequences of random steps, with full queues in every second phase; returns the total
/// coverage.
fn play(tables: Shape, trials: u64, len: u64) -> Coverage {
    let mut all = Coverage::default();
    for seed in 1..=trials {
        let mut random = Xorshift::new(seed);
        let bytes: Vec<u8> = (0..len)
            .map(|at| match random.byte() {
                byte @ 128..=221 if at / 2_000 % 2 == 0 && random.below(3) > 0 => byte - 94,
                byte => byte,
            })
            .collect();
        let seen =
            play_labelled(tables, &bytes).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        all.outcomes.iter_mut().zip(seen.outcomes).for_each(|(sum, count)| *sum += count);
        all.set_tins.iter_mut().zip(seen.set_tins).for_each(|(sum, count)| *sum += count);
        all.places.iter_mut().zip(seen.places).for_each(|(sum, count)| *sum += count);
        all.early.iter_mut().zip(seen.early).for_each(|(sum, count)| *sum += count);
        all.in_spares += seen.in_spares;
        all.overflows += seen.overflows;
        all.in_tins += seen.in_tins;
        all.across += seen.across;
        all.rebuilds.iter_mut().zip(seen.rebuilds).for_each(|(sum, count)| *sum += count);
        all.moved += seen.moved;
        all.in_rounds += seen.in_rounds;
        all.long += seen.long;
    }
    println!("{all:?}");
    all
}

/// Goal: with one tin the queue agrees with its reference model, whatever collides. Method:
/// sequences of random steps.
#[test]
fn one_tin_is_its_twin() {
    let trials = effort(16, 200);
    let seen = play(Shape::OneTin, trials, 8_000);
    let Coverage { outcomes, in_spares, overflows, in_rounds, places, long, .. } = seen;
    assert!(outcomes.iter().all(|&count| count > 50 * trials), "{outcomes:?}");
    assert!(in_spares > 50 * trials && overflows > 20 * trials, "{in_spares} {overflows}");
    assert!(in_rounds > 100 * trials, "{in_rounds}");
    assert!(places.iter().all(|&count| count > 50 * trials), "{places:?}");
    assert!(long > trials, "{long}");
}

/// Goal: packets sent in advance of turns, and turns skipped because they were used up, agree with
/// the reference model. Method: random steps, without host rates and with a separate share in each
/// tin.
#[test]
fn turns_are_sent_in_advance_as_in_the_twin() {
    let trials = effort(16, 200);
    let Coverage { early, rebuilds, in_tins, .. } = play(Shape::InAdvance, trials, 8_000);
    assert!(early.iter().all(|&count| count > 5 * trials), "{early:?}");
    assert!(rebuilds[0] > trials && in_tins > 100 * trials, "{rebuilds:?} {in_tins}");
}

/// Goal: with several tins the queue agrees with its reference model, whatever collides. Method:
/// random steps.
#[test]
fn several_tins_are_their_twin() {
    let trials = effort(16, 200);
    let seen = play(Shape::Tins, trials, 8_000);
    let Coverage {
        outcomes,
        in_spares,
        overflows,
        in_tins,
        across,
        set_tins,
        in_rounds,
        places,
        ..
    } = seen;
    assert!(outcomes.iter().all(|&count| count > 50 * trials), "{outcomes:?}");
    assert!(in_spares > 50 * trials && overflows > 20 * trials, "{in_spares} {overflows}");
    assert!(in_tins > 300 * trials && across > 100 * trials, "{in_tins} {across}");
    assert!(set_tins.iter().all(|&count| count > trials), "{set_tins:?}");
    assert!(in_rounds > 100 * trials, "{in_rounds}");
    assert!(places.iter().all(|&count| count > 50 * trials), "{places:?}");
}

/// Goal: after every rebuild under load the queue agrees with its reference model, which removes
/// all packets and enqueues them again, whatever collides. Method: random steps, with random
/// changes of isolation, number of tins and key.
#[test]
fn a_rebuild_under_load_is_that_of_the_twin() {
    let trials = effort(16, 200);
    let seen = play(Shape::Rebuilds, trials, 8_000);
    let Coverage { outcomes, in_spares, overflows, in_tins, rebuilds, moved, .. } = seen;
    assert!(outcomes.iter().all(|&count| count > 50 * trials), "{outcomes:?}");
    assert!(in_spares > 50 * trials && overflows > 20 * trials, "{in_spares} {overflows}");
    assert!(in_tins > 300 * trials && moved > 50 * trials, "{in_tins} {moved}");
    assert!(rebuilds[0] > 50 * trials && rebuilds[1] > 2 * trials, "{rebuilds:?}");
}

/// Goal: the queue agrees with its reference model without collisions too. Method: random steps,
/// with large tables.
#[test]
fn several_tins_are_their_twin_where_hosts_have_entries() {
    let trials = effort(4, 40);
    let seen = play(Shape::OwnEntries, trials, 3_000);
    let Coverage { outcomes, overflows, in_tins, across, in_rounds, .. } = seen;
    assert!(outcomes[..2].iter().all(|&count| count > 50 * trials), "{outcomes:?}");
    assert!(outcomes[2] == 0 && overflows > 10 * trials, "{outcomes:?} {overflows}");
    assert!(in_tins > 300 * trials && across > 0, "{in_tins} {across}");
    assert!(in_rounds > 100 * trials, "{in_rounds}");
}

/// Plays every string of letters after `start`, each on a new queue. A letter is the bytes of a
/// step.
fn every_short_history(tables: Shape, start: &[u8], letters: [&[u8]; 7]) {
    let depth = effort(4, 6);
    for number in 0..7_usize.pow(depth) {
        let string = (0..depth).map(|place| letters[number / 7_usize.pow(place) % 7]);
        let bytes: Vec<u8> = start.iter().chain(string.flatten()).copied().collect();
        play_labelled(tables, &bytes).unwrap_or_else(|what| panic!("string {number}: {what}"));
    }
}

const DEQUEUE: &[u8] = &[128];
const EVICT: &[u8] = &[243];
/// Sets the limit to two packets.
const LOWER_LIMIT: &[u8] = &[235, 134, 0];
/// Waits 16,384 ns, in which 1,638 bytes leave at 800 Mbit/s.
const WAIT: &[u8] = &[254, 14];

/// Enqueues a packet of flow `number`. Its source is `number % 5`, its destination `number / 5`,
/// its tin `number % 4`.
macro_rules! packet {
    ($number:literal, $len:tt) => {
        &[0, $number, 0, packet!($len)]
    };
    (60) => {
        1
    };
    (500) => {
        3
    };
    (1000) => {
        5
    };
    (1500) => {
        6
    };
}

/// Two flows of source 0 and one of source 1; the quantum of source 2 is doubled.
#[test]
fn every_short_history_of_hosts() {
    let letters: [&[u8]; 7] = [
        packet!(0, 1500),
        packet!(5, 60),
        packet!(1, 1000),
        &[0, 162, 0, 6],
        DEQUEUE,
        LOWER_LIMIT,
        EVICT,
    ];
    every_short_history(Shape::OneTin, &[5, 0], letters);
}

/// Sources 3 and 4 have committed rates of 100 and 800 Mbit/s; source 4 loses its own.
#[test]
fn every_short_history_of_hosts_with_committed_rates() {
    let letters: [&[u8]; 7] = [
        packet!(3, 1500),
        packet!(4, 1500),
        packet!(9, 500),
        packet!(0, 1000),
        DEQUEUE,
        WAIT,
        &[251, 4, 224],
    ];
    every_short_history(Shape::OneTin, &[32 | 5, 0], letters);
}

/// Sources 1 and 4 have ceilings of 800 and 1,500 Mbit/s. The first holds one packet more than its
/// burst.
#[test]
fn every_short_history_of_hosts_below_ceilings() {
    let letters: [&[u8]; 7] = [
        packet!(1, 1500),
        packet!(6, 60),
        packet!(4, 1500),
        packet!(0, 500),
        DEQUEUE,
        WAIT,
        LOWER_LIMIT,
    ];
    let start = [&[64 | 5, 0][..], packet!(1, 1500), packet!(1, 1500), packet!(1, 1500)].concat();
    every_short_history(Shape::OneTin, &start, letters);
}

/// Two flows of source 0, of which one shares its destination with a flow of source 1.
#[test]
fn every_short_history_of_hosts_of_both_sides() {
    let letters: [&[u8]; 7] = [
        packet!(0, 1500),
        packet!(5, 1000),
        packet!(1, 60),
        packet!(1, 1500),
        DEQUEUE,
        LOWER_LIMIT,
        EVICT,
    ];
    every_short_history(Shape::OneTin, &[5, 4], letters);
}

/// Four tins with rates. Hosts are switched to one share across all tins, and tins to other rates.
#[test]
fn every_short_history_of_tins() {
    let letters: [&[u8]; 7] = [
        packet!(0, 1500),
        packet!(5, 1000),
        packet!(2, 500),
        DEQUEUE,
        WAIT,
        &[253, 1],
        &[233, 3, 7],
    ];
    every_short_history(Shape::Tins, &[128 | 5, 2], letters);
}

/// Three tins by weight under `triple-isolate`, which later get rates.
#[test]
fn every_short_history_of_tins_with_hosts_of_both_sides() {
    let letters: [&[u8]; 7] = [
        packet!(0, 1500),
        packet!(5, 1000),
        packet!(1, 60),
        packet!(2, 1500),
        DEQUEUE,
        &[253, 1],
        &[233, 2, 7],
    ];
    every_short_history(Shape::Tins, &[64 | 5, 4], letters);
}

/// Source 4 has a rate and a ceiling, and source 3 a rate, in four tins with rates.
#[test]
fn every_short_history_of_tins_with_rates_and_ceilings_of_hosts() {
    let letters: [&[u8]; 7] = [
        packet!(4, 1500),
        packet!(9, 1500),
        packet!(3, 1000),
        packet!(0, 500),
        DEQUEUE,
        WAIT,
        &[253, 1],
    ];
    every_short_history(Shape::Tins, &[96 | 5, 128 | 1], letters);
}

/// Changes of key, isolation and number of tins while packets are queued.
#[test]
fn every_short_history_of_rebuilds() {
    let letters: [&[u8]; 7] = [
        packet!(0, 1500),
        packet!(5, 60),
        packet!(1, 1000),
        DEQUEUE,
        &[246],
        &[230, 5],
        &[233, 3, 2],
    ];
    every_short_history(Shape::Rebuilds, &[5, 0], letters);
}
