//! Progress and remaining time of a run, shown on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A progress line. Threads may share it.
///
/// ```
/// use sim::progress::Progress;
///
/// let progress = Progress::new("runs");
/// progress.expect(2);
/// for _run in 0..2 {
///     progress.done();
/// }
/// progress.clear();
/// ```
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a progress line at 0 %. Nothing is shown if standard error is not a terminal.
    #[must_use]
    pub fn new(of: &str) -> Self {
        let style = "{prefix} {bar:30} {percent:>3} %, {eta} left";
        let bar = match ProgressStyle::with_template(style) {
            Ok(style) => ProgressBar::no_length().with_style(style),
            Err(_) => ProgressBar::hidden(),
        };
        Self { bar: bar.with_prefix(of.to_owned()) }
    }

    /// Creates a progress line that is never shown.
    #[must_use]
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// Adds `steps` to the expected number of steps.
    pub fn expect(&self, steps: u64) {
        self.bar.set_length(self.bar.length().unwrap_or(0).saturating_add(steps));
    }

    /// Counts one completed step.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Sets the number of completed steps.
    pub fn set(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
