//! How far a run is, and how long it still takes: a line on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A line that shows progress. Threads may share it.
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
    /// Nothing is done yet. Nothing is shown where standard error is no terminal.
    #[must_use]
    pub fn new(of: &str) -> Self {
        let style = "{prefix} {bar:30} {percent:>3} %, {eta} left";
        let bar = match ProgressStyle::with_template(style) {
            Ok(style) => ProgressBar::no_length().with_style(style),
            Err(_) => ProgressBar::hidden(),
        };
        Self { bar: bar.with_prefix(of.to_owned()) }
    }

    /// Shows nothing.
    #[must_use]
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// There are `steps` more steps to be done.
    pub fn expect(&self, steps: u64) {
        self.bar.set_length(self.bar.length().unwrap_or(0).saturating_add(steps));
    }

    /// One more step is done.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// `steps` steps are done, counted from the beginning.
    pub fn set(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
