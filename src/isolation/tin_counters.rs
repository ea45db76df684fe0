//! Counters of tins.

use sched_core::{
    Aqm, Backlog, Counters, FlowId, FlowRecord, FlowRecords, Imbalance, Scheduler, TinConfig,
    Volume,
};

use super::queue::Isolated;
use super::serve::{Serving, TINS};
use crate::storage::Storage;

/// Counters of one tin since construction, and its backlog. The sums over all tins are those of the
/// queue.
///
/// On a change of tins, counters move with the queued packets of their tin: with a plan to the tin
/// of the same name, or to the default tin ([`SmartQueue::set_tins`](crate::SmartQueue::set_tins));
/// otherwise to the tin of the same number, or to tin 0
/// ([`Isolated::rebuild_and_move`](crate::Isolated::rebuild_and_move)). A single tin counts as tin
/// 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct TinCounters {
    /// Packets and bytes accepted, rejected, delivered, dropped by reason, and marked. The peak is
    /// not kept, and is zero.
    pub counters: Counters,
    /// Packets and bytes currently queued.
    pub backlog: Backlog,
}

/// Records for the tins above tin 0. Everything they do not count belongs to tin 0, so that best
/// effort costs nothing. Deliveries are counted by the [choice among
/// tins](sched_core::TinChoice::served_in). Accepted packets are not counted but derived: they were
/// delivered or dropped, or are queued.
pub(super) struct TinRecords<S: Storage> {
    /// `accepted` is the correction to the deliveries counted by the choice among tins.
    pub(super) above: S::Tins<FlowRecord>,
}

impl<S: Storage> TinRecords<S> {
    /// Returns the record of `tin`; `None` for tin 0.
    fn of(&self, tin: u8) -> Option<&FlowRecord> {
        self.above.as_ref().get(usize::from(tin).wrapping_sub(1))
    }

    #[inline]
    fn of_mut(&mut self, tin: u8) -> Option<&mut FlowRecord> {
        self.above.as_mut().get_mut(usize::from(tin).wrapping_sub(1))
    }
}

impl<S: Storage> FlowRecords<Serving<S>> for TinRecords<S> {
    type Totals = S::One<FlowRecord>;

    #[inline(always)]
    fn accept(&mut self, _serving: &Serving<S>, _flow: FlowId, _len: u32, _queued: Backlog) {}

    #[inline]
    fn record_mut(&mut self, serving: &Serving<S>, flow: FlowId) -> Option<&mut FlowRecord> {
        if serving.choice.is_one() {
            return None;
        }
        self.of_mut(serving.tin_of_flow(flow))
    }

    /// There are no records of single flows.
    fn record(&self, _flow: FlowId) -> Option<&FlowRecord> {
        None
    }

    fn clear(&mut self) {
        self.above.as_mut().fill(FlowRecord::EMPTY);
    }
}

impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// Returns the settings of `tin`; `None` if there is no such tin. Without the feature `tins`,
    /// the rate of the only tin is not kept, and the returned settings have none.
    pub fn tin(&self, tin: u8) -> Option<TinConfig> {
        self.queues.scheduler().choice.tin(tin.into())
    }

    /// Returns counters and backlog of `tin`; `None` if there is no such tin. Cost: O(queues), and
    /// O(queues · tins) for tin 0.
    pub fn tin_counters(&self, tin: u8) -> Option<TinCounters> {
        if tin >= self.tins() {
            return None;
        }
        if tin > 0 {
            return Some(self.counters_above(tin));
        }
        let Backlog { mut packets, mut bytes } = self.queues.backlog();
        let mut counters = without_peak(self.queues.counters());
        for tin in 1..self.tins() {
            let above = self.counters_above(tin);
            counters = counters.minus(&above.counters);
            packets = packets.wrapping_sub(above.backlog.packets);
            bytes = bytes.wrapping_sub(above.backlog.bytes);
        }
        Some(TinCounters { counters, backlog: Backlog { packets, bytes } })
    }

    /// Returns counters and backlog of `tin`, which is not tin 0.
    fn counters_above(&self, tin: u8) -> TinCounters {
        let mut backlog = Backlog::default();
        for (_, held) in self.backlogged_queues().filter(|(queue, _)| self.tin_of(*queue) == tin) {
            backlog.packets = backlog.packets.wrapping_add(held.packets);
            backlog.bytes = backlog.bytes.wrapping_add(held.bytes);
        }
        let record = self.queues.records().of(tin).copied().unwrap_or(FlowRecord::EMPTY);
        let mut counters = without_peak(record.counters(backlog));
        counters.delivered =
            counters.accepted.plus(self.queues.scheduler().choice.served_in(tin.into()));
        counters.accepted =
            counters.delivered.plus(counters.dropped_total()).plus(Volume::from(backlog));
        TinCounters { counters, backlog }
    }

    /// Returns the counters of each tin above tin 0 after the counters of each tin `t` have moved
    /// to tin `to(t)`.
    pub(super) fn counters_after(&self, to: impl Fn(u8) -> u8) -> [Counters; TINS - 1] {
        let mut sums = [Counters::default(); TINS - 1];
        for tin in 0..self.tins() {
            let sum = usize::from(to(tin)).checked_sub(1).and_then(|at| sums.get_mut(at));
            if let (Some(sum), Some(found)) = (sum, self.tin_counters(tin)) {
                *sum = sum.plus(&found.counters);
            }
        }
        sums
    }

    /// Continues the tins above tin 0 from `counters`. The rest belongs to tin 0.
    pub(super) fn go_on_from(&mut self, counters: &[Counters; TINS - 1]) {
        for (tin, counters) in (1..).zip(counters) {
            let served = self.queues.scheduler().choice.served_in(tin.into());
            let mut counters = *counters;
            counters.accepted = counters.delivered.minus(served);
            let going_on = FlowRecord::going_on_from(&counters);
            let is_there = tin < self.tins();
            if let Some(record) = self.queues.records_mut().of_mut(tin) {
                *record = if is_there { going_on } else { FlowRecord::EMPTY };
            }
        }
    }

    /// Checks that no tin has negative counters, and that tin 0 has what no other tin has.
    pub(super) fn recount_tins(&self) -> Result<(), Imbalance> {
        let total = self.queues.counters().accepted;
        for tin in 0..self.tins() {
            let Some(TinCounters { counters, backlog }) = self.tin_counters(tin) else { continue };
            let left = counters.dropped_total().plus(backlog.into());
            let Volume { packets, bytes } = counters.accepted;
            let is_whole = left.packets <= packets && packets <= total.packets;
            Imbalance::check("packets of a tin", tin.into(), 1, is_whole.into())?;
            let is_whole = left.bytes <= bytes && bytes <= total.bytes;
            Imbalance::check("bytes of a tin", tin.into(), 1, is_whole.into())?;
        }
        Ok(())
    }
}

/// Clears the peak: none is kept for several queues together.
fn without_peak(counters: Counters) -> Counters {
    let mut counters = counters;
    counters.peak = Backlog::default();
    counters
}
