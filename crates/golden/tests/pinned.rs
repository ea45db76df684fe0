//! The host's half of the comparison; the firmware's half asserts the same numbers.

/// Goal: a change of behaviour of any discipline is noticed, and is the same on every target.
/// Method: the pinned hashes, all differences told at once. A hash may change only in a commit that
/// says which behaviour changed; that of a new entry of the catalogue is written down once.
#[test]
fn every_run_gives_its_pinned_hash() {
    let mut wrong = Vec::new();
    for run in golden::ALL {
        let hash = (run.hash)();
        if hash != run.pinned {
            wrong.push(format!("{}: {hash:#018x}, pinned {:#018x}", run.name, run.pinned));
        }
    }
    for entry in golden::CATALOG.into_iter().flatten() {
        let hash = (entry.hash)();
        if golden::pinned(entry.name) != Some(hash) {
            wrong.push(format!("(\"{}\", {hash:#018x}),", entry.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: a run that could not begin is not pinned by mistake. Method: such a run's hash is 0.
#[test]
fn every_run_begins() {
    for run in golden::ALL {
        assert_ne!(run.pinned, 0, "{}", run.name);
    }
    for entry in golden::CATALOG.into_iter().flatten() {
        assert_ne!(golden::pinned(entry.name), Some(0), "{}", entry.name);
    }
}
