//! What is known of one flow: its tin, its place on the ring there, and its siblings in other tins.

use crate::disciplines::drr::Noted;
use crate::disciplines::drr::ring::{OnRing, RingFlow};
use crate::hosts::siblings::{NextSibling, Sibling};

/// What [`TinDrr`](super::TinDrr) knows of one flow: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinFlow {
    pub(super) flow: RingFlow,
    tin: u32,
    /// [`Noted`].
    note: u32,
    /// Those of one owner in other tins.
    sibling: NextSibling,
}

impl TinFlow {
    /// A flow that was not added, of tin 0.
    pub const EMPTY: Self =
        Self { flow: RingFlow::EMPTY, tin: 0, note: 0, sibling: NextSibling::NONE };

    pub(super) const fn tin(&self) -> u32 {
        self.tin
    }

    /// Puts the flow, on no ring, into `tin`, as if it had just been added.
    pub(super) const fn renew(&mut self, tin: u32) {
        self.flow = self.flow.renewed();
        self.tin = tin;
    }
}

impl Default for TinFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Sibling for TinFlow {
    #[inline]
    fn sibling(&self) -> Option<u32> {
        self.sibling.number()
    }

    fn set_sibling(&mut self, next: Option<u32>) {
        self.sibling = NextSibling::new(next);
    }
}

impl OnRing for TinFlow {
    #[inline]
    fn on_ring(&self) -> &RingFlow {
        &self.flow
    }

    #[inline]
    fn on_ring_mut(&mut self) -> &mut RingFlow {
        &mut self.flow
    }
}

impl Noted for TinFlow {
    #[inline]
    fn noted(&self) -> u32 {
        self.note
    }

    #[inline]
    fn set_noted(&mut self, flow: u32) {
        self.note = flow;
    }
}
