//! A rate that follows the line: delay and load in, a rate between a floor and a ceiling out.
//!
//! A mobile, satellite or cable line has no rate that could be configured: a shaper that is set too
//! high leaves the queue in the modem, and one that is set too low gives away what the line has.
//! [`Autorate`] moves the rate by what the caller measures: how long probes take, and how much was
//! sent. It has no clock, no socket and no memory of its own.
//!
//! ```text
//! probes ──▶ delay_sample ─┐
//!                          ├─▶ update, each 200 ms ──▶ Rate ──▶ Shaper::set_rate
//! bytes sent ──────────────┘
//! ```
//!
//! **Sources.** The base delay is that of LEDBAT (RFC 6817 §3.4.2), here an average that falls fast
//! and rises slowly, in place of a list of minima. A share of what was achieved, growth under load,
//! and a return to a base are published practice of operators of variable lines. That a falling
//! delay is no reason to cut is the gradual part of NADA (RFC 8698 §4.3).
//!
//! Cost: constant. [`Autorate::delay_sample`] is a comparison; a decision divides at most five
//! times.

mod arrivals;
mod params;
mod probe;
#[cfg(test)]
mod tests;

use core::num::{NonZeroU64, NonZeroU128};

use sched_core::Nanos;

use crate::Rate;

pub use arrivals::ArrivalRate;
pub use params::{AutorateError, AutorateParams};

/// How fast the baseline rises: by this part of the way in as much time. Under load a standing
/// queue must not become the baseline; without it, or at the floor, the delay is the path's.
const RISE_UNDER_LOAD: NonZeroU64 = NonZeroU64::new(60_000_000_000).unwrap();
const RISE: NonZeroU64 = NonZeroU64::new(2_000_000_000).unwrap();
/// Bits of a byte × nanoseconds of a second.
const BIT_NANOS_PER_BYTE_SECOND: u64 = 8_000_000_000;
/// The longest pause after a cut for a queue to drain: a modem that holds more is not waited for.
const LONGEST_PAUSE: Nanos = Nanos::from_secs(2);
/// The same where the rate has come down to the floor before anything was known of the path.
const LONGEST_WAIT: Nanos = Nanos::from_secs(10);
/// A delay that lasts for so long beside some load is a line slower than a quarter of the rate. By
/// then the baseline has learned seven eighths of a delay that is the path's.
const LASTING: Nanos = Nanos::from_secs(4);

/// What the last decision was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AutorateState {
    /// The rate stays: neither load nor delay is a reason to change it.
    Steady,
    /// The line is used and has no delay: the rate grew.
    Growing,
    /// The delay was too high, or nothing is known of it yet under load: the rate was cut.
    BackingOff,
    /// The delay is too high and falls, or a cut is too recent to be judged: the rate stays.
    Draining,
    /// The line is little used: the rate moved towards the base.
    Returning,
    /// No sample came for the [silence](AutorateParams::SILENCE): the rate is at most the base, and
    /// moves towards the floor under load.
    Silent,
}

impl AutorateState {
    /// The word for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Growing => "growing",
            Self::BackingOff => "backing-off",
            Self::Draining => "draining",
            Self::Returning => "returning",
            Self::Silent => "silent",
        }
    }
}

/// The knowledge that an [`Autorate`] has of a path, for [`Autorate::change_path`]. The default is
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoratePath {
    baseline: Option<Nanos>,
    is_provisional: bool,
}

/// A rate that follows the line: delay samples and loads in, a rate out.
///
/// **Baseline.** The delay of the path without a queue, learned from the least sample of each
/// interval: half of the way at once when samples fall below it, slowly upwards
/// ([`Autorate::update`]). One-way and round-trip delays are both right, and clocks of two ends
/// need not agree: only differences count.
///
/// **Decision**, once an interval, by the least sample of the interval, so that one late probe
/// means nothing:
///
/// | excess over the baseline | load | the rate |
/// |---|---|---|
/// | above the threshold, and not falling | at least 1/4 of the rate | 7/8 of the achieved rate, down to 1/2 at four thresholds |
/// | the same for more than 4 s | at least 1/32 of the rate | the same, of a quarter of the rate |
/// | above the threshold, falling, or soon after a cut | any | stays: a queue drains |
/// | above the threshold | below 1/4 of the rate | 1/32 of the way to the base, if it is above the base |
/// | at most half the threshold | at least 3/4 of the rate | grows by 1/16, by 1/64 near the rate of the last cut |
/// | at most the threshold | below 1/4 of the rate | 1/32 of the way to the base |
/// | baseline provisional | at least 1/16 of the rate | half of the way to the floor |
/// | otherwise | | stays |
/// | no sample for the [silence](AutorateParams::SILENCE) | at least 1/16 of the rate | at most the base, then 1/4 of the way to the floor |
/// | the same | below 1/16 of the rate | at most the base, and 1/32 of the way to it from below |
///
/// The load is that of the interval or of the one before, whichever is greater: a sample tells of
/// both.
///
/// **Provisional.** A first sample under load may be that of a full modem. Until it is known, no
/// excess is seen and the rate does not grow: it goes to the floor, where the queue drains. The
/// least sample is the baseline. It is trusted when the load is low, or when the delay no longer
/// falls at the floor. After [`Autorate::forget_path`] it is trusted at once if there was no excess
/// before.
///
/// **Promises**, for any sequence of times, samples and loads:
/// - The rate is at least the floor and at most the ceiling, after each call.
/// - While the load is high and there is no excess, the rate doubles within 12 intervals, and
///   passes the rate of the last cut within 13 intervals more. So a line that comes back to `n`
///   doublings of the rate is filled within `12n + 13` intervals: 7.4 s for a line that comes back
///   to four times the rate, by default.
/// - On a steady line that stays full, the rate ends up between 3/4 and 9/8 of what the line
///   carries, and stays there: this is shown in the tests for a line that tells its delay 0 to 100
///   ms late, not proved.
/// - A sample that arrives late, twice or in another order within an interval changes nothing. A
///   clock that steps back begins an interval anew; one that leaps costs at most a cut, or a
///   silence if no sample came in that interval.
///
/// **Limits.** The delay of the path itself may rise by more than the threshold, on a path that
/// changes. Samples at low load, or at the floor, teach the baseline within seconds. A line that
/// stays full is cut to the floor first.
///
/// ```
/// use sched_core::Nanos;
/// use shaper::{Autorate, AutorateParams, Rate, Shaper};
///
/// let mbit = Rate::megabits_per_second;
/// // At least 5, usually 20, at most 60 Mbit/s.
/// let params = AutorateParams::new(mbit(5)?, mbit(20)?, mbit(60)?)?;
/// let mut autorate = Autorate::new(params);
/// let mut line = Shaper::new(autorate.rate());
///
/// // A device calls this when a probe is answered, and the rest from a timer.
/// let mut now = Nanos::ZERO;
/// for _ in 0..100 {
///     autorate.delay_sample(Nanos::from_millis(40));
///     now = now.plus(Nanos::from_millis(200));
///     // The line is used to the full: bytes that left since the last call.
///     let sent = autorate.rate().as_bits_per_second().unwrap_or(0) / 8 / 5;
///     line.set_rate(now, autorate.update(now, sent));
/// }
/// assert_eq!(line.rate(), mbit(60)?);
///
/// // The line has become slower, and the modem queues 100 ms.
/// autorate.delay_sample(Nanos::from_millis(140));
/// now = now.plus(Nanos::from_millis(200));
/// line.set_rate(now, autorate.update(now, 1_500_000));
/// assert_eq!(line.rate(), mbit(30)?);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autorate {
    params: AutorateParams,
    rate: Rate,
    /// What `rate` is in bits per second: floor ≤ bps ≤ ceiling.
    bps: u64,
    /// What was achieved when the rate was last cut; 0 if it was never cut, or has grown past it
    /// since.
    knee: u64,
    baseline: Option<Nanos>,
    /// The baseline was learned under load, and may be that of a queue.
    is_provisional: bool,
    /// The last decision saw no excess over a baseline that is known.
    is_calm: bool,
    /// How long each sample has been above the threshold.
    lasting: Nanos,
    /// What was achieved in the interval before.
    load_before: u64,
    /// The present interval: since when, what was sent, and the least sample.
    since: Nanos,
    bytes: u64,
    least: Option<Nanos>,
    /// The least sample of the last interval that had one.
    before: Option<Nanos>,
    /// How long a cut still waits to be judged.
    pause: Nanos,
    /// How long no sample came, up to the last decision.
    quiet: Nanos,
    state: AutorateState,
}

impl Autorate {
    /// A controller that has seen nothing, at the base rate. Its first interval begins at time
    /// zero.
    #[must_use]
    pub const fn new(params: AutorateParams) -> Self {
        let rate = params.base();
        Self {
            params,
            rate,
            bps: params.base_bps(),
            knee: 0,
            baseline: None,
            is_provisional: false,
            is_calm: false,
            lasting: Nanos::ZERO,
            load_before: 0,
            since: Nanos::ZERO,
            bytes: 0,
            least: None,
            before: None,
            pause: Nanos::ZERO,
            quiet: Nanos::ZERO,
            state: AutorateState::Steady,
        }
    }

    /// A probe took `delay`, one way or there and back. Any order and any number are right: the
    /// least of an interval counts. Two to ten in an interval are enough; a probe that is lost is
    /// no sample.
    #[inline]
    pub fn delay_sample(&mut self, delay: Nanos) {
        self.least = Some(self.least.map_or(delay, |least| least.min(delay)));
    }

    /// `bytes` were sent onto the line since the last call, as they are on the wire. Returns the
    /// rate from now on.
    ///
    /// A decision is made if the [interval](AutorateParams::INTERVAL) is over; before, bytes are
    /// only counted. Call it from a timer, as often as the interval or more often. A call that
    /// comes late decides once, over all the time that has passed. `now` before the last decision
    /// begins an interval anew.
    ///
    /// The baseline rises by 1/60 of the way a second while the line is used, and by half of the
    /// way a second while less than a quarter of the rate is used, or at the floor.
    pub fn update(&mut self, now: Nanos, bytes: u64) -> Rate {
        if now < self.since {
            self.begin(now);
            return self.rate;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let span = now.since(self.since);
        if span >= AutorateParams::INTERVAL {
            self.decide(span);
            self.begin(now);
        }
        self.rate
    }

    /// The rate in force.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// What the last decision was.
    #[must_use]
    pub const fn state(&self) -> AutorateState {
        self.state
    }

    /// The delay of the path without a queue, as learned so far; `None` before the first decision
    /// with a sample.
    #[must_use]
    pub const fn baseline(&self) -> Option<Nanos> {
        self.baseline
    }

    /// The settings.
    #[must_use]
    pub const fn params(&self) -> AutorateParams {
        self.params
    }

    /// Changes the settings. The rate becomes the nearest within the new floor and ceiling; what
    /// was learned stays.
    pub fn set_params(&mut self, params: AutorateParams) {
        self.params = params;
        self.set(self.bps);
    }

    /// The path has become another: forgets baseline, samples and cuts. The rate stays until the
    /// next decision, and a silence goes on: a caller that tries one path after another hears of
    /// none.
    pub fn forget_path(&mut self) {
        self.change_path(AutoratePath::default());
    }

    /// Changes to a path of which this is known, and returns what is known of the present one, for
    /// a caller that comes back to it. Otherwise as [`forget_path`](Self::forget_path).
    ///
    /// ```
    /// use sched_core::Nanos;
    /// use shaper::{Autorate, AutorateParams, AutoratePath, Rate};
    ///
    /// let rate = Rate::megabits_per_second(20)?;
    /// let mut autorate = Autorate::new(AutorateParams::new(rate, rate, rate)?);
    /// autorate.delay_sample(Nanos::from_millis(40));
    /// autorate.update(Nanos::from_millis(200), 0);
    /// let path = autorate.change_path(AutoratePath::default());
    /// assert_eq!(autorate.baseline(), None);
    /// autorate.change_path(path);
    /// assert_eq!(autorate.baseline(), Some(Nanos::from_millis(40)));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn change_path(&mut self, to: AutoratePath) -> AutoratePath {
        let Self { params, rate, bps, since, bytes, quiet, state, is_calm, load_before, .. } =
            *self;
        let Self { baseline, is_provisional, pause, .. } = *self;
        let kept = Self { rate, bps, since, bytes, quiet, state, ..Self::new(params) };
        let AutoratePath { baseline: known, is_provisional: is_doubtful } = to;
        let kept = Self { baseline: known, is_provisional: is_doubtful, ..kept };
        // The queue of the modem is the same.
        *self = Self { is_calm, load_before, pause, ..kept };
        AutoratePath { baseline, is_provisional }
    }

    /// Begins an interval.
    fn begin(&mut self, now: Nanos) {
        self.since = now;
        self.bytes = 0;
        self.least = None;
    }

    fn decide(&mut self, span: Nanos) {
        self.pause = self.pause.since(span);
        let load = achieved(self.bytes, span);
        let most = load.max(core::mem::replace(&mut self.load_before, load));
        let Some(least) = self.least else { return self.decide_without_sample(most, span) };
        self.quiet = Nanos::ZERO;
        if self.baseline.is_none() {
            self.is_provisional = !self.is_calm;
        }
        let excess = least.since(self.learn(least, load, span));
        let before = self.before.replace(least);
        // 1/64 of the interval: the line carries that much more than what comes.
        let step = Nanos(AutorateParams::INTERVAL.0 >> 6);
        let is_falling = before.is_some_and(|before| least.plus(step) <= before);
        if self.is_provisional {
            let is_settled = before.is_some() && !is_falling && self.is_at_floor();
            self.is_provisional = most >= self.bps >> 4 && !is_settled;
            if self.is_provisional {
                return self.descend(least, before.is_none());
            }
        }
        let threshold = self.params.threshold();
        self.is_calm = excess <= threshold;
        self.lasting = if self.is_calm { Nanos::ZERO } else { self.lasting.plus(span) };
        if excess > threshold {
            let is_used = most >= self.bps >> 2;
            let is_slow = self.lasting > LASTING && most >= self.bps >> 5;
            if is_falling || self.pause > Nanos::ZERO {
                self.state = AutorateState::Draining;
            } else if is_used {
                self.cut(load.max(self.bps >> 1), excess);
            } else if is_slow {
                self.cut(load.max(self.bps >> 2), excess);
            } else if self.bps > self.params.base_bps() {
                self.move_to_base();
            } else {
                self.state = AutorateState::Steady;
            }
        } else if self.is_used(load) && excess.0 <= threshold.0 >> 1 {
            self.grow();
        } else if load < self.bps >> 2 {
            self.move_to_base();
        } else {
            self.state = AutorateState::Steady;
        }
    }

    fn move_to_base(&mut self) {
        self.state = AutorateState::Returning;
        let base = self.params.base_bps();
        // At least one bit, so that the base is reached.
        let step = (self.bps.abs_diff(base) >> 5).max(1).min(self.bps.abs_diff(base));
        let next = if base < self.bps {
            self.bps.saturating_sub(step)
        } else {
            self.bps.saturating_add(step)
        };
        self.set(next);
    }

    /// Whether the rate has been at the floor for long enough to tell of the queue there.
    fn is_at_floor(&self) -> bool {
        self.bps <= self.params.floor_bps() && self.pause == Nanos::ZERO
    }

    /// Goes half of the way to the floor, and waits there for the queue that was before it came, or
    /// before the first sample.
    fn descend(&mut self, least: Nanos, is_first: bool) {
        let floor = self.params.floor_bps();
        let is_above = self.bps > floor;
        // An eighth of the floor at least, so that it is reached.
        let step = (self.bps.saturating_sub(floor) >> 1).max((floor >> 3).max(1));
        self.set(self.bps.saturating_sub(step));
        if self.bps <= floor && (is_above || is_first) {
            self.pause = AutorateParams::INTERVAL.plus(least.min(LONGEST_WAIT));
        }
        self.state = if is_above { AutorateState::BackingOff } else { AutorateState::Draining };
    }

    fn decide_without_sample(&mut self, load: u64, span: Nanos) {
        self.quiet = self.quiet.plus(span);
        self.state = AutorateState::Steady;
        if self.quiet < AutorateParams::SILENCE {
            return;
        }
        self.is_calm = false;
        let (floor, base) = (self.params.floor_bps(), self.params.base_bps());
        if self.bps > base {
            self.set(base);
        } else if load >= self.bps >> 4 {
            // Answers that wait in a full modem are late, or are lost there.
            let step = (self.bps.saturating_sub(floor) >> 2).max((floor >> 4).max(1));
            self.set(self.bps.saturating_sub(step));
        } else {
            self.move_to_base();
        }
        self.state = AutorateState::Silent;
    }

    /// Moves the baseline by the least sample of an interval, and returns it. A longer time teaches
    /// no more than an interval: it had one sample that counts, and it may be a leap of the clock,
    /// in which little seems to have been sent.
    fn learn(&mut self, least: Nanos, load: u64, span: Nanos) -> Nanos {
        let span = span.min(AutorateParams::INTERVAL);
        let baseline = self.baseline.unwrap_or(least);
        if self.is_provisional {
            let baseline = baseline.min(least);
            self.baseline = Some(baseline);
            return baseline;
        }
        let rise = least.since(baseline);
        let fall = baseline.since(least);
        let is_path = load < self.bps >> 2 || self.bps <= self.params.floor_bps();
        let slowness = if is_path { RISE } else { RISE_UNDER_LOAD };
        let rise = scale(rise.0, span.0.min(slowness.get()), slowness);
        // Rounded up, so that it arrives.
        let fall = fall.0.saturating_sub(fall.0 >> 1);
        let baseline = Nanos(baseline.0.saturating_sub(fall)).plus(Nanos(rise));
        self.baseline = Some(baseline);
        baseline
    }

    /// Whether the line is used enough for a missing delay to mean something: 3/4 of the rate.
    const fn is_used(&self, load: u64) -> bool {
        load >= self.bps.saturating_sub(self.bps >> 2)
    }

    /// Cuts to a share of what was achieved. The caller knows how little of the rate is no measure
    /// of the line.
    fn cut(&mut self, load: u64, excess: Nanos) {
        let threshold = self.params.threshold().nonzero();
        // 7/8 at the threshold, 1/2 from four thresholds on, in 256th.
        let beyond = excess.0.saturating_sub(threshold.get());
        let beyond = scale(beyond, 32, threshold).min(96);
        let share = 224_u64.saturating_sub(beyond);
        let achieved = load.min(self.bps);
        self.knee = achieved;
        // Above 2⁵⁶ bit/s is no rate.
        self.set(achieved.saturating_mul(share) >> 8);
        // A packet that is sent now waits for what is queued before it.
        self.pause = AutorateParams::INTERVAL.plus(excess.min(LONGEST_PAUSE));
        self.state = AutorateState::BackingOff;
    }

    fn grow(&mut self) {
        let near =
            self.knee.saturating_sub(self.knee >> 3)..=self.knee.saturating_add(self.knee >> 4);
        if self.bps > *near.end() {
            // The line has become faster than it was.
            self.knee = 0;
        }
        let shift = if near.contains(&self.bps) { 6 } else { 4 };
        self.set(self.bps.saturating_add(self.bps >> shift));
        self.state = AutorateState::Growing;
    }

    /// The one place where the rate changes.
    fn set(&mut self, bps: u64) {
        let bps = bps.max(self.params.floor_bps()).min(self.params.ceiling_bps());
        if bps != self.bps {
            // Between two rates that are valid.
            if let Ok(rate) = Rate::bits_per_second(bps) {
                (self.bps, self.rate) = (bps, rate);
            }
        }
    }
}

/// Bits per second of `bytes` in `span`; saturates.
fn achieved(bytes: u64, span: Nanos) -> u64 {
    scale(bytes, BIT_NANOS_PER_BYTE_SECOND, span.nonzero())
}

/// `value · part / whole`, rounded down; saturates.
#[allow(clippy::integer_division, reason = "a few in a decision, by what is not zero")]
fn scale(value: u64, part: u64, whole: NonZeroU64) -> u64 {
    let scaled = u128::from(value).wrapping_mul(part.into()) / NonZeroU128::from(whole);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// A span as a divisor.
trait Divisor {
    /// The nanoseconds, and 1 for none.
    fn nonzero(self) -> NonZeroU64;
}

impl Divisor for Nanos {
    fn nonzero(self) -> NonZeroU64 {
        NonZeroU64::new(self.0).unwrap_or(NonZeroU64::MIN)
    }
}
