//! The backlogged flows of a host, in classes by powers of four of the bytes they hold.
//!
//! A flow comes to class 0 with fewer than `2^9` bytes, to class `c` with `2^(7 + 2c)` or more. It stays there while it holds at
//! least `2^(6 + 2c)` bytes, in class 0 whatever it holds, and less than `2^(9 + 2c)`. The last class, 7, has no upper mark.
//!
//! So of a host's flows in the highest class in use, each holds more than an eighth of what the host's longest flow holds, unless
//! the longest holds fewer than `2^9` bytes, or the flow `2^20` or more.

use super::ring::{Linked, Links};

/// The class of the longest flows.
const LAST_CLASS: u32 = 7;

/// Classes of flows.
pub(super) const FLOW_CLASSES: usize = LAST_CLASS as usize + 1;

/// The bits of the upper mark of class 0.
const SHORT_BITS: u32 = 9;

/// The lower bits of a place name the host; the others are the bits of the upper mark of the flow's class.
const HOST_BITS: u32 = u32::BITS - u32::BITS.ilog2();

/// Room for one flow of [`LongestHostDrop`](super::LongestHostDrop): 16 bytes, all zero while the flow was not backlogged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldFlow {
    /// Zero if and only if the flow is idle.
    pub(super) bytes: u32,
    /// The host for which the flow counts while it is backlogged, and its class.
    place: u32,
    pub(super) links: Links,
}

impl HeldFlow {
    /// An idle flow.
    pub const EMPTY: Self = Self { bytes: 0, place: 0, links: Links::EMPTY };

    /// Stands for the host of a flow that has none. Every host has a lower number.
    pub(super) const NO_HOST: u32 = (1 << HOST_BITS) - 1;

    /// A flow of `host` that holds `bytes` bytes, in the class it comes to, and on no list.
    #[inline]
    pub(super) const fn of(host: u32, bytes: u32) -> Self {
        let mark = SHORT_BITS + 2 * class_of(bytes);
        Self { bytes, place: mark << HOST_BITS | host & Self::NO_HOST, links: Links::EMPTY }
    }

    #[inline]
    pub(super) const fn host(self) -> u32 {
        self.place & Self::NO_HOST
    }

    #[inline]
    const fn mark(self) -> u32 {
        self.place >> HOST_BITS
    }

    #[inline]
    pub(super) const fn class(self) -> u32 {
        self.mark().wrapping_sub(SHORT_BITS) >> 1
    }

    /// Whether the flow holds as much as the upper mark of its class. True too of a flow in the last class from 8 MiB on.
    #[inline]
    pub(super) const fn is_above(self) -> bool {
        self.bytes >> self.mark() != 0
    }

    /// Whether the flow holds less than the lower mark of its class, which is an eighth of the upper one. True too of a flow in
    /// class 0 below 64 bytes.
    #[inline]
    pub(super) const fn is_below(self) -> bool {
        self.bytes >> (self.mark().wrapping_sub(3) % u32::BITS) == 0
    }
}

impl HeldFlow {
    /// Whether the flow is to leave its class. For tests.
    pub(super) const fn moves(self) -> bool {
        (self.is_above() || self.is_below()) && class_of(self.bytes) != self.class()
    }
}

impl Linked for HeldFlow {
    #[inline]
    fn links(&self) -> Links {
        self.links
    }

    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The class that a flow of `bytes` bytes comes to.
#[inline]
pub(super) const fn class_of(bytes: u32) -> u32 {
    let class = ((bytes >> (SHORT_BITS - 2)) | 1).ilog2() >> 1;
    if class < LAST_CLASS { class } else { LAST_CLASS }
}
