//! Subjects of commits: at most 72 characters, so that lists of them are not cut.

use std::process::Command;

use crate::run::{output, root};

const MOST: usize = 72;
/// Commits before this day had longer subjects.
const SINCE: &str = "2026-11-28T12:00:00Z";

pub(crate) fn run() -> Result<(), String> {
    let step = "subjects of commits";
    eprintln!("xtask: {step}");
    let mut log = Command::new("git");
    log.args(["log", "--no-merges", "--format=%h %s", "--since", SINCE]).current_dir(root());
    let log = output(step, &mut log)?;
    let long = too_long(&log);
    if long.is_empty() {
        return Ok(());
    }
    Err(format!("{step}: longer than {MOST} characters:\n{}", long.join("\n")))
}

/// The lines of `log`, a hash and a subject each, with a subject that is too long.
fn too_long(log: &str) -> Vec<&str> {
    let subject =
        |line: &str| line.split_once(' ').map_or(0, |(_, subject)| subject.chars().count());
    log.lines().filter(|line| subject(line) > MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST, too_long};

    #[test]
    fn a_subject_of_73_characters_is_too_long() {
        let (fits, long) = ("ü".repeat(MOST), "ü".repeat(MOST + 1));
        let log = format!("0123abc {fits}\n4567def {long}\n");
        assert_eq!(too_long(&log), [format!("4567def {long}")]);
    }
}
