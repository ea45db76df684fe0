//! CUBIC congestion control: the window is a cubic function of the time since its last reduction.
//!
//! **Source.** RFC 9438: the window of equation 1 one round trip ahead, at most 1.5 times the
//! current one (§4.2); the Reno-friendly region (§4.3); 0.7 after a congestion event (§4.6); fast
//! convergence (§4.7); a timeout (§4.8). Slow start ends early by HyStart's delay rule (Ha and
//! Rhee, "Taming the Elephants", 2011): a round of at least eight samples whose minimum round-trip
//! time exceeds the minimum of all by an eighth, at least 4 ms and at most 16 ms, in a window of 16
//! segments or more. RFC 8312, which RFC 9438 replaced in 2023, has one slope in the Reno-friendly
//! region (§4.2 there).
//!
//! **Simplifications.** HyStart's rule of ACK trains is omitted. Linux has both.

use freeboard::sched_core::{Ecn, Nanos};

use super::{Cause, Controller, Feedback, Window};

/// Constant C of equation 1, in segments per second cubed.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Growth of the Reno-friendly window per round trip: 3 · (1 − β) / (1 + β), equal to Reno on
/// average (§4.3).
const FRIENDLY: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// State of the growth since the last congestion event.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    start: Nanos,
    /// K: seconds from the start until the window has returned to `origin`.
    k: f64,
    /// Window at time K, W_max of equation 1.
    origin: f64,
    /// Reno-friendly window, W_est.
    friendly: f64,
}

/// CUBIC congestion control.
#[derive(Clone, Debug)]
pub struct Cubic {
    ecn: Ecn,
    /// Slope of the Reno-friendly region above `cwnd_prior`.
    steepest: f64,
    /// W_max: the window before the last reduction, lowered by fast convergence; `None` after a
    /// timeout.
    highest: Option<f64>,
    /// Window before the last reduction, `cwnd_prior`.
    before: f64,
    epoch: Option<Epoch>,
    slow_start: HyStart,
}

/// HyStart: detects the end of slow start.
#[derive(Clone, Copy, Debug, Default)]
struct HyStart {
    samples: u32,
    shortest: Option<Nanos>,
}

impl HyStart {
    const SAMPLES: u32 = 8;
    const LEAST_WINDOW: f64 = 16.0;

    fn is_over(&mut self, window: f64, feedback: &Feedback) -> bool {
        if feedback.round_begins {
            *self = Self::default();
        }
        let Some(rtt) = feedback.rtt else { return false };
        self.samples += 1;
        let shortest = self.shortest.map_or(rtt, |shortest| shortest.min(rtt));
        self.shortest = Some(shortest);
        let [least, most] = [4, 16].map(|ms| Nanos::from_millis(ms).0);
        let allowance = (feedback.least.0 / 8).clamp(least, most);
        window >= Self::LEAST_WINDOW
            && self.samples >= Self::SAMPLES
            && shortest >= feedback.least.plus(Nanos(allowance))
    }
}

impl Cubic {
    /// Creates a controller for segments with this code point: [`Ecn::Ect0`] or [`Ecn::NotEct`].
    #[must_use]
    pub fn new(ecn: Ecn) -> Self {
        let (highest, before, epoch, slow_start) = (None, 0.0, None, HyStart::default());
        Self { ecn, steepest: 1.0, highest, before, epoch, slow_start }
    }

    /// Creates a controller by RFC 8312 §4.2, as in kernels of 2018: in the Reno-friendly region
    /// the window never grows by a whole segment per round trip.
    #[must_use]
    pub fn rfc_8312(ecn: Ecn) -> Self {
        Self { steepest: FRIENDLY, ..Self::new(ecn) }
    }
}

impl Epoch {
    fn begin(now: Nanos, window: f64, highest: Option<f64>) -> Self {
        let origin = highest.map_or(window, |highest| highest.max(window));
        Self { start: now, k: libm::cbrt((origin - window) / C), origin, friendly: window }
    }

    /// Evaluates equation 1 at `seconds` after the start.
    fn at(&self, seconds: f64) -> f64 {
        let from_origin = seconds - self.k;
        C * from_origin * from_origin * from_origin + self.origin
    }
}

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

impl Controller for Cubic {
    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn grow(&mut self, window: &mut Window, feedback: &Feedback) {
        if window.is_in_slow_start() && self.slow_start.is_over(window.size, feedback) {
            window.threshold = window.size;
        }
        let delivered = window.slow_start(feedback.delivered.into());
        if delivered <= 0.0 {
            return;
        }
        let (now, size, highest) = (feedback.now, window.size, self.highest);
        let epoch = self.epoch.get_or_insert_with(|| Epoch::begin(now, size, highest));
        let since = seconds(feedback.now.since(epoch.start));
        let share = if epoch.friendly >= self.before { self.steepest } else { FRIENDLY };
        epoch.friendly += share * delivered / window.size;
        if epoch.at(since) < epoch.friendly {
            window.size = window.size.max(epoch.friendly);
            return;
        }
        let ahead = epoch.at(since + seconds(feedback.smoothed));
        let target = ahead.clamp(window.size, 1.5 * window.size);
        window.size += (target - window.size) / window.size * delivered;
    }

    fn reduce(&mut self, _now: Nanos, flight: f64, cause: Cause) -> f64 {
        let converges = self.highest.is_some_and(|highest| flight < highest);
        let highest = if converges { flight * (1.0 + BETA) / 2.0 } else { flight };
        self.highest = (cause != Cause::Timeout).then_some(highest);
        self.before = flight;
        self.epoch = None;
        (flight * BETA).max(Window::LEAST_THRESHOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos::from_millis(100);

    fn feedback(now: Nanos, delivered: u32) -> Feedback {
        Feedback {
            now,
            rtt: Some(RTT),
            smoothed: RTT,
            least: RTT,
            delivered,
            marks: 0,
            in_flight: 0,
            round_begins: false,
            rate: None,
        }
    }

    /// Calculated manually: a window of 1,000 segments is reduced to 700, so K = ∛(300 / 0.4) =
    /// 9.0856 s, and W(t) = 0.4 (t − K)³ + 1,000:
    ///
    /// | t | 0 | 2 | 5 | 9.0856 | 12 |
    /// |---|---|---|---|---|---|
    /// | W | 700.0 | 857.70 | 972.72 | 1,000.0 | 1,009.90 |
    #[test]
    fn the_window_is_equation_1() {
        let mut cubic = Cubic::new(Ecn::NotEct);
        assert!((cubic.reduce(Nanos::ZERO, 1_000.0, Cause::Loss) - 700.0).abs() < 1e-9);
        let epoch = Epoch::begin(Nanos::ZERO, 700.0, cubic.highest);
        assert!((epoch.k - 9.085_6).abs() < 1e-4, "{}", epoch.k);
        for (t, window) in
            [(0.0, 700.0), (2.0, 857.7047), (5.0, 972.7187), (9.085_6, 1_000.0), (12.0, 1_009.90)]
        {
            assert!((epoch.at(t) - window).abs() < 0.005, "{t}: {}", epoch.at(t));
        }
    }

    /// A window acknowledged once per round trip lags its target by a round trip, so it lies
    /// between the curve and the curve one round trip ahead.
    #[test]
    fn acknowledgements_take_the_window_along_the_curve() {
        let mut cubic = Cubic::new(Ecn::NotEct);
        let threshold = cubic.reduce(Nanos::ZERO, 1_000.0, Cause::Loss);
        let mut window = Window { size: threshold, threshold };
        let epoch = Epoch::begin(Nanos::ZERO, 700.0, cubic.highest);
        for step in 0..150 {
            let delivered = window.size as u32;
            for ack in 0..delivered {
                let part = RTT.0 * u64::from(ack) / u64::from(delivered);
                cubic.grow(&mut window, &feedback(Nanos(step * RTT.0 + part), 1));
            }
            let end = seconds(RTT) * (step + 1) as f64;
            let (low, high) = (epoch.at(end - 0.1), epoch.at(end + 0.1));
            assert!((low - 1.0..=high + 1.0).contains(&window.size), "{step}: {low} {window:?}");
        }
    }

    /// §4.7: a window below the previous W_max sets W_max to (1 + β) / 2 of it; a larger one sets
    /// it to itself.
    #[test]
    fn a_window_that_falls_leaves_room() {
        let mut cubic = Cubic::new(Ecn::NotEct);
        cubic.reduce(Nanos::ZERO, 1_000.0, Cause::Loss);
        cubic.reduce(Nanos::ZERO, 800.0, Cause::Loss);
        assert_eq!(cubic.highest, Some(680.0));
        cubic.reduce(Nanos::ZERO, 900.0, Cause::Mark);
        assert_eq!(cubic.highest, Some(900.0));
        cubic.reduce(Nanos::ZERO, 900.0, Cause::Timeout);
        let epoch = Epoch::begin(Nanos::ZERO, 20.0, cubic.highest);
        assert_eq!((epoch.k, epoch.origin), (0.0, 20.0), "§4.8");
    }

    /// §4.3: a small window grows as Reno's would, by 9/17 of a segment per round trip up to the
    /// previous window and by a whole one above it. Calculated manually from 7 segments: 7 + 9/17/7
    /// = 7.075630, then 9/17/7.075630 more, and so on.
    #[test]
    fn a_small_window_grows_as_renos() {
        let mut cubic = Cubic::new(Ecn::NotEct);
        let threshold = cubic.reduce(Nanos::ZERO, 10.0, Cause::Loss);
        let mut window = Window { size: threshold, threshold };
        let mut grow = || {
            let short = Feedback { smoothed: Nanos(10_000), ..feedback(Nanos(1), 1) };
            cubic.grow(&mut window, &short);
            window.size
        };
        for expected in [7.075_630, 7.150_452, 7.224_491] {
            let size = grow();
            assert!((size - expected).abs() < 1e-6, "{size} {expected}");
        }
        let grown: Vec<f64> = (0..100).map(|_| grow()).collect();
        let steps = grown.windows(2).map(|pair| ((pair[1] - pair[0]) * pair[0], pair[0]));
        for (share, before) in steps {
            let expected = if before < 10.0 { 9.0 / 17.0 } else { 1.0 };
            assert!((share - expected).abs() < 1e-6, "{before}: {share}");
        }
        assert!(grown.last().is_some_and(|&size| size > 14.0), "{grown:?}");
    }

    /// RFC 8312 §4.2: also above the previous window, growth is 9/17 of a segment per round trip.
    #[test]
    fn by_rfc_8312_the_slope_stays() {
        let mut cubic = Cubic::rfc_8312(Ecn::NotEct);
        let threshold = cubic.reduce(Nanos::ZERO, 10.0, Cause::Loss);
        let mut window = Window { size: threshold, threshold };
        for _ in 0..200 {
            let before = window.size;
            let short = Feedback { smoothed: Nanos(10_000), ..feedback(Nanos(1), 1) };
            cubic.grow(&mut window, &short);
            assert!(((window.size - before) * before - 9.0 / 17.0).abs() < 1e-6, "{before}");
        }
        assert!(window.size > 14.0, "{window:?}");
    }

    #[test]
    fn slow_start_ends_when_a_round_is_longer() {
        let mut cubic = Cubic::new(Ecn::NotEct);
        let mut window = Window { size: 20.0, ..Window::INITIAL };
        let at = |ms, round_begins| Feedback {
            rtt: Some(Nanos::from_millis(ms)),
            round_begins,
            ..feedback(Nanos::ZERO, 1)
        };
        for _ in 0..20 {
            cubic.grow(&mut window, &at(112, false));
        }
        assert!(window.threshold.is_infinite());
        for sample in 0..8 {
            assert!(window.threshold.is_infinite(), "{sample}");
            // An eighth of 100 ms.
            cubic.grow(&mut window, &at(113, sample == 0));
        }
        assert_eq!(window.threshold, 47.0);
    }
}
