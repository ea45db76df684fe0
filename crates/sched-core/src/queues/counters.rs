//! Packet and byte counters, in total and per flow.
//!
//! Delivered packets are not counted but derived: accepted minus dropped minus queued. So a missed
//! increment cannot break the accounting identity. That every handle comes out once is checked from
//! outside, by the caller that handed it in.

use crate::flow_scheduler::Table;
use crate::{Backlog, Books, DropReason, FlowId, Limits};

/// A count of packets and bytes since construction. At 400 Gbit/s, 2^64 bytes last eleven years.
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
    /// Zero packets and bytes.
    pub const ZERO: Self = Self { packets: 0, bytes: 0 };

    /// Adds a packet of `len` bytes.
    pub const fn add(&mut self, len: u32) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(len as u64);
    }

    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    /// Returns the difference `self − other`.
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
    /// Packets accepted by enqueue, whatever happened to them later.
    pub accepted: Volume,
    /// Packets handed back by enqueue. Per flow: only those of a flow that exists.
    pub rejected: Volume,
    /// Packets returned by dequeue.
    pub delivered: Volume,
    /// Packets dropped after acceptance, by reason in the order of [`DropReason::ALL`].
    dropped: [Volume; DropReason::COUNT],
    /// Congestion marks set here, on accepted arrivals and on delivered packets, without those
    /// that packets arrived with. A packet that was marked on arrival counts even if it is dropped
    /// later.
    pub marked: u64,
    /// Packets accepted that arrived with a congestion mark, [`Ecn::Ce`](crate::Ecn::Ce).
    pub came_marked: u64,
    /// The largest backlog after a call; maxima of packets and bytes are independent.
    pub peak: Backlog,
}

impl Counters {
    /// Returns all packets offered: accepted and rejected.
    #[must_use]
    pub const fn offered(&self) -> Volume {
        self.accepted.plus(self.rejected)
    }

    /// Returns the packets dropped for `reason`; the rejected ones for [`DropReason::Rejected`].
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> Volume {
        self.dropped.get(reason as usize).copied().unwrap_or(self.rejected)
    }

    /// Counts a packet of `len` bytes as dropped for `reason`, or as rejected for
    /// [`DropReason::Rejected`].
    ///
    /// For schedulers that keep their own counters.
    pub fn count_dropped(&mut self, reason: DropReason, len: u32) {
        self.dropped.get_mut(reason as usize).unwrap_or(&mut self.rejected).add(len);
    }

    /// Sets `delivered` to everything accepted that was neither dropped nor is queued.
    fn with_queued(self, queued: Backlog) -> Self {
        let delivered = self.accepted.minus(self.dropped_total()).minus(queued.into());
        Self { delivered, ..self }
    }

    /// Returns the sum of both, with the peak of `self`.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        self.with(other, Volume::plus, u64::wrapping_add)
    }

    /// Returns the difference `self − other`, with the peak of `self`.
    #[must_use]
    pub fn minus(self, other: &Self) -> Self {
        self.with(other, Volume::minus, u64::wrapping_sub)
    }

    /// Combines each counter with that of `other`, except the peak.
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

    /// Returns the packets dropped after acceptance, for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> Volume {
        self.dropped.iter().fold(Volume::ZERO, |sum, &volume| sum.plus(volume))
    }
}

/// Statistics of one flow, in memory provided by the caller: 168 bytes.
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
    /// A record with all counters zero.
    pub const EMPTY: Self = Self {
        accepted: Volume::ZERO,
        rejected: Volume::ZERO,
        dropped: [Volume::ZERO; DropReason::COUNT],
        marked: 0,
        came_marked: 0,
        peak: Backlog { packets: 0, bytes: 0 },
    };

    /// Creates a record that continues from `counters`.
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

    /// Counts an accepted packet that arrived with a mark.
    pub(crate) const fn mark_came(&mut self) {
        self.came_marked = self.came_marked.wrapping_add(1);
    }

    /// Returns the counters of a flow that holds `queued`. Packets that were accepted and are
    /// neither dropped nor queued count as delivered.
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

/// Per-flow statistics of [`FlowQueues`](crate::FlowQueues): a table with a record for each of the
/// first flows, or records that several flows share, selected by the flow scheduler `O`. No method
/// has a default.
pub trait FlowRecords<O: ?Sized> {
    /// A table of one element, for the record of all flows together.
    type Totals: Table<FlowRecord> + core::fmt::Debug;

    /// Counts a packet of `len` bytes that was accepted for `flow`, which now holds `queued`.
    fn accept(&mut self, scheduler: &O, flow: FlowId, len: u32, queued: Backlog);

    /// Returns the record for all other events of `flow`; `None` if they are not counted.
    fn record_mut(&mut self, scheduler: &O, flow: FlowId) -> Option<&mut FlowRecord>;

    /// Returns the record of `flow`, if it has its own.
    fn record(&self, flow: FlowId) -> Option<&FlowRecord>;

    /// Resets all records.
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

/// The accounting of a whole scheduler: its limits, its backlog, and the record of all flows
/// together, the one in the table `T`.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<T = [FlowRecord; 1]> {
    limits: Limits,
    /// The largest backlog after any call.
    peak: Backlog,
    /// The lower of `limits` and `peak`, separately for packets and bytes; at least the backlog
    /// after every call. An arrival within `familiar` fits and sets no new peak: two comparisons
    /// instead of four.
    familiar: Backlog,
    /// `familiar` minus the backlog, modulo 2^32: during a call the backlog may exceed `familiar`.
    free: Backlog,
    /// Accepted packets and delivered bytes follow from the accounting identity: one addition per
    /// arrival and one per departure.
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
    /// Creates a ledger; `totals` must be empty.
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

    /// Sets the limits. The caller then drops packets while the ledger [is over](Self::is_over).
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits.clamped();
        self.raise_peak(Backlog::default());
    }

    /// Returns the backlog. It fits `u32`: at most as many packets as handles, and at most
    /// [`Limits::MAX_BYTES`] bytes plus one packet.
    pub(crate) const fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.familiar.packets.wrapping_sub(self.free.packets),
            bytes: self.familiar.bytes.wrapping_sub(self.free.bytes),
        }
    }

    /// Returns true if a packet of `len` bytes fits; the backlog must be within the limits.
    pub(crate) const fn has_room(&self, len: u32) -> bool {
        let held = self.backlog();
        held.packets < self.limits.packets && len <= self.limits.bytes.wrapping_sub(held.bytes)
    }

    /// Returns true if a packet of `len` bytes fits and sets no new peak.
    #[inline]
    pub(crate) const fn is_ready(&self, len: u32) -> bool {
        self.has_ready_place() && self.has_ready_bytes(len)
    }

    /// The packet half of [`Self::is_ready`]. Two separate branches, with other comparisons between
    /// them, are cheaper than one.
    #[inline]
    pub(crate) const fn has_ready_place(&self) -> bool {
        self.free.packets > 0
    }

    /// The byte half of [`Self::is_ready`].
    #[inline]
    pub(crate) const fn has_ready_bytes(&self, len: u32) -> bool {
        len <= self.free.bytes
    }

    /// Returns true if a packet of `len` bytes fits; if so, it must be accepted next.
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

    /// Returns true if a packet of `len` bytes would fit into an empty queue.
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

    /// Reverts an acceptance, because the arriving packet turned out to be the victim.
    pub(crate) const fn unaccept(&mut self, len: u32) {
        self.accepted_bytes = self.accepted_bytes.wrapping_sub(len as u64);
        self.free.add(len);
    }

    /// Updates the peak where a packet was accepted without [`Self::make_ready`]. Call it once the
    /// limits hold again.
    pub(crate) fn note_peak(&mut self) {
        self.raise_peak(self.backlog());
    }

    pub(crate) const fn deliver(&mut self, len: u32) {
        self.delivered_packets = self.delivered_packets.wrapping_add(1);
        self.free.add(len);
    }

    /// The byte half of [`Self::deliver`]; [`Self::deliver_packets`] must follow.
    #[inline(always)]
    pub(crate) const fn deliver_bytes(&mut self, len: u32) {
        self.free.bytes = self.free.bytes.wrapping_add(len);
    }

    /// The packet half of [`Self::deliver`], for `packets` packets whose bytes are already
    /// accounted.
    #[inline]
    pub(crate) const fn deliver_packets(&mut self, packets: u32) {
        self.delivered_packets = self.delivered_packets.wrapping_add(packets as u64);
        self.free.packets = self.free.packets.wrapping_add(packets);
    }

    pub(crate) fn drop(&mut self, len: u32, reason: DropReason) {
        self.free.add(len);
        self.count(|all| all.drop(len, reason));
    }

    /// Applies `count` to the record of all flows together, if there is one.
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

    /// Goal: a drop is counted under its own reason only.
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
