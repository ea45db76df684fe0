//! Tins of a smart queue: the plan, shares of the rate, and counters.

use sched_core::{ConfigError, Imbalance, Packet, TinConfig};
use shaper::Rate;

use super::outlet::{Outlet, SmartAqm};
use super::{AqmKind, Descriptors, Rtt, SmartQueue};
use crate::isolation::{IsolatedError, Isolation, TinCounters};
use crate::labels::Labelled;
use crate::storage::Storage;
use crate::tins::TinPlan;

/// A change from one plan of tins to another, for a link of a given rate.
pub(super) struct Change {
    from: TinPlan,
    pub(super) to: TinPlan,
    /// Those beyond the tins of the plan are unused.
    configs: [TinConfig; TinPlan::MAX_TINS],
}

/// Returns the settings of each tin of `plan` on a link of this rate. Those beyond the tins of the
/// plan are unused.
pub(super) fn configs_of(plan: &TinPlan, rate: Rate) -> [TinConfig; TinPlan::MAX_TINS] {
    let mut configs = [TinConfig::by_weight(1); TinPlan::MAX_TINS];
    for ((number, tin), config) in (0..).zip(plan.tins()).zip(&mut configs) {
        let by_weight = TinConfig::by_weight(tin.weight().into());
        let bits = plan.threshold(number, rate).map(|bytes| bytes.saturating_mul(8));
        let (least, most) = (Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND);
        *config = bits.map_or(by_weight, |bits| by_weight.with_rate(bits.max(least).min(most)));
    }
    configs
}

impl Change {
    pub(super) fn new(from: TinPlan, to: TinPlan, rate: Rate) -> Self {
        Self { configs: configs_of(&to, rate), from, to }
    }

    /// Returns the new settings of each tin.
    pub(super) fn configs(&self) -> &[TinConfig] {
        self.configs.get(..self.to.count().into()).unwrap_or(&self.configs)
    }

    /// Returns the new tin of packets queued in tin `number`: the tin of the same name, or the
    /// default tin.
    pub(super) fn tin(&self, number: u8) -> u8 {
        let named = self.from.tin(number).and_then(|tin| self.to.number_of(tin.name()));
        named.unwrap_or(self.to.default_tin())
    }

    /// Returns true if the number of tins stays and every queued packet stays in its tin.
    pub(super) fn keeps_all(&self) -> bool {
        let count = self.from.count();
        count == self.to.count() && (0..count).all(|tin| self.tin(tin) == tin)
    }
}

/// Tins of a queue with descriptors.
impl<S: Storage> SmartQueue<S, Descriptors> {
    /// Changes the tins; all packets stay queued. `labels_of` returns the labels of a queued
    /// packet, with its tin under the new plan. [Counters](Self::tin_counters) go to the tin of the
    /// same name, or to the default tin if there is none. If number and names of the tins stay,
    /// only their shares change. See [`Isolated::rebuild`](crate::Isolated::rebuild).
    ///
    /// ```
    /// use freeboard::flowhash::{Labels, mix};
    /// use freeboard::sched_core::{Nanos, Packet};
    /// use freeboard::shaper::Rate;
    /// use freeboard::{InTin, SmartQueue, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?);
    /// let mut queue = builder.tins(TinMode::Diffserv4).descriptors()?;
    /// let labels = Labels { flow: mix(7), src_host: mix(1), dst_host: mix(2) };
    /// let voice = |tin| InTin { labels, tin };
    /// queue.enqueue(Nanos(0), &voice(3), Packet::new(0, 1_000), &mut |_: Packet, _| {})?;
    /// queue.set_tins(TinMode::Diffserv3, |_| voice(2))?;
    /// assert_eq!(queue.tin_counters(2).map(|voice| voice.backlog.packets), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`IsolatedError::Memory`] for more tins than were
    /// [allocated](super::SmartQueueBuilder::max_tins); nothing has changed then.
    pub fn set_tins<L: Labelled>(
        &mut self,
        plan: impl Into<TinPlan>,
        labels_of: impl FnMut(Packet) -> L,
    ) -> Result<(), IsolatedError> {
        self.set_isolation_and_tins(None, plan.into(), labels_of)
    }

    /// Changes the tins, and the isolation if there is another one, with one rebuild.
    pub(super) fn set_isolation_and_tins<L: Labelled>(
        &mut self,
        isolation: Option<Isolation>,
        plan: TinPlan,
        labels_of: impl FnMut(Packet) -> L,
    ) -> Result<(), IsolatedError> {
        let change = Change::new(*self.tins(), plan, self.line().rate());
        if isolation.is_none() && change.keeps_all() {
            return self.begin_tins(change.to);
        }
        let (isolation, to) = (isolation.unwrap_or(self.isolation()), |tin| change.tin(tin));
        let queues = self.outlet.line.inner_mut();
        queues.rebuild_and_move(isolation, (Some(change.configs()), to), labels_of)?;
        self.follow_plan(change.to);
        Ok(())
    }
}

/// Tins, with frames and with descriptors.
impl<S: Storage, P> SmartQueue<S, P> {
    /// Sets the tins while nothing is queued, or if every queued packet stays in its tin.
    pub(super) fn begin_tins(&mut self, plan: TinPlan) -> Result<(), IsolatedError> {
        let change = Change::new(*self.tins(), plan, self.line().rate());
        self.outlet.line.inner_mut().set_tins(change.configs())?;
        self.follow_plan(plan);
        Ok(())
    }

    /// Adopts `plan` as the tins in force.
    pub(super) fn follow_plan(&mut self, plan: TinPlan) {
        self.outlet.tins.as_mut().fill(plan);
        self.follow_in_tins(self.aqm(), self.is_l4s());
    }

    /// Gives a host one share in all tins together (`true`) or one in each (`false`), from now on:
    /// [`Isolated::set_hosts_across_tins`](crate::Isolated::set_hosts_across_tins). Cost: O(hosts ·
    /// tins).
    pub fn set_hosts_across_tins(&mut self, on: bool) {
        self.outlet.line.inner_mut().set_hosts_across_tins(on);
    }

    /// Returns true if a host has one share in all tins together.
    pub fn hosts_across_tins(&self) -> bool {
        self.isolated().hosts_across_tins()
    }

    /// Returns the plan of tins. By descriptor, the caller selects the tin with it and passes it
    /// with the labels ([`InTin`](crate::InTin)).
    #[must_use]
    pub fn tins(&self) -> &TinPlan {
        plan_of(&self.outlet.tins)
    }

    /// Returns counters and backlog of tin `number`; `None` if there is no such tin. Cost:
    /// O(queues).
    #[must_use]
    pub fn tin_counters(&self, number: u8) -> Option<TinCounters> {
        self.isolated().tin_counters(number)
    }

    /// Checks that the AQM has the right tin for each backlogged queue.
    pub(super) fn recount_tins(&self) -> Result<(), Imbalance> {
        for (flow, _) in self.isolated().backlogged_queues() {
            let (known, tin) = (self.chosen().tin_of(flow), self.isolated().tin_of(flow));
            Imbalance::check("the tin that the AQM knows", flow.0, tin.into(), known.into())?;
        }
        Ok(())
    }

    /// Sets the tins' parts of the link's rate after a change of rate.
    #[inline(never)] // its stack frame is freed before the caller goes on
    pub(super) fn follow_rate_in_tins(&mut self) {
        if self.tins().count() == 1 {
            return;
        }
        let (count, configs) = (self.tins().count(), configs_of(self.tins(), self.line().rate()));
        let configs = configs.get(..count.into()).unwrap_or(&configs);
        let _in_range = self.outlet.line.inner_mut().set_tins(configs);
        debug_assert_eq!(_in_range, Ok(()), "as many tins as before, with rates in range");
    }

    /// Sets the AQM of each tin for its part of the rate.
    pub(super) fn follow_in_tins(&mut self, kind: AqmKind, l4s: bool) {
        let Outlet { line, tins, rtt, max_len, .. } = &mut self.outlet;
        let of_link = (line.line().rate(), *rtt, *max_len);
        let aqm = line.inner_mut().aqm_mut();
        let _in_range = follow_in_tins::<S>(aqm, plan_of(tins), of_link, kind, l4s);
        debug_assert_eq!(_in_range, Ok(()), "round-trip times are in range");
    }
}

/// Sets the AQM of each tin for its part of a link's rate.
#[inline(never)] // as above
pub(super) fn follow_in_tins<S: Storage>(
    aqm: &mut SmartAqm<S>,
    plan: &TinPlan,
    (rate, rtt, max_len): (Rate, Rtt, u32),
    kind: AqmKind,
    l4s: bool,
) -> Result<(), ConfigError> {
    (0..aqm.tins()).try_for_each(|tin| {
        let rate = plan.rate(tin, rate);
        aqm.set_choice_in(tin, rtt.aqm(kind, rate, max_len))?;
        aqm.set_l4s_in(tin, l4s.then(|| rtt.l4s(rate, max_len)))
    })
}

/// Returns the plan in a queue's table of one element.
pub(super) fn plan_of(table: &impl AsRef<[TinPlan]>) -> &TinPlan {
    table.as_ref().first().unwrap_or(const { &TinPlan::EMPTY })
}
