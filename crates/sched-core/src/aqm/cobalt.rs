//! COBALT: CoDel with a decaying rate of signals, and BLUE against unresponsive senders.
//!
//! CoDel signals a queue that stays above a target delay, by marks or drops at shrinking spacings
//! (`interval / √n`). When the queue is no longer standing, the schedule runs backwards: each
//! spacing that passes without a signal lowers `n` by one. An unresponsive sender makes the buffer
//! overflow. Then BLUE drops packets at random, ECN-capable or not, with a probability that rises
//! with each overflow and falls each time the queue is empty.
//!
//! **Promises.** No signal before the queue has been standing for an interval, unless it has
//! overflowed. None for a packet that waited for the time of four longest packets or less, nor for
//! one with at most one `mtu` behind it, nor for one of a short queue (below). No packet is dropped
//! if none is behind it (decision 5). Unresponsive ECN-capable traffic is dropped by BLUE, so it
//! cannot fill the queue. The work per call is constant, even after hours of silence.
//!
//! **Short queues.** A packet with fewer than three packets behind it is not signalled while it has
//! waited for half an interval or less. A sender without SACK detects a loss by three duplicate
//! acknowledgements (RFC 5681 §3.2), one for each packet that arrives behind the lost one, and
//! otherwise waits for its timer. The price: a queue of up to three packets may stand for half an
//! interval (50 ms of 100) permanently. After a longer wait it is signalled like any other, because
//! then so many flows share the link that three packets of each are too many.
//!
//! **Cost.** O(1): a packet below the target in a queue with a clean state costs two comparisons
//! and writes nothing. Memory: 24 bytes per queue.
//!
//! **Source.** T. Høiland-Jørgensen, D. Täht, J. Morton, *Piece of CAKE*, IEEE LANMAN 2018, and J.
//! Palmei et al., *Design and Evaluation of COBALT Queue Discipline*, IEEE LANMAN 2019; RFC 8289
//! and Feng et al. 2002 for its two halves. Departures: `docs/disciplines/cobalt.md`.

use super::blue::{BlueLaw, BlueParts};
use super::control_law::{MAX_INTERVAL, spacing};
use super::law::{Law, Words, alone};
use super::random::{Probability, Random};
use super::{Admission, Aqm, Head, Look, Offer, SHORTEST, Verdict, swap_states};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{FlowId, Nanos, Packet};

/// The parameters of [`Cobalt`], common to all queues.
///
/// ```
/// use sched_core::{CobaltParams, Nanos};
///
/// // A packet of 1,514 bytes takes 12.112 ms at 1 Mbit/s: the target rises to 1.5 times that.
/// let slow = CobaltParams::INTERNET.with_mtu_time(Nanos::from_micros(12_112));
/// assert_eq!(slow.target_on_line(), Nanos::from_micros(18_168));
/// assert_eq!(slow.interval_on_line(), Nanos::from_micros(113_168));
/// assert_eq!(CobaltParams::INTERNET.interval_on_line(), Nanos::from_millis(100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CobaltParams {
    /// The acceptable standing sojourn time on a fast link: 1,024 ns, the resolution of sojourn
    /// times, to `interval`.
    pub target: Nanos,
    /// The time for which a queue may stay above the target on a fast link, 1,024 ns to 2^33 − 1
    /// ns (8.6 s).
    pub interval: Nanos,
    /// The transmission time of the longest usual packet; 0, for a fast link, to 2^33 − 1 ns.
    pub mtu_time: Nanos,
    /// No signal is sent for a packet with at most this many bytes behind it: the longest usual
    /// packet, 0 to [`Packet::MAX_LEN`] bytes. Nor for a packet with fewer than three packets
    /// behind it that waited for half an interval or less, so a queue of three packets may stand
    /// for that long. With 0 neither rule applies: an ECN-capable last packet may be marked, and a
    /// queue of two packets may lose one.
    pub mtu: u32,
    /// The increase of BLUE's probability per overflow; above 0.
    pub increment: Probability,
    /// The decrease of BLUE's probability per empty queue; above 0.
    pub decrement: Probability,
}

impl CobaltParams {
    /// Defaults for the internet: 5 ms, 100 ms and a fast link.
    pub const INTERNET: Self = Self::new(Nanos(5_000_000), Nanos(100_000_000));

    /// Creates parameters with this target and interval for a fast link, with packets of up to
    /// 1,514 bytes (an Ethernet frame) and steps of 1/256 and 1/4,096. [`Cobalt::new`] and
    /// [`Cobalt::set_params`] check them.
    #[must_use]
    pub const fn new(target: Nanos, interval: Nanos) -> Self {
        Self {
            target,
            interval,
            mtu_time: Nanos::ZERO,
            mtu: 1_514,
            increment: Probability::from_raw(1 << 24),
            decrement: Probability::from_raw(1 << 20),
        }
    }

    /// Sets the transmission time of the longest usual packet.
    #[must_use]
    pub const fn with_mtu_time(self, mtu_time: Nanos) -> Self {
        Self { mtu_time, ..self }
    }

    /// Sets the longest usual packet, in bytes.
    #[must_use]
    pub const fn with_mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    /// Sets the steps of BLUE's probability.
    #[must_use]
    pub const fn with_steps(self, increment: Probability, decrement: Probability) -> Self {
        Self { increment, decrement, ..self }
    }

    /// Returns the effective target: at least 1.5 times the transmission time of the longest
    /// packet. Also the minimum time between two changes of BLUE's probability.
    #[must_use]
    pub const fn target_on_line(&self) -> Nanos {
        let least = self.mtu_time.plus(Nanos(self.mtu_time.0 >> 1));
        if least.0 > self.target.0 { least } else { self.target }
    }

    /// Returns the effective interval: longer by the increase of the target, and at least two
    /// targets; at most 2^33 − 1 ns.
    #[must_use]
    pub const fn interval_on_line(&self) -> Nanos {
        let target = self.target_on_line();
        let longer = self.interval.plus(target.since(self.target)).0;
        let two = target.plus(target).0;
        let interval = if two > longer { two } else { longer };
        Nanos(if interval > MAX_INTERVAL.0 { MAX_INTERVAL.0 } else { interval })
    }

    pub(super) fn law(&self) -> Result<CobaltLaw, ConfigError> {
        let (interval, longest) = (self.interval.0, MAX_INTERVAL.0);
        ConfigError::check_range("COBALT interval in ns", interval, SHORTEST, longest)?;
        ConfigError::check_range("COBALT target in ns", self.target.0, SHORTEST, interval)?;
        ConfigError::check_range("COBALT MTU time in ns", self.mtu_time.0, 0, longest)?;
        let most = Packet::MAX_LEN.into();
        ConfigError::check_range("COBALT MTU in bytes", self.mtu.into(), 0, most)?;
        let target = self.target_on_line();
        Ok(CobaltLaw {
            acceptable: target.max(Nanos(self.mtu_time.0 << 2)),
            interval: self.interval_on_line(),
            least_behind: if self.mtu == 0 { 0 } else { self.mtu.saturating_add(1) },
            blue: BlueLaw::new(self.increment, self.decrement, target)?,
        })
    }
}

impl Default for CobaltParams {
    fn default() -> Self {
        Self::INTERNET
    }
}

/// Duplicate acknowledgements after which a sender without SACK assumes a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

/// The precomputed parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct CobaltLaw {
    /// Sojourn time above which a packet counts as standing: the target, or four longest packets
    /// if that is more.
    pub(super) acceptable: Nanos,
    interval: Nanos,
    /// A queue is standing only if a packet has at least this many bytes behind it.
    least_behind: u32,
    blue: BlueLaw,
}

/// The state of a queue. The first variant is encoded as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Clean: if and only if `count` and `chance` are 0.
    Quiet,
    /// Empty since its last packet was judged, or clean until it overflowed.
    Idle,
    /// Not clean, and its last packet was below the target.
    Below,
    /// Its last packet was above the target, or it overflowed.
    Standing,
}

/// The state of [`Cobalt`] for one queue: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobaltState {
    /// Time of the next signal, or of the next decay of `count`. Meaningless while `count` is 0.
    next: Nanos,
    /// Time from which BLUE's probability may change.
    thaw: Nanos,
    /// BLUE's probability that a packet is dropped because its sender may be unresponsive.
    chance: Probability,
    /// Position in the schedule of signals. Not 0 while the queue is standing.
    count: u16,
    phase: Phase,
}

impl CobaltState {
    /// A clean queue.
    pub const EMPTY: Self = Self {
        next: Nanos::ZERO,
        thaw: Nanos::ZERO,
        chance: Probability::NEVER,
        count: 0,
        phase: Phase::Quiet,
    };

    /// Returns true if BLUE's probability is above 0.
    pub(super) fn is_unresponsive(&self) -> bool {
        self.chance != Probability::NEVER
    }

    const fn blue(&mut self) -> BlueParts<'_> {
        BlueParts { chance: &mut self.chance, thaw: &mut self.thaw }
    }

    /// Changes to `phase`, unless the state is clean.
    fn enter(&mut self, phase: Phase) {
        let has_history = self.count != 0 || self.chance != Probability::NEVER;
        self.phase = if has_history { phase } else { Phase::Quiet };
    }
}

impl Words for CobaltState {
    /// The first word is 0 if and only if the state is clean. The upper three bits of the last are
    /// 0.
    fn to_words(self) -> [u64; 3] {
        let [low @ .., high] = self.next.0.to_le_bytes();
        let [a, b, c, d, e, f, g] = low;
        let (chance, count) = (u64::from(self.chance.raw()), u64::from(self.count));
        let history = match self.phase {
            // `next` is meaningless then.
            Phase::Quiet => 0,
            phase => chance << 32 | count << 16 | u64::from(high) << 8 | u64::from(phase as u8),
        };
        [history, self.thaw.0, u64::from_le_bytes([a, b, c, d, e, f, g, 0])]
    }

    fn from_words([history, thaw, next]: [u64; 3], _now: Nanos) -> Self {
        let [phase, high, count @ .., c0, c1, c2, c3] = history.to_le_bytes();
        let [a, b, c, d, e, f, g, _] = next.to_le_bytes();
        let phase = match phase {
            0 => Phase::Quiet,
            1 => Phase::Idle,
            2 => Phase::Below,
            _ => Phase::Standing,
        };
        let count = u16::from_le_bytes(count);
        let chance = Probability::from_raw(u32::from_le_bytes([c0, c1, c2, c3]));
        let next = Nanos(u64::from_le_bytes([a, b, c, d, e, f, g, high]));
        Self { next, thaw: Nanos(thaw), chance, count, phase }
    }
}

impl Law for CobaltLaw {
    type State = CobaltState;

    #[inline]
    fn leaves(&self, state: &CobaltState, head: Head) -> bool {
        // First, for queues that overflow.
        if state.chance != Probability::NEVER {
            return false;
        }
        let stands = self.stands(head);
        let stays = match state.phase {
            Phase::Quiet => return !stands,
            Phase::Idle => false,
            Phase::Below => !stands,
            Phase::Standing => stands,
        };
        // An instant further ahead would be moved closer.
        let is_ahead = head.now < state.next && state.next.since(head.now) <= self.interval;
        stays && head.bytes_behind > 0 && is_ahead
    }

    fn judge(&self, state: &mut CobaltState, random: &mut Random, head: Head) -> Verdict {
        self.judge_closely(state, random, head)
    }

    fn overflowed(&self, state: &mut CobaltState, now: Nanos) {
        self.blue.raise(state.blue(), now);
        match state.phase {
            // A queue that may be empty is not standing.
            Phase::Quiet | Phase::Idle => state.enter(Phase::Idle),
            Phase::Below | Phase::Standing => {
                state.phase = Phase::Standing;
                state.count = state.count.max(1);
                state.next = now;
            }
        }
    }

    fn emptied(&self, state: &mut CobaltState, now: Nanos) {
        self.blue.lower(state.blue(), now);
        self.decay(state, now);
        state.enter(Phase::Idle);
    }
}

impl CobaltLaw {
    #[cold]
    fn judge_closely(&self, state: &mut CobaltState, random: &mut Random, head: Head) -> Verdict {
        // No instant is further ahead, unless the clock has stepped back or the interval was
        // longer.
        state.next = state.next.min(head.now.plus(self.interval));
        if state.phase == Phase::Idle {
            let arrived = Nanos(head.now.0.saturating_sub(head.sojourn.0));
            self.blue.catch_up(state.blue(), arrived);
        }
        let mut verdict = self.judge_delay(state, head);
        if state.chance != Probability::NEVER && state.chance.draw(random) {
            verdict = Verdict::Drop;
        }
        // With marks, at most one signal per packet. Signals that had no packet to mark are not
        // made up for.
        if verdict == Verdict::Signal && head.ecn.is_capable() {
            state.next = state.next.max(head.now);
        }
        if head.bytes_behind == 0 {
            self.emptied(state, head.now);
        } else {
            state.enter(state.phase);
        }
        verdict
    }

    /// Returns true if the queue of a packet about to leave is above the target.
    #[inline]
    fn stands(&self, head: Head) -> bool {
        head.sojourn > self.acceptable
            && head.bytes_behind >= self.least_behind
            && (head.packets > DUPLICATES || self.is_signalled_short(head.sojourn))
    }

    /// Returns the verdict of COBALT's CoDel half.
    fn judge_delay(&self, state: &mut CobaltState, head: Head) -> Verdict {
        let stands = self.stands(head);
        if stands && state.phase == Phase::Standing {
            // Without ECN, a signal on the last packet would be lost, because it is never dropped.
            let is_heard = head.bytes_behind > 0 || head.ecn.is_capable();
            if head.now < state.next || !is_heard {
                return Verdict::Pass;
            }
            state.count = state.count.saturating_add(1);
            state.next = state.next.plus(self.spacing(state.count));
            return Verdict::Signal;
        }
        self.decay(state, head.now);
        if stands {
            state.phase = Phase::Standing;
            state.count = state.count.max(1);
            state.next = head.now.plus(self.spacing(state.count));
        } else {
            state.phase = Phase::Below;
        }
        Verdict::Pass
    }

    /// Returns true if a packet that waited for `sojourn` may be signalled with fewer than
    /// [`DUPLICATES`] packets behind it.
    fn is_signalled_short(&self, sojourn: Nanos) -> bool {
        self.least_behind == 0 || sojourn.0 > self.interval.0 >> 1
    }

    /// Runs the schedule backwards up to `now`: the queue is not standing.
    fn decay(&self, state: &mut CobaltState, now: Nanos) {
        if state.count == 0 || now < state.next {
            return;
        }
        state.count = state.count.saturating_sub(1);
        state.next = state.next.plus(self.spacing(state.count));
        if state.count > 0 && now >= state.next {
            state.count = self.left_after(state.count, now.since(state.next));
            state.next = now.plus(self.spacing(state.count));
        }
    }

    /// Returns the remaining `count` if the next decay is overdue by `late`, about one position
    /// from the exact schedule.
    ///
    /// From `n` down to `m` the schedule takes the sum of `interval / √k`, about `2 · interval ·
    /// (√n − √m)`. So `m` is the largest count for which `interval · √m` is less than `interval ·
    /// √n − late / 2`. A binary search finds it in 16 iterations.
    fn left_after(&self, count: u16, late: Nanos) -> u16 {
        // Below 2^16 · 2^33.
        let root = |count: u16| u64::from(count).wrapping_mul(self.spacing(count).0);
        let left = root(count).saturating_sub(late.0 >> 1);
        let mut found = 0;
        for bit in (0..u16::BITS).rev() {
            let candidate = found | 1 << bit;
            if root(candidate) < left {
                found = candidate;
            }
        }
        found
    }

    fn spacing(&self, count: u16) -> Nanos {
        spacing(self.interval, count.into())
    }
}

alone! {
    /// COBALT for the queues whose states are in the memory `T`; packets of queues beyond its
    /// length pass.
    ///
    /// ```
    /// use sched_core::{
    ///     Cobalt, CobaltParams, CobaltState, Descriptor, Drr, DrrFlow, FlowQueues, Limits, Queue,
    /// };
    ///
    /// let mut scheduler = Drr::new([DrrFlow::EMPTY; 16], 1_514)?.sparse_first();
    /// scheduler.add_all(1_514)?;
    /// let cobalt = Cobalt::new([CobaltState::EMPTY; 16], CobaltParams::INTERNET, 1)?;
    /// let (queues, descriptors) = ([Queue::EMPTY; 16], [Descriptor::EMPTY; 64]);
    /// let limits = Limits::NONE;
    /// let fq_cobalt = FlowQueues::with_parts(scheduler, cobalt, queues, descriptors, [], limits);
    /// # let _ = fq_cobalt;
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    pub struct Cobalt<CobaltState>, CobaltParams, CobaltLaw
}

impl<T: Table<CobaltState>> Cobalt<T> {
    /// Returns BLUE's probability that a packet of `flow` is dropped. Above 0, the flow has
    /// recently been unresponsive. 0 for a flow without a state.
    #[must_use]
    pub fn probability(&self, flow: FlowId) -> Probability {
        self.states.as_ref().get(flow.index()).map_or(Probability::NEVER, |state| state.chance)
    }

    fn state_mut(&mut self, flow: FlowId) -> Option<&mut CobaltState> {
        self.states.as_mut().get_mut(flow.index())
    }
}

impl<T: Table<CobaltState>> Aqm for Cobalt<T> {
    /// After a pause one call may drop fewer than are due, and the next call continues; the bound
    /// is derived at [`CoDel`](crate::CoDel).
    const MAX_DROPS: u32 = 32;

    /// Accepts: the sojourn time is known when the packet leaves.
    #[inline]
    fn admit(&mut self, _flow: FlowId, offer: Offer, _look: Look) -> Admission {
        self.now = offer.now;
        Admission::Accept
    }

    #[inline]
    fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
        let Some(state) = self.states.as_mut().get_mut(flow.index()) else {
            return Verdict::Pass;
        };
        if head.sojourn <= self.law.acceptable && state.phase == Phase::Quiet {
            return Verdict::Pass;
        }
        if look == Look::Glance {
            return Verdict::Unclear;
        }
        self.law.judge_closely(state, &mut self.random, head)
    }

    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
        let (law, mut random) = (self.law, self.random);
        let mut copy = self.states.as_ref().get(flow.index()).copied();
        move |head| match &mut copy {
            Some(state) => law.judge(state, &mut random, head),
            None => Verdict::Pass,
        }
    }

    fn overflowed(&mut self, flow: FlowId) {
        let (law, now) = (self.law, self.now);
        if let Some(state) = self.state_mut(flow) {
            law.overflowed(state, now);
        }
    }

    fn emptied(&mut self, flow: FlowId) {
        let (law, now) = (self.law, self.now);
        if let Some(state) = self.state_mut(flow) {
            law.emptied(state, now);
        }
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(state) = self.state_mut(flow) {
            *state = CobaltState::EMPTY;
        }
    }

    #[inline]
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        swap_states(self.states.as_mut(), flow, other, CobaltState::EMPTY);
    }
}

#[cfg(test)]
mod tests;
