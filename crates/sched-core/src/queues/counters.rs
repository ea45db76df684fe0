//! What has happened: packets and bytes, in total and per flow.
//!
//! Delivered packets are not counted: they are those accepted, less those dropped and those queued.
//! So no missed increment can break the accounting identity. That every handle comes out once is
//! checked from outside, by the caller that handed it in.

use crate::flow_scheduler::Table;
use crate::{Backlog, Books, DropReason, FlowId, Limits};

/// Packets and bytes counted since construction. At 400 Gbit/s, 2^64 bytes last eleven years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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

impl From<Backlog> for Volume {
    fn from(held: Backlog) -> Self {
        Self { packets: held.packets.into(), bytes: held.bytes.into() }
    }
}

/// The counters of a scheduler or of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Counters {
    /// Offered and queued, whatever became of it later.
    pub accepted: Volume,
    /// Offered and handed back. For a flow: only what named an existing flow.
    pub rejected: Volume,
    /// Given to the caller of `dequeue`.
    pub delivered: Volume,
    /// Accepted, then dropped, by reason in the order of [`DropReason::ALL`].
    dropped: [Volume; DropReason::COUNT],
    /// Congestion marks that were set here, on arrivals that were accepted and on packets that
    /// were delivered: not those that packets came with. A packet that was marked when it arrived
    /// counts even if it is dropped later.
    pub marked: u64,
    /// Accepted with a congestion mark that was set before, [`Ecn::Ce`](crate::Ecn::Ce).
    pub came_marked: u64,
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

    /// Counts a packet of `len` bytes as dropped for `reason`; for [`DropReason::Rejected`] as
    /// rejected.
    ///
    /// For schedulers that keep books of their own.
    pub fn count_dropped(&mut self, reason: DropReason, len: u32) {
        self.dropped.get_mut(reason as usize).unwrap_or(&mut self.rejected).add(len);
    }

    /// Fills in what was delivered: everything accepted that was neither dropped nor is queued.
    fn with_queued(self, queued: Backlog) -> Self {
        let delivered = self.accepted.minus(self.dropped_total()).minus(queued.into());
        Self { delivered, ..self }
    }

    /// Returns the sum of both, with the peak of `self`.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        self.with(other, Volume::plus, u64::wrapping_add)
    }

    /// What `self` has counted more than `other`; the peak is that of `self`.
    #[must_use]
    pub fn minus(self, other: &Self) -> Self {
        self.with(other, Volume::minus, u64::wrapping_sub)
    }

    /// Each count with that of `other`, but for the peak.
    fn with(
        self,
        other: &Self,
        volume: impl Fn(Volume, Volume) -> Volume,
        count: impl Fn(u64, u64) -> u64,
    ) -> Self {
        let mut dropped = self.dropped;
        dropped.iter_mut().zip(other.dropped).for_each(|(own, other)| *own = volume(*own, other));
        Self {
            accepted: volume(self.accepted, other.accepted),
            rejected: volume(self.rejected, other.rejected),
            delivered: volume(self.delivered, other.delivered),
            dropped,
            marked: count(self.marked, other.marked),
            came_marked: count(self.came_marked, other.came_marked),
            peak: self.peak,
        }
    }

    /// What was dropped after it was accepted, for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> Volume {
        self.dropped.iter().fold(Volume::ZERO, |sum, &volume| sum.plus(volume))
    }
}

/// One flow's record, kept where the caller gives room for it: 168 bytes a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowRecord {
    pub(crate) accepted: Volume,
    pub(crate) rejected: Volume,
    /// By reason in the order of [`DropReason::ALL`].
    dropped: [Volume; DropReason::COUNT],
    pub(crate) marked: u64,
    pub(crate) came_marked: u64,
    pub(crate) peak: Backlog,
}

impl FlowRecord {
    /// A flow to which nothing has happened.
    pub const EMPTY: Self = Self {
        accepted: Volume::ZERO,
        rejected: Volume::ZERO,
        dropped: [Volume::ZERO; DropReason::COUNT],
        marked: 0,
        came_marked: 0,
        peak: Backlog { packets: 0, bytes: 0 },
    };

    /// A record that goes on from `counters`.
    #[must_use]
    pub const fn going_on_from(counters: &Counters) -> Self {
        let Counters { accepted, rejected, delivered: _, dropped, marked, came_marked, peak } =
            *counters;
        Self { accepted, rejected, dropped, marked, came_marked, peak }
    }

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

    /// The packet accepted has come with a mark.
    pub(crate) const fn mark_came(&mut self) {
        self.came_marked = self.came_marked.wrapping_add(1);
    }

    /// The counters of a flow that holds `queued`: what was delivered is what was accepted and
    /// neither dropped nor queued.
    #[must_use]
    pub fn counters(&self, queued: Backlog) -> Counters {
        let counters = Counters {
            accepted: self.accepted,
            rejected: self.rejected,
            delivered: Volume::ZERO,
            dropped: self.dropped,
            marked: self.marked,
            came_marked: self.came_marked,
            peak: self.peak,
        };
        counters.with_queued(queued)
    }
}

/// Where [`FlowQueues`](crate::FlowQueues) keeps the statistics of flows: a table with a record for
/// each of the first flows, or records that several flows share, found by what the flow scheduler
/// `O` knows of a flow. No method has a default.
pub trait FlowRecords<O: ?Sized> {
    /// A table for the record of all flows together, its one element.
    type Totals: Table<FlowRecord> + core::fmt::Debug;

    /// A packet of `len` bytes was accepted for `flow`, which holds `queued` with it.
    fn accept(&mut self, scheduler: &O, flow: FlowId, len: u32, queued: Backlog);

    /// Where all else that happens to `flow` is counted; `None`: it is not counted.
    fn record_mut(&mut self, scheduler: &O, flow: FlowId) -> Option<&mut FlowRecord>;

    /// The record of `flow`, if it has one of its own.
    fn record(&self, flow: FlowId) -> Option<&FlowRecord>;

    /// Begins anew.
    fn clear(&mut self);
}

impl<O: ?Sized, M: Table<FlowRecord>> FlowRecords<O> for M {
    type Totals = [FlowRecord; 1];

    #[inline(always)]
    fn accept(&mut self, _scheduler: &O, flow: FlowId, len: u32, queued: Backlog) {
        if let Some(record) = self.as_mut().get_mut(flow.index()) {
            record.accept(len, queued);
        }
    }

    #[inline(always)]
    fn record_mut(&mut self, _scheduler: &O, flow: FlowId) -> Option<&mut FlowRecord> {
        self.as_mut().get_mut(flow.index())
    }

    #[inline]
    fn record(&self, flow: FlowId) -> Option<&FlowRecord> {
        self.as_ref().get(flow.index())
    }

    fn clear(&mut self) {
        self.as_mut().fill(FlowRecord::EMPTY);
    }
}

/// The books of a whole scheduler: its limits, what is queued, and the record of all flows
/// together, the one in the table `T`.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<T = [FlowRecord; 1]> {
    limits: Limits,
    /// The most that was ever queued after a call.
    peak: Backlog,
    /// The lower of the limits and of `peak`, for packets and bytes apart; at least what is queued
    /// after every call. An arrival that stays within `familiar` has room and is no new peak: two
    /// comparisons instead of four.
    familiar: Backlog,
    /// `familiar` less what is queued, modulo 2^32: during a call more may be queued than
    /// `familiar`.
    free: Backlog,
    /// The other two, packets accepted and bytes delivered, follow from the identity: one addition
    /// when a packet comes and one when it leaves.
    accepted_bytes: u64,
    delivered_packets: u64,
    /// All but `accepted` and `peak`, which stay zero here.
    totals: T,
}

impl Ledger {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self::over([FlowRecord::EMPTY], limits)
    }
}

impl<T: Table<FlowRecord>> Ledger<T> {
    /// `totals` is empty.
    pub(crate) const fn over(totals: T, limits: Limits) -> Self {
        let nothing = Backlog { packets: 0, bytes: 0 };
        let limits = limits.clamped();
        Self {
            limits,
            peak: nothing,
            familiar: nothing,
            free: nothing,
            accepted_bytes: 0,
            delivered_packets: 0,
            totals,
        }
    }

    pub(crate) const fn limits(&self) -> Limits {
        self.limits
    }

    /// To be followed by drops while the ledger [is over](Self::is_over).
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits.clamped();
        self.raise_peak(Backlog::default());
    }

    /// What is queued. Fits `u32`: at most as many packets as handles, and at most
    /// [`Limits::MAX_BYTES`] bytes plus one packet.
    pub(crate) const fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.familiar.packets.wrapping_sub(self.free.packets),
            bytes: self.familiar.bytes.wrapping_sub(self.free.bytes),
        }
    }

    /// Whether a packet of `len` bytes fits beside what is queued, which is within the limits.
    pub(crate) const fn has_room(&self, len: u32) -> bool {
        let held = self.backlog();
        held.packets < self.limits.packets && len <= self.limits.bytes.wrapping_sub(held.bytes)
    }

    /// Whether a packet of `len` bytes fits and is no new peak.
    #[inline]
    pub(crate) const fn is_ready(&self, len: u32) -> bool {
        self.has_ready_place() && self.has_ready_bytes(len)
    }

    /// One half of [`Self::is_ready`]: with comparisons of something else between them, each is a
    /// branch, which is cheaper than both in one.
    #[inline]
    pub(crate) const fn has_ready_place(&self) -> bool {
        self.free.packets > 0
    }

    /// The other half of [`Self::is_ready`].
    #[inline]
    pub(crate) const fn has_ready_bytes(&self, len: u32) -> bool {
        len <= self.free.bytes
    }

    /// Whether a packet of `len` bytes fits; if so, it is to be accepted next.
    #[inline]
    pub(crate) fn make_ready(&mut self, len: u32) -> bool {
        self.is_ready(len) || self.make_ready_for_a_peak(len)
    }

    #[cold]
    fn make_ready_for_a_peak(&mut self, len: u32) -> bool {
        let fits = self.has_room(len);
        if fits {
            let mut then = self.backlog();
            then.add(len);
            self.raise_peak(then);
        }
        fits
    }

    fn raise_peak(&mut self, queued: Backlog) {
        self.peak.raise(queued);
        let (held, Backlog { packets, bytes }) = (self.backlog(), self.peak);
        self.familiar = Backlog {
            packets: packets.min(self.limits.packets),
            bytes: bytes.min(self.limits.bytes),
        };
        self.free = Backlog {
            packets: self.familiar.packets.wrapping_sub(held.packets),
            bytes: self.familiar.bytes.wrapping_sub(held.bytes),
        };
    }

    /// Whether a packet of `len` bytes would fit if nothing else were queued.
    pub(crate) const fn could_fit(&self, len: u32) -> bool {
        self.limits.packets > 0 && len <= self.limits.bytes
    }

    pub(crate) const fn is_over(&self) -> bool {
        let held = self.backlog();
        held.packets > self.limits.packets || held.bytes > self.limits.bytes
    }

    pub(crate) const fn accept(&mut self, len: u32) {
        self.accepted_bytes = self.accepted_bytes.wrapping_add(len as u64);
        self.free.sub(len);
    }

    /// Takes back an acceptance, because the arrival turned out to be the victim.
    pub(crate) const fn unaccept(&mut self, len: u32) {
        self.accepted_bytes = self.accepted_bytes.wrapping_sub(len as u64);
        self.free.add(len);
    }

    /// To be called once the limits hold again, where a packet was accepted without
    /// [`Self::make_ready`].
    pub(crate) fn note_peak(&mut self) {
        self.raise_peak(self.backlog());
    }

    pub(crate) const fn deliver(&mut self, len: u32) {
        self.delivered_packets = self.delivered_packets.wrapping_add(1);
        self.free.add(len);
    }

    /// The bytes of [`Self::deliver`]; to be followed by [`Self::deliver_packets`].
    #[inline(always)]
    pub(crate) const fn deliver_bytes(&mut self, len: u32) {
        self.free.bytes = self.free.bytes.wrapping_add(len);
    }

    /// The packets of [`Self::deliver`], of which `packets` have left, whose bytes are booked.
    #[inline]
    pub(crate) const fn deliver_packets(&mut self, packets: u32) {
        self.delivered_packets = self.delivered_packets.wrapping_add(packets as u64);
        self.free.packets = self.free.packets.wrapping_add(packets);
    }

    pub(crate) fn drop(&mut self, len: u32, reason: DropReason) {
        self.free.add(len);
        self.count(|all| all.drop(len, reason));
    }

    /// Lets `count` change the record of all flows together, if there is room for one.
    pub(crate) fn count(&mut self, count: impl FnOnce(&mut FlowRecord)) {
        self.totals.as_mut().first_mut().map(count);
    }

    pub(crate) fn books(&self) -> Books {
        let backlog = self.backlog();
        let totals = self.totals.as_ref().first().unwrap_or(&FlowRecord::EMPTY);
        let counters = totals.counters(backlog);
        let left = counters.dropped_total().packets.wrapping_add(self.delivered_packets);
        let packets = left.wrapping_add(backlog.packets.into());
        let accepted = Volume { packets, bytes: self.accepted_bytes };
        let counters = Counters { accepted, peak: self.peak, ..counters }.with_queued(backlog);
        Books { backlog, counters, limits: self.limits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a drop is found under its own reason and under no other.
    #[test]
    fn each_reason_has_its_own_count() {
        for (counted, reason) in (1..).zip(DropReason::ALL.iter().copied()) {
            let mut counters = Counters::default();
            counters.count_dropped(reason, counted);
            let volume = Volume { packets: 1, bytes: counted.into() };
            for &other in DropReason::ALL {
                let expected = if other == reason { volume } else { Volume::ZERO };
                assert_eq!(counters.dropped_for(other), expected, "{reason:?} {other:?}");
            }
            assert_eq!((counters.dropped_total(), counters.rejected), (volume, Volume::ZERO));
        }
        let mut counters = Counters::default();
        counters.count_dropped(DropReason::Rejected, 60);
        let volume = Volume { packets: 1, bytes: 60 };
        assert_eq!((counters.rejected, counters.dropped_total()), (volume, Volume::ZERO));
        assert_eq!(counters.dropped_for(DropReason::Rejected), volume);
    }
}
