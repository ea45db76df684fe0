//! Shows the progress and the remaining time of long runs on standard error.

use core::time::Duration;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::run::root;

/// Returns a progress bar for `steps` steps of similar length, hidden unless standard error is a
/// terminal.
pub(crate) fn progress(steps: u64) -> ProgressBar {
    styled(ProgressBar::new(steps), "{bar:30} {pos} of {len}, {eta} left")
}

fn styled(bar: ProgressBar, style: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(style);
    style.map_or_else(|_| ProgressBar::hidden(), |style| bar.with_style(style))
}

/// Runs a `command` that ends by itself after `seconds` and shows the time elapsed.
pub(crate) fn succeed_after(seconds: u32, step: &str, command: &mut Command) -> Result<(), String> {
    eprintln!("xtask: {step}");
    let mut child = command
        .spawn()
        .map_err(|error| format!("{step}: {:?} did not start: {error}", command.get_program()))?;
    let bar = styled(ProgressBar::new(seconds.into()), "{bar:30} {pos} of {len} s");
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| format!("{step}: {error}"))? {
            Some(status) => break status,
            None => bar.set_position(begin.elapsed().as_secs().min(seconds.into())),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    bar.finish_and_clear();
    if status.success() { Ok(()) } else { Err(format!("{step}: {status}")) }
}

/// A step of a run: its name and its action.
pub(crate) type Step = (&'static str, Box<dyn Fn() -> Result<(), String>>);

/// Runs `steps` in order until one fails. Prints before each step how many there are and, if all
/// durations are known from earlier runs, the time left.
pub(crate) fn one_after_another(steps: &[Step]) -> Result<(), String> {
    let mut known = Durations::read();
    for (number, (name, step)) in (1..).zip(steps) {
        let rest = steps.iter().skip(number - 1).map(|(name, _)| known.of(name));
        let left = rest.sum::<Option<Duration>>();
        let left = left.map_or(String::new(), |left| format!(", {} left", HumanDuration(left)));
        eprintln!("xtask: step {number} of {}{left}: {name}", steps.len());
        let begin = Instant::now();
        step()?;
        known.set(name, begin.elapsed());
    }
    Ok(())
}

/// Duration of each step in the last run, kept in a file below `target` with lines `seconds name`.
struct Durations(Vec<(String, u64)>);

impl Durations {
    fn file() -> PathBuf {
        root().join("target/xtask-durations.txt")
    }

    fn read() -> Self {
        Self::from_text(&std::fs::read_to_string(Self::file()).unwrap_or_default())
    }

    fn from_text(text: &str) -> Self {
        let line = |line: &str| {
            let (seconds, name) = line.split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    fn text(&self) -> String {
        self.0.iter().map(|(name, seconds)| format!("{seconds} {name}\n")).collect()
    }

    fn of(&self, name: &str) -> Option<Duration> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|&(_, seconds)| Duration::from_secs(seconds))
    }

    /// Records a duration. Errors in writing are ignored: the next run then shows no estimate.
    fn set(&mut self, name: &str, time: Duration) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), time.as_secs()));
        let _ = std::fs::write(Self::file(), self.text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_they_were_written_and_other_lines_are_passed_over() {
        let known = Durations::from_text("61 clippy\n0 no panic can be reached\nx y\n\n");
        assert_eq!(known.of("clippy"), Some(Duration::from_secs(61)));
        assert_eq!(known.of("no panic can be reached"), Some(Duration::ZERO));
        assert_eq!(known.of("tests"), None);
        assert_eq!(Durations::from_text(&known.text()).0, known.0);
    }
}
