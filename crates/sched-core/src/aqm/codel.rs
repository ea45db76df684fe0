//! CoDel: signals a queue that has stayed above a target delay for an interval, at an increasing
//! rate.
//!
//! A queue that empties from time to time is good: it absorbs bursts. So CoDel measures the sojourn
//! time of packets, and its minimum over an interval. While every packet that leaves has waited for
//! at least `target`, it signals after one `interval` and then at shrinking spacings (`interval /
//! √n`), until a packet has waited for less.
//!
//! **Promises.** No signal before the queue has been standing for an interval. None for the last
//! packet of a queue, nor for one with at most one `mtu` behind it. The state of a queue before it
//! emptied has no effect. The same parameters and times give the same verdicts on every target: no
//! floating point.
//!
//! **Cost.** O(1): two comparisons for a packet below the target, some 30 instructions for a
//! signal. Memory: 24 bytes per flow, read for each packet delivered, and written only for packets
//! above the target and for the first one below it.
//!
//! **Source.** RFC 8289, in particular §5. Departures: `docs/disciplines/codel.md`.

use super::control_law::{MAX_INTERVAL, spacing};
use super::law::{Law, Words};
use super::{Admission, Aqm, Head, Look, Offer, Random, Verdict, swap_states};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{FlowId, Nanos, Packet};

/// The parameters of [`CoDel`], common to all queues.
///
/// ```
/// use sched_core::{CoDelParams, Nanos};
///
/// let regional =
///     CoDelParams::new(Nanos::from_micros(1_500), Nanos::from_millis(30)).with_mtu(9_018);
/// assert_eq!((regional.interval, regional.mtu), (Nanos::from_millis(30), 9_018));
/// assert_eq!(
///     CoDelParams::default(),
///     CoDelParams::new(Nanos::from_millis(5), Nanos::from_millis(100))
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CoDelParams {
    /// The acceptable standing sojourn time: 1,024 ns, the resolution of sojourn times, to
    /// `interval`. 5 to 10 % of the interval is a good value (RFC 8289 §4.3).
    pub target: Nanos,
    /// The time for which a queue may stay above the target: about the longest usual round-trip
    /// time (RFC 8289 §4.2). 1,024 ns to 2^33 − 1 ns (8.6 s).
    pub interval: Nanos,
    /// No signal is sent for a packet with at most this many bytes behind it: the longest usual
    /// packet, `1..=` [`Packet::MAX_LEN`] bytes.
    pub mtu: u32,
}

impl CoDelParams {
    /// Defaults for the internet: 5 ms, 100 ms (RFC 8289 §4.4) and an Ethernet frame.
    pub const INTERNET: Self = Self::new(Nanos(5_000_000), Nanos(100_000_000));

    /// Creates parameters with this target and interval, for packets of up to 1,514 bytes (an
    /// Ethernet frame). [`CoDel::new`] and [`CoDel::set_params`] check them.
    #[must_use]
    pub const fn new(target: Nanos, interval: Nanos) -> Self {
        Self { target, interval, mtu: 1_514 }
    }

    /// Sets the longest usual packet, in bytes.
    #[must_use]
    pub const fn with_mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    /// The shortest interval and target: the resolution of sojourn times.
    const SHORTEST: u64 = 1_024;

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let (min, interval) = (Self::SHORTEST, self.interval.0);
        ConfigError::check_range("CoDel interval in ns", interval, min, MAX_INTERVAL.0)?;
        ConfigError::check_range("CoDel target in ns", self.target.0, min, interval)?;
        let longest = Packet::MAX_LEN.into();
        ConfigError::check_range("CoDel MTU in bytes", self.mtu.into(), 1, longest)
    }
}

impl Default for CoDelParams {
    fn default() -> Self {
        Self::INTERNET
    }
}

/// The state of [`CoDel`] for one queue: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelState {
    /// [`BELOW`], [`SIGNALLING`], or else the instant from which the queue counts as standing: one
    /// interval after the first packet above the target.
    phase: Nanos,
    /// While signalling: the time of the next signal. Otherwise: the time at which the next one
    /// would have been sent.
    next: Nanos,
    /// Signals since the start of this phase of signalling, or of the one it continues; at most
    /// [`MAX_COUNT`].
    count: u32,
    /// The value of `count` at that start.
    count_at_start: u32,
}

/// The largest count: from there on the spacing stays constant, below 4.3 µs.
const MAX_COUNT: u32 = (1 << 29) - 1;
/// The last packet was below the target. No instant "one interval after" is zero.
const BELOW: Nanos = Nanos::ZERO;
/// The queue is standing and its senders are signalled. [`CoDel::judge`] keeps instants below this
/// value.
const SIGNALLING: Nanos = Nanos::MAX;

impl CoDelState {
    /// A queue that has not been above its target.
    pub const EMPTY: Self = Self { phase: BELOW, next: Nanos::ZERO, count: 0, count_at_start: 0 };

    /// Resets the phase after the queue has lost its last packet by a drop.
    const fn empty(&mut self) {
        self.phase = BELOW;
    }
}

impl Words for CoDelState {
    /// The first word is 0 if and only if the last packet was below the target. The upper three
    /// bits of the last are 0 because of [`MAX_COUNT`].
    fn to_words(self) -> [u64; 3] {
        let counts = u64::from(self.count_at_start) << u32::BITS | u64::from(self.count);
        [self.phase.0, self.next.0, counts]
    }

    fn from_words([phase, next, counts]: [u64; 3], _now: Nanos) -> Self {
        let [a, b, c, d, e, f, g, h] = counts.to_le_bytes();
        let count = u32::from_le_bytes([a, b, c, d]);
        let count_at_start = u32::from_le_bytes([e, f, g, h]);
        Self { phase: Nanos(phase), next: Nanos(next), count, count_at_start }
    }
}

/// CoDel for the queues whose states are in the memory `T`; packets of queues beyond its length
/// pass.
///
/// ```
/// use sched_core::{
///     CoDel, CoDelParams, CoDelState, Descriptor, Drr, DrrFlow, FlowQueues, Limits, Queue,
/// };
///
/// let mut scheduler = Drr::new([DrrFlow::EMPTY; 16], 1_514)?.sparse_first();
/// scheduler.add_all(1_514)?;
/// let codel = CoDel::new([CoDelState::EMPTY; 16], CoDelParams::INTERNET)?;
/// let (queues, descriptors) = ([Queue::EMPTY; 16], [Descriptor::EMPTY; 64]);
/// let fq_codel = FlowQueues::with_parts(scheduler, codel, queues, descriptors, [], Limits::NONE);
/// # let _ = fq_codel;
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct CoDel<T> {
    states: T,
    params: CoDelParams,
}

crate::debug::short_debug!(CoDel<T> { params });

impl<T: Table<CoDelState>> CoDel<T> {
    /// Creates CoDel for `states.len()` queues. Cost: O(queues).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for the first parameter out of range.
    pub fn new(mut states: T, params: CoDelParams) -> Result<Self, ConfigError> {
        params.check()?;
        states.as_mut().fill(CoDelState::EMPTY);
        Ok(Self { states, params })
    }

    /// Returns the parameters.
    #[must_use]
    pub const fn params(&self) -> CoDelParams {
        self.params
    }

    /// Changes the parameters, with queues idle or backlogged. Their states stay, and the next
    /// packet is judged by the new parameters.
    ///
    /// # Errors
    /// See [`CoDel::new`]; nothing has changed then.
    pub fn set_params(&mut self, params: CoDelParams) -> Result<(), ConfigError> {
        params.check()?;
        self.params = params;
        Ok(())
    }

    fn state_mut(&mut self, flow: FlowId) -> Option<&mut CoDelState> {
        self.states.as_mut().get_mut(flow.index())
    }
}

impl Law for CoDelParams {
    type State = CoDelState;

    #[inline]
    fn leaves(&self, state: &CoDelState, head: Head) -> bool {
        if self.is_below(head) {
            return state.phase == BELOW;
        }
        let due = if state.phase == SIGNALLING { state.next } else { state.phase };
        // An instant further ahead would be moved closer.
        head.now < due && due.since(head.now) <= self.interval
    }

    #[inline]
    fn judge(&self, state: &mut CoDelState, _random: &mut Random, head: Head) -> Verdict {
        self.verdict(state, head)
    }

    fn emptied(&self, state: &mut CoDelState, _now: Nanos) {
        state.empty();
    }
}

impl CoDelParams {
    /// Returns the verdict on a packet about to leave, and updates its queue's state.
    fn verdict(&self, state: &mut CoDelState, head: Head) -> Verdict {
        if self.is_below(head) {
            state.phase = BELOW;
            return Verdict::Pass;
        }
        self.judge_standing(state, head.now)
    }

    /// Returns true if the queue of a packet about to leave is not above the target.
    #[inline]
    const fn is_below(&self, head: Head) -> bool {
        // The last packet has no bytes behind it, so it always passes: the queue becomes empty, and
        // a packet that arrives much later must not meet an old deadline.
        head.sojourn.0 < self.target.0 || head.bytes_behind <= self.mtu
    }

    /// Returns the verdict on a packet whose queue is above the target.
    #[cold]
    fn judge_standing(&self, state: &mut CoDelState, now: Nanos) -> Verdict {
        // No instant is further ahead, unless the clock has stepped back or the interval was
        // longer.
        let latest = now.plus(self.interval);
        match state.phase {
            BELOW => {}
            SIGNALLING => state.next = state.next.min(latest),
            standing_from => state.phase = standing_from.min(latest),
        }
        match state.phase {
            BELOW => {
                let standing_from = now.plus(self.interval).0;
                state.phase = Nanos(standing_from.min(SIGNALLING.0.wrapping_sub(1)));
                Verdict::Pass
            }
            SIGNALLING if now < state.next => Verdict::Pass,
            SIGNALLING => {
                state.count = state.count.saturating_add(1).min(MAX_COUNT);
                state.next = state.next.plus(spacing(self.interval, state.count));
                Verdict::Signal
            }
            standing_from if now < standing_from => Verdict::Pass,
            _ => {
                self.begin(state, now);
                Verdict::Signal
            }
        }
    }

    /// Sends the first signal of a new phase: the queue has been standing for an interval.
    fn begin(&self, state: &mut CoDelState, now: Nanos) {
        // A phase that begins soon after another continues at the rate that the other had reached
        // by itself, without what it had inherited (RFC 8289 §5.5): that rate was about right.
        let reached = state.count.wrapping_sub(state.count_at_start);
        let soon = now.since(state.next).0 < self.interval.0 << 4;
        state.count = if soon && reached > 1 { reached } else { 1 };
        state.count_at_start = state.count;
        state.phase = SIGNALLING;
        state.next = now.plus(spacing(self.interval, state.count));
    }
}

impl<T: Table<CoDelState>> Aqm for CoDel<T> {
    /// A full-size Ethernet frame takes 12 ms at 1 Mbit/s. In that time the control law has 31
    /// signals due, at a count of 65,535 and an interval of 100 ms. So a caller that drains at 1
    /// Mbit/s or faster never meets this bound. After a pause one call may drop fewer than are due;
    /// the next call drops the rest.
    const MAX_DROPS: u32 = 32;

    /// Accepts: the sojourn time is known when the packet leaves.
    #[inline]
    fn admit(&mut self, _flow: FlowId, _offer: Offer, _look: Look) -> Admission {
        Admission::Accept
    }

    #[inline]
    fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
        if look == Look::Close {
            let state = self.states.as_mut().get_mut(flow.index());
            return state.map_or(Verdict::Pass, |state| self.params.verdict(state, head));
        }
        // A glance writes nothing, so that values the caller has read stay valid.
        let passes = self
            .states
            .as_ref()
            .get(flow.index())
            .is_some_and(|state| state.phase == BELOW && head.sojourn.0 < self.params.target.0);
        if passes { Verdict::Pass } else { Verdict::Unclear }
    }

    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
        let (params, mut copy) = (self.params, self.states.as_ref().get(flow.index()).copied());
        move |head| match &mut copy {
            Some(state) => params.verdict(state, head),
            None => Verdict::Pass,
        }
    }

    /// Ignored: CoDel judges a queue by the sojourn time of its packets.
    #[inline]
    fn overflowed(&mut self, _flow: FlowId) {}

    fn emptied(&mut self, flow: FlowId) {
        if let Some(state) = self.state_mut(flow) {
            state.empty();
        }
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(state) = self.state_mut(flow) {
            *state = CoDelState::EMPTY;
        }
    }

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        swap_states(self.states.as_mut(), flow, other, CoDelState::EMPTY);
    }
}

#[cfg(test)]
mod tests;
