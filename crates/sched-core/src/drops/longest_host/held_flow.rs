//! The backlogged flows of a host, in classes by powers of four of the bytes they hold.
//!
//! A flow comes to class 0 with fewer than `2^9` bytes, to class `c` with `2^(7 + 2c)` or more. It
//! stays there while it holds at least `2^(6 + 2c)` bytes, in class 0 whatever it holds, and less
//! than `2^(9 + 2c)`. The last class, 7, has no upper mark.
//!
//! So of a host's flows in the highest class in use, each holds more than an eighth of what the
//! host's longest flow holds, unless the longest holds fewer than `2^9` bytes, or the flow `2^20`
//! or more.

use super::ring::{Linked, Links};
use crate::disciplines::drr::ring::short;

/// The class of the longest flows.
const LAST_CLASS: u32 = 7;

/// Classes of flows.
pub(super) const FLOW_CLASSES: usize = LAST_CLASS as usize + 1;

/// The bits of the upper mark of class 0.
const SHORT_BITS: u32 = 9;

/// The low bits of an upper mark, which are zero and not kept.
const UNKEPT_BITS: u32 = 8;

/// Room for one flow of [`LongestHostDrop`](super::LongestHostDrop): 8 bytes. What the flow holds
/// is in its queue.
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
    /// Room for a flow: all zero. [`LongestHostDrop`](super::LongestHostDrop) makes the flow idle.
    pub const EMPTY: Self = Self { high: 0, host: 0, links: Links::EMPTY };

    /// Stands for the host of a flow that has none. Every host has a lower number.
    pub(super) const NO_HOST: u32 = u16::MAX as u32;

    /// A flow that holds nothing, of no host: what is said of it changes no books.
    pub(super) const IDLE: Self = Self { host: u16::MAX, ..Self::EMPTY };

    /// A flow of `host` that holds `bytes` bytes, in the class it comes to, and on no list.
    #[inline]
    pub(super) const fn of(host: u32, bytes: u32) -> Self {
        let high = 1 << (SHORT_BITS - UNKEPT_BITS + 2 * class_of(bytes));
        Self { high, host: short(host), links: Links::EMPTY }
    }

    /// The flow, idle till now, is [`Self::of`] this host; its links are the caller's.
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

    /// The upper mark in bytes.
    #[inline]
    const fn high(self) -> u32 {
        (self.high as u32) << UNKEPT_BITS
    }

    /// Whether `bytes`, which the flow holds, are as many as the upper mark of its class. True too
    /// of a flow in the last class from 8 MiB on, and of an idle one.
    #[inline]
    pub(super) const fn is_above(self, bytes: u32) -> bool {
        bytes >= self.high()
    }

    /// Whether `bytes`, which the flow holds, are fewer than the lower mark of its class, which is
    /// an eighth of the upper one. True too of a flow in class 0 below 64 bytes; never true of an
    /// idle one.
    #[inline]
    pub(super) const fn is_below(self, bytes: u32) -> bool {
        bytes < self.high() >> 3
    }

    /// Whether the flow, which holds `bytes` bytes, is to leave its class.
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

/// The class that a flow of `bytes` bytes comes to.
#[inline]
pub(super) const fn class_of(bytes: u32) -> u32 {
    let class = ((bytes >> (SHORT_BITS - 2)) | 1).ilog2() >> 1;
    if class < LAST_CLASS { class } else { LAST_CLASS }
}
