//! PIE: signals arrivals with a probability that a controller adjusts to bring the delay to its
//! target.
//!
//! Every period the probability changes with the delay of the queue and with the change of that
//! delay ([`pi`](super::pi)). An arrival is signalled with the probability: marked if it is
//! ECN-capable and the probability is at most a threshold, else rejected. There is no signal during
//! an initial burst, while the delay is below half of the target and the probability below 20 %, or
//! for a queue of at most two packets.
//!
//! **Time.** There is no timer. Updates are due one period apart, counted from the packet that
//! began the backlog. The first call after such an instant performs the update. For a queue that
//! held packets, at most eight updates are made up for.
//!
//! **Promises.** Between two signals there are at least `0.85/p` and at most `8.5/p` arrivals. The
//! same seed, parameters and calls give the same verdicts on every target.
//!
//! **Cost.** O(1): a few comparisons per packet, an update once per period. Memory: 32 bytes per
//! queue.
//!
//! **Source.** RFC 8033. Departures: `docs/disciplines/pie.md`.

use super::law::{Law, Words, alone, bits, signals_arrivals, time_from_bits, time_in_bits};
use super::pi::{
    DELAY_BITS, Gains, MAX_UPDATES, ONE, Settings, delay_from_bits, delay_in_bits, delay_of,
    fraction, moved, periods, product, shortened,
};
use super::{Admission, Aqm, Head, Look, Offer, Probability, Random, Verdict, swap_states};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{FlowId, Nanos, Packet};

/// The parameters of [`Pie`], common to all queues.
///
/// ```
/// use sched_core::{Nanos, PieParams, Probability};
///
/// let params = PieParams::new(Nanos::from_millis(5));
/// assert_eq!((params.alpha_millihertz, params.beta_millihertz), (125, 1_250));
/// assert_eq!(params.mark_up_to, Probability::ratio(1, 10)?);
/// assert_eq!(PieParams::default(), PieParams::new(Nanos::from_millis(15)));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PieParams {
    /// The target delay of the controller (`QDELAY_REF`): 1,024 ns to 1 s.
    pub target: Nanos,
    /// The time between two updates of the probability (`T_UPDATE`): 1,024 ns to 1 s.
    pub period: Nanos,
    /// The burst allowance: the time for which a queue may be standing before the first signal
    /// (`MAX_BURST`). 0 to 4 s.
    pub max_burst: Nanos,
    /// α in millihertz: the increase of the probability per update and second above the target. 1
    /// to 1,000,000.
    pub alpha_millihertz: u32,
    /// β in millihertz: the increase per update and second by which the delay has grown. 1 to
    /// 1,000,000.
    pub beta_millihertz: u32,
    /// Up to this probability an ECN-capable arrival is marked, above it is rejected
    /// (`MARK_ECNTH`).
    pub mark_up_to: Probability,
    /// The longest usual packet, `1..=`[`Packet::MAX_LEN`] bytes. A queue of at most two such
    /// packets is not signalled.
    pub mtu: u32,
}

impl PieParams {
    /// Creates parameters with this target and the other defaults of RFC 8033: updates every 15 ms,
    /// bursts of 150 ms, α 0.125 Hz, β 1.25 Hz, marks up to 10 %. Packets of up to 1,514 bytes, an
    /// Ethernet frame. [`Pie::new`] and [`Pie::set_params`] check them.
    #[must_use]
    pub const fn new(target: Nanos) -> Self {
        Self {
            target,
            period: Nanos(15_000_000),
            max_burst: Nanos(150_000_000),
            alpha_millihertz: 125,
            beta_millihertz: 1_250,
            mark_up_to: Probability::TENTH,
            mtu: 1_514,
        }
    }

    /// Sets the time between two updates.
    #[must_use]
    pub const fn with_period(self, period: Nanos) -> Self {
        Self { period, ..self }
    }

    /// Sets the burst allowance.
    #[must_use]
    pub const fn with_max_burst(self, max_burst: Nanos) -> Self {
        Self { max_burst, ..self }
    }

    /// Sets α and β, in millihertz.
    #[must_use]
    pub const fn with_gains(self, alpha_millihertz: u32, beta_millihertz: u32) -> Self {
        Self { alpha_millihertz, beta_millihertz, ..self }
    }

    /// Sets the longest usual packet, in bytes.
    #[must_use]
    pub const fn with_mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    pub(super) fn law(&self) -> Result<PieLaw, ConfigError> {
        let settings = Settings {
            target: self.target,
            period: self.period,
            alpha_millihertz: self.alpha_millihertz,
            beta_millihertz: self.beta_millihertz,
        };
        let gains = Gains::new(
            settings,
            ["PIE target in ns", "PIE period in ns", "PIE alpha in mHz", "PIE beta in mHz"],
        )?;
        ConfigError::check_range("PIE burst in ns", self.max_burst.0, 0, MAX_BURST)?;
        let longest = Packet::MAX_LEN.into();
        ConfigError::check_range("PIE MTU in bytes", self.mtu.into(), 1, longest)?;
        let mark_up_to = match self.mark_up_to {
            Probability::ALWAYS => ONE,
            below => u64::from(below.raw()) << 32,
        };
        let burst = self.max_burst.0.div_ceil(self.period.0.max(1));
        let burst = u32::try_from(burst).unwrap_or(u32::MAX);
        let spared = self.mtu.saturating_mul(2);
        Ok(PieLaw { gains, mark_up_to, burst, spared })
    }
}

impl Default for PieParams {
    /// Creates parameters with a target of 15 ms (RFC 8033 §4.2).
    fn default() -> Self {
        Self::new(Nanos(15_000_000))
    }
}

const MAX_BURST: u64 = 4_000_000_000;

/// The automatic tuning: below each probability, steps are divided by two to the power next to it
/// (RFC 8033 §5.2 with the table of its appendix).
const TUNING: [(u64, u32); 6] = [
    (fraction(1, 1_000_000), 11),
    (fraction(1, 100_000), 9),
    (fraction(1, 10_000), 7),
    (fraction(1, 1_000), 5),
    (fraction(1, 100), 3),
    (TENTH, 1),
];
const TENTH: u64 = fraction(1, 10);
const FIFTH: u64 = fraction(1, 5);
/// 2 %: the largest increase per update from 10 % on, and the extra increase for a delay above
/// [`LONG_DELAY`].
const FIFTIETH: u64 = fraction(1, 50);
/// 250 ms in ns.
const LONG_DELAY: u32 = 250_000_000;

/// Fraction bits of the sum of probabilities since the last signal. It stays below 9.5.
const SUM_BITS: u32 = 28;
/// Below this sum no arrival is signalled: 0.85.
const SUM_LEAST: u32 = 228_170_138;
/// From this sum on every arrival is signalled: 8.5.
const SUM_MOST: u32 = 2_281_701_376;

/// The state of [`Pie`] for one queue: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieState {
    /// The time of the last update, or of the packet that began the backlog.
    updated: Nanos,
    /// The probability, a 64-bit fraction.
    p: u64,
    /// The sum of the probabilities of the arrivals since the last signal, in units of 2^-28.
    sum: u32,
    /// Sojourn time of the last packet that left, in ns.
    delay: u32,
    /// The value of `delay` in the last update.
    before: u32,
    /// Periods of the burst allowance that are used up: fewer than 2^22.
    spent: u32,
}

impl PieState {
    /// A queue that has not held a packet.
    pub const EMPTY: Self =
        Self { updated: Nanos::ZERO, p: 0, sum: 0, delay: 0, before: 0, spent: 0 };

    /// Low bits of a probability that are not stored.
    const BELOW: u32 = 22;
    /// The largest probability in the stored bits.
    const MOST: u64 = u64::MAX >> Self::BELOW;

    /// Sets `p` to the nearest value that its bits allow; 1 stays 1.
    const fn set_p(&mut self, p: u64) {
        let kept = p >> Self::BELOW;
        self.p = if kept == Self::MOST { ONE } else { kept << Self::BELOW };
    }
}

/// Delays are encoded in whole ticks, like sojourn times.
impl Words for PieState {
    fn to_words(self) -> [u64; 3] {
        let updated = time_in_bits(self.updated);
        let (delay, before) = (delay_in_bits(self.delay), delay_in_bits(self.before));
        [
            self.p >> Self::BELOW << Self::BELOW | u64::from(self.spent),
            updated << Self::BELOW | before,
            updated >> (u64::BITS - Self::BELOW) << HIGH | delay << u32::BITS | u64::from(self.sum),
        ]
    }

    fn from_words([first, second, last]: [u64; 3], now: Nanos) -> Self {
        let low = second >> Self::BELOW;
        let high = last >> HIGH << (u64::BITS - Self::BELOW);
        let mut state = Self {
            updated: time_from_bits(high | low, now),
            sum: bits(last, 0, u32::BITS),
            delay: delay_from_bits(last >> u32::BITS),
            before: delay_from_bits(second),
            spent: bits(first, 0, Self::BELOW),
            ..Self::EMPTY
        };
        state.set_p(first);
        state
    }
}

/// The position in the last word of a [`PieState`] of the upper bits of its instant.
const HIGH: u32 = u32::BITS + DELAY_BITS;

alone! {
    /// PIE for the queues whose states are in the memory `T`; packets of queues beyond its length
    /// are neither marked nor dropped.
    ///
    /// ```
    /// use sched_core::{
    ///     Descriptor, Drr, DrrFlow, FlowQueues, Limits, Pie, PieParams, PieState, Queue,
    /// };
    ///
    /// let mut scheduler = Drr::new([DrrFlow::EMPTY; 16], 1_514)?.sparse_first();
    /// scheduler.add_all(1_514)?;
    /// let pie = Pie::new([PieState::EMPTY; 16], PieParams::default(), 7)?;
    /// let (queues, descriptors) = ([Queue::EMPTY; 16], [Descriptor::EMPTY; 64]);
    /// let fq_pie = FlowQueues::with_parts(scheduler, pie, queues, descriptors, [], Limits::NONE);
    /// # let _ = fq_pie;
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    pub struct Pie<PieState>, PieParams, PieLaw
}

/// The precomputed parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieLaw {
    gains: Gains,
    /// As a 64-bit fraction.
    mark_up_to: u64,
    /// The burst allowance in periods, rounded up: fewer than 2^22.
    burst: u32,
    /// Two MTU in bytes.
    spared: u32,
}

impl PieLaw {
    /// Handles a packet that arrives at an empty queue. With probability 0 the state restarts;
    /// otherwise the updates of the idle time are made up for.
    fn begin(&self, state: &mut PieState, now: Nanos) {
        if state.p > 0 && self.gains.is_due(state.updated, now) {
            state.delay = 0;
            let more = self.catch_up(state, now);
            // The rest of a long silence halves the probability every 32 updates, which
            // approximates a factor of 0.98 each.
            let halvings = u32::try_from(more >> 5).unwrap_or(u32::MAX);
            state.set_p(state.p.checked_shr(halvings).unwrap_or(0));
        }
        if state.p == 0 {
            *state = PieState { updated: now, ..PieState::EMPTY };
        }
    }

    /// Makes up for at most [`MAX_UPDATES`] updates, and returns the number of skipped ones.
    #[cold]
    fn catch_up(&self, state: &mut PieState, now: Nanos) -> u64 {
        let period = self.gains.period;
        if now < state.updated {
            state.updated = now;
        }
        for _ in 0..MAX_UPDATES {
            if now.since(state.updated).0 < period.0 {
                return 0;
            }
            crate::steps::step();
            state.updated = state.updated.plus(period);
            self.update(state);
        }
        let more = periods(now.since(state.updated), period);
        if more > 0 {
            state.updated = now;
        }
        more
    }

    /// Performs one update (RFC 8033 §4.2, §5.2, §5.5, §4.4).
    fn update(&self, state: &mut PieState) {
        let PieState { p, delay, before, .. } = *state;
        let shift = TUNING.iter().find(|band| p < band.0).map_or(0, |band| band.1);
        let mut step = self.gains.step(delay, before, shift);
        if p >= TENTH {
            step = step.min(FIFTIETH.into());
        }
        if delay > LONG_DELAY {
            step = step.wrapping_add(FIFTIETH.into());
        }
        let mut p = moved(p, step);
        if delay == 0 && before == 0 {
            // Multiplies by 0.98 without a division.
            p = p.wrapping_sub(product(p, FIFTIETH));
        }
        state.set_p(p);
        state.spent = state.spent.saturating_add(1).min(self.burst);
        let half = self.gains.target >> 1;
        if state.p == 0 && delay < half && before < half {
            state.spent = 0;
        }
        state.before = delay;
    }

    /// Returns true if an arrival at a queue of `held` bytes is not signalled whatever the
    /// probability.
    #[inline]
    const fn spares(&self, state: &PieState, held: u32) -> bool {
        held <= self.spared
            || state.spent < self.burst
            || (state.p < FIFTH && state.before < self.gains.target >> 1)
    }

    /// Decides about an arrival with the probability (RFC 8033 §4.1, §5.1, §5.4).
    #[cold]
    fn toss(&self, state: &mut PieState, random: &mut Random) -> Admission {
        if state.p == 0 {
            state.sum = 0;
            return Admission::Accept;
        }
        state.sum = state.sum.saturating_add(sum_of(state.p));
        if state.sum < SUM_LEAST || (state.sum < SUM_MOST && !happens(state.p, random)) {
            return Admission::Accept;
        }
        state.sum = 0;
        if state.p <= self.mark_up_to { Admission::Signal } else { Admission::Refuse }
    }
}

impl Law for PieLaw {
    type State = PieState;

    #[inline]
    fn admit(&self, state: &mut PieState, random: &mut Random, offer: Offer) -> Admission {
        if offer.held.packets == 0 {
            self.begin(state, offer.now);
            return Admission::Accept;
        }
        if self.gains.is_due(state.updated, offer.now) {
            self.catch_up(state, offer.now);
        }
        if self.spares(state, offer.held.bytes) {
            return Admission::Accept;
        }
        self.toss(state, random)
    }

    #[inline]
    fn glance(&self, state: &mut PieState, head: Head) -> Verdict {
        if self.gains.is_due(state.updated, head.now) {
            return Verdict::Unclear;
        }
        state.delay = delay_of(head.sojourn);
        Verdict::Pass
    }

    /// The sojourn time of the packet is the delay of the queue.
    #[inline]
    fn judge(&self, state: &mut PieState, _random: &mut Random, head: Head) -> Verdict {
        if self.gains.is_due(state.updated, head.now) {
            self.catch_up(state, head.now);
        }
        state.delay = delay_of(head.sojourn);
        Verdict::Pass
    }

    /// Resets the sum, as after any other loss.
    fn overflowed(&self, state: &mut PieState, _now: Nanos) {
        state.sum = 0;
    }
}

/// Converts `p` to [`SUM_BITS`] fraction bits.
fn sum_of(p: u64) -> u32 {
    u32::try_from(p >> (u64::BITS.wrapping_sub(SUM_BITS))).unwrap_or(u32::MAX)
}

/// Returns true with the probability `p`.
fn happens(p: u64, random: &mut Random) -> bool {
    let drawn = u64::from(random.next_u32()) << 32 | u64::from(random.next_u32());
    p == ONE || drawn < p
}

impl<T: Table<PieState>> Pie<T> {
    /// Returns the probability that arrivals of `flow` are signalled, in steps of 2^-32, at the
    /// last update; 0 for a queue without a state.
    #[must_use]
    pub fn probability(&self, flow: FlowId) -> Probability {
        shortened(self.states.as_ref().get(flow.index()).map_or(0, |state| state.p))
    }
}

signals_arrivals!(Pie<PieState>);

#[cfg(test)]
mod tests;
