//! Whose weights count, and how fast virtual time runs (QFQ §IV-B).
//!
//! The sum is kept of the flows that count. What a byte adds to `V` is its reciprocal, exact and
//! without a division: a flow that comes and goes with every packet changes the sum with every
//! packet.

use core::num::NonZeroU32;

use super::virtual_time::{reciprocal, share, weight_of};

/// Magnitudes of inverse weights: up to `2^30` (weight 1).
const MAGNITUDES: usize = 31;

/// The sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weights {
    /// What a byte served adds to `V`; 0 while no flow counts.
    pub(super) per_byte: u32,
    /// The most that it ever is while the flows added stay the same.
    most_per_byte: u32,
    /// Of the weights of all flows added, as they are read back.
    pub(super) added: u32,
    /// Of their shares.
    pub(super) all: u64,
    /// Of the shares of the flows that count.
    pub(super) counted: u64,
    /// Bit `m`: a flow was added whose inverse is `2^m` or more and less than `2^(m+1)`.
    magnitudes: u32,
    /// How many flows of each magnitude were added.
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

    /// What a byte served would add to `V` if all flows added counted: the least that it ever adds.
    pub(super) fn least_per_byte(&self) -> u32 {
        reciprocal(self.all)
    }

    /// The most that a byte served ever adds to `V` while these flows stay: no inverse of a flow
    /// added is below this value. So one packet takes `V` no further than `L · inverse` of any
    /// flow, counted or not. The number of slots, and what eq. 17 may give a flow, rest on that.
    ///
    /// The value is the largest power of two that no inverse is below, or [`Self::least_per_byte`]
    /// if that is larger.
    pub(super) const fn most_per_byte(&self) -> u32 {
        self.most_per_byte
    }

    /// [`Self::added`] after an exchange of one flow's inverse; `None` is no flow.
    pub(super) fn added_with(&self, old: Option<NonZeroU32>, new: Option<NonZeroU32>) -> u32 {
        let (old, new) = (old.map_or(0, weight_of), new.map_or(0, weight_of));
        self.added.wrapping_sub(old).wrapping_add(new)
    }

    /// Exchanges the inverse of a flow; `counts` says whether it counts.
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

    /// A flow with this share counts.
    #[inline(never)] // seldom where flows linger, and a reciprocal takes registers
    pub(super) fn count(&mut self, share: u64) {
        self.counted = self.counted.wrapping_add(share);
        self.tell_rate();
    }

    /// A flow with this share counts no more.
    pub(super) fn discount(&mut self, share: u64) {
        self.counted = self.counted.wrapping_sub(share);
        self.tell_rate();
    }

    fn tell_rate(&mut self) {
        self.per_byte = reciprocal(self.counted).min(self.most_per_byte);
    }
}
