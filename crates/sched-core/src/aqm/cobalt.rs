//! COBALT: CoDel whose rate decays on schedule, and BLUE for senders that do not react.
//!
//! CoDel tells a queue that stands above a target, by marks or drops at shrinking distances
//! (`interval / √n`). When the queue no longer stands, the schedule runs backwards: each instant
//! that passes without a signal takes one from `n`. A sender that does not react makes the buffer
//! overflow: then BLUE drops packets at random, ECN-capable or not, with a probability that rises
//! with each overflow and falls with each empty queue.
//!
//! **Promises.** No signal before the queue has stood for an interval, if it has no history of
//! overflows. None for a packet that waited for four of the longest packets or less, nor for one
//! with no more than one `mtu` behind it, nor for one of a short queue (below). No packet is
//! dropped if none is behind it (decision 5). ECN-capable traffic that does not react is dropped by
//! BLUE, so it cannot fill the queue. Work in a call is constant, also after hours of silence.
//!
//! **Short queues.** A packet with fewer than three packets behind it is not signalled while it
//! waited for half an interval or less. A sender without SACK finds a loss by three duplicate
//! acknowledgements (RFC 5681 §3.2), one for each packet that arrives behind the lost one, and
//! otherwise waits for its timer. The price: a queue of up to three packets may stand for half an
//! interval, 50 ms of 100, for good. After a longer wait it is signalled like any other, since then
//! so many flows share the link that three packets of each are too many.
//!
//! **Cost.** O(1): a packet below the target in a queue without a history costs two comparisons and
//! writes nothing. Memory: 24 bytes a queue.
//!
//! **Source.** T. Høiland-Jørgensen, D. Täht, J. Morton, *Piece of CAKE*, IEEE LANMAN 2018, and J.
//! Palmei et al., *Design and Evaluation of COBALT Queue Discipline*, IEEE LANMAN 2019; RFC 8289
//! and Feng et al. 2002 for its two halves. Where this departs from them:
//! `docs/disciplines/cobalt.md`.

use super::blue::{BlueLaw, BlueParts};
use super::control_law::{MAX_INTERVAL, spacing};
use super::law::{Law, Words, alone};
use super::random::{Probability, Random};
use super::{Admission, Aqm, Head, Look, Offer, SHORTEST, Verdict, swap_states};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{FlowId, Nanos, Packet};

/// What is set for a [`Cobalt`], one setting for all queues.
///
/// ```
/// use sched_core::{CobaltParams, Nanos};
///
/// // A packet of 1,514 bytes lasts 12.112 ms at 1 Mbit/s: the target rises to one and a half of it.
/// let slow = CobaltParams::INTERNET.with_mtu_time(Nanos::from_micros(12_112));
/// assert_eq!(slow.target_on_line(), Nanos::from_micros(18_168));
/// assert_eq!(slow.interval_on_line(), Nanos::from_micros(113_168));
/// assert_eq!(CobaltParams::INTERNET.interval_on_line(), Nanos::from_millis(100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CobaltParams {
    /// The sojourn time that is acceptable for good on a fast line: 1,024 ns, the resolution of
    /// sojourn times, to `interval`.
    pub target: Nanos,
    /// How long a queue may stand above the target on a fast line, 1,024 ns to 2^33 − 1 ns (8.6
    /// s).
    pub interval: Nanos,
    /// What the longest usual packet lasts on the line; 0, for a fast line, to 2^33 − 1 ns.
    pub mtu_time: Nanos,
    /// No signal for a packet with this many bytes or fewer behind it: the longest usual packet, 0
    /// to [`Packet::MAX_LEN`] bytes. Nor for one with fewer than three packets behind it that
    /// waited for half an interval or less, so that a queue of three packets may stand for that
    /// long. With 0 neither rule holds: an ECN-capable last packet may be marked, and a queue of
    /// two packets may lose one.
    pub mtu: u32,
    /// What an overflow adds to the probability of BLUE; above 0.
    pub increment: Probability,
    /// What an empty queue takes from that probability; above 0.
    pub decrement: Probability,
}

impl CobaltParams {
    /// 5 ms, 100 ms and a fast line.
    pub const INTERNET: Self = Self::new(Nanos(5_000_000), Nanos(100_000_000));

    /// COBALT with this target and this interval on a fast line, packets of up to 1,514 bytes, an
    /// Ethernet frame, and steps of 1/256 and 1/4,096. [`Cobalt::new`] and [`Cobalt::set_params`]
    /// check them.
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

    /// The same on a line where the longest usual packet lasts `mtu_time`.
    #[must_use]
    pub const fn with_mtu_time(self, mtu_time: Nanos) -> Self {
        Self { mtu_time, ..self }
    }

    /// The same with a longest usual packet of `mtu` bytes.
    #[must_use]
    pub const fn with_mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    /// The same with these steps of BLUE's probability.
    #[must_use]
    pub const fn with_steps(self, increment: Probability, decrement: Probability) -> Self {
        Self { increment, decrement, ..self }
    }

    /// The target in force: no less than one and a half of the longest packets. Also the least time
    /// between two changes of BLUE's probability.
    #[must_use]
    pub const fn target_on_line(&self) -> Nanos {
        let least = self.mtu_time.plus(Nanos(self.mtu_time.0 >> 1));
        if least.0 > self.target.0 { least } else { self.target }
    }

    /// The interval in force: longer by what the target has risen, and no less than two targets; at
    /// most 2^33 − 1 ns.
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

/// Duplicate acknowledgements by which a sender without SACK finds a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

/// What the parameters come to on the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct CobaltLaw {
    /// A packet that waited longer counts as standing: the target, and four of the longest
    /// packets.
    pub(super) acceptable: Nanos,
    interval: Nanos,
    /// A queue stands only if a packet has as many bytes behind it.
    least_behind: u32,
    blue: BlueLaw,
}

/// Where a queue is. The first is that of a state of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Without a history: if and only if `count` and `chance` are 0.
    Quiet,
    /// Empty since its last packet was judged, or without a history until it overflowed.
    Idle,
    /// It has a history, and its last packet was below the target.
    Below,
    /// Its last packet was above the target, or it overflowed.
    Standing,
}

/// What [`Cobalt`] remembers of one queue: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobaltState {
    /// When the next signal is due, or the next decay of `count`. Without meaning while `count` is
    /// 0.
    next: Nanos,
    /// From this instant on BLUE's probability may change.
    thaw: Nanos,
    /// The probability that a packet is dropped although its sender may be deaf.
    chance: Probability,
    /// The place in the schedule of signals. Not 0 while the queue stands.
    count: u16,
    phase: Phase,
}

impl CobaltState {
    /// A queue without a history.
    pub const EMPTY: Self = Self {
        next: Nanos::ZERO,
        thaw: Nanos::ZERO,
        chance: Probability::NEVER,
        count: 0,
        phase: Phase::Quiet,
    };

    /// Whether BLUE's probability is above 0.
    pub(super) fn is_unresponsive(&self) -> bool {
        self.chance != Probability::NEVER
    }

    const fn blue(&mut self) -> BlueParts<'_> {
        BlueParts { chance: &mut self.chance, thaw: &mut self.thaw }
    }

    /// The queue is in `phase` now, if it has a history.
    fn enter(&mut self, phase: Phase) {
        let has_history = self.count != 0 || self.chance != Probability::NEVER;
        self.phase = if has_history { phase } else { Phase::Quiet };
    }
}

impl Words for CobaltState {
    /// The first is 0 if and only if the queue is without a history. The upper three bits of the
    /// last are 0.
    fn to_words(self) -> [u64; 3] {
        let [low @ .., high] = self.next.0.to_le_bytes();
        let [a, b, c, d, e, f, g] = low;
        let (chance, count) = (u64::from(self.chance.raw()), u64::from(self.count));
        let history = match self.phase {
            // `next` has no meaning then.
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
        // An instant further ahead would be brought closer.
        let is_ahead = head.now < state.next && state.next.since(head.now) <= self.interval;
        stays && head.bytes_behind > 0 && is_ahead
    }

    fn judge(&self, state: &mut CobaltState, random: &mut Random, head: Head) -> Verdict {
        self.judge_closely(state, random, head)
    }

    fn overflowed(&self, state: &mut CobaltState, now: Nanos) {
        self.blue.raise(state.blue(), now);
        match state.phase {
            // A queue that may be empty does not stand.
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
        // No instant lies further ahead, unless the clock has stepped back or the interval was
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
        // A queue of marked packets has one mark a packet. Those that had no packet are not made up
        // for.
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

    /// Returns true if the queue of a packet about to leave stands above the target.
    #[inline]
    fn stands(&self, head: Head) -> bool {
        head.sojourn > self.acceptable
            && head.bytes_behind >= self.least_behind
            && (head.packets > DUPLICATES || self.is_signalled_short(head.sojourn))
    }

    /// CoDel's half.
    fn judge_delay(&self, state: &mut CobaltState, head: Head) -> Verdict {
        let stands = self.stands(head);
        if stands && state.phase == Phase::Standing {
            // A signal would be lost on a last packet without ECN.
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

    /// Whether a packet that waited for `sojourn` may be signalled with fewer than [`DUPLICATES`]
    /// packets behind it.
    fn is_signalled_short(&self, sojourn: Nanos) -> bool {
        self.least_behind == 0 || sojourn.0 > self.interval.0 >> 1
    }

    /// The queue does not stand: the schedule runs backwards, up to `now`.
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

    /// What is left of `count` if the next decay is overdue by `late`, one place or so from the
    /// exact schedule.
    ///
    /// From `n` down to `m` the schedule takes the sum of `interval / √k`, about `2 · interval ·
    /// (√n − √m)`. So `m` is the largest count whose `interval · √m` is less than `interval · √n −
    /// late / 2`. A search by halves finds it in 16 turns.
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
    /// COBALT for the queues whose states are in the memory `T`; of queues beyond its length every
    /// packet passes.
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
    /// BLUE's probability that a packet of `flow` is dropped; above 0, the flow has not reacted of
    /// late. 0 for a flow without a state.
    #[must_use]
    pub fn probability(&self, flow: FlowId) -> Probability {
        self.states.as_ref().get(flow.index()).map_or(Probability::NEVER, |state| state.chance)
    }

    fn state_mut(&mut self, flow: FlowId) -> Option<&mut CobaltState> {
        self.states.as_mut().get_mut(flow.index())
    }
}

impl<T: Table<CobaltState>> Aqm for Cobalt<T> {
    /// As for [`CoDel`](crate::CoDel): after a pause one call may drop fewer than are due, and the
    /// next call goes on.
    const MAX_DROPS: u32 = 32;

    /// Accepts: how long a packet waits is known when it leaves.
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
