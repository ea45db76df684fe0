//! The proportional-integral controller of PIE, PI2 and DualPI2.
//!
//! Every update changes a probability by `α·(delay − target) + β·(delay − previous delay)`: α pulls
//! the delay to its target, β damps its changes. α and β are given in millihertz, so that they do
//! not depend on the period.
//!
//! **64-bit fractions.** A probability here is a number `p` that represents `p / 2^64`; the largest
//! represents 1. PIE divides a step by 2,048 while the probability is below 10^-6, so the smallest
//! relevant steps are below 10^-9. In 32 bits that is one or two units, and the rounding error
//! would be half of the step; in 64 bits a step of 10^-9 has ten digits. PIE keeps 42 bits from one
//! update to the next.
//!
//! No floating point. A step takes two 128-bit multiplications, once per period; the only division
//! is after a long silence.

use super::Probability;
use super::law::bits;
use crate::Nanos;
use crate::flow_scheduler::ConfigError;

/// Probability 1 as a 64-bit fraction.
pub(crate) const ONE: u64 = u64::MAX;

/// Returns `parts / whole` as a 64-bit fraction, for constants.
#[expect(clippy::integer_division, reason = "evaluated by the compiler")]
#[expect(clippy::cast_possible_truncation, reason = "a ratio below 1")]
pub(crate) const fn fraction(parts: u64, whole: u64) -> u64 {
    assert!(parts < whole, "below 1");
    (((parts as u128) << 64) / whole as u128) as u64
}

/// Returns the product of two fractions, rounded down.
pub(crate) fn product(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(b.into()) >> u64::BITS;
    u64::try_from(product).unwrap_or(ONE)
}

/// Returns the square of a fraction; that of 1 is 1.
pub(crate) fn squared(p: u64) -> u64 {
    if p == ONE { ONE } else { product(p, p) }
}

/// Converts a 64-bit fraction into 32 bits.
pub(crate) fn shortened(p: u64) -> Probability {
    Probability::from_raw(u32::try_from(p >> 32).unwrap_or(u32::MAX))
}

/// The most updates that one call makes up for, one by one. Each AQM defines how a longer silence
/// counts.
pub(crate) const MAX_UPDATES: u32 = 8;

/// Bits of a delay in whole ticks of 1,024 ns.
pub(crate) const DELAY_BITS: u32 = 22;

/// Returns `sojourn` as a delay in nanoseconds; from 4.29 s on, the longest one in whole ticks of
/// 1,024 ns.
pub(crate) fn delay_of(sojourn: Nanos) -> u32 {
    u32::try_from(sojourn.0).unwrap_or(u32::MAX << 10)
}

/// Encodes a delay in [`DELAY_BITS`].
pub(crate) const fn delay_in_bits(delay: u32) -> u64 {
    (delay >> 10) as u64
}

/// Decodes a delay from the low bits of `word`.
pub(crate) const fn delay_from_bits(word: u64) -> u32 {
    bits(word, 0, DELAY_BITS) << 10
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) target: Nanos,
    pub(crate) period: Nanos,
    pub(crate) alpha_millihertz: u32,
    pub(crate) beta_millihertz: u32,
}

/// Upper limit of target and period in ns.
const MOST: u64 = 1_000_000_000;
const MOST_MILLIHERTZ: u64 = 1_000_000;
/// The resolution of sojourn times in ns.
const LEAST: u64 = 1_024;

/// `2^72 / 10^12`: the increase per millihertz and nanosecond, in units of 2^-72.
const UNIT: u64 = 4_722_366_483;
/// Additional fraction bits of a step.
const BITS_BELOW: u32 = 8;

/// The precomputed settings of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gains {
    /// α and β in units of 2^-72 per nanosecond: below 2^53.
    alpha: u64,
    beta: u64,
    pub(crate) target: u32,
    pub(crate) period: Nanos,
}

impl Gains {
    /// Creates the gains; `names` are those of target, period, α and β in errors.
    pub(crate) fn new(settings: Settings, names: [&'static str; 4]) -> Result<Self, ConfigError> {
        let Settings { target, period, alpha_millihertz, beta_millihertz } = settings;
        let [of_target, of_period, of_alpha, of_beta] = names;
        ConfigError::check_range(of_target, target.0, LEAST, MOST)?;
        ConfigError::check_range(of_period, period.0, LEAST, MOST)?;
        ConfigError::check_range(of_alpha, alpha_millihertz.into(), 1, MOST_MILLIHERTZ)?;
        ConfigError::check_range(of_beta, beta_millihertz.into(), 1, MOST_MILLIHERTZ)?;
        let gain = |millihertz: u32| u64::from(millihertz).wrapping_mul(UNIT);
        let (alpha, beta) = (gain(alpha_millihertz), gain(beta_millihertz));
        Ok(Self { alpha, beta, target: delay_of(target), period })
    }

    /// Returns true if an update is due after the one at `updated`, or if the clock has stepped
    /// back.
    #[inline]
    pub(crate) const fn is_due(&self, updated: Nanos, now: Nanos) -> bool {
        // A step back wraps to a long time.
        now.0.wrapping_sub(updated.0) >= self.period.0
    }

    /// Returns the change of the probability by an update, in units of 2^-64 and divided by
    /// `2^shift`, for the delay `delay` after `before` in the previous update.
    pub(crate) fn step(&self, delay: u32, before: u32, shift: u32) -> i128 {
        // Each product is below 2^53 · 2^32.
        let (off, grown) = (difference(delay, self.target), difference(delay, before));
        let (alpha, beta) = (i128::from(self.alpha), i128::from(self.beta));
        let step = alpha.wrapping_mul(off).wrapping_add(beta.wrapping_mul(grown));
        step >> BITS_BELOW.wrapping_add(shift & 31)
    }

    /// Returns the change of the probability by `count` updates of an empty queue, not including
    /// the first one.
    pub(crate) fn steps_while_empty(&self, count: u64) -> i128 {
        // Below 2^53 · 2^30 · 2^44: a clock of 2^64 ns has at most 2^54 periods, and 2^44 of them
        // reduce any fraction to 0.
        let one = self.step(0, 0, 0);
        one.wrapping_mul(count.min(1 << 44).into())
    }
}

fn difference(delay: u32, from: u32) -> i128 {
    i128::from(delay).wrapping_sub(from.into())
}

/// Returns `p` changed by `step`, at least 0 and at most 1.
pub(crate) fn moved(p: u64, step: i128) -> u64 {
    let sum = i128::from(p).saturating_add(step);
    if sum < 0 { 0 } else { u64::try_from(sum).unwrap_or(ONE) }
}

pub(crate) fn periods(silence: Nanos, period: Nanos) -> u64 {
    silence.0.checked_div(period.0).unwrap_or(0)
}

/// A linear controller: the state of PI2 and DualPI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pi {
    /// The time of the last update, or of the packet that started the controller.
    pub(crate) updated: Nanos,
    /// The probability p', as a fraction.
    pub(crate) p: u64,
    /// The delay in the last update.
    pub(crate) before: u32,
}

impl Pi {
    pub(crate) const EMPTY: Self = Self { updated: Nanos::ZERO, p: 0, before: 0 };

    /// Handles a packet that arrives at an empty queue. With probability 0 the controller restarts,
    /// and updates are counted from this packet. Otherwise all updates of the idle time are
    /// applied, however many.
    pub(crate) fn begin(&mut self, now: Nanos, gains: &Gains) {
        if now < self.updated {
            self.updated = now;
        }
        if self.p > 0 && gains.is_due(self.updated, now) {
            self.update(0, gains);
            let more = periods(now.since(self.updated), gains.period);
            self.p = moved(self.p, gains.steps_while_empty(more));
            self.updated = self.updated.plus(Nanos(more.saturating_mul(gains.period.0)));
        }
        if self.p == 0 {
            *self = Self { updated: now, ..Self::EMPTY };
        }
    }

    /// Makes up for the updates of a queue that was not empty, at most [`MAX_UPDATES`]; further
    /// ones are skipped. `delay(late)` is the delay `late` before now.
    pub(crate) fn catch_up(&mut self, now: Nanos, gains: &Gains, delay: impl Fn(Nanos) -> u32) {
        if now < self.updated {
            self.updated = now;
        }
        for _ in 0..MAX_UPDATES {
            if now.since(self.updated).0 < gains.period.0 {
                return;
            }
            crate::steps::step();
            let late = now.since(self.updated.plus(gains.period));
            self.update(delay(late), gains);
        }
        if now.since(self.updated).0 >= gains.period.0 {
            self.updated = now;
        }
    }

    /// Performs one update, one period after the last.
    fn update(&mut self, delay: u32, gains: &Gains) {
        self.updated = self.updated.plus(gains.period);
        self.p = moved(self.p, gains.step(delay, self.before, 0));
        self.before = delay;
    }

    /// Returns `k·p'` as a fraction; at most 1.
    #[inline]
    pub(crate) const fn coupled(&self, coupling: u8) -> u64 {
        self.p.saturating_mul(coupling as u64)
    }
}
