//! An AQM selected at run time: any of the others or none, optionally with a shallow threshold for
//! L4S.
//!
//! An assembled queue has one type, and its user selects the AQM by a keyword. The state of any AQM
//! fits into three words. With CoDel and COBALT the first word is 0 while the queue is short and
//! clean, so a packet of such a queue takes the same two comparisons whatever was selected. RED,
//! BLUE, PIE and PI2 need a close look at each packet.
//!
//! Each queue belongs to a *tin* ([`Aqm::assign`]), and each of up to eight tins has its own choice
//! and threshold: a class with a part of the link's rate needs a longer target. Initially all tins
//! have the same settings.
//!
//! **Promises.** Each AQM gives here the verdicts, and makes the draws, of the AQM alone; for RED
//! and PIE this holds unless the queue was silent for more than 3.2 days. Another AQM starts with
//! clean queues; other parameters of the current AQM keep the state. The L4S threshold marks
//! packets with ECT(1) only, drops no packet, and does not affect the AQM.
//!
//! RED, BLUE, PIE and PI2 require the feature `aqms`, which is on by default.
//!
//! **Cost.** O(1): with CoDel, COBALT or no AQM, a packet of a short queue that waited for less
//! than the shortest target of all tins takes three comparisons and writes nothing. Memory: 24
//! bytes per queue, and the size of an [`AqmSetting`] per tin.
//!
//! **Source.** RFC 9331 §5.2 and RFC 9332 §2.4 for the threshold; the AQMs have their own pages.
//! Departures of the threshold: `docs/disciplines/cobalt.md`.

use super::cobalt::CobaltLaw;
use super::control_law::MAX_INTERVAL;
use super::law::{Law as _, Words};
use super::random::Random;
use super::{
    Admission, Aqm, CoDelParams, CobaltParams, CobaltState, Head, Look, Offer, SHORTEST, Verdict,
    swap_states,
};
#[cfg(feature = "aqms")]
use super::{
    BlueParams, Pi2Params, PieParams, RedParams, blue::BlueAlone, pi2::Pi2Law, pie::PieLaw,
    red::RedLaw,
};
use crate::flow_scheduler::{ConfigError, Table};
use crate::{Ecn, FlowId, Nanos, Packet};

/// An AQM for [`ChosenAqm`], with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AqmChoice {
    /// No AQM: every packet is accepted and delivered.
    None,
    /// [`CoDel`](super::CoDel).
    CoDel(CoDelParams),
    /// [`Cobalt`](super::Cobalt).
    Cobalt(CobaltParams),
    /// [`Red`](super::Red).
    #[cfg(feature = "aqms")]
    Red(RedParams),
    /// [`Blue`](super::Blue).
    #[cfg(feature = "aqms")]
    Blue(BlueParams),
    /// [`Pie`](super::Pie).
    #[cfg(feature = "aqms")]
    Pie(PieParams),
    /// [`Pi2`](super::Pi2).
    #[cfg(feature = "aqms")]
    Pi2(Pi2Params),
}

impl AqmChoice {
    /// Returns true if `other` is the same AQM, whatever its parameters are.
    #[must_use]
    pub fn is_same_kind(&self, other: &Self) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }

    fn law(&self) -> Result<Law, ConfigError> {
        Ok(match self {
            Self::None => Law::None,
            Self::CoDel(params) => {
                params.check()?;
                Law::CoDel(*params)
            }
            Self::Cobalt(params) => Law::Cobalt(params.law()?),
            #[cfg(feature = "aqms")]
            Self::Red(params) => Law::Red(params.law()?),
            #[cfg(feature = "aqms")]
            Self::Blue(params) => Law::Blue(params.law()?),
            #[cfg(feature = "aqms")]
            Self::Pie(params) => Law::Pie(params.law()?),
            #[cfg(feature = "aqms")]
            Self::Pi2(params) => Law::Pi2(params.law()?),
        })
    }
}

/// A shallow marking threshold for packets with ECT(1), which a scalable sender sets (RFC 9331).
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
    /// Packets that waited longer are marked: 1,024 ns, the resolution of sojourn times, to 2^33 −
    /// 1 ns (8.6 s).
    pub threshold: Nanos,
    /// No packet with at most this many bytes behind it is marked: the longest usual packet,
    /// `1..=` [`Packet::MAX_LEN`] bytes.
    pub mtu: u32,
}

impl L4sParams {
    /// Creates parameters with this threshold, for packets of up to 1,514 bytes (an Ethernet
    /// frame). [`ChosenAqm::set_l4s`] checks them.
    #[must_use]
    pub const fn new(threshold: Nanos) -> Self {
        Self { threshold, mtu: 1_514 }
    }

    /// Sets the longest usual packet, in bytes.
    #[must_use]
    pub const fn with_mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let (threshold, mtu) = (self.threshold.0, self.mtu.into());
        ConfigError::check_range("L4S threshold in ns", threshold, SHORTEST, MAX_INTERVAL.0)?;
        ConfigError::check_range("L4S MTU in bytes", mtu, 1, Packet::MAX_LEN.into())
    }

    /// Returns true if the packet has ECT(1) and waited too long in its own queue: a packet without
    /// others behind it waited for other flows.
    const fn marks(&self, head: Head) -> bool {
        matches!(head.ecn, Ecn::Ect1)
            && head.sojourn.0 > self.threshold.0
            && head.bytes_behind > self.mtu
    }
}

/// The state of [`ChosenAqm`] for one queue: 24 bytes, whose encoding depends on the selected AQM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenAqmState {
    /// With CoDel and COBALT the first word is 0 if and only if the AQM passes packets while the
    /// queue is short. The bits of the last word from [`TIN_SHIFT`] on hold the tin, which no AQM
    /// reads.
    words: [u64; 3],
}

/// The position of the tin in the last word of a state.
const TIN_SHIFT: u32 = 61;
const TINS: usize = 1 << (u64::BITS - TIN_SHIFT);

impl ChosenAqmState {
    /// A clean queue.
    pub const EMPTY: Self = Self { words: [0; 3] };

    const fn is_quiet(&self) -> bool {
        self.words[0] == 0
    }

    /// Returns the tin, below [`TINS`].
    const fn tin(&self) -> usize {
        (self.words[2] >> TIN_SHIFT) as usize
    }

    /// Returns a clean state in `tin` modulo [`TINS`].
    const fn empty_in(tin: u64) -> Self {
        Self { words: [0, 0, tin << TIN_SHIFT] }
    }

    /// Sets the words and keeps the tin.
    const fn set_words(&mut self, [first, second, last]: [u64; 3]) {
        let tin = self.words[2] >> TIN_SHIFT << TIN_SHIFT;
        self.words = [first, second, last | tin];
    }

    /// Clears the words and keeps the tin.
    const fn clear(&mut self) {
        self.set_words([0; 3]);
    }

    /// Returns the words without the tin.
    const fn words(&self) -> [u64; 3] {
        let [first, second, last] = self.words;
        [first, second, last & ((1 << TIN_SHIFT) - 1)]
    }

    /// Lets `act` change the state, decoded as that of an AQM at `now`.
    #[inline(always)]
    fn change<S: Words, R>(&mut self, now: Nanos, act: impl FnOnce(&mut S) -> R) -> R {
        let mut state = S::from_words(self.words(), now);
        let result = act(&mut state);
        self.set_words(state.to_words());
        result
    }
}

/// The precomputed parameters.
#[derive(Clone, Copy, Debug)]
enum Law {
    None,
    CoDel(CoDelParams),
    Cobalt(CobaltLaw),
    #[cfg(feature = "aqms")]
    Red(RedLaw),
    #[cfg(feature = "aqms")]
    Blue(BlueAlone),
    #[cfg(feature = "aqms")]
    Pie(PieLaw),
    #[cfg(feature = "aqms")]
    Pi2(Pi2Law),
}

/// Evaluates `$act` with the selected algorithm as `$of`, or `$none` if there is none.
macro_rules! by_law {
    ($law:expr, $none:expr, $of:ident => $act:expr) => {
        match $law {
            Law::None => $none,
            Law::CoDel($of) => $act,
            Law::Cobalt($of) => $act,
            #[cfg(feature = "aqms")]
            Law::Red($of) => $act,
            #[cfg(feature = "aqms")]
            Law::Blue($of) => $act,
            #[cfg(feature = "aqms")]
            Law::Pie($of) => $act,
            #[cfg(feature = "aqms")]
            Law::Pi2($of) => $act,
        }
    };
}

impl Law {
    /// Returns the sojourn time below which a packet of a clean queue passes without notice to the
    /// AQM; 0 if and only if arrivals may be signalled.
    const fn passes_below(&self) -> Nanos {
        match self {
            Self::None => Nanos::MAX,
            Self::CoDel(params) => params.target,
            Self::Cobalt(law) => law.acceptable.plus(Nanos(1)),
            #[cfg(feature = "aqms")]
            Self::Red(_) | Self::Blue(_) | Self::Pie(_) | Self::Pi2(_) => Nanos::ZERO,
        }
    }

    /// Returns the verdict on a packet about to leave, and updates its queue's state.
    #[inline(always)]
    fn judge(&self, state: &mut ChosenAqmState, random: &mut Random, head: Head) -> Verdict {
        by_law!(self, Verdict::Pass, law => {
            state.change(head.now, |state| law.judge(state, random, head))
        })
    }

    /// Returns true if the packet passes and leaves the state unchanged. False is always correct.
    #[inline(always)]
    fn leaves(&self, state: &ChosenAqmState, head: Head) -> bool {
        // A comparison for the default AQM: cheaper than the jump table below.
        if let Self::Cobalt(law) = self {
            return law.leaves(&Words::from_words(state.words(), head.now), head);
        }
        by_law!(self, true, law => {
            law.leaves(&Words::from_words(state.words(), head.now), head)
        })
    }

    fn admit(&self, state: &mut ChosenAqmState, random: &mut Random, offer: Offer) -> Admission {
        by_law!(self, Admission::Accept, law => {
            state.change(offer.now, |state| law.admit(state, random, offer))
        })
    }

    fn overflowed(&self, state: &mut ChosenAqmState, now: Nanos) {
        by_law!(self, (), law => state.change(now, |state| law.overflowed(state, now)));
    }

    fn emptied(&self, state: &mut ChosenAqmState, now: Nanos) {
        by_law!(self, (), law => state.change(now, |state| law.emptied(state, now)));
    }
}

/// The setting of [`ChosenAqm`] for one tin: the AQM and the L4S threshold.
#[derive(Clone, Copy, Debug)]
pub struct AqmSetting {
    choice: AqmChoice,
    law: Law,
    l4s: Option<L4sParams>,
}

impl AqmSetting {
    /// No AQM.
    pub const EMPTY: Self = Self { choice: AqmChoice::None, law: Law::None, l4s: None };

    /// Returns the sojourn time below which a packet of a clean queue passes; 0 if and only if
    /// arrivals may be signalled.
    fn passes_below(&self) -> Nanos {
        let any = self.law.passes_below();
        self.l4s.map_or(any, |l4s| l4s.threshold.plus(Nanos(1)).min(any))
    }
}

/// Any AQM or none, and an L4S threshold, for the queues whose states are in the memory `T`, in as
/// many tins as `U` has settings. Packets of queues beyond the length of `T` pass.
///
/// ```
/// use sched_core::{
///     AqmChoice, AqmSetting, ChosenAqm, ChosenAqmState, CoDelParams, CobaltParams, L4sParams,
///     Nanos,
/// };
///
/// let codel = AqmChoice::CoDel(CoDelParams::INTERNET);
/// let (states, tins) = ([ChosenAqmState::EMPTY; 16], [AqmSetting::EMPTY; 2]);
/// let mut aqm = ChosenAqm::new(states, tins, codel, 1)?;
/// aqm.set_choice(AqmChoice::Cobalt(CobaltParams::INTERNET))?;
/// aqm.set_l4s(Some(L4sParams::new(Nanos::from_millis(1))))?;
/// assert_eq!(aqm.choice(), AqmChoice::Cobalt(CobaltParams::INTERNET));
///
/// // Tin 1 has a sixteenth of 16 Mbit/s: a packet takes 12 ms there.
/// let slow = CobaltParams::INTERNET.with_mtu_time(Nanos::from_micros(12_112));
/// aqm.set_choice_in(1, AqmChoice::Cobalt(slow))?;
/// assert_eq!(aqm.choice_in(1), Some(AqmChoice::Cobalt(slow)));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct ChosenAqm<T, U = [AqmSetting; 1]> {
    states: T,
    /// One per tin.
    tins: U,
    /// The minimum over all tins: a packet of a clean queue that waited less passes. 0 if and only
    /// if arrivals may be signalled in any tin.
    passes_below: Nanos,
    random: Random,
    /// Time of the last arrival, because an overflow carries no time.
    now: Nanos,
}

/// Omits the states, and all choices but that of tin 0.
impl<T, U: Table<AqmSetting>> core::fmt::Debug for ChosenAqm<T, U> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ChosenAqm").field("choice", &self.setting(0).choice).finish_non_exhaustive()
    }
}

impl<T, U: Table<AqmSetting>> ChosenAqm<T, U> {
    /// Returns the setting of `tin`, or of tin 0 if `tin` is out of range.
    #[inline]
    fn setting(&self, tin: usize) -> &AqmSetting {
        setting(self.tins.as_ref(), tin)
    }
}

/// Returns the setting of `tin`, or of tin 0 if `tin` is out of range.
#[inline]
fn setting(tins: &[AqmSetting], tin: usize) -> &AqmSetting {
    tins.get(tin).or(tins.first()).unwrap_or(const { &AqmSetting::EMPTY })
}

impl<T: Table<ChosenAqmState>, U: Table<AqmSetting>> ChosenAqm<T, U> {
    /// Creates this AQM for `states.len()` queues, in all of `tins.len()` tins, with a random
    /// generator seeded with `seed` and without an L4S threshold. All queues are in tin 0. Cost:
    /// O(queues).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for the first parameter out of range, or if the number of tins
    /// is not 1 to 8.
    pub fn new(
        mut states: T,
        mut tins: U,
        choice: AqmChoice,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        let setting = AqmSetting { choice, law: choice.law()?, l4s: None };
        let (count, most) = (tins.as_ref().len() as u64, TINS as u64);
        ConfigError::check_range("tins of an AQM", count, 1, most)?;
        tins.as_mut().fill(setting);
        states.as_mut().fill(ChosenAqmState::EMPTY);
        let random = Random::new(seed);
        let (passes_below, now) = (Nanos::ZERO, Nanos::ZERO);
        let mut aqm = Self { states, tins, passes_below, random, now };
        aqm.follow();
        Ok(aqm)
    }

    /// Returns the AQM of tin 0.
    #[must_use]
    pub fn choice(&self) -> AqmChoice {
        self.setting(0).choice
    }

    /// Returns the AQM of `tin`; `None` if there is no such tin.
    #[must_use]
    pub fn choice_in(&self, tin: u8) -> Option<AqmChoice> {
        self.tins.as_ref().get(usize::from(tin)).map(|setting| setting.choice)
    }

    /// Selects another AQM, or other parameters, for all tins, with queues idle or backlogged; they
    /// apply from the next packet. Other parameters keep the state of the queues. Another AQM
    /// resets it, at a cost of O(queues).
    ///
    /// # Errors
    /// See [`ChosenAqm::new`]; nothing has changed then.
    pub fn set_choice(&mut self, choice: AqmChoice) -> Result<(), ConfigError> {
        (0..self.tins()).try_for_each(|tin| self.set_choice_in(tin, choice))
    }

    /// Selects another AQM, or other parameters, for the queues of one tin. See
    /// [`ChosenAqm::set_choice`].
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for the first parameter out of range, or for an unknown tin;
    /// nothing has changed then.
    pub fn set_choice_in(&mut self, tin: u8, choice: AqmChoice) -> Result<(), ConfigError> {
        let law = choice.law()?;
        let setting = self.setting_mut(tin)?;
        let is_other = !choice.is_same_kind(&setting.choice);
        (setting.choice, setting.law) = (choice, law);
        if is_other {
            let of_tin = |state: &&mut ChosenAqmState| state.tin() == usize::from(tin);
            self.states.as_mut().iter_mut().filter(of_tin).for_each(ChosenAqmState::clear);
        }
        self.follow();
        Ok(())
    }

    /// Returns the L4S threshold of tin 0, if there is one.
    #[must_use]
    pub fn l4s(&self) -> Option<L4sParams> {
        self.setting(0).l4s
    }

    /// Returns the L4S threshold of `tin`, if there is one.
    #[must_use]
    pub fn l4s_in(&self, tin: u8) -> Option<L4sParams> {
        self.tins.as_ref().get(usize::from(tin)).and_then(|setting| setting.l4s)
    }

    /// Sets or removes the L4S threshold of all tins, from the next packet on.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for the first parameter out of range; nothing has changed then.
    pub fn set_l4s(&mut self, l4s: Option<L4sParams>) -> Result<(), ConfigError> {
        (0..self.tins()).try_for_each(|tin| self.set_l4s_in(tin, l4s))
    }

    /// Sets or removes the L4S threshold of one tin, from the next packet on.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for the first parameter out of range, or for an unknown tin;
    /// nothing has changed then.
    pub fn set_l4s_in(&mut self, tin: u8, l4s: Option<L4sParams>) -> Result<(), ConfigError> {
        if let Some(l4s) = l4s {
            l4s.check()?;
        }
        self.setting_mut(tin)?.l4s = l4s;
        self.follow();
        Ok(())
    }

    /// Returns the tin to which the queue of `flow` was last [assigned](Aqm::assign); 0 for a queue
    /// without a state.
    #[must_use]
    pub fn tin_of(&self, flow: FlowId) -> u8 {
        let state = self.states.as_ref().get(flow.index());
        state.and_then(|state| u8::try_from(state.tin()).ok()).unwrap_or(0)
    }

    /// Returns true if the queue of `flow` has overflowed and its flow has not reacted since, as of
    /// the last packet that the AQM saw there: with COBALT, BLUE's
    /// [probability](super::Cobalt::probability) is above 0. False with any other AQM.
    #[must_use]
    pub fn is_unresponsive(&self, flow: FlowId) -> bool {
        let Some(state) = self.states.as_ref().get(flow.index()) else { return false };
        let is_cobalt = matches!(self.setting(state.tin()).law, Law::Cobalt(_));
        is_cobalt && CobaltState::from_words(state.words(), self.now).is_unresponsive()
    }

    /// Returns the number of tins: 1 to 8.
    #[must_use]
    pub fn tins(&self) -> u8 {
        u8::try_from(self.tins.as_ref().len()).unwrap_or(u8::MAX)
    }

    fn setting_mut(&mut self, tin: u8) -> Result<&mut AqmSetting, ConfigError> {
        let last = self.tins().saturating_sub(1);
        let refused =
            ConfigError::OutOfRange { what: "tin", value: tin.into(), min: 0, max: last.into() };
        self.tins.as_mut().get_mut(usize::from(tin)).ok_or(refused)
    }

    fn follow(&mut self) {
        let least = self.tins.as_ref().iter().map(AqmSetting::passes_below).min();
        self.passes_below = least.unwrap_or(Nanos::ZERO);
    }

    /// Returns true if the packet passes and leaves the state unchanged. False is always correct.
    #[inline(always)]
    fn leaves(&self, flow: FlowId, head: Head) -> bool {
        let Some(state) = self.states.as_ref().get(flow.index()) else { return false };
        let setting = self.tins.as_ref().get(state.tin());
        setting.is_some_and(|AqmSetting { law, l4s, .. }| {
            law.leaves(state, head) && !l4s.is_some_and(|l4s| l4s.marks(head))
        })
    }

    #[cold]
    #[inline(never)]
    fn judge_closely(&mut self, flow: FlowId, head: Head) -> Verdict {
        let Self { states, tins, random, .. } = self;
        let tins = tins.as_ref();
        let Some(state) = states.as_mut().get_mut(flow.index()) else {
            return with_l4s(setting(tins, 0).l4s, Verdict::Pass, head);
        };
        let AqmSetting { law, l4s, .. } = setting(tins, state.tin());
        let verdict = law.judge(state, random, head);
        with_l4s(*l4s, verdict, head)
    }

    #[cold]
    fn admit_closely(&mut self, flow: FlowId, offer: Offer) -> Admission {
        let Self { states, tins, random, .. } = self;
        let Some(state) = states.as_mut().get_mut(flow.index()) else { return Admission::Accept };
        setting(tins.as_ref(), state.tin()).law.admit(state, random, offer)
    }

    /// Returns the state of `flow` and the algorithm of its tin.
    fn state_and_law(&mut self, flow: FlowId) -> Option<(&mut ChosenAqmState, &Law)> {
        let Self { states, tins, .. } = self;
        let state = states.as_mut().get_mut(flow.index())?;
        let law = &setting(U::as_ref(tins), state.tin()).law;
        Some((state, law))
    }
}

/// Combines the AQM's verdict with the mark of the L4S threshold.
fn with_l4s(l4s: Option<L4sParams>, verdict: Verdict, head: Head) -> Verdict {
    let marks = l4s.is_some_and(|l4s| l4s.marks(head));
    if verdict == Verdict::Pass && marks { Verdict::Signal } else { verdict }
}

impl<T: Table<ChosenAqmState>, U: Table<AqmSetting>> Aqm for ChosenAqm<T, U> {
    /// After a pause one call may drop fewer than are due, and the next call continues; the bound
    /// is derived at [`CoDel`](super::CoDel).
    const MAX_DROPS: u32 = 32;

    /// CoDel and COBALT accept: the sojourn time is known when the packet leaves.
    #[inline]
    fn admit(&mut self, flow: FlowId, offer: Offer, look: Look) -> Admission {
        self.now = offer.now;
        match look {
            _ if self.passes_below > Nanos::ZERO => Admission::Accept,
            Look::Glance => Admission::Unclear,
            Look::Close => self.admit_closely(flow, offer),
        }
    }

    #[inline]
    fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
        if look == Look::Close {
            // Most packets of a standing queue before its next signal.
            if self.leaves(flow, head) {
                return Verdict::Pass;
            }
            return self.judge_closely(flow, head);
        }
        // A glance writes nothing, so that values the caller has read stay valid.
        let state = self.states.as_ref().get(flow.index());
        let passes =
            state.is_some_and(ChosenAqmState::is_quiet) && head.sojourn < self.passes_below;
        if passes { Verdict::Pass } else { Verdict::Unclear }
    }

    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
        let mut copy = self.states.as_ref().get(flow.index()).copied();
        let setting = *self.setting(copy.as_ref().map_or(0, ChosenAqmState::tin));
        let (AqmSetting { law, l4s, .. }, mut random) = (setting, self.random);
        move |head| {
            let judge = |state| law.judge(state, &mut random, head);
            with_l4s(l4s, copy.as_mut().map_or(Verdict::Pass, judge), head)
        }
    }

    fn overflowed(&mut self, flow: FlowId) {
        let now = self.now;
        match self.state_and_law(flow) {
            // Inlined: under overload each arrival causes a drop.
            Some((state, Law::Cobalt(law))) => {
                state.change(now, |state| law.overflowed(state, now));
            }
            Some((state, law)) => law.overflowed(state, now),
            None => {}
        }
    }

    fn emptied(&mut self, flow: FlowId) {
        let now = self.now;
        if let Some((state, law)) = self.state_and_law(flow) {
            law.emptied(state, now);
        }
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(state) = self.states.as_mut().get_mut(flow.index()) {
            state.clear();
        }
    }

    /// A tin out of range counts as tin 0. The state stays, unless the tin has another AQM.
    fn assign(&mut self, flow: FlowId, tin: u8) {
        let tin = if tin < self.tins() { usize::from(tin) } else { 0 };
        let Self { states, tins, .. } = self;
        let Some(state) = states.as_mut().get_mut(flow.index()) else { return };
        // Flows seldom change their tin.
        if state.tin() == tin {
            return;
        }
        let choice = |tin| setting(tins.as_ref(), tin).choice;
        let is_same = choice(state.tin()).is_same_kind(&choice(tin));
        let words = if is_same { state.words() } else { [0; 3] };
        *state = ChosenAqmState::empty_in(tin as u64);
        state.set_words(words);
    }

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        swap_states(self.states.as_mut(), flow, other, ChosenAqmState::EMPTY);
    }
}

#[cfg(test)]
mod tests;
