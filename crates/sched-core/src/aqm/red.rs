//! RED: arrivals are told early, with a probability that grows with the average queue.
//!
//! The average of the bytes queued is kept at each arrival. Below a first threshold every arrival passes. Between two
//! thresholds an arrival is marked, or turned away, with a probability that grows with the average, and with the number of
//! arrivals since the last one that was told: so signals come at even distances and not in clusters. Above the second
//! threshold arrivals are turned away. Two options, each off unless asked for:
//!
//! - *gentle*: between one and two times the second threshold the probability grows to 1 instead of jumping there;
//! - *adaptive*: the probability at the second threshold follows the average, so that this stays in the middle.
//!
//! **Promises.** An arrival is never told while the average is below the first threshold. At a constant average there are
//! at most `1/p` arrivals from one signal to the next, where `p` is the probability at this average. No packet is told
//! at delivery. Above the second threshold ECN-capable packets are turned away and not marked: traffic that does not
//! respond cannot fill the queue by being marked. Same parameters, seed and operations, same verdicts on every target.
//!
//! **Cost.** O(1): two multiplications for an arrival between the thresholds, and no division; one multiplication for each
//! bit of the number of packets that could have left while the queue was empty, at most 21. Memory: 32 bytes a queue,
//! and 220 for all.
//!
//! **Source.** S. Floyd, V. Jacobson, *Random Early Detection Gateways for Congestion Avoidance*, IEEE/ACM Transactions on
//! Networking 1 (4), 1993; S. Floyd, R. Gummadi, S. Shenker, *Adaptive RED*, 2001. Where this departs from them:
//! `docs/disciplines/red.md`.

use super::{Admission, Aqm, Head, Look, Offer, Probability, Random, Verdict, swap_states};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{FlowId, Nanos};

/// What is set for a [`Red`], one setting for all queues.
///
/// ```
/// use sched_core::{Probability, RedParams};
///
/// let params = RedParams::new(30_000, 90_000).gentle().adaptive();
/// assert_eq!(params.max_probability, Probability::ratio(1, 50)?);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RedParams {
    /// No arrival is told while the average is below this many bytes; at least 1.
    pub min_threshold: u32,
    /// Arrivals are turned away from this average on; above the first threshold, at most
    /// [`RedParams::MAX_THRESHOLD`] bytes.
    pub max_threshold: u32,
    /// The probability just below the second threshold. Not [`Probability::NEVER`].
    pub max_probability: Probability,
    /// An arrival moves the average by one of `2^weight` of the difference: `1..=`[`RedParams::MAX_WEIGHT`].
    pub weight: u32,
    /// How long a usual packet takes on the line, 1 ns to 2^30 ns: while a queue is empty, its average falls as if packets
    /// had left at this distance.
    pub packet_time: Nanos,
    /// Above the second threshold the probability grows to 1 at twice that.
    pub gentle: bool,
    /// The probability at the second threshold follows the average of each queue, every
    /// [`RedParams::ADAPTS_AFTER`]. It starts at `max_probability`, and is kept in 0.01 to 0.5.
    pub adaptive: bool,
    /// The seed of the draws.
    pub seed: u64,
}

impl RedParams {
    /// The highest second threshold: 1 GiB.
    pub const MAX_THRESHOLD: u32 = 1 << 30;
    /// The slowest average: one of 65,536.
    pub const MAX_WEIGHT: u32 = 16;
    /// The distance between two steps of the [adaptive](Self::adaptive) probability.
    pub const ADAPTS_AFTER: Nanos = Nanos::from_millis(500);
    /// The longest packet time.
    const MAX_PACKET_TIME: u64 = 1 << 30;

    /// RED between these thresholds, in bytes: at most one of 50 arrivals is told below the second, the average moves by
    /// 1/512 (0.002, as published), and a usual packet takes 1.2 ms (1,500 bytes at 10 Mbit/s). [`Red::new`] and
    /// [`Red::set_params`] check them.
    #[must_use]
    pub const fn new(min_threshold: u32, max_threshold: u32) -> Self {
        Self {
            min_threshold,
            max_threshold,
            max_probability: Probability::from_raw(85_899_345),
            weight: 9,
            packet_time: Nanos::from_micros(1_200),
            gentle: false,
            adaptive: false,
            seed: 0,
        }
    }

    /// The same with another probability at the second threshold.
    #[must_use]
    pub const fn with_max_probability(self, max_probability: Probability) -> Self {
        Self { max_probability, ..self }
    }

    /// The same with an average that moves by one of `2^weight`.
    #[must_use]
    pub const fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The same where a usual packet takes `packet_time` on the line.
    #[must_use]
    pub const fn with_packet_time(self, packet_time: Nanos) -> Self {
        Self { packet_time, ..self }
    }

    /// The same where the probability grows to 1 between one and two times the second threshold.
    #[must_use]
    pub const fn gentle(self) -> Self {
        Self { gentle: true, ..self }
    }

    /// The same where the probability at the second threshold follows the average.
    #[must_use]
    pub const fn adaptive(self) -> Self {
        Self { adaptive: true, ..self }
    }

    /// The same with the draws of this seed.
    #[must_use]
    pub const fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let (low, high) = (self.min_threshold.into(), self.max_threshold.into());
        let highest = Self::MAX_THRESHOLD.into();
        ConfigError::check_range("RED second threshold in bytes", high, 2, highest)?;
        let below = high.saturating_sub(1);
        ConfigError::check_range("RED first threshold in bytes", low, 1, below)?;
        let (raw, top) = (self.max_probability.raw().into(), u32::MAX.into());
        ConfigError::check_range("RED probability in parts of 2^32", raw, 1, top)?;
        ConfigError::check_range("RED weight", self.weight.into(), 1, Self::MAX_WEIGHT.into())?;
        let time = self.packet_time.0;
        ConfigError::check_range("RED packet time in ns", time, 1, Self::MAX_PACKET_TIME)
    }
}

/// What [`Red`] remembers of one queue: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedState {
    /// `2^FRACTION` times the average of the bytes queued.
    average: u64,
    /// When the queue became empty, or was last offered a packet while it was. Stale while it holds packets, and without
    /// meaning while the average is 0.
    idle_since: Nanos,
    /// When the probability was last adapted; stale unless `probability` is above 0.
    adapted: Nanos,
    /// The adaptive probability at the second threshold; 0 before it is first needed.
    probability: u32,
    /// Arrivals that passed since the last that was told; 0 if the average was below the first threshold since.
    count: u32,
}

impl RedState {
    /// A queue that has held nothing.
    pub const EMPTY: Self = Self {
        average: 0,
        idle_since: Nanos::ZERO,
        adapted: Nanos::ZERO,
        probability: 0,
        count: 0,
    };
}

impl Default for RedState {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Fraction bits of an average: below the rounding of the slowest one.
const FRACTION: u32 = 20;
/// Fraction bits of the reciprocals of lengths, which are at least 1 and at most 2^30.
const INVERSE: u32 = 62;
/// Fraction bits of the reciprocal of the packet time.
const PACKETS: u32 = 42;
/// After `2^(weight + FORGOTTEN)` packet times an average is 0: e^-32 of what it was is less than its rounding.
const FORGOTTEN: u32 = 5;
/// The longest table of powers.
const POWERS: usize = (RedParams::MAX_WEIGHT + FORGOTTEN) as usize;

/// What follows from the parameters, so that no arrival divides.
#[derive(Clone, Copy, Debug)]
struct Derived {
    /// `2^INVERSE` over the distance of the thresholds, and over the second one.
    per_span: u64,
    per_threshold: u64,
    /// `2^PACKETS` over the packet time.
    per_packet_time: u64,
    /// The average is 0 after as long.
    forgotten_after: Nanos,
    /// `(1 − 2^-weight)^(2^i)` in parts of 2^32.
    powers: [u32; POWERS],
    /// The adaptive probability rises above this average and falls below that one: 6/10 and 4/10 of the way between the
    /// thresholds.
    rises_above: u32,
    falls_below: u32,
}

impl Derived {
    fn of(params: &RedParams) -> Self {
        let span = params.max_threshold.saturating_sub(params.min_threshold);
        let inverse = |bits: u32, of: u64| (1_u64 << bits).checked_div(of).unwrap_or(0);
        // Rounded up: whole packet times are whole packets.
        let packet_time = params.packet_time.0.max(1);
        let tenths = |n: u64| {
            let part = (u64::from(span) * n).checked_div(10).unwrap_or(0);
            params.min_threshold.saturating_add(u32::try_from(part).unwrap_or(u32::MAX))
        };
        let packets = 1_u64 << params.weight.saturating_add(FORGOTTEN);
        let mut powers = [0; POWERS];
        let mut power = 0_u32.wrapping_sub(1_u32.wrapping_shl(32_u32.wrapping_sub(params.weight)));
        for place in &mut powers {
            *place = power;
            power = upper(u64::from(power).wrapping_mul(power.into()));
        }
        Self {
            per_span: inverse(INVERSE, span.into()),
            per_threshold: inverse(INVERSE, params.max_threshold.into()),
            per_packet_time: (1_u64 << PACKETS).div_ceil(packet_time),
            forgotten_after: Nanos(params.packet_time.0.saturating_mul(packets)),
            powers,
            rises_above: tenths(6),
            falls_below: tenths(4),
        }
    }

    /// `average`, after the queue was empty for `idle`: times `1 − 2^-weight` for each packet that could have left.
    fn decayed(&self, average: u64, idle: Nanos) -> u64 {
        if idle >= self.forgotten_after {
            return 0;
        }
        // Below 2^(16 + 5) packet times of at most 2^30 ns, and a packet time times its reciprocal is at most 2^42 and that
        // time: no overflow.
        let packets = idle.0.wrapping_mul(self.per_packet_time) >> PACKETS;
        let mut left = average;
        for (bit, &power) in self.powers.iter().enumerate() {
            if packets >> bit & 1 == 1 {
                left = part(left, power);
            }
        }
        left
    }
}

/// The upper half of a number.
const fn upper(number: u64) -> u32 {
    (number >> 32) as u32
}

/// `number · fraction / 2^32`, rounded down to at most one less.
const fn part(number: u64, fraction: u32) -> u64 {
    let (high, low) = (number >> 32, number & u32::MAX as u64);
    let low = low.wrapping_mul(fraction as u64) >> 32;
    high.wrapping_mul(fraction as u64).wrapping_add(low)
}

/// RED for the queues whose states are in the memory `T`; arrivals of queues beyond its length pass.
///
/// ```
/// use sched_core::{
///     Descriptor, Drr, DrrFlow, FlowQueues, Limits, Queue, Red, RedParams, RedState,
/// };
///
/// let mut scheduler = Drr::new([DrrFlow::EMPTY; 16], 1_514)?.sparse_first();
/// scheduler.add_all(1_514)?;
/// let red = Red::new([RedState::EMPTY; 16], RedParams::new(15_000, 45_000).gentle())?;
/// let (queues, descriptors) = ([Queue::EMPTY; 16], [Descriptor::EMPTY; 64]);
/// let fq_red = FlowQueues::with_parts(scheduler, red, queues, descriptors, [], Limits::NONE);
/// # let _ = fq_red;
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Red<T> {
    states: T,
    params: RedParams,
    derived: Derived,
    random: Random,
    /// The time of the last arrival or head.
    now: Nanos,
}

crate::debug::short_debug!(Red<T> { params });

impl<T: Table<RedState>> Red<T> {
    /// RED for `states.len()` queues. Cost: O(queues).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] names the first parameter outside its range.
    pub fn new(mut states: T, params: RedParams) -> Result<Self, ConfigError> {
        params.check()?;
        states.as_mut().fill(RedState::EMPTY);
        let (derived, random) = (Derived::of(&params), Random::new(params.seed));
        Ok(Self { states, params, derived, random, now: Nanos::ZERO })
    }

    /// What is set.
    #[must_use]
    pub const fn params(&self) -> RedParams {
        self.params
    }

    /// Changes the parameters, queues loaded or not; averages and adaptive probabilities stay, and the next arrival
    /// is judged by the new parameters. The draws go on if the seed is the same, and begin anew if it is another.
    ///
    /// # Errors
    /// As [`Red::new`]; nothing has changed then.
    pub fn set_params(&mut self, params: RedParams) -> Result<(), ConfigError> {
        params.check()?;
        if params.seed != self.params.seed {
            self.random = Random::new(params.seed);
        }
        self.derived = Derived::of(&params);
        self.params = params;
        Ok(())
    }

    /// The average of the bytes in the queue of `flow`, as of its last arrival; 0 beyond the states.
    pub fn average(&self, flow: FlowId) -> u32 {
        self.states.as_ref().get(flow.index()).map_or(0, RedState::bytes)
    }

    /// The queue of `flow` is empty from `now` on.
    fn empty_since(&mut self, flow: FlowId, now: Nanos) {
        if let Some(state) = self.states.as_mut().get_mut(flow.index()) {
            state.idle_since = now;
        }
    }
}

impl RedState {
    /// The average in bytes.
    #[expect(clippy::cast_possible_truncation, reason = "an average of numbers below 2^32")]
    const fn bytes(&self) -> u32 {
        (self.average >> FRACTION) as u32
    }

    /// An arrival finds `bytes` queued.
    #[inline]
    const fn average_in(&mut self, bytes: u32, weight: u32) {
        let now = (bytes as u64) << FRACTION;
        // Below 2^52 on both sides; the shift rounds down, which costs less than 2^16 parts of 2^20 bytes.
        let step = now.cast_signed().wrapping_sub(self.average.cast_signed()) >> weight;
        self.average = self.average.wrapping_add_signed(step);
    }

    /// The probability at the second threshold, adapted if that is due.
    fn adapt(&mut self, now: Nanos, params: &RedParams, derived: &Derived) -> u32 {
        /// 1/100, 1/2 and 9/10 in parts of 2^32.
        const LEAST: u32 = 42_949_673;
        const MOST: u32 = 1 << 31;
        const NINE_TENTHS: u32 = 3_865_470_566;
        if self.probability == 0 {
            self.probability = params.max_probability.raw().clamp(LEAST, MOST);
            self.adapted = now;
        } else if now < self.adapted {
            // The clock has stepped back.
            self.adapted = now;
        } else if now.since(self.adapted) >= RedParams::ADAPTS_AFTER {
            self.adapted = now;
            let (average, before) = (self.bytes(), self.probability);
            if average > derived.rises_above {
                self.probability = before.saturating_add(LEAST.min(before >> 2)).min(MOST);
            } else if average < derived.falls_below {
                let lower = upper(u64::from(before).wrapping_mul(NINE_TENTHS.into()));
                self.probability = lower.max(LEAST);
            }
        }
        self.probability
    }
}

impl<T: Table<RedState>> Aqm for Red<T> {
    const MAX_DROPS: u32 = 0;

    fn admit(&mut self, flow: FlowId, offer: Offer) -> Admission {
        let Self { params, derived, .. } = self;
        self.now = offer.now;
        let Some(state) = self.states.as_mut().get_mut(flow.index()) else {
            return Admission::Accept;
        };
        if offer.held.packets > 0 {
            state.average_in(offer.held.bytes, params.weight);
        } else {
            if state.average > 0 {
                let idle = offer.now.since(state.idle_since);
                state.average = derived.decayed(state.average, idle);
            }
            // If the arrival is turned away, the queue stays empty, and its average has fallen up to now.
            state.idle_since = offer.now;
        }
        let at_threshold = if params.adaptive {
            state.adapt(offer.now, params, derived)
        } else {
            params.max_probability.raw()
        };
        let average = state.bytes();
        let Some(above) = average.checked_sub(params.min_threshold) else {
            state.count = 0;
            return Admission::Accept;
        };
        let (probability, told) = if average < params.max_threshold {
            (between(at_threshold, above, derived.per_span), Admission::Signal)
        } else {
            let beyond = average.saturating_sub(params.max_threshold);
            if !params.gentle || beyond >= params.max_threshold {
                state.count = 0;
                return Admission::Refuse;
            }
            let rest = between(!at_threshold, beyond, derived.per_threshold);
            (at_threshold.saturating_add(rest), Admission::Refuse)
        };
        if !is_told(probability, state.count, self.random.next_u32()) {
            state.count = state.count.saturating_add(1);
            return Admission::Accept;
        }
        state.count = 0;
        told
    }

    #[inline]
    fn judge(&mut self, flow: FlowId, head: Head, _look: Look) -> Verdict {
        self.now = head.now;
        if head.bytes_behind == 0 {
            self.empty_since(flow, head.now);
        }
        Verdict::Pass
    }

    #[inline]
    fn foresee(&self, _flow: FlowId) -> impl FnMut(Head) -> Verdict {
        |_| Verdict::Pass
    }

    /// A sender has been told: the count begins anew.
    fn overflowed(&mut self, flow: FlowId) {
        if let Some(state) = self.states.as_mut().get_mut(flow.index()) {
            state.count = 0;
        }
    }

    fn emptied(&mut self, flow: FlowId) {
        self.empty_since(flow, self.now);
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(state) = self.states.as_mut().get_mut(flow.index()) {
            *state = RedState::EMPTY;
        }
    }

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        swap_states(self.states.as_mut(), flow, other, RedState::EMPTY);
    }
}

/// The part of `most` that `above` is of a length whose reciprocal is `inverse`, in parts of 2^32; `above` is below that
/// length.
#[inline]
fn between(most: u32, above: u32, inverse: u64) -> u32 {
    // above · inverse < 2^62, its upper 32 bits are the fraction.
    let fraction = u64::from(above).wrapping_mul(inverse) >> (INVERSE - 32);
    upper(u64::from(most).wrapping_mul(fraction))
}

/// Whether an arrival is told after `count` that were not: with the probability `p/(1 − count·p)`.
/// Compared is `drawn·(1 − count·p)` with `p`, which needs no division.
#[inline]
fn is_told(probability: u32, count: u32, drawn: u32) -> bool {
    let used = u64::from(count).wrapping_mul(probability.into());
    let left = (1_u64 << 32).saturating_sub(used);
    // left ≤ 2^32 and drawn < 2^32: no overflow.
    u64::from(drawn).wrapping_mul(left) < u64::from(probability) << 32
}

#[cfg(test)]
mod tests;
