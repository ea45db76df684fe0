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
