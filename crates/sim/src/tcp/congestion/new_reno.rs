//! NewReno congestion control: additive increase by a segment per round trip, halving after a loss.
//!
//! **Source.** RFC 5681 §3.1: slow start by the acknowledged segments, one segment per round trip
//! above the threshold, half of the segments in flight after a loss. RFC 3168 §6.1.2: a mark counts
//! as a loss.

use freeboard::sched_core::{Ecn, Nanos};

use super::{Cause, Controller, Feedback, Window};

/// NewReno congestion control.
#[derive(Clone, Copy, Debug)]
pub struct NewReno {
    ecn: Ecn,
}

impl NewReno {
    /// Creates a controller for segments with this code point: [`Ecn::Ect0`] or [`Ecn::NotEct`].
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
