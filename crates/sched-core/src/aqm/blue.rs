//! BLUE: drops arrivals at random, more often after overflows and less often after the queue was
//! empty.
//!
//! Each queue has a probability. It rises by a step when the queue overflows, and falls by a
//! smaller step when the queue is empty. Two steps are at least a freeze time apart, so that
//! senders have time to react. Arrivals are marked or rejected with this probability. So a queue
//! that overflows repeatedly, because its senders are unresponsive, rejects just the excess.
//!
//! **Promises.** A queue that has not overflowed, and in which no packet waited longer than
//! `longest_wait`, loses no packet. Above the probability `mark_up_to` packets are rejected,
//! ECN-capable or not: senders that ignore marks cannot fill the queue. The probability of an idle
//! queue decays with elapsed time, without a timer, in a constant number of steps. The same seed
//! and times give the same verdicts on every target.
//!
//! **Cost.** O(1): one comparison per arrival while the probability is 0, else a draw. Memory: 16
//! bytes per queue.
//!
//! **Source.** W. Feng, K. G. Shin, D. D. Kandlur, D. Saha, *The BLUE active queue management
//! algorithms*, IEEE/ACM Transactions on Networking 10 (4), 2002. Departures:
//! `docs/disciplines/cobalt.md`.

use super::control_law::MAX_INTERVAL;
use super::law::{Law, Words, alone, signals_arrivals};
use super::random::{Probability, Random};
use super::{Admission, Aqm, Head, Look, Offer, SHORTEST, Verdict, swap_states};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{FlowId, Nanos};

/// The parameters of [`Blue`], common to all queues.
///
/// ```
/// use sched_core::{BlueParams, Nanos, Probability};
///
/// let params = BlueParams::DEFAULT.with_longest_wait(Nanos::from_millis(400));
/// assert_eq!(params.increment, Probability::ratio(1, 256)?);
/// assert_eq!(params.longest_wait, Nanos::from_millis(400));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BlueParams {
    /// The increase of the probability per overflow; above 0.
    pub increment: Probability,
    /// The decrease of the probability per empty queue; above 0. Should be much less than
    /// `increment`.
    pub decrement: Probability,
    /// The minimum time between two changes of a probability, 1,024 ns to 2^33 − 1 ns (8.6 s); 10
    /// to 100 ms in the paper.
    pub freeze: Nanos,
    /// Up to this probability ECN-capable packets are marked; above it they are rejected like
    /// others.
    pub mark_up_to: Probability,
    /// A packet that waited longer counts as an overflow, like a queue longer than `L` in the
    /// paper. At least 1,024 ns; [`Nanos::MAX`] for never.
    pub longest_wait: Nanos,
}

impl BlueParams {
    /// Steps of 1/256 and 1/4,096, a freeze time of 10 ms, marks up to 1/10, and no limit on the
    /// sojourn time.
    pub const DEFAULT: Self = Self {
        increment: Probability::from_raw(1 << 24),
        decrement: Probability::from_raw(1 << 20),
        freeze: Nanos(10_000_000),
        mark_up_to: Probability::TENTH,
        longest_wait: Nanos::MAX,
    };

    /// Sets the steps of the probability.
    #[must_use]
    pub const fn with_steps(self, increment: Probability, decrement: Probability) -> Self {
        Self { increment, decrement, ..self }
    }

    /// Sets the minimum time between two changes.
    #[must_use]
    pub const fn with_freeze(self, freeze: Nanos) -> Self {
        Self { freeze, ..self }
    }

    /// Sets the probability up to which packets are marked; [`Probability::NEVER`] for no marks.
    #[must_use]
    pub const fn with_mark_up_to(self, mark_up_to: Probability) -> Self {
        Self { mark_up_to, ..self }
    }

    /// Sets the sojourn time above which a packet counts as an overflow.
    #[must_use]
    pub const fn with_longest_wait(self, longest_wait: Nanos) -> Self {
        Self { longest_wait, ..self }
    }

    pub(super) fn law(&self) -> Result<BlueAlone, ConfigError> {
        let (freeze, longest) = (self.freeze.0, self.longest_wait.0);
        ConfigError::check_range("BLUE freeze time in ns", freeze, SHORTEST, MAX_INTERVAL.0)?;
        ConfigError::check_range("BLUE longest wait in ns", longest, SHORTEST, u64::MAX)?;
        let steps = BlueLaw::new(self.increment, self.decrement, self.freeze)?;
        Ok(BlueAlone { steps, mark_up_to: self.mark_up_to, longest_wait: self.longest_wait })
    }
}

impl Default for BlueParams {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The update rule of a probability, for [`Blue`] and for COBALT.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlueLaw {
    increment: Probability,
    decrement: Probability,
    freeze: Nanos,
    /// Decrease per nanosecond of an idle queue, besides its first step: the raw decrement per
    /// freeze time, with [`IDLE_FRAC`] fraction bits.
    idle_rate: u64,
    /// An idle time after which any probability is 0.
    idle_whole: Nanos,
}

/// Fraction bits of [`BlueLaw::idle_rate`].
const IDLE_FRAC: u32 = 20;

/// A probability and the time from which it may change, inside the state of a queue.
#[derive(Debug)]
pub(super) struct BlueParts<'a> {
    pub(super) chance: &'a mut Probability,
    /// Time from which the probability may change; initially 0.
    pub(super) thaw: &'a mut Nanos,
}

impl BlueLaw {
    /// Creates the rule with these steps; `freeze` is already checked.
    pub(super) fn new(
        increment: Probability,
        decrement: Probability,
        freeze: Nanos,
    ) -> Result<Self, ConfigError> {
        let (up, down) = (increment.raw(), decrement.raw());
        let most = u32::MAX.into();
        ConfigError::check_range("BLUE increment in 2^-32", up.into(), 1, most)?;
        ConfigError::check_range("BLUE decrement in 2^-32", down.into(), 1, most)?;
        let idle_rate = (u64::from(down) << IDLE_FRAC).checked_div(freeze.0).unwrap_or(0);
        let steps = most.checked_div(down.into()).unwrap_or(most).wrapping_add(1);
        let idle_whole = Nanos(freeze.0.saturating_mul(steps));
        Ok(Self { increment, decrement, freeze, idle_rate, idle_whole })
    }

    /// Raises the probability after an overflow.
    pub(super) fn raise(&self, parts: BlueParts<'_>, now: Nanos) {
        if self.is_thawed(*parts.thaw, now) {
            *parts.chance = parts.chance.plus(self.increment);
            *parts.thaw = now.plus(self.freeze);
        }
    }

    /// Lowers the probability after the queue has become empty.
    pub(super) fn lower(&self, parts: BlueParts<'_>, now: Nanos) {
        if *parts.chance != Probability::NEVER && self.is_thawed(*parts.thaw, now) {
            *parts.chance = parts.chance.minus(self.decrement);
            *parts.thaw = now.plus(self.freeze);
        }
    }

    /// Applies the steps of an idle queue: the queue was empty from a call of [`Self::lower`] until
    /// `now`. These are the steps that a timer would have taken, one at the thaw and one per freeze
    /// time after it.
    pub(super) fn catch_up(&self, parts: BlueParts<'_>, now: Nanos) {
        if *parts.chance == Probability::NEVER || now < *parts.thaw {
            return;
        }
        let idle = now.since(*parts.thaw).0;
        // Below 2^53: `idle_whole`, `(2^32 / decrement + 1) · freeze`, times `decrement · 2^20 /
        // freeze`.
        let lost = idle.saturating_mul(self.idle_rate) >> IDLE_FRAC;
        let lost = u32::try_from(lost).unwrap_or(u32::MAX);
        let left = parts.chance.minus(self.decrement).minus(Probability::from_raw(lost));
        *parts.chance = if idle >= self.idle_whole.0 { Probability::NEVER } else { left };
        *parts.thaw = now.plus(self.freeze);
    }

    /// Returns true if a freeze time has passed since the last change.
    fn is_thawed(&self, thaw: Nanos, now: Nanos) -> bool {
        // A thaw further ahead than a freeze time means that the clock has stepped back.
        now >= thaw || thaw.since(now) > self.freeze
    }
}

/// The state of [`Blue`] for one queue: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlueState {
    /// Time from which the probability may change.
    thaw: Nanos,
    /// The probability that an arrival is marked or rejected.
    chance: Probability,
}

impl BlueState {
    /// A queue that has not overflowed.
    pub const EMPTY: Self = Self { thaw: Nanos::ZERO, chance: Probability::NEVER };

    const fn parts(&mut self) -> BlueParts<'_> {
        BlueParts { chance: &mut self.chance, thaw: &mut self.thaw }
    }
}

impl Words for BlueState {
    fn to_words(self) -> [u64; 3] {
        [self.thaw.0, self.chance.raw().into(), 0]
    }

    fn from_words([thaw, chance, _]: [u64; 3], _now: Nanos) -> Self {
        let chance = u32::try_from(chance).unwrap_or(u32::MAX);
        Self { thaw: Nanos(thaw), chance: Probability::from_raw(chance) }
    }
}

alone! {
    /// BLUE for the queues whose states are in the memory `T`; packets of queues beyond its length
    /// pass.
    ///
    /// ```
    /// use sched_core::{
    ///     Blue, BlueParams, BlueState, Descriptor, Drr, DrrFlow, FlowId, FlowQueues, Limits, Nanos,
    ///     Packet, Probability, Queue, Scheduler,
    /// };
    ///
    /// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_514)?;
    /// drr.add_all(1_514)?;
    /// let blue = Blue::new([BlueState::EMPTY; 2], BlueParams::DEFAULT, 1)?;
    /// let (queues, packets) = ([Queue::EMPTY; 2], [Descriptor::EMPTY; 8]);
    /// let mut queues = FlowQueues::with_parts(drr, blue, queues, packets, [], Limits::packets(2));
    /// let drops = &mut |_: Packet, _why| ();
    /// for handle in 0..3 {
    ///     let _full = queues.enqueue(Nanos(0), FlowId(1), Packet::new(handle, 1_000), drops);
    /// }
    /// assert_eq!(queues.aqm().probability(FlowId(1)), Probability::ratio(1, 256)?);
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    pub struct Blue<BlueState>, BlueParams, BlueAlone
}

impl<T: Table<BlueState>> Blue<T> {
    /// Returns the probability that an arrival of `flow` is marked or rejected; 0 for a flow
    /// without a state.
    #[must_use]
    pub fn probability(&self, flow: FlowId) -> Probability {
        self.states.as_ref().get(flow.index()).map_or(Probability::NEVER, |state| state.chance)
    }
}

/// The algorithm of [`Blue`], including the update rule of its probability.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlueAlone {
    steps: BlueLaw,
    mark_up_to: Probability,
    longest_wait: Nanos,
}

impl Law for BlueAlone {
    type State = BlueState;

    #[inline]
    fn admit(&self, state: &mut BlueState, random: &mut Random, offer: Offer) -> Admission {
        if state.chance == Probability::NEVER {
            return Admission::Accept;
        }
        if offer.held.packets == 0 {
            self.steps.catch_up(state.parts(), offer.now);
            if state.chance == Probability::NEVER {
                return Admission::Accept;
            }
        }
        let may_mark = state.chance <= self.mark_up_to;
        match state.chance.draw(random) {
            false => Admission::Accept,
            true if may_mark => Admission::Signal,
            true => Admission::Refuse,
        }
    }

    #[inline]
    fn glance(&self, state: &mut BlueState, head: Head) -> Verdict {
        let is_late = head.sojourn > self.longest_wait;
        let may_fall = head.bytes_behind == 0 && state.chance != Probability::NEVER;
        if is_late || may_fall { Verdict::Unclear } else { Verdict::Pass }
    }

    /// The last packet of a queue lowers the probability; one that waited too long raises it.
    fn judge(&self, state: &mut BlueState, _random: &mut Random, head: Head) -> Verdict {
        if head.sojourn > self.longest_wait {
            self.steps.raise(state.parts(), head.now);
        }
        if head.bytes_behind == 0 {
            self.steps.lower(state.parts(), head.now);
        }
        Verdict::Pass
    }

    fn overflowed(&self, state: &mut BlueState, now: Nanos) {
        self.steps.raise(state.parts(), now);
    }

    fn emptied(&self, state: &mut BlueState, now: Nanos) {
        self.steps.lower(state.parts(), now);
    }
}

signals_arrivals!(Blue<BlueState>);

#[cfg(test)]
mod tests;
