//! PI2: a linear controller whose output is squared for classic senders and used directly for
//! scalable ones.
//!
//! The rate of a classic sender (Reno, CUBIC) is proportional to `1/√p`, and that of a scalable
//! sender (DCTCP, Prague) to `1/p`. So one linear controller of `p'` suits both, if classic packets
//! are signalled with the probability `p'²` and scalable ones with `k·p'`. No tuning table is
//! needed, and with `k = 2` both kinds get about the same rate.
//!
//! | arrival | probability | action |
//! |---|---|---|
//! | Not-ECT | `p'²` | rejected |
//! | ECT(0) | `p'²` | marked; rejected in overload |
//! | ECT(1), CE | `k·p'` | marked; in overload marked, and rejected with `p'²` |
//!
//! Overload is `k·p' ≥ 1`: marks cannot signal more, so unresponsive traffic is dropped.
//!
//! **Cost.** O(1): comparisons while there is no congestion, else three draws per packet; an update
//! once per period. Memory: 32 bytes per queue.
//!
//! **Source.** K. De Schepper, O. Bondarenko, I. Tsang, B. Briscoe, *PI2: a linearized AQM for both
//! classic and scalable TCP*, CoNEXT 2016; the controller and the overload rule of RFC 9332.
//! `docs/disciplines/dualpi2.md`.

use super::law::{Law, Words, alone, signals_arrivals};
use super::pi::{Gains, ONE, Pi, Settings, delay_from_bits, delay_in_bits, delay_of, shortened};
use super::{Admission, Aqm, Head, Look, Offer, Probability, Random, Verdict, swap_states};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{Ecn, FlowId, Nanos, Packet};

/// The parameters of [`Pi2`], common to all queues.
///
/// ```
/// use sched_core::{Nanos, Pi2Params};
///
/// let params = Pi2Params::default();
/// assert_eq!((params.target, params.period), (Nanos::from_millis(15), Nanos::from_millis(16)));
/// assert_eq!((params.alpha_millihertz, params.beta_millihertz, params.coupling), (160, 3_200, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pi2Params {
    /// The target delay of the controller: 1,024 ns to 1 s.
    pub target: Nanos,
    /// The time between two updates of the probability: 1,024 ns to 1 s.
    pub period: Nanos,
    /// α in millihertz: the increase of `p'` per update and second above the target. 1 to
    /// 1,000,000.
    pub alpha_millihertz: u32,
    /// β in millihertz: the increase of `p'` per update and second by which the delay has grown. 1
    /// to 1,000,000.
    pub beta_millihertz: u32,
    /// The coupling factor k: scalable packets are marked with `k·p'`. 1 to 16.
    pub coupling: u8,
    /// The longest usual packet, `1..=`[`Packet::MAX_LEN`] bytes. A queue of at most two such
    /// packets is not signalled.
    pub mtu: u32,
}

impl Pi2Params {
    /// Creates parameters with this target and the other defaults of RFC 9332: updates every 16 ms,
    /// α 0.16 Hz, β 3.2 Hz, k 2. Packets of up to 1,514 bytes, an Ethernet frame. [`Pi2::new`] and
    /// [`Pi2::set_params`] check them.
    #[must_use]
    pub const fn new(target: Nanos) -> Self {
        Self {
            target,
            period: Nanos(16_000_000),
            alpha_millihertz: 160,
            beta_millihertz: 3_200,
            coupling: 2,
            mtu: 1_514,
        }
    }

    /// Sets the time between two updates.
    #[must_use]
    pub const fn with_period(self, period: Nanos) -> Self {
        Self { period, ..self }
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

    pub(crate) fn check(&self) -> Result<Gains, ConfigError> {
        let settings = Settings {
            target: self.target,
            period: self.period,
            alpha_millihertz: self.alpha_millihertz,
            beta_millihertz: self.beta_millihertz,
        };
        let gains = Gains::new(
            settings,
            ["PI2 target in ns", "PI2 period in ns", "PI2 alpha in mHz", "PI2 beta in mHz"],
        )?;
        ConfigError::check_range("PI2 coupling", self.coupling.into(), 1, 16)?;
        let longest = Packet::MAX_LEN.into();
        ConfigError::check_range("PI2 MTU in bytes", self.mtu.into(), 1, longest)?;
        Ok(gains)
    }

    pub(super) fn law(&self) -> Result<Pi2Law, ConfigError> {
        let gains = self.check()?;
        Ok(Pi2Law { gains, spared: self.mtu.saturating_mul(2), coupling: self.coupling })
    }
}

impl Default for Pi2Params {
    /// Creates parameters with a target of 15 ms.
    fn default() -> Self {
        Self::new(Nanos(15_000_000))
    }
}

/// The state of [`Pi2`] for one queue: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pi2State {
    pi: Pi,
    /// Sojourn time of the last packet that left, in ns.
    delay: u32,
}

impl Pi2State {
    /// A queue that has not held a packet.
    pub const EMPTY: Self = Self { pi: Pi::EMPTY, delay: 0 };

    /// Handles a packet that arrives at an empty queue.
    fn begin(&mut self, now: Nanos, gains: &Gains) {
        if gains.is_due(self.pi.updated, now) || self.pi.p == 0 {
            self.delay = 0;
        }
        self.pi.begin(now, gains);
    }

    /// Makes up for the updates of a queue that holds packets.
    #[cold]
    fn catch_up(&mut self, now: Nanos, gains: &Gains) {
        let delay = self.delay;
        self.pi.catch_up(now, gains, |_| delay);
    }
}

/// Delays are encoded in whole ticks, like sojourn times.
impl Words for Pi2State {
    fn to_words(self) -> [u64; 3] {
        let (delay, before) = (delay_in_bits(self.delay), delay_in_bits(self.pi.before));
        [self.pi.updated.0, self.pi.p, delay << u32::BITS | before]
    }

    fn from_words([updated, p, delays]: [u64; 3], _now: Nanos) -> Self {
        let before = delay_from_bits(delays);
        let pi = Pi { updated: Nanos(updated), p, before };
        Self { pi, delay: delay_from_bits(delays >> u32::BITS) }
    }
}

alone! {
    /// PI2 for the queues whose states are in the memory `T`; packets of queues beyond its length
    /// are neither marked nor dropped.
    ///
    /// ```
    /// use sched_core::{
    ///     Descriptor, Drr, DrrFlow, FlowQueues, Limits, Pi2, Pi2Params, Pi2State, Queue,
    /// };
    ///
    /// let mut scheduler = Drr::new([DrrFlow::EMPTY; 16], 1_514)?.sparse_first();
    /// scheduler.add_all(1_514)?;
    /// let pi2 = Pi2::new([Pi2State::EMPTY; 16], Pi2Params::default(), 7)?;
    /// let (queues, descriptors) = ([Queue::EMPTY; 16], [Descriptor::EMPTY; 64]);
    /// let fq_pi2 = FlowQueues::with_parts(scheduler, pi2, queues, descriptors, [], Limits::NONE);
    /// # let _ = fq_pi2;
    /// # Ok::<(), sched_core::ConfigError>(())
    /// ```
    pub struct Pi2<Pi2State>, Pi2Params, Pi2Law
}

impl<T: Table<Pi2State>> Pi2<T> {
    /// Returns `p'` of the queue of `flow`, in steps of 2^-32, at the last update; 0 for a queue
    /// without a state.
    #[must_use]
    pub fn probability(&self, flow: FlowId) -> Probability {
        shortened(self.states.as_ref().get(flow.index()).map_or(0, |state| state.pi.p))
    }
}

/// Decides about an arrival if `p'` is not 0.
#[cold]
fn toss(pi: &Pi, coupling: u8, ecn: Ecn, random: &mut Random) -> Admission {
    let (base, coupled) = (shortened(pi.p), pi.coupled(coupling));
    let is_overloaded = coupled == ONE;
    // All three draws are always made, so that the sequence of random numbers does not depend on
    // the decisions.
    let (first, second) = (base.draw(random), base.draw(random));
    let (squared, linear) = (first && second, shortened(coupled).draw(random));
    match ecn {
        Ecn::Ect1 | Ecn::Ce if squared && is_overloaded => Admission::Refuse,
        Ecn::Ect1 | Ecn::Ce if linear => Admission::Signal,
        Ecn::Ect1 | Ecn::Ce => Admission::Accept,
        _ if squared && is_overloaded => Admission::Refuse,
        _ if squared => Admission::Signal,
        _ => Admission::Accept,
    }
}

/// The precomputed parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pi2Law {
    gains: Gains,
    /// Two MTU in bytes.
    spared: u32,
    coupling: u8,
}

impl Law for Pi2Law {
    type State = Pi2State;

    #[inline]
    fn admit(&self, state: &mut Pi2State, random: &mut Random, offer: Offer) -> Admission {
        if offer.held.packets == 0 {
            state.begin(offer.now, &self.gains);
            return Admission::Accept;
        }
        if self.gains.is_due(state.pi.updated, offer.now) {
            state.catch_up(offer.now, &self.gains);
        }
        if state.pi.p == 0 || offer.held.bytes <= self.spared {
            return Admission::Accept;
        }
        toss(&state.pi, self.coupling, offer.packet.ecn, random)
    }

    #[inline]
    fn glance(&self, state: &mut Pi2State, head: Head) -> Verdict {
        if self.gains.is_due(state.pi.updated, head.now) {
            return Verdict::Unclear;
        }
        state.delay = delay_of(head.sojourn);
        Verdict::Pass
    }

    /// The sojourn time of the packet is the delay of the queue.
    #[inline]
    fn judge(&self, state: &mut Pi2State, _random: &mut Random, head: Head) -> Verdict {
        if self.gains.is_due(state.pi.updated, head.now) {
            state.catch_up(head.now, &self.gains);
        }
        state.delay = delay_of(head.sojourn);
        Verdict::Pass
    }
}

signals_arrivals!(Pi2<Pi2State>);

#[cfg(test)]
mod tests;
