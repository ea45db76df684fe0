//! Comparison with the pinned hashes on the host; the firmware asserts the same numbers.

/// Goal: any change of behaviour of a discipline is noticed, and behaviour is equal on every
/// target. Method: the pinned hashes, with all differences reported at once. A hash may change only
/// in a commit that says which behaviour changed; the hash of a new catalog entry is recorded once.
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

/// Goal: a run that failed to start is not pinned by mistake. Method: such a run's hash is 0.
#[test]
fn every_run_begins() {
    for run in golden::ALL {
        assert_ne!(run.pinned, 0, "{}", run.name);
    }
    for entry in golden::CATALOG.into_iter().flatten() {
        assert_ne!(golden::pinned(entry.name), Some(0), "{}", entry.name);
    }
}
