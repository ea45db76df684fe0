//! Congestion control: algorithms that determine the window.

mod bbr;
mod cubic;
mod new_reno;
mod prague;

use core::fmt::Debug;

use freeboard::sched_core::{Ecn, Nanos};

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use new_reno::NewReno;
pub use prague::Prague;

/// A window and its slow-start threshold, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window, `cwnd`.
    pub size: f64,
    /// Slow-start threshold, `ssthresh`.
    pub threshold: f64,
}

impl Window {
    /// The initial window: ten segments (RFC 6928), and no threshold.
    pub const INITIAL: Self = Self { size: 10.0, threshold: f64::INFINITY };
    /// Minimum threshold (RFC 5681, equation 4).
    pub const LEAST_THRESHOLD: f64 = 2.0;

    /// Returns true if the window is below its threshold.
    #[must_use]
    pub fn is_in_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Grows the window by acknowledged segments up to the threshold; returns the unused ones.
    pub fn slow_start(&mut self, acknowledged: f64) -> f64 {
        let taken = acknowledged.min((self.threshold - self.size).max(0.0));
        self.size += taken;
        acknowledged - taken
    }
}

/// Information from one acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// Current time.
    pub now: Nanos,
    /// Round-trip time of the segment that was delivered last, unless it was sent more than once.
    pub rtt: Option<Nanos>,
    /// Smoothed round-trip time, SRTT.
    pub smoothed: Nanos,
    /// Minimum round-trip time so far.
    pub least: Nanos,
    /// Number of segments newly known to have arrived.
    pub delivered: u32,
    /// Number of newly reported marks: the growth of the count of marked segments.
    pub marks: u32,
    /// Estimated number of segments in the network, `pipe`.
    pub in_flight: u32,
    /// True for the first acknowledgement of a round: all that was in flight when the last round
    /// began has been delivered.
    pub round_begins: bool,
    /// Delivery rate of the last delivered segment in segments per second, and whether the sender
    /// was limited by its data.
    pub rate: Option<(f64, bool)>,
}

/// Reason to reduce a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A loss shown by SACK, once per window.
    Loss,
    /// A mark, once per window.
    Mark,
    /// Expiry of the retransmission timer.
    Timeout,
}

/// A congestion control algorithm. All windows are in segments.
pub trait Controller: Debug {
    /// Returns the ECN code point of sent segments.
    fn ecn(&self) -> Ecn;

    /// Handles an acknowledgement, also during loss recovery.
    fn hear(&mut self, _window: &mut Window, _feedback: &Feedback) {}

    /// Grows the window after segments were delivered. Not called during loss recovery or if the
    /// window was not fully used.
    fn grow(&mut self, window: &mut Window, feedback: &Feedback);

    /// Handles a congestion signal. `flight` is the smaller of the window and the segments in
    /// flight. Returns the new threshold; the sender sets the window.
    fn reduce(&mut self, now: Nanos, flight: f64, cause: Cause) -> f64;

    /// Returns the pacing rate in segments per second, if this algorithm paces.
    fn pace(&self) -> Option<f64> {
        None
    }

    /// Returns true if the window is set by [`Controller::hear`] only, even after losses.
    fn owns_window(&self) -> bool {
        false
    }
}
