//! Autorate: computes the rate of a link that varies from measured delay and load.
//!
//! A mobile, satellite or cable link has no fixed rate to configure: if the shaper is set too high,
//! the queue stays in the modem; if it is set too low, capacity is wasted. [`Autorate`] adjusts the
//! rate between a floor and a ceiling from two measurements of the caller: the delay of probes and
//! the bytes sent. It has no clock, no socket and no memory of its own.
//!
//! ```text
//! probes ──▶ delay_sample ─┐
//!                          ├─▶ update, every 200 ms ──▶ Rate ──▶ Shaper::set_rate
//! bytes sent ──────────────┘
//! ```
//!
//! **Sources.** The base delay follows LEDBAT (RFC 6817 §3.4.2), with an average that falls fast
//! and rises slowly in place of a list of minimums. Cutting to a share of the achieved rate, growth
//! under load and the return to a base rate are published practice of operators of variable links.
//! Not cutting while the delay falls is the gradual mode of NADA (RFC 8698 §4.3).
//!
//! Cost: constant. [`Autorate::delay_sample`] is one comparison; a decision takes at most five
//! divisions.

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

/// Time constant of the baseline's rise under load, in nanoseconds: slow, so that a standing queue
/// does not become the baseline.
const RISE_UNDER_LOAD: NonZeroU64 = NonZeroU64::new(60_000_000_000).unwrap();
/// Time constant of the baseline's rise at low load or at the floor, in nanoseconds, where the
/// delay is the path's.
const RISE: NonZeroU64 = NonZeroU64::new(2_000_000_000).unwrap();
/// Bits per byte × nanoseconds per second.
const BIT_NANOS_PER_BYTE_SECOND: u64 = 8_000_000_000;
/// Longest pause after a cut for a queue to drain; the queue of a modem may take longer.
const LONGEST_PAUSE: Nanos = Nanos::from_secs(2);
/// Longest pause at the floor for a queue that was there before the path was known.
const LONGEST_WAIT: Nanos = Nanos::from_secs(10);
/// A delay that lasts this long at some load means that the link is slower than a quarter of the
/// rate. By then the baseline has learned seven eighths of a delay that belongs to the path.
const LASTING: Nanos = Nanos::from_secs(4);

/// The last decision of an [`Autorate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AutorateState {
    /// The rate was kept: neither load nor delay is a reason to change it.
    Steady,
    /// The rate was raised: the link is used and has no delay.
    Growing,
    /// The rate was cut: the delay is too high, or still unknown under load.
    BackingOff,
    /// The rate was kept: the delay is too high but falling, or a cut is too recent to judge.
    Draining,
    /// The rate was moved towards the base: the link is little used.
    Returning,
    /// No sample for [`AutorateParams::SILENCE`]: the rate is at most the base, and moves towards
    /// the floor under load.
    Silent,
}

impl AutorateState {
    /// Returns the state's name for reports.
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

/// Knowledge of an [`Autorate`] about a path, for [`Autorate::change_path`]. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoratePath {
    baseline: Option<Nanos>,
    is_provisional: bool,
}

/// A controller that adjusts the rate of a link that varies: takes delay samples and loads, returns
/// a rate.
///
/// # Baseline
/// The baseline is the delay of the path without a queue. It is learned from the minimum sample of
/// each interval: halfway down at once when samples fall below it, slowly upwards
/// ([`Autorate::update`]). Samples may be one-way or round-trip delays, and the clocks of the two
/// ends need not agree: only differences count.
///
/// # Decision
/// Once per interval, based on the minimum sample of the interval, so that one late probe has no
/// effect. The excess is the minimum sample minus the baseline.
///
/// | excess | load | effect on the rate |
/// |---|---|---|
/// | above the threshold, not falling | at least 1/4 of the rate | 7/8 of the achieved rate (at least 1/2 of the rate), down to 1/2 at four thresholds |
/// | above the threshold for more than 4 s, not falling | at least 1/32 of the rate | as above, with at least 1/4 of the rate |
/// | above the threshold, falling or soon after a cut | any | kept: a queue drains |
/// | above the threshold | below 1/4 of the rate | 1/32 of the way to the base, if above it |
/// | at most half the threshold | at least 3/4 of the rate | raised by 1/16, by 1/64 near the rate of the last cut |
/// | at most the threshold | below 1/4 of the rate | 1/32 of the way to the base |
/// | baseline provisional | at least 1/16 of the rate | half of the way to the floor |
/// | otherwise | | kept |
/// | no sample for [`SILENCE`](AutorateParams::SILENCE) | at least 1/16 of the rate | at most the base, then 1/4 of the way to the floor |
/// | no sample for [`SILENCE`](AutorateParams::SILENCE) | below 1/16 of the rate | at most the base, and 1/32 of the way to it from below |
///
/// With an excess, a provisional baseline or no sample, the load is the larger of the last two
/// intervals, because a sample reflects both.
///
/// # Provisional baseline
/// A first sample under load may be that of a full modem. Until the baseline is trusted, no excess
/// is computed and the rate does not grow: it goes to the floor, where the queue drains, and the
/// minimum sample becomes the baseline. The baseline is trusted once the load is low, or once the
/// delay no longer falls at the floor. After [`Autorate::forget_path`] it is trusted at once if
/// there was no excess before.
///
/// # Guarantees
/// For any sequence of timestamps, samples and loads:
/// - The rate is between floor and ceiling after each call.
/// - While the load is high and there is no excess, the rate doubles within 12 intervals, and
///   passes the rate of the last cut within 13 more. So a link that recovers to `n` doublings of
///   the rate is filled within `12n + 13` intervals: 7.4 s for a factor of four.
/// - On a steady link that stays full, the rate settles between 3/4 and 9/8 of the link's rate.
///   Tests show this for samples that arrive 0 to 100 ms late; it is not proved.
/// - Late, repeated or reordered samples within an interval change nothing. A clock that steps back
///   restarts the interval; one that jumps ahead costs at most a cut, or a silence if there was no
///   sample in that interval.
///
/// # Limits
/// The delay of the path itself may rise by more than the threshold when the path changes. Samples
/// at low load or at the floor teach the new baseline within seconds, but a link that stays full is
/// cut to the floor first.
///
/// # Examples
/// ```
/// use sched_core::Nanos;
/// use shaper::{Autorate, AutorateParams, Rate, Shaper};
///
/// let mbit = Rate::megabits_per_second;
/// // At least 5, usually 20, at most 60 Mbit/s.
/// let params = AutorateParams::new(mbit(5)?, mbit(20)?, mbit(60)?)?;
/// let mut autorate = Autorate::new(params);
/// let mut link = Shaper::new(autorate.rate());
///
/// // A device calls `delay_sample` when a probe is answered, and the rest from a timer.
/// let mut now = Nanos::ZERO;
/// for _ in 0..100 {
///     autorate.delay_sample(Nanos::from_millis(40));
///     now = now.plus(Nanos::from_millis(200));
///     // The link is fully used. `sent` is what left since the last call, in bytes.
///     let sent = autorate.rate().as_bits_per_second().unwrap_or(0) / 8 / 5;
///     link.set_rate(now, autorate.update(now, sent));
/// }
/// assert_eq!(link.rate(), mbit(60)?);
///
/// // The link has become slower, and the modem queues 100 ms.
/// autorate.delay_sample(Nanos::from_millis(140));
/// now = now.plus(Nanos::from_millis(200));
/// link.set_rate(now, autorate.update(now, 1_500_000));
/// assert_eq!(link.rate(), mbit(30)?);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autorate {
    params: AutorateParams,
    rate: Rate,
    /// `rate` in bits per second: floor ≤ bps ≤ ceiling.
    bps: u64,
    /// Achieved rate at the last cut; 0 if there was none, or if the rate has grown past it since.
    knee: u64,
    baseline: Option<Nanos>,
    /// True if the baseline was learned under load and may include a queue.
    is_provisional: bool,
    /// True if the last decision saw no excess over a trusted baseline.
    is_calm: bool,
    /// Time for which every sample has been above the threshold.
    lasting: Nanos,
    /// Achieved rate in the previous interval.
    load_before: u64,
    /// Current interval: start, bytes sent and minimum sample.
    since: Nanos,
    bytes: u64,
    least: Option<Nanos>,
    /// Minimum sample of the last interval that had one.
    before: Option<Nanos>,
    /// Time until the last cut may be judged.
    pause: Nanos,
    /// Time without a sample, up to the last decision.
    quiet: Nanos,
    state: AutorateState,
}

impl Autorate {
    /// Creates a controller without samples, at the base rate. The first interval starts at time
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

    /// Adds the delay of one probe, one-way or round-trip.
    ///
    /// Any number of samples in any order is valid; only the minimum of an interval counts. Two to
    /// ten per interval are enough. A lost probe is not a sample.
    #[inline]
    pub fn delay_sample(&mut self, delay: Nanos) {
        self.least = Some(self.least.map_or(delay, |least| least.min(delay)));
    }

    /// Counts `bytes` sent on the link since the last call, as lengths on the wire, and returns the
    /// current rate.
    ///
    /// Makes a decision if the [interval](AutorateParams::INTERVAL) is over. Call it from a timer,
    /// at least once per interval. A late call makes one decision for all the time that has passed.
    /// A `now` earlier than the last decision restarts the interval.
    ///
    /// The baseline rises by 1/60 of the difference per second under load, and by half of it per
    /// second at the floor or while less than a quarter of the rate is used.
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

    /// Returns the current rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the last decision.
    #[must_use]
    pub const fn state(&self) -> AutorateState {
        self.state
    }

    /// Returns the learned delay of the path without a queue; `None` before the first decision with
    /// a sample.
    #[must_use]
    pub const fn baseline(&self) -> Option<Nanos> {
        self.baseline
    }

    /// Returns the parameters.
    #[must_use]
    pub const fn params(&self) -> AutorateParams {
        self.params
    }

    /// Changes the parameters. The rate is clamped to the new floor and ceiling; learned values are
    /// kept.
    pub fn set_params(&mut self, params: AutorateParams) {
        self.params = params;
        self.set(self.bps);
    }

    /// Forgets baseline, samples and cuts, because the path has changed.
    ///
    /// The rate is kept until the next decision, and a silence continues, so that a caller which
    /// tries one path after another without an answer is still silent.
    pub fn forget_path(&mut self) {
        self.change_path(AutoratePath::default());
    }

    /// Switches to a path about which `to` is known, and returns what is known about the present
    /// one, for switching back later.
    ///
    /// Otherwise like [`forget_path`](Self::forget_path).
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
        // The modem, and its queue, is the same on every path.
        *self = Self { is_calm, load_before, pause, ..kept };
        AutoratePath { baseline, is_provisional }
    }

    /// Starts an interval.
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
        // A fall of 1/64 of the interval means that the link carries that much more than it is
        // offered.
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

    /// Returns true if the rate has been at the floor long enough to judge the queue there.
    fn is_at_floor(&self) -> bool {
        self.bps <= self.params.floor_bps() && self.pause == Nanos::ZERO
    }

    /// Halves the distance to the floor, and pauses there until the queue from before has drained.
    fn descend(&mut self, least: Nanos, is_first: bool) {
        let floor = self.params.floor_bps();
        let is_above = self.bps > floor;
        // At least an eighth of the floor, so that it is reached.
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
            // Replies stuck in a full modem are late or lost.
            let step = (self.bps.saturating_sub(floor) >> 2).max((floor >> 4).max(1));
            self.set(self.bps.saturating_sub(step));
        } else {
            self.move_to_base();
        }
        self.state = AutorateState::Silent;
    }

    /// Moves the baseline by the minimum sample of an interval, and returns it.
    ///
    /// `span` counts as at most one interval: a longer one has only one sample that counts, and may
    /// be a clock jump, in which little seems to have been sent.
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
        // Rounded up, so that the minimum is reached.
        let fall = fall.0.saturating_sub(fall.0 >> 1);
        let baseline = Nanos(baseline.0.saturating_sub(fall)).plus(Nanos(rise));
        self.baseline = Some(baseline);
        baseline
    }

    /// Returns true if the load is at least 3/4 of the rate, enough for a missing delay to count.
    const fn is_used(&self, load: u64) -> bool {
        load >= self.bps.saturating_sub(self.bps >> 2)
    }

    /// Cuts to a share of the achieved rate. The caller sets a lower bound on `load`, below which
    /// it says nothing about the link.
    fn cut(&mut self, load: u64, excess: Nanos) {
        let threshold = self.params.threshold().nonzero();
        // 7/8 at the threshold, 1/2 from four thresholds on, in units of 1/256.
        let beyond = excess.0.saturating_sub(threshold.get());
        let beyond = scale(beyond, 32, threshold).min(96);
        let share = 224_u64.saturating_sub(beyond);
        let achieved = load.min(self.bps);
        self.knee = achieved;
        // No overflow: no rate is above 2⁵⁶ bit/s.
        self.set(achieved.saturating_mul(share) >> 8);
        // A packet sent now waits for what is queued before it.
        self.pause = AutorateParams::INTERVAL.plus(excess.min(LONGEST_PAUSE));
        self.state = AutorateState::BackingOff;
    }

    fn grow(&mut self) {
        let near =
            self.knee.saturating_sub(self.knee >> 3)..=self.knee.saturating_add(self.knee >> 4);
        if self.bps > *near.end() {
            // The link has become faster.
            self.knee = 0;
        }
        let shift = if near.contains(&self.bps) { 6 } else { 4 };
        self.set(self.bps.saturating_add(self.bps >> shift));
        self.state = AutorateState::Growing;
    }

    /// Sets the rate, clamped to floor and ceiling. The only place where it changes.
    fn set(&mut self, bps: u64) {
        let bps = bps.max(self.params.floor_bps()).min(self.params.ceiling_bps());
        if bps != self.bps {
            // Always valid: between two valid rates.
            if let Ok(rate) = Rate::bits_per_second(bps) {
                (self.bps, self.rate) = (bps, rate);
            }
        }
    }
}

/// Returns the rate of `bytes` in `span`, in bits per second; saturates.
fn achieved(bytes: u64, span: Nanos) -> u64 {
    scale(bytes, BIT_NANOS_PER_BYTE_SECOND, span.nonzero())
}

/// Returns `value · part / whole`, rounded down; saturates.
#[allow(clippy::integer_division, reason = "a few in a decision, by what is not zero")]
fn scale(value: u64, part: u64, whole: NonZeroU64) -> u64 {
    let scaled = u128::from(value).wrapping_mul(part.into()) / NonZeroU128::from(whole);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// A span used as a divisor.
trait Divisor {
    /// Returns the nanoseconds, at least 1.
    fn nonzero(self) -> NonZeroU64;
}

impl Divisor for Nanos {
    fn nonzero(self) -> NonZeroU64 {
        NonZeroU64::new(self.0).unwrap_or(NonZeroU64::MIN)
    }
}
