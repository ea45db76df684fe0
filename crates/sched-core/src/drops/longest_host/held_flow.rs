//! Classes of a host's backlogged flows, by powers of four of the bytes they hold.
//!
//! A flow enters class 0 with fewer than `2^9` bytes, and class `c` with at least `2^(7 + 2c)`. It
//! stays there while it holds at least `2^(6 + 2c)` bytes (any number in class 0) and less than
//! `2^(9 + 2c)`. The last class, 7, has no upper mark.
//!
//! So among a host's flows in the highest class in use, each holds more than an eighth of what the
//! host's longest flow holds, unless the longest holds fewer than `2^9` bytes, or the flow `2^20`
//! or more.

use super::ring::{Linked, Links};
use crate::disciplines::drr::ring::short;

/// The class of the longest flows.
const LAST_CLASS: u32 = 7;

pub(super) const FLOW_CLASSES: usize = LAST_CLASS as usize + 1;

/// Base-2 logarithm of the upper mark of class 0.
const SHORT_BITS: u32 = 9;

/// Number of low bits of an upper mark, which are zero and not stored.
const UNKEPT_BITS: u32 = 8;

/// The entry of one flow in [`LongestHostDrop`](super::LongestHostDrop): 8 bytes. The backlog of
/// the flow is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldFlow {
    /// The upper mark of the flow's class, in units of `2^8` bytes; zero if and only if the flow
    /// is idle.
    high: u16,
    /// The host for which the flow counts while it is backlogged; [`Self::NO_HOST`] while it is
    /// idle.
    host: u16,
    pub(super) links: Links,
}

impl HeldFlow {
    /// Memory for a flow: all zero. [`LongestHostDrop`](super::LongestHostDrop) initialises it.
    pub const EMPTY: Self = Self { high: 0, host: 0, links: Links::EMPTY };

    /// The host number of a flow without a host. Every host has a lower number.
    pub(super) const NO_HOST: u32 = u16::MAX as u32;

    /// An idle flow without a host: notifications about it change no accounting.
    pub(super) const IDLE: Self = Self { host: u16::MAX, ..Self::EMPTY };

    /// Creates the entry of a flow of `host` that holds `bytes` bytes, in the class it enters, and
    /// on no list.
    #[inline]
    pub(super) const fn of(host: u32, bytes: u32) -> Self {
        let high = 1 << (SHORT_BITS - UNKEPT_BITS + 2 * class_of(bytes));
        Self { high, host: short(host), links: Links::EMPTY }
    }

    /// Sets the entry, idle until now, to [`Self::of`] this host, and leaves the links to the
    /// caller.
    #[inline]
    pub(super) const fn begin(&mut self, host: u32, bytes: u32) -> Self {
        let begun = Self { links: self.links, ..Self::of(host, bytes) };
        (self.high, self.host) = (begun.high, begun.host);
        begun
    }

    #[inline]
    pub(super) const fn is_backlogged(self) -> bool {
        self.high != 0
    }

    #[inline]
    pub(super) const fn host(self) -> u32 {
        self.host as u32
    }

    #[inline]
    pub(super) const fn class(self) -> u32 {
        (self.high as u32).trailing_zeros().wrapping_sub(SHORT_BITS - UNKEPT_BITS) >> 1
    }

    /// Returns the upper mark in bytes.
    #[inline]
    const fn high(self) -> u32 {
        (self.high as u32) << UNKEPT_BITS
    }

    /// Returns true if `bytes`, which the flow holds, reach the upper mark of its class. Also true
    /// for a flow in the last class from 8 MiB on, and for an idle one.
    #[inline]
    pub(super) const fn is_above(self, bytes: u32) -> bool {
        bytes >= self.high()
    }

    /// Returns true if `bytes`, which the flow holds, are below the lower mark of its class, an
    /// eighth of the upper one. Also true for a flow in class 0 below 64 bytes; never true for an
    /// idle one.
    #[inline]
    pub(super) const fn is_below(self, bytes: u32) -> bool {
        bytes < self.high() >> 3
    }

    /// Returns true if the flow, which holds `bytes` bytes, must leave its class.
    #[inline]
    pub(super) const fn moves(self, bytes: u32) -> bool {
        (self.is_above(bytes) || self.is_below(bytes)) && class_of(bytes) != self.class()
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

/// Returns the class that a flow of `bytes` bytes enters.
#[inline]
pub(super) const fn class_of(bytes: u32) -> u32 {
    let class = ((bytes >> (SHORT_BITS - 2)) | 1).ilog2() >> 1;
    if class < LAST_CLASS { class } else { LAST_CLASS }
}
