//! Recipes for active queue management.

use freeboard::sched_core as core_;
use freeboard::sched_core::{
    Aqm, AqmChoice, AqmSetting, BlueParams, BlueState, ChosenAqmState, CoDelParams, CoDelState,
    CobaltParams, CobaltState, L4sParams, Nanos, NoAqm, Pi2Params, Pi2State, PieParams, PieState,
    RedParams, RedState,
};

use super::Memory;

/// A recipe for an AQM.
pub trait AqmRecipe: Copy + core::fmt::Debug {
    /// The AQM with its table in `F`.
    type Output<F: Memory>: Aqm;

    /// Builds the AQM for these flows; `None` if an option is out of range.
    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>>;
}

/// No AQM.
#[derive(Clone, Copy, Debug)]
pub struct WithoutAqm;

impl AqmRecipe for WithoutAqm {
    type Output<F: Memory> = NoAqm;

    fn aqm<F: Memory>(self, _flows: F) -> Option<NoAqm> {
        Some(NoAqm)
    }
}

/// CoDel in each queue.
#[derive(Clone, Copy, Debug)]
pub struct CoDel(pub CoDelParams);

impl AqmRecipe for CoDel {
    type Output<F: Memory> = core_::CoDel<F::Of<CoDelState>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>> {
        core_::CoDel::new(flows.of(CoDelState::EMPTY), self.0).ok()
    }
}

/// Seed of every randomised AQM of the catalogue.
const SEED: u64 = 14;

/// RED in each queue.
#[derive(Clone, Copy, Debug)]
pub struct Red(pub RedParams);

impl AqmRecipe for Red {
    type Output<F: Memory> = core_::Red<F::Of<RedState>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>> {
        core_::Red::new(flows.of(RedState::EMPTY), self.0, SEED).ok()
    }
}

/// BLUE in each queue.
#[derive(Clone, Copy, Debug)]
pub struct Blue(pub BlueParams);

impl AqmRecipe for Blue {
    type Output<F: Memory> = core_::Blue<F::Of<BlueState>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>> {
        core_::Blue::new(flows.of(BlueState::EMPTY), self.0, SEED).ok()
    }
}

/// COBALT in each queue.
#[derive(Clone, Copy, Debug)]
pub struct Cobalt(pub CobaltParams);

impl AqmRecipe for Cobalt {
    type Output<F: Memory> = core_::Cobalt<F::Of<CobaltState>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>> {
        core_::Cobalt::new(flows.of(CobaltState::EMPTY), self.0, SEED).ok()
    }
}

/// An AQM that also marks packets whose sojourn time exceeds a threshold.
#[derive(Clone, Copy, Debug)]
pub struct CeThreshold<A> {
    /// Inner AQM.
    pub of: A,
    /// Sojourn time above which packets are marked.
    pub threshold: Nanos,
    /// Marks only ECT(1) packets.
    pub ect1_only: bool,
}

impl<A: AqmRecipe> AqmRecipe for CeThreshold<A> {
    type Output<F: Memory> = core_::CeThreshold<A::Output<F>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>> {
        let made = core_::CeThreshold::new(self.of.aqm(flows)?, self.threshold).ok()?;
        Some(if self.ect1_only { made.for_ect1_only() } else { made })
    }
}

/// An AQM selected at run time, with an L4S threshold.
#[derive(Clone, Copy, Debug)]
pub struct ChosenAqm(pub AqmChoice, pub Option<L4sParams>);

/// Settings of eight tins.
const SETTINGS: [AqmSetting; 8] = [AqmSetting::EMPTY; 8];

impl AqmRecipe for ChosenAqm {
    type Output<F: Memory> = core_::ChosenAqm<F::Of<ChosenAqmState>, [AqmSetting; 8]>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>> {
        let mut made =
            core_::ChosenAqm::new(flows.of(ChosenAqmState::EMPTY), SETTINGS, self.0, SEED).ok()?;
        made.set_l4s(self.1).ok()?;
        Some(made)
    }
}

/// PIE in each queue.
#[derive(Clone, Copy, Debug)]
pub struct Pie(pub PieParams);

impl AqmRecipe for Pie {
    type Output<F: Memory> = core_::Pie<F::Of<PieState>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>> {
        core_::Pie::new(flows.of(PieState::EMPTY), self.0, SEED).ok()
    }
}

/// PI2 in each queue.
#[derive(Clone, Copy, Debug)]
pub struct Pi2(pub Pi2Params);

impl AqmRecipe for Pi2 {
    type Output<F: Memory> = core_::Pi2<F::Of<Pi2State>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Output<F>> {
        core_::Pi2::new(flows.of(Pi2State::EMPTY), self.0, SEED).ok()
    }
}
