//! BBR-like congestion control: it sends at the delivery rate of the path and keeps about two
//! bandwidth-delay products in flight.
//!
//! **Source.** draft-cardwell-iccrg-bbr-congestion-control-00: the maximum delivery rate of ten
//! round trips and the minimum round-trip time of ten seconds (§4.1); Startup at 2/ln 2 until three
//! rounds have grown by less than a quarter, Drain, ProbeBW with the eight gains 1.25, 0.75, 1, …,
//! ProbeRTT with four segments for 200 ms (§4.3). The delivery rate is that of
//! draft-cheng-iccrg-delivery-rate-estimation-00.
//!
//! **Simplifications.** ProbeBW starts with gain 1.25, not with a random one. Policers are not
//! detected. A loss affects only the phase of ProbeBW; after a timeout the window is one segment.
//! Segments are not sent in bursts.

use freeboard::sched_core::{Ecn, Nanos};

use super::{Cause, Controller, Feedback, Window};

/// Gain of Startup: 2 / ln 2.
const STARTUP: f64 = 2.885_390_081_777_927;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const RATE_ROUNDS: u64 = 10;
const RTT_WINDOW: Nanos = Nanos::from_secs(10);
const PROBE_RTT: Nanos = Nanos::from_millis(200);
const LEAST_WINDOW: f64 = 4.0;
/// Segments added to twice the bandwidth-delay product.
const MORE: f64 = 3.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Startup,
    Drain,
    /// Index of the gain in the cycle, and its start.
    ProbeBandwidth(usize, Nanos),
    /// End of the phase, set once the window is small enough.
    ProbeRtt(Option<Nanos>),
}

/// BBR-like congestion control.
#[derive(Clone, Debug)]
pub struct Bbr {
    phase: Phase,
    round: u64,
    /// Delivery rates in segments per second with their rounds, decreasing.
    rates: Vec<(u64, f64)>,
    /// Minimum round-trip time and its time.
    least: Option<(Nanos, Nanos)>,
    /// Rate that Startup last grew to, and the rounds since.
    full: (f64, u32),
    lost: bool,
    /// Window before ProbeRTT.
    saved: f64,
}

impl Bbr {
    /// Creates the initial state.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            phase: Phase::Startup,
            round: 0,
            rates: Vec::new(),
            least: None,
            full: (0.0, 0),
            lost: false,
            saved: 0.0,
        }
    }

    fn rate(&self) -> Option<f64> {
        self.rates.first().map(|&(_, rate)| rate)
    }

    /// Returns the bandwidth-delay product in segments.
    fn product(&self) -> Option<f64> {
        let (least, _) = self.least?;
        Some(self.rate()? * least.0 as f64 / 1e9)
    }

    fn pacing_gain(&self) -> f64 {
        match self.phase {
            Phase::Startup => STARTUP,
            Phase::Drain => 1.0 / STARTUP,
            Phase::ProbeBandwidth(at, _) => CYCLE[at],
            Phase::ProbeRtt(_) => 1.0,
        }
    }

    fn learn(&mut self, feedback: &Feedback) {
        self.round += u64::from(feedback.round_begins);
        if let Some((rate, starved)) = feedback.rate
            && (!starved || self.rate().is_none_or(|known| rate >= known))
        {
            self.rates.retain(|&(_, known)| known > rate);
            self.rates.push((self.round, rate));
        }
        let oldest = self.round.saturating_sub(RATE_ROUNDS);
        let newest = self.rates.last().copied();
        self.rates.retain(|&(round, _)| round >= oldest);
        // After a long idle period the last known rate is kept.
        if self.rates.is_empty() {
            self.rates.extend(newest);
        }
        if feedback.round_begins
            && self.phase == Phase::Startup
            && let Some(rate) = self.rate()
        {
            self.full =
                if rate >= 1.25 * self.full.0 { (rate, 0) } else { (self.full.0, self.full.1 + 1) };
        }
    }

    fn learn_round_trip(&mut self, window: &mut Window, feedback: &Feedback) {
        let now = feedback.now;
        let is_old = self.least.is_some_and(|(_, seen)| now.since(seen) > RTT_WINDOW);
        if let Some(rtt) = feedback.rtt
            && (is_old || self.least.is_none_or(|(least, _)| rtt <= least))
        {
            self.least = Some((rtt, now));
        }
        if is_old && !matches!(self.phase, Phase::ProbeRtt(_)) {
            self.saved = window.size;
            self.phase = Phase::ProbeRtt(None);
        }
    }

    fn step(&mut self, window: &mut Window, feedback: &Feedback) {
        let (now, in_flight) = (feedback.now, f64::from(feedback.in_flight));
        let product = self.product().unwrap_or(f64::INFINITY);
        match self.phase {
            Phase::Startup if self.full.1 >= 3 => self.phase = Phase::Drain,
            Phase::Drain if in_flight <= product => {
                self.phase = Phase::ProbeBandwidth(0, now);
            }
            Phase::ProbeBandwidth(at, since) => {
                let least = self.least.map_or(Nanos::ZERO, |(least, _)| least);
                let is_over = match at {
                    0 => now.since(since) > least && (self.lost || in_flight >= CYCLE[0] * product),
                    1 => now.since(since) > least || in_flight <= product,
                    _ => now.since(since) > least,
                };
                if is_over {
                    self.phase = Phase::ProbeBandwidth((at + 1) % CYCLE.len(), now);
                }
            }
            Phase::ProbeRtt(None) if in_flight <= LEAST_WINDOW => {
                self.phase = Phase::ProbeRtt(Some(now.plus(PROBE_RTT)));
            }
            Phase::ProbeRtt(Some(until)) if until <= now => {
                if let Some((_, seen)) = &mut self.least {
                    *seen = now;
                }
                window.size = window.size.max(self.saved);
                let full = self.full.1 >= 3;
                self.phase = if full { Phase::ProbeBandwidth(2, now) } else { Phase::Startup };
            }
            _ => (),
        }
        self.lost = false;
    }
}

impl Default for Bbr {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for Bbr {
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn hear(&mut self, window: &mut Window, feedback: &Feedback) {
        self.learn(feedback);
        self.learn_round_trip(window, feedback);
        self.step(window, feedback);
        let gain = if matches!(self.phase, Phase::Startup | Phase::Drain) { STARTUP } else { 2.0 };
        let target = self.product().map_or(f64::INFINITY, |product| gain * product + MORE);
        let grown = window.size + f64::from(feedback.delivered);
        window.size = match self.phase {
            Phase::ProbeRtt(_) => LEAST_WINDOW,
            // The window is lowered to its target only after the rate is known.
            Phase::Startup if grown > target => window.size,
            _ => grown.min(target).max(LEAST_WINDOW),
        };
    }

    fn grow(&mut self, _window: &mut Window, _feedback: &Feedback) {}

    fn reduce(&mut self, _now: Nanos, flight: f64, _cause: Cause) -> f64 {
        self.lost = true;
        flight
    }

    fn pace(&self) -> Option<f64> {
        Some(self.pacing_gain() * self.rate()?)
    }

    fn owns_window(&self) -> bool {
        true
    }
}
