//! Results of runs in a file, a line for each.
//!
//! The first line describes the sweep; each further line is the result of one run. Lines are
//! appended as runs end, so that a process that is killed loses only runs in progress: a broken
//! last line is ignored, and removed when the file is continued.

use core::fmt;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::harness::Task;

/// Description of a sweep: two files belong together if theirs are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Version of the simulator, whose results may differ from those of others.
    pub version: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Number of seeds.
    pub seeds: u32,
    /// Text of the experiment's file; `None` for an experiment of the simulator.
    pub scenario: Option<String>,
}

impl Description {
    /// Creates the description of a sweep of this version.
    #[must_use]
    pub fn new(experiment: &str, seeds: u32, scenario: Option<&str>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let scenario = scenario.map(str::to_owned);
        Self { version, experiment: experiment.to_owned(), seeds, scenario }
    }
}

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    cell: usize,
    seed: u64,
    #[serde(borrow)]
    run: &'a RawValue,
}

/// A file of results that belongs to a sweep.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    file: File,
    results: BTreeMap<Task, String>,
}

/// Reasons why a file of results cannot be used.
#[derive(Debug)]
pub enum RunFileError {
    /// The file cannot be read or written.
    Io(PathBuf, io::Error),
    /// A line, counted from 1, is not what is expected there.
    Malformed(PathBuf, usize, &'static str),
    /// The file is of another sweep.
    OtherSweep(PathBuf, Box<Description>, Box<Description>),
    /// Two files have different results for the same run.
    Contradiction(PathBuf, Task),
    /// A folder has no file of results.
    Empty(PathBuf),
    /// Another process writes the file.
    InUse(PathBuf),
}

impl fmt::Display for RunFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Malformed(path, line, expected) => {
                write!(f, "{}:{line}: expected {expected}", path.display())
            }
            Self::OtherSweep(path, found, expected) => {
                let of = |of: &Description| {
                    let Description { experiment, seeds, version, .. } = of;
                    format!("{experiment} with {seeds} seeds, version {version}")
                };
                write!(f, "{}: runs of {} (expected {}", path.display(), of(found), of(expected))?;
                if found.scenario != expected.scenario {
                    f.write_str(", with the same experiment file")?;
                }
                f.write_str(")")
            }
            Self::Contradiction(path, task) => write!(
                f,
                "{}: another file has a different result for cell {} with seed {} (expected equal \
                 results)",
                path.display(),
                task.cell,
                task.seed
            ),
            Self::InUse(path) => {
                write!(f, "{}: in use by another process (expected one at a time)", path.display())
            }
            Self::Empty(path) => {
                write!(f, "{}: no run files (expected files *.runs.jsonl)", path.display())
            }
        }
    }
}

impl core::error::Error for RunFileError {}

/// Ending of the files' names.
const SUFFIX: &str = ".runs.jsonl";

impl RunFile {
    /// Opens `folder/name.runs.jsonl` for a sweep and reads the results in it, or creates it.
    ///
    /// # Errors
    /// If the file cannot be read or written, is malformed, belongs to another sweep, or is in use
    /// by another process.
    pub fn open(folder: &Path, name: &str, sweep: &Description) -> Result<Self, RunFileError> {
        let path = folder.join(format!("{name}{SUFFIX}"));
        let named = |error| RunFileError::Io(path.clone(), error);
        fs::create_dir_all(folder).map_err(named)?;
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(named)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RunFileError::InUse(path)),
            Err(TryLockError::Error(error)) => return Err(named(error)),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(named)?;
        // Without a line end the last line is incomplete, even if it can be read.
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let (found, results) = read(&path, &text[..complete])?;
        file.set_len(complete as u64).map_err(named)?;
        match found {
            Some(found) if found != *sweep => {
                return Err(RunFileError::OtherSweep(
                    path,
                    Box::new(found),
                    Box::new(sweep.clone()),
                ));
            }
            Some(_) => {}
            None => {
                let header = serde_json::to_string(sweep).expect("a description is JSON");
                writeln!(file, "{header}").map_err(named)?;
            }
        }
        Ok(Self { path, file, results })
    }

    /// Returns the results in the file.
    #[must_use]
    pub const fn results(&self) -> &BTreeMap<Task, String> {
        &self.results
    }

    /// Appends a result, which is JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&mut self, task: Task, run: &str) -> Result<(), RunFileError> {
        let Task { cell, seed } = task;
        // One call for the line, so that another process never sees a part in between.
        let line = format!("{{\"cell\":{cell},\"seed\":{seed},\"run\":{run}}}\n");
        let named = |error| RunFileError::Io(self.path.clone(), error);
        self.file.write_all(line.as_bytes()).map_err(named)?;
        self.results.insert(task, run.to_owned());
        Ok(())
    }
}

/// Results of one sweep, from one file or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The sweep.
    pub sweep: Description,
    /// Results of all files.
    pub results: BTreeMap<Task, String>,
}

/// Reads all files of results in `folder` and joins those of the same sweep, in order of the
/// experiments' names.
///
/// # Errors
/// If a file cannot be read or is malformed, if files contradict each other, or if there are none.
pub fn merge(folder: &Path) -> Result<Vec<Merged>, RunFileError> {
    let named = |error| RunFileError::Io(folder.to_owned(), error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(named)? {
        let path = entry.map_err(named)?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX)) {
            paths.push(path);
        }
    }
    paths.sort();
    let mut merged: Vec<Merged> = Vec::new();
    for path in paths {
        let text =
            fs::read_to_string(&path).map_err(|error| RunFileError::Io(path.clone(), error))?;
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let (Some(sweep), results) = read(&path, &text[..complete])? else { continue };
        let known = match merged.iter_mut().find(|known| known.sweep == sweep) {
            Some(known) => known,
            None => merged.push_mut(Merged { sweep, results: BTreeMap::new() }),
        };
        for (task, run) in results {
            if known.results.get(&task).is_some_and(|other| *other != run) {
                return Err(RunFileError::Contradiction(path, task));
            }
            known.results.insert(task, run);
        }
    }
    if merged.is_empty() {
        return Err(RunFileError::Empty(folder.to_owned()));
    }
    merged.sort_by(|a, b| a.sweep.experiment.cmp(&b.sweep.experiment));
    Ok(merged)
}

type Contents = (Option<Description>, BTreeMap<Task, String>);

/// Reads complete lines.
fn read(path: &Path, text: &str) -> Result<Contents, RunFileError> {
    let malformed = |line, expected| RunFileError::Malformed(path.to_owned(), line, expected);
    let mut lines = text.lines().enumerate();
    let Some((_, header)) = lines.next() else { return Ok((None, BTreeMap::new())) };
    let header = serde_json::from_str(header)
        .map_err(|_| malformed(1, "a description of the runs as JSON"))?;
    let header: Description = header;
    if !(1..=10_000).contains(&header.seeds) {
        return Err(malformed(1, "a number of seeds from 1 to 10000"));
    }
    let mut results = BTreeMap::new();
    for (index, line) in lines {
        let line: Line<'_> = serde_json::from_str(line).map_err(|_| {
            malformed(index + 1, "a run as JSON: {\"cell\":…,\"seed\":…,\"run\":…}")
        })?;
        results.insert(Task { cell: line.cell, seed: line.seed }, line.run.get().to_owned());
    }
    Ok((Some(header), results))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder of its own in the target folder of the tests.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("sim-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn task(cell: usize, seed: u64) -> Task {
        Task { cell, seed }
    }

    /// A killed process leaves an incomplete line: it is ignored, and replaced by the run.
    #[test]
    fn a_broken_last_line_is_run_again() {
        let folder = folder("broken");
        let sweep = Description::new("demo", 2, None);
        let mut file = RunFile::open(&folder, "demo", &sweep).unwrap();
        file.append(task(0, 1), "{\"loss\":0.1}").unwrap();
        file.append(task(0, 2), "{\"loss\":0.30000000000000004}").unwrap();
        let error = RunFile::open(&folder, "demo", &sweep).unwrap_err().to_string();
        assert!(error.ends_with("in use by another process (expected one at a time)"), "{error}");
        drop(file);
        let path = folder.join("demo.runs.jsonl");
        let whole = fs::read_to_string(&path).unwrap();
        for cut in 1..whole.lines().last().unwrap().len() {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut file = RunFile::open(&folder, "demo", &sweep).unwrap();
            assert_eq!(file.results().keys().copied().collect::<Vec<_>>(), [task(0, 1)]);
            file.append(task(0, 2), "{\"loss\":0.30000000000000004}").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_of_one_sweep_are_joined_and_contradictions_named() {
        let folder = folder("joined");
        let sweep = Description::new("demo", 2, Some("[link]"));
        for (part, run) in [("a", "1.5"), ("b", "2.5")] {
            let mut file = RunFile::open(&folder, part, &sweep).unwrap();
            file.append(task(0, 3), "7").unwrap();
            file.append(task(usize::from(part == "b"), 1), run).unwrap();
        }
        let other = Description::new("another", 2, None);
        RunFile::open(&folder, "c", &other).unwrap();
        let merged = merge(&folder).unwrap();
        assert_eq!(merged.iter().map(|m| m.results.len()).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(merged[1].results[&task(1, 1)], "2.5");
        let mut file = RunFile::open(&folder, "d", &sweep).unwrap();
        file.append(task(0, 1), "1.6").unwrap();
        let error = merge(&folder).unwrap_err().to_string();
        assert!(error.contains("different result for cell 0 with seed 1"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_of_another_sweep_is_left_as_it_is() {
        let folder = folder("other");
        RunFile::open(&folder, "demo", &Description::new("demo", 2, None)).unwrap();
        let path = folder.join("demo.runs.jsonl");
        let before = fs::read(&path).unwrap();
        let error = RunFile::open(&folder, "demo", &Description::new("demo", 3, None)).unwrap_err();
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "runs of demo with 2 seeds, version {version} (expected demo with 3 seeds, version {version})"
        );
        assert!(error.to_string().ends_with(&expected), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
        fs::write(&path, "not JSON\n").unwrap();
        let error = RunFile::open(&folder, "demo", &Description::new("demo", 3, None)).unwrap_err();
        assert!(error.to_string().ends_with(":1: expected a description of the runs as JSON"));
        fs::remove_dir_all(&folder).unwrap();
        let error = merge(&folder).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }
}
