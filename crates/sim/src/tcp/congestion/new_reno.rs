//! NewReno: a segment a round trip, half of it after a loss.
//!
//! **Source.** RFC 5681 §3.1: slow start by the segments that are acknowledged, a segment a round
//! trip above the threshold, half of what was in flight after a loss. RFC 3168 §6.1.2: a mark as a
//! loss.

use freeboard::sched_core::{Ecn, Nanos};

use super::{Cause, Controller, Feedback, Window};

/// NewReno.
#[derive(Clone, Copy, Debug)]
pub struct NewReno {
    ecn: Ecn,
}

impl NewReno {
    /// A control whose packets have this codepoint: [`Ecn::Ect0`], or [`Ecn::NotEct`].
    #[must_use]
    pub const fn new(ecn: Ecn) -> Self {
        Self { ecn }
    }
}

impl Controller for NewReno {
    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn grow(&mut self, window: &mut Window, feedback: &Feedback) {
        let left = window.slow_start(feedback.delivered.into());
        window.size += left / window.size;
    }

    fn reduce(&mut self, _now: Nanos, flight: f64, _cause: Cause) -> f64 {
        (flight / 2.0).max(Window::LEAST_THRESHOLD)
    }
}
