//! The set-associative table: single cases of each rule, and refused parameters.

use flowhash::{Counts, FlowTable, Lookup, MAX_QUEUES, Outcome, TableError, TagLine};

#[test]
fn a_full_set_shares_the_own_way_and_leaves_its_claimant_alone() {
    let mut table = FlowTable::new([TagLine::EMPTY; 1], 8, 8).unwrap();
    // All of these have way 3 as their own and fill the set from there, cyclically.
    for (step, queue) in [3, 4, 5, 6, 7, 0, 1, 2].into_iter().enumerate() {
        let expected = Lookup { queue, outcome: Outcome::Claimed };
        assert_eq!(table.lookup(8 * step as u32 + 3), expected);
    }
    let late = 8 * 100 + 5;
    for _ in 0..3 {
        assert_eq!(table.lookup(late), Lookup { queue: 5, outcome: Outcome::Collision });
        assert_eq!(table.lookup(8 * 2 + 3), Lookup { queue: 5, outcome: Outcome::Hit });
    }
    assert_eq!(table.find(late), None);
    assert!(table.release(1));
    assert_eq!(table.lookup(late), Lookup { queue: 1, outcome: Outcome::Claimed });
    assert_eq!(table.lookup(late), Lookup { queue: 1, outcome: Outcome::Hit });
}

#[test]
fn a_flow_that_returns_finds_its_former_queue_unless_another_took_it() {
    let mut table = FlowTable::new([TagLine::EMPTY; 1], 8, 8).unwrap();
    let [a, b, c] = [8 + 1, 16 + 1, 24 + 2];
    assert_eq!(table.lookup(a).queue, 1);
    assert_eq!(table.lookup(b).queue, 2);
    assert!(table.release(1) && table.release(2));
    assert_eq!(table.lookup(b), Lookup { queue: 2, outcome: Outcome::Claimed });
    assert!(table.release(2));
    assert_eq!(table.lookup(c), Lookup { queue: 2, outcome: Outcome::Claimed });
    assert_eq!(table.lookup(b), Lookup { queue: 1, outcome: Outcome::Claimed });
    assert_eq!(table.lookup(a), Lookup { queue: 3, outcome: Outcome::Claimed });
}

#[test]
fn clearing_forgets_flows_and_keeps_counts() {
    let mut table = FlowTable::new([TagLine::EMPTY; 2], 16, 16).unwrap();
    let before = table.lookup(77);
    table.clear();
    assert_eq!((table.occupied(), table.find(77)), (0, None));
    assert!(!table.is_used(before.queue));
    assert_eq!(table.counts(), Counts { hits: 0, claims: 1, collisions: 0 });
    assert_eq!(table.lookup(77).outcome, Outcome::Claimed);
}

#[test]
fn every_legal_shape_is_accepted_and_every_other_refused() {
    let mut storage = vec![TagLine::EMPTY; 32];
    for ways in 0..=33 {
        for queues in 0..=257_u32 {
            let made = FlowTable::new(storage.as_mut_slice(), queues, ways);
            let found = made.map(|table| (table.queues(), table.ways(), table.occupied()));
            let expected = if ![1, 2, 4, 8, 16].contains(&ways) {
                Err(TableError::Ways { ways })
            } else if !(0..9).any(|bits| 1 << bits == queues) || queues < ways {
                Err(TableError::Queues { queues, ways })
            } else {
                Ok((queues, ways, 0))
            };
            assert_eq!(found, expected, "{queues} queues, {ways} ways");
        }
    }
}

#[test]
fn storage_is_counted_in_lines_of_eight_queues_and_cleared() {
    let mut storage = vec![TagLine::EMPTY; MAX_QUEUES as usize / 8];
    let mut table = FlowTable::new(&mut storage[..], MAX_QUEUES, 8).unwrap();
    assert_eq!(table.lookup(u32::MAX).queue, MAX_QUEUES - 1);
    for (lines, queues) in [(0, 1), (0, 8), (1, 16), (127, 1024), (131_071, MAX_QUEUES)] {
        let needed = queues.div_ceil(8) as usize;
        assert_eq!(
            FlowTable::new(&mut storage[..lines], queues, 1).map(|_| ()),
            Err(TableError::Storage { lines, needed })
        );
        let table = FlowTable::new(&mut storage[..needed], queues, 1).unwrap();
        assert!((0..queues).all(|queue| !table.is_used(queue)));
    }
    assert_eq!(
        FlowTable::new(&mut storage[..], MAX_QUEUES * 2, 8).map(|_| ()),
        Err(TableError::Queues { queues: MAX_QUEUES * 2, ways: 8 })
    );
    assert_eq!(size_of::<TagLine>(), 64);
}

#[test]
fn what_lies_beyond_the_table_in_its_storage_is_none_of_its_queues() {
    let mut storage = [TagLine::EMPTY; 4];
    let mut large = FlowTable::new(&mut storage[..], 32, 8).unwrap();
    assert!((0..32).all(|hash| large.lookup(hash).outcome == Outcome::Claimed));
    for queues in [1_u32, 4, 8, 16] {
        let mut small = FlowTable::new(&mut storage[..], queues, 1).unwrap();
        assert_eq!(small.lookup(0).outcome, Outcome::Claimed);
        assert!((queues..=40).all(|queue| !small.is_used(queue) && !small.release(queue)));
        assert_eq!(small.occupied(), 1);
    }
}

#[test]
fn refusals_name_the_value_and_the_range() {
    let say = |error: TableError| error.to_string();
    assert_eq!(say(TableError::Ways { ways: 3 }), "3 ways (expected 1, 2, 4, 8 or 16)");
    assert_eq!(
        say(TableError::Queues { queues: 12, ways: 8 }),
        "12 queues (expected a power of two from 8 to 1048576)"
    );
    assert_eq!(
        say(TableError::Storage { lines: 1, needed: 2 }),
        "storage of 1 lines (expected at least 2)"
    );
}

/// Goal: a claim is a return if and only if the table remembered the flow. Method: 100,000 lookups
/// and releases of few hashes in a small table of each number of ways.
#[test]
fn a_claim_is_a_return_if_and_only_if_the_flow_was_remembered() {
    for ways in [1, 2, 4, 8, 16] {
        let mut table = FlowTable::new([TagLine::EMPTY; 4], 32, ways).expect("32 queues");
        let (mut returns, mut state) = (0, 1_u64);
        for step in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hash = (state >> 32) as u32 % 256;
            let remembered = table.remembers(hash);
            let lookup = table.lookup(hash);
            returns += u64::from(remembered && lookup.outcome == Outcome::Claimed);
            assert_eq!(table.returns(), returns, "{ways} ways, step {step}");
            table.release((state >> 45) as u32 % 32);
        }
        let claims = table.counts().claims;
        assert!(returns > 1_000 && claims > returns + 1_000, "{ways} ways: {returns} of {claims}");
    }
}

/// Goal: the free queues of a set are those that are not in use. Method: after each of 20,000
/// lookups and releases of few hashes, count one by one for every queue of a small table of each
/// number of ways.
#[test]
fn free_queues_of_a_set_are_those_not_in_use() {
    for ways in [1, 2, 4, 8, 16] {
        let mut table = FlowTable::new([TagLine::EMPTY; 4], 32, ways).expect("32 queues");
        let (mut state, mut seen) = (1_u64, [false; 17]);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            table.lookup((state >> 32) as u32 % 256);
            for _ in 0..(state >> 40) % 3 {
                table.release((state >> 45) as u32 % 32);
            }
            for queue in 0..32 {
                let set = queue / ways * ways..queue / ways * ways + ways;
                let free = set.filter(|queue| !table.is_used(*queue)).count();
                assert_eq!(table.free_in_set(queue), free as u32, "{ways} ways, queue {queue}");
                seen[free] = true;
            }
        }
        assert!(seen[..=ways as usize].iter().all(|free| *free), "{ways} ways: {seen:?}");
        assert_eq!(table.free_in_set(32), 0, "beyond the table");
    }
}
