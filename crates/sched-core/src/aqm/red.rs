//! RED: signals arrivals early, with a probability that grows with the average queue length.
//!
//! The average of the bytes queued is updated at each arrival. Below the first threshold every
//! arrival passes. Between the two thresholds an arrival is marked or dropped with a probability
//! that grows with the average and with the number of arrivals since the last signal, so that
//! signals are evenly spaced and not clustered. Above the second threshold arrivals are rejected.
//! Two options, both off by default:
//!
//! - *gentle*: between one and two times the second threshold the probability grows to 1 instead of
//!   jumping there;
//! - *adaptive*: the probability at the second threshold follows the average, to keep the average
//!   in the middle.
//!
//! **Promises.** No arrival is signalled while the average is below the first threshold. At a
//! constant average there are at most `1/p` arrivals from one signal to the next, where `p` is the
//! probability at this average, at least 2^-24. No packet is signalled at delivery. Above the
//! second threshold ECN-capable packets are rejected, not marked: unresponsive traffic cannot fill
//! the queue by being marked. The same parameters, seed and operations give the same verdicts on
//! every target.
//!
//! **Cost.** O(1): two multiplications for an arrival between the thresholds, and no division. An
//! arrival at an empty queue takes two multiplications per bit of the number of packets that could
//! have left meanwhile, at most 21 bits. Memory: 32 bytes per queue.
//!
//! **Source.** S. Floyd, V. Jacobson, *Random Early Detection Gateways for Congestion Avoidance*,
//! IEEE/ACM Transactions on Networking 1 (4), 1993; S. Floyd, R. Gummadi, S. Shenker, *Adaptive
//! RED*, 2001. Departures: `docs/disciplines/red.md`.

use super::law::{
    Law, TIME_BITS, Words, alone, bits, signals_arrivals, time_from_bits, time_in_bits,
};
use super::{Admission, Aqm, Head, Look, Offer, Probability, Random, Verdict, swap_states};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{FlowId, Nanos};

/// The parameters of [`Red`], common to all queues.
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
    /// First threshold: no arrival is signalled while the average is below this many bytes; at
    /// least 1.
    pub min_threshold: u32,
    /// Second threshold: arrivals are rejected from this average on. Above the first threshold, at
    /// most [`RedParams::MAX_THRESHOLD`] bytes.
    pub max_threshold: u32,
    /// The probability just below the second threshold. Not [`Probability::NEVER`].
    pub max_probability: Probability,
    /// An arrival changes the average by `2^-weight` of the difference:
    /// `1..=`[`RedParams::MAX_WEIGHT`].
    pub weight: u32,
    /// The transmission time of a usual packet, 1 ns to 2^30 ns: while a queue is empty, its
    /// average falls as if packets had left at this spacing.
    pub packet_time: Nanos,
    /// Above the second threshold the probability grows to 1 at twice that threshold.
    pub gentle: bool,
    /// The probability at the second threshold follows the average of each queue, every
    /// [`RedParams::ADAPTS_AFTER`]. It starts at `max_probability` and is kept between 0.01 and
    /// 0.5.
    pub adaptive: bool,
}

impl RedParams {
    /// The highest second threshold: 1 GiB.
    pub const MAX_THRESHOLD: u32 = 1 << 30;
    /// The slowest average: a factor of 1/65,536.
    pub const MAX_WEIGHT: u32 = 16;
    /// The time between two steps of the [adaptive](Self::adaptive) probability.
    pub const ADAPTS_AFTER: Nanos = Nanos::from_millis(500);
    const MAX_PACKET_TIME: u64 = 1 << 30;

    /// Creates parameters with these thresholds, in bytes. At most one of 50 arrivals is signalled
    /// below the second, the average changes by 1/512 (0.002, as published), and a usual packet
    /// takes 1.2 ms (1,500 bytes at 10 Mbit/s). [`Red::new`] and [`Red::set_params`] check them.
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
        }
    }

    /// Sets the probability at the second threshold.
    #[must_use]
    pub const fn with_max_probability(self, max_probability: Probability) -> Self {
        Self { max_probability, ..self }
    }

    /// Sets the weight: an arrival changes the average by `2^-weight` of the difference.
    #[must_use]
    pub const fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// Sets the transmission time of a usual packet.
    #[must_use]
    pub const fn with_packet_time(self, packet_time: Nanos) -> Self {
        Self { packet_time, ..self }
    }

    /// Makes the probability grow to 1 between one and two times the second threshold.
    #[must_use]
    pub const fn gentle(self) -> Self {
        Self { gentle: true, ..self }
    }

    /// Makes the probability at the second threshold follow the average.
    #[must_use]
    pub const fn adaptive(self) -> Self {
        Self { adaptive: true, ..self }
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

    pub(super) fn law(&self) -> Result<RedLaw, ConfigError> {
        self.check()?;
        Ok(RedLaw::of(self))
    }
}

/// The state of [`Red`] for one queue: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedState {
    /// `2^FRACTION` times the average of the bytes queued.
    average: u64,
    /// The time at which the queue became empty, or was last offered a packet while it was. Stale
    /// while it holds packets, and meaningless while the average is 0.
    idle_since: Nanos,
    /// The time of the last adaptation, in ns modulo 2^32; stale unless `probability` is above 0.
    adapted: u32,
    /// The adaptive probability at the second threshold; 0 before it is first needed.
    probability: u32,
    /// Arrivals that passed since the last signal, at most [`MOST_COUNTED`]; 0 if the average has
    /// been below the first threshold since.
    count: u32,
}

impl RedState {
    /// A queue that has not held a packet.
    pub const EMPTY: Self =
        Self { average: 0, idle_since: Nanos::ZERO, adapted: 0, probability: 0, count: 0 };
}

impl Words for RedState {
    fn to_words(self) -> [u64; 3] {
        let count = u64::from(self.count);
        [
            count << AVERAGE_BITS | self.average,
            u64::from(self.adapted) << u32::BITS | u64::from(self.probability),
            count >> COUNT_LOW << TIME_BITS | time_in_bits(self.idle_since),
        ]
    }

    fn from_words([first, second, last]: [u64; 3], now: Nanos) -> Self {
        let low = bits(first, AVERAGE_BITS, COUNT_LOW);
        Self {
            average: first & ((1 << AVERAGE_BITS) - 1),
            idle_since: time_from_bits(last, now),
            adapted: bits(second, u32::BITS, u32::BITS),
            probability: bits(second, 0, u32::BITS),
            count: bits(last, TIME_BITS, COUNT_LOW) << COUNT_LOW | low,
        }
    }
}

/// Fraction bits of an average: finer than the rounding of the slowest one.
const FRACTION: u32 = 20;
/// Bits of an average of numbers below 2^32.
const AVERAGE_BITS: u32 = u32::BITS + FRACTION;
/// The low bits of a count that fit into the word of the average.
const COUNT_LOW: u32 = u64::BITS - AVERAGE_BITS;
/// The most arrivals that are counted between two signals.
const MOST_COUNTED: u32 = (1 << (2 * COUNT_LOW)) - 1;
/// Fraction bits of the reciprocals of lengths, which are at least 1 and at most 2^30.
const INVERSE: u32 = 62;
/// Fraction bits of the reciprocal of the packet time.
const PACKETS: u32 = 42;
/// After `2^(weight + FORGOTTEN)` packet times an average is 0: e^-32 of its value is less than its
/// rounding.
const FORGOTTEN: u32 = 5;

/// Parameters with precomputed reciprocals, so that no arrival divides.
#[derive(Clone, Copy, Debug)]
pub(super) struct RedLaw {
    min_threshold: u32,
    max_threshold: u32,
    max_probability: u32,
    packet_time: u32,
    /// `2^INVERSE` divided by the distance of the thresholds, and by the second one.
    per_span: u64,
    per_threshold: u64,
    /// `2^PACKETS` divided by the packet time.
    per_packet_time: u64,
    /// The adaptive probability rises above the first average and falls below the second: 6/10 and
    /// 4/10 of the way between the thresholds.
    rises_above: u32,
    falls_below: u32,
    weight: u8,
    gentle: bool,
    adaptive: bool,
}

impl RedLaw {
    fn of(params: &RedParams) -> Self {
        let span = params.max_threshold.saturating_sub(params.min_threshold);
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let inverse = |bits: u32, of: u64| (1_u64 << bits).checked_div(of).unwrap_or(0);
        // Rounded up: whole packet times are whole packets.
        let packet_time = params.packet_time.0.max(1);
        let tenths = |n: u64| {
            let part = (u64::from(span) * n).checked_div(10).unwrap_or(0);
            params.min_threshold.saturating_add(small(part))
        };
        Self {
            min_threshold: params.min_threshold,
            max_threshold: params.max_threshold,
            max_probability: params.max_probability.raw(),
            packet_time: small(packet_time),
            per_span: inverse(INVERSE, span.into()),
            per_threshold: inverse(INVERSE, params.max_threshold.into()),
            per_packet_time: (1_u64 << PACKETS).div_ceil(packet_time),
            rises_above: tenths(6),
            falls_below: tenths(4),
            weight: u8::try_from(params.weight).unwrap_or(u8::MAX),
            gentle: params.gentle,
            adaptive: params.adaptive,
        }
    }

    /// Returns `average` after the queue was empty for `idle`: multiplied by `1 − 2^-weight` for
    /// each packet that could have left.
    fn decayed(&self, average: u64, idle: Nanos) -> u64 {
        let weight = u32::from(self.weight);
        let forgotten = u64::from(self.packet_time) << weight.wrapping_add(FORGOTTEN);
        if idle.0 >= forgotten {
            return 0;
        }
        // Below 2^(16 + 5) packet times of at most 2^30 ns, and a packet time times its reciprocal
        // is at most 2^42 plus that time: no overflow.
        let mut packets = idle.0.wrapping_mul(self.per_packet_time) >> PACKETS;
        // `(1 − 2^-weight)^(2^i)` in units of 2^-32.
        let mut power = 0_u32.wrapping_sub(1_u32.wrapping_shl(u32::BITS.wrapping_sub(weight)));
        let mut left = average;
        while packets > 0 {
            if packets & 1 == 1 {
                left = part(left, power);
            }
            power = upper(u64::from(power).wrapping_mul(power.into()));
            packets >>= 1;
        }
        left
    }

    /// Returns the adaptive probability at the second threshold, after adapting it if that is due.
    fn adapt(&self, state: &mut RedState, now: Nanos) -> u32 {
        /// 1/100, 1/2 and 9/10 in units of 2^-32.
        const LEAST: u32 = 42_949_673;
        const MOST: u32 = 1 << 31;
        const NINE_TENTHS: u32 = 3_865_470_566;
        /// A difference from here on is a step back of up to a second.
        const STEPPED_BACK: u32 = 0_u32.wrapping_sub(1_000_000_000);
        let now = bits(now.0, 0, u32::BITS);
        let since = now.wrapping_sub(state.adapted);
        if state.probability == 0 {
            state.probability = self.max_probability.clamp(LEAST, MOST);
            state.adapted = now;
        } else if since >= STEPPED_BACK {
            state.adapted = now;
        } else if u64::from(since) >= RedParams::ADAPTS_AFTER.0 {
            state.adapted = now;
            let (average, before) = (state.bytes(), state.probability);
            if average > self.rises_above {
                state.probability = before.saturating_add(LEAST.min(before >> 2)).min(MOST);
            } else if average < self.falls_below {
                let lower = upper(u64::from(before).wrapping_mul(NINE_TENTHS.into()));
                state.probability = lower.max(LEAST);
            }
        }
        state.probability
    }
}

/// Returns the upper half of a number.
const fn upper(number: u64) -> u32 {
    (number >> 32) as u32
}

/// Returns `number · fraction / 2^32`, rounded down to at most one less.
const fn part(number: u64, fraction: u32) -> u64 {
    let (high, low) = (number >> 32, number & u32::MAX as u64);
    let low = low.wrapping_mul(fraction as u64) >> 32;
    high.wrapping_mul(fraction as u64).wrapping_add(low)
}

alone! {
    /// RED for the queues whose states are in the memory `T`; arrivals of queues beyond its length
    /// pass.
    ///
    /// ```
    /// use sched_core::{
    ///     Descriptor, Drr, DrrFlow, FlowQueues, Limits, Queue, Red, RedParams, RedState,
    /// };
    ///
    /// let mut scheduler = Drr::new([DrrFlow::EMPTY; 16], 1_514)?.sparse_first();
    /// scheduler.add_all(1_514)?;
    /// let red = Red::new([RedState::EMPTY; 16], RedParams::new(15_000, 45_000).gentle(), 7)?;
    /// let (queues, descriptors) = ([Queue::EMPTY; 16], [Descriptor::EMPTY; 64]);
    /// let fq_red = FlowQueues::with_parts(scheduler, red, queues, descriptors, [], Limits::NONE);
    /// # let _ = fq_red;
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    pub struct Red<RedState>, RedParams, RedLaw
}

impl<T: Table<RedState>> Red<T> {
    /// Returns the average of the bytes in the queue of `flow` at its last arrival; 0 for a queue
    /// without a state.
    pub fn average(&self, flow: FlowId) -> u32 {
        self.states.as_ref().get(flow.index()).map_or(0, RedState::bytes)
    }
}

impl RedState {
    /// Returns the average in bytes.
    #[expect(clippy::cast_possible_truncation, reason = "an average of numbers below 2^32")]
    const fn bytes(&self) -> u32 {
        (self.average >> FRACTION) as u32
    }

    /// Updates the average for an arrival that finds `bytes` queued.
    #[inline]
    const fn average_in(&mut self, bytes: u32, weight: u8) {
        let now = (bytes as u64) << FRACTION;
        // Both sides are below 2^52; the shift rounds down, which costs less than 2^16 units of
        // 2^-20 bytes.
        let step = now.cast_signed().wrapping_sub(self.average.cast_signed()) >> weight;
        self.average = self.average.wrapping_add_signed(step);
    }
}

impl Law for RedLaw {
    type State = RedState;

    fn admit(&self, state: &mut RedState, random: &mut Random, offer: Offer) -> Admission {
        if offer.held.packets > 0 {
            state.average_in(offer.held.bytes, self.weight);
        } else {
            if state.average > 0 {
                state.average = self.decayed(state.average, offer.now.since(state.idle_since));
            }
            // If the arrival is rejected, the queue stays empty, and its average has decayed up to
            // now.
            state.idle_since = offer.now;
        }
        let at_threshold =
            if self.adaptive { self.adapt(state, offer.now) } else { self.max_probability };
        let average = state.bytes();
        let Some(above) = average.checked_sub(self.min_threshold) else {
            state.count = 0;
            return Admission::Accept;
        };
        let (probability, signal) = if average < self.max_threshold {
            (between(at_threshold, above, self.per_span), Admission::Signal)
        } else {
            let beyond = average.saturating_sub(self.max_threshold);
            if !self.gentle || beyond >= self.max_threshold {
                state.count = 0;
                return Admission::Refuse;
            }
            let rest = between(!at_threshold, beyond, self.per_threshold);
            (at_threshold.saturating_add(rest), Admission::Refuse)
        };
        if !is_signalled(probability, state.count, random.next_u32()) {
            state.count = state.count.saturating_add(1).min(MOST_COUNTED);
            return Admission::Accept;
        }
        state.count = 0;
        signal
    }

    #[inline]
    fn glance(&self, state: &mut RedState, head: Head) -> Verdict {
        if head.bytes_behind == 0 {
            state.idle_since = head.now;
        }
        Verdict::Pass
    }

    /// The last packet leaves its queue empty.
    #[inline]
    fn judge(&self, state: &mut RedState, _random: &mut Random, head: Head) -> Verdict {
        self.glance(state, head)
    }

    /// A sender lost a packet: the count restarts.
    fn overflowed(&self, state: &mut RedState, _now: Nanos) {
        state.count = 0;
    }

    fn emptied(&self, state: &mut RedState, now: Nanos) {
        state.idle_since = now;
    }
}

signals_arrivals!(Red<RedState>);

/// Returns `most` times the fraction that `above` is of a length whose reciprocal is `inverse`, in
/// units of 2^-32; `above` is below that length.
#[inline]
fn between(most: u32, above: u32, inverse: u64) -> u32 {
    // above · inverse < 2^62, its upper 32 bits are the fraction.
    let fraction = u64::from(above).wrapping_mul(inverse) >> (INVERSE - 32);
    upper(u64::from(most).wrapping_mul(fraction))
}

/// Returns true if an arrival is signalled after `count` that were not: with the probability `p/(1
/// − count·p)`. Compares `drawn·(1 − count·p)` with `p`, which needs no division.
#[inline]
fn is_signalled(probability: u32, count: u32, drawn: u32) -> bool {
    let used = u64::from(count).wrapping_mul(probability.into());
    let left = (1_u64 << 32).saturating_sub(used);
    // left ≤ 2^32 and drawn < 2^32: no overflow.
    u64::from(drawn).wrapping_mul(left) < u64::from(probability) << 32
}

#[cfg(test)]
mod tests;
