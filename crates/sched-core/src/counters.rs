//! What has happened: packets and bytes, in total and per flow.
//!
//! One truth per fact: what was delivered is not counted but is what was accepted less what was
//! dropped and what is queued, so the accounting identity cannot be broken by a missed increment;
//! that every handle comes out once is checked from outside, by who gave it in.

use crate::{Backlog, DropReason, Limits};

/// Packets and bytes counted since construction. 2^64 of neither is ever reached: at 400 Gbit/s the
/// bytes last eleven years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Bytes, as given at enqueue.
    pub bytes: u64,
}

impl Volume {
    /// Nothing.
    pub const ZERO: Self = Self { packets: 0, bytes: 0 };

    /// One more packet of `len` bytes.
    pub const fn add(&mut self, len: u32) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(len as u64);
    }

    /// The sum of the two.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    /// What `self` has more than `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(other.packets),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

/// The counters of a scheduler or of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Offered and queued, whatever became of it later.
    pub accepted: Volume,
    /// Offered and handed back. For a flow: only what named an existing flow.
    pub rejected: Volume,
    /// Given to whoever called `dequeue`.
    pub delivered: Volume,
    /// Accepted, then dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped: [Volume; DropReason::COUNT],
    /// Delivered with a congestion mark set here.
    pub marked: u64,
    /// The most that was ever queued after a call; packets and bytes each on its own.
    pub peak: Backlog,
}

impl Counters {
    /// Everything that was offered.
    #[must_use]
    pub const fn offered(&self) -> Volume {
        self.accepted.plus(self.rejected)
    }

    /// What was dropped for `reason`; for [`DropReason::Rejected`] what was rejected.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> Volume {
        self.dropped.get(reason as usize).copied().unwrap_or(self.rejected)
    }

    /// Fills in what was delivered: everything accepted that was neither dropped nor is queued.
    fn with_queued(self, queued: Backlog) -> Self {
        let queued = Volume { packets: queued.packets.into(), bytes: queued.bytes.into() };
        let delivered = self.accepted.minus(self.dropped_total()).minus(queued);
        Self { delivered, ..self }
    }

    /// What was dropped after it was accepted, for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> Volume {
        self.dropped.iter().fold(Volume::ZERO, |sum, &volume| sum.plus(volume))
    }
}

/// One flow's record, kept where the caller gives room for it: 128 bytes a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowRecord {
    pub(crate) accepted: Volume,
    pub(crate) rejected: Volume,
    pub(crate) dropped: [Volume; DropReason::COUNT],
    pub(crate) marked: u64,
    pub(crate) peak: Backlog,
}

impl FlowRecord {
    /// A flow to which nothing has happened.
    pub const EMPTY: Self = Self {
        accepted: Volume::ZERO,
        rejected: Volume::ZERO,
        dropped: [Volume::ZERO; DropReason::COUNT],
        marked: 0,
        peak: Backlog { packets: 0, bytes: 0 },
    };

    pub(crate) fn accept(&mut self, len: u32, queued: Backlog) {
        self.accepted.add(len);
        self.peak.raise(queued);
    }

    pub(crate) fn drop(&mut self, len: u32, reason: DropReason) {
        if let Some(volume) = self.dropped.get_mut(reason as usize) {
            volume.add(len);
        }
    }

    pub(crate) const fn mark(&mut self) {
        self.marked = self.marked.wrapping_add(1);
    }

    pub(crate) fn counters(&self, queued: Backlog) -> Counters {
        let counters = Counters {
            accepted: self.accepted,
            rejected: self.rejected,
            delivered: Volume::ZERO,
            dropped: self.dropped,
            marked: self.marked,
            peak: self.peak,
        };
        counters.with_queued(queued)
    }
}

/// The books of a whole scheduler: its limits, what is queued, and the record of all flows together.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) limits: Limits,
    /// What is queued. Fits `u32`: at most as many packets as handles, and at most
    /// [`Limits::MAX_BYTES`] bytes plus one packet.
    held: Backlog,
    pub(crate) totals: FlowRecord,
}

impl Ledger {
    pub(crate) const fn new(limits: Limits) -> Self {
        let held = Backlog { packets: 0, bytes: 0 };
        Self { limits: limits.clamped(), held, totals: FlowRecord::EMPTY }
    }

    pub(crate) const fn backlog(&self) -> Backlog {
        self.held
    }

    /// Whether a packet of `len` bytes fits beside what is queued, which is within the limits.
    pub(crate) const fn has_room(&self, len: u32) -> bool {
        self.held.packets < self.limits.packets
            && len <= self.limits.bytes.wrapping_sub(self.held.bytes)
    }

    /// Whether a packet of `len` bytes would fit if nothing else were queued.
    pub(crate) const fn could_fit(&self, len: u32) -> bool {
        self.limits.packets > 0 && len <= self.limits.bytes
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.held.packets > self.limits.packets || self.held.bytes > self.limits.bytes
    }

    pub(crate) const fn accept(&mut self, len: u32) {
        self.totals.accepted.add(len);
        self.held.add(len);
    }

    /// Takes back an acceptance that did not come to be: the packet was its own victim.
    pub(crate) const fn unaccept(&mut self, len: u32) {
        self.totals.accepted = self.totals.accepted.minus(Volume { packets: 1, bytes: len as u64 });
        self.held.sub(len);
    }

    /// To be called once the limits hold again.
    pub(crate) const fn note_peak(&mut self) {
        self.totals.peak.raise(self.held);
    }

    pub(crate) const fn deliver(&mut self, len: u32) {
        self.held.sub(len);
    }

    pub(crate) fn drop(&mut self, len: u32, reason: DropReason) {
        self.held.sub(len);
        self.totals.drop(len, reason);
    }

    pub(crate) fn counters(&self) -> Counters {
        self.totals.counters(self.held)
    }
}
