//! The weights that count, and the rate of virtual time (QFQ §IV-B).
//!
//! The sum covers the flows that count. A byte adds the reciprocal of the sum to `V`. The
//! reciprocal is exact and computed without division: a flow that comes and goes with every packet
//! changes the sum with every packet.

use core::num::NonZeroU32;

use super::virtual_time::{reciprocal, share, weight_of};

/// Number of magnitudes of inverse weights: up to `2^30` (weight 1).
const MAGNITUDES: usize = 31;

/// The sums of weights and shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weights {
    /// Advance of `V` per byte served; 0 while no flow counts.
    pub(super) per_byte: u32,
    /// Largest possible `per_byte` while the set of added flows stays the same.
    most_per_byte: u32,
    /// Sum of the weights of all flows added, as they are read back.
    pub(super) added: u32,
    /// Sum of the shares of all flows added.
    pub(super) all: u64,
    /// Sum of the shares of the flows that count.
    pub(super) counted: u64,
    /// Bit `m` is set if a flow was added whose inverse is `2^m` or more and less than `2^(m+1)`.
    magnitudes: u32,
    /// Number of flows added of each magnitude.
    of_magnitude: [u32; MAGNITUDES],
}

impl Weights {
    pub(super) const fn new() -> Self {
        Self {
            per_byte: 0,
            most_per_byte: 0,
            added: 0,
            all: 0,
            counted: 0,
            magnitudes: 0,
            of_magnitude: [0; MAGNITUDES],
        }
    }

    /// Returns the advance of `V` per byte if all flows added counted: the smallest possible.
    pub(super) fn least_per_byte(&self) -> u32 {
        reciprocal(self.all)
    }

    /// Returns the largest possible advance of `V` per byte while the set of added flows stays the
    /// same.
    ///
    /// No inverse of an added flow is smaller. So one packet advances `V` by at most `L · inverse`
    /// of any flow, counted or not. The number of slots, and the most that eq. 17 may give a flow,
    /// depend on that.
    ///
    /// The value is the largest power of two that is at most every inverse, or
    /// [`Self::least_per_byte`] if that is larger.
    pub(super) const fn most_per_byte(&self) -> u32 {
        self.most_per_byte
    }

    /// Returns [`Self::added`] after a replacement of one flow's inverse; `None` is no flow.
    pub(super) fn added_with(&self, old: Option<NonZeroU32>, new: Option<NonZeroU32>) -> u32 {
        let (old, new) = (old.map_or(0, weight_of), new.map_or(0, weight_of));
        self.added.wrapping_sub(old).wrapping_add(new)
    }

    /// Replaces the inverse of a flow; `counts` is true if the flow counts.
    pub(super) fn exchange(
        &mut self,
        old: Option<NonZeroU32>,
        new: Option<NonZeroU32>,
        counts: bool,
    ) {
        self.added = self.added_with(old, new);
        if let Some(new) = new {
            let magnitude = new.ilog2();
            if let Some(flows) = self.of_magnitude.get_mut(magnitude as usize) {
                *flows = flows.wrapping_add(1);
                self.magnitudes |= 1 << magnitude;
            }
        }
        if let Some(old) = old {
            let magnitude = old.ilog2();
            if let Some(flows) = self.of_magnitude.get_mut(magnitude as usize) {
                *flows = flows.wrapping_sub(1);
                self.magnitudes &= !(u32::from(*flows == 0) << magnitude);
            }
        }
        let (old, new) = (old.map_or(0, share), new.map_or(0, share));
        self.all = self.all.wrapping_sub(old).wrapping_add(new);
        let narrowest = self.magnitudes & self.magnitudes.wrapping_neg();
        self.most_per_byte = narrowest.max(self.least_per_byte());
        if counts {
            self.counted = self.counted.wrapping_sub(old).wrapping_add(new);
        }
        self.tell_rate();
    }

    /// Starts counting a flow with this share.
    #[inline(never)] // seldom called if flows linger, and a reciprocal needs registers
    pub(super) fn count(&mut self, share: u64) {
        self.counted = self.counted.wrapping_add(share);
        self.tell_rate();
    }

    /// Stops counting a flow with this share.
    pub(super) fn discount(&mut self, share: u64) {
        self.counted = self.counted.wrapping_sub(share);
        self.tell_rate();
    }

    fn tell_rate(&mut self) {
        self.per_byte = reciprocal(self.counted).min(self.most_per_byte);
    }
}
