//! The host's half of the comparison; the firmware's half asserts the same numbers.

/// Goal: a change of behaviour of any discipline is noticed, and is the same on every target.
/// Method: the pinned hashes, all differences told at once. A hash may change only in a commit that
/// says which behaviour changed.
#[test]
fn every_run_gives_its_pinned_hash() {
    let mut wrong = Vec::new();
    for run in golden::ALL {
        let hash = (run.hash)();
        if hash != run.pinned {
            wrong.push(format!("{}: {hash:#018x}, pinned {:#018x}", run.name, run.pinned));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_generator_stays_below_its_bound_and_never_sticks() {
    for seed in [0, 1, 0x9e37_79b9_7f4a_7c15, u64::MAX] {
        let mut random = golden::Xorshift::new(seed);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (900..1_100).contains(&count)), "{seed}: {seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
