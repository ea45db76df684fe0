//! Active queue management.

use freeboard::sched_core as core_;
use freeboard::sched_core::{Aqm, CoDelParams, CoDelState, NoAqm, RedParams, RedState};

use super::Memory;

/// An AQM without memory.
pub trait AqmRecipe: Copy + core::fmt::Debug {
    /// The AQM with its table in `F`.
    type Made<F: Memory>: Aqm;

    /// The AQM for these flows; `None` if an option is out of its range.
    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Made<F>>;
}

/// None.
#[derive(Clone, Copy, Debug)]
pub struct WithoutAqm;

impl AqmRecipe for WithoutAqm {
    type Made<F: Memory> = NoAqm;

    fn aqm<F: Memory>(self, _flows: F) -> Option<NoAqm> {
        Some(NoAqm)
    }
}

/// CoDel in each queue.
#[derive(Clone, Copy, Debug)]
pub struct CoDel(pub CoDelParams);

impl AqmRecipe for CoDel {
    type Made<F: Memory> = core_::CoDel<F::Of<CoDelState>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Made<F>> {
        core_::CoDel::new(flows.of(CoDelState::EMPTY), self.0).ok()
    }
}

/// RED in each queue.
#[derive(Clone, Copy, Debug)]
pub struct Red(pub RedParams);

impl AqmRecipe for Red {
    type Made<F: Memory> = core_::Red<F::Of<RedState>>;

    fn aqm<F: Memory>(self, flows: F) -> Option<Self::Made<F>> {
        core_::Red::new(flows.of(RedState::EMPTY), self.0).ok()
    }
}
