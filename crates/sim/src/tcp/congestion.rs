//! Congestion control: how large a window is.

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
    /// `cwnd`.
    pub size: f64,
    /// `ssthresh`.
    pub threshold: f64,
}

impl Window {
    /// Ten segments (RFC 6928), and no threshold.
    pub const INITIAL: Self = Self { size: 10.0, threshold: f64::INFINITY };
    /// No threshold is lower (RFC 5681, equation 4).
    pub const LEAST_THRESHOLD: f64 = 2.0;

    /// Whether the window is below its threshold.
    #[must_use]
    pub fn is_in_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Slow start takes as many of these acknowledged segments as it may; returns those that are
    /// left.
    pub fn slow_start(&mut self, acknowledged: f64) -> f64 {
        let taken = acknowledged.min((self.threshold - self.size).max(0.0));
        self.size += taken;
        acknowledged - taken
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// Now.
    pub now: Nanos,
    /// The round trip of the segment that was delivered last, unless it was sent more than once.
    pub rtt: Option<Nanos>,
    /// SRTT.
    pub smoothed: Nanos,
    /// The shortest round trip so far.
    pub least: Nanos,
    /// Segments that are known to have arrived by this acknowledgement.
    pub delivered: u32,
    /// Segments of these, or before, that carried a mark: by how much the count has grown.
    pub marks: u32,
    /// `pipe`: segments in the network.
    pub in_flight: u32,
    /// All that was in flight when the last round began has been delivered: this is the first
    /// acknowledgement of another one.
    pub round_begins: bool,
    /// Segments a second at which the segment that was delivered last was, and whether the sender
    /// had less to send.
    pub rate: Option<(f64, bool)>,
}

/// Why a window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A loss that SACK has shown, once in a window.
    Loss,
    /// A mark, once in a window.
    Mark,
    /// The retransmission timer.
    Timeout,
}

/// A congestion control. Every method has the window in segments.
pub trait Controller: Debug {
    /// The codepoint of what is sent.
    fn ecn(&self) -> Ecn;

    /// Every acknowledgement, also while losses are repaired.
    fn hear(&mut self, _window: &mut Window, _feedback: &Feedback) {}

    /// Segments were delivered and the window may grow: no loss is being repaired, and the window
    /// was in use.
    fn grow(&mut self, window: &mut Window, feedback: &Feedback);

    /// The network is congested. `flight` is the lesser of the window and of what was in flight.
    /// Returns the new threshold; the sender sets the window.
    fn reduce(&mut self, now: Nanos, flight: f64, cause: Cause) -> f64;

    /// Segments a second, if this control paces what it sends.
    fn pace(&self) -> Option<f64> {
        None
    }

    /// Whether losses leave the window to [`Controller::hear`].
    fn owns_window(&self) -> bool {
        false
    }
}
