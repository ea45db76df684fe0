//! Scalable congestion control like Prague: the window is reduced by half the fraction of marked
//! segments.
//!
//! **Source.** RFC 9331 §4.3, the requirements on scalable controls, and
//! draft-briscoe-iccrg-prague-congestion-control: ECT(1); α, the moving average of the marked
//! fraction with a gain of 1/16 once per round trip (§2.4.2, as RFC 8257 §3.3); a reduction of the
//! window to 1 − α/2 of its size, at most once per round trip, at the first mark; growth by a
//! segment per round trip for unmarked segments, as if the round trip took at least 25 ms (§2.4.4);
//! halving after a loss; pacing at one window per round trip, twice that in slow start (§2.4.5).
//!
//! **Simplifications.** α begins at 1. Slow start ends at the first mark or loss. No fall-back for
//! queues that mark as for a loss (RFC 9331 §4.3, a SHOULD), and no window below two segments.

use freeboard::sched_core::{Ecn, Nanos};

use super::{Cause, Controller, Feedback, Window};

/// Gain of the moving average.
const GAIN: f64 = 1.0 / 16.0;
/// Minimum round-trip time assumed for growth.
const VIRTUAL_RTT: Nanos = Nanos::from_millis(25);

/// Prague-like congestion control.
#[derive(Clone, Debug)]
pub struct Prague {
    /// Moving average of the fraction of marked segments.
    alpha: f64,
    /// Segments delivered in this round.
    delivered: u32,
    marked: u32,
    /// True if the window was reduced in this round.
    reduced: bool,
    pace: Option<f64>,
}

impl Prague {
    /// Creates the initial state.
    #[must_use]
    pub const fn new() -> Self {
        Self { alpha: 1.0, delivered: 0, marked: 0, reduced: false, pace: None }
    }
}

impl Default for Prague {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for Prague {
    fn ecn(&self) -> Ecn {
        Ecn::Ect1
    }

    fn hear(&mut self, window: &mut Window, feedback: &Feedback) {
        if feedback.round_begins && self.delivered > 0 {
            let part = f64::from(self.marked) / f64::from(self.delivered);
            self.alpha += GAIN * (part.min(1.0) - self.alpha);
            (self.delivered, self.marked, self.reduced) = (0, 0, false);
        }
        self.delivered += feedback.delivered;
        self.marked += feedback.marks;
        if feedback.marks > 0 && !self.reduced {
            self.reduced = true;
            window.size = (window.size * (1.0 - self.alpha / 2.0)).max(Window::LEAST_THRESHOLD);
            window.threshold = window.size;
        }
        if feedback.smoothed > Nanos::ZERO {
            let ahead = if window.is_in_slow_start() { 2.0 } else { 1.0 };
            self.pace = Some(ahead * window.size / (feedback.smoothed.0 as f64 / 1e9));
        }
    }

    fn grow(&mut self, window: &mut Window, feedback: &Feedback) {
        let unmarked = feedback.delivered.saturating_sub(feedback.marks);
        let left = window.slow_start(unmarked.into());
        let rtt = feedback.smoothed.0 as f64 / VIRTUAL_RTT.0 as f64;
        let slower = if rtt < 1.0 { rtt * rtt } else { 1.0 };
        window.size += slower * left / window.size;
    }

    fn reduce(&mut self, _now: Nanos, flight: f64, _cause: Cause) -> f64 {
        (flight / 2.0).max(Window::LEAST_THRESHOLD)
    }

    fn pace(&self) -> Option<f64> {
        self.pace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(delivered: u32, marks: u32, round_begins: bool) -> Feedback {
        let rtt = Nanos::from_millis(50);
        Feedback {
            now: Nanos::ZERO,
            rtt: Some(rtt),
            smoothed: rtt,
            least: rtt,
            delivered,
            marks,
            in_flight: 0,
            round_begins,
            rate: None,
        }
    }

    /// Calculated manually: α is 1 at first, so the first mark halves the window. A round in which
    /// a quarter is marked gives α = 1 + (0.25 − 1) / 16 = 0.953125; the next mark takes 0.4765625
    /// of the window, and no other one of that round reduces it.
    #[test]
    fn a_window_is_reduced_by_half_of_the_marked_part() {
        let mut prague = Prague::new();
        let mut window = Window { size: 100.0, ..Window::INITIAL };
        prague.hear(&mut window, &feedback(4, 1, true));
        assert_eq!(window, Window { size: 50.0, threshold: 50.0 });
        prague.hear(&mut window, &feedback(0, 0, true));
        assert_eq!(prague.alpha, 0.953_125);
        for _ in 0..3 {
            prague.hear(&mut window, &feedback(1, 1, false));
            assert_eq!(window.size, 50.0 * (1.0 - 0.476_562_5));
        }
        assert_eq!(prague.reduce(Nanos::ZERO, 30.0, Cause::Loss), 15.0);
    }

    /// Two marks per round trip balance the growth of one segment where α · w / 2 = 1.
    #[test]
    fn a_steady_part_of_marks_holds_the_window_near_two_over_the_part() {
        let mut prague = Prague::new();
        let mut window = Window { size: 20.0, threshold: 20.0 };
        let (mut credit, mut sizes) = (0.0, Vec::new());
        for _ in 0..2_000 {
            for ack in 0..window.size as u32 {
                credit += 0.05;
                let marks = u32::from(credit >= 1.0);
                credit -= f64::from(marks);
                let feedback = feedback(1, marks, ack == 0);
                prague.hear(&mut window, &feedback);
                prague.grow(&mut window, &feedback);
            }
            sizes.push(window.size);
        }
        let mean = sizes[1_000..].iter().sum::<f64>() / 1_000.0;
        assert!((36.0..44.0).contains(&mean), "{mean}");
    }
}
