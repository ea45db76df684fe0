//! Tins of a smart queue: which there are, what they get of the rate, and what has happened in them.

use sched_core::{ConfigError, FlowId, FlowScheduler, Imbalance, TinConfig};
use shaper::Rate;

use super::{AqmKind, SmartQueue};
use crate::isolated::IsolatedError;
use crate::isolation::TinCounters;
use crate::storage::Storage;
use crate::tins::TinPlan;

/// What each tin of `plan` has on a line of this rate. Tins beyond those of the plan are as the default tin, and unused.
fn configs(plan: &TinPlan, rate: Rate) -> [TinConfig; TinPlan::MAX_TINS] {
    let mut configs = [TinConfig::by_weight(1); TinPlan::MAX_TINS];
    for ((number, tin), config) in (0..).zip(plan.tins()).zip(&mut configs) {
        let by_weight = TinConfig::by_weight(tin.weight().into());
        let bits = plan.threshold(number, rate).map(|bytes| bytes.saturating_mul(8));
        let (least, most) = (TinConfig::MIN_BITS_PER_SECOND, TinConfig::MAX_BITS_PER_SECOND);
        *config = bits.map_or(by_weight, |bits| by_weight.with_rate(bits.max(least).min(most)));
    }
    configs
}

/// With frames and by descriptor: tins.
impl<S: Storage, P, K: Storage, T: Storage> SmartQueue<S, P, K, T> {
    /// Sets other tins, at any time: all packets stay. What is queued in a tin goes to the tin of
    /// the same name, or to the default tin if there is none, and [counters](Self::tin_counters) go
    /// with it. The rest as for [`Isolated::set_tins`](crate::Isolated::set_tins).
    ///
    /// ```
    /// use freeboard::shaper::Rate;
    /// use freeboard::{SmartQueue, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?);
    /// let mut queue = builder.tins(TinMode::Diffserv4).frames([42; 16])?;
    /// queue.set_tins(TinMode::Diffserv3)?;
    /// assert_eq!(queue.tins().count(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`IsolatedError::Ways`], and [`IsolatedError::Memory`] under `triple-isolate` without two rounds for each tin; nothing has
    /// changed then.
    pub fn set_tins(&mut self, plan: impl Into<TinPlan>) -> Result<(), IsolatedError> {
        let (plan, rate) = (plan.into(), self.line().rate());
        let before = &self.tins;
        let to = |number: u8| {
            let named = before.tin(number).and_then(|tin| plan.number_of(tin.name()));
            named.unwrap_or(plan.default_tin())
        };
        let configs = configs(&plan, rate);
        let configs = configs.get(..plan.count().into()).unwrap_or(&configs);
        self.outlet.line.inner_mut().set_tins_and_move(configs, to)?;
        self.tins = plan;
        self.follow_in_tins(self.aqm(), self.is_l4s());
        Ok(())
    }

    /// From now on a host has one share in all tins together, or one in each:
    /// [`Isolated::set_hosts_across_tins`](crate::Isolated::set_hosts_across_tins). Cost: O(hosts).
    pub fn set_hosts_across_tins(&mut self, on: bool) {
        self.outlet.line.inner_mut().set_hosts_across_tins(on);
    }

    /// Whether a host has one share in all tins together.
    pub fn hosts_across_tins(&self) -> bool {
        self.isolated().hosts_across_tins()
    }

    /// The tins, and which packet goes to which. By descriptor the caller asks it, and says the tin with the labels
    /// ([`InTin`](crate::InTin)).
    #[must_use]
    pub const fn tins(&self) -> &TinPlan {
        &self.tins
    }

    /// What has happened in tin `number`, and what is queued in it; `None` if there is no such tin. Cost: O(queues).
    #[must_use]
    pub fn tin_counters(&self, number: u8) -> Option<TinCounters> {
        self.isolated().tin_counters(number)
    }

    /// Checks that the AQM knows the tin of each queue that holds packets.
    pub(super) fn recount_tins(&self) -> Result<(), Imbalance> {
        let (queues, aqm) = (self.isolated().queues(), self.chosen());
        for flow in (0..queues.scheduler().flows()).map(FlowId) {
            if queues.flow_backlog(flow).packets > 0 {
                let (known, tin) = (aqm.tin_of(flow), queues.scheduler().tin_of_flow(flow));
                Imbalance::check("the tin that the AQM knows", flow.0, tin.into(), known.into())?;
            }
        }
        Ok(())
    }

    /// The parts of the line's rate that the tins have, from now on.
    pub(super) fn follow_rate_in_tins(&mut self) {
        if self.tins.count() == 1 {
            return;
        }
        let configs = configs(&self.tins, self.outlet.line.line().rate());
        let configs = configs.get(..self.tins.count().into()).unwrap_or(&configs);
        let _in_range = self.outlet.line.inner_mut().set_tins(configs);
        debug_assert_eq!(_in_range, Ok(()), "as many tins as before, with rates in range");
    }

    /// The AQM of each tin, for its part of the rate.
    pub(super) fn follow_in_tins(&mut self, kind: AqmKind, l4s: bool) {
        let (plan, rate) = (self.tins, self.outlet.line.line().rate());
        let (rtt, max_len) = (self.rtt, self.outlet.max_len);
        let aqm = self.chosen_mut();
        let _in_range = set_up(&plan, rate, |tin, rate| {
            aqm.set_choice_in(tin, rtt.aqm(kind, rate, max_len))?;
            aqm.set_l4s_in(tin, l4s.then(|| rtt.l4s(rate, max_len)))
        });
        debug_assert_eq!(_in_range, Ok(()), "round-trip times are in range");
    }
}

/// Does `set` for each number that a tin may have, with the rate of the tin.
fn set_up(
    plan: &TinPlan,
    line: Rate,
    mut set: impl FnMut(u8, Rate) -> Result<(), ConfigError>,
) -> Result<(), ConfigError> {
    (0_u8..).take(TinPlan::MAX_TINS).try_for_each(|tin| set(tin, plan.rate(tin, line)))
}
