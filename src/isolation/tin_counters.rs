//! What has happened in each tin.

use sched_core::{
    Aqm, Backlog, Counters, FlowId, FlowRecord, FlowRecords, Imbalance, Scheduler, TinConfig,
    Volume,
};

use super::queue::Isolated;
use super::serve::{Serving, TINS};
use crate::storage::Storage;

/// What has happened in one tin since construction, and what is queued in it. The sum over all tins
/// is that of the queue.
///
/// When other tins are set, counters go where the queued packets of their tin go: with a plan to
/// the tin of the same name, or to the default tin
/// ([`SmartQueue::set_tins`](crate::SmartQueue::set_tins)); otherwise to the tin of the same
/// number, or to tin 0
/// ([`Isolated::rebuild_and_move`](crate::Isolated::rebuild_and_move)). A single tin
/// counts as tin 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct TinCounters {
    /// Packets and bytes: accepted, rejected, delivered, dropped by reason, marked. The peak is
    /// not kept, and zero.
    pub counters: Counters,
    /// What is queued.
    pub backlog: Backlog,
}

/// A record for each tin above tin 0. What is counted in none of them is of tin 0, so that best
/// effort costs nothing. What is delivered is counted by the [choice among
/// tins](sched_core::TinChoice::served_in), and what is accepted by nothing: it was delivered or
/// dropped, or is queued.
pub(super) struct TinRecords<S: Storage> {
    /// `accepted` is what has to be added to what the choice among tins has counted as delivered.
    pub(super) above: S::Tins<FlowRecord>,
}

impl<S: Storage> TinRecords<S> {
    /// The record of `tin`; `None` for tin 0.
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

    /// Single flows have none.
    fn record(&self, _flow: FlowId) -> Option<&FlowRecord> {
        None
    }

    fn clear(&mut self) {
        self.above.as_mut().fill(FlowRecord::EMPTY);
    }
}

impl<S: Storage, A: Aqm> Isolated<S, A> {
    /// Returns what is set for `tin`; `None` if there is no such tin.
    pub fn tin(&self, tin: u8) -> Option<TinConfig> {
        self.queues.scheduler().choice.tin(tin.into())
    }

    /// Returns what has happened in `tin`, and what is queued in it; `None` if there is no such
    /// tin. Cost: O(queues), and O(queues · tins) for tin 0.
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

    /// What has happened in `tin`, which is not tin 0.
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

    /// What has happened in each tin above tin 0, if what happened in tin `t` is of tin `to(t)`
    /// from now on.
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

    /// The tins above tin 0 go on from `counters`. What is of none of them is of tin 0.
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

    /// Checks that no tin has delivered less than nothing, and that tin 0 has what no other tin
    /// has.
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

/// Of several queues together no peak is kept.
fn without_peak(counters: Counters) -> Counters {
    let mut counters = counters;
    counters.peak = Backlog::default();
    counters
}
