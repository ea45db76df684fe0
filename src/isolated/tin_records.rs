//! What has happened in each tin.

use sched_core::{Backlog, Counters, FlowId, FlowRecord, FlowRecords, TinConfig, Volume};

use super::flow_scheduler::IsolationScheduler;
use crate::storage::Storage;

/// As many tins as there may be.
pub(super) const TINS: usize = TinConfig::MAX_TINS as usize;

/// The records of the tins. What is not counted in any of them is of tin 0, which has none: best
/// effort costs nothing here. What is delivered [the choice among
/// tins](sched_core::TinChoice::served_in) counts by the number of a tin, and nothing counts what
/// is accepted: it was delivered or dropped, or is queued.
#[derive(Clone, Debug)]
pub struct TinRecords {
    /// Of the tins from 1 on. `accepted` is what has to be added to what the choice among tins has
    /// counted as delivered.
    above: [FlowRecord; TINS - 1],
}

impl TinRecords {
    pub(super) const NONE: Self = Self { above: [FlowRecord::EMPTY; TINS - 1] };

    /// The record of `tin`; `None` for tin 0.
    #[inline]
    pub(super) fn of_tin(&mut self, tin: u8) -> Option<&mut FlowRecord> {
        self.above.get_mut(usize::from(tin).wrapping_sub(1))
    }

    /// What has happened in `tin`, which is not tin 0, was sent `delivered`, and holds `held`.
    pub(super) fn counters(&self, tin: u8, delivered: Volume, held: Backlog) -> Counters {
        let record = self.above.get(usize::from(tin).wrapping_sub(1));
        let mut counters = record.map_or_else(Counters::default, |record| record.counters(held));
        let delivered = delivered.plus(counters.accepted);
        counters.accepted = delivered.plus(counters.dropped_total()).plus(held.into());
        counters.delivered = delivered;
        without_peak(counters)
    }

    /// The tins from 1 on go on from `counters`, where the choice among tins has counted as
    /// delivered in each what `served` says.
    pub(super) fn go_on_from(
        &mut self,
        counters: &[Counters; TINS - 1],
        served: impl Fn(u8) -> Volume,
    ) {
        for ((tin, counters), record) in (1..).zip(counters).zip(&mut self.above) {
            let mut counters = *counters;
            counters.accepted = counters.delivered.minus(served(tin));
            *record = FlowRecord::going_on_from(&counters);
        }
    }
}

/// Of several queues together no peak is kept.
pub(super) fn without_peak(counters: Counters) -> Counters {
    let mut counters = counters;
    counters.peak = Backlog::default();
    counters
}

impl<S: Storage, K: Storage, T: Storage> FlowRecords<IsolationScheduler<S, K, T>> for TinRecords {
    #[inline(always)]
    fn accept(
        &mut self,
        _scheduler: &IsolationScheduler<S, K, T>,
        _flow: FlowId,
        _len: u32,
        _queued: Backlog,
    ) {
    }

    #[inline]
    fn record_mut(
        &mut self,
        scheduler: &IsolationScheduler<S, K, T>,
        flow: FlowId,
    ) -> Option<&mut FlowRecord> {
        if scheduler.tins() == 1 {
            return None;
        }
        self.of_tin(scheduler.tin_of_flow(flow))
    }

    /// Single flows have none.
    fn record(&self, _flow: FlowId) -> Option<&FlowRecord> {
        None
    }

    fn clear(&mut self) {
        *self = Self::NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched_core::{LoadDrr, LoadDrrFlow, LoadDrrHost, RoundList, TinDrr, TinFlow};

    #[test]
    fn tins_take_what_the_page_of_the_memory_says() {
        let rounds = size_of::<
            LoadDrr<[LoadDrrFlow; 0], [LoadDrrHost; 0], [LoadDrrHost; 0], [RoundList; 0]>,
        >();
        let tins = size_of::<TinRecords>() + size_of::<TinDrr<[TinFlow; 0]>>();
        assert!(tins <= 1_936, "{tins}");
        assert!(tins + rounds <= 3_320, "{rounds}");
    }
}
