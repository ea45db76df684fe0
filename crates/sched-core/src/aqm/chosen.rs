//! An AQM that is chosen while the program runs: COBALT, CoDel or none, and a shallow threshold for L4S.
//!
//! An assembled queue has one type, and its user says by a word which AQM is in it. The states of CoDel and of COBALT
//! have three words each, and in both the first word is 0 while the queue is short and without a history. So a packet of such
//! a queue is asked the same two questions, whatever was chosen.
//!
//! **Promises.** CoDel and COBALT judge here as they do alone, verdict for verdict and draw for draw. Another choice
//! begins with queues without a history; other parameters of the same AQM leave what was learned. The threshold for
//! L4S marks packets with ECT(1) only, drops no packet, and leaves the AQM beside it as it would be without.
//!
//! **Cost.** O(1): three comparisons for a packet of a short queue, which write nothing. Memory: 24 bytes a queue.
//!
//! **Source.** RFC 9331 §5.2 and RFC 9332 §2.4 for the threshold; the AQMs have their own pages. Where the threshold
//! departs from its sources: `docs/disciplines/cobalt.md`.

use super::cobalt::CobaltLaw;
use super::control_law::MAX_INTERVAL;
use super::random::Random;
use super::{
    Admission, Aqm, CoDelParams, CoDelState, CobaltParams, CobaltState, Head, Look, Offer,
    SHORTEST, Verdict,
};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{Ecn, FlowId, Nanos, Packet};

/// Which AQM a [`ChosenAqm`] is, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AqmChoice {
    /// None: every packet is accepted and delivered.
    None,
    /// [`CoDel`](super::CoDel).
    CoDel(CoDelParams),
    /// [`Cobalt`](super::Cobalt).
    Cobalt(CobaltParams),
}

impl AqmChoice {
    /// Whether `other` is the same AQM, whatever its parameters are.
    #[must_use]
    pub const fn is_same_kind(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::None, Self::None)
                | (Self::CoDel(_), Self::CoDel(_))
                | (Self::Cobalt(_), Self::Cobalt(_))
        )
    }

    fn law(&self) -> Result<Law, ConfigError> {
        Ok(match self {
            Self::None => Law::None,
            Self::CoDel(params) => {
                params.check()?;
                Law::CoDel(*params)
            }
            Self::Cobalt(params) => Law::Cobalt(params.law()?),
        })
    }
}

/// A shallow threshold for packets with ECT(1), which a scalable sender sets (RFC 9331).
///
/// ```
/// use sched_core::{L4sParams, Nanos};
///
/// let l4s = L4sParams::new(Nanos::from_millis(1)).with_mtu(9_018);
/// assert_eq!((l4s.threshold, l4s.mtu), (Nanos::from_millis(1), 9_018));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct L4sParams {
    /// A packet that waited longer is marked: 1,024 ns, the resolution of sojourn times, to 2^33 − 1 ns (8.6 s).
    pub threshold: Nanos,
    /// No mark for a packet with this many bytes or fewer behind it: the longest usual packet, `1..=`
    /// [`Packet::MAX_LEN`] bytes.
    pub mtu: u32,
}

impl L4sParams {
    /// This threshold, and packets of up to 1,514 bytes, an Ethernet frame. [`ChosenAqm::set_l4s`] checks them.
    #[must_use]
    pub const fn new(threshold: Nanos) -> Self {
        Self { threshold, mtu: 1_514 }
    }

    /// The same with a longest usual packet of `mtu` bytes.
    #[must_use]
    pub const fn with_mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let (threshold, mtu) = (self.threshold.0, self.mtu.into());
        ConfigError::check_range("L4S threshold in ns", threshold, SHORTEST, MAX_INTERVAL.0)?;
        ConfigError::check_range("L4S MTU in bytes", mtu, 1, Packet::MAX_LEN.into())
    }

    /// Whether the packet asks for a mark, and waited too long in a queue of its own making: a packet that has no
    /// other behind it waited for the queues of other flows.
    const fn marks(&self, head: Head) -> bool {
        matches!(head.ecn, Ecn::Ect1)
            && head.sojourn.0 > self.threshold.0
            && head.bytes_behind > self.mtu
    }
}

/// What [`ChosenAqm`] remembers of one queue: 24 bytes, which only the AQM that was chosen can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenAqmState {
    /// The first word is 0 if and only if the AQM has nothing to say of the queue while it is short.
    words: [u64; 3],
}

impl ChosenAqmState {
    /// A queue without a history.
    pub const EMPTY: Self = Self { words: [0; 3] };

    const fn is_quiet(&self) -> bool {
        self.words[0] == 0
    }

    /// Lets `act` change the state as that of CoDel.
    fn as_codel<R>(&mut self, act: impl FnOnce(&mut CoDelState) -> R) -> R {
        let mut state = CoDelState::from_words(self.words);
        let result = act(&mut state);
        self.words = state.to_words();
        result
    }

    /// Lets `act` change the state as that of COBALT.
    fn as_cobalt<R>(&mut self, act: impl FnOnce(&mut CobaltState) -> R) -> R {
        let mut state = CobaltState::from_words(self.words);
        let result = act(&mut state);
        self.words = state.to_words();
        result
    }
}

impl Default for ChosenAqmState {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// What the parameters come to.
#[derive(Clone, Copy, Debug)]
enum Law {
    None,
    CoDel(CoDelParams),
    Cobalt(CobaltLaw),
}

impl Law {
    /// A packet of a queue without a history that waited less passes.
    const fn passes_below(&self) -> Nanos {
        match self {
            Self::None => Nanos::MAX,
            Self::CoDel(params) => params.target,
            Self::Cobalt(law) => law.acceptable.plus(Nanos(1)),
        }
    }

    /// Judges a packet about to leave and moves its queue's state on.
    fn judge(&self, state: &mut ChosenAqmState, random: &mut Random, head: Head) -> Verdict {
        match self {
            Self::None => Verdict::Pass,
            Self::CoDel(params) => state.as_codel(|state| params.judge(state, head)),
            Self::Cobalt(law) => state.as_cobalt(|state| law.judge(state, random, head)),
        }
    }
}

/// COBALT, CoDel or no AQM, and a threshold for L4S, for the queues whose states are in the memory `T`. The AQM lets every
/// packet of queues beyond its length pass.
///
/// ```
/// use sched_core::{AqmChoice, ChosenAqm, ChosenAqmState, CobaltParams, CoDelParams, L4sParams, Nanos};
///
/// let codel = AqmChoice::CoDel(CoDelParams::INTERNET);
/// let mut aqm = ChosenAqm::new([ChosenAqmState::EMPTY; 16], codel, 1)?;
/// aqm.set_choice(AqmChoice::Cobalt(CobaltParams::INTERNET))?;
/// aqm.set_l4s(Some(L4sParams::new(Nanos::from_millis(1))))?;
/// assert_eq!(aqm.choice(), AqmChoice::Cobalt(CobaltParams::INTERNET));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChosenAqm<T> {
    states: T,
    choice: AqmChoice,
    law: Law,
    l4s: Option<L4sParams>,
    /// A packet of a queue without a history that waited less passes: one with ECT(1), and any other.
    passes_below: (Nanos, Nanos),
    random: Random,
    /// The last arrival: an overflow has no time of its own.
    now: Nanos,
}

impl<T: Table<ChosenAqmState>> ChosenAqm<T> {
    /// This AQM for `states.len()` queues, with chance from `seed`, and without a threshold for L4S. Cost: O(queues).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] names the first parameter outside its range.
    pub fn new(mut states: T, choice: AqmChoice, seed: u64) -> Result<Self, ConfigError> {
        let law = choice.law()?;
        states.as_mut().fill(ChosenAqmState::EMPTY);
        let (l4s, passes_below) = (None, (Nanos::ZERO, Nanos::ZERO));
        let random = Random::new(seed);
        let now = Nanos::ZERO;
        let mut aqm = Self { states, choice, law, l4s, passes_below, random, now };
        aqm.follow();
        Ok(aqm)
    }

    /// What was chosen.
    #[must_use]
    pub const fn choice(&self) -> AqmChoice {
        self.choice
    }

    /// Another choice, or other parameters, queues loaded or not; the next packet is judged by it. Under other
    /// parameters what the queues have learned stays. Another AQM begins without it, and costs O(queues).
    ///
    /// # Errors
    /// As [`ChosenAqm::new`]; nothing has changed then.
    pub fn set_choice(&mut self, choice: AqmChoice) -> Result<(), ConfigError> {
        self.law = choice.law()?;
        if !choice.is_same_kind(&self.choice) {
            self.states.as_mut().fill(ChosenAqmState::EMPTY);
        }
        self.choice = choice;
        self.follow();
        Ok(())
    }

    /// The threshold for packets with ECT(1), if there is one.
    #[must_use]
    pub const fn l4s(&self) -> Option<L4sParams> {
        self.l4s
    }

    /// Another threshold for packets with ECT(1), or none, from the next packet on.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] names the first parameter outside its range; nothing has changed then.
    pub fn set_l4s(&mut self, l4s: Option<L4sParams>) -> Result<(), ConfigError> {
        if let Some(l4s) = l4s {
            l4s.check()?;
        }
        self.l4s = l4s;
        self.follow();
        Ok(())
    }

    fn follow(&mut self) {
        let any = self.law.passes_below();
        let shallow = self.l4s.map_or(any, |l4s| l4s.threshold.plus(Nanos(1)).min(any));
        self.passes_below = (shallow, any);
    }

    /// A glance where the packet would not pass if it had ECT(1).
    #[cold]
    #[inline(never)]
    fn glance_again(&self, is_quiet: bool, head: Head) -> Verdict {
        let passes = is_quiet && head.sojourn < self.passes_below.1 && head.ecn != Ecn::Ect1;
        if passes { Verdict::Pass } else { Verdict::Unclear }
    }

    #[cold]
    fn judge_closely(&mut self, flow: FlowId, head: Head) -> Verdict {
        let state = self.states.as_mut().get_mut(flow.index());
        let verdict =
            state.map_or(Verdict::Pass, |state| self.law.judge(state, &mut self.random, head));
        with_l4s(self.l4s, verdict, head)
    }

    fn state_mut(&mut self, flow: FlowId) -> Option<&mut ChosenAqmState> {
        self.states.as_mut().get_mut(flow.index())
    }
}

/// The mark that the threshold adds to what the AQM said.
fn with_l4s(l4s: Option<L4sParams>, verdict: Verdict, head: Head) -> Verdict {
    let marks = l4s.is_some_and(|l4s| l4s.marks(head));
    if verdict == Verdict::Pass && marks { Verdict::Signal } else { verdict }
}

impl<T: Table<ChosenAqmState>> Aqm for ChosenAqm<T> {
    /// As for [`CoDel`](super::CoDel): after a pause one call may drop fewer than are due, and the next call goes on.
    const MAX_DROPS: u32 = 32;

    /// Accepts: how long a packet waits is known when it leaves.
    #[inline]
    fn admit(&mut self, _flow: FlowId, offer: Offer) -> Admission {
        self.now = offer.now;
        Admission::Accept
    }

    #[inline]
    fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
        if look == Look::Close {
            return self.judge_closely(flow, head);
        }
        // At a glance nothing is written, so that what the caller has read is still true after it.
        let state = self.states.as_ref().get(flow.index());
        let is_quiet = state.is_some_and(ChosenAqmState::is_quiet);
        if is_quiet && head.sojourn < self.passes_below.0 {
            return Verdict::Pass;
        }
        self.glance_again(is_quiet, head)
    }

    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
        let (law, l4s, mut random) = (self.law, self.l4s, self.random);
        let mut copy = self.states.as_ref().get(flow.index()).copied();
        move |head| {
            let judge = |state| law.judge(state, &mut random, head);
            with_l4s(l4s, copy.as_mut().map_or(Verdict::Pass, judge), head)
        }
    }

    fn overflowed(&mut self, flow: FlowId) {
        let (law, now) = (self.law, self.now);
        if let (Law::Cobalt(law), Some(state)) = (law, self.state_mut(flow)) {
            state.as_cobalt(|state| law.overflow(state, now));
        }
    }

    fn emptied(&mut self, flow: FlowId) {
        let (law, now) = (self.law, self.now);
        let Some(state) = self.state_mut(flow) else { return };
        match law {
            Law::None => {}
            Law::CoDel(_) => state.as_codel(CoDelState::empty),
            Law::Cobalt(law) => state.as_cobalt(|state| law.empty(state, now)),
        }
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(state) = self.state_mut(flow) {
            *state = ChosenAqmState::EMPTY;
        }
    }
}

#[cfg(test)]
mod tests;
