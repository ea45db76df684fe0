//! The isolated queue does what its twin of maps does: every departure, every drop, every answer.

use conformance::Xorshift;
use conformance::effort::effort;
use conformance::history::{Seen, Shape, play_labelled};

/// Histories of random steps, mostly full in every other spell; the sum of what they met.
fn play(tables: Shape, trials: u64, len: u64) -> Seen {
    let mut all = Seen::default();
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
        all.in_spares += seen.in_spares;
        all.overflows += seen.overflows;
        all.in_tins += seen.in_tins;
        all.across += seen.across;
        all.rebuilds.iter_mut().zip(seen.rebuilds).for_each(|(sum, count)| *sum += count);
        all.moved += seen.moved;
        all.in_rounds += seen.in_rounds;
    }
    println!("{all:?}");
    all
}

/// Goal: with one tin the queue is its twin, whatever collides. Method: histories of random steps.
#[test]
fn one_tin_is_its_twin() {
    let trials = effort(16, 200);
    let seen = play(Shape::OneTin, trials, 8_000);
    let Seen { outcomes, in_spares, overflows, in_rounds, places, .. } = seen;
    assert!(outcomes.iter().all(|&count| count > 50 * trials), "{outcomes:?}");
    assert!(in_spares > 50 * trials && overflows > 20 * trials, "{in_spares} {overflows}");
    assert!(in_rounds > 100 * trials, "{in_rounds}");
    assert!(places.iter().all(|&count| count > 50 * trials), "{places:?}");
}

/// Goal: with several tins the queue is its twin, whatever collides. Method: as above.
#[test]
fn several_tins_are_their_twin() {
    let trials = effort(16, 200);
    let seen = play(Shape::Tins, trials, 8_000);
    let Seen {
        outcomes, in_spares, overflows, in_tins, across, set_tins, in_rounds, places, ..
    } = seen;
    assert!(outcomes.iter().all(|&count| count > 50 * trials), "{outcomes:?}");
    assert!(in_spares > 50 * trials && overflows > 20 * trials, "{in_spares} {overflows}");
    assert!(in_tins > 300 * trials && across > 100 * trials, "{in_tins} {across}");
    assert!(set_tins.iter().all(|&count| count > trials), "{set_tins:?}");
    assert!(in_rounds > 100 * trials, "{in_rounds}");
    assert!(places.iter().all(|&count| count > 50 * trials), "{places:?}");
}

/// Goal: after every rebuild under load the queue is its twin, which takes all packets out and
/// offers them again, whatever collides. Method: as above, with other isolations, numbers of tins
/// and keys at random.
#[test]
fn a_rebuild_under_load_is_that_of_the_twin() {
    let trials = effort(16, 200);
    let seen = play(Shape::Rebuilds, trials, 8_000);
    let Seen { outcomes, in_spares, overflows, in_tins, rebuilds, moved, .. } = seen;
    assert!(outcomes.iter().all(|&count| count > 50 * trials), "{outcomes:?}");
    assert!(in_spares > 50 * trials && overflows > 20 * trials, "{in_spares} {overflows}");
    assert!(in_tins > 300 * trials && moved > 50 * trials, "{in_tins} {moved}");
    assert!(rebuilds[0] > 50 * trials && rebuilds[1] > 2 * trials, "{rebuilds:?}");
}

/// Goal: where nothing collides the queue is its twin too. Method: as above, in large tables.
#[test]
fn several_tins_are_their_twin_where_hosts_have_entries() {
    let trials = effort(4, 40);
    let seen = play(Shape::OwnEntries, trials, 3_000);
    let Seen { outcomes, overflows, in_tins, across, in_rounds, .. } = seen;
    assert!(outcomes[..2].iter().all(|&count| count > 50 * trials), "{outcomes:?}");
    assert!(outcomes[2] == 0 && overflows > 10 * trials, "{outcomes:?} {overflows}");
    assert!(in_tins > 300 * trials && across > 0, "{in_tins} {across}");
    assert!(in_rounds > 100 * trials, "{in_rounds}");
}
