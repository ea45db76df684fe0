//! Replays the corpus of the fuzzer wherever tests run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the targets of this crate, and the target of `sim` for the reader of captures.
fn targets() -> impl Iterator<Item = (&'static str, fn(&[u8]))> {
    conformance::targets::ALL.into_iter().chain([("capture", sim::capture::check_reading as _)])
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the names in a folder, without suffix.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| stem(entry.unwrap().path())).collect()
}

/// Goal: every input that ever reached new code or caused a failure passes. Method: run each file
/// of each target's corpus through the function of the fuzz target; a failure names the file.
#[test]
fn every_file_of_the_corpus_passes() {
    for (name, target) in targets() {
        let folder = fuzz().join("corpus").join(name);
        let files = names(&folder);
        assert!(files.len() > 10, "{name} has {} files", files.len());
        for file in files {
            println!("{name}/{file}");
            target(&fs::read(folder.join(&file)).unwrap());
        }
    }
}

#[test]
fn targets_programs_and_corpora_have_the_same_names() {
    let targets: BTreeSet<String> = targets().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets")), targets);
    assert_eq!(names(&fuzz().join("corpus")), targets);
}
